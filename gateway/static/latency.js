/** Where the time of the last turn went: one bar per stage on one time axis. */
import { text } from "./i18n.js";

/** Colours of the stages that we know; others take the last one. */
const COLOURS = ["listen", "recognise", "think", "speak", "face", "send"];

const FAMILY = [
  [/vad|endpoint|turn|wait/, "listen"],
  [/asr|transcri|recogni/, "recognise"],
  [/llm|token|think/, "think"],
  [/tts|voice|synth|speak/, "speak"],
  [/face|frame|video/, "face"],
];

function family(name) {
  return FAMILY.find(([pattern]) => pattern.test(name))?.[1] ?? COLOURS.at(-1);
}

function element(tag, className, content = "") {
  const node = document.createElement(tag);
  node.className = className;
  node.textContent = content;
  return node;
}

/** Milliseconds a person can read: one decimal only where it says something. */
export function readable(duration_ms) {
  return `${duration_ms < 10 ? duration_ms.toFixed(1) : Math.round(duration_ms)} ms`;
}

export class LatencyStrip {
  #last = null;

  /** @param {HTMLElement} root holds .latency-total, .latency-mini and .latency-bars */
  constructor(root) {
    this.root = root;
  }

  show(ledger) {
    if (!ledger.stages.length) return;
    this.#last = ledger;
    this.render();
  }

  /** Again in the language chosen now. */
  render() {
    if (!this.#last) return;
    const { stages, voice_to_voice_ms } = this.#last;
    // Zero is the end of the visitor's words; what was done ahead of it starts before.
    const from_ms = Math.min(0, ...stages.map((stage) => stage.start_ms));
    const to_ms = Math.max(...stages.map((stage) => stage.end_ms));
    const whole_ms = Math.max(to_ms - from_ms, 1);
    const total = this.root.querySelector(".latency-total");
    total.textContent = readable(voice_to_voice_ms ?? whole_ms);
    this.root.dataset.turn = this.#last.turn;
    this.root.style.setProperty("--zero", `${(-100 * from_ms) / whole_ms}%`);
    const rows = stages.map((stage) => this.#row(stage, from_ms, whole_ms));
    this.root.querySelector(".latency-bars").replaceChildren(...rows);
    const marks = stages.map((stage) => this.#bar(stage, from_ms, whole_ms));
    this.root.querySelector(".latency-mini").replaceChildren(...marks);
  }

  #bar({ name, start_ms, end_ms }, from_ms, whole_ms) {
    const bar = element("span", "bar");
    bar.dataset.family = family(name);
    bar.style.left = `${(100 * (start_ms - from_ms)) / whole_ms}%`;
    bar.style.width = `${(100 * (end_ms - start_ms)) / whole_ms}%`;
    return bar;
  }

  #row(stage, from_ms, whole_ms) {
    const row = element("li", "stage-row");
    const lane = element("span", "lane");
    lane.append(this.#bar(stage, from_ms, whole_ms));
    row.append(
      element("span", "stage-name", text(`stage.${stage.name}`, stage.name.replaceAll("_", " "))),
      lane,
      element("span", "stage-ms", readable(stage.end_ms - stage.start_ms)),
    );
    return row;
  }
}
