/** The voices of the chosen language, as a radio group. */
import { refill, titleOf } from "./avatars.js";
import { text } from "./i18n.js";

export class VoicePicker {
  #voices = [];

  /** @param {(name: string) => void} onChoose */
  constructor(root, api, onChoose) {
    this.root = root;
    this.api = api;
    root.addEventListener("change", ({ target }) => onChoose(target.value));
  }

  async load() {
    this.#voices = await this.api.voices();
  }

  /** The wanted one where it speaks the language, else the first that does. */
  resolve(wanted, language) {
    const able = this.#able(language);
    return (able.find(({ name }) => name === wanted) ?? able[0])?.name ?? "";
  }

  #able(language) {
    return this.#voices.filter(({ languages }) =>
      languages.some((code) => code === language || code.startsWith(`${language}-`)),
    );
  }

  render(chosen, language) {
    refill(this.root, ...this.#able(language).map((voice) => row(voice, voice.name === chosen)));
  }
}

function row({ name, gender, description }, checked) {
  const line = document.createElement("label");
  line.className = "voice";
  const input = document.createElement("input");
  Object.assign(input, { type: "radio", name: "voice", value: name, checked });
  const title = document.createElement("strong");
  title.textContent = titleOf(name);
  const about = document.createElement("small");
  about.textContent = text(`voice.about.${name}`, "") || describe(gender, description);
  line.append(input, title, about);
  return line;
}

/** Of a voice that the page does not know: what its makers say, without the names of networks. */
function describe(gender, description) {
  const said = description.split(/[.。]/)[0];
  return [gender && text(`voice.gender.${gender}`, gender), said].filter(Boolean).join(" · ");
}
