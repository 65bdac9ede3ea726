/**
 * Put into an empty page: plays by WHEP as any player does, with the browser's own buffers, and notes
 * on performance.now() when each numbered picture is shown and when each beep is heard. The sound is
 * read twice: as the element plays it, and in an audio worklet beside it, each time with what the
 * browser says of the way from there to the speaker.
 */
async ([url, grid]) => {
  const LOUD = 0.05;
  const QUIET_MS = 60;
  const noted = { pictures: {}, element: [], worklet: [], own: [], output_ms: 0, zero_ms: performance.timeOrigin };
  window.noted = noted;
  const video = Object.assign(document.createElement("video"), { autoplay: true, playsInline: true });
  document.body.append(video);

  const pc = (window.watching = new RTCPeerConnection());
  for (const kind of ["audio", "video"]) pc.addTransceiver(kind, { direction: "recvonly" });
  pc.ontrack = ({ streams: [stream] }) => (video.srcObject = stream);
  await pc.setLocalDescription();
  const headers = { "Content-Type": "application/sdp" };
  const candidates = new Promise((then) => {
    pc.onicegatheringstatechange = () => pc.iceGatheringState === "complete" && then();
  });
  await candidates;
  const answer = await fetch(url, { method: "POST", headers, body: pc.localDescription.sdp });
  await pc.setRemoteDescription({ type: "answer", sdp: await answer.text() });
  while (!video.videoWidth) await new Promise((then) => setTimeout(then, 20));

  // Pictures: a cell for each bit, and parity.
  const SIDE = 8 * grid;
  const brush = new OffscreenCanvas(SIDE, SIDE).getContext("2d", { willReadFrequently: true });
  const look = (_now_ms, { expectedDisplayTime }) => {
    video.requestVideoFrameCallback(look);
    brush.drawImage(video, 0, 0, SIDE, SIDE);
    const { data } = brush.getImageData(0, 0, SIDE, SIDE);
    const cells = Array.from({ length: grid * grid }, (_, cell) => {
      const [row, column] = [Math.floor(cell / grid), cell % grid];
      return data[4 * ((8 * row + 4) * SIDE + 8 * column + 4) + 1] > 125 ? 1 : 0;
    });
    const parity = cells.pop();
    const number = cells.reduce((sum, bit, place) => sum + bit * 2 ** place, 0);
    if (cells.reduce((sum, bit) => sum + bit, 0) % 2 === parity) {
      noted.pictures[number] ??= expectedDisplayTime;
    }
  };
  video.requestVideoFrameCallback(look);

  // Sound: its clock is the number of samples. Whoever reads it may be late with a piece, never
  // early: of its neighbours the promptest counts.
  const NEIGHBOURS = 50;
  const ear = () => {
    const pieces = [];
    const onsets = [];
    let position_ms = 0;
    let quiet_ms = Infinity;
    return {
      hear: (wave, rate_hz, now_ms) => {
        const sample_ms = 1000 / rate_hz;
        wave.forEach((level, index) => {
          quiet_ms += sample_ms;
          if (Math.abs(level) < LOUD) return;
          if (quiet_ms > QUIET_MS) onsets.push([pieces.length, position_ms + index * sample_ms]);
          quiet_ms = 0;
        });
        pieces.push(now_ms - position_ms);
        position_ms += wave.length * sample_ms;
      },
      onsets: () =>
        onsets.map(([piece, at_ms]) => {
          const near = pieces.slice(Math.max(0, piece - NEIGHBOURS), piece + NEIGHBOURS);
          return Math.min(...near) + at_ms;
        }),
    };
  };
  const [element, worklet] = [ear(), ear()];
  const [track] = video.captureStream().getAudioTracks();
  const reader = new MediaStreamTrackProcessor({ track }).readable.getReader();
  void (async () => {
    for (;;) {
      const { value: piece, done } = await reader.read();
      if (done) return;
      const wave = new Float32Array(piece.numberOfFrames);
      piece.copyTo(wave, { planeIndex: 0, format: "f32-planar" });
      element.hear(wave, piece.sampleRate, performance.now());
      piece.close();
    }
  })();

  const context = new AudioContext({ latencyHint: "interactive" });
  await context.resume();
  const code = `registerProcessor("ear", class extends AudioWorkletProcessor {
    process([[wave]]) { this.port.postMessage(wave ?? new Float32Array(128)); return true; }
  });`;
  await context.audioWorklet.addModule(URL.createObjectURL(new Blob([code], { type: "text/javascript" })));
  const node = new AudioWorkletNode(context, "ear", { channelCount: 1, channelCountMode: "explicit" });
  node.port.onmessage = ({ data }) => worklet.hear(data, context.sampleRate, performance.now());
  context.createMediaStreamSource(video.srcObject).connect(node).connect(context.destination);

  // What the browser itself takes to be played now, by the sender's clock (RTCP).
  const received = async () => {
    const stats = [...(await pc.getStats()).values()].filter(({ type }) => type === "inbound-rtp");
    return Object.fromEntries(stats.map((one) => [one.kind, one]));
  };
  const looking = setInterval(async () => {
    const { audio, video: pictures } = await received();
    const told = [audio.estimatedPlayoutTimestamp, pictures.estimatedPlayoutTimestamp];
    if (told.every(Boolean)) noted.own.push(told[0] - told[1]);
  }, 500);

  window.told = async () => {
    clearInterval(looking);
    noted.output_ms = 1000 * (context.baseLatency + (context.outputLatency ?? 0));
    noted.element = element.onsets().map((at_ms) => at_ms + noted.output_ms);
    noted.worklet = worklet.onsets().map((at_ms) => at_ms + noted.output_ms);
    const told = await received();
    const waited_ms = ({ jitterBufferDelay, jitterBufferEmittedCount }) =>
      Math.round((1000 * jitterBufferDelay) / jitterBufferEmittedCount);
    noted.buffers = { audio: waited_ms(told.audio), video: waited_ms(told.video) };
    noted.made_up = told.audio.concealedSamples / told.audio.totalSamplesReceived;
    await context.close();
    pc.close();
    return noted;
  };
}
