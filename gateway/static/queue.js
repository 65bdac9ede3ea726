/** The place in line while there is no room: how many are before, how long it takes, and a way out. */
import { handOn } from "./focus.js";
import { text } from "./i18n.js";

export class QueuePanel {
  #place = null;

  constructor(root, onLeave) {
    this.root = root;
    this.position = root.querySelector(".queue-position");
    this.wait = root.querySelector(".queue-wait");
    this.button = root.querySelector("button");
    this.button.addEventListener("click", onLeave);
  }

  /** @param {{position: number, expected_wait_s?: number | null}} place */
  show(place) {
    this.#place = place;
    document.body.toggleAttribute("data-waiting", true);
    this.render();
    handOn(document.querySelector("#start-busy"), this.button);
  }

  hide() {
    this.#place = null;
    document.body.toggleAttribute("data-waiting", false);
  }

  /** Also after a change of language. */
  render() {
    if (!this.#place) return;
    const { position, expected_wait_s } = this.#place;
    const place = position > 1 ? text("queue.position").replace("{n}", position) : text("queue.next");
    // Read aloud only where it has changed.
    if (this.position.textContent !== place) this.position.textContent = place;
    this.wait.textContent = told(expected_wait_s);
  }
}

/** As finely as it is known: a wait is a guess. */
function told(seconds) {
  if (seconds === undefined || seconds === null) return text("queue.unknown");
  if (seconds < 50) return text("queue.soon");
  const minutes = Math.max(1, Math.round(seconds / 60));
  return text(minutes === 1 ? "queue.minute" : "queue.minutes").replace("{n}", minutes);
}
