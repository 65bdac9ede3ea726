"""Passages of the operator's texts, as the model reads them with the question that they fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from services.llm.backends.base import TokenCounter

MOST_PASSAGES = 10
MOST_CHARS = 4000
"""Of one passage."""
SHARE = 0.4
"""Of the prompt's room, at most."""
_TOLD = "Notes, to be used where they answer the question:\n{notes}\n\nQuestion: {question}"
_TOLD_IN_CHINESE = "参考资料（如与问题有关，请据此回答）：\n{notes}\n\n问题：{question}"


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a text. source: where it stands."""

    source: str
    text: str


def fitting(
    passages: Sequence[Passage], room_tokens: int, count_tokens: TokenCounter
) -> tuple[Passage, ...]:
    """As many as there is room for, the first ones first.

    In an order of their own: the same passages make the same prompt, which is read but once.
    """
    left = int(room_tokens * SHARE) - max(map(count_tokens, (_TOLD, _TOLD_IN_CHINESE)))
    taken = []
    for passage in passages:
        tokens = count_tokens(_line(passage))
        if tokens <= left:
            taken.append(passage)
            left -= tokens
    return tuple(sorted(taken, key=_line))


def told(question: str, passages: Sequence[Passage], *, in_chinese: bool) -> str:
    """The question, with what is known of it before it: its own words come last, and what stands
    before them is read while they are still being spoken.
    """
    if not passages:
        return question
    form = _TOLD_IN_CHINESE if in_chinese else _TOLD
    return form.format(notes="\n".join(map(_line, passages)), question=question)


def _line(passage: Passage) -> str:
    return f"- {passage.source}: {passage.text}"
