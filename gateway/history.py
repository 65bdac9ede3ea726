"""What has been said so far, as the language model reads it: only what was heard counts."""

from __future__ import annotations

from collections import deque

from gateway.actions import Message

# Older exchanges are beyond any token budget that answers in real time.
LIMIT = 100


class History:
    """Visitor's and face's utterances in order."""

    def __init__(self, persona: str) -> None:
        self.persona = persona
        self._said: deque[Message] = deque(maxlen=LIMIT)

    def visitor(self, text: str) -> None:
        self._said.append(Message("user", text))

    def face(self, text: str) -> None:
        if text:
            self._said.append(Message("assistant", text))

    def forget_unanswered(self) -> None:
        """Drop what the visitor said last and was not answered."""
        while self._said and self._said[-1].role == "user":
            self._said.pop()

    def prompt(self, text: str) -> tuple[Message, ...]:
        """Messages for an answer to `text`. The history itself does not change.

        Utterances of one side that follow each other become one message: a visitor who
        goes on before the answer came has asked one longer question.
        """
        merged: list[Message] = []
        for said in (*self._said, Message("user", text)):
            if merged and merged[-1].role == said.role:
                said = Message(said.role, f"{merged.pop().content} {said.content}")
            merged.append(said)
        while merged[0].role == "assistant":
            # Its question has fallen out of the window.
            merged.pop(0)
        system = [Message("system", self.persona)] if self.persona else []
        return (*system, *merged)
