/**
 * Short messages that leave once they can have been read, errors later, and not while somebody points
 * at them; an error that is over goes at once. What is to be copied by hand stays until it is closed.
 */
import { text } from "./i18n.js";

/** Until it is noticed, and then a letter after the other. */
const NOTICED_MS = { info: 2500, error: 5000 };
const LETTER_MS = 60;
const HAN_MS = 180;
const AFTERWARDS_MS = 1000;
const SHOWN = 3;

export class Toasts {
  /** @param {HTMLElement} region */
  constructor(region) {
    this.region = region;
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
    toast.setAttribute("role", kind === "error" ? "alert" : "status");
    const words = document.createElement("span");
    words.textContent = message;
    const close = document.createElement("button");
    close.className = "toast-close";
    close.type = "button";
    close.setAttribute("aria-label", text("settings.close"));
    close.textContent = "×";
    close.addEventListener("click", () => toast.remove());
    toast.append(words, close);
    this.region.append(toast);
    while (this.region.childElementCount > SHOWN) this.region.firstElementChild.remove();
    // Shown anew, the region comes to lie above a dialog that has been opened since.
    this.region.hidePopover?.();
    this.region.showPopover?.();
    if (kind !== "kept") setTimeout(() => leave(toast), NOTICED_MS[kind] + reading_ms(message));
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
