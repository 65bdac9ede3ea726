"""A stack of our own, and visitors who talk to it: those of `visavis bench load`."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from visavis.tools.bench.load.client import Orders
from visavis.tools.bench.load.fleet import clients
from visavis.tools.bench.load.schedule import Habits, LoadPlan
from visavis.tools.bench.load.steps import stack_flags
from visavis.tools.bench.questions import ready_set
from visavis.tools.bench.visitor.visitor import Transport
from visavis.tools.cli.up import stack_arguments
from visavis.tools.stack.supervisor import Stack, StackOptions
from visavis.wire.clock import MonotonicClock

PROFILE = "tiny"
_LEAD_S = 0.5
# Longer than any run: whoever wants the visitors ends them.
_STAY_S = 3600.0
# Short answers, so that there are many of them in a short while.
_CONFIG = "[llm]\nmax_tokens = 12\n[gateway]\nanswers = {answers}\n{more}"
KNOWN_QUESTION = "When are you open?"
_KNOWN_ANSWER = "We are open from nine to five, Monday to Friday."
_WELCOME = {"language": "en", "text": "Hello, and welcome to the museum."}


@dataclass(frozen=True)
class Crowd:
    """Visitors who ask at random times, as docs/load.md says."""

    visitors: int = 2
    interval_s: float = 6.0
    """Mean time from one visitor's question to his next."""
    visit_s: float = 0.0
    """They leave after about so long and others come, through the line; 0: they stay."""
    spoken_share: float = 0.7
    """Of the questions; the others are typed."""
    interrupt_share: float = 0.0
    """Of the questions that are due while an answer is spoken, those asked into it."""
    transport: Transport = "websocket"
    watchers: int = 0
    """Others who watch a session of their own without a word."""
    seed: int = 0


def spoken_questions(console: Console) -> Path:
    """The folder of what visitors say; made once. Not from within an event loop."""
    return ready_set("questions", PROFILE, console).resolve()


@contextlib.asynccontextmanager
async def own_stack(
    folder: Path,
    slots: int,
    replicas: dict[str, int] | None = None,
    known: Sequence[str] = (KNOWN_QUESTION,),
    more: str = "",
    sessions: int = 0,
) -> AsyncIterator[Stack]:
    """`visavis up` in this process, on a free port, with so many slots of each service.

    known: questions that are answered without the language model. more: of visavis.toml, from the
    gateway's settings on. sessions: that each gateway takes; 0: as many as there are slots.
    Raises VisavisError where it does not become ready.
    """
    known_answer = {"language": "en", "questions": list(known), "answer": _KNOWN_ANSWER}
    told = {"answers": [known_answer], "welcome": [_WELCOME]}
    answers, config = folder / "answers.json", folder / "visavis.toml"
    answers.write_text(json.dumps(told), encoding="utf-8")
    config.write_text(_CONFIG.format(answers=json.dumps(str(answers)), more=more), encoding="utf-8")
    arguments = stack_arguments(PROFILE, config)
    for name, flags in stack_flags(slots).items():
        arguments[name] += flags
    if sessions:
        arguments["gateway"] += ["--max-sessions", str(sessions)]
    options = StackOptions(log_dir=folder / "logs", arguments=arguments, replicas=replicas or {})
    async with Stack(options) as stack:
        yield stack


@contextlib.asynccontextmanager
async def visiting(url: str, crowd: Crowd, clips: Path, folder: Path) -> AsyncIterator[None]:
    """The crowd, in a process of its own, for as long as the context lasts."""
    # A duty of 1 makes `turn_s` the interval.
    habits = Habits(
        duty=1.0,
        turn_s=crowd.interval_s,
        spoken_share=crowd.spoken_share,
        interrupt_share=crowd.interrupt_share,
        seed=crowd.seed,
    )
    plan = LoadPlan(
        habits,
        str(clips),
        warmup_s=0.0,
        drain_s=0.0,
        visit_s=crowd.visit_s,
        transport=crowd.transport,
    )
    numbers = list(range(crowd.visitors + crowd.watchers))
    orders = Orders(
        url, "", plan, numbers[: crowd.visitors], numbers[crowd.visitors :], length_s=_STAY_S
    )
    async with clients([orders], folder) as fleet:
        start_s = MonotonicClock().now() + _LEAD_S
        for client in fleet:
            await client.tell(json.dumps({"start_s": start_s}))
        yield
