"""How long one stage keeps an answer waiting, and how busy it is: queueing theory, no I/O.

By what is waited for:

- a lane that does one thing after the other, what is urgent first (asr, tts): the wait in an M/G/1
  queue with priorities and no pre-emption (A. Cobham, "Priority Assignment in Waiting Line
  Problems", Operations Research 2, 1954);
- several lanes (pictures): G/G/c by Allen and Cunneen (A. Allen, "Probability, Statistics, and
  Queueing Theory", 1990), with Sakasegawa's approximation of the M/M/c queue (1977), which with
  one lane is Kingman's formula (1961);
- a language model, which computes a token for all answers together: so many answers are at work as
  come while one is written (Little's law), each at the pace of the batch curve at that many;
- cores that several threads use: each gets an equal part (processor sharing: L. Kleinrock,
  "Time-Shared Systems", Journal of the ACM 14, 1967).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from visavis.serving.admission.prediction import LANES_SHARE, stretch_of
from visavis.tools.plan.profiles import Curve, ServiceCost, Turn

FPS = 25.0
MOST_BUSY = 0.85
"""Of what a device or a machine can do at most, what is asked of it over time."""
PICTURE_WAIT_S = 0.04
"""So long the voice waits for the first picture, at most."""
_P95 = 1.645
_SIZE_SCV = 0.25
"""Squared coefficient of variation of what requests of one kind take."""
_ARRIVAL_SCV = 1.0
_ROUNDS = 60
_FULL = 0.98
_FEW = 100
_MOST_AT_WORK = 400.0
_AT_ONCE = 2.0
"""Threads of one talking session that are at work at the same moment, at most."""


@dataclass(frozen=True, slots=True)
class Delay:
    """Until the first that an answer needs of a stage. Seconds, and seconds squared."""

    mean_s: float = 0.0
    variance: float = 0.0

    @property
    def p95_s(self) -> float:
        return self.mean_s + _P95 * math.sqrt(self.variance)


def batch_factor(curve: Curve, size: float) -> float:
    """How much longer a run of `size` requests takes than one of one; beyond the curve's end
    requests wait for a further run."""
    largest, alone_s = curve[-1][0], curve[0][1]
    if size >= largest:
        return curve[-1][1] / alone_s * size / largest
    for (low, low_s), (high, high_s) in pairwise(curve):
        if low <= size <= high:
            return (low_s + (size - low) / (high - low) * (high_s - low_s)) / alone_s
    return 1.0


def wait_with_priority(residual_s: float, urgent_busy: float, busy: float) -> Delay:
    """Cobham's wait of the most urgent class. residual_s: mean work left of what is being done."""
    wait_s = residual_s / (1.0 - min(urgent_busy, _FULL))
    # Who waits at all does so for an exponential time, about.
    waits = min(1.0, max(busy, 1e-9))
    return Delay(wait_s, max(0.0, 2.0 * wait_s**2 / waits - wait_s**2))


def wait_for_lanes(busy: float, lanes: float, service_s: float) -> float:
    """Allen and Cunneen's mean wait in a G/G/c queue. busy: share of all lanes' time."""
    variability = (_ARRIVAL_SCV + _SIZE_SCV) / 2.0
    return variability * service_s * (stretch_of(min(busy, _FULL), lanes) - 1.0)


def listening(cost: ServiceCost, turn: Turn, rate: float, scale: float) -> tuple[float, Delay]:
    """(busy, the final text's delay); rate: spoken questions a second."""
    final_s, work_s = cost.final_s * scale, cost.work_s * scale
    # Looks at unfinished speech grow with it: on average half as long as the last.
    look_s = max(1e-6, final_s / 2.0)
    looks = max(0.0, work_s - final_s) / look_s
    moments = rate * (1.0 + _SIZE_SCV) * (final_s**2 + looks * look_s**2)
    # One's own last look may be under way as well as those of others.
    own = min(1.0, max(0.0, work_s - final_s) / turn.question_s)
    busy = rate * work_s
    wait = wait_with_priority(moments / 2.0 + own * look_s, rate * final_s, busy + own)
    return busy, Delay(final_s + wait.mean_s, wait.variance)


def writing(cost: ServiceCost, rate: float, scale: float) -> tuple[float, float, Delay]:
    """(busy, full, the first phrase's delay); rate: answers a second."""
    token_s, first_s = cost.token_s * scale, cost.first_token_s * scale
    alone_s = first_s + (cost.answer_tokens - 1.0) * token_s
    at_work = 0.0
    for _ in range(_ROUNDS):
        before = at_work
        at_work = min(64.0, rate * alone_s * batch_factor(cost.batches, 1.0 + at_work))
        if abs(at_work - before) < 1e-6:
            break
    pace = batch_factor(cost.batches, 1.0 + at_work)
    busy = 1.0 - math.exp(-at_work)
    largest = cost.batches[-1][0]
    full = rate * alone_s * batch_factor(cost.batches, largest) / largest
    phrase_s = (first_s + (cost.phrase_tokens - 1.0) * token_s) * pace
    residual_s = token_s * pace
    mean_s = busy * residual_s / 2.0
    variance = busy * residual_s**2 / 3.0 - mean_s**2
    # How many are at work meanwhile differs from answer to answer (Poisson).
    more = batch_factor(cost.batches, 1.0 + at_work + math.sqrt(at_work)) - pace
    return busy, full, Delay(mean_s + phrase_s, variance + (phrase_s * more / pace) ** 2)


def speaking(cost: ServiceCost, rate: float, scale: float) -> tuple[float, Delay]:
    """(busy, the first phrase's delay); rate: answers a second."""
    phrase_s = cost.phrase_s * scale
    busy = rate * cost.phrases * phrase_s
    residual_s = rate * cost.phrases * phrase_s**2 * (1.0 + _SIZE_SCV) / 2.0
    wait = wait_with_priority(residual_s, rate * phrase_s, busy)
    return busy, Delay(phrase_s + wait.mean_s, wait.variance)


def drawing(
    cost: ServiceCost, activity: float, sessions: float, scale: float, lanes: float
) -> tuple[float, float, Delay]:
    """(busy, full, the first picture's delay). activity: share of time in which one is drawn."""
    frame_s = cost.frame_s * scale
    at_work = FPS * frame_s
    mean = sessions * activity * at_work
    sigma = at_work * math.sqrt(sessions * activity * (1.0 - activity))
    wait_s = wait_for_lanes(mean / lanes, lanes, frame_s)
    full = (mean + 2.0 * sigma) / lanes / LANES_SHARE * MOST_BUSY
    return mean / lanes, full, Delay(min(PICTURE_WAIT_S, frame_s + wait_s), wait_s**2)


# ------------------------------------------------------------ cores


@dataclass(frozen=True, slots=True)
class Appetite:
    """Cores of one machine that a session asks for while it talks, while it is idle, and that
    other work takes."""

    talking: float
    idle: float
    foreign: float


def fair_share(asked: float, cores: float, most: float = math.inf) -> float:
    """How many times longer work takes that shares `cores` fairly with others.

    A snapshot of processor sharing: of the others about a Poisson number is at work, more of them
    the longer they take, and whoever is at work when there are more than cores gets his part.
    asked: cores that the others ask for; most: of them at work at once, for as long as a turn."""
    slower = 1.0
    most = min(most, _MOST_AT_WORK)
    for _ in range(_ROUNDS):
        before, at_work = slower, min(most, asked * slower)
        odds, slower = math.exp(-at_work), 1.0
        for k in range(int(at_work + cores + 12.0 * math.sqrt(at_work + 1.0))):
            slower += odds * max(0.0, (k + 1.0) / cores - 1.0)
            odds *= at_work / (k + 1.0)
        if abs(slower - before) < 1e-4:
            break
    return slower


def stretch(sessions: int, wants: Appetite, cores: float, duty: float) -> Delay:
    """Mean and variance of how many times longer one session's work takes on `cores`. Of the others
    now more are at work, now fewer, each by itself (binomial); of many, as many as on average."""
    others = sessions - 1

    def at(talking: float) -> float:
        rest = wants.foreign + (others - talking) * wants.idle
        most = rest + _AT_ONCE * talking
        return fair_share(rest + talking * wants.talking, cores, most)

    if others > _FEW:
        return Delay(at(others * duty))
    odds = [math.comb(others, k) * duty**k * (1 - duty) ** (others - k) for k in range(sessions)]
    times = [at(k) for k in range(sessions)]
    mean = sum(p * t for p, t in zip(odds, times, strict=True))
    return Delay(mean, sum(p * (t - mean) ** 2 for p, t in zip(odds, times, strict=True)))
