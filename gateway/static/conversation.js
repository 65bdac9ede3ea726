/**
 * The conversation that the page shows: begun, taken up again, begun anew, left. Between the
 * connection, which knows no page, and what the page shows of it. body[data-phase] tells start,
 * starting or live.
 */
import { Connection } from "./connection.js";
import { text } from "./i18n.js";
import { handOn } from "./focus.js";
import { forget, remember, remembered } from "./memory.js";
import { inPlainWords } from "./refusals.js";

const TRANSPORTS = { webrtc: "WebRTC", websocket: "WebSocket" };

export class Conversation {
  /** The one that runs. */
  connection = null;
  /** The one that is being made, or waits in line. */
  #starting = null;
  /** Something may have been said that the captions have not heard of. */
  #behind = false;
  #session = "";
  #last = "";
  /** The newest turn that was told of. */
  #turn = 0;
  /** What was typed and may not have arrived: {words, from: the first turn that may be its, missed}. */
  #sent = new Set();

  /**
   * @param {object} parts api, stage, captions, latency, queue, recording, talk, toasts,
   *   settings(): {preference, join, role} of Connection, wish(): what a session is to be,
   *   avatarsChanged(): there is one less,
   *   prepareFace(): who draws the face, face(stream): what it is then drawn from,
   *   unheard(words): what was typed has not arrived, heard(words): it has, after all,
   *   gone() where one that was joined has ended,
   *   report(error), begun(withMicrophone) after one has come to life, ended() after it has gone
   */
  constructor(parts) {
    Object.assign(this, parts);
    for (const type of ["pagehide", "visibilitychange"]) addEventListener(type, () => this.#keep());
    addEventListener("pagehide", () => this.#leave());
  }

  get sessionId() {
    return this.connection?.sessionId;
  }

  get #phase() {
    return document.body.dataset.phase;
  }

  set #phase(phase) {
    document.body.dataset.phase = phase;
  }

  // -- begin, go on, begin anew, leave ----------------------------------------

  /** @param {string} resume the page's own session from before; recordedSince_ms: it is recorded */
  async start(withMicrophone, resume = this.#last, recordedSince_ms = 0) {
    if (this.#phase !== "start") return;
    this.#phase = "starting";
    handOn(document.querySelector("#start"), document.querySelector("#start-busy"));
    const settings = { ...this.settings(), drawnBy: await this.prepareFace() };
    const history = () => this.captions.history();
    const connection = new Connection(this.api, this.stage.video, { ...settings, resume, history });
    this.#follow(connection);
    const wish = { ...this.wish(), drawn_by: settings.drawnBy };
    if (!(await this.#begin(connection, () => connection.start(wish)))) return;
    // Told before the visitor is asked for his microphone, which he may leave unanswered.
    if (recordedSince_ms && this.sessionId === resume) this.recording.goOn(recordedSince_ms);
    await this.begun(withMicrophone && settings.role !== "viewer");
  }

  /** Goes on where a page that was loaded again has been; false: there is nothing to go on with. */
  async resume() {
    const last = remembered();
    if (!last) return false;
    this.captions.restore(last.lines);
    let there = false;
    try {
      there = await this.api.resume(last.session);
    } catch (error) {
      this.report(error);
    }
    // Of one that is not there any more, what was said is: the visitor begins when he wants to.
    this.#last = last.session;
    if (there) await this.start(last.microphone, last.session, last.recordedSince_ms);
    return there;
  }

  /** What was said is forgotten, by the page and by the language model. */
  async renew() {
    if (this.settings().join || this.connection?.status !== "live") return;
    await this.recording.ended();
    const connection = this.connection;
    if (connection?.status !== "live") return;
    this.recording.reset();
    this.captions.clear();
    this.latency.clear();
    forget();
    this.stage.state("idle");
    const wish = { ...this.wish(), drawn_by: connection.drawnBy };
    if (await this.#begin(connection, () => connection.renew(wish))) {
      this.toasts.show(text("conversation.renewed"));
    } else {
      this.#end();
    }
  }

  /** Whether it has come to something; else the start screen says why. */
  async #begin(connection, connect) {
    this.#starting = connection;
    this.toasts.over("start");
    try {
      await connect();
    } catch (error) {
      this.#phase = "start";
      if (this.#starting) this.report(error, "start"); // else the visitor has left the line
      return false;
    } finally {
      this.#starting = null;
      this.queue.hide();
    }
    this.connection = connection;
    this.#phase = "live";
    return true;
  }

  /** The visitor does not want to wait in line any more. */
  leaveLine() {
    const waiting = this.#starting;
    this.#starting = null;
    void waiting?.stop();
  }

  /** The page goes, or is loaded again: the session is kept for a while. */
  #leave() {
    this.#keep();
    void this.#starting?.stop();
    this.connection?.leave();
  }

  #keep() {
    const { join } = this.settings();
    if (!this.sessionId || join) return;
    const { microphone } = document.body.dataset;
    remember({
      session: this.sessionId,
      lines: this.captions.records(),
      microphone: ["on", "muted", "opening"].includes(microphone),
      recordedSince_ms: this.recording.since_ms,
    });
  }

  // -- what comes ---------------------------------------------------------------

  #follow(connection) {
    const on = (type, act) => connection.addEventListener(type, ({ detail }) => act(detail));
    on("connection", (detail) => this.#connected(detail));
    on("entered", (detail) => this.#entered(detail));
    on("place", (detail) => this.#placed(detail));
    on("state", ({ state }) => this.stage.state(state));
    on("transcript", (detail) => this.#transcribed(detail));
    on("answer", (detail) => this.captions.answer(detail));
    on("answer.shown", (detail) => this.captions.shown(detail));
    on("answer.sources", (detail) => this.captions.sources(detail));
    on("turn", (detail) => this.#turned(detail));
    on("latency", (detail) => this.latency.show(detail));
    on("error", ({ code, message }) => {
      if (code === "stage_away") this.toasts.show(inPlainWords(message));
      else this.toasts.error(inPlainWords(message));
      if (code === "recording_failed") void this.recording.ended();
    });
    on("warning", ({ code, message }) => {
      this.toasts.show(message);
      if (code === "avatar_deleted") this.avatarsChanged();
    });
    on("notice", ({ key }) => this.toasts.show(text(key)));
    on("over", () => this.#over());
    on("face", ({ stream }) => this.face(stream));
    on("session", ({ id }) => (document.body.dataset.session = id));
  }

  /** The one that was joined has ended. */
  #over() {
    this.#end();
    this.recording.reset();
    this.#phase = "start";
    this.gone();
  }

  #end() {
    this.connection = null;
    this.talk.stop();
    this.ended();
  }

  #placed(place) {
    if (!this.#starting) return;
    this.#phase = "starting";
    this.queue.show(place);
  }

  /** Turns are counted anew in a session that is new; of what was before it knows what is written. */
  #entered({ id, renewed }) {
    this.#session = id;
    this.#last = "";
    this.captions.enter(id);
    this.#behind = !renewed && !this.captions.empty;
    if (!renewed) return;
    this.#turn = 0;
    for (const message of this.#sent) message.from = Infinity; // it is in no turn of this one
    this.latency.clear();
    if (!this.captions.empty) this.captions.note("captions.renewed");
    if (document.body.dataset.recording === "on") this.toasts.error(text("record.lost"));
    this.recording.reset();
  }

  #transcribed(detail) {
    this.captions.transcript(detail);
    if (detail.utterance === 0) this.#arrived(detail.text);
  }

  #turned(detail) {
    this.captions.turn(detail);
    this.#turn = Math.max(this.#turn, detail.turn);
    if (detail.event !== "opened" && detail.event !== "speaking") void this.#catchUp();
  }

  /** Of an answer that went on while nobody was connected, the captions have but pieces. */
  async #catchUp() {
    if (!this.#behind || this.settings().role === "viewer") return;
    try {
      this.captions.catchUp(await this.api.turns(this.#session));
      this.#behind = document.body.dataset.state !== "idle";
    } catch (error) {
      console.info("visavis: the captions have gaps:", error.message);
    }
  }

  #missed(message) {
    if (!this.#sent.has(message)) return; // it was told of meanwhile
    message.missed = true;
    this.unheard(message.words);
    void this.#findMissed();
  }

  /** What nobody answered for may have arrived all the same; then it is not to be sent again. */
  async #findMissed() {
    if (!this.#sent.size || this.connection?.status !== "live") return;
    try {
      for (const { turn, transcript } of await this.api.turns(this.#session)) this.#arrived(transcript, turn);
    } catch (error) {
      console.info("visavis: whether it has arrived cannot be told:", error.message);
    }
  }

  #arrived(words, turn = Infinity) {
    for (const message of this.#sent) {
      if (message.words !== words || turn < message.from) continue;
      this.#sent.delete(message);
      if (message.missed) this.heard(words);
      return;
    }
  }

  #connected({ status, transport }) {
    const { dataset } = document.body;
    dataset.connection = status;
    dataset.transport = transport;
    if (status === "reconnecting") this.stage.state("idle");
    this.stage.connection(status);
    if (status === "live") {
      this.toasts.over("gateway");
      void this.#catchUp();
      void this.#findMissed();
    }
    const words = document.querySelector(".connection-status");
    words.dataset.i18n = `connection.${status}`;
    words.textContent = text(words.dataset.i18n);
    document.querySelector(".connection-transport").textContent = TRANSPORTS[transport] ?? "";
  }

  // -- what the visitor does ------------------------------------------------------

  /** False: there is no connection, and the visitor was told so. */
  say(words) {
    const answered = this.connection?.say(words);
    if (!answered) {
      this.toasts.error(text("notice.offline"), "gateway");
      return false;
    }
    for (const message of this.#sent) if (message.missed) this.#sent.delete(message); // this is all of it
    const message = { words, from: this.#turn + 1, missed: false };
    this.#sent.add(message);
    void answered.then((heard) => (heard ? this.#sent.delete(message) : this.#missed(message)));
    return true;
  }

  /** What stands in the message field so far: what is read by then need not be read once it is sent. */
  typing(words) {
    if (this.settings().role !== "viewer") this.connection?.send({ type: "typing", text: words });
  }

  interrupt() {
    if (this.settings().role === "viewer") return;
    if (["thinking", "speaking"].includes(document.body.dataset.state)) {
      this.connection?.send({ type: "interrupt" });
    }
  }

  /** @param {object} change of the session's options, from the next turn on */
  async update(change) {
    try {
      await (this.#starting ?? this.connection)?.update(change);
    } catch (error) {
      this.report(error);
    }
  }

  /** @param {"auto" | "webrtc" | "websocket"} transport from now on */
  prefer(transport) {
    (this.#starting ?? this.connection)?.prefer(transport);
  }

  /** @param {"server" | "client"} by who draws the face from now on */
  async drawnBy(by) {
    await this.update({ drawn_by: by });
    (this.#starting ?? this.connection)?.draw(by);
  }
}
