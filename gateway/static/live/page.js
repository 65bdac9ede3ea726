/** The page of broadcasts: choose a session, watch it, start and stop what it is pushed to. */
import { Api } from "../api.js";
import { copy } from "../clipboard.js";
import { handOn } from "../focus.js";
import { learn, speak, text } from "../i18n.js";
import { SocketMedia } from "../media_ws.js";
import { Preferences } from "../preferences.js";
import { askForKey } from "../settings.js";
import { Toasts } from "../toasts.js";
import { WebRtcMedia } from "../webrtc.js";
import { TargetList } from "./targets.js";
import { LIVE_TEXTS } from "./texts.js";
import { filled, sendLine } from "./words.js";

const LOOK_MS = 1000;
const HLS = "application/vnd.apple.mpegurl";

const byId = (id) => document.getElementById(id);
const query = new URLSearchParams(location.search);

class LivePage {
  preferences = new Preferences(query);
  api = new Api(() => askForKey(byId("key")));
  toasts = new Toasts(byId("toasts"));
  targets = new TargetList(byId("targets"), (id) => void this.stop(id));
  video = byId("live-video");
  session = query.get("session") ?? "";
  media = null;
  /** What is watched by: "", "at-once" or "hls". */
  watching = "";
  /** Ends what is under way to be watched. */
  #abort = new AbortController();

  open() {
    learn(LIVE_TEXTS);
    speak(this.preferences.get("language"));
    for (const choice of document.querySelectorAll("#language input")) {
      choice.checked = choice.value === this.preferences.get("language");
      choice.addEventListener("change", () => this.translate(choice.value));
    }
    byId("session").addEventListener("change", (event) => this.choose(event.target.value));
    this.act("session-new", () => this.make());
    this.act("session-end", () => this.end());
    this.act("watch", () => this.watch("at-once"));
    this.act("watch-hls", () => this.watch("hls"));
    this.act("copy-link", () => this.copy(this.api.viewersLink(this.session)));
    this.act("copy-hls", () => this.copy(this.address("hls/index.m3u8")));
    this.act("copy-whep", () => this.copy(this.address("whep")));
    this.submit("target", () => this.start());
    this.submit("say", () => this.say());
    byId("watch-hls").hidden = !this.video.canPlayType(HLS);
    this.video.addEventListener("playing", () => (document.body.dataset.video = "playing"));
    void this.look();
  }

  /** Has a button do something; what goes wrong is told. */
  act(id, work) {
    byId(id).addEventListener("click", () => void this.told(work));
  }

  submit(id, work) {
    byId(id).addEventListener("submit", (event) => {
      event.preventDefault();
      void this.told(work);
    });
  }

  async told(work) {
    try {
      await work();
    } catch (error) {
      this.toasts.error(error.message);
    }
  }

  translate(language) {
    this.preferences.set("language", language);
    speak(language);
    this.targets.restart();
  }

  // -- sessions ------------------------------------------------------------

  /** Asks again and again how all stands, one question at a time. */
  async look() {
    try {
      await this.refresh();
    } catch (error) {
      if (error.status === 404) this.choose("");
      else this.unknown(error);
    }
    setTimeout(() => void this.look(), LOOK_MS);
  }

  /** Whether anything is live cannot be told. */
  unknown(error) {
    const on = byId("onair");
    on.textContent = error.status === 0 ? text("error.unreachable") : error.message;
    on.toggleAttribute("data-live", false);
  }

  async refresh() {
    const { sessions } = await this.api.json("GET", "v1/sessions");
    this.list(sessions.map(({ id }) => id));
    const chosen = sessions.find(({ id }) => id === this.session);
    byId("viewers").textContent = chosen ? filled("live.watching", { n: chosen.viewers }) : "";
    const shown = this.session
      ? (await this.api.json("GET", `v1/sessions/${this.session}/broadcasts`)).broadcasts
      : [];
    const live = this.targets.show(shown);
    byId("onair").textContent = live ? filled("live.onair", { n: live }) : text("live.offair");
    byId("onair").toggleAttribute("data-live", live > 0);
  }

  list(ids) {
    const select = byId("session");
    if (!ids.includes(this.session)) this.choose(ids[0] ?? "");
    for (const button of ["session-end", "watch", "watch-hls", "copy-link", "copy-hls", "copy-whep"]) {
      if (!this.session) handOn(byId(button), byId("session-new"));
      byId(button).disabled = !this.session;
    }
    const wanted = ids.length ? ids : [""];
    const shown = [...select.options].map(({ value, text: label }) => `${value}\n${label}`);
    const labels = wanted.map((id) => id || text("live.noSession"));
    if (wanted.every((id, i) => shown[i] === `${id}\n${labels[i]}`) && shown.length === wanted.length) return;
    select.replaceChildren(...wanted.map((id, i) => new Option(labels[i], id, false, id === this.session)));
  }

  choose(id) {
    if (id === this.session) return;
    this.session = id;
    byId("session").value = id;
    this.leave();
    this.targets.restart();
  }

  async make() {
    const made = await this.api.createSession({ language: this.preferences.get("language") });
    if (made.position) {
      await this.api.deleteSession(made.id);
      throw new Error(text("live.full"));
    }
    this.choose(made.id);
    await this.refresh();
  }

  async end() {
    await this.api.deleteSession(this.session);
    await this.refresh();
  }

  async say() {
    const field = byId("say-text");
    if (!field.value.trim() || !this.session) return;
    const path = `v1/sessions/${this.session}/text`;
    await sendLine(field, (words) => this.api.json("POST", path, { body: { text: words } }));
  }

  // -- broadcasts ----------------------------------------------------------

  async start() {
    if (!this.session) await this.make();
    const [url, key] = [byId("target-url"), byId("target-key")];
    const body = { url: url.value.trim(), key: key.value.trim() };
    await this.api.json("POST", `v1/sessions/${this.session}/broadcasts`, { body });
    key.value = ""; // nobody who comes by shall find it here
    await this.refresh();
  }

  async stop(id) {
    await this.told(() => this.api.json("DELETE", `v1/sessions/${this.session}/broadcasts/${id}`));
    await this.told(() => this.refresh());
  }

  // -- watching ------------------------------------------------------------

  async watch(way) {
    const again = this.watching !== way;
    this.leave();
    if (!again) return;
    this.watching = way;
    this.showWatching();
    const { signal } = this.#abort;
    try {
      await (way === "hls" ? this.watchHls(signal) : this.watchAtOnce(signal));
    } catch (error) {
      if (signal.aborted) return;
      this.leave();
      throw error;
    }
  }

  async watchAtOnce(signal) {
    const media = await (window.RTCPeerConnection ? this.byWebRtc(signal) : this.bySocket(signal));
    media.addEventListener("lost", () => this.leave());
    await this.video.play();
  }

  async byWebRtc(signal) {
    const id = this.session;
    const media = (this.media = new WebRtcMedia(await this.api.iceServers(id, signal)));
    const signalling = {
      exchange: (offer) => this.api.exchangeSdp(id, offer, signal),
      leave: (peer) => void this.api.closePeer(id, peer),
    };
    await media.connect(this.video, signalling, "viewer", signal);
    return media;
  }

  async bySocket(signal) {
    const media = (this.media = new SocketMedia());
    await media.connect(this.video, this.api.mediaSocket(this.session, "viewer", "server"), signal);
    return media;
  }

  async watchHls(signal) {
    // The answer brings the cookie by which the player asks for the rest.
    await this.api.request("GET", `v1/sessions/${this.session}/hls/index.m3u8`, { signal });
    this.video.src = this.address("hls/index.m3u8");
    await this.video.play();
  }

  leave() {
    this.#abort.abort();
    this.#abort = new AbortController();
    this.media?.close();
    this.media = null;
    this.watching = "";
    this.video.srcObject = null;
    this.video.removeAttribute("src");
    this.video.load();
    document.body.dataset.video = "waiting";
    this.showWatching();
  }

  showWatching() {
    for (const [id, way, key] of [
      ["watch", "at-once", "live.watch"],
      ["watch-hls", "hls", "live.watchHls"],
    ]) {
      const pressed = this.watching === way;
      const label = byId(id).querySelector("span");
      label.dataset.i18n = pressed ? "live.stopWatching" : key;
      label.textContent = text(label.dataset.i18n);
    }
  }

  address(rest) {
    return String(this.api.url(`v1/sessions/${this.session}/${rest}`));
  }

  /** @param {string | Promise<string>} address */
  async copy(address) {
    try {
      await copy(address);
      this.toasts.show(text("live.copied"));
    } catch {
      this.toasts.show(await address, "kept"); // the page may not: without https there is no clipboard
    }
  }
}

const page = new LivePage();
page.open();
// For tests and the curious.
globalThis.visavisLive = page;
