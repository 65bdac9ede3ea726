/** A new avatar from a photo: choose or drop, name, upload, and the server's reason if it will not do. */
import { text } from "./i18n.js";

const TYPES = ["image/jpeg", "image/png", "image/webp"];
const LIMIT_BYTES = 20_000_000;

export class AvatarCreator {
  #photo = null;

  /** @param {(name: string) => Promise<void>} onCreated */
  constructor(form, api, onCreated) {
    this.form = form;
    this.api = api;
    this.onCreated = onCreated;
    this.input = form.querySelector("#photo");
    this.preview = form.querySelector("#photo-preview");
    this.name = form.querySelector("#avatar-new-name");
    this.likeness = form.querySelector("#likeness");
    this.progress = form.querySelector("#creator-progress");
    this.fault = form.querySelector("#creator-fault");
    this.submit = form.querySelector("#creator-submit");
    this.input.addEventListener("change", () => this.take(this.input.files[0]));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.#upload();
    });
  }

  /** A file dropped anywhere on the page lands here. */
  acceptDrops(root, onDrop) {
    const files = (event) => event.dataTransfer?.types.includes("Files");
    root.addEventListener("dragover", (event) => {
      if (!files(event)) return;
      event.preventDefault();
      document.body.dataset.drag = "over";
    });
    root.addEventListener("dragleave", (event) => {
      if (!event.relatedTarget) delete document.body.dataset.drag;
    });
    root.addEventListener("drop", (event) => {
      delete document.body.dataset.drag;
      if (!files(event)) return;
      event.preventDefault();
      onDrop();
      this.take(event.dataTransfer.files[0]);
    });
  }

  open() {
    this.form.hidden = false;
    this.form.scrollIntoView({ block: "nearest" });
  }

  take(file) {
    if (!file) return;
    this.#explain("");
    if (!TYPES.includes(file.type)) return this.#explain(text("avatar.not-image"));
    if (file.size > LIMIT_BYTES) return this.#explain(text("avatar.too-large"));
    this.#photo = file;
    URL.revokeObjectURL(this.preview.src);
    this.preview.src = URL.createObjectURL(file);
    this.preview.hidden = false;
    if (!this.name.value) this.name.value = suggestedName(file.name);
    this.submit.disabled = false;
  }

  async #upload() {
    const name = this.name.value;
    this.#explain("");
    this.#advance(0);
    this.submit.disabled = true;
    try {
      const consent = { likeness: this.likeness.value, agreed_to: text("avatar.consent") };
      await this.api.createAvatar(name, this.#photo, consent, (share) => this.#advance(share));
    } catch (error) {
      this.#explain(error.status === 0 ? text("error.unreachable") : error.message);
      return;
    } finally {
      this.progress.hidden = true;
      this.submit.disabled = false;
    }
    this.#reset();
    await this.onCreated(name);
  }

  /** The upload itself is quick; then the server looks for the face and builds the mesh. */
  #advance(share) {
    const building = share >= 1;
    this.progress.hidden = false;
    this.progress.toggleAttribute("data-busy", building);
    if (building) this.progress.removeAttribute("aria-valuenow");
    else this.progress.setAttribute("aria-valuenow", String(Math.round(100 * share)));
    this.progress.style.setProperty("--share", String(share));
    this.progress.lastElementChild.textContent = text(building ? "avatar.building" : "avatar.uploading");
  }

  #explain(reason) {
    this.fault.textContent = reason;
    this.fault.hidden = !reason;
  }

  #reset() {
    this.form.reset();
    this.form.hidden = true;
    this.preview.hidden = true;
    this.submit.disabled = true;
    this.#photo = null;
  }
}

/** "IMG 2024 (1).jpeg" -> "IMG-2024-1" */
export function suggestedName(fileName) {
  const stem = fileName.replace(/\.[^.]*$/, "");
  return stem.replaceAll(/[^A-Za-z0-9_]+/g, "-").replaceAll(/^-+|-+$/g, "").slice(0, 64) || "portrait";
}
