"""OpenAI's own Python SDK over its Realtime protocol, as its users write it. Nothing of visavis is
imported.

Run with an interpreter that has `openai[realtime]`: address of the gateway, a wav at 24 kHz of a
question. Prints what was heard as one JSON object: for each part all events.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
import wave
from typing import Any

from openai import AsyncOpenAI, OpenAI
from openai.types.realtime import RealtimeServerEvent

WEATHER: Any = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather of a city now.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}
PIECE_BYTES = 960


def typed(text: str) -> Any:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


class Heard:
    """All events of one connection."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.events: list[dict[str, Any]] = []

    async def until(self, kind: str) -> Any:
        while True:
            event: RealtimeServerEvent = await self._connection.recv()
            self.events.append(event.to_dict(mode="json"))
            if event.type == kind:
                return event


async def text(client: AsyncOpenAI, question: bytes) -> list[Any]:
    async with client.realtime.connect(model="gpt-realtime") as connection:
        heard = Heard(connection)
        await heard.until("session.created")
        await connection.session.update(
            session={"type": "realtime", "output_modalities": ["text"], "max_output_tokens": 12}
        )
        await heard.until("session.updated")
        await connection.conversation.item.create(item=typed("What is the capital of France?"))
        await connection.response.create()
        await heard.until("response.done")
        await connection.response.create(
            response={
                "conversation": "none",
                "metadata": {"topic": "apart"},
                "output_modalities": ["text"],
                "input": [typed("Say yes.")],
                "max_output_tokens": 4,
            }
        )
        await heard.until("response.done")
        await connection.response.cancel()
        await heard.until("error")
        return heard.events


async def spoken(client: AsyncOpenAI, question: bytes) -> list[Any]:
    """A question aloud, in real time, and its answer; what was heard of it is cut."""
    async with client.realtime.connect(model="gpt-realtime") as connection:
        heard = Heard(connection)
        await heard.until("session.created")
        await connection.session.update(
            session={
                "type": "realtime",
                "instructions": "You are kind and brief.",
                "audio": {
                    "input": {
                        "format": {"type": "audio/pcm", "rate": 24000},
                        "transcription": {"model": "whisper-1", "language": "en"},
                        "turn_detection": {"type": "semantic_vad"},
                    },
                    "output": {"voice": "marin"},
                },
            }
        )
        await heard.until("session.updated")
        sound = question + bytes(2 * 24_000)

        async def speak() -> None:
            for at in range(0, len(sound), PIECE_BYTES):
                piece = base64.b64encode(sound[at : at + PIECE_BYTES]).decode()
                await connection.input_audio_buffer.append(audio=piece)
                await asyncio.sleep(0.02)

        speaking = asyncio.create_task(speak())
        done = await heard.until("response.done")
        await speaking
        (item,) = done.response.output
        await connection.conversation.item.truncate(
            item_id=item.id, content_index=0, audio_end_ms=300
        )
        await heard.until("conversation.item.truncated")
        await connection.conversation.item.retrieve(item_id=item.id)
        await heard.until("conversation.item.retrieved")
        return heard.events


async def tool(client: AsyncOpenAI, question: bytes) -> list[Any]:
    """A tool is called, and what it has told is spoken, in telephone sound."""
    async with client.realtime.connect(model="gpt-realtime") as connection:
        heard = Heard(connection)
        await heard.until("session.created")
        await connection.session.update(
            session={
                "type": "realtime",
                "tools": [WEATHER],
                "tool_choice": "required",
                "audio": {"output": {"format": {"type": "audio/pcmu"}}},
            }
        )
        await heard.until("session.updated")
        await connection.conversation.item.create(item=typed("How is the weather in Rome?"))
        # The test's stack answers in few words.
        await connection.response.create(response={"max_output_tokens": 80})
        done = await heard.until("response.done")
        (called,) = done.response.output
        await connection.conversation.item.create(
            item={"type": "function_call_output", "call_id": called.call_id, "output": "sunny"}
        )
        await connection.response.create(response={"tool_choice": "none"})
        await heard.until("response.done")
        return heard.events


async def transcription(client: AsyncOpenAI, question: bytes) -> list[Any]:
    extra: Any = {"intent": "transcription"}
    async with client.realtime.connect(model="gpt-4o-transcribe", extra_query=extra) as connection:
        heard = Heard(connection)
        await heard.until("session.created")
        await connection.session.update(
            session={
                "type": "transcription",
                "audio": {"input": {"transcription": {"model": "whisper-1", "language": "en"}}},
            }
        )
        await heard.until("session.updated")
        sound = base64.b64encode(question + bytes(2 * 24_000 * 2)).decode()
        await connection.input_audio_buffer.append(audio=sound)
        await heard.until("conversation.item.input_audio_transcription.completed")
        return heard.events


async def main(url: str, path: str) -> None:
    with wave.open(path) as file:
        assert file.getframerate() == 24_000
        question = file.readframes(file.getnframes())
    secret = OpenAI(base_url=f"{url}/v1", api_key="x").realtime.client_secrets.create(
        session={"type": "realtime", "instructions": "Be kind."}
    )
    client = AsyncOpenAI(base_url=f"{url}/v1", api_key=secret.value)
    seen = {part.__name__: await part(client, question) for part in PARTS}
    json.dump(seen, sys.stdout)


PARTS = (text, spoken, tool, transcription)

if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
