"""Which utterance may be an interruption now, and which words of it are the visitor's own."""

from __future__ import annotations

from gateway.turn import ECHO_TAIL_S, Doubt, Turn


class Doubts:
    """One session's. Pure; times in seconds of any clock."""

    def __init__(self) -> None:
        self.current: Doubt | None = None
        """The utterance that may be an interruption, until that is known."""
        self._ended_by: Doubt | None = None
        """The one that has ended an answer: more of its words may come."""
        self._said = ("", 0.0)
        """The newest answer that was heard to its end, and until when it may echo."""

    @property
    def stopped(self) -> bool:
        """Whether an answer stands still for the sake of one."""
        return self.current is not None and self.current.stopped

    def begin(self, utterance: int, now: float, turn: Turn | None) -> bool:
        """An utterance begins; whether it is the first over the answer that is being given."""
        if turn is None:
            said, until_s = self._said
            self.current = Doubt(utterance, now, said, over=True) if now < until_s else None
            return False
        stopped = self.stopped
        self.current = Doubt(utterance, now, stopped=stopped)
        return not stopped

    def answer_over(self, text: str, now: float) -> None:
        """An answer was heard to its end."""
        self._said = (text, now + ECHO_TAIL_S)
        if self.current is not None:
            self.current.stopped, self.current.said = False, text

    def turn_ended(self, turn: Turn | None) -> None:
        """An answer ends before its end, if there is one."""
        if self.current is not None:
            self._ended_by, self.current = self.current.closed(turn), None

    def own_words(self, utterance: int, text: str, turn: Turn | None) -> str:
        """What of `text` the visitor has said."""
        doubt, turn = (self.current, turn) if self.current else (self._ended_by, None)
        if doubt is not None and doubt.utterance == utterance:
            text = doubt.words_of_visitor(text, turn)
        return text.strip()

    def is_nothing(self, utterance: int, text: str, turn: Turn | None, *, complete: bool) -> bool:
        """Whether words over an answer ask for nothing, as far as they go."""
        doubt = self.current
        if doubt is not None and doubt.utterance == utterance:
            doubt.worded = doubt.worded or bool(text)
        return doubt is not None and doubt.is_nothing(text, turn, complete=complete)
