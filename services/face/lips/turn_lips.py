"""The lips of the newest turn, from whatever the client sends of it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial

import numpy as np

from services.face.lips.audio_to_face import AudioToFace, AudioToFaceStream
from services.face.lips.lips import DurationLips, LipTrack, SoundLips
from services.face.lips.sound_track import Ear
from visavis.engine import EngineLane, Urgency
from visavis.serving.errors import InvalidInputError
from visavis.wire.media import MelChunk, PcmChunk

MAX_CHUNK_S = 1.0
_MOST_EARLY_CHUNKS = 128
"""Of the voice: where so many have come and no mel, none is waited for."""


class Hearing:
    """Tells the lips of each turn from its mel or its voice. An older turn never comes back.

    With `durations` the lips follow the phonemes of the mel, and the voice only matters for turns
    whose mel carries no phonemes, or that have none; without, they follow the voice alone.
    """

    def __init__(
        self,
        network: AudioToFace,
        lane: EngineLane,
        fps: int,
        *,
        durations: bool,
        open_ear: Callable[[int, int], Ear | None] = lambda sample_rate_hz, fps: None,
    ) -> None:
        """`open_ear`: gives what listens for pictures that are drawn from the voice, if they are,
        by its sample rate and the frame rate.
        """
        self._fps, self._open_ear = fps, open_ear
        self._ear: Ear | None = None
        self._network = network
        self._lane = lane
        self._frame_s = 1 / fps
        self._durations = durations
        self._turn = 0
        self._spans: DurationLips | None = None
        self._sound: SoundLips | None = None
        self._stream: AudioToFaceStream | None = None
        self._voice_samples = 0
        """How far the voice has come."""
        self._early: deque[PcmChunk] = deque()
        # Mel and voice come from two tasks; what one has begun must not be overtaken by the other.
        self._order = asyncio.Lock()

    def begin_turn(self, turn: int) -> None:
        """Forget older turns. Chunks of a turn begin it by themselves, too."""
        if turn > self._turn:
            self._turn = turn
            self._spans, self._sound, self._stream, self._ear = None, None, None, None
            self._voice_samples = 0
            self._early.clear()

    def has_begun(self, turn: int) -> bool:
        """Whether anything of the turn's sound has come."""
        heard = self._spans is not None or self._sound is not None or len(self._early) > 0
        return turn == self._turn and heard

    async def mel(self, chunk: MelChunk) -> LipTrack | None:
        """Take in mel: the lips of its turn, or None if that is over or the voice has to tell.

        InvalidInputError for what cannot be.
        """
        async with self._order:
            if not self._enter(chunk.place.turn):
                return None
            if self._sound is None and self._spans is None:
                if chunk.phonemes or not len(chunk.mel):
                    self._spans = DurationLips(self._frame_s)
                    self._early.clear()
                else:
                    return await self._from_early_voice(chunk.place.turn)
            if self._spans is not None:
                self._spans.add(chunk)
            return self._spans or self._sound

    async def voice(self, chunk: PcmChunk) -> LipTrack | None:
        """Take in voice: the lips of its turn, or None if that is over or the mel tells."""
        async with self._order:
            if not self._enter(chunk.place.turn) or self._spans is not None:
                return None
            if not self._durations or self._sound is not None:
                return await self._hear(chunk)
            self._early.append(chunk)
            if len(self._early) < _MOST_EARLY_CHUNKS:
                return None
            return await self._from_early_voice(chunk.place.turn)

    async def finish(self) -> LipTrack | None:
        """The client has ended: what came is all. Raises InvalidInputError where that tells of no
        lips, though mel came.
        """
        if self._spans is None and self._early:
            await self._from_early_voice(self._turn)
        if self._sound is not None and self._stream is None:
            raise InvalidInputError("voice: none came, and the mel has no phonemes")
        if self._sound is not None and self._sound.end_s is None:
            await self._feed(np.zeros(0, np.int16), last=True)
        if self._spans is not None:
            self._spans.finish()
        return self._spans or self._sound

    def _enter(self, turn: int) -> bool:
        self.begin_turn(turn)
        return turn == self._turn

    async def _from_early_voice(self, turn: int) -> LipTrack | None:
        self._sound = SoundLips(self._frame_s)
        while turn == self._turn and self._early:
            await self._hear(self._early.popleft())
        return self._sound

    async def _hear(self, chunk: PcmChunk) -> LipTrack:
        if len(chunk.pcm) > MAX_CHUNK_S * chunk.sample_rate_hz:
            raise InvalidInputError(
                f"voice: {len(chunk.pcm)} samples in one chunk are more than {MAX_CHUNK_S:g} s"
            )
        if self._stream is None:
            self._stream = AudioToFaceStream(self._network, chunk.sample_rate_hz)
            self._ear = self._open_ear(chunk.sample_rate_hz, self._fps)
        elif chunk.sample_rate_hz != self._stream.sample_rate_hz:
            raise InvalidInputError(
                f"sample_rate_hz: {chunk.sample_rate_hz} after {self._stream.sample_rate_hz} "
                "in the same turn"
            )
        track = self._ear.track if self._ear is not None else None
        sound = self._sound = self._sound or SoundLips(self._frame_s, track)
        if sound.end_s is None:
            # What was lost is silence, a second at most, as it is where the voice is played; what
            # comes again was heard.
            lost = min(chunk.place.pts - self._voice_samples, chunk.sample_rate_hz)
            pcm = np.pad(chunk.pcm, (lost, 0)) if lost > 0 else chunk.pcm[-lost:]
            self._voice_samples = max(self._voice_samples, chunk.place.pts + len(chunk.pcm))
            await self._feed(pcm, last=chunk.place.last)
        return sound

    async def _feed(self, pcm: np.ndarray[tuple[int], np.dtype[np.int16]], *, last: bool) -> None:
        stream, sound, ear = self._stream, self._sound, self._ear
        if stream is None or sound is None:
            return
        urgency = Urgency(owner=id(self))
        if ear is not None:
            features = partial(ear.features, pcm, last=last)
            ear.add(await self._lane.run(features, urgency=urgency), last=last)
        steps = partial(stream.steps, pcm, last=last)
        async for lips in self._lane.stream(steps, urgency=lambda: urgency):
            sound.add(lips, end_s=stream.heard_s if last else None)
