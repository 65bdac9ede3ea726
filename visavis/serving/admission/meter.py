"""What the sessions of one stage ask of it, kept as it happens: units, what they cost, how late.

Pure: no I/O, the clock is an argument. Nothing is known of the units but when they begin and end.
How much of the time any of them is at work, divided by how many there were, is what one costs,
whatever the order and the batches in which an engine serves them (the utilisation law: P. Denning
and J. Buzen, "The Operational Analysis of Queueing Network Models", 1978).
"""

from __future__ import annotations

import contextlib
import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from visavis.wire.clock import Clock

HALF_LIFE_S = 90.0
"""After so long with sessions, what was measured counts half as much as what is new."""
PRIOR_SESSION_S = 60.0
"""What is assumed of a stage's sessions counts as much as so many seconds of one."""
DUTY = 0.3
"""Share of the time in which a session is taken to ask or to be answered."""
SHARED = 0.2
"""Of the processor time of a lone session, what several share: ticks, batches. From one visitor to
six it was 0.4 to 0.6 in each process; less is taken, for with more too many come in at once."""
PRIOR_UNITS = 5.0
"""What is assumed of a unit's cost, and of a first one's latency, counts as much as so many."""
LATELY_S = 900.0
"""How long it counts how late first units were: what was crowded out then may be served now."""
_KEPT_FIRSTS = 200
_PRIOR_FIRSTS = 20
_MOST_RATIO = 5.0


@dataclass(frozen=True, slots=True)
class Assumed:
    """What a stage takes for granted of its sessions until it has measured them."""

    units_per_s: float
    """Of a session, over time in which it speaks, listens and does nothing."""
    unit_cost_s: float
    """Work of a lane on one unit, on an idle machine."""
    cores: float
    """Processor time of the process for a session, seconds a second."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A stage as it stands: means over the last minutes, weighed with what was assumed."""

    sessions: int
    units_per_s: float
    unit_cost_s: float
    cores: float
    """Processor time of the process for each session, were there one more."""
    duty: float
    """Share of the time in which a session was at work; where nobody tells it, DUTY."""
    first_s: float
    """Mean of a first unit's latency where nothing was in its way."""
    first_sd_s: float
    firsts: int
    """How many first units are behind `correction`."""
    correction: float
    """P95 of what first units took, against what was predicted for them; at least 1.

    It is looked at again and again, and who was let in stays: luck would be believed for good.
    """
    late_p95_s: float
    """P95 of the latency of first units lately, or of how late units were; 0: there was none."""


class Unit:
    """One piece of work while it lasts. Call `first` where it is what a visitor waited for."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._began_s, self._beside = meter.beside()
        self._alone = self._wanted = self._ended = False

    def want(self) -> None:
        """From here on it is in others' way. Harmless if it was before, or has ended."""
        if not (self._wanted or self._ended):
            self._wanted = True
            self._began_s, self._alone = self._meter.enter()

    def first(self) -> None:
        """It has brought the first of an answer.

        What was made before anybody wanted it has been waited for for no time.
        """
        if self._wanted:
            self._meter.note_first(self._began_s, alone=self._alone)
        else:
            self._meter.note_ready()

    def end(self) -> None:
        """It is made, or holds nobody up any more, whatever becomes of it. Harmless if it has
        ended."""
        if not (self._wanted or self._ended):
            self._meter.note_prepared(self._began_s, self._beside)
        self.drop()

    def drop(self) -> None:
        """As `end`; what nobody wanted need not have been made to its end."""
        if self._wanted and not self._ended:
            self._meter.end()
        self._ended = True


class Meter:
    """Counts what one replica's sessions ask of it."""

    def __init__(self, clock: Clock, assumed: Assumed, *, lanes: int = 1) -> None:
        """lanes: units that are worked on at once."""
        self.lanes = lanes
        self.stretch = 1.0
        """How much longer work takes now than on an idle machine; costs are told without it."""
        self._clock = clock
        self._assumed = assumed
        self._at_s = clock.now()
        self._sessions = 0
        self._working = 0
        self._open = 0
        self._session_s = self._working_s = self._cpu_share_s = 0.0
        self._busy_s = self._units = self._cpu_s = 0.0
        self._entered = 0
        """Units that were in others' way, from the start on."""
        self._prepared_s = self._prepared = 0.0
        """Those that were made before anybody wanted them, with nothing in their way."""
        self._clear: deque[float] = deque(maxlen=_KEPT_FIRSTS)
        """Latencies of first units that nothing was in the way of, on an idle machine."""
        self._alone_p95_s = 0.0
        self._crowding = 1.0
        self._eased = _Lately()
        """Latencies of first units, each without what the crowd was predicted to make of it."""
        self._late = _Lately()

    @property
    def sessions(self) -> int:
        """How many are attached."""
        return self._sessions

    def attached(self, sessions: int) -> None:
        """So many sessions are attached from now on."""
        self._advance()
        self._sessions = sessions

    def working(self, sessions: int) -> None:
        """So many of them ask or are answered from now on. Told by gateways alone."""
        self._advance()
        self._working = sessions

    def expect(self, alone_p95_s: float, p95_s: float) -> None:
        """What is predicted for first units: for a lone visitor's, and as things stand."""
        self._alone_p95_s = alone_p95_s
        self._crowding = max(1.0, p95_s / alone_p95_s) if alone_p95_s else 1.0

    def used(self, cpu_s: float) -> None:
        """The process has used so much processor time for its sessions."""
        if self._sessions:
            self._cpu_s += cpu_s

    def aside(self, cpu_s: float) -> None:
        """So much of what was used was for no session: it is done once, whoever comes."""
        if self._sessions:
            self._cpu_s = max(0.0, self._cpu_s - cpu_s)

    @contextlib.contextmanager
    def unit(self, *, wanted: bool = True) -> Iterator[Unit]:
        """A unit is at work, or waits for a lane, until the context or the unit ends.

        wanted: False: it makes way for all others, and does not count, until `Unit.want`.
        """
        unit = self.begin() if wanted else Unit(self)
        try:
            yield unit
        finally:
            unit.drop()

    def begin(self) -> Unit:
        """As `unit`; `end` must be called."""
        unit = Unit(self)
        unit.want()
        return unit

    def enter(self) -> tuple[float, bool]:
        """One more is at work or waits: since when, and whether nothing is in its way."""
        self._advance()
        self._open += 1
        self._entered += 1
        return self._at_s, self._open == 1

    def beside(self) -> tuple[float, int | None]:
        """For what makes way: now, and how many units had begun by now; None: one is in its way."""
        return self._clock.now(), None if self._open else self._entered

    def note_prepared(self, since_s: float, beside: int | None) -> None:
        """What nobody waits for was made since then, and was in nobody's way: where nothing was in
        its own, it tells what one costs. beside: as it was when that began."""
        if beside == self._entered:
            self._prepared += 1
            self._prepared_s += (self._clock.now() - since_s) / self.stretch

    def end(self, *, made: int = 1) -> None:
        """What was begun is done, or nobody wants it any more. made: how many units came of it."""
        self._advance()
        self._open -= 1
        self._units += made

    def note_late(self, late_s: float) -> None:
        """A unit came so long after it was due; 0: in time. Where no first units count."""
        self._late.add(late_s, self._clock.now())

    def note_first(self, since_s: float, *, alone: bool) -> None:
        """What a visitor waited for since then is there. alone: nothing was in its way."""
        now_s = self._clock.now()
        took_s = now_s - since_s
        self._late.add(took_s, now_s)
        if alone:
            self._clear.append(took_s / self.stretch)
        self._eased.add(took_s / self._crowding, now_s)

    def note_ready(self) -> None:
        """What a visitor waits for from now on is there."""
        self.note_first(self._clock.now(), alone=not self._open)

    def measured(self) -> Measured:
        """As it stands now."""
        self._advance()
        assumed, weight_s = self._assumed, PRIOR_SESSION_S
        exposure_s = weight_s + self._session_s
        cost_s = assumed.unit_cost_s * PRIOR_UNITS + self._busy_s + self._prepared_s
        lone_cores = (assumed.cores * weight_s + self._cpu_s) / (weight_s + self._cpu_share_s)
        mean_s, sd_s = _moments(self._clear, assumed.unit_cost_s)
        alone_s = self._alone_p95_s
        # Against what is known of a lone visitor now: what was predicted of him before he had asked
        # much was wrong by itself.
        eased = self._eased.values(self._at_s) if alone_s else []
        ratios = [min(_MOST_RATIO, took_s / alone_s) for took_s in eased]
        # Of few values the P95 is the largest: one slow unit alone tells nothing.
        p95 = min(quantile(ratios, 0.95), quantile([1.0] * _PRIOR_FIRSTS + ratios, 0.95))
        corrected = _PRIOR_FIRSTS + len(ratios) * max(1.0, p95)
        return Measured(
            self._sessions,
            (assumed.units_per_s * weight_s + self._units) / exposure_s,
            cost_s / (PRIOR_UNITS + self._units + self._prepared),
            lone_cores * _times_lone(self._sessions + 1) / (self._sessions + 1),
            (DUTY * weight_s + self._working_s) / exposure_s,
            mean_s,
            sd_s,
            len(ratios),
            corrected / (_PRIOR_FIRSTS + len(ratios)),
            quantile(self._late.values(self._at_s), 0.95),
        )

    def _advance(self) -> None:
        now_s = self._clock.now()
        passed_s, self._at_s = now_s - self._at_s, now_s
        if self._sessions:
            kept = 0.5 ** (passed_s / HALF_LIFE_S)
            self._session_s *= kept
            self._working_s *= kept
            self._busy_s *= kept
            self._units *= kept
            self._prepared_s *= kept
            self._prepared *= kept
            self._cpu_s *= kept
            self._cpu_share_s *= kept
            self._cpu_share_s += _times_lone(self._sessions) * passed_s
        self._session_s += self._sessions * passed_s
        self._working_s += self._working * passed_s
        self._busy_s += min(self._open, self.lanes) * passed_s / self.stretch


def _times_lone(sessions: int) -> float:
    """How many times a lone session's processor time so many sessions take."""
    return SHARED + (1.0 - SHARED) * sessions


class _Lately:
    """The newest values, and of these those that are no older than LATELY_S."""

    def __init__(self) -> None:
        self._values: deque[tuple[float, float]] = deque(maxlen=_KEPT_FIRSTS)

    def add(self, value: float, now_s: float) -> None:
        self._values.append((now_s, value))

    def values(self, now_s: float) -> list[float]:
        while self._values and self._values[0][0] < now_s - LATELY_S:
            self._values.popleft()
        return [value for _, value in self._values]


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest of the values that `share` of them do not pass; 0 where there is none."""
    if not values:
        return 0.0
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _moments(values: deque[float], assumed: float) -> tuple[float, float]:
    """Mean and standard deviation; `assumed` and a third of it count as PRIOR_UNITS values more."""
    count, prior = len(values), PRIOR_UNITS
    mean = (prior * assumed + sum(values)) / (prior + count)
    squares = prior * ((assumed / 3) ** 2 + (assumed - mean) ** 2)
    squares += sum((value - mean) ** 2 for value in values)
    # Of few little is known: their spread is taken for no less than a tenth.
    return mean, max(math.sqrt(squares / (prior + count)), mean / 10)
