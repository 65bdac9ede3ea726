"""A stage on a real bus: the epoch, the turn at work, its end, and the end of the lease."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Coroutine, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from visavis.serving.admission.admission import Admission
from visavis.serving.admission.meter import Assumed
from visavis.serving.admission.prediction import Promise
from visavis.serving.errors import AtCapacityError, EngineError
from visavis.serving.stage import ChunkNumbers, Leases, Stage, StageWork, Turn, TurnNumbers
from visavis.serving.telemetry import traces
from visavis.serving.telemetry.opentelemetry_spans import open_tracer
from visavis.v1 import control_pb2 as pb
from visavis.wire.bus import Bus
from visavis.wire.clock import MonotonicClock
from visavis.wire.media import Place, TokenChunk, TurnChunk
from visavis.wire.subjects import Kind


class Told(Turn):
    """A turn that counts the words of its text."""

    words = 0

    @property
    def produced(self) -> int:
        return self.words

    def seconds(self) -> dict[str, float]:
        return {"total": 1.0}


class Reader(StageWork):
    """Begins a turn with its first token: "wait" works for ever, "break" and "crash" fail, the rest
    ends.
    """

    inputs = MappingProxyType({Kind.TURN: 8, Kind.TOKENS: 8})

    def __init__(self, stage: Stage[Told]) -> None:
        self.stage = stage
        self.came: list[tuple[int, str]] = []
        self.taken: list[tuple[int, str]] = []
        self.announced_turns: list[int] = []
        self.at_work = 0
        self.reading = asyncio.Event()
        self.reading.set()

    def announced(self, chunk: TurnChunk) -> None:
        self.announced_turns.append(chunk.place.turn)

    def loops(self) -> Sequence[Coroutine[Any, Any, None]]:
        return [self._read()]

    async def _read(self) -> None:
        async for chunk in self.stage.chunks(Kind.TOKENS):
            assert isinstance(chunk, TokenChunk)
            self.came.append((chunk.place.turn, chunk.text))
            if not self.stage.wants(chunk.place.turn):
                continue
            self.taken.append((chunk.place.turn, chunk.text))
            turn, text = Told(chunk.place.turn), chunk.text
            await self.stage.begin_turn(turn, lambda turn=turn, text=text: self._work(turn, text))
            await self.reading.wait()

    async def _work(self, turn: Told, text: str) -> None:
        self.at_work += 1
        try:
            turn.words += 1
            if text == "wait":
                await asyncio.Event().wait()
            if text == "break":
                raise EngineError("no power")
            if text == "crash":
                raise RuntimeError("secret")
        finally:
            self.at_work -= 1


class Client:
    """The gateway's side: says things on the bus, reads the lease's events."""

    def __init__(self, name: str, bus: Bus, reader: Reader, events: Any) -> None:
        self.reader = reader
        self.events = events
        self._name, self._bus = name, bus

    async def say(self, turn: int, text: str) -> None:
        await self._bus.publish(Kind.TOKENS, TokenChunk(Place(self._name, turn, 0, 0), text))

    async def announce(self, turn: int, traceparent: str = "") -> None:
        chunk = TurnChunk(Place(self._name, turn, 0, 0), "text")
        await self._bus.publish(Kind.TURN, chunk, traceparent)

    async def next_event(self) -> pb.AttachEvent:
        event: pb.AttachEvent = await asyncio.wait_for(anext(self.events), 30)
        return event

    async def next_kinds(self, count: int) -> list[str | None]:
        return [(await self.next_event()).WhichOneof("event") for _ in range(count)]


async def silent() -> AsyncIterator[Any]:
    """A client that asks for nothing and stays."""
    await asyncio.Event().wait()
    yield None


async def refuse(_: Any) -> None:
    raise AssertionError("nothing is asked")


@contextlib.asynccontextmanager
async def attached(leases: Leases, bus: Bus, name: str) -> AsyncIterator[Client]:
    with leases.attach(name) as stage:
        reader = Reader(stage)
        async with contextlib.aclosing(stage.serve(reader, silent(), refuse)) as events:
            client = Client(name, bus, reader, events)
            assert (await client.next_event()).ready.instance == "test-1"
            yield client


async def until(condition: Any, *, within_s: float = 30.0) -> None:
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110  # waits for what comes over the bus
            await asyncio.sleep(0.001)


def leases_of(bus: Bus, slots: int = 1) -> Leases:
    assumed = Assumed(0.1, 0.1, 0.1)
    admission = Admission("test", MonotonicClock(), assumed, Promise(), slots=slots)
    return Leases("test", "test-1", bus, admission)


@pytest.fixture
def leases(bus: Bus) -> Leases:
    return leases_of(bus)


async def test_a_replica_that_is_about_to_end_tells_that_it_has_no_room(leases: Leases) -> None:
    assert leases.capacity().free_slots == 1
    leases.drain()
    told = leases.capacity()
    assert (told.free_slots, told.refusal) == (0, "test-1 is about to end")
    assert leases.status([], []).capacity.free_slots == 0


async def test_a_new_epoch_cancels_the_turn_and_drops_what_waits(bus: Bus, leases: Leases) -> None:
    async with attached(leases, bus, "epoch") as client:
        client.reader.reading.clear()
        await client.announce(1)
        await client.say(1, "wait")
        assert (await client.next_event()).turn_started.turn == 1
        await client.say(1, "stale")
        await client.say(2, "next")
        await client.announce(2)
        finished = (await client.next_event()).turn_finished
        assert (finished.turn, finished.cancelled, finished.produced) == (1, True, 1)
        assert (client.reader.at_work, client.reader.stage.turn) == (0, None)
        client.reader.reading.set()
        assert await client.next_kinds(2) == ["turn_started", "turn_finished"]
        assert client.reader.came == [(1, "wait"), (2, "next")]
        assert client.reader.announced_turns == [1, 2]


async def test_turns_that_the_gateway_traces_leave_a_span_each(
    bus: Bus, leases: Leases, tmp_path: Path
) -> None:
    file = tmp_path / "traces.jsonl"
    tracer = open_tracer("test", "test-1", str(file))
    traces.use_tracer(tracer)
    try:
        async with attached(leases, bus, "traced") as client:
            for turn, (text, events) in enumerate((("hello", 2), ("break", 2), ("wait", 1)), 1):
                await client.announce(turn, f"00-{turn:032x}-{turn:016x}-01")
                await until(lambda turn=turn: turn in client.reader.announced_turns)
                await client.say(turn, text)
                await client.next_kinds(events)
            await client.announce(4)
            await client.say(4, "not traced")
            assert (await client.next_kinds(3))[-1] == "turn_finished"
    finally:
        traces.use_tracer(None)
        tracer.close()
    spans = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    assert [int(span["parent_id"], 16) for span in spans] == [1, 2, 3]
    assert [span["status"]["status_code"] for span in spans] == ["UNSET", "ERROR", "UNSET"]
    told = [span["attributes"] for span in spans]
    assert [a["visavis.cancelled"] for a in told] == [False, False, True]
    assert {(a["visavis.session"], a["visavis.produced"]) for a in told} == {("traced", 1)}
    assert told[0]["visavis.total_s"] == 1.0


async def test_the_first_chunk_of_a_newer_turn_ends_the_older_unannounced(
    bus: Bus, leases: Leases
) -> None:
    async with attached(leases, bus, "lost") as client:
        await client.say(3, "wait")
        await client.say(4, "wait")
        assert await client.next_kinds(3) == ["turn_started", "turn_finished", "turn_started"]
        await client.say(3, "late")
        await client.announce(3)
        await client.announce(5)
        finished = (await client.next_event()).turn_finished
        assert (finished.turn, finished.cancelled) == (4, True)
        assert client.reader.announced_turns == [5]
        assert client.reader.taken == [(3, "wait"), (4, "wait")]


async def test_a_turn_that_fails_is_an_event_without_secrets_and_the_next_one_works(
    bus: Bus, leases: Leases, caplog: pytest.LogCaptureFixture
) -> None:
    async with attached(leases, bus, "fails") as client:
        hidden = "internal error; see the service's log"
        told = [("break", "UNAVAILABLE", "no power"), ("crash", "INTERNAL", hidden)]
        for turn, (text, code, message) in enumerate(told, 1):
            await client.say(turn, text)
            assert (await client.next_event()).turn_started.turn == turn
            failed = (await client.next_event()).turn_failed
            assert (failed.turn, failed.code, failed.message) == (turn, code, message)
        assert "secret" in caplog.text
        await client.say(2, "more of it")
        await client.say(3, "fine")
        assert (await client.next_event()).turn_started.turn == 3
        finished = (await client.next_event()).turn_finished
        assert (finished.turn, finished.cancelled, finished.produced) == (3, False, 1)
        assert client.reader.taken == [(1, "break"), (2, "crash"), (3, "fine")]


async def test_a_turn_that_is_over_before_it_begins_is_told_as_cancelled(
    bus: Bus, leases: Leases
) -> None:
    async with attached(leases, bus, "over") as client:
        await client.announce(5)
        await until(lambda: client.reader.announced_turns == [5])
        beginning = asyncio.create_task(client.reader.stage.begin_turn(Told(4)))
        assert await client.next_kinds(1) == ["turn_started"]
        assert (await client.next_event()).turn_finished.cancelled
        await beginning
        assert client.reader.stage.turn is None


async def test_a_connection_to_the_bus_that_blinks_is_told_as_it_goes_and_as_it_is_back(
    bus: Bus, leases: Leases
) -> None:
    """A turn that begins while it is away may lack something, too."""
    async with attached(leases, bus, "blinks") as client:
        await bus.client.force_reconnect()
        told = [await client.next_event(), await client.next_event()]
        assert [(t.HasField("bus_lost"), t.bus_lost.away) for t in told] == [
            (True, True),
            (True, False),
        ]
        assert bus.connected
        await client.say(1, "go")
        assert await client.next_kinds(2) == ["turn_started", "turn_finished"]


async def test_the_end_of_the_lease_frees_everything(bus: Bus, leases: Leases) -> None:
    before = asyncio.all_tasks()
    async with attached(leases, bus, "close") as client:
        await client.say(1, "wait")
        assert (await client.next_event()).turn_started.turn == 1
        assert leases.status([], ["en"]).free_slots == 0
        with pytest.raises(AtCapacityError), leases.attach("another"):
            pass
    assert (client.reader.at_work, leases.slots.free) == (0, 1)
    await until(lambda: asyncio.all_tasks() <= before)
    await client.say(1, "wait")
    await bus.flush()
    assert client.reader.taken == [(1, "wait")]
    async with attached(leases, bus, "close"):
        pass


async def test_a_client_that_reads_no_events_holds_up_no_end(bus: Bus, leases: Leases) -> None:
    before = asyncio.all_tasks()
    async with attached(leases, bus, "deaf") as client:
        begun = 0
        with contextlib.suppress(TimeoutError):
            while begun < 100:
                await client.say(begun + 1, "wait")
                await until(lambda n=begun: client.reader.stage.begun > n, within_s=1.5)
                begun += 1
        assert 10 < begun < 100, "it waits with the client, and keeps no more events than so many"
    assert (client.reader.at_work, leases.slots.free) == (0, 1)
    await until(lambda: asyncio.all_tasks() <= before)


def test_turns_are_over_begun_and_refused_by_their_numbers() -> None:
    turns = TurnNumbers()
    assert not turns.wants(0), "the session itself is no turn"
    assert turns.begin(2) and not turns.begin(2) and not turns.begin(1)
    assert turns.advance(3) and not turns.advance(3) and not turns.advance(1)
    assert [turns.wants(n) for n in (1, 2, 3, 4)] == [False, False, True, True]
    assert turns.refuse(3) and not turns.refuse(3) and not turns.refuse(2)
    assert [turns.wants(n) for n in (3, 4)] == [False, True]
    assert turns.begin(3) and not turns.wants(3)
    assert turns.begin(3, anew=True) and turns.wants(3)
    assert not turns.begin(2, anew=True)


def test_chunks_are_numbered_within_their_turn_and_kind() -> None:
    numbers = ChunkNumbers()
    assert [numbers.take(turn, Kind.VIDEO) for turn in (0, 1, 1, 0, 2)] == [0, 0, 1, 1, 0]
    assert numbers.take(1, Kind.FACE) == 0
    numbers.forget(before=2)
    assert [numbers.take(turn, Kind.VIDEO) for turn in (0, 2)] == [2, 1]
    numbers.restart(2)
    assert [numbers.take(turn, Kind.VIDEO) for turn in (0, 2)] == [3, 0]
