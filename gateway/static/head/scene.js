/** A head on a canvas: light, camera, and as many pictures as the screen shows. */
import {
  ACESFilmicToneMapping, DirectionalLight, HemisphereLight, MathUtils, PerspectiveCamera, Scene, WebGLRenderer,
} from "../vendor/three/three.module.min.js";
import { PORTRAIT_SIDE } from "./model.js";

/** Height of the picture and place of its middle, in distances between the eyes. */
const VIEWS = {
  portrait: { height: PORTRAIT_SIDE, middle: -0.5 },
  close: { height: 5, middle: -0.6 },
  wide: { height: 9.8, middle: -0.8 },
};
const FIELD_OF_VIEW = 15;
const TURN_LIMIT = { x: 0.7, y: 0.35 };
const ZOOM_LIMIT = { least: 0.6, most: 1.6 };
/** Colour, strength, and from where: a key, a fill, one from below and two rims, as in a studio. */
const LIGHTS = [
  [0xfff6eb, 1.9, [-0.45, 0.47, 0.76]],
  [0xebf5ff, 0.65, [0.71, 0.05, 0.71]],
  [0xfff2e6, 0.4, [0, -0.7, 0.72]],
  [0xfff7ed, 0.7, [0.59, 0.47, -0.65]],
  [0xedf5ff, 0.6, [-0.62, 0.36, -0.69]],
];
const EXPOSURE = 0.85;
const MOST_PIXELS = 2;
const LEAST_PIXELS = 0.5;
/** A device that shows fewer pictures gets coarser ones. */
const SLOW_MS = 45;
const JUDGED = 12;

/** Whether this browser can draw a head at all. */
export function canDraw() {
  const context = document.createElement("canvas").getContext("webgl2");
  context?.getExtension("WEBGL_lose_context")?.loseContext();
  return context !== null;
}

export class HeadScene {
  #renderer;
  #scene = new Scene();
  #camera = new PerspectiveCamera(FIELD_OF_VIEW, 1, 0.05, 50);
  #head = null;
  #view = "portrait";
  #look = { x: 0, y: 0, zoom: 1 };
  #pixels = Math.min(MOST_PIXELS, devicePixelRatio);
  #intervals = [];
  #before_ms = 0;
  #resizing;
  #resized = true;
  #running = 0;

  /** Throws where there is no WebGL. @param {() => void} onLost the graphics card was taken away */
  constructor(canvas, onLost) {
    this.canvas = canvas;
    this.#renderer = new WebGLRenderer({ canvas, antialias: true, alpha: true });
    this.#renderer.toneMapping = ACESFilmicToneMapping;
    this.#renderer.toneMappingExposure = EXPOSURE;
    this.#scene.add(new HemisphereLight(0xffffff, 0x8a7f78, 0.9));
    for (const [colour, strength, from] of LIGHTS) {
      const light = new DirectionalLight(colour, strength);
      light.position.set(...from);
      this.#scene.add(light);
    }
    canvas.addEventListener("webglcontextlost", () => this.#running && onLost());
    this.#resizing = new ResizeObserver(() => (this.#resized = true));
    this.#resizing.observe(canvas);
    this.#followHand();
  }

  wear(head) {
    if (this.#head) {
      this.#scene.remove(this.#head.object);
      this.#head.dispose();
    }
    this.#head = head;
    this.#scene.add(head.object);
    this.#look = { x: 0, y: 0, zoom: 1 };
    this.#place();
  }

  /** @param {"portrait" | "close" | "wide"} name */
  view(name) {
    this.#view = name in VIEWS ? name : "portrait";
    this.#look = { x: 0, y: 0, zoom: 1 };
    this.#place();
  }

  /** @param {(at_ms: number) => Float32Array | null} pose what is to be seen now */
  run(pose) {
    this.stop();
    const paint = (at_ms) => {
      this.#running = requestAnimationFrame(paint);
      this.#paint(pose(performance.now()));
      this.#adapt(at_ms);
    };
    this.#running = requestAnimationFrame(paint);
  }

  stop() {
    cancelAnimationFrame(this.#running);
    this.#running = 0;
  }

  #paint(pose) {
    if (!this.#head || !pose) return;
    if (this.#resized) this.#resize(); // which empties the canvas: just before it is filled
    this.#head.show(pose);
    this.#renderer.render(this.#scene, this.#camera);
    this.canvas.dispatchEvent(new CustomEvent("drawn", { detail: pose }));
  }

  #adapt(at_ms) {
    this.#intervals.push(at_ms - this.#before_ms);
    this.#before_ms = at_ms;
    if (this.#intervals.length < JUDGED) return;
    const usual_ms = this.#intervals.sort((a, b) => a - b)[JUDGED >> 1];
    this.#intervals = [];
    if (usual_ms < SLOW_MS || this.#pixels <= LEAST_PIXELS) return;
    this.#pixels = Math.max(LEAST_PIXELS, 0.75 * this.#pixels);
    this.#resized = true;
  }

  #resize() {
    const { clientWidth, clientHeight } = this.canvas;
    if (!clientWidth || !clientHeight) return;
    this.#resized = false;
    this.#renderer.setPixelRatio(this.#pixels);
    this.#renderer.setSize(clientWidth, clientHeight, false);
    this.#camera.aspect = clientWidth / clientHeight;
    this.#place();
  }

  #place() {
    if (!this.#head) return;
    const { middle, apart } = this.#head.eyes;
    const { height, middle: below } = VIEWS[this.#view];
    const { x, y, zoom } = this.#look;
    // A narrow picture shows as much from side to side as a square one.
    const shown = (height * apart * zoom) / Math.min(1, this.#camera.aspect);
    const distance = shown / (2 * Math.tan(MathUtils.degToRad(FIELD_OF_VIEW / 2)));
    // Round the middle of the head, which lies behind the eyes.
    const [cx, cy, cz] = [middle.x, middle.y + below * apart, middle.z - 1.1 * apart];
    const across = distance * Math.cos(y);
    this.#camera.position.set(cx + across * Math.sin(x), cy + distance * Math.sin(y), cz + across * Math.cos(x));
    this.#camera.near = distance / 20;
    this.#camera.far = distance * 20;
    this.#camera.lookAt(cx, cy, cz);
    this.#camera.updateProjectionMatrix();
  }

  /** Dragged, the head is looked at from the side; the wheel comes nearer; twice: as it was. */
  #followHand() {
    const { canvas } = this;
    canvas.addEventListener("pointerdown", (event) => canvas.setPointerCapture(event.pointerId));
    canvas.addEventListener("pointermove", ({ buttons, movementX, movementY }) => {
      if (!buttons) return;
      const turned = (value, by, limit) => MathUtils.clamp(value + (2 * by) / canvas.clientWidth, -limit, limit);
      this.#look.x = turned(this.#look.x, -movementX, TURN_LIMIT.x);
      this.#look.y = turned(this.#look.y, movementY, TURN_LIMIT.y);
      this.#place();
    });
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const zoom = this.#look.zoom * Math.exp(event.deltaY / 1000);
      this.#look.zoom = MathUtils.clamp(zoom, ZOOM_LIMIT.least, ZOOM_LIMIT.most);
      this.#place();
    }, { passive: false });
    canvas.addEventListener("dblclick", () => this.view(this.#view));
  }

  dispose() {
    this.stop();
    this.#resizing.disconnect();
    this.#head?.dispose();
    this.#renderer.dispose();
    this.#renderer.forceContextLoss();
  }
}
