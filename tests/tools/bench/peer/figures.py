"""Figures of Pipecat's turns, by the same definitions as ours. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from visavis.tools.bench.barge_in import Interruption
from visavis.tools.bench.figures.intervals import Interval, ratio_interval
from visavis.tools.bench.figures.report import summarise
from visavis.tools.bench.figures.turn_figures import SHORTEST_ANSWER_S, TurnFigures
from visavis.tools.bench.visitor.media import HeardSound
from visavis.tools.bench.visitor.trace import Trace

COMPARED = (
    "voice_to_voice",
    "end_of_turn",
    "first_token",
    "first_phrase",
    "synthesis",
    "overhead",
    "barge_in_to_silence",
    "cpu_s",
    "memory_bytes",
)
_LOUD = 1000
_BOTH_WAYS_S = 0.05


class Marks:
    """The agent's marks, looked up in time."""

    def __init__(self, marks: Sequence[Sequence[Any]]) -> None:
        self._marks = [(str(name), float(at_s)) for name, at_s in marks]

    def count(self, name: str, from_s: float) -> int:
        """How often it happened; Pipecat sends some frames both ways, so that it is noted twice."""
        times = sorted(at for mark, at in self._marks if mark == name and at >= from_s)
        return sum(
            after is None or after - at > _BOTH_WAYS_S
            for at, after in zip(times, [*times[1:], None], strict=True)
        )

    def last(self, name: str, until_s: float) -> float | None:
        return max((at for mark, at in self._marks if mark == name and at <= until_s), default=None)

    def first(self, name: str, from_s: float) -> float | None:
        return min((at for mark, at in self._marks if mark == name and at >= from_s), default=None)


def trace_of(told: Mapping[str, Any]) -> Trace:
    """What the agent noted, as a visitor of ours would have."""
    sounds, media_s, rate_hz = [], 0.0, int(told["rate_hz"])
    for at_s, first_audible, samples in told["sounds"]:
        pcm = np.zeros(int(samples), np.int16)
        if first_audible is not None:
            pcm[int(first_audible) :] = _LOUD
        sounds.append(HeardSound(float(at_s), media_s, pcm, rate_hz))
        media_s += int(samples) / rate_hz
    return Trace(float(told["speech_start_s"]), float(told["speech_end_s"]), [], sounds)


def turn_of(told: Mapping[str, Any]) -> TurnFigures:
    """Figures of one question that Pipecat answered.

    A turn that it ends too early stays in its context, so the next one answers both parts: where
    nothing of the first answer was heard, it counts as taken back, as with us.
    """
    trace, marks = trace_of(told), Marks(told["marks"])
    start_s, end_s = trace.speech_start_s, trace.speech_end_s
    turns = marks.count("turn_ended", start_s)
    ended_s = marks.last("turn_ended", float("inf")) if turns > 1 else None
    answer_s = max(end_s, ended_s or end_s)
    first = next(trace.audible(answer_s), None)
    over = any(a.at_s < end_s for a in trace.audible(start_s))
    part_heard = any(a.at_s <= answer_s for a in trace.audible(start_s))
    turn = TurnFigures(
        str(told["clip"]),
        "en",
        counted=True,
        spoke_over=over,
        turns=turns,
        taken_back=0 if part_heard else max(0, turns - 1),
        answer_s=round(trace.audible_s(answer_s), 3),
        transcript=str(told["transcript"]),
        answer=str(told["answer"]),
    )
    if over:
        turn.note = "spoke over the visitor"
    elif turns - turn.taken_back > 1:
        turn.note = f"split into {turns - turn.taken_back} turns"
    elif first is None:
        turn.note = "no answer could be heard"
    elif turn.answer_s < SHORTEST_ANSWER_S:
        turn.note = f"the answer is shorter than {SHORTEST_ANSWER_S} s"
    turn.counted = not turn.note
    if first is not None:
        turn.figures = stages(marks, end_s, first.at_s)
    turn.figures |= {"cpu_s": told["cpu_s"], "memory_bytes": told["memory_bytes"]}
    return turn


def stages(marks: Marks, end_s: float, out_s: float) -> dict[str, float | None]:
    """Where the time from the end of speech to the first audible sample went.

    overhead: what lies between the stages: from speech being over to the recogniser, from the
    decision that the turn is over to the language model's being asked, from the first sound
    to its leaving; over WebRTC to its arrival at the visitor. Waiting and computing count nowhere
    in it.
    """
    ended_s = marks.last("turn_ended", out_s)
    figures: dict[str, float | None] = {
        # In its own process nothing is encoded on the way: what leaves is what is heard.
        "voice_to_voice": out_s - end_s,
    }
    if ended_s is None:
        return figures
    figures["end_of_turn"] = ended_s - end_s
    asked_s = marks.first("llm_asked", ended_s)
    token_s = marks.first("token", ended_s)
    speak_s = marks.first("tts_begins", ended_s)
    sound_s = marks.first("tts_sound", ended_s)
    heard_s = marks.last("stt_ends", ended_s)
    listen_s = None if heard_s is None else marks.last("stt_begins", heard_s)
    silent_s = None if listen_s is None else marks.last("vad_stopped", listen_s)
    figures["recognition"] = _between(listen_s, heard_s)
    figures["first_token"] = _between(asked_s, token_s)
    figures["first_phrase"] = _between(token_s, speak_s)
    figures["synthesis"] = _between(speak_s, sound_s)
    gaps = (_between(silent_s, listen_s), _between(ended_s, asked_s), _between(sound_s, out_s))
    if all(gap is not None for gap in gaps):
        figures["overhead"] = sum(gap for gap in gaps if gap is not None)
    return figures


def interruption_of(told: Mapping[str, Any]) -> Interruption:
    """How long an answer of Pipecat's went on after somebody spoke into it."""
    trace, marks = trace_of(told), Marks(told["marks"])
    start_s = trace.speech_start_s
    spoken = [a for a in trace.audible() if a.at_s <= start_s]
    cut_s = marks.first("interrupted", start_s)
    outcome = Interruption(str(told["clip"]), "interruption", stopped=cut_s is not None)
    if not spoken:
        outcome.note = "no long answer came"
    elif cut_s is not None:
        next_s = marks.first("tts_sound", cut_s)
        last_s = trace.last_audible_s(start_s, float("inf") if next_s is None else next_s)
        outcome.silence_s = 0.0 if last_s is None else last_s - start_s
        outcome.detected_s = cut_s - start_s
    return outcome


def compared(
    turns: Sequence[TurnFigures], interruptions: Sequence[Interruption]
) -> dict[str, dict[str, Any] | None]:
    """Each compared figure's spread over what counts of one run."""
    counted = [turn.figures for turn in turns if turn.counted]
    silences = [s.silence_s for s in interruptions if s.stopped and not s.note]
    out = {}
    for name in COMPARED:
        values = silences if name == "barge_in_to_silence" else [f.get(name) for f in counted]
        summary = summarise(values)
        out[name] = None if summary is None else summary.to_dict()
    return out


@dataclass(frozen=True, slots=True)
class PairedRatio:
    """Ours by theirs over the questions that count on both sides; below 1 is better for us."""

    value: float
    within: Interval | None
    """19 times of 20; None: there are too few questions."""
    questions: int


def paired(
    ours: Sequence[TurnFigures], theirs: Sequence[TurnFigures], name: str, percentile: float
) -> PairedRatio | None:
    """The ratio of a percentile of a figure; None where no question counts on both sides."""
    own = {turn.clip: turn.figures.get(name) for turn in ours if turn.counted}
    pairs = [
        (mine, other)
        for turn in theirs
        if turn.counted
        and (mine := own.get(turn.clip)) is not None
        and (other := turn.figures.get(name)) is not None
    ]
    if not pairs:
        return None
    of_us, of_them = [a for a, _ in pairs], [b for _, b in pairs]
    below = float(np.percentile(of_them, percentile))
    if not below:
        return None
    value = float(np.percentile(of_us, percentile)) / below
    return PairedRatio(value, ratio_interval(of_us, of_them, percentile), len(pairs))


def ratio(
    ours: Mapping[str, Any] | None, theirs: Mapping[str, Any] | None, key: str
) -> float | None:
    """Ours by theirs; below 1 is better for us."""
    if ours is None or theirs is None or not theirs[key]:
        return None
    return float(ours[key] / theirs[key])


def _between(from_s: float | None, to_s: float | None) -> float | None:
    return None if from_s is None or to_s is None else to_s - from_s
