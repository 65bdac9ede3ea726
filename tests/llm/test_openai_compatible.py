"""The HTTP backend against a real server on a loopback port: answers, errors, cancel."""

import asyncio
import contextlib
import gzip
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from services.llm.backends import openai_compatible
from services.llm.backends.base import BackendRequest, ChatMessage, Delta, Sampling
from services.llm.backends.openai_compatible import OpenAiCompatibleBackend
from tests.llm.http_server import Exchange, HttpServer, Script
from visavis.serving.errors import (
    AtCapacityError,
    EngineError,
    EngineLoadError,
    InvalidInputError,
    SettingsError,
    VisavisError,
)

REQUEST = BackendRequest(
    (ChatMessage("system", "S"), ChatMessage("user", "你好")), Sampling(20, 0.5, 0.9, 1.1, 7), 0
)


def piece(text: str) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}


def end(reason: str = "stop") -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}


USAGE = {
    "choices": [],
    "usage": {
        "prompt_tokens": 9,
        "completion_tokens": 2,
        "prompt_tokens_details": {"cached_tokens": 4},
    },
}


def streaming(*events: dict[str, Any] | bytes) -> Script:
    async def script(exchange: Exchange) -> None:
        await exchange.begin_stream()
        for event in events:
            if isinstance(event, bytes):
                await exchange.send(event)
            else:
                await exchange.event(event)

    return script


def replying(status: int, body: bytes) -> Script:
    return lambda exchange: exchange.reply(status, body)


@contextlib.asynccontextmanager
async def pair(
    script: Script, **options: Any
) -> AsyncIterator[tuple[OpenAiCompatibleBackend, HttpServer]]:
    options = {"model": "m", "slots": 2, "context_tokens": 100, **options}
    async with HttpServer(script).running() as server:
        backend = OpenAiCompatibleBackend(server.url, **options)
        try:
            yield backend, server
        finally:
            await backend.close()


async def answer(
    backend: OpenAiCompatibleBackend, request: BackendRequest = REQUEST
) -> list[Delta]:
    return [delta async for delta in backend.stream(request)]


async def test_an_answer_streams_with_its_counts() -> None:
    script = streaming(
        {"choices": [{"delta": {"role": "assistant", "content": None}}]},
        piece("你"),
        b": ping\r\n\r\n",
        piece("好"),
        end("length"),
        USAGE,
        b"data: [DONE]\n\n",
    )
    # As out of a file.
    async with pair(script, api_key="secret\n") as (backend, server):
        deltas = await answer(backend)
    assert "".join(delta.text for delta in deltas) == "你好"
    assert [d.finish_reason for d in deltas if d.finish_reason] == ["length"]
    assert (deltas[-1].prompt_tokens, deltas[-1].completion_tokens) == (9, 2)
    assert deltas[-1].cached_tokens == 4
    asked = server.exchanges[0]
    assert asked.path == "/v1/chat/completions"
    assert asked.headers["authorization"] == "Bearer secret"
    assert asked.body == {
        "model": "m",
        "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "你好"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 20,
        "temperature": 0.5,
        "top_p": 0.9,
        "seed": 7,
    }


def refusing(*refused: str) -> Script:
    """As OpenAI's newer models: one unknown field is told at a time."""

    async def script(exchange: Exchange) -> None:
        name = next((name for name in refused if name in exchange.body), "")
        if not name:
            await streaming(piece("Hi"), end(), b"data: [DONE]\n\n")(exchange)
            return
        message = f"Unsupported parameter: '{name}' is not supported with this model."
        error = {"message": message, "param": name, "code": "unsupported_parameter"}
        await exchange.reply(400, json.dumps({"error": error}).encode())

    return script


async def test_what_a_model_does_not_know_is_left_out_and_not_sent_again() -> None:
    async with pair(refusing("max_tokens", "temperature")) as (backend, server):
        for _ in range(2):
            assert "".join(delta.text for delta in await answer(backend)) == "Hi"
    assert len(server.exchanges) == 4
    assert server.exchanges[-1].body["max_completion_tokens"] == 20
    assert {"top_p", "seed"} < server.exchanges[-1].body.keys()
    async with pair(refusing("max_tokens"), extra={"max_completion_tokens": 900}) as pieces:
        await answer(pieces[0])
    (asked,) = pieces[1].exchanges
    assert asked.body["max_completion_tokens"] == 900


async def test_an_answer_goes_on_where_the_server_can_and_never_begins_anew() -> None:
    begun = replace(REQUEST, written="Well,")
    async with pair(streaming(piece(" yes."), end())) as (backend, server):
        assert "".join(delta.text for delta in await answer(backend, begun)) == " yes."
        await answer(backend)
    body, plain = (exchange.body for exchange in server.exchanges)
    assert body["messages"][-1] == {"role": "assistant", "content": "Well,"}
    fields = {"continue_final_message": True, "add_generation_prompt": False}
    assert body == {**plain, "messages": body["messages"], **fields}
    unknown = b'{"error": {"message": "Unrecognized request argument: continue_final_message"}}'
    async with pair(replying(400, unknown)) as (backend, server):
        with pytest.raises(EngineError, match=r"cannot go on: .*Unrecognized"):
            await answer(backend, begun)
    async with pair(streaming(piece("Well, yes."), end()), goes_on=False) as (backend, server):
        with pytest.raises(EngineError, match=r"does not go on .*goes_on"):
            await answer(backend, begun)
    assert not server.exchanges


@pytest.mark.parametrize("refused", ["model", "messages"])
async def test_what_an_answer_needs_is_not_left_out(refused: str) -> None:
    async with pair(refusing(refused)) as (backend, server):
        with pytest.raises(InvalidInputError, match="Unsupported"):
            await answer(backend)
    assert len(server.exchanges) == 1


async def test_a_character_that_comes_in_two_halves_is_one_and_a_lone_half_is_none() -> None:
    def half(delta: bytes) -> bytes:
        return b'data: {"choices":[{"delta":' + delta + b"}]}\n\n"

    call = b'{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"%s"}}]}'
    script = streaming(
        *(half(b'{"content":"%s"}' % text) for text in (rb"a \ud83d", rb"\ude00", rb" \ude00b")),
        *(half(call % text) for text in (rb"{\"q\": \"\ud83d", rb"\ude00\"}")),
        end(),
    )
    async with pair(script) as (backend, _):
        deltas = await answer(backend)
    assert "".join(delta.text for delta in deltas) == "a 😀 \ufffdb"
    called = "".join(call.arguments for delta in deltas for call in delta.tool_calls)
    assert called == '{"q": "😀"}'


@pytest.mark.parametrize(
    ("status", "body", "error", "complaint"),
    [
        (401, b'{"error": {"message": "bad key"}}', EngineError, "401: bad key; check `api_key`"),
        (403, b"", EngineError, r"403: \(no message\); check `api_key`"),
        (404, b'{"error": "no such model"}', EngineError, "no such model; check `url` and `model`"),
        (429, b'{"error": {"message": "slow down"}}', AtCapacityError, "429: slow down"),
        (400, b'{"error": {"message": "too long"}}', InvalidInputError, "too long"),
        (500, b"<html>\n oops </html>", EngineError, "500: <html> oops </html>"),
        (503, b"x" * 1_000_000, EngineError, "503: x{300}$"),
        (
            400,
            b'{"object": "error", "message": "no such role", "type": "BadRequestError", '
            b'"param": null, "code": 400}',
            InvalidInputError,
            "400: no such role$",
        ),
        (
            422,
            b'{"detail": [{"loc": ["body", "top_p"], "msg": "too large"}, "odd"]}',
            InvalidInputError,
            r"422: body\.top_p: too large; odd$",
        ),
        (404, b'{"detail": "Not Found"}', EngineError, "404: Not Found; check"),
        (
            503,
            b'{"object": "error", "message": "The request queue is full.", "code": 503}',
            AtCapacityError,
            "503: The request queue is full",
        ),
    ],
)
async def test_statuses_become_our_errors(
    status: int, body: bytes, error: type[VisavisError], complaint: str
) -> None:
    async with pair(replying(status, body), api_key="secret") as (backend, _):
        with pytest.raises(error, match=complaint) as raised:
            await answer(backend)
    assert type(raised.value) is error
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("events", "complaint"),
    [
        ((piece("Hal"),), "ended in the middle"),
        ((piece("Hal"), b"data: {not json\n\n"), "no chat completion: '{not json'"),
        ((b"data: [1, 2]\n\n",), "no chat completion"),
        ((b'data: {"choices": [{"delta": {"content": 5}}]}\n\n',), "no chat completion"),
        (({"error": {"message": "out of memory"}},), "server failed: out of memory"),
        ((b"data: \xff\n\n",), "not UTF-8"),
    ],
)
async def test_broken_streams_are_errors(
    events: tuple[dict[str, Any] | bytes, ...], complaint: str
) -> None:
    async with pair(streaming(*events)) as (backend, _):
        with pytest.raises(EngineError, match=complaint):
            await answer(backend)


async def test_nothing_is_unpacked() -> None:
    """Some hundred bytes could be gigabytes."""

    async def pack(exchange: Exchange) -> None:
        assert exchange.headers["accept-encoding"] == "identity"
        head = (
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\n\r\n"
        )
        await exchange.send(head + gzip.compress(b"data: [DONE]\n\n"))

    async with pair(pack) as (backend, _):
        with pytest.raises(EngineError, match="ended in the middle"):
            await answer(backend)


@pytest.mark.parametrize(
    ("event", "error", "complaint"),
    [
        ({"error": {"message": "too long", "code": 400}}, InvalidInputError, "failed: too long"),
        ({"error": {"message": "busy", "code": 429}}, AtCapacityError, "failed: busy"),
        ({"error": {"message": "x", "code": "context_length"}}, EngineError, "failed: x"),
        ({"error": "it broke"}, EngineError, "failed: it broke"),
        ({"object": "error", "message": "dead", "code": 500}, EngineError, "failed: dead"),
        (
            {"object": "error", "message": "the input is too long", "code": 400},
            InvalidInputError,
            "the input is too long",
        ),
    ],
)
async def test_errors_in_a_stream_that_began_well_keep_their_kind(
    event: dict[str, Any], error: type[VisavisError], complaint: str
) -> None:
    async with pair(streaming(piece("We"), event, b"data: [DONE]\n\n")) as (backend, _):
        with pytest.raises(error, match=complaint) as raised:
            await answer(backend)
    assert type(raised.value) is error


@pytest.mark.parametrize("reason", ["abort", "cancelled", "timeout", "error"])
async def test_an_answer_that_the_server_broke_off_is_no_end(reason: str) -> None:
    async with pair(streaming(piece("We"), end(reason))) as (backend, _):
        with pytest.raises(EngineError, match=f"broke the answer off: {reason}"):
            await answer(backend)


async def test_usage_in_every_event_and_thoughts_beside_the_answer() -> None:
    """What SGLang and vLLM send with continuous usage and a reasoning parser."""
    thought = {"choices": [{"delta": {"reasoning_content": "hm"}}], "usage": None}
    counted = piece("Hi") | {"usage": {"prompt_tokens": 9, "completion_tokens": 1}}
    usage = {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": None}
    last = {"choices": [], "usage": usage}
    async with pair(streaming(thought, counted, end(), last, b"data: [DONE]\n\n")) as (backend, _):
        deltas = await answer(backend)
    assert "".join(delta.text for delta in deltas) == "Hi"
    assert (deltas[-1].completion_tokens, deltas[-1].cached_tokens) == (2, 0)


async def test_more_fields_go_with_every_request() -> None:
    extra = {"chat_template_kwargs": {"enable_thinking": False}, "temperature": 0.1}
    async with pair(streaming(end()), extra=extra) as (backend, server):
        await answer(backend)
    body = server.exchanges[0].body
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    assert (body["temperature"], body["stream"]) == (0.1, True)


def test_fields_that_are_ours_cannot_be_replaced() -> None:
    with pytest.raises(SettingsError, match="extra: messages, stream cannot be set"):
        OpenAiCompatibleBackend(
            "http://127.0.0.1:9/v1",
            slots=1,
            context_tokens=100,
            extra={"stream": False, "messages": []},
        )


async def test_an_answer_may_end_without_the_done_mark() -> None:
    async with pair(streaming(piece("Hi"), end("content_filter"))) as (backend, _):
        deltas = await answer(backend)
    assert [delta.text for delta in deltas] == ["", "Hi", ""]
    assert deltas[-1].finish_reason == "stop"


async def test_a_connection_that_breaks_is_an_error() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        await exchange.event(piece("Hi"))

    async with pair(script) as (backend, _):
        with pytest.raises(EngineError, match=r"connection to .* broke"):
            await answer(backend)


async def test_a_silent_server_is_given_up_on() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.event(piece("Hi"))
        await exchange.closed_by_client()

    async with pair(script, read_timeout_s=0.05) as (backend, _):
        with pytest.raises(EngineError, match=r"sent nothing for 0\.05 s"):
            await answer(backend)


@pytest.mark.parametrize("how", ["silent", "broken off"])
async def test_an_answer_that_is_complete_stays_so_whatever_comes_behind(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai_compatible, "_WAIT_BEHIND_END_S", 0.01)

    async def script(exchange: Exchange) -> None:
        chunked = b"Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        await exchange.send(b"HTTP/1.1 200 OK\r\n" + chunked)
        for event in (piece("Hi"), end()):
            told = b"data: " + json.dumps(event).encode() + b"\n\n"
            await exchange.send(b"%x\r\n%s\r\n" % (len(told), told))
        if how == "silent":
            await exchange.closed_by_client()

    async with pair(script) as (backend, _):
        deltas = await answer(backend)
    assert [(delta.text, delta.finish_reason) for delta in deltas[1:]] == [("Hi", ""), ("", "stop")]


@pytest.mark.parametrize("how", ["close", "cancel"])
async def test_a_cancel_hangs_up_on_a_slow_server(how: str) -> None:
    hung_up = asyncio.Event()
    told = asyncio.Event()

    async def script(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.event(piece("Hi"))
        await exchange.closed_by_client()
        hung_up.set()

    async with pair(script) as (backend, _):
        stream = backend.stream(REQUEST)

        async def listen() -> None:
            async for delta in stream:
                if delta.text:
                    told.set()
                    if how == "close":
                        break

        task = asyncio.create_task(listen())
        await told.wait()
        if how == "close":
            await task
            await stream.aclose()
        else:
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        await asyncio.wait_for(hung_up.wait(), 30)


async def test_more_requests_than_slots_each_get_their_own_answer() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.event(piece(exchange.body["messages"][0]["content"]))
        await exchange.event(end())

    async with pair(script) as (backend, _):

        async def ask(text: str) -> str:
            request = BackendRequest((ChatMessage("user", text),), Sampling(5, 0.0), 0)
            return "".join([delta.text async for delta in backend.stream(request)])

        texts = [f"question {i}" for i in range(8)]
        assert await asyncio.gather(*map(ask, texts)) == texts


async def test_loading_takes_the_first_model_of_the_server() -> None:
    async with pair(streaming(), model="") as (backend, _):
        await backend.load()
        assert backend.model == "first"


@pytest.mark.parametrize(
    ("status", "body", "complaint"),
    [
        (401, b'{"error": {"message": "who are you"}}', "who are you; check `api_key`"),
        (500, b"oops", "500: oops"),
        (200, b"<html>welcome</html>", "did not answer with a list of models"),
        (200, b"[]", "did not answer with a list of models"),
        (200, b'{"data": []}', "lists no models: set `model`"),
        (404, b"", "lists no models: set `model`"),
    ],
)
async def test_a_server_that_will_not_do_fails_the_load(
    status: int, body: bytes, complaint: str
) -> None:
    async with pair(streaming(), model="") as (backend, server):
        server.models_status, server.models = status, body
        with pytest.raises(EngineLoadError, match=complaint):
            await backend.load()


@pytest.mark.parametrize(("entry", "context"), [("64", 64), ("4096", 100), ('"many"', 100)])
async def test_a_model_that_reads_less_than_our_context_shortens_it(
    entry: str, context: int
) -> None:
    async with pair(streaming()) as (backend, server):
        server.models = b'{"data": [{"id": "m", "max_model_len": %s}]}' % entry.encode()
        await backend.load()
        assert backend.context_tokens == context


async def test_a_model_that_is_not_listed_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    async with pair(streaming()) as (backend, _):
        await backend.load()
    assert "lists first, second, not the model 'm'" in caplog.text


async def test_a_server_without_a_list_will_do_if_the_model_is_named() -> None:
    async with pair(streaming(), model="mine") as (backend, server):
        server.models_status = 404
        await backend.load()
        assert backend.model == "mine"


async def test_a_server_on_this_machine_is_asked_past_every_proxy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("http_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with pair(streaming(piece("Hello."), end())) as (backend, _):
        assert [delta.text for delta in await answer(backend) if delta.text] == ["Hello."]
    elsewhere = OpenAiCompatibleBackend("http://a.test/v1", model="m", slots=1, context_tokens=100)
    with pytest.raises(EngineLoadError, match=r"a.test/v1: .* by the proxy http://127.0.0.1:1 "):
        await elsewhere.load()
    await elsewhere.close()


async def test_no_server_at_all_is_named() -> None:
    async with HttpServer(streaming()).running() as server:
        url = server.url
    backend = OpenAiCompatibleBackend(url, model="m", slots=1, context_tokens=100)
    with pytest.raises(EngineLoadError, match=r"no language model server answers at .*check `url`"):
        await backend.load()
    with pytest.raises(EngineError, match="no language model server answers"):
        await answer(backend)
    await backend.close()


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:8000", "ftp://x/v1", "http://", "http://x:port", "http://[::1"]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match=r"url: .* is not an address"):
        OpenAiCompatibleBackend(url, slots=1, context_tokens=100)


def test_a_key_that_no_header_can_hold_is_refused_and_not_shown() -> None:
    with pytest.raises(SettingsError, match="api_key: it holds") as refused:
        OpenAiCompatibleBackend("http://x/v1", api_key="sécret", slots=1, context_tokens=100)
    assert "cret" not in str(refused.value)


async def test_the_address_may_be_the_full_path() -> None:
    async with HttpServer(streaming(end())).running() as server:
        backend = OpenAiCompatibleBackend(
            f"{server.url}/chat/completions", model="m", slots=1, context_tokens=100
        )
        await answer(backend)
        await backend.close()
        assert server.exchanges[0].path == "/v1/chat/completions"
