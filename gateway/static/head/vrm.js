/** A figure of the VRM format, 0.x or 1.0, moved by the 52 weights as far as its expressions go. */
import { Vector3 } from "../vendor/three/three.module.min.js";
import { VRMLoaderPlugin, VRMUtils } from "../vendor/three-vrm/three-vrm.module.min.js";
import { parsed, UnfitFile } from "./model.js";
import { ARKIT } from "./pose.js";

/**
 * Vowels and lids as sums of weights. The jaw opens every vowel; lips say which it is: apart for
 * "ih" and "ee", round for "ou" and "oh".
 */
export const EXPRESSIONS = {
  aa: (w) => w("jawOpen") * 1.5 * (1 - round(w)) * (1 - 0.6 * wide(w)) * (1 - shut(w)),
  ih: (w) => 0.5 * wide(w) * (1 - shut(w)),
  ee: (w) => 0.6 * wide(w) * Math.min(1, 0.3 + 2 * w("jawOpen")) * (1 - shut(w)),
  ou: (w) => w("mouthPucker") * (1 - shut(w)),
  oh: (w) => Math.min(1, w("mouthFunnel") * 1.3) * (1 - shut(w)),
  blinkLeft: (w) => w("eyeBlinkLeft"),
  blinkRight: (w) => w("eyeBlinkRight"),
  happy: (w) => Math.max(0, both(w, "mouthSmile") - 0.25 * wide(w)) * 0.8,
  angry: (w) => 0.5 * both(w, "browDown"),
  sad: (w) => 0.6 * both(w, "mouthFrown"),
  surprised: (w) => 0.4 * w("browInnerUp"),
};
const OPENING = /^(aa|jawOpen)$/i;
const LOOK_DEGREES = 20;
const FULL_LOOK = 0.6;
/** A figure's arms stand out; a person's do not. */
const ARM_DOWN = 1.2;

const both = (w, name) => (w(`${name}Left`) + w(`${name}Right`)) / 2;
const wide = (w) => Math.min(1, 2 * both(w, "mouthStretch"));
const round = (w) => Math.min(1, w("mouthPucker") + w("mouthFunnel"));
const shut = (w) => Math.min(1, 2.2 * both(w, "mouthPress"));
const clipped = (value) => Math.max(0, Math.min(1, value));

/** Whether a mouth has anything to move: many figures have expressions by name alone. */
function opens(manager) {
  return manager?.expressions.some(({ expressionName, binds }) => OPENING.test(expressionName) && binds.length);
}

class VrmHead {
  #vrm;
  #head;
  #neck;
  #own;
  #facing;
  #seen_ms = performance.now();

  constructor(vrm) {
    this.#vrm = vrm;
    this.#head = vrm.humanoid?.getNormalizedBoneNode("head");
    this.#neck = vrm.humanoid?.getNormalizedBoneNode("neck");
    if (!this.#head || !opens(vrm.expressionManager)) throw new UnfitFile("head.unfit.shapes");
    // Figures of 0.x look the other way.
    this.#facing = vrm.meta?.metaVersion === "0" ? -1 : 1;
    for (const [side, sign] of [["left", -1], ["right", 1]]) {
      const arm = vrm.humanoid.getNormalizedBoneNode(`${side}UpperArm`);
      if (arm) arm.rotation.z = sign * this.#facing * ARM_DOWN;
    }
    // Some bring an expression for each of the 52 ("perfect sync"): then nothing is guessed.
    const known = vrm.expressionManager.expressions.map(({ expressionName }) => expressionName);
    const alike = (name) => known.find((other) => other.toLowerCase() === name.toLowerCase());
    this.#own = new Map(ARKIT.map((name) => [name, alike(name)]).filter(([, own]) => own));
    vrm.update(0);
    vrm.scene.updateMatrixWorld(true);
  }

  get object() {
    return this.#vrm.scene;
  }

  get eyes() {
    const at = (name) => this.#vrm.humanoid.getRawBoneNode(name)?.getWorldPosition(new Vector3());
    const [left, right] = [at("leftEye"), at("rightEye")];
    if (left && right) return { middle: left.add(right).multiplyScalar(0.5), apart: left.distanceTo(right) };
    const middle = this.#head.getWorldPosition(new Vector3()).add(new Vector3(0, 0.07, 0.06));
    return { middle, apart: 0.07 };
  }

  show(pose) {
    const weight = (name) => pose[ARKIT.indexOf(name)];
    const { expressionManager, lookAt } = this.#vrm;
    if (this.#own.size > ARKIT.length / 2) {
      for (const [name, own] of this.#own) expressionManager.setValue(own, weight(name));
    } else {
      for (const [name, of] of Object.entries(EXPRESSIONS)) expressionManager.setValue(name, clipped(of(weight)));
    }
    if (lookAt) {
      lookAt.yaw = (LOOK_DEGREES * (weight("eyeLookOutLeft") - weight("eyeLookOutRight"))) / FULL_LOOK;
      lookAt.pitch = (LOOK_DEGREES * (weight("eyeLookDownLeft") - weight("eyeLookUpLeft"))) / FULL_LOOK;
    }
    const [yaw, pitch, roll] = pose.subarray(ARKIT.length);
    const nod = (this.#facing * pitch) / 2;
    const tilt = (-this.#facing * roll) / 2;
    for (const bone of [this.#head, this.#neck]) bone?.rotation.set(nod, yaw / 2, tilt, "YXZ");
    const now_ms = performance.now();
    this.#vrm.update(Math.min(0.1, (now_ms - this.#seen_ms) / 1000));
    this.#seen_ms = now_ms;
  }

  dispose() {
    VRMUtils.deepDispose(this.#vrm.scene);
  }
}

export async function vrmOf(bytes) {
  const gltf = await parsed(bytes, (loader) => loader.register((parser) => new VRMLoaderPlugin(parser)));
  const { vrm } = gltf.userData;
  if (!vrm) throw new UnfitFile("head.unfit.file");
  VRMUtils.rotateVRM0(vrm);
  return new VrmHead(vrm);
}
