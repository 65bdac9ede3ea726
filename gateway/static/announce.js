/**
 * Has screen readers say something once: by a region that has been there before, as those that come
 * with their words are passed over. While a dialog is open it is one of its own: the rest is not there for them.
 */
import { write } from "./passages.js";

const KEPT = 4;

export function announce(words) {
  const region = document.querySelector("dialog[open] .announcer") ?? document.querySelector(".announcer");
  const said = document.createElement("p");
  write(said, words);
  region.append(said);
  while (region.childElementCount > KEPT) region.firstElementChild.remove();
}

/** What can be done without: an open microphone would hear the screen reader, and take it for the visitor. */
export function hint(words) {
  if (document.body.dataset.microphone !== "on") announce(words);
}
