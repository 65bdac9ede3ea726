"""Who is asked what when: both sides by turns, in both orders, each question by all of them. Pure.

A machine gets warm, and other work on it comes and goes. So the questions are parted into blocks,
each side answers a block after another side has answered the same one, and who is first changes
from round to round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from visavis.tools.bench.visitor.clips import Clip


@dataclass(frozen=True)
class Block:
    """What every side is asked in one round."""

    clips: list[Clip]
    interruptions: list[Clip]


def blocks_of(clips: Sequence[Clip], interruptions: Sequence[Clip], rounds: int) -> list[Block]:
    """`rounds` blocks, each with as many clips of every part of the set as the others.

    Blocks without a question are left out.
    """
    parts = ((list(clips[k::rounds]), list(interruptions[k::rounds])) for k in range(rounds))
    return [Block(asked, into) for asked, into in parts if asked]


def order(sides: Sequence[str], number: int) -> list[str]:
    """In which order the sides answer block `number`: each is as often first as last."""
    return list(sides) if number % 2 == 0 else list(reversed(sides))
