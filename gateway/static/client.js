/**
 * visavis for any web page, in one file and without a build:
 *
 *   import { Session } from "https://avatar.example/static/client.js";
 *   const session = await Session.make("https://avatar.example", { language: "en" }, key);
 *   await session.connect({ video: document.querySelector("video"), microphone: true });
 *   session.addEventListener("answer", ({ detail }) => caption.append(detail.text));
 *   await session.ask("Who are you?");
 *
 * A page of another origin has to be allowed (allowed_origins), and is best given a session that its own
 * server has made: new Session(url, { id, token, token_expires_in_s }). docs/apps.md tells the rest.
 */

const FIRST_PAUSE_MS = 200;
const LONGEST_PAUSE_MS = 3000;
/** So long a gateway keeps a session that nobody is with (session_idle_s). */
const RECONNECT_MS = 120_000;
/** Who says nothing between two looks is asked, and is gone where he says nothing until the next one. */
const LOOK_MS = 5000;
const GATHERING_MS = 2000;
/** Silence, too, comes in packets: a connection over which none has come for so long carries nothing. */
const STILL_MS = 1000;
/** Longer than any answer takes: one that does not come holds up what waits for it no longer. */
const ANSWER_LIMIT_MS = 30_000;
const RENEW_AGAIN_S = 10;
const LONGEST_TIMER_MS = 2 ** 31 - 1;
/** No such session any more, or one whose token holds no more: it will not do later either. */
const REFUSED = [401, 403, 404];
const ENDED = 4410;
const PING = JSON.stringify({ type: "ping" });
const PLACES = 6;
const SHAPES = 52;
const RECORD_BYTES = 4 + SHAPES + 2 * PLACES;

/** What the gateway refused, and why: `code` for programs; status 0: it was not reached. */
export class GatewayError extends Error {
  constructor(status, code, message) {
    super(message);
    this.name = "GatewayError";
    Object.assign(this, { status, code });
  }
}

/**
 * One conversation. Each event of the gateway (docs/events.md) is a CustomEvent of its type with the
 * message as detail, "event" is every one of them; "lost" and "back" tell of the connection, "ended"
 * of the session's end.
 */
export class Session extends EventTarget {
  #url;
  #token;
  #renewing = 0;
  #watching;
  /** Each with what gives it up. */
  #sockets = new Map();
  #events;
  #heard = false;
  #asking = null;
  #peer = null;
  #peerId = "";
  #mediaLost = false;
  /** Connects face and voice anew; null: they are not connected. */
  #reconnect = null;
  #microphone = null;
  #muted = false;
  /** Counts what was asked for: to connect, or to be disconnected. What is older is given up. */
  #wanted = 0;
  #closed = false;

  /**
   * @param {string} url the gateway's
   * @param {{id: string, token: string, token_expires_in_s?: number}} made as POST /v1/sessions answers;
   * of a token whose life is not told another one is asked for at once
   */
  constructor(url, { id, token, token_expires_in_s: life_s }) {
    super();
    this.id = id;
    this.#url = url.replace(/\/$/, "");
    this.#token = token;
    if (token) this.#renewIn((life_s ?? 0) / 2);
    this.#events = this.#follow("events", (data) => this.#take(JSON.parse(data)));
    this.#watching = this.#watchSilence();
  }

  /** A session of these options, as POST /v1/sessions takes them. key: an app's, where one is needed. */
  static async make(url, options = {}, key = "") {
    const made = await request(url.replace(/\/$/, ""), key, "POST", "/v1/sessions", options);
    return new Session(url, made);
  }

  // -- to say something --------------------------------------------------------

  /** Type `text`, as the visitor. @returns {Promise<number>} the turn that answers it */
  async ask(text, { style = "" } = {}) {
    return (await this.call("POST", "/text", { text, style })).turn;
  }

  /** Have the face say `text` as it stands. @returns {Promise<number>} "say" events name it */
  async say(text, { style = "", language = "", interrupt = false } = {}) {
    return (await this.call("POST", "/say", { text, style, language, interrupt })).say;
  }

  /** What the visitor has typed so far and not sent: the answer to it will come sooner. */
  typing(text) {
    this.#events.send({ type: "typing", text }, { now: true });
  }

  interrupt() {
    return this.call("POST", "/interrupt");
  }

  /**
   * What a call of an "answer.tool_call" event came to; the answer waits for it. Where the connection
   * is lost before the gateway has heard it, it goes over the next one. Throws GatewayError where the
   * session has ended.
   */
  toolResult(callId, output) {
    this.#events.send({ type: "tool_result", call_id: callId, output });
  }

  /** Change language, voice, avatar, speed or style from the next turn on. */
  update(options) {
    return this.call("PATCH", "", options);
  }

  /**
   * All else that the API can do with a session: `call("GET", "/turns")`, with the token as it is now.
   * @returns {Promise<any>} what the gateway answers, JSON
   */
  call(method, path, body) {
    return request(this.#url, this.#token, method, `/v1/sessions/${this.id}${path}`, body);
  }

  // -- to see and hear it, and to be heard ----------------------------------------

  /**
   * Face and voice over WebRTC.
   * @param {{video?: HTMLMediaElement, audio?: HTMLMediaElement, microphone?: boolean}} where
   * video: shows the face and plays the voice; audio: the voice alone
   * @returns {Promise<MediaStream>} for who shows it himself
   */
  async connect({ video = null, audio = null, microphone = false } = {}) {
    // Within a click: what is loaded then may sound later, when the browser has forgotten the click.
    for (const element of [video, audio]) {
      if (element?.networkState === HTMLMediaElement.NETWORK_EMPTY) element.load();
    }
    const leaving = this.disconnect();
    const wanted = this.#wanted;
    await leaving;
    try {
      return await this.#connect({ video, audio, microphone }, wanted);
    } catch (error) {
      if (wanted === this.#wanted) await this.#leave(); // no microphone stays open for nothing
      throw error;
    }
  }

  async #connect({ video, audio, microphone }, wanted) {
    const { ice_servers: iceServers } = await this.call("GET", "/ice-servers");
    this.#check(wanted);
    const peer = (this.#peer = new RTCPeerConnection({ iceServers }));
    const stream = new MediaStream();
    peer.addEventListener("track", ({ track }) => stream.addTrack(track));
    if (microphone) {
      const heard = await navigator.mediaDevices.getUserMedia({ audio: true });
      this.#check(wanted, heard);
      this.#microphone = heard;
      this.muted = this.#muted;
      peer.addTransceiver(this.#microphone.getAudioTracks()[0], { direction: "sendrecv" });
    } else {
      peer.addTransceiver("audio", { direction: "recvonly" });
    }
    const pictures = video !== null || audio === null;
    if (pictures) peer.addTransceiver("video", { direction: "recvonly" });
    await peer.setLocalDescription();
    await gathered(peer);
    this.#check(wanted);
    const answer = await this.call("POST", "/webrtc", {
      sdp: peer.localDescription.sdp,
      type: "offer",
      role: microphone ? "speaker" : "viewer",
      drawn_by: pictures ? "server" : "client",
    });
    if (wanted !== this.#wanted) void this.call("DELETE", `/webrtc/${answer.peer_id}`).catch(() => null);
    this.#check(wanted);
    this.#peerId = answer.peer_id;
    await peer.setRemoteDescription({ sdp: answer.sdp, type: answer.type });
    this.#reconnect = () => this.#again({ video, audio, microphone }, wanted);
    peer.addEventListener("connectionstatechange", () => {
      if (peer !== this.#peer) return;
      if (peer.connectionState === "connected") this.#tellMedia("back");
      if (!["failed", "closed"].includes(peer.connectionState)) return;
      this.#tellMedia("lost");
      setTimeout(this.#reconnect, FIRST_PAUSE_MS);
    });
    for (const element of [video, audio].filter(Boolean)) {
      element.srcObject = stream;
      void element.play().catch(() => null); // the browser waits for a click, or something else was put in
    }
    return stream;
  }

  /** Whether the microphone, which stays open, gives silence: for push to talk. It outlives connections. */
  get muted() {
    return this.#muted;
  }

  set muted(muted) {
    this.#muted = muted;
    this.#microphone?.getTracks().forEach((track) => (track.enabled = !muted));
  }

  /** See and hear no more; the session goes on. */
  disconnect() {
    this.#wanted += 1;
    return this.#leave();
  }

  async #leave() {
    const [peer, id] = [this.#peer, this.#peerId];
    [this.#peer, this.#peerId, this.#reconnect] = [null, "", null];
    this.#microphone?.getTracks().forEach((track) => track.stop());
    this.#microphone = null;
    peer?.close();
    if (id) await this.call("DELETE", `/webrtc/${id}`).catch(() => null); // it may know already
  }

  /**
   * The face for who draws it: 25 times a second `draw({mediaMs, weights, place})`, weights the 52 of
   * ARKit in their alphabetical order, place yaw, pitch, roll, right, down, breath.
   * @returns {() => void} ends it
   */
  blendshapes(draw) {
    return this.#follow("face", (data) => {
      for (let at = 0; at + RECORD_BYTES <= data.byteLength; at += RECORD_BYTES) draw(pose(data, at));
    }).stop;
  }

  /** The session ends, for everybody. */
  async end() {
    this.#peerId = ""; // it goes with its session
    this.close();
    await this.call("DELETE", "");
  }

  /** Follow it no more; it ends by itself when nobody is with it. */
  close() {
    this.#closed = true;
    clearTimeout(this.#renewing);
    clearInterval(this.#watching);
    for (const socket of this.#sockets.keys()) socket.close();
    void this.disconnect();
  }

  /** It is over, or not found again: nothing of it stays open, the microphone least of all. */
  #end(where = {}) {
    if (this.#closed) return;
    this.close();
    this.#tell({ type: "ended", ...where });
  }

  // -- connections ------------------------------------------------------------------

  /** What was connected has been lost; unless something else has been asked for since. */
  async #again(where, wanted) {
    if (wanted !== this.#wanted) return;
    const connecting = this.connect(where);
    const now = this.#wanted;
    try {
      await connecting;
    } catch (error) {
      if (error.status === 404 || error.status === 401) this.#end();
      else setTimeout(() => this.#again(where, now), LONGEST_PAUSE_MS);
    }
  }

  /** A gateway that has gone took face and voice along: browsers need a quarter of a minute to notice. */
  async #reviewMedia() {
    const peer = this.#peer;
    if (!peer) return;
    const before = await received(peer);
    await new Promise((resolve) => setTimeout(resolve, STILL_MS));
    if (peer === this.#peer && (await received(peer)) === before) this.#reconnect?.();
  }

  /** Of face and voice, each once: a network may let no attempt through. */
  #tellMedia(type) {
    if (this.#mediaLost === (type === "lost")) return;
    this.#mediaLost = type === "lost";
    this.#tell({ type, socket: "webrtc" });
  }

  #check(wanted, heard = null) {
    if (wanted === this.#wanted) return;
    heard?.getTracks().forEach((track) => track.stop());
    throw new GatewayError(0, "disconnected", "it was disconnected meanwhile");
  }

  /** One of the session's sockets, made anew when it is lost. */
  #follow(name, take) {
    let current = null;
    let over = false;
    /** What nobody has answered for, each with a ping behind it: a socket that is dead takes it, too. */
    const unheard = [];
    let [pause_ms, lostAt] = [FIRST_PAUSE_MS, 0];
    const open = () => {
      if (over || this.#closed) return;
      const where = `ws${this.#url.slice(4)}/v1/sessions/${this.id}/${name}`;
      const socket = (current = new WebSocket(where, protocols(this.#token)));
      socket.binaryType = "arraybuffer";
      if (name === "events") this.#heard = true; // it has its time to open
      socket.addEventListener("open", () => {
        if (lostAt) this.#tell({ type: "back", socket: name });
        if (lostAt && name === "events") this.#reviewMedia();
        [pause_ms, lostAt] = [FIRST_PAUSE_MS, 0];
        for (const message of unheard) socket.send(message);
      });
      socket.addEventListener("message", ({ data }) => take(typeof data === "string" ? data : new DataView(data)));
      // One that is dead may close long after it was given up.
      const lose = (code) => {
        if (!this.#sockets.delete(socket) || over || this.#closed) return;
        if (!lostAt) this.#tell({ type: "lost", socket: name });
        lostAt ||= performance.now();
        // Another one may be refused for longer while the events come: its stages have no room.
        const givenUp = name === "events" && performance.now() - lostAt > RECONNECT_MS;
        if (code === ENDED || givenUp) return this.#end({ socket: name });
        if (name === "events") this.#askWhetherThere();
        setTimeout(open, pause_ms);
        pause_ms = Math.min(2 * pause_ms, LONGEST_PAUSE_MS);
      };
      socket.addEventListener("close", ({ code }) => lose(code));
      this.#sockets.set(socket, () => {
        socket.close();
        lose();
      });
    };
    open();
    return {
      stop: () => {
        over = true;
        current?.close();
      },
      /** now: or never, where it is not connected. */
      send: (message, { now = false } = {}) => {
        const open = current.readyState === WebSocket.OPEN;
        if (now) return open && current.send(JSON.stringify(message));
        if (over || this.#closed) throw new GatewayError(0, "session_closed", "the session is over, or followed no more");
        for (const text of [JSON.stringify(message), PING]) {
          unheard.push(text);
          if (open) current.send(text);
        }
      },
      ping: () => {
        if (unheard.includes(PING)) return; // one is on its way
        unheard.push(PING);
        if (current.readyState === WebSocket.OPEN) current.send(PING);
      },
      /** Pongs come in the order of their pings. */
      ponged: () => unheard.splice(0, unheard.indexOf(PING) + 1),
    };
  }

  /** Browsers do not tell why a socket was refused. */
  #askWhetherThere() {
    this.#asking ??= this.call("GET", "")
      .catch(({ status }) => REFUSED.includes(status) && this.#end({ socket: "events" }))
      .finally(() => (this.#asking = null));
  }

  #take(message) {
    this.#heard = true;
    if (message.type === "pong") this.#events.ponged();
    else this.#tell(message);
  }

  /** After a sleep, or where a machine has vanished, sockets look open that are not. */
  #watchSilence() {
    let silent = 0;
    return setInterval(() => {
      silent = this.#heard ? 0 : silent + 1;
      this.#heard = false;
      if (silent === 1) this.#events.ping();
      if (silent < 2) return;
      silent = 0;
      for (const giveUp of this.#sockets.values()) giveUp(); // on one network they die together
    }, LOOK_MS);
  }

  #tell(message) {
    this.dispatchEvent(new CustomEvent(message.type, { detail: message }));
    this.dispatchEvent(new CustomEvent("event", { detail: message }));
  }

  /** From then on, each token is renewed at half of its life. */
  #renewIn(pause_s) {
    this.#renewing = setTimeout(() => this.#renew(), Math.min(1000 * pause_s, LONGEST_TIMER_MS));
  }

  async #renew() {
    let pause_s = RENEW_AGAIN_S;
    try {
      const told = await this.call("POST", "/token");
      this.#token = told.token;
      pause_s = told.token_expires_in_s / 2;
    } catch (error) {
      if (REFUSED.includes(error.status)) return;
    }
    if (!this.#closed) this.#renewIn(pause_s);
  }
}

/** Packets that a connection has brought. */
async function received(peer) {
  const told = [...(await peer.getStats()).values()];
  return told.reduce((sum, { type, packetsReceived }) => sum + (type === "inbound-rtp" ? packetsReceived : 0), 0);
}

async function request(url, secret, method, path, body) {
  const headers = secret ? { Authorization: `Bearer ${secret}` } : {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const signal = AbortSignal.timeout?.(ANSWER_LIMIT_MS); // older browsers have none
  let response;
  try {
    response = await fetch(url + path, { method, headers, body: body && JSON.stringify(body), signal });
  } catch (error) {
    throw new GatewayError(0, "unreachable", error.message);
  }
  if (response.ok) return response.status === 204 ? null : response.json();
  const { error } = await response.json().catch(() => ({}));
  throw new GatewayError(response.status, error?.code ?? "http", error?.message ?? response.statusText);
}

/** Browsers put no headers on a WebSocket: the token travels as a subprotocol. */
function protocols(token) {
  const told = encodeURIComponent(token).replace(/[()]/g, (c) => `%${c.charCodeAt(0).toString(16)}`);
  return token ? ["visavis", `bearer.${told}`] : ["visavis"];
}

/** The offer goes out with all its candidates, or with those that were found in time. */
function gathered(peer) {
  return new Promise((resolve) => {
    const done = () => peer.iceGatheringState === "complete" && resolve();
    peer.addEventListener("icegatheringstatechange", done);
    setTimeout(resolve, GATHERING_MS);
    done();
  });
}

function pose(view, at) {
  const weights = Float32Array.from({ length: SHAPES }, (_, k) => view.getUint8(at + 4 + k) / 255);
  const place = Array.from({ length: PLACES }, (_, k) => view.getInt16(at + 4 + SHAPES + 2 * k, true) / 10_000);
  return { mediaMs: view.getUint32(at, true), weights, place };
}
