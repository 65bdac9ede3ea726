"""Whole conversations with the real stack, through the public API."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import av
import numpy as np

from tests.running_stack import RunningStack
from tests.stack.conftest import Ears, likeness
from visavis.client import MIC_RATE_HZ, GatewayClient, GatewaySession
from visavis.tools.bench.visitor.clips import read_mono
from visavis.wire.bus import Bus
from visavis.wire.media import decode
from visavis.wire.permissions import User
from visavis.wire.subjects import Kind

CLIPS = Path(__file__).parents[1] / "clips"
FRAME_S = 1 / 25


async def until_turn(session: GatewaySession, *ends: str) -> list[dict[str, Any]]:
    """Events up to the one that ends a turn in one of the ways named."""
    events = []
    async with asyncio.timeout(90):
        async for event in session.events():
            events.append(event)
            if event["type"] == "turn" and event["event"] in ends:
                return events
    raise AssertionError(f"the events ended before the turn did: {events}")


def answer_of(events: list[dict[str, Any]]) -> str:
    return "".join(e["text"] for e in events if e["type"] == "answer")


async def recorded_answer(session: GatewaySession, folder: Path, question: str) -> tuple[str, Path]:
    """Text and video of the answer to a typed question."""
    await session.record_turn()
    turn = await session.ask(question)
    events = await until_turn(session, "finished")
    path = folder / f"{session.id}.mp4"
    path.write_bytes(await session.recording())
    assert events[-1]["turn"] == turn
    return answer_of(events), path


def lengths_s(path: Path) -> tuple[float, float]:
    """Length of the picture and of the sound. A picture that came late is left out, and the
    one before it is shown for longer."""
    with av.open(str(path)) as file:
        lengths = []
        for stream in (file.streams.video[0], file.streams.audio[0]):
            assert stream.duration is not None and stream.time_base is not None
            lengths.append(float(stream.duration * stream.time_base))
        assert sum(1 for _ in file.decode(video=0)) > lengths[0] / FRAME_S / 2
    return lengths[0], lengths[1]


async def test_typed_question_is_answered_aloud_and_in_step(
    gateway: GatewayClient, ears: Ears, tmp_path: Path
) -> None:
    """In Mandarin, seen as a recording and by a viewer, whose stream plays from its first byte."""
    async with gateway.session(language="zh") as session:
        live = bytearray()
        async with gateway.connect(f"/v1/sessions/{session.id}/media?role=viewer") as media:

            async def collect() -> None:
                async for message in media:
                    if isinstance(message, bytes):
                        live.extend(message)

            collecting = asyncio.create_task(collect())
            answer, video = await recorded_answer(session, tmp_path, "请介绍一下北京。")
            collecting.cancel()
            await asyncio.gather(collecting, return_exceptions=True)
    assert answer.strip()
    picture_s, sound_s = lengths_s(video)
    assert picture_s > 0.4
    assert abs(picture_s - sound_s) <= FRAME_S
    heard = await ears.transcribe(read_mono(video, MIC_RATE_HZ).tobytes(), "zh")
    assert likeness(heard, answer) > 0.6, f"said {answer!r}, heard {heard!r}"
    path = tmp_path / "live.mp4"
    path.write_bytes(live)
    with av.open(str(path)) as file:
        pictures = [frame.to_ndarray(format="gray") for frame in file.decode(video=0)]
    assert len(pictures) > 25
    moved = [np.abs(a.astype(int) - b).mean() for a, b in itertools.pairwise(pictures)]
    assert np.mean(np.array(moved) > 0) > 0.5, "the face stands still"
    assert np.abs(read_mono(path, MIC_RATE_HZ)).max() > 1000


async def test_spoken_question_is_heard_and_answered(gateway: GatewayClient) -> None:
    pcm = read_mono(CLIPS / "austen_0880.wav", MIC_RATE_HZ)
    said = (CLIPS / "austen_0880.txt").read_text(encoding="utf-8")
    async with gateway.session(language="en") as session:
        stop = asyncio.Event()
        microphone = asyncio.create_task(session.talk(pcm, stop))
        events = await until_turn(session, "finished", "failed")
        stop.set()
        await microphone
        path = f"/v1/sessions/{session.id}/turns/{events[-1]['turn']}/timeline"
        check_timeline((await gateway.call("GET", path)).json())
    final = [e["text"] for e in events if e["type"] == "transcript" and e["final"]]
    assert likeness(" ".join(final), said) > 0.9
    assert events[-1]["event"] == "finished"
    assert answer_of(events).strip()
    latency = next(e for e in reversed(events) if e["type"] == "latency")
    assert latency["voice_to_voice_ms"] > 0
    assert latency["stages"]


def check_timeline(timeline: dict[str, Any]) -> None:
    """Every stage told what it did, and one thing came after the other."""
    assert timeline["origin"] == "speech" and timeline["clock_error_ms"] == 0
    spans: dict[tuple[str, str, str], tuple[float, float]] = {}
    for span in timeline["spans"]:
        assert span["start_ms"] <= span["end_ms"]
        key = (span["stage"], span["kind"], span["chunk"])
        spans.setdefault(key, (span["start_ms"], span["end_ms"]))
    for chunk, stages in (
        ("first", ("asr", "llm", "tts", "face", "encoder")),
        ("last", ("tts", "face", "encoder")),
    ):
        work = [spans[stage, "compute", chunk] for stage in stages]
        assert [end for _, end in work] == sorted(end for _, end in work)
        assert work[-2][1] == work[-1][0], "a frame is encoded when it has been painted"
        assert work[-1][1] <= spans["playout", "wait", "last"][1]
    hops = ("llm", "tts", "face", "playout")
    assert all((stage, "transfer", "first") in spans for stage in hops)
    assert 0 <= timeline["overhead_ms"] < timeline["voice_to_voice_ms"]


async def test_interruption_silences_an_answer_and_a_second_question_replaces_it(
    gateway: GatewayClient,
) -> None:
    async with gateway.session(language="en") as session:
        await session.ask("Tell me a long story about a dragon and a castle.")
        await until_turn(session, "speaking")
        await session.interrupt()
        assert (await until_turn(session, "interrupted"))[-1]["event"] == "interrupted"
        first = await session.ask("Tell me a long story about a dragon and a castle.")
        await until_turn(session, "speaking")
        second = await session.ask("What is two plus two?")
        events = await until_turn(session, "finished")
        assert (events[-1]["turn"], second) == (second, first + 1)
        assert {e["turn"] for e in events if e["type"] == "answer" and e["turn"] > first} == {
            second
        }
        assert answer_of(events).strip()


async def test_two_sessions_at_once_never_meet(
    gateway: GatewayClient, stack: RunningStack, ears: Ears, tmp_path: Path
) -> None:
    """What each says, shows and is heard to say is its own."""
    seen: dict[str, set[str]] = {}

    async def watch(message: Any) -> None:
        chunk = decode(Kind.TOKENS, message.data)
        seen.setdefault(message.subject.split(".")[1], set()).add(chunk.place.session)

    operator = stack.login(User.OPERATOR)
    spy = await Bus.connect(stack.keys.nats_url, name="spy", login=operator)
    await spy.client.subscribe("vv.*.*.tokens", cb=watch)
    async with gateway.session(language="en") as one, gateway.session(language="en") as another:
        (first, first_video), (second, second_video) = await asyncio.gather(
            recorded_answer(one, tmp_path, "Why is the sky blue?"),
            recorded_answer(another, tmp_path, "What do cats like to eat?"),
        )
    await spy.close()
    assert seen == {one.id: {one.id}, another.id: {another.id}}
    heard = [
        await ears.transcribe(read_mono(video, MIC_RATE_HZ).tobytes(), "en")
        for video in (first_video, second_video)
    ]
    for own, other, text in ((first, second, heard[0]), (second, first, heard[1])):
        assert likeness(text, own) > 0.6
        assert likeness(text, own) > likeness(text, other) + 0.15
