"""What programs ask of a session, by the real stack: a text as it stands, speech of their own."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path

import numpy as np

from tests.stack.conftest import Ears, likeness
from tests.stack.test_conversation import answer_of, until_turn
from visavis.client import GatewayClient
from visavis.tools.bench.visitor.clips import read_mono

CLIPS = Path(__file__).parents[1] / "clips"
CLIP_HZ, CLIP_S = 16_000, 3.0
SAID = "We close at 7, in ten minutes."


async def test_a_text_is_said_as_it_stands_with_the_times_of_its_words(
    gateway: GatewayClient, ears: Ears
) -> None:
    async with gateway.session(drawn_by="client") as session:
        heard: list[np.ndarray[tuple[int], np.dtype[np.int16]]] = []

        async def listen() -> None:
            async for pcm in session.listen(CLIP_HZ):
                heard.append(pcm)

        listening = asyncio.create_task(listen())
        await session.say(SAID)
        events = await until_turn(session, "finished")
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
        path = f"/v1/sessions/{session.id}/turns/{events[-1]['turn']}/captions"
        subtitles = (await gateway.call("GET", path)).text
    assert answer_of(events) == SAID
    words = [word for e in events if e["type"] == "words" for word in e["words"]]
    assert " ".join(word["text"] for word in words) == SAID
    assert all(
        a["end_ms"] <= b["end_ms"] and a["end_ms"] == b["start_ms"] for a, b in pairwise(words)
    )
    assert subtitles.startswith("WEBVTT\n\n00:00:00.000 --> ") and SAID in subtitles
    assert abs(words[-1]["end_ms"] - events[-1]["played_ms"]) < 400
    said = await ears.transcribe(np.concatenate(heard).tobytes(), "en")
    assert likeness(said, "we close at seven in ten minutes") > 0.7, said


async def test_a_face_says_the_speech_that_a_program_brings(gateway: GatewayClient) -> None:
    clip = read_mono(CLIPS / "two_cities_01.wav", CLIP_HZ)[: round(CLIP_S * CLIP_HZ)]
    async with gateway.session(spoken_by="client", drawn_by="client") as session:
        jaws: list[float] = []

        async def watch() -> None:
            async for pose in session.blendshapes():
                jaws.append(pose.named()["jawOpen"])

        watching = asyncio.create_task(watch())
        async with session.bring_speech() as speech:
            await speech.begin(CLIP_HZ)
            await speech.send(clip)
            await speech.end()
            async with asyncio.timeout(40):
                async for event in speech.events():
                    if event["event"] == "finished":
                        break
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    assert abs(event["played_ms"] / 1000 - CLIP_S) < 0.1
    assert max(jaws) > 0.15 and np.std(jaws) > 0.03, "the lips follow the sound"
