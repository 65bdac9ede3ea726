"""The whole product as on a machine with a GPU: every network runs by its plan.

The four services are those that `visavis up` starts, told to use `cuda:0`. They find a GPU and a
TensorRT that are doubles (`tests/engine/tensorrt/machine`): the plans are compiled from the
real recipes, what computes is ONNX Runtime, and whatever TensorRT would refuse is refused.
Nothing here is about a real GPU's numbers.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import grpc.aio
import numpy as np
import psutil
import pytest

from tests.face.portraits import DEFAULT_FOLDER
from tests.running_stack import RunningStack
from tests.stack.conftest import Ears, channel_to, likeness
from tests.stack.test_conversation import answer_of, until_turn
from visavis.bundles.compile.plans.cache import plan_dir
from visavis.bundles.store import profile
from visavis.client import MIC_RATE_HZ, GatewayClient, GatewaySession
from visavis.tools.bench.visitor.clips import read_mono
from visavis.v1 import asr_pb2, asr_pb2_grpc, media_pb2

CLIPS = Path(__file__).parents[1] / "clips"
COMPILED = {"asr", "tts", "face"}
"""Services whose networks are compiled where there is a GPU."""
_ROOT = Path(__file__).parents[2]
SPOKEN = [("two_cities_01", "en"), ("zh/funasr_asr_example", "zh")]
# Nothing of these words may stand in a log: each is a network that left its plan.
_LOST = ("steps down", "broke and", "was not compiled", "without CUDA graphs", "refuses")

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def gpu_stack(
    tmp_path_factory: pytest.TempPathFactory, bundle: Callable[[str], Path]
) -> Iterator[RunningStack]:
    """A large machine's stack: its networks run by plans, on doubles of a GPU and of TensorRT, and
    there are two faces, which keep avatars in its folder `avatars`, and two gateways.
    """
    for bundles in profile("tiny").values():
        for name in bundles:
            bundle(name)
    folder = tmp_path_factory.mktemp("gpu")
    # The language model's weights, if they are laid out for the processor: its plans are no GPU's.
    for laid_out in plan_dir().glob("*/weights.*"):
        kept = folder / "plans" / laid_out.parent.name
        kept.mkdir(parents=True, exist_ok=True)
        shutil.copy2(laid_out, kept)
    environ = {
        "PYTHONPATH": f"{_ROOT / 'tests/engine/tensorrt/machine'}:{_ROOT}",
        "VISAVIS_PLAN_DIR": str(folder / "plans"),
        "VISAVIS_LLM_MAX_TOKENS": "12",
        "VISAVIS_FACE_IDLE_LIFE_S": "6",  # which nobody here waits for
        # Compiling takes up and gives back blocks of a hundred megabytes: to have them from the
        # system anew each time, page by page, takes as long as the work itself.
        "MALLOC_MMAP_THRESHOLD_": "4000000000",
        "MALLOC_TRIM_THRESHOLD_": "4000000000",
    }
    for service in sorted(COMPILED):
        environ[f"VISAVIS_{service.upper()}_DEVICE"] = "cuda:0"
        # A CPU computes on 32 bits; the shapes are the same.
        environ[f"VISAVIS_{service.upper()}_PRECISION"] = "fp32"
    replicas = ("--replicas", "face=2,gateway=2")
    running = RunningStack(folder, *replicas, environ=environ, ready_timeout_s=380)
    yield running
    alive = running.stop()
    assert alive == [], f"left behind after Ctrl-C: {alive}"
    assert running.bus_lost() == [], "Ctrl-C ends the bus before those who need it"
    assert running.faults() == []


@pytest.fixture
async def gateway(gpu_stack: RunningStack) -> AsyncIterator[GatewayClient]:
    async with GatewayClient(gpu_stack.url) as client:
        yield client


@pytest.fixture
async def channel(gateway: GatewayClient) -> AsyncIterator[grpc.aio.Channel]:
    """To the recogniser."""
    async with channel_to(gateway, "asr") as channel:
        yield channel


def left_plans(stack: RunningStack) -> list[str]:
    return [
        line
        for log in stack.log_dir.glob("*.log")
        for line in stack.log(log.stem).splitlines()
        if log.stem.partition("-")[0] in COMPILED and any(words in line for words in _LOST)
    ]


def clip(name: str) -> np.ndarray:
    return read_mono(CLIPS / name, MIC_RATE_HZ)


async def test_every_network_runs_by_its_plan(
    gpu_stack: RunningStack, gateway: GatewayClient
) -> None:
    # Compiling takes minutes on a GPU: whoever waits for the start is told.
    told = re.findall(r"^(\w+)(?:-\d)?: compiling", gpu_stack.output(), re.MULTILINE)
    assert set(told) == COMPILED
    services = (await gateway.call("GET", "/v1/services")).json()["services"]
    engines = [e for s in services if s["service"] in COMPILED for e in s["engines"]]
    by_plan = {
        *("smart-turn", "moonshine-tiny-en", "whisper-base"),
        *("hibari-en", "fastspeech2-mbmelgan-zh"),
        "audio_to_face",
    }
    assert by_plan <= {engine["model"] for engine in engines}
    for at in (engine for engine in engines if engine["model"] in by_plan):
        assert (at["backend"], at["device"], at["detail"]) == ("tensorrt", "cuda:0", ""), at


async def test_typed_questions_are_answered_and_can_be_interrupted(gateway: GatewayClient) -> None:
    async def ask(question: str, language: str) -> None:
        async with gateway.session(language=language) as session:
            await session.record_turn()
            await session.ask(question)
            events = await until_turn(session, "finished", "failed")
            assert events[-1]["event"] == "finished", events[-1]
            assert answer_of(events).strip()
            await session.ask(question)
            await until_turn(session, "speaking")
            await session.interrupt()
            events = await until_turn(session, "interrupted", "failed")
            assert events[-1]["event"] == "interrupted", events[-1]

    await asyncio.gather(ask("Why is the sky blue?", "en"), ask("请介绍一下北京。", "zh"))


@pytest.mark.parametrize(("file", "language"), SPOKEN)
async def test_partial_texts_are_the_drafts_of_the_next(
    channel: grpc.aio.Channel, file: str, language: str
) -> None:
    """As a recording: every look is awaited, so there are some on any machine."""
    stub = asr_pb2_grpc.SpeechRecognitionStub(channel)
    config = asr_pb2.RecognitionConfig(
        sample_rate_hz=MIC_RATE_HZ, language=language, interim_results=True, recorded=True
    )
    pcm = clip(f"{file}.wav")

    async def requests() -> AsyncIterator[asr_pb2.StreamingRecognizeRequest]:
        yield asr_pb2.StreamingRecognizeRequest(config=config)
        for start in range(0, len(pcm), MIC_RATE_HZ):
            piece = pcm[start : start + MIC_RATE_HZ].tobytes()
            yield asr_pb2.StreamingRecognizeRequest(pcm_s16le=piece)

    texts: dict[int, list[str]] = defaultdict(list)
    async for answer in stub.StreamingRecognize(requests()):
        texts[answer.transcript.event].append(answer.transcript.text)
    said = (CLIPS / f"{file}.txt").read_text(encoding="utf-8")
    # How many depends on what a look costs; each is the draft of the next, the last of the final.
    assert texts[media_pb2.TranscriptChunk.PARTIAL]
    assert likeness("".join(texts[media_pb2.TranscriptChunk.FINAL]), said) > 0.7


@pytest.mark.parametrize(("file", "language"), SPOKEN)
async def test_short_sounds_and_long_recordings_are_within_the_plans(
    channel: grpc.aio.Channel, file: str, language: str
) -> None:
    """Short ones are scored as hums as well; long ones are cut into pieces of up to 20 s."""
    ears, pcm = Ears(channel), clip(f"{file}.wav")
    for length_s in (0.1, 0.4, 0.7, 1.0):
        start = int(0.3 * MIC_RATE_HZ)
        short = pcm[start : start + int(length_s * MIC_RATE_HZ)]
        await ears.transcribe(short.tobytes(), language)
    long = np.tile(pcm, 1 + 21 * MIC_RATE_HZ // len(pcm))
    said = (CLIPS / f"{file}.txt").read_text(encoding="utf-8")
    assert len(await ears.transcribe(long.tobytes(), language)) > len(said)


async def test_the_plans_were_left_by_nobody(gpu_stack: RunningStack) -> None:
    assert left_plans(gpu_stack) == []


# ------------------------------------------------------------ two faces and two gateways


@contextlib.asynccontextmanager
async def joined(url: str, session: str) -> AsyncIterator[GatewaySession]:
    """A session that is there already, through a gateway at `url`."""
    async with (
        GatewayClient(url) as client,
        client.connect(f"/v1/sessions/{session}/events") as events,
    ):
        yield GatewaySession(client, session, events)


async def answered(url: str, session: str) -> None:
    async with joined(url, session) as there:
        await there.say("What is two plus two?")
        events = await until_turn(there, "finished", "failed")
    assert (events[-1]["event"], answer_of(events) != "") == ("finished", True)


async def face_of(client: GatewayClient, session: str) -> str:
    told = (await client.call("GET", f"/v1/sessions/{session}")).json()
    return str(told["stages"]["face"])


async def until_face(client: GatewayClient, session: str, *, not_by: str) -> str:
    """The face of a session once it is another one."""
    async with asyncio.timeout(20):
        # Asked over HTTP: nothing tells us.
        while (face := await face_of(client, session)) in (not_by, "None"):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    return face


async def both_gateways(client: GatewayClient) -> list[str]:
    """Where each of them can be reached by itself, once they know each other."""
    async with asyncio.timeout(20):
        while True:
            targets = (await client.call("GET", "/v1/metrics-targets")).json()
            own = [t["targets"][0] for t in targets if t["labels"]["service"] == "gateway"]
            if len(own) == 2:
                return [f"http://{address}" for address in own]
            await asyncio.sleep(0.05)


def process_of(stack: RunningStack, instance: str) -> psutil.Process:
    return stack.child(instance.rpartition("-")[0])


async def test_visitors_are_spread_and_any_gateway_serves_them(
    gpu_stack: RunningStack,
) -> None:
    stack, avatars = gpu_stack, gpu_stack.log_dir / "avatars"
    shutil.copytree(DEFAULT_FOLDER, avatars / "guest")
    async with GatewayClient(stack.url) as client:
        gateways = await both_gateways(client)
        listed = (await client.call("GET", "/v1/avatars")).json()["avatars"]
        assert "guest" in [avatar["name"] for avatar in listed]
        shutil.rmtree(avatars)  # what a session needs lies on no disk alone
        made = [
            (await client.call("POST", "/v1/sessions", json={"avatar": "guest"})).json()["id"]
            for _ in range(2)
        ]
        assert len({session.rpartition("-")[2] for session in made}) == 2, "one gateway has both"
        faces = [await face_of(client, session) for session in made]
        assert sorted(face[:7] for face in faces) == ["face-1-", "face-2-"]
        # One and the same gateway is asked for both.
        await asyncio.gather(*(answered(gateways[0], session) for session in made))
        for session in made:
            await client.call("DELETE", f"/v1/sessions/{session}")


async def test_a_session_goes_on_with_another_face_while_its_own_is_frozen(
    gpu_stack: RunningStack,
) -> None:
    """Long before that one is ended for it and started anew."""
    stack = gpu_stack
    async with GatewayClient(stack.url) as client, client.session() as session:
        face = await face_of(client, session.id)
        frozen = process_of(stack, face)
        frozen.suspend()
        try:
            await until_face(client, session.id, not_by=face)
            assert frozen.status() == psutil.STATUS_STOPPED, "it went on only with a new process"
            await answered(stack.url, session.id)
        finally:
            with contextlib.suppress(psutil.NoSuchProcess):
                frozen.resume()
