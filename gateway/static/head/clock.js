/**
 * Which moment of the session is heard now, in milliseconds of its media time: what a face that is
 * drawn here has to be in step with. Two ways, as sound comes in two ways.
 */

const LOOK_EVERY_MS = 100;
/** How promptly poses arrive is judged by the promptest of this time. */
const SPAN_MS = 500;
const SPANS = 8;
/** Of a change in how long the sound is held, so much is taken at each look: nobody sees a jump. */
const TAKEN = 0.35;
const JUMP_MS = 250;

/** Over the WebSocket: the mp4 has the session's own times. */
export class PlayedClock {
  #media;
  #seen = { media_ms: 0, at_ms: 0 };

  /** @param {HTMLMediaElement} media that plays the sound */
  constructor(media) {
    this.#media = media;
  }

  arrived() {}

  now(at_ms) {
    const media_ms = 1000 * this.#media.currentTime;
    if (media_ms !== this.#seen.media_ms) this.#seen = { media_ms, at_ms };
    if (this.#media.paused) return media_ms;
    // The element tells its time in steps: between them the clock goes on.
    return this.#seen.media_ms + this.#media.playbackRate * Math.min(SPAN_MS, at_ms - this.#seen.at_ms);
  }

  stop() {}
}

/**
 * Over WebRTC: sound and poses of one moment leave together. The sound is held for as long as the
 * page, or the browser, holds it; so are the poses, counted from the promptest of them.
 */
export class ArrivalClock {
  #heldMs;
  #held_ms = null;
  #spans = [];
  #timer = 0;

  /** @param {() => Promise<number | null>} heldMs how long the sound waits; null: not known */
  constructor(heldMs) {
    this.#heldMs = heldMs;
    this.#timer = setInterval(() => void this.#look(), LOOK_EVERY_MS);
  }

  /** A pose of this media time has come. */
  arrived(time_ms, at_ms) {
    const transit_ms = at_ms - time_ms;
    const span = this.#spans.at(-1);
    if (!span || at_ms - span.begun_ms > SPAN_MS) {
      this.#spans = [...this.#spans.slice(1 - SPANS), { begun_ms: at_ms, promptest_ms: transit_ms }];
    } else {
      span.promptest_ms = Math.min(span.promptest_ms, transit_ms);
    }
  }

  async #look() {
    const held_ms = await this.#heldMs();
    if (held_ms === null) return;
    const change_ms = held_ms - (this.#held_ms ?? held_ms);
    const jump = this.#held_ms === null || Math.abs(change_ms) > JUMP_MS;
    this.#held_ms = jump ? held_ms : this.#held_ms + TAKEN * change_ms;
  }

  now(at_ms) {
    if (!this.#spans.length) return 0;
    const promptest_ms = Math.min(...this.#spans.map((span) => span.promptest_ms));
    return at_ms - promptest_ms - (this.#held_ms ?? 0);
  }

  stop() {
    clearInterval(this.#timer);
  }
}
