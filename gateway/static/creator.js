/**
 * A new avatar from a photo: choose or drop, name, upload; then the face as it will look, to be
 * taken or given up; or the reason why the photo will not do.
 */
import { announce } from "./announce.js";
import { addressOf, nameFault } from "./avatars.js";
import { handOn } from "./focus.js";
import { text } from "./i18n.js";
import { reasonOf } from "./refusals.js";

const TYPES = ["image/jpeg", "image/png", "image/webp"];
const LIMIT_BYTES = 20_000_000;

export class AvatarCreator {
  #photo = null;

  #made = "";

  /** @param {(name: string) => Promise<void>} onCreated */
  constructor(form, fitting, api, onCreated) {
    this.form = form;
    this.fitting = fitting;
    this.api = api;
    this.onCreated = onCreated;
    this.input = form.querySelector("#photo");
    this.preview = form.querySelector("#photo-preview");
    this.name = form.querySelector("#avatar-new-name");
    this.consent = form.querySelector("#consent");
    this.likeness = form.querySelector("#likeness");
    this.progress = form.querySelector("#creator-progress");
    this.fault = form.querySelector("#creator-fault");
    this.submit = form.querySelector("#creator-submit");
    this.input.addEventListener("change", () => this.take(this.input.files[0]));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.#upload();
    });
    fitting.querySelector("#fitting-accept").addEventListener("click", () => void this.#accept());
    fitting.querySelector("#fitting-discard").addEventListener("click", () => void this.#discard());
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
    handOn(this.fitting, this.input);
    this.fitting.hidden = true;
    this.form.scrollIntoView({ block: "nearest" });
  }

  async take(file) {
    if (!file) return;
    this.#forgetPhoto();
    if (!TYPES.includes(file.type)) return this.#explain(text("avatar.not-image"));
    if (file.size > LIMIT_BYTES) return this.#explain(text("avatar.too-large"));
    try {
      (await createImageBitmap(file)).close();
    } catch {
      return this.#explain(text("avatar.broken"));
    }
    this.#photo = file;
    this.preview.src = URL.createObjectURL(file);
    this.preview.hidden = false;
    if (!this.name.value) this.name.value = suggestedName(file.name).replaceAll("-", " ");
    this.submit.disabled = false;
  }

  #forgetPhoto() {
    this.#explain("");
    this.#photo = null;
    URL.revokeObjectURL(this.preview.src);
    this.preview.removeAttribute("src");
    this.preview.hidden = true;
    this.submit.disabled = true;
  }

  async #upload() {
    const name = addressOf(this.name.value);
    const agreed = this.consent.checked && this.likeness.value.trim();
    this.#explain(nameFault(this.name.value) || (agreed ? "" : text("avatar.consent.missing")));
    if (!this.fault.hidden || !this.#photo) return;
    this.#advance(0);
    const here = document.activeElement === this.submit;
    this.submit.disabled = true;
    try {
      const consent = { likeness: this.likeness.value, agreed_to: text("avatar.consent") };
      await this.api.createAvatar(name, this.#photo, consent, (share) => this.#advance(share));
    } catch (error) {
      this.#explain(reasonOf(error));
      return;
    } finally {
      this.progress.hidden = true;
      this.submit.disabled = false;
      if (here) this.submit.focus();
    }
    await this.#show(name);
  }

  /** The face at rest, before it is taken. */
  async #show(name) {
    this.#made = name;
    const picture = this.fitting.querySelector("img");
    picture.src = await this.api.portraitUrl(name).catch(() => "");
    this.form.hidden = true;
    this.fitting.hidden = false;
    this.fitting.scrollIntoView({ block: "nearest" });
    this.fitting.querySelector("#fitting-accept").focus();
  }

  async #accept() {
    handOn(this.fitting, document.querySelector("#avatars input:checked"));
    this.fitting.hidden = true;
    this.#reset();
    await this.onCreated(this.#made);
  }

  async #discard() {
    try {
      await this.api.deleteAvatar(this.#made);
    } catch (error) {
      if (error.status !== 404) console.warn("visavis: the avatar stays:", error.message);
    }
    this.#forgetPhoto();
    this.open();
  }

  /** The upload itself is quick; then the server looks for the face and builds the mesh. */
  #advance(share) {
    const building = share >= 1;
    if (building && !this.progress.hasAttribute("data-busy")) announce(text("avatar.building"));
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
    this.#forgetPhoto();
    this.form.reset();
    this.form.hidden = true;
  }
}

/** "IMG 2024 (1).jpeg" -> "IMG-2024-1" */
export function suggestedName(fileName) {
  const stem = fileName.replace(/\.[^.]*$/, "");
  return stem.replaceAll(/[^A-Za-z0-9_]+/g, "-").replaceAll(/^-+|-+$/g, "").slice(0, 64) || "portrait";
}
