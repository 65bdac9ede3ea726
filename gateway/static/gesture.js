/** Browsers let an audio context run only once the visitor has touched the page: then it does. */
export function resumeOnGesture(context) {
  if (context.state !== "suspended") return;
  const resume = () => context.state === "suspended" && void context.resume();
  resume();
  for (const type of ["pointerdown", "keydown"]) addEventListener(type, resume, { once: true });
}
