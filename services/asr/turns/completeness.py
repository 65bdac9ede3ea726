"""Does the text sound finished? What the words say beside intonation, as log odds.

"I want to go to Paris and", "my number is 555", "um": nobody ends there, however the
voice fell. "Who are you?" is complete, however it rose. Positive means finished. Rules come first;
what they leave open is learnt (finished_words.py).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from services.asr.hearing.transcript import UNSPACED
from services.asr.turns import english, mandarin
from services.asr.turns.finished_words import word_model
from services.asr.turns.languages import language_of, words_of
from services.asr.turns.wording import ASKS, COMMAS

# The turn detector is sure too often: what the words rule out, it may not overrule.
_SUREST = 0.95
RULED_OUT = -2.3
"""Log odds of words that cannot be all, whatever the intonation."""
_CERTAIN = 4.0
_STRONG = 2.5
_WEAK = 1.0
# Of short answers and questions: more may follow ("no, I meant").
_SHORT = 1.5
# Behind a number that is long enough another group of digits may yet come.
_DOUBT = 0.3
# A whole question is over more surely than a whole statement, which begins many a list.
_ASKING = 2.9
# A statement that answers nothing often leads up to a question: its odds of being all are a third.
# Chosen on the half "tune", where more of it cut no fewer off.
_UNPROMPTED = -1.1
_FEWEST_WORDS = 3
# Telephone numbers have at least so many digits; a shorter run of them may go on.
_FULL_NUMBER_DIGITS = 7
_FULL_CODE_DIGITS = 4
_FEWEST_DIGITS = 3
# In whatever language is spoken: names and digits are borrowed.
_NUMBERS = english.NUMBERS | mandarin.NUMBERS
_CODES = (*english.CODES, *mandarin.CODES)
_TELEPHONE = (*english.TELEPHONE, *mandarin.TELEPHONE)


@dataclass(frozen=True, slots=True)
class _Calibration:
    """What log odds of words, for and against, and of the intonation are worth together."""

    whole: float
    broken: float
    intonation: float
    constant: float


# Fitted to what came true on other voices, in rooms and noise (training/turn_taking/calibration.py,
# its half "tune"): told as they are, words were right less often than they said.
_CALIBRATION = _Calibration(whole=0.48, broken=0.31, intonation=0.17, constant=-0.46)


@dataclass(frozen=True, slots=True)
class _Weights:
    """What log odds of learnt words and the mark behind them are worth."""

    words: float
    asks: float
    comma: float
    constant: float


# Of the words: training/turn_taking/fusion.py, where broken-off turns are as many as finished ones,
# questions too. The others: the half "tune" of tests/turns.
_LEARNT = {
    "en": _Weights(words=1.2, asks=0.5, comma=-1.5, constant=0.3),
    "zh": _Weights(words=1.2, asks=1.4, comma=-1.5, constant=0.3),
}


def fused(end_of_turn: float, odds: float, language: str, *, unprompted: bool = False) -> float:
    """Probability that the turn is over, by the turn detector's and log odds of the words.

    It comes true as often as it says where the words tell. unprompted: they are a statement, and
    nobody has asked for one.
    """
    sure = min(_SUREST, max(1 - _SUREST, end_of_turn))
    intonation = math.log(sure / (1 - sure))
    if not odds or word_model(language) is None:
        return 1 / (1 + math.exp(-(intonation + odds)))
    known = _CALIBRATION
    words = (known.whole if odds > 0 else known.broken) * odds
    constant = known.constant + (_UNPROMPTED if unprompted else 0.0)
    return 1 / (1 + math.exp(-(words + known.intonation * intonation + constant)))


def finished_odds(text: str, language: str) -> float:
    """Log odds that the speaker of `text` has finished, by the words alone; 0: they do not tell."""
    odds = ruled_odds(text, language)
    if odds is None:
        odds = _learnt_odds(text.strip(), language)
    return odds + _ASKING if odds > 0 and asks(text, language) else odds


def asks(text: str, language: str) -> bool:
    """Whether `text`, where it is whole, is a question."""
    text = text.strip()
    words = words_of(text, language)
    return bool(words) and (text.endswith(ASKS) or language_of(language).asks(text, words))


def states(text: str, language: str) -> bool:
    """Whether `text`, where it is whole, tells something, and neither asks nor wants anything."""
    text = text.strip()
    words = words_of(text, language)
    if not words or "?" in text or "？" in text:
        return False
    return language_of(language).states(text, words)


def ruled_odds(text: str, language: str) -> float | None:
    """Log odds by rules, for what sentences in books do not show: fillers, spelling, numbers, one
    word as a reply. None: no rule decides."""
    text = text.strip()
    words = words_of(text, language)
    if not words:
        return 0.0
    if (number_goes_on := _number_goes_on(text, words)) is not None:
        return -_CERTAIN if number_goes_on else -_DOUBT
    spoken = language_of(language)
    if spoken.is_reply(text, words):
        return _STRONG
    if spoken.hangs(text, words):
        return -_CERTAIN
    if spoken.goes_on(text, words):
        return -_STRONG
    return _SHORT if spoken.is_short(text, words) else None


def _number_goes_on(text: str, words: Sequence[str]) -> bool | None:
    """Whether the text ends in digits that are too few for a whole number.

    None: it ends in no such digits.
    """
    digits = spelled = 0
    for word in reversed(words):
        if word in _NUMBERS or (len(word) == 1 and word.isdigit()):
            digits, spelled = digits + 1, spelled + 1
        elif word.isascii() and word.isdigit():
            digits += len(word)
        else:
            break
    year = len(words[-1]) == 4 and words[-1][:2] in ("18", "19", "20")
    lowered = text.lower()
    if any(name in lowered for name in _CODES) and digits:
        return digits < _FULL_CODE_DIGITS
    told = digits > 0 and any(name in lowered for name in _TELEPHONE)
    if year or not (told or digits >= _FEWEST_DIGITS or spelled >= 2):
        return None
    return digits < _FULL_NUMBER_DIGITS


def _learnt_odds(text: str, language: str) -> float:
    model = word_model(language)
    if model is None:
        return _WEAK if text.endswith(ASKS) else 0.0
    words, weights = words_of(text, language), _LEARNT[language]
    question = language_of(language).asks(text, words)
    odds = weights.words * model.odds(words, language) + weights.constant
    odds += weights.asks * question
    # However whole a sentence is, another may follow: a mark and the intonation keep their say.
    odds = min(_STRONG, odds) + weights.comma * (text.endswith(COMMAS) and not question)
    if odds < 0 and len(words) < _FEWEST_WORDS and language not in UNSPACED:
        return 0.0  # Answers of a word or two ("blue", "in Paris") are no sentences, and yet whole.
    return max(-_CERTAIN, odds)
