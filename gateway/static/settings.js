/** The settings sheet: a dialog whose plain choices are kept as preferences. */
import { text } from "./i18n.js";

/** Controls by the preference that they set; radio groups have its name, or tell it. */
const RADIOS = ["language", "microphoneMode", "transport", "appearance", "background", "captionSize"];
const SWITCHES = { welcome: "welcome", moving: "moving", "show-captions": "captions", "show-latency": "latency", muted: "muted" };
const SLIDERS = { speed: (value) => `${value.toFixed(1)} ×`, volume: (value) => `${Math.round(100 * value)} %` };
const DEVICES = { "microphone-device": "microphoneDevice", "speaker-device": "speakerDevice" };
export const STYLES = ["", "happy", "excited", "calm", "sad", "surprised", "angry", "whisper"];

export class SettingsSheet {
  /**
   * @param {import("./devices.js").Devices} devices
   * @param {(name: string, value: string | number | boolean) => void} onChange after it has been kept
   */
  constructor(dialog, preferences, devices, onChange) {
    this.dialog = dialog;
    this.preferences = preferences;
    this.devices = devices;
    this.onChange = onChange;
    this.styles = dialog.querySelector("#style");
    dialog.querySelector("#settings-close").addEventListener("click", () => dialog.close());
    // A click on the backdrop is a click on the dialog itself.
    dialog.addEventListener("click", ({ target }) => target === dialog && dialog.close());
    devices.addEventListener("change", () => this.#listDevices());
    for (const [id, name] of Object.entries(DEVICES)) {
      const list = dialog.querySelector(`#${id}`);
      list.addEventListener("change", () => this.#keep(name, list.value));
    }
    this.styles.addEventListener("change", () => this.#keep("style", this.styles.value));
    RADIOS.forEach((name) => this.#bindRadios(name));
    Object.entries(SWITCHES).forEach(([id, name]) => this.#bindSwitch(id, name));
    Object.keys(SLIDERS).forEach((name) => this.#bindSlider(name));
    const persona = dialog.querySelector("#persona");
    persona.value = preferences.get("persona");
    persona.addEventListener("change", () => this.#keep("persona", persona.value.trim()));
  }

  #bindRadios(name) {
    const radios = [...document.querySelectorAll(`input[name="${name}"], input[data-preference="${name}"]`)];
    const show = () => radios.forEach((radio) => (radio.checked = radio.value === this.preferences.get(name)));
    for (const radio of radios) {
      radio.addEventListener("change", () => {
        this.#keep(name, radio.value);
        show();
      });
    }
    show();
  }

  #bindSwitch(id, name) {
    const input = this.dialog.querySelector(`#${id}`);
    input.checked = this.preferences.get(name);
    input.addEventListener("change", () => this.#keep(name, input.checked));
  }

  /** Shown while it is moved, kept once it stands. */
  #bindSlider(name) {
    const input = this.dialog.querySelector(`#${name}`);
    const tell = () => {
      const told = SLIDERS[name](input.valueAsNumber);
      input.nextElementSibling.textContent = told;
      input.setAttribute("aria-valuetext", told);
      input.style.setProperty("--at", (input.valueAsNumber - input.min) / (input.max - input.min));
    };
    input.value = this.preferences.get(name);
    tell();
    input.addEventListener("input", tell);
    input.addEventListener("change", () => this.#keep(name, input.valueAsNumber));
  }

  #keep(name, value) {
    this.preferences.set(name, value);
    this.onChange(name, value);
  }

  /** What a switch outside of the sheet sets as well. */
  mute(muted) {
    this.dialog.querySelector("#muted").checked = muted;
    this.#keep("muted", muted);
  }

  /** In the language chosen now. */
  render() {
    const options = STYLES.map((name) => new Option(text(`style.${name || "none"}`), name));
    this.styles.replaceChildren(...options);
    this.styles.value = this.preferences.get("style");
    this.#listDevices();
  }

  async open() {
    if (this.dialog.open) return;
    this.dialog.showModal();
    await Promise.all([this.devices.look(), this.#offerVolume()]);
  }

  /** Phones whose buttons alone set it undo what a page sets, a moment later. */
  async #offerVolume() {
    const media = new Audio();
    media.volume = 0.5;
    await new Promise((resolve) => setTimeout(resolve));
    this.dialog.querySelector("#volume").closest(".field").hidden = media.volume !== 0.5;
  }

  #listDevices() {
    const { microphones, speakers } = this.devices;
    this.#list("microphone-device", microphones);
    this.#list("speaker-device", speakers).closest(".field").hidden = !speakers.length;
  }

  /** One that is not there is not shown as chosen, and chosen again once it is. */
  #list(id, devices) {
    const list = this.dialog.querySelector(`#${id}`);
    const options = devices.map(({ deviceId, label }) => new Option(label || deviceId.slice(0, 8), deviceId));
    list.replaceChildren(new Option(text("device.default"), ""), ...options);
    list.value = this.preferences.get(DEVICES[id]);
    if (list.selectedIndex < 0) list.value = "";
    return list;
  }
}

/** Asks for the API key; resolves once one has been entered. */
export function askForKey(dialog) {
  return new Promise((resolve) => {
    const value = dialog.querySelector("#key-value");
    dialog.showModal();
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    dialog.addEventListener(
      "close",
      () => resolve({ key: value.value.trim(), remember: dialog.querySelector("#key-remember").checked }),
      { once: true },
    );
  });
}
