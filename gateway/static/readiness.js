/**
 * Until the services are there: says which are missing, looks again by itself, and goes on as soon
 * as a conversation would work. body[data-services] tells waiting or ready.
 */
import { text } from "./i18n.js";

const STAGES = ["asr", "llm", "tts", "face"];
const FIRST_LOOK_MS = 1000;
const LAST_LOOK_MS = 4000;

export class Readiness {
  #told = null;

  /** @param {HTMLElement} root holds p.waiting-what and ul.waiting-stages */
  constructor(root, api) {
    this.root = root;
    this.api = api;
  }

  /** Resolves once a conversation would work. */
  async wait() {
    for (let pause_ms = FIRST_LOOK_MS; ; pause_ms = Math.min(1.5 * pause_ms, LAST_LOOK_MS)) {
      this.#told = await this.#look();
      document.body.dataset.services = this.#told ? "waiting" : "ready";
      if (!this.#told) return;
      this.render();
      await new Promise((resolve) => setTimeout(resolve, pause_ms));
    }
  }

  /** What to say, and what is there so far; null: all of it. */
  async #look() {
    let found;
    try {
      found = await this.api.readiness();
    } catch (error) {
      return { key: "waiting.unreachable", missing: STAGES };
    }
    if (found.ready) return null;
    const missing = Object.keys(found.missing ?? {});
    if (!missing.length) return { key: "waiting.restarting", missing: STAGES };
    // Without the bus nobody can be asked.
    return { key: "waiting.what", missing: missing.includes("bus") ? STAGES : missing };
  }

  /** Also after a change of language. */
  render() {
    if (!this.#told) return;
    const { key, missing } = this.#told;
    const what = this.root.querySelector(".waiting-what");
    if (what.textContent !== text(key)) what.textContent = text(key); // read aloud only where changed
    this.root.querySelector(".waiting-stages").replaceChildren(...STAGES.map((stage) => line(stage, missing)));
  }
}

function line(stage, missing) {
  const item = document.createElement("li");
  item.dataset.there = missing.includes(stage) ? "no" : "yes";
  const name = document.createElement("span");
  name.textContent = text(`waiting.${stage}`);
  const state = document.createElement("small");
  state.textContent = text(missing.includes(stage) ? "waiting.soon" : "waiting.there");
  item.append(name, state);
  return item;
}
