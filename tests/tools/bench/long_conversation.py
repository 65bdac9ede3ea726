"""What one long conversation has the language model read anew, question by question:

    python -m tests.tools.bench.long_conversation MODEL.gguf --questions 110 --seed 2

All questions of `conversations.toml`, English and Mandarin mixed, in an order by the seed and from
the beginning again where they end. Each is answered as the llm service does it, by the history as
the gateway tells it, which is then read ahead, as it is when an answer has been heard. Nothing else
runs: first text is the model's own share of a wait. Whatever takes longer than --slow-s is told.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gateway.talk.actions import Message
from gateway.talk.history import History
from services.llm.backends.base import ChatMessage
from services.llm.backends.llamacpp import LlamaCppBackend
from services.llm.generator import AnswerRequest, Generator
from services.llm.prompt import Beginning
from services.llm.settings import LlmSettings
from tests.tools.bench.conversations import conversations
from visavis.wire.clock import MonotonicClock

_SLOT = 0


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("--questions", type=int, default=110)
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--slow-s", type=float, default=1.5)
    wanted = parser.parse_args()
    settings = LlmSettings.model_validate({})
    backend = LlamaCppBackend(
        wanted.model, model="m", slots=2, context_tokens=settings.context_tokens
    )
    await backend.load()
    talk = _Talk(Generator(backend, settings.defaults(), MonotonicClock()), wanted.seed)
    try:
        for number, question in enumerate(_questions(wanted.questions, wanted.seed), 1):
            first_s, ahead_s = await talk.ask(question)
            if max(first_s, ahead_s) > wanted.slow_s:
                print(f"{number}: {first_s:.2f} s, read ahead in {ahead_s:.2f} s: {question}")  # noqa: T201
    finally:
        await backend.close()
    for name, values in talk.figures.items():
        middle, late = np.percentile(values, (50, 95))
        print(f"{name}: P50 {middle:.2f}, P95 {late:.2f}, most {max(values):.2f}")  # noqa: T201


def _questions(count: int, seed: int) -> list[str]:
    asked = [question for one in conversations() for question, _ in one["turns"]]
    random.Random(seed).shuffle(asked)
    return [asked[at % len(asked)] for at in range(count)]


class _Talk:
    """One conversation in one slot. figures: by name, of all questions so far."""

    def __init__(self, generator: Generator, seed: int) -> None:
        self._generator = generator
        self._seed = seed
        self._history = History("")
        self._beginning = Beginning()
        self.figures: dict[str, list[float]] = {
            "first text, s": [],
            "tokens unread at the question": [],
            "read ahead behind the answer, s": [],
        }

    async def ask(self, question: str) -> tuple[float, float]:
        """Seconds to the first text of the answer, and in which what followed was read ahead."""
        began_s, first_s, text = time.perf_counter(), 0.0, ""
        answer = self._generator.answer(self._request(self._history.prompt(question)), _SLOT)
        async for piece in answer.pieces:
            if isinstance(piece, str):
                first_s = first_s or time.perf_counter() - began_s
                text += piece
        self._history.visitor(question)
        self._history.face(text)
        began_s = time.perf_counter()
        place = self._generator.place_ahead(_SLOT)
        await self._generator.read_ahead(self._request(self._history.prompt(".")), place)
        ahead_s = time.perf_counter() - began_s
        unread = answer.ledger.prompt_tokens - answer.ledger.cached_tokens
        for values, value in zip(self.figures.values(), (first_s, unread, ahead_s), strict=True):
            values.append(value)
        return first_s, ahead_s

    def _request(self, messages: Sequence[Message]) -> AnswerRequest:
        told = tuple(ChatMessage(message.role, message.content) for message in messages)
        return AnswerRequest(
            told, seed=self._seed, spoken=True, session="bench", beginning=self._beginning
        )


if __name__ == "__main__":
    asyncio.run(main())
