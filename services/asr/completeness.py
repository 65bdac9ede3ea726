"""Does the text sound finished? What the words say beside intonation, as log odds.

"I want to go to Paris and", "my number is 555", "um": nobody ends there, however the
voice fell. "Who are you?" is complete, however it rose. Positive means finished.
"""

import math
import re

from services.asr.hanging_words import (
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
    ZH_FINAL,
    ZH_HANGING,
    ZH_OPENING,
    ZH_QUESTION,
)
from services.asr.transcript import UNSPACED
from services.asr.wording import without_marks

# The turn detector is sure too often: what the words rule out, it may not overrule.
_SUREST = 0.95
_CERTAIN = 4.0
_STRONG = 2.5
_WEAK = 1.0
_GOES_ON = (",", "，", "、", "-", "—", "…", "...", ":", "：", ";", "；")
_ASKS = ("?", "？")
# Telephone numbers have at least so many digits; a shorter run of them may go on.
_FULL_NUMBER_DIGITS = 7
_FULL_CODE_DIGITS = 4
_FEWEST_DIGITS = 3
_WORDS = re.compile(r"[\w']*\w[\w']*")
_CHARACTERS = re.compile(r"[a-z']+|\d+|\w")
_CODES = ("code", "pin", "password", "密码", "验证码")
_TELEPHONE = ("number", "call", "phone", "号码", "电话")
_NUMBERS = frozenset("zero oh one two three four five six seven eight nine".split())


def finished_odds(text: str, language: str) -> float:
    """Log odds that the speaker of `text` has finished, by the words alone; 0: they do not tell."""
    text = text.strip()
    words = _words(text, language)
    if not words:
        return 0.0
    if (goes_on := _number_goes_on(text, words)) is not None:
        return -_CERTAIN if goes_on else 0.0
    if language in UNSPACED:
        return _mandarin(text)
    return _english(text, words)


def fused(end_of_turn: float, odds: float) -> float:
    """The turn detector's probability, corrected by log odds of the words."""
    sure = min(_SUREST, max(1 - _SUREST, end_of_turn))
    return 1 / (1 + math.exp(-(math.log(sure / (1 - sure)) + odds)))


def _words(text: str, language: str) -> list[str]:
    """Words with their apostrophes ("were" is not "we're"), numbers, and single characters."""
    lowered = text.casefold().replace("’", "'")
    return (_CHARACTERS if language in UNSPACED else _WORDS).findall(lowered)


def _english(text: str, words: list[str]) -> float:
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
        return 0.0 if asks else -_CERTAIN
    if last in VERBS_THAT_HANG:
        return -_CERTAIN if len(words) < 2 or words[-2] not in SUBJECTS else 0.0
    clause = words[0] in OPENING_CLAUSE and not text.endswith(_ASKS) and "," not in text[:-1]
    denied = last == "not" and not (len(words) > 1 and words[-2] in BEFORE_A_FINAL_NOT)
    if text.endswith(_GOES_ON) or clause or denied:
        return -_STRONG
    if len(last) == 1 and last not in "ai" and len(words) > 1:
        return -_STRONG  # Spelling.
    if text.endswith(_ASKS):
        return _STRONG if words[0] in QUESTION_WORDS else _WEAK
    return 0.0


def _mandarin(text: str) -> float:
    bare = without_marks(text)
    if bare in ZH_COMPLETE:
        return _STRONG
    if bare.endswith(ZH_HANGING):
        return -_CERTAIN
    opened = bare.startswith(ZH_OPENING) and not any(mark in bare for mark in "，,")
    if text.endswith(_GOES_ON) or opened:
        return -_STRONG
    if text.endswith(_ASKS) or bare.endswith(ZH_FINAL) or any(q in bare for q in ZH_QUESTION):
        return _STRONG
    # Whisper writes a full stop where a sentence is whole, and mostly none where it is not.
    return _STRONG / 2 if text.endswith(("。", ".")) else 0.0


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
