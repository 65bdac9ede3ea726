/**
 * Put into the page by a test: notes when beeps become audible and when white pictures become
 * visible, both on performance.now(). The page's own playback is left as it is: the sound is
 * read beside it, as the browser plays it, and the way from there to the speaker is added.
 */
async () => {
  const video = document.querySelector("video");
  const noted = { beeps: [], flashes: [], pictures: 0, output_ms: 0, zero_ms: performance.timeOrigin, running: true };
  window.noted = noted;
  // Its clock is the speaker's; an audio context tells how far away that is.
  const context = new AudioContext({ latencyHint: "interactive" });

  // The reader may come late to a piece, never early: of its neighbours the promptest counts.
  const NEIGHBOURS = 25;
  const pieces = [];
  const onsets = [];
  let position_ms = 0;
  let quiet_ms = Infinity;
  let stamped_ms = Infinity;
  const sound = heardTrack();
  const reader = new MediaStreamTrackProcessor({ track: sound }).readable.getReader();
  const listen = (piece) => {
    const now_ms = performance.now();
    const sample_ms = 1000 / piece.sampleRate;
    const wave = new Float32Array(piece.numberOfFrames);
    piece.copyTo(wave, { planeIndex: 0, format: "f32-planar" });
    // Onset: the first sample that is loud after 60 ms without any.
    wave.forEach((level, index) => {
      quiet_ms += sample_ms;
      if (Math.abs(level) < 0.05) return;
      if (quiet_ms > 60) onsets.push({ piece: pieces.length, at_ms: position_ms + index * sample_ms });
      quiet_ms = 0;
    });
    pieces.push(now_ms - position_ms);
    // Where the browser knows how far the speaker is, it stamps a piece by so much earlier.
    stamped_ms = Math.min(stamped_ms, now_ms - piece.timestamp / 1000);
    position_ms += wave.length * sample_ms;
    piece.close();
  };
  void (async () => {
    while (noted.running) {
      const { value, done } = await reader.read();
      if (done) return;
      listen(value);
    }
  })();

  const brush = new OffscreenCanvas(8, 8).getContext("2d", { willReadFrequently: true });
  let white = false;
  const look = (_now_ms, { expectedDisplayTime, presentedFrames }) => {
    if (!noted.running) return;
    video.requestVideoFrameCallback(look);
    brush.drawImage(video, 0, 0, 8, 8);
    const bright = brush.getImageData(4, 4, 1, 1).data[1] > 140;
    if (bright && !white) noted.flashes.push(expectedDisplayTime);
    white = bright;
    noted.pictures = presentedFrames;
  };
  video.requestVideoFrameCallback(look);

  // A head that is drawn here: its jaw has fallen with the pose that is white. What is drawn now is
  // seen with the screen's next picture.
  const SCREEN_MS = 1000 / 60;
  const JAW_OPEN = 24;
  const FALLEN = 0.84;
  let fallen = false;
  document.querySelector("#head")?.addEventListener("drawn", ({ detail: pose }) => {
    const now = pose[JAW_OPEN] > FALLEN;
    if (now && !fallen && noted.running) noted.flashes.push(performance.now() + SCREEN_MS);
    fallen = now;
    noted.pictures += 1;
  });

  noted.stop = async () => {
    noted.running = false;
    const output_ms = 1000 * (context.baseLatency + (context.outputLatency ?? 0));
    noted.output_ms = Math.max(stamped_ms, output_ms);
    noted.beeps = onsets.map(({ piece, at_ms }) => {
      const near = pieces.slice(Math.max(0, piece - NEIGHBOURS), piece + NEIGHBOURS);
      return Math.min(...near) + at_ms + noted.output_ms;
    });
    await context.close();
    return noted;
  };
}
