/** The settings sheet: a dialog whose plain choices are kept as preferences. */
import { text } from "./i18n.js";
import { Microphone } from "./microphone.js";

/** Radio groups and switches by the preference that they set. */
const RADIOS = ["language", "microphoneMode", "transport"];
const SWITCHES = { welcome: "welcome", "show-captions": "captions", "show-latency": "latency" };

export class SettingsSheet {
  /** @param {(name: string, value: string | boolean) => void} onChange after it has been kept */
  constructor(dialog, preferences, onChange) {
    this.dialog = dialog;
    this.preferences = preferences;
    this.onChange = onChange;
    this.devices = dialog.querySelector("#microphone-device");
    dialog.querySelector("#settings-close").addEventListener("click", () => dialog.close());
    // A click on the backdrop is a click on the dialog itself.
    dialog.addEventListener("click", ({ target }) => target === dialog && dialog.close());
    this.devices.addEventListener("change", () => this.#keep("microphoneDevice", this.devices.value));
    RADIOS.forEach((name) => this.#bindRadios(name));
    Object.entries(SWITCHES).forEach(([id, name]) => this.#bindSwitch(id, name));
  }

  #bindRadios(name) {
    for (const radio of document.querySelectorAll(`input[name="${name}"]`)) {
      radio.checked = radio.value === this.preferences.get(name);
      radio.addEventListener("change", () => this.#keep(name, radio.value));
    }
  }

  #bindSwitch(id, name) {
    const input = this.dialog.querySelector(`#${id}`);
    input.checked = this.preferences.get(name);
    input.addEventListener("change", () => this.#keep(name, input.checked));
  }

  #keep(name, value) {
    this.preferences.set(name, value);
    this.onChange(name, value);
  }

  async open() {
    if (this.dialog.open) return;
    this.dialog.showModal();
    await this.#listDevices();
  }

  async #listDevices() {
    const devices = await Microphone.devices();
    const options = devices.map(({ deviceId, label }) => new Option(label || deviceId.slice(0, 8), deviceId));
    this.devices.replaceChildren(new Option(text("mic.device.default"), ""), ...options);
    this.devices.value = this.preferences.get("microphoneDevice");
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
