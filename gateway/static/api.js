/**
 * The gateway over HTTP: one function per call, one error type, one place that
 * knows the API key. Paths are relative to the page, so that a reverse proxy
 * may serve everything under a prefix.
 */

const KEY_STORE = "visavis.api-key";
const SUBPROTOCOL = "visavis";

/** Any text in the few characters that a subprotocol's name may have. */
function token(text) {
  return encodeURIComponent(text).replace(/[()]/g, (c) => `%${c.charCodeAt(0).toString(16)}`);
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
  #key = sessionStorage.getItem(KEY_STORE) ?? localStorage.getItem(KEY_STORE) ?? "";
  #asking = null;

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
    return { url, protocols: this.#key ? [SUBPROTOCOL, `bearer.${token(this.#key)}`] : [SUBPROTOCOL] };
  }

  headers(extra = {}) {
    return this.#key ? { ...extra, Authorization: `Bearer ${this.#key}` } : extra;
  }

  async request(method, path, { body, signal, keepalive } = {}) {
    const response = await this.#fetch(method, path, { body, signal, keepalive });
    if (response.status === 401) {
      await this.#renewKey();
      return this.request(method, path, { body, signal, keepalive });
    }
    if (!response.ok) throw await ApiError.from(response);
    return response;
  }

  async json(method, path, options = {}) {
    const response = await this.request(method, path, options);
    return response.status === 204 ? null : response.json();
  }

  async #fetch(method, path, { body, signal, keepalive }) {
    const headers = this.headers(body === undefined ? {} : { "Content-Type": "application/json" });
    try {
      return await fetch(this.url(path), {
        method,
        headers,
        signal,
        keepalive,
        body: body === undefined ? undefined : JSON.stringify(body),
      });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ApiError(0, "unreachable", error.message);
    }
  }

  /** Several calls may be refused at once; the visitor is asked once for all of them. */
  #renewKey() {
    this.#asking ??= this.askForKey()
      .then(({ key, remember }) => {
        this.#key = key;
        sessionStorage.setItem(KEY_STORE, key);
        if (remember) localStorage.setItem(KEY_STORE, key);
        else localStorage.removeItem(KEY_STORE);
      })
      .finally(() => {
        this.#asking = null;
      });
    return this.#asking;
  }

  // -- sessions ------------------------------------------------------------

  /** A session, or a place in line for one: that has a position. */
  createSession(options, signal) {
    return this.json("POST", "v1/sessions", { body: { ...options, queue: true }, signal });
  }

  placeSocket(id) {
    return this.socket(`v1/sessions/${id}/place`);
  }

  place(id, signal) {
    return this.json("GET", `v1/sessions/${id}/place`, { signal });
  }

  session(id, signal) {
    return this.json("GET", `v1/sessions/${id}`, { signal });
  }

  updateSession(id, change, signal) {
    return this.json("PATCH", `v1/sessions/${id}`, { body: change, signal });
  }

  /** Outlives the page: also sent while the tab is being closed. */
  deleteSession(id) {
    return this.request("DELETE", `v1/sessions/${id}`, { keepalive: true }).catch(() => null);
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

  mediaSocket(id, role) {
    return this.socket(`v1/sessions/${id}/media`, { role });
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
    if (!this.#key) return this.url(path).href;
    return URL.createObjectURL(await (await this.request("GET", path)).blob());
  }

  /**
   * Uploads a portrait. XMLHttpRequest, because fetch does not tell upload progress.
   * @param {(share: number) => void} onProgress share of the upload, 0..1
   */
  createAvatar(name, photo, onProgress) {
    const form = new FormData();
    form.set("name", name);
    form.set("photo", photo);
    return new Promise((resolve, reject) => {
      const request = new XMLHttpRequest();
      request.open("POST", this.url("v1/avatars"));
      for (const [key, value] of Object.entries(this.headers())) request.setRequestHeader(key, value);
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
