// A proxy or a network that swallows what it is asked would keep a page waiting for minutes.
const OPEN_LIMIT_MS = 6000;

/**
 * The session's event socket. Every message of the gateway becomes a
 * CustomEvent of its type, with the message as detail; "lost" follows when
 * the socket closes without close() having been called.
 */
export class EventChannel extends EventTarget {
  #socket = null;

  /**
   * Resolves when open; rejects when the socket cannot be opened.
   * @param {{url: URL, protocols: string[]}} where
   */
  open({ url, protocols }, signal) {
    return new Promise((resolve, reject) => {
      const socket = new WebSocket(url, protocols);
      this.#socket = socket;
      const timer = setTimeout(() => socket.close(), OPEN_LIMIT_MS);
      const refuse = () => {
        clearTimeout(timer);
        reject(new Error("the event connection could not be opened"));
      };
      signal?.addEventListener("abort", () => socket.close(), { once: true });
      socket.addEventListener("close", refuse, { once: true });
      socket.addEventListener("open", () => {
        clearTimeout(timer);
        socket.removeEventListener("close", refuse);
        socket.addEventListener("close", (event) => this.#closed(socket, event));
        resolve();
      });
      socket.addEventListener("message", (event) => this.#received(event.data));
    });
  }

  #received(text) {
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
