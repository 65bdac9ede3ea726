"""OpenAI's own Python SDK against a gateway, as its users write it. Nothing of visavis is imported.

Run with an interpreter that has `openai`: address of the gateway, folder for the files. Prints what
was seen as one JSON object.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import openai
from openai import AsyncOpenAI, OpenAI

SPOKEN = "The museum opens at nine. Please take the stairs on the left, and mind the step."
FORMATS = ("mp3", "opus", "aac", "flac", "wav", "pcm")
WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city now.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}
ASKED: Any = [{"role": "user", "content": "How is the weather in Rome?"}]
NAMED: Any = {"type": "function", "function": {"name": "get_weather"}}
MOST_AT_ONCE = 40


def models(client: OpenAI, folder: Path) -> Any:
    try:
        client.models.retrieve("nobody/knows-it")
        missing = ""
    except openai.NotFoundError as error:
        missing = str(error.code)
    listed = [model.id for model in client.models.list()]
    return {"ids": listed, "one": client.models.retrieve("whisper-1").id, "missing": missing}


def chat(client: OpenAI, folder: Path) -> Any:
    asked: Any = {
        "model": "visavis",
        "messages": [
            {"role": "developer", "content": "You answer in one sentence."},
            {"role": "user", "content": "What is the capital of France?"},
        ],
        "max_tokens": 12,
        "temperature": 0,
        "seed": 1,
    }
    whole = client.chat.completions.create(**asked)
    chunks = list(
        client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True})
    )
    last = chunks[-1].usage
    word = (whole.choices[0].message.content or "").split()[1]
    stopped = client.chat.completions.create(**asked, stop=[word])
    return {
        "text": whole.choices[0].message.content,
        "finish_reason": whole.choices[0].finish_reason,
        "usage": whole.usage.model_dump() if whole.usage else None,
        "roles": next(c.choices[0].delta.role for c in chunks if c.choices),
        "streamed": "".join(c.choices[0].delta.content or "" for c in chunks if c.choices),
        "streamed_pieces": len(chunks),
        "streamed_usage": last.model_dump() if last else None,
        "stopped": stopped.choices[0].message.content,
        "stopped_before": word,
    }


def chat_async(client: OpenAI, folder: Path) -> Any:
    async def ask() -> str | None:
        async with AsyncOpenAI(base_url=client.base_url, api_key=client.api_key) as other:
            answer = await other.chat.completions.create(
                model="visavis", messages=[{"role": "user", "content": "Hello!"}], max_tokens=6
            )
        return answer.choices[0].message.content

    return asyncio.run(ask())


def tools(client: OpenAI, folder: Path) -> Any:
    asked: Any = {"model": "visavis", "tools": [WEATHER], "tool_choice": NAMED, "temperature": 0}
    first = client.chat.completions.create(messages=ASKED, **asked).choices[0]
    (call,) = first.message.tool_calls or ()
    pieces = [
        piece
        for chunk in client.chat.completions.create(messages=ASKED, stream=True, **asked)
        if chunk.choices
        for piece in chunk.choices[0].delta.tool_calls or ()
    ]
    result = {"role": "tool", "tool_call_id": call.id, "content": "18 degrees and sunny"}
    history: Any = [*ASKED, first.message, result]
    answer = client.chat.completions.create(
        model="visavis", messages=history, tools=[WEATHER], tool_choice="none", max_tokens=16
    )
    return {
        "finish_reason": first.finish_reason,
        "name": getattr(call, "function").name,  # noqa: B009
        "arguments": json.loads(getattr(call, "function").arguments),  # noqa: B009
        "streamed_name": pieces[0].function.name if pieces[0].function else None,
        "streamed_pieces": len(pieces),
        "streamed_arguments": json.loads(
            "".join(p.function.arguments or "" for p in pieces if p.function)
        ),
        "answer": answer.choices[0].message.content,
    }


def refusals(client: OpenAI, folder: Path) -> Any:
    seen = {}
    hello: Any = [{"role": "user", "content": "Hello"}]
    asked: dict[str, Callable[[], Any]] = {
        "n": lambda: client.chat.completions.create(model="visavis", messages=hello, n=3),
        "model": lambda: client.chat.completions.create(model="gpt-9", messages=hello),
        "voice": lambda: client.audio.speech.create(model="tts-1", input="Hi.", voice="nobody"),
        "file": lambda: client.audio.transcriptions.create(
            model="whisper-1", file=("a.wav", b"no sound")
        ),
    }
    for name, ask in asked.items():
        try:
            ask()
        except openai.APIStatusError as error:
            seen[name] = [type(error).__name__, error.param, error.code, bool(error.request_id)]
    return seen


def full(client: OpenAI, folder: Path) -> Any:
    """Streams are opened until there is no room. Who then waits, as the SDK does by itself, is
    answered once they are closed.
    """
    hasty = client.with_options(max_retries=0)
    story: Any = [{"role": "user", "content": "Tell me a very long story about a dragon."}]
    streams, refused = [], None
    while refused is None and len(streams) < MOST_AT_ONCE:
        try:
            streams.append(
                hasty.chat.completions.create(
                    model="visavis", messages=story, stream=True, max_tokens=2000
                )
            )
        except openai.RateLimitError as error:
            refused = {"code": error.code, "retry_after": error.response.headers["retry-after"]}
    hello: Any = [{"role": "user", "content": "Hello!"}]
    retrying = client.with_options(max_retries=4)
    with ThreadPoolExecutor() as threads:
        asked = time.monotonic()
        waiting = threads.submit(
            retrying.chat.completions.create, model="visavis", messages=hello, max_tokens=4
        )
        time.sleep(0.5)
        early = waiting.done()
        for stream in streams:
            stream.close()
        answer = waiting.result()
    return {
        "streams": len(streams),
        "refused": refused,
        "waited": not early,
        "then": answer.choices[0].finish_reason,
        "then_s": round(time.monotonic() - asked, 3),
    }


def speech(client: OpenAI, folder: Path) -> Any:
    seen = {}
    for form in FORMATS:
        started, first = time.monotonic(), None
        content = b""
        asking = client.audio.speech.with_streaming_response.create(
            model="tts-1", input=SPOKEN, voice="alloy", response_format=form
        )
        with asking as answer:
            for piece in answer.iter_bytes():
                first = first or time.monotonic() - started
                content += piece
            kind = answer.headers["content-type"]
        (folder / f"speech.{form}").write_bytes(content)
        seen[form] = [kind, round(first or 0, 3), round(time.monotonic() - started, 3)]
    return seen


def speech_events(client: OpenAI, folder: Path) -> Any:
    content, kinds = b"", []
    asking = client.audio.speech.with_streaming_response.create(
        model="gpt-4o-mini-tts",
        input=SPOKEN,
        voice="coral",
        response_format="wav",
        stream_format="sse",
    )
    with asking as answer:
        for line in answer.iter_lines():
            if line.startswith("data: "):
                told = json.loads(line.removeprefix("data: "))
                kinds.append(told["type"])
                content += base64.b64decode(told.get("audio", ""))
    (folder / "events.wav").write_bytes(content)
    return kinds


def transcriptions(client: OpenAI, folder: Path) -> Any:
    def asked(**more: Any) -> Any:
        with (folder / "speech.wav").open("rb") as file:
            answer = client.audio.transcriptions.create(model="whisper-1", file=file, **more)
            return list(answer) if more.get("stream") else answer

    verbose = asked(response_format="verbose_json", timestamp_granularities=["word", "segment"])
    events = asked(stream=True)
    return {
        "json": asked(language="en").text,
        "text": asked(response_format="text"),
        "srt": asked(response_format="srt"),
        "vtt": asked(response_format="vtt"),
        "duration": verbose.duration,
        "segments": [[s.start, s.end, s.text] for s in verbose.segments],
        "words": [[w.start, w.end, w.word] for w in verbose.words],
        "streamed": "".join(e.delta for e in events if e.type == "transcript.text.delta"),
        "streamed_done": events[-1].text,
    }


STEPS = (
    models,
    chat,
    chat_async,
    tools,
    refusals,
    full,
    speech,
    speech_events,
    transcriptions,
)


def main(address: str, folder: Path) -> None:
    seen: dict[str, Any] = {"version": openai.__version__}
    with OpenAI(base_url=f"{address}/v1", api_key="anything") as client:
        for step in STEPS:
            seen[step.__name__] = step(client, folder)
    sys.stdout.write(json.dumps(seen))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
