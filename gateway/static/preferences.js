/** What the visitor has chosen: the page's address first, then the last visit, then the browser. */

import { lastingStore } from "./stores.js";

const STORE = "visavis.preferences";

const DEFAULTS = {
  language: navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en",
  voice: "",
  avatar: "",
  transport: "auto",
  microphoneMode: "hands-free",
  microphoneDevice: "",
  persona: "",
  style: "",
  speed: 1,
  volume: 1,
  muted: false,
  appearance: "auto",
  background: "face",
  captionSize: "medium",
  captions: true,
  welcome: true,
  latency: true,
  drawnBy: "server",
  headView: "portrait",
  headBackground: "soft",
  headFile: "avatar",
};

const FROM_ADDRESS = {
  language: ["en", "zh"],
  transport: ["auto", "webrtc", "websocket"],
  drawnBy: ["server", "client"],
  appearance: ["auto", "dark", "light"],
};

export class Preferences {
  #saved = stored();
  #values;

  constructor(query) {
    this.#values = { ...DEFAULTS, ...this.#saved };
    for (const [name, allowed] of Object.entries(FROM_ADDRESS)) {
      if (allowed.includes(query.get(name))) this.#values[name] = query.get(name);
    }
    for (const name of ["captions", "latency", "muted", "welcome"]) {
      if (["0", "1"].includes(query.get(name))) this.#values[name] = query.get(name) === "1";
    }
    for (const name of ["voice", "avatar"]) {
      if (query.get(name)) this.#values[name] = query.get(name);
    }
  }

  get(name) {
    return this.#values[name];
  }

  set(name, value) {
    this.#values[name] = value;
    this.#saved[name] = value; // what only the address says is not kept
    lastingStore.set(STORE, JSON.stringify(this.#saved));
  }
}

/** Only names that we know, with the type that we expect: the store may be of an older page. */
function stored() {
  try {
    const entries = Object.entries(JSON.parse(lastingStore.get(STORE)) ?? {});
    return Object.fromEntries(entries.filter(([name, value]) => typeof value === typeof DEFAULTS[name]));
  } catch {
    return {};
  }
}
