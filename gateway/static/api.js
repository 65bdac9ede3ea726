/**
 * The gateway over HTTP: one function per call, one error type, one place that
 * knows secrets. A session is used with its own token alone; a key, where the
 * gateway wants one, makes it. Paths are relative to the page, so that a
 * reverse proxy may serve everything under a prefix.
 */

import { onAbort } from "./sockets.js";
import { lastingStore, tabStore } from "./stores.js";

const KEY_STORE = "visavis.api-key";
const TOKEN_STORE = "visavis.token.";
const SUBPROTOCOL = "visavis";
const OF_A_SESSION = /^v1\/sessions\/([^/]+)/;
/** What a session's token does not open, and the key that made it does. */
const BY_KEY = /^v1\/sessions\/[^/]+\/broadcasts/;
const LONGEST_TIMER_MS = 2 ** 31 - 1;
const RENEW_AGAIN_MS = 10_000;
/** Longer than any answer takes: a browser waits for minutes on a connection that a network has forgotten. */
const ANSWER_LIMIT_MS = 30_000;
/** Of what is there at once, and is asked first on a network that may have become another one. */
const GLANCE_LIMIT_MS = 6_000;
/** To one server a browser keeps no more of them. */
const MOST_CONNECTIONS = 6;
/** No such session any more, or one whose token holds no more: it will not do later either. */
export const REFUSED = [401, 403, 404];

/** Any text in the few characters that a subprotocol's name may have. */
function subprotocol(text) {
  return encodeURIComponent(text).replace(/[()]/g, (c) => `%${c.charCodeAt(0).toString(16)}`);
}

/**
 * A secret as a header can carry it. What has come into it with a paste, a dash or a space without
 * width, fetch would throw at, as if nobody answered; like this the gateway refuses it.
 */
function carried(secret) {
  return secret.replace(/[^\x20-\xff]/g, "?");
}

/** An error answer of the gateway, or no answer at all (status 0). */
export class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    this.name = "ApiError";
    this.status = status;
    this.code = code;
  }

  static async from(response) {
    const fallback = `${response.status} ${response.statusText}`.trim();
    let error = {};
    try {
      error = (await response.json()).error ?? {};
    } catch {
      // Not JSON: a proxy answered. The status line is all there is to say.
    }
    return new ApiError(response.status, error.code ?? "http", error.message ?? fallback);
  }
}

export class Api {
  #key = tabStore.get(KEY_STORE) ?? lastingStore.get(KEY_STORE) ?? "";
  #asking = null;
  #tokens = new Map();
  /** The token with which the page was opened: it stands in for a key, as far as it goes. */
  #guest = "";
  /** A network has swallowed what was asked last: it may have forgotten all the connections to here. */
  #swallowed = false;

  /** @param {() => Promise<{key: string, remember: boolean}>} askForKey shown once per refusal */
  constructor(askForKey) {
    this.askForKey = askForKey;
  }

  url(path) {
    return new URL(path, document.baseURI);
  }

  /**
   * What `new WebSocket` takes. Browsers cannot put headers on one, and an address is kept in logs:
   * the key travels as a subprotocol, which the gateway does not confirm; it confirms the first.
   * @returns {{url: URL, protocols: string[]}}
   */
  socket(path, query = {}) {
    const url = this.url(path);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
    const secret = this.#secret(path);
    return { url, protocols: secret ? [SUBPROTOCOL, `bearer.${subprotocol(secret)}`] : [SUBPROTOCOL] };
  }

  #secret(path) {
    if (BY_KEY.test(path)) return this.#key || this.#guest;
    return this.#tokens.get(OF_A_SESSION.exec(path)?.[1])?.token || this.#key || this.#guest;
  }

  #headers(path, extra = {}) {
    const secret = this.#secret(path);
    return secret ? { ...extra, Authorization: `Bearer ${carried(secret)}` } : extra;
  }

  async request(method, path, { body, signal, keepalive, limit_ms, again = false } = {}) {
    const key = this.#key;
    const byKey = this.#secret(path) === key;
    const response = await this.#fetch(method, path, { body, signal, keepalive, limit_ms });
    if (response.status === 401 && !again && (await this.#tokenByKey(path))) {
      return this.request(method, path, { body, signal, keepalive, again: true });
    }
    if (response.status === 401 && byKey) {
      // Refusals of a key may come when another one has been entered long since.
      if (key === this.#key) await this.#renewKey();
      return this.request(method, path, { body, signal, keepalive });
    }
    if (!response.ok) throw await ApiError.from(response);
    return response;
  }

  async json(method, path, options = {}) {
    const response = await this.request(method, path, options);
    return response.status === 204 ? null : response.json();
  }

  async #fetch(method, path, { body, signal, keepalive, limit_ms = ANSWER_LIMIT_MS }) {
    const given = new AbortController();
    const stop = () => given.abort(signal.reason);
    if (signal?.aborted) stop();
    const forget = onAbort(signal, stop);
    const limit = setTimeout(() => {
      this.#swallowed = true;
      given.abort(new Error("no answer came"));
    }, limit_ms);
    const headers = this.#headers(path, body === undefined ? {} : { "Content-Type": "application/json" });
    try {
      const response = await fetch(this.url(path), {
        method,
        headers,
        signal: given.signal,
        keepalive,
        body: body === undefined ? undefined : JSON.stringify(body),
      });
      this.#swallowed = false;
      return response;
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ApiError(0, "unreachable", error.message);
    } finally {
      clearTimeout(limit);
      forget();
    }
  }

  /** Several calls may be refused at once; the visitor is asked once for all of them. */
  #renewKey() {
    this.#asking ??= this.askForKey()
      .then(({ key, remember }) => {
        this.#key = key;
        tabStore.set(KEY_STORE, key);
        if (remember) lastingStore.set(KEY_STORE, key);
        else lastingStore.remove(KEY_STORE);
      })
      .finally(() => {
        this.#asking = null;
      });
    return this.#asking;
  }

  // -- tokens --------------------------------------------------------------

  /**
   * The page was opened for one session, with its token, or is loaded again.
   * @returns {Promise<"visitor" | "viewer">} what the token is for; without one, looking on
   */
  async enter(id, token) {
    const kept = token || tabStore.get(TOKEN_STORE + id);
    if (!kept) return "viewer";
    this.#keepAsGuest(id, kept);
    this.#tokens.set(id, { token: kept });
    try {
      const told = await this.#anotherToken(id);
      this.#keepToken(id, told);
      this.#keepAsGuest(id, told.token);
      return told.token_role;
    } catch (error) {
      if (!REFUSED.includes(error.status)) throw error;
      this.#forgetToken(id); // a key may help where the token does not any more
      this.#keepAsGuest(id, "");
      throw error;
    }
  }

  /** Whether a session can be seen without its token: by a key that the page has, or by anybody. */
  async open(id) {
    const response = await this.#fetch("GET", `v1/sessions/${id}`, {});
    return response.ok;
  }

  /**
   * The page's own session, after it has been loaded again.
   * @returns {Promise<boolean>} whether it is still there; throws where that cannot be told
   */
  async resume(id) {
    const token = tabStore.get(TOKEN_STORE + id);
    if (!token) return false;
    this.#tokens.set(id, { token });
    try {
      this.#keepToken(id, await this.#anotherToken(id));
      return true;
    } catch (error) {
      if (REFUSED.includes(error.status)) {
        this.#forgetToken(id);
        return false;
      }
      // It may be there yet, and be gone on with later: by a token that is renewed by then.
      this.#tokens.get(id).timer = setTimeout(() => void this.#renewToken(id), RENEW_AGAIN_MS);
      throw error;
    }
  }

  /** For when the page is loaded again. */
  #keepAsGuest(id, token) {
    this.#guest = token;
    tabStore.set(TOKEN_STORE + id, token);
  }

  /** Address for others to look on: it opens the session for a while, and only to see and hear. */
  async viewersLink(id) {
    const { token } = await this.#anotherToken(id, { role: "viewer" });
    const link = this.url("./");
    link.searchParams.set("session", id);
    link.hash = new URLSearchParams({ token });
    return link.href;
  }

  #anotherToken(id, body = {}) {
    return this.json("POST", `v1/sessions/${id}/token`, { body });
  }

  #keepToken(id, { token, token_expires_in_s }) {
    clearTimeout(this.#tokens.get(id)?.timer);
    const half_ms = Math.min(500 * token_expires_in_s, LONGEST_TIMER_MS);
    this.#tokens.set(id, { token, timer: setTimeout(() => void this.#renewToken(id), half_ms) });
    tabStore.set(TOKEN_STORE + id, token);
  }

  async #renewToken(id) {
    const held = this.#tokens.get(id);
    if (!held) return;
    try {
      const told = await this.#anotherToken(id);
      if (this.#tokens.get(id) !== held) return; // the session has been left meanwhile
      this.#keepToken(id, told);
      if (this.#guest === held.token) this.#keepAsGuest(id, told.token);
    } catch (error) {
      // The session is over, or its gateway is away for a moment.
      if (REFUSED.includes(error.status)) return;
      held.timer = setTimeout(() => void this.#renewToken(id), RENEW_AGAIN_MS);
    }
  }

  /** A token runs out where the machine slept, or its clock was set: who made the session has another. */
  async #tokenByKey(path) {
    const [, id] = OF_A_SESSION.exec(path) ?? [];
    const held = this.#tokens.get(id);
    if (!held || this.#guest === held.token) return false;
    this.#tokens.delete(id);
    const response = await this.#fetch("POST", `v1/sessions/${id}/token`, { body: {} }).catch(() => null);
    this.#tokens.set(id, held);
    if (response?.ok) this.#keepToken(id, await response.json());
    return response?.ok ?? false;
  }

  #forgetToken(id) {
    clearTimeout(this.#tokens.get(id)?.timer);
    this.#tokens.delete(id);
    tabStore.remove(TOKEN_STORE + id);
  }

  // -- sessions ------------------------------------------------------------

  /** A session, or a place in line for one: that has a position. */
  async createSession(options, signal) {
    const made = await this.json("POST", "v1/sessions", { body: { ...options, queue: true }, signal });
    this.#keepToken(made.id, made);
    return made;
  }

  placeSocket(id) {
    return this.socket(`v1/sessions/${id}/place`);
  }

  place(id, signal) {
    return this.json("GET", `v1/sessions/${id}/place`, { signal });
  }

  /** Where a network swallows that, over all connections at once: one by one they would take minutes. */
  async session(id, signal) {
    const ask = () => this.json("GET", `v1/sessions/${id}`, { signal, limit_ms: GLANCE_LIMIT_MS });
    if (!this.#swallowed) return ask();
    return Promise.any(Array.from({ length: MOST_CONNECTIONS }, ask)).catch(({ errors }) => Promise.reject(errors[0]));
  }

  updateSession(id, change, signal) {
    return this.json("PATCH", `v1/sessions/${id}`, { body: change, signal });
  }

  /** The last turns, oldest first: what was asked, and answered. */
  turns(id, signal) {
    return this.json("GET", `v1/sessions/${id}/turns`, { signal });
  }

  /** Outlives the page: also sent while the tab is being closed. */
  deleteSession(id) {
    const deleted = this.request("DELETE", `v1/sessions/${id}`, { keepalive: true }).catch(() => null);
    this.#forgetToken(id);
    return deleted;
  }

  /** STUN and TURN servers, as RTCPeerConnection takes them. */
  async iceServers(id, signal) {
    return (await this.json("GET", `v1/sessions/${id}/ice-servers`, { signal })).ice_servers;
  }

  exchangeSdp(id, offer, signal) {
    return this.json("POST", `v1/sessions/${id}/webrtc`, { body: offer, signal });
  }

  /** The microphone's place is free again at once, not only when the loss is noticed. */
  closePeer(id, peerId) {
    return this.request("DELETE", `v1/sessions/${id}/webrtc/${peerId}`, { keepalive: true }).catch(() => null);
  }

  eventsSocket(id) {
    return this.socket(`v1/sessions/${id}/events`);
  }

  mediaSocket(id, role, drawnBy) {
    return this.socket(`v1/sessions/${id}/media`, { role, drawn_by: drawnBy });
  }

  /** Of what a face is drawn from on this device. */
  faceSocket(id) {
    return this.socket(`v1/sessions/${id}/face`);
  }

  // -- recording -----------------------------------------------------------

  startRecording(id) {
    return this.json("POST", `v1/sessions/${id}/recording`, { body: { scope: "session" } });
  }

  stopRecording(id) {
    return this.json("POST", `v1/sessions/${id}/recording/stop`);
  }

  async recordingFile(id) {
    return (await this.request("GET", `v1/sessions/${id}/recording.mp4`)).blob();
  }

  // -- the services --------------------------------------------------------

  /** @returns {Promise<{ready: boolean, missing?: object}>} missing: by service, why */
  async readiness() {
    const response = await this.#fetch("GET", "readyz", {});
    if (response.ok || response.status === 404) return { ready: true };
    return { ready: false, missing: (await response.json().catch(() => ({}))).missing };
  }

  /** Every replica with its networks; none where the caller may not see them: no operator is. */
  async services() {
    const response = await this.#fetch("GET", "v1/services", {});
    return response.ok ? (await response.json()).services : [];
  }

  // -- voices and avatars --------------------------------------------------

  async voices() {
    return (await this.json("GET", "v1/voices")).voices;
  }

  async avatars() {
    return (await this.json("GET", "v1/avatars")).avatars;
  }

  /** An address for <img>: fetched here when a key is needed, which <img> cannot send. */
  async portraitUrl(name) {
    const path = `v1/avatars/${encodeURIComponent(name)}/portrait.jpg`;
    if (!this.#secret(path)) return this.url(path).href;
    return URL.createObjectURL(await (await this.request("GET", path)).blob());
  }

  renameAvatar(name, newName) {
    return this.json("PATCH", `v1/avatars/${encodeURIComponent(name)}`, { body: { name: newName } });
  }

  deleteAvatar(name) {
    return this.json("DELETE", `v1/avatars/${encodeURIComponent(name)}`);
  }

  /** The avatar's head, a GLB, to be drawn on this device. */
  async head(name) {
    return (await this.request("GET", `v1/avatars/${encodeURIComponent(name)}/head.glb`)).arrayBuffer();
  }

  /** How the head's portrait shows it: camera, lamps, neck. */
  headScene(name) {
    return this.json("GET", `v1/avatars/${encodeURIComponent(name)}/head.json`);
  }

  /** What stands behind the head in its portrait. */
  async headBackground(name) {
    return (await this.request("GET", `v1/avatars/${encodeURIComponent(name)}/background.png`)).blob();
  }

  /**
   * Uploads a portrait. XMLHttpRequest, because fetch does not tell upload progress.
   * @param {{likeness: string, agreed_to: string}} consent of the person shown
   * @param {(share: number) => void} onProgress share of the upload, 0..1
   */
  createAvatar(name, photo, consent, onProgress) {
    const form = new FormData();
    form.set("name", name);
    for (const [field, said] of Object.entries({ ...consent, stated_via: "page" })) form.set(field, said);
    form.set("photo", photo);
    return new Promise((resolve, reject) => {
      const request = new XMLHttpRequest();
      request.open("POST", this.url("v1/avatars"));
      const headers = this.#headers("v1/avatars");
      for (const [key, value] of Object.entries(headers)) request.setRequestHeader(key, value);
      request.upload.onprogress = (event) => onProgress(event.loaded / event.total);
      request.onerror = () => reject(new ApiError(0, "unreachable", "the connection was lost"));
      request.onload = () => settleUpload(request, resolve, reject);
      request.send(form);
    });
  }
}

function settleUpload(request, resolve, reject) {
  let answer = {};
  try {
    answer = JSON.parse(request.responseText);
  } catch {
    // A proxy's page; reported by its status below.
  }
  if (request.status >= 200 && request.status < 300) return resolve(answer);
  const { code = "http", message = `${request.status} ${request.statusText}` } = answer.error ?? {};
  return reject(new ApiError(request.status, code, message));
}
