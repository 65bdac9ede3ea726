"""What a recogniser says about a piece of sound."""

from collections.abc import Generator, Iterable
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from visavis.engine.rows import RowAsk

# Languages that put no space between words; their pieces are joined without one.
UNSPACED = frozenset({"zh", "ja", "th", "lo", "my", "yue"})


class Order(IntEnum):
    """Classes of a recogniser's lane: what goes before what, whoever it is for."""

    FINAL = 0
    """The visitor has finished; what a final text is made of."""
    PAUSE = 1
    """The visitor may have finished."""
    PARTIAL = 2
    """A look at unfinished speech."""
    RECORDING = 3
    """Nobody speaks or waits for an answer."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Words spoken in one go. Times are 16 kHz samples from the start of the sound."""

    text: str
    start_samples: int
    end_samples: int

    def shifted(self, offset_samples: int) -> "Segment":
        """The same words in a sound that began so much earlier; none is before its beginning."""
        return replace(
            self,
            start_samples=max(0, self.start_samples + offset_samples),
            end_samples=max(0, self.end_samples + offset_samples),
        )


@dataclass(frozen=True, slots=True)
class Transcript:
    """What was said in a piece of sound. Empty text: nothing was."""

    text: str
    language: str
    segments: tuple[Segment, ...] = ()
    hum_odds: float | None = None
    """Log odds that it is a listener's sound ("mm-hm", "right"), whatever words were made of it.
    None: it was not asked, as for longer sounds."""

    def shifted(self, offset_samples: int) -> "Transcript":
        """The same words in a sound that began so much earlier."""
        return replace(self, segments=tuple(s.shifted(offset_samples) for s in self.segments))


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """What an encoder makes of one sound."""

    states: NDArray[np.float32]
    """[1, T, width]."""
    seconds: float
    """What the run took, for all whose sounds went into it."""


class Transcriber(Protocol):
    """Turns one piece of speech, at most 30 s, to text."""

    @property
    def languages(self) -> tuple[str, ...]:
        """Codes of the languages that it knows."""
        ...

    def transcribe(self, pcm: NDArray[np.float32], language: str, draft: str = "") -> Transcript:
        """pcm: [N] float32 in -1..1 at 16 kHz.

        Raises UnknownNameError for a language that it does not know, ValueError for too much sound.

        draft: a guess at the text. It is there for the cost; of the text it changes
        nothing but what a quantised network rounds another way.
        """
        ...

    def steps(
        self, pcm: NDArray[np.float32], language: str, draft: str = ""
    ) -> Generator[RowAsk, Any, Transcript]:
        """The same, in steps between which it asks for rows of runs that others may share; the
        answer to each is an Encoded. None are asked for where a recogniser has nothing to share.
        """
        return self.transcribe(pcm, language, draft)
        yield


def join(parts: Iterable[Transcript], language: str) -> Transcript:
    """One transcript of consecutive pieces, whose times are already on one axis."""
    spoken = [part for part in parts if part.text]
    language = spoken[0].language if spoken else language
    space = "" if language in UNSPACED else " "
    segments = tuple(segment for part in spoken for segment in part.segments)
    hum_odds = spoken[0].hum_odds if len(spoken) == 1 else None
    return Transcript(space.join(part.text for part in spoken), language, segments, hum_odds)
