"""One panel of a dashboard as SVG, in the manner of Grafana's dark theme.

Drawn from what a panel's JSON says (title, unit, thresholds) and the series that its queries
brought. Nothing here asks or decides anything; lengths are pixels, times seconds since 1970.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from xml.sax.saxutils import escape

from visavis.tools.charts import ticks

PAGE, INK, FAINT_INK = "#111217", "#ccccdc", "#8e8f9c"
_PANEL, _EDGE, _GRID, _RED = "#181b1f", "#2a2c33", "#26282e", "#f2495c"
_INKS = (
    *("#73bf69", "#f2cc0c", "#8ab8ff", "#ff780a", "#f2495c", "#5794f2", "#b877d9"),
    *("#96d98d", "#ffee52", "#c0d8ff", "#ffb357", "#ff7383", "#3274d9", "#8f3bb8"),
)
_THRESHOLDS = {"green": "#73bf69", "red": _RED}
_TITLE, _AXIS, _LEGEND_LINE = 34, 18, 17
_LEFT, _RIGHT, _TIME_WIDTH = 56, 14, 74
_NARROW, _WIDE = frozenset("fijlrtI|!.,:;'/()[] -"), frozenset("mwMW%@")
_MOST_LEGEND_LINES = 5
_MOST_WHY_LINES = 4
_GAP_STEPS = 1.6
"""Points further apart than so many steps have a gap between them."""
_TIME_STEPS_S = (5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600)


@dataclass(frozen=True)
class Box:
    """Where a panel stands."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Line:
    """One series and what the legend calls it."""

    legend: str
    points: Sequence[tuple[float, float]]
    """Seconds since 1970 and value; NaN has been left out."""


@dataclass(frozen=True)
class Drawn:
    """A panel to be drawn."""

    title: str
    unit: str
    lines: Sequence[Line]
    figure: bool
    """A number and not lines."""
    steps: Sequence[Mapping[str, object]]
    """Its thresholds: `color`, and from which `value` on."""
    why: str = ""
    """Where there is nothing to see."""


@dataclass(frozen=True)
class Span:
    """The times that are shown."""

    start_s: float
    end_s: float
    step_s: float


def panel(drawn: Drawn, box: Box, span: Span) -> str:
    """The panel as a piece of SVG."""
    parts = [
        f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" '
        f'rx="3" fill="{_PANEL}" stroke="{_EDGE}"/>',
        text(box.x + 10, box.y + 22, _cut(drawn.title, box.width - 20, 13), size=13, weight=500),
    ]
    shown = [line for line in drawn.lines if line.points]
    if not shown:
        parts += _nothing(drawn, box)
    elif drawn.figure:
        parts += _number(drawn, shown[0], box, span)
    else:
        parts += _lines(drawn, shown, box, span)
    return "\n".join(parts)


def text(
    x: float,
    y: float,
    words: str,
    *,
    size: float = 11.5,
    ink: str = INK,
    anchor: str = "start",
    weight: int = 400,
) -> str:
    """Words on a line."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" fill="{ink}" '
        f'text-anchor="{anchor}">{escape(words)}</text>'
    )


def _nothing(drawn: Drawn, box: Box) -> Iterator[str]:
    middle = box.x + box.width / 2
    yield text(middle, box.y + box.height / 2 + 2, "No data", size=14, anchor="middle")
    y = box.y + box.height / 2 + 24
    for line in _wrapped(drawn.why, box.width - 24)[:_MOST_WHY_LINES]:
        yield text(middle, y, line, ink=FAINT_INK, anchor="middle")
        y += _LEGEND_LINE


# ------------------------------------------------------------ a number


def _number(drawn: Drawn, line: Line, box: Box, span: Span) -> Iterator[str]:
    value = line.points[-1][1]
    ink = _ink_of(value, drawn.steps)
    plot = Box(box.x + 1, box.y + box.height * 0.66, box.width - 2, box.height * 0.34 - 1)
    low = min(value for _, value in line.points)
    high = max(value for _, value in line.points)
    room = (high - low) or 1.0
    yield from _curve(line, ink, plot, span, (low - 0.4 * room, high + 0.2 * room), opacity=0.2)
    middle = box.x + box.width / 2
    shown = told(value, drawn.unit)
    size = min(42.0, 0.21 * box.width, (box.width - 24) / width_of(shown, 1.0))
    y = box.y + box.height * 0.52
    yield text(middle, y, shown, size=size, ink=ink, anchor="middle", weight=500)


def _ink_of(value: float, steps: Sequence[Mapping[str, object]]) -> str:
    """The colour of the last threshold that is reached."""
    ink = INK
    for step in steps:
        limit = step.get("value")
        if limit is None or (isinstance(limit, int | float) and value >= limit):
            ink = _THRESHOLDS.get(str(step["color"]), INK)
    return ink


# ------------------------------------------------------------ lines over time


def _lines(drawn: Drawn, shown: Sequence[Line], box: Box, span: Span) -> Iterator[str]:
    legend = _legend_rows(shown, box.width - 20)
    foot = _LEGEND_LINE * len(legend) + 6
    plot = Box(
        box.x + _LEFT,
        box.y + _TITLE,
        box.width - _LEFT - _RIGHT,
        box.height - _TITLE - _AXIS - foot,
    )
    limit = next((s["value"] for s in drawn.steps if s.get("value") is not None), None)
    marks, reach = _scale(shown, drawn.unit)
    yield from _grid(plot, marks, reach, drawn.unit, span)
    for index, line in enumerate(shown):
        yield from _curve(line, _INKS[index % len(_INKS)], plot, span, reach, opacity=0.08)
    if isinstance(limit, int | float) and limit <= reach[1]:
        y = _y_of(plot, reach)(float(limit))
        yield (
            f'<line x1="{plot.x:.1f}" y1="{y:.1f}" x2="{plot.x + plot.width:.1f}" y2="{y:.1f}" '
            f'stroke="{_RED}" stroke-width="1" stroke-dasharray="8 6"/>'
        )
    y = box.y + box.height - foot + _LEGEND_LINE - 4
    for row in legend:
        yield from _legend_row(row, box.x + 12, y)
        y += _LEGEND_LINE


def _scale(shown: Sequence[Line], unit: str) -> tuple[list[float], tuple[float, float]]:
    """Values of the grid's lines, and the lowest and the highest that is shown."""
    values = [value for line in shown for _, value in line.points]
    low, high = min(0.0, *values), max(0.0, *values)
    if high <= low:
        high = low + 1.0
    if unit == "bytes":  # round in powers of two
        power = 1024.0 ** max(0, math.floor(math.log(max(high, 1.0), 1024)))
        marks = [power * mark for mark in ticks(low / power, high / power, most=4)]
    else:
        power = 10.0 ** math.floor(math.log10(high - low))
        marks = [power * mark for mark in ticks(low / power, high / power, most=4)]
    step = marks[1] - marks[0] if len(marks) > 1 else high - low
    top = step * math.ceil(high / step - 1e-9)
    if top > marks[-1]:
        marks.append(top)
    return marks, (low, top)


def _grid(
    plot: Box, marks: Sequence[float], reach: tuple[float, float], unit: str, span: Span
) -> Iterator[str]:
    y_of, x_of = _y_of(plot, reach), _x_of(plot, span)
    right, bottom = plot.x + plot.width, plot.y + plot.height
    for mark in marks:
        y = y_of(mark)
        yield (
            f'<line x1="{plot.x:.1f}" y1="{y:.1f}" x2="{right:.1f}" y2="{y:.1f}" stroke="{_GRID}"/>'
        )
        yield text(plot.x - 7, y + 4, told(mark, unit), ink=FAINT_INK, anchor="end", size=11)
    most = max(2, int(plot.width / _TIME_WIDTH))
    length_s = span.end_s - span.start_s
    step_s = next((s for s in _TIME_STEPS_S if length_s / s <= most), _TIME_STEPS_S[-1])
    at_s = math.ceil(span.start_s / step_s) * step_s
    while at_s <= span.end_s:
        x = x_of(at_s)
        yield (
            f'<line x1="{x:.1f}" y1="{plot.y:.1f}" x2="{x:.1f}" y2="{bottom:.1f}" '
            f'stroke="{_GRID}"/>'
        )
        when = datetime.fromtimestamp(at_s, UTC).strftime("%H:%M" if step_s >= 60 else "%H:%M:%S")
        if x + width_of(when, 11) / 2 <= right + _RIGHT:  # else it would stand in the next panel
            yield text(x, bottom + 14, when, ink=FAINT_INK, anchor="middle", size=11)
        at_s += step_s


def _curve(
    line: Line, ink: str, plot: Box, span: Span, reach: tuple[float, float], opacity: float
) -> Iterator[str]:
    x_of, y_of = _x_of(plot, span), _y_of(plot, reach)
    bottom = y_of(max(0.0, reach[0]))
    for piece in _pieces(line.points, span.step_s):
        points = [(x_of(at_s), y_of(value)) for at_s, value in piece]
        if len(points) == 1:
            yield f'<circle cx="{points[0][0]:.1f}" cy="{points[0][1]:.1f}" r="1.8" fill="{ink}"/>'
            continue
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        first, last = points[0][0], points[-1][0]
        yield (
            f'<polygon points="{first:.1f},{bottom:.1f} {path} {last:.1f},{bottom:.1f}" '
            f'fill="{ink}" fill-opacity="{opacity}"/>'
        )
        yield f'<polyline points="{path}" fill="none" stroke="{ink}" stroke-width="1.4"/>'


def _pieces(
    points: Sequence[tuple[float, float]], step_s: float
) -> Iterator[list[tuple[float, float]]]:
    """The line without its gaps."""
    piece: list[tuple[float, float]] = []
    for point in points:
        if piece and point[0] - piece[-1][0] > _GAP_STEPS * step_s:
            yield piece
            piece = []
        piece.append(point)
    if piece:
        yield piece


def _x_of(plot: Box, span: Span) -> Callable[[float], float]:
    length_s = span.end_s - span.start_s
    return lambda at_s: plot.x + plot.width * (at_s - span.start_s) / length_s


def _y_of(plot: Box, reach: tuple[float, float]) -> Callable[[float], float]:
    low, high = reach
    return lambda value: plot.y + plot.height * (1 - (value - low) / (high - low))


# ------------------------------------------------------------ the legend


def _legend_rows(shown: Sequence[Line], width: float) -> list[list[tuple[str, str]]]:
    """Ink and name of each series, in lines of the panel's width; what has no room is counted."""
    rows: list[list[tuple[str, str]]] = [[]]
    used = 0.0
    for index, line in enumerate(shown):
        name = _cut(line.legend, width - 34)
        needs = 34 + width_of(name)
        if rows[-1] and used + needs > width:
            if len(rows) == _MOST_LEGEND_LINES:
                rows[-1][-1] = ("", f"+ {len(shown) - index + 1}")
                break
            rows.append([])
            used = 0.0
        rows[-1].append((_INKS[index % len(_INKS)], name))
        used += needs
    return rows


def _legend_row(row: Sequence[tuple[str, str]], x: float, y: float) -> Iterator[str]:
    for ink, name in row:
        if ink:
            yield (
                f'<rect x="{x:.1f}" y="{y - 5:.1f}" width="14" height="3.5" rx="1.7" fill="{ink}"/>'
            )
        yield text(x + 20, y, name, ink=INK if ink else FAINT_INK)
        x += 34 + width_of(name)


def width_of(words: str, size: float = 11.5) -> float:
    """Of a text, about; no less than it has in DejaVu Sans, the widest of our fonts."""
    return size * sum(map(_em_of, words))


def _em_of(letter: str) -> float:
    if letter in _NARROW:
        return 0.4
    if letter in _WIDE:
        return 0.96
    return 0.72 if letter.isupper() else 0.63


def _cut(words: str, width: float, size: float = 11.5) -> str:
    if width_of(words, size) <= width:
        return words
    while len(words) > 3 and width_of(f"{words}…", size) > width:
        words = words[:-1]
    return f"{words}…"


def _wrapped(words: str, width: float) -> list[str]:
    """Lines of no more than the width."""
    lines: list[str] = []
    for word in words.split():
        if lines and width_of(f"{lines[-1]} {word}") <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


# ------------------------------------------------------------ units


def told(value: float, unit: str) -> str:
    """A value as Grafana writes it in a unit."""
    if unit.startswith("count:"):
        return f"{_grown(value, 1000, ('', ' K', ' Mil', ' Bil'))} {unit.removeprefix('count:')}"
    match unit:
        case "s":
            for factor, name in ((1.0, "s"), (1e3, "ms"), (1e6, "µs")):
                if abs(value) * factor >= 1 or name == "µs" or not value:
                    break
            if value >= 60:
                return f"{value / 60:.3g} min"
            return f"{value * factor:.3g} {name}"
        case "percentunit":
            return f"{100 * value:.4g}%"
        case "percent":
            return f"{value:.4g}%"
        case "bytes":
            return _grown(value, 1024, (" B", " KiB", " MiB", " GiB", " TiB"))
        case "Bps":
            return _grown(value, 1000, (" B/s", " kB/s", " MB/s", " GB/s"))
        case "mbytes":
            return _grown(value * 1024**2, 1024, (" B", " KiB", " MiB", " GiB", " TiB"))
        case "watt":
            return f"{value:.3g} W"
        case "celsius":
            return f"{value:.3g} °C"
        case "rotmhz":
            return f"{value:.4g} MHz"
    return _grown(value, 1000, ("", " K", " Mil", " Bil"))


def _grown(value: float, base: int, names: Sequence[str]) -> str:
    for name in names[:-1]:
        if abs(value) < base:
            return f"{value:.3g}{name}"
        value /= base
    return f"{value:.3g}{names[-1]}"
