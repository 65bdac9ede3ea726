"""Visitors who talk at once, each in a session of his own, by OpenAI's Realtime protocol.

    python visitors.py URL ROUNDS APART_S WORD…

By OpenAI's Python SDK where this interpreter has it, else by plain WebSockets. Nothing of visavis
is imported: it is run with the interpreter of the clients. Each visitor types what has his own word
in it. Prints one JSON object: the client, and of each visitor what he heard and when.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import random
import sys
import time
from typing import Any

ASKS = ("Please say the word {}.", "What is a {}?", "Tell me something about a {}.")
_WITHIN_S = 120.0
_LATE_S = 1.0
_HAS_SDK = importlib.util.find_spec("openai") is not None


class Visitor:
    """One connection and all that it heard."""

    def __init__(self, word: str) -> None:
        self.word = word
        self.heard: list[tuple[float, dict[str, Any]]] = []
        self.asked_s: list[float] = []
        self.fault = ""
        self._connection: Any = None
        self._manager: Any = None

    async def connect(self, url: str) -> None:
        try:
            if _HAS_SDK:
                from openai import AsyncOpenAI  # type: ignore[import-not-found,unused-ignore]

                client = AsyncOpenAI(base_url=f"{url}/v1", api_key="anything")
                self._manager = client.realtime.connect(model="gpt-realtime")
            else:
                import websockets

                address = f"ws{url.removeprefix('http')}/v1/realtime?model=gpt-realtime"
                self._manager = websockets.connect(
                    address, proxy=None, compression=None, max_size=None
                )
            self._connection = await self._manager.__aenter__()
            await self._until("session.created")
        except Exception as error:
            self.fault = self.fault or f"{type(error).__name__}: {error}"[:200]

    async def ask(self, text: str, after_s: float) -> None:
        """Type it, and hear the answer to its end."""
        if self.fault:
            return
        await asyncio.sleep(after_s)
        content = [{"type": "input_text", "text": text}]
        item = {"type": "message", "role": "user", "content": content}
        try:
            self.asked_s.append(time.monotonic())
            await self._say({"type": "conversation.item.create", "item": item})
            await self._say({"type": "response.create"})
            async with asyncio.timeout(_WITHIN_S):
                await self._until("response.done")
        except Exception as error:
            self.fault = f"{type(error).__name__}: {error}"[:200]

    async def leave(self) -> None:
        """Hear what comes late, and go."""
        if not self.fault:
            try:
                async with asyncio.timeout(_LATE_S):
                    await self._until("")
            except TimeoutError:
                pass
        if self._connection is not None:
            await self._manager.__aexit__(None, None, None)

    async def _say(self, event: dict[str, Any]) -> None:
        await self._connection.send(event if _HAS_SDK else json.dumps(event))

    async def _until(self, kind: str) -> None:
        while True:
            told = await self._connection.recv()
            event = told.to_dict(mode="json") if _HAS_SDK else json.loads(told)
            self.heard.append((time.monotonic(), event))
            if event["type"] == "error":
                self.fault = f"{event['error'].get('code')}: {event['error'].get('message')}"
                raise RuntimeError(self.fault)
            if event["type"] == kind:
                return


async def main(url: str, rounds: int, apart_s: float, words: list[str]) -> None:
    dice = random.Random(1)
    visitors = [Visitor(word) for word in words]
    await asyncio.gather(*(visitor.connect(url) for visitor in visitors))
    for number in range(rounds):
        text = ASKS[number % len(ASKS)]
        await asyncio.gather(
            *(v.ask(text.format(v.word), dice.uniform(0, apart_s)) for v in visitors)
        )
    await asyncio.gather(*(visitor.leave() for visitor in visitors))
    told = [
        {"word": v.word, "heard": v.heard, "asked_s": v.asked_s, "fault": v.fault} for v in visitors
    ]
    client = "websockets"
    if _HAS_SDK:
        import openai  # type: ignore[import-not-found,unused-ignore]

        client = f"openai {openai.__version__}"
    json.dump({"client": client, "visitors": told}, sys.stdout)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4:]))
