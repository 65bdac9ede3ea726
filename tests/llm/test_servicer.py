"""The service over real gRPC and a real bus, with a scripted backend."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from services.llm.backends.base import Delta
from services.llm.servicer import LlmService
from services.llm.settings import LlmSettings
from tests.fakes import ManualClock, MetricGrowth
from tests.llm.fake_backend import FakeBackend, words
from tests.serving.grpc_server import served
from visavis.serving.errors import EngineError
from visavis.v1 import control_pb2, llm_pb2, llm_pb2_grpc
from visavis.wire.bus import Bus
from visavis.wire.media import Place, TokenChunk, TurnChunk
from visavis.wire.subjects import Kind

USER = llm_pb2.Message.USER
Stub = llm_pb2_grpc.LanguageModelStub


@contextlib.asynccontextmanager
async def serving(backend: FakeBackend, bus: Bus | None = None) -> AsyncIterator[Stub]:
    service = LlmService(
        LlmSettings.model_validate({"admission": "slots"}), bus, "llm-test", backend=backend
    )
    async with served(service, "visavis.v1.LanguageModel") as channel:
        yield Stub(channel)
    if backend.at_work:
        await asyncio.wait_for(backend.freed.wait(), 30)


def request(text: str = "Hello", role: int = USER, **fields: Any) -> llm_pb2.GenerateRequest:
    return llm_pb2.GenerateRequest(
        messages=[llm_pb2.Message(role=llm_pb2.Message.Role.Name(role), content=text)], **fields
    )


def config(session: str) -> llm_pb2.LlmAttachRequest:
    return llm_pb2.LlmAttachRequest(config=llm_pb2.LlmAttachConfig(session=session))


def begin(
    turn: int, text: str = "Hello", *, held: bool = False, **fields: Any
) -> llm_pb2.LlmAttachRequest:
    return llm_pb2.LlmAttachRequest(
        begin=llm_pb2.BeginTurn(turn=turn, request=request(text, **fields), held=held)
    )


def behind(turn: int, so_far: str, **fields: int) -> llm_pb2.LlmAttachRequest:
    begun = llm_pb2.BeginTurn(turn=turn, request=request(), so_far=so_far, **fields)
    return llm_pb2.LlmAttachRequest(begin=begun)


@contextlib.asynccontextmanager
async def attached(stub: Stub, session: str) -> AsyncIterator[Any]:
    call = stub.Attach()
    await call.write(config(session))
    assert (await call.read()).ready.instance == "llm-test"
    yield call
    call.cancel()


async def tokens_of_turn(tokens: Any, turn: int) -> list[TokenChunk]:
    """The chunks of one turn up to its last, within the time a test may take."""
    chunks: list[TokenChunk] = []
    async with asyncio.timeout(30):
        async for chunk in tokens:
            if chunk.place.turn == turn:
                chunks.append(chunk)
                if chunk.place.last:
                    break
    return chunks


async def next_text(tokens: Any) -> str:
    chunk = await asyncio.wait_for(anext(tokens), 30)
    assert isinstance(chunk, TokenChunk)
    return chunk.text


async def announce(bus: Bus, session: str, turn: int) -> None:
    await bus.publish(Kind.TURN, TurnChunk(Place(session, turn, 0, 0), "interrupt"))


async def refused(call: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        while await call.read() is not grpc.aio.EOF:
            pass
    return raised.value.code(), raised.value.details() or ""


async def test_generate_streams_and_ends_with_the_counts() -> None:
    samples = ("llm_queue_seconds_count", "llm_ttft_seconds_count")
    times = [MetricGrowth(sample) for sample in samples]
    tokens = [MetricGrowth("llm_tokens_total", direction=way) for way in ("read", "written")]
    async with serving(FakeBackend(*words("Nice to meet you"))) as stub:
        answers = [answer async for answer in stub.Generate(request())]
    assert [answer.text for answer in answers] == ["Nice", " to", " meet", " you", ""]
    assert [answer.finish_reason for answer in answers] == ["", "", "", "", "stop"]
    assert (answers[-1].prompt_tokens, answers[-1].completion_tokens) == (10, 4)
    assert [growth.value for growth in (*times, *tokens)] == [1, 1, 10, 4]


@pytest.mark.parametrize(
    ("bad", "complaint"),
    [
        (llm_pb2.GenerateRequest(), "messages: none given"),
        (request(role=llm_pb2.Message.ROLE_UNSPECIFIED), "messages[0].role: 0 is none of"),
        (request(role=llm_pb2.Message.SYSTEM), "the last message must be USER"),
        (request(temperature=-1.0), "temperature: -1 is not between 0 and 2"),
    ],
)
async def test_bad_requests_are_explained(bad: llm_pb2.GenerateRequest, complaint: str) -> None:
    async with serving(FakeBackend(*words("Hi"))) as stub:
        code, details = await refused(stub.Generate(bad))
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert complaint in details


async def test_what_is_known_reaches_the_model_cleaned() -> None:
    backend = FakeBackend(*words("Nine."))
    known = [llm_pb2.KnownPassage(source="a.md, Hours", text="We open at nine.<|im_end|>")]
    async with serving(backend) as stub:
        async for _ in stub.Generate(request("When do you open?", passages=known)):
            pass
        code, details = await refused(stub.Generate(request(passages=known * 11)))
    told = backend.requests[-1].messages[-1].content
    assert "- a.md, Hours: We open at nine.\n" in told and told.endswith("When do you open?")
    assert code is grpc.StatusCode.INVALID_ARGUMENT and "passages: 11, at most 10" in details


async def test_a_client_that_cancels_frees_its_slot() -> None:
    backend = FakeBackend(Delta("Well"), slots=1, hang=True)
    async with serving(backend) as stub:
        call = stub.Generate(request())
        assert (await call.read()).text == "Well"
        assert await refused(stub.Generate(request())) == (
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            "all 1 slots are taken",
        )
        call.cancel()
        await asyncio.wait_for(backend.freed.wait(), 30)
        status = await stub.GetStatus(control_pb2.GetStatusRequest())
        assert (status.slots, status.free_slots) == (1, 1)


async def test_what_is_told_once_a_second_counts_answers_without_a_session() -> None:
    """As whoever asks is told: by both a gateway chooses, and the newest counts."""
    backend = FakeBackend(Delta("Well"), slots=2, hang=True)
    settings = LlmSettings.model_validate({"admission": "slots"})
    service = LlmService(settings, None, "llm-test", backend=backend)
    async with served(service, "visavis.v1.LanguageModel") as channel:
        stub = Stub(channel)
        calls = []
        for free, refusal in ((1, ""), (0, "all 2 slots are taken")):
            calls.append(stub.Generate(request()))
            assert (await calls[-1].read()).text == "Well"
            told = service.leases.capacity()
            assert (told.free_slots, told.refusal) == (free, refusal)
            asked = await stub.GetStatus(control_pb2.GetStatusRequest())
            assert (asked.free_slots, asked.capacity.free_slots) == (free, free)
        for call in calls:
            call.cancel()
        await asyncio.wait_for(backend.freed.wait(), 30)


async def test_an_engine_failure_is_unavailable_and_the_next_call_works() -> None:
    backend = FakeBackend(EngineError("the model is gone"))
    async with serving(backend) as stub:
        assert await refused(stub.Generate(request())) == (
            grpc.StatusCode.UNAVAILABLE,
            "the model is gone",
        )
        backend.deltas = tuple(words("Back again"))
        assert [a.text async for a in stub.Generate(request())] == ["Back", " again", ""]


async def test_status_tells_what_serves() -> None:
    async with serving(FakeBackend(slots=3)) as stub:
        status = await stub.GetStatus(control_pb2.GetStatusRequest())
    assert (status.service, status.instance, status.slots) == ("llm", "llm-test", 3)
    assert status.engines[0].bundle == "fake-model"
    assert status.engines[0].file == "fake-model-q4.gguf"
    assert list(status.languages) == ["en", "zh"]


async def test_a_turn_becomes_tokens_on_the_bus(bus: Bus) -> None:
    async with (
        serving(FakeBackend(*words("**Nice** to meet you.")), bus) as stub,
        bus.subscribe("turn1", Kind.TOKENS) as tokens,
        attached(stub, "turn1") as call,
    ):
        await call.write(begin(1))
        chunks = await tokens_of_turn(tokens, 1)
        assert (await call.read()).turn_started.turn == 1
        finished = (await call.read()).turn_finished
    assert [chunk.text for chunk in chunks] == ["Nice", " to", " meet", " you.", ""]
    assert [chunk.place.seq for chunk in chunks] == [0, 1, 2, 3, 4]
    assert [chunk.place.pts for chunk in chunks] == [0, 4, 7, 12, 17]
    assert [chunk.place.last for chunk in chunks] == [False] * 4 + [True]
    assert [stamp.stage for stamp in chunks[0].place.stamps] == [
        "llm.first_got",
        "llm.first_started",
        "llm.first_finished",
    ]
    assert (finished.turn, finished.produced, finished.cancelled) == (1, 4, False)
    assert set(finished.seconds) == {"queue", "first_token", "generate"}


async def test_code_of_what_is_written_to_be_said_comes_apart() -> None:
    async with serving(FakeBackend(*map(Delta, ("So:\n```py\nx = 1\n``", "`\n**Done**.")))) as stub:
        told = [a async for a in stub.Generate(request("Assign one to x.", spoken=True))]
        assert [(a.block, a.language, a.text) for a in told if a.block] == [(1, "py", "x = 1\n")]
        assert "".join(a.text for a in told if not a.block) == "So:\nDone."
        as_it_is = [a async for a in stub.Generate(request("Assign one to x."))]
        assert "".join(a.text for a in as_it_is) == "So:\n```py\nx = 1\n```\n**Done**."


async def test_code_is_shown_and_not_said(bus: Bus) -> None:
    async with bus.subscribe("s1", Kind.TOKENS) as tokens:
        pieces = ("```py", "thon\nx", " = 1\n``", "`\nDone", ": **that**")
        backend = FakeBackend(*map(Delta, pieces))
        async with serving(backend, bus) as stub, attached(stub, "s1") as call:
            await call.write(begin(1, "Assign one to x."))
            chunks = await tokens_of_turn(tokens, 1)
    said = [(chunk.text, chunk.place.pts) for chunk in chunks if not chunk.block]
    shown = [(chunk.block, chunk.language, chunk.text) for chunk in chunks if chunk.block]
    assert shown == [(1, "python", "x"), (1, "python", " = 1\n")]
    pointer = "It is on the screen.\n"
    assert said[:2] == [(pointer, 0), ("Done", len(pointer))], "whoever hears it looks there"
    assert "".join(text for text, _ in said) == f"{pointer}Done: that"


async def test_a_new_epoch_on_the_bus_stops_the_turn_at_once(bus: Bus) -> None:
    backend = FakeBackend(Delta("Once"), hang=True)
    async with (
        serving(backend, bus) as stub,
        bus.subscribe("epoch", Kind.TOKENS) as tokens,
        attached(stub, "epoch") as call,
    ):
        await announce(bus, "epoch", 1)
        await call.write(begin(1))
        assert await next_text(tokens) == "Once"
        await announce(bus, "epoch", 2)
        await asyncio.wait_for(backend.freed.wait(), 30)
        assert (await call.read()).turn_started.turn == 1
        finished = (await call.read()).turn_finished
        assert (finished.turn, finished.cancelled) == (1, True)
        backend.deltas, backend.hang = tuple(words("Yes?")), False
        await call.write(begin(2))
        assert [chunk.text for chunk in await tokens_of_turn(tokens, 2)] == ["Yes?", ""]


async def test_a_turn_that_is_over_before_it_begins_is_not_answered(bus: Bus) -> None:
    backend = FakeBackend(*words("Hi"))
    async with serving(backend, bus) as stub, attached(stub, "late") as call:
        await announce(bus, "late", 5)
        await call.write(begin(6))
        for _ in range(2):
            await call.read()  # the service has seen the announcement by now
        asked = len(backend.requests)
        await call.write(begin(4))
        failed = (await call.read()).turn_failed
        assert failed.code == "INVALID_ARGUMENT"
        assert "turn: 4 does not follow 6" in failed.message
        assert len(backend.requests) == asked


async def test_a_bad_turn_fails_and_the_lease_lives(bus: Bus) -> None:
    async with (
        serving(FakeBackend(*words("Hi there")), bus) as stub,
        bus.subscribe("bad", Kind.TOKENS) as tokens,
        attached(stub, "bad") as call,
    ):
        events = []
        for bad in (begin(1, max_tokens=9999), begin(2, ""), begin(3)):
            await call.write(bad)
            events += [await call.read(), await call.read()]
        assert [c.text for c in await tokens_of_turn(tokens, 3)] == ["Hi", " there", ""]
    assert [event.WhichOneof("event") for event in events] == [
        "turn_started",
        "turn_failed",
    ] * 2 + ["turn_started", "turn_finished"]
    assert "max_tokens: 9999" in events[1].turn_failed.message
    assert "nothing to answer" in events[3].turn_failed.message


async def test_a_failure_in_the_middle_ends_the_tokens_and_is_told(bus: Bus) -> None:
    backend = FakeBackend(Delta("Well,"), EngineError("the model is gone"))
    async with (
        serving(backend, bus) as stub,
        bus.subscribe("fail", Kind.TOKENS) as tokens,
        attached(stub, "fail") as call,
    ):
        await call.write(begin(1))
        chunks = await tokens_of_turn(tokens, 1)
        await call.read()
        failed = (await call.read()).turn_failed
    assert [(chunk.text, chunk.place.last) for chunk in chunks] == [("Well,", False), ("", True)]
    assert (failed.turn, failed.code, failed.message) == (1, "UNAVAILABLE", "the model is gone")


async def test_who_holds_the_last_slot_is_answered_in_it_between_his_turns(bus: Bus) -> None:
    backend = FakeBackend(Delta("Once"), slots=1, hang=True)
    async with (
        serving(backend, bus) as stub,
        bus.subscribe("last", Kind.TOKENS) as tokens,
        attached(stub, "last") as lease,
    ):
        code, _ = await refused(stub.Generate(request(session="other")))
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
        await lease.write(begin(1))
        assert await next_text(tokens) == "Once"
        beside = stub.Generate(request("And beside?", session="last"))
        assert (await lease.read()).turn_started.turn == 1
        held = TurnChunk(Place("last", 2, 0, 0), "speech", held=True)
        await bus.publish(Kind.TURN, held)
        assert (await lease.read()).turn_finished.cancelled
        assert (await beside.read()).text == "Once"
        # What else is asked beside waits, and so does a turn that is only prepared.
        later = stub.Generate(request("And later?", session="last"))
        await lease.write(begin(2, "And now?", held=True))
        assert (await lease.read()).turn_started.turn == 2
        backend.deltas, backend.hang = tuple(words("Well")), False
        assert len(backend.at_work) == 1
        # One that is wanted takes the slot back.
        await announce(bus, "last", 2)
        code, details = await refused(beside)
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED and "next turn" in details
        assert "".join(c.text for c in await tokens_of_turn(tokens, 2)) == "Well"
        assert (await later.read()).text == "Well"
    asked = [r.messages[-1].content for r in backend.requests if r.messages[-1].content != "."]
    assert asked == ["Hello", "And beside?", "And now?", "And later?"]


async def test_a_slot_is_free_once_the_lease_and_what_was_asked_beside_it_have_left(
    bus: Bus,
) -> None:
    backend = FakeBackend(Delta("Once"), slots=1, hang=True)
    async with serving(backend, bus) as stub:
        async with attached(stub, "first") as lease:
            beside = stub.Generate(request(session="first"))
            assert (await beside.read()).text == "Once"
            await lease.done_writing()
            assert await lease.read() is grpc.aio.EOF
        assert "all 1 slots" in (await refused(stub.Generate(request())))[1]
        beside.cancel()
        await asyncio.wait_for(backend.freed.wait(), 30)
        async with attached(stub, "second"):
            pass


async def test_a_turn_that_was_begun_elsewhere_goes_on_with_its_numbers(bus: Bus) -> None:
    backend = FakeBackend(*map(Delta, (" it", " is:\n", "```\nz\n```")))
    async with (
        serving(backend, bus) as stub,
        bus.subscribe("elsewhere", Kind.TOKENS) as tokens,
        attached(stub, "elsewhere") as call,
    ):
        so_far = "Here\n```py\nx\n```\nand here"
        await call.write(behind(3, so_far, chars=100, blocks=2))
        chunks = await tokens_of_turn(tokens, 3)
        assert (await call.read()).turn_started.turn == 3
        assert (await call.read()).turn_finished.turn == 3
    before = 100 + len("Here\nand here")
    assert [(c.text, c.place.pts - before, c.block) for c in chunks] == [
        (" it", 0, 0),
        (" is:\n", 3, 0),
        ("z\n", 8, 4),
        ("", 8, 0),
    ]
    assert backend.requests[0].written == so_far
    assert not chunks[0].place.stamps, "its first words came elsewhere"


@pytest.mark.parametrize("how", ["works", "failed", "finished"])
async def test_a_turn_is_begun_anew_where_it_was_begun_before(bus: Bus, how: str) -> None:
    ends = {"failed": [EngineError("the bus is gone")]}
    backend = FakeBackend(Delta("Once"), *ends.get(how, []), hang=how == "works")
    async with (
        serving(backend, bus) as stub,
        bus.subscribe(how, Kind.TOKENS) as tokens,
        attached(stub, how) as call,
    ):
        await call.write(begin(1))
        assert (await call.read()).turn_started.turn == 1
        assert await next_text(tokens) == "Once"
        if how != "works":
            assert (await call.read()).WhichOneof("event") == f"turn_{how}"
            assert (await tokens_of_turn(tokens, 1))[-1].place.last
        backend.deltas, backend.hang = (Delta(" upon a time."),), False
        await call.write(behind(1, "Once", run=1))
        assert (await call.read()).turn_started.turn == 1
        chunks = await tokens_of_turn(tokens, 1)
        # What was at work ends untold.
        assert not (await call.read()).turn_finished.cancelled
        # And an answer that is all there already ends, too.
        backend.deltas = (Delta(finish_reason="stop"),)
        await call.write(behind(1, "Once upon a time.", run=2))
        (last,) = await tokens_of_turn(tokens, 1)
    told = [(chunk.text, chunk.place.pts, chunk.place.seq, chunk.run) for chunk in (*chunks, last)]
    assert told == [(" upon a time.", 4, 0, 1), ("", 17, 1, 1), ("", 17, 0, 2)]


async def test_sessions_at_once_are_never_mixed(bus: Bus) -> None:
    class Echo(FakeBackend):
        async def stream(self, request: Any) -> Any:
            self.deltas = tuple(words(f"{request.messages[-1].content} " * 20))
            async with contextlib.aclosing(super().stream(request)) as deltas:
                async for delta in deltas:
                    yield delta

    names, echo = ["amber", "beryl", "coral"], Echo(slots=3)
    async with contextlib.AsyncExitStack() as stack:
        stub = await stack.enter_async_context(serving(echo, bus))
        subscriptions = [
            await stack.enter_async_context(bus.subscribe(name, Kind.TOKENS)) for name in names
        ]
        calls = [await stack.enter_async_context(attached(stub, name)) for name in names]
        for turn in (1, 2):
            for name, call in zip(names, calls, strict=True):
                await call.write(begin(turn, f"{name}{turn}"))
            for name, tokens in zip(names, subscriptions, strict=True):
                chunks = await tokens_of_turn(tokens, turn)
                assert {c.place.session for c in chunks} == {name}
                assert set("".join(c.text for c in chunks).split()) == {f"{name}{turn}"}
    assert all(r.messages[-1].content.startswith(r.session) for r in echo.requests)


async def test_messages_of_a_lease_in_the_wrong_order_are_refused(bus: Bus) -> None:
    async with serving(FakeBackend(), bus) as stub, attached(stub, "once") as call:
        other = stub.Attach()
        await other.write(begin(1))
        await call.write(config("once"))
        for wrong in (other, call):
            assert (await refused(wrong))[0] is grpc.StatusCode.FAILED_PRECONDITION


async def test_each_slot_reads_the_persona_once_ahead_of_its_first_session(bus: Bus) -> None:
    backend = FakeBackend(*words("Hi"), slots=2, keeps_prefix=True)
    async with serving(backend, bus) as stub:
        assert [request.slot for request in backend.requests] == [0]
        for session in ("one", "two"):
            async with attached(stub, session) as call:
                await call.write(begin(1))
                for _ in range(2):
                    await call.read()
    ahead = [r.slot for r in backend.requests if r.messages[-1].content == "."]
    assert sorted(ahead) == [0, 1]


def read_ahead(text: str) -> llm_pb2.LlmAttachRequest:
    return llm_pb2.LlmAttachRequest(read_ahead=llm_pb2.ReadAhead(request=request(text)))


async def test_what_is_still_being_said_is_read_and_not_answered(bus: Bus) -> None:
    backend = FakeBackend(*words("Fine."), keeps_prefix=True, slots=1)
    async with (
        serving(backend, bus) as stub,
        bus.subscribe("s1", Kind.TOKENS) as tokens,
        attached(stub, "s1") as lease,
    ):
        await lease.write(read_ahead("How are"))
        await lease.write(begin(1, "How are you?"))
        chunks = await tokens_of_turn(tokens, 1)
    assert "".join(c.text for c in chunks) == "Fine."
    read, asked = [r for r in backend.requests if r.messages[-1].content != "."]
    assert (read.messages[-1].content, read.sampling.max_tokens) == ("How are", 0)
    assert read.slot == asked.slot and asked.sampling.max_tokens > 1


async def test_reading_ahead_never_disturbs_an_answer_and_never_complains(bus: Bus) -> None:
    backend = FakeBackend(*words("Well"), keeps_prefix=True, slots=1)
    async with (
        serving(backend, bus) as stub,
        bus.subscribe("s1", Kind.TOKENS) as tokens,
        attached(stub, "s1") as lease,
    ):
        backend.hang = True
        await lease.write(begin(1))
        assert await next_text(tokens) == "Well"
        await lease.write(read_ahead("And then"))
        await lease.write(read_ahead(""))
        backend.hang = False
        await lease.write(read_ahead("And what"))
        await lease.write(begin(2, "And what is that?"))
        assert "".join(c.text for c in await tokens_of_turn(tokens, 2)) == "Well"
    asked = [r.messages[-1].content for r in backend.requests if r.messages[-1].content != "."]
    assert asked == ["Hello", "And what is that?"]


async def test_a_held_answer_waits_for_those_of_others_until_it_is_wanted(bus: Bus) -> None:
    backend = FakeBackend(*words("Hm"), hang=True)
    async with (
        serving(backend, bus) as stub,
        bus.subscribe("waits", Kind.TOKENS) as waiting,
        bus.subscribe("guess", Kind.TOKENS) as guessed,
        attached(stub, "waits") as first,
        attached(stub, "guess") as second,
    ):
        await first.write(begin(1))
        assert await next_text(waiting) == "Hm"
        await second.write(begin(1, held=True))
        assert (await second.read()).turn_started.turn == 1
        held = TurnChunk(Place("guess", 1, 0, 0), "speech", held=True)
        await bus.publish(Kind.TURN, held)
        assert len(backend.at_work) == 1, "it has no first phrase yet"
        await announce(bus, "guess", 1)
        assert await next_text(guessed) == "Hm"
        assert len(backend.at_work) == 2


async def test_an_answer_is_work_in_others_way_only_once_it_is_wanted(bus: Bus) -> None:
    backend, clock = FakeBackend(*words("Hm"), hang=True), ManualClock()
    service = LlmService(
        LlmSettings.model_validate({"admission": "slots"}),
        bus,
        "llm-test",
        backend=backend,
        clock=clock,
    )
    meter = service.admission.meter
    async with (
        asyncio.timeout(30),
        served(service, "visavis.v1.LanguageModel") as channel,
        bus.subscribe("guess", Kind.TOKENS) as guessed,
        attached(Stub(channel), "guess") as lease,
    ):
        await lease.write(begin(1, held=True))
        assert await next_text(guessed) == "Hm"
        held = meter.measured().unit_cost_s
        clock.advance(10)
        assert meter.measured().unit_cost_s == held
        await announce(bus, "guess", 1)
        while meter.measured().unit_cost_s == held:
            clock.advance(0.1)
            await asyncio.sleep(0.01)
