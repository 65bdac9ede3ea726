"""Whether the lips meet where a voice needs them to: at p, b and m.

Judged by phoneme spans and blendshapes alone, so that any face that speaks ARKit can be measured.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

import grpc.aio
import numpy as np
from numpy.typing import NDArray

from visavis.tools.speech import service_errors, synthesise
from visavis.v1 import control_pb2, face_pb2, face_pb2_grpc
from visavis.wire.media import BlendshapeChunk, PhonemeSpan

CLOSED_GAP = 0.08
"""Lips further apart than this, as a share of the jaw's way, let light through."""

BILABIALS = frozenset({"P", "B", "M", "p", "b", "m"})
"""ARPABET of English, pinyin initials of Mandarin."""

OPEN_VOWELS = ("AA", "AE", "AO", "AW", "AY")
_MANDARIN_OPEN = ("a", "ai", "ao", "an", "ang", "ia", "iao", "ua")


@dataclass(frozen=True)
class Closure:
    """Gaps between the lips, 0 (shut) to 1: the smallest of each p, b or m; the largest of each
    open vowel, without which a mouth that never opens would pass."""

    bilabial_gaps: tuple[float, ...]
    open_gaps: tuple[float, ...]

    @property
    def closed(self) -> int:
        """How many of p, b, m were closed."""
        return sum(gap <= CLOSED_GAP for gap in self.bilabial_gaps)


@dataclass
class Lips:
    """Closure over all sentences, by what the face was given."""

    bilabials: int = 0
    closed: int = 0
    open_gaps: list[float] = field(default_factory=list)

    def add(self, found: Closure) -> None:
        """One sentence more."""
        self.bilabials += len(found.bilabial_gaps)
        self.closed += found.closed
        self.open_gaps += found.open_gaps

    @property
    def share(self) -> float | None:
        """Of p, b and m, those that were closed."""
        return self.closed / self.bilabials if self.bilabials else None

    @property
    def open_gap(self) -> float | None:
        """Median opening of open vowels."""
        return float(np.median(self.open_gaps)) if self.open_gaps else None


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
        voice, mels = await synthesise(tts, text, language)
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

    chunks: list[BlendshapeChunk] = []
    with service_errors():
        async for answer in face_pb2_grpc.FaceAnimationStub(channel).Animate(requests()):
            if answer.HasField("face"):
                chunks.append(BlendshapeChunk.of(answer.face))
    return np.stack([chunk.weights for chunk in chunks]), chunks[0].fps


def lip_gap(weights: NDArray[np.float32], names: Sequence[str]) -> NDArray[np.float32]:
    """Gap of each frame, 0..1: [T] float32. weights: [T, 52] float32; ARKit's mouthClose takes back
    what jawOpen opens.
    """
    jaw, close = (weights[:, names.index(name)] for name in ("jawOpen", "mouthClose"))
    gap: NDArray[np.float32] = np.clip(jaw - close, 0.0, 1.0)
    return gap


def closure(
    spans: Sequence[PhonemeSpan], gaps: NDArray[np.float32], fps: int, sample_rate_hz: int
) -> Closure:
    """What the lips did at each phoneme. gaps: [T] float32, frame k at k / fps of the voice."""
    bilabial, opened = [], []
    for span in spans:
        frames = _frames(span, len(gaps), fps, sample_rate_hz)
        if not len(frames):
            continue
        if span.symbol in BILABIALS:
            bilabial.append(float(gaps[frames].min()))
        elif is_open(span.symbol):
            opened.append(float(gaps[frames].max()))
    return Closure(tuple(bilabial), tuple(opened))


def is_open(symbol: str) -> bool:
    """Whether a phoneme is a vowel with an open mouth, whatever its stress or tone."""
    plain = symbol.rstrip("0123456789")
    return plain in OPEN_VOWELS or plain in _MANDARIN_OPEN


def _frames(span: PhonemeSpan, count: int, fps: int, sample_rate_hz: int) -> NDArray[np.int64]:
    """Frames shown during the span; for one shorter than a frame, the nearest."""
    start = span.start_samples / sample_rate_hz * fps
    end = (span.start_samples + span.duration_samples) / sample_rate_hz * fps
    frames = np.arange(int(np.ceil(start)), int(np.floor(end)) + 1)
    if not len(frames):
        frames = np.array([round((start + end) / 2)])
    inside: NDArray[np.int64] = frames[(frames >= 0) & (frames < count)]
    return inside
