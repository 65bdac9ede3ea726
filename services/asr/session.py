"""One stream of sound on its way through the networks.

Frames go to the VAD, the listener decides, and what it wants to know is asked
of the other networks at the same time as the next frames are heard.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from services.asr.endpointing import EndpointRules
from services.asr.hearing import Hearing
from services.asr.questions import Heard, Judge, Output, Purpose, Transcribe
from services.asr.resampler import Resampler
from services.asr.stream import Listener
from services.asr.vad import FRAME_SAMPLES, SAMPLE_RATE_HZ, VadState
from visavis import metrics
from visavis.clock import Clock
from visavis.media import Stamp, TranscriptEvent

_EVENTS_WAITING = 64
# Sound that comes faster than it was spoken (a file) waits for the networks;
# live sound, which may come in bursts, does not.
_LIVE_LEAD_S = 0.5


class ListeningSession:
    """Async context manager: `hear` and `finish` on one side, `events` on the other."""

    def __init__(
        self,
        hearing: Hearing,
        language: str,
        *,
        interim_results: bool,
        rules: EndpointRules,
        clock: Clock,
        recorded: bool = False,
    ) -> None:
        """recorded: wait for every answer of the networks before hearing on.

        Raises UnknownNameError if nothing hears `language`.
        """
        code, _ = hearing.languages.resolve(language)
        self._hearing = hearing
        self._listener = Listener(code, interim_results=interim_results, rules=rules)
        self._clock = clock
        self._recorded = recorded
        self._resampler: Resampler | None = None
        self._vad = VadState()
        self._waiting = np.zeros(0, np.float32)
        self._heard_samples = 0
        self._started: float | None = None
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

    async def hear(self, pcm: NDArray[np.int16], sample_rate_hz: int) -> None:
        """The next [N] int16 samples, of any number. Waits where events are not read."""
        if self._resampler is None or self._resampler.sample_rate_hz != sample_rate_hz:
            self._resampler = Resampler(sample_rate_hz)
        await self._listen(self._resampler.feed(pcm))

    async def hear_silence(self, n_samples: int) -> None:
        """`n_samples` at 16 kHz in which nothing came in."""
        await self._listen(np.zeros(n_samples, np.float32))

    async def finish(self) -> None:
        """No more sound: bring every open utterance to its end, then end `events`."""
        rest = np.zeros(0, np.int16)
        if self._resampler is not None:
            await self._listen(self._resampler.feed(rest, last=True))
        if len(self._waiting):
            await self._listen(np.zeros(FRAME_SAMPLES - len(self._waiting), np.float32))
        await self._take(self._listener.finish())
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
        for task in self._work:
            task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)

    async def _listen(self, pcm: NDArray[np.float32]) -> None:
        if self._started is None:
            self._started = self._clock.now()
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
            await self._take(self._listener.frame(frame, probability))
            if self._work and self._ahead():
                await self._settle()

    def _ahead(self) -> bool:
        if self._recorded:
            return True
        assert self._started is not None
        passed_s = self._clock.now() - self._started
        return self._heard_samples / SAMPLE_RATE_HZ - passed_s > _LIVE_LEAD_S

    async def _settle(self) -> None:
        """Until every question to the networks is answered, also those that answers raise."""
        while self._work:
            await asyncio.wait(self._work)

    async def _take(self, outputs: Sequence[Output]) -> None:
        for output in outputs:
            if isinstance(output, Heard):
                if output.event is TranscriptEvent.FINAL:
                    late_s = output.late_samples / SAMPLE_RATE_HZ
                    metrics.asr_final_seconds.observe(late_s, metrics.exemplar())
                await self._events.put(output)
                continue
            task = asyncio.create_task(self._answer(output))
            self._work.add(task)
            task.add_done_callback(self._work.discard)

    async def _answer(self, work: Transcribe | Judge) -> None:
        ready = Stamp.now("asr.ready")
        try:
            if isinstance(work, Judge):
                end_of_turn, cost_s = await self._hearing.end_of_turn(work.pcm)
                await self._take(self._listener.judged(work, end_of_turn, cost_s))
                return
            text, cost_s = await self._hearing.transcribe(work.pcm, work.language, work.draft)
            if work.purpose is Purpose.PARTIAL:
                metrics.asr_partial_seconds.observe(cost_s, metrics.exemplar())
            elif work.purpose is Purpose.PAUSE:
                started = Stamp.ago("asr.started", cost_s)
                self._recognised = (ready, started, Stamp.now("asr.finished"))
            await self._take(self._listener.transcribed(work, text, cost_s))
        except Exception as error:  # Whatever it is, the reader of `events` must hear of it.
            await self._events.put(error)
