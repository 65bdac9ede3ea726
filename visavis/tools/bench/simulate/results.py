"""What a simulated step came to, whether it may be believed, and what it costs carried on.

Pure. A step is valid where whoever kept time in it kept it: devices, visitors and the gateway's
tick may be late by a few simulated milliseconds, else the figures tell of this machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from visavis.serving.settings import SERVICES
from visavis.tools.bench.figures.counters import bucket_quantile, rise
from visavis.tools.bench.load.results import StepResult
from visavis.tools.bench.simulate.heard import Heard, judge_heard
from visavis.tools.bench.simulate.plan import SimulationPlan

LATE_LIMIT_S = 0.002
"""P95 of how late devices, visitors and the gateway's tick may be, in simulated time: an answer is
about a dozen appointments in a row, and all of them together may add 5 % of half a second."""
LIMIT_S = 0.78
"""The design's limit for the P95 from a question's end to its answer."""
ALIKE = 0.1
"""Share by which a dilated latency may differ from one in real time."""
_MEASURED = ("voice_to_voice", "text_to_voice")
_GATEWAY, _BUS = "gateway", "nats-server"


@dataclass(frozen=True)
class Reading:
    """The stack at one moment. bus: nats-server's own figures; files: open, by process."""

    at_s: float
    counters: Mapping[str, float]
    bus: Mapping[str, float]
    files: Mapping[str, int]


@dataclass(frozen=True)
class Occupancy:
    """What the devices of one stage did. share: of the time of all its replicas, 0 to 1."""

    share: float
    steps_per_s: float
    mean_batch: float


@dataclass(frozen=True)
class BusLoad:
    """What the bus carried, a second, and what it held."""

    msgs_in: float
    msgs_out: float
    bytes_in: float
    bytes_out: float
    subscriptions: float
    connections: float


@dataclass
class SimulatedStep:
    """One step: what visitors met, what devices, bus and gateway did, how exactly time was kept."""

    plan: SimulationPlan
    replicas: int
    load: StepResult
    devices: dict[str, Occupancy]
    bus: BusLoad
    files: dict[str, int]
    """Open, by process, as counting ends."""
    empty_files: dict[str, int]
    """The same before anybody came."""
    late_s: dict[str, float]
    """P95 by who keeps time, simulated seconds; of histograms the upper bound."""
    heard: Heard
    answers: int
    """Finished within the counted time, whenever they were asked."""

    @property
    def answers_per_s(self) -> float:
        return self.answers / self.load.length_s

    @property
    def tokens_per_s(self) -> float:
        """What the language models made, the part of it that nobody heard included."""
        return self.devices["llm"].steps_per_s

    def doubts(self) -> list[str]:
        """Why the figures are not to be believed; empty: they are."""
        found = [
            f"{name} late by {1000 * late_s:.1f} ms (P95), at most {1000 * LATE_LIMIT_S:.0f}"
            for name, late_s in self.late_s.items()
            if late_s > LATE_LIMIT_S
        ]
        return found + [f"no {name} told how late it was" for name in self._silent()]

    def _silent(self) -> list[str]:
        return [name for name in ("devices", "visitors") if name not in self.late_s]

    def shortfalls(self) -> list[str]:
        """What of the design's promise was not kept; empty: nothing."""
        found = [
            f"{figure.replace('_', ' ')} P95 {p95:.3f} s"
            for figure in _MEASURED
            if (p95 := self.load.p95(figure)) is not None and p95 >= LIMIT_S
        ]
        if self.load.failed or self.load.refused:
            found.append(f"{self.load.failed} questions failed, {len(self.load.refused)} refused")
        if not self.heard.perfect:
            found.append(f"{len(self.heard.faults)} faults in what was heard")
        return found + self.load.verdict.faults[:1]

    def to_dict(self) -> dict[str, Any]:
        """As JSON types. All of it is simulated, and dilated by what the plan says."""
        return {
            "simulated": True,
            "plan": asdict(self.plan),
            "replicas": self.replicas,
            "valid": not self.doubts(),
            "doubts": self.doubts(),
            "shortfalls": self.shortfalls(),
            "late_p95_s": self.late_s,
            "simulated_answers_per_s": round(self.answers_per_s, 4),
            "simulated_tokens_per_s": round(self.tokens_per_s, 3),
            "devices": {name: asdict(device) for name, device in self.devices.items()},
            "bus": asdict(self.bus),
            "open_files": self.files,
            "open_files_before_anybody_came": self.empty_files,
            "heard": self.heard.to_dict(),
            "load": self.load.to_dict(),
        }


def summed_up(
    plan: SimulationPlan,
    replicas: int,
    load: StepResult,
    warmup_s: float,
    readings: tuple[Reading, ...],
) -> SimulatedStep:
    """warmup_s: when counting began, from the run's start; readings: before anybody came, when
    counting began, when it ended."""
    empty, before, after = readings
    length_s = after.at_s - before.at_s
    grown = rise(before.counters, after.counters)
    late = {
        "devices": bucket_quantile(grown, "simulated_device_late_seconds", 0.95),
        "gateway's tick": bucket_quantile(grown, "gateway_tick_late_seconds", 0.95),
        "visitors": None if load.client_lag is None else load.client_lag.p95,
    }

    def rate(name: str) -> float:
        return (after.bus[name] - before.bus[name]) / length_s

    bus = BusLoad(
        rate("in_msgs"),
        rate("out_msgs"),
        rate("in_bytes"),
        rate("out_bytes"),
        after.bus["subscriptions"],
        after.bus["connections"],
    )
    return SimulatedStep(
        plan,
        replicas,
        load,
        {stage: _occupancy(grown, stage, replicas, length_s) for stage in SERVICES},
        bus,
        dict(after.files),
        dict(empty.files),
        {name: late_s for name, late_s in late.items() if late_s is not None},
        judge_heard(load.lines, load.exchanges, plan.answer_words),
        sum(
            line.what == "record" and 0 <= line.at_s - warmup_s < load.length_s
            for line in load.lines
        ),
    )


def _occupancy(grown: Mapping[str, float], stage: str, replicas: int, length_s: float) -> Occupancy:
    def of(name: str) -> float:
        return grown.get(f"simulated_device_{name}_total{{stage={stage}}}", 0.0)

    share = of("busy_seconds") / (replicas * length_s)
    return Occupancy(share, of("steps") / length_s, of("steps") / max(1.0, of("runs")))


# ------------------------------------------------------------ several steps


@dataclass(frozen=True)
class Efficiency:
    """Throughput of several replicas over that of one times so many. It says something where the
    devices are occupied all the time: else it is that of the visitors."""

    replicas: int
    occupied: float
    """Share of the time of the language model's devices, 0 to 1."""
    tokens_per_s: float
    tokens: float
    answers: float


def efficiencies(steps: Sequence[SimulatedStep]) -> list[Efficiency]:
    """Of each step. Empty where no step had one replica, or all had."""
    lone = next((step for step in steps if step.replicas == 1), None)
    if lone is None or all(step.replicas == 1 for step in steps) or not lone.answers_per_s:
        return []
    return [
        Efficiency(
            step.replicas,
            step.devices["llm"].share,
            step.tokens_per_s,
            step.tokens_per_s / (step.replicas * lone.tokens_per_s),
            step.answers_per_s / (step.replicas * lone.answers_per_s),
        )
        for step in steps
    ]


@dataclass(frozen=True)
class Likeness:
    """A latency of a dilated step beside that of the step in real time with the same load."""

    figure: str
    dilation: float
    real_s: float
    dilated_s: float
    valid: bool
    """Both steps are."""

    @property
    def ratio(self) -> float:
        return self.dilated_s / self.real_s

    @property
    def alike(self) -> bool | None:
        """None: that is not known, as one of the steps is not valid."""
        return abs(self.ratio - 1) <= ALIKE if self.valid else None


def likenesses(steps: Sequence[SimulatedStep]) -> list[Likeness]:
    """Medians of dilated steps beside those of a step in real time that differs in nothing else."""
    found = []
    for real in (step for step in steps if step.plan.dilation == 1):
        for other in steps:
            same = (other.load.sessions, other.replicas) == (real.load.sessions, real.replicas)
            if other.plan.dilation == 1 or not same:
                continue
            for figure in _MEASURED:
                ours, theirs = real.load.summaries.get(figure), other.load.summaries.get(figure)
                if ours is not None and theirs is not None:
                    valid = not real.doubts() and not other.doubts()
                    slower = other.plan.dilation
                    found.append(Likeness(figure, slower, ours.p50, theirs.p50, valid))
    return found


# ------------------------------------------------------------ carried on

SESSIONS = 10_000
_USED_SHARE = 0.7
"""Of a core that a process with one event loop should use at most: beyond, its ticks come late."""
NATS_MOST_CONNECTIONS = 65_536
"""max_connections of nats-server where nobody sets it."""


@dataclass(frozen=True)
class CarriedOn:
    """What `sessions` would take, each as those that were measured: a straight line, no promise."""

    measured_sessions: int
    sessions: int
    gateway_cores: float
    gateways: int
    sessions_per_gateway: int
    bus_cores: float
    msgs_per_s: float
    """In and out together."""
    bus_bits_per_s: float
    """Out, where it is most."""
    subscriptions: float
    connections: float
    files_per_gateway: float


def carried_on(step: SimulatedStep, sessions: int = SESSIONS) -> CarriedOn | None:
    """None where the processes were not seen."""
    loads = step.load.processes
    if _GATEWAY not in loads or _BUS not in loads:
        return None
    here = step.load.sessions + step.load.watchers
    times = sessions / here
    each = loads[_GATEWAY].cores / here
    per_gateway = max(1, int(_USED_SHARE / each + 1e-9))
    gateways = -(-sessions // per_gateway)
    own_files = step.empty_files.get(_GATEWAY, 0)
    files_each = (step.files.get(_GATEWAY, 0) - own_files) / here
    bus = step.bus
    replicas = times * len(SERVICES) * step.replicas
    return CarriedOn(
        here,
        sessions,
        each * sessions,
        gateways,
        per_gateway,
        loads[_BUS].cores * times,
        (bus.msgs_in + bus.msgs_out) * times,
        8 * bus.bytes_out * times,
        bus.subscriptions * times,
        gateways + replicas,
        own_files + files_each * per_gateway,
    )
