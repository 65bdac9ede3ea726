"""Chunks: what stages pass to each other, as plain values and as bytes.

Only this module and the services' servicers see protobuf.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Self, TypeVar

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from visavis.serving.errors import InvalidInputError
from visavis.v1 import media_pb2 as pb
from visavis.wire.clock import clock_id
from visavis.wire.subjects import Kind, check_session

E = TypeVar("E", bound=IntEnum)

MIN_SAMPLE_RATE_HZ = 8_000
MAX_SAMPLE_RATE_HZ = 48_000
BLENDSHAPE_COUNT = 52
MAX_PTS = 2**36
"""Two weeks of samples at 48 kHz: what counts further is no media time."""


class TranscriptEvent(IntEnum):
    """What happened in the visitor's speech; see TranscriptChunk.Event in the protocol."""

    SPEECH_STARTED = 1
    PARTIAL = 2
    FINAL = 3
    DISCARDED = 4
    PAUSED = 5


class VideoCodec(IntEnum):
    H264 = 1
    VP8 = 2


@dataclass(frozen=True, slots=True)
class Stamp:
    """When a stage handled a chunk: `stage` is "<stage>.<chunk>_<moment>", see the protocol."""

    stage: str
    monotonic_ns: int
    clock: int = 0
    """Which clock, see visavis.wire.clock.clock_id; 0: not known."""

    @classmethod
    def now(cls, stage: str) -> Self:
        return cls(stage, time.monotonic_ns(), clock_id())

    @classmethod
    def ago(cls, stage: str, seconds: float) -> Self:
        """What happened on this machine `seconds` ago."""
        return cls(stage, time.monotonic_ns() - round(seconds * 1e9), clock_id())

    def renamed(self, stage: str) -> Self:
        """The same moment under another name."""
        return replace(self, stage=stage)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a chunk belongs: session, turn (epoch), order and media time.

    `pts` counts in the chunk's own unit from the turn's first voice sample.
    """

    session: str
    turn: int
    seq: int
    pts: int
    last: bool = False
    stamps: tuple[Stamp, ...] = ()

    def header(self) -> pb.ChunkHeader:
        return pb.ChunkHeader(
            session=self.session,
            turn=self.turn,
            seq=self.seq,
            pts=self.pts,
            last=self.last,
            stamps=[
                pb.StageStamp(stage=s.stage, monotonic_ns=s.monotonic_ns, clock=s.clock)
                for s in self.stamps
            ],
        )

    @classmethod
    def of(cls, header: pb.ChunkHeader) -> Self:
        if not 0 <= header.pts <= MAX_PTS:
            raise InvalidInputError(f"pts: {header.pts} is not between 0 and {MAX_PTS}")
        stamps = tuple(Stamp(s.stage, s.monotonic_ns, s.clock) for s in header.stamps)
        return cls(header.session, header.turn, header.seq, header.pts, header.last, stamps)


@dataclass(frozen=True, slots=True)
class PhonemeSpan:
    """One phoneme and where in the turn's voice it is heard."""

    symbol: str
    start_samples: int
    duration_samples: int


@dataclass(frozen=True, slots=True)
class WordTime:
    word: str
    start_ms: int
    end_ms: int


def check_sample_rate(sample_rate_hz: int) -> int:
    """`sample_rate_hz` itself. Raises InvalidInputError outside 8000 to 48000."""
    if not MIN_SAMPLE_RATE_HZ <= sample_rate_hz <= MAX_SAMPLE_RATE_HZ:
        raise InvalidInputError(
            f"sample_rate_hz: {sample_rate_hz} is not between "
            f"{MIN_SAMPLE_RATE_HZ} and {MAX_SAMPLE_RATE_HZ}"
        )
    return sample_rate_hz


def pcm_from_bytes(pcm_s16le: bytes) -> NDArray[np.int16]:
    """Samples [N] int16. Raises InvalidInputError for half a sample."""
    if len(pcm_s16le) % 2:
        raise InvalidInputError(
            f"pcm_s16le: {len(pcm_s16le)} bytes is not a whole number of 16-bit samples"
        )
    return np.frombuffer(pcm_s16le, dtype="<i2")


@dataclass(frozen=True, slots=True)
class TextMark:
    """Once `samples` of the voice were heard, the first `chars` characters of its text were."""

    chars: int
    samples: int


@dataclass(frozen=True, slots=True)
class PcmChunk:
    """Mono sound. pcm: [N] int16. marks: of a voice, where words end, in order."""

    place: Place
    sample_rate_hz: int
    pcm: NDArray[np.int16]
    marks: tuple[TextMark, ...] = ()

    def to_message(self) -> pb.PcmChunk:
        return pb.PcmChunk(
            header=self.place.header(),
            sample_rate_hz=self.sample_rate_hz,
            pcm_s16le=self.pcm.astype("<i2", copy=False).tobytes(),
            marks=[pb.TextMark(chars=m.chars, samples=m.samples) for m in self.marks],
        )

    @classmethod
    def of(cls, m: pb.PcmChunk) -> Self:
        rate = check_sample_rate(m.sample_rate_hz)
        marks = tuple(TextMark(mark.chars, mark.samples) for mark in m.marks)
        return cls(Place.of(m.header), rate, pcm_from_bytes(m.pcm_s16le), marks)


@dataclass(frozen=True, slots=True)
class TranscriptChunk:
    """An event in the visitor's speech. place.pts counts microphone samples at 16 kHz."""

    place: Place
    event: TranscriptEvent
    utterance: int
    text: str = ""
    language: str = ""
    end_of_turn_probability: float = 0.0
    words: tuple[WordTime, ...] = ()
    speech_end_samples: int = 0
    stable_characters: int = 0
    """So many characters of the text are never taken back."""
    voiced_ms: int = 0
    compute_ms: float = 0.0
    hum_odds: float | None = None
    """Log odds of a listener's hum instead of the text; None: nobody asked."""

    def to_message(self) -> pb.TranscriptChunk:
        return pb.TranscriptChunk(
            header=self.place.header(),
            event=pb.TranscriptChunk.Event.Name(int(self.event)),
            utterance=self.utterance,
            text=self.text,
            language=self.language,
            end_of_turn_probability=self.end_of_turn_probability,
            words=[
                pb.WordTime(word=w.word, start_ms=w.start_ms, end_ms=w.end_ms) for w in self.words
            ],
            speech_end_samples=self.speech_end_samples,
            stable_characters=self.stable_characters,
            voiced_ms=self.voiced_ms,
            compute_ms=self.compute_ms,
            hum_odds=self.hum_odds,
        )

    @classmethod
    def of(cls, m: pb.TranscriptChunk) -> Self:
        return cls(
            Place.of(m.header),
            _enum(TranscriptEvent, m.event, "event"),
            m.utterance,
            m.text,
            m.language,
            m.end_of_turn_probability,
            tuple(WordTime(w.word, w.start_ms, w.end_ms) for w in m.words),
            m.speech_end_samples,
            m.stable_characters,
            m.voiced_ms,
            m.compute_ms,
            m.hum_odds if m.HasField("hum_odds") else None,
        )


@dataclass(frozen=True, slots=True)
class TurnChunk:
    """The new epoch: place.turn is from now on the only turn that counts.

    A held one is not shown before the turn's first clock.
    """

    place: Place
    reason: str
    held: bool = False
    style: str = ""
    """Of this turn alone; "": the session's."""

    def to_message(self) -> pb.TurnChunk:
        return pb.TurnChunk(
            header=self.place.header(), reason=self.reason, held=self.held, style=self.style
        )

    @classmethod
    def of(cls, m: pb.TurnChunk) -> Self:
        return cls(Place.of(m.header), m.reason, m.held, m.style)


@dataclass(frozen=True, slots=True)
class TokenChunk:
    """A piece of the answer's text. place.pts counts characters."""

    place: Place
    text: str

    def to_message(self) -> pb.TokenChunk:
        return pb.TokenChunk(header=self.place.header(), text=self.text)

    @classmethod
    def of(cls, m: pb.TokenChunk) -> Self:
        return cls(Place.of(m.header), m.text)


@dataclass(frozen=True, slots=True)
class MelChunk:
    """Log-mel of the voice. mel: [T, n_mels] float32; travels as float16."""

    place: Place
    sample_rate_hz: int
    hop_samples: int
    mel: NDArray[np.float32]
    phonemes: tuple[PhonemeSpan, ...] = ()
    style: str = ""

    @property
    def start_s(self) -> float:
        """Place of the first frame in the turn's voice."""
        return self.place.pts * self.hop_samples / self.sample_rate_hz

    def to_message(self) -> pb.MelChunk:
        return pb.MelChunk(
            header=self.place.header(),
            sample_rate_hz=self.sample_rate_hz,
            hop_samples=self.hop_samples,
            n_mels=self.mel.shape[1],
            mel_f16le=self.mel.astype("<f2").tobytes(),
            phonemes=[
                pb.PhonemeSpan(
                    symbol=p.symbol,
                    start_samples=p.start_samples,
                    duration_samples=p.duration_samples,
                )
                for p in self.phonemes
            ],
            style=self.style,
        )

    @classmethod
    def of(cls, m: pb.MelChunk) -> Self:
        rate = check_sample_rate(m.sample_rate_hz)
        if not 1 <= m.hop_samples <= rate:
            raise InvalidInputError(f"hop_samples: {m.hop_samples} is not between 1 and {rate}")
        if not 1 <= m.n_mels <= 512:
            raise InvalidInputError(f"n_mels: {m.n_mels} is not between 1 and 512")
        if len(m.mel_f16le) % (2 * m.n_mels):
            raise InvalidInputError(
                f"mel_f16le: {len(m.mel_f16le)} bytes is not a whole number of "
                f"{m.n_mels}-bin float16 frames"
            )
        mel = np.frombuffer(m.mel_f16le, dtype="<f2").reshape(-1, m.n_mels).astype(np.float32)
        spans = tuple(
            PhonemeSpan(p.symbol, p.start_samples, p.duration_samples) for p in m.phonemes
        )
        return cls(Place.of(m.header), rate, m.hop_samples, mel, spans, m.style)


@dataclass(frozen=True, slots=True)
class VideoChunk:
    """One encoded picture; `live` pictures are idle ones that belong to now."""

    place: Place
    live: bool
    codec: VideoCodec
    keyframe: bool
    width: int
    height: int
    fps: int
    payload: bytes
    number: int = 0
    """Of the codec's encoded stream, from 1: a hole breaks it up to the next key frame."""

    def to_message(self) -> pb.VideoChunk:
        return pb.VideoChunk(
            header=self.place.header(),
            live=self.live,
            codec=pb.VideoCodec.Name(int(self.codec)),
            keyframe=self.keyframe,
            width=self.width,
            height=self.height,
            fps=self.fps,
            data=self.payload,
            number=self.number,
        )

    @classmethod
    def of(cls, m: pb.VideoChunk) -> Self:
        codec, place = _enum(VideoCodec, m.codec, "codec"), Place.of(m.header)
        size = (m.width, m.height)
        return cls(place, m.live, codec, m.keyframe, *size, m.fps, m.data, m.number)


@dataclass(frozen=True, slots=True)
class BlendshapeChunk:
    """One pose. weights: [52] float32, 0..1; head_rotation: [3] float32, radians."""

    place: Place
    live: bool
    fps: int
    weights: NDArray[np.float32]
    head_rotation: NDArray[np.float32] = field(default_factory=lambda: np.zeros(3, np.float32))

    def to_message(self) -> pb.BlendshapeChunk:
        return pb.BlendshapeChunk(
            header=self.place.header(),
            live=self.live,
            fps=self.fps,
            weights=self.weights.tolist(),
            head_rotation=self.head_rotation.tolist(),
        )

    @classmethod
    def of(cls, m: pb.BlendshapeChunk) -> Self:
        if len(m.weights) != BLENDSHAPE_COUNT or len(m.head_rotation) != 3:
            raise InvalidInputError(
                f"weights, head_rotation: {len(m.weights)} and {len(m.head_rotation)} values "
                f"instead of {BLENDSHAPE_COUNT} and 3"
            )
        weights = np.array(m.weights, np.float32)
        return cls(
            Place.of(m.header), m.live, m.fps, weights, np.array(m.head_rotation, np.float32)
        )


@dataclass(frozen=True, slots=True)
class ClockChunk:
    """How much of the turn has been heard: place.pts voice samples.

    paused: playing stands still, and goes on where the next clock that is not paused says.
    """

    place: Place
    sample_rate_hz: int
    paused: bool = False

    def to_message(self) -> pb.ClockChunk:
        return pb.ClockChunk(
            header=self.place.header(), sample_rate_hz=self.sample_rate_hz, paused=self.paused
        )

    @classmethod
    def of(cls, m: pb.ClockChunk) -> Self:
        return cls(Place.of(m.header), check_sample_rate(m.sample_rate_hz), m.paused)


Chunk = (
    PcmChunk
    | TranscriptChunk
    | TurnChunk
    | TokenChunk
    | MelChunk
    | VideoChunk
    | BlendshapeChunk
    | ClockChunk
)

_CODECS: Mapping[Kind, tuple[Any, Any]] = {
    Kind.MIC: (pb.PcmChunk, PcmChunk),
    Kind.TRANSCRIPT: (pb.TranscriptChunk, TranscriptChunk),
    Kind.TURN: (pb.TurnChunk, TurnChunk),
    Kind.TOKENS: (pb.TokenChunk, TokenChunk),
    Kind.VOICE: (pb.PcmChunk, PcmChunk),
    Kind.MEL: (pb.MelChunk, MelChunk),
    Kind.VIDEO: (pb.VideoChunk, VideoChunk),
    Kind.FACE: (pb.BlendshapeChunk, BlendshapeChunk),
    Kind.CLOCK: (pb.ClockChunk, ClockChunk),
}


def chunk_type(kind: Kind) -> type:
    """The dataclass that travels on subjects of `kind`."""
    kind_type: type = _CODECS[kind][1]
    return kind_type


def encode(chunk: Chunk) -> bytes:
    """Wire bytes of a chunk."""
    encoded: bytes = chunk.to_message().SerializeToString()
    return encoded


def decode(kind: Kind, payload: bytes) -> Chunk:
    """Chunk of `kind` from its wire bytes. Raises InvalidInputError on garbage."""
    message_type, chunk_class = _CODECS[kind]
    try:
        message = message_type.FromString(payload)
    except DecodeError as error:
        raise InvalidInputError(f"{kind}: not a {message_type.DESCRIPTOR.full_name}") from error
    check_session(message.header.session)
    chunk: Chunk = chunk_class.of(message)
    return chunk


def _enum(enum: type[E], value: int, name: str) -> E:
    try:
        return enum(value)
    except ValueError:
        allowed = ", ".join(f"{e.name} ({e.value})" for e in enum)
        raise InvalidInputError(f"{name}: {value} is none of {allowed}") from None
