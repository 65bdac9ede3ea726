/**
 * Short messages that leave once they can have been read, errors later, and not while somebody points
 * at them; an error that is over goes at once. What is to be copied by hand stays until it is closed.
 */
import { announce } from "./announce.js";
import { text } from "./i18n.js";

/** Until it is noticed, and then a letter after the other. */
const NOTICED_MS = { info: 2500, error: 5000 };
const LETTER_MS = 60;
const HAN_MS = 180;
const AFTERWARDS_MS = 1000;
const SHOWN = 3;

export class Toasts {
  /** What had the focus before a message of here. */
  #from = null;

  /** @param {HTMLElement} region */
  constructor(region) {
    this.region = region;
    // "close" does not bubble.
    document.addEventListener("close", () => region.childElementCount && this.#move(), true);
    region.addEventListener("focusin", ({ relatedTarget }) => {
      if (!region.contains(relatedTarget)) this.#from = relatedTarget;
    });
  }

  /**
   * @param {"info" | "error" | "kept"} kind
   * @param {string} about what it is about, by which it is `over`
   */
  show(message, kind = "info", about = "") {
    for (const toast of this.region.children) {
      if (toast.firstChild.textContent === message) toast.remove();
    }
    const toast = document.createElement("div");
    toast.className = "toast";
    Object.assign(toast.dataset, { kind, about });
    if (kind === "error") toast.setAttribute("role", "alert");
    else announce(message);
    const words = document.createElement("span");
    words.textContent = message;
    const close = document.createElement("button");
    close.className = "toast-close";
    close.type = "button";
    close.setAttribute("aria-label", text("settings.close"));
    close.textContent = "×";
    close.addEventListener("click", () => this.#close(toast));
    toast.append(words, close);
    this.#move();
    this.region.append(toast);
    while (this.region.childElementCount > SHOWN) this.region.firstElementChild.remove();
    if (kind !== "kept") setTimeout(() => leave(toast), NOTICED_MS[kind] + reading_ms(message));
  }

  /** Into the dialog that is open: whatever lies outside of it can neither be closed nor be read aloud. */
  #move() {
    const place = document.querySelector("dialog[open]") ?? document.body;
    if (this.region.parentElement !== place) place.append(this.region);
    // Shown anew, the region comes to lie above what has been opened since.
    this.region.hidePopover?.();
    this.region.showPopover?.();
  }

  /** Who closes it by keyboard goes on where he came from. */
  #close(toast) {
    const from = toast.contains(document.activeElement) ? this.#from : null;
    toast.remove();
    from?.focus({ preventScroll: true });
  }

  error(message, about = "") {
    this.show(message, "error", about);
  }

  /** What was wrong with this is right again. */
  over(about) {
    for (const toast of [...this.region.children]) if (toast.dataset.about === about) toast.remove();
  }
}

/** How long somebody who reads slowly takes. */
function reading_ms(message) {
  const han = message.match(/\p{Script=Han}/gu)?.length ?? 0;
  return han * HAN_MS + (message.length - han) * LETTER_MS;
}

/** Once nobody points at it, or is at its button by the keyboard. */
function leave(toast) {
  if (!toast.matches(":hover, :focus-within")) return toast.remove();
  const again = () => setTimeout(() => leave(toast), AFTERWARDS_MS);
  for (const type of ["pointerleave", "focusout"]) toast.addEventListener(type, again, { once: true });
}
