"""The operator's folder of texts: read at the start, and again whenever a file has changed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gateway import metrics
from gateway.api.choices import sendable
from gateway.knowledge.passages import Passage, passages_of
from gateway.knowledge.search import Search
from gateway.talk.actions import Message
from visavis.serving.errors import InvalidInputError

log = logging.getLogger(__name__)

LOOK_S = 5.0
"""How often it is looked whether something has changed."""
ENDINGS = frozenset((".txt", ".md", ".markdown", ".html", ".htm"))
MAX_FILES = 2000
MAX_FILE_BYTES = 5_000_000
MAX_PASSAGES = 20_000
_TOLD = 10
"""Files that are left out and named; the rest is counted."""


@dataclass(slots=True)
class Reading:
    """What a folder held when it was read."""

    files: int = 0
    passages: list[Passage] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    """Names, and why."""

    def report(self, folder: Path) -> str:
        """In one line."""
        told = f"knowledge: {self.files} files, {len(self.passages)} passages from {folder}"
        if not self.left_out:
            return told
        named = "; ".join(self.left_out[:_TOLD])
        more = len(self.left_out) - _TOLD
        return f"{told}; left out: {named}" + (f"; and {more} more" if more > 0 else "")


class Knowledge:
    """Answers what a folder of texts says of a question. `open` it, keep `watch` running."""

    def __init__(self, folder: Path) -> None:
        """Raises InvalidInputError where there is no such folder."""
        if not folder.is_dir():
            raise InvalidInputError(f"knowledge: {folder} is not a folder")
        self._folder = folder
        self._seen: frozenset[tuple[str, int, int]] = frozenset()
        self._search = Search(())

    async def open(self) -> None:
        """Read it for the first time, and tell what was found."""
        self._seen = await asyncio.to_thread(_look, self._folder)
        await self._read()

    async def watch(self) -> None:
        """Read it anew whenever something in it has changed."""
        while True:
            await asyncio.sleep(LOOK_S)
            await self.refresh()

    async def refresh(self) -> bool:
        """Read it anew if something has changed; whether it had."""
        seen = await asyncio.to_thread(_look, self._folder)
        if seen == self._seen:
            return False
        await self._read()
        self._seen = seen  # not before: what has failed is tried again
        return True

    async def _read(self) -> None:
        reading, self._search = await asyncio.to_thread(_searchable, self._folder)
        metrics.knowledge_passages.set(len(reading.passages))
        log.info("%s", reading.report(self._folder))

    def find(self, messages: tuple[Message, ...]) -> tuple[Passage, ...]:
        """What the last question of a conversation asks for; nothing where nothing fits."""
        asked = [message.content for message in messages if message.role == "user"]
        if not asked:
            return ()
        return tuple(self._search.find(asked[-1], asked[-2] if len(asked) > 1 else ""))


def read_folder(folder: Path) -> Reading:
    """All files that can be read, in the order of their names."""
    reading = Reading()
    for path in _files(folder):
        # On Linux a name may be any bytes; a question that found it could not be sent to a model.
        name = sendable(path.relative_to(folder).as_posix())
        try:
            if why := _why_not(path, folder, reading):
                reading.left_out.append(f"{name} ({why})")
                continue
            text = path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError:
            reading.left_out.append(f"{name} (not UTF-8)")
            continue
        except OSError as error:
            reading.left_out.append(f"{name} ({error.strerror})")
            continue
        reading.files += 1
        reading.passages += passages_of(name, text)
    if len(reading.passages) > MAX_PASSAGES:
        reading.left_out.append(f"all behind the first {MAX_PASSAGES} passages")
        del reading.passages[MAX_PASSAGES:]
    return reading


def _why_not(path: Path, folder: Path, reading: Reading) -> str:
    if path.suffix.lower() not in ENDINGS:
        return "only txt, md and html are read"
    if not path.resolve().is_relative_to(folder.resolve()):
        return "it lies elsewhere"
    if reading.files >= MAX_FILES:
        return f"more than {MAX_FILES} files"
    size = path.stat().st_size
    return f"{size} bytes, at most {MAX_FILE_BYTES}" if size > MAX_FILE_BYTES else ""


def _searchable(folder: Path) -> tuple[Reading, Search]:
    reading = read_folder(folder)
    return reading, Search(reading.passages)


def _look(folder: Path) -> frozenset[tuple[str, int, int]]:
    """What tells one state of the folder from another: names, times and sizes."""
    seen = set()
    for path in _files(folder):
        try:
            stat = path.stat()
        except OSError:
            continue  # it has just gone
        seen.add((path.as_posix(), stat.st_mtime_ns, stat.st_size))
    return frozenset(seen)


def _files(folder: Path) -> Iterator[Path]:
    """None that is hidden, in order."""
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.is_file() and not hidden:
            yield path
