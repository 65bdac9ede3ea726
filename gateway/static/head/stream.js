/** The session's poses: from their socket into a timeline, and out of it when they are heard. */
import { read, Timeline } from "./pose.js";

const OPEN_LIMIT_MS = 6000;

export class FaceStream extends EventTarget {
  #socket = null;
  #timeline = new Timeline();
  #clock = null;

  /** @param {{now: Function, arrived: Function, stop: Function}} clock of what is heard, see clock.js */
  follow(clock) {
    this.#clock = clock;
  }

  /**
   * Resolves when open; rejects when the socket cannot be opened. "lost" follows when it closes.
   * @param {{url: URL, protocols: string[]}} where
   */
  open({ url, protocols }, signal) {
    return new Promise((resolve, reject) => {
      const socket = new WebSocket(url, protocols);
      this.#socket = socket;
      socket.binaryType = "arraybuffer";
      const refuse = () => reject(new Error("the face connection could not be opened"));
      const timer = setTimeout(refuse, OPEN_LIMIT_MS);
      signal?.addEventListener("abort", () => socket.close(), { once: true });
      socket.addEventListener("close", refuse, { once: true });
      socket.addEventListener("message", ({ data }) => this.#received(data));
      socket.addEventListener("open", () => {
        clearTimeout(timer);
        socket.removeEventListener("close", refuse);
        socket.addEventListener("close", () => {
          if (socket === this.#socket) this.dispatchEvent(new Event("lost"));
        });
        resolve();
      });
    });
  }

  #received(message) {
    const at_ms = performance.now();
    for (const record of read(message)) {
      this.#timeline.push(record);
      this.#clock?.arrived(record.time_ms, at_ms);
    }
  }

  /** The pose that goes with what is heard now, [58] float; null: none has come yet. */
  pose(at_ms) {
    return this.#timeline.empty || !this.#clock ? null : this.#timeline.at(this.#clock.now(at_ms));
  }

  close() {
    const socket = this.#socket;
    this.#socket = null;
    this.#clock?.stop();
    socket?.close();
  }
}
