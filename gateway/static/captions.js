/**
 * Live captions of both sides, oldest first. A line grows while it is heard or
 * spoken; a separate live region tells screen readers each line once, when it
 * is complete.
 */

const LINES_KEPT = 200;

export class Captions {
  #lines = new Map(); // "visitor:3" | "avatar:2" -> element
  #following = true;

  /** @param {HTMLElement} list @param {HTMLElement} announcer visually hidden live region */
  constructor(list, announcer) {
    this.list = list;
    this.announcer = announcer;
    // A visitor who has scrolled up to read is left alone.
    list.addEventListener("scroll", () => {
      this.#following = list.scrollHeight - list.scrollTop - list.clientHeight < 80;
    });
    new ResizeObserver(() => this.#follow()).observe(list);
  }

  /** What the visitor says, as far as it has been understood; utterance 0: what was typed. */
  transcript({ utterance, text, final }) {
    if (utterance === 0) return this.#write(this.#append("visitor"), text, true);
    if (!text && !this.#lines.has(`visitor:${utterance}`)) return;
    if (final && !text) return this.#drop("visitor", utterance);
    this.#write(this.#line("visitor", utterance), text, final);
  }

  /** The next piece of an answer. */
  answer({ turn, text, final }) {
    if (!text && !this.#lines.has(`avatar:${turn}`)) return;
    const line = this.#line("avatar", turn);
    this.#write(line, line.textContent + text, final);
  }

  /** The end of a turn; of an interrupted one, what was not heard any more is shown apart. */
  turn({ turn, event, heard }) {
    const line = this.#lines.get(`avatar:${turn}`);
    if (!line || !["finished", "interrupted", "failed"].includes(event)) return;
    line.dataset.ended = event;
    line.removeAttribute("data-partial");
    const said = line.textContent;
    if (event !== "interrupted" || heard == null || !said.startsWith(heard)) return;
    const unheard = document.createElement("s");
    unheard.textContent = said.slice(heard.length);
    line.replaceChildren(heard, unheard);
  }

  clear() {
    this.#lines.clear();
    this.list.replaceChildren();
  }

  #line(side, number) {
    const key = `${side}:${number}`;
    if (!this.#lines.has(key)) this.#lines.set(key, this.#append(side));
    return this.#lines.get(key);
  }

  #append(side) {
    const line = document.createElement("li");
    line.className = "line";
    line.dataset.side = side;
    line.dir = "auto";
    this.list.append(line);
    while (this.list.childElementCount > LINES_KEPT) this.list.firstElementChild.remove();
    return line;
  }

  #write(line, text, final) {
    line.textContent = text;
    line.toggleAttribute("data-partial", !final);
    if (final) this.announcer.textContent = text;
    this.#follow();
  }

  #drop(side, number) {
    this.#lines.get(`${side}:${number}`)?.remove();
    this.#lines.delete(`${side}:${number}`);
  }

  #follow() {
    if (this.#following) this.list.scrollTop = this.list.scrollHeight;
  }
}
