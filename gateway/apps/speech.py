"""Speech that a client brings: how much of it may wait, and what of it is to be handed on. Pure."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from visavis.serving.errors import AtCapacityError, InvalidInputError, OutOfOrderError

MOST_WAITING_S = 300.0
"""More than so much that is not handed on yet is refused."""
LEAD_S = 3.0
"""So far the voice may be ahead of what is heard: the face draws ahead, and an interruption throws
that away."""
RATES_HZ = range(8_000, 48_001)
_CHUNK_S = 0.1
# Of a continuous track: what is louder than this is speech, which ends with so much silence.
_SPEECH_LEVEL = 60.0
_SILENCE_S = 0.6
SPEECHES_WAITING = 200
_JOINED_SAMPLES = 1024
"""Pieces that are shorter together are one: each takes a hundred bytes beside its samples."""


class SpeechFullError(AtCapacityError):
    """So much waits to be said already that no more is taken."""


@dataclass(eq=False)
class _Speech:
    """One utterance. samples: of it that were handed on."""

    rate_hz: int
    text: str
    samples: int = 0
    held: int = 0
    pieces: deque[NDArray[np.int16]] = field(default_factory=deque)
    complete: bool = False
    refused: bool = False
    """What is still to come of it was too much."""


@dataclass(frozen=True, slots=True)
class VoicePiece:
    """What is to be handed on. pcm: [N] int16, from sample `pts` of the speech on."""

    pts: int
    rate_hz: int
    pcm: NDArray[np.int16]
    last: bool


class BroughtSpeech:
    """Keeps what a client has brought to be said, utterance by utterance, until it is handed on."""

    def __init__(self) -> None:
        self._speeches: deque[_Speech] = deque()
        self._bringing: _Speech | None = None
        """The one that the client is in the middle of; it may have been dropped meanwhile."""
        self._spoken: _Speech | None = None
        """The one whose turn is open."""

    @property
    def waiting_s(self) -> float:
        """How much was brought and is not handed on."""
        return sum(speech.held / speech.rate_hz for speech in self._speeches)

    @property
    def waits(self) -> bool:
        """Whether an utterance is still to be said, or to be brought to its end."""
        return bool(self._speeches)

    @property
    def full(self) -> bool:
        """Whether nothing more is taken for now."""
        return self._too_long or len(self._speeches) >= SPEECHES_WAITING

    @property
    def _too_long(self) -> bool:
        return self.waiting_s > MOST_WAITING_S

    @property
    def bringing(self) -> bool:
        """Whether the client is in the middle of an utterance."""
        return self._bringing is not None

    # ------------------------------------------------------------ what the client brings

    def begin(self, rate_hz: int, text: str = "") -> None:
        """An utterance begins. text: what it says, if that is known; "": nobody knows.

        Raises InvalidInputError, OutOfOrderError within another one, and SpeechFullError: then
        nothing of it is kept.
        """
        if rate_hz not in RATES_HZ:
            first, last = RATES_HZ[0], RATES_HZ[-1]
            raise InvalidInputError(f"rate_hz: {rate_hz} is not within {first} to {last}")
        if self._bringing is not None:
            raise OutOfOrderError("begin: the speech before it has not been ended")
        self._bringing = _Speech(rate_hz, text)
        if self.full:
            raise SpeechFullError(
                f"begin: {self.waiting_s:.0f} s in {len(self._speeches)} speeches wait to be said; "
                f"{MOST_WAITING_S:.0f} s and {SPEECHES_WAITING} may"
            )
        self._speeches.append(self._bringing)

    def add(self, pcm: NDArray[np.int16]) -> None:
        """Sound of the utterance: [N] int16. Of one that was dropped nothing is kept.

        Raises OutOfOrderError outside of one, and SpeechFullError: then no more of it is kept.
        """
        speech = self._bringing
        if speech is None:
            raise OutOfOrderError("sound: no speech was begun")
        if speech.refused or not len(pcm) or speech not in self._speeches:
            return
        if self._too_long:
            speech.refused = True
            raise SpeechFullError(
                f"sound: more than {MOST_WAITING_S:.0f} s wait to be said; the rest of this speech "
                "is not taken"
            )
        pieces = speech.pieces
        if pieces and len(pieces[-1]) + len(pcm) <= _JOINED_SAMPLES:
            pieces[-1] = np.concatenate((pieces[-1], pcm))
        else:
            pieces.append(pcm)
        speech.held += len(pcm)

    def end(self) -> None:
        """The utterance is complete. Raises OutOfOrderError outside of one."""
        if self._bringing is None:
            raise OutOfOrderError("end: no speech was begun")
        speech, self._bringing = self._bringing, None
        speech.complete = True
        if self._speeches and self._speeches[-1] is speech and not speech.held + speech.samples:
            self._speeches.pop()  # there was no sound in it

    def drop(self) -> None:
        """Nothing of what was brought is to be said, nor the rest of what is being brought."""
        self._speeches.clear()
        self._spoken = None

    # ------------------------------------------------------------ what is said of it

    def next(self) -> str | None:
        """Begin to say what was brought first; its text. None: there is nothing to be said yet."""
        first = self._speeches[0] if self._speeches else None
        if first is None or not first.held:
            return None
        self._spoken = first
        return first.text

    def due(self, played_s: float) -> Iterator[VoicePiece]:
        """What may be handed on of the utterance that is being said. played_s: heard of it."""
        speech = self._spoken
        while speech is not None:
            room = round((played_s + LEAD_S) * speech.rate_hz) - speech.samples
            pcm = _taken(speech, min(room, round(_CHUNK_S * speech.rate_hz)))
            last = speech.complete and not speech.held
            if len(pcm) or last:
                pts, speech.samples = speech.samples, speech.samples + len(pcm)
                yield VoicePiece(pts, speech.rate_hz, pcm, last)
            if last:
                self._speeches.popleft()
                self._spoken = None
            if last or not len(pcm):
                return


def _taken(speech: _Speech, most: int) -> NDArray[np.int16]:
    """The first samples that wait, at most so many: [N] int16."""
    taken: list[NDArray[np.int16]] = []
    while most > 0 and speech.pieces:
        piece = speech.pieces.popleft()
        if len(piece) > most:
            speech.pieces.appendleft(piece[most:])
            piece = piece[:most]
        taken.append(piece)
        most -= len(piece)
        speech.held -= len(piece)
    return np.concatenate(taken) if taken else np.zeros(0, np.int16)


class SpeechInTrack:
    """Finds the utterances in a track of sound that never ends."""

    def __init__(self, speech: BroughtSpeech, rate_hz: int) -> None:
        self._speech = speech
        self._rate_hz = rate_hz
        self._silent = 0
        self._within = False

    def hear(self, pcm: NDArray[np.int16]) -> None:
        """pcm: [N] int16, N > 0, as it comes."""
        sound = pcm.astype(np.float32)
        loud = math.sqrt(float(sound @ sound) / len(sound)) > _SPEECH_LEVEL
        if loud and not self._within and not self._speech.full:
            self._speech.begin(self._rate_hz)
            self._within = True
        self._silent = 0 if loud else self._silent + len(pcm)
        if not self._within:
            return
        if not self._speech.full:  # nobody is there to be told that it is too much
            self._speech.add(pcm)
        if self._silent > _SILENCE_S * self._rate_hz:
            self.end()

    def end(self) -> None:
        """Nothing more comes."""
        if self._within:
            self._within = False
            self._speech.end()
