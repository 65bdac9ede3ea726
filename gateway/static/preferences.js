/** What the visitor has chosen: the page's address first, then the last visit, then the browser. */

import { STYLES } from "./settings.js";
import { lastingStore } from "./stores.js";

const STORE = "visavis.preferences";

const DEFAULTS = {
  language: navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en",
  voice: "",
  avatar: "",
  transport: "auto",
  microphoneMode: "hands-free",
  microphoneDevice: "",
  speakerDevice: "",
  persona: "",
  style: "",
  speed: 1,
  volume: 1,
  muted: false,
  appearance: "auto",
  background: "face",
  captionSize: "medium",
  moving: true,
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

/** Of those that gateway and browser take in parts only; others are sought among what there is. */
const CHOICES = { ...FROM_ADDRESS, style: STYLES };
const RANGES = { speed: [0.5, 2], volume: [0, 1] };

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

/** Only names that we know, with values that can be chosen: the store may be of another page. */
function stored() {
  try {
    const entries = Object.entries(JSON.parse(lastingStore.get(STORE)) ?? {});
    return Object.fromEntries(entries.filter(([name, value]) => fits(name, value)));
  } catch {
    return {};
  }
}

function fits(name, value) {
  const [least, most] = RANGES[name] ?? [];
  if (typeof value !== typeof DEFAULTS[name] || value < least || value > most) return false;
  return CHOICES[name]?.includes(value) ?? true;
}
