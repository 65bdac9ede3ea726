/**
 * The visitor's microphone: opening it with a clear reason when that fails,
 * its level, muting for push to talk, and its PCM for the WebSocket path.
 */

import { resumeOnGesture } from "./gesture.js";
import { LevelMeter } from "./level.js";

/** After the button, silence goes on this long, so that the end of speech is heard. */
const LINGER_MS = 1500;

const REASONS = {
  NotAllowedError: "mic.denied",
  SecurityError: "mic.denied",
  NotFoundError: "mic.none",
  OverconstrainedError: "mic.none",
  NotReadableError: "mic.busy",
  AbortError: "mic.busy",
};
const AS_SPOKEN = { echoCancellation: true, noiseSuppression: true, autoGainControl: true };

/** `reason` is the key of a text in i18n.js. */
export class MicrophoneError extends Error {
  constructor(reason, cause) {
    super(reason, { cause });
    this.name = "MicrophoneError";
    this.reason = reason;
  }
}

/** Events: "ended" where it is gone or not allowed any more, "mute" and "unmute" by the system. */
export class Microphone extends EventTarget {
  #stream = null;
  #context = null;
  #source = null;
  #meter = null;
  #pcmNode = null;
  #linger = 0;

  get open() {
    return this.#stream !== null;
  }

  get track() {
    return this.#stream?.getAudioTracks()[0] ?? null;
  }

  /**
   * Asks for permission where needed.
   * @param {string} wanted its id; "": the system's
   * @param {MediaDeviceInfo[]} others of which one is taken where that one is in use
   * @throws {MicrophoneError}
   */
  async start(wanted, others) {
    clearTimeout(this.#linger);
    if (this.#stream) return;
    if (!navigator.mediaDevices?.getUserMedia) throw new MicrophoneError("mic.insecure");
    try {
      this.#stream = await firstFree([{ ideal: wanted }, ...others.map(({ deviceId }) => ({ exact: deviceId }))]);
    } catch (error) {
      throw new MicrophoneError(REASONS[error.name] ?? "mic.failed", error);
    }
    const { track } = this;
    track.addEventListener("ended", () => track === this.track && this.#ended());
    for (const type of ["mute", "unmute"]) track.addEventListener(type, () => this.dispatchEvent(new Event(type)));
    this.#measure();
  }

  #measure() {
    this.#context = new AudioContext();
    this.#source = this.#context.createMediaStreamSource(this.#stream);
    this.#meter = new LevelMeter(this.#source);
    resumeOnGesture(this.#context);
  }

  /** Loudness now, 0..1. */
  level() {
    return this.#meter && this.track.enabled ? this.#meter.level() : 0;
  }

  /** The system lets nothing through: a switch of the machine, a call. */
  get silenced() {
    return this.track?.muted ?? false;
  }

  /** Muted, the microphone stays open and gives silence. */
  setMuted(muted) {
    if (this.track) this.track.enabled = !muted;
  }

  /** Sends 16 ms of s16le 16 kHz mono at a time to onPacket(ArrayBuffer). */
  async startPcm(onPacket) {
    const context = this.#context;
    await context.audioWorklet.addModule(new URL("./mic_worklet.js", import.meta.url));
    if (context !== this.#context) return; // stopped while the module was loading
    this.#pcmNode = new AudioWorkletNode(context, "visavis-microphone", {
      numberOfOutputs: 0,
      channelCount: 1,
      channelCountMode: "explicit",
    });
    this.#pcmNode.port.onmessage = ({ data }) => onPacket(data);
    this.#source.connect(this.#pcmNode);
  }

  stopPcm() {
    if (!this.#pcmNode) return;
    this.#source?.disconnect(this.#pcmNode);
    this.#pcmNode.port.close();
    this.#pcmNode = null;
  }

  /** Mutes now; `onClosed` follows when the silence that ends the speech has been sent. */
  stopGently(onClosed) {
    this.setMuted(true);
    clearTimeout(this.#linger);
    this.#linger = setTimeout(() => {
      onClosed();
      this.stop();
    }, LINGER_MS);
  }

  stop() {
    clearTimeout(this.#linger);
    this.stopPcm();
    this.#stream?.getTracks().forEach((track) => track.stop());
    void this.#context?.close();
    this.#stream = this.#context = this.#source = this.#meter = null;
  }

  #ended() {
    this.stop();
    this.dispatchEvent(new Event("ended"));
  }
}

/** The first that no other program has taken; throws what is wrong with the first of all. */
async function firstFree([deviceId, ...others]) {
  try {
    return await navigator.mediaDevices.getUserMedia({ audio: { ...AS_SPOKEN, deviceId } });
  } catch (error) {
    if (REASONS[error.name] !== "mic.busy" || !others.length) throw error;
    return firstFree(others).catch(() => Promise.reject(error));
  }
}

/** Whether another microphone is given without a question to the visitor; true where browsers do not tell. */
export async function allowed() {
  const told = await navigator.permissions?.query({ name: "microphone" }).catch(() => null);
  return (told?.state ?? "granted") === "granted";
}
