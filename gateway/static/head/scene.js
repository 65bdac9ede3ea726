/** A head on a canvas: light, camera, and as many pictures as the screen shows. */
import {
  ACESFilmicToneMapping, Color, DirectionalLight, Group, HemisphereLight, MathUtils, NoToneMapping, PerspectiveCamera,
  Scene, WebGLRenderer,
} from "../vendor/three/three.module.min.js";
import { framed, isView, lit } from "./framing.js";

const TURN_LIMIT = { x: 0.7, y: 0.35 };
const ZOOM_LIMIT = { least: 0.6, most: 1.6 };
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
  #camera = new PerspectiveCamera();
  #light = new Group();
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
    this.#scene.add(this.#light);
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
    this.#shine(lit(head.scene));
    this.#look = { x: 0, y: 0, zoom: 1 };
    this.#place();
  }

  #shine({ lamps, around, exposure, baked }) {
    this.#light.clear();
    this.#light.add(new HemisphereLight(0xffffff, baked ? 0xffffff : 0x8a7f78, around));
    for (const { colour, strength, direction } of lamps) {
      const light = new DirectionalLight(new Color(...colour), strength);
      light.position.set(...direction);
      this.#light.add(light);
    }
    // Light that is in the textures has been through a film already.
    this.#renderer.toneMapping = baked ? NoToneMapping : ACESFilmicToneMapping;
    this.#renderer.toneMappingExposure = exposure;
  }

  /** @param {"portrait" | "close" | "wide"} name */
  view(name) {
    this.#view = isView(name) ? name : "portrait";
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
    const { eyes, scene } = this.#head;
    const { position, target, angle, away } = framed(eyes, scene, this.#view, this.#look, this.#camera.aspect);
    this.#camera.position.set(...position);
    this.#camera.fov = angle;
    this.#camera.near = away / 20;
    this.#camera.far = away * 20;
    this.#camera.lookAt(...target);
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
