/**
 * Put into the page before it loads: a visitor whose microphone is a loudspeaker that a script
 * plays sounds into, and a tape of what the page plays back, with the state that it shows.
 */
(() => {
  const RATE_HZ = 48_000;
  const visitor = { states: [], chunks: [], samples: 0, start_ms: Infinity };
  window.visitor = visitor;
  const context = new AudioContext({ sampleRate: RATE_HZ });
  const microphone = context.createMediaStreamDestination();
  // Chromium sends nothing at all where no node is at work; a real room is never so quiet.
  const room = new ConstantSourceNode(context, { offset: 0 });
  room.connect(microphone);
  room.start();
  navigator.mediaDevices.getUserMedia = async () => microphone.stream.clone();

  /** Resolves with the times, on performance.now(), at which the sound began and ended. */
  visitor.say = async (base64) => {
    await context.resume();
    const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
    const pcm = new Int16Array(bytes.buffer);
    const buffer = context.createBuffer(1, pcm.length, RATE_HZ);
    buffer.copyToChannel(Float32Array.from(pcm, (sample) => sample / 32768), 0);
    const source = new AudioBufferSourceNode(context, { buffer });
    source.connect(microphone);
    const began_ms = performance.now();
    const ended = new Promise((done) => (source.onended = done));
    source.start();
    await ended;
    return { began_ms, ended_ms: performance.now() };
  };

  /** Begin the tape; the video plays already. */
  visitor.record = async () => {
    const note = () => visitor.states.push({ at_ms: performance.now(), state: document.body.dataset.state });
    note();
    new MutationObserver(note).observe(document.body, { attributeFilter: ["data-state"] });
    const source = `registerProcessor("tape", class extends AudioWorkletProcessor {
      filled = 0; block = new Float32Array(4096);
      process([[channel]]) {
        this.block.set(channel ?? new Float32Array(128), this.filled);
        this.filled += 128;
        if (this.filled === this.block.length) { this.port.postMessage(this.block.slice()); this.filled = 0; }
        return true;
      }
    })`;
    await context.audioWorklet.addModule(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
    const tape = new AudioWorkletNode(context, "tape", { channelCount: 1, channelCountMode: "explicit" });
    tape.port.onmessage = ({ data }) => {
      visitor.chunks.push(Int16Array.from(data, (x) => Math.max(-1, Math.min(1, x)) * 32767));
      visitor.samples += data.length;
      visitor.start_ms = Math.min(visitor.start_ms, performance.now() - (1000 * visitor.samples) / RATE_HZ);
    };
    const tracks = [heardTrack()];
    context.createMediaStreamSource(new MediaStream(tracks)).connect(tape);
  };

  visitor.tape = async () => {
    const reader = new FileReader();
    reader.readAsDataURL(new Blob(visitor.chunks));
    await new Promise((done) => (reader.onload = done));
    return {
      rate_hz: RATE_HZ,
      start_ms: visitor.start_ms,
      states: visitor.states,
      pcm: reader.result.split(",")[1],
    };
  };
})();
