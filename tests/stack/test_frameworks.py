"""Frameworks that our face, voice and ears have a place in, by the stack: `make frameworks`."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.running_stack import CLIENT_KEY, RunningStack
from tests.stack.client_table import Record
from visavis.client import GatewayClient

ROOT = Path(__file__).parents[2]
PYTHON = Path(os.environ.get("VISAVIS_FRAMEWORKS", ROOT / ".venv-frameworks")) / "bin" / "python"
SAID = "stairs on the left"

pytestmark = pytest.mark.skipif(
    not PYTHON.exists(), reason="no frameworks are installed: `make frameworks` installs them"
)


async def told_by(script: str, *arguments: str) -> dict[str, Any]:
    """What a script of this folder has seen, run by the frameworks' interpreter."""
    process = await asyncio.create_subprocess_exec(
        *map(str, (PYTHON, Path(__file__).with_name(script), *arguments)),
        env={**os.environ, "PYTHONPATH": f"{ROOT}/docs/examples:{ROOT}"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()[-3000:]
    told: dict[str, Any] = json.loads(output.splitlines()[-1])
    return told


@pytest.mark.client(
    "pipecat-ai", "docs/examples/pipecat_video.py in a pipeline: 0.8 s of voice; 20 s, interrupted"
)
async def test_a_pipelines_voice_gets_a_face(stack: RunningStack, record_property: Record) -> None:
    told = await told_by("pipecat_pipeline.py", stack.url)
    assert told["heard_s"] == pytest.approx(0.8, abs=0.1)
    assert 0.3 < told["interrupted_s"] < 2.0, "20 s were brought"
    assert told["pictures"] > 20 and told["size"] == [512, 512]
    record_property(
        "seen",
        f"{told['heard_s']:.2f} s came back, of the 20 {told['interrupted_s']:.1f} s, beside "
        f"{told['pictures']} pictures of 512 x 512",
    )


@pytest.mark.client(
    "pipecat-ai",
    "NvidiaTTSService in both modes, interrupted; NvidiaSTTService, NvidiaSegmentedSTTService",
)
async def test_pipecats_nvidia_services_speak_and_hear(
    stack: RunningStack, gateway: GatewayClient, record_property: Record
) -> None:
    services = (await gateway.call("GET", "/v1/services")).json()["services"]
    at = {service["service"]: service["address"] for service in services}
    told = await told_by("pipecat_nvidia.py", at["asr"], at["tts"], CLIENT_KEY)
    for mode in ("per_sentence", "stitched"):
        assert 3.0 < told[mode]["seconds"] < 9.0, mode
    assert told["cut_off_s"] < 30.0, "about a minute was asked for"
    for text in (told["streamed"]["text"], told["segmented"]):
        assert SAID in text.lower().replace(",", ""), text
    assert told["streamed"]["looks"] > 0
    record_property(
        "seen",
        f"the first sound after {told['per_sentence']['first_s']:.2f} and "
        f"{told['stitched']['first_s']:.2f} s; its words, and {told['streamed']['looks']} looks "
        "before them",
    )


@pytest.mark.client("pipecat-ai", "OpenAIRealtimeLLMService by /v1/realtime: a question, typed")
async def test_pipecats_realtime_service_answers(
    stack: RunningStack, record_property: Record
) -> None:
    told = await told_by("pipecat_realtime.py", stack.url)
    assert told["errors"] == [] and told["said"].strip() and told["seconds"] > 0.3
    record_property("seen", f"its words, and {told['seconds']:.1f} s of voice")


@pytest.mark.client(
    "livekit-agents",
    "docs/examples/livekit_avatar.py by DataStreamAudioOutput and LiveKit's tracks, **in a room "
    "in memory**: 0.8 s of voice; 20 s, cleared",
)
async def test_a_livekit_agents_voice_gets_a_face(
    stack: RunningStack, record_property: Record
) -> None:
    """LiveKit's own agent side and tracks; between the two no server, but a room in memory."""
    told = await told_by("livekit_agent.py", stack.url)
    first, second = told["played"]
    assert first["interrupted"] is False and first["position_s"] == pytest.approx(0.8, abs=0.1)
    assert second["interrupted"] is True and second["position_s"] < 5.0, "20 s were brought"
    assert told["heard_s"] > 0.6 and told["pictures"] > 20 and told["size"] == [512, 512]
    record_property(
        "seen",
        f"told of {first['position_s']:.2f} s, and of {second['position_s']:.2f} s interrupted; "
        f"{told['pictures']} pictures of 512 x 512",
    )
