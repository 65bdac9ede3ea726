"""A conversation to an answer: the whole path from request to clean text pieces."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from services.llm.answer_text import CleanText, SoFar
from services.llm.backends.base import (
    BackendRequest,
    ChatMessage,
    Delta,
    Sampling,
    TextBackend,
    ToolCallDelta,
    Tools,
)
from services.llm.blocks import SaidOrShown, Shown
from services.llm.gate import Gate, Order, Place
from services.llm.passages import MOST_CHARS, MOST_PASSAGES, Passage
from services.llm.prompt import (
    Beginning,
    asks_in_chinese,
    build_prompt,
    changes_language,
    fits_surely,
    told_its_language,
)
from services.llm.tools import CallPieces, check_calls, check_tools
from visavis.serving import metrics
from visavis.serving.errors import InvalidInputError
from visavis.wire.clock import Clock

MAX_TOKENS = 2048
MAX_TEMPERATURE = 2.0
MAX_STOPS = 8
MAX_STOP_CHARS = 128
MAX_SO_FAR_CHARS = 32_768
TOOLS_TOKENS = 150
"""What chat templates write around the tools: how a call looks."""
_TOOLS_SHARE = 0.6
_LAST_SENTENCE_SHARE = 1 / 4
"""So much longer a spoken answer may be for the end of its sentence, unless it says how long."""
CALL_TOKENS = 320
"""Of a spoken answer that may call tools, unless it says how long it may be: a short answer may
need a long call."""

Piece: TypeAlias = SaidOrShown | ToolCallDelta
"""Of an answer: text, or a part of a call; of a spoken one also what is shown instead."""


@dataclass(frozen=True, slots=True)
class Defaults:
    """What a request that does not say gets."""

    persona: str
    chinese_note: str
    """Follows the persona where the visitor's question is in Chinese."""
    max_tokens: int
    temperature: float
    top_p: float
    repeat_penalty: float

    def persona_for(self, *, in_chinese: bool) -> str:
        """One beginning for both languages, so that a slot has read it already."""
        if self.chinese_note and in_chinese:
            return f"{self.persona}\n{self.chinese_note}".strip()
        return self.persona


@dataclass(frozen=True, slots=True)
class AnswerRequest:
    """A conversation, and how it is to be answered.

    `max_tokens` 0, `temperature` and `top_p` None: the defaults. `spoken`: the answer goes to a
    voice; markdown is taken out of it, and what is shown is parted from it. `held`: it may yet be
    thrown away.
    """

    messages: tuple[ChatMessage, ...]
    max_tokens: int = 0
    temperature: float | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    top_p: float | None = None
    tools: Tools | None = None
    spoken: bool = False
    held: bool = False
    passages: tuple[Passage, ...] = ()
    """What is known of the question, the best first."""
    session: str = ""
    """Whose conversation it is; "": that of nobody who comes back."""
    beginning: Beginning | None = field(default=None, compare=False)
    """Of the prompts of this conversation; None: there were none."""
    so_far: str = ""
    """Of the answer, which goes on behind it: whoever asks has it already."""

    def check(self) -> None:
        """Raises InvalidInputError naming the field that is out of bounds."""
        if not 0 <= self.max_tokens <= MAX_TOKENS:
            raise InvalidInputError(
                f"max_tokens: {self.max_tokens} is not between 1 and {MAX_TOKENS}"
            )
        if self.temperature is not None and not 0 <= self.temperature <= MAX_TEMPERATURE:
            raise InvalidInputError(
                f"temperature: {self.temperature:g} is not between 0 and {MAX_TEMPERATURE:g}"
            )
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise InvalidInputError(f"top_p: {self.top_p:g} is not above 0, to 1")
        if len(self.so_far) > MAX_SO_FAR_CHARS:
            raise InvalidInputError(
                f"so_far: {len(self.so_far)} characters, at most {MAX_SO_FAR_CHARS}"
            )
        check_calls(self.messages)
        if self.tools is not None:
            check_tools(self.tools)
        if len(self.passages) > MOST_PASSAGES:
            raise InvalidInputError(f"passages: {len(self.passages)}, at most {MOST_PASSAGES}")
        if any(len(passage.text) > MOST_CHARS for passage in self.passages):
            raise InvalidInputError(f"passages: one has more than {MOST_CHARS} characters")
        if len(self.stop) > MAX_STOPS:
            raise InvalidInputError(f"stop: {len(self.stop)} strings, at most {MAX_STOPS}")
        for index, stop in enumerate(self.stop):
            if not 1 <= len(stop) <= MAX_STOP_CHARS:
                raise InvalidInputError(
                    f"stop[{index}]: {len(stop)} characters is not between 1 and {MAX_STOP_CHARS}"
                )


@dataclass(slots=True)
class Ledger:
    """What one answer took, or what was left of it.

    Seconds count from the request; tokens are the backend's. None: it did not come to that.
    """

    queue_s: float | None = None
    first_token_s: float | None = None
    total_s: float = 0.0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    finish_reason: str = ""

    def seconds(self) -> dict[str, float]:
        """For TurnFinished: stage to seconds since the request."""
        steps = {"queue": self.queue_s, "first_token": self.first_token_s, "generate": self.total_s}
        return {name: seconds for name, seconds in steps.items() if seconds is not None}

    def observe(self) -> None:
        """Count this answer in the service's metrics. Call it once, when the answer is over."""
        if self.queue_s is not None:
            metrics.llm_queue_seconds.observe(self.queue_s, metrics.exemplar())
        if self.first_token_s is not None:
            metrics.llm_ttft_seconds.observe(self.first_token_s, metrics.exemplar())
        metrics.llm_tokens.labels("read").inc(max(0, self.prompt_tokens - self.cached_tokens))
        metrics.llm_tokens.labels("written").inc(self.completion_tokens)


@dataclass(slots=True)
class Answer:
    """One answer being made: iterate `pieces`, then read the `ledger`.

    place: confirm it once somebody waits for an answer that was held. said, blocks: what the
    request's `so_far` has of them; blocks of `pieces` are counted from its first.
    """

    pieces: AsyncGenerator[Piece, None]
    place: Place
    said: str
    blocks: int
    ledger: Ledger = field(default_factory=Ledger)


class Generator:
    """Makes answers with one backend. It holds no state of any conversation."""

    def __init__(self, backend: TextBackend, defaults: Defaults, clock: Clock) -> None:
        self._backend = backend
        self._defaults = defaults
        self._clock = clock
        self._gate = Gate(clock, in_turn=backend.in_turn, resumes=backend.resumes)
        self.in_turn = backend.in_turn
        """As its backend's: requests slow each other down."""

    def answer(self, request: AnswerRequest, slot: int) -> Answer:
        """Text pieces that are never empty. Closing them stops the work and frees the slot.

        Raises InvalidInputError at once for values out of bounds; the pieces raise it for a
        conversation that is not one, and what the backend raises.
        """
        request.check()
        ledger = Ledger()
        order = Order.HELD if request.held else Order.ANSWER
        # One that may call tools is written in one go: a call cannot go on from its middle.
        rests = request.spoken and request.tools is None
        # What is so far is no voice in hand: how much of it was spoken is not known here.
        place = self._gate.place(order, slot, spoken=rests)
        so_far = _so_far(request)
        pieces = self._pieces(request, so_far, place, ledger)
        return Answer(pieces, place, so_far.said, so_far.blocks, ledger)

    @property
    def backend(self) -> TextBackend:
        """Who computes."""
        return self._backend

    async def read_persona(self, place: Place) -> None:
        """Let the slot read the persona, so that the first question need not wait for it.

        place: from `place_ahead`. Answers of others, and those that are prepared, go before it.
        """
        if not self._backend.keeps_prefix or not self._defaults.persona:
            return
        hello = AnswerRequest((ChatMessage("user", "."),), max_tokens=1)
        async for _ in self._pieces(hello, _so_far(hello), place, Ledger()):
            pass

    def place_ahead(self, slot: int) -> Place:
        """For `read_ahead` or `read_persona` in this slot: give it up where an answer is wanted."""
        return self._gate.place(Order.AHEAD, slot)

    async def read_ahead(self, request: AnswerRequest, place: Place) -> None:
        """Let the slot read a conversation whose last message is not complete yet.

        Raises what an answer to `request` would raise.
        """
        if not self._backend.keeps_prefix:
            return
        request.check()
        planned = await self._plan(request, place.slot, complete=False)
        reading = replace(planned, sampling=replace(planned.sampling, max_tokens=0))

        taken = self._gate.deltas(place, lambda *_: self._backend.stream(reading))
        async with contextlib.aclosing(taken) as deltas:
            async for _ in deltas:
                pass

    async def _pieces(
        self, request: AnswerRequest, so_far: SoFar, place: Place, ledger: Ledger
    ) -> AsyncGenerator[Piece, None]:
        started = self._clock.now()
        text = _clean_text(request)
        so_far.pass_through(text)
        taken = await self._tokens_in(so_far.written)
        most_tokens = self._most_tokens(request) - taken
        over_tokens = most_tokens + self._last_sentence_tokens(request)
        if text.ended or over_tokens < 1:
            ledger.finish_reason = "stop" if text.ended else "length"
            return
        backend_request = await self._plan(request, place.slot, so_far.written, taken)
        calls = CallPieces()
        may_be_longer = backend_request.sampling.max_tokens > most_tokens
        may_call, tokens = _may_call(request), 0
        try:
            made = self._gate.deltas(place, functools.partial(self._go_on, backend_request))
            async with contextlib.aclosing(made) as deltas:
                async for delta in deltas:
                    self._note(ledger, delta, started)
                    for piece in so_far.behind(text.feed(delta.text)):
                        if isinstance(piece, Shown):
                            place.showed(piece.text)
                        yield piece
                    # Here, of a whole answer of which so many were there.
                    came = tokens + bool(delta.text or delta.tool_calls)
                    tokens = max(came, delta.completion_tokens - taken)
                    longer = tokens > most_tokens
                    if text.ended:
                        ledger.finish_reason = "length" if longer else "stop"
                        break
                    # Some servers let a model call that was told not to: for ever, then.
                    for call in calls.feed(delta.tool_calls if may_call else ()):
                        yield call
                    if longer and may_be_longer and not calls.any:
                        if tokens > over_tokens:
                            ledger.finish_reason = "length"
                            break  # where only calls may be longer
                        text.close()
            for piece in so_far.behind(text.finish()):
                yield piece
            if ledger.finish_reason in ("", "stop", "tool_calls"):
                # Of a call that had to be made, some servers say that it is an ordinary end.
                ledger.finish_reason = "tool_calls" if calls.any else "stop"
        finally:
            ledger.total_s = self._clock.now() - started

    async def _go_on(
        self, request: BackendRequest, written: str, tokens: int
    ) -> AsyncGenerator[Delta, None]:
        """The answer to `request`, or what is left of it; counted as a whole."""
        left = max(1, request.sampling.max_tokens - tokens)
        rest = replace(
            request,
            sampling=replace(request.sampling, max_tokens=left),
            written=request.written + written,
        )
        async with contextlib.aclosing(self._backend.stream(rest)) as deltas:
            async for delta in deltas:
                if tokens and delta.completion_tokens:
                    read = delta.prompt_tokens - tokens
                    delta = replace(
                        delta,
                        prompt_tokens=read,
                        # Of the prompt alone, as far as is known: what was written was not read.
                        cached_tokens=max(0, min(read, delta.cached_tokens - tokens)),
                        completion_tokens=delta.completion_tokens + tokens,
                    )
                yield delta

    def _note(self, ledger: Ledger, delta: Delta, started: float) -> None:
        elapsed = self._clock.now() - started
        if ledger.queue_s is None:
            ledger.queue_s = elapsed
        if delta.text or delta.tool_calls:
            if ledger.first_token_s is None:
                ledger.first_token_s = elapsed
            # Until the backend says how many there were, each delta counts as one.
            ledger.completion_tokens += 1
        if delta.completion_tokens:
            ledger.completion_tokens = delta.completion_tokens
            ledger.prompt_tokens = delta.prompt_tokens
            ledger.cached_tokens = delta.cached_tokens
        ledger.finish_reason = delta.finish_reason or ledger.finish_reason

    async def _tokens_in(self, text: str) -> int:
        return await asyncio.to_thread(self._backend.count_tokens, text) if text else 0

    async def _plan(
        self,
        request: AnswerRequest,
        slot: int,
        written: str = "",
        taken: int = 0,
        *,
        complete: bool = True,
    ) -> BackendRequest:
        """written: of the answer; it took so many tokens of those that it may have. complete:
        whether the question is.
        """
        defaults = self._defaults
        context = self._backend.context_tokens
        max_tokens = self._most_tokens(request) + self._last_sentence_tokens(request)
        if request.spoken and not request.max_tokens and _may_call(request):
            max_tokens = min(max(max_tokens, CALL_TOKENS), context // 2)
        temperature = defaults.temperature if request.temperature is None else request.temperature
        room = context - max_tokens
        if request.tools is not None:
            room -= await self._cost_of(request.tools, room)
        return BackendRequest(
            await self._prompt(request, room, complete=complete),
            Sampling(
                max_tokens=max_tokens - taken,
                temperature=temperature,
                top_p=defaults.top_p if request.top_p is None else request.top_p,
                repeat_penalty=defaults.repeat_penalty,
                seed=request.seed,
            ),
            slot,
            written,
            tools=request.tools,
            session=request.session,
            in_words=_only_words(request),
        )

    def _most_tokens(self, request: AnswerRequest) -> int:
        """Of text. At least half of the context stays for the conversation."""
        wanted = request.max_tokens or self._defaults.max_tokens
        return min(wanted, self._backend.context_tokens // 2)

    def _last_sentence_tokens(self, request: AnswerRequest) -> int:
        says_how_long = request.max_tokens > 0 or not request.spoken
        return 0 if says_how_long else int(self._most_tokens(request) * _LAST_SENTENCE_SHARE)

    async def _cost_of(self, tools: Tools, room_tokens: int) -> int:
        """Tokens of the prompt. Raises InvalidInputError where they leave too few for the rest."""
        told = json.dumps([tool.as_openai() for tool in tools.known], ensure_ascii=False)
        tokens = TOOLS_TOKENS + await self._tokens_in(told)
        if tokens > room_tokens * _TOOLS_SHARE:
            raise InvalidInputError(
                f"tools: their definitions take {tokens} tokens of {room_tokens}, and at most "
                f"{int(room_tokens * _TOOLS_SHARE)} may be theirs; give fewer or shorter ones, or "
                "raise `context_tokens` of the llm service"
            )
        return tokens

    async def _prompt(
        self, request: AnswerRequest, budget_tokens: int, *, complete: bool
    ) -> tuple[ChatMessage, ...]:
        messages, defaults = request.messages, self._defaults
        in_chinese, beginning = asks_in_chinese(messages), request.beginning
        began_so = in_chinese if beginning is None else beginning.in_chinese(messages)
        persona = defaults.persona_for(in_chinese=began_so)
        told_who_it_is = bool(messages) and messages[0].role == "system"
        changed = in_chinese is not began_so or changes_language(messages, in_chinese=in_chinese)
        if complete and changed and defaults.chinese_note and not told_who_it_is:
            messages = told_its_language(messages, in_chinese=in_chinese)
        build = functools.partial(
            build_prompt,
            messages,
            persona=persona,
            budget_tokens=budget_tokens,
            passages=request.passages,
            beginning=beginning,
        )
        if not request.passages and fits_surely(messages, persona, budget_tokens):
            return build(count_tokens=_bytes_in)
        # Counting asks the backend, which may block.
        return await asyncio.to_thread(build, count_tokens=self._backend.count_tokens)


def _may_call(request: AnswerRequest) -> bool:
    return request.tools is not None and request.tools.calling != "none"


def _only_words(request: AnswerRequest) -> bool:
    """Whether it is said, and what it has called is all that it may call."""
    return request.spoken and request.messages[-1].role == "tool" and not _may_call(request)


def _clean_text(request: AnswerRequest) -> CleanText:
    tools = request.tools.known if request.tools else ()
    return CleanText(request.messages, tools, stop=request.stop, spoken=request.spoken)


def _so_far(request: AnswerRequest) -> SoFar:
    return SoFar(request.so_far, _clean_text(request))


def _bytes_in(text: str) -> int:
    return len(text.encode())
