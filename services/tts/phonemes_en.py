"""The English voice's own phoneme letters -> ARPABET with their durations.

The voice writes one letter per sound, with stress marks in front of vowels and with blanks and
punctuation between words; each of these has a duration of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from services.tts.sound import SILENCE, Span

_VOWELS = {
    "A": "EY", "I": "AY", "W": "AW", "Y": "OY", "O": "OW", "Q": "OW",
    "æ": "AE", "ɑ": "AA", "a": "AA", "ɒ": "AA", "ɔ": "AO", "ɛ": "EH", "e": "EH", "ɜ": "ER",
    "ɚ": "ER", "ə": "AH", "ᵊ": "AH", "ɐ": "AH", "ʌ": "AH", "ɪ": "IH", "ᵻ": "IH", "ɨ": "IH",
    "i": "IY", "o": "OW", "u": "UW", "ʊ": "UH",
}  # fmt: skip
_CONSONANTS = {
    "b": "B", "d": "D", "f": "F", "h": "HH", "j": "Y", "k": "K", "l": "L", "m": "M", "n": "N",
    "p": "P", "s": "S", "t": "T", "v": "V", "w": "W", "z": "Z", "ɡ": "G", "ŋ": "NG", "ɹ": "R",
    "r": "R", "ʃ": "SH", "ʒ": "ZH", "θ": "TH", "ð": "DH", "ʤ": "JH", "ʧ": "CH", "T": "D",
    "ɾ": "D", "ʔ": "T", "x": "K", "c": "K", "q": "K", "ʣ": "Z", "ʦ": "S", "ç": "HH",
}  # fmt: skip
_STRESS = {"ˈ": "1", "ˌ": "2"}
_LENGTH_MARKS = frozenset("ːʰʲ̃")
_BLANK = " "


def arpabet_spans(letters: Sequence[str], hops: Sequence[int]) -> list[Span]:
    """Spans of all of `letters` ("" stands for the padding at the ends); their hops add up.

    The time of a stress mark goes to its vowel, that of a blank to the sounds around it, that of
    punctuation to silence. "əɹ" and "ɜɹ" are one sound in ARPABET.
    """
    spans: list[Span] = []
    carried = 0
    stress = "0"
    for letter, length in zip(letters, hops, strict=True):
        if letter in _STRESS:
            stress = _STRESS[letter]
            carried += length
        elif letter in _LENGTH_MARKS or letter == _BLANK:
            carried += _give_to_last(spans, length, share=1.0 if letter != _BLANK else 0.5)
        elif letter == "ɹ" and spans and spans[-1].symbol.rstrip("012") == "ER" and not carried:
            _give_to_last(spans, length, share=1.0)
        elif letter == "ɹ" and spans and spans[-1].symbol == "AH0" and not carried:
            spans[-1] = Span("ER0", spans[-1].hops + length)
        elif letter in _VOWELS:
            spans.append(Span(_VOWELS[letter] + stress, length + carried))
            carried, stress = 0, "0"
        elif letter in _CONSONANTS:
            spans.append(Span(_CONSONANTS[letter], length + carried))
            carried = 0
        else:
            _give_silence(spans, length + carried)
            carried = 0
    if carried:
        _give_silence(spans, carried)
    return spans


def _give_to_last(spans: list[Span], length: int, *, share: float) -> int:
    """Lengthen the last span by its share; what is left for the next one comes back."""
    if not spans:
        return length
    if spans[-1].symbol == SILENCE:
        share = 1.0
    given = round(length * share)
    spans[-1] = Span(spans[-1].symbol, spans[-1].hops + given)
    return length - given


def _give_silence(spans: list[Span], length: int) -> None:
    if spans and spans[-1].symbol == SILENCE:
        spans[-1] = Span(SILENCE, spans[-1].hops + length)
    else:
        spans.append(Span(SILENCE, length))
