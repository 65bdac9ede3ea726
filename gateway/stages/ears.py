"""Whose utterances count while two replicas of asr hear one session. Pure."""

from __future__ import annotations

from visavis.wire.media import TranscriptChunk, TranscriptEvent

_APART = 1000
"""Utterances of one replica before the numbers of the next one begin."""
_ENDS = (TranscriptEvent.FINAL, TranscriptEvent.DISCARDED)


class Ears:
    """Tells the replica that a session's transcripts come from apart from those before and after.

    Each numbers its utterances from a number of its own. A newcomer listens along before its words
    count, so that it misses nothing of what is being said when they do.
    """

    def __init__(self) -> None:
        self._first = 1
        self._newcomers_first = 0
        self._newest = 0
        self._newcomer_in: int | None = None

    @property
    def newest(self) -> int:
        """Number of the newest utterance that was heard of; 0: none was."""
        return self._newest

    def carry_on(self, newest: int) -> None:
        """So many were counted in another gateway: those to come are others."""
        self._newest = newest

    def newcomer(self) -> int:
        """Another replica is to hear the session as well: the number of its first utterance."""
        self._newcomer_in = None
        before = max(self._newest, self._newcomers_first)
        self._newcomers_first = before + _APART if before else 1
        return self._newcomers_first

    @property
    def newcomer_is_in_an_utterance(self) -> bool:
        """What it hears now was begun before its words counted: whoever hears it shall end it."""
        return self._newcomer_in is not None

    def switch(self) -> None:
        """From now on the newcomer counts, and nobody before."""
        self._first, self._newcomer_in = self._newcomers_first, None

    def count(self, chunk: TranscriptChunk) -> bool:
        """Whether what was heard comes from the replica that counts."""
        self._newest = max(self._newest, chunk.utterance)
        if chunk.utterance >= self._newcomers_first > self._first:
            self._newcomer_in = None if chunk.event in _ENDS else chunk.utterance
            return False
        return chunk.utterance >= self._first
