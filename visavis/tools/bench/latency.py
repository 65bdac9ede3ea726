"""`visavis bench latency`: every clip is a question; each answer's figures are measured."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import psutil
import typer

from visavis.client import GatewayClient
from visavis.serving.admission.probes import MachineTime
from visavis.tools.bench.benchmark import (
    DEFAULT_URL,
    Benchmark,
    Clips,
    Config,
    Count,
    Json,
    Language,
    Picture,
    Profile,
    TransportOption,
    Url,
)
from visavis.tools.bench.figures.counters import Scraper, rise
from visavis.tools.bench.figures.hidden import rows_of_parts
from visavis.tools.bench.figures.processes import (
    Processes,
    find_processes,
    share_of_others,
)
from visavis.tools.bench.figures.report import Row, machine_kind, rows_of
from visavis.tools.bench.figures.tables import Steps, figures_table, parts_table
from visavis.tools.bench.figures.turn_figures import (
    TurnFigures,
    groups_of,
    headline,
    measure,
    standing,
)
from visavis.tools.bench.held_out import measured_clips
from visavis.tools.bench.visitor.clips import TUNED, Clip
from visavis.tools.bench.visitor.idle_life import draw_idle_life
from visavis.tools.bench.visitor.media import MediaEndedError
from visavis.tools.bench.visitor.trace import Trace
from visavis.tools.bench.visitor.visitor import Drawer, Transport, Visitor, visit
from visavis.tools.cli.running_gateway import ApiKey
from visavis.wire.clock import MonotonicClock

_ANSWER_TIMEOUT_S = 30.0
_PAUSE_S = 0.5
_BUSY_SHARE = 0.05


@dataclass(frozen=True)
class LatencyPlan:
    """How the questions are asked.

    turns_per_session: then a new session begins, with a turn that is not counted.
    listen_s: an answer is interrupted after so long; 0: it is heard to its end."""

    turns_per_session: int = 10
    listen_s: float = 4.0
    transport: Transport = "websocket"
    drawn_by: Drawer = "server"


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
        visiting = visit(
            self._client,
            self._clock,
            transport=self._plan.transport,
            drawn_by=self._plan.drawn_by,
            language=clips[0].language,
        )
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
    first = next(trace.audible(trace.answer_from_s()), None)
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


# ------------------------------------------------------------ the command

FIGURES = {
    "voice_to_voice": "s",
    "first_sample_leaves": "s",
    "server_voice_to_voice": "s",
    "first_frame": "s",
    "server_first_frame": "s",
    "overhead": "s",
    "end_of_turn": "s",
    "endpoint_wait": "s",
    "recognition": "s",
    "recognition_late": "s",
    "first_token": "s",
    "first_phrase": "s",
    "synthesis": "s",
    "playout_wait": "s",
    "queue": "s",
    "transfer": "s",
    "cpu_s": "CPU s",
    "memory_bytes": "MB",
}
"""Figure -> unit; docs/benchmarks.md defines them."""

SPECULATION = {
    "answers_prepared": "speculation_opened_total",
    "of_them_spoken": "speculation_confirmed_total",
    "of_them_thrown_away": "speculation_discarded_total",
    "prepared_before_the_pause": "speculation_foreseen_total",
    "of_these_spoken": "speculation_lead_seconds_count",
    "seconds_that_these_were_begun_before_the_final_words": "speculation_lead_seconds_sum",
    "wasted_tokens": "speculation_wasted_tokens_total",
    "wasted_voice_s": "speculation_wasted_voice_seconds_total",
}
"""Count -> metric: what speculation cost."""


def latency(
    clips: Clips = None,
    language: Language = "",
    count: Count = 0,
    turns_per_session: Annotated[
        int, typer.Option(min=0, help="Then a new session begins; 0: one for each language.")
    ] = 10,
    listen_s: Annotated[
        float, typer.Option(min=0, help="Interrupt an answer after so long; 0: hear it out.")
    ] = 4.0,
    transport: TransportOption = "webrtc",
    drawn_by: Annotated[
        Drawer,
        typer.Option(
            help="client: a visitor who is sent sound alone; no picture is drawn for him."
        ),
    ] = "server",
    url: Url = DEFAULT_URL,
    api_key: ApiKey = "",
    profile: Profile = "default",
    config: Config = None,
    json_path: Json = None,
    picture: Picture = None,
) -> None:
    """Ask question after question aloud, in real time, and measure each answer.

    First the face draws its idle life, if it has not on this machine: a minute or two. Each session
    begins with a turn that is not counted. Not counted either, but told: answers
    shorter than 0.4 s, answers that began before the question's end, and answers to a part of it.
    First come the figures on questions that nothing was tuned on, and where their time went.
    """
    bench = Benchmark("latency", json_path, picture, url, api_key, profile, config)
    chosen = measured_clips(clips, language, count, profile, bench.console)
    plan = LatencyPlan(turns_per_session, listen_s, transport, drawn_by)

    async def ask_all(client: GatewayClient, steps: Steps) -> LatencyRun:
        processes = find_processes(client.url, [s["address"] for s in bench.services])

        def on_turn(turn: TurnFigures | None) -> None:
            if turn is not None:
                steps.done(_line(turn))

        drawn = await draw_idle_life(client, chosen[-1], transport, drawn_by, tell=steps.tell)
        run = await LatencyBench(client, processes, plan, on_turn).run(chosen)
        run.notes += drawn
        return run

    outcome = bench.measure(len(chosen), "warm-up", ask_all)
    settings = {
        "clips": len(chosen),
        "turns_per_session": turns_per_session,
        "listen_s": listen_s,
        "transport": transport,
        "drawn_by": drawn_by,
        "speech_end": methods(chosen),
    }
    hand_out(bench, outcome, settings)


def hand_out(bench: Benchmark, outcome: LatencyRun, settings: Mapping[str, Any]) -> None:
    """The headline first, then the other sets; what was tuned on stands in the JSON alone."""
    groups = groups_of(outcome.turns)
    first, notes = headline(groups), list(outcome.notes)
    if TUNED in groups:
        tuned = len(groups[TUNED])
        notes.append(f"{tuned} questions that rules were chosen on are in no table")
    told = [(name, turns) for name, turns in groups.items() if name not in (first, TUNED)]
    headlined = [] if first is None else groups[first]
    bench.hand_out(
        "nothing but what was tuned on" if first is None else title(first, headlined),
        rows_of_counted(headlined),
        counts=counts_of(outcome),
        turns=[turn.to_dict() for turn in outcome.turns],
        settings=settings,
        notes=notes,
        groups={name: _told(turns) for name, turns in groups.items() if name != TUNED},
    )
    bench.console.print(parts_table(rows_of_parts(t.went for t in headlined if t.counted)))
    for name, turns in told:
        bench.console.print(figures_table(title(name, turns), rows_of_counted(turns)))


def title(group: str, turns: Sequence[TurnFigures]) -> str:
    """What a latency never stands without."""
    return f"Latency, {group}: {standing(turns)}; {machine_kind()}"


def rows_of_counted(turns: Sequence[TurnFigures]) -> list[Row]:
    return rows_of([turn.figures for turn in turns if turn.counted], FIGURES)


def _told(turns: Sequence[TurnFigures]) -> dict[str, Any]:
    """Of one set, as JSON types."""
    parts = rows_of_parts(turn.went for turn in turns if turn.counted)
    return {
        **standing(turns).to_dict(),
        "figures": {r.name: r.summary.to_dict() for r in rows_of_counted(turns) if r.summary},
        "mean_s_by_part": {row.name: round(mean, 4) for row, mean in parts},
    }


def counts_of(outcome: LatencyRun) -> dict[str, float]:
    """What happened how often."""
    turns = outcome.turns
    counts: dict[str, float] = {
        "asked": len(turns),
        "counted": sum(turn.counted for turn in turns),
        "cut_off": sum(turn.spoke_over for turn in turns),
        "underruns": sum(turn.underruns for turn in turns),
        "answered_from_the_cache": sum(turn.answered_by == "cache" for turn in turns),
    }
    for note, number in Counter(turn.note for turn in turns if turn.note).items():
        counts[f"not counted: {note}"] = number
    for outcome_name in ("finished", "interrupted", "replaced", "discarded", "failed"):
        value = outcome.counters.get(f"gateway_turns_total{{outcome={outcome_name}}}", 0)
        counts[f"turns_{outcome_name}"] = value
    for name, metric in SPECULATION.items():
        counts[name] = round(outcome.counters.get(metric, 0), 2)
    if outcome.others_share is not None:
        counts["share_of_the_machine_for_other_work"] = outcome.others_share
    return counts


def methods(clips: Sequence[Clip]) -> dict[str, int]:
    """How the end of speech is known, and of how many clips."""
    return dict(Counter(clip.span.method for clip in clips))


def _line(turn: TurnFigures) -> str:
    seconds = turn.figures.get("voice_to_voice")
    return f"{turn.clip}: {turn.note or f'{seconds or 0:.3f} s'}"
