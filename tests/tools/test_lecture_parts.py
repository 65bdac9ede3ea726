import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc.aio
import numpy as np
import pytest

from visavis.serving.errors import InvalidInputError, VisavisError
from visavis.tools.lecture import (
    MAX_PART_CHARACTERS,
    LectureOptions,
    Part,
    PartStore,
    Picture,
    part_key,
    render_part,
    split_script,
)
from visavis.v1 import face_pb2, face_pb2_grpc, tts_pb2, tts_pb2_grpc
from visavis.wire.media import PcmChunk, Place

OPTIONS = LectureOptions(language="en", voice="", avatar="", speed=1.0, seed=1)


@pytest.mark.parametrize(
    ("sentences", "between"),
    [
        ([f"This is sentence number {i} of the long paragraph." for i in range(40)], " "),
        (["今天天气很好。"] * 100, ""),
    ],
)
def test_a_long_paragraph_is_cut_between_sentences_and_nothing_is_lost(
    sentences: list[str], between: str
) -> None:
    text = between.join(sentences)
    parts = split_script(text)
    assert between.join(" ".join(parts).split(" ")) == text
    assert len(parts) > 1
    assert all(len(part) <= MAX_PART_CHARACTERS for part in parts)
    assert all(part[-1] in ".。" for part in parts)


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        ("Version 3.5 of visavis.example is out, they say, " * 30, ","),
        ("words and no mark " * 40, "sdok"),
        ("没有句号，" * 200, "，"),
        ("没有标点" * 400, "没有标点"),
        ("यह एक वाक्य है। " * 60, "।"),
        ("هل هذه جملة؟ " * 60, "؟"),
        ("He waited… " * 60, "…"),
    ],
)
def test_what_has_no_full_stop_is_cut_all_the_same_and_no_figure_is(text: str, marks: str) -> None:
    """A gateway takes texts of 8000 characters at most."""
    parts = split_script(text)
    assert "".join("".join(parts).split()) == "".join(text.split())
    assert len(parts) > 1 and all(len(part) <= MAX_PART_CHARACTERS for part in parts)
    assert all(part[-1] in marks for part in parts)
    assert sum(part.count("3.5") for part in parts) == text.count("3.5")


def test_key_changes_with_everything_that_changes_the_part() -> None:
    other = [replace(OPTIONS, speed=1.1), replace(OPTIONS, avatar="other")]
    of_part = [("a", 0, 0), ("b", 0, 0), ("a", 1, 0), ("a", 0, 25)]
    keys = [part_key(*part, OPTIONS) for part in of_part]
    keys += [part_key("a", 0, 0, options) for options in other]
    assert len(set(keys)) == 6
    assert part_key("a", 0, 0, OPTIONS) == keys[0]


def test_stored_part_comes_back_and_a_cut_off_one_does_not(tmp_path: Path) -> None:
    store = PartStore(tmp_path / "parts")
    part = Part([Picture(b"\0\1key", True), Picture(b"p", False)], np.arange(1920, dtype=np.int16))
    assert store.load("k") is None
    store.save("k", part)
    back = store.load("k")
    assert back is not None
    assert list(back.pictures) == list(part.pictures)
    np.testing.assert_array_equal(back.pcm, part.pcm)
    file = tmp_path / "parts" / "k.npz"
    file.write_bytes(file.read_bytes()[:-100])
    assert store.load("k") is None
    store.clear()
    assert list(tmp_path.iterdir()) == []


def test_a_second_run_into_one_video_is_told_and_leaves_the_first_one_alone(tmp_path: Path) -> None:
    store = PartStore(tmp_path / "parts")
    with store.held():
        with pytest.raises(InvalidInputError, match="another run is writing this video"):
            with PartStore(tmp_path / "parts").held():
                raise AssertionError("both write")
        with pytest.raises(InvalidInputError, match="another run"), store.held():
            raise AssertionError("the first one's folder is gone")
        store.save("k", Part([], np.zeros(0, np.int16)))
    with store.held():
        assert store.load("k") is not None, "what was made is kept for the next run"
        store.clear()
    assert list(tmp_path.iterdir()) == []


class LongVoice(tts_pb2_grpc.SpeechSynthesisServicer):
    """Speaks far more than may be on its way to the face at once."""

    async def Synthesize(
        self, requests: Any, context: Any
    ) -> AsyncIterator[tts_pb2.SynthesizeResponse]:
        sound = PcmChunk(Place("", 0, 0, 0), 24_000, np.zeros(10_000, np.int16)).to_message()
        for _ in range(60):
            yield tts_pb2.SynthesizeResponse(voice=sound)


class RefusingFace(face_pb2_grpc.FaceAnimationServicer):
    """Knows no avatar, and takes a moment to find out."""

    async def Animate(self, requests: Any, context: Any) -> AsyncIterator[face_pb2.AnimateResponse]:
        await context.read()
        await asyncio.sleep(0.01)
        await context.abort(grpc.StatusCode.NOT_FOUND, "avatar: there is no 'nobody'")
        yield face_pb2.AnimateResponse()


async def test_why_the_face_refuses_is_told_however_much_is_on_its_way_to_it() -> None:
    server = grpc.aio.server()
    tts_pb2_grpc.add_SpeechSynthesisServicer_to_server(LongVoice(), server)
    face_pb2_grpc.add_FaceAnimationServicer_to_server(RefusingFace(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        for _ in range(5):
            with pytest.raises(VisavisError, match="there is no 'nobody'"):
                await render_part("Hello.", 0, OPTIONS, channel, channel)
    await server.stop(0)
