"""Fits what words and intonation are worth together, and shows what each wait would cost.

    python -m training.turn_taking.judgements FOLDER tests/turns --out judgements.jsonl
    python -m training.turn_taking.calibration judgements.jsonl

The fit and the grid of waits see the half "tune" alone; its coefficients are those of
services/asr/turns/completeness.py, and the chosen wait those of endpointing.py. Pauses are the last
opinion on each. What is printed last, of both halves, is what the service does today, to strangers
and in visits of ten turns, by which it knows how the visitor pauses.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from services.asr.hearing.detectors import FRAME_SAMPLES, SAMPLE_RATE_HZ
from services.asr.turns.completeness import asks, finished_odds, fused
from services.asr.turns.endpointing import EndpointRules, Hesitation, PauseHabit
from training.turn_taking.fusion import clamped, say
from training.turn_taking.judgements import Judgement
from training.turn_taking.logistic import fit, log_loss, odds_by, sigmoid
from visavis.tools.bench.figures.reliability import reliability

# From the end being certain to the first sound of an answer that was prepared.
_FIRST_SOUND_FRAMES = 3
_PLAIN = ("short", "yes_no", "finished")
# A visit has so many turns; each clip is in as many visits.
_VISIT_TURNS, _VISITS = 10, 20
Pause = list[Judgement]
Probability = Callable[[Judgement], float]


@dataclass(frozen=True, slots=True)
class Came:
    """What became of one clip: whether it was cut off, whether an answer was heard, the wait."""

    kind: str
    cut: bool = False
    heard: bool = False
    waited_s: float | None = None


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("judgements", type=Path)
    lines = options.parse_args().judgements.read_text("utf-8").splitlines()
    known = [told_anew(Judgement(**json.loads(line))) for line in lines]
    tune = clips_of(j for j in known if j.half == "tune")
    last = [pause[-1] for clip in tune for pause in clip if pause[-1].odds]
    label = np.array([float(not j.goes_on) for j in last])
    columns, none = np.array([features(j) for j in last]), np.zeros(len(last))
    found = fit(columns, label, none)
    loss = log_loss(label, sigmoid(odds_by(found, columns, none)))
    say(f"for, against, intonation, constant: {found.round(2)}; log loss {loss:.3f}")
    for typical in (9.0, 12.0, 15.0):
        for cost in (45.0, 50.0, 55.0, 65.0, 100.0, 200.0):
            rules = replace(EndpointRules(), typical_pause_frames=typical, cut_off_cost_frames=cost)
            say(f"typical {typical:g}, cost {cost:g}: {figures(came_of(tune, now, rules))}")
    for half in ("tune", "test"):
        clips = clips_of(j for j in known if j.half == half)
        pauses = [pause[-1] for clip in clips for pause in clip]
        if not pauses:
            continue
        agreed = reliability((now(j), not j.goes_on) for j in pauses)
        say(f"{half}: {figures(came_of(clips, now, EndpointRules()))}")
        say(f"{half}: calibration error {agreed.calibration_error}, log loss {agreed.log_loss}")
        for by in (0.0, 0.25, 0.5):
            deaf = figures(came_of(clips, without_intonation(by), EndpointRules()))
            say(f"{half}, without intonation, log odds {by:+g}: {deaf}")
        for name, fluent in (("fluent", True), ("hesitant", False)):
            alike = [clip for clip in clips if (clip[0][0].kind in _PLAIN) is fluent]
            for knows in (False, True):
                came = [c for visit in visits_of(alike) for c in came_in(visit, knows=knows)]
                known_as = "known" if knows else "a stranger"
                say(f"{half}, {name} visitors, each {known_as}: {shares(came)}")


def told_anew(judgement: Judgement) -> Judgement:
    """With log odds as the words are weighed now."""
    return replace(judgement, odds=finished_odds(judgement.text, judgement.language))


def features(judgement: Judgement) -> list[float]:
    odds = judgement.odds
    return [max(0.0, odds), min(0.0, odds), clamped(judgement.end_of_turn)]


def now(judgement: Judgement) -> float:
    """As the service tells it."""
    return fused(judgement.end_of_turn, judgement.odds, judgement.language)


def without_intonation(by: float) -> Probability:
    """By the words alone. by: added to the log odds, for unsure opinions leave long waits."""

    def told(judgement: Judgement) -> float:
        sure = fused(0.5, judgement.odds, judgement.language)
        return float(sigmoid(np.array(np.log(sure / (1 - sure)) + by)))

    return told


def clips_of(known: Iterable[Judgement]) -> list[list[Pause]]:
    """By clip and pause, in the order of time."""
    clips: dict[str, dict[int, Pause]] = {}
    for judgement in known:
        pauses = clips.setdefault(judgement.clip, {})
        pauses.setdefault(judgement.speech_end, []).append(judgement)
    return [[pauses[at] for at in sorted(pauses)] for pauses in clips.values()]


def came_of(clips: Sequence[list[Pause]], told: Probability, rules: EndpointRules) -> list[Came]:
    """What a listener with these rules would have made of each clip."""
    return [_came(clip, told, rules) for clip in clips]


def visits_of(clips: Sequence[list[Pause]]) -> list[list[list[Pause]]]:
    """Turns that one visitor might take one after the other, though several voices speak them."""
    visits = []
    for seed in range(_VISITS):
        mixed = random.Random(seed).sample(clips, len(clips))
        visits += [mixed[at : at + _VISIT_TURNS] for at in range(0, len(mixed), _VISIT_TURNS)]
    return visits


def came_in(visit: Sequence[list[Pause]], *, knows: bool) -> list[Came]:
    """The same in the turns of one visitor, of whom the service learns how he pauses, or not."""
    habit = PauseHabit() if knows else None
    return [_came(clip, now, EndpointRules(), habit) for clip in visit]


def _came(
    clip: list[Pause], told: Probability, rules: EndpointRules, habit: PauseHabit | None = None
) -> Came:
    """habit: of the visitor; learns of the clip."""
    came, hesitation = Came(clip[-1][0].kind), Hesitation()
    for pause in clip:
        first, odds = pause[0], 0.0 if habit is None else habit.odds(hesitation)
        waited = _waited(pause, told, rules, odds)
        if not first.goes_on:
            at = first.speech_end + waited * FRAME_SAMPLES
            came = Came(first.kind, waited_s=(at - first.turn_end) / SAMPLE_RATE_HZ)
            break
        lasts = (first.goes_on - first.speech_end) / FRAME_SAMPLES
        hesitation.pauses += 1  # one that was taken for an end is taken back
        if waited <= lasts and lasts >= 1:
            came = Came(first.kind, cut=True, heard=waited + _FIRST_SOUND_FRAMES < lasts)
            break
    if habit is not None:
        habit.learn(hesitation)
    return came


def _waited(pause: Pause, told: Probability, rules: EndpointRules, odds: float = 0.0) -> int:
    """Frames of silence until it is taken for an end. odds: of the visitor's habit."""
    for opinion, later in zip(pause, [*pause[1:], None], strict=True):
        wait = rules.wait_frames(told(opinion), odds, asks=_asks(opinion))
        wait = max(opinion.silent_frames, wait)
        if later is None or wait < later.silent_frames:
            return wait
    raise AssertionError("a pause without an opinion")


def _asks(opinion: Judgement) -> bool:
    return asks(opinion.text, opinion.language)


def shares(came: Sequence[Came]) -> str:
    """Of 100 turns, and the waits behind those that were not cut off."""
    waits = [c.waited_s for c in came if c.waited_s is not None]
    cut, heard = 100 * np.mean([(c.cut, c.heard) for c in came], axis=0)
    p50, p90 = np.percentile(waits, [50, 90])
    spread = f"P50 {p50:.2f}, P90 {p90:.2f}, mean {np.mean(waits):.2f} s"
    return f"cut off {cut:.1f}, heard {heard:.1f} of 100; others waited {spread}"


def figures(came: Sequence[Came]) -> str:
    """How many were cut off, and how long whole plain turns waited."""
    plain = [c.waited_s for c in came if c.kind in _PLAIN and c.waited_s is not None]
    p50, p90 = np.percentile(plain, [50, 90])
    cut, heard = sum(c.cut for c in came), sum(c.heard for c in came)
    spread = f"P50 {p50:.3f}, P90 {p90:.3f}, mean {np.mean(plain):.3f} s"
    return f"{len(came)} turns, cut off {cut}, heard {heard}; whole ones waited {spread}"


if __name__ == "__main__":
    main()
