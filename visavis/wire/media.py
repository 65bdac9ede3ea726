"""Chunks: what stages pass to each other, as plain values and as bytes.

Each class is the table of what it carries, see `fields.py`; protos/visavis/v1/media.proto has the
messages. Beyond this folder only servicers and the gateway's `stages` see those.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Annotated, Any, Self

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from visavis.serving.errors import InvalidInputError
from visavis.v1 import media_pb2 as pb
from visavis.wire.clock import clock_id, monotonic_ns
from visavis.wire.fields import As, OnTheWire
from visavis.wire.subjects import Kind, check_session

MIN_SAMPLE_RATE_HZ = 8_000
MAX_SAMPLE_RATE_HZ = 48_000
BLENDSHAPE_COUNT = 52
BLENDSHAPES_BYTES = 64
"""Of a VideoChunk's payload as VideoCodec.BLENDSHAPES."""
MAX_PTS = 2**36
"""Two weeks of samples at 48 kHz: what counts further is no media time."""


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


def _mel_of(mel_f16le: bytes, message: Any) -> NDArray[np.float32]:
    rate, hop, n_mels = message.sample_rate_hz, message.hop_samples, message.n_mels
    if not 1 <= hop <= rate:
        raise InvalidInputError(f"hop_samples: {hop} is not between 1 and {rate}")
    if not 1 <= n_mels <= 512:
        raise InvalidInputError(f"n_mels: {n_mels} is not between 1 and 512")
    if len(mel_f16le) % (2 * n_mels):
        raise InvalidInputError(
            f"mel_f16le: {len(mel_f16le)} bytes is not a whole number of "
            f"{n_mels}-bin float16 frames"
        )
    return np.frombuffer(mel_f16le, dtype="<f2").reshape(-1, n_mels).astype(np.float32)


def _media_time(pts: int, _: Any) -> int:
    if not 0 <= pts <= MAX_PTS:
        raise InvalidInputError(f"pts: {pts} is not between 0 and {MAX_PTS}")
    return pts


def _floats(count: int, name: str) -> As:
    def unpack(values: Any, _: Any) -> NDArray[np.float32]:
        if len(values) != count:
            raise InvalidInputError(f"{name}: {len(values)} values instead of {count}")
        return np.array(values, np.float32)

    return As(pack=np.ndarray.tolist, unpack=unpack)


_RATE = As(unpack=lambda value, _: check_sample_rate(value))
_PCM = As(
    "pcm_s16le",
    pack=lambda pcm: pcm.astype("<i2", copy=False).tobytes(),
    unpack=lambda value, _: pcm_from_bytes(value),
)
_MEL = As("mel_f16le", pack=lambda mel: mel.astype("<f2").tobytes(), unpack=_mel_of)


class TranscriptEvent(IntEnum):
    """What happened in the visitor's speech; see TranscriptChunk.Event in the protocol."""

    SPEECH_STARTED = 1
    PARTIAL = 2
    FINAL = 3
    DISCARDED = 4
    PAUSED = 5


class VideoCodec(IntEnum):
    """How a picture is encoded, or that it is not drawn at all."""

    H264 = 1
    VP8 = 2
    BLENDSHAPES = 3
    """What it would show, for who draws it himself."""

    @property
    def drawn(self) -> bool:
        """Whether it has pixels."""
        return self is not VideoCodec.BLENDSHAPES


@dataclass(frozen=True, slots=True)
class Stamp(OnTheWire):
    """When a stage handled a chunk: `stage` is "<stage>.<chunk>_<moment>", see the protocol."""

    MESSAGE = pb.StageStamp

    stage: str
    monotonic_ns: int
    clock: int = 0
    """Which clock, see visavis.wire.clock.clock_id; 0: not known."""

    @classmethod
    def now(cls, stage: str) -> Self:
        """This moment, by this process's clock."""
        return cls(stage, monotonic_ns(), clock_id())

    @classmethod
    def ago(cls, stage: str, seconds: float) -> Self:
        """What happened on this machine `seconds` ago."""
        return cls(stage, monotonic_ns() - round(seconds * 1e9), clock_id())

    def renamed(self, stage: str) -> Self:
        """The same moment under another name."""
        return replace(self, stage=stage)


@dataclass(frozen=True, slots=True)
class Place(OnTheWire):
    """Where a chunk belongs: session, turn (epoch), order and media time.

    `pts` counts in the chunk's own unit from the turn's first voice sample.
    """

    MESSAGE = pb.ChunkHeader

    session: str
    turn: int
    seq: int
    pts: Annotated[int, As(unpack=_media_time)]
    last: bool = False
    stamps: tuple[Stamp, ...] = ()


_HEADER = As("header")


@dataclass(frozen=True, slots=True)
class PhonemeSpan(OnTheWire):
    """One phoneme and where in the turn's voice it is heard."""

    MESSAGE = pb.PhonemeSpan

    symbol: str
    start_samples: int
    duration_samples: int


@dataclass(frozen=True, slots=True)
class WordTime(OnTheWire):
    """A word and where in the recording it was heard."""

    MESSAGE = pb.WordTime

    word: str
    start_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True)
class TextMark(OnTheWire):
    """Once `samples` of the voice were heard, the first `chars` characters of its text were."""

    MESSAGE = pb.TextMark

    chars: int
    samples: int
    pause: bool = False
    """A pause follows, behind which another voice can go on."""


@dataclass(frozen=True, slots=True)
class PcmChunk(OnTheWire):
    """Mono sound. pcm: [N] int16. marks: of a voice, where words end, in order.

    recorded: of a microphone, what was said before, and comes faster than it was.
    """

    MESSAGE = pb.PcmChunk

    place: Annotated[Place, _HEADER]
    sample_rate_hz: Annotated[int, _RATE]
    pcm: Annotated[NDArray[np.int16], _PCM]
    marks: tuple[TextMark, ...] = ()
    recorded: bool = False
    run: int = 0
    """Of a voice that was told to go on: what is of an earlier one is void."""

    @property
    def start_s(self) -> float:
        """Place of the first sample in the turn's voice."""
        return self.place.pts / self.sample_rate_hz


@dataclass(frozen=True, slots=True)
class TranscriptChunk(OnTheWire):
    """An event in the visitor's speech. place.pts counts microphone samples at 16 kHz."""

    MESSAGE = pb.TranscriptChunk

    place: Annotated[Place, _HEADER]
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
    """Log odds of a listener's sound, whatever the text; None: nobody asked."""


@dataclass(frozen=True, slots=True)
class TurnChunk(OnTheWire):
    """The new epoch: place.turn is from now on the only turn that counts.

    A held one is not shown before the turn's first clock.
    """

    MESSAGE = pb.TurnChunk

    place: Annotated[Place, _HEADER]
    reason: str
    held: bool = False
    style: str = ""
    """Of this turn alone; "": the session's."""
    motion_frame: int | None = None
    """Of the face's motion, as seen now from the gateway's memory; None: the face draws it live."""
    language: str = ""
    """Of this turn alone; "": the session's."""


@dataclass(frozen=True, slots=True)
class TokenChunk(OnTheWire):
    """A piece of the answer's text. place.pts counts characters that are said."""

    MESSAGE = pb.TokenChunk

    place: Annotated[Place, _HEADER]
    text: str
    block: int = 0
    """0: it is said; else the block, from 1 on, that it is a piece of: shown and not said."""
    language: str = ""
    """Of a block's code; "markdown" of a table; "": not known."""
    run: int = 0
    """Of the language model, where the turn was begun anew: what is of an earlier one is void."""


@dataclass(frozen=True, slots=True)
class MelChunk(OnTheWire):
    """Log-mel of the voice. mel: [T, n_mels] float32; travels as float16."""

    MESSAGE = pb.MelChunk
    DERIVED = ("n_mels",)

    place: Annotated[Place, _HEADER]
    sample_rate_hz: Annotated[int, _RATE]
    hop_samples: int
    mel: Annotated[NDArray[np.float32], _MEL]
    phonemes: tuple[PhonemeSpan, ...] = ()
    style: str = ""
    run: int = 0
    """As in PcmChunk."""

    @property
    def n_mels(self) -> int:
        """Bins of each frame."""
        return int(self.mel.shape[1])

    @property
    def start_s(self) -> float:
        """Place of the first frame in the turn's voice."""
        return self.place.pts * self.hop_samples / self.sample_rate_hz


@dataclass(frozen=True, slots=True)
class VideoChunk(OnTheWire):
    """One encoded picture; `live` pictures are idle ones that belong to now."""

    MESSAGE = pb.VideoChunk

    place: Annotated[Place, _HEADER]
    live: bool
    codec: VideoCodec
    keyframe: bool
    width: int
    height: int
    fps: int
    payload: Annotated[bytes, As("data")]
    number: int = 0
    """Of the codec's encoded stream, from 1: a hole breaks it up to the next key frame."""
    motion_frame: int = 0
    """Of the motion that runs through idle life and speech."""
    loop: str = ""
    """Digest of the loop that the idle life repeats; "": it never does."""
    at_rest: bool = False
    """It shows that frame of the loop, and nothing else."""
    listening: bool = False
    """Of the loop of a face that listens."""


@dataclass(frozen=True, slots=True)
class BlendshapeChunk(OnTheWire):
    """One pose. weights: [52] float32, 0..1; head_rotation: [3] float32, radians."""

    MESSAGE = pb.BlendshapeChunk

    place: Annotated[Place, _HEADER]
    live: bool
    fps: int
    weights: Annotated[NDArray[np.float32], _floats(BLENDSHAPE_COUNT, "weights")]
    head_rotation: Annotated[NDArray[np.float32], _floats(3, "head_rotation")] = field(
        default_factory=lambda: np.zeros(3, np.float32)
    )


@dataclass(frozen=True, slots=True)
class ClockChunk(OnTheWire):
    """How much of the turn has been heard: place.pts voice samples.

    paused: playing stands still, and goes on where the next clock that is not paused says.
    """

    MESSAGE = pb.ClockChunk

    place: Annotated[Place, _HEADER]
    sample_rate_hz: Annotated[int, _RATE]
    paused: bool = False
    motion_frame: int | None = None
    """As in TurnChunk."""


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

_CHUNKS: Mapping[Kind, type[Chunk]] = {
    Kind.MIC: PcmChunk,
    Kind.TRANSCRIPT: TranscriptChunk,
    Kind.TURN: TurnChunk,
    Kind.TOKENS: TokenChunk,
    Kind.VOICE: PcmChunk,
    Kind.MEL: MelChunk,
    Kind.VIDEO: VideoChunk,
    Kind.FACE: BlendshapeChunk,
    Kind.CLOCK: ClockChunk,
}


def chunk_type(kind: Kind) -> type[Chunk]:
    """The dataclass that travels on subjects of `kind`."""
    return _CHUNKS[kind]


def encode(chunk: Chunk) -> bytes:
    """Wire bytes of a chunk."""
    encoded: bytes = chunk.to_message().SerializeToString()
    return encoded


def decode(kind: Kind, payload: bytes) -> Chunk:
    """Chunk of `kind` from its wire bytes. Raises InvalidInputError on garbage."""
    chunk = _CHUNKS[kind]
    try:
        message = chunk.MESSAGE.FromString(payload)
    except DecodeError as error:
        name = chunk.MESSAGE.DESCRIPTOR.full_name
        raise InvalidInputError(f"{kind}: not a {name}") from error
    check_session(message.header.session)
    return chunk.of(message)
