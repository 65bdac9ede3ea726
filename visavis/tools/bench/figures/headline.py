"""What stands beside every latency: of how many questions it is, and what became of the others.

A latency of few answers is cheap: those that were cut off or lost are not in it. So no figure goes
without these counts, those on other people's speech come first, and what anything was tuned on is
in no headline at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TypeVar

from visavis.tools.bench.figures.turn_figures import TurnFigures
from visavis.tools.bench.visitor.clips import GROUPS, TUNED

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Standing:
    """How many questions were asked, and what became of them."""

    asked: int
    counted: int
    cut_off: int
    """Something audible came before the visitor had finished."""
    split: int
    """More than one turn was left of it: the answer is to a part."""
    taken_back: int
    """Ends that were none, and became one question again: nothing of their answers was heard."""
    discarded: int | None
    """Answers prepared in pauses and thrown away; None where nobody counts them."""

    def to_dict(self) -> dict[str, int | None]:
        return asdict(self)

    def __str__(self) -> str:
        told = (
            f"{self.counted} of {self.asked} counted, {self.cut_off} cut off, {self.split} split"
            f", {self.taken_back} false ends taken back"
        )
        return told if self.discarded is None else f"{told}, {self.discarded} prepared in vain"


def standing(turns: Sequence[TurnFigures]) -> Standing:
    """Of these questions."""
    discarded = [turn.discarded for turn in turns if turn.discarded is not None]
    return Standing(
        asked=len(turns),
        counted=sum(turn.counted for turn in turns),
        cut_off=sum(turn.spoke_over for turn in turns),
        split=sum(turn.turns - turn.taken_back > 1 for turn in turns),
        taken_back=sum(turn.taken_back for turn in turns),
        discarded=sum(discarded) if discarded else None,
    )


def groups_of(turns: Iterable[TurnFigures]) -> dict[str, list[TurnFigures]]:
    """By the set that they are of, the one for the headline first; what was tuned on is last."""
    found: dict[str, list[TurnFigures]] = {}
    for turn in turns:
        found.setdefault(turn.group, []).append(turn)
    return {name: found[name] for name in sorted(found, key=_rank)}


def headline(groups: dict[str, list[TurnFigures]]) -> str | None:
    """The group whose figures may be quoted first; None: all of it was tuned on."""
    return next((name for name in groups if name != TUNED), None)


def _rank(group: str) -> tuple[int, str]:
    return (GROUPS.index(group) if group in GROUPS else 0, group)
