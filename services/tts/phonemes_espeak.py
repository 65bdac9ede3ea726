"""The English front end's letters -> the IPA symbols of espeak's American English.

Voices of Piper were trained on what espeak writes: diphthongs and affricates are two symbols, long
vowels carry a length mark, and "ər" is one vowel. Both write the stress mark before the vowel.
"""

from __future__ import annotations

from collections.abc import Sequence

_PAIRS = {
    "A": "eɪ", "I": "aɪ", "W": "aʊ", "Y": "ɔɪ", "O": "oʊ", "Q": "əʊ", "ʤ": "dʒ", "ʧ": "tʃ",
    "T": "ɾ", "ᵊ": "ə", "ʣ": "dz", "ʦ": "ts", "u": "uː", "ɑ": "ɑː", "ɔ": "ɔː", "—": ",", "…": ".",
    "“": '"', "”": '"',
}  # fmt: skip
_VOWELS = frozenset("AIWYOQæɑaɒɔɛeɜɚəᵊɐʌɪᵻɨiouʊ")
_STRESS = frozenset("ˈˌ")


def espeak_symbols(letters: Sequence[str]) -> list[str]:
    """For every letter its symbols, "" for one that the letter before it took in."""
    return [_symbols(letters, place) for place in range(len(letters))]


def _symbols(letters: Sequence[str], place: int) -> str:
    letter = letters[place]
    before = letters[place - 1] if place else ""
    after = letters[place + 1] if place + 1 < len(letters) else ""
    if letter == "ɜ":
        return "ɜː"
    if letter == "ə" and after == "ɹ":
        return "ɚ"
    if letter == "ɹ" and before in ("ɜ", "ə"):
        # Between vowels it is heard.
        return "ɹ" if after in _VOWELS or after in _STRESS else ""
    if letter == "i":
        return "iː" if before in _STRESS else "i"
    return _PAIRS.get(letter, letter)
