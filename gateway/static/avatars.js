/** The avatars to choose from, as portraits in a radio group. */
import { announce } from "./announce.js";
import { handOn } from "./focus.js";
import { text } from "./i18n.js";

/** "grandma-gu" is a name for addresses; "Grandma gu" one for people. */
export function titleOf(name) {
  const words = name.replaceAll(/[-_]+/g, " ").trim();
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** Shows a radio group anew. Who chooses by keyboard stays in it, at what is chosen. */
export function refill(root, ...choices) {
  const within = root.querySelector("input:focus");
  root.replaceChildren(...choices);
  if (within) root.querySelector("input:checked")?.focus({ preventScroll: true });
}

export class AvatarPicker {
  #avatars = [];
  #portraits = new Map();

  /** @param {(name: string) => void} onChoose @param {() => void} onNew */
  constructor(root, api, { onChoose, onNew }) {
    this.root = root;
    this.api = api;
    this.onChoose = onChoose;
    this.onNew = onNew;
    root.addEventListener("change", ({ target }) => this.onChoose(target.value));
  }

  async load() {
    this.#avatars = await this.api.avatars();
    const names = new Set(this.#avatars.map(({ name }) => name));
    for (const name of this.#portraits.keys()) if (!names.has(name)) this.#portraits.delete(name);
  }

  /** The wanted one where it exists, else the first. */
  resolve(wanted) {
    const found = this.#avatars.find(({ name }) => name === wanted);
    return (found ?? this.#avatars[0])?.name ?? "";
  }

  /** Whether it was made here, and can be deleted. */
  own(name) {
    return this.#avatars.some((avatar) => avatar.name === name && !avatar.builtin);
  }

  /** @param {string} newName as it is to be addressed */
  async rename(name, newName) {
    await this.api.renameAvatar(name, newName);
    this.#portraits.delete(name);
    await this.load();
  }

  /** @returns {Promise<void>} once it is gone, here and at the gateway */
  async remove(name) {
    await this.api.deleteAvatar(name);
    this.#portraits.delete(name);
    await this.load();
  }

  /** Its address; "": it did not come, and is asked for again the next time. */
  async portrait(name) {
    if (!this.#portraits.has(name)) this.#portraits.set(name, this.api.portraitUrl(name));
    try {
      return await this.#portraits.get(name);
    } catch {
      this.#portraits.delete(name);
      return "";
    }
  }

  async render(chosen) {
    const cards = await Promise.all(this.#avatars.map(({ name }) => this.#card(name, name === chosen)));
    refill(this.root, ...cards, this.#newCard());
  }

  async #card(name, checked) {
    const card = document.createElement("label");
    card.className = "avatar";
    const input = document.createElement("input");
    Object.assign(input, { type: "radio", name: "avatar", value: name, checked });
    const picture = document.createElement("img");
    picture.alt = "";
    picture.src = await this.portrait(name);
    const title = document.createElement("span");
    title.textContent = titleOf(name);
    card.append(input, picture, title);
    return card;
  }

  #newCard() {
    const card = document.createElement("button");
    card.type = "button";
    card.id = "avatar-new";
    card.className = "avatar new";
    card.innerHTML = '<svg class="icon" aria-hidden="true"><use href="#i-plus"/></svg><span></span>';
    card.lastChild.dataset.i18n = "avatar.new";
    card.lastChild.textContent = text("avatar.new");
    card.addEventListener("click", () => this.onNew());
    return card;
  }
}

/** What is wrong with a name that a person has typed; "": nothing. */
export function nameFault(typed) {
  if (!typed.trim()) return text("avatar.name.missing");
  const odd = [...addressOf(typed)].find((character) => !/[A-Za-z0-9_-]/.test(character));
  return odd ? text("avatar.name.odd").replace("{c}", odd) : "";
}

/** "My aunt" -> "My-aunt": the name for addresses. */
export function addressOf(typed) {
  return typed.trim().replaceAll(/\s+/g, "-");
}

/**
 * The row under the portraits of an avatar that was made here: its name, to be changed, and a way
 * to delete it, which asks once more.
 */
export class OwnAvatar {
  #name = "";
  #asked = false;

  /** @param {{onRename: (name: string, newName: string) => void, onDelete: (name: string) => void}} acts */
  constructor(root, { onRename, onDelete }) {
    this.root = root;
    this.button = root.querySelector("button");
    this.input = root.querySelector("input");
    this.button.addEventListener("click", () => {
      if (!this.#asked) return this.#ask();
      this.#rest();
      onDelete(this.#name);
    });
    // The question stands until he goes elsewhere: some need long for a second press.
    this.button.addEventListener("blur", () => this.#rest());
    this.input.addEventListener("change", () => onRename(this.#name, this.input.value));
  }

  /** @param {string} name "": none is chosen that could be changed */
  show(name) {
    this.#name = name;
    if (!name) handOn(this.root, document.querySelector("#avatars input:checked"));
    this.root.hidden = !name;
    this.input.value = titleOf(name);
    this.#rest();
  }

  #ask() {
    this.#asked = true;
    this.button.textContent = text("avatar.delete.sure");
    announce(text("avatar.delete.sure"));
  }

  #rest() {
    this.#asked = false;
    this.button.textContent = text("avatar.delete");
  }
}
