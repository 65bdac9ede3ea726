"""Which mouth shapes a phoneme is made of: ARPABET and pinyin to 15 viseme classes.

The classes are those of the Oculus lip-sync reference (sil PP FF TH DD kk CH SS nn RR aa E I O U).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

VISEMES = ("sil", "PP", "FF", "TH", "DD", "kk", "CH", "SS", "nn", "RR", "aa", "E", "I", "O", "U")
VISEME_INDEX = {name: index for index, name in enumerate(VISEMES)}
SILENCE = "sil"

_SILENT = frozenset(("", "sil", "sp", "spn", "pau", "pad", "eos", "#0", "#1", "#2", "#3"))
"""Pauses, and the prosody marks that Mandarin front ends send as symbols."""

_ARPABET: dict[str, str] = {
    "P B M": "PP",
    "F V": "FF",
    "TH DH": "TH",
    "T D DX": "DD",
    "K G NG HH": "kk",
    "CH JH SH ZH": "CH",
    "S Z": "SS",
    "N L": "nn",
    "R ER AXR": "RR",
    "AA AE AH AX": "aa",
    "EH": "E",
    "IH IY IX Y": "I",
    "AO": "O",
    "UH UW W": "U",
    "AY": "aa I",
    "AW": "aa U",
    "EY": "E I",
    "OW": "O U",
    "OY": "O I",
}
_INITIALS: dict[str, str] = {
    "b p m": "PP",
    "f": "FF",
    "d t": "DD",
    "n l": "nn",
    "g k h": "kk",
    "j q x z c s": "SS",
    "zh ch sh": "CH",
    "r": "RR",
    "y": "I",
    "w yu": "U",
    "^": "",
}
"""`j q x` are spoken with spread lips, so they count with "s", not with the rounded `sh`."""
_FINALS: dict[str, str] = {
    "a": "aa",
    "o": "O",
    "e": "E",
    "i ii iii": "I",
    "u v": "U",
    "er": "E RR",
    "ai": "aa I",
    "ei": "E I",
    "ao": "aa O",
    "ou": "O U",
    "an ang": "aa nn",
    "en eng": "E nn",
    "ong": "O nn",
    "ia": "I aa",
    "ie": "I E",
    "iao": "I aa O",
    "iu iou": "I O U",
    "ian": "I E nn",
    "iang": "I aa nn",
    "in ing": "I nn",
    "iong": "U O nn",
    "ua": "U aa",
    "uo": "U O",
    "uai": "U aa I",
    "ui uei": "U E I",
    "uan van": "U aa nn",
    "uang": "U aa nn",
    "un uen ueng": "U E nn",
    "ve ue": "U E",
    "vn": "U nn",
}
_SHARES = {1: (1.0,), 2: (0.55, 0.45), 3: (0.25, 0.45, 0.3)}
_GLIDE_SHARES = (0.3, 0.7)


@dataclass(frozen=True, slots=True)
class Phone:
    """The mouth shapes of one phoneme, in order."""

    parts: tuple[tuple[str, float], ...]
    """Viseme and its share of the duration, 1 in all. Empty: nothing is seen of it."""
    strength: float = 1.0
    """How far the mouth goes: 1 for stressed vowels and consonants, less for reduced vowels."""


def _expand(table: dict[str, str]) -> dict[str, tuple[str, ...]]:
    return {
        symbol: tuple(shapes.split())
        for symbols, shapes in table.items()
        for symbol in symbols.split()
    }


_ENGLISH = _expand(_ARPABET)
_MANDARIN = {**_expand(_INITIALS), **_expand(_FINALS)}
_VOWELS = frozenset(("aa", "E", "I", "O", "U"))
_REDUCED = {"0": 0.7, "2": 0.9}
_MANDARIN_REDUCED = {"5": 0.75}


def _parts(shapes: tuple[str, ...]) -> tuple[tuple[str, float], ...]:
    shares = _SHARES.get(len(shapes), ())
    if len(shapes) == 2 and shapes[0] in ("I", "U") and shapes[1] in _VOWELS:
        shares = _GLIDE_SHARES
    return tuple(zip(shapes, shares, strict=True))


@cache
def phone(symbol: str) -> Phone | None:
    """The mouth shapes of a phoneme symbol, or None where the symbol is not known.

    Upper case is ARPABET ("AH0"), lower case pinyin ("zh", "ang4"); a digit at the end is stress
    or tone.
    """
    if symbol.lower() in _SILENT:
        return Phone(((SILENCE, 1.0),))
    bare, digit = (symbol[:-1], symbol[-1]) if symbol[-1].isdigit() else (symbol, "")
    if bare in _ENGLISH:
        strength = _REDUCED.get(digit, 0.7 if bare in ("AX", "IX", "AXR") else 1.0)
        return Phone(_parts(_ENGLISH[bare]), strength)
    if bare in _MANDARIN:
        return Phone(_parts(_MANDARIN[bare]), _MANDARIN_REDUCED.get(digit, 1.0))
    return None
