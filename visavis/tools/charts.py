"""SVG charts: a turn's timeline, and a plan's latency and throughput by batch size."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape

from visavis.tools.plan_bench import BenchRow

# ------------------------------------------------------------ turn picture
# A turn's timeline as SVG: one lane per stage, time from the end of the visitor's speech.

STAGES = ("asr", "llm", "tts", "face", "encoder", "playout")
KINDS = ("compute", "queue", "wait", "transfer")
MEANINGS = {
    "compute": "the engine works",
    "queue": "ready, the engine is busy",
    "wait": "for input, or for the visitor",
    "transfer": "on its way to the stage",
}
_COLOURS = {
    "asr": "#2f80c2",
    "llm": "#6f5fd0",
    "tts": "#d9772b",
    "face": "#cf4a68",
    "encoder": "#9c3a86",
    "playout": "#4b7f52",
}
_ZERO = {"speech": "the words", "text": "the text", "welcome": "the decision to greet"}
_WIDTH, _LEFT, _RIGHT = 960, 96, 96
_LANE, _BAR = 30, 16
_INK, _FAINT, _HEARD = "#222222", "#e3e3e3", "#d9772b"

Span = Mapping[str, Any]


def draw_timeline(timeline: Mapping[str, Any]) -> str:
    """SVG text of what `GET /v1/sessions/{id}/turns/{n}/timeline` answers."""
    spans: Sequence[Span] = timeline["spans"]
    heard_ms = timeline["voice_to_voice_ms"]
    parts = [_text(20, 30, _title(timeline), size=16), _text(20, 50, _facts(timeline), ink="#666")]
    y = 84.0
    for chunk, heading in (("first", "Up to the first sound"), ("last", "Up to the end")):
        chosen = [span for span in spans if span["chunk"] == chunk]
        if chosen:
            panel, y = _panel(chosen, heading, y, heard_ms)
            parts += panel
    parts += _legend(y)
    height = y + 44
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:.0f}" '
            f'width="{_WIDTH}" height="{height:.0f}" font-family="sans-serif" font-size="12">',
            _patterns(),
            f'<rect width="{_WIDTH}" height="{height:.0f}" fill="white"/>',
            *parts,
            "</svg>",
            "",
        ]
    )


def _title(timeline: Mapping[str, Any]) -> str:
    first = timeline["voice_to_voice_ms"]
    asked = _ZERO[timeline["origin"]]
    answer = "no sound yet" if first is None else f"first sound {first:.0f} ms after {asked}"
    return f"Turn {timeline['turn']}: {answer}"


def _facts(timeline: Mapping[str, Any]) -> str:
    facts = [f"session {timeline['session']}"]
    for name, label in (
        ("first_frame_ms", "first picture"),
        ("overhead_ms", "overhead"),
    ):
        if timeline.get(name) is not None:
            facts.append(f"{label} {timeline[name]:.1f} ms")
    facts.append(f"gaps in the voice: {timeline['underruns']}")
    if timeline["clock_error_ms"]:
        facts.append(f"stages on other machines: ± {timeline['clock_error_ms']:.1f} ms")
    return "   ·   ".join(facts)


def _panel(
    spans: Sequence[Span], heading: str, top: float, heard_ms: float | None
) -> tuple[list[str], float]:
    """A panel's elements, and where the next one begins."""
    low = min(0.0, *(float(span["start_ms"]) for span in spans))
    high = max(float(span["end_ms"]) for span in spans)
    scale = (_WIDTH - _LEFT - _RIGHT) / max(high - low, 1.0)
    names = [name for name in STAGES if any(span["stage"] == name for span in spans)]
    bottom = top + 16 + _LANE * len(names)

    def x(at_ms: float) -> float:
        return _LEFT + (at_ms - low) * scale

    parts = [_text(20, top, heading, size=13, weight="bold")]
    for tick in _ticks(low, high):
        parts.append(_line(x(tick), top + 12, bottom, _FAINT))
        parts.append(_text(x(tick), bottom + 16, f"{tick:g}", anchor="middle", ink="#888"))
    parts.append(_text(_WIDTH - 20, bottom + 16, "ms", anchor="end", ink="#888"))
    parts.append(_line(x(0), top + 8, bottom, _INK))
    if heard_ms is not None and low <= heard_ms <= high:
        parts.append(_line(x(heard_ms), top + 8, bottom, _HEARD))
    for index, name in enumerate(names):
        lane = [span for span in spans if span["stage"] == name]
        parts += _lane(name, lane, top + 16 + _LANE * index, x)
    return parts, bottom + 50


def _lane(name: str, spans: Sequence[Span], top: float, x: Any) -> list[str]:
    worked = sum(s["end_ms"] - s["start_ms"] for s in spans if s["kind"] == "compute")
    parts = [_text(_LEFT - 12, top + 17, name, anchor="end")]
    if worked:
        label = f"{worked:.1f} ms" if worked < 100 else f"{worked:.0f} ms"
        parts.append(_text(_WIDTH - _RIGHT + 12, top + 17, label))
    # What is long goes behind what is short.
    for span in sorted(spans, key=lambda s: s["start_ms"] - s["end_ms"]):
        start, end = x(span["start_ms"]), x(span["end_ms"])
        parts.append(_bar(name, span["kind"], start, end, top + 5, _tooltip(span)))
    return parts


def _tooltip(span: Span) -> str:
    start, end = span["start_ms"], span["end_ms"]
    what = f"{span['stage']} {span['kind']}"
    return f"{what}: {start:.1f} to {end:.1f} ms, {end - start:.1f} ms"


def _bar(stage: str, kind: str, start: float, end: float, y: float, title: str = "") -> str:
    colour, height, opacity = _COLOURS[stage], float(_BAR), 1.0
    fill = colour
    if kind == "queue":
        fill = f"url(#queue-{stage})"
    elif kind == "wait":
        opacity = 0.22
    elif kind == "transfer":
        y, height = y + _BAR / 2 - 2, 4.0
    width = max(end - start, 1.5)
    return (
        f'<rect x="{start:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.0f}" rx="2" '
        f'fill="{fill}" fill-opacity="{opacity:g}"><title>{escape(title)}</title></rect>'
    )


def _legend(y: float) -> list[str]:
    parts, x = [], 20.0
    for kind in KINDS:
        parts.append(_bar("playout", kind, x, x + 22, y - 11, MEANINGS[kind]))
        label = f"{kind}: {MEANINGS[kind]}"
        parts.append(_text(x + 28, y + 2, label, size=11))
        x += 56 + 5.2 * len(label)
    return parts


def _patterns() -> str:
    rows = [
        f'<pattern id="queue-{stage}" width="5" height="5" patternUnits="userSpaceOnUse" '
        f'patternTransform="rotate(45)"><rect width="2" height="5" fill="{colour}"/></pattern>'
        for stage, colour in _COLOURS.items()
    ]
    return f"<defs>{''.join(rows)}</defs>"


def _ticks(low: float, high: float) -> list[float]:
    """About six round values between the two."""
    steps = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 60_000)
    step = next((s for s in steps if (high - low) / s <= 8), steps[-1])
    first = -(-low // step)
    return [i * step for i in range(int(first), int(high // step) + 1)]


def _line(x: float, top: float, bottom: float, colour: str) -> str:
    return f'<path d="M{x:.1f} {top:.1f}V{bottom:.1f}" stroke="{colour}"/>'


def _text(
    x: float,
    y: float,
    words: str,
    *,
    size: int = 12,
    anchor: str = "start",
    ink: str = _INK,
    weight: str = "normal",
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" fill="{ink}" '
        f'text-anchor="{anchor}">{escape(words)}</text>'
    )


# ------------------------------------------------------------ bench picture
# The picture of a benchmark: latency and throughput over batch size, as SVG.

_ENGINE_COLOURS = ("#2a6f97", "#c1562c", "#5b8e3e", "#7a4e9f", "#a68a2d", "#4a4a4a")
_PANEL_WIDTH, _PANEL_HEIGHT = 360, 240
_BENCH_LEFT, _TOP, _GAP = 70, 64, 90


def draw_plan_bench(title: str, rows: Sequence[BenchRow]) -> str:
    """SVG text: two panels with logarithmic axes, one line per engine.

    Rows without a measurement are left out.
    """
    measured = [row for row in rows if not row.problem]
    engines = list(dict.fromkeys(row.engine for row in measured))
    width = 2 * _PANEL_WIDTH + _BENCH_LEFT + _GAP + 30
    height = _PANEL_HEIGHT + _TOP + 60 + 20 * len(engines)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        _bench_text(_BENCH_LEFT, 24, title, size=15),
    ]
    if measured:
        right = _BENCH_LEFT + _PANEL_WIDTH + _GAP
        parts += _bench_panel(
            _BENCH_LEFT, "latency, ms (median)", measured, lambda row: row.median_ms
        )
        parts += _bench_panel(
            right, "throughput, items per second", measured, lambda r: r.per_second
        )
    for index, engine in enumerate(engines):
        y = _TOP + _PANEL_HEIGHT + 56 + 20 * index
        parts.append(
            f'<rect x="{_BENCH_LEFT}" y="{y - 8}" width="18" height="4" fill="{_hue(index)}"/>'
        )
        parts.append(_bench_text(_BENCH_LEFT + 26, y, engine))
    return "\n".join([*parts, "</svg>", ""])


def _bench_panel(
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

    parts = [_bench_text(left, _TOP - 14, title)]
    for exponent in range(round(math.log10(low)), round(math.log10(high)) + 1):
        y = y_of(10.0**exponent)
        parts.append(_bench_line(left, y, left + _PANEL_WIDTH, y))
        parts.append(_bench_text(left - 8, y + 4, f"{10.0**exponent:g}", anchor="end"))
    for batch in batches:
        parts.append(_bench_line(x_of(batch), _TOP, x_of(batch), bottom))
        parts.append(_bench_text(x_of(batch), bottom + 16, str(batch), anchor="middle"))
    parts.append(_bench_text(left + _PANEL_WIDTH / 2, bottom + 34, "batch size", anchor="middle"))
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
    return _ENGINE_COLOURS[index % len(_ENGINE_COLOURS)]


def _bench_line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#dddddd"/>'


def _bench_text(x: float, y: float, text: str, *, anchor: str = "start", size: int = 12) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
        f'fill="#222222">{escape(text)}</text>'
    )
