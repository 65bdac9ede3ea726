"""`visavis bench simulate`: more visitors than this machine could serve, by devices that wait."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any, TypeAlias, TypeVar

import typer
from rich.console import Console
from rich.text import Text

from visavis.serving.errors import InvalidInputError, VisavisError
from visavis.tools.bench.benchmark import Json
from visavis.tools.bench.figures.report import report
from visavis.tools.bench.figures.tables import Steps
from visavis.tools.bench.load.command import (
    Carrier,
    Duration,
    Duty,
    HowTheyArrive,
    IdleWatchers,
    InterruptShare,
    Seed,
    SpokenShare,
    VisitorsPerClient,
    Warmup,
)
from visavis.tools.bench.load.schedule import Habits, LoadPlan
from visavis.tools.bench.simulate.pages import (
    carried_table,
    cost_table,
    devices_table,
    efficiency_table,
    likeness_table,
    name_of,
    visitors_table,
)
from visavis.tools.bench.simulate.plan import SimulationPlan, StageTimes
from visavis.tools.bench.simulate.results import (
    SESSIONS,
    SimulatedStep,
    carried_on,
    efficiencies,
    likenesses,
)
from visavis.tools.bench.simulate.run import Simulation, StepPlan, step_plans
from visavis.tools.bench.simulate.words import ANSWER_SPAN, MOST_VISITORS
from visavis.tools.output import check_output, write_json
from visavis.tools.shown import output_console
from visavis.tools.stack.process import log_dir

N = TypeVar("N", int, float)

_TIMES = StageTimes()
_SHOWN_FAULTS = 5

Sessions: TypeAlias = Annotated[
    str,
    typer.Option(
        help="Visitors at once, a number for each step, such as 4,8,16; 0: none but the watchers."
    ),
]
Replicas: TypeAlias = Annotated[
    str,
    typer.Option(help="Of each service, with a device each: a number for each step, or for all."),
]
Dilation: TypeAlias = Annotated[
    str,
    typer.Option(
        help="How many seconds a simulated one takes, for each step or for all; 1: real time. "
        "On two cores of one's own about a sixth of the number of visitors."
    ),
]
AnswerWords: TypeAlias = Annotated[
    int,
    typer.Option(min=4, max=ANSWER_SPAN - 1, help="Words of an answer, a token each, on average."),
]
Drain: TypeAlias = Annotated[
    float, typer.Option(min=1, help="How long answers are heard out after the counted time.")
]
TurnSeconds: TypeAlias = Annotated[
    float, typer.Option(min=0.1, help="How long a question and its answer are taken to last.")
]
AsrMs: TypeAlias = Annotated[
    float, typer.Option(min=0.1, help="To understand a second of sound, milliseconds.")
]
TokenMs: TypeAlias = Annotated[float, typer.Option(min=0.1, help="For a token, milliseconds.")]
PhraseMs: TypeAlias = Annotated[float, typer.Option(min=0.1, help="For a phrase, milliseconds.")]
FrameMs: TypeAlias = Annotated[float, typer.Option(min=0.1, help="For a picture, milliseconds.")]
Batches: TypeAlias = Annotated[
    str,
    typer.Option(
        help="Requests in a run and how long it takes, in any unit: their relation counts, and no "
        "run is larger than the last. 1:1 for a device that shares nothing."
    ),
]


def simulate(
    sessions: Sessions = "8",
    replicas: Replicas = "1",
    dilation: Dilation = "8",
    duty: Duty = 0.4,
    turn_s: TurnSeconds = 5.2,
    arrivals: HowTheyArrive = "poisson",
    spoken_share: SpokenShare = 0.7,
    interrupt_share: InterruptShare = 0.0,
    idle_watchers: IdleWatchers = 0,
    duration_s: Duration = 30.0,
    warmup_s: Warmup = 8.0,
    drain_s: Drain = 15.0,
    seed: Seed = 0,
    visitors_per_client: VisitorsPerClient = 16,
    transport: Carrier = "websocket",
    answer_words: AnswerWords = 12,
    asr_ms: AsrMs = 1000 * _TIMES.asr_s_per_s,
    token_ms: TokenMs = 1000 * _TIMES.token_s,
    phrase_ms: PhraseMs = 1000 * _TIMES.phrase_s,
    frame_ms: FrameMs = 1000 * _TIMES.frame_s,
    batches: Batches = "1:280,4:320,8:350",
    json_path: Json = None,
) -> None:
    """Have more visitors talk than this machine could serve, above devices that only take time.

    Services, bus, gateway and visitors are the real ones, in processes of their own; behind the
    services stand devices that compute nothing and are occupied for as long as a GPU would be. All
    clocks go slower, so that a few cores do the work of many. Every word of every answer is read
    from the sound that its visitor received.

        visavis bench simulate --sessions 50 --replicas 4 --dilation 12 --json simulated.json

        visavis bench simulate --sessions 3,3 --dilation 1,4       # dilated beside real time

    Steps in which devices, visitors or the gateway were late for their own appointments are not
    valid: the command says so and ends with status 1. Dilate more, or use a quieter machine.
    docs/simulation.md defines all of it.
    """
    check_output(json_path, ".json")
    times = StageTimes(
        asr_ms / 1000, token_ms / 1000, phrase_ms / 1000, frame_ms / 1000, batches_of(batches)
    )
    plans = step_plans(
        numbers_of("sessions", sessions, int, least=0),
        numbers_of("replicas", replicas, int),
        numbers_of("dilation", dilation, float),
        lambda slower: SimulationPlan(slower, times, answer_words),
    )
    if max(plan.visitors for plan in plans) > MOST_VISITORS:
        raise InvalidInputError(f"--sessions: at most {MOST_VISITORS} visitors have a tone each")
    habits = Habits(duty, turn_s, arrivals, spoken_share, 0.0, interrupt_share, seed)
    load = LoadPlan(
        habits,
        "",
        "en",
        idle_watchers,
        warmup_s,
        duration_s,
        questions=0,
        drain_s=drain_s,
        visitors_per_client=visitors_per_client,
        transport=transport,
    )
    console = output_console(highlight=False)
    done = _run(plans, load, console)
    _print(console, done)
    if json_path is not None:
        write_json(json_path, _told(done, load))
        console.print(Text(f"Figures: {json_path}"))
    if any(step.doubts() for step in done):
        raise VisavisError("not every step is valid: see the notes")


def _run(plans: Sequence[StepPlan], load: LoadPlan, console: Console) -> list[SimulatedStep]:
    done: list[SimulatedStep] = []
    with Steps(console, len(plans), "the first stack starts") as steps:
        simulation = Simulation(load, log_dir() / "simulate", steps.tell)
        for plan in plans:
            done.append(simulation.step(plan))
            wrong = done[-1].doubts() or done[-1].shortfalls()
            steps.done(f"{name_of(done[-1])}: {'; '.join(wrong) or 'well'}")
    return done


def numbers_of(option: str, text: str, kind: type[N], least: int = 1) -> list[N]:
    """The numbers of a list with commas between, from `least` on. Raises InvalidInputError."""
    try:
        found = [kind(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or not all(least <= number < math.inf for number in found):
        raise InvalidInputError(f"--{option}: {text!r}; write numbers from {least} on, such as 4,8")
    return found


def batches_of(text: str) -> tuple[tuple[int, float], ...]:
    """Raises InvalidInputError for what is no rising list of sizes from 1 on."""
    try:
        pairs = [part.split(":") for part in text.split(",")]
        found = tuple((int(size), float(length)) for size, length in pairs)
    except ValueError:
        found = ()
    rising = list(found) == sorted(found) and len({size for size, _ in found}) == len(found)
    times = [length for _, length in found]
    if not found or found[0][0] != 1 or not rising or times != sorted(times) or times[0] <= 0:
        raise InvalidInputError(f"--batches: {text!r}; write it like 1:280,4:320,8:350")
    return found


def _print(console: Console, done: Sequence[SimulatedStep]) -> None:
    for table in (visitors_table, devices_table, cost_table):
        console.print(table(done))
    if scaled := efficiencies(done):
        console.print(efficiency_table(scaled))
    if alike := likenesses(done):
        console.print(likeness_table(alike))
    largest = max(done, key=lambda step: step.load.sessions)
    if (carried := carried_on(largest)) is not None:
        console.print(carried_table(carried))
    for step in done:
        for fault in step.heard.faults[:_SHOWN_FAULTS]:
            console.print(Text(f"Fault, {name_of(step)}: {fault}", "red"))
        for wrong in step.shortfalls():
            console.print(Text(f"Note, {name_of(step)}: {wrong}", "yellow"))
        for doubt in step.doubts():
            console.print(Text(f"Not valid, {name_of(step)}: {doubt}", "red"))


def _told(done: Sequence[SimulatedStep], load: LoadPlan) -> dict[str, Any]:
    settings = {**asdict(load), "simulation": asdict(done[0].plan)}
    told = report("simulate", [], counts={}, turns=[], settings=settings)
    largest = max(done, key=lambda step: step.load.sessions)
    carried = carried_on(largest)
    return told | {
        "simulated_steps": [step.to_dict() for step in done],
        "simulated_efficiency": [asdict(one) for one in efficiencies(done)],
        "dilated_beside_real": [asdict(one) | {"alike": one.alike} for one in likenesses(done)],
        f"carried_on_to_{SESSIONS}": None if carried is None else asdict(carried),
    }
