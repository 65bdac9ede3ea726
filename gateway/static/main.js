/**
 * Puts the page together. The address may say: language, voice, avatar,
 * transport=websocket|webrtc, autostart=1 (no start screen), mic=1 (with
 * microphone), session=<id> (a conversation that there is: to look on, or to
 * talk where its fragment, #token=…, is a visitor's).
 */
import { Api } from "./api.js";
import { AvatarPicker, titleOf } from "./avatars.js";
import { Captions } from "./captions.js";
import { Connection } from "./connection.js";
import { AvatarCreator } from "./creator.js";
import { speak, text } from "./i18n.js";
import { LatencyStrip } from "./latency.js";
import { Preferences } from "./preferences.js";
import { QueuePanel } from "./queue.js";
import { RecordButton } from "./recording.js";
import { askForKey, SettingsSheet } from "./settings.js";
import { Stage } from "./stage.js";
import { TalkButton } from "./talk.js";
import { Toasts } from "./toasts.js";
import { VoicePicker } from "./voices.js";

const byId = (id) => document.getElementById(id);
const query = new URLSearchParams(location.search);
const token = new URLSearchParams(location.hash.slice(1)).get("token") ?? "";
// A fragment goes to no server; nor is it to stay in the address, the history or a bookmark.
if (token) history.replaceState(null, "", location.pathname + location.search);

class Page {
  connection = null;
  starting = null;
  role = query.get("session") ? "viewer" : "visitor";
  preferences = new Preferences(query);
  api = new Api(() => askForKey(byId("key")));
  toasts = new Toasts(byId("toasts"));
  stage = new Stage(byId("stage"));
  captions = new Captions(byId("captions"), byId("announcer"));
  latency = new LatencyStrip(byId("latency"));
  talk = new TalkButton({
    button: byId("microphone"),
    connection: () => this.connection,
    preferences: this.preferences,
    onError: (message) => this.toasts.error(message),
  });
  recording = new RecordButton({
    button: byId("record"),
    elapsed: byId("elapsed"),
    api: this.api,
    sessionId: () => this.connection?.sessionId,
    toasts: this.toasts,
  });
  settings = new SettingsSheet(byId("settings"), this.preferences, (name, value) => this.changed(name, value));
  voices = new VoicePicker(byId("voices"), this.api, (name) => this.choose({ voice: name }));
  avatars = new AvatarPicker(byId("avatars"), this.api, {
    onChoose: (name) => this.choose({ avatar: name }),
    onNew: () => this.creator.open(),
  });
  queue = new QueuePanel(byId("queue"), () => this.leave());
  creator = new AvatarCreator(byId("creator"), this.api, (name) => this.created(name));

  async open() {
    speak(this.preferences.get("language"));
    this.display();
    this.listen();
    byId("latency").open = matchMedia("(min-aspect-ratio: 1/1)").matches; // a phone has no room to spare
    this.stage.animate(
      () => this.talk.level(),
      () => this.connection?.voiceLevel() ?? 0,
    );
    if (query.get("session")) await this.enter(query.get("session"));
    await this.loadChoices();
    if (query.get("autostart") === "1") await this.start(query.get("mic") === "1");
    document.body.dataset.ready = "yes";
  }

  listen() {
    byId("start-talk").addEventListener("click", () => this.start(true));
    byId("start-type").addEventListener("click", () => this.start(false));
    byId("interrupt").addEventListener("click", () => this.interrupt());
    byId("settings-open").addEventListener("click", () => this.settings.open());
    byId("captions-clear").addEventListener("click", () => this.captions.clear());
    byId("share").addEventListener("click", () => this.share());
    byId("avatar-name").addEventListener("click", () => this.settings.open());
    const message = byId("message");
    message.addEventListener("input", () => (byId("send").disabled = !message.value.trim()));
    byId("dock").addEventListener("submit", (event) => this.submit(event, message));
    addEventListener("keydown", (event) => this.key(event));
    addEventListener("pagehide", () => void (this.connection ?? this.starting)?.stop());
    // Brought back from the browser's page cache: that session has gone.
    addEventListener("pageshow", ({ persisted }) => persisted && location.reload());
    this.creator.acceptDrops(document, () => {
      void this.settings.open();
      this.creator.open();
    });
  }

  key(event) {
    const open = document.querySelector("dialog[open]");
    if (event.key === "Escape" && !open && !event.isComposing) this.interrupt();
  }

  // -- choices ---------------------------------------------------------------

  async loadChoices() {
    try {
      await Promise.all([this.voices.load(), this.avatars.load()]);
    } catch (error) {
      this.report(error);
      return;
    }
    await this.showChoices();
  }

  choice() {
    const language = this.preferences.get("language");
    return {
      language,
      voice: this.voices.resolve(this.preferences.get("voice"), language),
      avatar: this.avatars.resolve(this.preferences.get("avatar")),
    };
  }

  async showChoices() {
    const { language, voice, avatar } = this.choice();
    this.voices.render(voice, language);
    await Promise.all([
      this.avatars.render(avatar),
      this.avatars.portrait(avatar).then((url) => this.stage.show(titleOf(avatar), url)),
    ]);
  }

  /** @param {{voice?: string, avatar?: string}} change */
  async choose(change) {
    const [[name, value]] = Object.entries(change);
    this.preferences.set(name, value);
    await Promise.all([this.showChoices(), this.update(change)]);
  }

  async update(change) {
    try {
      await this.connection?.update(change);
    } catch (error) {
      this.report(error);
    }
  }

  async created(name) {
    await this.avatars.load();
    await this.choose({ avatar: name });
    this.toasts.show(text("avatar.created"));
  }

  async changed(name, value) {
    if (name === "transport") this.connection?.prefer(value);
    if (name.startsWith("microphone")) await this.talk.reopen();
    if (name === "language") {
      speak(value);
      this.latency.render();
      this.queue.render();
      const { language, voice } = this.choice();
      await Promise.all([this.showChoices(), this.update({ language, voice })]);
    }
    this.display();
  }

  display() {
    document.body.toggleAttribute("data-no-captions", !this.preferences.get("captions"));
    document.body.toggleAttribute("data-no-latency", !this.preferences.get("latency"));
  }

  // -- the conversation ------------------------------------------------------

  async start(withMicrophone) {
    if (document.body.dataset.phase !== "start") return;
    document.body.dataset.phase = "starting";
    const connection = new Connection(this.api, this.stage.video, {
      preference: this.preferences.get("transport"),
      join: query.get("session") ?? "",
      role: this.role,
    });
    this.follow(connection);
    this.starting = connection;
    try {
      await connection.start({ ...filled(this.choice()), welcome: this.preferences.get("welcome") });
    } catch (error) {
      document.body.dataset.phase = "start";
      if (this.starting) this.report(error); // else the visitor has left the line
      return;
    } finally {
      this.starting = null;
      this.queue.hide();
    }
    this.connection = connection;
    document.body.dataset.phase = "live";
    byId("record").disabled = byId("share").disabled = false;
    if (withMicrophone && this.role !== "viewer") await this.talk.open();
    else byId("message").focus({ preventScroll: true });
  }

  /** The visitor does not want to wait in line any more. */
  leave() {
    const waiting = this.starting;
    this.starting = null;
    void waiting?.stop();
  }

  follow(connection) {
    const on = (type, act) => connection.addEventListener(type, ({ detail }) => act(detail));
    on("connection", (detail) => this.connected(detail));
    on("place", (detail) => this.starting && this.queue.show(detail));
    on("state", ({ state }) => this.stage.state(state));
    on("transcript", (detail) => this.captions.transcript(detail));
    on("answer", (detail) => this.captions.answer(detail));
    on("turn", (detail) => this.captions.turn(detail));
    on("latency", (detail) => this.latency.show(detail));
    on("error", ({ code, message }) => {
      this.toasts.error(message);
      if (code === "recording_failed") this.recording.ended();
    });
    on("warning", ({ code, message }) => {
      this.toasts.show(message);
      if (code === "avatar_deleted") void this.loadChoices();
    });
    on("notice", ({ key }) => this.toasts.show(text(key)));
    on("session", ({ id }) => (document.body.dataset.session = id));
  }

  connected({ status, transport }) {
    const { dataset } = document.body;
    if (status === "reconnecting") {
      this.recording.reset();
      this.stage.state("idle");
    }
    dataset.connection = status;
    dataset.transport = transport;
    const words = document.querySelector(".connection-status");
    words.dataset.i18n = `connection.${status}`;
    words.textContent = text(words.dataset.i18n);
    const names = { webrtc: "WebRTC", websocket: "WebSocket" };
    document.querySelector(".connection-transport").textContent = names[transport] ?? "";
  }

  submit(event, message) {
    event.preventDefault();
    const words = message.value.trim();
    if (!words) return;
    if (!this.connection?.send({ type: "text", text: words })) {
      this.toasts.error(text("notice.offline"));
      return;
    }
    message.value = "";
    byId("send").disabled = true;
  }

  interrupt() {
    if (["thinking", "speaking"].includes(document.body.dataset.state)) {
      this.connection?.send({ type: "interrupt" });
    }
  }

  /** A conversation that there is, as far as the token goes that came with its address. */
  async enter(session) {
    try {
      this.role = await this.api.enter(session, token);
    } catch (error) {
      this.report(error);
    }
    if (this.role === "viewer") this.lookOn();
  }

  /** Somebody else's conversation: nothing to say here. */
  lookOn() {
    document.body.dataset.role = "viewer";
    byId("start-type").hidden = true;
    byId("start-talk").querySelector("span").dataset.i18n = "start.watch";
    speak(this.preferences.get("language"));
  }

  async share() {
    const url = new URL(location.pathname, location.href);
    url.searchParams.set("session", this.connection.sessionId);
    try {
      const shared = await this.api.viewerToken(this.connection.sessionId);
      url.hash = new URLSearchParams({ token: shared });
    } catch (error) {
      this.report(error);
      return;
    }
    try {
      await navigator.clipboard.writeText(url.href);
      this.toasts.show(text("settings.shared"));
    } catch {
      this.toasts.show(url.href); // no clipboard without https: show it to be copied by hand
    }
  }

  report(error) {
    this.toasts.error(error.status === 0 ? text("error.unreachable") : error.message);
  }
}

/** Without the choices left to the gateway. */
function filled(choice) {
  return Object.fromEntries(Object.entries(choice).filter(([, value]) => value));
}

void new Page().open();
