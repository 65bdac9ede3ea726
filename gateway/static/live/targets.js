/** The list of broadcasts of a session: how each stands, and a button to stop it. */
import { announce } from "../announce.js";
import { handOn } from "../focus.js";
import { text } from "../i18n.js";
import { filled } from "./words.js";

const OVER = ["stopped", "failed"];

function element(name, className, content = "") {
  const node = document.createElement(name);
  node.className = className;
  node.textContent = content;
  return node;
}

function clock(seconds) {
  const whole = Math.floor(seconds);
  const parts = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  return parts.map((part) => String(part).padStart(2, "0")).join(":");
}

export class TargetList {
  #rows = new Map();
  #phases = new Map();

  /**
   * @param {HTMLElement} list
   * @param {(id: string) => void} onStop
   */
  constructor(list, onStop) {
    this.list = list;
    this.onStop = onStop;
  }

  /** Shows the broadcasts as the gateway tells of them; how many are live. */
  show(broadcasts) {
    const there = new Set(broadcasts.map(({ id }) => id));
    for (const [id, row] of this.#rows) {
      if (there.has(id)) continue;
      row.remove();
      this.#rows.delete(id);
    }
    for (const broadcast of broadcasts) this.#showOne(broadcast);
    return broadcasts.filter(({ state }) => state === "live").length;
  }

  /** In another language from now on. */
  restart() {
    this.#rows.clear();
    this.list.replaceChildren();
  }

  #showOne(broadcast) {
    const row = this.#rows.get(broadcast.id) ?? this.#made(broadcast);
    const phase = text(`live.phase.${broadcast.state}`);
    row.dataset.phase = broadcast.state;
    row.querySelector(".phase").textContent = phase;
    row.querySelector(".figures").textContent = filled("live.figures", {
      time: clock(broadcast.live_s),
      mb: (broadcast.sent_bytes / 1e6).toFixed(1),
      dropped: broadcast.dropped_pictures,
      reconnects: broadcast.reconnects,
    });
    row.querySelector(".why").textContent = broadcast.error;
    const stop = row.querySelector("button");
    if (OVER.includes(broadcast.state)) handOn(stop, this.list);
    stop.hidden = OVER.includes(broadcast.state);
    if (this.#phases.get(broadcast.id) !== broadcast.state) {
      this.#phases.set(broadcast.id, broadcast.state);
      announce(filled("live.changed", { target: broadcast.target, phase }));
    }
  }

  #made({ id, target }) {
    const row = document.createElement("li");
    const name = document.createElement("div");
    name.append(element("strong", "", target), element("p", "phase"));
    const stop = element("button", "quiet", text("live.stop"));
    stop.type = "button";
    stop.setAttribute("aria-label", filled("live.stopOf", { target }));
    stop.addEventListener("click", () => this.onStop(id));
    row.append(name, stop, element("small", "figures"), element("small", "why"));
    this.#rows.set(id, row);
    this.list.append(row);
    return row;
  }
}
