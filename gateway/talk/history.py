"""The conversation as the language model reads it: who the face is, and only what was heard."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from gateway.talk.actions import Message
from gateway.talk.words import joined, says_the_same

# Older messages are beyond any token budget that answers in real time. So many go at once: a prompt
# that begins elsewhere each time would be read as a whole each time.
LIMIT, _KEPT = 100, 50

# Small models follow an instruction best in the language that they are to answer in.
_ANSWER_IN = {
    "en": "Answer in English.",
    "zh": "请用简体中文回答。",
    "de": "Antworte auf Deutsch.",
    "es": "Responde en español.",
    "fr": "Réponds en français.",
    "ja": "日本語で答えてください。",
    "ko": "한국어로 대답하세요.",
}

# Seconds that a character takes where the voice has not told yet: about 15 letters or
# 4.5 Chinese characters a second, as measured on ordinary read speech.
_LETTER_S = 1 / 15
_IDEOGRAPH_S = 1 / 4.5
_OF_A_WORD = re.compile(r"\w")
# The very end of a word can be missing and the word is heard.
_TOLERANCE_S = 0.03


class History:
    """Keeps what visitor and face have said, in order, for the next prompt."""

    def __init__(self, persona: str) -> None:
        self.persona = persona
        self._said: list[Message] = []
        self._gone_through: list[Message] = []
        """What `_told` is made of: a question is told anew with each word that is known of it."""
        self._told: list[Message] = []

    @property
    def said(self) -> tuple[Message, ...]:
        """What both have said, oldest first."""
        return tuple(self._said)

    def carry_on(self, said: Sequence[Message]) -> None:
        """The conversation began elsewhere, with this."""
        self._add(*said)

    def replace(self, said: Sequence[Message]) -> None:
        """This has been said, and nothing else."""
        self._said.clear()
        self._add(*said)

    def visitor(self, text: str, *, goes_on: bool = False) -> None:
        """goes_on: `text` begins with what the visitor said last, and stands for both."""
        if goes_on:
            self.take_back()
        self._add(Message("user", text))

    @property
    def unanswered(self) -> bool:
        """Whether the visitor said something last."""
        return bool(self._said) and self._said[-1].role == "user"

    def take_back(self) -> None:
        """What the visitor said last will be said anew."""
        if self.unanswered:
            self._said.pop()

    def take_back_answer(self, question: str, heard: str) -> bool:
        """Question and answer will be said anew; False, where these are not what was said last."""
        last = [Message("user", question), *answered(heard)]
        known = self._said[-len(last) :] == last
        if known:
            del self._said[-len(last) :]
        return known

    def face(self, text: str, called: Sequence[Message] = ()) -> None:
        """called: what it called for its answer, and the results."""
        self._add(*answered(text, called))

    def forget_unanswered(self) -> None:
        """Drop what the visitor said last and was not answered."""
        while self.unanswered:
            self._said.pop()

    def supersede(self) -> None:
        """The visitor types on without an answer: keep the newest of what was not answered.

        That may be the first half of what comes now. All of it would make each text that
        follows quickly dearer than the one before, and bury the last one under the others.
        """
        while len(self._said) > 1 and self._said[-2].role == self._said[-1].role == "user":
            del self._said[-2]

    def _add(self, *said: Message) -> None:
        self._said += said
        if len(self._said) > LIMIT:
            del self._said[:-_KEPT]

    def prompt(self, text: str, behind: Sequence[Message] = ()) -> tuple[Message, ...]:
        """Messages for an answer to `text`. The history itself does not change.

        behind: what will have been said by then, as `answered` has it, if all of it is heard.

        Utterances of one side that follow each other become one message: a visitor who
        goes on before the answer came has asked one longer question.
        """
        if self._said != self._gone_through:
            self._gone_through = list(self._said)
            self._told = _each_answer_once(_in_turn(self._said))
        told = _in_turn((*self._told, *behind, Message("user", text)))
        system = [Message("system", self.persona)] if self.persona else []
        return (*system, *told)


def _in_turn(said: Sequence[Message]) -> list[Message]:
    """Both sides by turns, the visitor first."""
    merged: list[Message] = []
    for message in said:
        alike = bool(merged) and merged[-1].role == message.role != "tool"
        if alike and not (message.calls or merged[-1].calls):
            message = Message(message.role, joined(merged.pop().content, message.content))
        if merged or message.role == "user":  # else its question has fallen out of the window
            merged.append(message)
    return merged


def _each_answer_once(said: Sequence[Message]) -> list[Message]:
    """Questions and answers in turn, of one answer that was given again the newest alone; the
    questions that it had before stand with those that came after them.

    A small model that reads an answer twice gives it again, whatever is asked: a quarter of
    SmolLM2-135M's answers said what an earlier one had said, with this a tenth
    (docs/language-models.md). The questions stay for what visitors tell in them. Nothing is put in
    that was not there in this order: what follows is moved in the language model's cache, where
    behind anything else it would have to be read anew.
    """
    kept: list[Message] = []
    for at, message in enumerate(said):
        known = _answered_before(kept, message) if _is_exchange(said, at) else None
        if known is not None:
            del kept[known + 1]
            kept[known : known + 2] = [_together(*kept[known : known + 2])]
        kept.append(message)
    return kept


def _together(question: Message, next_one: Message) -> Message:
    """Without the mark between them: with a line's end many tokenizers make one token of it, which
    was not there before.
    """
    asked = question.content
    # From its end, for it may be long: it grows with each that is put behind it.
    end = next((at for at in range(len(asked), 0, -1) if _OF_A_WORD.match(asked, at - 1)), 0)
    return replace(question, content=f"{asked[:end]}\n{next_one.content}")


def _is_exchange(said: Sequence[Message], at: int) -> bool:
    """Whether `said[at]` answers the question right before it, with nothing called for it."""
    return said[at].role == "assistant" and not said[at].calls and said[at - 1].role == "user"


def _answered_before(kept: Sequence[Message], answer: Message) -> int | None:
    """Where the question stands that got the same answer, and was followed by another one."""
    for at in range(1, len(kept) - 1):
        known = _is_exchange(kept, at) and kept[at + 1].role == "user"
        if known and says_the_same(kept[at].content, answer.content):
            return at - 1
    return None


def answered(text: str, called: Sequence[Message] = ()) -> tuple[Message, ...]:
    """What the face has said, behind what it called for it."""
    return (*called, Message("assistant", text)) if text else tuple(called)


def system_message(persona: str, language: str) -> str:
    """`persona`, and the language of the answers where it is one of those known here.

    Empty for an empty persona: the language model then speaks as its own, which it has read
    ahead, so that the first answer comes sooner.
    """
    if not persona.strip():
        return ""
    sentence = _ANSWER_IN.get(language.partition("-")[0].lower(), "")
    return " ".join(part for part in (persona.strip(), sentence) if part)


# ------------------------------------------------------------ how much of an answer was heard


@dataclass(frozen=True, slots=True)
class SpokenMark:
    """Once `at_s` seconds of the voice have been heard, the first `chars` characters have."""

    chars: int
    at_s: float
    pause: bool = False
    """A pause follows, behind which another voice can go on."""


Marks: TypeAlias = Sequence[SpokenMark]


def heard_text(
    text: str, *, played_s: float, voice_s: float | None = None, marks: Sequence[SpokenMark] = ()
) -> str:
    """The beginning of `text` that was audible after `played_s` seconds of its voice.

    voice_s: length of the voice of the whole `text`, None while that is not known.
    marks: what the voice told, in order; between two of them time is shared out by characters.
    Cut at a word's end: a word that was heard in part counts as not heard.
    """
    if not text:
        return ""
    if played_s <= 0:
        before = _passed(marks, 0.0)  # what another gateway's visitors have heard
        return text[: marks[before - 1].chars].rstrip() if before else ""
    index = _passed(marks, played_s + _TOLERANCE_S)
    start = marks[index - 1] if index else SpokenMark(0, 0.0)
    end = SpokenMark(len(text), voice_s) if voice_s else None
    if index < len(marks):
        end = marks[index]
    part = text[start.chars : end.chars if end else None]
    known_s = end.at_s - start.at_s if end else None
    reached = _reached(part, played_s - start.at_s, known_s)
    position = min(len(text), start.chars + reached)
    if position == len(text):
        return text
    while position > start.chars and _within_word(text, position):
        position -= 1
    return text[:position].rstrip()


def word_start_s(marks: Sequence[SpokenMark], played_s: float) -> float | None:
    """Where the word begins that is being spoken at `played_s`; None where nobody knows."""
    index = _passed(marks, played_s)
    if index == len(marks):
        return None
    return marks[index - 1].at_s if index else 0.0


def _passed(marks: Sequence[SpokenMark], played_s: float) -> int:
    """How many of the marks lie behind."""
    return bisect_right(marks, played_s, key=lambda mark: mark.at_s)


def _reached(text: str, played_s: float, voice_s: float | None) -> int:
    """Characters of `text` that were begun and ended within `played_s`."""
    costs = [_cost_s(character) for character in text]
    scale = max(voice_s, 0.0) / sum(costs) if voice_s is not None and costs else 1.0
    spent_s = 0.0
    for position, cost in enumerate(costs):
        spent_s += cost * scale
        if spent_s > played_s + 1e-6:
            return position
    return len(costs)


def _cost_s(character: str) -> float:
    return _IDEOGRAPH_S if _is_ideograph(character) else _LETTER_S


def _is_ideograph(character: str) -> bool:
    return "\u3400" <= character <= "\u9fff" or "\U00020000" <= character <= "\U0003ffff"


def _within_word(text: str, position: int) -> bool:
    before, after = text[position - 1], text[position]
    return not (
        before.isspace() or after.isspace() or _is_ideograph(before) or _is_ideograph(after)
    )
