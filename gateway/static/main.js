/**
 * Puts the page together. The address may say: language, voice, avatar,
 * transport=websocket|webrtc, drawnBy=server|client (of the face), autostart=1 (no start screen), mic=1 (with
 * microphone), session=<id> (a conversation that there is: to look on, or to
 * talk where its fragment, #token=…, is a visitor's), embed=1 (face and controls alone), appearance, captions,
 * latency, muted, welcome. docs/apps.md tells what each does.
 */
import { Api, REFUSED } from "./api.js";
import { addressOf, AvatarPicker, nameFault, OwnAvatar, titleOf } from "./avatars.js";
import { Captions } from "./captions.js";
import { copy } from "./clipboard.js";
import { Conversation } from "./conversation.js";
import { AvatarCreator } from "./creator.js";
import { Devices } from "./devices.js";
import { handOn } from "./focus.js";
import { HeadView } from "./head/view.js";
import { label, speak, text } from "./i18n.js";
import { LatencyStrip } from "./latency.js";
import { download, fileName, transcriptOf } from "./memory.js";
import { ModelHint } from "./model_hint.js";
import { Preferences } from "./preferences.js";
import { QueuePanel } from "./queue.js";
import { Readiness } from "./readiness.js";
import { RecordButton } from "./recording.js";
import { reasonOf } from "./refusals.js";
import { askForKey, SettingsSheet } from "./settings.js";
import { Stage } from "./stage.js";
import { TalkButton } from "./talk.js";
import { Toasts } from "./toasts.js";
import { followViewport } from "./viewport.js";
import { VoicePicker } from "./voices.js";

const byId = (id) => document.getElementById(id);
const query = new URLSearchParams(location.search);
// It is put into addresses, which are asked with the visitor's key: one that would lead elsewhere
// is none that there is.
if (!/^[\w-]*$/.test(query.get("session") ?? "")) query.set("session", "-");
const token = new URLSearchParams(location.hash.slice(1)).get("token") ?? "";
// A fragment goes to no server; nor is it to stay in the address, the history or a bookmark.
if (token) history.replaceState(null, "", location.pathname + location.search);

/** So often, at most, what is being typed is told: two words of a quick hand. */
const TYPING_MS = 300;
/** What may be all is told at once: an answer to it is prepared. */
const SENTENCE_ENDS = /[.?!…。？！]$/;

/** Answers for a gateway or a service that is away for a moment. */
const AWAY = [0, 502, 503, 504];

class Page {
  #typed = null;
  #returned = ""; // of the field: what has come back into it, and stands in front
  role = query.get("session") ? "viewer" : "visitor";
  preferences = new Preferences(query);
  api = new Api(() => askForKey(byId("key")));
  toasts = new Toasts(byId("toasts"));
  devices = new Devices(this.preferences);
  stage = new Stage(byId("stage"));
  captions = new Captions(byId("captions"), () => this.stage.audible);
  latency = new LatencyStrip(byId("latency"));
  readiness = new Readiness(byId("waiting"), this.api);
  queue = new QueuePanel(byId("queue"), () => this.conversation.leaveLine());
  modelHint = new ModelHint(byId("model-hint"), this.api, this.toasts);
  talk = new TalkButton({
    button: byId("microphone"),
    connection: () => this.conversation.connection,
    preferences: this.preferences,
    devices: this.devices,
    toasts: this.toasts,
  });
  recording = new RecordButton({
    button: byId("record"),
    elapsed: byId("elapsed"),
    api: this.api,
    sessionId: () => this.conversation.sessionId,
    toasts: this.toasts,
  });
  settings = new SettingsSheet(byId("settings"), this.preferences, this.devices, (name, value) =>
    this.changed(name, value),
  );
  voices = new VoicePicker(byId("voices"), this.api, (name) => this.choose({ voice: name }));
  avatars = new AvatarPicker(byId("avatars"), this.api, {
    onChoose: (name) => this.choose({ avatar: name }),
    onNew: () => this.creator.open(),
  });
  head = new HeadView(byId("stage").querySelector(".frame"), byId("drawing"), {
    api: this.api,
    preferences: this.preferences,
    avatar: () => this.choice().avatar,
    onDrawnBy: (by) => this.conversation.drawnBy(by),
    onFault: (message) => this.toasts.error(message),
  });
  ownAvatar = new OwnAvatar(byId("own-avatar"), {
    onRename: (name, typed) => this.renameAvatar(name, typed),
    onDelete: (name) => this.removeAvatar(name),
  });
  creator = new AvatarCreator(byId("creator"), byId("fitting"), this.api, (name) => this.created(name));
  conversation = new Conversation({
    ...{ api: this.api, stage: this.stage, captions: this.captions, latency: this.latency },
    ...{ queue: this.queue, recording: this.recording, talk: this.talk, toasts: this.toasts },
    settings: () => ({
      preference: this.preferences.get("transport"),
      join: query.get("session") ?? "",
      role: this.role,
    }),
    wish: () => this.wish(),
    unheard: (words) => this.unheard(words),
    heard: (words) => this.heard(words),
    gone: () => this.deadLink(),
    begun: (withMicrophone) => this.begun(withMicrophone),
    ended: () => this.allow(false),
    avatarsChanged: () => void this.prepare(),
    prepareFace: () => this.head.prepare(),
    face: (stream) => this.head.follow(stream),
    report: (error, about) => this.report(error, about),
  });

  async open() {
    followViewport();
    speak(this.preferences.get("language"));
    this.settings.render();
    this.display();
    this.listen();
    this.foldLatency();
    this.stage.animate(
      () => this.talk.level(),
      () => this.conversation.connection?.voiceLevel() ?? 0,
    );
    if (query.get("session") && !(await this.enter(query.get("session")))) return this.ready();
    await this.prepare();
    const resumed = !query.get("session") && (await this.conversation.resume());
    if (!resumed && query.get("autostart") === "1") await this.start(query.get("mic") === "1");
    this.ready();
    void this.modelHint.load().catch(() => null); // no more than a hint
  }

  ready() {
    document.body.dataset.ready = "yes";
  }

  listen() {
    const clicks = {
      "start-talk": () => this.start(true),
      "start-type": () => this.start(false),
      "interrupt": () => this.conversation.interrupt(),
      "settings-open": () => this.settings.open(),
      "avatar-name": () => this.settings.open(),
      "conversation-new": () => this.renew(),
      "sheet-new": () => this.renewFromSheet(),
      "transcript-save": () => this.saveTranscript(),
      "sheet-save": () => this.saveTranscript(),
      "share": () => this.share(),
      "mute": () => this.settings.mute(!this.preferences.get("muted")),
      "fullscreen": () => this.fillScreen(),
    };
    for (const [id, act] of Object.entries(clicks)) byId(id).addEventListener("click", act);
    document.body.toggleAttribute("data-joined", query.has("session"));
    document.body.toggleAttribute("data-embed", query.get("embed") === "1");
    byId("fullscreen").hidden = !document.fullscreenEnabled;
    this.devices.addEventListener("change", () => this.chooseSpeaker());
    void this.devices.look();
    const message = byId("message");
    message.addEventListener("input", () => this.typing(message));
    byId("dock").addEventListener("submit", (event) => this.submit(event, message));
    addEventListener("keydown", (event) => this.key(event));
    // Brought back from the browser's page cache: its connection has been closed.
    addEventListener("pageshow", ({ persisted }) => persisted && location.reload());
    this.creator.acceptDrops(document, () => {
      void this.settings.open();
      this.creator.open();
    });
  }

  key(event) {
    const open = document.querySelector("dialog[open]");
    if (event.key === "Escape" && !open && !event.isComposing) this.conversation.interrupt();
  }

  // -- what there is to choose from ------------------------------------------

  /** Once the services are there: the voices, the faces. */
  async prepare() {
    await this.readiness.wait();
    try {
      await this.#patiently(async () => {
        await Promise.all([this.voices.load(), this.avatars.load()]);
        await this.showChoices();
      });
      this.toasts.over("gateway");
    } catch (error) {
      this.report(error);
    }
  }

  /** What is asked, again once a service that has gone is back; anything else does not mend itself. */
  async #patiently(ask) {
    for (let failures = 0; ; failures += 1) {
      try {
        return await ask();
      } catch (error) {
        if (!AWAY.includes(error.status) || failures > 3) throw error;
        await this.readiness.wait();
      }
    }
  }

  choice() {
    const language = this.preferences.get("language");
    return {
      language,
      voice: this.voices.resolve(this.preferences.get("voice"), language),
      avatar: this.avatars.resolve(this.preferences.get("avatar")),
    };
  }

  /** What a session is to be; what is left out the gateway chooses. */
  wish() {
    const speed = this.preferences.get("speed");
    const { persona, style } = { persona: this.preferences.get("persona"), style: this.preferences.get("style") };
    const wish = { ...this.choice(), persona, style, speed: speed === 1 ? "" : speed };
    return { ...filled(wish), welcome: this.preferences.get("welcome") };
  }

  async showChoices() {
    const { language, voice, avatar } = this.choice();
    this.captions.speaker = titleOf(avatar);
    this.voices.render(voice, language);
    this.ownAvatar.show(this.avatars.own(avatar) ? avatar : "");
    await Promise.all([
      this.avatars.render(avatar),
      this.avatars.portrait(avatar).then((url) => this.stage.show(titleOf(avatar), url)),
    ]);
  }

  /** @param {{voice?: string, avatar?: string}} change */
  async choose(change) {
    const [[name, value]] = Object.entries(change);
    this.preferences.set(name, value);
    await Promise.all([this.showChoices(), this.conversation.update(change)]);
    if (change.avatar) await this.head.avatarChanged();
  }

  async created(name) {
    try {
      await this.avatars.load();
    } catch (error) {
      this.report(error);
      return;
    }
    await this.choose({ avatar: name });
    this.toasts.show(text("avatar.created"));
  }

  async renameAvatar(name, typed) {
    const [fault, newName] = [nameFault(typed), addressOf(typed)];
    if (fault || newName === name) {
      this.ownAvatar.show(name);
      if (fault) this.toasts.error(fault, "avatar");
      return;
    }
    try {
      await this.avatars.rename(name, newName);
    } catch (error) {
      this.ownAvatar.show(name);
      this.report(error, "avatar");
      return;
    }
    this.toasts.over("avatar");
    await this.choose({ avatar: newName });
  }

  async removeAvatar(name) {
    try {
      await this.avatars.remove(name);
    } catch (error) {
      this.report(error);
      return;
    }
    await this.choose({ avatar: this.avatars.resolve("") });
    this.toasts.show(text("avatar.deleted"));
  }

  async changed(name, value) {
    if (name === "captions") this.foldLatency();
    if (name === "transport") this.conversation.prefer(value);
    if (name.startsWith("microphone")) await this.talk.reopen();
    if (name === "speakerDevice") await this.chooseSpeaker();
    if (name === "style" || name === "speed") await this.conversation.update({ [name]: value });
    if (name === "language") {
      speak(value);
      for (const part of [this.latency, this.queue, this.readiness, this.settings, this.modelHint]) part.render();
      const { language, voice } = this.choice();
      await Promise.all([this.showChoices(), this.conversation.update({ language, voice })]);
    }
    this.display();
  }

  /** The one that was chosen may come and go. */
  async chooseSpeaker() {
    const { speaker } = this.devices;
    if (!speaker && this.stage.speaker && this.preferences.get("speakerDevice")) this.toasts.show(text("speaker.gone"));
    await this.stage.soundThrough(speaker).catch((error) => this.report(error));
  }

  /** Beside the captions there is room for it; under the face, on a phone too, it would take the face's. */
  foldLatency() {
    byId("latency").open = matchMedia("(min-aspect-ratio: 1/1)").matches && this.preferences.get("captions");
  }

  display() {
    const { body, documentElement } = document;
    const wanted = (name) => this.preferences.get(name);
    body.toggleAttribute("data-still", !wanted("moving"));
    body.toggleAttribute("data-no-captions", !wanted("captions"));
    body.toggleAttribute("data-no-latency", !wanted("latency"));
    body.dataset.background = wanted("background");
    body.dataset.captionSize = wanted("captionSize");
    documentElement.dataset.appearance = wanted("appearance");
    this.stage.loudness(wanted("volume"), wanted("muted"));
    body.toggleAttribute("data-muted", wanted("muted"));
    label(byId("mute"), wanted("muted") ? "sound.unmute" : "sound.mute");
  }

  // -- the conversation ------------------------------------------------------

  async start(withMicrophone) {
    this.stage.permit();
    const pressed = document.activeElement;
    await this.conversation.start(withMicrophone);
    handOn(byId("start"), pressed); // it has come to nothing
    // It may have failed for want of a service: then the page waits for it again.
    if (document.body.dataset.phase === "start") await this.prepare();
  }

  async begun(withMicrophone) {
    this.allow(true);
    if (withMicrophone) {
      handOn(byId("start"), byId("microphone"));
      await this.talk.open();
    } else byId("message").focus({ preventScroll: true });
  }

  /** What can be done with a conversation alone. */
  allow(there) {
    for (const id of ["record", "share", "sheet-new", "sheet-save"]) byId(id).disabled = !there;
  }

  async renew() {
    handOn(byId("conversation-new"), byId("message")); // it goes with what was said
    await this.conversation.renew();
  }

  async renewFromSheet() {
    byId("settings").close();
    await this.conversation.renew();
  }

  saveTranscript() {
    const said = transcriptOf(this.captions.records());
    download(new Blob([said], { type: "text/plain;charset=utf-8" }), fileName("txt"));
  }

  async fillScreen() {
    if (document.fullscreenElement) await document.exitFullscreen();
    else await document.documentElement.requestFullscreen().catch((error) => this.report(error));
  }

  typing(message) {
    const words = message.value.trim();
    byId("send").disabled = !words;
    if (message.value.length === message.maxLength) this.toasts.error(text("compose.full"), "message");
    else this.toasts.over("message");
    if (SENTENCE_ENDS.test(words)) {
      this.#forgetTyped();
      this.conversation.typing(words);
    } else {
      this.#typed ??= setTimeout(() => {
        this.#typed = null;
        this.conversation.typing(message.value.trim());
      }, TYPING_MS);
    }
  }

  #forgetTyped() {
    clearTimeout(this.#typed);
    this.#typed = null;
  }

  submit(event, message) {
    event.preventDefault();
    const words = message.value.trim();
    if (!words || !this.conversation.say(words)) return;
    this.toasts.over("message");
    message.value = "";
    this.#returned = "";
    byId("send").disabled = true;
    this.#forgetTyped();
  }

  /** What was sent has not arrived, as far as can be told: it is to be sent again. */
  unheard(words) {
    const message = byId("message");
    const typed = message.value.trim();
    const before = typed.startsWith(this.#returned) ? this.#returned : "";
    this.#returned = [before, words].filter(Boolean).join(" "); // in the order in which it was sent
    message.value = [this.#returned, typed.slice(before.length).trim()].filter(Boolean).join(" ");
    byId("send").disabled = false;
    this.toasts.error(text("notice.unheard"), "unheard");
  }

  heard(words) {
    this.toasts.over("unheard");
    const message = byId("message");
    if (message.value.trim() !== words) return;
    message.value = "";
    byId("send").disabled = true;
  }

  /**
   * A conversation that there is, as far as the token goes that came with its address.
   * @returns {Promise<boolean>} false: the address leads nowhere any more, and the visitor was told
   */
  async enter(session) {
    try {
      this.role = await this.#patiently(() => this.api.enter(session, token));
    } catch (error) {
      if (REFUSED.includes(error.status) && !(await this.api.open(session))) {
        this.deadLink();
        return false;
      }
      this.report(error);
    }
    if (this.role === "viewer") this.lookOn();
    return true;
  }

  /** A link holds for a while, and its conversation ends some day. */
  deadLink() {
    document.body.dataset.link = "dead";
    byId("start-type").hidden = true;
    for (const [id, key] of [["start-heading", "link.heading"], ["start-lead", "link.lead"]]) byId(id).dataset.i18n = key;
    const button = byId("start-talk").cloneNode(true); // without what it did
    button.querySelector("span").dataset.i18n = "link.own";
    button.addEventListener("click", () => location.assign(location.pathname));
    byId("start-talk").replaceWith(button);
    handOn(document.body, button);
    speak(this.preferences.get("language"));
  }

  /** Somebody else's conversation: nothing to say here. */
  lookOn() {
    document.body.dataset.role = "viewer";
    byId("start-type").hidden = true;
    byId("start-talk").querySelector("span").dataset.i18n = "start.watch";
    speak(this.preferences.get("language"));
  }

  async share() {
    const link = this.api.viewersLink(this.conversation.sessionId);
    try {
      await copy(link);
      this.toasts.show(text("settings.shared"));
    } catch {
      // No clipboard without https: show it to be copied by hand.
      await link.then((url) => this.toasts.show(url, "kept")).catch((error) => this.report(error));
    }
  }

  /** @param {string} about for which it is over, beside the gateway itself; "": it leaves by itself */
  report(error, about = "") {
    const away = AWAY.includes(error.status);
    this.toasts.error(reasonOf(error), about || (away ? "gateway" : ""));
  }
}

/** Without the choices left to the gateway. */
function filled(choice) {
  return Object.fromEntries(Object.entries(choice).filter(([, value]) => value));
}

void new Page().open();
