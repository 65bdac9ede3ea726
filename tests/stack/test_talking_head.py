"""TalkingHead's own class in Chromium, moved by our messages: `make clients`.

It wants a body with the bones of Mixamo. Here it gets one of our heads upon bare bones.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import struct
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from tests.browser.conftest import WEBGL, chromium, chromium_path
from tests.running_stack import RunningStack
from tests.stack.client_table import Record
from visavis.client import GatewayClient

__all__ = ["chromium_path"]

_ROOT = Path(__file__).parents[2]
_CLIENTS = Path(os.environ.get("VISAVIS_CLIENTS", _ROOT / ".venv-clients")).absolute()
_MODULES = _CLIENTS / "node_modules"
_HEAD = _ROOT / "services/face/heads/ada/head.glb"
_WITHIN_S = 120.0
SAID = "Good morning! Please mind the step, and take the stairs on the left."

pytestmark = pytest.mark.skipif(
    not (_MODULES / "@met4citizen/talkinghead").exists(),
    reason="TalkingHead is not installed: `make clients` installs it, with npm",
)

MAP = """{"imports": {
  "three": "FILES/three/build/three.module.js",
  "three/addons/": "FILES/three/examples/jsm/",
  "talkinghead": "FILES/@met4citizen/talkinghead/modules/talkinghead.mjs"
}}"""

# As docs/clients/talkinghead.md has it; what comes after `begun` only looks on.
SCRIPT = """
async ({url, files, map}) => {
  document.body.innerHTML = '<div id="avatar" style="width: 240px; height: 240px"></div>';
  const names = document.createElement("script");
  document.head.append(Object.assign(names, {type: "importmap", textContent: map}));
  const {TalkingHead} = await import("talkinghead");
  const head = new TalkingHead(document.querySelector("#avatar"),
    {lipsyncModules: [], cameraView: "head", modelFPS: 20});
  await head.showAvatar({url: files + "/avatar.glb", body: "F"});
  await head.streamStart({sampleRate: 24000, lipsyncType: "blendshapes"});
  const calls = {
    start: () => head.streamStart({sampleRate: 24000, lipsyncType: "blendshapes"}),
    audio: ({audio, anims}) => head.streamAudio(
      {audio: Uint8Array.from(atob(audio), (c) => c.charCodeAt(0)).buffer, anims}),
    end: () => head.streamNotifyEnd(),
    interrupt: () => head.streamInterrupt(),
  };
  const told = [];
  const socket = new WebSocket(url);
  socket.onmessage = ({data}) => {
    const message = JSON.parse(data);
    told.push(JSON.parse(data));
    calls[message.type](message);
  };
  await new Promise((done) => { socket.onopen = done; });
  const mesh = head.morphs.find((m) => "jawOpen" in m.morphTargetDictionary);
  const jaw = () => mesh.morphTargetInfluences[mesh.morphTargetDictionary.jawOpen];
  // A machine without a graphics card would draw one picture a second; the mesh moves all the same.
  const draw = head.renderer.render;
  const rest = () => {};
  head.renderer.render = rest;
  let samples = [], loudest = 0, drawn = 0;
  const sound = new Float32Array(head.audioAnalyzerNode.fftSize);
  head.opt.update = () => {
    // Called before this picture's shapes are set: the jaw is still where the last one had it.
    const since = head.streamAudioStartTime;
    if (head.isSpeaking && since !== null) samples.push([drawn - since, jaw()]);
    drawn = head.animClock;
    head.audioAnalyzerNode.getFloatTimeDomainData(sound);
    loudest = Math.max(loudest, ...sound.map(Math.abs));
  };
  window.seen = {
    head, jaw,
    draw() { head.renderer.render = draw; head.render(); head.renderer.render = rest; },
    take() { const taken = {told: told.splice(0), samples, loudest}; samples = []; return taken; },
  };
}
"""
BONES = {
    "Hips": ("Armature", (0, 1, 0)),
    "Spine": ("Hips", (0, 0.1, 0)),
    "Spine1": ("Spine", (0, 0.15, 0)),
    "Spine2": ("Spine1", (0, 0.15, 0)),
    "Neck": ("Spine2", (0, 0.15, 0)),
    "Head": ("Neck", (0, 0.1, 0)),
    "LeftEye": ("Head", (0.03, 0.06, 0.09)),
    "RightEye": ("Head", (-0.03, 0.06, 0.09)),
}
for _side, _x in (("Left", 1.0), ("Right", -1.0)):
    _hand = f"{_side}Hand"
    _chains = {
        ("Spine2", *(f"{_side}{part}" for part in ("Shoulder", "Arm", "ForeArm", "Hand"))): 0.2,
        ("Hips", *(f"{_side}{part}" for part in ("UpLeg", "Leg", "Foot", "ToeBase"))): 0.4,
    }
    for _finger in ("Thumb", "Index", "Middle", "Ring", "Pinky"):
        _chains[(_hand, *(f"{_hand}{_finger}{n}" for n in (1, 2, 3)))] = 0.03
    for _names, _length in _chains.items():
        for _parent, _bone in pairwise(_names):
            BONES[_bone] = (_parent, (0.0, _length, 0.0))
    BONES[f"{_side}UpLeg"] = ("Hips", (0.1 * _x, 0.0, 0.0))


def rigged(head: bytes) -> bytes:
    """A GLB with the head's mesh upon bones that are named as Mixamo names them.

    Something of it lies at the feet, too: TalkingHead stands an avatar upon its lowest point.
    """
    (length,) = struct.unpack_from("<I", head, 12)
    scene, rest = json.loads(head[20 : 20 + length]), head[20 + length :]
    mesh = {**scene["nodes"][0], "name": "Wolf3D_Head", "translation": [0, 0.07, 0]}
    whole = scene["meshes"][0]["primitives"][0]
    still = {name: whole[name] for name in ("attributes", "indices")}
    scene["meshes"].append({"primitives": [still]})
    foot = {"mesh": len(scene["meshes"]) - 1, "scale": [0.01, 0.01, 0.01]}
    names = ["Armature", *BONES]
    nodes: list[dict[str, Any]] = [{"name": name, "children": []} for name in names]
    for at, (parent, place) in enumerate(BONES.values(), 1):
        nodes[at]["translation"] = list(place)
        nodes[names.index(parent)]["children"].append(at)
    nodes[names.index("Head")]["children"].append(len(nodes))
    nodes[names.index("LeftToeBase")]["children"].append(len(nodes) + 1)
    for node in nodes:
        if not node["children"]:
            del node["children"]
    scene |= {"nodes": [*nodes, mesh, foot], "scenes": [{"nodes": [0]}], "scene": 0}
    told = json.dumps(scene).encode()
    told += b" " * (-len(told) % 4)
    begin = struct.pack("<4sIIII", b"glTF", 2, 20 + len(told) + len(rest), len(told), 0x4E4F534A)
    return begin + told + rest


class Files(SimpleHTTPRequestHandler):
    """npm's packages and the head, as a host of such files has them for pages of others."""

    extensions_map: ClassVar = {
        ".mjs": "text/javascript",
        ".js": "text/javascript",
        "": "model/gltf-binary",
    }

    def end_headers(self) -> None:
        self.send_header("Access-Control-Allow-Origin", "*")
        super().end_headers()

    def translate_path(self, path: str) -> str:
        return f"{_MODULES}{path}"

    def send_head(self) -> Any:
        if not self.path.endswith("avatar.glb"):
            return super().send_head()
        content = rigged(_HEAD.read_bytes())
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        return io.BytesIO(content)

    def log_message(self, *_: Any) -> None:
        """Not in the test's output."""


@pytest.fixture
def files() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Files) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def jaw_as_told(told: list[dict[str, Any]], at_ms: np.ndarray[Any, Any]) -> Any:
    """How far an answer's messages say that the jaw is open, at times since its first sound."""
    times, values = [0.0], [0.0]
    for anim in (anim for m in told if m["type"] == "audio" for anim in m["anims"]):
        shut = [0.0] * len(anim["dt"])
        times += list(anim["delay"] + np.cumsum(anim["dt"]))
        values += anim["vs"].get("jawOpen", shut)
    return np.interp(at_ms, times, values)


@pytest.mark.client(
    "@met4citizen/talkinghead",
    "in Chromium, one of our heads on a body's bones: an answer heard and seen, another "
    "interrupted",
)
async def test_our_stream_moves_its_mouth(
    stack: RunningStack,
    gateway: GatewayClient,
    chromium_path: str,
    files: str,
    record_property: Record,
) -> None:
    flags = ("--autoplay-policy=no-user-gesture-required", *WEBGL)
    async with (
        chromium(chromium_path, *flags) as browser,
        gateway.session(drawn_by="client", language="en") as session,
        asyncio.timeout(_WITHIN_S),
    ):
        context = await browser.new_context(bypass_csp=True)
        page = await context.new_page()
        faults: list[str] = []
        page.on("pageerror", lambda error: faults.append(str(error)))
        await page.goto(f"{stack.url}/healthz")
        url = f"ws{stack.url.removeprefix('http')}/v1/sessions/{session.id}/face?form=talkinghead"
        names = MAP.replace("FILES", files)
        await page.evaluate(SCRIPT, {"url": url, "files": files, "map": names})
        assert await page.evaluate("seen.jaw()") < 0.05, "nothing is said yet"
        await session.say(SAID)
        await page.wait_for_function("seen.head.isSpeaking")
        await page.wait_for_function("!seen.head.isSpeaking")
        first = await page.evaluate("seen.take()")
        await session.say(f"{SAID} " * 6)
        await page.wait_for_function("seen.head.isSpeaking && seen.jaw() > 0.1")
        if path := os.environ.get("VISAVIS_SCREENSHOT"):
            await page.evaluate("seen.draw()")
            await page.screenshot(path=path)
        await session.interrupt()
        await page.wait_for_function("!seen.head.isSpeaking && seen.jaw() < 0.05")
        second = await page.evaluate("seen.take()")
    # It closes the sound it had before it knew our rate, maybe while that begins, and says so.
    own = ("AudioContext", "context that has been closed")
    assert [fault for fault in faults if not any(words in fault for words in own)] == []
    at_ms, jaw = np.array(first["samples"]).T
    told = jaw_as_told(first["told"], at_ms)
    assert first["loudest"] > 0.02 and len(jaw) > 10
    assert jaw.max() > 0.15 and np.corrcoef(jaw, told)[0, 1] > 0.8
    assert [message["type"] for message in first["told"]][:: len(first["told"]) - 1] == [
        "start",
        "end",
    ]
    assert second["told"][-1]["type"] == "interrupt"
    likeness = np.corrcoef(jaw, told)[0, 1]
    record_property(
        "seen",
        f"the jaw of its mesh opens to {jaw.max():.2f}, as told ({likeness:.2f}); shut after an "
        "interruption",
    )
