/** Loudness for the eye. */

/** 0..1 on a decibel scale from -60 dB to -10 dB of full scale. */
export function visibleLevel(amplitude) {
  const level_db = 20 * Math.log10(amplitude + 1e-6);
  return Math.max(0, Math.min(1, (level_db + 60) / 50));
}

/** Measures what a node of an audio graph gives out. */
export class LevelMeter {
  #analyser;
  #samples;

  /** @param {AudioNode} source */
  constructor(source) {
    this.#analyser = new AnalyserNode(source.context, { fftSize: 1024 });
    this.#samples = new Float32Array(this.#analyser.fftSize);
    source.connect(this.#analyser);
  }

  /** Loudness now, 0..1. */
  level() {
    this.#analyser.getFloatTimeDomainData(this.#samples);
    const power = this.#samples.reduce((sum, x) => sum + x * x, 0) / this.#samples.length;
    return visibleLevel(Math.sqrt(power));
  }
}
