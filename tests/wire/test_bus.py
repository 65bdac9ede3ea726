import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from visavis.serving.errors import BusError, InvalidInputError
from visavis.tools.stack.nats_server import NatsServer
from visavis.wire.bus import Bus, enter_all
from visavis.wire.media import PcmChunk, Place, TokenChunk
from visavis.wire.subjects import Kind


def token(turn: int, seq: int, text: str, session: str = "s1") -> TokenChunk:
    return TokenChunk(Place(session, turn, seq, pts=0), text)


async def take(subscription, count):
    return [await asyncio.wait_for(anext(subscription), 30) for _ in range(count)]


async def test_chunks_arrive_in_order_and_whole(bus: Bus) -> None:
    pcm = np.array([0, 1, -32768, 32767], np.int16)
    async with bus.subscribe("s1", Kind.VOICE) as voice:
        for seq in range(5):
            await bus.publish(Kind.VOICE, PcmChunk(Place("s1", 3, seq, seq * 4), 24_000, pcm))
        chunks = await take(voice, 5)
    assert [c.place.seq for c in chunks] == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(chunks[4].pcm, pcm)
    assert chunks[4].sample_rate_hz == 24_000


async def test_a_chunk_says_which_span_it_belongs_to(bus: Bus) -> None:
    async with bus.subscribe("s1", Kind.TOKENS) as tokens:
        await bus.publish(Kind.TOKENS, token(1, 0, "traced"), "00-a-b-01")
        await bus.publish(Kind.TOKENS, token(1, 1, "not traced"))
        await bus.flush()
        await take(tokens, 1)
        assert tokens.traceparent == "00-a-b-01"
        await take(tokens, 1)
        assert tokens.traceparent == ""


async def test_sessions_are_apart(bus: Bus) -> None:
    async with bus.subscribe("s1", Kind.TOKENS) as mine:
        await bus.publish(Kind.TOKENS, token(1, 0, "theirs", session="s2"))
        await bus.publish(Kind.TOKENS, token(1, 0, "mine"))
        assert [c.text for c in await take(mine, 1)] == ["mine"]


async def test_older_turns_vanish_wherever_they_wait(bus: Bus) -> None:
    async with bus.subscribe("s1", Kind.TOKENS) as tokens:
        await bus.publish(Kind.TOKENS, token(1, 0, "old, in the queue"))
        await bus.publish(Kind.TOKENS, token(0, 0, "the session's own"))
        await bus.flush()
        tokens.advance(2)
        await bus.publish(Kind.TOKENS, token(1, 1, "old, late"))
        await bus.publish(Kind.TOKENS, token(2, 0, "new"))
        texts = [c.text for c in await take(tokens, 2)]
    assert texts == ["the session's own", "new"]
    assert tokens.dropped == 2


async def test_full_queue_drops_the_oldest_and_counts(bus: Bus) -> None:
    async with bus.subscribe("s1", Kind.TOKENS, limit=3) as tokens:
        for seq in range(10):
            await bus.publish(Kind.TOKENS, token(1, seq, str(seq)))
        await bus.flush()
        texts = [c.text for c in await take(tokens, 3)]
    assert texts == ["7", "8", "9"]
    assert tokens.dropped == 7


async def test_holes_are_counted(bus: Bus) -> None:
    async with bus.subscribe("s1", Kind.TOKENS) as tokens:
        for seq in (0, 1, 4):
            await bus.publish(Kind.TOKENS, token(1, seq, "x"))
        await take(tokens, 3)
    assert tokens.lost == 2


async def test_garbage_is_skipped(bus: Bus) -> None:
    async with bus.subscribe("s1", Kind.VOICE) as voice:
        for garbage in (b"\xff\xff\xff", b"\x0a\xff\x01", b""):
            await bus.client.publish("vv.s1.1.voice", garbage)
        good = PcmChunk(Place("s1", 1, 0, 0), 16_000, np.zeros(2, np.int16))
        await bus.publish(Kind.VOICE, good)
        (chunk,) = await take(voice, 1)
    assert chunk.sample_rate_hz == 16_000
    assert voice.dropped == 3


async def test_session_that_would_break_a_subject_is_refused(bus: Bus) -> None:
    for session in ("", "a.b", "*", ">", "x" * 65, "a b"):
        with pytest.raises(InvalidInputError, match="session"):
            bus.subscribe(session, Kind.MIC)


async def test_iteration_ends_when_the_subscription_is_left(bus: Bus) -> None:
    tokens = bus.subscribe("s1", Kind.TOKENS)
    async with tokens:
        pass
    assert [c async for c in tokens] == []


async def test_giving_up_halfway_into_a_subscription_leaves_nothing_and_breaks_nothing(
    bus: Bus,
) -> None:
    before = len(bus.client._subs)
    async with bus.subscribe("s1", Kind.TOKENS) as tokens:
        entering = asyncio.create_task(bus.subscribe("s2", Kind.TOKENS).__aenter__())
        flushing = asyncio.create_task(bus.flush())
        await asyncio.sleep(0)  # both have sent, and wait for the server's answer
        await asyncio.sleep(0)
        assert not flushing.done()
        entering.cancel()
        flushing.cancel()
        await asyncio.gather(entering, flushing, return_exceptions=True)
        await bus.flush()
        await bus.publish(Kind.TOKENS, token(1, 0, "still here"))
        assert [c.text for c in await take(tokens, 1)] == ["still here"]
        async with asyncio.timeout(30):
            while len(bus.client._subs) > before + 1:
                await bus.flush()


async def test_a_subscription_that_the_server_did_not_confirm_in_time_leaves_nothing(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unanswered(self: Bus) -> None:
        raise BusError("flush: the server does not answer")

    with monkeypatch.context() as silent:
        silent.setattr(Bus, "flush", unanswered)
        with pytest.raises(BusError):
            await bus.subscribe("s1", Kind.TOKENS).__aenter__()
    await bus.flush()
    before = bus.client.stats["in_msgs"]
    await bus.publish(Kind.TOKENS, token(1, 0, "to nobody"))
    await bus.flush()
    assert bus.client.stats["in_msgs"] == before


async def test_survives_a_restart_of_the_server(tmp_path) -> None:
    with NatsServer(tmp_path) as server:
        bus = await Bus.connect(server.url, name="test")
        async with bus.subscribe("s1", Kind.TOKENS) as tokens:
            await asyncio.to_thread(server.restart)
            assert await bus.there()
            await bus.publish(Kind.TOKENS, token(1, 0, "after"))
            assert (await take(tokens, 1))[0].text == "after"
        await bus.close()


async def test_who_ends_while_the_server_is_gone_ends_in_order(tmp_path) -> None:
    with NatsServer(tmp_path) as server:
        bus = await Bus.connect(server.url, name="test")
        await asyncio.to_thread(server.stop)
        await bus.next_loss(0)
        await bus.publish(Kind.TOKENS, token(1, 0, "to nobody"))
        await bus.close()
        assert bus.client.is_closed


async def test_no_server_is_a_clear_error() -> None:
    with pytest.raises(BusError, match=r"nats://127\.0\.0\.1:1\b"):
        await Bus.connect("nats://127.0.0.1:1", name="test")


async def test_who_is_cancelled_in_the_moment_of_a_refusal_tries_no_more(monkeypatch) -> None:
    async def refuse(*_: object, **__: object) -> None:
        connecting.cancel()
        raise ConnectionRefusedError

    monkeypatch.setattr(asyncio, "open_connection", refuse)
    connecting = asyncio.create_task(Bus.connect("nats://127.0.0.1:1", name="test", wait_s=60))
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(5):
            await asyncio.wait({connecting})
            await connecting


@pytest.mark.parametrize(
    "url",
    ["", "nats://127.0.0.1:70000", "nats://[::1", "http://x"],
)
async def test_what_is_no_address_is_told(url: str) -> None:
    with pytest.raises(BusError, match="not an address of a NATS server as nats://HOST:PORT"):
        await Bus.connect(url, name="test")


class TinyServer:
    """Of NATS so much that a client takes it for a server: tells who is there, and counts.

    hold: so many subscriptions are wanted before a ping behind the first one is answered.
    """

    def __init__(self, others: Sequence[str] = (), *, hold: int = 0) -> None:
        self.others = others
        self.came = asyncio.Event()
        self._hold = hold
        self._said: Counter[str] = Counter()
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> "TinyServer":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.hang_up()

    def hang_up(self) -> None:
        for writer in self._writers:
            writer.close()

    def tell(self, others: Sequence[str]) -> None:
        info = json.dumps({"version": "2.10.0", "max_payload": 1 << 20, "connect_urls": [*others]})
        self._writers[-1].write(f"INFO {info}\r\n".encode())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        self.tell(self.others)
        pings = 0
        async for line in reader:
            self._said[line.split()[0].decode()] += 1
            pings += line.startswith(b"PING")
            if not 0 < self._said["SUB"] < self._hold:
                writer.write(b"PONG\r\n" * pings)
                pings = 0
            self.came.set()


async def test_of_many_servers_the_one_that_was_heard_of_last_is_tried_first() -> None:
    """The others may have gone for good, which nobody tells: each would cost seconds."""
    async with contextlib.AsyncExitStack() as held:
        gone = [await held.enter_async_context(TinyServer()) for _ in range(8)]
        new = await held.enter_async_context(TinyServer())
        known = [one.address for one in gone]
        first = await held.enter_async_context(TinyServer(known[:4]))
        bus = await Bus.connect(f"nats://{first.address}", name="test")
        first.tell(known[4:])
        first.tell([new.address])
        await bus.flush()
        first.hang_up()
        await asyncio.wait_for(new.came.wait(), 10)
        assert not any(one.came.is_set() for one in gone)
        await bus.close()


async def test_where_many_servers_are_dead_the_given_address_is_tried_between_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG", "visavis.wire.bus")
    async with TinyServer([f"127.0.0.1:{port}" for port in range(1, 9)]) as given:
        bus = await Bus.connect(f"nats://{given.address}", name="test")
        given.hang_up()
        given.came.clear()
        await asyncio.wait_for(given.came.wait(), 10)
        assert sum("Connect call failed" in record.message for record in caplog.records) == 1
        await bus.close()


async def test_many_subscriptions_cost_one_way_to_the_server() -> None:
    kinds = [Kind.TOKENS, Kind.VOICE, Kind.VIDEO]
    async with TinyServer(hold=len(kinds)) as server, contextlib.AsyncExitStack() as held:
        bus = await Bus.connect(f"nats://{server.address}", name="test")
        held.push_async_callback(bus.close)
        async with asyncio.timeout(10):
            await enter_all(held, [bus.subscribe("s1", kind) for kind in kinds])
