/**
 * The operator's desk of a live room: asks how the room stands once a second, shows it, and hands
 * on what the operator wants. What viewers have written is only ever put in as text.
 */
import { Api } from "../api.js";
import { handOn } from "../focus.js";
import { learn, speak, text, translate } from "../i18n.js";
import { filled, sendLine } from "../live/words.js";
import { Preferences } from "../preferences.js";
import { askForKey } from "../settings.js";
import { ROOM_TEXTS } from "./texts.js";

const EVERY_MS = 1000;
const byId = (id) => document.getElementById(id);

/** An element with text; children are elements. */
function made(tag, className, content, ...children) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (content) node.textContent = content;
  node.append(...children);
  return node;
}

/**
 * Brings the children of `list` in line with `items`, keeping those that stay where they are: a
 * button that has the focus keeps it.
 */
function keep(list, items, keyOf, make, refresh) {
  const there = new Map(); // some may be the same twice
  for (const child of list.children) {
    there.set(child.dataset.key, [...(there.get(child.dataset.key) ?? []), child]);
  }
  let before = list.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    let node = there.get(key)?.shift();
    if (!node) {
      node = make(item);
      node.dataset.key = key;
    }
    if (node === before) before = before.nextElementSibling;
    else list.insertBefore(node, before);
    refresh(node, item);
  }
  for (const gone of [...there.values()].flat()) {
    const { nextElementSibling: after, previousElementSibling: previous } = gone;
    handOn(gone, (after ?? previous)?.querySelector("button") ?? list);
    gone.remove();
  }
}

/** Sets text only where it changes, so that nobody is told the same twice. */
function put(node, content) {
  if (node.textContent !== content) node.textContent = content;
}

class Desk {
  query = new URLSearchParams(location.search);
  preferences = new Preferences(this.query);
  api = new Api(() => askForKey(byId("key")));
  session = this.query.get("session") ?? "";
  words = null;
  timer = 0;
  /** What the last look said that is wrong. */
  trouble = "";

  start() {
    learn(ROOM_TEXTS);
    for (const radio of document.querySelectorAll("input[name=language]")) {
      radio.checked = radio.value === this.preferences.get("language");
      radio.addEventListener("change", () => {
        this.preferences.set("language", radio.value);
        this.speak(radio.value);
      });
    }
    this.speak(this.preferences.get("language"));
    const appearance = this.preferences.get("appearance");
    if (appearance !== "auto") document.documentElement.dataset.appearance = appearance;
    this.listen();
    void this.look();
  }

  speak(language) {
    speak(language);
    document.title = text("room.title");
    for (const list of ["now", "waiting", "recent", "banned"]) byId(list).replaceChildren(); // anew
    if (this.room) this.show(this.room);
  }

  listen() {
    byId("choose").addEventListener("submit", (event) => this.done(event, () => this.open()));
    byId("say").addEventListener("submit", (event) => this.done(event, () => this.say()));
    byId("block").addEventListener("submit", (event) =>
      this.done(event, () => this.command({ type: "block", words: lines(byId("words").value) })),
    );
    byId("pause").addEventListener("click", () =>
      this.done(null, () => this.command({ type: this.room.paused ? "resume" : "pause" })),
    );
    byId("skip").addEventListener("click", () => this.done(null, () => this.command({ type: "skip" })));
    byId("close").addEventListener("click", () => this.done(null, () => this.close()));
  }

  /** Does what was asked for; what is wrong with it is told. */
  async done(event, work) {
    event?.preventDefault();
    try {
      await work();
      this.tell("");
    } catch (error) {
      this.tell(error.message);
    }
  }

  tell(message) {
    byId("fault").hidden = !message;
    put(byId("fault"), message);
  }

  path(end = "") {
    return `v1/sessions/${encodeURIComponent(this.session)}/room${end}`;
  }

  async command(body) {
    this.show(await this.api.json("POST", this.path("/commands"), { body }));
  }

  async say() {
    await sendLine(byId("say-text"), (words) => this.command({ type: "say", text: words }));
  }

  async open() {
    this.session = byId("session").value;
    const channel = byId("twitch").value.trim();
    const body = {
      addressed_as: byId("names").value.split(/[,，、]/).map((name) => name.trim()).filter(Boolean),
      script: lines(byId("script").value).map((say) => ({ say })),
      blocked_words: lines(byId("first-words").value),
      ...(channel && { twitch: { channel } }),
    };
    this.words = null;
    this.show(await this.api.json("POST", this.path(), { body }));
  }

  async close() {
    await this.api.json("DELETE", this.path());
    this.room = null;
    await this.look();
  }

  /** How the room stands; without one, which sessions there are. */
  async look() {
    clearTimeout(this.timer);
    let trouble = "";
    try {
      if (!this.session) await this.choose();
      else this.show(await this.api.json("GET", this.path()));
    } catch (error) {
      if (error.status === 404) {
        this.room = null;
        await this.choose().catch((fault) => (trouble = fault.message));
      } else if (error.status === 0) put(byId("connection"), text("room.lost"));
      else trouble = error.message;
    }
    if (trouble) this.tell(trouble);
    else if (byId("fault").textContent === this.trouble) this.tell(""); // that is over
    this.trouble = trouble;
    this.timer = setTimeout(() => void this.look(), EVERY_MS);
  }

  async choose() {
    const { sessions } = await this.api.json("GET", "v1/sessions");
    if (!this.room) this.phase("choose");
    put(byId("connection"), sessions.length ? "" : text("room.session.none"));
    const select = byId("session");
    const chosen = select.value || this.session;
    const ids = sessions.map(({ id }) => id);
    if (ids.join() !== [...select.options].map((option) => option.value).join()) {
      select.replaceChildren(
        ...sessions.map(({ id, avatar, language }) => new Option(`${id} ${avatar} ${language}`, id)),
      );
      if (ids.includes(chosen)) select.value = chosen;
    }
  }

  phase(name) {
    document.body.dataset.phase = name;
    byId(name).hidden = false;
    const [other, next] = name === "desk" ? ["choose", "pause"] : ["desk", "session"];
    handOn(byId(other), byId(next));
    byId(other).hidden = true;
  }

  // -- showing -------------------------------------------------------------

  show(room) {
    this.room = room;
    this.phase("desk");
    put(byId("connection"), text(room.paused ? "room.paused" : "room.live"));
    document.body.toggleAttribute("data-paused", room.paused);
    put(byId("pause").firstElementChild, text(room.paused ? "room.resume" : "room.pause"));
    byId("skip").disabled = !room.current;
    this.showNow(room);
    this.showWaiting(room);
    this.showRecent(room);
    this.showCoverage(room);
    this.showRules(room);
  }

  showNow({ current, next, to_say }) {
    const said = current ? [current] : [];
    const now = byId("now");
    if (!current && !now.querySelector(".empty")) {
      now.replaceChildren(made("p", "empty", text("room.nothing")));
    } else if (current) {
      now.querySelector(".empty")?.remove();
      keep(now, said, (one) => `${one.turn} ${one.text}`, said_of, refreshSaid);
    }
    put(byId("next"), next ? filled("room.next", { name: next.name, text: next.text }) : "");
    keep(byId("to-say"), to_say, (line) => line, (line) => made("li", "", line), () => {});
  }

  showWaiting({ waiting, waiting_in_all }) {
    put(byId("waiting-count"), waiting_in_all ? String(waiting_in_all) : "");
    byId("waiting-empty").hidden = waiting.length > 0;
    keep(
      byId("waiting"),
      waiting,
      (entry) => `${entry.platform} ${entry.author} ${entry.text}`,
      (entry) => this.waitingOf(entry),
      refreshWaiting,
    );
  }

  waitingOf(entry) {
    const drop = this.button(filled("room.drop", { name: entry.name }), {
      type: "skip",
      platform: entry.platform,
      id: entry.id,
    });
    return made(
      "li",
      "",
      "",
      made("p", "who", "", made("strong", "", entry.name), made("span", "about")),
      made("p", "text", entry.text),
      made("div", "does", "", drop, this.ban(entry)),
    );
  }

  ban({ author, name }) {
    return this.button(filled("room.ban", { name }), { type: "ban", author, name });
  }

  button(label, command) {
    const button = made("button", "quiet", label);
    button.type = "button";
    button.addEventListener("click", () => this.done(null, () => this.command(command)));
    return button;
  }

  showRecent({ recent }) {
    keep(
      byId("recent"),
      recent,
      (one) => `${one.turn} ${one.text}`,
      (one) => {
        const item = made("li", "", "", ...said_of(one).children);
        if (one.author) item.append(made("div", "does", "", this.ban(one)));
        return item;
      },
      refreshSaid,
    );
  }

  showCoverage({ coverage, platforms }) {
    const seconds = (value) => (value === null || value === undefined ? "–" : `${value.toFixed(1)} s`);
    pairs(byId("figures"), [
      [text("room.received"), String(coverage.received)],
      [text("room.share"), `${(100 * coverage.answered_share).toFixed(1)} %`],
      [text("room.unsettled"), String(coverage.unsettled)],
      [text("room.median"), seconds(coverage.age_median_s)],
      [text("room.most"), seconds(coverage.age_most_s)],
    ]);
    const outcomes = Object.entries(coverage.outcomes);
    pairs(byId("outcomes"), outcomes.map(([name, count]) => [text(`outcome.${name}`), String(count)]));
    keep(
      byId("platforms"),
      platforms,
      ({ platform, room }) => `${platform} ${room}`,
      () => made("li", "", "", made("span"), made("span")),
      (node, { platform, room, phase, received, message }) => {
        put(node.firstElementChild, `${platform} ${room}`);
        put(node.lastElementChild, message ? `${phase}: ${message}` : `${phase}, ${received}`);
      },
    );
  }

  showRules({ banned, blocked_words }) {
    const told = blocked_words.join("\n");
    if (this.words !== told) byId("words").value = told; // not over what is being written
    this.words = told;
    const names = Object.entries(banned);
    byId("banned-empty").hidden = names.length > 0;
    keep(
      byId("banned"),
      names,
      ([author]) => author,
      ([author, name]) => {
        const label = filled("room.unban", { name: name || author });
        return made("li", "", "", made("span", "", author), this.button(label, { type: "unban", author }));
      },
      () => {},
    );
  }
}

function lines(value) {
  return value.split("\n").map((line) => line.trim()).filter(Boolean);
}

function pairs(list, rows) {
  const wanted = rows.map(([name, value]) => `${name}\t${value}`).join("\n");
  if (list.dataset.shown === wanted) return;
  list.dataset.shown = wanted;
  list.replaceChildren(...rows.flatMap(([name, value]) => [made("dt", "", name), made("dd", "", value)]));
}

function said_of(one) {
  const answer = made("p", "answer");
  answer.setAttribute("aria-live", "off"); // it grows, and would be read from its beginning each time
  return made(
    "div",
    "said",
    "",
    made("p", "who", "", made("strong", "", one.name), made("span", "about")),
    made("p", "text", one.text),
    answer,
  );
}

function refreshSaid(node, one) {
  const about = [text(`room.why.${one.why}`)];
  if (one.platform) about.push(one.platform);
  if (one.age_s !== null && one.age_s !== undefined) about.push(filled("room.age", { s: one.age_s }));
  if (one.outcome && one.author) about.push(text(`outcome.${one.outcome}`));
  put(node.querySelector(".about"), about.join(" · "));
  put(node.querySelector(".answer"), one.answer === one.text ? "" : one.answer);
}

function refreshWaiting(node, entry) {
  const about = [entry.platform, filled("room.age", { s: Math.round(entry.age_s) })];
  if (entry.others) about.push(filled("room.others", { n: entry.others }));
  if (entry.amount) about.push(`${entry.amount} ${entry.currency}`);
  about.push(filled("room.score", { n: entry.score.toFixed(1) }));
  put(node.querySelector(".about"), about.join(" · "));
}

translate(document);
new Desk().start();
