"""A sentence in two pieces: no seam in the sound, and nothing lost where nothing follows."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from services.tts.sound import HOP_SAMPLES, N_MELS, SAMPLE_RATE_HZ, Block
from services.tts.voices.joining import TAIL_SAMPLES, cut_out, joined

PITCH_HZ = 180.0
CUT_HOPS = 20
STOP_HOPS = 40


def tone(seconds_late: float) -> NDArray[np.float32]:
    at = np.arange(60 * HOP_SAMPLES) / SAMPLE_RATE_HZ - seconds_late
    phase = 2 * np.pi * PITCH_HZ * at
    return (0.2 * np.sin(phase) + 0.1 * np.sin(2 * phase)).astype(np.float32)


def second_piece(voice: NDArray[np.float32], *, goes_on: bool = False) -> Block:
    lead, part, tail = cut_out(voice, CUT_HOPS, STOP_HOPS, opens=True, goes_on=goes_on)
    mel = np.zeros((len(part) // HOP_SAMPLES, N_MELS), np.float32)
    return Block(part, mel, (), (), lead, tail)


@pytest.mark.parametrize("late_ms", [0.0, 0.7, 2.0, 4.1])
def test_pieces_that_are_out_of_step_are_brought_into_it(late_ms: float) -> None:
    _, first, tail = cut_out(tone(0.0), 0, CUT_HOPS, opens=False, goes_on=True)
    block = joined(tail, second_piece(tone(late_ms / 1000)))
    sound = np.concatenate([first, block.voice])
    join = CUT_HOPS * HOP_SAMPLES
    np.testing.assert_allclose(sound[join - 400 : join + 2000], tone(0.0)[join - 400 : join + 2000],
                               atol=0.02)  # fmt: skip


def test_a_joined_block_is_as_long_as_before_and_can_be_followed_in_turn() -> None:
    whole = tone(0.0)
    _, _, tail = cut_out(whole, 0, CUT_HOPS, opens=False, goes_on=True)
    block = joined(tail, second_piece(tone(0.002), goes_on=True))
    assert len(block.voice) == (STOP_HOPS - CUT_HOPS) * HOP_SAMPLES
    assert len(block.tail) == TAIL_SAMPLES
    assert not len(block.lead)
    stop = STOP_HOPS * HOP_SAMPLES
    np.testing.assert_allclose(block.tail[:240], whole[stop : stop + 240], atol=0.02)


def test_the_ends_of_a_sentence_are_faded_its_middle_is_not() -> None:
    voice = np.full(60 * HOP_SAMPLES, 0.3, np.float32)
    _, alone, _ = cut_out(voice, 0, CUT_HOPS, opens=False, goes_on=False)
    assert max(alone[0], alone[-1]) < 0.01
    lead, middle, tail = cut_out(voice, CUT_HOPS, STOP_HOPS, opens=True, goes_on=True)
    assert min(middle[0], middle[-1], lead.min(), tail.min()) == pytest.approx(0.3)
