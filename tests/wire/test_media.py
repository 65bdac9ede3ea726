import random

import numpy as np
import pytest

from visavis.serving.errors import InvalidInputError
from visavis.v1 import media_pb2 as pb
from visavis.wire.media import (
    BlendshapeChunk,
    Chunk,
    ClockChunk,
    MelChunk,
    PcmChunk,
    PhonemeSpan,
    Place,
    Stamp,
    TokenChunk,
    TranscriptChunk,
    TranscriptEvent,
    TurnChunk,
    VideoChunk,
    VideoCodec,
    WordTime,
    decode,
    encode,
)
from visavis.wire.subjects import Kind

PLACE = Place("s1", 7, 3, 480, last=True, stamps=(Stamp("llm.first_got", 123, 7),))
CHUNKS: list[tuple[Kind, Chunk]] = [
    (Kind.MIC, PcmChunk(PLACE, 16_000, np.arange(-5, 5, dtype=np.int16), recorded=True)),
    (Kind.VOICE, PcmChunk(PLACE, 24_000, np.arange(-5, 5, dtype=np.int16))),
    (
        Kind.TRANSCRIPT,
        TranscriptChunk(
            PLACE,
            TranscriptEvent.FINAL,
            utterance=2,
            text="你好",
            language="zh",
            end_of_turn_probability=0.5,
            words=(WordTime("你好", 10, 500),),
            speech_end_samples=16_000,
            stable_characters=2,
            voiced_ms=640,
            compute_ms=12.5,
            hum_odds=-2.5,
        ),
    ),
    (Kind.TURN, TurnChunk(PLACE, "interrupt")),
    (Kind.TOKENS, TokenChunk(PLACE, "Grüße 👋")),
    (
        Kind.MEL,
        MelChunk(PLACE, 24_000, 300, np.ones((4, 80), np.float32), (PhonemeSpan("AA1", 0, 900),)),
    ),
    (Kind.VIDEO, VideoChunk(PLACE, False, VideoCodec.H264, True, 512, 512, 25, b"\0\0\1")),
    (
        Kind.FACE,
        BlendshapeChunk(PLACE, True, 25, np.full(52, 0.25, np.float32), np.zeros(3, np.float32)),
    ),
    (Kind.CLOCK, ClockChunk(PLACE, 24_000)),
]


@pytest.mark.parametrize(("kind", "chunk"), CHUNKS, ids=[k for k, _ in CHUNKS])
def test_every_chunk_survives_the_wire(kind: Kind, chunk: Chunk) -> None:
    back = decode(kind, encode(chunk))
    assert back.place == PLACE
    assert repr(back) == repr(chunk)


def test_every_kind_is_covered() -> None:
    assert {k for k, _ in CHUNKS} == set(Kind)


@pytest.mark.parametrize(("kind", "chunk"), CHUNKS, ids=[k for k, _ in CHUNKS])
def test_damaged_bytes_give_a_chunk_or_a_clear_error(kind: Kind, chunk: Chunk) -> None:
    rng = random.Random(0)
    good = encode(chunk)
    for _ in range(300):
        bad = bytearray(good[: rng.randrange(len(good) + 1)])
        for _ in range(rng.randrange(4)):
            if bad:
                bad[rng.randrange(len(bad))] = rng.randrange(256)
        try:
            decode(kind, bytes(bad))
        except InvalidInputError as error:
            assert str(error)


HEADER = pb.ChunkHeader(session="s1")


@pytest.mark.parametrize(
    ("kind", "message", "named"),
    [
        (Kind.VOICE, pb.PcmChunk(header=HEADER, sample_rate_hz=7_999), "sample_rate_hz"),
        (Kind.VOICE, pb.PcmChunk(header=HEADER, sample_rate_hz=48_001), "sample_rate_hz"),
        (
            Kind.VOICE,
            pb.PcmChunk(header=HEADER, sample_rate_hz=16_000, pcm_s16le=b"abc"),
            "pcm_s16le",
        ),
        (Kind.VOICE, pb.PcmChunk(sample_rate_hz=16_000), "session"),
        (
            Kind.MEL,
            pb.MelChunk(header=HEADER, sample_rate_hz=24_000, hop_samples=0, n_mels=80),
            "hop_samples",
        ),
        (
            Kind.MEL,
            pb.MelChunk(
                header=HEADER, sample_rate_hz=24_000, hop_samples=300, n_mels=80, mel_f16le=b"ab"
            ),
            "mel_f16le",
        ),
        (Kind.FACE, pb.BlendshapeChunk(header=HEADER, weights=[0.0] * 51), "weights"),
        (Kind.VIDEO, pb.VideoChunk(header=HEADER), "codec"),
        (Kind.TRANSCRIPT, pb.TranscriptChunk(header=HEADER), "event"),
    ],
)
def test_wrong_field_is_named(kind: Kind, message: object, named: str) -> None:
    with pytest.raises(InvalidInputError, match=named):
        decode(kind, message.SerializeToString())  # type: ignore[attr-defined]
