"""How likely what was understood so far is all that will be said: told while it is being said.

The text of a pause comes a tenth of a second and more after the last word. A look at unfinished
speech often has that word already; whether it is the last one, the words tell, and whether the
voice goes on behind them.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import astuple, dataclass

from services.asr.hearing.detectors import FRAME_SAMPLES, SAMPLE_RATE_HZ
from services.asr.turns.completeness import ruled_odds
from services.asr.turns.finished_words import word_model
from services.asr.turns.languages import words_of
from services.asr.turns.wording import COMMAS

_FRAME_S = FRAME_SAMPLES / SAMPLE_RATE_HZ
_KEPT_FRAMES = 64
# Of the way from the level of speech down to the room's: a frame above it carries a voice.
_LOUD_DEPTH = 0.5
_LATEST_FRAMES = 2
# However whole words are, as many have others behind them.
_MOST_ODDS = 2.5
_LONGEST_S = 4.0


@dataclass(frozen=True, slots=True)
class Wording:
    """What the words of a look say of the end of a turn."""

    odds: float
    """Log odds that one ends with them, by rules where one decides, else as learnt."""
    comma: float
    """1 where a comma stands behind them, else 0."""

    @classmethod
    def of(cls, text: str, language: str) -> Wording:
        text = text.strip()
        odds, model = ruled_odds(text, language), word_model(language)
        if odds is None:
            odds = model.odds(words_of(text, language), language) if model else 0.0
        return cls(min(_MOST_ODDS, odds), float(text.endswith(COMMAS)))


@dataclass(frozen=True, slots=True)
class Evidence:
    """What tells whether the words of a look are all, some frames after it."""

    odds: float
    comma: float
    unchanged: float
    """1 where the look before had the same words, else 0."""
    voiced_s: float
    """Sound behind the look that is as loud as speech: words that it has not heard."""
    faded_s: float
    """Sound behind the look that is not."""
    depth: float
    """How far the latest frames have fallen from the level of speech to the room's, 0 to 1."""
    end_depth: float
    """The same where the look ended."""
    speech: float
    """The voice detector's probability for the latest frame."""
    spoken_s: float
    """Length of the utterance."""


class Foresight:
    """Follows one stream of sound and the looks at it. Pure; time is counted in frames."""

    def __init__(self) -> None:
        self._depths: deque[float] = deque(maxlen=_KEPT_FRAMES)
        self._speech = 0.0
        self._frames = 0
        self._behind = 0
        self._words: Sequence[str] = ()
        self._wording = Wording(0.0, 0.0)
        self._unchanged = False

    def begin(self) -> None:
        """An utterance begins."""
        self._frames = 0
        self._words, self._unchanged = (), False

    def hear_frame(self, depth: float, speech_probability: float) -> None:
        """The next frame. depth: from the level of speech (0) down to the room's (1)."""
        self._depths.append(depth)
        self._speech = speech_probability
        self._frames += 1
        self._behind += 1

    def looked(self, text: str, language: str, behind: int) -> None:
        """The newest look at the utterance says `text`; it ended `behind` frames ago."""
        words = words_of(text, language)
        self._unchanged = bool(words) and words == self._words
        self._words, self._behind = words, behind
        self._wording = Wording.of(text, language)

    def evidence(self) -> Evidence | None:
        """None where nothing was understood yet."""
        if not self._words:
            return None
        depths = list(self._depths)
        at = max(0, len(depths) - self._behind)
        since = depths[at:]
        voiced = sum(depth < _LOUD_DEPTH for depth in since)
        ending = depths[max(0, at - _LATEST_FRAMES) : at] or [0.0]
        latest = depths[-_LATEST_FRAMES:]
        return Evidence(
            odds=self._wording.odds,
            comma=self._wording.comma,
            unchanged=float(self._unchanged),
            voiced_s=voiced * _FRAME_S,
            faded_s=(len(since) - voiced) * _FRAME_S,
            depth=sum(latest) / len(latest),
            end_depth=sum(ending) / len(ending),
            speech=self._speech,
            spoken_s=min(_LONGEST_S, self._frames * _FRAME_S),
        )

    @property
    def probability(self) -> float:
        """That the words of the newest look are all of the utterance; 0 where there are none."""
        evidence = self.evidence()
        return 0.0 if evidence is None else probability_of(evidence)


# training/turn_taking/foresight.py; in the order of Evidence, then a constant.
_WEIGHTS = (0.826, -0.924, -0.160, -6.779, -5.644, 2.385, -0.382, -2.325, 0.222, -0.253)


def probability_of(evidence: Evidence) -> float:
    """A logistic regression."""
    *weights, constant = _WEIGHTS
    pairs = zip(weights, astuple(evidence), strict=True)
    odds = constant + sum(weight * value for weight, value in pairs)
    return 1 / (1 + math.exp(-odds))
