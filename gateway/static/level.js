/** Loudness for the eye: 0..1 on a decibel scale from -60 dB to -10 dB of full scale. */
export function visibleLevel(amplitude) {
  const level_db = 20 * Math.log10(amplitude + 1e-6);
  return Math.max(0, Math.min(1, (level_db + 60) / 50));
}
