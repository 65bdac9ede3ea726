"""Tools through the whole language model service: requests, calls, results, and what is refused."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio

from services.llm.backends.base import (
    BackendRequest,
    ChatMessage,
    Delta,
    Sampling,
    Tool,
    ToolCall,
    ToolCallDelta,
    Tools,
)
from services.llm.backends.calls_in_text import CallReader, schema_of, told_in_words
from services.llm.backends.llamacpp import LlamaCppBackend
from services.llm.backends.openai_compatible import OpenAiCompatibleBackend
from services.llm.generator import AnswerRequest, Generator
from services.llm.prompt import CUT_MARK, build_prompt
from services.llm.tools import CallPieces
from tests.fakes import ManualClock
from tests.llm.fake_backend import DEFAULTS, FakeBackend
from tests.llm.http_server import Exchange
from tests.llm.test_openai_compatible import USAGE, end, pair, piece, streaming
from tests.llm.test_servicer import announce, attached, serving, tokens_of_turn
from visavis.serving.errors import EngineError, InvalidInputError
from visavis.v1 import control_pb2, llm_pb2
from visavis.wire.bus import Bus
from visavis.wire.subjects import Kind

SCHEMA = '{"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}'
WEATHER = Tool("get_weather", "The weather of a city now.", SCHEMA)
CALLED = ChatMessage("assistant", "", (ToolCall("c1", "get_weather", '{"city": "Rome"}'),))
TOOL, ASSISTANT, USER = (llm_pb2.Message.TOOL, llm_pb2.Message.ASSISTANT, llm_pb2.Message.USER)


def asked(*more: ChatMessage) -> tuple[ChatMessage, ...]:
    return (ChatMessage("user", "How is the weather in Rome?"), *more)


def call_piece(index: int | None, **fields: Any) -> dict[str, Any]:
    call = {
        k: v for k, v in {"index": index, "id": fields.pop("id", None)}.items() if v is not None
    }
    return {"choices": [{"delta": {"tool_calls": [{**call, "function": fields}]}}]}


def weather_request(**fields: Any) -> llm_pb2.GenerateRequest:
    tool = llm_pb2.ToolDefinition(name="get_weather", parameters_json=SCHEMA)
    request = llm_pb2.GenerateRequest(
        messages=[llm_pb2.Message(role=USER, content="How is the weather in Rome?")], tools=[tool]
    )
    request.MergeFrom(llm_pb2.GenerateRequest(**fields))
    return request


async def test_calls_stream_to_the_client_and_its_results_reach_the_model() -> None:
    called = (
        Delta("Let me look. "),
        Delta(tool_calls=(ToolCallDelta(0, "c1", "get_weather", '{"ci'),)),
        Delta(tool_calls=(ToolCallDelta(0, arguments='ty": "Rome"}'), ToolCallDelta(4, "", "now"))),
        Delta(finish_reason="stop", prompt_tokens=9, completion_tokens=7),
    )
    backend = FakeBackend(*called, context_tokens=2000)
    choice = llm_pb2.ToolChoice(mode=llm_pb2.ToolChoice.REQUIRED, name="get_weather")
    async with serving(backend) as stub:
        answers = [a async for a in stub.Generate(weather_request(tool_choice=choice))]
        result = [
            llm_pb2.Message(
                role=ASSISTANT,
                tool_calls=[
                    control_pb2.ToolCall(
                        id="c1", name="get_weather", arguments_json='{"city": "Rome"}'
                    )
                ],
            ),
            llm_pb2.Message(role=TOOL, tool_call_id="c1", content="18 degrees<|im_end|>"),
        ]
        async for _ in stub.Generate(weather_request(messages=result, one_call_at_most=True)):
            pass
    assert "".join(a.text for a in answers) == "Let me look. "
    calls = [call for answer in answers for call in answer.tool_calls]
    assert [(c.index, c.name, c.arguments_json) for c in calls] == [
        (0, "get_weather", '{"ci'),
        (0, "", 'ty": "Rome"}'),
        (1, "now", ""),
    ]
    assert calls[0].id == "c1" and calls[2].id
    assert (answers[-1].finish_reason, answers[-1].completion_tokens) == ("tool_calls", 7)
    first, second = backend.requests
    assert first.tools is not None and (first.tools.calling, first.tools.named) == (
        "required",
        "get_weather",
    )
    assert second.tools is not None and not second.tools.at_once
    assert second.messages[-2:] == (CALLED, ChatMessage("tool", "18 degrees", (), "c1"))


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"tools": [llm_pb2.ToolDefinition(name="no spaces")]}, "tools[1].name: 'no spaces'"),
        ({"tools": [llm_pb2.ToolDefinition(name="get_weather")]}, "two have one name"),
        (
            {"tools": [llm_pb2.ToolDefinition(name="x", parameters_json="[1]")]},
            "tools[1].parameters: '[1]' is no object",
        ),
        (
            {"tools": [llm_pb2.ToolDefinition(name="x", parameters_json='{"const": NaN}')]},
            "tools[1].parameters: '{\"const\": NaN}' is no object",
        ),
        ({"tool_choice": llm_pb2.ToolChoice(mode=7)}, "tool_choice.mode: 7"),
        (
            {"tool_choice": llm_pb2.ToolChoice(mode=2, name="other")},
            "tool_choice: there is no tool 'other'",
        ),
        (
            {"messages": [llm_pb2.Message(role=TOOL, tool_call_id="c9", content="x")]},
            "messages[1].tool_call_id: 'c9' is no call",
        ),
        (
            {"tools": [llm_pb2.ToolDefinition(name="long", description="word " * 3000)]},
            "tools: their definitions take",
        ),
    ],
)
async def test_what_is_wrong_with_tools_is_told_by_field(
    fields: dict[str, Any], complaint: str
) -> None:
    async with serving(FakeBackend(context_tokens=2000)) as stub:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await stub.Generate(weather_request(**fields)).read()
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert complaint in (refused.value.details() or "")


def test_pieces_of_servers_that_count_and_name_in_their_own_way() -> None:
    calls = CallPieces()
    # No ids at all; then every call is number 0, with its arguments in one piece.
    assert [p.index for p in calls.feed([ToolCallDelta(3, "", "a", "{}"), ToolCallDelta(3)])] == [0]
    later = list(calls.feed([ToolCallDelta(0, "x", "b", "{}"), ToolCallDelta(0, "y", "c", "{}")]))
    assert [(p.index, p.id, p.name) for p in later] == [(1, "x", "b"), (2, "y", "c")]
    with pytest.raises(EngineError, match="without saying which"):
        list(calls.feed([ToolCallDelta(9, arguments="{}")]))


def test_calls_with_one_number_and_no_id_are_told_apart() -> None:
    rome, oslo = ToolCallDelta(0, "", "a", '{"c": "Rome"}'), ToolCallDelta(0, "", "a", '{"c": "Os')
    rest = ToolCallDelta(0, "", "a", 'lo"}')  # its name comes again with each piece
    told = list(CallPieces().feed([rome, oslo, rest]))
    assert [(p.index, p.name, p.arguments) for p in told] == [
        (0, "a", '{"c": "Rome"}'),
        (1, "a", '{"c": "Os'),
        (1, "", 'lo"}'),
    ]


def fitted(messages: tuple[ChatMessage, ...], budget_tokens: int) -> tuple[ChatMessage, ...]:
    return build_prompt(messages, persona="P", budget_tokens=budget_tokens, count_tokens=len)


def test_a_long_result_is_cut_and_the_question_and_its_calls_stay() -> None:
    result = ChatMessage("tool", "sun " * 500, (), "c1")
    history = (ChatMessage("user", "Hello!"), ChatMessage("assistant", "Hi. " * 40))
    built = fitted((*history, *asked(CALLED, result)), 400)
    assert [m.role for m in built] == ["system", "user", "assistant", "tool"]
    assert built[1:3] == asked(CALLED)
    assert CUT_MARK in built[3].content and built[3].tool_call_id == "c1"
    with pytest.raises(InvalidInputError, match="the question and its tool calls take"):
        fitted(asked(CALLED, result), 160)


def test_a_long_question_leaves_room_for_what_was_called_for_it() -> None:
    question = ChatMessage("user", "Look this up: " + "word " * 500 + "Will it rain?")
    alone = fitted((question,), 600)
    result = ChatMessage("tool", "sun " * 500, (), "c1")
    built = fitted((question, CALLED, result), 600)
    assert [m.role for m in alone + built] == [
        "system",
        "user",
        "system",
        "user",
        "assistant",
        "tool",
    ]
    assert built[1].content.startswith("Look this up") and "Will it rain?" in built[1].content
    assert len(built[1].content) > 200 and len(built[3].content) > 40


def test_results_of_several_calls_are_not_joined() -> None:
    two = ChatMessage("assistant", "", (*CALLED.tool_calls, ToolCall("c2", "get_weather", "{}")))
    results = (ChatMessage("tool", "sun", (), "c1"), ChatMessage("tool", "", (), "c2"))
    assert fitted(asked(two, *results), 1000)[1:] == asked(two, *results)


async def test_a_session_waits_for_results_and_goes_on_in_the_same_turn(bus: Bus) -> None:
    backend = FakeBackend(
        Delta("Let me look."),
        Delta(tool_calls=(ToolCallDelta(0, "c1", "get_weather", '{"city": '),)),
        Delta(tool_calls=(ToolCallDelta(0, arguments='"Rome"}'),)),
        Delta(finish_reason="stop", prompt_tokens=9, completion_tokens=7),
        context_tokens=2000,
    )
    asking = weather_request()
    async with (
        serving(backend, bus) as stub,
        bus.subscribe("tools", Kind.TOKENS) as tokens,
        attached(stub, "tools") as call,
    ):
        begin = llm_pb2.BeginTurn(turn=1, request=asking)
        await call.write(llm_pb2.LlmAttachRequest(begin=begin))
        await call.read()
        called = (await call.read()).tools_called
        assert (called.turn, called.text, len(called.calls)) == (1, "Let me look.", 1)
        assert called.calls[0].arguments_json == '{"city": "Rome"}'
        backend.deltas = (Delta("Sunny."), Delta(finish_reason="stop", completion_tokens=2))
        say = llm_pb2.SayMeanwhile(turn=1, text="One moment.\n")
        other = llm_pb2.ContinueTurn(turn=9, request=asking)
        results = [
            llm_pb2.Message(role=ASSISTANT, tool_calls=called.calls),
            llm_pb2.Message(role=TOOL, tool_call_id="c1", content="sun"),
        ]
        rest = llm_pb2.ContinueTurn(turn=1, request=weather_request(messages=results))
        for told in ({"say": say}, {"go_on": other}, {"go_on": rest}, {"say": say}):
            await call.write(llm_pb2.LlmAttachRequest(**told))
        chunks = await tokens_of_turn(tokens, 1)
        finished = (await call.read()).turn_finished
    # What is to be spoken at once ends a phrase; places are counted over all of the turn.
    assert [c.text for c in chunks] == ["Let me look.", "\n", "One moment.\n", "Sunny.", ""]
    assert [c.place.seq for c in chunks] == [0, 1, 2, 3, 4]
    assert [c.place.pts for c in chunks] == [0, 12, 13, 25, 31]
    assert [bool(c.place.stamps) for c in chunks] == [True, False, False, False, True]
    assert finished.produced == 9
    assert backend.requests[-1].messages[-1] == ChatMessage("tool", "sun", (), "c1")


@pytest.mark.parametrize("kept", ["", "functions.get_weather"])
async def test_a_made_up_name_is_called_and_stands_in_no_turns_way(bus: Bus, kept: str) -> None:
    """kept: the name in a conversation that was told as the model wrote it."""
    made_up = ToolCallDelta(0, "c1", "functions.get_weather", "{}")
    backend = FakeBackend(Delta(tool_calls=(made_up,)), context_tokens=2000)
    async with serving(backend, bus) as stub, attached(stub, "names") as call:
        begin = llm_pb2.BeginTurn(turn=1, request=weather_request())
        await call.write(llm_pb2.LlmAttachRequest(begin=begin))
        await call.read()
        (called,) = (await call.read()).tools_called.calls
        assert called.name == "functions_get_weather"
        backend.deltas = (Delta("There is no such tool."),)
        called.name = kept or called.name
        results = [
            llm_pb2.Message(role=ASSISTANT, tool_calls=[called]),
            llm_pb2.Message(role=TOOL, tool_call_id="c1", content="no such tool"),
        ]
        rest = llm_pb2.ContinueTurn(turn=1, request=weather_request(messages=results))
        await call.write(llm_pb2.LlmAttachRequest(go_on=rest))
        assert (await call.read()).turn_finished.turn == 1
        later = weather_request(messages=[*results, llm_pb2.Message(role=USER, content="Hello?")])
        begin = llm_pb2.BeginTurn(turn=2, request=later)
        await call.write(llm_pb2.LlmAttachRequest(begin=begin))
        await call.read()
        assert (await call.read()).turn_finished.turn == 2
    for told in backend.requests[1:]:
        assert told.messages[2].tool_calls == (ToolCall("c1", "functions_get_weather", "{}"),)


async def test_a_turn_that_was_begun_elsewhere_calls_and_counts_on(bus: Bus) -> None:
    backend = FakeBackend(
        Delta(" Let me look."),
        Delta(tool_calls=(ToolCallDelta(0, "c1", "get_weather", "{}"),)),
        Delta(finish_reason="stop"),
        context_tokens=2000,
    )
    asking = weather_request()
    so_far = "So:\n```py\nx\n```\nThere."
    async with (
        serving(backend, bus) as stub,
        bus.subscribe("begun", Kind.TOKENS) as tokens,
        attached(stub, "begun") as call,
    ):
        begin = llm_pb2.BeginTurn(turn=1, request=asking, so_far=so_far, blocks=1)
        await call.write(llm_pb2.LlmAttachRequest(begin=begin))
        await call.read()
        called = (await call.read()).tools_called
        backend.deltas = (Delta("Well:\n```\ny\n```"), Delta(finish_reason="stop"))
        results = [
            llm_pb2.Message(role=ASSISTANT, content=called.text, tool_calls=called.calls),
            llm_pb2.Message(role=TOOL, tool_call_id="c1", content="sun"),
        ]
        rest = llm_pb2.ContinueTurn(turn=1, request=weather_request(messages=results))
        await call.write(llm_pb2.LlmAttachRequest(go_on=rest))
        chunks = await tokens_of_turn(tokens, 1)
    assert called.text == "So:\nThere. Let me look."
    assert [(c.text, c.block) for c in chunks[2:]] == [("Well:\n", 0), ("y\n", 3), ("", 0)]
    assert chunks[2].place.pts == len(called.text) + 1
    assert [r.written for r in backend.requests] == [so_far, ""]


async def test_only_a_call_may_be_longer_than_an_answer() -> None:
    many = [Delta(tool_calls=(ToolCallDelta(0, "c1", "get_weather", '{"city": "'),))]
    many += [Delta(tool_calls=(ToolCallDelta(0, arguments="o"),)) for _ in range(80)]
    backend = FakeBackend(*many, Delta(finish_reason="stop"), context_tokens=2000)
    generator = Generator(backend, DEFAULTS, ManualClock())
    request = AnswerRequest(asked(), tools=Tools((WEATHER,)), spoken=True)
    pieces = [piece async for piece in generator.answer(request, 0).pieces]
    assert len(pieces) == 81 and backend.requests[0].sampling.max_tokens > 80
    backend.deltas = tuple(Delta(f" w{n}") for n in range(80))
    answer = generator.answer(request, 0)
    words = [piece async for piece in answer.pieces]
    # As many as the defaults allow, and a quarter for the end of the sentence.
    assert 55 < len("".join(map(str, words)).split()) < 65
    assert answer.ledger.finish_reason == "length"
    plain = replace(request, spoken=False)
    async for _ in generator.answer(plain, 0).pieces:
        pass
    assert backend.requests[-1].sampling.max_tokens == DEFAULTS.max_tokens


async def test_who_was_told_to_call_nothing_calls_nothing() -> None:
    """Some servers let him, in each round anew: it would never end."""
    call = Delta("Well.", tool_calls=(ToolCallDelta(0, "c1", "get_weather", "{}"),))
    backend = FakeBackend(call, Delta(finish_reason="tool_calls"), context_tokens=2000)
    request = AnswerRequest(asked(), tools=Tools((WEATHER,), "none"), spoken=True)
    answer = Generator(backend, DEFAULTS, ManualClock()).answer(request, 0)
    assert [piece async for piece in answer.pieces] == ["Well."]
    assert answer.ledger.finish_reason == "stop"


async def test_a_new_epoch_ends_the_wait_for_results(bus: Bus) -> None:
    call_ = Delta(tool_calls=(ToolCallDelta(0, "c1", "get_weather", '{"city": "Rome"}'),))
    backend = FakeBackend(call_, Delta(finish_reason="stop"), context_tokens=2000)
    async with serving(backend, bus) as stub, attached(stub, "waits") as call:
        begin = llm_pb2.BeginTurn(turn=1, request=weather_request())
        await call.write(llm_pb2.LlmAttachRequest(begin=begin))
        events = [await call.read(), await call.read()]
        await announce(bus, "waits", 2)
        events.append(await call.read())
    assert [event.WhichOneof("event") for event in events] == [
        "turn_started",
        "tools_called",
        "turn_finished",
    ]
    assert events[-1].turn_finished.cancelled


def weather_asked(*more: ChatMessage, **choice: Any) -> BackendRequest:
    return BackendRequest(
        asked(*more), Sampling(60, 0.0, seed=1), 0, tools=Tools((WEATHER,), **choice)
    )


async def answered(
    backend: OpenAiCompatibleBackend | LlamaCppBackend, request: BackendRequest
) -> tuple[str, list[ToolCallDelta], str]:
    """Text, calls in pieces, and how it ended."""
    deltas = [delta async for delta in backend.stream(request)]
    calls = CallPieces()
    pieces = [p for delta in deltas for p in calls.feed(delta.tool_calls)]
    ends = [delta.finish_reason for delta in deltas if delta.finish_reason]
    return "".join(delta.text for delta in deltas), pieces, ends[-1]


async def test_an_openai_compatible_server_is_asked_and_read_as_it_wants() -> None:
    script = streaming(
        piece("Wait."),
        call_piece(0, id="c1", name="get_weather", arguments=""),
        call_piece(0, arguments='{"city": '),
        call_piece(0, arguments='"Rome"}'),
        call_piece(None, id="c2", name="get_weather", arguments={"city": "Oslo"}),
        end("tool_calls"),
        USAGE,
        b"data: [DONE]\n\n",
    )
    result = ChatMessage("tool", "sun", (), "c1")
    async with pair(script) as (backend, server):
        request = weather_asked(CALLED, result, named="get_weather", at_once=False)
        text, pieces, ended = await answered(backend, request)
    assert (text, ended) == ("Wait.", "tool_calls")
    assert "".join(p.arguments for p in pieces if p.index == 0) == '{"city": "Rome"}'
    assert pieces[-1] == ToolCallDelta(1, "c2", "get_weather", '{"city": "Oslo"}')
    body = server.exchanges[0].body
    assert body["tools"] == [
        {
            "type": "function",
            "function": {
                "name": "get_weather",
                "description": "The weather of a city now.",
                "parameters": json.loads(SCHEMA),
            },
        }
    ]
    assert body["tool_choice"] == {"type": "function", "function": {"name": "get_weather"}}
    assert body["parallel_tool_calls"] is False
    assert body["messages"][1]["tool_calls"][0]["function"]["arguments"] == '{"city": "Rome"}'
    assert body["messages"][2] == {"role": "tool", "content": "sun", "tool_call_id": "c1"}
    async with pair(script) as (backend, server):
        await answered(backend, replace(weather_asked(CALLED, result), in_words=True))
    told = server.exchanges[0].body["messages"][-1]["content"]
    assert told == "sun\n(Nothing more can be called: answer now, in words.)"


def chunk(delta: dict[str, Any], reason: str | None = None, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, **({"finish_reason": reason} if reason else {})}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [choice], **more}


def function(name: str | None, arguments: str, **more: Any) -> dict[str, Any]:
    told = {"arguments": arguments} | ({"name": name} if name else {})
    return {"tool_calls": [{"index": 0, **more, "function": told}]}


ID = {"id": "chatcmpl-tool-1", "type": "function"}
_ROLE = {"role": "assistant", "content": ""}
# As they write a call that was named, and one that they were free to make: read out of their
# sources (vLLM 003fe593, serving_chat.py; TensorRT-LLM 01bf1923, postprocess_handlers.py).
WIRES: dict[str, list[dict[str, Any]]] = {
    "vllm, named": [
        chunk(_ROLE),
        chunk(function("get_weather", '{"city"', **ID)),
        chunk(function(None, ': "Rome"}')),
        chunk(function(None, ""), "tool_calls", stop_reason=None),
    ],
    "vllm, auto: the last chunk has what was not yet streamed": [
        chunk(_ROLE),
        chunk({"content": "Wait."}),
        chunk(function("get_weather", "", **ID)),
        chunk(function(None, '{"city": "Ro')),
        chunk(function(None, 'me"}'), "tool_calls"),
    ],
    "trtllm-serve, named: each chunk says the name, and the end is an ordinary one": [
        chunk({"role": "assistant"}),
        chunk(function("get_weather", '{"city"', type="function")),
        chunk(function("get_weather", ': "Rome"}', type="function")),
        chunk(function("get_weather", "", type="function"), "stop"),
    ],
    "trtllm-serve, auto: text and thoughts stand beside the call, empty": [
        chunk({"role": "assistant"}),
        chunk({"content": "Wait.", "reasoning_content": ""}),
        chunk({"content": "", "reasoning_content": "", **function("get_weather", "", **ID)}),
        chunk({"content": "", **function(None, '{"city": "Rome"}', type="function")}),
        chunk({"content": "", "reasoning_content": ""}, "tool_calls"),
    ],
}


@pytest.mark.parametrize("wire", WIRES)
async def test_calls_are_read_as_vllm_and_trtllm_serve_write_them(wire: str) -> None:
    script = streaming(*WIRES[wire], {**USAGE, "created": 1}, b"data: [DONE]\n\n")
    async with pair(script) as (backend, _):
        text, pieces, ended = await answered(backend, weather_asked())
    assert text == ("Wait." if "auto" in wire else "")
    assert [p.name for p in pieces] == ["get_weather"] + [""] * (len(pieces) - 1)
    assert "".join(p.arguments for p in pieces) == '{"city": "Rome"}'
    assert ended == ("stop" if "ordinary" in wire else "tool_calls")


@asynccontextmanager
async def loaded(model_file: Path) -> AsyncIterator[LlamaCppBackend]:
    backend = LlamaCppBackend(model_file, model="smollm2-135m", slots=1, context_tokens=2048)
    await backend.load()
    yield backend
    await backend.close()


# One loop, so that one loaded model serves all of its tests.
of_one_model = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shallow_model(shallow_file: Path) -> AsyncIterator[LlamaCppBackend]:
    """What it writes has no sense, but where a grammar holds it."""
    async with loaded(shallow_file) as backend:
        yield backend


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def real_model(model_file: Path) -> AsyncIterator[LlamaCppBackend]:
    async with loaded(model_file) as backend:
        yield backend


@of_one_model
async def test_llama_cpp_makes_a_model_call_and_reads_its_result(
    real_model: LlamaCppBackend,
) -> None:
    """Of which the template knows no tools."""
    text, pieces, ended = await answered(
        real_model, weather_asked(named="get_weather", calling="required")
    )
    assert (text, ended) == ("", "stop")
    assert pieces[0].name == "get_weather" and pieces[0].id and len(pieces) > 3
    arguments = json.loads("".join(p.arguments for p in pieces))
    assert arguments.keys() == {"city"} and isinstance(arguments["city"], str)
    result = ChatMessage("tool", "18 degrees and sunny", (), "c1")
    free = replace(weather_asked(CALLED, result), sampling=Sampling(8, 0.0, seed=1))
    text, _, ended = await answered(real_model, free)
    assert ended == "length" and "{" not in text, "a call that was cut off is no text"


@of_one_model
async def test_what_has_to_be_called_may_be_one_call_or_cut_off_or_nothing(
    shallow_model: LlamaCppBackend,
) -> None:
    one = replace(packing({"$ref": "#/$defs/Box"}), at_once=False)
    deltas = [delta async for delta in shallow_model.stream(required(one))]
    last = deltas[-1]
    assert last.finish_reason == "tool_calls" and last.completion_tokens > 5
    assert last.prompt_tokens > 50
    long = shallow_model.stream(weather_asked(calling="required"))
    async for delta in long:
        if delta.tool_calls:
            break
    await long.aclose()
    result = ChatMessage("tool", "18 degrees and sunny", (), "c1")
    few = Sampling(8, 0.0, seed=1)
    told_off = replace(weather_asked(CALLED, result, calling="none"), sampling=few)
    text, pieces, _ = await answered(shallow_model, told_off)
    assert text and not pieces
    nonsense = Tools((Tool("x", "", '{"type": "nonsense"}'),), "required")
    with pytest.raises(InvalidInputError, match="could not be made"):
        await answered(shallow_model, required(nonsense))
    # As Pydantic writes them, with definitions that each tool has for itself.
    units = {"weather_abroad": "fahrenheit", "weather_here": "celsius"}
    told = Tools(tuple(Tool(name, "", in_unit(unit)) for name, unit in units.items()), "required")
    _, pieces, _ = await answered(shallow_model, required(told))
    arguments = json.loads("".join(p.arguments for p in pieces))
    assert arguments == {"unit": units[pieces[0].name]}


@of_one_model
async def test_long_results_are_cut_to_what_a_server_reads(shallow_model: LlamaCppBackend) -> None:
    """Of numbers and of signs, which an English tokenizer takes apart."""
    read: list[int] = []

    async def script(exchange: Exchange) -> None:
        body = exchange.body
        told = "\n".join(message["content"] for message in body["messages"])
        read.append(await asyncio.to_thread(shallow_model.count_tokens, told))
        if read[-1] + body["max_tokens"] > 4096:
            await exchange.reply(400, b'{"message": "longer than max_model_len"}')
        else:
            await streaming(piece("Fine."), end())(exchange)

    hours = [{"hour": h, "degrees": round(20 + h * 0.37, 1), "hPa": 1013 - h} for h in range(150)]
    messages: list[ChatMessage] = []
    for result in ("😀🎉🇩🇪" * 100, json.dumps(hours)):
        messages += asked(CALLED, ChatMessage("tool", result, (), "c1"))
    async with pair(script, context_tokens=4096) as (backend, _):
        answer = Generator(backend, DEFAULTS, ManualClock()).answer(AnswerRequest((*messages,)), 0)
        assert [piece async for piece in answer.pieces] == ["Fine."]
    assert read[0] > 2000, "no more is cut than has to be"


@of_one_model
async def test_who_may_call_no_more_answers_in_words(real_model: LlamaCppBackend) -> None:
    """And not with the call that stands before, written as text: of that nothing is said."""
    result = ChatMessage("tool", "18 degrees and sunny", (), "c1")
    messages, tools = asked(CALLED, result), Tools((WEATHER,), "none")
    request = AnswerRequest(messages, tools=tools, spoken=True, temperature=0.0)
    generator = Generator(real_model, DEFAULTS, ManualClock())
    words = [piece async for piece in generator.answer(request, 0).pieces]
    assert "".join(map(str, words)).strip()


@of_one_model
async def test_what_goes_on_behind_calls_does_not_begin_anew(
    shallow_model: LlamaCppBackend,
) -> None:
    result = ChatMessage("tool", "18 degrees and sunny", (), "c1")
    more = asked(CALLED, result, ChatMessage("assistant", "It is sunny."), *asked())
    begun = BackendRequest(more, Sampling(1, 0.0), 0)
    before, after = [
        [delta async for delta in shallow_model.stream(replace(begun, written=written))][-1]
        for written in ("", "As I said, the weather is")
    ]
    assert after.prompt_tokens > before.prompt_tokens


@of_one_model
async def test_a_call_without_arguments_comes_to_its_end(shallow_model: LlamaCppBackend) -> None:
    """And not to blanks, up to the last token that it may have."""
    shop = Tool("shop_fail", "Something that fails.", '{"type": "object", "properties": {}}')
    tools = Tools((shop,), "required", "shop_fail")
    request = AnswerRequest((ChatMessage("user", "What did it say?"),), tools=tools, temperature=0)
    answer = Generator(shallow_model, DEFAULTS, ManualClock()).answer(request, 0)
    pieces = [piece async for piece in answer.pieces if not isinstance(piece, str)]
    assert "".join(piece.arguments for piece in pieces) == "{}"


@of_one_model
@pytest.mark.parametrize(
    "root",
    [{"$ref": "#/$defs/Box"}, {"$ref": "#/$defs/Again"}, {"anyOf": [{"$ref": "#/$defs/Box"}]}],
)
async def test_a_schema_may_be_a_reference_or_a_choice(
    shallow_model: LlamaCppBackend, root: dict[str, Any]
) -> None:
    """As Pydantic writes one that holds itself, or a union."""
    _, pieces, _ = await answered(shallow_model, required(packing(root)))
    assert '"small"' in "".join(p.arguments for p in pieces)


def packing(root: dict[str, Any]) -> Tools:
    """A call that leaves no choice, whose schema is told by this."""
    size = {"enum": ["small"]}
    box = {"type": "object", "properties": {"size": size}, "required": ["size"]}
    schema = {**root, "$defs": {"Box": box, "Again": {"$ref": "#/$defs/Box"}}}
    return Tools((Tool("pack", "", json.dumps(schema)),), "required")


def required(tools: Tools) -> BackendRequest:
    return BackendRequest(asked(), Sampling(80, 0.0), 0, tools=tools)


def in_unit(unit: str) -> str:
    """A schema that leaves no choice."""
    return json.dumps(
        {
            "$defs": {"Unit": {"type": "string", "enum": [unit]}},
            "type": "object",
            "properties": {"unit": {"$ref": "#/$defs/Unit"}},
            "required": ["unit"],
        }
    )


def read(pieces: Iterable[str], *, at_once: bool = True) -> tuple[str, list[tuple[str, str]], bool]:
    """Text, calls with their arguments, and whether the reader has had enough."""
    reader, text, calls = CallReader(["look", "look_up"], at_once=at_once), "", []
    for part in pieces:
        said, found = reader.feed(part)
        text += said
        for call in found:
            if call.name:
                calls.append((call.name, ""))
            name, before = calls[call.index]
            calls[call.index] = (name, before + call.arguments)
    return text + reader.finish(), calls, reader.done


LOOK = '{"name": "look", "arguments": {"at": "a } and \\" [", "n": {"x": [1]}}}'
LOOKED = ("look", '{"at": "a } and \\" [", "n": {"x": [1]}}')


@pytest.mark.parametrize(
    ("written", "text", "calls"),
    [
        (LOOK, "", [LOOKED]),
        (f"<tool_call>\n{LOOK}\n</tool_call>", "", [LOOKED]),
        (f"One moment.\n<tool_call>{LOOK}</tool_call>", "One moment.\n", [LOOKED]),
        (f"```json\n{LOOK}\n```", "", [LOOKED]),
        (f"[{LOOK}, {LOOK}]", "", [LOOKED, LOOKED]),
        (f"<tool_call>{LOOK}</tool_call>\n<tool_call>{LOOK}</tool_call>", "", [LOOKED, LOOKED]),
        ('{"name": "look_up", "parameters": {}}', "", [("look_up", "{}")]),
        ('{"name": "look"}', "", [("look", "{}")]),
        (f"{LOOK}.json and so on", "", [LOOKED]),
        ('{"name": "other", "arguments": {}}', '{"name": "other", "arguments": {}}', []),
        ("A [list] and <b> {x}", "A [list] and <b> {x}", []),
        ("```python\nprint()\n```", "```python\nprint()\n```", []),
        ("<tool_cat> is none", "<tool_cat> is none", []),
        ("", "", []),
    ],
)
def test_calls_are_read_however_a_model_writes_them(
    written: str, text: str, calls: list[tuple[str, str]]
) -> None:
    for size in (1, 3, 1000):
        pieces = [written[at : at + size] for at in range(0, len(written), size)]
        assert read(pieces)[:2] == (text, calls)


def test_who_writes_one_call_again_and_again_is_not_heard_out() -> None:
    other = '{"name": "look_up", "arguments": {}}'
    _, calls, done = read([LOOK, "\n", other, "\n", LOOK, "\n", other])
    assert calls == [LOOKED, ("look_up", "{}"), LOOKED] and done
    assert read(['{"name": "look"}'] * 9)[1:] == ([("look", "{}")] * 2, True)


def test_no_more_is_read_than_was_allowed() -> None:
    text, calls, done = read([LOOK, LOOK], at_once=False)
    assert (text, calls, done) == ("", [LOOKED], True)
    cut = read([LOOK[:40]])
    assert cut[1][0][0] == "look" and not cut[2]
    assert read(["So: <tool_call>", LOOK[:12]]) == ("So: ", [], False)


def test_a_template_without_tools_is_told_in_words() -> None:
    result = ChatMessage("tool", "sun", (), "c1")
    told = told_in_words(asked(CALLED, result), Tools((WEATHER,)))
    assert [m.role for m in told] == ["system", "user", "assistant", "user"]
    assert "get_weather" in told[0].content and '"city"' in told[0].content
    assert told[2].content == '{"name": "get_weather", "arguments": {"city": "Rome"}}'
    assert told[3].content == "Result of get_weather: sun"
    assert schema_of(Tools((WEATHER,))) is None
