"""The quality benchmark: what speed must not cost. Heard right, spoken right, lips that meet."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import grpc.aio
import numpy as np
from numpy.typing import NDArray

from visavis.bench.clips import RATE_HZ, Clip
from visavis.bench.lip_closure import Closure, closure, lip_gap
from visavis.bench.partials import PartialsBench
from visavis.bench.trace import Trace
from visavis.bench.visitor import visit
from visavis.bench.word_errors import words
from visavis.client import GatewayClient
from visavis.clock import MonotonicClock
from visavis.edit_distance import edits
from visavis.media import BlendshapeChunk, MelChunk, PcmChunk
from visavis.v1 import (
    asr_pb2,
    asr_pb2_grpc,
    control_pb2,
    face_pb2,
    face_pb2_grpc,
    tts_pb2,
    tts_pb2_grpc,
)

_ANSWER_TIMEOUT_S = 90.0
# An answer whose stream is cut off here would end in the middle of a word.
_TAIL_S = 0.4


@dataclass
class Errors:
    """Words wrong of words said."""

    wrong: int = 0
    said: int = 0
    texts: list[dict[str, str]] = field(default_factory=list)

    def add(self, name: str, heard: str, said: str) -> None:
        self.wrong += edits(words(heard), words(said))
        self.said += len(words(said))
        self.texts.append({"name": name, "said": said, "heard": heard})

    @property
    def rate(self) -> float | None:
        return self.wrong / self.said if self.said else None


@dataclass
class Lips:
    """Closure over all sentences, by what the face was given."""

    bilabials: int = 0
    closed: int = 0
    open_gaps: list[float] = field(default_factory=list)

    def add(self, found: Closure) -> None:
        self.bilabials += len(found.bilabial_gaps)
        self.closed += found.closed
        self.open_gaps += found.open_gaps

    @property
    def share(self) -> float | None:
        return self.closed / self.bilabials if self.bilabials else None

    @property
    def open_gap(self) -> float | None:
        """Median opening of open vowels."""
        return float(np.median(self.open_gaps)) if self.open_gaps else None


async def heard_right(
    client: GatewayClient, clips: Sequence[Clip], on_step: Callable[[str], None]
) -> Errors:
    """Clips spoken into sessions: final transcripts against their texts."""
    known = [clip for clip in clips if clip.text]
    texts = {clip.name: clip.text for clip in known}
    errors = Errors()
    bench = PartialsBench(client, lambda done: on_step(done.clip if done else "warm-up"))
    for understood in await bench.run(known):
        errors.add(understood.clip, " ".join(understood.finals), texts[understood.clip])
    return errors


async def spoken_right(
    client: GatewayClient,
    asr: grpc.aio.Channel,
    questions: Sequence[tuple[str, str]],
    on_step: Callable[[str], None],
) -> Errors:
    """The voice that left the gateway, recognised, against the answers' texts.

    questions: (language, text), typed.
    """
    errors = Errors()
    stub = asr_pb2_grpc.SpeechRecognitionStub(asr)
    for language, question in questions:
        async with visit(client, MonotonicClock(), language=language) as visitor:
            visitor.trace = trace = Trace()
            turn = await visitor.session.say(question)
            if await visitor.until(partial(_finished, trace, turn), _ANSWER_TIMEOUT_S):
                await visitor.pause(_TAIL_S)
                record = await visitor.record(turn)
                config = asr_pb2.RecognitionConfig(sample_rate_hz=RATE_HZ, language=language)
                request = asr_pb2.RecognizeRequest(config=config, pcm_s16le=voice_of(trace))
                heard = await stub.Recognize(request)
                errors.add(question, heard.text, str(record.get("answer", "")).strip())
        on_step(question)
    return errors


def voice_of(trace: Trace) -> bytes:
    """What was received, from the first to the last audible packet, s16le at 16 kHz."""
    # The resampler comes with the services.
    import soxr

    loud = [index for index, sound in enumerate(trace.sounds) if sound.audible_at is not None]
    if not loud:
        return b""
    chosen = trace.sounds[max(0, loud[0] - 5) : loud[-1] + 6]
    pcm = np.concatenate([sound.pcm for sound in chosen])
    resampled: NDArray[np.int16] = soxr.resample(pcm, chosen[0].rate_hz, RATE_HZ)
    return resampled.astype("<i2").tobytes()


async def lips_meet(
    tts: grpc.aio.Channel,
    face: grpc.aio.Channel,
    sentences: Sequence[tuple[str, str]],
    on_step: Callable[[str], None],
) -> dict[str, Lips]:
    """Closure at p, b and m: of lips from phoneme durations, and of lips from the sound alone."""
    status = await face_pb2_grpc.FaceAnimationStub(face).GetStatus(control_pb2.GetStatusRequest())
    names = list(status.blendshapes)
    lips = {"durations": Lips(), "sound": Lips()}
    for language, text in sentences:
        voice, mels = await _synthesise(tts, language, text)
        spans = [span for mel in mels for span in mel.phonemes]
        if spans and voice:
            rate_hz = mels[0].sample_rate_hz
            for source, inputs in (
                ("durations", [face_pb2.AnimateRequest(mel=mel.to_message()) for mel in mels]),
                ("sound", [face_pb2.AnimateRequest(voice=pcm.to_message()) for pcm in voice]),
            ):
                weights, fps = await _animate(face, source, inputs)
                gaps = lip_gap(weights, names)
                lips[source].add(closure(spans, gaps, fps, rate_hz))
        on_step(text)
    return lips


async def _synthesise(
    channel: grpc.aio.Channel, language: str, text: str
) -> tuple[list[PcmChunk], list[MelChunk]]:
    async def requests() -> AsyncIterator[tts_pb2.SynthesizeRequest]:
        yield tts_pb2.SynthesizeRequest(config=tts_pb2.SynthesisConfig(language=language))
        yield tts_pb2.SynthesizeRequest(text=text)

    voice, mels = [], []
    async for answer in tts_pb2_grpc.SpeechSynthesisStub(channel).Synthesize(requests()):
        if answer.HasField("voice"):
            voice.append(PcmChunk.of(answer.voice))
        else:
            mels.append(MelChunk.of(answer.mel))
    return voice, mels


async def _animate(
    channel: grpc.aio.Channel, source: str, inputs: Sequence[face_pb2.AnimateRequest]
) -> tuple[NDArray[np.float32], int]:
    """Blendshapes [T, 52] and their rate."""
    kind = face_pb2.FaceConfig.SOURCE_MEL
    if source == "sound":
        kind = face_pb2.FaceConfig.SOURCE_VOICE
    config = face_pb2.FaceConfig(blendshapes=True, source=kind, seed=1)

    async def requests() -> AsyncIterator[face_pb2.AnimateRequest]:
        yield face_pb2.AnimateRequest(config=config)
        for request in inputs:
            yield request

    chunks: list[Any] = []
    async for answer in face_pb2_grpc.FaceAnimationStub(channel).Animate(requests()):
        if answer.HasField("face"):
            chunks.append(BlendshapeChunk.of(answer.face))
    return np.stack([chunk.weights for chunk in chunks]), chunks[0].fps


def _finished(trace: Trace, turn: int) -> bool:
    return trace.turn_event_s(turn, "finished", "failed") is not None
