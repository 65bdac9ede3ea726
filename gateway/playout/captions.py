"""Closed captions of what goes live or is recorded: two rows that roll up with the voice (CEA-608,
channel 1), within the H.264 pictures, as players and platforms show them to who wants them.

Pure. A picture carries one pair of bytes, so at 25 a second fifty characters, three times what is
spoken. CEA-608 knows the letters of western European languages; an answer with others has none.
Sources: CEA-608-E for the pairs, ATSC A/53 part 4 and SCTE 128 for their way into a picture.
"""

from __future__ import annotations

import unicodedata
from collections import deque
from collections.abc import Sequence

from gateway.api.events import WordTime
from gateway.playout.pacing import VIDEO_HZ
from visavis.h264 import message, with_message

_COLUMNS = 32
_ERASED_AFTER = 4 * VIDEO_HZ
"""So long after the last word it is gone from the picture."""
# Pairs that wait for pictures, some six seconds of them: a face that is away brings none.
_MOST_WAITING = 150

_ROLL_UP_2, _CARRIAGE_RETURN, _ERASE = (0x14, 0x25), (0x14, 0x2D), (0x14, 0x2C)
_BOTTOM_ROW = (0x14, 0x70)
_BEGIN_LINE = (_ROLL_UP_2, _CARRIAGE_RETURN, _BOTTOM_ROW)

_PLAIN = {chr(code): code for code in range(0x20, 0x7F) if chr(code) not in "*\\^_`{|}~"}
_PLAIN |= dict(zip("áéíóúç÷Ññ", b"\x2a\x5c\x5e\x5f\x60\x7b\x7c\x7d\x7e", strict=True))
# Characters of two bytes. The second sets take the place of the character before them, which stands
# in where a decoder does not know them.
_SPECIAL = {c: (0x11, 0x30 + n) for n, c in enumerate("®°½¿™¢£♪à\0èâêîôû") if c != "\0"}
_SECOND = {
    c: (0x12, 0x20 + n) for n, c in enumerate("ÁÉÓÚÜü‘¡*\0—©℠•“”ÀÂÇÈÊËëÎÏïÔÙùÛ«»") if c != "\0"
}
_SECOND |= {c: (0x13, 0x20 + n) for n, c in enumerate("ÃãÍÌìÒòÕõ{}\\^_|~ÄäÖöß¥¤¦Åå")}
_SECOND |= {"Ø": (0x13, 0x3A), "ø": (0x13, 0x3B)}
_WRITTEN_OTHERWISE = str.maketrans(
    {"’": "'", "–": "-", "…": "...", "„": "“", "\xa0": " ", "`": "'"}
)

# Of ITU-T T.35: the United States, ATSC; "GA94", that captions follow, that it is one pair, of
# field 1; then the pair, in which nothing is zero.
_REGISTERED = 4
_HEAD, _TAIL = b"\xb5\x00\x31GA94\x03\x41\xff\xfc", b"\xff"


class Captions:
    """Tells the pictures of one session what is being said."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, int]] = deque()
        self._turn = self._words = 0
        self._column = _COLUMNS
        self._foreign = False
        """The turn's answer has letters that nobody could show; single words would tell nothing."""
        self._spoken_at: int | None = None
        """When the last pair of words left, on the pictures' clock; None: nothing is shown."""

    def spoken(self, turn: int, words: Sequence[WordTime], played_s: float) -> None:
        """So much of a turn's answer, of which `words` are known, has been heard.

        What had been said before the first call is not made up for.
        """
        said_before_ms = 0.0 if self._turn else 1000 * played_s
        if turn != self._turn:
            self._turn, self._words, self._column = turn, 0, _COLUMNS
            self._foreign = False
        while self._words < len(words) and words[self._words].start_ms <= 1000 * played_s:
            told = words[self._words]
            text = told.text.translate(_WRITTEN_OTHERWISE)
            self._words += 1
            self._foreign |= any(c.isalpha() and not _known(c) for c in text)
            if not self._foreign and told.end_ms > said_before_ms:
                for word in "".join(filter(_known, text)).split():
                    self._write(word)

    def within(self, payload: bytes, time: int) -> bytes:
        """A picture with what it is to tell; itself where that is nothing. time: its, 90 kHz."""
        if not self._waiting:
            if self._spoken_at is None or time - self._spoken_at < _ERASED_AFTER:
                return payload
            self._spoken_at, self._column = None, _COLUMNS
            self._control(_ERASE)
        pair = self._waiting.popleft()
        if pair != _ERASE:
            self._spoken_at = time
        told = message(_REGISTERED, _HEAD + bytes(map(_with_parity, pair)) + _TAIL)
        return with_message(payload, told)

    # ------------------------------------------------------------ inside

    def _write(self, word: str) -> None:
        if len(self._waiting) > _MOST_WAITING:
            return
        if self._column and self._column + 1 + len(word) > _COLUMNS:
            self._control(*_BEGIN_LINE)
            self._column = 0
        text = f" {word}" if self._column else word
        self._column += len(text)
        single: list[int] = []
        for character in text[:_COLUMNS]:
            if character in _PLAIN:
                single.append(_PLAIN[character])
                continue
            if character in _SECOND:
                single.append(_PLAIN[_stand_in(character)])
            self._plain(single)
            single = []
            self._control(_SPECIAL.get(character) or _SECOND[character])
        self._plain(single)

    def _plain(self, codes: list[int]) -> None:
        codes = [*codes, 0] if len(codes) % 2 else codes
        self._waiting += zip(codes[::2], codes[1::2], strict=True)

    def _control(self, *pairs: tuple[int, int]) -> None:
        """Each twice: a decoder that missed one has the other, and takes both for one."""
        for pair in pairs:
            self._waiting += (pair, pair)


def _with_parity(code: int) -> int:
    """Seven bits, and an eighth that makes the number of ones odd."""
    return code if code.bit_count() % 2 else code | 0x80


def _known(character: str) -> bool:
    return character in _PLAIN or character in _SPECIAL or character in _SECOND


def _stand_in(character: str) -> str:
    """For who knows the first set of characters alone."""
    plain = unicodedata.normalize("NFKD", character)[0]
    return plain if plain in _PLAIN else "."
