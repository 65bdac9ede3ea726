"""Where the time of an answer went once the visitor was known to have finished.

Ideally nothing is left to do by then: all work is hidden in the pause in which the end of the turn
is judged, and the voice leaves with the next tick. What is not hidden is parted here among the
stages. Each moment between the end being certain and the first sample belongs to the first stage,
in the order in which they need each other, whose span covers it. So the parts add up to the whole.
Pure: from a turn's timeline, as `GET /v1/sessions/{id}/turns/{n}/timeline` tells it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from visavis.tools.bench.figures.report import Row, summarise

REST = "between stages"
_PARTS: Mapping[tuple[str, str], str] = {
    ("asr", "compute"): "recognition",
    ("asr", "queue"): "recognition",
    ("llm", "queue"): "language model, queue",
    ("llm", "compute"): "language model, first token",
    ("tts", "wait"): "language model, first phrase",
    ("tts", "queue"): "voice, queue",
    ("tts", "compute"): "voice, first sound",
    ("playout", "queue"): "waiting for the tick",
}
PARTS = tuple(dict.fromkeys(_PARTS.values()))
CERTAIN, LOST, WHOLE = "end of turn certain", "lost against the ideal", "first sample leaves"


def where_it_went(timeline: Mapping[str, Any], certain_s: float | None) -> dict[str, float]:
    """Seconds by part, {} where they cannot be told.

    certain_s: from the end of speech to the end of the turn being certain.
    """
    whole_ms = timeline.get("voice_to_voice_ms")
    if whole_ms is None or certain_s is None:
        return {}
    begin_s, end_s = certain_s, max(certain_s, whole_ms / 1000)
    spans = [span for span in timeline.get("spans", ()) if span["chunk"] == "first"]
    open_parts = [(begin_s, end_s)]
    parts = dict.fromkeys(PARTS, 0.0)
    for key, name in _PARTS.items():
        for span in spans:
            if (span["stage"], span["kind"]) == key:
                covering = (span["start_ms"] / 1000, span["end_ms"] / 1000)
                taken_s, open_parts = _take(open_parts, covering)
                parts[name] += taken_s
    rest_s = sum(end - start for start, end in open_parts)
    return {CERTAIN: certain_s, **parts, REST: rest_s, LOST: end_s - begin_s, WHOLE: end_s}


def rows_of_parts(turns: Iterable[Mapping[str, float]]) -> list[tuple[Row, float]]:
    """Each part's spread, and its mean: medians do not add up, means do."""
    known = [turn for turn in turns if turn]
    names = (CERTAIN, *PARTS, REST, LOST, WHOLE)
    if not known:
        return []
    return [
        (Row(name, summarise(turn[name] for turn in known)), _mean([t[name] for t in known]))
        for name in names
    ]


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


def _take(
    parts: Sequence[tuple[float, float]], covering: tuple[float, float]
) -> tuple[float, list[tuple[float, float]]]:
    """How much of the parts is covered, and what is left of them."""
    taken_s, left = 0.0, []
    for start, end in parts:
        begins, ends = max(start, covering[0]), min(end, covering[1])
        if ends <= begins:
            left.append((start, end))
            continue
        taken_s += ends - begins
        left += [piece for piece in ((start, begins), (ends, end)) if piece[1] > piece[0]]
    return taken_s, left
