/** Whoever is, by keyboard, at something that is about to go, goes on at what comes after it. */
export function handOn(from, to) {
  const active = document.activeElement;
  if (from.contains(active) && active.matches(":focus-visible")) to?.focus({ preventScroll: true });
}
