"""Partial transcripts: texts by their words, and a window that slides over unfinished speech.

Two looks at the same speech differ in case and punctuation more often than in words; what is
compared here are the words alone, or the characters where a language puts no spaces.
"""

import re
from dataclasses import dataclass, field

from services.asr.hearing.detectors import SAMPLE_RATE_HZ
from services.asr.hearing.transcript import UNSPACED

# Marks as recognisers write them.
COMMAS = (",", "，", "、")
GOES_ON = ("-", "—", "…", "...", ":", "：", ";", "；")
ASKS = ("?", "？")

_SPACED_UNITS = re.compile(r"\s*\S+")
# Latin words inside Chinese text stay whole; marks go with what they follow.
_UNSPACED_UNITS = re.compile(r"\s*(?:[A-Za-z']+|\S)[^\w\s]*")
_TAIL = re.compile(r"[^\w]*$")

WINDOW_SAMPLES = 6 * SAMPLE_RATE_HZ
# Where a full window may be cut: not at its very end, which is still changing.
FEWEST_HEAD_SAMPLES = 2 * SAMPLE_RATE_HZ
FEWEST_TAIL_SAMPLES = 3 * SAMPLE_RATE_HZ // 2
# The end of a look is a guess: its last words wait for more sound. With fewer of them held
# back, final texts got worse by being bound to what had been committed too soon.
_HELD_BACK_UNITS = 3
_HELD_BACK_UNSPACED_UNITS = 5
# Less than this of new sound between two looks is no second opinion.
_FRESH_SAMPLES = SAMPLE_RATE_HZ // 4


def units_of(text: str, language: str) -> list[str]:
    """Words or characters with the space before them and the marks after them.

    Joined they give the text again, but for space at its end.
    """
    pattern = _UNSPACED_UNITS if language in UNSPACED else _SPACED_UNITS
    return pattern.findall(text)


def word_of(unit: str) -> str:
    """What counts of a unit when texts are compared."""
    return "".join(char for char in unit.casefold() if char.isalnum())


def without_marks(text: str) -> str:
    """The text less the marks and spaces at its end."""
    return _TAIL.sub("", text)


def agreement(one: list[str], other: list[str]) -> int:
    """How many units from the beginning are the same words."""
    count = 0
    for left, right in zip(one, other, strict=False):
        if word_of(left) != word_of(right):
            break
        count += 1
    return count


def counterpart(before: list[str], units: list[str]) -> int:
    """Length of the beginning of `units` that is nearest to `before` in edit distance."""
    same = agreement(before, units)
    wanted, words = [word_of(u) for u in before[same:]], [word_of(u) for u in units[same:]]
    row = list(range(len(words) + 1))
    for i, word in enumerate(wanted, 1):
        above, row = row, [i]
        for j, other in enumerate(words, 1):
            row.append(min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (word != other)))

    def ends_alike(j: int) -> bool:
        return bool(j and wanted) and words[j - 1] == wanted[-1]

    # Of several as near, the word that both end with is the same one, and not to come again.
    length = len(wanted)
    nearest = min(range(len(row)), key=lambda j: (row[j], not ends_alike(j), abs(j - length)))
    return same + nearest


def continued(kept: str, text: str, language: str) -> str:
    """A text that begins with `kept` and goes on as `text` does after the same words.

    Where `text` has other words at its beginning, the shortest edit distance says
    how many of them stand for those of `kept`.
    """
    if not kept or text.startswith(kept):
        return text or kept
    before, units = units_of(kept, language), units_of(text, language)
    same = agreement(before, units) == len(before)
    taken = len(before) if same else counterpart(before, units)
    rest = "".join(units[taken:])
    if taken and word_of(units[taken - 1]) == word_of(before[-1]) and without_marks(kept) == kept:
        rest = _TAIL.findall(units[taken - 1])[0] + rest
    if rest[:1].isalnum() and language not in UNSPACED:
        rest = " " + rest
    return kept + rest


def after(head: str, stable: str, text: str, language: str) -> str:
    """`head`, then `text`, and all of it beginning with `stable`.

    Of `head` and `stable` one begins with the other, but for words that looks at the end of `head`
    have understood otherwise.
    """
    space = " " if head and text and language not in UNSPACED else ""
    if len(stable) <= len(head):
        return head + space + text
    kept = stable[len(head) :]
    if not stable.startswith(head):
        kept = "".join(_behind(head, stable, language))
    return head + continued(kept, space + text if text else "", language)


def as_far_as(text: str, head: str, stable: str, language: str) -> str:
    """`stable` without the words that lie behind those of `text`, which follows `head`."""
    behind = _behind(head, stable, language)
    beyond = behind[counterpart(units_of(text, language), behind) :]
    return stable[: len(stable) - len("".join(beyond))]


def _behind(head: str, stable: str, language: str) -> list[str]:
    """Units of `stable` that follow those that stand for `head`."""
    units = units_of(stable, language)
    return units[counterpart(units_of(head, language), units) :]


@dataclass(slots=True)
class PartialText:
    """The text of unfinished speech, whose beginning is never taken back.

    Every look at the speech transcribes the sound of a window of a few seconds, so that its cost
    does not grow with the utterance. Words on which two successive looks agree are committed
    (LocalAgreement-2, Liu et al. 2020, arXiv:2005.11185; for Whisper: Machacek et al. 2023,
    arXiv:2307.14743). When the window is full its beginning is transcribed once more by itself, up
    to the quietest place, and left behind.
    """

    language: str
    start: int
    """First sample of the window."""
    head: str = ""
    """Text of what was said before the window."""
    stable: str = ""
    """Never taken back: every text of this utterance begins with it."""
    text: str = ""
    """The latest whole text."""
    _latest: list[str] = field(default_factory=list)
    _latest_end: int = 0

    def is_full(self, now: int) -> bool:
        """The window has become as long as a look may be."""
        return now - self.start >= WINDOW_SAMPLES

    @property
    def draft(self) -> str:
        """A guess at what the next look will give."""
        return "".join(self._latest)

    def take_look(self, start: int, end: int, text: str) -> bool:
        """What was understood of [start, end). False: the window has moved on, it is void."""
        if start != self.start:
            return False
        units = units_of(text, self.language)
        if end - self._latest_end >= _FRESH_SAMPLES:
            self._commit(units)
            self._latest, self._latest_end = units, end
        self.text = self.whole(text)
        return True

    def leave_head(self, start: int, end: int, text: str) -> None:
        """`text` was understood of [start, end), and the window begins at `end` from now on."""
        if start != self.start:
            return
        # Stable words may be those of sound beyond `end`: they are the next window's.
        stable = units_of(self.stable[len(self.head) :], self.language)
        reached = counterpart(units_of(text, self.language), stable)
        if reached < len(stable):
            head = self.head + "".join(stable[:reached])
        else:
            head = self.whole(text)
        self._begin_window(end, head)

    def leave_all(self, end: int, text: str) -> None:
        """`text` is all that was said before `end`, and the window begins there from now on."""
        self._begin_window(end, continued(self.stable, text, self.language))

    def whole(self, text: str) -> str:
        """The utterance with `text` as that of the window."""
        return after(self.head, self.stable, text, self.language)

    def _begin_window(self, start: int, head: str) -> None:
        self.head = head
        self.start, self.text = start, max(head, self.stable, key=len)
        self._latest, self._latest_end = [], 0

    def _commit(self, units: list[str]) -> None:
        unspaced = self.language in UNSPACED
        held_back = _HELD_BACK_UNSPACED_UNITS if unspaced else _HELD_BACK_UNITS
        agreed = min(agreement(self._latest, units), len(units) - held_back)
        if unspaced:
            # Whisper writes Chinese that it does not understand yet in Latin letters.
            latin = (i for i, unit in enumerate(units) if word_of(unit).isascii())
            agreed = min(agreed, next(latin, agreed))
        if agreed <= 0:
            return
        whole = without_marks(self.whole("".join(units[:agreed])))
        if len(whole) > len(self.stable) and whole.startswith(self.stable):
            self.stable = whole
