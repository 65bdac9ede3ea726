/** The session's poses: from their socket into a timeline, and out of it when they are heard. */
import { opened } from "../sockets.js";
import { read, Timeline } from "./pose.js";

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
  async open({ url, protocols }, signal) {
    const socket = new WebSocket(url, protocols);
    this.#socket = socket;
    socket.binaryType = "arraybuffer";
    socket.addEventListener("message", ({ data }) => this.#received(data));
    await opened(socket, "face", signal);
    socket.addEventListener("close", () => {
      if (socket === this.#socket) this.dispatchEvent(new Event("lost"));
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
