/** Browsers let an audio context run only once the visitor has touched the page: then it does. */
export function resumeOnGesture(context) {
  if (context.state !== "suspended") return;
  const running = new AbortController();
  const resume = () => void context.resume().catch(() => null); // closed meanwhile
  // Not every touch of the page counts: of a finger it is the lifting, of keys all but Escape.
  for (const type of ["pointerdown", "pointerup", "keydown"]) {
    addEventListener(type, resume, { signal: running.signal });
  }
  context.addEventListener("statechange", () => context.state !== "suspended" && running.abort());
  resume();
}
