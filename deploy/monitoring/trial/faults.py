"""Injects one fault after the other into a running stack, and tells which alerts fire and when.

    python -m deploy.monitoring.trial.faults
    python -m deploy.monitoring.trial.faults --only face --only crowd --keep FOLDER

For each fault: a stack of profile `tiny` with two visitors, a Prometheus with our rules (their
times shortened by --time-scale), a while in which all is well and nothing may fire, then the fault.
Exit status 1: an alert that was to fire did not, or one that was not did, before the fault or
after. In shortened windows a minute in which others want the machine's processor is twenty: the
table tells how much of it they had, and which alerts told of that.

Visitors ask what the answer book knows, so that a machine of two cores has room to spare, except
where the fault is one of the language model.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil
from rich.console import Console

from deploy.monitoring.trial.crowd import (
    KNOWN_QUESTION,
    Crowd,
    own_stack,
    spoken_questions,
    visiting,
)
from deploy.monitoring.trial.injected import (
    crowded,
    frozen,
    killed,
    killed_now_and_then,
    slowed_down,
)
from deploy.monitoring.trial.prometheus import NOTICED_S, Prometheus, own_prometheus
from visavis.serving.admission.probes import MachineTime
from visavis.tools.bench.figures.processes import share_of_others
from visavis.tools.bench.load.guest import clips_of
from visavis.tools.stack.supervisor import Stack

TIME_SCALE = 1 / 20
_LOOK_S = 1.0
_VISITORS = Crowd(visitors=2, interval_s=7.0, spoken_share=1.0)
_SLOTS = 3
"""One more than there are visitors: a full stack is told, too."""


@dataclass(frozen=True)
class Site:
    """Where a fault is injected."""

    stack: Stack
    clips: Path
    folder: Path


@dataclass(frozen=True)
class Fault:
    """What is done to a healthy stack, and the alerts that shall tell of it."""

    name: str
    told: str
    """What is done, for the table."""
    inject: Callable[[Site], Awaitable[None]]
    fires: frozenset[str]
    """`Alert severity`: all of these."""
    may: frozenset[str] = frozenset()
    """And none but these: what comes with it where it happens to hit more."""
    thinking: bool = False
    """The language model is asked."""
    replicas: dict[str, int] = field(default_factory=dict)
    """How many processes of a service there are, where not one."""
    stretch: float = 1.0
    """How much less its windows are shortened than those of others."""
    lasts_s: float = 80.0


@dataclass
class Outcome:
    """What came of a fault."""

    fault: Fault
    before: dict[str, float] = field(default_factory=dict)
    """What fired while all was well, and after how many seconds."""
    after: dict[str, float] = field(default_factory=dict)
    """What fired after the fault began, and after how many seconds."""
    others_share: float = 0.0
    """Of the machine's processor time, what went to neither the stack nor its trial: what fires
    wrongly on a busy machine may be right about the machine."""

    @property
    def missing(self) -> set[str]:
        return set(self.fault.fires) - self.after.keys()

    @property
    def of_others(self) -> frozenset[str]:
        """What tells, rightly, that others had the processor: before the fault or after."""
        if self.others_share <= _BUSY_SHARE:
            return frozenset()
        after = self.after.keys() - self.fault.fires - self.fault.may
        return _STARVED & (after | self.before.keys())

    @property
    def wrong(self) -> set[str]:
        """What neither the fault nor others on the machine explain."""
        after = self.after.keys() - self.fault.fires - self.fault.may
        return (after | self.before.keys()) - self.of_others


async def _nothing(site: Site) -> None:
    await asyncio.Event().wait()


def _both(*alerts: str) -> frozenset[str]:
    """Page and ticket: where Prometheus is younger than 3 days, a fast burn is both."""
    return frozenset(f"{alert} {severity}" for alert in alerts for severity in ("page", "ticket"))


# What visitors of a machine notice that others use: where those have more than this share of its
# processor, these alerts are right, and no fault of ours is needed.
_BUSY_SHARE = 0.25
_STARVED = _both("AnswersSlow", "PicturesLate") | {
    "GatewayTicksLate ticket",
    "PictureOutOfStep ticket",
    "VoiceHasGaps ticket",
}

FAULTS = (
    Fault("healthy", "nothing", _nothing, frozenset(), lasts_s=120.0),
    Fault(
        "face",
        "the face is killed (SIGKILL), and each that takes its place",
        lambda site: killed(site.stack, "face"),
        frozenset({"StagesGone page"}),
    ),
    Fault(
        "llm",
        "the language model freezes (SIGSTOP), and each that takes its place",
        lambda site: frozen(site.stack, "llm"),
        _both("TurnsFail") | {"StagesGone page"},
        may=_both("AnswersSlow") | {"ProcessDown ticket"},  # it answers no scrape either
        thinking=True,
    ),
    Fault(
        "crowd",
        "more visitors come than there is room for",
        lambda site: crowded(
            site.stack, Crowd(visitors=2, interval_s=30.0, seed=7), site.clips, site.folder
        ),
        _both("VisitorsRefused") | {"NoRoomLeft ticket"},
    ),
    Fault(
        "pictures",
        "the face is stopped for 90 of each 100 ms",
        lambda site: slowed_down(site.stack, "face", 0.1),
        _both("PicturesLate"),
        may=frozenset({"PictureOutOfStep ticket"}),
    ),
    Fault(
        "answers",
        "the language model is stopped for 80 of each 100 ms",
        lambda site: slowed_down(site.stack, "llm", 0.2),
        _both("AnswersSlow"),
        may=frozenset({"VoiceHasGaps ticket"}),  # text may come more slowly than it is spoken
        thinking=True,
        lasts_s=150.0,  # slow answers are few, and 20 are wanted
    ),
    Fault(
        "bus",
        "nats-server is killed (SIGKILL) whenever it has worked for 5 s",
        lambda site: killed_now_and_then(site.stack, "nats", 5.0),
        frozenset({"BusLosesChunks ticket"}),
        # No page: whoever is answered just then waits for the next server, and sees it.
        may=frozenset({"AnswersSlow ticket", "PicturesLate ticket"}),
    ),
    Fault(
        "asr",
        "asr is killed (SIGKILL) whenever it has worked for 15 s",
        # Longer than it takes to be noticed: ends of what was never seen cannot be counted.
        lambda site: killed_now_and_then(site.stack, "asr", NOTICED_S + 3.0),
        frozenset({"ProcessesKeepEnding ticket", "StagesGone page"}),
        may=_both("TurnsFail"),
        stretch=4.0,  # it does not start faster where windows are shorter
        lasts_s=150.0,
    ),
    Fault(
        "second",
        "of two faces the second is killed (SIGKILL) whenever it has worked for 4 s",
        # Prometheus never reads it, and a face is always there: gateways alone see it.
        lambda site: killed_now_and_then(site.stack, "face-2", 4.0),
        frozenset({"ProcessesKeepEnding ticket"}),
        may=_both("TurnsFail"),
        replicas={"face": 2},
        stretch=4.0,
        lasts_s=200.0,
    ),
)


async def tried(
    fault: Fault, clips: Path, folder: Path, healthy_s: float, time_scale: float
) -> Outcome:
    """One fault, on a stack and a Prometheus of its own. Raises VisavisError."""
    outcome = Outcome(fault)
    known = () if fault.thinking else {clip.text for clip in clips_of(clips, "en")}
    async with (
        own_stack(folder, _SLOTS, fault.replicas, [KNOWN_QUESTION, *known]) as stack,
        own_prometheus(folder, stack.url, time_scale) as prometheus,
        visiting(stack.url, _VISITORS, clips, folder),
    ):
        machine, used_s = MachineTime.now(), _used_s()
        await _watch(prometheus, outcome.before, healthy_s)
        injecting = asyncio.ensure_future(fault.inject(Site(stack, clips, folder)))
        try:
            await _watch(prometheus, outcome.after, fault.lasts_s, injecting)
        finally:
            injecting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await injecting
        ours_s = _used_s() - used_s
        outcome.others_share = share_of_others(machine, MachineTime.now(), ours_s)
    return outcome


def _used_s() -> float:
    """CPU seconds of this process and all that it has started; of those that are gone, none."""
    used_s = 0.0
    for process in (own := psutil.Process(), *own.children(recursive=True)):
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            used_s += times.user + times.system
    return used_s


async def _watch(
    prometheus: Prometheus,
    fired: dict[str, float],
    lasts_s: float,
    injecting: asyncio.Future[None] | None = None,
) -> None:
    """Note what fires, and after how many seconds first."""
    began_s = time.monotonic()
    while (at_s := time.monotonic() - began_s) < lasts_s:
        if injecting is not None and injecting.done():
            injecting.result()
        with contextlib.suppress(httpx.TransportError):  # a busy machine: it is asked again
            for alert in await prometheus.alerts():
                fired.setdefault(alert, at_s)
        await asyncio.sleep(_LOOK_S)


def table(outcomes: Sequence[Outcome]) -> str:
    """Markdown."""
    lines = [
        "| fault | fired, after | did not | wrongly | others had, and what that fired |",
        "|---|---|---|---|---|",
    ]
    for outcome in outcomes:
        cells = (
            outcome.fault.told,
            _times(outcome.after, outcome.of_others) or "nothing",
            ", ".join(sorted(outcome.missing)) or "–",
            ", ".join(sorted(outcome.wrong)) or "–",
            ", ".join((f"{outcome.others_share:.0%}", *sorted(outcome.of_others))),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _times(fired: Mapping[str, float], but: Set[str]) -> str:
    ordered = sorted(fired.items(), key=lambda item: item[1])
    return ", ".join(f"{alert} {at_s:.0f} s" for alert, at_s in ordered if alert not in but)


def main() -> int:
    """The table, and the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", choices=[fault.name for fault in FAULTS])
    parser.add_argument("--time-scale", type=float, default=TIME_SCALE)
    parser.add_argument("--healthy-s", type=float, default=30.0, help="before each fault")
    parser.add_argument("--keep", type=Path, help="folder for logs and series; default: none")
    options = parser.parse_args()
    console = Console(stderr=True, highlight=False)
    clips = spoken_questions(console)
    outcomes = []
    for fault in FAULTS:
        if options.only and fault.name not in options.only:
            continue
        console.print(f"{fault.name}: {fault.told} …")
        with contextlib.ExitStack() as stack:
            folder = options.keep and options.keep / fault.name
            if folder is None:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            folder.mkdir(parents=True, exist_ok=True)
            scale = min(1.0, options.time_scale * fault.stretch)
            trial = tried(fault, clips, folder.resolve(), options.healthy_s, scale)
            outcomes.append(asyncio.run(trial))
        console.print(table(outcomes[-1:]), soft_wrap=True)
    sys.stdout.write(table(outcomes) + "\n")
    return 1 if any(outcome.missing or outcome.wrong for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
