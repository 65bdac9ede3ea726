"""The charts that commands write as SVG: a turn's timeline, a benchmark's figures, a plan's speed.

A `Picture` is drawn upon; below it stands each chart with its own scale and colours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape

from visavis.tools.bench.figures.report import Row
from visavis.tools.plan_bench import BenchRow

_INK, _FAINT, _GREY = "#222222", "#e0e0e0", "#777777"
_BLUE, _ORANGE = "#2a6f97", "#c1562c"


class Picture:
    """An SVG drawing on white that grows element by element; lengths are pixels."""

    def __init__(self, width: float) -> None:
        self._width = width
        self._parts: list[str] = []

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        size: int = 12,
        anchor: str = "start",
        ink: str = _INK,
        weight: str = "normal",
    ) -> None:
        """`words` on the line at `y`, from, around or up to `x` as `anchor` says."""
        self._parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" '
            f'fill="{ink}" text-anchor="{anchor}">{escape(words)}</text>'
        )

    def line(
        self,
        start: tuple[float, float],
        end: tuple[float, float],
        ink: str = _FAINT,
        width: int = 1,
    ) -> None:
        """A straight line between two points."""
        (x1, y1), (x2, y2) = start, end
        self._parts.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
            f'stroke="{ink}" stroke-width="{width}"/>'
        )

    def bar(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        fill: str,
        *,
        opacity: float = 1.0,
        tooltip: str = "",
    ) -> None:
        """A filled box with its upper left corner at (x, y)."""
        self._parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="2" '
            f'fill="{fill}" fill-opacity="{opacity:g}"><title>{escape(tooltip)}</title></rect>'
        )

    def dot(self, x: float, y: float, fill: str) -> None:
        """A small disc around (x, y)."""
        self._parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{fill}"/>')

    def curve(self, points: Iterable[tuple[float, float]], ink: str) -> None:
        """Straight from point to point."""
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self._parts.append(
            f'<polyline points="{path}" fill="none" stroke="{ink}" stroke-width="2"/>'
        )

    def hatching(self, name: str, ink: str) -> None:
        """Make `url(#name)` a fill of slanted stripes."""
        self._parts.append(
            f'<defs><pattern id="{name}" width="5" height="5" patternUnits="userSpaceOnUse" '
            f'patternTransform="rotate(45)"><rect width="2" height="5" fill="{ink}"/></pattern>'
            "</defs>"
        )

    def svg(self, height: float) -> str:
        """The whole drawing as text."""
        size = f'width="{self._width:g}" height="{height:.0f}"'
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self._width:g} {height:.0f}" '
            f'{size} font-family="sans-serif" font-size="12">'
        )
        return "\n".join([head, f'<rect {size} fill="white"/>', *self._parts, "</svg>", ""])


def ticks(low: float, high: float, most: int) -> list[float]:
    """Round values from `low` to `high`, 1, 2 or 5 times a power of ten apart; at most `most`
    steps."""
    least = max(high - low, 1e-6) / most
    power = 10.0 ** math.floor(math.log10(least))
    step = next(n * power for n in (1, 2, 5, 10) if n * power >= least * 0.999)
    return [round(i * step, 6) for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


# ------------------------------------------------------------ a turn's timeline

STAGES = ("asr", "llm", "tools", "tts", "face", "encoder", "playout")
_MEANINGS = {
    "compute": "the engine works",
    "queue": "ready, the engine is busy",
    "wait": "for input, or for the visitor",
    "transfer": "on its way to the stage",
}
_STAGE_INKS = {
    "asr": "#2f80c2",
    "llm": "#6f5fd0",
    "tools": "#a1559b",
    "tts": "#d9772b",
    "face": "#cf4a68",
    "encoder": "#9c3a86",
    "playout": "#4b7f52",
}
_ZERO = {"speech": "the words", "text": "the text", "welcome": "the decision to greet"}
_WIDTH, _SIDE, _LANE, _BAR = 960, 96, 30, 16
_HEARD = _STAGE_INKS["tts"]

Span = Mapping[str, Any]


def draw_timeline(timeline: Mapping[str, Any]) -> str:
    """What `GET /v1/sessions/{id}/turns/{n}/timeline` answers, as SVG: a lane for each stage,
    time from the end of the visitor's speech."""
    picture = Picture(_WIDTH)
    for stage, ink in _STAGE_INKS.items():
        picture.hatching(f"queue-{stage}", ink)
    picture.text(20, 30, _title(timeline), size=16)
    picture.text(20, 50, _facts(timeline), ink=_GREY)
    y = 84.0
    for chunk, heading in (("first", "Up to the first sound"), ("last", "Up to the end")):
        spans = [span for span in timeline["spans"] if span["chunk"] == chunk]
        if spans:
            y = _draw_lanes(picture, spans, heading, y, timeline["voice_to_voice_ms"])
    _draw_kinds(picture, y)
    return picture.svg(y + 44)


def _title(timeline: Mapping[str, Any]) -> str:
    first = timeline["voice_to_voice_ms"]
    asked = _ZERO[timeline["origin"]]
    answer = "no sound yet" if first is None else f"first sound {first:.0f} ms after {asked}"
    return f"Turn {timeline['turn']}: {answer}"


def _facts(timeline: Mapping[str, Any]) -> str:
    facts = [f"session {timeline['session']}"]
    for name, label in (("first_frame_ms", "first picture"), ("overhead_ms", "overhead")):
        if timeline.get(name) is not None:
            facts.append(f"{label} {timeline[name]:.1f} ms")
    facts.append(f"gaps in the voice: {timeline['underruns']}")
    if timeline["clock_error_ms"]:
        facts.append(f"stages on other machines: ± {timeline['clock_error_ms']:.1f} ms")
    return "   ·   ".join(facts)


def _draw_lanes(
    picture: Picture, spans: Sequence[Span], heading: str, top: float, heard_ms: float | None
) -> float:
    """Draw the lanes of `spans`; where the next ones begin."""
    low = min(0.0, *(float(span["start_ms"]) for span in spans))
    high = max(float(span["end_ms"]) for span in spans)
    scale = (_WIDTH - 2 * _SIDE) / max(high - low, 1.0)
    names = [name for name in STAGES if any(span["stage"] == name for span in spans)]
    bottom = top + 16 + _LANE * len(names)

    def x_of(at_ms: float) -> float:
        return _SIDE + (at_ms - low) * scale

    picture.text(20, top, heading, size=13, weight="bold")
    for tick in ticks(low, high, most=8):
        picture.line((x_of(tick), top + 12), (x_of(tick), bottom))
        picture.text(x_of(tick), bottom + 16, f"{tick:g}", anchor="middle", ink=_GREY)
    picture.text(_WIDTH - 20, bottom + 16, "ms", anchor="end", ink=_GREY)
    picture.line((x_of(0), top + 8), (x_of(0), bottom), _INK)
    if heard_ms is not None and low <= heard_ms <= high:
        picture.line((x_of(heard_ms), top + 8), (x_of(heard_ms), bottom), _HEARD)
    for index, name in enumerate(names):
        lane = [span for span in spans if span["stage"] == name]
        _draw_lane(picture, name, lane, top + 16 + _LANE * index, x_of)
    return bottom + 50


def _draw_lane(
    picture: Picture, name: str, spans: Sequence[Span], top: float, x_of: Callable[[float], float]
) -> None:
    picture.text(_SIDE - 12, top + 17, name, anchor="end")
    worked = sum(s["end_ms"] - s["start_ms"] for s in spans if s["kind"] == "compute")
    if worked:
        label = f"{worked:.1f} ms" if worked < 100 else f"{worked:.0f} ms"
        picture.text(_WIDTH - _SIDE + 12, top + 17, label)
    # What is long goes behind what is short.
    for span in sorted(spans, key=lambda s: s["start_ms"] - s["end_ms"]):
        start, end = span["start_ms"], span["end_ms"]
        told = f"{name} {span['kind']}: {start:.1f} to {end:.1f} ms, {end - start:.1f} ms"
        _draw_span(picture, name, span["kind"], (x_of(start), x_of(end)), top + 5, told)


def _draw_span(
    picture: Picture, stage: str, kind: str, reach: tuple[float, float], top: float, tooltip: str
) -> None:
    """A bar from one x to the other that looks as its kind does in every stage."""
    start, end = reach
    fill = f"url(#queue-{stage})" if kind == "queue" else _STAGE_INKS[stage]
    height = 4.0 if kind == "transfer" else _BAR
    picture.bar(
        start,
        top + (_BAR - height) / 2,
        max(end - start, 1.5),
        height,
        fill,
        opacity=0.22 if kind == "wait" else 1.0,
        tooltip=tooltip,
    )


def _draw_kinds(picture: Picture, y: float) -> None:
    """What the looks of the bars mean, in one line."""
    x = 20.0
    for kind, meaning in _MEANINGS.items():
        label = f"{kind}: {meaning}"
        _draw_span(picture, "playout", kind, (x, x + 22), y - 11, meaning)
        picture.text(x + 28, y + 2, label, size=11)
        x += 56 + 5.2 * len(label)


# ------------------------------------------------------------ a benchmark's figures

_ROWS_WIDTH, _ROWS_LEFT, _ROWS_RIGHT, _ROWS_TOP, _ROW = 860, 210, 110, 58, 26


def draw_spread(title: str, rows: Sequence[Row]) -> str:
    """Each figure's median, 90th percentile and maximum, as SVG.

    Rows that are not in seconds or were not measured are left out.
    """
    shown = [(row.name, row.summary) for row in rows if row.summary and row.unit == "s"]
    longest = max((summary.max for _, summary in shown), default=1.0) or 1.0
    scale = (_ROWS_WIDTH - _ROWS_LEFT - _ROWS_RIGHT) / longest
    bottom = _ROWS_TOP + _ROW * len(shown)
    picture = Picture(_ROWS_WIDTH)
    picture.text(20, 26, title, size=15)

    def x_of(seconds: float) -> float:
        return _ROWS_LEFT + max(0.0, seconds) * scale

    for tick in ticks(0, longest, most=6):
        picture.line((x_of(tick), _ROWS_TOP - 8), (x_of(tick), bottom))
        picture.text(x_of(tick), bottom + 18, f"{tick:g} s", anchor="middle")
    for index, (name, summary) in enumerate(shown):
        y = _ROWS_TOP + _ROW * index
        p50, p90, largest = x_of(summary.p50), x_of(summary.p90), x_of(summary.max)
        picture.text(_ROWS_LEFT - 10, y + 11, name.replace("_", " "), anchor="end")
        picture.bar(_ROWS_LEFT, y, p50 - _ROWS_LEFT, 14, _BLUE)
        picture.line((p50, y + 7), (p90, y + 7), _ORANGE, 3)
        picture.dot(largest, y + 7, _ORANGE)
        picture.text(largest + 8, y + 11, f"{summary.p50:.3f} / {summary.p90:.3f}")
    legend = "bar: median · line: to the 90th percentile · dot: max"
    picture.text(_ROWS_LEFT, bottom + 38, legend)
    return picture.svg(max(bottom, _ROWS_TOP + _ROW) + 50)


# ------------------------------------------------------------ a plan's speed

_ENGINE_INKS = (_BLUE, _ORANGE, "#5b8e3e", "#7a4e9f", "#a68a2d", "#4a4a4a")
_PANEL_WIDTH, _PANEL_HEIGHT = 360, 240
_PANEL_LEFT, _PANEL_TOP, _PANEL_GAP = 70, 64, 90


def draw_plan_bench(title: str, rows: Sequence[BenchRow]) -> str:
    """Latency and throughput over batch size as SVG, one line per engine; both axes logarithmic.

    Rows without a measurement are left out.
    """
    measured = [row for row in rows if not row.problem]
    engines = list(dict.fromkeys(row.engine for row in measured))
    inks = {name: _ENGINE_INKS[i % len(_ENGINE_INKS)] for i, name in enumerate(engines)}
    right = _PANEL_LEFT + _PANEL_WIDTH + _PANEL_GAP
    picture = Picture(right + _PANEL_WIDTH + 30)
    picture.text(_PANEL_LEFT, 24, title, size=15)
    if measured:
        latency = {(row.engine, row.batch): row.median_ms for row in measured}
        rate = {(row.engine, row.batch): row.per_second for row in measured}
        _draw_panel(picture, _PANEL_LEFT, "latency, ms (median)", latency, inks)
        _draw_panel(picture, right, "throughput, items per second", rate, inks)
    for index, (engine, ink) in enumerate(inks.items()):
        y = _PANEL_TOP + _PANEL_HEIGHT + 56 + 20 * index
        picture.bar(_PANEL_LEFT, y - 8, 18, 4, ink)
        picture.text(_PANEL_LEFT + 26, y, engine)
    return picture.svg(_PANEL_HEIGHT + _PANEL_TOP + 60 + 20 * len(engines))


def _draw_panel(
    picture: Picture,
    left: float,
    title: str,
    values: Mapping[tuple[str, int], float],
    inks: Mapping[str, str],
) -> None:
    """values: by engine and batch size; inks: the colour of each engine."""
    batches = sorted({batch for _, batch in values})
    low = math.floor(math.log10(min(values.values())))
    high = math.ceil(math.log10(max(values.values()) * 1.0001))
    bottom, right = _PANEL_TOP + _PANEL_HEIGHT, left + _PANEL_WIDTH

    def x_of(batch: int) -> float:
        if len(batches) == 1:
            return left + _PANEL_WIDTH / 2
        first, last = math.log2(batches[0]), math.log2(batches[-1])
        return left + _PANEL_WIDTH * (math.log2(batch) - first) / (last - first)

    def y_of(value: float) -> float:
        return bottom - _PANEL_HEIGHT * (math.log10(value) - low) / (high - low)

    picture.text(left, _PANEL_TOP - 14, title)
    for exponent in range(low, high + 1):
        y = y_of(10.0**exponent)
        picture.line((left, y), (right, y))
        picture.text(left - 8, y + 4, f"{10.0**exponent:g}", anchor="end")
    for batch in batches:
        picture.line((x_of(batch), _PANEL_TOP), (x_of(batch), bottom))
        picture.text(x_of(batch), bottom + 16, str(batch), anchor="middle")
    picture.text((left + right) / 2, bottom + 34, "batch size", anchor="middle")
    for engine, ink in inks.items():
        points = [(x_of(b), y_of(value)) for (name, b), value in values.items() if name == engine]
        picture.curve(points, ink)
        for x, y in points:
            picture.dot(x, y, ink)
