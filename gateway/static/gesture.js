/**
 * Browsers let an audio context run only once the visitor has touched the page: then it does. A phone's
 * call interrupts it, and a touch has it run again.
 */
export function resumeOnGesture(context) {
  let resting = new AbortController();
  const resume = () => void context.resume().catch(() => null); // closed meanwhile, or the call goes on
  const follow = () => {
    resting.abort();
    if (context.state === "running" || context.state === "closed") return;
    resting = new AbortController();
    // Not every touch of the page counts: of a finger it is the lifting, of keys all but Escape.
    for (const type of ["pointerdown", "pointerup", "keydown"]) {
      addEventListener(type, resume, { signal: resting.signal });
    }
    resume();
  };
  context.addEventListener("statechange", follow);
  follow();
}
