"""The picture of a benchmark: latency and throughput over batch size, as SVG."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from xml.sax.saxutils import escape

from visavis.plans.bench import BenchRow

_COLOURS = ("#2a6f97", "#c1562c", "#5b8e3e", "#7a4e9f", "#a68a2d", "#4a4a4a")
_PANEL_WIDTH, _PANEL_HEIGHT = 360, 240
_LEFT, _TOP, _GAP = 70, 64, 90


def draw(title: str, rows: Sequence[BenchRow]) -> str:
    """SVG text: two panels with logarithmic axes, one line per engine.

    Rows without a measurement are left out.
    """
    measured = [row for row in rows if not row.problem]
    engines = list(dict.fromkeys(row.engine for row in measured))
    width = 2 * _PANEL_WIDTH + _LEFT + _GAP + 30
    height = _PANEL_HEIGHT + _TOP + 60 + 20 * len(engines)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        _text(_LEFT, 24, title, size=15),
    ]
    if measured:
        right = _LEFT + _PANEL_WIDTH + _GAP
        parts += _panel(_LEFT, "latency, ms (median)", measured, lambda row: row.median_ms)
        parts += _panel(right, "throughput, items per second", measured, lambda r: r.per_second)
    for index, engine in enumerate(engines):
        y = _TOP + _PANEL_HEIGHT + 56 + 20 * index
        parts.append(f'<rect x="{_LEFT}" y="{y - 8}" width="18" height="4" fill="{_hue(index)}"/>')
        parts.append(_text(_LEFT + 26, y, engine))
    return "\n".join([*parts, "</svg>", ""])


def _panel(
    left: float, title: str, rows: Sequence[BenchRow], value: Callable[[BenchRow], float]
) -> list[str]:
    batches = sorted({row.batch for row in rows})
    low = 10 ** math.floor(math.log10(min(value(row) for row in rows)))
    high = 10 ** math.ceil(math.log10(max(value(row) for row in rows) * 1.0001))
    bottom = _TOP + _PANEL_HEIGHT

    def x_of(batch: int) -> float:
        if len(batches) == 1:
            return left + _PANEL_WIDTH / 2
        first, last = math.log2(batches[0]), math.log2(batches[-1])
        return left + _PANEL_WIDTH * (math.log2(batch) - first) / (last - first)

    def y_of(amount: float) -> float:
        return bottom - _PANEL_HEIGHT * (
            (math.log10(amount) - math.log10(low)) / (math.log10(high) - math.log10(low))
        )

    parts = [_text(left, _TOP - 14, title)]
    for exponent in range(round(math.log10(low)), round(math.log10(high)) + 1):
        y = y_of(10.0**exponent)
        parts.append(_line(left, y, left + _PANEL_WIDTH, y))
        parts.append(_text(left - 8, y + 4, f"{10.0**exponent:g}", anchor="end"))
    for batch in batches:
        parts.append(_line(x_of(batch), _TOP, x_of(batch), bottom))
        parts.append(_text(x_of(batch), bottom + 16, str(batch), anchor="middle"))
    parts.append(_text(left + _PANEL_WIDTH / 2, bottom + 34, "batch size", anchor="middle"))
    for index, engine in enumerate(dict.fromkeys(row.engine for row in rows)):
        points = [(x_of(row.batch), y_of(value(row))) for row in rows if row.engine == engine]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{_hue(index)}" stroke-width="2"/>'
        )
        parts += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{_hue(index)}"/>' for x, y in points
        ]
    return parts


def _hue(index: int) -> str:
    return _COLOURS[index % len(_COLOURS)]


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#dddddd"/>'


def _text(x: float, y: float, text: str, *, anchor: str = "start", size: int = 12) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
        f'fill="#222222">{escape(text)}</text>'
    )
