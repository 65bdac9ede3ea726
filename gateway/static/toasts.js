/**
 * Short messages that leave by themselves; errors stay longer and are announced at once. What is to be
 * copied by hand stays until it is closed.
 */
import { text } from "./i18n.js";

const STAY_MS = { info: 4000, error: 9000 };
const SHOWN = 3;

export class Toasts {
  /** @param {HTMLElement} region */
  constructor(region) {
    this.region = region;
  }

  /** @param {"info" | "error" | "kept"} kind */
  show(message, kind = "info") {
    for (const toast of this.region.children) {
      if (toast.firstChild.textContent === message) toast.remove();
    }
    const toast = document.createElement("div");
    toast.className = "toast";
    toast.dataset.kind = kind;
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
    if (STAY_MS[kind]) setTimeout(() => toast.remove(), STAY_MS[kind]);
  }

  error(message) {
    this.show(message, "error");
  }
}
