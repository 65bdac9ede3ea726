// A proxy or a network that swallows what it is asked would keep a page waiting for minutes.
const OPEN_LIMIT_MS = 6000;

/** Whether anything has come since it was last asked for. */
export class Hearing extends EventTarget {
  #heard = true;

  hear() {
    this.#heard = true;
  }

  heard() {
    const heard = this.#heard;
    this.#heard = false;
    return heard;
  }
}

/**
 * Resolves once a new socket is open; rejects, and closes it, where it cannot be opened.
 * @param {WebSocket} socket
 * @param {string} what it carries
 */
export function opened(socket, what, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => socket.close(), OPEN_LIMIT_MS);
    signal?.addEventListener("abort", () => socket.close(), { once: true });
    socket.addEventListener("close", () => {
      clearTimeout(timer);
      reject(new Error(`the ${what} connection could not be opened`));
    });
    socket.addEventListener("open", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
