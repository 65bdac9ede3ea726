/**
 * Playout of sound that comes in packets, some of them late. It plays as soon after the promptest
 * packets as the others allow. Where nothing has come it stands still, by repeating the last
 * period of the wave while it fades; what has become late is made good by leaving periods out, up
 * to half as fast again, and pauses at once. Each cut is a short cross-fade between two places at
 * which the wave is alike, so that words stay whole and no click is heard.
 *
 * Pure: times are samples, of the stream (`time`) and of the audio clock (`now`).
 */

const RATE_HZ = 48_000;
const samples = (duration_ms) => (duration_ms * RATE_HZ) / 1000;

/** Lateness is judged by half seconds: each by the promptest packet of two, all of ten together. */
const SPAN = samples(500);
const NEAR_SPANS = 4;
const SPANS = 20;
/** So many of them may be worse: a stall that stands alone is not waited for. */
const FORGIVEN = 2;
/** Until that is known. */
const AT_FIRST = samples(35);
/** More than the latest packet needs: to look ahead for a cut. */
const MARGIN = samples(25);
const LONGEST_WAIT = samples(250);
/** What was said so long ago is old: it is left out. */
const JUMP = samples(1500);
/** Nearer to the wanted place is near enough. */
const SLACK = samples(10);

const FADE = samples(8);
/** What one cut may leave out or repeat: some periods of a voice. */
const SHORTEST_CUT = samples(4);
const LONGEST_CUT = samples(20);
/** Quieter is a pause; so much of it stays before the next word. */
const QUIET = 0.002;
const PAUSE_KEPT = samples(80);
/** While it stands still: so long at full loudness, then so long until it is silent. */
const HELD_LOUD = samples(20);
const HELD_FADING = samples(60);
const RISE = 1 / samples(5);
/** A packet that is further from the others belongs to another stream. */
const ELSEWHERE = samples(2000);
const QUANTUM = 128;

/** A power of two, longer than what can be waiting. */
const RING = 1 << 18;
const AT = RING - 1;

/** When packets arrive, compared with the promptest of them. */
class Arrivals {
  #spans = Array.from({ length: FORGIVEN + 1 }, () => ({ begun: -Infinity, promptest: Infinity, late: AT_FIRST }));
  promptest = Infinity;
  /** So long after the promptest packets nearly all have come. */
  wait = MARGIN + AT_FIRST;

  note(time, now) {
    const transit = now - time;
    let span = this.#spans.at(-1);
    if (now - span.begun >= SPAN) {
      span = { begun: now, promptest: transit, late: 0 };
      this.#spans = [...this.#spans.slice(1 - SPANS), span];
    }
    span.promptest = Math.min(span.promptest, transit);
    this.promptest = Math.min(...this.#spans.slice(-NEAR_SPANS).map(({ promptest }) => promptest));
    span.late = Math.max(span.late, transit - this.promptest);
    const late = this.#spans.map(({ late }) => late).sort((a, b) => b - a);
    this.wait = Math.min(LONGEST_WAIT, MARGIN + late[FORGIVEN]);
  }
}

export class LivePlayout {
  #ring = new Float32Array(RING);
  #arrivals = new Arrivals();
  /** Time of the next sample to be heard, and of the first that is not there yet. */
  #next = null;
  #end = 0;
  /** The place that is being left: its next sample, and how many of them still fade out. */
  #left = { at: 0, fading: 0 };
  /** Samples that were heard since the last cut, and how many there must be before the next. */
  #sinceCut = 0;
  #restAfterCut = 0;
  #holding = false;
  #held = 0;
  #gain = 1;

  /** @param {Float32Array} pcm [N] mono, 48 kHz, of which the first sample has this time */
  push(time, pcm, now) {
    if (this.#next === null || Math.abs(time - this.#end) > ELSEWHERE) this.#begin(time);
    if (time + pcm.length <= this.#end) return; // its place has gone by
    this.#arrivals.note(time, now);
    if (time > this.#end) this.#bridge(time, pcm);
    for (let i = Math.max(0, this.#end - time); i < pcm.length; i += 1) this.#ring[(time + i) & AT] = pcm[i];
    this.#end = time + pcm.length;
    this.#holding = false;
    this.#held = 0;
    if (this.#end - this.#next > RING / 2) this.#next = this.#end - this.#arrivals.wait; // nobody listens
  }

  #begin(time) {
    this.#ring.fill(0);
    this.#arrivals = new Arrivals();
    this.#next = time - this.#arrivals.wait;
    this.#end = time;
    this.#left.fading = 0;
  }

  /** A packet is lost: the wave goes on as it was, and fades, into what has come. */
  #bridge(time, pcm) {
    const period = this.#alike(this.#end - FADE, -LONGEST_CUT, -SHORTEST_CUT);
    for (let at = this.#end; at < time + FADE; at += 1) {
      const gain = Math.max(0, 1 - (at - this.#end) / HELD_FADING);
      this.#ring[at & AT] = gain * this.#ring[(at + period) & AT];
    }
    for (let i = 0; i < FADE; i += 1) {
      const share = i / FADE;
      pcm[i] = share * pcm[i] + (1 - share) * this.#ring[(time + i) & AT];
    }
  }

  /** How long after the promptest packet of its time the sound is heard; null before the first. */
  lateness(now) {
    return this.#next === null ? null : now - this.#next - this.#arrivals.promptest;
  }

  /** @param {Float32Array} out [128] filled with what is heard at `now` */
  pull(out, now) {
    if (this.#next === null) return;
    if (!this.#left.fading) this.#steer(now);
    const step = this.#held < HELD_LOUD ? RISE : -1 / HELD_FADING;
    for (let i = 0; i < out.length; i += 1) {
      this.#gain = Math.max(0, Math.min(1, this.#gain + step));
      out[i] = this.#gain * this.#sample();
    }
    this.#sinceCut += out.length;
    if (this.#holding) this.#held += out.length;
  }

  #sample() {
    const now = this.#ring[this.#next++ & AT];
    if (!this.#left.fading) return now;
    const share = this.#left.fading-- / FADE;
    return share * this.#ring[this.#left.at++ & AT] + (1 - share) * now;
  }

  /** Cuts where there is too little or too much. */
  #steer(now) {
    const there = this.#end - this.#next - FADE - QUANTUM;
    if (there < 0) {
      this.#holding = true;
      return this.#cut(this.#alike(this.#next, -LONGEST_CUT, -FADE));
    }
    const excess = this.lateness(now) - this.#arrivals.wait;
    if (this.#sinceCut < this.#restAfterCut || Math.abs(excess) < SLACK) return;
    if (excess < 0) this.#cut(this.#alike(this.#next, -LONGEST_CUT, -SHORTEST_CUT));
    else this.#hurry(Math.floor(excess), there - FADE);
  }

  #hurry(excess, there) {
    if (excess > JUMP && there > 0) return this.#cut(Math.min(excess, there), FADE);
    const pause = this.#quiet(Math.min(there, excess + PAUSE_KEPT)) - PAUSE_KEPT;
    const longest = Math.min(LONGEST_CUT, excess + SLACK, there);
    if (pause >= SHORTEST_CUT) this.#cut(pause, FADE);
    else if (longest >= SHORTEST_CUT) this.#cut(this.#alike(this.#next, SHORTEST_CUT, longest));
  }

  #cut(length, rest = 2 * Math.abs(length)) {
    this.#left = { at: this.#next, fading: FADE };
    this.#next += length;
    this.#sinceCut = 0;
    this.#restAfterCut = rest;
  }

  /** So many samples from the next one on are quiet, up to `limit`. */
  #quiet(limit) {
    let count = 0;
    while (count < limit && Math.abs(this.#ring[(this.#next + count) & AT]) < QUIET) count += 1;
    return count;
  }

  /** The distance from `at`, between the two, at which the wave is most like it is there. */
  #alike(at, nearest, furthest) {
    const coarse = this.#most(at, nearest, furthest, 4);
    return this.#most(at, Math.max(nearest, coarse - 3), Math.min(furthest, coarse + 3), 1);
  }

  #most(at, nearest, furthest, step) {
    const ring = this.#ring;
    let [best, most] = [furthest, -Infinity];
    for (let distance = furthest; distance >= nearest; distance -= step) {
      let [product, power] = [0, 1e-9];
      for (let i = 0; i < FADE; i += step) {
        const there = ring[(at + distance + i) & AT];
        product += there * ring[(at + i) & AT];
        power += there * there;
      }
      const likeness = product / Math.sqrt(power);
      if (likeness > most) [best, most] = [distance, likeness];
    }
    return best;
  }
}
