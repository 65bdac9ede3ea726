"""How well the end of a turn is found: cut off too soon, waited too long, taken back.

Delays are in time of the sound: how many samples had been heard. The networks' work is
added where a figure says so; it happens while the sound goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from visavis.bench.turn_clips import RATE_HZ, TurnClip
from visavis.bench.word_errors import words
from visavis.edit_distance import edits
from visavis.media import TranscriptChunk, TranscriptEvent

# An answer about a pause may lie a little before the labelled end: labels are exact to 10 ms
# and the last sounds of a word are soft.
_END_SLACK_SAMPLES = RATE_HZ // 10
FINISHED = 0.5
FIGURES: Mapping[str, str] = {
    "end_of_turn_s": "s",
    "end_of_turn_with_compute_s": "s",
    "paused_s": "s",
    "paused_with_compute_s": "s",
    "pause_compute_s": "s",
    "first_text_s": "s",
    "first_text_with_compute_s": "s",
    "partial_compute_s": "s",
    "word_errors": "%",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """One pause: the probability told for it, and whether the turn was over."""

    finished: bool
    probability: float


@dataclass(frozen=True, slots=True)
class TurnOutcome:
    """What became of one clip. Seconds; None where it did not happen."""

    clip: TurnClip
    cut_offs: tuple[str, ...]
    """Texts that were called final while the speaker went on."""
    end_of_turn_s: float | None
    end_of_turn_with_compute_s: float | None
    paused_s: float | None
    paused_with_compute_s: float | None
    pause_compute_s: float | None
    first_text_s: float | None
    first_text_with_compute_s: float | None
    partial_compute_s: float | None
    retracted_characters: int
    partials: int
    pauses_told: int
    verdicts: tuple[Verdict, ...]
    word_errors: float | None
    text: str

    def to_dict(self) -> dict[str, Any]:
        clip = self.clip
        about = {"clip": clip.path.name, "language": clip.language, "category": clip.category}
        figures = {name: _rounded(getattr(self, name)) for name in FIGURES}
        return {
            **about,
            "origin": clip.origin,
            "half": clip.half,
            "cut_offs": list(self.cut_offs),
            **figures,
            "retracted_characters": self.retracted_characters,
            "partials": self.partials,
            "pauses_told": self.pauses_told,
            "text": self.text,
        }


def outcome_of(clip: TurnClip, chunks: Sequence[TranscriptChunk]) -> TurnOutcome:
    """What the events of one clip, in order, amount to."""
    finals = _of(chunks, TranscriptEvent.FINAL)
    partials = _of(chunks, TranscriptEvent.PARTIAL)
    paused = _of(chunks, TranscriptEvent.PAUSED)
    cut_offs = [chunk for chunk in finals if chunk.place.pts < clip.turn_end - _END_SLACK_SAMPLES]
    end = finals[-1] if len(finals) > len(cut_offs) else None
    at_end = [c for c in paused if c.place.pts >= clip.turn_end - _END_SLACK_SAMPLES]
    last = at_end[-1] if at_end and end else None
    first = next((c for c in chunks if c.text), None)
    end_s = _after(end, clip.turn_end)
    paused_s = _after(last, clip.turn_end)
    known_s = None if paused_s is None or last is None else paused_s + last.compute_ms / 1000
    text = " ".join(chunk.text for chunk in finals)
    said = words(clip.text)
    computed = [chunk.compute_ms / 1000 for chunk in partials]
    return TurnOutcome(
        clip=clip,
        cut_offs=tuple(chunk.text for chunk in cut_offs),
        end_of_turn_s=end_s,
        end_of_turn_with_compute_s=end_s
        if known_s is None or end_s is None
        else max(end_s, known_s),
        paused_s=paused_s,
        paused_with_compute_s=known_s,
        pause_compute_s=None if last is None else last.compute_ms / 1000,
        first_text_s=_after(first, clip.speech_start),
        first_text_with_compute_s=_after(first, clip.speech_start, compute=True),
        partial_compute_s=max(computed, default=None),
        retracted_characters=retracted(chunks),
        partials=len(partials),
        pauses_told=len(paused),
        verdicts=tuple(_verdicts(clip, paused)),
        word_errors=edits(words(text), said) / len(said) if said else None,
        text=text,
    )


def retracted(chunks: Iterable[TranscriptChunk]) -> int:
    """Characters that were called stable and are not in a later text of the same utterance."""
    stable: dict[int, str] = {}
    count = 0
    for chunk in chunks:
        if not chunk.text:
            continue
        known = stable.get(chunk.utterance, "")
        same = 0
        while same < len(known) and chunk.text[same : same + 1] == known[same]:
            same += 1
        count += len(known) - same
        stable[chunk.utterance] = chunk.text[: chunk.stable_characters]
    return count


def precision_and_recall(verdicts: Iterable[Verdict]) -> tuple[float | None, float | None]:
    """Of calling a turn over at a pause, from FINISHED on."""
    known = list(verdicts)
    called = [v for v in known if v.probability >= FINISHED]
    over = [v for v in known if v.finished]
    right = sum(v.finished for v in called)
    return (right / len(called) if called else None, right / len(over) if over else None)


def counts_of(outcomes: Sequence[TurnOutcome]) -> dict[str, float]:
    """What the table cannot tell as a spread."""
    precision, recall = precision_and_recall(v for o in outcomes for v in o.verdicts)
    counts: dict[str, float] = {
        "clips": len(outcomes),
        "clips_cut_off": sum(bool(o.cut_offs) for o in outcomes),
        "clips_without_an_end": sum(o.end_of_turn_s is None for o in outcomes),
        "pauses_judged": sum(len(o.verdicts) for o in outcomes),
        "retracted_characters_of_stable_text": sum(o.retracted_characters for o in outcomes),
        "partials": sum(o.partials for o in outcomes),
        "pauses_told": sum(o.pauses_told for o in outcomes),
    }
    if precision is not None:
        counts["precision_of_finished"] = round(precision, 3)
    if recall is not None:
        counts["recall_of_finished"] = round(recall, 3)
    return counts


def _verdicts(clip: TurnClip, paused: Iterable[TranscriptChunk]) -> Iterable[Verdict]:
    for chunk in paused:
        at, probability = chunk.speech_end_samples, chunk.end_of_turn_probability
        slack = _END_SLACK_SAMPLES
        if at >= clip.turn_end - slack:
            yield Verdict(True, probability)
        elif any(first - slack <= at <= end for first, end in clip.pauses):
            yield Verdict(False, probability)


def _of(chunks: Iterable[TranscriptChunk], event: TranscriptEvent) -> list[TranscriptChunk]:
    return [chunk for chunk in chunks if chunk.event is event]


def _after(chunk: TranscriptChunk | None, samples: int, *, compute: bool = False) -> float | None:
    if chunk is None:
        return None
    return (chunk.place.pts - samples) / RATE_HZ + (chunk.compute_ms / 1000 if compute else 0.0)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
