"""Cuts a long recording into pieces that a recogniser takes, at pauses."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from services.asr.hearing.detectors import FRAME_SAMPLES, SAMPLE_RATE_HZ

LONGEST_PIECE_SAMPLES = 20 * SAMPLE_RATE_HZ


@dataclass(frozen=True, slots=True)
class CutRules:
    """Thresholds of probability, and lengths in VAD frames of 32 ms."""

    speech_probability: float = 0.5
    silence_probability: float = 0.35
    fewest_voiced_frames: int = 3
    pause_frames: int = 10
    margin_frames: int = 10
    longest_frames: int = LONGEST_PIECE_SAMPLES // FRAME_SAMPLES


@dataclass(frozen=True, slots=True)
class Span:
    """From start to before end, in samples or frames."""

    start: int
    end: int

    @property
    def length(self) -> int:
        return self.end - self.start


def cut_at_pauses(speech: Sequence[float], rules: CutRules | None = None) -> list[Span]:
    """Spans of samples that hold speech, in order, none longer than the rules allow.

    speech: probability per VAD frame. Neighbours are kept together while they
    fit, because a recogniser does better with more context.
    """
    rules = rules or CutRules()
    pieces: list[Span] = []
    for region in _regions(speech, rules):
        for span in _split(region, speech, rules):
            if pieces and span.end - pieces[-1].start <= rules.longest_frames:
                pieces[-1] = Span(pieces[-1].start, span.end)
            else:
                pieces.append(span)
    return [Span(p.start * FRAME_SAMPLES, p.end * FRAME_SAMPLES) for p in pieces]


def quietest(speech: Sequence[float], start: int, end: int) -> int:
    """Frame in [start, end) that is least likely speech; the latest of several."""
    window = np.asarray(speech[start:end])
    return end - 1 - int(window[::-1].argmin())


def _regions(speech: Sequence[float], rules: CutRules) -> list[Span]:
    """Stretches of speech with a margin around them, in frames."""
    found: list[Span] = []
    start = voiced = silent = 0
    inside = False
    for i, probability in enumerate([*speech, *[0.0] * rules.pause_frames]):
        if probability >= rules.speech_probability:
            if not inside:
                inside, start, voiced = True, i, 0
            voiced, silent = voiced + 1, 0
        elif inside and probability < rules.silence_probability:
            silent += 1
            if silent == rules.pause_frames:
                inside = False
                if voiced >= rules.fewest_voiced_frames:
                    found.append(_widen(start, i + 1 - silent, found, len(speech), rules))
    return found


def _widen(start: int, end: int, before: list[Span], n_frames: int, rules: CutRules) -> Span:
    floor = before[-1].end if before else 0
    return Span(max(floor, start - rules.margin_frames), min(n_frames, end + rules.margin_frames))


def _split(region: Span, speech: Sequence[float], rules: CutRules) -> list[Span]:
    """Speech without a pause is cut where it is quietest, in the later half of a piece."""
    parts: list[Span] = []
    start = region.start
    while region.end - start > rules.longest_frames:
        middle = start + rules.longest_frames // 2
        at = quietest(speech, middle, start + rules.longest_frames)
        parts.append(Span(start, at))
        start = at
    return [*parts, Span(start, region.end)]
