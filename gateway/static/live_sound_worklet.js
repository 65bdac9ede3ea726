/** Runs on the audio thread: plays what the worker has decoded, and tells how late it is. */
import { LivePlayout } from "./live_playout.js";

const TELL_EVERY = 4800;

class LiveSoundProcessor extends AudioWorkletProcessor {
  #playout = new LivePlayout();
  #told = 0;

  constructor() {
    super();
    this.port.onmessage = ({ data: packets }) => {
      packets.onmessage = ({ data: { time, pcm } }) => this.#playout.push(time, pcm, currentFrame);
    };
  }

  process(_inputs, [[channel]]) {
    this.#playout.pull(channel, currentFrame);
    if (currentFrame - this.#told >= TELL_EVERY) {
      this.#told = currentFrame;
      const late = this.#playout.lateness(currentFrame);
      this.port.postMessage(late === null ? null : (1000 * late) / sampleRate);
    }
    return true;
  }
}

registerProcessor("visavis-live-sound", LiveSoundProcessor);
