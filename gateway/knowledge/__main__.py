"""`python -m gateway.knowledge FOLDER`: what a folder's texts find, and how well.

With --ask: the passages of one question. With --questions: of a set in TOML, each with `half`,
`ask` and `answer`, the source of the passage that answers it, or "" where none does.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from gateway.knowledge.folder import read_folder
from gateway.knowledge.search import MOST, Search
from visavis.serving.errors import InvalidInputError


@dataclass(frozen=True, slots=True)
class Asked:
    """One question of a set. answer: source of the passage that answers it; "": none does."""

    half: str
    ask: str
    answer: str


@dataclass(frozen=True, slots=True)
class Half:
    """What came of one half of the set."""

    answered: int
    """Questions that a text answers."""
    first: int
    """Of those, the right passage was the first found."""
    among: int
    """It was among those found."""
    unanswered: int
    """Questions that no text answers."""
    rightly_none: int
    """Of those, nothing was found."""
    search_ms_median: float
    """Processor time."""
    wrong: tuple[str, ...]


def read_questions(path: Path) -> list[Asked]:
    """Raises InvalidInputError where the file is not in order."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        return [Asked(q["half"], q["ask"], q["answer"]) for q in content["questions"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidInputError(f"questions: {path} is no set of questions: {error}") from None


def judge(search: Search, questions: Sequence[Asked]) -> Half:
    """Ask all of them."""
    first = among = rightly_none = 0
    wrong, took_ms = [], []
    for asked in questions:
        began_s = time.process_time()
        found = [passage.source for passage in search.find(asked.ask)]
        took_ms.append((time.process_time() - began_s) * 1000)
        first += bool(found) and found[0] == asked.answer
        among += asked.answer in found
        rightly_none += not asked.answer and not found
        if (asked.answer or found) and asked.answer not in found:
            wrong.append(f"{asked.ask} → {'; '.join(found) or 'nothing'}")
    unanswered = sum(not asked.answer for asked in questions)
    counts = (len(questions) - unanswered, first, among, unanswered, rightly_none)
    return Half(*counts, statistics.median(took_ms), tuple(wrong))


def main(argv: Sequence[str]) -> None:
    """Raises InvalidInputError where a file is not in order."""
    parser = argparse.ArgumentParser(prog="python -m gateway.knowledge", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ask", default="")
    parser.add_argument("--questions", type=Path)
    given, console = parser.parse_args(argv), Console()
    reading = read_folder(given.folder)
    search = Search(reading.passages)
    console.print(reading.report(given.folder), highlight=False)
    if given.ask:
        for passage in search.find(given.ask):
            console.print(f"{passage.source}: {passage.text}", markup=False, highlight=False)
    if given.questions is not None:
        _print(console, search, read_questions(given.questions))


def _print(console: Console, search: Search, questions: Sequence[Asked]) -> None:
    among = f"among {MOST}"
    table = Table("half", "answered", "first", among, "unanswered", "found nothing", "search, CPU")
    for name in dict.fromkeys(asked.half for asked in questions):
        half = judge(search, [asked for asked in questions if asked.half == name])
        counts = (half.answered, half.first, half.among, half.unanswered, half.rightly_none)
        table.add_row(name, *map(str, counts), f"{half.search_ms_median:.2f} ms")
        for wrong in half.wrong:
            console.print(f"{name}: {wrong}", markup=False, highlight=False)
    console.print(table)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except InvalidInputError as error:
        sys.exit(str(error))
