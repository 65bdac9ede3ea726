"""Chunks from the bus on their way into the pure parts."""

from __future__ import annotations

import logging

from gateway.actions import Action
from gateway.conversation import Conversation
from gateway.heard import SpokenMark
from gateway.pictures import Picture
from gateway.playout import Playout
from gateway.sound import VoiceResampler
from gateway.timeline import RATE_HZ
from visavis.media import PcmChunk, TranscriptChunk, TranscriptEvent, VideoChunk

log = logging.getLogger(__name__)

MAX_FPS = 120
MAX_SIDE_PIXELS = 4096


def heard(conversation: Conversation, chunk: TranscriptChunk, now: float) -> list[Action]:
    """What follows from an event in the visitor's speech."""
    utterance, text = chunk.utterance, chunk.text
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
