"""Which words of the answers their visitors have heard: each once, in order, and no others.

Pure. The words were read from the sound that arrived (`Line.what` "heard"), so that nothing on the
way from the voice to the visitor is taken on trust.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from visavis.tools.bench.load.exchange import Exchange
from visavis.tools.bench.load.ledger import Line
from visavis.tools.bench.simulate.words import (
    ANSWER_SPAN,
    LAPS,
    NUMBERS,
    Pair,
    answer_pairs,
    asked_in,
    read_word,
)

_SHOWN = 20


@dataclass
class Heard:
    """What came of all words of all answers. faults: a sentence for each."""

    answers: int = 0
    """Answers that were to be heard to their end."""
    whole: int = 0
    """Those of which each word was heard once."""
    words: int = 0
    """Heard and clear."""
    lost: int = 0
    repeated: int = 0
    foreign: int = 0
    """Of another visitor, or of no question that was asked by then."""
    unclear: int = 0
    faults: list[str] = field(default_factory=list)

    @property
    def perfect(self) -> bool:
        return self.whole == self.answers and not self.faults

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "faults": self.faults[:_SHOWN]}

    def fault(self, visitor: int, what: str) -> None:
        self.faults.append(f"visitor {visitor}: {what}")


def judge_heard(lines: Iterable[Line], exchanges: Iterable[Exchange], mean_words: int) -> Heard:
    """lines: of all visitors; exchanges: the questions that count; mean_words: of the answers."""
    by_visitor: defaultdict[int, list[Line]] = defaultdict(list)
    for line in lines:
        by_visitor[line.visitor].append(line)
    answered = {(x.visitor, x.number % NUMBERS) for x in exchanges if x.outcome == "answered"}
    heard = Heard()
    for visitor, own in sorted(by_visitor.items()):
        asked: list[int] = []
        counts: Counter[tuple[int, int]] = Counter()
        for line in sorted(own, key=lambda one: one.at_s):
            if line.what in ("typed", "spoken"):
                code = asked_in(line.text)
                asked += [code[1]] if code is not None else []
            elif line.what == "heard":
                _note(heard, visitor, read_word(line.text), asked, counts)
        for number in asked:
            expected = answer_pairs(visitor, number, mean_words)
            complete = (visitor, number) in answered
            answered.discard((visitor, number))
            _settle(heard, visitor, number, [counts[number, k] for _, k in expected], complete)
    for visitor, number in sorted(answered):
        heard.answers += 1
        heard.fault(visitor, f"question {number} was answered and is not in the ledger")
    return heard


def _note(
    heard: Heard,
    visitor: int,
    pair: Pair | None,
    asked: Sequence[int],
    counts: Counter[tuple[int, int]],
) -> None:
    """A word that was read from the sound, for the newest question that it can belong to."""
    if pair is None:
        heard.unclear += 1
        heard.fault(visitor, "a word that is not clear")
        return
    heard.words += 1
    lap = pair[1] // ANSWER_SPAN
    number = next((n for n in reversed(asked[-LAPS:]) if n % LAPS == lap), None)
    if pair[0] != visitor or number is None:
        heard.foreign += 1
        heard.fault(visitor, f"word {pair[1]} of visitor {pair[0]}")
        return
    counts[number, pair[1]] += 1


def _settle(heard: Heard, visitor: int, number: int, counts: Sequence[int], complete: bool) -> None:
    """counts: how often each word of an answer was heard; complete: it was to be heard out."""
    last = max((place for place, count in enumerate(counts) if count), default=-1)
    due = counts if complete else counts[: last + 1]
    lost, repeated = sum(count == 0 for count in due), sum(max(0, count - 1) for count in counts)
    heard.lost += lost
    heard.repeated += repeated
    heard.answers += complete
    heard.whole += complete and not lost and not repeated
    if lost or repeated:
        heard.fault(visitor, f"question {number}: {lost} words lost, {repeated} said again")
