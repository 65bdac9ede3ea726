"""What a listener asks of the networks, what it tells its client, what it knows of an utterance."""

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from enum import Enum, auto

import numpy as np
from numpy.typing import NDArray

from services.asr.hearing.transcript import Order, Segment, Transcript, join
from services.asr.turns.endpointing import Hesitation
from services.asr.turns.wording import PartialText, after, as_far_as
from visavis.engine import Urgency
from visavis.wire.media import TranscriptEvent


class Purpose(Enum):
    """What the text of a piece of sound is wanted for."""

    PARTIAL = auto()
    """A look at unfinished speech."""
    HEAD = auto()
    """The beginning of a window of partials, which the next looks leave out."""
    PAUSE = auto()
    """The text that is final if the visitor has finished."""
    SETTLE = auto()
    """A piece of a long utterance that is left behind."""

    @property
    def is_look(self) -> bool:
        """Worth nothing once there is something newer."""
        return self in (Purpose.PARTIAL, Purpose.HEAD)


@dataclass(frozen=True, slots=True, eq=False)
class Transcribe:
    """Work: turn pcm, [N] float32 at 16 kHz, to text. Answer with Listener.transcribed."""

    utterance: int
    purpose: Purpose
    pause: int
    pcm: NDArray[np.float32]
    start_samples: int
    language: str
    draft: str
    """What the text will probably begin with: found right, it costs next to nothing."""
    urgency: Urgency

    @property
    def end_samples(self) -> int:
        return self.start_samples + len(self.pcm)


@dataclass(frozen=True, slots=True, eq=False)
class Judge:
    """Work: has the speaker of pcm, [N] float32 at 16 kHz, finished? Answer with
    Listener.judged."""

    utterance: int
    pause: int
    pcm: NDArray[np.float32]
    urgency: Urgency


@dataclass(frozen=True, slots=True)
class Requeue:
    """What was asked for under this key, and was not begun, has become more urgent or worthless."""

    key: Hashable
    order: Order | None
    """None: nobody wants the answer any more."""


@dataclass(frozen=True, slots=True)
class Heard:
    """Something to tell the client. Positions are in 16 kHz samples heard."""

    event: TranscriptEvent
    utterance: int
    at_samples: int
    text: str = ""
    language: str = ""
    end_of_turn: float = 0.0
    """Of PAUSED and FINAL: that the visitor has finished; of PARTIAL, where that was asked for:
    that these words are all."""
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


Output = Transcribe | Judge | Requeue | Heard


@dataclass(slots=True)
class Utterance:
    """What a listener knows of one utterance, and its text so far."""

    number: int
    language: str
    first: int
    """First sample, some silence before the speech included."""
    piece_start: int
    """First sample of what a final text would still be made of; what came before is `settled`."""
    partial: PartialText
    settled: list[Transcript] = field(default_factory=list)
    speech: list[float] = field(default_factory=list)
    """VAD probabilities since piece_start."""
    pause: int = 0
    """Counts pauses; answers about an earlier one are stale."""
    paused: bool = False
    text: Transcript | None = None
    """Of the present pause."""
    announced: bool = False
    look: Transcript | None = None
    """The newest at unfinished speech, while nothing has followed a pause; with foresight alone."""
    foreseen: float = 0.0
    """How likely its words were to be all when they were told last."""
    end_of_turn: float | None = None
    """The turn detector's opinion on the present pause."""
    finished: float = 0.0
    """Turn detector and words together."""
    speech_end: int = 0
    loudest: float = 0.0
    """Power of its loudest quarter of a second of voice, once it has ended."""
    voiced_frames: int = 0
    """Once it has ended."""
    hesitation: Hesitation = field(default_factory=Hesitation)
    """Once it has ended."""
    ended_at: int | None = None
    settle_pauses: set[int] = field(default_factory=set)
    next_partial: int = 0
    text_cost_s: float = 0.0
    judge_cost_s: float = 0.0

    def begin_pause(self, speech_end: int) -> None:
        """Silence after speech that ended at this sample."""
        self.paused = True
        self.pause += 1
        self.speech_end = speech_end
        self.text, self.announced, self.end_of_turn = None, False, None
        self.judge_cost_s = 0.0

    def whole(self) -> Transcript:
        """Settled pieces and the text of the present pause; begins with what is stable."""
        before = join(self.settled, self.language)
        if self.text is None or not self.text.text:
            return before
        together = join([before, self.text], self.language)
        text = after(before.text, self.partial.stable, self.text.text, together.language)
        return replace(together, text=text)

    def settle(self, text: Transcript) -> None:
        """`text` is that of the piece left behind."""
        before = join(self.settled, self.language).text
        if text.text:
            # Stable words may be those of sound beyond its end: they are the next piece's.
            stable = as_far_as(text.text, before, self.partial.stable, self.language)
            spoken = after(before, stable, text.text, self.language)
            text = replace(text, text=spoken[len(before) :].strip())
        self.settled.append(text)

    def draft(self) -> str:
        """A guess at the text of the present piece."""
        before = join(self.settled, self.language).text
        text = self.partial.text
        return text[len(before) :].strip() if text.startswith(before) else ""
