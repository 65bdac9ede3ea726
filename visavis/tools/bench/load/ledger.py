"""Whose words reached whom: what was asked and told, kept apart from the measuring, and judged.

Pure. Every typed question carries a code word that no other visitor has, so that a word which
turns up at another's is known for what it is. What the check proves, and what it cannot, stands in
docs/load.md.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from visavis.tools.bench.figures.word_errors import words

# Syllables that no English or Chinese (pinyin) word is made of three times over.
_SYLLABLES = [consonant + vowel for consonant in "zvkxj" for vowel in "aeiou"]
_CODES = len(_SYLLABLES) ** 3
# Coprime to 5: every visitor up to _CODES has a word of his own, and neighbours' differ a lot.
_SPREAD = 7919
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Line:
    """One entry: something that was said to the avatar, or that a visitor was told."""

    visitor: int
    at_s: float
    """From the run's start."""
    what: Literal["typed", "spoken", "understood", "answer", "record", "heard", "away"]
    """typed, spoken: the question; understood: the final transcript of it; answer: a piece of the
    answer; record: the whole answer, as the gateway keeps it, of a turn that was finished; heard: a
    word read from the sound, where a simulated voice makes that possible; away: nobody was
    connected, and what was told of the turn meanwhile is missing here."""
    turn: int
    """0: not known yet (spoken)."""
    text: str
    visit: int = 1
    """Who comes again has another session, whose turns count from 1 as well."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class Verdict:
    """What the ledger of all visitors shows. The lists hold a sentence for each fault."""

    questions: int = 0
    exact: int = 0
    """Typed questions that came back to their visitor to the letter."""
    typed: int = 0
    answers: int = 0
    """Finished answers, told piece by piece, that are the gateway's record to the letter."""
    finished: int = 0
    with_code: int = 0
    """Answers to typed questions that say their visitor's code word: in them, the words of
    another's could be seen."""
    foreign: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)

    @property
    def faults(self) -> list[str]:
        return [*self.foreign, *self.lost, *self.doubled]

    def counts(self) -> dict[str, float]:
        """For a table."""
        return {
            "questions_in_the_ledger": self.questions,
            "typed": self.typed,
            "of_them_told_back_exactly": self.exact,
            "answers_finished": self.finished,
            "of_them_told_exactly": self.answers,
            "answers_with_their_code_word": self.with_code,
            "words_of_another": len(self.foreign),
            "lost": len(self.lost),
            "doubled": len(self.doubled),
        }


def code_word(visitor: int) -> str:
    """A word that means nothing and belongs to this visitor."""
    place = (visitor + 1) * _SPREAD % _CODES
    size = len(_SYLLABLES)
    return "".join(_SYLLABLES[place // size**power % size] for power in (2, 1, 0))


def with_code(visitor: int, number: int, question: str) -> str:
    """A typed question as nobody else asks it: no two are the same text."""
    word = code_word(visitor)
    if question.isascii():
        return f"Please begin your answer with the word {word}. Question {number + 1}: {question}"
    return f"请用 {word} 这个词开头回答。第 {number + 1} 个问题：{question}"


def judge(lines: Iterable[Line]) -> Verdict:
    """What is wrong with what the visitors were told."""
    by_visit: defaultdict[tuple[int, int], list[Line]] = defaultdict(list)
    for line in lines:
        by_visit[line.visitor, line.visit].append(line)
    codes = {code_word(visitor): visitor for visitor, _ in by_visit}
    spoken: defaultdict[tuple[str, ...], set[int]] = defaultdict(set)
    for (visitor, _), own in by_visit.items():
        for line in own:
            if line.what == "spoken" and words(line.text):
                spoken[tuple(words(line.text))].add(visitor)
    verdict = Verdict()
    for (visitor, _), own in by_visit.items():
        _judge_questions(visitor, own, verdict)
        _judge_answers(visitor, own, verdict)
        _find_foreign(visitor, own, codes, spoken, verdict)
    return verdict


def _judge_questions(visitor: int, own: Sequence[Line], verdict: Verdict) -> None:
    """Each typed question comes back once, as it was typed."""
    told = [(line.turn, line.text) for line in own if line.what == "understood"]
    verdict.questions += sum(line.what in ("typed", "spoken") for line in own)
    for (turn, text), times in Counter(told).items():
        # Of turn 0 is what no turn came of; the same may be misheard twice.
        if turn and times > 1:
            verdict.doubled.append(_fault(visitor, turn, f"question told {times} times", text))
    for line in own:
        if line.what != "typed":
            continue
        verdict.typed += 1
        if (line.turn, line.text) in told:
            verdict.exact += 1
        else:
            verdict.lost.append(_fault(visitor, line.turn, "typed, not told back", line.text))


def _judge_answers(visitor: int, own: Sequence[Line], verdict: Verdict) -> None:
    """The pieces of a finished answer are the whole of it, but for what was told while nobody was
    connected: of that, none is told again either."""
    pieces = answers_of(own)
    typed = {line.turn for line in own if line.what == "typed"}
    verdict.with_code += sum(
        code_word(visitor) in text.lower() for turn, text in pieces.items() if turn in typed
    )
    for line in own:
        if line.what != "record":
            continue
        verdict.finished += 1
        told = pieces.get(line.turn, "")
        whole = ".*".join(map(re.escape, _stretches(own, line.turn)))
        if re.fullmatch(whole, line.text, re.DOTALL):
            verdict.answers += 1
        elif len(told) < len(line.text):
            verdict.lost.append(_fault(visitor, line.turn, "answer with a hole", told))
        else:
            verdict.doubled.append(_fault(visitor, line.turn, "more than the answer", told))


def _find_foreign(
    visitor: int,
    own: Sequence[Line],
    codes: Mapping[str, int],
    spoken: Mapping[tuple[str, ...], set[int]],
    verdict: Verdict,
) -> None:
    """Words that only another visitor can have said."""
    told = [(line.turn, line.text) for line in own if line.what == "understood"]
    for turn, text in [*told, *answers_of(own).items()]:
        lowered = text.lower()
        for code, owner in codes.items():
            if owner != visitor and code in lowered:
                verdict.foreign.append(_fault(visitor, turn, f"visitor {owner}'s code word", text))
    for turn, text in told:
        owners = spoken.get(tuple(words(text)), set())
        if owners and visitor not in owners:
            others = ", ".join(str(owner) for owner in sorted(owners))
            verdict.foreign.append(_fault(visitor, turn, f"what visitor {others} has said", text))


def _stretches(own: Iterable[Line], turn: int) -> list[str]:
    """A turn's answer as it was told, in as many stretches as there were connections."""
    found = [""]
    for line in own:
        if line.turn == turn and line.what == "away":
            found.append("")
        elif line.turn == turn and line.what == "answer":
            found[-1] += line.text
    return found


def answers_of(own: Iterable[Line]) -> dict[int, str]:
    """Each turn's answer as the visitor was told it."""
    pieces: defaultdict[int, str] = defaultdict(str)
    for line in own:
        if line.what == "answer":
            pieces[line.turn] += line.text
    return dict(pieces)


def _fault(visitor: int, turn: int, what: str, text: str) -> str:
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]} …"
    return f"visitor {visitor}, turn {turn}: {what}: {shown!r}"
