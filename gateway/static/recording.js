/** Records the conversation on the gateway and downloads it as an mp4. */
import { REFUSED } from "./api.js";
import { label, text } from "./i18n.js";
import { download, fileName } from "./memory.js";

export class RecordButton {
  #since_ms = 0;
  #timer = 0;
  #work = Promise.resolve();

  /** @param {object} parts button, elapsed, api, sessionId(), toasts */
  constructor({ button, elapsed, api, sessionId, toasts }) {
    Object.assign(this, { button, elapsed, api, sessionId, toasts });
    button.addEventListener("click", () => (this.#work = this.#toggle()));
  }

  async #toggle() {
    const recording = document.body.dataset.recording === "on";
    const here = document.activeElement === this.button; // which it is no more once it is disabled
    this.button.disabled = true;
    try {
      if (recording) await this.#finish();
      else await this.#begin();
      this.toasts.over("recording");
    } catch (error) {
      // The film that a lost network kept from coming is still there: the next press asks for it.
      if (recording && !REFUSED.includes(error.status)) this.goOn(this.#since_ms);
      else this.reset();
      this.toasts.error(error.status === 0 ? text("error.unreachable") : error.message, "recording");
    } finally {
      this.button.disabled = false;
      if (here) this.button.focus();
    }
  }

  async #begin() {
    try {
      await this.api.startRecording(this.sessionId());
    } catch (error) {
      // It runs: the answer to an earlier press was lost, or somebody else began it. Now it can be ended.
      if (error.code !== "out_of_order") throw error;
    }
    this.goOn(Date.now());
  }

  /** Since when it runs, milliseconds of the clock; 0: it does not. */
  get since_ms() {
    return document.body.dataset.recording === "on" ? this.#since_ms : 0;
  }

  /** One that runs on the gateway: also where a page of before has begun it. */
  goOn(since_ms) {
    this.#show("on");
    this.#since_ms = since_ms;
    this.#timer = setInterval(() => this.#tick(), 500);
    this.#tick();
  }

  async #finish() {
    const id = this.sessionId();
    this.#show("working");
    clearInterval(this.#timer);
    this.toasts.show(text("record.working"));
    await this.api.stopRecording(id);
    download(await this.api.recordingFile(id), fileName("mp4"));
    this.reset();
    this.toasts.show(text("record.saved"));
  }

  #tick() {
    const seconds = Math.max(0, Math.floor((Date.now() - this.#since_ms) / 1000));
    const two = (number) => String(number).padStart(2, "0");
    this.elapsed.textContent = `${two(Math.floor(seconds / 60))}:${two(seconds % 60)}`;
  }

  /** It has ended by itself, or its session is about to: fetch what there is of it. */
  async ended() {
    if (document.body.dataset.recording === "on") this.#work = this.#toggle();
    await this.#work;
  }

  /** Also when the session it belonged to has gone. */
  reset() {
    clearInterval(this.#timer);
    this.#show("off");
  }

  #show(state) {
    document.body.dataset.recording = state;
    this.elapsed.hidden = state !== "on";
    label(this.button, state === "on" ? "record.stop" : "record.start");
  }
}
