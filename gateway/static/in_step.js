/**
 * Picture with sound. Over WebRTC the browser holds sound back for as long as packets come
 * unevenly; after a stall that may be half a second. Its own means of holding the picture back as
 * well takes some ten seconds for it. Both leave the gateway together, so here the picture is told
 * to wait for as long as the sound does, as soon as that is known.
 */

const LOOK_EVERY_MS = 250;
/** From the sound's buffer to the speaker, less the picture's way to the screen. */
const SPEAKER_MS = 15;
/** Smaller changes are not seen; to follow them would make the picture uneven. */
const NOTICEABLE_MS = 10;
const LONGEST_MS = 1000;

/** Mean time in the sound's buffer between two looks at its statistics; null: none was played. */
function heldMs(earlier, later) {
  const samples = later.jitterBufferEmittedCount - (earlier?.jitterBufferEmittedCount ?? 0);
  if (!(samples > 0)) return null;
  return (1000 * (later.jitterBufferDelay - (earlier?.jitterBufferDelay ?? 0))) / samples;
}

export class InStep {
  #sound;
  #picture;
  #seen = null;
  #timer = 0;

  /** @param {RTCPeerConnection} pc that receives one sound and one picture */
  constructor(pc) {
    const receiver = (kind) => pc.getReceivers().find(({ track }) => track.kind === kind);
    [this.#sound, this.#picture] = [receiver("audio"), receiver("video")];
  }

  start() {
    if (!("jitterBufferTarget" in this.#picture)) return; // the browser has its own means only
    this.#timer = setInterval(() => void this.follow(), LOOK_EVERY_MS);
  }

  stop() {
    clearInterval(this.#timer);
  }

  /** Looks once how long the sound waits, and has the picture wait as long. */
  async follow() {
    const reports = [...(await this.#sound.getStats()).values()];
    const sound = reports.find(({ type }) => type === "inbound-rtp");
    if (!sound) return;
    const held_ms = heldMs(this.#seen, sound);
    this.#seen = sound;
    if (held_ms === null) return;
    const wanted_ms = Math.min(LONGEST_MS, Math.round(held_ms + SPEAKER_MS));
    const { jitterBufferTarget: present_ms } = this.#picture;
    if (Math.abs(wanted_ms - (present_ms ?? 0)) < NOTICEABLE_MS) return;
    this.#picture.jitterBufferTarget = wanted_ms;
  }
}
