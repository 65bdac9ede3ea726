"""What a target gets that does not keep up, when it is tried again, and what of it is secret."""

from __future__ import annotations

import asyncio
import gzip
import re
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from gateway.background import Background
from gateway.edge import self_signed
from gateway.live.media import LiveTick
from gateway.live.push.address import PushAddress, allowed, parse
from gateway.live.push.broadcasts import Broadcasts
from gateway.live.push.failure import PushError
from gateway.live.push.flow import GIVE_UP_S, Figures, Flow, Retries
from gateway.live.push.target import Phase, Target
from gateway.live.push.to_whip import WhipPush
from gateway.live.rtmp.amf import encode
from gateway.live.rtmp.chunks import COMMAND, COMMAND_AMF3, PICTURE, Message, chunked
from gateway.live.rtmp.client import RtmpPublisher
from tests.fakes import ManualClock
from tests.gateway.conftest import until
from tests.gateway.live.peers import WhipEndpoint
from visavis.serving.errors import InvalidInputError
from visavis.serving.trust import client_context


@pytest.mark.parametrize(
    ("url", "key", "app", "name", "shown"),
    [
        ("rtmp://h/live", "abc", "live", "abc", "rtmp://h/…"),
        ("rtmp://h:19350/live/abc", "", "live", "abc", "rtmp://h:19350/…"),
        ("rtmps://h/a/b/", "?streamname=x&key=y", "a/b", "?streamname=x&key=y", "rtmps://h/…"),
        ("rtmp://h/live-bvc/?name=x/y&key=z", "", "live-bvc", "?name=x/y&key=z", "rtmp://h/…"),
        ("rtmp://[::1]:1936/live/abc", "", "live", "abc", "rtmp://[::1]:1936/…"),
    ],
)
def test_addresses_of_rtmp(url: str, key: str, app: str, name: str, shown: str) -> None:
    address = parse(url, key)
    assert (address.path, address.key, address.shown) == (app, name, shown)
    assert address.kind == "rtmp" and name not in repr(address)
    assert address.tc_url.endswith(f"/{app}")


def test_an_address_of_whip() -> None:
    address = parse("https://h/secret/whip?x=1", "bearer")
    assert (address.kind, address.port, address.encrypted) == ("whip", 443, True)
    assert address.url == "https://h/secret/whip?x=1" and address.shown == "https://h/…"
    assert "secret" not in repr(address) and "bearer" not in repr(address)


@pytest.mark.parametrize(
    ("url", "key"),
    [
        *(("file:///etc/passwd", ""), ("rtmp://h", ""), ("rtmp://h/onlykey", "")),
        *(("rtmp:///live/SECRET", ""), ("rtmp://user:SECRET@h/live/x", ""), ("srt://h/SECRET", "")),
        *(("rtmp://h:99999/live/SECRET", ""), ("rtmp://h/live/SECRET\r\nHost: other", "")),
        *(("https://h/whip SECRET", ""), ("https://h/whip", "SECRET…")),
        *(("rtmp://live..example/a/SECRET", ""), (f"https://{'h' * 64}.example/SECRET", "")),
    ],
)
def test_an_address_that_is_refused_is_not_repeated(url: str, key: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        parse(url, key)
    assert "SECRET" not in str(refused.value)


async def test_a_host_that_nobody_can_look_up_is_told_of() -> None:
    push = WhipPush(parse("https://xn--a.example/SECRET"), Figures(), lambda: None, ())
    with pytest.raises(PushError, match="cannot be reached"):
        await push.open()
    await push.close()


def test_hosts_that_are_allowed() -> None:
    named = ["live.example", "*.video.example"]
    assert allowed("LIVE.example", named) and allowed("a.video.example.", named)
    assert not allowed("video.example", named) and not allowed("evil-live.example", named)
    assert not allowed("anything", []) and allowed("anything", ["*"])


async def test_rtmps_believes_no_stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    server_context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server_context.load_cert_chain(*self_signed.ensure())

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0, ssl=server_context)
    async with server:
        port = server.sockets[0].getsockname()[1]
        address = parse(f"rtmps://localhost:{port}/live", "abc")
        with pytest.raises(PushError, match="not to be trusted"):
            await RtmpPublisher.open(address, ssl.create_default_context())
        # With a certificate that is believed it goes on, to a server that says nothing.
        with pytest.raises(PushError, match="closed the connection"):
            await RtmpPublisher.open(address, client_context())


async def test_a_server_that_takes_nothing_more_does_not_keep_its_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gateway.live.rtmp.client._CLOSE_S", 0.05)
    monkeypatch.setattr("gateway.live.rtmp.client._LINGER_S", 0.05)

    async def take_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await greet(reader, writer)
        await answer(reader, writer, "publish", "onStatus", {"code": "NetStream.Publish.Start"})
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await over.wait()
        writer.transport.abort()

    over = asyncio.Event()
    server = await asyncio.start_server(take_nothing, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        publisher = await RtmpPublisher.open(parse(f"rtmp://127.0.0.1:{port}/live", "abc"), None)
        publisher.send(PICTURE, bytes(16_000_000))
        await publisher.close()
        await until(lambda: publisher.waiting_bytes == 0)  # else it would be kept for ever
        over.set()


_REFUSED = r"refuses the stream \(NetStream.Publish.BadName\): is the key"
_HUNG_UP = "closed the connection as the stream began: is the key"


@pytest.mark.parametrize(
    ("code", "kind", "told"),
    [
        ("NetStream.Publish.BadName", COMMAND, _REFUSED),
        ("NetStream.Publish.BadName", COMMAND_AMF3, _REFUSED),
        ("", COMMAND, _HUNG_UP),
        ("NetStream.Publish.Start", COMMAND, _HUNG_UP),
    ],
)
async def test_a_platform_that_does_not_want_the_key_is_not_asked_for_ever(
    code: str, kind: int, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.live.push.flow._RETRIES_S", (0.0,))

    clock, asked = ManualClock(), 0

    async def send_away(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        await greet(reader, writer)
        if code:
            level = "status" if code.endswith("Start") else "error"
            said = {"level": level, "code": code}
            await answer(reader, writer, "publish", "onStatus", said, kind=kind)
        else:
            await reader.readuntil(b"publish")
        writer.close()

    def took_time(target: Target) -> None:
        clock.advance(1 if target.phase is Phase.LIVE else 20)

    background = Background()
    broadcasts = Broadcasts(clock, background.run, _nothing, _nothing, took_time, list)
    async with await asyncio.start_server(send_away, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        target = broadcasts.start(parse(f"rtmp://127.0.0.1:{port}/live", "SECRET"))
        await until(lambda: target.over)
        assert target.phase is Phase.FAILED and re.search(told, target.error)
        assert "SECRET" not in target.error
        assert asked == 1 if code.endswith("BadName") else asked > 3
    await background.cancel_all()


async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """As an RTMP server, up to where a stream is to be published."""
    writer.write(b"\x03" + bytes(2 * 1536))
    await reader.readexactly(1 + 2 * 1536)
    await answer(reader, writer, "connect", "_result", None, number=1)
    await answer(reader, writer, "createStream", "_result", 1.0, number=4)


async def answer(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    asked: str,
    name: str,
    told: object,
    number: int = 0,
    kind: int = COMMAND,
) -> None:
    await reader.readuntil(encode(asked))
    payload = bytes(kind == COMMAND_AMF3) + encode(name, number, None, told)  # type: ignore[arg-type]
    writer.write(chunked(Message(kind, payload), 3, 128))


@pytest.mark.parametrize("packed", [False, True])
async def test_an_answer_without_an_end_is_not_read_to_its_end(packed: bool) -> None:
    """packed: its beginning is small, and would be large."""

    async def go_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.readuntil(b"\r\n\r\n")
        assert b"Accept-Encoding: identity" in asked
        about, body = "Content-Length: 1000000000", bytes(300_000)
        if packed:
            body = gzip.compress(body)
            about = f"Content-Encoding: gzip\r\nContent-Length: {len(body)}"
        writer.write(f"HTTP/1.1 201 Created\r\n{about}\r\n\r\n".encode() + body)
        await reader.read()
        writer.close()

    async with await asyncio.start_server(go_on, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        push = WhipPush(parse(f"http://127.0.0.1:{port}/whip"), Figures(), _nothing, [])
        with pytest.raises(PushError, match="not take H.264" if packed else "answer is too long"):
            await push.open()
        await push.close()


@pytest_asyncio.fixture
async def endpoint() -> AsyncIterator[WhipEndpoint]:
    endpoint = WhipEndpoint("key")
    await endpoint.start()
    yield endpoint
    await endpoint.stop()


async def test_an_answer_of_too_many_lines_is_not_read(endpoint: WhipEndpoint) -> None:
    endpoint.told = lambda sdp: sdp + 500 * "a=rtcp-fb:* nack\r\n"
    push = WhipPush(parse(endpoint.url, "key"), Figures(), _nothing, [])
    with pytest.raises(PushError, match="lines of a=rtcp-fb: are more"):
        await push.open()
    await push.close()


async def test_a_connection_that_does_not_close_in_order_is_made_again_like_others(
    monkeypatch: pytest.MonkeyPatch, endpoint: WhipEndpoint
) -> None:
    async def accept_and_lose(push: WhipPush, sdp: str) -> None:
        await accept(push, sdp)
        raise PushError("lost")

    accept = WhipPush._accept
    monkeypatch.setattr(WhipPush, "_accept", accept_and_lose)
    endpoint.told = lambda sdp: sdp.replace("BUNDLE ", "BUNDLE nobody ")
    background = Background()
    broadcasts = Broadcasts(
        ManualClock(), background.run, _nothing, _nothing, lambda target: None, list
    )
    target = broadcasts.start(parse(endpoint.url, "key"))
    await until(lambda: target.phase is Phase.WAITING or background.failed.is_set())
    assert target.error == "lost" and not background.failed.is_set()
    await broadcasts.close()
    await background.cancel_all()


class Lost:
    """A connection that is lost while much waits for it."""

    def __init__(self, address: PushAddress, figures: Figures) -> None:
        self._figures = figures

    async def open(self) -> None:
        self._figures.lag_s = 1.5

    def push(self, live: LiveTick) -> None: ...

    async def ended(self) -> None:
        raise PushError("lost")

    async def close(self) -> None: ...


async def test_nothing_waits_for_a_network_without_a_connection() -> None:
    background = Background()
    target = Target("x", parse("https://h/whip"), Lost, ManualClock(), lambda target: None)
    background.run(target.run())
    await until(lambda: target.phase is Phase.WAITING)
    assert (target.error, target.figures.lag_s) == ("lost", 0.0)
    await background.cancel_all()


async def test_targets_that_were_forgotten_do_not_spoil_the_end_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def refuse(push: WhipPush) -> None:
        raise PushError("the endpoint answers 404", permanent=True)

    monkeypatch.setattr(WhipPush, "open", refuse)
    background = Background()
    broadcasts = Broadcasts(
        ManualClock(), background.run, _nothing, _nothing, lambda target: None, list
    )
    for _ in range(10):
        broadcasts.start(parse("https://h/whip"))
        await until(lambda: not broadcasts.running)
    last = broadcasts.start(parse("rtmp://127.0.0.1:1/live/abc"))
    assert len(broadcasts.all()) == 8, "the first ones are not told of any more"
    await broadcasts.close()
    assert last.phase is Phase.STOPPED
    await background.cancel_all()


def _nothing() -> None:
    pass


class Connection:
    """A network that takes so many bytes a second, and a stream of 25 pictures of 1000 bytes."""

    def __init__(self) -> None:
        self.figures = Figures()
        self.flow = Flow(self.figures)
        self.waiting = 0
        self.time_s = 0.0

    def run(self, seconds: float, takes: int) -> None:
        for _ in range(round(seconds * 25)):
            number = round(self.time_s * 25)
            self.flow.look(self.waiting)
            if self.flow.admits_picture(keyframe=number % 50 == 10):
                self.flow.sent(1000, self.time_s, picture=True)
                self.waiting += 1000
            self.waiting = max(0, self.waiting - takes // 25)
            self.time_s += 0.04


def test_a_stream_begins_with_a_key_frame_and_a_stall_costs_pictures_up_to_one() -> None:
    connection = Connection()
    connection.run(2, 100_000)
    assert connection.figures.sent_pictures == 40 and connection.figures.dropped_pictures == 0
    connection.run(10, 0)
    assert connection.waiting <= 2.2 * 25_000, "what waits is bounded"
    assert connection.figures.lag_s <= 2.2 and connection.figures.dropped_pictures > 150
    dropped = connection.figures.dropped_pictures
    connection.run(4, 200_000)
    assert connection.flow.started and connection.figures.lag_s < 0.5
    assert connection.figures.dropped_pictures - dropped < 2.5 * 25


def test_a_target_is_tried_soon_then_later_then_not_any_more() -> None:
    now_s, retries, waits = 0.0, Retries(0.0), []
    while (wait_s := retries.wait_s(0.0, now_s)) is not None:
        waits.append(wait_s)
        now_s += wait_s + 0.1
    assert sum(waits[:5]) < 10 and waits[0] <= 1 and waits == sorted(waits) and waits[-1] == 30
    assert GIVE_UP_S <= now_s < GIVE_UP_S + 60
    # Behind a connection that was good it is as at first, and never so seldom again.
    assert retries.wait_s(3600.0, 4000.0) == 0.5
    assert [retries.wait_s(0.0, 4000.0) for _ in waits][-1] == 4
    assert retries.wait_s(0.0, 4000.0 + GIVE_UP_S - 1) is not None
