/**
 * Live captions of both sides, oldest first. A line grows while it is heard or
 * spoken. Screen readers are told of it where the voice cannot be heard: else
 * they would speak over it. Turns are counted anew in each session: a line
 * belongs to both.
 */
import { announce, hint } from "./announce.js";
import { text } from "./i18n.js";
import { write } from "./passages.js";

const LINES_KEPT = 200;
/** What a new session is told: more than a small model reads anyway. */
const HISTORY_KEPT = 60;
const LINE_KEPT = 4000;
/** "shown": a block of code or a table of an answer's, which nobody says. */
const SIDES = ["visitor", "avatar", "shown", "note"];
const TABLE = "markdown";
/** As far as sentences of it are complete. */
const SENTENCES = /^.*(?:[.?!…](?=\s)|[。？！])/s;

export class Captions {
  /** Whose answers they are, for the transcript. */
  speaker = "";
  #session = "";
  #lines = new Map(); // "a1b2 visitor 3" | "a1b2 avatar 2" -> element
  #told = new WeakMap(); // line of an answer -> so many characters were announced, or heard
  #following = true;

  /** @param {HTMLElement} list @param {() => boolean} audible whether the voice can be heard */
  constructor(list, audible) {
    this.list = list;
    this.audible = audible;
    // A visitor who has scrolled up to read is left alone.
    list.addEventListener("scroll", () => {
      this.#following = list.scrollHeight - list.scrollTop - list.clientHeight < 80;
    });
    new ResizeObserver(() => this.#follow()).observe(list);
  }

  get empty() {
    return !this.list.childElementCount;
  }

  /** What comes from now on is of this session. */
  enter(session) {
    this.#session = session;
  }

  /** What the visitor says, as far as it has been understood; utterance 0: what was typed. */
  transcript({ utterance, text: words, final, turn }) {
    if (utterance && !words && !this.#lines.has(this.#key("visitor", utterance))) return;
    if (utterance && final && !words) return this.#drop("visitor", utterance);
    const line = utterance ? this.#line("visitor", utterance) : this.#append("visitor");
    if (turn) line.dataset.turn = this.#key("turn", turn);
    this.#write(line, words, final || !utterance);
  }

  /** The next piece of an answer. */
  answer({ turn, text: words, final }) {
    if (!words && !this.#lines.has(this.#key("avatar", turn))) return;
    const line = this.#line("avatar", turn);
    this.#write(line, line.textContent + words, final);
    this.#tell(line, final);
  }

  /** Sentence by sentence: all of a long answer comes late. */
  #tell(line, final) {
    const said = line.textContent;
    const told = this.#told.get(line) ?? 0;
    const rest = said.slice(told);
    const news = this.audible() || final ? rest : (rest.match(SENTENCES)?.[0] ?? "");
    this.#told.set(line, told + news.length);
    if (this.audible() || !news.trim()) return;
    announce(told ? news : `${line.dataset.speaker || text("transcript.avatar")}: ${news}`);
  }

  /** The next piece of what an answer shows and does not say. */
  shown({ turn, block, language, text: piece }) {
    const line = this.#line("shown", `${turn}.${block}`);
    if (!line.dataset.written) hint(text(nameOf(language)));
    showBlock(line, (line.dataset.written ?? "") + piece, language);
    this.#follow();
  }

  /** Where what the answer is made of stands; shown once the line is there. */
  sources({ turn, sources }) {
    const told = sources.map(({ file, heading }) => (heading ? `${heading} (${file})` : file));
    showSources(this.#line("avatar", turn), `${text("captions.sources")} ${told.join(" · ")}`);
    this.#follow();
  }

  /**
   * The end of a turn; of an interrupted one, what was not heard any more is shown apart. One that
   * is replaced leaves nothing: what was asked goes on growing, and another turn answers it.
   */
  turn({ turn, event, heard }) {
    if (event === "replaced") {
      for (const key of this.#lines.keys()) {
        if (key.startsWith(this.#key("shown", `${turn}.`))) this.#remove(key);
      }
      return this.#drop("avatar", turn);
    }
    const line = this.#lines.get(this.#key("avatar", turn));
    if (!line || !["finished", "interrupted", "failed"].includes(event)) return;
    line.dataset.ended = event;
    line.removeAttribute("data-partial");
    if (event === "interrupted" && heard != null) strike(line, heard);
  }

  /** What was said while nobody listened. @param {object[]} turns as the gateway keeps them */
  catchUp(turns) {
    const oldest = this.#oldest();
    for (const { turn, transcript, answer, heard, state, shown } of turns) {
      if (!answer || turn < oldest) continue;
      if (state === "replaced") {
        this.turn({ turn, event: state });
        continue;
      }
      if (transcript) this.#catchUpQuestion(turn, transcript);
      const known = this.#lines.get(this.#key("avatar", turn))?.textContent ?? "";
      const goesOn = ["opened", "speaking"].includes(state);
      // While it goes on more may have come than is told here; in the end it is this, and no piece of it twice.
      if (goesOn ? known.length < answer.length : known !== answer) {
        const line = this.#line("avatar", turn, this.#from(turn + 1));
        write(line, answer);
        delete line.dataset.heard;
        line.toggleAttribute("data-partial", goesOn);
      }
      this.turn({ turn, event: state, heard }); // it may have been cut short meanwhile
      this.#catchUpBlocks(turn, shown);
    }
    this.#follow();
  }

  /** In front of its answer, of which pieces may have come first. */
  #catchUpQuestion(turn, transcript) {
    const asked = [...this.list.querySelectorAll("[data-side=visitor]")].some(({ dataset, textContent }) =>
      dataset.turn ? dataset.turn === this.#key("turn", turn) : textContent === transcript,
    );
    const answer = this.#from(turn);
    // One that is answered anew is of the newest turn, and stands in front of the earlier ones' answers, too.
    const anew = this.#lines.has(this.#key("avatar", turn)) && answer.querySelector("[data-side=visitor]");
    if (asked || anew) return;
    const question = this.#begun(answer) ?? this.#append("visitor", "", answer);
    question.dataset.turn = this.#key("turn", turn);
    this.#write(question, transcript, true);
  }

  #catchUpBlocks(turn, blocks = []) {
    for (const { block, language, text: written } of blocks) {
      const line = this.#line("shown", `${turn}.${block}`, this.#from(turn + 1));
      if (written.length > (line.dataset.written?.length ?? 0)) showBlock(line, written, language);
    }
  }

  /** The first turn that is still shown; 0: none had to give way to newer ones. */
  #oldest() {
    if (this.list.childElementCount < LINES_KEPT) return 0;
    const answers = this.#key("avatar", "");
    const first = this.#all.find(({ dataset }) => dataset.of?.startsWith(answers));
    return Number(first?.dataset.of.slice(answers.length) ?? 0);
  }

  /** Where this turn begins, or a later one; null: none has. @returns {HTMLLIElement | null} */
  #from(turn) {
    const first = this.#all.find(({ dataset }) => {
      const [session, side, number] = (dataset.turn ?? dataset.of ?? "").split(" ");
      return session === this.#session && side !== "visitor" && parseInt(number) >= turn;
    });
    return first?.parentElement ?? null;
  }

  /** The question in front of this whose end was not heard here, if there is one. */
  #begun(answer) {
    const items = [...this.list.children];
    const before = answer ? items.slice(0, items.indexOf(answer)) : items;
    const last = before.flatMap((item) => [...item.querySelectorAll("[data-side=visitor]")]).at(-1);
    return last?.hasAttribute("data-partial") ? last : null;
  }

  /** A remark of the page between the lines. @param {string} key of i18n.js */
  note(key) {
    this.finish();
    const line = this.#append("note");
    line.dataset.i18n = key;
    this.#write(line, text(key), true);
    announce(text(key));
  }

  /** Nothing more will come of lines that are not complete. */
  finish() {
    for (const line of this.list.querySelectorAll("[data-partial]")) {
      line.removeAttribute("data-partial");
      if (line.dataset.side === "avatar") line.dataset.ended = "interrupted";
    }
  }

  clear() {
    this.#lines.clear();
    this.list.replaceChildren();
  }

  /** All lines as plain values: {side, words, speaker, of?, partial, heard?, ended?, key?, sources?, language?, turn?}. */
  records() {
    return this.#all.map(({ dataset, textContent }) => ({
      side: dataset.side,
      words: dataset.written ?? textContent,
      language: dataset.language,
      turn: dataset.turn,
      speaker: dataset.speaker ?? "",
      of: dataset.of,
      partial: "partial" in dataset,
      ended: dataset.ended,
      heard: dataset.heard,
      key: dataset.i18n,
      sources: dataset.sources,
    }));
  }

  /** What was said and heard, for a session that goes on from it: the newest lines. */
  history() {
    return this.records()
      .map(asSaid)
      .filter(({ side, text: said }) => side !== "note" && said)
      .slice(-HISTORY_KEPT);
  }

  /** The lines that `records` gave before the page was loaded again. */
  restore(records) {
    for (const { side, words, speaker, of, partial, ended, heard, key, sources, language, turn } of records) {
      if (!SIDES.includes(side) || typeof words !== "string") continue;
      const line = this.#append(side, of);
      if (side === "shown") showBlock(line, words, language);
      else write(line, key ? text(key) : words);
      if (side === "avatar") name(line, speaker);
      line.toggleAttribute("data-partial", partial === true);
      if (ended) line.dataset.ended = ended;
      if (turn) line.dataset.turn = turn;
      if (sources) showSources(line, sources);
      if (key) line.dataset.i18n = key;
      if (heard !== undefined) strike(line, heard);
    }
    this.#follow();
  }

  #key(side, number) {
    return `${this.#session} ${side} ${number}`;
  }

  #line(side, number, before = null) {
    const key = this.#key(side, number);
    return this.#lines.get(key) ?? this.#append(side, key, before);
  }

  get #all() {
    return [...this.list.querySelectorAll(".line")];
  }

  /** @param {HTMLLIElement | null} before null: at the end */
  #append(side, key, before = null) {
    const line = document.createElement("div");
    line.className = "line";
    line.dataset.side = side;
    line.dir = side === "shown" ? "ltr" : "auto";
    if (key) {
      line.dataset.of = key;
      this.#lines.set(key, line);
    }
    const item = document.createElement("li");
    item.append(line);
    if (side === "avatar") name(line, this.speaker);
    if (side === "visitor") label(line, text("transcript.you"), "transcript.you");
    this.list.insertBefore(item, before);
    for (const { dataset } of this.#all.slice(0, -LINES_KEPT)) this.#lines.delete(dataset.of);
    while (this.list.childElementCount > LINES_KEPT) this.list.firstElementChild.remove();
    return line;
  }

  #write(line, words, final) {
    // A question that is answered anew is told again.
    const known = line.textContent === words && !line.hasAttribute("data-partial");
    write(line, words);
    line.toggleAttribute("data-partial", !final);
    if (line.dataset.side === "visitor" && final && !known && !this.audible()) {
      announce(`${text("transcript.you")}: ${words}`);
    }
    this.#follow();
  }

  #drop(side, number) {
    this.#remove(this.#key(side, number));
  }

  #remove(key) {
    this.#lines.get(key)?.parentElement.remove();
    this.#lines.delete(key);
  }

  #follow() {
    if (this.#following) this.list.scrollTop = this.list.scrollHeight;
  }
}

/** A line as both have said it, for whoever goes on from it. */
function asSaid({ side, words, heard, language }) {
  const shown = language === TABLE ? words : `\`\`\`${language}\n${words}\n\`\`\``;
  const said = side === "shown" ? shown : (heard ?? words);
  return { side: side === "shown" ? "avatar" : side, text: said.trim().slice(0, LINE_KEPT) };
}

/** Who says a line: the eye sees it by its place. @param {string} key of i18n.js, where it has one */
function label(line, who, key = "") {
  const said = document.createElement("span");
  said.className = "unseen";
  if (key) said.dataset.i18n = key;
  said.textContent = who;
  line.parentElement.querySelector(".unseen")?.remove();
  line.before(said);
}

function name(line, speaker) {
  line.dataset.speaker = speaker;
  if (speaker) label(line, speaker);
  else label(line, text("transcript.avatar"), "transcript.avatar");
}

function showSources(line, told) {
  line.dataset.sources = told;
  line.parentElement.querySelector(".sources")?.remove();
  const sources = document.createElement("small");
  sources.className = "sources";
  sources.textContent = told;
  line.after(sources);
}

/** What a block is, by a key of i18n.js. */
function nameOf(language) {
  return language === TABLE ? "captions.table" : "captions.code";
}

/** Fills a line with code, or with a table, as far as it is written. */
function showBlock(line, written, language = "") {
  Object.assign(line.dataset, { written, language });
  const table = language === TABLE;
  const content = document.createElement(table ? "table" : "code");
  if (table) content.append(...rowsOf(written));
  else content.textContent = written.trimEnd();
  const frame = document.createElement("div");
  frame.tabIndex = 0; // wide ones are scrolled
  frame.setAttribute("role", "group");
  frame.setAttribute("aria-label", text(nameOf(language)));
  frame.append(content);
  const copy = document.createElement("button");
  copy.type = "button";
  copy.dataset.i18n = "copy";
  copy.textContent = text("copy");
  copy.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(written);
      copy.textContent = text("copied");
    } catch {
      getSelection().selectAllChildren(content); // no clipboard without https: to be copied by hand
    }
  });
  line.replaceChildren(frame, copy);
}

/** The rows of a table in markdown; the second line only parts the first from the others. */
function rowsOf(markdown) {
  const lines = markdown.trim().split("\n");
  return lines
    .filter((line) => !/^[\s|:-]+$/.test(line))
    .map((line, index) => {
      const row = document.createElement("tr");
      for (const words of line.trim().replace(/^\||\|$/g, "").split("|")) {
        const cell = document.createElement(index || lines.length < 2 ? "td" : "th");
        if (cell.matches("th")) cell.scope = "col";
        cell.textContent = words.replace(/\*\*|`/g, "").trim();
        row.append(cell);
      }
      return row;
    });
}

function strike(line, heard) {
  const said = line.textContent;
  if (!said.startsWith(heard)) return;
  const unheard = document.createElement("s");
  unheard.dataset.about = text("captions.unsaid");
  write(unheard, said.slice(heard.length));
  write(line, heard);
  line.dataset.heard = heard;
  line.append(unheard);
}
