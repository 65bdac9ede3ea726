"""Speech recognition as Riva's clients ask for it: one recording, or a stream of sound."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing
from typing import Any

import grpc.aio

from services.asr.hearing.detectors import SAMPLE_RATE_HZ
from services.asr.hearing.networks import Hearing
from services.asr.hearing.transcript import UNSPACED
from services.asr.riva.incoming import Encoding, Incoming
from services.asr.session import ListeningSession, words_of
from services.asr.sound import resample
from services.asr.utterance import Heard
from visavis.serving import metrics
from visavis.serving.errors import InvalidInputError, UnknownNameError
from visavis.serving.lease import CallLimit, SlotTable, hearing_out
from visavis.serving.lifetime.supervision import end_tasks
from visavis.v1 import riva_asr_pb2 as pb
from visavis.v1 import riva_asr_pb2_grpc, riva_pb2
from visavis.wire.media import TranscriptEvent, WordTime

SERVICE = pb.DESCRIPTOR.services_by_name["RivaSpeechRecognition"].full_name

_ENCODINGS = {
    riva_pb2.ENCODING_UNSPECIFIED: Encoding.UNKNOWN,
    riva_pb2.LINEAR_PCM: Encoding.PCM,
    riva_pb2.MULAW: Encoding.MULAW,
    riva_pb2.ALAW: Encoding.ALAW,
    riva_pb2.FLAC: Encoding.FILE,
    riva_pb2.OGGOPUS: Encoding.FILE,
}
_STABILITY = 0.9
"""Of a text that may still change; clients take 1 for final."""
_HEARD_AT_ONCE_S = 0.5
# Others wait while more is decoded.
_DECODED_AT_ONCE_BYTES = 100_000
_FORCE_END = "force_eou"
# Scripts that put no space between words are cut at each character.
_WORD = re.compile(r"[\u2e80-\ua4cf\uf900-\ufaff]|[^\s\u2e80-\ua4cf\uf900-\ufaff]+")
_TYPES = ("offline", "online")

Listen = Callable[[str, bool], ListeningSession]
"""Language, whether looks at unfinished speech are wanted."""
_CONTEXT = grpc.aio.ServicerContext[Any, Any]


class RivaRecognitionServicer(riva_asr_pb2_grpc.RivaSpeechRecognitionServicer):
    """Answers Riva's clients with the networks, slots and limits of our own service."""

    def __init__(
        self,
        hearing: Hearing,
        listen: Listen,
        slots: SlotTable,
        recordings: CallLimit,
        longest_recording_s: float,
    ) -> None:
        self._hearing = hearing
        self._listen = listen
        self._slots = slots
        self._recordings = recordings
        self._longest_recording_s = longest_recording_s

    async def Recognize(
        self, request: pb.RecognizeRequest, context: _CONTEXT
    ) -> pb.RecognizeResponse:
        """Raises InvalidInputError, UnknownNameError for language or model, AtCapacityError."""
        config = request.config
        self._check(config)
        code, _ = self._hearing.languages.resolve(config.language_code)
        with self._recordings.hold():
            incoming = _incoming(config)
            first = await asyncio.to_thread(incoming.feed, request.audio)
            rest = await asyncio.to_thread(incoming.finish)
            pcm, rate = first if len(first) else rest, incoming.sample_rate_hz
            length_s = len(pcm) / rate
            if length_s > self._longest_recording_s:
                raise InvalidInputError(
                    f"audio: {length_s:.0f} s are more than {self._longest_recording_s:.0f} s; "
                    "send longer recordings to StreamingRecognize"
                )
            sound = await asyncio.to_thread(resample, pcm, rate)
            told = await self._hearing.recognize(sound, code)
        metrics.asr_audio_seconds.inc(length_s)
        answer = pb.RecognizeResponse(id=request.id)
        if told.text:
            times = words_of(told.segments)
            alternative = _alternative(told.text, told.language or code, times, config)
            answer.results.add(alternatives=[alternative], channel_tag=1, audio_processed=length_s)
        return answer

    async def StreamingRecognize(
        self, requests: AsyncIterator[pb.StreamingRecognizeRequest], context: _CONTEXT
    ) -> AsyncIterator[pb.StreamingRecognizeResponse]:
        """Raises as `Recognize`, and InvalidInputError where the first message is no config."""
        requests = aiter(requests)
        async with hearing_out(requests):
            first = await anext(requests, None)
            if first is None or first.WhichOneof("streaming_request") != "streaming_config":
                raise InvalidInputError(
                    "the first message of StreamingRecognize must be the config"
                )
            async with aclosing(self._results(first.streaming_config, requests)) as results:
                async for result in results:
                    yield pb.StreamingRecognizeResponse(results=[result], id=first.id)

    async def GetRivaSpeechRecognitionConfig(
        self, request: pb.RivaSpeechRecognitionConfigRequest, context: _CONTEXT
    ) -> pb.RivaSpeechRecognitionConfigResponse:
        """Each recogniser once for each language that it hears, whole and streamed.

        Raises UnknownNameError.
        """
        known = list(self._recognisers())
        if request.model_name and request.model_name not in [name for name, _ in known]:
            raise UnknownNameError(_no_model(request.model_name, [name for name, _ in known]))
        answer = pb.RivaSpeechRecognitionConfigResponse()
        for name, language in known:
            if request.model_name in ("", name):
                for kind in _TYPES:
                    parameters = {"type": kind, "language_code": language}
                    answer.model_config.add(model_name=name, parameters=parameters)
        return answer

    async def _results(
        self,
        streaming: pb.StreamingRecognitionConfig,
        requests: AsyncIterator[pb.StreamingRecognizeRequest],
    ) -> AsyncGenerator[pb.StreamingRecognitionResult, None]:
        config, interim = streaming.config, streaming.interim_results
        self._check(config)
        session = self._listen(config.language_code, interim)
        with self._slots.hold(f"riva-{secrets.token_hex(8)}"):
            async with session:
                reader = asyncio.create_task(_feed(requests, session, _incoming(config)))
                try:
                    async for heard in session.events():
                        if (result := _result(heard, config, interim=interim)) is not None:
                            yield result
                finally:
                    await end_tasks([reader])

    def _recognisers(self) -> Iterator[tuple[str, str]]:
        for language in self._hearing.known_languages:
            _, ear = self._hearing.languages.resolve(language)
            yield ear.bundle, language

    def _check(self, config: pb.RecognitionConfig) -> None:
        """Refuse what would change the answer's meaning if it were ignored."""
        if config.diarization_config.enable_speaker_diarization:
            raise InvalidInputError("diarization_config: speakers are not told apart here")
        if config.enable_separate_recognition_per_channel and config.audio_channel_count > 1:
            raise InvalidInputError(
                "enable_separate_recognition_per_channel: channels are mixed; send each on its own"
            )
        if config.model:
            names = [name for name, _ in self._recognisers()]
            if config.model not in names:
                raise UnknownNameError(_no_model(config.model, names))


def _no_model(wanted: str, known: Sequence[str]) -> str:
    return f"model: {wanted[:80]!r} does not run here; known are {', '.join(dict.fromkeys(known))}"


def _incoming(config: pb.RecognitionConfig) -> Incoming:
    encoding = _ENCODINGS.get(config.encoding)
    if encoding is None:
        raise InvalidInputError(
            f"encoding: {config.encoding} is none of LINEAR_PCM, FLAC, MULAW, OGGOPUS, ALAW"
        )
    return Incoming(encoding, config.sample_rate_hertz, config.audio_channel_count)


async def _feed(
    requests: AsyncIterator[pb.StreamingRecognizeRequest],
    session: ListeningSession,
    incoming: Incoming,
) -> None:
    """What the client sends, into the session; errors go the way of the answers."""
    try:
        async for request in requests:
            if request.WhichOneof("streaming_request") == "streaming_config":
                raise InvalidInputError("after the config only audio_content may follow")
            data = request.audio_content
            if len(data) > _DECODED_AT_ONCE_BYTES:
                pcm = await asyncio.to_thread(incoming.feed, data)
            else:
                pcm = incoming.feed(data)
            await _hear(session, incoming, pcm)
            if request.runtime_config.get(_FORCE_END, "").lower() == "true":
                await session.end_utterance()
        await _hear(session, incoming, await asyncio.to_thread(incoming.finish))
        await session.finish()
    except Exception as error:  # The answering side raises it, and so the client hears of it.
        await session.fail(error)


async def _hear(session: ListeningSession, incoming: Incoming, pcm: Any) -> None:
    """pcm: [N] int16. In parts: a file comes in messages of any size."""
    rate = incoming.sample_rate_hz
    step = round(rate * _HEARD_AT_ONCE_S)
    for start in range(0, len(pcm), step):
        await session.hear(pcm[start : start + step], rate)


def _result(
    heard: Heard, config: pb.RecognitionConfig, *, interim: bool
) -> pb.StreamingRecognitionResult | None:
    final = heard.event is TranscriptEvent.FINAL
    looks = (TranscriptEvent.PARTIAL, TranscriptEvent.PAUSED)
    if not heard.text or not (final or (interim and heard.event in looks)):
        return None
    # Clients print finals one behind the other.
    space = "" if heard.language in UNSPACED or not final else " "
    times = words_of(heard.segments)
    return pb.StreamingRecognitionResult(
        alternatives=[_alternative(heard.text + space, heard.language, times, config)],
        is_final=final,
        stability=1.0 if final else _STABILITY,
        channel_tag=1,
        audio_processed=heard.at_samples / SAMPLE_RATE_HZ,
    )


def _alternative(
    text: str, language: str, passages: Sequence[WordTime], config: pb.RecognitionConfig
) -> pb.SpeechRecognitionAlternative:
    """How sure it is the recognisers do not tell: confidence is left at 0, unknown."""
    words = []
    if config.enable_word_time_offsets:
        words = [
            pb.WordInfo(start_time=w.start_ms, end_time=w.end_ms, word=w.word)
            for passage in passages
            for w in _word_times(passage)
        ]
    return pb.SpeechRecognitionAlternative(transcript=text, words=words, language_code=[language])


def _word_times(passage: WordTime) -> Iterator[WordTime]:
    """The recognisers time passages: the words of one share its time by their length."""
    words = _WORD.findall(passage.word)
    whole = sum(map(len, words))
    length_ms, before = passage.end_ms - passage.start_ms, 0
    for word in words:
        start = passage.start_ms + length_ms * before // whole
        before += len(word)
        yield WordTime(word, start, passage.start_ms + length_ms * before // whole)
