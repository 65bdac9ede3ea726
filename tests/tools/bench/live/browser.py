"""What a page does with `whip-whep`, a client that is not ours: it plays by WHEP and publishes by
WHIP. `make clients` tries it in Chromium, whose false microphone beeps.
"""

from __future__ import annotations

PLAY = """async (url) => {
  const { WHEPClient } = await import("/static/proof/whep.js");
  const pc = globalThis.playing = new RTCPeerConnection();
  const video = Object.assign(document.createElement("video"), { muted: true, autoplay: true });
  const stream = video.srcObject = new MediaStream();
  document.body.append(video);
  pc.ontrack = ({ track }) => stream.addTrack(track);
  for (const kind of ["audio", "video"]) pc.addTransceiver(kind, { direction: "recvonly" });
  const client = globalThis.player = new WHEPClient();
  await client.view(pc, url, "");
  while (!video.videoWidth) await new Promise((then) => setTimeout(then, 20));
  return { width: video.videoWidth, state: pc.connectionState };
}"""
PUBLISH = """async (url) => {
  const { WHIPClient } = await import("/static/proof/whip.js");
  const stream = await navigator.mediaDevices.getUserMedia({ audio: true, video: true });
  const pc = globalThis.publishing = new RTCPeerConnection();
  for (const track of stream.getTracks()) pc.addTransceiver(track, { direction: "sendonly" });
  const client = globalThis.publisher = new WHIPClient();
  await client.publish(pc, url, "");
}"""
