/**
 * Silence at once. What the browser has buffered of an answer that is being interrupted would
 * still be heard; it is muted until it has run out, or until the avatar speaks again.
 */

/** Longer than a browser holds beyond what it tells. */
const UNTOLD_MS = 400;

export class Hush {
  #video;
  #timer = 0;

  /** @param {HTMLVideoElement} video */
  constructor(video) {
    this.#video = video;
  }

  /** @param {number} held_ms that the sound is known to wait */
  begin(held_ms = 0) {
    if (this.#video.muted && !this.#timer) return; // muted for another reason, and not by us
    clearTimeout(this.#timer);
    this.#video.muted = true;
    this.#timer = setTimeout(() => this.end(), UNTOLD_MS + held_ms);
  }

  end() {
    if (!this.#timer) return;
    clearTimeout(this.#timer);
    this.#timer = 0;
    this.#video.muted = "muted" in this.#video.dataset; // by the visitor, or by the browser
  }
}
