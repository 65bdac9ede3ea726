/**
 * The sound of a WebRTC connection, played by the page itself. A browser's own buffer, once a stall
 * of the network has run it dry, holds all sound back by as much for some eight seconds.
 *
 * Packets are decoded in a worker and played on the audio thread; the main thread is not on the
 * way. Through a track and the video element it would be played a second time, by a clock of its
 * own, and late: so it goes to the speaker itself, to the element's and as loud as that is.
 */

import { resumeOnGesture } from "./gesture.js";
import { LevelMeter } from "./level.js";

const RATE_HZ = 48_000;
const PARTS = ["RTCRtpScriptTransform", "AudioDecoder", "AudioWorkletNode"];
/** From the buffer of pictures to the screen, beyond what sound needs to be decoded. */
const SCREEN_MS = 10;
/** What is told of the speaker's distance swings; of each word of it so much is taken. */
const TAKEN = 0.1;
/** A gateway that is connected sends sound, or silence, all the time. */
const FIRST_SOUND_LIMIT_MS = 4000;
/** Muted at once, yet without a click. */
const FADE_S = 0.005;

export class LiveSound {
  /** Nothing is heard, or not any more. */
  broken = false;
  #context = new AudioContext({ latencyHint: "interactive", sampleRate: RATE_HZ });
  #volume = new GainNode(this.#context);
  #worker = new Worker(new URL("./live_sound_worker.js", import.meta.url), { type: "module" });
  #meter = null;
  #late_ms = null;
  #output_ms = null;
  #onBroken = () => {};
  #expecting = 0;
  #closing = new AbortController();

  /**
   * One that is ready; null where the browser is to play the sound. Chromium on a desk is what
   * this was measured with, and its echo canceller hears all that the browser plays; on a phone it
   * may know the sound of WebRTC itself only.
   */
  static async open() {
    const chromium = navigator.userAgentData?.mobile === false;
    if (!chromium || !PARTS.every((name) => name in window)) return null;
    const sound = new LiveSound();
    try {
      await sound.#load();
      return sound;
    } catch (error) {
      console.warn("visavis: the browser plays the sound:", error);
      sound.close();
      return null;
    }
  }

  /** A worker that has not run its module yet would miss the packets that it is given. */
  async #load() {
    const listens = new Promise((resolve, reject) => {
      this.#worker.addEventListener("message", resolve, { once: true });
      this.#worker.addEventListener("error", reject, { once: true });
    });
    const worklet = new URL("./live_sound_worklet.js", import.meta.url);
    await Promise.all([this.#context.audioWorklet.addModule(worklet), listens]);
  }

  /**
   * @param {RTCRtpReceiver} receiver of the sound, before anything has come
   * @param {HTMLVideoElement} video that shows the picture, and says how loud it is and where
   * @param {() => void} onBroken
   */
  play(receiver, video, onBroken) {
    this.#onBroken = onBroken;
    this.#worker.addEventListener("error", () => this.#break());
    const { port1, port2 } = new MessageChannel();
    receiver.transform = new RTCRtpScriptTransform(this.#worker, { packets: port1 }, [port1]);
    const player = new AudioWorkletNode(this.#context, "visavis-live-sound", {
      numberOfInputs: 0,
      outputChannelCount: [1],
    });
    player.port.onmessage = ({ data: late_ms }) => (this.#late_ms = late_ms);
    player.port.postMessage(port2, [port2]);
    player.connect(this.#volume).connect(this.#context.destination);
    this.#meter = new LevelMeter(player);
    this.#follow(video);
    resumeOnGesture(this.#context);
  }

  /** The connection stands: sound must come. */
  expect() {
    this.#expecting = setTimeout(() => {
      if (this.#context.state === "running" && this.#late_ms === null) this.#break();
    }, FIRST_SOUND_LIMIT_MS);
  }

  #break() {
    this.broken = true;
    this.#onBroken();
  }

  #follow(video) {
    const follow = () => {
      const goal = video.muted ? 0 : video.volume;
      this.#volume.gain.setTargetAtTime(goal, this.#context.currentTime, FADE_S);
    };
    const goThere = () => void this.#context.setSinkId?.(video.sinkId).catch(() => null); // it has just gone
    video.addEventListener("volumechange", follow, { signal: this.#closing.signal });
    video.addEventListener("sinkchange", goThere, { signal: this.#closing.signal });
    follow();
    if (video.sinkId) goThere();
  }

  /** How long pictures are to wait for the sound that is heard now; null: none has come. */
  async heldMs() {
    if (this.#late_ms === null) return null;
    const output_ms = 1000 * this.#context.outputLatency;
    this.#output_ms ??= output_ms;
    this.#output_ms += TAKEN * (output_ms - this.#output_ms);
    return this.#late_ms + this.#output_ms - SCREEN_MS;
  }

  /** Loudness now, 0..1. */
  level() {
    return this.#meter?.level() ?? 0;
  }

  close() {
    clearTimeout(this.#expecting);
    this.#closing.abort();
    this.#worker.terminate();
    if (this.#context.state !== "closed") void this.#context.close();
  }
}
