/**
 * What the gateway sends of a face that is drawn here: records of a time and a pose. A pose is 52
 * weights named as ARKit names them, and where the head is.
 *
 * Pure.
 */

export const ARKIT = [
  "browDownLeft", "browDownRight", "browInnerUp", "browOuterUpLeft", "browOuterUpRight",
  "cheekPuff", "cheekSquintLeft", "cheekSquintRight",
  "eyeBlinkLeft", "eyeBlinkRight", "eyeLookDownLeft", "eyeLookDownRight", "eyeLookInLeft",
  "eyeLookInRight", "eyeLookOutLeft", "eyeLookOutRight", "eyeLookUpLeft", "eyeLookUpRight",
  "eyeSquintLeft", "eyeSquintRight", "eyeWideLeft", "eyeWideRight",
  "jawForward", "jawLeft", "jawOpen", "jawRight",
  "mouthClose", "mouthDimpleLeft", "mouthDimpleRight", "mouthFrownLeft", "mouthFrownRight",
  "mouthFunnel", "mouthLeft", "mouthLowerDownLeft", "mouthLowerDownRight", "mouthPressLeft",
  "mouthPressRight", "mouthPucker", "mouthRight", "mouthRollLower", "mouthRollUpper",
  "mouthShrugLower", "mouthShrugUpper", "mouthSmileLeft", "mouthSmileRight", "mouthStretchLeft",
  "mouthStretchRight", "mouthUpperUpLeft", "mouthUpperUpRight",
  "noseSneerLeft", "noseSneerRight", "tongueOut",
];
/** After the weights: radians, signed as in the picture; sides of the portrait; 0..1. */
export const PLACE = ["yaw", "pitch", "roll", "shiftX", "shiftY", "breath"];
export const VALUES = ARKIT.length + PLACE.length;

const TIME_BYTES = 4;
export const RECORD_BYTES = TIME_BYTES + ARKIT.length + 2 * PLACE.length;
const WHOLE = 255;
const FINE = 10_000;

/**
 * @param {ArrayBuffer} message records one after the other
 * @returns {{time_ms: number, pose: Float32Array}[]} poses: [58], weights 0..1 and then PLACE
 */
export function read(message) {
  const view = new DataView(message);
  const records = [];
  for (let at = 0; at + RECORD_BYTES <= message.byteLength; at += RECORD_BYTES) {
    const pose = new Float32Array(VALUES);
    const weights = at + TIME_BYTES;
    for (let i = 0; i < ARKIT.length; i += 1) pose[i] = view.getUint8(weights + i) / WHOLE;
    for (let i = 0; i < PLACE.length; i += 1) {
      pose[ARKIT.length + i] = view.getInt16(weights + ARKIT.length + 2 * i, true) / FINE;
    }
    records.push({ time_ms: view.getUint32(at, true), pose });
  }
  return records;
}

/** Older is not needed: what is heard now is never so late. */
const KEPT_MS = 4000;
/** Poses that are further apart belong to two moments: nothing is between them. */
const ONE_MOTION_MS = 120;

/** The poses of the last moments, by media time. One takes the place of all that are not earlier. */
export class Timeline {
  #records = [];
  #shown = new Float32Array(VALUES);

  push({ time_ms, pose }) {
    while (this.#records.length && this.#records.at(-1).time_ms >= time_ms) this.#records.pop();
    this.#records.push({ time_ms, pose });
    while (time_ms - this.#records[0].time_ms > KEPT_MS) this.#records.shift();
  }

  get empty() {
    return !this.#records.length;
  }

  /**
   * Between two poses the way from one to the other; before the first and after the last, that one.
   * @returns {Float32Array} [58], valid until the next call
   */
  at(time_ms) {
    const records = this.#records;
    let after = records.length;
    while (after > 0 && records[after - 1].time_ms > time_ms) after -= 1;
    const earlier = records[Math.max(0, after - 1)];
    const later = records[Math.min(after, records.length - 1)];
    if (!earlier) return this.#shown;
    const apart_ms = later.time_ms - earlier.time_ms;
    const share = apart_ms > 0 && apart_ms <= ONE_MOTION_MS ? (time_ms - earlier.time_ms) / apart_ms : 0;
    const way = Math.max(0, Math.min(1, share));
    for (let i = 0; i < VALUES; i += 1) {
      this.#shown[i] = earlier.pose[i] + way * (later.pose[i] - earlier.pose[i]);
    }
    return this.#shown;
  }
}
