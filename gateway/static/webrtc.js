/**
 * Media over WebRTC. One offer, no trickle: the gateway answers once. The
 * microphone's place is in the offer from the start, so that the microphone
 * can be switched on and off later without a second negotiation.
 */

import { ArrivalClock } from "./head/clock.js";
import { InStep, soundOf } from "./in_step.js";
import { visibleLevel } from "./level.js";
import { LiveSound } from "./live_sound.js";
import { onAbort } from "./sockets.js";

const GATHERING_LIMIT_MS = 1000;
const CONNECT_LIMIT_MS = 6000;
/** A Wi-Fi change shows up as "disconnected" and often heals by itself. */
const HEALING_LIMIT_MS = 3000;

/** H.264 first: the avatar is encoded as H.264 once for every kind of viewer. */
function preferH264(transceiver) {
  const codecs = RTCRtpReceiver.getCapabilities?.("video")?.codecs;
  if (!codecs || !transceiver.setCodecPreferences) return;
  const rank = (codec) => {
    if (codec.mimeType !== "video/H264") return 2;
    return /packetization-mode=1.*profile-level-id=42e0/.test(codec.sdpFmtpLine ?? "") ? 0 : 1;
  };
  transceiver.setCodecPreferences([...codecs].sort((a, b) => rank(a) - rank(b)));
}

function gathered(pc) {
  if (pc.iceGatheringState === "complete") return Promise.resolve();
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, GATHERING_LIMIT_MS);
    pc.addEventListener("icegatheringstatechange", () => {
      if (pc.iceGatheringState !== "complete") return;
      clearTimeout(timer);
      resolve();
    });
  });
}

function connected(pc, signal) {
  return new Promise((resolve, reject) => {
    const give = (settle, value) => {
      clearTimeout(timer);
      pc.removeEventListener("connectionstatechange", check);
      forget();
      settle(value);
    };
    const check = () => {
      if (pc.connectionState === "connected") give(resolve);
      if (["failed", "closed"].includes(pc.connectionState)) {
        give(reject, new Error(`WebRTC ${pc.connectionState}`));
      }
    };
    const timer = setTimeout(() => give(reject, new Error("WebRTC timed out")), CONNECT_LIMIT_MS);
    const forget = onAbort(signal, () => give(reject, signal.reason));
    pc.addEventListener("connectionstatechange", check);
    check();
  });
}

/** From then on the browser plays the sound. */
let playoutFailed = false;

export class WebRtcMedia extends EventTarget {
  kind = "webrtc";
  #pc;
  #stream = new MediaStream();
  #microphone;
  #healing = 0;
  #voice = 0;
  #measuring = null;
  #inStep = null;
  /** Null: the browser plays it. */
  #sound = null;
  #leave = () => {};
  #drawnBy;

  /**
   * @param {RTCIceServer[]} iceServers
   * @param {"server" | "client"} drawnBy client: no pictures come
   */
  constructor(iceServers, drawnBy = "server") {
    super();
    this.#drawnBy = drawnBy;
    this.#pc = new RTCPeerConnection({ iceServers });
  }

  /**
   * @param {HTMLVideoElement} video shows and sounds what arrives
   * @param {{exchange: (offer: object) => Promise<object>, leave: (peerId: string) => void}} signalling
   *   offer to answer, and goodbye
   */
  async connect(video, { exchange, leave }, role, signal) {
    try {
      if (!playoutFailed) this.#sound = await LiveSound.open();
      this.#addTransceivers(role, video);
      await this.#pc.setLocalDescription(await this.#pc.createOffer());
      await gathered(this.#pc);
      const { sdp, type } = this.#pc.localDescription;
      const answer = await exchange({ sdp, type, role, drawn_by: this.#drawnBy });
      this.#leave = () => leave(answer.peer_id);
      await this.#pc.setRemoteDescription({ sdp: answer.sdp, type: answer.type });
      video.removeAttribute("src");
      video.srcObject = this.#stream;
      await connected(this.#pc, signal);
      if (this.#sound?.broken) throw new Error("the sound cannot be decoded");
      this.#sound?.expect();
    } catch (error) {
      this.close();
      throw error;
    }
    this.#pc.addEventListener("connectionstatechange", () => this.#watch());
    if (this.#drawnBy === "client") return;
    this.#inStep = new InStep(this.#pc, this.#sound);
    this.#inStep.start();
  }

  /** What a face that is drawn here has to be in step with. */
  clock() {
    const sound = soundOf(this.#pc, this.#sound);
    return new ArrivalClock(() => sound.heldMs());
  }

  #addTransceivers(role, video) {
    const direction = role === "viewer" ? "recvonly" : "sendrecv";
    const { sender, receiver } = this.#pc.addTransceiver("audio", { direction });
    this.#microphone = sender;
    // Packets pass by a transform that is not set in the same task.
    this.#sound?.play(receiver, video, () => this.#fallBack());
    if (this.#drawnBy === "server") preferH264(this.#pc.addTransceiver("video", { direction: "recvonly" }));
    this.#pc.addEventListener("track", ({ track }) => this.#stream.addTrack(track));
  }

  /** The next connection leaves the sound to the browser. */
  #fallBack() {
    playoutFailed = true;
    this.dispatchEvent(new Event("lost"));
  }

  /** The browser watches that something comes, and says when nothing does. */
  heard() {
    return true;
  }

  #watch() {
    clearTimeout(this.#healing);
    const state = this.#pc.connectionState;
    const lost = () => this.dispatchEvent(new Event("lost"));
    if (state === "failed" || state === "closed") lost();
    if (state === "disconnected") this.#healing = setTimeout(lost, HEALING_LIMIT_MS);
  }

  /** @param {import("./microphone.js").Microphone | null} microphone null: nothing is sent */
  async setMicrophone(microphone) {
    await this.#microphone.replaceTrack(microphone?.track ?? null);
  }

  /** Loudness of the avatar's voice, 0..1, as of the last time that it was asked for. */
  voiceLevel() {
    if (this.#sound) return this.#sound.level();
    this.#measuring ??= this.#measureVoice().finally(() => (this.#measuring = null));
    return this.#voice;
  }

  async #measureVoice() {
    const receiver = this.#pc.getReceivers().find(({ track }) => track.kind === "audio");
    const reports = [...((await receiver?.getStats()) ?? new Map()).values()];
    const heard = reports.find(({ type, kind }) => type === "inbound-rtp" && kind === "audio");
    this.#voice = visibleLevel(heard?.audioLevel ?? 0);
  }

  /** So long is heard what has come, after it is cut off. */
  get held_ms() {
    return this.#inStep?.held_ms ?? 0;
  }

  /** What has come runs out by itself. */
  skip() {}

  close() {
    clearTimeout(this.#healing);
    this.#inStep?.stop();
    this.#sound?.close();
    if (this.#pc.connectionState !== "closed") this.#leave();
    this.#pc.close();
  }
}
