/**
 * A head out of a glTF file, moved by the 52 weights: whatever of its meshes has morph targets of
 * these names. It turns from the neck up, so that what it wears stays where it is.
 */
import {
  CustomBlending, Euler, Group, MathUtils, Matrix3, Matrix4, OneFactor, Quaternion, Texture, Vector3, ZeroFactor,
} from "../vendor/three/three.module.min.js";
import { GLTFLoader } from "../vendor/three/GLTFLoader.js";
import { portraitSide } from "./framing.js";
import { ARKIT } from "./pose.js";

const GLB = 0x46546c67;
const JSON_CHUNK = 0x4e4f534a;
const HEADER_BYTES = 12;
const CHUNK_HEADER_BYTES = 8;
/** Fewer would be no face that speaks. */
const LEAST_SHAPES = 20;
/** Distances on a head, in distances between its eyes. */
const NECK = { below: 2.2, behind: 1.4, from: -1.4, to: 0.6, lean: 0.6 };
const BREATH = 0.06;
const MATT = 0.9;
/** What only a decoder could read, that the page does not bring. */
const COMPRESSED = /draco|meshopt|basisu/;

/** The file cannot be used; its message is for the visitor, a key of words.js. */
export class UnfitFile extends Error {}

/**
 * Strands cover a share of each pixel at their edges. The canvas can be seen through: where their
 * alpha replaced what is there already, what stands behind the page's head would shine through it.
 */
function endSoftly(material) {
  material.alphaToCoverage = true;
  material.blending = CustomBlending;
  material.blendSrc = material.blendSrcAlpha = material.blendDstAlpha = OneFactor;
  material.blendDst = ZeroFactor;
}

/** @param {ArrayBuffer} bytes of a glTF 2.0 binary; @returns its JSON. Throws UnfitFile. */
export function described(bytes) {
  const view = new DataView(bytes);
  const start = HEADER_BYTES + CHUNK_HEADER_BYTES;
  if (bytes.byteLength < start || view.getUint32(0, true) !== GLB) throw new UnfitFile("head.unfit.file");
  if (view.getUint32(HEADER_BYTES + 4, true) !== JSON_CHUNK) throw new UnfitFile("head.unfit.file");
  try {
    return JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, start, view.getUint32(HEADER_BYTES, true))));
  } catch {
    throw new UnfitFile("head.unfit.file");
  }
}

/** Decodes pictures that are inside the file without an address, which the page's policy forbids. */
class PicturesInside {
  name = "VISAVIS_pictures_inside";
  #decoded = new Map();

  constructor(parser) {
    this.parser = parser;
    parser.loadImageSource = async (index) => {
      if (!this.#decoded.has(index)) this.#decoded.set(index, this.#decode(index));
      return (await this.#decoded.get(index)).clone();
    };
  }

  async #decode(index) {
    const { bufferView, mimeType } = this.parser.json.images[index];
    if (bufferView === undefined) throw new UnfitFile("head.unfit.outside");
    const blob = new Blob([await this.parser.getDependency("bufferView", bufferView)], { type: mimeType });
    const texture = new Texture(await createImageBitmap(blob, { premultiplyAlpha: "none", colorSpaceConversion: "none" }));
    texture.needsUpdate = true;
    return texture;
  }
}

/** Surfaces said in the old way (KHR_materials_pbrSpecularGlossiness) have their colours nowhere else. */
function withOldColours({ json }) {
  for (const material of json.materials ?? []) {
    const old = material.extensions?.KHR_materials_pbrSpecularGlossiness;
    if (!old) continue;
    const { diffuseFactor: baseColorFactor, diffuseTexture: baseColorTexture } = old;
    material.pbrMetallicRoughness = { baseColorFactor, baseColorTexture, metallicFactor: 0, roughnessFactor: MATT };
  }
  return { name: "VISAVIS_old_colours" };
}

/** @param {(loader: GLTFLoader) => void} prepare before it reads */
export async function parsed(bytes, prepare = () => {}) {
  const { extensionsRequired = [] } = described(bytes);
  if (extensionsRequired.some((name) => COMPRESSED.test(name))) throw new UnfitFile("head.unfit.compressed");
  const loader = new GLTFLoader();
  loader.register((parser) => new PicturesInside(parser));
  loader.register(withOldColours);
  prepare(loader);
  try {
    return await loader.parseAsync(bytes, "");
  } catch (error) {
    if (error instanceof UnfitFile) throw error;
    console.warn("visavis: the head cannot be read:", error);
    throw new UnfitFile("head.unfit.file");
  }
}

/** Of a mesh: for each weight of ours its morph target, or none. Some write Left as _L. */
function targetsOf(mesh) {
  const known = mesh.morphTargetDictionary ?? {};
  const short = (name) => name.replace(/Left$/, "_L").replace(/Right$/, "_R");
  return ARKIT.map((name) => known[name] ?? known[short(name)] ?? null);
}

/** Where a shape moves a mesh: the middle of what it moves. */
function movedAt(mesh, target) {
  const { count } = mesh.geometry.attributes.position;
  const change = mesh.geometry.morphAttributes.position[target];
  const [middle, point, moved] = [new Vector3(), new Vector3(), new Vector3()];
  let total = 0;
  for (let i = 0; i < count; i += 1) {
    const weight = moved.fromBufferAttribute(change, i).lengthSq();
    // Where its bones hold it, if it has any.
    if (weight) middle.addScaledVector(mesh.getVertexPosition(i, point), weight);
    total += weight;
  }
  return { middle: middle.divideScalar(total || 1).applyMatrix4(mesh.matrixWorld), total };
}

/** Between the eyes, and how far they are apart: each is where its lid moves. */
export function eyesOf(faces) {
  const eye = (name) => {
    const found = faces
      .filter(({ targets }) => targets[ARKIT.indexOf(name)] !== null)
      .map(({ mesh, targets }) => movedAt(mesh, targets[ARKIT.indexOf(name)]))
      .sort((a, b) => b.total - a.total);
    return found[0]?.middle ?? null;
  };
  const [left, right] = [eye("eyeBlinkLeft"), eye("eyeBlinkRight")];
  if (!left || !right || left.distanceTo(right) < 1e-4) throw new UnfitFile("head.unfit.shapes");
  return { middle: left.clone().add(right).multiplyScalar(0.5), apart: left.distanceTo(right) };
}

/** Turns what a material shows from the neck up, in the world: `turn` is shared by all of a head. */
function bend(material, turn) {
  material.onBeforeCompile = (shader) => {
    Object.assign(shader.uniforms, turn);
    shader.vertexShader = shader.vertexShader
      .replace("#include <common>", `#include <common>
        uniform mat3 headTurn; uniform vec3 neck; uniform vec3 pivot; uniform vec3 neckUp; uniform vec2 neckSpan;
        uniform vec3 headShift; uniform float breath;
        float headShare() {
          vec3 at = (modelMatrix * vec4(position, 1.0)).xyz;
          return smoothstep(neckSpan.x, neckSpan.y, dot(at - neck, neckUp));
        }`)
      .replace("#include <defaultnormal_vertex>", `#include <defaultnormal_vertex>
        mat3 seen = mat3(viewMatrix);
        transformedNormal = mix(transformedNormal, seen * headTurn * transpose(seen) * transformedNormal, headShare());`)
      .replace("#include <project_vertex>", `
        float share = headShare();
        vec3 at = (modelMatrix * vec4(transformed, 1.0)).xyz;
        at = mix(at, headTurn * (at - pivot) + pivot, share) + share * headShift;
        at.y += (1.0 - share) * breath;
        vec4 mvPosition = viewMatrix * vec4(at, 1.0);
        gl_Position = projectionMatrix * mvPosition;`);
  };
}

/** Bones that turn the head of a figure that has them. */
const BONES = /^(.*[:_])?(head|neck)$/i;
/** What makers of avatars call that of an upper arm, without what stands between the words. */
const UPPER_ARM = /((left|right)(upper)?arm|[lr]upperarm|upperarm(01)?[lr])$/;
/** Radians below the horizon: of an arm that hangs, and of one that is let down to there. */
const ARM = { hanging: 1.2, heldOut: 0.6 };
const TO_THE_FRONT = new Vector3(0, 0, 1);

/** Figures hold their arms out to be dressed; nobody speaks so. As the server does. */
function letDown(arm) {
  const shoulder = arm.getWorldPosition(new Vector3());
  const ways = arm.children.filter((child) => child.isBone)
    .map((child) => child.getWorldPosition(new Vector3()).sub(shoulder))
    .sort((a, b) => b.lengthSq() - a.lengthSq());
  if (!ways.length) return;
  const below = Math.atan2(-ways[0].y, Math.abs(ways[0].x));
  if (below >= ARM.heldOut) return;
  const above = arm.parent.getWorldQuaternion(new Quaternion());
  const turn = new Quaternion().setFromAxisAngle(TO_THE_FRONT, -Math.sign(ways[0].x) * (ARM.hanging - below));
  arm.quaternion.premultiply(above).premultiply(turn).premultiply(above.invert());
  arm.updateMatrixWorld(true);
}

export class ArkitHead {
  object = new Group();
  scene;
  #faces;
  #turn;
  #eyes;
  #bones = [];
  #euler = new Euler(0, 0, 0, "YXZ");
  #matrix = new Matrix4();
  #part = new Quaternion();

  /** @param gltf as GLTFLoader has it; scene: of its bundle, if it has one. Throws UnfitFile. */
  constructor(gltf, scene) {
    this.scene = scene;
    this.object.add(gltf.scene);
    gltf.scene.updateMatrixWorld(true);
    const meshes = [];
    gltf.scene.traverse((node) => {
      if (node.isMesh) meshes.push(node);
      if (!node.isBone) return;
      const above = node.parent.getWorldQuaternion(new Quaternion());
      if (BONES.test(node.name)) this.#bones.push({ bone: node, rest: node.quaternion.clone(), above });
      if (UPPER_ARM.test(node.name.toLowerCase().replace(/[\s_.:-]+/g, ""))) letDown(node);
    });
    this.#faces = meshes.filter((mesh) => mesh.morphTargetInfluences).map((mesh) => ({ mesh, targets: targetsOf(mesh) }));
    const known = ARKIT.filter((_, i) => this.#faces.some(({ targets }) => targets[i] !== null));
    if (known.length < LEAST_SHAPES || !this.#opens()) throw new UnfitFile("head.unfit.shapes");
    this.#eyes = eyesOf(this.#faces);
    this.#turn = this.#neck();
    for (const mesh of meshes) this.#dress(mesh);
  }

  get eyes() {
    return this.#eyes;
  }

  /** Some makers name shapes that move nothing. */
  #opens() {
    const jaw = ARKIT.indexOf("jawOpen");
    return this.#faces.some(({ mesh, targets }) => targets[jaw] !== null && movedAt(mesh, targets[jaw]).total > 0);
  }

  #neck() {
    const { middle, apart } = this.#eyes;
    const neck = middle.clone().add(new Vector3(0, -NECK.below * apart, -NECK.behind * apart));
    return {
      headTurn: { value: new Matrix3() },
      neck: { value: neck },
      pivot: { value: this.scene?.neck ? new Vector3(...this.scene.neck) : neck },
      neckUp: { value: new Vector3(0, 1, NECK.lean).normalize() },
      neckSpan: { value: [NECK.from * apart, NECK.to * apart] },
      headShift: { value: new Vector3() },
      breath: { value: 0 },
    };
  }

  #dress(mesh) {
    mesh.frustumCulled = false; // its box does not know how it is bent
    for (const material of [mesh.material].flat()) {
      // Hair hides what is behind it; lashes do not.
      if (material.transparent) material.depthWrite = /hair/i.test(material.name);
      if (material.alphaTest > 0) endSoftly(material);
      // A single highlight on flat ribbons looks like a helmet.
      if (/hair|brow|lash/i.test(material.name)) material.roughness = Math.max(MATT, material.roughness ?? 1);
      if (!mesh.isSkinnedMesh) bend(material, this.#turn);
    }
  }

  /** @param {Float32Array} pose [58], see pose.js */
  show(pose) {
    for (const { mesh, targets } of this.#faces) {
      for (let i = 0; i < ARKIT.length; i += 1) {
        if (targets[i] !== null) mesh.morphTargetInfluences[targets[i]] = pose[i];
      }
    }
    const [yaw, pitch, roll, shiftX, shiftY, breath] = pose.subarray(ARKIT.length);
    // In the picture a head that tilts clockwise turns the other way round than the axis says.
    this.#matrix.makeRotationFromEuler(this.#euler.set(pitch, yaw, -roll));
    for (const { bone, rest, above } of this.#bones) {
      const share = 1 / this.#bones.length;
      this.#part.setFromEuler(this.#euler.set(share * pitch, share * yaw, -share * roll));
      // Whichever way its own axes look, it turns by the world's.
      bone.quaternion.copy(above).invert().multiply(this.#part).multiply(above).multiply(rest);
    }
    this.#turn.headTurn.value.setFromMatrix4(this.#matrix);
    const side = portraitSide(this.#eyes, this.scene);
    this.#turn.headShift.value.set(shiftX * side, -shiftY * side, 0);
    this.#turn.breath.value = MathUtils.clamp(breath, 0, 1) * BREATH * this.#eyes.apart;
  }

  dispose() {
    this.object.traverse((node) => {
      node.geometry?.dispose();
      for (const material of [node.material ?? []].flat()) {
        for (const value of Object.values(material)) if (value?.isTexture) value.dispose();
        material.dispose();
      }
    });
  }
}

/**
 * @param {ArrayBuffer} bytes a GLB with ARKit's shapes, or a VRM. Throws UnfitFile.
 * @param scene how the portrait of its bundle shows it, see framing.js; null: it is of no bundle
 */
export async function headOf(bytes, scene = null) {
  const { extensionsUsed = [] } = described(bytes);
  if (extensionsUsed.some((name) => name === "VRM" || name === "VRMC_vrm")) {
    return (await import("./vrm.js")).vrmOf(bytes);
  }
  return new ArkitHead(await parsed(bytes), scene);
}
