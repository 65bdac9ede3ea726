"""One session's listener: sound and answers of networks in, transcript events out.

It runs no network itself. It hands out work (transcribe this, has the visitor
finished?) for others to do in parallel, and takes the results when they come.
At the first short pause it asks for the text at once: if the visitor has
finished, the final text is ready before the silence is long enough to be sure.
"""

from dataclasses import dataclass, field
from enum import Enum, auto

import numpy as np
from numpy.typing import NDArray

from services.asr.cutter import LONGEST_PIECE_SAMPLES, quietest
from services.asr.endpointing import Endpointer, EndpointRules, Kind, Signal
from services.asr.tape import Tape
from services.asr.transcript import Segment, Transcript, join
from services.asr.turn_detector import WINDOW_SAMPLES
from services.asr.vad import FRAME_SAMPLES, SAMPLE_RATE_HZ
from visavis.media import TranscriptEvent

# The VAD notices a beginning late; soft first consonants lie before it.
_LEAD_SAMPLES = 8 * FRAME_SAMPLES
# What is said and left behind at a pause after this much needs no second hearing.
_SETTLED_SAMPLES = 12 * SAMPLE_RATE_HZ
# A piece without any pause is cut in its last seconds.
_CUT_WINDOW_FRAMES = 5 * SAMPLE_RATE_HZ // FRAME_SAMPLES
_PARTIAL_EVERY_SAMPLES = SAMPLE_RATE_HZ // 2
# Partial transcripts may take this share of one core.
_PARTIAL_DUTY = 1 / 4
# The recogniser heard that the sentence goes on, whatever the intonation says.
_HANGING = (",", "，", "、", "-", "…", "...")
_HANGING_PROBABILITY = 0.5


class Purpose(Enum):
    PARTIAL = auto()
    """A look at unfinished speech."""
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


Output = Transcribe | Judge | Heard


@dataclass(slots=True)
class _Utterance:
    number: int
    language: str
    piece_start: int
    settled: list[Transcript] = field(default_factory=list)
    speech: list[float] = field(default_factory=list)
    pause: int = 0
    """Counts pauses; answers about an earlier one are stale."""
    paused: bool = False
    text: Transcript | None = None
    """Of the present pause."""
    announced: bool = False
    end_of_turn: float = 0.0
    judged: bool = False
    speech_end: int = 0
    ended_at: int | None = None
    settle_pauses: set[int] = field(default_factory=set)
    text_cost_s: float = 0.0
    judge_cost_s: float = 0.0
    next_partial: int = 0


class Listener:
    """Feed frames with `frame`, results with `transcribed` and `judged`; close with `finish`."""

    def __init__(
        self, language: str, *, interim_results: bool, rules: EndpointRules | None = None
    ) -> None:
        """language: as the recogniser names it; used from the next utterance on."""
        self.language = language
        self._interim_results = interim_results
        self._endpointer = Endpointer(rules)
        self._tape = Tape()
        self._utterances: dict[int, _Utterance] = {}
        self._current: _Utterance | None = None
        self._count = 0
        self._transcribing = 0

    @property
    def idle(self) -> bool:
        """Nothing is open and no answer is awaited."""
        return not self._utterances

    @property
    def kept_samples(self) -> int:
        """Sound held in memory."""
        return self._tape.end - self._tape.start

    def frame(self, pcm: NDArray[np.float32], speech_probability: float) -> list[Output]:
        """The next [FRAME_SAMPLES] float32 and how likely they are speech."""
        self._tape.append(pcm)
        if self._current is not None:
            self._current.speech.append(speech_probability)
        outputs: list[Output] = []
        for signal in self._endpointer.frame(speech_probability):
            outputs += self._on_signal(signal)
        outputs += self._cut_if_long()
        outputs += self._partial_if_due()
        self._forget()
        return outputs

    def finish(self) -> list[Output]:
        """No more sound will come."""
        outputs: list[Output] = []
        for signal in self._endpointer.finish():
            outputs += self._on_signal(signal)
        return outputs

    def transcribed(self, work: Transcribe, text: Transcript, cost_s: float) -> list[Output]:
        """The answer to `work`, and how long the recogniser computed."""
        self._transcribing -= 1
        utterance = self._utterances.get(work.utterance)
        if utterance is None:
            return []
        text = text.shifted(work.start_samples)
        if work.purpose is Purpose.SETTLE or work.pause in utterance.settle_pauses:
            utterance.settle_pauses.discard(work.pause)
            utterance.settled.append(text)
            return []
        if work.purpose is Purpose.PARTIAL:
            rest = max(_PARTIAL_EVERY_SAMPLES, int(cost_s / _PARTIAL_DUTY * SAMPLE_RATE_HZ))
            utterance.next_partial = self._tape.end + rest
            utterance.text_cost_s = cost_s
            return self._partial(utterance, text)
        if work.pause != utterance.pause or not (
            utterance.paused or utterance.ended_at is not None
        ):
            return []
        utterance.text, utterance.text_cost_s = text, cost_s
        if utterance.ended_at is not None:
            return self._close(utterance)
        return self._consider(utterance)

    def judged(self, work: Judge, end_of_turn: float, cost_s: float) -> list[Output]:
        """The turn detector's answer to `work`, and how long it computed."""
        utterance = self._utterances.get(work.utterance)
        stale = utterance is None or work.pause != utterance.pause or not utterance.paused
        if utterance is None or stale:
            return []
        utterance.end_of_turn = end_of_turn
        utterance.judged, utterance.judge_cost_s = True, cost_s
        return self._consider(utterance)

    def _on_signal(self, signal: Signal) -> list[Output]:
        if signal.kind is Kind.STARTED:
            return self._open(signal.at_samples)
        utterance = self._current
        assert utterance is not None
        if signal.kind is Kind.PAUSED:
            utterance.paused = True
            utterance.pause += 1
            utterance.text, utterance.announced, utterance.judged = None, False, False
            utterance.speech_end = signal.at_samples
            return [self._judge(utterance), self._transcribe(utterance, Purpose.PAUSE)]
        if signal.kind is Kind.STILL_PAUSED:
            return [self._judge(utterance)]
        if signal.kind is Kind.RESUMED:
            return self._resume(utterance)
        self._current = None
        if signal.kind is Kind.DISCARDED:
            return self._discard(utterance)
        return self._end(utterance, signal.at_samples)

    def _open(self, start: int) -> list[Output]:
        self._count += 1
        utterance = _Utterance(self._count, self.language, max(0, start - _LEAD_SAMPLES))
        utterance.next_partial = self._tape.end + _PARTIAL_EVERY_SAMPLES
        utterance.speech = [1.0] * ((self._tape.end - utterance.piece_start) // FRAME_SAMPLES)
        self._utterances[utterance.number] = self._current = utterance
        voiced = self._endpointer.voiced_frames
        event = TranscriptEvent.SPEECH_STARTED
        return [Heard(event, utterance.number, start, voiced_frames=voiced)]

    def _resume(self, utterance: _Utterance) -> list[Output]:
        utterance.paused = False
        outputs: list[Output] = []
        if utterance.announced:
            # Withdraws the announcement at once; nothing is known yet of what follows.
            whole = self._whole(utterance)
            utterance.next_partial = self._tape.end + _PARTIAL_EVERY_SAMPLES
            outputs.append(self._heard(TranscriptEvent.PARTIAL, utterance, whole))
        if utterance.speech_end - utterance.piece_start >= _SETTLED_SAMPLES:
            if utterance.text is None:
                utterance.settle_pauses.add(utterance.pause)
            else:
                utterance.settled.append(utterance.text)
            self._begin_piece(utterance, utterance.speech_end)
        utterance.text = None
        return outputs

    def _end(self, utterance: _Utterance, speech_end: int) -> list[Output]:
        utterance.ended_at = self._tape.end
        utterance.speech_end = speech_end
        if utterance.text is not None:
            return self._close(utterance)
        if utterance.paused:
            return []
        # The sound stopped or became too long in the middle of speech.
        utterance.pause += 1
        utterance.end_of_turn = 1.0
        return [self._transcribe(utterance, Purpose.PAUSE)]

    def _consider(self, utterance: _Utterance) -> list[Output]:
        """What follows from the pause's text and the turn detector's opinion, once known."""
        if utterance.text is None:
            return []
        whole = self._whole(utterance)
        if not whole.text:
            # Not a word: there is nothing whose end could be waited for.
            return self._opinion(1.0)
        if not utterance.judged:
            return []
        outputs: list[Output] = []
        if not utterance.announced:
            utterance.announced = True
            outputs.append(self._heard(TranscriptEvent.PAUSED, utterance, whole))
        hanging = whole.text.endswith(_HANGING)
        limit = _HANGING_PROBABILITY if hanging else 1.0
        return outputs + self._opinion(min(utterance.end_of_turn, limit))

    def _opinion(self, end_of_turn: float) -> list[Output]:
        outputs: list[Output] = []
        for signal in self._endpointer.judge(end_of_turn):
            outputs += self._on_signal(signal)
        return outputs

    def _close(self, utterance: _Utterance) -> list[Output]:
        whole = self._whole(utterance)
        if not whole.text:
            return self._discard(utterance)
        del self._utterances[utterance.number]
        return [self._heard(TranscriptEvent.FINAL, utterance, whole)]

    def _discard(self, utterance: _Utterance) -> list[Output]:
        del self._utterances[utterance.number]
        voiced = self._endpointer.voiced_frames
        event = TranscriptEvent.DISCARDED
        return [Heard(event, utterance.number, self._tape.end, voiced_frames=voiced)]

    def _partial(self, utterance: _Utterance, text: Transcript) -> list[Output]:
        if utterance.ended_at is not None or utterance.paused:
            return []
        whole = join([*utterance.settled, text], utterance.language)
        if not whole.text:
            return []
        return [self._heard(TranscriptEvent.PARTIAL, utterance, whole)]

    def _partial_if_due(self) -> list[Output]:
        utterance = self._current
        if (
            not self._interim_results
            or utterance is None
            or self._transcribing
            or self._endpointer.silent_frames
            or self._tape.end < utterance.next_partial
        ):
            return []
        return [self._transcribe(utterance, Purpose.PARTIAL)]

    def _cut_if_long(self) -> list[Output]:
        """Leave a piece behind before it gets longer than a recogniser takes."""
        utterance = self._current
        if utterance is None or utterance.paused:
            return []
        if self._tape.end - utterance.piece_start < LONGEST_PIECE_SAMPLES:
            return []
        n_frames = len(utterance.speech)
        at = quietest(utterance.speech, n_frames - _CUT_WINDOW_FRAMES, n_frames)
        cut = self._tape.end - (n_frames - at) * FRAME_SAMPLES
        work = self._transcribe(utterance, Purpose.SETTLE, cut)
        self._begin_piece(utterance, cut)
        return [work]

    def _begin_piece(self, utterance: _Utterance, start: int) -> None:
        utterance.piece_start = start
        frames = (self._tape.end - start) // FRAME_SAMPLES
        utterance.speech = utterance.speech[len(utterance.speech) - frames :]

    def _transcribe(
        self, utterance: _Utterance, purpose: Purpose, end: int | None = None
    ) -> Transcribe:
        self._transcribing += 1
        pcm = self._tape.between(utterance.piece_start, self._tape.end if end is None else end)
        return Transcribe(
            utterance.number,
            purpose,
            utterance.pause if purpose is Purpose.PAUSE else 0,
            pcm,
            utterance.piece_start,
            utterance.language,
        )

    def _judge(self, utterance: _Utterance) -> Judge:
        pcm = self._tape.between(self._tape.end - WINDOW_SAMPLES, self._tape.end)
        return Judge(utterance.number, utterance.pause, pcm)

    def _whole(self, utterance: _Utterance) -> Transcript:
        text = [utterance.text] if utterance.text else []
        return join([*utterance.settled, *text], utterance.language)

    def _heard(self, event: TranscriptEvent, utterance: _Utterance, text: Transcript) -> Heard:
        now = self._tape.end
        done = event in (TranscriptEvent.PAUSED, TranscriptEvent.FINAL)
        return Heard(
            event,
            utterance.number,
            now,
            text.text,
            text.language,
            utterance.end_of_turn if done else 0.0,
            text.segments if event is TranscriptEvent.FINAL else (),
            utterance.speech_end if done else 0,
            0 if utterance.ended_at is None else now - utterance.ended_at,
            voiced_frames=self._endpointer.voiced_frames,
            # Both worked at the same time.
            compute_s=max(utterance.text_cost_s, utterance.judge_cost_s if done else 0.0),
        )

    def _forget(self) -> None:
        kept = 2 * _LEAD_SAMPLES
        if self._current is not None:
            kept = max(WINDOW_SAMPLES, self._tape.end - self._current.piece_start)
        self._tape.forget(self._tape.end - kept)
