/**
 * Streaming sample rate conversion by a windowed sinc (Hann), for speech going
 * to the recogniser. The low-pass sits at 45 % of the lower of the two rates.
 */

const ZERO_CROSSINGS = 12;
const PHASES = 256;

export class Resampler {
  #step;
  #half;
  #kernel;
  #history;
  #position;

  constructor(from_hz, to_hz) {
    this.#step = from_hz / to_hz;
    const cutoff = 0.45 * Math.min(1, to_hz / from_hz); // cycles per input sample
    this.#half = Math.ceil(ZERO_CROSSINGS / (2 * cutoff));
    this.#kernel = Array.from({ length: PHASES + 1 }, (_, phase) => this.#taps(phase / PHASES, cutoff));
    this.#history = new Float32Array(2 * this.#half);
    this.#position = this.#half; // of the next output sample, in this.#history + input
  }

  /** Weights of the input samples around a point `fraction` after one of them. */
  #taps(fraction, cutoff) {
    const taps = new Float32Array(2 * this.#half);
    let sum = 0;
    for (let i = 0; i < taps.length; i += 1) {
      const x = i - this.#half + 1 - fraction;
      const angle = 2 * Math.PI * cutoff * x;
      const sinc = x === 0 ? 1 : Math.sin(angle) / angle;
      taps[i] = sinc * (0.5 + 0.5 * Math.cos((Math.PI * x) / (this.#half + 1)));
      sum += taps[i];
    }
    return taps.map((tap) => tap / sum);
  }

  /**
   * @param {Float32Array} input [N] the next samples
   * @returns {Float32Array} [M] as many output samples as they complete
   */
  push(input) {
    const samples = new Float32Array(this.#history.length + input.length);
    samples.set(this.#history);
    samples.set(input, this.#history.length);
    const output = [];
    while (Math.floor(this.#position) + this.#half < samples.length) {
      const whole = Math.floor(this.#position);
      const taps = this.#kernel[Math.round((this.#position - whole) * PHASES)];
      let sum = 0;
      for (let i = 0; i < taps.length; i += 1) sum += taps[i] * samples[whole - this.#half + 1 + i];
      output.push(sum);
      this.#position += this.#step;
    }
    const used = samples.length - 2 * this.#half;
    this.#history = samples.slice(used);
    this.#position -= used;
    return Float32Array.from(output);
  }
}
