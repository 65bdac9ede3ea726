"""The Realtime protocol by OpenAI's SDK for voice agents, unchanged: in Node, and in Chromium by
WebRTC (`make clients`).
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import wave
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import chromium, chromium_path
from tests.realtime_orders import Orders
from tests.running_stack import RunningStack
from tests.stack.client_table import Record
from tests.stack.conftest import spoken
from visavis.client import GatewayClient

__all__ = ["chromium_path"]

_ROOT = Path(__file__).parents[2]
_CLIENTS = Path(os.environ.get("VISAVIS_CLIENTS", _ROOT / ".venv-clients")).absolute()
_SDK = _CLIENTS / "node_modules/@openai/agents-realtime"
_WITHIN_S = 170.0
QUESTION = "What is the capital of France?"

pytestmark = pytest.mark.skipif(
    not _SDK.exists() or shutil.which("node") is None,
    reason="OpenAI's SDK for agents is not installed: `make clients` installs it, with npm",
)


@pytest.fixture(scope="module")
def question(stack: RunningStack, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wav at 24 kHz."""

    async def say() -> Path:
        async with GatewayClient(stack.url) as client:
            return await spoken(client, QUESTION, tmp_path_factory.mktemp("agents"))

    return asyncio.run(say())


async def _secret(stack: RunningStack, **session: Any) -> str:
    async with GatewayClient(stack.url) as client:
        body = {"session": {"type": "realtime", **session}}
        answer = await client.call("POST", "/v1/realtime/client_secrets", json=body)
    return str(answer.json()["value"])


@pytest.mark.client(
    "@openai/agents-realtime", "in Node: a text, a tool, a spoken question, an interruption"
)
def test_agents_in_node(stack: RunningStack, question: Path) -> None:
    url = f"ws{stack.url.removeprefix('http')}/v1/realtime?model=gpt-realtime"
    key = asyncio.run(_secret(stack))
    script = Path(__file__).with_name("openai_agents.cjs")
    command = ["node", str(script), str(_CLIENTS), url, key, str(question)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_WITHIN_S)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    for part in told.values():
        orders = Orders().feed_all(event for event in part["events"] if "event_id" in event)
        assert part["faults"] == [] and orders.errors == []
    assert len(told["tool"]["cities"]) >= 1 and "function_call" in told["tool"]["history"]
    spoken = told["spoken"]
    heard = [e for e in spoken["events"] if e["type"].endswith("transcription.completed")]
    assert "capital of france" in heard[0]["transcript"].lower()
    assert spoken["history"] == ["message", "message"]


PAGE = """
async ({url, key}) => {
  const {RealtimeAgent, RealtimeSession, OpenAIRealtimeWebRTC} = OpenAIAgentsRealtime;
  const events = [], faults = [], waiting = [];
  const audio = document.createElement("audio"), video = document.createElement("video");
  video.muted = true;
  const transport = new OpenAIRealtimeWebRTC({
    baseUrl: `${url}/v1/realtime/calls`,
    audioElement: audio,
    changePeerConnection: async (peer) => {
      peer.addTransceiver("video", {direction: "recvonly"});
      const sound = peer.ontrack;
      peer.ontrack = (event) => {
        if (event.track.kind === "audio") sound(event);
        else video.srcObject = new MediaStream([event.track]);
      };
      return peer;
    },
  });
  const agent = new RealtimeAgent({name: "guide", instructions: "Be brief."});
  const session = new RealtimeSession(agent, {transport});
  session.on("error", (fault) => faults.push(String(fault.error?.message ?? fault.error)));
  transport.on("*", (event) => { events.push(event); waiting.forEach((look) => look(event)); });
  const until = (kind) => new Promise((done) => waiting.push((e) => e.type === kind && done(e)));
  const heard = until("response.done"), started = until("output_audio_buffer.started");
  await session.connect({apiKey: key});
  await started;
  const context = new AudioContext(), meter = context.createAnalyser();
  await context.resume();
  context.createMediaStreamSource(audio.srcObject).connect(meter);
  let loudest = 0;
  const samples = new Float32Array(meter.fftSize);
  const listening = setInterval(() => {
    meter.getFloatTimeDomainData(samples);
    loudest = Math.max(loudest, ...samples.map(Math.abs));
  }, 20);
  await video.play();
  await heard;
  const over = Promise.race([
    until("output_audio_buffer.stopped"),
    until("output_audio_buffer.cleared"),
  ]);
  const stopped = events.some((e) => e.type === "output_audio_buffer.stopped");
  if (!stopped) { session.interrupt(); await over; }
  clearInterval(listening);
  const told = {events, faults, loudest, width: video.videoWidth};
  session.close();
  return told;
}
"""


def after_silence(question: Path) -> Path:
    """What a microphone hears that is opened before anybody listens."""
    with wave.open(str(question)) as file:
        form, frames = file.getparams(), file.readframes(file.getnframes())
    path = question.with_name("microphone.wav")
    with wave.open(str(path), "wb") as file:
        file.setparams(form)
        file.writeframes(bytes(2 * form.framerate * 4) + frames + bytes(2 * form.framerate * 2))
    return path


@pytest.mark.client(
    "@openai/agents-realtime",
    "in Chromium by WebRTC, with a video line in its offer: heard and seen",
)
async def test_agents_in_chromium_hear_and_see_the_answer(
    stack: RunningStack, question: Path, chromium_path: str, record_property: Record
) -> None:
    key = await _secret(stack)
    flags = (
        "--autoplay-policy=no-user-gesture-required",
        f"--use-file-for-fake-audio-capture={after_silence(question)}%noloop",
    )
    async with chromium(chromium_path, *flags) as browser:
        context = await browser.new_context(bypass_csp=True, permissions=["microphone"])
        page = await context.new_page()
        await page.goto(f"{stack.url}/healthz")
        await page.add_script_tag(path=_SDK / "dist/bundle/openai-realtime-agents.umd.js")
        async with asyncio.timeout(_WITHIN_S):
            told = await page.evaluate(PAGE, {"url": stack.url, "key": key})
    orders = Orders().feed_all(event for event in told["events"] if "event_id" in event)
    assert told["faults"] == [] and orders.errors == []
    assert told["loudest"] > 0.02 and told["width"] > 0
    assert "response.output_audio.delta" not in orders.seen
    record_property("seen", f"orders as OpenAI's; a face {told['width']} pixels wide")
