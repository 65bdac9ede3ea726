/** The avatars to choose from, as portraits in a radio group. */
import { text } from "./i18n.js";

/** "grandma-gu" is a name for addresses; "Grandma gu" one for people. */
export function titleOf(name) {
  const words = name.replaceAll(/[-_]+/g, " ").trim();
  return words.charAt(0).toUpperCase() + words.slice(1);
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

  portrait(name) {
    if (!this.#portraits.has(name)) this.#portraits.set(name, this.api.portraitUrl(name));
    return this.#portraits.get(name).catch(() => "");
  }

  async render(chosen) {
    const cards = await Promise.all(this.#avatars.map(({ name }) => this.#card(name, name === chosen)));
    this.root.replaceChildren(...cards, this.#newCard());
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
