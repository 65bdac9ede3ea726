"""Raw pieces from a model to clean text pieces: whole characters, and for a voice no markdown and
no LaTeX.
"""

from __future__ import annotations

import codecs
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable

from visavis.formulas import undecided, with_formulas_in_signs

# Control tokens that models are trained on, as they look when one slips through as text: those of
# ChatML, Llama 3 and Phi, of DeepSeek, and then of Llama 2, Mistral and Gemma.
_NAMED_TOKENS = ("[INST]", "[/INST]", "<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>")
SPECIAL_TOKEN = re.compile(
    r"<\|[A-Za-z0-9_]{1,32}\|>|<｜[^\s｜<>]{1,32}｜>|" + "|".join(map(re.escape, _NAMED_TOKENS))
)
# Those of Llama 2 and Mistral that are also HTML's, for what is struck through.
_STRUCK_OPEN, _STRUCK_CLOSE = "<s>", "</s>"
STRUCK_MARK = re.compile(f"{_STRUCK_OPEN}|{_STRUCK_CLOSE}")
_FIRST_TOKEN = re.compile(f"{_STRUCK_OPEN}|{SPECIAL_TOKEN.pattern}")
_SPECIAL_START = re.compile(r"<(?:\|(?:[A-Za-z0-9_]{1,32}\|?)?|｜(?:[^\s｜<>]{1,32}｜?)?)?$")
# Those that mean that the answer is over, whatever comes after them.
_END_TOKENS = (
    "<|im_end|>", "<|im_start|>", "<|endoftext|>", "<|eot_id|>", "<|end|>", "<eos>",
    "<end_of_turn>", "<start_of_turn>", "<｜end▁of▁sentence｜>",
)  # fmt: skip
_THINK_OPEN, _THINK_CLOSE = "<think>", "</think>"
_CALL_OPEN, _CALL_CLOSE = "<tool_call>", "</tool_call>"
_FENCE = "```"
_CALL_CHARS = 2000
"""What is longer than this is no call."""

_ZERO_WIDTH_JOINER = "\u200d"
_EMOJI_EXTENDERS = (_ZERO_WIDTH_JOINER, "\ufe0f", "\u20e3")
# Those stand behind the first character of an emoji; of the others two make a flag.
_EMOJI_PART = re.compile(f"[{''.join(_EMOJI_EXTENDERS)}\U0001f3fb-\U0001f3ff]")
_FLAG_LETTERS = "".join(map(chr, range(0x1F1E6, 0x1F200)))

# The marks of markdown. Blanks belong to the mark before them alone: a line of marks with several
# between them could else be read in more ways than can be tried.
_BULLET = re.compile(r"[ \t]*(?:#{1,6}|[-*+•>])[ \t]++")
_NUMBER = re.compile(r"[ \t]*(\d{1,2})[.)][ \t]+")
# The beginning of a line that may yet turn out to be one of the two above, or several.
_UNDECIDED = re.compile(
    rf"(?:{_BULLET.pattern})*"
    r"[ \t]*(?:#{0,6}|[-*+•>]|\d{1,2}[.)]?)[ \t]*"
)
# A single star between spaces or digits is a multiplication, and two are a power; they stay.
_EMPHASIS = re.compile(
    r"\*{3,}|(?<!\w)\*\*|\*\*(?!\d)|_{2,}|`+|~{2,}|(?<![\s\d*])\*(?!\*)|(?<!\*)\*(?![\s\d*])"
)
_EMPHASIS_END = re.compile(r"[*_`~]+$")
# A link, and what may yet become one.
_LINK = re.compile(
    r"(?<![A-Za-z0-9_\])])\[([^\[\]\n]*)\]\(<?(?:mailto:)?([^()\s<>]*(?:\([^()\s]*\))?[^()\s<>]*)>?\)"
)
_LINK_OPEN = re.compile(r"(?<![A-Za-z0-9_\])])\[[^\[\]\n]{0,200}(?:\](?:\([^\s]{0,500})?)?\Z")
_ADDRESS = re.compile(r"https?://|www\.|[^@\s]+@")


class TextStream:
    """Assembles one answer of whole pieces: none ends inside a UTF-8 character or an emoji
    sequence, or holds a stop string or a control token of a chat template.

    `stopped` turns True when a stop string was met: end the answer there.
    """

    def __init__(self, stop: tuple[str, ...] = ()) -> None:
        self.stopped = False
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._stops = (*stop, *_END_TOKENS)
        self._held = ""
        self._thinking = False
        self._begun = False
        self._unclosed = 0
        """Struck through in HTML, so that what closes it ends no answer."""
        self._dropped = 0
        """Tokens at the beginning that might have struck something through."""

    def feed(self, piece: str | bytes) -> str:
        """What can be said for sure after `piece`; "" while it is undecided."""
        if self.stopped:
            return ""
        text = self._decoder.decode(piece) if isinstance(piece, bytes) else piece
        self._held += text
        return self._release(final=False)

    def finish(self) -> str:
        """What was held back until now, once no more pieces come."""
        if self.stopped:
            return ""
        self._held += self._decoder.decode(b"", True)
        return self._release(final=True)

    def _release(self, *, final: bool) -> str:
        self._drop_thoughts(final=final)
        if self._thinking:
            return ""
        self._drop_closing()
        stop, closed = _first_of(self._held, self._stops), self._closed()
        # What closes a mark that was dropped is an end only where nothing follows.
        waits = closed >= 0 and self._dropped > 0 and stop < 0 and not final
        cut = min((place for place in (stop, closed) if place >= 0), default=-1)
        if cut >= 0 and not waits:
            self.stopped = True
            ready, self._held = self._held[:cut], ""
        else:
            keep = 0 if final else self._undecided()
            if waits:
                keep = max(keep, len(self._held) - closed)
            split = len(self._held) - keep
            ready, self._held = self._held[:split], self._held[split:]
        ready = SPECIAL_TOKEN.sub("", ready)
        self._unclosed += ready.count(_STRUCK_OPEN) - ready.count(_STRUCK_CLOSE)
        if not self._begun:
            ready = ready.lstrip()
            self._begun = bool(ready)
        return ready

    def _closed(self) -> int:
        """Where in what is held more is closed than was struck through; -1: nowhere."""
        unclosed = self._unclosed
        for mark in STRUCK_MARK.finditer(self._held):
            unclosed += 1 if mark[0] == _STRUCK_OPEN else -1
            if unclosed < 0:
                return mark.start()
        return -1

    def _drop_closing(self) -> None:
        """Of marks that were dropped, where the answer goes on behind it."""
        while self._dropped and (closed := self._closed()) >= 0:
            behind = self._held[closed + len(_STRUCK_CLOSE) :]
            if not behind.strip():
                return
            self._held = self._held[:closed] + behind
            self._dropped -= 1

    def _drop_thoughts(self, *, final: bool) -> None:
        """Reasoning models think aloud between two marks; that is not part of the answer."""
        while not self._begun:
            if not self._thinking:
                self._drop_first_tokens()
                self._thinking = self._held.lstrip().startswith(_THINK_OPEN)
            if not self._thinking:
                return
            _, closed, rest = self._held.partition(_THINK_CLOSE)
            if not closed:
                self._held = "" if final else self._held[-len(_THINK_CLOSE) :]
                return
            self._thinking, self._held = False, rest

    def _drop_first_tokens(self) -> None:
        """Control tokens with which it begins, unless it is over with one."""
        while token := _FIRST_TOKEN.match(self._held.lstrip()):
            if token[0] in _END_TOKENS:
                return
            self._held = self._held.lstrip()[token.end() :]
            self._dropped += token[0] == _STRUCK_OPEN

    def _undecided(self) -> int:
        """Characters at the end that may yet become something else."""
        keep = max(
            _overlap(self._held, token)
            for token in (*self._stops, *_NAMED_TOKENS, _STRUCK_OPEN, _STRUCK_CLOSE)
        )
        if not self._begun:
            keep = max(keep, _overlap(self._held.lstrip(), _THINK_OPEN))
        special = _SPECIAL_START.search(self._held)
        if special:
            keep = max(keep, len(self._held) - special.start())
        return max(keep, _open_emoji(self._held))


def _first_of(text: str, needles: tuple[str, ...]) -> int:
    places = [place for needle in needles if (place := text.find(needle)) >= 0]
    return min(places, default=-1)


def _overlap(text: str, needle: str) -> int:
    """Length of the longest end of `text` that begins `needle`."""
    for size in range(min(len(text), len(needle) - 1), 0, -1):
        if text.endswith(needle[:size]):
            return size
    return 0


def _open_emoji(text: str) -> int:
    """Length of the emoji at the end of `text` that the next piece may extend."""
    if flag_letters := len(text) - len(text.rstrip(_FLAG_LETTERS)):
        return 2 - flag_letters % 2
    start = len(text)
    while start and _in_emoji(text[start - 1]):
        start -= 1
        if not _EMOJI_PART.match(text, start) and text[start - 1 : start] != _ZERO_WIDTH_JOINER:
            break
    return len(text) - start


def _in_emoji(char: str) -> bool:
    # Pictographs with skin tones and regional indicators; misc. symbols and dingbats.
    return (
        char in _EMOJI_EXTENDERS
        or "\U0001f000" <= char <= "\U0001faff"
        or "\u2600" <= char <= "\u27bf"
    )


class _Filter(ABC):
    """Takes something out of a text in pieces: what may be such a thing waits for the next one."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> str:
        """What stays of it for sure after `text`; "" while it is undecided."""
        self._held += text
        return self._release(final=False)

    def finish(self) -> str:
        """What stays of what was held back until now, once no more text comes."""
        return self._release(final=True)

    @abstractmethod
    def _release(self, *, final: bool) -> str:
        """Takes from `_held` what is decided, all of it where nothing else comes."""


class SpokenText(_Filter):
    """Takes out of an answer what can be seen but not said: headings, list marks, emphasis, links.

    Line ends stay: they are pauses. A number is a list's mark only where it counts on from 1, so an
    answer such as "12. That was easy." keeps its beginning.
    """

    def __init__(self) -> None:
        super().__init__()
        self._line_start = True
        self._last = "\n"
        self._number = 0

    def _release(self, *, final: bool) -> str:
        ready = ""
        while self._held:
            if self._line_start:
                if not final and _UNDECIDED.fullmatch(self._held):
                    break
                self._drop_marks()
                self._line_start = False
            line, end, rest = self._held.partition("\n")
            if not end:
                tail = _LINK_OPEN.search(line) or _EMPHASIS_END.search(line)
                keep = 0 if final or tail is None else len(tail[0])
                line, rest = line[: len(line) - keep], line[len(line) - keep :]
            ready += self._say(line + end)
            self._held = rest
            self._line_start = bool(end)
            if not end:
                break
        return ready

    def _drop_marks(self) -> None:
        while match := _BULLET.match(self._held):
            self._held = self._held[match.end() :]
        match = _NUMBER.match(self._held)
        if match and int(match[1]) == self._number + 1:
            self._number += 1
            self._held = self._held[match.end() :]

    def _say(self, text: str) -> str:
        said = _EMPHASIS.sub("", _LINK.sub(_linked, self._last + text))[1:]
        if said:
            self._last = said[-1]
        return said


def _linked(link: re.Match[str]) -> str:
    """Its words, and where it leads if anybody else could go there."""
    words, address = link[1].strip(), link[2]
    if not _ADDRESS.match(address):
        return words
    bare = address.rstrip("/").removeprefix("https://").removeprefix("http://")
    known = words.rstrip("/").removeprefix("https://").removeprefix("http://") == bare
    return f"{words} ({address})" if words and not known else address


class InSigns(_Filter):
    """Writes the formulas of an answer as people do, `x²` for `$x^2$`: LaTeX can neither be read in
    captions nor said. A formula waits until all of it is there.
    """

    def __init__(self) -> None:
        super().__init__()
        self._last = ""

    def _release(self, *, final: bool) -> str:
        at = len(self._held) if final else undecided(self._held)
        ready, self._held = self._held[:at], self._held[at:]
        before = "" if self._last in "$\\^_" else self._last
        written = with_formulas_in_signs(before + ready)[len(before) :]
        self._last = ready[-1:] or self._last
        return written


class WithoutCalls(_Filter):
    """Takes calls of tools out of a text that is going to be said.

    Where a model may not call any more, a small one writes its call as text. What stands between
    the marks of a call goes, and so does a JSON object, in a block of code or not, that names one
    of the tools; at the end also a call that was cut off. Without names everything stays.
    """

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__()
        self._names = tuple(f'"{name}"' for name in names)
        self._in_block = False
        """Of code that is no call and was too long to wait for: the next fence closes it."""

    def _release(self, *, final: bool) -> str:
        ready = ""
        if not self._names:
            ready, self._held = self._held, ""
        while self._held:
            places = {mark: self._held.find(mark) for mark in (_CALL_OPEN, _FENCE, "{")}
            mark, at = min(
                ((mark, at) for mark, at in places.items() if at >= 0),
                key=lambda found: found[1],
                default=("", len(self._held)),
            )
            if not mark and not final:
                at -= max(_overlap(self._held, mark) for mark in (_CALL_OPEN, _FENCE))
            ready, self._held = ready + self._held[:at], self._held[at:]
            if not mark:
                break
            closes = mark == _FENCE and self._in_block
            end = len(mark) if closes else _end_of(self._held, mark)
            if end < 0 and not final and len(self._held) < _CALL_CHARS:
                break
            whole = self._held if end < 0 else self._held[:end]
            if mark != _CALL_OPEN and not any(name in whole for name in self._names):
                if mark == _FENCE:
                    self._in_block = end < 0
                if mark == "{" or end < 0:
                    whole = mark
                ready += whole
            self._held = self._held[len(whole) :]
        return ready


def _end_of(text: str, mark: str) -> int:
    """Where what begins with `mark` is over; -1: not in this text."""
    if mark != "{":
        close = _CALL_CLOSE if mark == _CALL_OPEN else mark
        at = text.find(close, len(mark))
        return at + len(close) if at >= 0 else -1
    depth, quoted, escaped = 0, False, False
    for at, char in enumerate(text):
        if escaped or char == "\\":
            escaped = not escaped
        elif char == '"':
            quoted = not quoted
        elif not quoted and char in "{}":
            depth += 1 if char == "{" else -1
            if not depth:
                return at + 1
    return -1
