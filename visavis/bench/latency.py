"""The latency benchmark: every clip is a question; each answer's figures are measured."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field

import psutil

from visavis.bench.clips import Clip
from visavis.bench.counters import Scraper, rise
from visavis.bench.media import MediaEndedError
from visavis.bench.processes import MachineTime, Processes, share_of_others
from visavis.bench.trace import Trace
from visavis.bench.turn_figures import TurnFigures, measure
from visavis.bench.visitor import Transport, Visitor, visit
from visavis.client import GatewayClient
from visavis.clock import MonotonicClock

_ANSWER_TIMEOUT_S = 30.0
_PAUSE_S = 0.5
_BUSY_SHARE = 0.05


@dataclass(frozen=True)
class LatencyPlan:
    """turns_per_session: then a new session begins, with a turn that is not counted.
    listen_s: an answer is interrupted after so long; 0: it is heard to its end."""

    turns_per_session: int = 10
    listen_s: float = 4.0
    transport: Transport = "websocket"


@dataclass
class LatencyRun:
    """What came of a run, turn by turn."""

    turns: list[TurnFigures] = field(default_factory=list)
    counters: dict[str, float] = field(default_factory=dict)
    """What the stack's counters rose by during all counted turns."""
    notes: list[str] = field(default_factory=list)
    others_share: float | None = None
    """Of the machine's CPU time, what went to other work; None: the stack runs elsewhere."""


class LatencyBench:
    """Asks clip after clip. `on_turn` is told of each turn, warm-up turns too."""

    def __init__(
        self,
        client: GatewayClient,
        processes: Processes,
        plan: LatencyPlan,
        on_turn: Callable[[TurnFigures | None], None],
    ) -> None:
        self._client = client
        self._processes = processes
        self._plan = plan
        self._on_turn = on_turn
        self._clock = MonotonicClock()
        self._scraper = Scraper(client)

    async def run(self, clips: Sequence[Clip]) -> LatencyRun:
        """Ask all `clips`, each language in sessions of its own."""
        run = LatencyRun()
        machine, used = MachineTime.now(), self._cpu_s()
        for group in sessions_of(clips, self._plan.turns_per_session):
            try:
                async for turn, counters in self._session(group):
                    run.turns.append(turn)
                    for name, value in counters.items():
                        run.counters[name] = run.counters.get(name, 0.0) + value
            except MediaEndedError as error:
                # What was measured before is kept; the next session may be well.
                run.notes.append(f"a session of {len(group)} questions broke off: {error}")
        run.notes += self._notes()
        share = share_of_others(machine, MachineTime.now(), self._cpu_s() - used)
        if len(self._processes):
            run.others_share = round(share, 4)
        if run.others_share and run.others_share > _BUSY_SHARE:
            run.notes.append(
                f"other work took {run.others_share:.0%} of the machine: all times are too long"
            )
        return run

    def _notes(self) -> list[str]:
        notes = []
        if self._scraper.unreachable:
            missing = ", ".join(sorted(self._scraper.unreachable))
            notes.append(f"metrics of {missing} could not be reached: their figures are empty")
        if not len(self._processes):
            notes.append("the stack runs on another machine: no CPU time, no memory")
        return notes

    def _cpu_s(self) -> float:
        own = psutil.Process().cpu_times()
        return self._processes.usage().cpu_s + own.user + own.system

    async def _session(
        self, clips: Sequence[Clip]
    ) -> AsyncIterator[tuple[TurnFigures, dict[str, float]]]:
        language, transport = clips[0].language, self._plan.transport
        visiting = visit(self._client, self._clock, transport=transport, language=language)
        async with visiting as visitor:
            # Warm-up, not counted: the last one, so that no question is asked twice in a row.
            await self._ask(visitor, clips[-1])
            self._on_turn(None)
            for clip in clips:
                turn, counters = await self._ask(visitor, clip)
                self._on_turn(turn)
                yield turn, counters

    async def _ask(self, visitor: Visitor, clip: Clip) -> tuple[TurnFigures, dict[str, float]]:
        before = await self._scraper.read()
        used = self._processes.usage()
        await visitor.say(clip)
        trace = visitor.trace
        over = await visitor.until(lambda: answered(trace, self._plan.listen_s), _ANSWER_TIMEOUT_S)
        if not over or not ended(trace):
            await visitor.hush()
        usage = self._processes.usage()
        counters = rise(before, await self._scraper.read())
        turns = trace.opened_turns()
        record = await visitor.record(turns[-1]) if turns else {}
        turn = measure(clip, trace, record, counters)
        if len(self._processes):
            turn.figures["cpu_s"] = round(usage.cpu_s - used.cpu_s, 3)
            turn.figures["memory_bytes"] = float(usage.memory_bytes)
        await visitor.pause(_PAUSE_S)
        return turn, counters


def answered(trace: Trace, listen_s: float) -> bool:
    """Whether the answer to all that was said is over, or has been heard for long enough."""
    if ended(trace):
        return True
    first = next(trace.audible(trace.speech_end_s), None)
    latest = trace.sounds[-1].at_s if trace.sounds else 0.0
    return bool(listen_s) and first is not None and latest - first.at_s >= listen_s


def ended(trace: Trace) -> bool:
    """Whether the newest turn is over and nothing said is still waiting for an answer."""
    return bool(trace.opened_turns()) and not trace.pending()


def sessions_of(clips: Sequence[Clip], turns: int) -> Iterator[list[Clip]]:
    """Groups of one language and at most `turns` clips, in order."""
    ordered = sorted(clips, key=lambda clip: clip.language)
    for _language, group in itertools.groupby(ordered, key=lambda clip: clip.language):
        alike = list(group)
        size = turns or len(alike)
        yield from (alike[i : i + size] for i in range(0, len(alike), size))
