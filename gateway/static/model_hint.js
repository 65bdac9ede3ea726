/** Says which language model answers, how far it can be trusted, and how to have a larger one. */
import { text } from "./i18n.js";

/** The profile with the largest model that runs on a laptop. */
const LARGER = "visavis up --profile better";
/** Billions of parameters below which a model knows little, and makes up much. */
const SMALL = 3;
const ENOUGH_FOR_LARGER = 1.5;

/** "qwen2.5-coder-0.5b-instruct" -> 0.5; null where the name does not tell. */
export function billions(name) {
  const found = /(?:^|[-_ ])(\d+(?:\.\d+)?)\s?([bm])(?![a-z])/i.exec(name);
  if (!found) return null;
  return Number(found[1]) / (found[2].toLowerCase() === "m" ? 1000 : 1);
}

export class ModelHint {
  #name = "";

  /** @param {HTMLElement} root holds a paragraph, and a command with a button that copies it */
  constructor(root, api, toasts) {
    this.root = root;
    this.api = api;
    const command = root.querySelector("code");
    command.textContent = LARGER;
    root.querySelector("button").addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(LARGER);
        toasts.show(text("copied"));
      } catch {
        getSelection().selectAllChildren(command); // no clipboard without https: to be copied by hand
      }
    });
  }

  async load() {
    const services = await this.api.services();
    const engine = services.find(({ service }) => service === "llm")?.engines[0];
    this.#name = engine ? engine.file || engine.model : "";
    this.render();
  }

  /** Also after a change of language. */
  render() {
    const size = billions(this.#name);
    const small = size !== null && size < SMALL;
    this.root.querySelector("p").textContent = small
      ? text("model.small").replace("{model}", this.#name.replace(/\.gguf$/i, ""))
      : text("model.careful");
    this.root.querySelector(".command").hidden = !small || size >= ENOUGH_FOR_LARGER;
  }
}
