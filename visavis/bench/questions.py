"""The question set: spoken by our own voices through the synthesis' plain gRPC service.

The same texts, voices and speeds give the same sound, so the set is made once and kept. Our own
recogniser hears our own voice more easily than people: put recordings beside it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import wave
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import grpc.aio
import numpy as np
from numpy.typing import NDArray

from visavis.bench.clips import RATE_HZ, script_language
from visavis.bench.question_texts import BACKCHANNELS, ENGLISH, INTERRUPTIONS, MANDARIN, SPEEDS
from visavis.bench.speech_span import span_of_synthetic
from visavis.errors import InvalidInputError, VisavisError
from visavis.media import PcmChunk
from visavis.v1 import tts_pb2, tts_pb2_grpc

_VERSION = 1
# Silence before the speech: the detector of speech starts cold.
_LEAD_S = 0.3


@dataclass(frozen=True)
class Line:
    """One thing to be spoken."""

    name: str
    text: str
    language: str
    speed: float


def lines(texts: Sequence[str], prefix: str) -> list[Line]:
    """`texts` with names and speeds in turn."""
    return [
        Line(f"{prefix}-{i + 1:02d}", text, script_language(text), SPEEDS[i % len(SPEEDS)])
        for i, text in enumerate(texts)
    ]


SETS = {
    "questions": [*lines(ENGLISH, "en"), *lines(MANDARIN, "zh")],
    "interruptions": lines(INTERRUPTIONS, "interruption"),
    "backchannels": lines(BACKCHANNELS, "backchannel"),
}


def set_folder(name: str, profile: str) -> Path:
    """Where a set lies, made or not; another one whenever its sound would differ."""
    content = json.dumps([_VERSION, profile, _LEAD_S, [asdict(line) for line in SETS[name]]])
    key = hashlib.sha256(content.encode()).hexdigest()[:10]
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache).expanduser() / "visavis" / "bench" / f"{name}-{profile}-{key}"


async def make_set(
    name: str, folder: Path, tts: grpc.aio.Channel, on_line: Callable[[str], None]
) -> None:
    """Speak every line of the set into `folder`, which appears complete or not at all."""
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    for line in SETS[name]:
        on_line(line.text)
        write_line(part, line, await speak(line, tts))
    part.replace(folder)


async def speak(line: Line, tts: grpc.aio.Channel) -> NDArray[np.int16]:
    """The line's voice [N] int16 at 16 kHz. Raises VisavisError with the service's words."""
    # The resampler comes with the services, like FFmpeg.
    import soxr

    config = tts_pb2.SynthesisConfig(language=line.language, speed=line.speed)

    async def requests() -> AsyncIterator[tts_pb2.SynthesizeRequest]:
        yield tts_pb2.SynthesizeRequest(config=config)
        yield tts_pb2.SynthesizeRequest(text=line.text)

    chunks: list[PcmChunk] = []
    try:
        async for answer in tts_pb2_grpc.SpeechSynthesisStub(tts).Synthesize(requests()):
            if answer.HasField("voice"):
                chunks.append(PcmChunk.of(answer.voice))
    except grpc.aio.AioRpcError as error:
        raise VisavisError(error.details() or error.code().name) from None
    if not chunks:
        raise InvalidInputError(f"{line.text}: the voice said nothing")
    voice = np.concatenate([chunk.pcm for chunk in chunks])
    resampled: NDArray[np.int16] = soxr.resample(voice, chunks[0].sample_rate_hz, RATE_HZ)
    return resampled


def write_line(folder: Path, line: Line, voice: NDArray[np.int16]) -> None:
    """`name.wav`, its text, and the label that says where the speech lies."""
    pcm = np.concatenate([np.zeros(round(_LEAD_S * RATE_HZ), np.int16), voice])
    span = span_of_synthetic(pcm)
    pcm = pcm[: span.end_samples]
    write_clip(folder / f"{line.name}.wav", pcm)
    (folder / f"{line.name}.txt").write_text(line.text + "\n", encoding="utf-8")
    label = {
        "speech_start_s": span.start_samples / RATE_HZ,
        "speech_end_s": span.end_samples / RATE_HZ,
        "language": line.language,
        "speed": line.speed,
        "method": span.method,
    }
    text = json.dumps(label, indent=2, ensure_ascii=False)
    (folder / f"{line.name}.json").write_text(text + "\n", encoding="utf-8")


def write_clip(path: Path, pcm: NDArray[np.int16]) -> None:
    """A WAV file of pcm [N] at 16 kHz."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE_HZ)
        file.writeframes(pcm.astype("<i2").tobytes())
