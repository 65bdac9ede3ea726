"""A backend that says what a test tells it, when the test lets it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from services.llm.backends.base import BackendRequest, Delta
from services.llm.generator import Defaults

DEFAULTS = Defaults(
    persona="Be kind.",
    chinese_note="说中文。",
    max_tokens=50,
    temperature=0.5,
    top_p=0.9,
    repeat_penalty=1.0,
)


class FakeBackend:
    """Answers every request with `deltas`; `hang` makes it wait for ever after them."""

    name = "fake"
    model = "fake-model"
    file = "fake-model-q4.gguf"

    def __init__(
        self,
        *deltas: Delta | BaseException,
        slots: int = 2,
        context_tokens: int = 400,
        hang: bool = False,
        keeps_prefix: bool = False,
    ) -> None:
        self.deltas = deltas
        self.slots = slots
        self.context_tokens = context_tokens
        self.hang = hang
        self.keeps_prefix = keeps_prefix
        self.device = "cpu"
        self.in_turn = True
        self.resumes = False
        self.requests: list[BackendRequest] = []
        self.at_work: set[int] = set()
        self.counted = 0
        self.freed = asyncio.Event()
        self.loaded = False

    async def load(self) -> None:
        self.loaded = True

    async def stream(self, request: BackendRequest) -> AsyncGenerator[Delta, None]:
        assert request.slot not in self.at_work, "two requests at once in one slot"
        self.requests.append(request)
        self.at_work.add(request.slot)
        self.freed.clear()
        try:
            for delta in self.deltas:
                if isinstance(delta, BaseException):
                    raise delta
                yield delta
                await asyncio.sleep(0)
            if self.hang:
                await asyncio.Event().wait()
        finally:
            self.at_work.discard(request.slot)
            self.freed.set()

    def count_tokens(self, text: str) -> int:
        self.counted += 1
        return len(text.split())

    async def close(self) -> None:
        self.loaded = False


def words(text: str, *, finish_reason: str = "stop", prompt_tokens: int = 10) -> list[Delta]:
    """Deltas of an answer as llama.cpp sends them: a beginning, words, the end, the usage."""
    pieces = text.split(" ")
    spaced = [pieces[0], *(f" {piece}" for piece in pieces[1:])]
    return [
        Delta(),
        *(Delta(piece) for piece in spaced),
        Delta(finish_reason=finish_reason),
        Delta(prompt_tokens=prompt_tokens, completion_tokens=len(pieces)),
    ]
