/** The avatar on the stage: portrait, video, state, and the light around it. */
import { hint } from "./announce.js";
import { handOn } from "./focus.js";
import { text } from "./i18n.js";

const STATES = ["idle", "listening", "thinking", "speaking"];
/** Twenty times a second is smooth for the eye and light on a small machine. */
const LEVEL_PERIOD_MS = 50;
/** A face that is alive moves all the time: a picture that stands so long is no face any more. */
const LOOK_MS = 1000;
const FROZEN_AFTER_LOOKS = 4;

export class Stage {
  #painted_ms = 0;
  #state = "idle";
  #connection = "offline";
  #frozen = false;
  /** A picture is waited for, since so many looks. */
  #awaited = false;
  #looks = 0;
  #blocked = false;
  #muted = false;

  constructor(root) {
    this.root = root;
    this.video = root.querySelector("video");
    this.portrait = root.querySelector("#portrait");
    this.ambient = document.querySelector("#ambient");
    this.sound = root.querySelector("#sound");
    this.sound.addEventListener("click", () => this.#unmute());
    this.#watchVideo();
    setInterval(() => this.#look(), LOOK_MS);
  }

  #watchVideo() {
    const body = document.body;
    this.video.addEventListener("playing", () => {
      const show = () => (body.dataset.video = "playing");
      if (this.video.requestVideoFrameCallback) this.video.requestVideoFrameCallback(show);
      else show();
    });
    // A new source starts with nothing: the portrait bridges the gap.
    this.video.addEventListener("emptied", () => {
      body.dataset.video = "waiting";
      this.#awaited = false;
    });
    this.video.addEventListener("loadedmetadata", () => this.play());
  }

  /** A connection may stand and bring nothing; a call, a locked screen or a media key pause it. */
  #look() {
    const seen = document.visibilityState === "visible";
    const { paused, readyState } = this.video;
    if (seen && paused && readyState && this.#connection === "live") void this.play();
    const watched = seen && document.body.dataset.video === "playing";
    this.#looks = watched && this.#awaited ? this.#looks + 1 : 0;
    if (watched) this.#awaitPicture();
    this.#frozen = this.#looks >= FROZEN_AFTER_LOOKS;
    this.render();
  }

  /** Counts of pictures are of no use: of WebRTC's some browsers count none, and say 0. */
  #awaitPicture() {
    if (this.#awaited || !this.video.requestVideoFrameCallback) return;
    this.#awaited = true;
    this.video.requestVideoFrameCallback(() => (this.#awaited = false));
  }

  /** Within a click: what is loaded then may sound later, when the browser has forgotten the click. */
  permit() {
    if (this.video.networkState === HTMLMediaElement.NETWORK_EMPTY) this.video.load();
  }

  /** Browsers refuse sound without a gesture: then without it, and a button asks for one. */
  async play() {
    try {
      await this.video.play();
    } catch (error) {
      if (error.name !== "NotAllowedError") return;
      this.#blocked = true;
      this.#mute();
      await this.video.play().catch(() => null);
    }
  }

  #unmute() {
    this.#blocked = false;
    this.#mute();
    void this.play();
  }

  /** @param {number} volume 0..1, of the avatar's voice */
  loudness(volume, muted) {
    this.#muted = muted;
    this.video.volume = volume;
    this.#mute();
  }

  /** Whether the voice can be heard, as far as the page can tell. */
  get audible() {
    return !this.#muted && !this.#blocked && this.video.volume > 0;
  }

  /** Id of the loudspeaker; "": the system's. */
  get speaker() {
    return this.video.sinkId ?? "";
  }

  /** @param {string} id as `speaker` has it */
  async soundThrough(id) {
    if (!this.video.setSinkId || this.speaker === id) return;
    await this.video.setSinkId(id);
    this.video.dispatchEvent(new Event("sinkchange"));
  }

  #mute() {
    const muted = this.#muted || this.#blocked;
    this.video.toggleAttribute("data-muted", muted);
    this.video.muted = muted;
    this.sound.hidden = this.#muted || !this.#blocked;
  }

  /** @param {string} name of what the face is doing */
  state(name) {
    this.#state = STATES.includes(name) ? name : "idle";
    if (this.#state === "thinking" && document.body.dataset.state !== "thinking") hint(text("state.thinking"));
    if (!["thinking", "speaking"].includes(this.#state)) {
      handOn(document.querySelector("#interrupt"), document.querySelector("#message")); // nothing to interrupt
    }
    document.body.dataset.state = this.#state;
    this.render();
  }

  /** @param {string} status of the connection */
  connection(status) {
    this.#connection = status;
    this.render();
  }

  /** In plain words: what the face is doing, or why it stands still. */
  render() {
    const words = this.root.querySelector("#state span:last-child");
    let key = `state.${this.#state}`;
    if (this.#frozen) key = "state.frozen";
    if (this.#connection === "reconnecting") key = "state.away";
    document.body.toggleAttribute("data-away", key === "state.frozen" || key === "state.away");
    if (words.dataset.i18n === key) return;
    words.dataset.i18n = key;
    words.textContent = text(key);
  }

  /** @param {string} url of the portrait */
  async show(title, url) {
    this.root.querySelector("#avatar-name span").textContent = title;
    if (!url) return;
    this.portrait.src = url;
    this.portrait.alt = `${text("avatar.portrait")} ${title}`;
    await this.portrait.decode().catch(() => null);
    this.#paintAmbient();
  }

  /** The room takes the portrait's colours: a handful of pixels, stretched, is a blur for free. */
  #paintAmbient() {
    if (!this.portrait.naturalWidth) return;
    const brush = this.ambient.getContext("2d");
    brush.filter = "saturate(1.6)";
    brush.drawImage(this.portrait, 0, 0, this.ambient.width, this.ambient.height);
    document.body.dataset.ambient = "on";
  }

  /** Follows two levels (0..1), asked for each time, for as long as the page lives. */
  animate(microphoneLevel, voiceLevel) {
    const meter = document.querySelector("#meter");
    const paint = (now_ms) => {
      requestAnimationFrame(paint);
      if (now_ms - this.#painted_ms < LEVEL_PERIOD_MS) return;
      this.#painted_ms = now_ms;
      const heard = microphoneLevel();
      const { state } = document.body.dataset;
      const level = state === "speaking" ? voiceLevel() : heard;
      this.root.style.setProperty("--level", level.toFixed(2));
      meter.parentElement.style.setProperty("--level", heard.toFixed(2));
      const told = String(10 * Math.round(10 * heard)); // each change is news to a screen reader
      if (meter.getAttribute("aria-valuenow") !== told) meter.setAttribute("aria-valuenow", told);
    };
    requestAnimationFrame(paint);
  }
}
