"""What is asked for, as the events that answer it: what there is, and three things to be done."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from importlib.metadata import version
from typing import Any

import numpy as np
import soxr
from numpy.typing import NDArray

from gateway.stages.catalog import Voice
from gateway.stages.growing import Growing
from gateway.stages.plain_calls import RECOGNISED_RATE_HZ, PlainCalls, Speaking, Wanted
from gateway.talk.actions import Message
from gateway.talk.history import system_message
from gateway.wyoming.events import Event
from visavis.serving.errors import InvalidInputError

LONGEST_SOUND_S = 120.0
"""Of one request: it is held in memory until it is answered."""
LONGEST_TEXT = 100_000
"""Characters, as for the tts service."""
LONGEST_QUESTION = 10_000
_CHUNK_SAMPLES = 4800
_RATES_HZ = (8000, 48_000)
_NAME = "visavis"


class Microphone:
    """A client's sound as it comes, brought to what is recognised."""

    def __init__(self) -> None:
        self.sound: Growing[NDArray[np.int16]] = Growing()
        self._form = (0, 0, 0)
        self._stream: Any = None
        self._samples = 0
        self._rest = b""

    def hear(self, event: Event) -> None:
        """An audio-chunk. Raises InvalidInputError."""
        form = (event.number("rate"), event.number("width"), event.number("channels"))
        if form != self._form:
            self._open(form)
        channels = form[2]
        data = self._rest + event.payload
        whole = len(data) // (2 * channels) * 2 * channels
        self._rest = data[whole:]
        pcm = np.frombuffer(data[:whole], "<i2")
        if channels > 1:
            mixed = pcm.reshape(-1, channels).astype(np.int32).sum(axis=1) // channels
            pcm = mixed.astype(np.int16)
        if self._stream is not None:
            pcm = self._stream.resample_chunk(pcm)
        self._add(pcm)

    def end(self) -> None:
        """The client has sent all of it. May be called again."""
        if self._stream is not None and not self.sound.ended:
            self._add(self._stream.resample_chunk(np.zeros(0, np.int16), last=True))
        self.sound.end()

    def _open(self, form: tuple[int, int, int]) -> None:
        rate, width, channels = form
        if width != 2 or not 1 <= channels <= 8 or not _RATES_HZ[0] <= rate <= _RATES_HZ[1]:
            raise InvalidInputError(
                f"audio-chunk: {rate} Hz, {width} bytes, {channels} channels; understood are 8000 "
                "to 48000 Hz, 2 bytes, up to 8 channels"
            )
        self._form, self._rest, self._stream = form, b"", None
        if rate != RECOGNISED_RATE_HZ:
            self._stream = soxr.ResampleStream(
                rate, RECOGNISED_RATE_HZ, 1, dtype="int16", quality="LQ"
            )

    def _add(self, pcm: NDArray[np.int16]) -> None:
        self._samples += len(pcm)
        if self._samples > LONGEST_SOUND_S * RECOGNISED_RATE_HZ:
            raise InvalidInputError(f"audio-chunk: more than {LONGEST_SOUND_S:.0f} s of sound")
        for start in range(0, len(pcm), RECOGNISED_RATE_HZ):
            self.sound.add(pcm[start : start + RECOGNISED_RATE_HZ])


async def transcribed(
    plain: PlainCalls, microphone: Microphone, language: str
) -> AsyncGenerator[Event, None]:
    """What was said, utterance by utterance while it is spoken, then all of it."""
    text, told = "", language
    yield Event("transcript-start", {"language": language} if language else {})
    async with aclosing(plain.hear(microphone.sound, language)) as utterances:
        async for heard in utterances:
            told = heard.language
            chunk = heard.behind(text)
            text += chunk
            yield Event("transcript-chunk", {"text": chunk})
    yield Event("transcript", {"text": text} | ({"language": told} if told else {}))
    yield Event("transcript-stop")


async def spoken(
    plain: PlainCalls, text: str | Growing[str], how: Speaking
) -> AsyncGenerator[Event, None]:
    """A voice: where it begins, its sound, where it ends. Of nothing to say nothing is heard."""
    form: dict[str, Any] = {"rate": 24_000, "width": 2, "channels": 1}
    begun, samples = False, 0
    async with aclosing(plain.speak(text, how)) as sounds:
        async for sound in sounds:
            form["rate"] = sound.rate_hz
            if not begun:
                begun = True
                yield Event("audio-start", form | {"timestamp": 0})
            for start in range(0, len(sound.pcm), _CHUNK_SAMPLES):
                piece = sound.pcm[start : start + _CHUNK_SAMPLES]
                at_ms = 1000 * samples // sound.rate_hz
                samples += len(piece)
                data = piece.astype("<i2").tobytes()
                yield Event("audio-chunk", form | {"timestamp": at_ms}, data)
    if not begun:
        yield Event("audio-start", form | {"timestamp": 0})
    yield Event("audio-stop", {"timestamp": 1000 * samples // form["rate"]})


async def handled(
    plain: PlainCalls,
    question: str,
    before: Sequence[Message],
    persona: str,
    language: str,
    context: dict[str, Any],
) -> AsyncGenerator[Event, None]:
    """An answer while it is written, then all of it. before: what was said so far."""
    instructions = system_message(persona, language)
    system = (Message("system", instructions),) if instructions else ()
    wanted = Wanted((*system, *before, Message("user", question)))
    text = ""
    yield Event("handled-start", {"context": context})
    async with aclosing(plain.write(wanted)) as pieces:
        async for piece in pieces:
            if piece.text:
                text += piece.text
                yield Event("handled-chunk", {"text": piece.text})
    if text.strip():
        yield Event("handled", {"text": text.strip(), "context": context})
    else:
        yield Event("not-handled", {"text": "", "context": context})
    yield Event("handled-stop")


def info(hears: Sequence[str], voices: Sequence[Voice]) -> Event:
    """What this server says of itself: programs to hear, to speak and to answer.

    hears: languages that are understood. What does not run now is left out.
    """
    speaks = sorted({language for voice in voices for language in voice.languages})
    programs: dict[str, list[dict[str, Any]]] = {
        "asr": [],
        "tts": [],
        "handle": [],
        **{kind: [] for kind in ("intent", "wake", "mic", "snd")},
    }
    if hears:
        model = _artifact(_NAME, "Whichever recogniser hears the language") | {
            "languages": list(hears)
        }
        programs["asr"].append(
            _artifact(_NAME, "Speech to text")
            | {"models": [model], "supports_transcript_streaming": True}
        )
    if voices:
        programs["tts"].append(
            _artifact(_NAME, "Text to speech")
            | {
                "voices": [
                    _artifact(voice.name, voice.description) | {"languages": voice.languages}
                    for voice in voices
                ],
                "supports_synthesize_streaming": True,
            }
        )
    model = _artifact(_NAME, "The language model") | {"languages": sorted({*hears, *speaks})}
    programs["handle"].append(
        _artifact(_NAME, "Conversation with the language model")
        | {
            "models": [model],
            "supports_handled_streaming": True,
            "supports_home_control": False,
        }
    )
    return Event("info", programs)


def _artifact(name: str, description: str) -> dict[str, Any]:
    attribution: Mapping[str, str] = {"name": _NAME, "url": ""}
    return {
        "name": name,
        "attribution": attribution,
        "installed": True,
        "description": description,
        "version": version("visavis"),
    }
