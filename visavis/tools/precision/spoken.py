"""Sentences said and heard by the product's own services, over their plain gRPC API."""

from __future__ import annotations

import asyncio
import json
import wave
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc.aio
import numpy as np
from numpy.typing import NDArray

from visavis.serving.errors import InvalidInputError, VisavisError
from visavis.tools.speech import recognise, synthesise
from visavis.tools.stack.plain_service import plain_service
from visavis.tools.stack.process import log_dir

_SENTENCES = Path(__file__).parent / "sentences.json"


@dataclass(frozen=True)
class Speech:
    """What was said, and how. pcm: [N] int16."""

    text: str
    language: str
    pcm: NDArray[np.int16]
    sample_rate_hz: int


def sentences(language: str, count: int | None = None) -> list[str]:
    """The first `count` sentences that precision is judged by; none is calibrated on."""
    texts: list[str] = json.loads(_SENTENCES.read_text("utf-8"))[language]
    return texts[:count]


def recordings(folder: Path, language: str) -> list[Speech]:
    """People's recordings: NAME.wav with NAME.txt, in English in `folder` itself, other languages
    in folders of their code. Raises InvalidInputError for a file that is no such thing."""
    found = []
    place = folder if language == "en" else folder / language
    for path in sorted(place.glob("*.wav")):
        try:
            text = path.with_suffix(".txt").read_text("utf-8").strip()
            with wave.open(str(path)) as file:
                if file.getnchannels() != 1 or file.getsampwidth() != 2:
                    raise InvalidInputError(f"{path}: not mono with 16 bits")
                pcm = np.frombuffer(file.readframes(file.getnframes()), "<i2")
                found.append(Speech(text, language, pcm, file.getframerate()))
        except (OSError, wave.Error, UnicodeDecodeError) as error:
            raise InvalidInputError(f"{path}: {error}") from error
    return found


def say(
    texts: Sequence[str], language: str, model_dir: Path | None = None, added: str = ""
) -> list[Speech]:
    """Every text as the synthesis service says it with the bundles in `model_dir`.

    added: a voice beside ours that says it, as the setting `voices` names it: bundle:voice.
    """
    flags = [*_flags("tiny", model_dir), *(["--voices", added] if added else [])]
    name = added.rpartition(":")[2]

    async def run() -> list[Speech]:
        async with plain_service("tts", flags, log_dir() / "quality") as tts:
            return [await _said(tts, text, language, name) for text in texts]

    return asyncio.run(run())


def hear(speech: Iterable[Speech], profile: str, model_dir: Path | None = None) -> list[str]:
    """What the recognition service of `profile` hears, with the bundles in `model_dir`."""

    async def run() -> list[str]:
        async with plain_service("asr", _flags(profile, model_dir), log_dir() / "quality") as asr:
            return [await _heard(asr, spoken) for spoken in speech]

    return asyncio.run(run())


def _flags(profile: str, model_dir: Path | None) -> list[str]:
    return ["--profile", profile, *(["--model-dir", str(model_dir)] if model_dir else [])]


async def _said(tts: grpc.aio.Channel, text: str, language: str, name: str) -> Speech:
    voice, _mels = await synthesise(tts, text, language, voice_name=name)
    if not voice:
        raise VisavisError(f"the voice said nothing for {text!r}")
    return Speech(text, language, np.concatenate([p.pcm for p in voice]), voice[0].sample_rate_hz)


async def _heard(asr: grpc.aio.Channel, speech: Speech) -> str:
    pcm_s16le = speech.pcm.astype("<i2").tobytes()
    return await recognise(asr, pcm_s16le, speech.sample_rate_hz, speech.language)
