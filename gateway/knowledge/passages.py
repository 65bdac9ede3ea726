"""A file's text, cut into passages under their headings. Pure.

A passage is what a model is given as one: some sentences that belong together, short enough that
three of them leave room for a conversation in a small model's context.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html.parser import HTMLParser

LONGEST = 110
"""Of a passage, in words; a Chinese character counts as half of one."""
_WORD_CHARS = 20
"""What is longer counts as several words: an address, or what is written without spaces."""
_PART_CHARS = 40
"""Of what has no spaces for longer than a passage: it may be cut behind so many."""
_HAN = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_MD_HEADING = re.compile(r"#{1,6}\s+(.*?)(?:\s+#+)?\s*$")
# Beneath one line that is no item of a list.
_MD_UNDERLINE = re.compile(r"(?:=+|-{2,})\s*$")
_MD_ITEM = re.compile(r"[-*+]\s|\d+[.)]\s")
_MD_FENCE = re.compile(r"\s*(```|~~~)")
_MD_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
# Within a word "_" is a letter of it, and between digits "*" is a sign: "info_desk@x.org", "50*70".
_MD_MARKS = re.compile(
    r"(?<!\w)_{1,3}(?=\S)|(?<=\S)_{1,3}(?!\w)|(?<!\d)[*`]{1,3}(?=\S)|(?<=\S)[*`]{1,3}(?!\d)"
    r"|^\s*>\s?|^\s*\|[\s:|-]+\|\s*$"
)
_FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")
_BLANKS = re.compile(r"\s+")
_WORD = re.compile(r"\S+")
_HTML_BLOCKS = frozenset(
    "address article aside blockquote br dd div dl dt figure footer form header hr li main ol p "
    "pre section table td th tr ul".split()
)
_HTML_UNSEEN = frozenset("head nav noscript script style template".split())
_HTML_HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a text. file: its name within the folder; heading: what it stands under, or ""."""

    file: str
    heading: str
    text: str

    @property
    def source(self) -> str:
        """As people are told where it comes from."""
        return f"{self.file}, {self.heading}" if self.heading else self.file


@dataclass(frozen=True, slots=True)
class _Block:
    """A paragraph, or a line of a list, under its heading."""

    heading: str
    text: str


def passages_of(file: str, text: str) -> list[Passage]:
    """All of a text, in order. file: its name, whose ending says what it is."""
    ending = file.rpartition(".")[2].lower()
    match ending:
        case "html" | "htm":
            blocks = _html_blocks(text)
        case "md" | "markdown":
            blocks = _markdown_blocks(text)
        case _:
            blocks = (_Block("", part) for part in re.split(r"\n\s*\n", text))
    return [
        Passage(file, heading, words) for heading, words in _joined(_short(blocks)) if words.strip()
    ]


def size_of(text: str) -> float:
    """In words."""
    han = len(_HAN.findall(text))
    return han / 2 + sum(-(-len(word) // _WORD_CHARS) for word in _HAN.sub(" ", text).split())


def _short(blocks: Iterable[_Block]) -> Iterator[_Block]:
    """None longer than a passage: those are cut between sentences, else between words."""
    for block in blocks:
        text = _BLANKS.sub(" ", block.text).strip()
        if size_of(text) <= LONGEST:
            yield _Block(block.heading, text)
            continue
        for sentence in _SENTENCE.split(text):
            for piece in _pieces(sentence):
                yield _Block(block.heading, piece)


def _pieces(sentence: str) -> Iterator[str]:
    """None longer than a passage. In one go: a list without full stops may fill a whole file."""
    begin, size = 0, 0.0
    for start, end in _parts(sentence):
        more = size_of(sentence[start:end])
        if size + more > LONGEST:
            yield sentence[begin:start].rstrip()
            begin, size = start, 0.0
        size += more
    yield sentence[begin:]


def _parts(sentence: str) -> Iterator[tuple[int, int]]:
    """From where to where each part of it goes that is not cut: words, where there are any."""
    for word in _WORD.finditer(sentence):
        start, end = word.span()
        step = _PART_CHARS if size_of(word[0]) > LONGEST else end - start
        for at in range(start, end, step):
            yield at, min(at + step, end)


def _joined(blocks: Iterable[_Block]) -> Iterator[tuple[str, str]]:
    """Neighbours under one heading become one passage while there is room."""
    heading, words = "", ""
    for block in blocks:
        together = f"{words} {block.text}".strip()
        if words and (block.heading != heading or size_of(together) > LONGEST):
            yield heading, words
            together = block.text
        heading, words = block.heading, together
    if words:
        yield heading, words


def _markdown_blocks(text: str) -> Iterator[_Block]:
    heading, lines, fenced = "", [""], False
    for line in [*_FRONT_MATTER.sub("", text).splitlines(), ""]:
        fenced ^= bool(_MD_FENCE.match(line))
        found = None if fenced else _MD_HEADING.match(line)
        if not fenced and _MD_UNDERLINE.match(line) and (above := _only_line(lines)):
            heading, lines = above, []
            continue
        if found or not line.strip():
            yield _Block(heading, " ".join(lines))
            lines = []
        if found:
            heading = _plain(found[1])
        elif not _MD_FENCE.match(line):
            lines.append(line if fenced else _plain(line))
    yield _Block(heading, " ".join(lines))


def _only_line(lines: list[str]) -> str:
    """Of a paragraph; "": it has more of them, or is an item of a list."""
    said = [line for line in lines if line] if len(lines) <= 2 else []
    return said[0] if len(said) == 1 and not _MD_ITEM.match(said[0]) else ""


def _plain(line: str) -> str:
    """Without what only says how it is printed."""
    return _MD_MARKS.sub("", _MD_LINK.sub(r"\1", line)).replace("|", " ").strip()


def _html_blocks(text: str) -> Iterator[_Block]:
    reader = _HtmlReader()
    reader.feed(text)
    reader.close()
    reader.end_block()
    return iter(reader.blocks)


class _HtmlReader(HTMLParser):
    """What a page says, in blocks under its headings."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks: list[_Block] = []
        self._heading = ""
        self._words: list[str] = []
        self._unseen = 0
        self._in_heading = False

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self._unseen += tag in _HTML_UNSEEN
        if tag == "body":
            self._unseen = 0  # </head> may be left out
        if tag in _HTML_HEADINGS:
            self.end_block()
            self._in_heading = True
        elif tag in _HTML_BLOCKS and self._in_heading:
            self._words.append(" ")
        elif tag in _HTML_BLOCKS:
            self.end_block()

    def handle_endtag(self, tag: str) -> None:
        self._unseen = max(0, self._unseen - (tag in _HTML_UNSEEN))
        if tag in _HTML_HEADINGS:
            self._heading = _BLANKS.sub(" ", "".join(self._words)).strip()
            self._words, self._in_heading = [], False
        elif tag in _HTML_BLOCKS and not self._in_heading:
            self.end_block()

    def handle_data(self, data: str) -> None:
        if not self._unseen:
            self._words.append(data)

    def parse_marked_section(self, i: int, report: int = 1) -> int:
        """Called for "<![": a comment, as to browsers; the base knows some, and fails for others.
        Returns where it ends; -1: nowhere yet.
        """
        return self.parse_bogus_comment(i)

    def end_block(self) -> None:
        """What was read so far is a block."""
        if words := "".join(self._words).strip():
            self.blocks.append(_Block(self._heading, words))
        self._words = []
