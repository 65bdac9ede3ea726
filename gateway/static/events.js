import { Hearing, opened } from "./sockets.js";

/**
 * The session's event socket. Every message of the gateway becomes a
 * CustomEvent of its type, with the message as detail; "lost" follows when
 * the socket closes without close() having been called.
 */
export class EventChannel extends Hearing {
  #socket = null;

  /**
   * Resolves when open; rejects when the socket cannot be opened.
   * @param {{url: URL, protocols: string[]}} where
   */
  async open({ url, protocols }, signal) {
    const socket = new WebSocket(url, protocols);
    this.#socket = socket;
    socket.addEventListener("message", (event) => this.#received(event.data));
    await opened(socket, "event", signal);
    socket.addEventListener("close", (event) => this.#closed(socket, event));
  }

  #received(text) {
    this.hear();
    let message;
    try {
      message = JSON.parse(text);
    } catch {
      console.warn("visavis: an event that is not JSON was ignored");
      return;
    }
    this.dispatchEvent(new CustomEvent(message.type, { detail: message }));
  }

  #closed(socket, event) {
    if (socket !== this.#socket) return; // close() was called, or a newer socket took over
    this.#socket = null;
    this.dispatchEvent(new CustomEvent("lost", { detail: { code: event.code, reason: event.reason } }));
  }

  /** False when there is no connection to say it over. */
  send(message) {
    if (this.#socket?.readyState !== WebSocket.OPEN) return false;
    this.#socket.send(JSON.stringify(message));
    return true;
  }

  /** Whether the gateway answers within so long. */
  ping(limit_ms) {
    return new Promise((resolve) => {
      const heard = () => settle(true);
      const timer = setTimeout(() => settle(false), limit_ms);
      const settle = (answered) => {
        clearTimeout(timer);
        this.removeEventListener("pong", heard);
        resolve(answered);
      };
      this.addEventListener("pong", heard, { once: true });
      if (!this.send({ type: "ping" })) settle(false);
    });
  }

  close() {
    const socket = this.#socket;
    this.#socket = null;
    socket?.close();
  }
}
