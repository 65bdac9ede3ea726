"""`visavis bench load`: more and more visitors at once, until it shows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import typer
from rich.text import Text

from visavis.client import GatewayClient
from visavis.serving.errors import InvalidInputError, VisavisError
from visavis.serving.settings import SERVICES
from visavis.tools.bench.benchmark import (
    DEFAULT_URL,
    Benchmark,
    Clips,
    Config,
    Json,
    Profile,
    Url,
)
from visavis.tools.bench.figures.processes import find_named_processes
from visavis.tools.bench.figures.report import machine_kind, models_of, report
from visavis.tools.bench.figures.tables import Steps
from visavis.tools.bench.load.guest import clips_of
from visavis.tools.bench.load.killer import find_victims, kinds_of
from visavis.tools.bench.load.knee import (
    JUDGED,
    Knee,
    Limits,
    find_knee,
    lone_of,
    next_sessions,
    not_judged,
    troubles,
)
from visavis.tools.bench.load.pages import (
    deadlines_table,
    draw_load,
    knee_sentence,
    processes_table,
    stages_table,
    visitors_table,
)
from visavis.tools.bench.load.playout import BUDGET_S
from visavis.tools.bench.load.results import StepResult
from visavis.tools.bench.load.schedule import Arrivals, Habits, LoadPlan
from visavis.tools.bench.load.steps import LoadBench, stack_flags
from visavis.tools.bench.questions import ready_set
from visavis.tools.bench.visitor.clips import Clip
from visavis.tools.bench.visitor.idle_life import draw_idle_life
from visavis.tools.bench.visitor.visitor import Transport
from visavis.tools.cli.running_gateway import ApiKey
from visavis.tools.cli.up import Replicas, replica_counts
from visavis.tools.output import check_output, write_json, write_output
from visavis.tools.stack.process import log_dir

AUTO = "auto"
LIMITS = Limits()
_FEW = 20
_SHOWN_FAULTS = 5
_BUSY_SHARE = 0.05
# The processes of visitors keep appointments 20 ms apart; sound comes every 21 ms.
_LATE_CLIENT_S = 0.02


# ------------------------------------------------------------ the options

Sessions: TypeAlias = Annotated[
    str,
    typer.Option(
        help="Visitors at once, step by step, such as 1,2,4,8; auto: doubled, then halved "
        "between, until the knee is found. A lone visitor always goes first, unless they come "
        "and go (--visit-s)."
    ),
]
Most: TypeAlias = Annotated[
    int, typer.Option(min=1, max=1000, help="The most visitors that `auto` tries.")
]
Duty: TypeAlias = Annotated[
    float,
    typer.Option(min=0.01, max=1, help="Share of the time in which a visitor asks or is answered."),
]
TurnSeconds: TypeAlias = Annotated[
    float,
    typer.Option(
        min=0.1,
        help="How long a question and its answer are taken to last. Questions come every "
        "turn-s / duty seconds on average; the duty that came of it is in the table.",
    ),
]
HowTheyArrive: TypeAlias = Annotated[
    Arrivals,
    typer.Option(
        help="poisson: at random; even: at equal distances; together: all visitors ask the same "
        "at the same time, and a table tells how long each stage let them wait."
    ),
]
SpokenShare: TypeAlias = Annotated[
    float, typer.Option(min=0, max=1, help="Of the questions; the others are typed.")
]
LongShare: TypeAlias = Annotated[
    float, typer.Option(min=0, max=1, help="Of the questions, those with long answers.")
]
InterruptShare: TypeAlias = Annotated[
    float,
    typer.Option(
        min=0,
        max=1,
        help="Of the questions that are due while an answer is being spoken, those that are "
        "asked into it; the others wait for its end.",
    ),
]
IdleWatchers: TypeAlias = Annotated[
    int, typer.Option(min=0, help="So many more sessions are watched without a word.")
]
Avatars: TypeAlias = Annotated[
    str,
    typer.Option(
        help="Whom the visitors see, by turns, such as ada,ben,cleo; empty: all see the default "
        "avatar. Each has idle life of its own, which is drawn when it is first seen."
    ),
]
Duration: TypeAlias = Annotated[
    float, typer.Option(min=1, help="How long a step is counted, at least.")
]
Questions: TypeAlias = Annotated[
    int,
    typer.Option(
        min=0,
        help="A step lasts longer where its visitors would ask fewer than so many by then: a P95 "
        "of three answers says nothing. 0: it never does.",
    ),
]
Warmup: TypeAlias = Annotated[
    float, typer.Option(min=0, help="Questions of a step's first seconds do not count.")
]
Seed: TypeAlias = Annotated[int, typer.Option(min=0, help="Of all schedules.")]
VisitorsPerClient: TypeAlias = Annotated[
    int, typer.Option(min=1, help="Visitors and watchers in one process.")
]
Carrier: TypeAlias = Annotated[
    Transport,
    typer.Option(
        help="websocket: live mp4, whose pictures are judged too; webrtc: as the page, packets "
        "timed as they come in, pictures not judged."
    ),
]
Slots: TypeAlias = Annotated[
    int,
    typer.Option(
        min=0,
        help="Sessions that each service of a stack that is started takes at once. 0: as many as "
        "the largest step needs, or what --config says.",
    ),
]
Visit: TypeAlias = Annotated[
    float,
    typer.Option(
        min=0,
        help="Visitors leave after so long on average and others come, through the queue where "
        "there is no room: how long they were told to wait is held against how long they did. Each "
        "visit's length is drawn lognormally about that mean, with a standard deviation of 0.4 of "
        "the logarithm. 0: all are there from the first to the last.",
    ),
]
KillWhat: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="KIND,…",
        help="While a step is counted one process after the other of these kinds is killed "
        "(SIGKILL), such as tts,llm,gateway,nats: of several the one that has run longest, so "
        "that each has its turn. Only what runs on this machine; visitors come back as apps do.",
    ),
]
KillEvery: TypeAlias = Annotated[
    float, typer.Option(min=0.5, help="From one of these kills to the next.")
]
WhoIsLetIn: TypeAlias = Annotated[
    Literal["slots", "predicted"],
    typer.Option(
        help="In a stack that is started. slots: every visitor, so that the knee can be found; "
        "predicted: as many as the services think that deadlines hold for.",
    ),
]
Chart: TypeAlias = Annotated[
    Path | None,
    typer.Option("--picture", "--chart", help="Draw latency against visitors into this SVG."),
]
Ledger: TypeAlias = Annotated[
    Path | None,
    typer.Option(help="Write every question and every word of an answer here, as JSON lines."),
]


# ------------------------------------------------------------ the command


def load(
    sessions: Sessions = "1,2,4",
    most: Most = 16,
    duty: Duty = 0.4,
    turn_s: TurnSeconds = 10.0,
    arrivals: HowTheyArrive = "poisson",
    spoken_share: SpokenShare = 0.7,
    long_share: LongShare = 0.25,
    interrupt_share: InterruptShare = 0.3,
    idle_watchers: IdleWatchers = 0,
    avatars: Avatars = "",
    duration_s: Duration = 60.0,
    questions: Questions = 20,
    warmup_s: Warmup = 10.0,
    seed: Seed = 0,
    visitors_per_client: VisitorsPerClient = 8,
    slots: Slots = 0,
    admission: WhoIsLetIn = "slots",
    visit_s: Visit = 0.0,
    kill: KillWhat = "",
    kill_every_s: KillEvery = 9.0,
    replicas: Replicas = "",
    transport: Carrier = "websocket",
    clips: Clips = None,
    language: Annotated[str, typer.Option(help="Of the questions: en or zh.")] = "en",
    url: Url = DEFAULT_URL,
    api_key: ApiKey = "",
    profile: Profile = "default",
    config: Config = None,
    json_path: Json = None,
    picture: Chart = None,
    ledger: Ledger = None,
) -> None:
    """Have more and more visitors talk at once, and find out how many are served as one is.

    Each visitor keeps a schedule that was written before: a question whose time has come does
    not wait for the server. Where the last answer still goes on it is asked into it, or right
    after it, and then the silence until it could be asked counts as the server's. Visitors are
    API clients in processes of their own; what they cost is told apart.

        visavis bench load --sessions 1,2,4 --json load.json --picture load.svg

        visavis bench load --url http://gpu-box:8080 --sessions auto --most 64 --idle-watchers 8

        visavis bench load --arrivals together --sessions 1,2,4,8 --spoken-share 1
            --interrupt-share 0

        visavis bench load --sessions 2 --replicas tts=2,llm=2,gateway=2 --kill tts,llm,gateway

    The knee is the most visitors at whom, and below whom, the P95 from when a question's end was
    due to the first sound is at most 1.5 times a lone visitor's, under 1 % of the pictures are
    late or missing, no voice has a gap, nobody is refused, no session is lost and no question
    fails. docs/load.md defines all of it and tells how to read it.
    """
    # Waits in line are held against what was told of them, not against a lone visitor's.
    wanted = steps_of(sessions, lone=not visit_s)
    kinds, counts = kinds_of(kill), replica_counts(replicas)
    check_output(ledger, ".jsonl")
    needed = (most if wanted is None else max(wanted)) + idle_watchers
    flags = stack_flags(slots or (0 if config else needed), admission)
    bench = Benchmark("load", json_path, picture, url, api_key, profile, config, flags, counts)
    folder = (clips or ready_set("questions", profile, bench.console)).resolve()
    first = clips_of(folder, language)[0]
    habits = Habits(duty, turn_s, arrivals, spoken_share, long_share, interrupt_share, seed)
    plan = LoadPlan(
        habits,
        str(folder),
        language,
        idle_watchers,
        warmup_s,
        duration_s,
        questions,
        visitors_per_client=visitors_per_client,
        visit_s=visit_s,
        transport=transport,
        avatars=[name.strip() for name in avatars.split(",") if name.strip()],
        kill=kinds,
        kill_every_s=kill_every_s,
    )
    outcome = _run(bench, plan, wanted, most, first)
    _print(bench, outcome, together=arrivals == "together")
    _write(bench, outcome, plan)
    if ledger is not None:
        write_output(ledger, "".join(_ledger_lines(outcome.steps)))
        bench.console.print(Text(f"Ledger: {ledger}"))


@dataclass
class _Outcome:
    """What came of a run. steps: by number of visitors."""

    steps: list[StepResult]
    knee: Knee
    notes: list[str]


def _run(
    bench: Benchmark, plan: LoadPlan, wanted: Sequence[int] | None, most: int, first: Clip
) -> _Outcome:
    """wanted: the steps; None: up to `most`, until the knee is found. first: asked before all."""
    notes: list[str] = []

    async def climb(client: GatewayClient, steps: Steps) -> list[StepResult]:
        await _check_victims(client, plan.kill)
        services = [(s["address"], s["service"]) for s in bench.services]
        processes = find_named_processes(client.url, services)
        runner = LoadBench(client, processes, plan, log_dir() / "bench", steps.tell)
        done: list[StepResult] = []
        notes.extend(await draw_idle_life(client, first, plan.transport, tell=steps.tell))
        for visitors in _climb(wanted, most, done):
            try:
                done.append(await runner.step(visitors))
            except VisavisError as error:
                if not done:
                    raise
                # What was measured before is kept.
                notes.append(f"at {visitors}: the step broke off: {error}")
                break
            steps.done(_line(done[-1], done))
        notes.extend(_notes_on(bench.services, done, runner.unreachable, bool(processes)))
        return done

    count = len(wanted) if wanted is not None else most_steps(most)
    done = sorted(bench.measure(count, "the visitors come", climb), key=lambda s: s.sessions)
    return _Outcome(done, find_knee(done, LIMITS), [*notes, *not_judged(done)])


async def _check_victims(client: GatewayClient, kinds: Sequence[str]) -> None:
    """Raises InvalidInputError where some of these could not be killed."""
    found = await find_victims(client) if kinds else {}
    if missing := [kind for kind in kinds if not found.get(kind)]:
        raise InvalidInputError(f"--kill: {', '.join(missing)}: not on this machine, or not yours")


# ------------------------------------------------------------ which steps


def steps_of(sessions: str, *, lone: bool = True) -> list[int] | None:
    """The numbers of visitors; None: they are to be found. lone: a lone one always among them.

    Raises InvalidInputError."""
    if sessions.strip() == AUTO:
        return None
    try:
        wanted = {int(part) for part in sessions.split(",")}
    except ValueError:
        wanted = set()
    if not wanted or min(wanted) < 1 or max(wanted) > 1000:
        raise InvalidInputError(
            f"--sessions: {sessions!r}; write numbers from 1 to 1000 with commas between, such as "
            f"1,2,4, or {AUTO}"
        )
    return sorted(wanted | {1} if lone else wanted)


def most_steps(most: int) -> int:
    """How many steps `auto` takes at most, about."""
    return 2 * max(1, most).bit_length()


def _climb(wanted: Sequence[int] | None, most: int, done: Sequence[StepResult]) -> Iterator[int]:
    """Numbers of visitors, each once what came before is in `done`."""
    if wanted is not None:
        yield from wanted
        return
    while True:
        lone = lone_of(done) if done else None
        within = {step.sessions: not troubles(step, lone or step, LIMITS) for step in done}
        following = next_sessions(within, most)
        if following is None:
            return
        yield following


# ------------------------------------------------------------ what is told


def _line(step: StepResult, done: Sequence[StepResult]) -> str:
    wrong = troubles(step, lone_of(done), LIMITS)
    latencies = [
        f"{figure.removesuffix('_due').replace('_', ' ')} P95 {seconds:.2f} s"
        for figure in JUDGED
        if (seconds := step.p95(figure)) is not None
    ]
    told = "; ".join(wrong) if wrong else "within the limits"
    return f"{step.sessions}: {', '.join(latencies) or 'no answer'}; {told}"


def _notes_on(
    services: Sequence[Mapping[str, Any]],
    done: Sequence[StepResult],
    unreachable: set[str],
    local: bool,
) -> list[str]:
    """What a reader must know before he believes the figures."""
    notes = []
    people = max(step.sessions + step.watchers for step in done)
    for name in SERVICES:
        slots = sum(int(s["slots"]) for s in services if s["service"] == name)
        if slots < people:
            notes.append(f"{name} takes {slots} sessions at once: of {people}, the rest is refused")
    if unreachable:
        notes.append(f"metrics of {', '.join(sorted(unreachable))} could not be reached")
    if not local:
        notes.append("the stack runs on another machine: no CPU time, no memory of its processes")
    if any(step.kills for step in done):
        notes.append(
            "what a killed process had counted went with it: what was not made in time, and what "
            "leaves apart, is too low; what took its place counts as other work"
        )
    for step in done:
        notes += _notes_on_step(step)
    return notes


def _notes_on_step(step: StepResult) -> list[str]:
    notes = []
    few = [f for f in JUDGED if (s := step.summaries.get(f)) is not None and s.count < _FEW]
    if few:
        notes.append(
            f"at {step.sessions}: fewer than {_FEW} answers behind {', '.join(few)}: their "
            "P95 is about the largest; a longer --duration-s tells more"
        )
    lag = step.client_lag
    if lag is not None and lag.p95 > _LATE_CLIENT_S:
        notes.append(
            f"at {step.sessions}: the visitors' own processes were late by "
            f"{1000 * lag.p95:.0f} ms (P95): times are too long by up to so much; "
            "run them on another machine (--url), or fewer in a process"
        )
    elif lag is not None and lag.max > BUDGET_S and step.playout.underruns:
        notes.append(
            f"at {step.sessions}: the visitors' own processes were held up for up to "
            f"{1000 * lag.max:.0f} ms, and players have {1000 * BUDGET_S:.0f} in reserve: what "
            "came late to visitors may be theirs"
        )
    if step.others_share and step.others_share > _BUSY_SHARE:
        notes.append(f"at {step.sessions}: other work took {step.others_share:.0%} of the machine")
    return notes


def _print(bench: Benchmark, outcome: _Outcome, *, together: bool) -> None:
    console = bench.console
    if together:
        console.print(deadlines_table(outcome.steps))
    for table in (visitors_table, stages_table, processes_table):
        console.print(table(outcome.steps))
    for step in outcome.steps:
        verdict = step.verdict
        console.print(
            Text(
                f"Ledger at {step.sessions}: {verdict.questions} questions; {verdict.exact} of "
                f"{verdict.typed} typed ones told back exactly, {verdict.answers} of "
                f"{verdict.finished} finished answers told exactly, {verdict.with_code} answers "
                f"that say their code word; words of another {len(verdict.foreign)}, lost "
                f"{len(verdict.lost)}, doubled {len(verdict.doubled)}"
            )
        )
        for fault in verdict.faults[:_SHOWN_FAULTS]:
            console.print(Text(f"  {fault}", "red"))
    for note in outcome.notes:
        console.print(Text(f"Note: {note}", "yellow"))
    console.print(Text(f"Machine: {machine_kind()}"))
    console.print(Text(knee_sentence(outcome.knee), "bold"))


def _write(bench: Benchmark, outcome: _Outcome, plan: LoadPlan) -> None:
    if bench.json_path is not None:
        told = report(
            "load",
            [],
            counts={"knee": outcome.knee.sessions},
            turns=[{"step": s.sessions, **x.to_dict()} for s in outcome.steps for x in s.exchanges],
            settings={**asdict(plan), "clips": Path(plan.clips).name, "limits": asdict(LIMITS)},
            notes=outcome.notes,
            models=models_of(bench.services),
        )
        steps = [step.to_dict() for step in outcome.steps]
        write_json(bench.json_path, told | {"knee": outcome.knee.to_dict(), "steps": steps})
        bench.console.print(Text(f"Figures: {bench.json_path}"))
    if bench.picture is not None:
        drawn = draw_load("Latency against visitors", outcome.steps, outcome.knee, LIMITS)
        write_output(bench.picture, drawn)
        bench.console.print(Text(f"Picture: {bench.picture}"))


def _ledger_lines(done: Sequence[StepResult]) -> Iterator[str]:
    for step in done:
        for line in sorted(step.lines, key=lambda entry: entry.at_s):
            entry = {"step": step.sessions, **line.to_dict()}
            yield json.dumps(entry, ensure_ascii=False) + "\n"
