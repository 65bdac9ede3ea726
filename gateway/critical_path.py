"""What of a turn's latency is nobody's work: overhead.

    overhead = voice to voice - endpoint wait - model compute on the critical path

Speculation lets models work while the end of speech is still being judged, so both are
taken as the time that is covered by either: the rest is queues, transfers, waiting for a
tick of the pacing clock, and the time lost between processes.
"""

from __future__ import annotations

from collections.abc import Sequence

from gateway.ledger import Ledger, Mark

# The wait for the visitor to have finished, and work without which nothing is heard. Until the
# words of the first phrase are all there it is the language model that works.
_COVERED = (
    (Mark.ASKED, "asr.certain"),
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
    """Seconds; None before the turn's sound has started, or where a stage tells no times.

    None for a turn with an opener, too: that is heard before the models have done their work.
    """
    zero, started = ledger.at(Mark.ASKED), ledger.at(Mark.STARTED)
    needed = (*_NEEDED, "asr.certain") if ledger.origin == "speech" else _NEEDED
    if zero is None or started is None or ledger.opener:
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
