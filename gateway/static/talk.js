/**
 * The microphone button: a switch when hands-free, a key to hold in push to
 * talk. body[data-microphone] tells off, opening, on, muted or denied.
 */
import { label, text } from "./i18n.js";
import { allowed, Microphone, MicrophoneError } from "./microphone.js";

export class TalkButton {
  #microphone = new Microphone();
  #held = false;
  /** The visitor has switched it on, and not off: it is opened again where it is lost. */
  #wanted = false;
  #opening = null;
  /** What was last listened with. */
  #name = "";

  /**
   * @param {object} parts button, connection() (the running one or null),
   *   preferences, devices, toasts
   */
  constructor({ button, connection, preferences, devices, toasts }) {
    Object.assign(this, { button, connection, preferences, devices, toasts });
    this.#listen();
    this.#microphone.addEventListener("ended", () => void this.#lost());
    for (const type of ["mute", "unmute"]) this.#microphone.addEventListener(type, () => this.#silenced());
    devices.addEventListener("change", () => void this.#follow());
  }

  get #push() {
    return this.preferences.get("microphoneMode") === "push";
  }

  level() {
    return this.#microphone.level();
  }

  #listen() {
    this.button.addEventListener("click", ({ detail }) => {
      if (!this.#push) void this.toggle();
      else if (!detail) this.#press();
    });
    this.button.addEventListener("pointerdown", (event) => {
      if (!this.#push) return;
      this.button.setPointerCapture(event.pointerId);
      void this.#hold();
    });
    for (const type of ["pointerup", "pointercancel", "blur"]) {
      this.button.addEventListener(type, () => this.#release());
    }
    this.button.addEventListener("contextmenu", (event) => event.preventDefault());
    addEventListener("keydown", (event) => this.#key(event));
    addEventListener("keyup", (event) => {
      if (event.code !== "Space" && event.code !== "Enter") return;
      if (this.#held && event.target === this.button) event.preventDefault(); // no click comes of it
      this.#release();
    });
    addEventListener("blur", () => this.#release());
  }

  /** The space bar talks from anywhere that has no other use for it. */
  #key(event) {
    const here = event.target === this.button;
    const free = !event.target.closest("input, textarea, select, button, a, summary, dialog, [tabindex]");
    const wanted = event.code === "Space" ? here || free : event.code === "Enter" && here;
    const looksOn = document.body.dataset.role === "viewer"; // and has nothing to talk with
    if (!this.#push || !wanted || looksOn || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    if (!event.repeat) void this.#hold();
  }

  async toggle() {
    const state = document.body.dataset.microphone;
    if (state === "on" || state === "muted") this.close();
    else await this.open();
  }

  /** Opens the microphone and says in plain words why that fails, if it does. */
  async open() {
    if (!this.connection()) return;
    this.#opening ??= this.#open().finally(() => (this.#opening = null));
    await this.#opening;
  }

  async #open() {
    this.#wanted = true;
    this.#show("opening");
    try {
      await this.#microphone.start(this.preferences.get("microphoneDevice"), this.devices.microphones);
      const connection = this.connection();
      if (!connection) return this.stop(); // it has ended while the visitor was asked
      await connection.setMicrophone(this.#microphone);
    } catch (error) {
      this.#show(error.reason === "mic.denied" ? "denied" : "off");
      this.#microphone.stop();
      void this.connection()?.setMicrophone(null); // it may have had the one of before
      this.toasts.error(text(error instanceof MicrophoneError ? error.reason : "mic.failed"), "microphone");
      return;
    }
    this.toasts.over("microphone");
    this.#mute(this.#push && !this.#held);
    this.#tellWhich();
    void this.devices.look(); // now they have names
  }

  #tellWhich() {
    const { label: name } = this.#microphone.track;
    if (this.#name && name !== this.#name) this.toasts.show(text("mic.now").replace("{name}", name), "info", "microphone");
    this.#name = name;
  }

  /** Unplugged, or not allowed any more: the next one is opened, where there is one. */
  async #lost() {
    this.#show("off");
    void this.connection()?.setMicrophone(null);
    if (!this.#wanted) return;
    if (await allowed()) return this.open();
    this.#wanted = false;
    this.toasts.error(text("mic.ended"), "microphone");
  }

  /** Other devices are there. */
  async #follow() {
    await this.#opening;
    if (!this.#wanted) return;
    if (this.#microphone.open) {
      if (!this.devices.means(this.#microphone.track.getSettings())) await this.reopen();
    } else if (this.devices.microphones.length && (await allowed())) await this.open();
  }

  #silenced() {
    if (!this.#wanted) return; // it is being given back
    this.#show(this.#state);
    if (this.#microphone.silenced) this.toasts.error(text("mic.silenced"), "microphone");
    else this.toasts.over("microphone");
  }

  /** Gives the microphone back after a moment of silence that ends the speech. */
  close() {
    this.#wanted = false;
    if (!this.#microphone.open) return;
    this.#show("off");
    this.#microphone.stopGently(() => void this.connection()?.setMicrophone(null));
  }

  /** At once, without the silence. */
  stop() {
    this.#wanted = false;
    this.#microphone.stop();
    this.#show("off");
  }

  /** After the mode or the device has been changed in the settings. */
  async reopen() {
    if (!this.#microphone.open) return this.#show(document.body.dataset.microphone);
    this.#microphone.stop();
    return this.open();
  }

  /** A screen reader, or whoever says "click", holds nothing: once to begin, once to end. */
  #press() {
    if (this.#held) this.#release();
    else void this.#hold();
  }

  async #hold() {
    this.#held = true;
    if (this.#microphone.open) this.#mute(false);
    else await this.open();
  }

  #release() {
    if (!this.#held) return;
    this.#held = false;
    if (this.#push && this.#microphone.open) this.#mute(true);
  }

  #mute(muted) {
    this.#microphone.setMuted(muted);
    this.#show(this.#state);
  }

  /** Of a microphone that is open. */
  get #state() {
    return this.#microphone.silenced || !this.#microphone.track.enabled ? "muted" : "on";
  }

  #show(state) {
    document.body.dataset.microphone = state;
    label(this.button, this.#push ? "mic.hold" : state === "on" ? "mic.off" : "mic.on");
    if (this.#push) this.button.setAttribute("aria-pressed", String(state === "on"));
    else this.button.removeAttribute("aria-pressed"); // its name tells
  }
}
