"""One decoder under odd inputs: what it may raise, how long it may take, how much it may hold."""

from __future__ import annotations

import contextlib
import resource
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import hypothesis
import psutil
from hypothesis import HealthCheck, Phase
from hypothesis.strategies import SearchStrategy

LONGEST_S = 2.0
"""Of a processor's time, for one input; of the small ones that are made here."""
MOST_MEMORY_BYTES = 1 << 30
"""That a run over one decoder may add to the address space of its process."""
_MOST_TOLD = 300


class TooSlowError(Exception):
    """A decoder works on one input for longer than anybody waits."""


@dataclass(frozen=True)
class Decoder:
    """What reads bytes from outside. feed: gives it one input, through its public door.

    refuses: what it says that it raises; any other error, and a hang, is a finding. share: how
    many of the usual number of inputs it gets, for what takes long.
    """

    name: str
    origin: str
    """Who can send such bytes, for the list in docs/fuzzing.md."""
    inputs: SearchStrategy[Any]
    feed: Callable[[Any], object]
    refuses: tuple[type[Exception], ...]
    share: float = 1.0
    longest_s: float = LONGEST_S


@dataclass
class Tally:
    """What a run over one decoder has seen."""

    inputs: int = 0
    refused: int = 0
    finding: BaseException | None = None
    """The error that was not to be."""
    culprit: Any = field(default=None, repr=False)


def run(decoder: Decoder, inputs: int, seed: int, *, shrink: bool = False) -> Tally:
    """Feed so many inputs, the same ones for the same seed. It ends with the first finding.

    shrink: look for a smaller input that does the same, which may take minutes.
    """
    tally = Tally()

    def feed(given: Any) -> None:
        tally.inputs += 1
        tally.culprit = given
        tally.refused += attempt(decoder, given)

    settings = hypothesis.settings(
        max_examples=max(2, round(inputs * decoder.share)),
        database=None,
        deadline=None,  # which would measure a busy machine's wall clock
        phases=(Phase.generate, Phase.shrink) if shrink else (Phase.generate,),
        suppress_health_check=list(HealthCheck),
        verbosity=hypothesis.Verbosity.quiet,
    )
    test = hypothesis.seed(seed)(settings(hypothesis.given(decoder.inputs)(feed)))
    with _bounded_memory():
        try:
            test()
        except Exception as error:
            # Hypothesis ends with the input that it tells.
            tally.finding = error
    return tally


def told(tally: Tally) -> str:
    """The finding in one line, with the input that makes it."""
    culprit = repr(tally.culprit)
    if len(culprit) > _MOST_TOLD:
        culprit = f"{culprit[:_MOST_TOLD]}… ({len(culprit)} characters)"
    return f"{type(tally.finding).__name__}: {str(tally.finding)[:_MOST_TOLD]} for {culprit}"


def attempt(decoder: Decoder, given: Any) -> bool:
    """Feed one input; whether it was refused. Raises whatever else the decoder does to it."""
    began = time.process_time()
    with _bounded_time(decoder.longest_s), warnings.catch_warnings():
        # Numbers that overflow on their way, and the like; files left open are findings.
        for harmless in (RuntimeWarning, UserWarning, SyntaxWarning, DeprecationWarning):
            warnings.simplefilter("ignore", harmless)
        try:
            decoder.feed(given)
            refused = False
        except decoder.refuses:
            refused = True
    # What is written in C does not hear the alarm before it is done.
    if time.process_time() - began > decoder.longest_s:
        raise TooSlowError(f"more than {decoder.longest_s:g} s of a processor's time")
    return refused


@contextlib.contextmanager
def _bounded_time(longest_s: float) -> Iterator[None]:
    def ring(_signal: int, _frame: object) -> None:
        raise TooSlowError(f"more than {longest_s:g} s of a processor's time")

    before = signal.signal(signal.SIGVTALRM, ring)
    signal.setitimer(signal.ITIMER_VIRTUAL, longest_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@contextlib.contextmanager
def _bounded_memory() -> Iterator[None]:
    """What wants more gets MemoryError, which no decoder is allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = psutil.Process().memory_info().vms
    wanted = used + MOST_MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
