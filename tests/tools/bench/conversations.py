"""How often a language model says in a conversation what it has said before, and how often right:

    python -m tests.tools.bench.conversations MODEL.gguf --half held --rounds 2
    python -m tests.tools.bench.conversations MODEL.gguf --half held --rounds 2 --as-said

The conversations of `conversations.toml`, ten questions each, answered by the embedded backend as
it is by default, each answer by the history as the gateway tells it; with --as-said by all that was
said as it was said. Each round has another seed. *Said before*: an answer that says the same as an
earlier one of its conversation (`gateway.talk.words.says_the_same`), where nobody wants it again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gateway.talk.actions import Message
from gateway.talk.history import History
from gateway.talk.words import says_the_same
from services.llm.backends.base import BackendRequest, ChatMessage, Sampling
from services.llm.backends.llamacpp import LlamaCppBackend
from services.llm.loop_guard import LoopGuard
from services.llm.prompt import asks_in_chinese
from services.llm.settings import PERSONA, LlmSettings

_SETS = Path(__file__).with_suffix(".toml")
_SLOTS = 4
_LONGEST_TOKENS = 100


@dataclass(frozen=True)
class Answer:
    """One of a conversation."""

    question: str
    text: str
    right: bool | None
    """None: any answer may be."""
    said_before: bool


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("--half", choices=("tune", "held", "mandarin"), default="held")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--as-said", action="store_true")
    parser.add_argument("--persona", default=PERSONA)
    parser.add_argument("--json", type=Path, help="where all answers are written")
    wanted = parser.parse_args()
    asked = [one for one in conversations() if one["half"] == wanted.half]
    backend = LlamaCppBackend(wanted.model, model="m", slots=_SLOTS, context_tokens=2048)
    await backend.load()
    answers: list[list[Answer]] = []
    for seed in range(wanted.rounds):
        talks = (_talk(backend, one, at % _SLOTS, seed, wanted) for at, one in enumerate(asked))
        answers += await asyncio.gather(*talks)
    await backend.close()
    every = [answer for conversation in answers for answer in conversation]
    checked = [answer.right for answer in every if answer.right is not None]
    print(  # noqa: T201
        f"{len(every)} answers; said before: {sum(answer.said_before for answer in every)}; "
        f"right: {sum(checked)} of {len(checked)}"
    )
    if wanted.json:
        rows = [[vars(answer) for answer in conversation] for conversation in answers]
        wanted.json.write_text(json.dumps(rows, ensure_ascii=False, indent=1), "utf-8")


def conversations() -> list[dict[str, Any]]:
    """All of the file: `half`, `turns` (a question, the pattern of a right answer or ""), `again`
    where answers may be given again.
    """
    told: list[dict[str, Any]] = tomllib.loads(_SETS.read_text("utf-8"))["conversation"]
    return told


async def _talk(
    backend: LlamaCppBackend, asked: dict[str, Any], slot: int, seed: int, wanted: Any
) -> list[Answer]:
    """One conversation, question by question."""
    history, answers = History(wanted.persona), list[Answer]()
    for question, pattern in asked["turns"]:
        said = (*history.said, Message("user", question))
        messages = history.prompt(question)
        if wanted.as_said:
            messages = (Message("system", wanted.persona), *said)
        text = await _answer(backend, messages, slot, seed, session=str(asked["turns"]))
        before = not asked.get("again") and any(says_the_same(a.text, text) for a in answers)
        right = re.search(pattern, text, re.IGNORECASE | re.DOTALL) is not None
        answers.append(Answer(question, text, right if pattern else None, before))
        history.visitor(question)
        history.face(text)
    return answers


async def _answer(
    backend: LlamaCppBackend, messages: Sequence[Message], slot: int, seed: int, *, session: str
) -> str:
    told = tuple(ChatMessage(message.role, message.content) for message in messages)
    defaults = replace(LlmSettings.model_validate({}).defaults(), persona=told[0].content)
    told = (
        ChatMessage("system", defaults.persona_for(in_chinese=asks_in_chinese(told))),
        *told[1:],
    )
    sampling = Sampling(_LONGEST_TOKENS, defaults.temperature, defaults.top_p, seed=seed)
    text, guard = "", LoopGuard()
    async for delta in backend.stream(BackendRequest(told, sampling, slot, session=session)):
        text += guard.feed(delta.text)
        if guard.looping:
            break
    return text.strip()


if __name__ == "__main__":
    asyncio.run(main())
