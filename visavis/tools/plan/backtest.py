"""A prediction held against what `visavis bench load` measured, step by step. Pure.

Twice: from the published figures, as before anything was measured; and from those that the run's
own lone visitor has set right, which then tell only how all grows with more visitors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from visavis.serving.errors import InvalidInputError
from visavis.tools.bench.figures.intervals import Interval, percentile_interval
from visavis.tools.bench.load.knee import Limits
from visavis.tools.bench.load.schedule import Habits
from visavis.tools.plan.inventory import Inventory, Node
from visavis.tools.plan.placement import LATENCIES
from visavis.tools.plan.prediction import Prediction, Scene, Seat, predict
from visavis.tools.plan.profiles import SERVICES, Profile

TOLERANCE = 0.2
"""Share of what was measured by which a prediction may be off."""
OUTSIDE = 0.1
"""How often the interval of a figure does not hold what would be measured of endless answers."""


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of one step. None: it was not measured, or there was no lone visitor."""

    sessions: int
    figure: str
    measured: float
    published: float
    set_right: float | None
    interval: Interval | None = None
    """In which the figure itself is known, by the answers of this step; None: they are not told."""

    def off(self, predicted: float | None) -> float | None:
        """Share by which a prediction is too large (+) or too small."""
        return None if predicted is None else predicted / self.measured - 1.0

    def inside(self, predicted: float | None) -> bool | None:
        """Whether the answers leave open that a prediction is right, where they could have told
        otherwise. None: on its side of what was measured the interval has no end."""
        if predicted is None or self.interval is None:
            return None
        low, high = self.interval
        if math.isinf(low if predicted < self.measured else high):
            return None
        return low <= predicted <= high


@dataclass(frozen=True, slots=True)
class Knees:
    """The most visitors that are served as a lone one is. None: beyond the steps that were run."""

    measured: int
    broke_at: int | None
    published: int | None
    set_right: int | None


@dataclass(frozen=True)
class BackTest:
    rows: tuple[Row, ...]
    knees: Knees


def back_test(load: Any, profile: Profile, where: str) -> BackTest:
    """load: the JSON of `visavis bench load --json`. Raises InvalidInputError if it is not."""
    if not isinstance(load, Mapping) or load.get("benchmark") != "load" or not load.get("steps"):
        raise InvalidInputError(f"{where}: not what `visavis bench load --json FILE` writes")
    try:
        steps = sorted(load["steps"], key=lambda step: int(step["sessions"]))
        told = load["settings"]["habits"]
        habits = Habits(**told)
        cores = float(load["machine"]["cores"])
        alone = _set_right(profile, steps[0], habits, cores) if steps[0]["sessions"] == 1 else None
        turns = load.get("turns") or ()
        rows = [row for step in steps for row in _rows(step, turns, habits, cores, profile, alone)]
        most = int(steps[-1]["sessions"])
        knees = Knees(
            int(load["knee"]["sessions"]),
            load["knee"]["broke_at"],
            _knee(profile, steps[0], habits, cores, most),
            None if alone is None else _knee(alone, steps[0], habits, cores, most),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInputError(
            f"{where}: a load's JSON without what is compared ({error!r}); write it anew with "
            "`visavis bench load --json`"
        ) from error
    return BackTest(tuple(rows), knees)


def _rows(
    step: Mapping[str, Any],
    turns: Sequence[Mapping[str, Any]],
    habits: Habits,
    cores: float,
    profile: Profile,
    alone: Profile | None,
) -> list[Row]:
    sessions = int(step["sessions"])
    published = _predicted(profile, step, habits, cores)
    right = None if alone is None else _predicted(alone, step, habits, cores)
    rows = []
    for figure in LATENCIES:
        if figure in step["figures"]:
            answers = _answers(turns, step, figure)
            for name, measured in (("median", "p50"), ("P95", "p95")):
                rows.append(
                    Row(
                        sessions,
                        f"{figure.replace('_', ' ')}, {name}, s",
                        float(step["figures"][figure][measured]),
                        _latency(published, figure, measured),
                        None if right is None else _latency(right, figure, measured),
                        percentile_interval(answers, float(measured[1:]), OUTSIDE)
                        if answers
                        else None,
                    )
                )
    if step.get("processes"):
        used = sum(float(process["cores"]) for process in step["processes"].values())
        others = _others(step, cores)
        told = None if right is None else right.node_cores[0] - others
        rows.append(Row(sessions, "cores", used, published.node_cores[0] - others, told))
    return rows


def _answers(
    turns: Sequence[Mapping[str, Any]], step: Mapping[str, Any], figure: str
) -> list[float]:
    """What each answer of a step took, s; none where the file does not tell all of them."""
    told = [turn["figures"].get(figure) for turn in turns if turn["step"] == step["sessions"]]
    known = [float(value) for value in told if value is not None]
    return known if len(known) == int(step["figures"][figure]["count"]) else []


def _latency(prediction: Prediction, figure: str, measured: str) -> float:
    delay = prediction.voice if figure == "voice_to_voice" else prediction.text
    return delay.mean_s if measured == "p50" else delay.p95_s


def _others(step: Mapping[str, Any], cores: float) -> float:
    """Cores that the visitors' processes and other work took on the same machine."""
    return float(step["clients"]["cores"]) + cores * float(step.get("others_share") or 0.0)


def _predicted(
    profile: Profile, step: Mapping[str, Any], habits: Habits, cores: float, sessions: int = 0
) -> Prediction:
    """One of each service on one machine.

    With the duty that was asked for: what came of the step holds the waits of its visitors, too,
    and a question costs no more because its answer came late."""
    machine = Node("measured", cores, 1e12, 0.0)
    watched = sum(cost.cores_idle for cost in profile.costs.values()) * int(step["watchers"])
    scene = Scene(Inventory((machine,)), profile, habits, _others(step, cores) + watched)
    layout = [Seat(service, 0) for service in SERVICES]
    return predict(sessions or int(step["sessions"]), layout, scene)


def _set_right(
    profile: Profile, lone: Mapping[str, Any], habits: Habits, cores: float
) -> Profile | None:
    """The profile with the way of the sound, its spread and the cores as the lone visitor had them.

    The median fixes how long everything outside of the stages takes, its P95 the spread."""
    measured = lone["figures"].get("voice_to_voice") or lone["figures"].get("text_to_voice")
    if measured is None:
        return None
    figure = "voice_to_voice" if "voice_to_voice" in lone["figures"] else "text_to_voice"
    longer_s = measured["p50"] - _latency(_predicted(profile, lone, habits, cores), figure, "p50")
    scaled = replace(
        profile, turn=replace(profile.turn, transport_s=profile.turn.transport_s + longer_s)
    )
    wide_s = (measured["p95"] - measured["p50"]) / 1.645
    prediction = _predicted(scaled, lone, habits, cores)
    delay = prediction.voice if figure == "voice_to_voice" else prediction.text
    variance = max(0.0, wide_s**2 - delay.variance + scaled.turn.spread_s**2)
    scaled = replace(scaled, turn=replace(scaled.turn, spread_s=variance**0.5))
    if not lone.get("processes"):
        return scaled
    return _with_cores(scaled, lone, _predicted(scaled, lone, habits, cores), cores)


def _with_cores(
    profile: Profile, lone: Mapping[str, Any], predicted: Prediction, cores: float
) -> Profile:
    """With what sessions take scaled to what was used; what runs without any is kept."""
    base = sum(cost.base_cores for cost in profile.costs.values())
    used = sum(float(process["cores"]) for process in lone["processes"].values()) - base
    told = predicted.node_cores[0] - _others(lone, cores) - base
    factor = max(0.1, used / max(1e-6, told))
    costs = {
        name: replace(
            cost,
            cores_talking=cost.cores_talking * factor,
            cores_idle=cost.cores_idle * factor,
        )
        for name, cost in profile.costs.items()
    }
    return replace(profile, costs=costs)


def _knee(
    profile: Profile, lone: Mapping[str, Any], habits: Habits, cores: float, most: int
) -> int | None:
    """By the limits of `visavis bench load`, as far as a prediction knows them: P95 of both
    latencies, and no throughput beyond what is planned for. None: beyond `most`."""
    first: Sequence[float] = ()
    for sessions in range(1, most + 1):
        clients = {"cores": sessions * float(lone["clients"]["cores"])}
        found = _predicted(profile, {**lone, "clients": clients}, habits, cores, sessions)
        p95s = [found.p95(figure) for figure in LATENCIES]
        first = first or p95s
        limits = [Limits().latency_factor * alone for alone in first]
        if found.problems or any(p > most_s for p, most_s in zip(p95s, limits, strict=True)):
            return sessions - 1
    return None
