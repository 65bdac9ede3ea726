"""What the language model reads before anybody has asked: what is being said or typed, and answers
that are still spoken. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from gateway.talk.actions import Action, Message, ReadAhead
from gateway.talk.history import History, answered
from gateway.talk.turn import Phase, Turn
from gateway.talk.words import words_to_read

# Of one text that is typed: of three sentences each may have been the last.
_MOST_OF_DRAFT = 3
_SENTENCE_ENDS = tuple(".?!…。？！")
# Stands for a question that nobody has asked yet.
_TO_BE_ASKED = "."


class Draft:
    """What the visitor types and has not sent yet, and whether it may be all. Pure."""

    def __init__(self) -> None:
        self.text = ""
        self._bets = 0

    @property
    def words(self) -> str:
        """What of it is worth reading."""
        return words_to_read(self.text)

    def typed(self, text: str) -> bool:
        """It is `text` now; whether that is another."""
        before, self.text = self.text, text.strip()
        return self.text != before

    def may_be_all(self) -> bool:
        """Whether an answer is to be prepared now: a sentence ends, and few have ended before."""
        if not (self.words and self.text.endswith(_SENTENCE_ENDS)) or self._bets >= _MOST_OF_DRAFT:
            return False
        self._bets += 1
        return True

    def sent(self) -> None:
        """The next one begins."""
        self.text, self._bets = "", 0


class Reading:
    """Has a session's conversation read as far as it is known, behind what is in `history`."""

    def __init__(self, history: History) -> None:
        self._history = history
        self.draft = Draft()

    def question(self, text: str) -> list[Action]:
        """What of a question that is being asked is worth it."""
        known = words_to_read(text)
        return [ReadAhead(self._history.prompt(known))] if known else []

    def next(self, behind: Sequence[Message] = ()) -> ReadAhead:
        """What is typed of the next question, and all before it.

        behind: what will have been said by then.
        """
        return ReadAhead(self._history.prompt(self.draft.words or _TO_BE_ASKED, behind))

    def answer(self, turn: Turn) -> list[Action]:
        """The answer as it will have been heard, once all of it is written.

        That may be another text than was written, and long: it is read while it is spoken, not
        while somebody waits for the answer to what he asks next.
        """
        if not turn.text_complete or turn.phase not in (Phase.THINKING, Phase.SPEAKING):
            return []
        return [self.next(answered(turn.written(turn.text), turn.tools.messages(spoken=True)))]
