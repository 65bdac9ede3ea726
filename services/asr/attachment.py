"""An attached session: `mic` chunks of the bus in, `transcript` chunks out."""

from __future__ import annotations

import asyncio
import logging

from services.asr.questions import Heard
from services.asr.session import ListeningSession
from services.asr.transcript import Segment
from services.asr.vad import FRAME_SAMPLES, SAMPLE_RATE_HZ
from visavis.bus import Bus, Subscription
from visavis.media import PcmChunk, Place, Stamp, TranscriptChunk, TranscriptEvent, WordTime
from visavis.subjects import Kind

log = logging.getLogger(__name__)

# A second of 10 ms chunks and some: later sound is worth less than newer sound.
MIC_CHUNKS_WAITING = 128
# A microphone that falls silent without a word (muted, gone) must not leave an
# utterance open: missing sound counts as silence.
_PATIENCE_S = 0.3
_LONGEST_GAP_SAMPLES = SAMPLE_RATE_HZ
# The resampler holds back a few milliseconds.
_RESAMPLER_SLACK_SAMPLES = SAMPLE_RATE_HZ // 20


def words_of(segments: tuple[Segment, ...], offset_samples: int = 0) -> tuple[WordTime, ...]:
    """Segments at 16 kHz as times in milliseconds."""

    def ms(samples: int) -> int:
        return max(0, samples + offset_samples) * 1000 // SAMPLE_RATE_HZ

    return tuple(WordTime(s.text, ms(s.start_samples), ms(s.end_samples)) for s in segments)


def chunk_of(heard: Heard, place: Place, offset_samples: int = 0) -> TranscriptChunk:
    """The event as it travels; offset_samples: where in the microphone's time listening began."""
    told_end = heard.event in (TranscriptEvent.PAUSED, TranscriptEvent.FINAL)
    return TranscriptChunk(
        place,
        heard.event,
        heard.utterance,
        heard.text,
        heard.language,
        heard.end_of_turn,
        words_of(heard.segments, offset_samples),
        heard.speech_end_samples + offset_samples if told_end else 0,
        heard.stable_characters,
        heard.voiced_frames * FRAME_SAMPLES * 1000 // SAMPLE_RATE_HZ,
        heard.compute_s * 1000,
        heard.hum_odds,
    )


class Attachment:
    """Two loops, `listen` and `tell`, over one ListeningSession."""

    def __init__(self, name: str, listening: ListeningSession, bus: Bus) -> None:
        """name: of the session, as in the subjects."""
        self._name = name
        self._listening = listening
        self._bus = bus
        self._offset_samples = 0
        self._synced = False

    async def listen(self, mic: Subscription) -> None:
        """Feed what the microphone sends, until cancelled."""
        while True:
            try:
                async with asyncio.timeout(_PATIENCE_S):
                    chunk = await anext(mic)
            except TimeoutError:
                if not self._listening.idle:
                    await self._listening.hear_silence(int(_PATIENCE_S * SAMPLE_RATE_HZ))
                continue
            except StopAsyncIteration:
                return
            assert isinstance(chunk, PcmChunk)
            if len(chunk.pcm) > chunk.sample_rate_hz:
                log.warning("dropped a mic chunk of more than one second")
                continue
            await self._keep_time(chunk)
            await self._listening.hear(chunk.pcm, chunk.sample_rate_hz)

    async def tell(self) -> None:
        """Publish events as they come, until cancelled."""
        seq = 0
        async for heard in self._listening.events():
            at = heard.at_samples + self._offset_samples
            place = Place(self._name, 0, seq, at, stamps=self._stamps(heard))
            chunk = chunk_of(heard, place, self._offset_samples)
            await self._bus.publish(Kind.TRANSCRIPT, chunk)
            seq += 1

    def _stamps(self, heard: Heard) -> tuple[Stamp, ...]:
        """How the words came about, where the event has all of them; when it leaves."""
        told = Stamp.now(f"asr.{heard.event.name.lower()}")
        if heard.event is TranscriptEvent.PAUSED:
            return (*self._listening.recognised, told)
        if heard.event is TranscriptEvent.FINAL:
            certain = Stamp.ago("asr.certain", heard.late_samples / SAMPLE_RATE_HZ)
            return (*self._listening.recognised, certain, told)
        return (told,)

    async def _keep_time(self, chunk: PcmChunk) -> None:
        """Hear lost chunks as silence; follow a microphone whose count starts anew."""
        at = chunk.place.pts * SAMPLE_RATE_HZ // chunk.sample_rate_hz
        gap = at - (self._listening.heard_samples + self._offset_samples)
        if self._synced and _RESAMPLER_SLACK_SAMPLES < gap <= _LONGEST_GAP_SAMPLES:
            await self._listening.hear_silence(gap)
        elif not self._synced or abs(gap) > _LONGEST_GAP_SAMPLES:
            self._offset_samples += gap
        self._synced = True
