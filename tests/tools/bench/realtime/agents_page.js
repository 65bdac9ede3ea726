// A page that talks by OpenAI's SDK for voice agents, as its users write it, and shows the face.
// Given {url, key}, returns its sound and when what was heard.
async ({ url, key }) => {
  const { RealtimeAgent, RealtimeSession, OpenAIRealtimeWebRTC } = OpenAIAgentsRealtime;
  const LONGEST_ANSWER_MS = 9000;

  document.body.innerHTML = `
    <style>
      body { margin: 0; background: #10141c; color: #e8ecf2; font: 17px/1.45 system-ui, sans-serif;
             display: grid; grid-template-columns: 500px 1fr; gap: 24px; padding: 20px; height: 500px; }
      video { width: 500px; height: 500px; object-fit: cover; border-radius: 14px; background: #000; }
      h1 { font-size: 21px; margin: 4px 0 2px; }
      small { color: #93a0b4; font-family: ui-monospace, monospace; font-size: 12px; }
      #said p { margin: 12px 0; } #said b { color: #7fb4ff; } #said p.assistant b { color: #ffc27f; }
    </style>
    <video muted playsinline></video>
    <main><h1>@openai/agents-realtime</h1><small id="last">…</small><div id="said"></div></main>`;
  const video = document.querySelector("video");
  const audio = document.createElement("audio");
  const microphone = await navigator.mediaDevices.getUserMedia({ audio: true });

  const transport = new OpenAIRealtimeWebRTC({
    baseUrl: `${url}/v1/realtime/calls`,
    audioElement: audio,
    mediaStream: microphone,
    changePeerConnection: async (peer) => {
      peer.addTransceiver("video", { direction: "recvonly" });
      const sound = peer.ontrack;
      peer.ontrack = (event) => {
        if (event.track.kind === "audio") sound(event);
        else video.srcObject = new MediaStream([event.track]);
      };
      return peer;
    },
  });
  const agent = new RealtimeAgent({ name: "guide", instructions: "Be friendly." });
  const transcription = { model: "whisper-1", language: "en" };
  const session = new RealtimeSession(agent, {
    transport,
    config: { audio: { input: { transcription, turnDetection: { type: "semantic_vad" } } } },
  });

  const said = document.getElementById("said");
  session.on("history_updated", (history) => {
    said.innerHTML = "";
    for (const item of history.filter(({ type }) => type === "message")) {
      const line = document.createElement("p");
      line.className = item.role;
      const text = item.content.map((part) => part.transcript ?? part.text ?? "").join(" ");
      line.innerHTML = `<b>${item.role === "user" ? "Visitor" : "Agent"}</b> `;
      line.append(text || "…");
      said.append(line);
    }
  });
  const now = () => (performance.timeOrigin + performance.now()) / 1000;
  const waiting = [];
  transport.on("*", (event) => {
    document.getElementById("last").textContent = event.type;
    waiting.forEach((look) => look(event));
  });
  const until = (kind) => new Promise((done) => waiting.push((e) => e.type === kind && done(now())));

  const asked = until("input_audio_buffer.speech_started");
  const started = until("output_audio_buffer.started");
  const stopped = until("output_audio_buffer.stopped");
  await session.connect({ apiKey: key });
  while (!video.srcObject || !audio.srcObject) await new Promise((done) => setTimeout(done, 20));
  await video.play();

  const context = new AudioContext();
  await context.resume();
  const both = context.createMediaStreamDestination();
  for (const stream of [microphone, audio.srcObject]) {
    context.createMediaStreamSource(stream).connect(both);
  }
  const recorder = new MediaRecorder(both.stream, { mimeType: "audio/webm" });
  const pieces = [];
  recorder.ondataavailable = ({ data }) => pieces.push(data);
  const ended = new Promise((done) => (recorder.onstop = done));
  const recording = new Promise((done) => (recorder.onstart = () => done(now())));
  recorder.start();
  const since_s = await recording;

  const begins_s = await started;
  const late = new Promise((done) => setTimeout(() => done(now()), LONGEST_ANSWER_MS));
  const ends_s = await Promise.race([stopped, late]);
  await new Promise((done) => setTimeout(done, 700));
  recorder.stop();
  await ended;
  const bytes = new Uint8Array(await new Blob(pieces).arrayBuffer());
  let sound = "";
  for (let at = 0; at < bytes.length; at += 8192) {
    sound += String.fromCharCode(...bytes.subarray(at, at + 8192));
  }
  const captions = said.innerText;
  session.close();
  return { sound: btoa(sound), since_s, asked_s: await asked, begins_s, ends_s, captions };
};
