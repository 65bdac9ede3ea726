"""Whether a probability may be taken at its word: what was told beside what came true, in bins.

A reliability diagram (Murphy & Winkler, "Reliability of subjective probability forecasts of
precipitation and temperature", Applied Statistics 26, 1977), and its expected calibration error
(Naeini, Cooper & Hauskrecht, AAAI 2015).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from visavis.tools.charts import Picture

BINS = 10
_SIDE, _LEFT, _TOP = 320, 70, 60
_INK, _GREY, _BLUE = "#222222", "#777777", "#2a6f97"


@dataclass(frozen=True, slots=True)
class Bin:
    """What was told with nearly one probability. 0 to 1; None where nothing was."""

    low: float
    high: float
    count: int
    told: float | None
    came_true: float | None


@dataclass(frozen=True, slots=True)
class Reliability:
    """How well probabilities and what came true agree; of nothing, None."""

    bins: tuple[Bin, ...]
    count: int
    calibration_error: float | None
    """Mean distance of the two in a bin, by how much is in it."""
    brier: float | None
    log_loss: float | None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def reliability(told: Iterable[tuple[float, bool]]) -> Reliability:
    """told: a probability, and whether it came true."""
    pairs = list(told)
    inside: list[list[tuple[float, bool]]] = [[] for _ in range(BINS)]
    for probability, came_true in pairs:
        inside[min(BINS - 1, int(probability * BINS))].append((probability, came_true))
    bins = tuple(_bin(index, held) for index, held in enumerate(inside))
    count = len(pairs)
    if not count:
        return Reliability(bins, 0, None, None, None)
    off = sum(
        b.count * abs(b.told - b.came_true)
        for b in bins
        if b.told is not None and b.came_true is not None
    )
    brier = sum((p - came) ** 2 for p, came in pairs) / count
    loss = sum(-math.log(max(1e-3, p if came else 1 - p)) for p, came in pairs) / count
    return Reliability(bins, count, off / count, brier, loss)


def _bin(index: int, held: Sequence[tuple[float, bool]]) -> Bin:
    low, high, count = index / BINS, (index + 1) / BINS, len(held)
    if not count:
        return Bin(low, high, 0, None, None)
    told = sum(p for p, _ in held) / count
    return Bin(low, high, count, told, sum(came for _, came in held) / count)


def draw_reliability(title: str, found: Reliability) -> str:
    """The diagram as SVG: what came true over what was told, with how many there are."""
    picture = Picture(_LEFT + _SIDE + 60)
    picture.text(20, 26, title, size=15)
    bottom, right = _TOP + _SIDE, _LEFT + _SIDE
    for tenth in range(0, BINS + 1, 2):
        x, y = _LEFT + _SIDE * tenth / BINS, bottom - _SIDE * tenth / BINS
        picture.line((x, _TOP), (x, bottom))
        picture.line((_LEFT, y), (right, y))
        picture.text(x, bottom + 16, f"{tenth / BINS:g}", anchor="middle", ink=_GREY)
        picture.text(_LEFT - 8, y + 4, f"{tenth / BINS:g}", anchor="end", ink=_GREY)
    picture.line((_LEFT, bottom), (right, _TOP), _GREY)
    for held in found.bins:
        if held.told is None or held.came_true is None:
            continue
        x, y = _LEFT + _SIDE * held.low, bottom - _SIDE * held.came_true
        height = max(1.0, bottom - y)
        words = f"told {held.told:.2f}, came true {held.came_true:.2f}, {held.count}"
        picture.bar(x + 2, y, _SIDE / BINS - 4, height, _BLUE, opacity=0.35, tooltip=words)
        picture.dot(_LEFT + _SIDE * held.told, y, _BLUE)
        picture.text(x + _SIDE / BINS / 2, bottom - 4, str(held.count), size=10, anchor="middle")
    picture.text(_LEFT + _SIDE / 2, bottom + 36, "told probability", anchor="middle")
    error = "-" if found.calibration_error is None else f"{found.calibration_error:.3f}"
    told = f"{found.count} pauses; calibration error {error}; numbers: pauses in a bin"
    picture.text(20, bottom + 58, told, size=11, ink=_GREY)
    picture.text(20, 46, "share that came true", size=11, ink=_GREY)
    return picture.svg(bottom + 70)
