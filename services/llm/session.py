"""One attached session: answers its turns with tokens, and reads ahead between them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from dataclasses import replace
from typing import Any

from services.llm.backends.base import ToolCallDelta
from services.llm.blocks import Shown
from services.llm.gate import Order, Place
from services.llm.generator import Answer, AnswerRequest, Generator
from services.llm.prompt import Beginning
from visavis.serving.admission.meter import Meter, Unit
from visavis.serving.errors import BusError, InvalidInputError, VisavisError
from visavis.serving.stage import Stage, StageWork, Turn
from visavis.serving.telemetry.stages import Work
from visavis.wire.media import Stamp, TokenChunk, TurnChunk
from visavis.wire.subjects import Kind

log = logging.getLogger(__name__)

_PHRASE_END = "\n"
"""What was said before a call, or a block of code, is spoken at once: nobody knows how long that
takes."""


class AnsweredTurn(Turn):
    """The answer to one turn, in one piece or, where it calls tools, in several with results
    between them.
    """

    answer: Answer | None = None
    """What is being written, or was last; None until its request has been read."""
    unit: Unit | None = None
    """Of the meter, for this answer; None before it is at its slot."""

    def __init__(
        self, number: int, generator: Generator, *, run: int = 0, chars: int = 0, blocks: int = 0
    ) -> None:
        """run: as in `TokenChunk`. chars, blocks: that it had before."""
        super().__init__(number)
        self.run = run
        self.chars = chars
        """Of the text that was published to be said."""
        self.text_ends = False
        """That text ends a phrase."""
        self.blocks = blocks
        """That were shown."""
        self.begun = False
        """Some of it is the model's."""
        self.ready = False
        """Enough is written for a voice to begin with, and somebody waits for it."""
        self.asked: Stamp | None = None
        """When the model was asked first: tools are a part of its work, to whoever waits."""
        self._backend = generator.backend
        self._before: list[Answer] = []
        self._going_on: asyncio.Future[Callable[[], AnswerRequest]] | None = None

    @property
    def waits(self) -> bool:
        """Whether it waits for what its calls come to."""
        return self._going_on is not None and not self._going_on.done()

    def write(self, answer: Answer) -> None:
        """This is written now."""
        if self.answer is not None:
            self._before.append(self.answer)
        self.answer, self.unit = answer, None

    def confirm(self) -> None:
        """Somebody waits for it now."""
        if self.answer is not None:
            self.answer.place.confirm()
        if self.unit is not None:
            self.unit.want()
        self.note_ready()

    def note_ready(self, *, ended: bool = False) -> None:
        """Whoever waits need not any more, once a voice has enough to begin with.

        ended: no more is written, so it is enough.
        """
        if self.ready or self.answer is None or self.unit is None:
            return
        place = self.answer.place
        if place.order is Order.ANSWER and (ended or not place.hurried):
            self.ready = True
            self.unit.first()

    async def results(self, tell: Coroutine[Any, Any, None]) -> Callable[[], AnswerRequest]:
        """Returns the request that goes on with the results of calls. tell: asks for them."""
        self._going_on = asyncio.get_running_loop().create_future()
        await tell
        return await self._going_on

    def go_on(self, read_request: Callable[[], AnswerRequest]) -> None:
        """The results are there. Nothing happens where it waits for none."""
        if self._going_on is not None and not self._going_on.done():
            self._going_on.set_result(read_request)

    @property
    def produced(self) -> int:
        answers = [*self._before, self.answer]
        return sum(answer.ledger.completion_tokens for answer in answers if answer)

    def seconds(self) -> dict[str, float]:
        answers = [*self._before, self.answer]
        generate_s = sum(answer.ledger.total_s for answer in answers if answer)
        return {**answers[0].ledger.seconds(), "generate": generate_s} if answers[0] else {}

    @property
    def queue_s(self) -> float | None:
        """From `asked` to the model's first work."""
        first = self._before[0] if self._before else self.answer
        return first.ledger.queue_s if first else None

    def traced_as(self) -> Work:
        """By OpenTelemetry's conventions for generative AI; what was said is not in it."""
        backend = self._backend
        about: dict[str, str | int | float | bool | list[str]] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": backend.name,
            "gen_ai.request.model": backend.model,
            "gen_ai.response.model": backend.file or backend.model,
            "gen_ai.request.stream": True,
            "gen_ai.output.type": "text",
        }
        if self.answer is not None:
            ledger = self.answer.ledger
            about["gen_ai.usage.input_tokens"] = ledger.prompt_tokens
            about["gen_ai.usage.cache_read.input_tokens"] = ledger.cached_tokens
            about["gen_ai.usage.output_tokens"] = ledger.completion_tokens
            if ledger.finish_reason:
                about["gen_ai.response.finish_reasons"] = [ledger.finish_reason]
            if ledger.first_token_s is not None:
                about["gen_ai.response.time_to_first_chunk"] = ledger.first_token_s
        remote = backend.device == "remote"
        return Work(f"chat {backend.model}", about, "client" if remote else "internal")


class AnsweringSession(StageWork):
    """One session's conversation in one slot of the model: its requests in, `tokens` out."""

    def __init__(
        self,
        stage: Stage[AnsweredTurn],
        slot: int,
        generator: Generator,
        meter: Meter,
        read_persona: Callable[[Place], Coroutine[Any, Any, None]],
    ) -> None:
        """read_persona: readies a slot for its first question."""
        self._stage = stage
        self._slot = slot
        self._generator = generator
        self._meter = meter
        self._read_persona = read_persona
        self._to_read: Callable[[], AnswerRequest] | None = None
        self._read: AnswerRequest | None = None
        """What was read ahead last, and is in the slot: the words so far may be told twice."""
        self._wanted = asyncio.Event()
        self._reading: Place | None = None
        self._confirmed = 0
        """The newest turn whose answer is known to be wanted."""
        self._beginning = Beginning()
        # What is being read is the beginning of what is asked next: the answer waits for it.
        self._at_slot = asyncio.Lock()
        self._coming: Place | None = None
        """Of a turn that waits for the slot."""
        self._wanted_back = asyncio.Event()
        """By that turn, from an answer that is none of a turn's."""

    @contextlib.asynccontextmanager
    async def between_turns(self) -> AsyncIterator[tuple[int, asyncio.Event]]:
        """The slot, for an answer that is none of a turn's, while nothing of a turn is written.

        It is to be left at once when the event happens.
        """
        if self._reading is not None:
            self._reading.give_up()
        while True:
            async with self._at_slot:
                if not self._turn_waits:
                    self._read = None  # it is not what the slot holds any more
                    self._wanted_back = asyncio.Event()
                    yield self._slot, self._wanted_back
                    return
            await asyncio.sleep(0)  # the turn goes first

    @property
    def _turn_waits(self) -> bool:
        """For the slot, and somebody for its answer."""
        return self._coming is not None and self._coming.order is Order.ANSWER

    def _make_room(self) -> None:
        if self._turn_waits:
            self._wanted_back.set()

    def loops(self) -> Sequence[Coroutine[Any, Any, None]]:
        return [self._keep_reading(), self._ready_slot()]

    def announced(self, chunk: TurnChunk) -> None:
        """A turn that was held is announced again once its answer is wanted."""
        if chunk.held:
            return
        self._confirmed = max(self._confirmed, chunk.place.turn)
        turn = self._stage.turn
        if turn is not None and turn.number == chunk.place.turn:
            turn.confirm()
            self._make_room()

    async def answer(
        self,
        number: int,
        read_request: Callable[[], AnswerRequest],
        *,
        run: int = 0,
        chars: int = 0,
        blocks: int = 0,
    ) -> None:
        """Start to answer turn `number`; what is wrong with it is told as an event, not raised.

        The newest one is begun anew, behind what the request says is there so far, as another
        `run`. chars, blocks: that the turn had before it.
        """
        begun = self._stage.begun
        if number < max(begun, 1):
            message = f"turn: {number} does not follow {begun}; turns count upwards from 1"
            await self._stage.refuse_request(number, InvalidInputError(message))
            return
        self._to_read = self._read = None
        if self._reading is not None:
            self._reading.give_up()
        turn = AnsweredTurn(number, self._generator, run=run, chars=chars, blocks=blocks)
        await self._stage.begin_turn(turn, lambda: self._answer(turn, read_request), anew=True)

    def go_on(self, number: int, read_request: Callable[[], AnswerRequest]) -> None:
        """The results of what turn `number` called are there, if it still waits for them."""
        turn = self._stage.turn
        if turn is not None and turn.number == number:
            turn.go_on(read_request)

    async def say(self, number: int, text: str) -> None:
        """Words of the gateway's own, while turn `number` waits for results."""
        turn = self._stage.turn
        if text and turn is not None and turn.number == number and turn.waits:
            await self._publish_text(turn, text)

    def read_ahead(self, read_request: Callable[[], AnswerRequest]) -> None:
        """Read a conversation whose last message is still being spoken, once the slot is free.

        Of several that wait the newest counts. It saves time or does nothing: no event tells.
        """
        # Who says more has made an answer that was prepared void: the bus says so in a moment.
        if not self._stage.busy or self._holds:
            self._to_read = read_request
            self._wanted.set()

    @property
    def _holds(self) -> bool:
        """Whether an answer is at work that nobody waits for yet."""
        turn = self._stage.turn
        return (
            turn is not None and turn.answer is not None and turn.answer.place.order is Order.HELD
        )

    @contextlib.contextmanager
    def _place_ahead(self) -> Iterator[Place]:
        """Of what is read before a question; an answer that begins meanwhile gives it up."""
        self._reading = self._generator.place_ahead(self._slot)
        try:
            yield self._reading
        finally:
            self._reading = None

    async def _ready_slot(self) -> None:
        async with self._at_slot:
            if self._stage.begun:
                return  # the first answer has read the persona
            with self._place_ahead() as place:
                await self._read_persona(place)

    async def _keep_reading(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            async with self._at_slot:
                read_request, self._to_read = self._to_read, None
                try:
                    if read_request is None:
                        continue
                    request = self._asked(read_request)
                    if request == self._read:
                        continue
                    self._read = request
                    # No unit of the meter: it makes way for whoever waits for an answer.
                    with self._place_ahead() as place:
                        await self._generator.read_ahead(request, place)
                except VisavisError as error:
                    log.debug("read ahead: %s", error)
                except Exception:
                    log.exception("reading ahead failed")

    async def _answer(self, turn: AnsweredTurn, read_request: Callable[[], AnswerRequest]) -> None:
        got = Stamp.now("llm.first_got")
        request = self._asked(read_request)
        if turn.number <= self._confirmed:
            request = replace(request, held=False)
        try:
            while (called := await self._write(turn, request, got)).calls:
                await self._publish_text(turn, _PHRASE_END if called.text else "")
                tell = self._stage.tools_called(turn.number, called.text, called.calls, turn.run)
                request = self._asked(await turn.results(tell))
        except VisavisError:
            # What was said so far can be spoken to its end.
            with contextlib.suppress(BusError):
                await self._publish_last(turn)
            raise
        await self._publish_last(turn)

    def _asked(self, read_request: Callable[[], AnswerRequest]) -> AnswerRequest:
        return replace(read_request(), session=self._stage.session, beginning=self._beginning)

    async def _write(self, turn: AnsweredTurn, request: AnswerRequest, got: Stamp) -> _Written:
        answer = self._generator.answer(request, self._slot)
        turn.write(answer)
        self._coming = answer.place
        self._make_room()
        try:
            async with self._at_slot:
                self._coming = None
                # One that is prepared makes way for all that somebody waits for.
                with self._meter.unit(wanted=answer.place.order is Order.ANSWER) as turn.unit:
                    return await self._publish(turn, answer, got, turn.unit)
        finally:
            self._coming = None
            answer.ledger.observe()

    async def _publish(
        self, turn: AnsweredTurn, answer: Answer, got: Stamp, unit: Unit
    ) -> _Written:
        """Every piece of text as a chunk; the turn's first carries when it came."""
        asked = turn.asked = turn.asked or Stamp.now("llm.first_started")
        written, blocks = _Written(answer.said), turn.blocks
        self._take_up(turn, answer)
        async with contextlib.aclosing(answer.pieces) as pieces:
            async for piece in pieces:
                if isinstance(piece, ToolCallDelta):
                    written.add(piece)
                    continue
                first, turn.begun = not turn.begun, True
                turn.note_ready()
                if self._generator.in_turn and not answer.place.hurried:
                    unit.end()  # from here on others are let in
                if isinstance(piece, Shown):
                    await self._publish_shown(turn, blocks + piece.block, piece)
                    continue
                started = _first_stamps(asked, turn.queue_s) if first else ()
                await self._publish_text(turn, piece, (got, *started) if first else ())
                written.text += piece
        turn.note_ready(ended=not written.calls)
        return written

    def _take_up(self, turn: AnsweredTurn, answer: Answer) -> None:
        """What of the answer was published elsewhere."""
        if answer.said:
            turn.chars += len(answer.said)
            turn.text_ends = answer.said.endswith(_PHRASE_END)
        turn.blocks += answer.blocks
        # When its first words came was told there.
        turn.begun = turn.begun or bool(answer.said or answer.blocks)

    async def _publish_text(
        self, turn: AnsweredTurn, text: str, stamps: tuple[Stamp, ...] = ()
    ) -> None:
        if not text:
            return
        place = self._stage.place(turn.number, Kind.TOKENS, turn.chars, stamps=stamps)
        turn.chars += len(text)
        turn.text_ends = text.endswith(_PHRASE_END)
        await self._stage.publish(Kind.TOKENS, TokenChunk(place, text, run=turn.run))

    async def _publish_shown(self, turn: AnsweredTurn, block: int, piece: Shown) -> None:
        if block > turn.blocks:
            turn.blocks = block
            await self._publish_text(turn, "" if turn.text_ends else _PHRASE_END)
        place = self._stage.place(turn.number, Kind.TOKENS, turn.chars)
        chunk = TokenChunk(place, piece.text, block, piece.language, turn.run)
        await self._stage.publish(Kind.TOKENS, chunk)

    async def _publish_last(self, turn: AnsweredTurn) -> None:
        stamps = (Stamp.now("llm.last_finished"),)
        place = self._stage.place(turn.number, Kind.TOKENS, turn.chars, last=True, stamps=stamps)
        await self._stage.publish(Kind.TOKENS, TokenChunk(place, "", run=turn.run))


class _Written:
    """What an answer has come to: text, and calls put together of their pieces."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._calls: list[ToolCallDelta] = []

    def add(self, piece: ToolCallDelta) -> None:
        if piece.name:
            self._calls.append(piece)
        else:
            call = self._calls[piece.index]
            self._calls[piece.index] = replace(call, arguments=call.arguments + piece.arguments)

    @property
    def calls(self) -> list[tuple[str, str, str]]:
        """Of each id, name and arguments in JSON."""
        return [(call.id, call.name, call.arguments or "{}") for call in self._calls]


def _first_stamps(asked: Stamp, queue_s: float | None) -> tuple[Stamp, ...]:
    """Of the first piece, which has just come. queue_s: from `asked` to the first work."""
    queued_ns = round((queue_s or 0.0) * 1e9)
    started = replace(asked, monotonic_ns=asked.monotonic_ns + queued_ns)
    return started, Stamp.now("llm.first_finished")
