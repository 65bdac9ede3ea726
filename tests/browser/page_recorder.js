/**
 * Put into the page by a test: keeps what the visitor would see and hear. Every
 * shown picture becomes a small JPEG with the time of its showing, the sound blocks
 * of samples with the times at which they came; both on performance.now().
 */
async () => {
  const SIDE = 256;
  const RATE_HZ = 48_000;
  const video = document.querySelector("video");
  const recorder = { pictures: [], chunks: [], came_ms: [], samples: 0, running: true };
  window.recorder = recorder;

  const source = `registerProcessor("tape", class extends AudioWorkletProcessor {
    filled = 0; block = new Float32Array(2048);
    process([[channel]]) {
      this.block.set(channel ?? new Float32Array(128), this.filled);
      this.filled += 128;
      if (this.filled === 2048) { this.port.postMessage(this.block.slice()); this.filled = 0; }
      return true;
    }
  })`;
  const context = new AudioContext({ sampleRate: RATE_HZ });
  await context.audioWorklet.addModule(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
  const tape = new AudioWorkletNode(context, "tape", { channelCount: 1, channelCountMode: "explicit" });
  tape.port.onmessage = ({ data }) => {
    recorder.chunks.push(data);
    recorder.came_ms.push(performance.now());
    recorder.samples += data.length;
  };
  const sound = new MediaStream([heardTrack()]);
  context.createMediaStreamSource(sound).connect(tape);

  const canvas = new OffscreenCanvas(SIDE, SIDE);
  const brush = canvas.getContext("2d");
  const base64 = async (blob) => {
    const reader = new FileReader();
    reader.readAsDataURL(blob);
    await new Promise((done) => (reader.onload = done));
    return reader.result.split(",")[1];
  };
  const keep = async (now_ms, { expectedDisplayTime }) => {
    if (!recorder.running) return;
    video.requestVideoFrameCallback(keep);
    brush.drawImage(video, 0, 0, SIDE, SIDE);
    const { state } = document.body.dataset;
    const picture = { shown_ms: expectedDisplayTime, state };
    recorder.pictures.push(picture);
    picture.jpeg = await base64(await canvas.convertToBlob({ type: "image/jpeg", quality: 0.9 }));
  };
  video.requestVideoFrameCallback(keep);

  recorder.stop = async () => {
    recorder.running = false;
    await context.close();
    const samples = new Float32Array(recorder.samples);
    let filled = 0;
    for (const chunk of recorder.chunks) {
      samples.set(chunk, filled);
      filled += chunk.length;
    }
    const pcm = Int16Array.from(samples, (x) => Math.max(-1, Math.min(1, x)) * 32767);
    const pictures = recorder.pictures.filter(({ jpeg }) => jpeg);
    return { pictures, came_ms: recorder.came_ms, rate_hz: RATE_HZ, pcm: await base64(new Blob([pcm])) };
  };
}
