"""The figures of one exchange, from what the visitor noted and what the gateway recorded; and what
stands beside every latency: of how many questions it is, and what became of the others.

Definitions stand in docs/benchmarks.md. All figures are seconds. A latency of few answers is cheap:
those that were cut off or lost are not in it. So no figure goes without these counts, those on
other people's speech come first, and what anything was tuned on is in no headline at all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from visavis.tools.bench.figures.counters import mean
from visavis.tools.bench.figures.hidden import where_it_went
from visavis.tools.bench.visitor.clips import GIVEN, GROUPS, TUNED, Clip
from visavis.tools.bench.visitor.trace import Trace

SHORTEST_ANSWER_S = 0.4
# A picture belongs to the first sample if it is the one that is shown with it.
_PICTURE_S = 0.040
_SPOKEN_STAGES = ("asr", "llm", "tts")


@dataclass
class TurnFigures:
    """What was measured of one turn. `figures` by name, None where it could not be measured."""

    clip: str
    language: str
    counted: bool
    note: str = ""
    """Why it is not counted."""
    group: str = GIVEN
    """Of which set the clip is."""
    spoke_over: bool = False
    """Something audible came while the visitor was still speaking."""
    turns: int = 1
    """That were opened for it: with more than one, its end was found where there was none."""
    taken_back: int = 0
    """Of these, replaced by one that answers all of it."""
    discarded: int | None = None
    """Answers prepared for nothing meanwhile; None where that is not known."""
    answer_s: float = 0.0
    underruns: int = 0
    answered_by: str = "llm"
    """"llm", or where the answer was known before, such as "cache"."""
    transcript: str = ""
    answer: str = ""
    figures: dict[str, float | None] = field(default_factory=dict)
    went: dict[str, float] = field(default_factory=dict)
    """Where the time went, see `hidden`."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def measure(
    clip: Clip, trace: Trace, record: Mapping[str, Any], counters: Mapping[str, float]
) -> TurnFigures:
    """Figures of the exchange about `clip`.

    record: the turn as `GET /v1/sessions/{id}/turns/{n}` tells it, {} where there was none.
    counters: what the metrics' sums and counts rose by meanwhile.
    """
    end_s = trace.speech_end_s
    figures = {**client_figures(trace), **record_figures(record), **counter_figures(counters)}
    row = TurnFigures(
        clip.name,
        clip.language,
        counted=True,
        group=clip.group,
        turns=len(trace.opened_turns()),
        taken_back=len(trace.replaced_turns()),
        discarded=round(counters.get("speculation_discarded_total", 0)),
        spoke_over=next((a for a in trace.audible(trace.speech_start_s) if a.at_s < end_s), None)
        is not None,
        answer_s=round(trace.audible_s(trace.answer_from_s()), 3),
        underruns=round(counters.get("gateway_voice_underruns_total", 0)),
        answered_by=str(record.get("answered_by", "llm")),
        transcript=str(record.get("transcript", "")),
        answer=str(record.get("answer", "")).strip(),
        figures={name: _rounded(value) for name, value in figures.items()},
        went=where_it_went(record.get("timeline", {}), figures["endpoint_wait"]),
    )
    row.note = _why_not_counted(row, record)
    row.counted = not row.note
    return row


def client_figures(trace: Trace, after_s: float | None = None) -> dict[str, float | None]:
    """What the visitor sees with their own clock and the true end of their speech.

    after_s: what was audible before is another answer's; None: before the end of their speech, or
    before the last turn was opened, which answers all of it.
    """
    end_s = trace.speech_end_s
    first = next(trace.audible(trace.answer_from_s() if after_s is None else after_s), None)
    turns = trace.opened_turns()
    leaves_s = trace.turn_event_s(turns[-1], "speaking") if turns else None
    decided_s = trace.turn_event_s(turns[-1], "opened") if turns else None
    picture_s = None
    if first is not None:
        shown = (p for p in trace.pictures if p.media_s > first.media_s - _PICTURE_S)
        picture_s = next((p.at_s for p in shown), None)
    return {
        "voice_to_voice": None if first is None else first.at_s - end_s,
        "first_sample_leaves": None if leaves_s is None else leaves_s - end_s,
        "end_of_turn": None if decided_s is None else decided_s - end_s,
        "first_frame": None if picture_s is None else picture_s - end_s,
    }


def record_figures(record: Mapping[str, Any]) -> dict[str, float | None]:
    """What the gateway noted, from the end of speech as its recogniser judged it."""
    stages = {stage["name"]: stage for stage in record.get("stages", ())}
    reported = record.get("stage_seconds", {})

    def length(name: str) -> float | None:
        stage = stages.get(name)
        return None if stage is None else (stage["end_ms"] - stage["start_ms"]) / 1000

    speech = reported.get("tts", {})
    phrase_s, voice_s = speech.get("first_phrase"), speech.get("first_voice")
    waited = stages.get("asr")
    return {
        "server_voice_to_voice": _seconds(record.get("voice_to_voice_ms")),
        "endpoint_wait": None if waited is None else waited["end_ms"] / 1000,
        "first_token": reported.get("llm", {}).get("first_token"),
        "token_to_voice": length("tts"),
        "first_phrase": phrase_s,
        "synthesis": None if voice_s is None or phrase_s is None else voice_s - phrase_s,
        "playout_wait": length("playout"),
        **timeline_figures(record.get("timeline", {})),
    }


def timeline_figures(timeline: Mapping[str, Any]) -> dict[str, float | None]:
    """What the turn's timeline tells apart, of the way to the first sound (asr, llm, tts)."""
    spans = [span for span in timeline.get("spans", ()) if span["chunk"] == "first"]

    def total(kind: str, stages: Collection[str]) -> float | None:
        lengths = [
            span["end_ms"] - span["start_ms"]
            for span in spans
            if span["kind"] == kind and span["stage"] in stages
        ]
        return sum(lengths) / 1000 if spans else None

    return {
        "overhead": _seconds(timeline.get("overhead_ms")),
        "recognition": total("compute", ("asr",)),
        "queue": total("queue", _SPOKEN_STAGES),
        "transfer": total("transfer", _SPOKEN_STAGES),
    }


def counter_figures(counters: Mapping[str, float]) -> dict[str, float | None]:
    """Means over what histograms rose by during this turn (one session: this turn's own)."""
    return {
        "server_first_frame": mean(counters, "first_frame_seconds"),
        "recognition_late": mean(counters, "asr_final_seconds"),
        "synthesis_first_audio": mean(counters, "tts_ttfa_seconds"),
    }


@dataclass(frozen=True, slots=True)
class Standing:
    """How many questions were asked, and what became of them."""

    asked: int
    counted: int
    cut_off: int
    """Something audible came before the visitor had finished."""
    split: int
    """More than one turn was left of it: the answer is to a part."""
    taken_back: int
    """Ends that were none, and became one question again: nothing of their answers was heard."""
    discarded: int | None
    """Answers prepared in pauses and thrown away; None where nobody counts them."""

    def to_dict(self) -> dict[str, int | None]:
        return asdict(self)

    def __str__(self) -> str:
        told = (
            f"{self.counted} of {self.asked} counted, {self.cut_off} cut off, {self.split} split"
            f", {self.taken_back} false ends taken back"
        )
        return told if self.discarded is None else f"{told}, {self.discarded} prepared in vain"


def standing(turns: Sequence[TurnFigures]) -> Standing:
    """Of these questions."""
    discarded = [turn.discarded for turn in turns if turn.discarded is not None]
    return Standing(
        asked=len(turns),
        counted=sum(turn.counted for turn in turns),
        cut_off=sum(turn.spoke_over for turn in turns),
        split=sum(turn.turns - turn.taken_back > 1 for turn in turns),
        taken_back=sum(turn.taken_back for turn in turns),
        discarded=sum(discarded) if discarded else None,
    )


def groups_of(turns: Iterable[TurnFigures]) -> dict[str, list[TurnFigures]]:
    """By the set that they are of, the one for the headline first; what was tuned on is last."""
    found: dict[str, list[TurnFigures]] = {}
    for turn in turns:
        found.setdefault(turn.group, []).append(turn)
    return {name: found[name] for name in sorted(found, key=_rank)}


def headline(groups: dict[str, list[TurnFigures]]) -> str | None:
    """The group whose figures may be quoted first; None: all of it was tuned on."""
    return next((name for name in groups if name != TUNED), None)


def _why_not_counted(row: TurnFigures, record: Mapping[str, Any]) -> str:
    if row.spoke_over:
        return "spoke over the visitor"
    if not record:
        return "no turn came of it"
    if row.turns - row.taken_back > 1:
        return f"split into {row.turns - row.taken_back} turns"
    if record.get("state") == "failed":
        return f"failed: {record.get('reason')}"
    if row.figures["voice_to_voice"] is None:
        return "no answer could be heard"
    if row.answer_s < SHORTEST_ANSWER_S:
        return f"the answer is shorter than {SHORTEST_ANSWER_S} s"
    return ""


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _rank(group: str) -> tuple[int, str]:
    return (GROUPS.index(group) if group in GROUPS else 0, group)
