"""One session's sound on its way through the networks, and what an attached one says on the bus.

Frames go to the VAD, the listener decides, and what it wants to know is asked of the other
networks at the same time as the next frames are heard.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from types import MappingProxyType, TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from services.asr.hearing.detectors import FRAME_SAMPLES, SAMPLE_RATE_HZ, VadState
from services.asr.hearing.networks import Hearing
from services.asr.hearing.transcript import Segment
from services.asr.sound import Resampler
from services.asr.stream import Listener
from services.asr.turns.endpointing import EndpointRules
from services.asr.utterance import Heard, Judge, Output, Purpose, Requeue, Transcribe
from visavis.serving import metrics
from visavis.serving.admission.meter import Assumed, Meter
from visavis.serving.errors import AtCapacityError, EngineError, SupersededError
from visavis.serving.lifetime.supervision import end_tasks
from visavis.serving.stage import Stage, StageWork, Turn
from visavis.serving.telemetry import traces
from visavis.wire.bus import Subscription
from visavis.wire.clock import Clock, monotonic_ns
from visavis.wire.media import (
    Chunk,
    PcmChunk,
    Place,
    Stamp,
    TranscriptChunk,
    TranscriptEvent,
    WordTime,
)
from visavis.wire.subjects import Kind

log = logging.getLogger(__name__)

ASSUMED = Assumed(units_per_s=0.2, unit_cost_s=0.08, cores=0.02)
"""Looks at what is being said and at what was said, until they are measured."""
_EVENTS_WAITING = 64
# Later sound is worth less than newer sound. But half a minute may be repeated to us, in chunks of
# a second, and for as long as we hear that, 15 s at the most, the rest comes in frames of 32 ms.
_MIC_CHUNKS_WAITING = 512
# Sound that comes faster than it was spoken (a file) waits for the networks;
# live sound, which may come in bursts, does not. A lead is forgotten bit by bit: a burst at the
# beginning, or a microphone whose clock is fast, makes no file. What was late may catch up, as
# does what is said while we hear what was said before.
_LIVE_LEAD_S, _MOST_LATE_S = 0.5, 3.0
_LEAD_FORGOTTEN = 0.1
# In what was said before, answers come so much later than they were asked for, as they do live: a
# pause that is shorter ends nothing.
_ANSWER_FRAMES = 8
# A microphone that falls silent without a word (muted, gone) must not leave an
# utterance open: missing sound counts as silence.
_PATIENCE_S = 0.3
# The last of it is begun anew: what comes while this process itself stands still is heard first.
_ANEW_S = 0.05
_LONGEST_GAP_SAMPLES = SAMPLE_RATE_HZ
# The resampler holds back a few milliseconds.
_RESAMPLER_SLACK_SAMPLES = SAMPLE_RATE_HZ // 20


class ListeningSession:
    """Hears one stream of sound: `hear` and `finish` on one side, `events` on the other.

    An async context manager: its end ends all work of the networks for it.
    """

    def __init__(
        self,
        hearing: Hearing,
        language: str,
        *,
        interim_results: bool,
        foresight: bool = False,
        rules: EndpointRules,
        clock: Clock,
        meter: Meter | None = None,
        recorded: bool = False,
        first_utterance: int = 1,
        to_spare: Callable[[], bool] = lambda: True,
    ) -> None:
        """foresight: interim results tell how likely their words are all, while there is a core
        `to_spare`. recorded: wait for every answer of the networks before hearing on. meter: counts
        what the recogniser is asked. first_utterance: its number.

        Raises UnknownNameError if nothing hears `language`.
        """
        code, _ = hearing.languages.resolve(language)
        self._hearing = hearing
        self._listener = Listener(
            code,
            interim_results=interim_results,
            foresight=foresight,
            rules=rules,
            first_utterance=first_utterance,
        )
        self._clock = clock
        self._meter = meter or Meter(clock, ASSUMED)
        self._recorded = recorded
        self._to_spare = to_spare
        self._resampler: Resampler | None = None
        self._vad = VadState()
        self._waiting = np.zeros(0, np.float32)
        self._heard_samples = 0
        self._lead_s = 0.0
        """So far what was heard is ahead of the clock."""
        self._frame_at_s: float | None = None
        self._awaited_frames = 0
        """Heard since the networks owe an answer."""
        self._work: set[asyncio.Task[None]] = set()
        self._recognised: tuple[Stamp, ...] = ()
        self._events: asyncio.Queue[Heard | Exception | None] = asyncio.Queue(_EVENTS_WAITING)

    @property
    def heard_samples(self) -> int:
        """At 16 kHz, of all sound that has come in."""
        return self._heard_samples + len(self._waiting)

    @property
    def idle(self) -> bool:
        """No utterance is open or awaits its text."""
        return self._listener.idle

    @property
    def recognised(self) -> tuple[Stamp, ...]:
        """When the newest pause was noticed, its recognition began, and its words were known."""
        return self._recognised

    def set_language(self, language: str) -> None:
        """From the next utterance on. Raises UnknownNameError."""
        self._listener.language, _ = self._hearing.languages.resolve(language)

    def take_turns_by(self, rules: EndpointRules) -> None:
        """From now on, also in an utterance that is open."""
        self._listener.take_turns_by(rules)

    async def hear(
        self, pcm: NDArray[np.int16], sample_rate_hz: int, *, recorded: bool = False
    ) -> None:
        """The next [N] int16 samples, of any number. Waits where events are not read.

        recorded: this is no live sound, and what follows may be.
        """
        if self._resampler is None or self._resampler.sample_rate_hz != sample_rate_hz:
            self._resampler = Resampler(sample_rate_hz)
        self._listener.live = not recorded
        await self._listen(self._resampler.feed(pcm))

    async def hear_silence(self, n_samples: int) -> None:
        """`n_samples` at 16 kHz in which nothing came in."""
        await self._listen(np.zeros(n_samples, np.float32))

    async def end_utterance(self) -> None:
        """Whoever speaks has finished, whatever the silence: the client says so."""
        await self._take(self._listener.finish())

    async def finish(self) -> None:
        """No more sound: bring every open utterance to its end, then end `events`."""
        rest = np.zeros(0, np.int16)
        if self._resampler is not None:
            await self._listen(self._resampler.feed(rest, last=True))
        if len(self._waiting):
            await self._listen(np.zeros(FRAME_SAMPLES - len(self._waiting), np.float32))
        await self.end_utterance()
        await self._settle()
        await self._events.put(None)

    async def fail(self, error: Exception) -> None:
        """Raise `error` from `events`."""
        await self._events.put(error)

    async def events(self) -> AsyncIterator[Heard]:
        """Until `finish` is through. Raises what went wrong in the networks or was given
        to `fail`."""
        while (event := await self._events.get()) is not None:
            if isinstance(event, Exception):
                raise event
            yield event

    def ready_events(self) -> list[Heard]:
        """What `events` would give without waiting. Raises as it does."""
        ready: list[Heard] = []
        while not self._events.empty():
            event = self._events.get_nowait()
            if isinstance(event, Exception):
                raise event
            if event is not None:
                ready.append(event)
        return ready

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._hearing.speaking.discard(self)
        await end_tasks(self._work)

    async def _listen(self, pcm: NDArray[np.float32]) -> None:
        if self._frame_at_s is None:
            self._frame_at_s = self._clock.now()
        self._waiting = np.concatenate([self._waiting, pcm])
        n_frames = len(self._waiting) // FRAME_SAMPLES
        if not n_frames:
            return
        frames = self._waiting[: n_frames * FRAME_SAMPLES].reshape(-1, FRAME_SAMPLES)
        self._waiting = self._waiting[n_frames * FRAME_SAMPLES :]
        metrics.asr_audio_seconds.inc(frames.size / SAMPLE_RATE_HZ)
        speech = await self._hearing.speech(frames, self._vad)
        for frame, probability in zip(frames, speech, strict=True):
            self._heard_samples += FRAME_SAMPLES
            ahead = self._ahead()
            await self._take(self._listener.hear_frame(frame, probability))
            if self._listener.far:
                metrics.asr_far_voice_seconds.inc(FRAME_SAMPLES / SAMPLE_RATE_HZ)
            self._awaited_frames = self._awaited_frames + 1 if self._work else 0
            if ahead and self._awaited_frames > (0 if self._listener.live else _ANSWER_FRAMES):
                await self._settle()

    def _ahead(self) -> bool:
        """Whether the next frame has come faster than it can have been spoken."""
        assert self._frame_at_s is not None
        now_s, before_s = self._clock.now(), self._frame_at_s
        self._frame_at_s, passed_s = now_s, now_s - before_s
        # What was said before is no lead; but what is said is late by as long as that takes.
        spoken_s = FRAME_SAMPLES / SAMPLE_RATE_HZ if self._listener.live else 0.0
        lead_s = self._lead_s + spoken_s - passed_s * (1 + _LEAD_FORGOTTEN)
        self._lead_s = max(-_MOST_LATE_S, lead_s)
        return self._recorded or not self._listener.live or self._lead_s > _LIVE_LEAD_S

    async def _settle(self) -> None:
        """Until every question to the networks is answered, also those that answers raise."""
        while self._work:
            await asyncio.wait(self._work)

    async def _take(self, outputs: Sequence[Output]) -> None:
        if self._listener.idle:
            self._hearing.speaking.discard(self)
        else:
            self._hearing.speaking.add(self)
        self._listener.speaking = len(self._hearing.speaking)
        self._listener.foresees = self._to_spare()
        for output in outputs:
            if isinstance(output, Heard):
                if output.event is TranscriptEvent.FINAL:
                    late_s = output.late_samples / SAMPLE_RATE_HZ
                    metrics.asr_final_seconds.observe(late_s, metrics.exemplar())
                await self._events.put(output)
                continue
            if isinstance(output, Requeue):
                self._hearing.requeue(output.key, output.order)
                continue
            task = asyncio.create_task(self._answer(output))
            self._work.add(task)
            task.add_done_callback(self._work.discard)

    async def _answer(self, work: Transcribe | Judge) -> None:
        ready = Stamp.now("asr.ready")
        try:
            if isinstance(work, Judge):
                await self._judge(work)
                return
            try:
                with self._meter.unit() as unit:
                    text, cost_s = await self._hearing.transcribe(
                        work.pcm, work.language, work.draft, work.urgency
                    )
                    if work.purpose is Purpose.PAUSE:
                        unit.first()
            except (SupersededError, AtCapacityError) as error:
                if isinstance(error, AtCapacityError) and not work.purpose.is_look:
                    raise
                self._listener.passed_over(work)
                return
            if work.purpose is Purpose.PARTIAL:
                metrics.asr_partial_seconds.observe(cost_s, metrics.exemplar())
            elif work.purpose is Purpose.PAUSE:
                started = Stamp.ago("asr.started", cost_s)
                self._recognised = (ready, started, Stamp.now("asr.finished"))
            await self._take(self._listener.transcribed(work, text, cost_s))
        except Exception as error:  # Whatever it is, the reader of `events` must hear of it.
            await self._events.put(error)

    async def _judge(self, work: Judge) -> None:
        """An opinion helps, and is not needed: without one the silence decides."""
        try:
            end_of_turn, cost_s = await self._hearing.end_of_turn(work.pcm, work.urgency)
        except SupersededError:
            return
        except (EngineError, AtCapacityError) as error:
            log.warning("no opinion on the end of a turn: %s", error)
            return
        await self._take(self._listener.judged(work, end_of_turn, cost_s))


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


class TranscribingSession(StageWork):
    """One session's ears: `mic` in, through a ListeningSession, `transcript` out.

    It has no turns: what the visitor says belongs to none yet.
    """

    inputs = MappingProxyType({Kind.MIC: _MIC_CHUNKS_WAITING})

    def __init__(self, stage: Stage[Turn], listening: ListeningSession) -> None:
        self._stage = stage
        self._listening = listening
        self._offset_samples = 0
        self._synced = False
        self._tracer = traces.tracer()
        self._utterances: dict[int, traces.Span] = {}
        """Those that are open, where they are traced."""

    def loops(self) -> Sequence[Coroutine[Any, Any, None]]:
        return [self._listen(), self._tell()]

    async def _listen(self) -> None:
        microphone = self._stage.chunks(Kind.MIC)
        while True:
            try:
                chunk = await self._next(microphone)
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
            await self._listening.hear(chunk.pcm, chunk.sample_rate_hz, recorded=chunk.recorded)

    async def _next(self, microphone: Subscription) -> Chunk:
        """Raises TimeoutError after _PATIENCE_S without one, StopAsyncIteration at the end."""
        try:
            async with asyncio.timeout(_PATIENCE_S - _ANEW_S):
                return await anext(microphone)
        except TimeoutError:
            async with asyncio.timeout(_ANEW_S):
                return await anext(microphone)

    async def _tell(self) -> None:
        async for heard in self._listening.events():
            at = heard.at_samples + self._offset_samples
            place = self._stage.place(0, Kind.TRANSCRIPT, at, stamps=self._stamps(heard))
            chunk = chunk_of(heard, place, self._offset_samples)
            await self._stage.publish(Kind.TRANSCRIPT, chunk, self._traced(heard))

    def _traced(self, heard: Heard) -> str:
        """The traceparent of the utterance, under which the turn comes that answers it."""
        if self._tracer is None:
            return ""
        number, now_ns = heard.utterance, monotonic_ns()
        if heard.event is TranscriptEvent.SPEECH_STARTED:
            ago = self._listening.heard_samples - heard.at_samples
            begun_ns = now_ns - ago * 1_000_000_000 // SAMPLE_RATE_HZ
            self._utterances[number] = self._tracer.begin("utterance", begun_ns)
        span = self._utterances.get(number)
        if span is None:
            return ""
        if heard.event in (TranscriptEvent.FINAL, TranscriptEvent.DISCARDED):
            del self._utterances[number]
            said = heard.event is TranscriptEvent.FINAL
            span.end(now_ns, {"visavis.utterance": number, "visavis.said": said})
        return span.traceparent

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
        """Hear lost chunks as silence; follow a microphone whose count starts anew, or has stood
        still while silence was heard in its place.

        Frames are full where the microphone's count says so: it sends what fills them.
        """
        at = chunk.place.pts * SAMPLE_RATE_HZ // chunk.sample_rate_hz
        gap = at - (self._listening.heard_samples + self._offset_samples)
        if not self._synced or not -_RESAMPLER_SLACK_SAMPLES <= gap <= _LONGEST_GAP_SAMPLES:
            await self._listening.hear_silence((at - self._listening.heard_samples) % FRAME_SAMPLES)
            self._offset_samples = at - self._listening.heard_samples
        elif gap > _RESAMPLER_SLACK_SAMPLES:
            await self._listening.hear_silence(gap)
        self._synced = True
