"""Does the text sound finished? What the words say beside intonation, as log odds.

"I want to go to Paris and", "my number is 555", "um": nobody ends there, however the
voice fell. "Who are you?" is complete, however it rose. Positive means finished. Rules come first;
what they leave open is learnt (finished_words.py).
"""

import math
from dataclasses import dataclass

from services.asr.hearing.transcript import UNSPACED
from services.asr.turns.finished_words import (
    AFTER_WHICH_IT_GOES_ON,
    BEFORE_A_FINAL_NOT,
    COMPLETE_REPLIES,
    FILLERS,
    HANGING,
    OPENING,
    OPENING_CLAUSE,
    QUESTION_WORDS,
    RELATIVE,
    STRANDED,
    SUBJECTS,
    VERBS_THAT_HANG,
    ZH_COMPLETE,
    ZH_DIGITS,
    ZH_HANGING,
    ZH_OPENING,
    word_model,
    words_of,
)
from services.asr.turns.wording import without_marks

# The turn detector is sure too often: what the words rule out, it may not overrule.
_SUREST = 0.95
_CERTAIN = 4.0
_STRONG = 2.5
_WEAK = 1.0
# Behind a number that is long enough another group of digits may yet come.
_DOUBT = 0.3
_COMMAS = (",", "，", "、")
_GOES_ON = ("-", "—", "…", "...", ":", "：", ";", "；")
_ASKS = ("?", "？")
# The weight of its log odds where the words tell. On synthetic voices it adds nothing to them
# (training/turn_taking/fusion.py: 0); people's intonation is worth more.
_INTONATION = 0.3
# Telephone numbers have at least so many digits; a shorter run of them may go on.
_FULL_NUMBER_DIGITS = 7
_FULL_CODE_DIGITS = 4
_FEWEST_DIGITS = 3
_FEWEST_WORDS = 3
_JOINS = frozenset("and but so or then".split())
_CODES = ("code", "pin", "password", "密码", "验证码")
_TELEPHONE = ("number", "call", "phone", "号码", "电话")
_NUMBERS = frozenset("zero oh one two three four five six seven eight nine".split())


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


def finished_odds(text: str, language: str) -> float:
    """Log odds that the speaker of `text` has finished, by the words alone; 0: they do not tell."""
    odds = ruled_odds(text, language)
    return _learnt(text.strip(), language) if odds is None else odds


def fused(end_of_turn: float, odds: float, language: str) -> float:
    """The turn detector's probability, corrected by log odds of the words."""
    sure = min(_SUREST, max(1 - _SUREST, end_of_turn))
    intonation = math.log(sure / (1 - sure))
    if odds and word_model(language) is not None:
        intonation *= _INTONATION
    return 1 / (1 + math.exp(-(intonation + odds)))


def ruled_odds(text: str, language: str) -> float | None:
    """Log odds by rules, for what sentences in books do not show: fillers, spelling, numbers, one
    word as a reply. None: no rule decides."""
    text = text.strip()
    words = words_of(text, language)
    if not words:
        return 0.0
    if (goes_on := _number_goes_on(text, words)) is not None:
        return -_CERTAIN if goes_on else -_DOUBT
    return _mandarin(text) if language in UNSPACED else _english(text, words)


def _learnt(text: str, language: str) -> float:
    model = word_model(language)
    if model is None:
        return _WEAK if text.endswith(_ASKS) else 0.0
    words, weights = words_of(text, language), _LEARNT[language]
    asks = _begins_as_question(words) if language == "en" else text.endswith(_ASKS)
    odds = weights.words * model.odds(words, language) + weights.constant + weights.asks * asks
    # However whole a sentence is, another may follow: a mark and the intonation keep their say.
    odds = min(_STRONG, odds) + weights.comma * (text.endswith(_COMMAS) and not asks)
    if odds < 0 and len(words) < _FEWEST_WORDS and language not in UNSPACED:
        return 0.0  # Answers of a word or two ("blue", "in Paris") are no sentences, and yet whole.
    return max(-_CERTAIN, odds)


def _begins_as_question(words: list[str]) -> bool:
    """ "And who invented it" asks as "who invented it" does. A recogniser's marks do not tell: it
    writes a comma behind whole questions and a question mark behind broken ones."""
    return words[words[0] in _JOINS and len(words) > 1] in QUESTION_WORDS


def _english(text: str, words: list[str]) -> float | None:
    last = words[-1]
    whole = " ".join(words)
    if whole in COMPLETE_REPLIES:
        return _STRONG
    if last in FILLERS or whole in OPENING or whole.endswith(AFTER_WHICH_IT_GOES_ON):
        return -_CERTAIN
    if last in HANGING:
        return -_CERTAIN
    if last in STRANDED:
        asks = words[0] in QUESTION_WORDS or not RELATIVE.isdisjoint(words[1:-1])
        return None if asks else -_CERTAIN
    if last in VERBS_THAT_HANG:
        return -_CERTAIN if len(words) < 2 or words[-2] not in SUBJECTS else None
    clause = words[0] in OPENING_CLAUSE and not text.endswith(_ASKS) and "," not in text[:-1]
    denied = last == "not" and not (len(words) > 1 and words[-2] in BEFORE_A_FINAL_NOT)
    spelt = len(last) == 1 and last not in "ai" and len(words) > 1
    return -_STRONG if text.endswith(_GOES_ON) or clause or denied or spelt else None


def _mandarin(text: str) -> float | None:
    bare = without_marks(text)
    if bare in ZH_COMPLETE:
        return _STRONG
    if bare.endswith(ZH_HANGING):
        return -_CERTAIN
    opened = bare.startswith(ZH_OPENING) and not any(mark in bare for mark in _COMMAS)
    return -_STRONG if text.endswith(_GOES_ON) or opened else None


def _number_goes_on(text: str, words: list[str]) -> bool | None:
    """Whether the text ends in digits that are too few for a whole number.

    None: it ends in no such digits.
    """
    digits = spelled = 0
    for word in reversed(words):
        if word in _NUMBERS or (len(word) == 1 and (word in ZH_DIGITS or word.isdigit())):
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
