"""Whose utterances count while recognisers of one session come and go, and what they hear again.

Pure.
"""

from __future__ import annotations

import sys
from collections import deque

import numpy as np
from numpy.typing import NDArray

from gateway.talk.microphone import RATE_HZ
from visavis.wire.media import TranscriptChunk, TranscriptEvent

_APART = 1000
"""Utterances of one replica before the numbers of the next one begin."""
_ENDS = (TranscriptEvent.FINAL, TranscriptEvent.DISCARDED)
# What lies before speech that belongs to it, or tells how loud the room is.
_BEFORE_SPEECH = RATE_HZ
# Kept in any case: one that is frozen is missed after two seconds and a half.
_KEPT = 4 * RATE_HZ
_MOST_KEPT = 30 * RATE_HZ


class Tape:
    """The newest of a session's microphone, for a recogniser that takes another's place. Pure.

    Kept are the last seconds, all of an utterance that is open, and what nobody has heard: half a
    minute at the most. Places are counted in samples of the microphone, at 16 kHz.
    """

    def __init__(self) -> None:
        self._pieces: deque[NDArray[np.int16]] = deque()
        self._begins_at = self._ends_at = 0
        self._open: dict[int, int] = {}
        """Where each utterance has begun whose end was not told."""
        self._understood = 0
        """What was said before this."""
        self._unheard: int | None = None
        """From here on nobody can be relied on to have heard it."""
        self.heard = False
        """Whether somebody listens: sound is to be sent."""

    def add(self, pts: int, pcm: NDArray[np.int16]) -> None:
        """[N] int16, which follows on what came before. pts: of its first sample."""
        if not self._pieces:
            self._begins_at = pts
        self._pieces.append(pcm)
        self._ends_at = pts + len(pcm)
        newest = self._ends_at - _KEPT
        kept = max(min(newest, self._wanted(newest)), self._ends_at - _MOST_KEPT)
        while self._begins_at + len(self._pieces[0]) <= kept:
            self._begins_at += len(self._pieces.popleft())

    def told(self, chunk: TranscriptChunk) -> None:
        """What was heard of an utterance."""
        if chunk.event is TranscriptEvent.SPEECH_STARTED:
            self._open[chunk.utterance] = chunk.place.pts
        elif chunk.event in _ENDS:
            self._open.pop(chunk.utterance, None)
            self._understood = max(self._understood, chunk.speech_end_samples)
        self._unheard = None

    def lost(self) -> None:
        """Whoever listened has gone, with what was not told yet."""
        self.heard = False
        self._unheard = self._wanted(self._ends_at - _KEPT)
        self._open.clear()

    def forget(self) -> None:
        """Nobody is to hear what was said so far."""
        self._pieces.clear()
        self.lost()

    def close(self) -> None:
        """Nobody is to hear again what was said so far."""
        self._open.clear()
        self._understood = self._ends_at

    def again(self) -> list[tuple[int, NDArray[np.int16]]]:
        """Somebody listens: what he has to hear before all that comes from now on.

        Pieces of up to a second, each with the place of its first sample.
        """
        was_heard, self.heard = self.heard, True
        if was_heard or not self._pieces:
            return []
        begins_at = max(self._begins_at, self._wanted(self._begins_at), self._understood)
        sound = np.concatenate(self._pieces)[begins_at - self._begins_at :]
        starts = range(0, len(sound), RATE_HZ)
        return [(begins_at + at, sound[at : at + RATE_HZ]) for at in starts]

    def _wanted(self, otherwise: int) -> int:
        """Where that begins which is to be heard again; `otherwise`: nothing says so."""
        begun = [self._unheard] if self._unheard is not None else []
        begun += [at - _BEFORE_SPEECH for at in self._open.values()]
        return min(begun, default=otherwise)


class Ears:
    """Tells the replica that a session's transcripts come from apart from those before and after.

    Each numbers its utterances from a number of its own. A newcomer listens along before its words
    count, so that it misses nothing of what is being said when they do; in place of one that was
    lost it hears the tape.
    """

    def __init__(self) -> None:
        self.tape = Tape()
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

    def begin_anew(self) -> None:
        """What is being said by now does not count, whoever tells of it."""
        self._first = max(self._first, self._newest + 1)
        self.tape.close()

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

    def lost(self) -> None:
        """Nobody counts until the next one does: what a lost one tells yet will have no end."""
        self._first, self._newcomer_in = sys.maxsize, None
        self.tape.lost()

    def switch(self) -> list[tuple[int, NDArray[np.int16]]]:
        """From now on the newcomer counts, and nobody before. What he has to hear again."""
        self._first, self._newcomer_in = self._newcomers_first, None
        return self.tape.again()

    def count(self, chunk: TranscriptChunk) -> bool:
        """Whether what was heard comes from the replica that counts."""
        self._newest = max(self._newest, chunk.utterance)
        if chunk.utterance >= self._newcomers_first > self._first:
            self._newcomer_in = None if chunk.event in _ENDS else chunk.utterance
            return False
        counts = chunk.utterance >= self._first
        if counts:
            self.tape.told(chunk)
        return counts
