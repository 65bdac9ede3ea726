/** Where the time of the last turn went: a waterfall with one lane per stage on one time axis. */
import { text } from "./i18n.js";

/** Colours of the stages that we know; others take the last one. */
const COLOURS = ["listen", "recognise", "think", "speak", "face", "send"];

const FAMILY = [
  [/vad|endpoint|turn|wait/, "listen"],
  [/asr|transcri|recogni/, "recognise"],
  [/llm|token|think|tools/, "think"],
  [/tts|voice|synth|speak/, "speak"],
  [/face|frame|video|encoder/, "face"],
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

/** Time covered by any of them: what overlaps counts once. */
function covered_ms(spans) {
  let total_ms = 0;
  let reached_ms = -Infinity;
  for (const { start_ms, end_ms } of [...spans].sort((a, b) => a.start_ms - b.start_ms)) {
    total_ms += Math.max(0, end_ms - Math.max(start_ms, reached_ms));
    reached_ms = Math.max(reached_ms, end_ms);
  }
  return total_ms;
}

/**
 * The lanes of a turn: [{name, spans, took_ms}]. took_ms: how long the stage worked; of a stage
 * that only passes on, all of its time.
 */
function lanes({ stages, spans = [] }) {
  const first = spans.filter(({ chunk }) => chunk === "first");
  if (!first.length) {
    return stages.map((stage) => ({
      name: stage.name,
      spans: [{ ...stage, kind: "compute" }],
      took_ms: stage.end_ms - stage.start_ms,
    }));
  }
  const names = [...new Set(first.map(({ stage }) => stage))];
  return names.map((name) => {
    const own = first.filter(({ stage }) => stage === name);
    const work = own.filter(({ kind }) => kind === "compute");
    return { name, spans: own, took_ms: covered_ms(work.length ? work : own) };
  });
}

export class LatencyStrip {
  #last = null;

  /** @param {HTMLElement} root holds .latency-total, -mini, -bars and -facts */
  constructor(root) {
    this.root = root;
  }

  show(ledger) {
    if (!ledger.stages.length && !ledger.spans?.length) return;
    this.#last = ledger;
    this.render();
  }

  /** Nothing has been answered yet. */
  clear() {
    this.#last = null;
    this.root.removeAttribute("data-turn");
    for (const part of [".latency-total", ".latency-bars", ".latency-mini", ".latency-facts"]) {
      this.root.querySelector(part).replaceChildren();
    }
  }

  /** Again in the language chosen now. */
  render() {
    if (!this.#last) return;
    const { voice_to_voice_ms, turn } = this.#last;
    const rows = lanes(this.#last);
    const spans = rows.flatMap((row) => row.spans);
    // Zero is the end of the visitor's words; what was done ahead of it starts before.
    const from_ms = Math.min(0, ...spans.map((span) => span.start_ms));
    const to_ms = Math.max(voice_to_voice_ms ?? 0, ...spans.map((span) => span.end_ms));
    const whole_ms = Math.max(to_ms - from_ms, 1);
    const share = (at_ms) => `${(100 * (at_ms - from_ms)) / whole_ms}%`;
    this.root.querySelector(".latency-total").textContent = readable(voice_to_voice_ms ?? whole_ms);
    this.root.dataset.turn = turn;
    this.root.style.setProperty("--zero", share(0));
    this.root.style.setProperty("--heard", share(voice_to_voice_ms ?? to_ms));
    const bars = rows.map((row) => this.#row(row, share));
    this.root.querySelector(".latency-bars").replaceChildren(...bars);
    const marks = rows.flatMap(({ name, spans: own }) => own.map((span) => this.#bar(name, span, share)));
    this.root.querySelector(".latency-mini").replaceChildren(...marks);
    this.root.querySelector(".latency-facts").replaceChildren(...this.#facts());
  }

  #bar(name, { kind, start_ms, end_ms }, share) {
    const bar = element("span", "bar");
    bar.dataset.family = family(name);
    bar.dataset.kind = kind;
    bar.style.left = share(start_ms);
    bar.style.width = `${parseFloat(share(end_ms)) - parseFloat(share(start_ms))}%`;
    bar.title = `${text(`kind.${kind}`)} ${readable(end_ms - start_ms)}`;
    return bar;
  }

  #row({ name, spans, took_ms }, share) {
    const row = element("li", "stage-row");
    const lane = element("span", "lane");
    lane.append(...spans.map((span) => this.#bar(name, span, share)));
    row.append(
      element("span", "stage-name", text(`stage.${name}`, name.replaceAll("_", " "))),
      lane,
      element("span", "stage-ms", readable(took_ms)),
    );
    return row;
  }

  /** What the bars look like, and what cannot be read from them. */
  #facts() {
    const { spans = [], first_frame_ms, overhead_ms } = this.#last;
    const facts = ["compute", "queue", "wait", "transfer"]
      .filter((kind) => spans.some((span) => span.kind === kind && span.chunk === "first"))
      .map((kind) => {
        const fact = element("span", "latency-kind", text(`kind.${kind}`));
        fact.dataset.kind = kind;
        return fact;
      });
    const figures = {
      "latency.picture": first_frame_ms,
      "latency.overhead": overhead_ms,
    };
    for (const [key, value_ms] of Object.entries(figures)) {
      if (value_ms != null) facts.push(element("span", "", `${text(key)} ${readable(value_ms)}`));
    }
    return facts;
  }
}
