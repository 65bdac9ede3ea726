/**
 * The microphones and loudspeakers that there are, and which of them is meant: the one that was
 * chosen, while it is there; else the system's, whichever that is by now.
 *
 * Event: "change" when they are others, or another one is the system's.
 */

/** Chromium lists the system's choices beside the devices themselves. */
const SYSTEM = "default";
const SYSTEMS = [SYSTEM, "communications"];

const same = (one, other) =>
  one.kind === other.kind && one.deviceId === other.deviceId && one.groupId === other.groupId;

export class Devices extends EventTarget {
  #preferences;
  #listed = [];

  constructor(preferences) {
    super();
    this.#preferences = preferences;
    navigator.mediaDevices?.addEventListener("devicechange", () => void this.look());
  }

  /** Which there are. They have no names, and cannot be chosen, until a microphone has been allowed. */
  async look() {
    const before = this.#listed;
    this.#listed = (await navigator.mediaDevices?.enumerateDevices()) ?? [];
    const as_before = before.length === this.#listed.length && before.every((one, i) => same(one, this.#listed[i]));
    if (!as_before) this.dispatchEvent(new Event("change"));
  }

  get microphones() {
    return this.#of("audioinput").filter(({ deviceId }) => !SYSTEMS.includes(deviceId));
  }

  /** Those that sound can be sent to; none where the browser alone decides that. */
  get speakers() {
    if (!HTMLMediaElement.prototype.setSinkId) return [];
    return this.#of("audiooutput").filter(({ deviceId }) => !SYSTEMS.includes(deviceId));
  }

  /** The loudspeaker that is meant; "": the system's. */
  get speaker() {
    const chosen = this.#preferences.get("speakerDevice");
    return this.speakers.some(({ deviceId }) => deviceId === chosen) ? chosen : "";
  }

  /** Whether a microphone that is open is the one that is meant. @param {MediaTrackSettings} settings */
  means({ deviceId, groupId }) {
    const chosen = this.#preferences.get("microphoneDevice");
    const inputs = this.#of("audioinput");
    const meant = [chosen, SYSTEM].map((id) => inputs.find((input) => input.deviceId === id)).find(Boolean);
    return !meant || (meant.deviceId === deviceId && [undefined, meant.groupId].includes(groupId));
  }

  #of(wanted) {
    return this.#listed.filter(({ kind, deviceId }) => kind === wanted && deviceId);
  }
}
