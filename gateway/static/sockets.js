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
 * Acts where it is aborted, until what this returns is called: a conversation's signal outlives each
 * of its connections, and would keep them all.
 * @param {AbortSignal | undefined} signal
 * @returns {() => void}
 */
export function onAbort(signal, act) {
  signal?.addEventListener("abort", act, { once: true });
  return () => signal?.removeEventListener("abort", act);
}

/**
 * Resolves once a new socket is open; rejects, and closes it, where it cannot be opened.
 * @param {WebSocket} socket
 * @param {string} what it carries
 */
export function opened(socket, what, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => socket.close(), OPEN_LIMIT_MS);
    const forget = onAbort(signal, () => socket.close());
    const settle = (act, value) => {
      clearTimeout(timer);
      forget();
      act(value);
    };
    socket.addEventListener("close", () => settle(reject, new Error(`the ${what} connection could not be opened`)));
    socket.addEventListener("open", () => settle(resolve));
  });
}
