"""How the face looks while it says nothing: what it is told of the talk, and when. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from visavis.wire.media import TranscriptEvent

# An answer that comes sooner needs no look of thinking; most do.
LATE_S = 0.6
# A visitor of whom nothing is heard for so long does not speak, whatever was said of him.
_SILENT_S = 15.0
_CUES_APART_S = 1.5
# So many words since the last cue make a phrase of which a partial transcript tells the end.
_PHRASE_WORDS = 6
_WITHOUT_BLANKS = "\u0e00"
"""From this character on, mostly."""


class Attention(StrEnum):
    """What the face attends to."""

    NOBODY = "nobody"
    LISTENING = "listening"
    THINKING = "thinking"


@dataclass(frozen=True, slots=True)
class AttentionOrder:
    """What the face is to be told. cue: the visitor has ended a phrase: a listener may nod."""

    attention: Attention
    cue: bool = False
    shown_from: int | None = None
    """Frame of the motion from which on that is shown from memory: that it listens or, with cue,
    that it nods.
    """


class Attending:
    """Follows one talk, and says what its face is to be told. Times in seconds."""

    def __init__(self) -> None:
        self.attention = Attention.NOBODY
        """What the face was told last."""
        self._heard_s = -_SILENT_S
        self._thinking_s: float | None = None
        self._cue = False
        self._cue_s = 0.0
        self._words = self._cued_words = 0

    def heard(self, event: TranscriptEvent, text: str, now: float) -> None:
        """The visitor's speech goes on: at its pauses, and after some words, a listener may nod."""
        self._heard_s = now
        if event is TranscriptEvent.SPEECH_STARTED:
            self._words = self._cued_words = 0
        elif event in (TranscriptEvent.PARTIAL, TranscriptEvent.PAUSED):
            self._words = _words_in(text)
            enough = 1 if event is TranscriptEvent.PAUSED else _PHRASE_WORDS
            spoken = self._words - self._cued_words >= enough
            if spoken and now - self._cue_s >= _CUES_APART_S:
                self._cue, self._cue_s, self._cued_words = True, now, self._words

    def review(
        self,
        state: Literal["idle", "listening", "thinking", "speaking"],
        now: float,
        *,
        watched: bool,
    ) -> AttentionOrder | None:
        """What is to be told now, if anything. Call once a tick."""
        if state != "thinking":
            self._thinking_s = None
        elif self._thinking_s is None:
            self._thinking_s = now
        cue, self._cue = self._cue, False
        wanted = self._wanted(state, now) if watched else Attention.NOBODY
        if wanted is self.attention and not (cue and wanted is Attention.LISTENING):
            return None
        self.attention = wanted
        return AttentionOrder(wanted, cue and wanted is Attention.LISTENING)

    def _wanted(self, state: str, now: float) -> Attention:
        if state == "listening" and now - self._heard_s < _SILENT_S:
            return Attention.LISTENING
        if self._thinking_s is not None:
            drawn = self.attention is not Attention.NOBODY
            if drawn or now - self._thinking_s >= LATE_S:
                return Attention.THINKING
        return Attention.NOBODY


def _words_in(text: str) -> int:
    """About: what is written without blanks, as Chinese and Thai are, has one in two characters."""
    return max(len(text.split()), sum(char >= _WITHOUT_BLANKS for char in text) // 2)
