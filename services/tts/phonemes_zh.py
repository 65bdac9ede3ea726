"""Mandarin text -> the phonemes of the Baker voice: initials, finals with tone, prosody marks.

Tones are those that are heard: third-tone sandhi and the changes of 不 and 一 (Chao, A Grammar of
Spoken Chinese, 1968) are applied to the dictionary's readings, as the corpus was labelled.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from pypinyin import Style, load_phrases_dict, pinyin
from pypinyin.seg import mmseg

from services.tts.sound import SILENCE, Span
from services.tts.text_chunker import is_han
from visavis.errors import ModelStoreError

# Between two syllables of a word, two words, two clauses: the voice was trained with these marks
# and is understood far better with them than with "#0" alone.
_SYLLABLE = "#0"
_WORD = "#1"
BREAK = "#3"
END = "eos"
_NO_INITIAL = "^"
_AUDIBLE_BREAK_HOPS = 4

_BREAKS = frozenset('，、；：,;:—…。！？.!?（）()“”"《》\n')
_SPELLINGS = {"n": "en", "ng": "en", "m": "en", "hm": "heng", "hng": "heng", "ê": "ei",
              "lue": "lve", "nue": "nve", "yai": "ya", "fiao": "fei"}  # fmt: skip
_KEEPS_ONE_AFTER = frozenset("第零〇一二三四五六七八九十点初幺")
_KEEPS_ONE_BEFORE = frozenset("零〇一二三四五六七八九月号日楼班等")
_FULL_ER = frozenset("子童女孙歌科媳")
_FULL_ER_AFTER = frozenset("女婴幼孤胎男少小健生育")
_NUMERALS = frozenset("零〇一二三四五六七八九十百千万亿点幺两")
_CLITICS = frozenset("的地得了着过吗呢吧们啊")
_TONE = re.compile(r"([a-zêüv]+)([1-5]?)$")


class BakerPhonemes:
    """Turns text into the voice's phonemes and ids. `mapper`: mapper.json of the voice."""

    def __init__(self, mapper: Path) -> None:
        try:
            content = json.loads(mapper.read_text(encoding="utf-8"))
            self._ids: Mapping[str, int] = content["symbol_to_id"]
            self._syllables: Mapping[str, tuple[str, str]] = content["pinyin_dict"]
        except (OSError, ValueError, KeyError) as error:
            raise ModelStoreError(
                f"{mapper} cannot be read ({error}): pull the voice again"
            ) from error
        # The dictionary's own readings of what a conversation says often and it gets wrong.
        load_phrases_dict({"一会儿": [["yí"], ["huì"], ["er"]], "哪儿": [["nǎ"], ["er"]]})

    def symbols(self, text: str) -> list[str]:
        """Phonemes of normalised text, from "sil" to "sil"; empty where nothing can be spoken."""
        symbols: list[str] = []
        for clause in _clauses(text):
            spoken = self._clause(clause)
            if spoken and symbols:
                symbols.append(BREAK)
            symbols.extend(spoken)
        return [SILENCE, *symbols, SILENCE] if symbols else []

    def ids(self, symbols: list[str]) -> list[int]:
        """The network's ids of `symbols`, with the end mark."""
        return [self._ids[symbol] for symbol in (*symbols, END)]

    def _clause(self, characters: str) -> list[str]:
        symbols: list[str] = []
        words = list(mmseg.seg.cut(characters))
        word_starts = _starts_of_prosodic_words(words)
        readings = _sandhi(characters, words, _readings(characters))
        for index, (character, reading) in enumerate(zip(characters, readings, strict=True)):
            match = _TONE.fullmatch(reading)
            base = match.group(1).replace("ü", "v") if match else ""
            base = _SPELLINGS.get(base, base)
            if match is None or base not in self._syllables:
                continue
            tone = match.group(2) or "5"
            if character == "儿" and _is_suffix(characters, index) and symbols:
                symbols.append("er5")
                continue
            if symbols:
                symbols.append(_WORD if index in word_starts else _SYLLABLE)
            initial, final = self._syllables[base]
            symbols += [initial, final + tone]
        return [symbol for symbol in symbols if symbol in self._ids]


def is_final(symbol: str) -> bool:
    """Whether `symbol` is a final with its tone, with which a syllable ends."""
    return symbol[-1:].isdigit() and not symbol.startswith("#")


def pinyin_spans(symbols: Sequence[str], hops: Sequence[int]) -> list[Span]:
    """Spans of the voice's symbols (the end mark last); their hops add up.

    Prosody marks count with the final before them, or as silence where they are long; the mark of
    a missing initial counts with the final behind it.
    """
    spans: list[Span] = []
    carried = 0
    for symbol, length in zip(symbols, hops, strict=True):
        if symbol == _NO_INITIAL:
            carried = length
            continue
        silent = symbol in (SILENCE, END) or (symbol == BREAK and length >= _AUDIBLE_BREAK_HOPS)
        symbol = SILENCE if silent else symbol
        if spans and (symbol.startswith("#") or symbol == spans[-1].symbol == SILENCE):
            spans[-1] = Span(spans[-1].symbol, spans[-1].hops + length)
        elif length + carried:
            spans.append(Span(symbol, length + carried))
        carried = 0
    return spans


def _clauses(text: str) -> list[str]:
    """Chinese characters between two breaks; everything else is left out."""
    clauses, current = [], ""
    for char in text:
        if is_han(char):
            current += char
        elif char in _BREAKS and current:
            clauses.append(current)
            current = ""
    return [*clauses, current] if current else clauses


def _readings(characters: str) -> list[str]:
    """One reading per character, such as "zhong1"."""
    readings: list[str] = []
    found = pinyin(characters, style=Style.TONE3, neutral_tone_with_five=True, errors="default")
    for heteronyms in found:
        reading = heteronyms[0]
        # Characters without a reading come back as they are, several in one.
        readings += list(reading) if is_han(reading[0]) else [reading]
    return readings


def _is_suffix(characters: str, index: int) -> bool:
    """儿 that colours the syllable before it, not the word for child."""
    after = characters[index + 1 : index + 2]
    return index > 0 and after not in _FULL_ER and characters[index - 1] not in _FULL_ER_AFTER


def _starts_of_prosodic_words(words: list[str]) -> set[int]:
    """Where words begin that do not lean on the one before them."""
    starts, position = set(), 0
    before = ""
    for word in words:
        goes_on_counting = before in _NUMERALS and word[0] in _NUMERALS
        if word not in _CLITICS and not goes_on_counting:
            starts.add(position)
        position += len(word)
        before = word[-1]
    return starts


def _sandhi(characters: str, words: list[str], readings: list[str]) -> list[str]:
    changed = _third_tones(words, readings)
    for index, character in enumerate(characters):
        following = changed[index + 1][-1:] if index + 1 < len(changed) else ""
        if character == "不" and changed[index].startswith("bu"):
            changed[index] = "bu2" if following == "4" else "bu4"
        elif character == "一":
            changed[index] = "yi" + _tone_of_one(characters, index, following)
    return changed


def _tone_of_one(characters: str, index: int, following: str) -> str:
    before = characters[index - 1 : index] if index else ""
    after = characters[index + 1 : index + 2]
    if not after or before in _KEEPS_ONE_AFTER or after in _KEEPS_ONE_BEFORE:
        if before and before not in _KEEPS_ONE_AFTER and before == after:
            return "5"
        return "1"
    if before and before == after:
        return "5"  # 看一看
    if after == "个" or following == "4":
        return "2"
    return "4" if following in ("1", "2", "3") else "1"


def _third_tones(words: list[str], readings: list[str]) -> list[str]:
    """Two third tones in a row: the first is heard as second.

    Inside words from the left, then across words from the right: 我也想买 is "wo2 ye3 xiang2 mai3".
    """
    changed = list(readings)
    start = 0
    for word in words:
        for index in range(start, start + len(word) - 1):
            if changed[index][-1:] == "3" and readings[index + 1][-1:] == "3":
                changed[index] = changed[index][:-1] + "2"
        start += len(word)
    for index in range(len(changed) - 2, -1, -1):
        if changed[index][-1:] == "3" and changed[index + 1][-1:] == "3":
            changed[index] = changed[index][:-1] + "2"
    return changed
