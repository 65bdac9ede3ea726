/** Runs on the audio thread: microphone samples to 16 ms packets of 16 kHz s16le. */
import { Resampler } from "./resampler.js";

const RATE_HZ = 16_000;
/** Two fill what is listened to at a time: no sound waits for the rest of a packet. */
const PACKET_SAMPLES = 256;

class MicrophoneProcessor extends AudioWorkletProcessor {
  #resampler = new Resampler(sampleRate, RATE_HZ);
  #packet = new Int16Array(PACKET_SAMPLES);
  #filled = 0;

  process([channels]) {
    // No channels: the source has stopped. Keep the node, it may come back.
    if (channels.length) this.#resampler.push(channels[0]).forEach((sample) => this.#add(sample));
    return true;
  }

  #add(sample) {
    this.#packet[this.#filled] = Math.max(-32768, Math.min(32767, Math.round(sample * 32767)));
    this.#filled += 1;
    if (this.#filled < PACKET_SAMPLES) return;
    this.port.postMessage(this.#packet.buffer, [this.#packet.buffer]);
    this.#packet = new Int16Array(PACKET_SAMPLES);
    this.#filled = 0;
  }
}

registerProcessor("visavis-microphone", MicrophoneProcessor);
