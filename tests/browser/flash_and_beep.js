/**
 * Put into the page by a test: notes when beeps become audible and when white pictures become
 * visible, both on performance.now(). The page's own playback is left as it is: the sound is
 * tapped beside it, and its output latency is taken from the audio context.
 */
async () => {
  const video = document.querySelector("video");
  const noted = { beeps: [], flashes: [], pictures: 0, output_ms: 0, running: true };
  window.noted = noted;

  // Onset: the first sample that is loud after 60 ms without any.
  const source = `registerProcessor("onsets", class extends AudioWorkletProcessor {
    quiet = sampleRate;
    process([[channel]]) {
      for (let i = 0; i < (channel?.length ?? 0); i += 1) {
        if (Math.abs(channel[i]) < 0.05) { this.quiet += 1; continue; }
        if (this.quiet > 0.06 * sampleRate) this.port.postMessage((currentFrame + i) / sampleRate);
        this.quiet = 0;
      }
      return true;
    }
  })`;
  const context = new AudioContext({ latencyHint: "interactive" });
  const module = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  await context.audioWorklet.addModule(module);
  const onsets = new AudioWorkletNode(context, "onsets", { channelCount: 1, channelCountMode: "explicit" });
  onsets.port.onmessage = ({ data: onset_s }) => {
    // contextTime is what the speaker plays at performanceTime, output latency included.
    const { contextTime, performanceTime } = context.getOutputTimestamp();
    noted.beeps.push(performanceTime + 1000 * (onset_s - contextTime));
  };
  const sound = new MediaStream(video.captureStream().getAudioTracks());
  const mute = new GainNode(context, { gain: 0 });
  context.createMediaStreamSource(sound).connect(onsets).connect(mute).connect(context.destination);

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

  noted.stop = async () => {
    noted.running = false;
    noted.output_ms = 1000 * (context.baseLatency + (context.outputLatency ?? 0));
    await context.close();
    return noted;
  };
}
