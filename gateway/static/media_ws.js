/**
 * Media over one WebSocket, where WebRTC cannot connect: fragmented MP4 comes
 * in and plays through Media Source Extensions, 16 kHz PCM goes out.
 */

import { PlayedClock } from "./head/clock.js";
import { text } from "./i18n.js";
import { Hearing, onAbort } from "./sockets.js";

const MIMES = {
  server: 'video/mp4; codecs="avc1.42E01F, mp4a.40.2"',
  client: 'audio/mp4; codecs="mp4a.40.2"',
};
const FIRST_PICTURE_LIMIT_MS = 8000;
/** Further behind the newest picture than this, playback jumps. */
const JUMP_BEHIND_S = 1.5;
/** Where it is closer, the jitter of a good connection would stop it; so much further, it hurries. */
const CLOSE_BEHIND_S = 0.25;
const HURRY_S = 0.1;
/** What a network that stops it again and again is given at the most. */
const FURTHEST_BEHIND_S = 1;
/** A stop counts for so long, then less and less. */
const STOP_COUNTS_S = 15;
const FORGOTTEN_EACH_S = 0.02;
/** Closer to its end the buffer runs dry. */
const EDGE_S = 0.05;
const KEEP_S = 8;
const QUEUE_LIMIT_FRAGMENTS = 256;
/** Two seconds of PCM waiting in the socket: the uplink is stuck, so newer sound is dropped. */
const UPLINK_LIMIT_BYTES = 64_000;

const seconds = () => performance.now() / 1000;

/**
 * How close to the newest picture playback may come: a network that lets it run dry will do so
 * again, and each time a word is torn. Pure: times in seconds.
 */
export class Closeness {
  #wanted_s = CLOSE_BEHIND_S;
  #since_s = 0;

  /** Playback stood still for so long. */
  stopped(for_s, now_s) {
    this.#wanted_s = Math.min(FURTHEST_BEHIND_S, this.wanted_s(now_s) + for_s);
    this.#since_s = now_s;
  }

  wanted_s(now_s) {
    const forgotten_s = FORGOTTEN_EACH_S * Math.max(0, now_s - this.#since_s - STOP_COUNTS_S);
    return Math.max(CLOSE_BEHIND_S, this.#wanted_s - forgotten_s);
  }
}

/** Sound, or silence, comes all the time. */
export class SocketMedia extends Hearing {
  kind = "websocket";
  /** Nothing is heard of what was skipped. */
  held_ms = 0;
  #socket;
  #video;
  #source;
  #buffer = null;
  #queue = [];
  #microphone = null;
  #closed = false;
  #mime;
  #closeness = new Closeness();
  #leave = new AbortController();

  /** @param {"server" | "client"} drawnBy client: no pictures come */
  constructor(drawnBy = "server") {
    super();
    this.#mime = MIMES[drawnBy];
  }

  /** @param {{url: URL, protocols: string[]}} where */
  async connect(video, { url, protocols }, signal) {
    // iPhones have ManagedMediaSource only, and only with remote playback off.
    const Source = window.ManagedMediaSource ?? window.MediaSource;
    this.#video = video;
    if (!Source?.isTypeSupported(this.#mime)) throw new Error(text("error.unplayable"));
    this.#source = new Source();
    video.disableRemotePlayback = true;
    video.srcObject = null;
    video.src = URL.createObjectURL(this.#source);
    await this.#opened(signal);
    URL.revokeObjectURL(video.src);
    this.#buffer = this.#source.addSourceBuffer(this.#mime);
    this.#buffer.addEventListener("updateend", () => this.#append());
    this.#socket = new WebSocket(url, protocols);
    this.#socket.binaryType = "arraybuffer";
    this.#socket.addEventListener("message", ({ data }) => this.#received(data));
    await this.#firstPicture(signal);
    this.#noteStops();
    this.#socket.addEventListener("close", () => this.#lost());
  }

  #opened(signal) {
    return new Promise((resolve, reject) => {
      const forget = onAbort(signal, () => reject(signal.reason));
      const opened = () => {
        forget();
        resolve();
      };
      this.#source.addEventListener("sourceopen", opened, { once: true });
    });
  }

  #firstPicture(signal) {
    return new Promise((resolve, reject) => {
      const fail = (error) => {
        clearTimeout(timer);
        forget();
        this.close();
        reject(error);
      };
      const refuse = () => fail(new Error("the media connection was refused"));
      const timer = setTimeout(() => fail(new Error("no picture came")), FIRST_PICTURE_LIMIT_MS);
      const forget = onAbort(signal, () => fail(signal.reason));
      this.#socket.addEventListener("close", refuse);
      const shown = () => {
        if (!this.#buffer.buffered.length) return;
        clearTimeout(timer);
        forget();
        this.#buffer.removeEventListener("updateend", shown);
        this.#socket.removeEventListener("close", refuse); // from then on it is lost
        resolve();
      };
      // Once we have left, the video may have let go of the buffer, which then tells nothing.
      this.#buffer.addEventListener("updateend", shown, { signal: this.#leave.signal });
    });
  }

  #received(data) {
    this.hear();
    if (typeof data === "string") {
      this.dispatchEvent(new CustomEvent("problem", { detail: JSON.parse(data) }));
      return;
    }
    this.#queue.push(data);
    if (this.#queue.length > QUEUE_LIMIT_FRAGMENTS) this.#lost();
    else this.#append();
  }

  /** A SourceBuffer takes one operation at a time; this runs the next one. */
  #append() {
    if (this.#closed || this.#buffer.updating || this.#source.readyState !== "open") return;
    const { buffered } = this.#buffer;
    // In the middle of what came at once it is not known yet which picture is the newest.
    const newest = buffered.length && !this.#queue.length;
    if (newest) this.#keepUp(buffered.start(0), buffered.end(buffered.length - 1));
    const stale = this.#video.currentTime - KEEP_S;
    try {
      if (buffered.length && stale - buffered.start(0) > KEEP_S) this.#buffer.remove(0, stale);
      else if (this.#queue.length) this.#buffer.appendBuffer(this.#waiting());
    } catch (error) {
      console.warn("visavis: the stream could not be decoded", error);
      this.#lost();
    }
  }

  /** All that waits, in one piece: a page that is busy has few turns to append in. */
  #waiting() {
    const pieces = this.#queue.splice(0).map((piece) => new Uint8Array(piece));
    const whole = new Uint8Array(pieces.reduce((length, piece) => length + piece.length, 0));
    let at = 0;
    for (const piece of pieces) {
      whole.set(piece, at);
      at += piece.length;
    }
    return whole;
  }

  #noteStops() {
    const { signal } = this.#leave;
    let since_s = null;
    this.#video.addEventListener("waiting", () => (since_s = this.#video.seeking ? null : seconds()), { signal });
    this.#video.addEventListener(
      "playing",
      () => {
        if (since_s !== null) this.#closeness.stopped(seconds() - since_s, seconds());
        since_s = null;
      },
      { signal },
    );
  }

  /** Stay close to the newest picture: a conversation has no use for old ones. */
  #keepUp(start_s, end_s) {
    const behind_s = end_s - this.#video.currentTime;
    const close_s = this.#closeness.wanted_s(seconds());
    if (this.#video.currentTime < start_s || behind_s > JUMP_BEHIND_S) {
      this.#video.currentTime = Math.max(start_s, end_s - close_s);
    }
    if (behind_s > close_s + HURRY_S) this.#video.playbackRate = 1.08;
    else if (behind_s < close_s) this.#video.playbackRate = 1;
  }

  /** An answer was interrupted: what is buffered of it is not played any more. */
  skip() {
    const { buffered } = this.#video;
    if (!buffered.length) return;
    const edge_s = buffered.end(buffered.length - 1) - EDGE_S;
    if (edge_s > this.#video.currentTime) this.#video.currentTime = edge_s;
  }

  #lost() {
    if (this.#closed) return;
    this.close();
    this.dispatchEvent(new Event("lost"));
  }

  /** @param {import("./microphone.js").Microphone | null} microphone null: nothing is sent */
  async setMicrophone(microphone) {
    this.#microphone?.stopPcm();
    this.#microphone = microphone;
    await microphone?.startPcm((pcm) => this.#sendPcm(pcm));
  }

  #sendPcm(pcm) {
    if (this.#socket.readyState !== WebSocket.OPEN) return;
    if (this.#socket.bufferedAmount < UPLINK_LIMIT_BYTES) this.#socket.send(pcm);
  }

  /** What a face that is drawn here has to be in step with. */
  clock() {
    return new PlayedClock(this.#video);
  }

  /** The stream's loudness is not known here without rerouting its sound. */
  voiceLevel() {
    return 0;
  }

  close() {
    this.#closed = true;
    this.#leave.abort();
    this.#microphone?.stopPcm();
    this.#queue.length = 0;
    this.#socket?.close();
    this.#video.playbackRate = 1;
  }
}
