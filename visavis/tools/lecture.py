"""A whole script to one video: cut into parts, each rendered by tts and face, resumable."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import json
import logging
import os
import re
import zipfile
import zlib
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import grpc.aio
import numpy as np
from numpy.typing import NDArray

from visavis.serving.errors import InvalidInputError, VisavisError
from visavis.v1 import face_pb2, face_pb2_grpc, tts_pb2, tts_pb2_grpc
from visavis.wire.media import MelChunk, PcmChunk, VideoChunk

# ------------------------------------------------------------ parts

# Short enough that little is lost by an interruption, long enough that the voice
# keeps its melody across a sentence.
MAX_PART_CHARACTERS = 400
# Where a long paragraph is cut, the best first. Behind a Latin mark there has to be a blank, or a
# Chinese or Japanese character: 3.5 and visavis.example are one word.
_APART = r"(?=[\s\u3040-\u30ff\u3400-\u9fff])"
_CUTS = (
    re.compile(rf"[.!?][\"'”’»)\]]*{_APART}|[。！？…؟۔।॥]+[”’」』）]*"),
    re.compile(rf"[,;:،؛]{_APART}|[，、；：]"),
    re.compile(r"(?=\s)"),
)


@dataclass(frozen=True)
class LectureOptions:
    """What decides how a part looks and sounds, besides its text."""

    language: str
    voice: str
    avatar: str
    speed: float
    seed: int


@dataclass(frozen=True)
class Picture:
    """One encoded picture of the face."""

    payload: bytes
    keyframe: bool


@dataclass(frozen=True)
class Part:
    """One rendered part. pcm: [N] int16; exactly as long as the pictures."""

    pictures: Sequence[Picture]
    pcm: NDArray[np.int16]


def split_script(text: str) -> list[str]:
    """Paragraphs of `text`, long ones cut at sentence ends, long sentences between words.

    Empty ones vanish. None is longer than MAX_PART_CHARACTERS.
    """
    parts: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text):
        rest = " ".join(paragraph.split())
        while len(rest) > MAX_PART_CHARACTERS:
            end = _first_part(rest)
            parts.append(rest[:end])
            rest = rest[end:].lstrip()
        if rest:
            parts.append(rest)
    return parts


def _first_part(text: str) -> int:
    """How many characters of a text that is too long are its first part."""
    for cut in _CUTS:
        found = cut.finditer(text, 1, MAX_PART_CHARACTERS + 1)
        if ends := [m.end() for m in found if m.end() <= MAX_PART_CHARACTERS]:
            return ends[-1]
    return MAX_PART_CHARACTERS


def part_key(text: str, index: int, start_frame: int, options: LectureOptions) -> str:
    """Changes whenever the part would look or sound different."""
    content = json.dumps([text, index, start_frame, asdict(options)], ensure_ascii=False)
    return hashlib.sha256(content.encode()).hexdigest()[:16]


class PartStore:
    """Rendered parts in a folder beside the video, until it is whole."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Nobody else holds it meanwhile; an empty folder does not stay.

        Raises InvalidInputError where another run holds it, or it cannot be made.
        """
        with contextlib.ExitStack() as left:
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                folder = os.open(self._folder, os.O_RDONLY)
                left.callback(os.close, folder)
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InvalidInputError(
                    f"{self._folder}: another run is writing this video; wait for its end, or name "
                    "another file"
                ) from None
            except OSError as error:
                raise InvalidInputError(
                    f"{self._folder}: cannot be made: {error.strerror}"
                ) from error
            left.callback(self._remove_empty)
            yield

    def load(self, key: str) -> Part | None:
        """The part, or None if it is not there or was cut off while being written."""
        try:
            with self._path(key).open("rb") as file, np.load(file) as stored:
                pcm, sizes, keys = stored["pcm"], stored["sizes"], stored["keyframes"]
                payload = stored["payload"].tobytes()
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error):
            return None
        ends = np.cumsum(sizes)
        pictures = [
            Picture(payload[end - size : end], bool(key_))
            for end, size, key_ in zip(ends, sizes, keys, strict=True)
        ]
        return Part(pictures, pcm)

    def save(self, key: str, part: Part) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        partial = self._path(key).with_suffix(".part")
        with partial.open("wb") as file:
            np.savez(
                file,
                pcm=part.pcm,
                sizes=np.array([len(p.payload) for p in part.pictures], np.int64),
                keyframes=np.array([p.keyframe for p in part.pictures], np.bool_),
                payload=np.frombuffer(b"".join(p.payload for p in part.pictures), np.uint8),
            )
        partial.replace(self._path(key))

    def clear(self) -> None:
        """Remove the folder and what this store put there."""
        for file in [*self._folder.glob("*.npz"), *self._folder.glob("*.part")]:
            file.unlink()
        self._remove_empty()

    def _remove_empty(self) -> None:
        with contextlib.suppress(OSError):  # there is something in it, or it is gone
            self._folder.rmdir()

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.npz"


# ------------------------------------------------------------ rendering

log = logging.getLogger(__name__)

SAMPLE_RATE_HZ = 24_000
FPS = 25
SAMPLES_PER_FRAME = SAMPLE_RATE_HZ // FPS
# Chunks that may wait for the face: the synthesis waits rather than runs ahead.
_WAITING = 64
_REFUSED_WITHIN_S = 5.0

_Sound = MelChunk | PcmChunk


async def render_part(
    text: str,
    start_frame: int,
    options: LectureOptions,
    tts: grpc.aio.Channel,
    face: grpc.aio.Channel,
) -> Part:
    """The part for `text`. Raises VisavisError with the service's own words."""
    sounds: asyncio.Queue[_Sound | None] = asyncio.Queue(_WAITING)
    try:
        async with asyncio.TaskGroup() as tasks:
            voice = tasks.create_task(_speak(text, options, tts, sounds))
            pictures = tasks.create_task(_animate(start_frame, options, face, sounds))
    except* grpc.aio.AioRpcError as group:
        error = group.exceptions[0]
        assert isinstance(error, grpc.aio.AioRpcError)
        raise VisavisError(error.details() or error.code().name) from None
    return _in_step(voice.result(), pictures.result())


async def _speak(
    text: str,
    options: LectureOptions,
    channel: grpc.aio.Channel,
    sounds: asyncio.Queue[_Sound | None],
) -> list[PcmChunk]:
    config = tts_pb2.SynthesisConfig(
        language=options.language, voice=options.voice, speed=options.speed
    )

    async def requests() -> AsyncIterator[tts_pb2.SynthesizeRequest]:
        yield tts_pb2.SynthesizeRequest(config=config)
        yield tts_pb2.SynthesizeRequest(text=text)

    voice: list[PcmChunk] = []
    async for answer in tts_pb2_grpc.SpeechSynthesisStub(channel).Synthesize(requests()):
        if answer.HasField("voice"):
            voice.append(PcmChunk.of(answer.voice))
            await sounds.put(voice[-1])
        elif answer.HasField("notice"):
            log.warning("%s", answer.notice.message)
        else:
            await sounds.put(MelChunk.of(answer.mel))
    await sounds.put(None)
    return voice


async def _animate(
    start_frame: int,
    options: LectureOptions,
    channel: grpc.aio.Channel,
    sounds: asyncio.Queue[_Sound | None],
) -> list[VideoChunk]:
    config = face_pb2.FaceConfig(avatar=options.avatar, seed=options.seed, start_frame=start_frame)

    async def requests() -> AsyncIterator[face_pb2.AnimateRequest]:
        yield face_pb2.AnimateRequest(config=config)
        # Most faces move their lips by the durations in the mel, some are drawn from the voice.
        while (sound := await sounds.get()) is not None:
            if isinstance(sound, MelChunk):
                yield face_pb2.AnimateRequest(mel=sound.to_message())
            else:
                yield face_pb2.AnimateRequest(voice=sound.to_message())

    stub = face_pb2_grpc.FaceAnimationStub(channel)
    try:
        answers = stub.Animate(requests())
        return [VideoChunk.of(answer.video) async for answer in answers if answer.HasField("video")]
    except grpc.aio.AioRpcError as error:
        if error.code() is grpc.StatusCode.INTERNAL:
            await _refusal(stub, config)
        raise


async def _refusal(stub: face_pb2_grpc.FaceAnimationStub, config: face_pb2.FaceConfig) -> None:
    """Raises the service's own error where it refuses `config`; returns where it does not.

    Of a call that is refused while a request is on its way, grpc.aio tells that the request could
    not be sent, and not why. So the config is sent again, with nothing behind it.
    """
    call = stub.Animate()
    try:
        await call.write(face_pb2.AnimateRequest(config=config))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_REFUSED_WITHIN_S):
                await call.read()
    finally:
        call.cancel()


def _in_step(voice: list[PcmChunk], video: list[VideoChunk]) -> Part:
    """Fill the sound up to whole pictures, so that parts join without drift."""
    pictures = [Picture(chunk.payload, chunk.keyframe) for chunk in video]
    pcm = np.concatenate([chunk.pcm for chunk in voice] or [np.zeros(0, np.int16)])
    samples = len(pictures) * SAMPLES_PER_FRAME
    return Part(pictures, np.pad(pcm[:samples], (0, max(0, samples - len(pcm)))))
