"""What stands around a phrase in its sentence, so that it is spoken as a part of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is said around a phrase: a voice that is told leaves its sound out, and says the phrase
    as if it were there."""

    before: str = ""
    """What was said of the same sentence."""
    ahead: str = ""
    """The beginning of what will be said of it, as far as that is known, maybe a single letter."""


ALONE = Surroundings()
