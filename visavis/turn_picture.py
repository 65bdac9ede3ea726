"""A turn's timeline as SVG: one lane per stage, time from the end of the visitor's speech."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape

STAGES = ("asr", "llm", "tts", "face", "encoder", "playout")
KINDS = ("compute", "queue", "wait", "transfer")
MEANINGS = {
    "compute": "the engine works",
    "queue": "ready, the engine is busy",
    "wait": "for input, or for the visitor",
    "transfer": "on its way to the stage",
    "opener": "heard while the answer is made",
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


def draw(timeline: Mapping[str, Any]) -> str:
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
        ("answer_proper_ms", f"the answer behind {timeline.get('opener')!r}"),
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
