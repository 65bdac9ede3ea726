"""The services' plain calls, for whoever has no session: an answer, a voice, a text of a recording.

Each goes to the replica with most room that will take it, and is cancelled there as soon as nobody
reads on. Nothing of a session is touched.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import grpc.aio
import numpy as np
from numpy.typing import NDArray

from gateway.knowledge.passages import Passage as KnownPassage
from gateway.stages.catalog import our_error
from gateway.stages.growing import Growing
from gateway.stages.registry import Registry, ReplicaState, why_no_room
from gateway.talk.actions import Message
from gateway.tools.offers import FREE, Call, ToolChoice, ToolOffer
from visavis.serving.errors import (
    AtCapacityError,
    InvalidInputError,
    StageLostError,
    UnknownNameError,
    VisavisError,
)
from visavis.serving.lease import CallLimit
from visavis.serving.lifetime.supervision import read_whole
from visavis.v1 import asr_pb2, control_pb2, llm_pb2, media_pb2, tts_pb2

SILENCE_S = 120.0
"""A service that says nothing for so long is given up."""
RECOGNISED_RATE_HZ = 16_000
LONGEST_RECORDING_S = 600.0
"""For `recognise`; `recognise_on` takes any."""
SPEECHES_AT_ONCE = 16
RECORDINGS_AT_ONCE = 8
_AGAIN_S = 0.25
"""Until replicas that read as many recordings as they can are asked once more."""
_UNSPACED = frozenset({"zh", "ja", "th", "lo", "my", "yue"})
_TEXT_CHARS = 1000
"""Of a text that a voice gets at once."""
_ELSEWHERE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED)
"""Another replica may do what the first has not begun."""
_MODES = {
    "auto": llm_pb2.ToolChoice.AUTO,
    "none": llm_pb2.ToolChoice.NONE,
    "required": llm_pb2.ToolChoice.REQUIRED,
}
_ROLES = {
    "system": llm_pb2.Message.SYSTEM,
    "user": llm_pb2.Message.USER,
    "assistant": llm_pb2.Message.ASSISTANT,
    "tool": llm_pb2.Message.TOOL,
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """An answer that is asked for. None, 0: the service's default."""

    messages: tuple[Message, ...]
    max_tokens: int = 0
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    tools: tuple[ToolOffer, ...] = ()
    choice: ToolChoice = FREE
    calls_at_once: bool = True
    known: tuple[KnownPassage, ...] = ()
    """What the operator's texts say of the question, the best first."""
    spoken: bool = False
    """It will be said: what is shown instead comes apart."""


@dataclass(frozen=True, slots=True)
class Written:
    """A piece of an answer. finish_reason and the counts come with the last one.

    block: 0; else the block, from 1 on, that is shown and not said, in a language of its own.
    """

    text: str
    calls: tuple[Call, ...] = ()
    finish_reason: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    block: int = 0
    language: str = ""


@dataclass(frozen=True, slots=True)
class Speaking:
    """How a text is spoken. Empty: the service's choice."""

    language: str = ""
    voice: str = ""
    speed: float = 1.0
    style: str = ""


@dataclass(frozen=True, slots=True)
class Sound:
    """Of a voice: [N] int16, mono."""

    pcm: NDArray[np.int16]
    rate_hz: int


@dataclass(frozen=True, slots=True)
class Passage:
    """Words of a recording, and when they are said, as far as the recogniser tells."""

    text: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Recognised:
    """What was said. language: code such as "en"."""

    text: str
    language: str
    passages: tuple[Passage, ...]

    def behind(self, text: str) -> str:
        """Its text as it goes on behind `text`: after a space, where its language has them."""
        return self.text if not text or self.language in _UNSPACED else f" {self.text}"


class PlainCalls:
    """Asks the services without a session."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._speeches = CallLimit(SPEECHES_AT_ONCE, "speeches")
        self.recordings = CallLimit(RECORDINGS_AT_ONCE, "recordings")
        """Each is held in memory: as a file, and as samples."""
        self._line = asyncio.Semaphore(RECORDINGS_AT_ONCE)
        """Of what visitors have said."""
        self._refused: set[object] = set()
        """In that line, those that have found no place: no upload is sent before them."""
        self.streamed_recordings = CallLimit(RECORDINGS_AT_ONCE, "recordings that are streamed")

    def models(self, service: str) -> list[str]:
        """Names of the networks that replicas of a service run."""
        states = [s for s in self._registry.replicas(service) if s.healthy]
        return list(dict.fromkeys(e.model for s in states for e in s.engines if e.model))

    async def write(
        self, wanted: Wanted, model: str = "", *, session: str = "", at: str = ""
    ) -> AsyncGenerator[Written, None]:
        """An answer as it is written. model: a replica that runs it; "": any.

        session: for this one, which was let in: what is predicted of one more does not count, and
        where no slot is free that of its lease answers. at: the replica that has that lease.
        Raises InvalidInputError, AtCapacityError, StageLostError, UnknownNameError.
        """
        request, admitted = generation(wanted, session), bool(session)
        answers = self._answers("llm", lambda stub: stub.Generate(request), model, admitted, at)
        async with aclosing(answers):
            async for told in answers:
                calls = (Call(c.id, c.name, c.arguments_json, c.index) for c in told.tool_calls)
                yield Written(
                    told.text,
                    tuple(calls),
                    told.finish_reason,
                    told.prompt_tokens,
                    told.completion_tokens,
                    told.block,
                    told.language,
                )

    async def speak(
        self, text: str | Growing[str], how: Speaking, *, admitted: bool = False
    ) -> AsyncGenerator[Sound, None]:
        """A text as it is spoken, or as it is written. Raises as `write`.

        admitted: for a session that was let in: what is predicted of one more does not count.
        """
        config = tts_pb2.SynthesisConfig(
            language=how.language, voice=how.voice, speed=how.speed, style=how.style
        )

        async def requests() -> AsyncIterator[tts_pb2.SynthesizeRequest]:
            yield tts_pb2.SynthesizeRequest(config=config)
            async for piece in _pieces_of(text):
                yield tts_pb2.SynthesizeRequest(text=piece)

        # A voice without a session takes no slot.
        with self._speeches.hold():
            answers = self._answers(
                "tts", lambda stub: stub.Synthesize(requests()), admitted=admitted
            )
            async with aclosing(answers):
                async for told in answers:
                    if told.WhichOneof("response") == "voice" and told.voice.pcm_s16le:
                        pcm = np.frombuffer(told.voice.pcm_s16le, "<i2")
                        yield Sound(pcm, told.voice.sample_rate_hz)

    async def recognise(self, pcm: NDArray[np.int16], language: str) -> Recognised:
        """The text of a recording, [N] int16 at 16 kHz. Raises as `write`."""
        if len(pcm) > LONGEST_RECORDING_S * RECOGNISED_RATE_HZ:
            raise InvalidInputError(
                f"file: it is longer than {LONGEST_RECORDING_S / 60:.0f} minutes; ask for it with "
                "stream, which takes an hour, or in parts"
            )
        if self._refused:
            raise AtCapacityError("asr: what visitors have said is read first; try again later")
        return await self._recognise(pcm, language)

    async def _recognise(
        self, pcm: NDArray[np.int16], language: str, *, admitted: bool = False
    ) -> Recognised:
        answers = self._answers(
            "asr", lambda stub: _Recording(stub, pcm, language), admitted=admitted
        )
        async with aclosing(answers):
            told = await anext(answers)
        return Recognised(told.text, told.language, _passages(told.words))

    async def recognise_in_line(
        self, pcm: NDArray[np.int16], language: str, within_s: float
    ) -> Recognised:
        """As `recognise`, what a visitor of a session has said: it waits while others are read.

        From when it is refused until it is read, `recognise` sends nothing: a place that is free
        would be gone before it is asked for once more. within_s: behind these it is asked for no
        more than once.
        """
        loop = asyncio.get_running_loop()
        until_s, place = loop.time() + within_s, object()
        async with self._line:
            try:
                while True:
                    try:
                        return await self._recognise(pcm, language, admitted=True)
                    except AtCapacityError:
                        if loop.time() >= until_s:
                            raise
                    self._refused.add(place)
                    await asyncio.sleep(_AGAIN_S)
            finally:
                self._refused.discard(place)

    async def recognise_on(
        self, pcm: NDArray[np.int16], language: str
    ) -> AsyncGenerator[Recognised, None]:
        """A recording of any length, utterance by utterance. Raises as `write`."""
        sound: Growing[NDArray[np.int16]] = Growing()
        for start in range(0, len(pcm), RECOGNISED_RATE_HZ):
            sound.add(pcm[start : start + RECOGNISED_RATE_HZ])
        sound.end()
        async with aclosing(self.hear(sound, language, live=False)) as utterances:
            async for heard in utterances:
                yield heard

    async def hear(
        self, sound: Growing[NDArray[np.int16]], language: str, *, live: bool = True
    ) -> AsyncGenerator[Recognised, None]:
        """Sound at 16 kHz in pieces of a second at most, utterance by utterance. live: it is being
        spoken. Raises as `write`.
        """
        config = _recognition(language, recorded=not live)

        async def requests() -> AsyncIterator[asr_pb2.StreamingRecognizeRequest]:
            yield asr_pb2.StreamingRecognizeRequest(config=config)
            async for piece in sound:
                data = piece.astype("<i2").tobytes()
                yield asr_pb2.StreamingRecognizeRequest(pcm_s16le=data)

        answers = self._answers("asr", lambda stub: stub.StreamingRecognize(requests()))
        async with aclosing(answers):
            async for told in answers:
                heard = told.transcript
                if heard.event == media_pb2.TranscriptChunk.FINAL and heard.text:
                    yield Recognised(heard.text, heard.language, _passages(heard.words))

    async def _answers(
        self,
        service: str,
        begin: Callable[[Any], Any],
        model: str = "",
        admitted: bool = False,
        at: str = "",
    ) -> AsyncGenerator[Any, None]:
        """The messages of one call, on the first replica that takes it. at: this one is asked
        first.
        """
        failed: VisavisError | None = None
        taking = await self._taking(service, model, admitted)
        for state in sorted(taking, key=lambda state: state.replica.instance != at):
            call, begun = begin(self._registry.stub(state.replica)), False
            messages = aiter(call)
            try:
                while True:
                    async with asyncio.timeout(SILENCE_S):
                        message = await read_whole(anext(messages, None), call.cancel)
                    if message is None:
                        return
                    begun = True
                    yield message
            except grpc.aio.AioRpcError as error:
                failed = our_error(error, service)
                if begun or error.code() not in _ELSEWHERE:
                    raise failed from None
            except AtCapacityError as error:
                failed = error
            except TimeoutError:
                raise StageLostError(f"{service}: it said nothing for {SILENCE_S:.0f} s") from None
            finally:
                call.cancel()
        assert failed is not None
        raise failed

    async def _taking(self, service: str, model: str, admitted: bool) -> list[ReplicaState]:
        """Replicas that may take a call, the one with most room first. Never empty.

        admitted: whether it has a slot left, each says itself.
        """
        known = list(self._working(service))
        if not known:
            await self._registry.refresh()
            known = list(self._working(service))
        if not known:
            raise StageLostError(f"{service}: no replica is running")
        ours = [s for s in known if not model or model in [e.model for e in s.engines]]
        if not ours:
            raise UnknownNameError(f"model: no replica runs {model[:80]!r} any more")
        taking = ours if admitted else [s for s in ours if s.free_slots > 0]
        free = sorted(taking, key=lambda s: -s.free_slots)
        if not free:
            raise AtCapacityError(f"{service}: {why_no_room(ours)}; try again later")
        return free

    def _working(self, service: str) -> Iterator[ReplicaState]:
        for state in self._registry.replicas(service):
            if state.healthy and not state.replica.draining:
                yield state


class _Recording:
    """One that a replica is asked to read, once it says that it has a place for it: ten minutes of
    sound to be refused would stand in the way of all sessions. Its one answer is read as those of
    calls with several are.
    """

    def __init__(self, stub: Any, pcm: NDArray[np.int16], language: str) -> None:
        self._stub = stub
        self._pcm = pcm
        self._language = language
        self._call: Any = None
        self._cancelled = False

    async def __aiter__(self) -> AsyncIterator[Any]:
        """Raises AtCapacityError."""
        self._call = self._stub.GetStatus(control_pb2.GetStatusRequest())
        status = await self._call
        if status.HasField("free_recordings") and not status.free_recordings:
            raise AtCapacityError("recordings: it reads as many as it can; try again later")
        request = await asyncio.to_thread(_recording, self._pcm, self._language)
        if not self._cancelled:  # meanwhile
            self._call = self._stub.Recognize(request)
            yield await self._call

    def cancel(self) -> None:
        self._cancelled = True
        if self._call is not None:
            self._call.cancel()


def _passages(words: Iterable[Any]) -> tuple[Passage, ...]:
    return tuple(Passage(w.word, w.start_ms / 1e3, w.end_ms / 1e3) for w in words)


async def _pieces_of(text: str | Growing[str]) -> AsyncIterator[str]:
    """In parts that a voice may get at once."""
    if isinstance(text, str):
        for start in range(0, len(text), _TEXT_CHARS):
            yield text[start : start + _TEXT_CHARS]
    else:
        async for piece in text:
            for start in range(0, len(piece), _TEXT_CHARS):
                yield piece[start : start + _TEXT_CHARS]


def _recognition(language: str, *, recorded: bool = True) -> asr_pb2.RecognitionConfig:
    return asr_pb2.RecognitionConfig(
        sample_rate_hz=RECOGNISED_RATE_HZ, language=language, recorded=recorded
    )


def _recording(pcm: NDArray[np.int16], language: str) -> asr_pb2.RecognizeRequest:
    return asr_pb2.RecognizeRequest(
        config=_recognition(language), pcm_s16le=pcm.astype("<i2").tobytes()
    )


def generation(wanted: Wanted, session: str = "") -> llm_pb2.GenerateRequest:
    """As it goes over the wire. session: for which it is asked by a call of its own."""
    return llm_pb2.GenerateRequest(
        messages=[
            llm_pb2.Message(
                role=_ROLES[said.role],
                content=said.content,
                tool_calls=[
                    control_pb2.ToolCall(id=c.id, name=c.name, arguments_json=c.arguments)
                    for c in said.calls
                ],
                tool_call_id=said.tool_call_id,
            )
            for said in wanted.messages
        ],
        max_tokens=wanted.max_tokens,
        temperature=wanted.temperature,
        top_p=wanted.top_p,
        stop=wanted.stop,
        seed=wanted.seed,
        tools=[
            llm_pb2.ToolDefinition(
                name=t.name, description=t.description, parameters_json=t.parameters
            )
            for t in wanted.tools
        ],
        tool_choice=llm_pb2.ToolChoice(
            mode=_MODES[wanted.choice.calling], name=wanted.choice.named
        ),
        one_call_at_most=not wanted.calls_at_once,
        passages=[
            llm_pb2.KnownPassage(source=known.source, text=known.text) for known in wanted.known
        ],
        spoken=wanted.spoken,
        session=session,
    )
