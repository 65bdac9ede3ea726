/**
 * One conversation with the gateway: a session, its event socket and its
 * media, brought back whenever any of them is lost. WebRTC is tried first;
 * where it cannot connect the media go over a WebSocket.
 *
 * Events: every event of the gateway under its type, and
 *   "connection" {status: "offline" | "connecting" | "live" | "reconnecting", transport}
 *   "entered" {id, renewed} whenever a session is joined; renewed: it knows of the last one what
 *     `history` tells, and no more
 *   "place" {position, expected_wait_s} while the session has to be waited for
 *   "over" {} a session that was joined is no more, or can be entered no more
 *   "face" {stream} what a face is drawn from on this device; null: nothing any more
 *   "notice" {key} something the visitor should know, a key of i18n.js
 */
import { ApiError, REFUSED } from "./api.js";
import { EventChannel } from "./events.js";
import { FaceStream } from "./head/stream.js";
import { Hush } from "./hush.js";
import { text } from "./i18n.js";
import { SocketMedia } from "./media_ws.js";
import { onAbort } from "./sockets.js";
import { WebRtcMedia } from "./webrtc.js";

/** How turns end of which more may be buffered than is to be heard. */
const CUT = ["interrupted", "replaced"];
const FORWARDED = ["session", "state", "transcript", "answer", "answer.shown", "answer.sources", "turn", "latency", "error", "warning"];
/** No reason to give up WebRTC: no session, its microphone still taken, no answer at all. */
const TEMPORARY = [404, 409, 0];
/** A session that was joined has ended, or its token holds no more. */
const OVER = "over";
const FIRST_RETRY_MS = 500;
const LAST_RETRY_MS = 2000; // a gateway that is started again is there within seconds
const PLACE_RETRIES = 20; // longer than a place is kept that nobody asks for
const PLACES_LOST = 3; // so many are lost with their gateways before the visitor is told
/** Who says nothing between two looks is asked, and is gone after so many of them. */
const LOOK_MS = 1000;
const SILENT_LOOKS = 4;
const PONG_LIMIT_MS = 3000;
/** On a network that has just become another one. */
const PONG_AT_ONCE_MS = 1000;

export class Connection extends EventTarget {
  sessionId = null;
  #api;
  #video;
  #options;
  #joined;
  #role;
  #preference;
  #events = null;
  #media = null;
  #drawnBy;
  #face = null;
  #microphone = null;
  #abort = null;
  #status = "offline";
  #hush;
  #speaking = false;
  /** A part of what is being connected has been lost before the last one came. */
  #lost = false;
  /** What has been chosen since, and the session has not been told. */
  #untold = {};
  /** There was a session before the one that is made, which goes on from what was said in it. */
  #known = false;
  /** The session was made here, and for nobody else. */
  #made = false;
  #history;

  /**
   * @param {{preference: "auto" | "webrtc" | "websocket", join?: string, role?: string, resume?: string,
   *   history?: () => object[], drawnBy?: "server" | "client"}} settings
   *   join: a session that there is, instead of a new one; role: "visitor" or "viewer" of it;
   *   resume: the page's own from before, if it is still there; history(): what was said so far,
   *   for a session that takes the place of one; drawnBy: who draws the face
   */
  constructor(
    api,
    video,
    { preference, join = "", role = "visitor", resume = "", history = () => [], drawnBy = "server" },
  ) {
    super();
    this.#api = api;
    this.#video = video;
    this.#preference = preference;
    this.#drawnBy = drawnBy;
    this.#joined = join;
    this.sessionId = resume || null;
    this.#known = Boolean(resume) || history().length > 0;
    this.#history = history;
    this.#role = role === "viewer" ? "viewer" : "speaker";
    this.#hush = new Hush(video);
  }

  get status() {
    return this.#status;
  }

  /** Who draws the face: "server" or "client". */
  get drawnBy() {
    return this.#drawnBy;
  }

  get transport() {
    return this.#media?.kind ?? "none";
  }

  /** Starts, or throws what the gateway said. */
  async start(options) {
    this.#options = options;
    this.#abort = new AbortController();
    this.#watchSilence(this.#abort.signal);
    this.#watchNetwork(this.#abort.signal);
    this.#become("connecting");
    try {
      await this.#connect();
    } catch (error) {
      await this.stop();
      throw error;
    }
  }

  /** Begins anew with a session that knows nothing of this one. Throws as `start` does. */
  async renew(options) {
    const last = this.sessionId;
    this.#options = options;
    this.#become("connecting");
    this.#closeLinks();
    this.sessionId = null;
    this.#known = false;
    try {
      if (last) await this.#api.deleteSession(last); // its place may be the only one
      await this.#connect();
    } catch (error) {
      await this.stop();
      throw error;
    }
  }

  async #connect() {
    const { signal } = this.#abort;
    this.#lost = false;
    await this.#ensureSession(signal);
    this.#events = this.#openEvents();
    await this.#events.open(this.#api.eventsSocket(this.sessionId), signal);
    if (this.#drawnBy === "client") await this.#openFace(signal); // before it is seen that somebody listens
    this.#media = await this.#openMedia(signal);
    this.#media.addEventListener("lost", () => this.#lose());
    await this.#media.setMicrophone(this.#microphone);
    await this.#tellChange().catch((error) => {
      if (error.status === 0) throw error;
      this.#tell("error", error);
    });
    if (this.#face) {
      this.#face.follow(this.#media.clock());
      this.#tell("face", { stream: this.#face });
    }
    this.#become("live");
    if (this.#lost) void this.#restore();
  }

  async #openFace(signal) {
    this.#face = new FaceStream();
    await this.#face.open(this.#api.faceSocket(this.sessionId), signal);
    this.#face.addEventListener("lost", () => this.#lose());
  }

  async #ensureSession(signal) {
    if (this.#joined) this.sessionId = this.#joined;
    const kept = this.sessionId && (await this.#stillThere(signal));
    if (this.#joined && !kept) throw new ApiError(410, OVER, text("error.gone"));
    this.#made = !kept;
    if (!kept) await this.#makeSession(signal);
    this.#tell("entered", { id: this.sessionId, renewed: !kept && this.#known });
    this.#known = true;
    this.#options = { ...this.#options, welcome: false }; // nobody is greeted twice
  }

  async #makeSession(signal) {
    for (let again = this.#status === "reconnecting", lost = 0; ; again = true, lost += 1) {
      const history = this.#known ? this.#history() : [];
      this.#untold = {};
      const made = await this.#api.createSession({ ...this.#options, ...(history.length && { history }) }, signal);
      this.sessionId = made.id;
      if (made.position === undefined) return;
      if (again) this.#tell("notice", { key: "queue.again" });
      const last = await this.#waitInLine(made, signal);
      if (last.state === "admitted") return;
      this.sessionId = null;
      const refused = last.state === "refused" && !last.again;
      if (refused || last.state === "left" || lost === PLACES_LOST) {
        throw new ApiError(410, last.state, last.message || text("queue.given-up"));
      }
      await pause(FIRST_RETRY_MS, signal); // its gateway ends, or has ended: another one has a place
    }
  }

  /** Until the session is there, under the id of the place, or will not be: what was told last. */
  async #waitInLine(place, signal) {
    for (let failures = 0; ; failures += 1) {
      this.#tell("place", place);
      const last = await this.#followPlace(signal);
      if (signal.aborted) throw signal.reason;
      place = last ?? place;
      if (place.state !== "waiting" || failures === PLACE_RETRIES) return place;
      if (!last && !(await this.#placeKept(signal))) {
        // The session may have come meanwhile, and have gone on in another gateway.
        return (await this.#stillThere(signal)) ? { ...place, state: "admitted" } : place;
      }
      await pause(FIRST_RETRY_MS, signal); // the connection was lost: the place is kept for a while
    }
  }

  /** What was last told of the place before its socket closed; null: nothing. */
  async #followPlace(signal) {
    const events = new EventChannel();
    let last = null;
    events.addEventListener("place", ({ detail }) => {
      last = detail;
      if (detail.state === "waiting") this.#tell("place", detail);
    });
    let forget;
    const closed = new Promise((resolve) => {
      events.addEventListener("lost", resolve, { once: true });
      forget = onAbort(signal, resolve);
    });
    try {
      await events.open(this.#api.placeSocket(this.sessionId), signal);
      await closed;
    } catch {
      return last; // nobody waits there any more, or the gateway is away
    } finally {
      forget();
      events.close();
    }
    return last;
  }

  /** False where a gateway says that nobody waits there; one that cannot be reached may come back. */
  async #placeKept(signal) {
    try {
      await this.#api.place(this.sessionId, signal);
      return true;
    } catch (error) {
      return !REFUSED.includes(error.status);
    }
  }

  /** After a lost connection the gateway may still hold the session, or may have been restarted. */
  async #stillThere(signal) {
    try {
      await this.#api.session(this.sessionId, signal);
      return true;
    } catch (error) {
      if (error instanceof ApiError && REFUSED.includes(error.status)) return false;
      throw error;
    }
  }

  #openEvents() {
    const events = new EventChannel();
    for (const type of FORWARDED) {
      events.addEventListener(type, ({ detail }) => {
        if (type === "state") this.#follow(detail.state);
        if (type === "turn" && CUT.includes(detail.event)) this.#silence();
        this.#tell(type, detail);
      });
    }
    events.addEventListener("lost", () => this.#lose());
    return events;
  }

  /** The avatar stops in the middle of an answer to listen, and may yet go on with it. */
  #follow(state) {
    if (state === "speaking") this.#hush.end();
    else if (this.#speaking && state === "listening") this.#hush.begin(this.#media?.held_ms);
    this.#speaking = state === "speaking";
  }

  #silence() {
    this.#hush.begin(this.#media?.held_ms);
    this.#media?.skip();
  }

  async #openMedia(signal) {
    if (this.#preference !== "websocket" && window.RTCPeerConnection) {
      try {
        const media = new WebRtcMedia(await this.#api.iceServers(this.sessionId, signal), this.#drawnBy);
        await media.connect(this.#video, this.#signalling(signal), this.#role, signal);
        return media;
      } catch (error) {
        if (this.#preference === "webrtc" || signal.aborted || TEMPORARY.includes(error.status)) throw error;
        console.info("visavis: WebRTC did not connect, using the WebSocket instead:", error.message);
        // On this network it will not connect next time either; a gateway may have room by then.
        if (!(error instanceof ApiError)) this.#preference = "websocket";
        this.#tell("notice", { key: "notice.fallback" });
      }
    }
    const media = new SocketMedia(this.#drawnBy);
    media.addEventListener("problem", ({ detail }) => this.#tell("error", detail));
    await media.connect(this.#video, this.#api.mediaSocket(this.sessionId, this.#role, this.#drawnBy), signal);
    return media;
  }

  #signalling(signal) {
    const id = this.sessionId;
    return {
      exchange: (offer) => this.#api.exchangeSdp(id, offer, signal),
      leave: (peerId) => void this.#api.closePeer(id, peerId),
    };
  }

  #lose() {
    this.#lost = true;
    void this.#restore();
  }

  /** Brings back what was lost; keeps trying until it works or stop() is called. */
  async #restore() {
    if (this.#status !== "live") return;
    const abort = this.#abort;
    this.#become("reconnecting");
    for (let wait_ms = FIRST_RETRY_MS; !abort.signal.aborted; wait_ms *= 1.5) {
      this.#closeLinks();
      await pause(Math.min(wait_ms, LAST_RETRY_MS) * (0.75 + Math.random() / 2), abort.signal);
      if (abort.signal.aborted) return;
      try {
        await this.#connect();
        return;
      } catch (error) {
        if (error.code === OVER) return this.#end();
        console.info("visavis: not back yet:", error.message);
      }
    }
  }

  /** Of somebody else's session there is no other one to make. */
  #end() {
    this.leave();
    this.#become("offline");
    this.#tell("over", {});
  }

  /** After a sleep, or where a machine has vanished, sockets look open that are not. */
  #watchSilence(signal) {
    let silent = 0;
    const look = () => {
      const heard = [this.#events, this.#media].map((link) => link?.heard());
      silent = this.#status === "live" && heard.includes(false) ? silent + 1 : 0;
      if (silent > SILENT_LOOKS) void this.#restore();
      else if (silent) this.#events.send({ type: "ping" });
    };
    const watch = setInterval(look, LOOK_MS);
    signal.addEventListener("abort", () => clearInterval(watch), { once: true });
  }

  /** What was connected from the address that a device had before its network changed is dead. */
  #watchNetwork(signal) {
    const { connection } = navigator;
    const look = (limit_ms) => this.#status === "live" && void this.#reach(limit_ms);
    let type = connection?.type;
    // What is expected of a network changes with each measurement, too, and not every browser tells its type.
    const changed = () => {
      look(connection.type === type ? PONG_LIMIT_MS : PONG_AT_ONCE_MS);
      type = connection.type;
    };
    connection?.addEventListener("change", changed, { signal });
    addEventListener("online", () => look(PONG_AT_ONCE_MS), { signal });
  }

  /** @param {import("./microphone.js").Microphone | null} microphone */
  async setMicrophone(microphone) {
    this.#microphone = microphone;
    await this.#media?.setMicrophone(microphone);
  }

  /** False when there is no connection. */
  send(message) {
    const interrupts = message.type === "interrupt" || message.type === "text";
    if (interrupts && this.#speaking) this.#silence(); // not a round trip later
    return this.#events?.send(message) ?? false;
  }

  /**
   * Sends what was typed. A socket that a sleep or a lost network has killed takes it all the same.
   * @returns {Promise<boolean> | null} whether an answer came behind it; null: there is no connection
   */
  say(words) {
    const { signal } = this.#abort;
    if (!this.send({ type: "text", text: words })) return null;
    return this.#reach(PONG_LIMIT_MS).then((answered) => answered || signal.aborted);
  }

  /** Whether the gateway answers within so long; a connection on which it does not is lost. */
  async #reach(limit_ms) {
    const events = this.#events;
    const answered = await events.ping(limit_ms);
    if (!answered && events === this.#events) this.#lose();
    return answered;
  }

  /** Language, voice or avatar; kept for a session that has to be made anew, or is waited for. */
  async update(change) {
    this.#options = { ...this.#options, ...change };
    this.#untold = { ...this.#untold, ...change };
    if (this.#status === "live") await this.#tellChange();
  }

  async #tellChange() {
    const change = this.#untold;
    if (this.#role !== "speaker" || !Object.keys(change).length) return;
    this.#untold = {};
    try {
      await this.#api.updateSession(this.sessionId, change);
    } catch (error) {
      if (error.status === 0) this.#untold = { ...change, ...this.#untold };
      throw error;
    }
  }

  /** Takes effect by connecting again. */
  prefer(preference) {
    this.#preference = preference;
    void this.#restore();
  }

  /** Who draws the face from now on: "server" or "client". Takes effect by connecting again. */
  draw(by) {
    if (by === this.#drawnBy) return;
    this.#drawnBy = by;
    this.#lose();
  }

  voiceLevel() {
    return this.#media?.voiceLevel() ?? 0;
  }

  /** Goes away and leaves the session as it is: whoever comes back in time goes on with it. */
  leave() {
    this.#abort?.abort(new Error("left"));
    this.#closeLinks();
  }

  /** Goes away; what was made is ended, what was found is left to whoever else is with it. */
  async stop() {
    this.leave();
    const id = this.sessionId;
    this.sessionId = null;
    this.#become("offline");
    if (id && this.#made) await this.#api.deleteSession(id);
  }

  #closeLinks() {
    this.#hush.end();
    this.#speaking = false;
    this.#events?.close();
    this.#media?.close();
    if (this.#face) this.#tell("face", { stream: null });
    this.#face?.close();
    this.#events = this.#media = this.#face = null;
  }

  #become(status) {
    this.#status = status;
    this.#tell("connection", { status, transport: this.transport });
  }

  #tell(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }
}

/** Ends early when aborted, or when the network comes back. */
function pause(duration_ms, signal) {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      forget();
      removeEventListener("online", end);
      resolve();
    };
    const timer = setTimeout(end, duration_ms);
    const forget = onAbort(signal, end);
    addEventListener("online", end, { once: true });
  });
}
