"""What one step of a load came to: so many visitors at once, and how they and the machine fared.

Pure. A `ClientReport` is what one process of visitors noted, a `StackReport` what the stack's own
counters and processes told meanwhile; `StepResult` sums them up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self

from visavis.tools.bench.figures.counters import bucket_quantile
from visavis.tools.bench.figures.report import Summary, summarise
from visavis.tools.bench.load.exchange import STAGE_FIGURES, Exchange
from visavis.tools.bench.load.ledger import Line, Verdict, judge
from visavis.tools.bench.load.playout import PlayoutFigures

CLIENT_FIGURES = (
    "voice_to_voice",
    "voice_to_voice_due",
    "text_to_voice",
    "text_to_voice_due",
    "first_frame",
    "end_of_turn",
    "final_to_voice",
    "overhead",
)
PICTURE_BEHIND = "picture_behind_its_sound"
# P95 of the gateway's histograms: upper bounds, the end of the bucket that holds it.
_BOUNDS = {
    "skew_at_release_p95_at_most": "av_skew_seconds",
    "tick_late_p95_at_most": "gateway_tick_late_seconds",
    "barge_in_to_silence_p95_at_most": "barge_in_to_silence_seconds",
}


WAIT_TOLERANCE = 0.5
"""A told wait is right that is no further from the real one, of which it is a share."""


@dataclass(frozen=True, slots=True)
class Wait:
    """One visitor's time in line. told_s: what he was told as he joined; None: nothing."""

    waited_s: float
    told_s: float | None
    position: int
    """At the beginning."""
    admitted: bool
    """Else the run's end came first, and `waited_s` is how long it was by then."""

    @property
    def told_right(self) -> bool | None:
        """None where nothing was told, or where it is not known: who goes on waiting may yet be
        told right, until he has waited twice as long as he was told.
        """
        if self.told_s is None:
            return None
        if not self.admitted and self.waited_s <= self.told_s / (1.0 - WAIT_TOLERANCE):
            return None
        return abs(self.told_s - self.waited_s) <= WAIT_TOLERANCE * self.waited_s


@dataclass(frozen=True, slots=True)
class Break:
    """A connection of one visitor that was lost, and came back.

    Seconds; `at_s` from the run's start: when it was closed, or the last sound or picture came."""

    visitor: int
    what: Literal["media", "events"]
    at_s: float
    away_s: float
    """Until the next sound or picture came, or the next connection for events was open."""
    moved: bool = False
    """It was told to connect again, as where a gateway hands its sessions over, or one that handed
    it on to another has lost that one; else it broke without a word."""


@dataclass(frozen=True, slots=True)
class Kill:
    """A process of the stack that was killed, seconds from the run's start."""

    kind: str
    at_s: float


@dataclass
class ClientReport:
    """What one process of visitors noted of one step."""

    exchanges: list[Exchange] = field(default_factory=list)
    playouts: list[PlayoutFigures] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    """Of each visitor or watcher who was not let in, why."""
    cpu_s: float = 0.0
    """Of this process, while the step was counted."""
    lags_s: list[float] = field(default_factory=list)
    """How late this process was for its own appointments, 20 ms apart."""
    waits: list[Wait] = field(default_factory=list)
    """Of those who had to wait in line."""
    breaks: list[Break] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    """Of each visitor or watcher whose session was gone before he was, why."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Self:
        return cls(
            [Exchange(**exchange) for exchange in told["exchanges"]],
            [PlayoutFigures(**playout) for playout in told["playouts"]],
            [Line(**line) for line in told["lines"]],
            list(told["refused"]),
            told["cpu_s"],
            list(told["lags_s"]),
            [Wait(**wait) for wait in told["waits"]],
            [Break(**one) for one in told["breaks"]],
            list(told["lost"]),
        )


@dataclass(frozen=True)
class ProcessLoad:
    """What one kind of process used. cores: CPU seconds a second."""

    cores: float
    memory_bytes: int


@dataclass
class StackReport:
    """What the stack told while a step was counted."""

    counters: Mapping[str, float] = field(default_factory=dict)
    """What its metrics rose by."""
    processes: Mapping[str, ProcessLoad] = field(default_factory=dict)
    """By name; empty where the stack runs on another machine."""
    others_share: float | None = None
    """Of this machine's CPU time, what went neither to stack nor visitors nor idle."""
    kills: Sequence[Kill] = ()


@dataclass
class StepResult:
    """So many visitors at once: what they met, and what it cost."""

    sessions: int
    watchers: int
    length_s: float
    clients: int
    summaries: dict[str, Summary | None]
    outcomes: dict[str, int]
    refused: list[str]
    waits: list[Wait]
    breaks: list[Break]
    lost: list[str]
    kills: list[Kill]
    playout: PlayoutFigures
    """Of all visitors; its list of moments is left out."""
    gateway_underruns: int
    bounds: dict[str, float]
    """Infinity: above the histogram's last bucket."""
    duty: float
    """As it came out: share of the time in which a visitor asked or was answered."""
    processes: dict[str, ProcessLoad]
    client_cores: float
    client_lag: Summary | None
    others_share: float | None
    verdict: Verdict
    exchanges: list[Exchange]
    lines: list[Line]

    @property
    def failed(self) -> int:
        return sum(exchange.failed for exchange in self.exchanges)

    @property
    def away(self) -> Summary | None:
        """How long connections were gone that broke; None: none did."""
        return summarise(one.away_s for one in self.breaks)

    @property
    def told_right_share(self) -> float | None:
        """Of the waits of which that is known, those that were told about right."""
        judged = [wait.told_right for wait in self.waits if wait.told_right is not None]
        return sum(judged) / len(judged) if judged else None

    @property
    def underruns(self) -> int:
        """Gaps in voices: what came late to the visitors, and what the gateway had not got."""
        return self.playout.underruns + self.gateway_underruns

    @property
    def late_share(self) -> float:
        """Of the pictures of voices, those that came too late or never."""
        missing = self.playout.missing_frames
        wanted = self.playout.frames + missing
        return (self.playout.late_frames + missing) / wanted if wanted else 0.0

    @property
    def stack_cores(self) -> float:
        return sum(load.cores for load in self.processes.values())

    def p95(self, figure: str) -> float | None:
        summary = self.summaries.get(figure)
        return None if summary is None else summary.p95

    def to_dict(self) -> dict[str, Any]:
        """Without exchanges and lines, which have places of their own."""
        playout = asdict(self.playout)
        del playout["behind_s"]
        known = {name: summary for name, summary in self.summaries.items() if summary is not None}
        return {
            "sessions": self.sessions,
            "watchers": self.watchers,
            "length_s": round(self.length_s, 3),
            "figures": {name: summary.to_dict() for name, summary in known.items()},
            "outcomes": self.outcomes,
            "refused": self.refused,
            "waits": [asdict(wait) for wait in self.waits],
            "waits_told_right_share": self.told_right_share,
            "failed": self.failed,
            "kills": [asdict(kill) for kill in self.kills],
            "breaks": [asdict(one) for one in self.breaks],
            "breaks_away_s": None if self.away is None else self.away.to_dict(),
            "sessions_lost": self.lost,
            "playout": playout,
            "gateway_underruns": self.gateway_underruns,
            "late_share": round(self.late_share, 5),
            "bounds": self.bounds,
            "duty": round(self.duty, 4),
            "processes": {name: asdict(load) for name, load in self.processes.items()},
            "clients": {
                "processes": self.clients,
                "cores": round(self.client_cores, 4),
                "lag": None if self.client_lag is None else self.client_lag.to_dict(),
            },
            "others_share": self.others_share,
            "ledger": {**self.verdict.counts(), "faults": self.verdict.faults},
        }


def sum_up(
    sessions: int,
    watchers: int,
    counted: tuple[float, float],
    clients: Sequence[ClientReport],
    stack: StackReport,
) -> StepResult:
    """counted: from when to when, seconds from the run's start, questions that are due count."""
    from_s, until_s = counted
    length_s = until_s - from_s
    every = [exchange for client in clients for exchange in client.exchanges]
    exchanges = [exchange for exchange in every if exchange.due_s >= from_s]
    lines = [line for client in clients for line in client.lines]
    playouts = [playout for client in clients for playout in client.playouts]
    outcomes: dict[str, int] = {}
    for exchange in exchanges:
        outcomes[exchange.outcome] = outcomes.get(exchange.outcome, 0) + 1
    return StepResult(
        sessions,
        watchers,
        length_s,
        len(clients),
        _summaries(exchanges, playouts),
        outcomes,
        [reason for client in clients for reason in client.refused],
        [wait for client in clients for wait in client.waits],
        [one for client in clients for one in client.breaks if from_s <= one.at_s < until_s],
        [reason for client in clients for reason in client.lost],
        list(stack.kills),
        _added(playouts),
        round(stack.counters.get("gateway_voice_underruns_total", 0.0)),
        _bounds(stack.counters),
        _duty(every, sessions, from_s, until_s),
        dict(stack.processes),
        sum(client.cpu_s for client in clients) / length_s if length_s else 0.0,
        summarise(lag for client in clients for lag in client.lags_s),
        stack.others_share,
        judge(lines),
        exchanges,
        lines,
    )


def _summaries(
    exchanges: Sequence[Exchange], playouts: Sequence[PlayoutFigures]
) -> dict[str, Summary | None]:
    found = {
        name: summarise(exchange.figures.get(name) for exchange in exchanges)
        for name in (*CLIENT_FIGURES, *STAGE_FIGURES)
    }
    return found | {PICTURE_BEHIND: summarise(b for p in playouts for b in p.behind_s)}


def _added(playouts: Iterable[PlayoutFigures]) -> PlayoutFigures:
    total = PlayoutFigures()
    for playout in playouts:
        total.underruns += playout.underruns
        total.gap_s += playout.gap_s
        total.frames += playout.frames
        total.late_frames += playout.late_frames
        total.missing_frames += playout.missing_frames
        total.lost_gaps += playout.lost_gaps
        total.lost_gap_s += playout.lost_gap_s
        total.lost_frames += playout.lost_frames
    total.lost_gap_s = round(total.lost_gap_s, 4)
    total.gap_s = round(total.gap_s, 4)
    return total


def _bounds(counters: Mapping[str, float]) -> dict[str, float]:
    known = {name: bucket_quantile(counters, metric, 0.95) for name, metric in _BOUNDS.items()}
    return {name: bound for name, bound in known.items() if bound is not None}


def _duty(exchanges: Iterable[Exchange], sessions: int, from_s: float, until_s: float) -> float:
    """Of the counted time of all visitors, the share between a question's beginning and its
    answer's end."""
    talked_s = 0.0
    for exchange in exchanges:
        if exchange.asked_s is not None and exchange.ended_s is not None:
            talked_s += max(0.0, min(exchange.ended_s, until_s) - max(exchange.asked_s, from_s))
    available_s = sessions * (until_s - from_s)
    return talked_s / available_s if available_s > 0 else 0.0
