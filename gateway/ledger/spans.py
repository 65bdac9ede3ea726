"""A turn's ledger as spans of work, and what of its latency is nobody's work: overhead.

A span tells what a stage did with its first or its last chunk:

    transfer  a chunk travels to the stage
    wait      the stage waits for what is not made yet, or for the visitor
    queue     all that it needs is there, but its engine is busy
    compute   its engine works

Overhead = voice to voice - endpoint wait - model compute on the critical path. Speculation lets
models work while the end of speech is still being judged, so both are taken as the time that is
covered by either: the rest is queues, transfers, waiting for a tick of the pacing clock, and the
time lost between processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gateway.api.events import ChunkOrder, Span, SpanKind, SpanStage
from gateway.ledger.ledger import Ledger, Mark, milliseconds
from gateway.playout.pacing import TICK_S

# A shorter wait or queue is none.
_SHORTEST_S = 0.00005
_VOICE = (Mark.FIRST_VOICE, Mark.UNDERSTOOD)


@dataclass(frozen=True, slots=True)
class _Step:
    """From the latest of `begins` to the latest of `ends`; all of them names in the ledger."""

    stage: SpanStage
    kind: SpanKind
    begins: tuple[str, ...]
    ends: tuple[str, ...]


def _step(stage: SpanStage, kind: SpanKind, begins: str, ends: str) -> _Step:
    return _Step(stage, kind, tuple(begins.split()), tuple(ends.split()))


_FIRST = (
    _step("asr", "wait", "asked", "asr.ready"),
    _step("asr", "queue", "asr.ready", "asr.started"),
    _step("asr", "compute", "asr.started", "asr.finished"),
    _step("asr", "wait", "asked asr.finished", "asr.final"),
    _step("asr", "transfer", "asr.final", "understood"),
    _step("llm", "compute", "opened", "called"),
    _step("llm", "transfer", "opened results", "llm.first_got"),
    _step("llm", "queue", "llm.first_got", "llm.first_started"),
    _step("llm", "compute", "llm.first_started", "llm.first_finished"),
    _step("tts", "transfer", "llm.first_finished", "tts.first_got"),
    _step("tts", "wait", "tts.first_got", "tts.first_ready"),
    _step("tts", "queue", "tts.first_ready", "tts.first_started"),
    _step("tts", "compute", "tts.first_started", "tts.first_finished"),
    _step("face", "transfer", "tts.first_finished", "face.first_got"),
    _step("face", "wait", "face.first_got", "face.first_ready understood"),
    _step("face", "queue", "face.first_ready understood", "face.first_started"),
    _step("face", "compute", "face.first_started", "face.first_finished"),
    _step("encoder", "compute", "encoder.first_started", "encoder.first_finished"),
    _step("playout", "transfer", "tts.first_finished", "first_voice"),
    _step("playout", "transfer", "encoder.first_finished", "first_picture"),
    _step("playout", "wait", "first_voice", "understood"),
    _step("playout", "wait", "first_voice understood", "first_picture"),
    _step("playout", "queue", "first_voice first_picture understood", "started"),
)
_LAST = (
    _step("llm", "compute", "llm.first_finished", "llm.last_finished"),
    _step("tts", "transfer", "llm.last_finished", "tts.last_got"),
    _step("tts", "compute", "tts.last_started", "tts.last_finished"),
    _step("face", "transfer", "tts.last_finished", "face.last_got"),
    _step("face", "compute", "face.last_started", "face.last_finished"),
    _step("encoder", "compute", "encoder.last_started", "encoder.last_finished"),
    _step("playout", "transfer", "encoder.last_finished", "last_picture"),
    _step("playout", "wait", "last_voice last_picture", "ended"),
)


def spans_of(ledger: Ledger) -> list[Span]:
    """All that is known, relative to the end of the visitor's speech, in the order of stages."""
    zero = ledger.at(Mark.ASKED)
    if zero is None:
        return []
    paced = _without_late_picture(ledger)
    out: list[Span] = []
    steps: tuple[tuple[ChunkOrder, tuple[_Step, ...]], ...] = (("first", _FIRST), ("last", _LAST))
    for chunk, table in steps:
        for step in table:
            marks = ledger if step.kind == "transfer" else paced
            begin, end = marks.latest(step.begins), marks.latest(step.ends)
            if begin is None or end is None:
                continue
            if step.kind in ("wait", "queue") and end - begin < _SHORTEST_S:
                continue
            out.append(
                Span(
                    stage=step.stage,
                    kind=step.kind,
                    chunk=chunk,
                    # Another machine's clock may say that it had something before it was sent.
                    start_ms=milliseconds(min(begin, end) - zero),
                    end_ms=milliseconds(end - zero),
                )
            )
        if chunk == "first":
            out += _of_tools(ledger, zero)
    return out


def _of_tools(ledger: Ledger, zero: float) -> list[Span]:
    """What was called before anything was heard belongs to the first chunk."""
    started = ledger.at(Mark.STARTED)
    return [
        Span(
            stage="tools",
            kind="compute",
            chunk="first" if started is None or began < started else "last",
            start_ms=milliseconds(began - zero),
            end_ms=milliseconds(ended - zero),
        )
        for began, ended in ledger.tools
    ]


def _without_late_picture(ledger: Ledger) -> Ledger:
    """The voice waits for its picture no longer than until its start, or not at all."""
    started, voice = ledger.at(Mark.STARTED), ledger.latest(_VOICE)
    if started is None or voice is None:
        return ledger
    picture = ledger.at(Mark.FIRST_PICTURE)
    if picture is not None and picture <= started:
        return ledger
    waited_until = started if started - voice > TICK_S else voice
    return replace(ledger, marks={**ledger.marks, Mark.FIRST_PICTURE: waited_until})


# ------------------------------------------------------------ overhead

# The wait for the visitor to have finished, and work without which nothing is heard. Until the
# words of the first phrase are all there it is the language model that works.
_COVERED = (
    (Mark.ASKED, "asr.certain"),
    (Mark.OPENED, Mark.RESULTS),
    ("asr.started", "asr.finished"),
    ("llm.first_started", "llm.first_finished"),
    ("llm.first_finished", "tts.first_ready"),
    ("tts.first_started", "tts.first_finished"),
)
# Of the picture, where the voice waited for it.
_PICTURE = (("face.first_started", "encoder.first_finished"),)
# Without these nothing can be said. An answer that was known beforehand needs no language model.
_NEEDED = ("tts.first_ready", "tts.first_started", "tts.first_finished")


def overhead_s(ledger: Ledger) -> float | None:
    """Seconds; None before the turn's sound has started, or where a stage tells no times."""
    zero, started = ledger.at(Mark.ASKED), ledger.at(Mark.STARTED)
    needed = (*_NEEDED, "asr.certain") if ledger.origin == "speech" else _NEEDED
    if zero is None or started is None:
        return None
    if any(ledger.at(name) is None for name in needed):
        return None
    spans = [*_COVERED, *(_PICTURE if _waited_for_picture(ledger) else ())]
    intervals = [
        (max(begin, zero), min(end, started))
        for first, last in spans
        if (begin := ledger.at(first)) is not None and (end := ledger.at(last)) is not None
    ]
    return started - zero - covered_s(intervals)


def _waited_for_picture(ledger: Ledger) -> bool:
    """Whether the picture was the last thing to come before the sound began."""
    picture, started = ledger.at(Mark.FIRST_PICTURE), ledger.at(Mark.STARTED)
    others = ledger.latest((Mark.FIRST_VOICE, Mark.UNDERSTOOD))
    if picture is None or started is None or others is None:
        return False
    return others < picture <= started


def covered_s(intervals: Sequence[tuple[float, float]]) -> float:
    """Length of the union of intervals; empty and reversed ones count nothing."""
    total, reached = 0.0, float("-inf")
    for begin, end in sorted(intervals):
        if end > max(begin, reached):
            total += end - max(begin, reached)
            reached = end
    return total
