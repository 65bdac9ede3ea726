from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import numpy as np
import pytest

from services.face.lips.audio_to_face import AudioToFace
from services.face.lips.lips import DurationLips, LipTrack
from services.face.lips.turn_lips import Hearing
from tests.face.draw.test_animator import SENTENCE, mel_chunks
from tests.face.fake_studio import LoudnessNetwork
from visavis.engine import EngineLane
from visavis.wire.media import MelChunk, PcmChunk, Place

RATE = 16_000


@pytest.fixture
async def lane() -> AsyncIterator[EngineLane]:
    lane = EngineLane("test")
    yield lane
    lane.close()


def hearing(lane: EngineLane, *, durations: bool = True) -> Hearing:
    engine = LoudnessNetwork()
    engine.load()
    return Hearing(AudioToFace(engine), lane, 25, durations=durations)


def voice(seq: int, *, turn: int = 1, last: bool = False) -> PcmChunk:
    """A tenth of a second, louder with every chunk."""
    times = np.arange(seq * RATE // 10, (seq + 1) * RATE // 10) / RATE
    pcm = (3 ** (seq % 9) * np.sin(2 * np.pi * 300 * times)).astype(np.int16)
    return PcmChunk(Place("s", turn, seq, seq * RATE // 10, last), RATE, pcm)


def wordless(turn: int = 1) -> MelChunk:
    return MelChunk(Place("s", turn, 0, 0), 24_000, 300, np.zeros((20, 80), np.float32))


def curve(track: LipTrack | None, frames: int) -> np.ndarray:
    assert track is not None
    return np.stack([track.at(k / 25) for k in range(frames)])


async def test_phonemes_come_before_the_voice(lane: EngineLane) -> None:
    both = hearing(lane)
    assert await both.voice(voice(0)) is None
    assert isinstance(await both.mel(mel_chunks(SENTENCE)[0]), DurationLips)
    assert await both.voice(voice(1)) is None


async def test_voice_keeps_its_order_while_the_early_part_is_worked_off(lane: EngineLane) -> None:
    racing, alone = hearing(lane), hearing(lane, durations=False)
    for seq in range(8):
        await racing.voice(voice(seq))
    for seq in range(9):
        expected = await alone.voice(voice(seq, last=seq == 8))
    heard, _ = await asyncio.gather(racing.mel(wordless()), racing.voice(voice(8, last=True)))
    np.testing.assert_array_equal(curve(heard, 22), curve(expected, 22))


async def test_lips_stay_with_a_voice_of_which_a_part_was_lost(lane: EngineLane) -> None:
    holed, whole = hearing(lane, durations=False), hearing(lane, durations=False)
    for seq in range(9):
        chunk = voice(seq, last=seq == 8)
        expected = await whole.voice(chunk)
        if seq not in (3, 4):
            heard = await holed.voice(chunk)
    assert heard is not None and heard.end_s == 0.9
    np.testing.assert_allclose(curve(heard, 22)[17:], curve(expected, 22)[17:], atol=0.01)


async def test_a_newer_turn_ends_the_older(lane: EngineLane) -> None:
    alone = hearing(lane, durations=False)
    first = await alone.voice(voice(0))
    second = await alone.voice(voice(0, turn=2))
    assert second is not None and second is not first
    assert await alone.voice(voice(1)) is None
    alone.begin_turn(3)
    assert await alone.mel(wordless(turn=2)) is None
