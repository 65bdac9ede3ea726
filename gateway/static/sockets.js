// A proxy or a network that swallows what it is asked would keep a page waiting for minutes.
const OPEN_LIMIT_MS = 6000;

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
