"""Chunks from the bus on their way into the pure parts."""

from __future__ import annotations

import logging

from gateway.api.events import WarningEvent
from gateway.playout.pacing import RATE_HZ
from gateway.playout.pictures import Picture
from gateway.playout.playout import Playout
from gateway.playout.sound import VoiceResampler
from gateway.talk.actions import Action
from gateway.talk.conversation import Conversation
from gateway.talk.history import SpokenMark
from gateway.talk.turn import Turn
from gateway.talk.words import is_misheard_hum
from visavis.styles import CaptionText
from visavis.v1 import control_pb2
from visavis.wire.media import PcmChunk, TokenChunk, TranscriptChunk, TranscriptEvent, VideoChunk

log = logging.getLogger(__name__)

# How a hum is written where the recogniser wrote words.
HUM = "Mm-hm."
_GOES_ON_BELOW = 0.25
MAX_FPS = 120
MAX_SIDE_PIXELS = 4096


def heard(conversation: Conversation, chunk: TranscriptChunk, now: float) -> list[Action]:
    """What follows from an event in the visitor's speech."""
    utterance, text = chunk.utterance, chunk.text
    doubt = conversation.doubt
    if doubt is not None and not doubt.over and doubt.utterance == utterance and _is_hum(chunk):
        text = HUM
    match chunk.event:
        case TranscriptEvent.SPEECH_STARTED:
            return conversation.speech_started(utterance, now)
        case TranscriptEvent.PARTIAL:
            return conversation.partial(utterance, text)
        case TranscriptEvent.PAUSED:
            return conversation.paused(utterance, text, chunk.end_of_turn_probability, now)
        case TranscriptEvent.FINAL:
            return conversation.final(utterance, text, now)
        case TranscriptEvent.DISCARDED:
            return conversation.discarded(utterance, now)


def _is_hum(chunk: TranscriptChunk) -> bool:
    """Of speech over an answer."""
    judged = chunk.event in (TranscriptEvent.PAUSED, TranscriptEvent.FINAL)
    return is_misheard_hum(
        chunk.text,
        voiced_ms=chunk.voiced_ms,
        hum_odds=chunk.hum_odds,
        goes_on=judged and chunk.end_of_turn_probability < _GOES_ON_BELOW,
    )


def picture_of(chunk: VideoChunk) -> Picture | None:
    """The chunk as playout wants it; None if it cannot be timed or written to a file."""
    if not 1 <= chunk.fps <= MAX_FPS:
        log.warning("video: a chunk with %d frames a second is dropped", chunk.fps)
        return None
    if not (1 <= chunk.width <= MAX_SIDE_PIXELS and 1 <= chunk.height <= MAX_SIDE_PIXELS):
        log.warning("video: a chunk of %d x %d pixels is dropped", chunk.width, chunk.height)
        return None
    return Picture(
        turn=chunk.place.turn,
        index=chunk.place.pts,
        live=chunk.live,
        codec=chunk.codec,
        keyframe=chunk.keyframe,
        width=chunk.width,
        height=chunk.height,
        fps=chunk.fps,
        payload=chunk.payload,
        last=chunk.place.last,
    )


class AnswerInput:
    """The text of one turn after the other as it is shown and remembered: without style tags."""

    def __init__(self) -> None:
        self._turn = 0
        self._captions = CaptionText()

    def push(self, chunk: TokenChunk) -> str:
        """What of the chunk's text is to be shown now; a tag that is not complete waits."""
        if chunk.place.turn != self._turn:
            self._turn, self._captions = chunk.place.turn, CaptionText()
        return self._captions.feed(chunk.text, last=chunk.place.last)


class Notices:
    """What the stages say they cannot do; of a held turn it is told once that is heard."""

    def __init__(self) -> None:
        self._held: list[WarningEvent] = []

    def add(self, notice: control_pb2.TurnNotice, turn: Turn | None) -> list[WarningEvent]:
        """What to tell now. turn: the one that is open."""
        if turn is None or turn.number != notice.turn:
            return []
        event = WarningEvent(turn=notice.turn, code=notice.code, message=notice.message)
        if turn.confirmed:
            return [event]
        self._held.append(event)
        return []

    def confirmed(self, turn: int) -> list[WarningEvent]:
        """What to tell now that a held turn is heard."""
        due, self._held = [event for event in self._held if event.turn == turn], []
        return due


class VoiceInput:
    """The voice of one turn after the other, brought to the playout's rate."""

    def __init__(self, playout: Playout) -> None:
        self._playout = playout
        self._resampler: VoiceResampler | None = None

    def begin(self) -> None:
        """Another turn's voice follows."""
        self._resampler = None

    def push(self, chunk: PcmChunk) -> float | None:
        """Hand the chunk to the playout; its seconds, None if it cannot be used."""
        if self._resampler is None:
            self._resampler = VoiceResampler(chunk.sample_rate_hz)
        if chunk.sample_rate_hz != self._resampler.sample_rate_hz:
            log.warning("voice: a chunk of another rate than its turn's is dropped")
            return None
        last = chunk.place.last
        pcm = self._resampler.push(chunk.place.pts, chunk.pcm, last=last)
        self._playout.push_voice(chunk.place.turn, pcm, last=last)
        return len(chunk.pcm) / chunk.sample_rate_hz

    def marks(self, chunk: PcmChunk) -> list[SpokenMark]:
        """Where words of the turn's text end, in seconds of its voice."""
        return [SpokenMark(m.chars, m.samples / chunk.sample_rate_hz) for m in chunk.marks]

    def played(self) -> tuple[int, int] | None:
        """Samples of the voice heard so far, in its own rate, and that rate."""
        if self._resampler is None:
            return None
        rate_hz = self._resampler.sample_rate_hz
        return self._playout.played_samples * rate_hz // RATE_HZ, rate_hz
