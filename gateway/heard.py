"""How much of an answer's text has been heard when it is cut off."""

from __future__ import annotations

# Seconds that a character takes where the voice has not told yet: about 15 letters or
# 4.5 Chinese characters a second, as measured on ordinary read speech.
_LETTER_S = 1 / 15
_IDEOGRAPH_S = 1 / 4.5


def heard_text(text: str, *, played_s: float, voice_s: float | None = None) -> str:
    """The beginning of `text` that was audible after `played_s` seconds of its voice.

    voice_s: length of the voice of the whole `text`, None while that is not known.
    Cut at a word's end: a word that was heard in part counts as not heard.
    """
    if played_s <= 0 or not text:
        return ""
    costs = [_cost_s(character) for character in text]
    scale = voice_s / sum(costs) if voice_s else 1.0
    end, spent_s = 0, 0.0
    for cost in costs:
        spent_s += cost * scale
        if spent_s > played_s + 1e-6:
            break
        end += 1
    if end == len(text):
        return text
    while end and _within_word(text, end):
        end -= 1
    return text[:end].rstrip()


def _cost_s(character: str) -> float:
    return _IDEOGRAPH_S if _is_ideograph(character) else _LETTER_S


def _is_ideograph(character: str) -> bool:
    return "\u3400" <= character <= "\u9fff" or "\U00020000" <= character <= "\U0003ffff"


def _within_word(text: str, position: int) -> bool:
    before, after = text[position - 1], text[position]
    return not (
        before.isspace() or after.isspace() or _is_ideograph(before) or _is_ideograph(after)
    )
