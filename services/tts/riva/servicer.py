"""Speech synthesis as Riva's clients ask for it: the whole voice, or while it is made."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import grpc.aio

from services.tts.phrase_feed import cut_phrases
from services.tts.sound import SAMPLE_RATE_HZ
from services.tts.speech_lane import SpeechLane, TurnLedger
from services.tts.speech_options import SpeechOptions
from services.tts.text.script_runs import is_han
from services.tts.voices.base import VoiceInfo
from visavis.serving.errors import InvalidInputError, UnknownNameError
from visavis.serving.lease import CallLimit, hearing_out
from visavis.styles import CaptionText
from visavis.v1 import riva_pb2, riva_tts_pb2_grpc
from visavis.v1 import riva_tts_pb2 as pb
from visavis.voice_bytes import OPUS_BIT_RATE, OPUS_RATE_HZ, Compressed, Encoder, Samples
from visavis.wire.clock import Clock
from visavis.wire.media import TextMark, check_sample_rate

SERVICE = pb.DESCRIPTOR.services_by_name["RivaSpeechSynthesis"].full_name
FAMILY = "visavis"
"""Riva's clients put it before a voice's own name: visavis.heart."""
SPEECHES_AT_ONCE = 16
_REGIONS = {"en": "en-US", "zh": "zh-CN"}
"""Riva's clients look for tags with a region."""
_SENTENCE_ENDS = ".!?…"

_CONTEXT = grpc.aio.ServicerContext[Any, Any]
_Requests = AsyncIterator[pb.SynthesizeSpeechRequest]


class RivaSynthesisServicer(riva_tts_pb2_grpc.RivaSpeechSynthesisServicer):
    """Answers Riva's clients with the voices and the lane of our own service.

    speech: the lane, once it is loaded. Raises EngineError before that.
    """

    def __init__(
        self, speech: Callable[[], SpeechLane], voices: Sequence[VoiceInfo], clock: Clock
    ) -> None:
        self._speech = speech
        self._voices = voices
        self._clock = clock
        self._speeches = CallLimit(SPEECHES_AT_ONCE, "speeches")

    async def Synthesize(
        self, request: pb.SynthesizeSpeechRequest, context: _CONTEXT
    ) -> pb.SynthesizeSpeechResponse:
        """Raises InvalidInputError, UnknownNameError for voice or language, AtCapacityError."""
        if not request.text.strip():
            raise InvalidInputError("text: there is nothing in it to be spoken")
        answer = pb.SynthesizeSpeechResponse(id=request.id)
        answer.meta.text = answer.meta.processed_text = request.text
        audio = bytearray()
        async with aclosing(self._spoken(request, _whole(request))) as spoken:
            async for data, words in spoken:
                audio += data
                answer.meta.words.extend(words)
        answer.audio = bytes(audio)
        return answer

    async def SynthesizeOnline(
        self, requests: _Requests, context: _CONTEXT
    ) -> AsyncIterator[pb.SynthesizeSpeechResponse]:
        """Raises as `Synthesize`. What the first message asks for holds for all."""
        requests = aiter(requests)
        async with hearing_out(requests):
            first = await anext(requests, None)
            if first is None:
                raise InvalidInputError("text: no message came")
            async with aclosing(self._spoken(first, _pieces(first, requests))) as spoken:
                async for data, words in spoken:
                    if data or words:
                        answer = pb.SynthesizeSpeechResponse(audio=data, id=first.id)
                        answer.meta.words.extend(words)
                        yield answer

    async def GetRivaSynthesisConfig(
        self, request: pb.RivaSynthesisConfigRequest, context: _CONTEXT
    ) -> pb.RivaSynthesisConfigResponse:
        """One model for each language, with its voices. Raises UnknownNameError."""
        models: dict[str, list[VoiceInfo]] = {}
        for voice in self._voices:
            models.setdefault(voice.languages[0], []).append(voice)
        names = {language: f"{FAMILY}-{language}" for language in models}
        if request.model_name and request.model_name not in names.values():
            known = ", ".join(names.values())
            raise UnknownNameError(
                f"model: there is no {request.model_name[:80]!r}; known: {known}"
            )
        answer = pb.RivaSynthesisConfigResponse()
        for language, voices in models.items():
            if request.model_name in ("", names[language]):
                parameters = {
                    "language_code": _REGIONS.get(language, language),
                    "voice_name": FAMILY,
                    "subvoices": ",".join(f"{v.name}:{n}" for n, v in enumerate(voices)),
                    "sample_rate": str(SAMPLE_RATE_HZ),
                }
                answer.model_config.add(model_name=names[language], parameters=parameters)
        return answer

    async def _spoken(
        self, request: pb.SynthesizeSpeechRequest, texts: AsyncIterator[str]
    ) -> AsyncGenerator[tuple[bytes, Sequence[pb.WordTiming]], None]:
        """The voice as bytes, and the words that end in it where they are wanted."""
        options, encoder = self._options(request), _encoder(request)
        words = _Words()
        with self._speeches.hold():
            ledger = TurnLedger(self._clock, self._clock.now(), options.language)
            phrases = cut_phrases(words.reading(texts))
            async with aclosing(self._speech().speak(phrases, options, ledger)) as pieces:
                async for piece in pieces:
                    data = await asyncio.to_thread(encoder.feed, piece.voice)
                    yield data, words.ended(piece.marks) if request.enable_word_time_offsets else ()
            yield await asyncio.to_thread(encoder.finish), ()

    def _options(self, request: pb.SynthesizeSpeechRequest) -> SpeechOptions:
        if request.zero_shot_data.audio_prompt:
            raise InvalidInputError("zero_shot_data: voices are not made from samples here")
        name = request.voice_name.removeprefix(f"{FAMILY}.")
        if name == FAMILY:
            name = ""
        return SpeechOptions(language=request.language_code, voice=name).checked(self._voices)


@dataclass(slots=True)
class _Words:
    """Which words of a text have been spoken by when."""

    _text: str = ""
    _chars: int = 0
    _samples: int = 0
    _pieces: list[str] = field(default_factory=list)

    async def reading(self, texts: AsyncIterator[str]) -> AsyncIterator[str]:
        """The texts, of which what is said is remembered: tags of styles are not."""
        said = CaptionText()
        async for text in texts:
            self._pieces.append(said.feed(text))
            yield text
        self._pieces.append(said.feed("", last=True))

    def ended(self, marks: Sequence[TextMark]) -> list[pb.WordTiming]:
        """The words whose ends are marked, each beginning where the one before ended."""
        self._text += "".join(self._pieces)
        self._pieces.clear()
        found = []
        for mark in marks:
            word = self._text[self._chars : mark.chars].strip()
            if word:
                start, end = (1000 * n // SAMPLE_RATE_HZ for n in (self._samples, mark.samples))
                found.append(pb.WordTiming(word=word, start_time=start, end_time=end))
            self._chars, self._samples = max(self._chars, mark.chars), mark.samples
        return found


def _encoder(request: pb.SynthesizeSpeechRequest) -> Encoder:
    if request.encoding == riva_pb2.OGGOPUS:
        return Compressed(
            SAMPLE_RATE_HZ,
            container="ogg",
            codec="libopus",
            rate_hz=OPUS_RATE_HZ,
            bit_rate=OPUS_BIT_RATE,
        )
    if request.encoding not in (riva_pb2.LINEAR_PCM, riva_pb2.ENCODING_UNSPECIFIED):
        raise InvalidInputError(f"encoding: {request.encoding} is neither LINEAR_PCM nor OGGOPUS")
    rate_hz = check_sample_rate(request.sample_rate_hz or SAMPLE_RATE_HZ)
    return Samples(SAMPLE_RATE_HZ, rate_hz)


async def _whole(request: pb.SynthesizeSpeechRequest) -> AsyncIterator[str]:
    yield _plain(request.text)


async def _pieces(first: pb.SynthesizeSpeechRequest, others: _Requests) -> AsyncIterator[str]:
    """The text as it comes. Sentences that come one by one are parted, pieces of one are not."""
    before = _plain(first.text)
    yield before
    async for request in others:
        text = _plain(request.text)
        if text:
            yield f" {text}" if _begins_anew(before, text) else text
            before = text


def _begins_anew(before: str, text: str) -> bool:
    """A sentence has ended and another begins with a letter: "3." and "5" are one number."""
    ended = before.rstrip("\"'”’)")[-1:] in tuple(_SENTENCE_ENDS)
    return ended and text[0].isalpha() and not is_han(text[0])


def _plain(text: str) -> str:
    if text.lstrip().startswith("<speak"):
        raise InvalidInputError("text: SSML is not understood; send the text alone")
    return text
