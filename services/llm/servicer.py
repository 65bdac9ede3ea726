"""The language model on the wire: Generate, Attach, GetStatus.

The only file of the service that sees protobuf.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import grpc
import grpc.aio

from services.llm.backends.base import (
    Calling,
    ChatMessage,
    Role,
    TextBackend,
    Tool,
    ToolCall,
    Tools,
)
from services.llm.backends.registry import open_backend
from services.llm.blocks import Shown
from services.llm.gate import Place, unless
from services.llm.generator import AnswerRequest, Generator, Piece
from services.llm.passages import Passage
from services.llm.prompt import clean_text
from services.llm.session import AnsweringSession
from services.llm.settings import LlmSettings
from visavis.engine import EngineState
from visavis.serving.admission.meter import Assumed
from visavis.serving.admission.reporting import open_admission
from visavis.serving.errors import AtCapacityError, InvalidInputError, OutOfOrderError
from visavis.serving.lease import read_config
from visavis.serving.lifetime.supervision import end_tasks
from visavis.serving.stage import Leases, engine_status
from visavis.v1 import control_pb2, llm_pb2, llm_pb2_grpc
from visavis.wire.bus import Bus
from visavis.wire.clock import Clock, MonotonicClock

log = logging.getLogger(__name__)

ASSUMED = Assumed(units_per_s=0.08, unit_cost_s=0.4, cores=0.04)
"""Answers that somebody waits for, until they are measured."""

_ROLES: Mapping[int, Role] = {
    llm_pb2.Message.SYSTEM: "system",
    llm_pb2.Message.USER: "user",
    llm_pb2.Message.ASSISTANT: "assistant",
    llm_pb2.Message.TOOL: "tool",
}
_CALLING: Mapping[int, Calling] = {
    llm_pb2.ToolChoice.AUTO: "auto",
    llm_pb2.ToolChoice.NONE: "none",
    llm_pb2.ToolChoice.REQUIRED: "required",
}
_NOTHING = '{"type": "object", "properties": {}}'
_Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class SlotPool:
    """Which of the backend's sequences a session works in: slots 0 to n-1, each held by one.

    A slot still holds its last session's prompt, so a session that comes back
    gets its own one where that is free, and else the one unused for longest.
    """

    def __init__(self, slots: int) -> None:
        self.slots = slots
        # Oldest first, each with the session that it served last.
        self._free: dict[int, str] = dict.fromkeys(range(slots), "")
        self._users = Counter[int]()

    @property
    def free(self) -> int:
        return len(self._free)

    @contextlib.contextmanager
    def hold(self, session: str = "") -> Iterator[int]:
        """A slot for as long as the context lasts. Raises AtCapacityError."""
        if not self._free:
            raise AtCapacityError(f"all {self.slots} slots are taken")
        own = [slot for slot, last in self._free.items() if session and last == session]
        slot = own[0] if own else next(iter(self._free))
        del self._free[slot]
        with self.share(slot, session):
            yield slot

    @contextlib.contextmanager
    def share(self, slot: int, session: str) -> Iterator[int]:
        """A slot that is held already: it is free again once all have left it."""
        self._users[slot] += 1
        try:
            yield slot
        finally:
            self._users[slot] -= 1
            if not self._users[slot]:
                self._free[slot] = session


class LlmService:
    """The deployable: one backend, its slots, and the servicer in front."""

    name = "llm"
    languages: Sequence[str] = ("en", "zh")

    def __init__(
        self,
        settings: LlmSettings,
        bus: Bus | None,
        instance: str,
        *,
        backend: TextBackend | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._backend = backend or open_backend(settings)
        self._generator = Generator(self._backend, settings.defaults(), clock or MonotonicClock())
        self._reading: asyncio.Task[None] | None = None
        slots = self._backend.slots
        self.admission = open_admission(
            settings, ASSUMED, clock=clock, slots=slots, lanes=1 if self._backend.in_turn else slots
        )
        leases = Leases(LlmService.name, instance, bus, self.admission)
        self._servicer = LanguageModelServicer(self._generator, self._backend, leases)
        self.leases = leases

    @property
    def engine_states(self) -> Sequence[EngineState]:
        return [EngineState(self._backend.name, self._backend.device)]

    async def load(self) -> None:
        await self._backend.load()
        # A model that loads but cannot answer is found out before it is offered.
        await self._servicer.read_persona(self._generator.place_ahead(0))
        self._reading = asyncio.create_task(self._read_ahead_elsewhere())

    async def _read_ahead_elsewhere(self) -> None:
        """While nobody asks: a visitor's first answer must not wait for the persona."""
        try:
            for slot in range(1, self._backend.slots):
                await self._servicer.read_persona(self._generator.place_ahead(slot))
        except Exception:
            log.exception("a persona could not be read ahead; first answers come later")

    def register(self, server: grpc.aio.Server) -> Sequence[str]:
        llm_pb2_grpc.add_LanguageModelServicer_to_server(self._servicer, server)
        return [llm_pb2.DESCRIPTOR.services_by_name["LanguageModel"].full_name]

    async def close(self) -> None:
        if self._reading is not None:
            await end_tasks([self._reading])
        await self._backend.close()


class LanguageModelServicer(llm_pb2_grpc.LanguageModelServicer):
    """Answers calls: each in a slot of the backend, for as long as it or its lease lasts."""

    def __init__(
        self,
        generator: Generator,
        backend: TextBackend,
        leases: Leases,
    ) -> None:
        self._generator = generator
        self._backend = backend
        self.leases = leases
        self._slots = SlotPool(backend.slots)
        self._sessions: dict[str, AnsweringSession] = {}
        """That are attached, by their names."""
        leases.free_slots = lambda: self._slots.free
        self._read_slots: dict[int, Place] = {}
        """Where the persona was read, or is being read, with the place of that."""

    async def Generate(
        self, request: llm_pb2.GenerateRequest, context: _Context
    ) -> AsyncIterator[llm_pb2.GenerateResponse]:
        wanted = read_request(request)
        async with self._slot_for(request.session) as (slot, wanted_back):
            answer = self._generator.answer(wanted, slot)
            try:
                async with contextlib.aclosing(answer.pieces) as pieces:
                    async for piece in _until(wanted_back, pieces) if wanted_back else pieces:
                        yield _response_of(piece)
            finally:
                answer.ledger.observe()
        yield llm_pb2.GenerateResponse(
            finish_reason=answer.ledger.finish_reason,
            prompt_tokens=answer.ledger.prompt_tokens,
            completion_tokens=answer.ledger.completion_tokens,
        )

    @contextlib.asynccontextmanager
    async def _slot_for(self, name: str) -> AsyncIterator[tuple[int, asyncio.Event | None]]:
        """Where an answer apart from turns is written. A session that was let in finds room in the
        slot of its lease, where there is no other, until its next turn wants that: the event.
        Raises AtCapacityError.
        """
        async with contextlib.AsyncExitStack() as held:
            session = self._sessions.get(name)
            if session is not None and not self._slots.free:
                slot, wanted_back = await held.enter_async_context(session.between_turns())
                if self._sessions.get(name) is session:  # it has not left meanwhile
                    yield held.enter_context(self._slots.share(slot, name)), wanted_back
                    return
            yield held.enter_context(self._slots.hold(name)), None

    async def Attach(
        self, requests: AsyncIterator[llm_pb2.LlmAttachRequest], context: _Context
    ) -> AsyncIterator[control_pb2.AttachEvent]:
        first = await read_config(requests, "Attach")
        name, admitted = first.config.session, first.config.admitted
        with contextlib.ExitStack() as held:
            stage = held.enter_context(self.leases.attach(name, admitted=admitted))
            slot = held.enter_context(self._slots.hold(name))
            self._hand_over(slot)
            meter = self.leases.admission.meter
            session = AnsweringSession(stage, slot, self._generator, meter, self.read_persona)
            self._sessions[name] = session
            held.callback(self._sessions.pop, name)

            async def on_request(request: llm_pb2.LlmAttachRequest) -> None:
                match request.WhichOneof("request"):
                    case "begin":
                        begin = request.begin
                        await session.answer(
                            begin.turn,
                            lambda: read_request(
                                begin.request, spoken=True, held=begin.held, so_far=begin.so_far
                            ),
                            run=begin.run,
                            chars=begin.chars,
                            blocks=begin.blocks,
                        )
                    case "read_ahead":
                        unfinished = request.read_ahead.request
                        session.read_ahead(lambda: read_request(unfinished, spoken=True))
                    case "go_on":
                        rest = request.go_on.request
                        session.go_on(request.go_on.turn, lambda: read_request(rest, spoken=True))
                    case "say":
                        await session.say(request.say.turn, request.say.text)
                    case _:
                        raise OutOfOrderError(
                            "after the config only begin, read_ahead, go_on and say may follow"
                        )

            async with contextlib.aclosing(stage.serve(session, requests, on_request)) as events:
                async for event in events:
                    yield event

    def _hand_over(self, slot: int) -> None:
        """To a session, which reads for itself what waits: it must not be read after an answer."""
        place = self._read_slots.get(slot)
        if place is not None:
            place.give_up()
            if not place.may_run:
                del self._read_slots[slot]

    async def read_persona(self, place: Place) -> None:
        """Let a slot that was never used read the persona before its first question."""
        if place.slot not in self._read_slots:
            self._read_slots[place.slot] = place
            await self._generator.read_persona(place)

    async def GetStatus(
        self, request: control_pb2.GetStatusRequest, context: _Context
    ) -> control_pb2.ServiceStatus:
        backend = self._backend
        state = EngineState(backend.name, backend.device)
        return self.leases.status(
            [engine_status(backend.model, state, file=backend.file)],
            LlmService.languages,
        )


def read_request(
    request: llm_pb2.GenerateRequest,
    *,
    spoken: bool = False,
    held: bool = False,
    so_far: str = "",
) -> AnswerRequest:
    """Raises InvalidInputError naming the field."""
    messages = tuple(
        ChatMessage(
            _role(message.role, index),
            message.content,
            tuple(ToolCall(c.id, c.name, c.arguments_json or "{}") for c in message.tool_calls),
            message.tool_call_id,
        )
        for index, message in enumerate(request.messages)
    )
    wanted = AnswerRequest(
        messages,
        max_tokens=request.max_tokens,
        temperature=request.temperature if request.HasField("temperature") else None,
        stop=tuple(request.stop),
        seed=request.seed if request.HasField("seed") else None,
        top_p=request.top_p if request.HasField("top_p") else None,
        tools=_tools(request),
        spoken=spoken or request.spoken,
        held=held,
        passages=tuple(
            Passage(clean_text(known.source), clean_text(known.text)) for known in request.passages
        ),
        session=request.session,
        so_far=so_far,
    )
    wanted.check()
    return wanted


def _tools(request: llm_pb2.GenerateRequest) -> Tools | None:
    """None: nothing can be called. Raises InvalidInputError."""
    choice = request.tool_choice
    calling = _CALLING.get(choice.mode)
    if calling is None:
        raise InvalidInputError(f"tool_choice.mode: {choice.mode} is none of AUTO, NONE, REQUIRED")
    if choice.name and calling != "required":
        raise InvalidInputError("tool_choice: where a tool is named its call is REQUIRED (2)")
    if not request.tools:
        if calling == "required":
            raise InvalidInputError("tool_choice: a call is required, and there are no tools")
        return None
    known = (
        Tool(tool.name, clean_text(tool.description), clean_text(tool.parameters_json or _NOTHING))
        for tool in request.tools
    )
    return Tools(tuple(known), calling, choice.name, not request.one_call_at_most)


async def _until(
    wanted_back: asyncio.Event, pieces: AsyncGenerator[Piece, None]
) -> AsyncIterator[Piece]:
    """The pieces, none of which is empty. Raises AtCapacityError where the event comes first."""
    while not wanted_back.is_set():
        piece = await unless(wanted_back, anext(pieces, ""))
        if piece == "":
            return
        if piece is not None:
            yield piece
    raise AtCapacityError("all slots are taken, and the session's next turn needs the one it has")


def _response_of(piece: Piece) -> llm_pb2.GenerateResponse:
    if isinstance(piece, str):
        return llm_pb2.GenerateResponse(text=piece)
    if isinstance(piece, Shown):
        return llm_pb2.GenerateResponse(text=piece.text, block=piece.block, language=piece.language)
    call = llm_pb2.ToolCallDelta(
        index=piece.index, id=piece.id, name=piece.name, arguments_json=piece.arguments
    )
    return llm_pb2.GenerateResponse(tool_calls=[call])


def _role(role: int, index: int) -> Role:
    if role not in _ROLES:
        raise InvalidInputError(
            f"messages[{index}].role: {role} is none of SYSTEM (1), USER (2), ASSISTANT (3), "
            "TOOL (4)"
        )
    return _ROLES[role]
