/**
 * Picture with sound. Over WebRTC sound is held back for as long as packets come unevenly; after a
 * stall that may be half a second. The browser's own means of holding the picture back as well
 * takes some ten seconds for it. Both leave the gateway together, so here the picture is told to
 * wait for as long as the sound does, as soon as that is known.
 */

const LOOK_EVERY_MS = 100;
/** From the browser's buffer of sound to the speaker, less the picture's way to the screen. */
const SPEAKER_MS = 15;
/** Smaller changes are not seen; to follow them would make the picture uneven. */
const NOTICEABLE_MS = 10;
const LONGEST_MS = 1000;

/**
 * The browser, for its part, holds the sound back for a picture that waits: one that waited for all
 * of that would keep it there, and both late. Of what the sound waits beyond its need, so much.
 */
const BEYOND_NEED = 0.75;

/** Sound that the browser itself plays, by its statistics. */
class BrowserSound {
  #receiver;
  #seen = null;

  constructor(receiver) {
    this.#receiver = receiver;
  }

  /** How long pictures are to wait for what was heard since this was last asked; null: nothing was. */
  async heldMs() {
    const reports = [...(await this.#receiver.getStats()).values()];
    const later = reports.find(({ type }) => type === "inbound-rtp");
    if (!later) return null;
    const earlier = this.#seen;
    this.#seen = later;
    const since = (count) => later[count] - (earlier?.[count] ?? 0);
    const samples = since("jitterBufferEmittedCount");
    if (!(samples > 0)) return null;
    const waited_ms = (1000 * since("jitterBufferDelay")) / samples;
    const needed_ms = (1000 * since("jitterBufferMinimumDelay")) / samples || waited_ms;
    return SPEAKER_MS + needed_ms + BEYOND_NEED * (waited_ms - needed_ms);
  }
}

function receiverOf(pc, kind) {
  return pc.getReceivers().find(({ track }) => track.kind === kind);
}

/** The sound of a connection: the page's own or, where that is null, the browser's. */
export function soundOf(pc, own) {
  return own ?? new BrowserSound(receiverOf(pc, "audio"));
}

export class InStep {
  /** So long the sound waited, as of the last look. */
  held_ms = 0;
  #sound;
  #picture;
  #timer = 0;

  /**
   * @param {RTCPeerConnection} pc that receives one sound and one picture
   * @param {{heldMs: () => Promise<number | null>} | null} sound null: the browser plays it
   */
  constructor(pc, sound = null) {
    this.#sound = soundOf(pc, sound);
    this.#picture = receiverOf(pc, "video");
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
    const held_ms = await this.#sound.heldMs();
    if (held_ms === null) return;
    this.held_ms = held_ms;
    const wanted_ms = Math.max(0, Math.min(LONGEST_MS, Math.round(held_ms)));
    const { jitterBufferTarget: present_ms } = this.#picture;
    if (Math.abs(wanted_ms - (present_ms ?? 0)) < NOTICEABLE_MS) return;
    this.#picture.jitterBufferTarget = wanted_ms;
  }
}
