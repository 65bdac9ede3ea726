"""A load's tables and its picture: what each step came to, by number of visitors."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from visavis.tools.bench.figures.report import Summary
from visavis.tools.bench.load.exchange import STAGE_FIGURES
from visavis.tools.bench.load.knee import JUDGED, Knee, Limits, lone_of
from visavis.tools.bench.load.results import PICTURE_BEHIND, StepResult
from visavis.tools.charts import Picture, ticks
from visavis.tools.shown import Table

_WIDTH, _LEFT, _RIGHT, _TOP, _HEIGHT, _GAP = 760, 70, 170, 86, 240, 70
_INKS = ("#2a6f97", "#c1562c", "#5b8e3e", "#7a4e9f", "#a68a2d", "#4a4a4a", "#cf6f9a")
_GREY = "#777777"
_PAIRS = (
    ("voice to voice, as asked", "voice_to_voice"),
    ("voice to voice, as due", "voice_to_voice_due"),
    ("text to voice, as asked", "text_to_voice"),
    ("text to voice, as due", "text_to_voice_due"),
    ("first picture", "first_frame"),
    ("end of turn told", "end_of_turn"),
    ("picture behind its sound", PICTURE_BEHIND),
)
_FIRST_SOUND = "final_to_voice"


def _seconds(summary: Summary | None) -> str:
    """n, median and P95."""
    if summary is None:
        return "-"
    return f"{summary.p50:.2f} / {summary.p95:.2f} ({summary.count})"


def _columns(title: str, steps: Sequence[StepResult]) -> Table:
    table = Table("visitors", title=title)
    for step in steps:
        table.add_column(str(step.sessions), justify="right")
    return table


def visitors_table(steps: Sequence[StepResult]) -> Table:
    """What the visitors met: a column for each step. Seconds: median / P95 (count)."""
    table = _columns("What the visitors met: median / P95 (n), seconds", steps)
    for label, figure in _PAIRS:
        table.add_row(label, *(_seconds(step.summaries.get(figure)) for step in steps))
    table.add_row("underruns: late to visitors / not made in time", *map(_underruns, steps))
    table.add_row("pictures late or missing", *map(late_pictures, steps))
    for bound, label in (
        ("skew_at_release_p95_at_most", "sound and picture apart as they leave, P95 at most"),
        ("barge_in_to_silence_p95_at_most", "interrupted: silent after, P95 at most"),
    ):
        table.add_row(label, *(_bound(step.bounds.get(bound)) for step in steps))
    table.add_row("questions", *(str(len(step.exchanges)) for step in steps))
    for outcome in ("answered", "interrupted", "spoke_over", "failed", "unanswered", "not_asked"):
        cells = [step.outcomes.get(outcome, 0) for step in steps]
        if any(cells):
            table.add_row(f"  {outcome.replace('_', ' ')}", *map(str, cells))
    table.add_row("visitors refused", *(str(len(step.refused)) for step in steps))
    if any(step.kills for step in steps):
        table.add_row("processes killed", *map(_killed, steps))
    if any(step.kills or step.breaks or step.lost for step in steps):
        table.add_row("connections lost: back after median / P95 / longest (n)", *map(_away, steps))
        table.add_row(
            "  of the underruns / pictures missing, by lost connections", *map(_cut, steps)
        )
        table.add_row("sessions lost", *(str(len(step.lost)) for step in steps))
    if any(step.waits for step in steps):
        table.add_row("visitors who waited in line", *(str(len(step.waits)) for step in steps))
        table.add_row(
            "waits told within 50 % (judged; wait yet / told none)", *map(_told_right, steps)
        )
    table.add_row("duty, as it came out", *(f"{step.duty:.2f}" for step in steps))
    return table


def _underruns(step: StepResult) -> str:
    late = step.playout
    told = f"{late.underruns} ({late.gap_s:.2f} s)" if late.underruns else "0"
    return f"{told} / {step.gateway_underruns}"


def _killed(step: StepResult) -> str:
    kinds = Counter(kill.kind for kill in step.kills)
    return ", ".join(f"{kind} {count}" for kind, count in kinds.items()) or "-"


def _away(step: StepResult) -> str:
    away = step.away
    return (
        "0" if away is None else f"{away.p50:.2f} / {away.p95:.2f} / {away.max:.2f} ({away.count})"
    )


def _cut(step: StepResult) -> str:
    lost = step.playout
    told = f"{lost.lost_gaps} ({lost.lost_gap_s:.2f} s)" if lost.lost_gaps else "0"
    return f"{told} / {lost.lost_frames}"


def late_pictures(step: StepResult) -> str:
    """Share of the pictures late or missing; "-": none was judged."""
    return f"{step.late_share:.2%}" if step.playout.frames else "-"


def _told_right(step: StepResult) -> str:
    share = step.told_right_share
    told = "-" if share is None else f"{share:.0%}"
    untold = sum(wait.told_s is None for wait in step.waits)
    unknown = sum(wait.told_right is None for wait in step.waits) - untold
    judged = len(step.waits) - untold - unknown
    return f"{told} ({judged}; {unknown} / {untold})"


def _bound(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return "beyond the histogram" if math.isinf(seconds) else f"{seconds:.3f}"


def stages_table(steps: Sequence[StepResult]) -> Table:
    """Queue and compute of each stage on the way to the first sound and picture."""
    table = _columns("First chunk of an answer in each stage: median / P95, seconds", steps)
    for figure in STAGE_FIGURES:
        summaries = [step.summaries.get(figure) for step in steps]
        if any(summary is not None for summary in summaries):
            cells = ["-" if s is None else f"{s.p50:.3f} / {s.p95:.3f}" for s in summaries]
            table.add_row(figure.replace("_", " "), *cells)
    return table


def deadlines_table(steps: Sequence[StepResult]) -> Table:
    """First sound after the final words against a lone visitor's, and where it was waited for."""
    table = _columns("Deadlines: median / P95 (n), seconds", steps)
    lone = lone_of(steps).p95(_FIRST_SOUND)
    summaries = [step.summaries.get(_FIRST_SOUND) for step in steps]
    table.add_row("first sound after the final", *map(_seconds, summaries))
    times = ["-" if s is None or not lone else f"{s.p95 / lone:.2f}" for s in summaries]
    table.add_row("  P95, times a lone visitor's", *times, end_section=True)
    for figure in STAGE_FIGURES:
        waits = [step.summaries.get(figure) for step in steps]
        if figure.endswith("_queue") and any(wait is not None for wait in waits):
            table.add_row(f"waited in {figure.removesuffix('_queue')}", *map(_seconds, waits))
    return table


def processes_table(steps: Sequence[StepResult]) -> Table:
    """Cores and memory of each process; the visitors' own apart."""
    table = _columns("Cores (CPU seconds a second), and memory, MB", steps)
    for name in sorted({name for step in steps for name in step.processes}):
        loads = [step.processes.get(name) for step in steps]
        cells = [
            "-" if load is None else f"{load.cores:.2f}  {load.memory_bytes / 1e6:.0f}"
            for load in loads
        ]
        table.add_row(name, *cells)
    table.add_row("stack", *(f"{step.stack_cores:.2f}" for step in steps), end_section=True)
    table.add_row("visitors' processes", *(f"{step.client_cores:.2f}" for step in steps))
    lags = [step.client_lag for step in steps]
    late = ["-" if lag is None else f"{1000 * lag.p95:.0f} ms" for lag in lags]
    table.add_row("  late for their own appointments, P95", *late)
    others = ["-" if s.others_share is None else f"{s.others_share:.0%}" for s in steps]
    table.add_row("other work on this machine", *others)
    return table


def knee_sentence(knee: Knee, reasons: int | None = None) -> str:
    """The answer in a line. reasons: how many are told of what broke; None: all."""
    if knee.broke_at is None:
        return f"Up to {knee.sessions} visitors all is within the limits: the knee lies further up."
    why = "; ".join(knee.why[:reasons])
    return f"Knee: {knee.sessions} visitors. At {knee.broke_at}: {why}."


# ------------------------------------------------------------ the picture


def draw_load(title: str, steps: Sequence[StepResult], knee: Knee, limits: Limits) -> str:
    """Latency over the number of visitors, and below it the cores that they cost, as SVG."""
    steps = sorted(steps, key=lambda step: step.sessions)
    picture = Picture(_WIDTH)
    picture.text(_LEFT, 26, title, size=15)
    picture.text(_LEFT, 44, knee_sentence(knee, 1)[:120], ink=_GREY, size=11)
    latency: dict[str, list[tuple[int, float]]] = {}
    for figure in JUDGED:
        for percentile in ("p50", "p95"):
            label = f"{figure.removesuffix('_due').replace('_', ' ')} {percentile.upper()}"
            latency[label] = [
                (step.sessions, float(getattr(summary, percentile)))
                for step in steps
                if (summary := step.summaries.get(figure)) is not None
            ]
    limit = lone_of(steps).p95(JUDGED[0])
    bound_s = None if limit is None else limits.latency_factor * limit
    y = _draw_panel(picture, _TOP, "from when a question's end was due, seconds", latency, bound_s)
    cores = {"visitors": [(step.sessions, step.client_cores) for step in steps]}
    for name in sorted({name for step in steps for name in step.processes}):
        cores[name] = [
            (step.sessions, step.processes[name].cores) for step in steps if name in step.processes
        ]
    y = _draw_panel(picture, y + _GAP, "cores", cores, None)
    picture.text((_LEFT + _WIDTH - _RIGHT) / 2, y + 36, "visitors at once", anchor="middle")
    return picture.svg(y + 54)


def _draw_panel(
    picture: Picture,
    top: float,
    title: str,
    curves: dict[str, list[tuple[int, float]]],
    limit: float | None,
) -> float:
    """A curve for each name; its lower edge. limit: drawn as a grey line."""
    points = [point for curve in curves.values() for point in curve]
    places = sorted({sessions for sessions, _ in points}) or [1]
    highest = max([value for _, value in points] + [limit or 0.0]) or 1.0
    bottom, right = top + _HEIGHT, _WIDTH - _RIGHT

    def x_of(sessions: int) -> float:
        first, last = math.log2(places[0]), math.log2(places[-1])
        share = (math.log2(sessions) - first) / (last - first) if last > first else 0.5
        return _LEFT + share * (right - _LEFT)

    def y_of(value: float) -> float:
        return bottom - _HEIGHT * value / highest

    picture.text(_LEFT, top - 8, title)
    for tick in ticks(0, highest, most=5):
        picture.line((_LEFT, y_of(tick)), (right, y_of(tick)))
        picture.text(_LEFT - 8, y_of(tick) + 4, f"{tick:g}", anchor="end")
    for sessions in places:
        picture.text(x_of(sessions), bottom + 16, str(sessions), anchor="middle")
    if limit is not None:
        picture.line((_LEFT, y_of(limit)), (right, y_of(limit)), _GREY, 2)
        picture.text(_LEFT + 6, y_of(limit) - 5, "limit of voice P95", ink=_GREY, size=11)
    for index, (name, curve) in enumerate(curves.items()):
        ink = _INKS[index % len(_INKS)]
        places_of = [(x_of(sessions), y_of(value)) for sessions, value in curve]
        picture.curve(places_of, ink)
        for x, y in places_of:
            picture.dot(x, y, ink)
        key_y = top + 12 + 16 * index
        picture.bar(right + 12, key_y - 5, 14, 4, ink)
        picture.text(right + 32, key_y, name, size=11)
    return bottom
