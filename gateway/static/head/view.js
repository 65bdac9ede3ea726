/**
 * The face drawn on this device: the canvas on the stage, which head it shows, and what to do where
 * it cannot be drawn. All that draws is loaded when it is first wanted.
 */
import { ApiError } from "../api.js";
import { DrawingChoices, told } from "./choices.js";
import { keep, kept } from "./store.js";

const LARGEST_BYTES = 100e6;
const SOFT_PIXELS = 8;

export class HeadView {
  #api;
  #preferences;
  #avatar;
  #onDrawnBy;
  #onFault;
  #frame;
  #scene = null;
  #stream = null;
  #wearing = "";
  #asked = null;
  /** It could not be fetched; the server draws for now. */
  #failed = false;
  #wall = null;
  #backdrop = "";

  /**
   * @param {HTMLElement} frame of the stage, where the pictures are
   * @param {HTMLElement} section of the settings, for the choices
   * @param {{api: object, preferences: object, avatar: () => string,
   *   onDrawnBy: (by: "server" | "client") => void, onFault: (message: string) => void}} page
   *   avatar: its name; onDrawnBy: who draws from now on
   */
  constructor(frame, section, { api, preferences, avatar, onDrawnBy, onFault }) {
    this.#frame = frame;
    this.#api = api;
    this.#preferences = preferences;
    this.#avatar = avatar;
    this.#onDrawnBy = onDrawnBy;
    this.#onFault = onFault;
    this.choices = new DrawingChoices(section, preferences, (name, _, file) => this.#changed(name, file));
  }

  /** Makes ready what the visitor wants; who draws then: "server" where this device cannot. */
  async prepare() {
    if (this.#preferences.get("drawnBy") !== "client") return "server";
    try {
      await this.#wear(await this.#own());
      return this.#preferences.get("drawnBy");
    } catch (error) {
      this.#giveUp(error);
      return "server";
    }
  }

  /** Another avatar is worn: its head is drawn, or by the server where it has none. */
  async avatarChanged() {
    if (!this.#scene && !this.#asked && !this.#failed) return;
    if (this.#scene) void this.#paintBackground();
    if (this.#preferences.get("headFile") !== "own") await this.#again();
  }

  /** @param {import("./stream.js").FaceStream | null} stream null: no pose comes any more */
  follow(stream) {
    this.#stream = stream;
    if (!stream) {
      this.#scene?.stop();
      delete document.body.dataset.drawn;
      return;
    }
    this.#scene?.run((at_ms) => this.#pose(at_ms));
  }

  #pose(at_ms) {
    const pose = this.#stream?.pose(at_ms) ?? null;
    if (pose) document.body.dataset.drawn = "client";
    return pose;
  }

  async #changed(name, file) {
    if (name === "headView") this.#scene?.view(this.#preferences.get(name));
    else if (name === "headBackground") await this.#paintBackground(file);
    else await this.#again(file);
  }

  /** Wears what is wanted now. file: just chosen; one that will not do is told, and not kept. */
  async #again(file) {
    let drawn = this.#preferences.get("drawnBy") === "client";
    if (drawn) {
      try {
        if (!(await this.#wear(file ?? (await this.#own())))) return;
        if (file) await keep("headFile", file);
      } catch (error) {
        if (!file) {
          this.#giveUp(error);
          drawn = false;
        } else {
          this.#preferences.set("headFile", "avatar");
          this.choices.show();
          this.#onFault(told(error));
          return this.#again();
        }
      }
    }
    if (drawn && this.#preferences.get("drawnBy") === "client") return this.#onDrawnBy("client");
    this.#end();
    this.#onDrawnBy("server");
  }

  /** The visitor's own file, where he wants it and this browser has kept it. */
  async #own() {
    if (this.#preferences.get("headFile") !== "own") return null;
    const file = await kept("headFile");
    if (!file) {
      this.#preferences.set("headFile", "avatar");
      this.choices.show();
    }
    return file;
  }

  /** Whether it is worn now: not where another one has been asked for meanwhile, or the server. */
  async #wear(file) {
    const asked = (this.#asked = {});
    this.#failed = false;
    const overtaken = () => this.#asked !== asked;
    try {
      const { canDraw, HeadScene } = await import("./scene.js");
      if (!this.#scene && !canDraw()) throw new Error("head.no-webgl");
      const name = file ? "" : this.#avatar();
      if (file?.size > LARGEST_BYTES) throw new Error("head.unfit.large");
      if (this.#scene && name && name === this.#wearing) return !overtaken();
      const [{ headOf }, [bytes, scene, wall]] = await Promise.all([
        import("./model.js"),
        file ? file.arrayBuffer().then((own) => [own, null, null]) : this.#load(name),
      ]);
      const head = await headOf(bytes, scene);
      if (overtaken()) {
        head.dispose();
        return false;
      }
      this.#wall = wall;
      if (this.#scene) void this.#paintBackground();
      else this.#open(HeadScene);
      this.#scene.wear(head);
      this.#wearing = name;
      if (this.#stream) this.follow(this.#stream);
      return true;
    } catch (error) {
      if (overtaken()) return false;
      throw error;
    } finally {
      if (!overtaken()) this.#asked = null;
    }
  }

  #open(HeadScene) {
    const canvas = document.createElement("canvas");
    canvas.id = "head";
    canvas.setAttribute("aria-hidden", "true"); // the portrait's name stands for it
    this.#frame.querySelector("video").after(canvas);
    try {
      this.#scene = new HeadScene(canvas, () => this.#lost());
    } catch {
      canvas.remove();
      throw new Error("head.no-webgl");
    }
    this.#scene.view(this.#preferences.get("headView"));
    void this.#paintBackground();
  }

  /** The avatar's head, how its portrait shows it, and what stands behind it there. */
  async #load(name) {
    try {
      return await Promise.all([this.#api.head(name), this.#api.headScene(name), this.#api.headBackground(name)]);
    } catch (error) {
      if (error.status === 404) throw new Error("head.none");
      throw error;
    }
  }

  #lost() {
    this.#giveUp(new Error("head.lost"));
    this.#end();
    this.#onDrawnBy("server");
  }

  /** Says why, and leaves the drawing to the server; for now, where a gateway was asked in vain. */
  #giveUp(error) {
    console.info("visavis: the face is not drawn here:", error);
    this.#failed = error instanceof ApiError;
    if (!this.#failed) {
      this.#preferences.set("drawnBy", "server");
      if (this.#preferences.get("headFile") === "own") this.#preferences.set("headFile", "avatar");
      this.choices.show();
    }
    this.#onFault(told(error));
  }

  #end() {
    this.#asked = null;
    this.follow(null);
    this.#scene?.dispose();
    this.#scene?.canvas.remove();
    this.#scene = null;
    this.#wearing = "";
  }

  /** The portrait's colours: a handful of pixels, stretched, is a blur for free. */
  #softened() {
    const portrait = this.#frame.querySelector("img");
    if (!portrait.naturalWidth) return "";
    const canvas = Object.assign(document.createElement("canvas"), { width: SOFT_PIXELS, height: SOFT_PIXELS });
    const brush = canvas.getContext("2d");
    brush.filter = "brightness(0.7)";
    brush.drawImage(portrait, 0, 0, SOFT_PIXELS, SOFT_PIXELS);
    return canvas.toDataURL();
  }

  async #paintBackground(file) {
    const wanted = this.#preferences.get("headBackground");
    document.body.dataset.backdrop = wanted;
    if (file) await keep("headBackground", file);
    const picture = wanted === "own" ? (file ?? (await kept("headBackground"))) : wanted === "soft" ? this.#wall : null;
    URL.revokeObjectURL(this.#backdrop);
    this.#backdrop = picture ? URL.createObjectURL(picture) : this.#softened();
    this.#frame.style.setProperty("--backdrop", this.#backdrop ? `url("${this.#backdrop}")` : "none");
  }
}
