"""What a listener asks of the networks, and what it tells its client."""

from dataclasses import dataclass
from enum import Enum, auto

import numpy as np
from numpy.typing import NDArray

from services.asr.transcript import Segment
from visavis.media import TranscriptEvent


class Purpose(Enum):
    PARTIAL = auto()
    """A look at unfinished speech."""
    HEAD = auto()
    """The beginning of a window of partials, which the next looks leave out."""
    PAUSE = auto()
    """The text that is final if the visitor has finished."""
    SETTLE = auto()
    """A piece of a long utterance that is left behind."""


@dataclass(frozen=True, slots=True, eq=False)
class Transcribe:
    """Work: turn pcm [N] float32 at 16 kHz to text. Answer with Listener.transcribed."""

    utterance: int
    purpose: Purpose
    pause: int
    pcm: NDArray[np.float32]
    start_samples: int
    language: str
    draft: str = ""
    """What the text will probably begin with: found right, it costs next to nothing."""

    @property
    def end_samples(self) -> int:
        return self.start_samples + len(self.pcm)


@dataclass(frozen=True, slots=True, eq=False)
class Judge:
    """Work: has the speaker of pcm [N] finished? Answer with Listener.judged."""

    utterance: int
    pause: int
    pcm: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Heard:
    """Something to tell the client. Positions are in 16 kHz samples heard."""

    event: TranscriptEvent
    utterance: int
    at_samples: int
    text: str = ""
    language: str = ""
    end_of_turn: float = 0.0
    segments: tuple[Segment, ...] = ()
    speech_end_samples: int = 0
    late_samples: int = 0
    """Of FINAL: how long ago the end of the utterance became certain."""
    stable_characters: int = 0
    """So many characters of the text will not be taken back."""
    voiced_frames: int = 0
    """VAD frames of this utterance that were speech so far."""
    compute_s: float = 0.0
    """How long the networks worked for this event."""
    hum_odds: float | None = None
    """See Transcript.hum_odds."""


Output = Transcribe | Judge | Heard
