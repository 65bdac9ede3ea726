"""WebRTC with a real peer: what the face encoded arrives as it is, the microphone comes back."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from importlib.metadata import version
from typing import Any

import numpy as np
import pytest
import pytest_asyncio
from aiortc import (
    RTCRtpSender,
    RTCSessionDescription,
    VideoStreamTrack,
)
from aiortc.rtcrtpreceiver import StreamStatistics
from aiortc.rtcsctptransport import SCTP_DATA_FIRST_FRAG, DataChunk
from aiortc.rtp import RtcpReceiverInfo, RtcpRrPacket, RtpPacket, is_rtcp
from prometheus_client import REGISTRY

from gateway.__main__ import main
from gateway.playout import allowance
from gateway.playout.sinks.tracks import PassTrack
from tests.gateway.conftest import RunningGateway, until
from tests.gateway.doubles import Doubles
from tests.gateway.media import JAW_OPEN
from tests.gateway.visiting import Browser, Tone
from visavis.client import GatewayClient, GatewayError, GatewaySession
from visavis.serving.aiortc_private.incoming import take_packets
from visavis.wire.media import VideoCodec
from visavis.wire.subjects import Kind

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def session(client: GatewayClient) -> AsyncIterator[GatewaySession]:
    # Without an event socket: nobody here would read it.
    created = (await client.call("POST", "/v1/sessions", json={})).json()
    yield GatewaySession(client, created["id"], None)  # type: ignore[arg-type]
    await client.call("DELETE", f"/v1/sessions/{created['id']}")


@pytest_asyncio.fixture(loop_scope="module")
async def browsers(client: GatewayClient, session: GatewaySession) -> AsyncIterator[list[Browser]]:
    made = [Browser(client, session) for _ in range(3)]
    yield made
    await asyncio.gather(*(b.pc.close() for b in made))


async def frames(track: Any, count: int) -> list[Any]:
    async with asyncio.timeout(30):
        return [await track.recv() for _ in range(count)]


async def first(track: Any, wanted: Callable[[Any], bool]) -> Any:
    """The first frame that is as `wanted`."""
    async with asyncio.timeout(30):
        while not wanted(frame := await track.recv()):
            pass
    return frame


async def test_every_viewer_sees_and_hears_the_answer(
    browsers: list[Browser], session: GatewaySession
) -> None:
    for browser in browsers:
        await browser.connect("viewer")
    await session.ask("Sing.")
    for browser in browsers:
        # The pictures of a turn get brighter, idle ones stay dark.
        picture, _ = await asyncio.gather(
            first(browser.tracks["video"], lambda p: p.to_ndarray(format="gray").mean() > 60),
            first(browser.tracks["audio"], lambda s: np.abs(s.to_ndarray()).max() > 8000),
        )
        assert picture.width == 64


async def test_poses_come_over_a_data_channel_of_whoever_opens_one(
    client: GatewayClient,
    browsers: list[Browser],
    session: GatewaySession,
    gateway: RunningGateway,
) -> None:
    await client.call("PATCH", f"/v1/sessions/{session.id}", json={"drawn_by": "client"})
    pc, records = browsers[0].pc, b""
    pc.addTransceiver("audio", direction="recvonly")
    channel = pc.createDataChannel("face", ordered=False, maxRetransmits=0)
    pc.createDataChannel("something else")
    came: asyncio.Queue[bytes] = asyncio.Queue()
    channel.on("message", came.put_nowait)
    await pc.setLocalDescription(await pc.createOffer())
    local = pc.localDescription
    offer = {"sdp": local.sdp, "type": local.type, "role": "viewer"}
    answer = await client.call("POST", f"/v1/sessions/{session.id}/webrtc", json=offer)
    await pc.setRemoteDescription(
        RTCSessionDescription(answer.json()["sdp"], answer.json()["type"])
    )
    async with asyncio.timeout(30):
        records += await came.get()
        await session.ask("Sing.")
        while len(set(records[4 + JAW_OPEN :: 68])) < 5:  # its jaw moves
            records += await came.get()
        assert len(records) % 68 == 0
        channel.close()
        (inside,) = gateway.inside.sessions.all()
        await until(lambda: VideoCodec.BLENDSHAPES not in inside.outlets.peers.codecs)
        again: asyncio.Queue[bytes] = asyncio.Queue()
        pc.createDataChannel("face").on("message", again.put_nowait)
        assert len(await again.get()) % 68 == 0


@pytest.mark.parametrize(("most", "kept"), [("_MOST_PIECES", 20), ("_OVERDRAWN_BYTES", -(1 << 20))])
async def test_who_sends_a_message_without_an_end_is_cut_off(
    monkeypatch: pytest.MonkeyPatch,
    browsers: list[Browser],
    session: GatewaySession,
    gateway: RunningGateway,
    most: str,
    kept: int,
) -> None:
    monkeypatch.setattr(f"visavis.serving.aiortc_private.incoming.{most}", kept)
    opened = asyncio.Event()
    pc = browsers[0].pc
    channel = pc.createDataChannel("any")
    channel.on("open", opened.set)
    await browsers[0].connect("viewer")
    await opened.wait()
    inside, sctp = gateway.inside.sessions.get(session.id), pc.sctp
    assert inside.audience.present == 1 and sctp is not None
    for number in range(30):
        piece = DataChunk(flags=0 if number else SCTP_DATA_FIRST_FRAG)
        piece.tsn, piece.stream_id, piece.protocol = sctp._local_tsn + number, channel.id or 0, 51
        piece.user_data = b"and "
        with contextlib.suppress(ConnectionError):
            await sctp._send_chunk(piece)
    await until(lambda: inside.audience.present == 0)


@pytest.mark.parametrize("codec", ["video/H264", "video/VP8"])
async def test_both_codecs(
    browsers: list[Browser], session: GatewaySession, doubles: Doubles, codec: str
) -> None:
    await browsers[0].connect("viewer", codec=codec)
    pictures = await frames(browsers[0].tracks["video"], 5)
    assert pictures[0].height == 64
    asked = [list(r.codecs.codecs) for r in doubles.seen.of("face", "codecs")]
    assert asked == ([[2]] if codec == "video/VP8" else []), "what nobody watches is not encoded"


async def test_a_browser_that_hides_its_addresses_comes_by_itself(
    browsers: list[Browser], session: GatewaySession
) -> None:
    await browsers[0].connect("viewer", hides=True)
    await frames(browsers[0].tracks["video"], 1)


async def test_the_microphone_reaches_the_bus(
    browsers: list[Browser], session: GatewaySession, doubles: Doubles
) -> None:
    heard: list[Any] = []
    async with doubles.bus.subscribe(session.id, Kind.MIC) as mic:
        await browsers[0].connect("speaker")
        async with asyncio.timeout(30):
            while len(heard) < 20:
                heard.append(await anext(mic))
    assert {c.sample_rate_hz for c in heard} == {16_000}
    # Whole packets, those together that came together, without the millisecond that is still in
    # the resampler.
    lengths = [len(c.pcm) for c in heard]
    assert lengths[0] % 320 == 304 and not any(length % 320 for length in lengths[1:])
    assert [c.place.pts for c in heard] == [0, *np.cumsum(lengths)[:-1]]
    assert [c.place.seq for c in heard] == list(range(20))
    pcm = np.concatenate([c.pcm for c in heard[5:]]).astype(np.float32)
    peak_hz = np.argmax(np.abs(np.fft.rfft(pcm))) * 16_000 / len(pcm)
    assert peak_hz == pytest.approx(440, abs=10)


async def test_who_sends_as_ever_more_sources_is_cut_off(
    browsers: list[Browser], session: GatewaySession, gateway: RunningGateway
) -> None:
    await browsers[0].connect("speaker")
    inside = gateway.inside.sessions.get(session.id)
    await until(lambda: inside.audience.present == 1)
    sender = browsers[0].pc.getSenders()[0]
    for source in range(1, 40):
        packet = RtpPacket(payload_type=96, sequence_number=source, ssrc=source, payload=b"?")
        with contextlib.suppress(ConnectionError):
            await sender.transport._send_rtp(packet.serialize())
    await until(lambda: inside.audience.present == 0)


@pytest.mark.parametrize("drawn_by", ["client", "server"])
async def test_a_camera_and_a_second_microphone_are_not_taken(
    client: GatewayClient, browsers: list[Browser], session: GatewaySession, drawn_by: str
) -> None:
    await client.call("PATCH", f"/v1/sessions/{session.id}", json={"drawn_by": drawn_by})
    pc = browsers[0].pc
    taken = pc.addTransceiver(Tone(), direction="sendrecv")
    if drawn_by == "server":
        pc.addTransceiver("video", direction="recvonly")
    others = [
        pc.addTransceiver(track, direction="sendonly") for track in (VideoStreamTrack(), Tone())
    ]
    await browsers[0].offer("speaker")
    assert taken.currentDirection == "sendrecv"
    assert [other.currentDirection for other in others] == ["inactive", "inactive"]
    await frames(browsers[0].tracks["audio"], 1)


async def test_a_second_microphone_is_refused(
    browsers: list[Browser], session: GatewaySession
) -> None:
    await browsers[0].connect("speaker")
    with pytest.raises(GatewayError, match="another client") as refusal:
        await browsers[1].connect("speaker")
    assert refusal.value.code == "microphone_taken"
    await browsers[0]._client.call("DELETE", f"{browsers[0]._path}/{browsers[0].peer_id}")
    await browsers[2].connect("speaker")


async def test_what_fails_with_one_browser_ends_its_connection_alone(
    monkeypatch: pytest.MonkeyPatch,
    browsers: list[Browser],
    session: GatewaySession,
    gateway: RunningGateway,
) -> None:
    inside = gateway.inside.sessions.get(session.id)
    for browser in browsers[:2]:
        await browser.connect("viewer")
    broken, send = list[PassTrack](), PassTrack.send

    def failing(track: PassTrack, packet: Any, **how: Any) -> None:
        if not broken:
            broken.append(track)
        if track in broken:
            raise RuntimeError("unforeseen")
        send(track, packet, **how)

    monkeypatch.setattr(PassTrack, "send", failing)
    await until(lambda: inside.audience.present == 1)
    assert not inside.failed


async def test_a_browser_that_goes_is_forgotten(
    browsers: list[Browser], session: GatewaySession, gateway: RunningGateway
) -> None:
    await browsers[0].connect("viewer", codec="video/VP8")
    audience = gateway.inside.sessions.get(session.id).audience
    assert audience.present == 1
    await browsers[0].pc.close()
    await until(lambda: audience.present == 0)


async def test_a_lost_picture_is_asked_for_again(
    browsers: list[Browser], session: GatewaySession, doubles: Doubles
) -> None:
    await browsers[0].connect("viewer")
    await frames(browsers[0].tracks["video"], 15)
    before = len(doubles.seen.of("face", "keyframe"))
    (receiver,) = [r for r in browsers[0].pc.getReceivers() if r.track.kind == "video"]
    (source,) = receiver.getSynchronizationSources()
    await receiver._send_rtcp_pli(source.source)
    await until(lambda: len(doubles.seen.of("face", "keyframe")) > before)


async def test_a_lost_packet_is_sent_again(
    browsers: list[Browser], session: GatewaySession
) -> None:
    arrived: list[RtpPacket] = []

    async def take(packet: RtpPacket) -> None:
        arrived.append(packet)

    browser = browsers[0]
    watched = browser.pc.addTransceiver("video", direction="recvonly")
    take_packets(watched.receiver, take)
    await browser.connect("viewer", video=watched)
    await until(lambda: len(arrived) >= 5)
    lost = arrived[2]
    await watched.receiver._send_rtcp_nack(lost.ssrc, [lost.sequence_number])
    again = lost.sequence_number.to_bytes(2, "big") + lost.payload
    await until(lambda: any(packet.payload == again for packet in arrived))


async def test_sound_leaves_twice_where_packets_get_lost(
    browsers: list[Browser], session: GatewaySession
) -> None:
    arrived: list[RtpPacket] = []

    async def take(packet: RtpPacket) -> None:
        arrived.append(packet)

    browser = browsers[0]
    heard = browser.pc.addTransceiver("audio", direction="recvonly")
    take_packets(heard.receiver, take)
    browser.pc.addTransceiver("video", direction="recvonly")
    await browser.offer("viewer")
    await session.ask("Sing.")
    await until(lambda: len(arrived) > 0)
    source = arrived[0].ssrc
    lost = RtcpReceiverInfo(source, 9, 1, arrived[0].sequence_number, 0, 0, 0)
    await heard.receiver._send_rtcp(RtcpRrPacket(0, [lost]))
    dropped, seen = list[int](), set[int]()
    for protocol in heard.receiver.transport.transport._connection._protocols:
        receive = protocol.datagram_received

        def receive_some(data: bytes, address: Any, receive: Callable[..., None] = receive) -> None:
            number = int.from_bytes(data[2:4], "big")
            sound = 127 < data[0] < 192 and not is_rtcp(data) and data[8:12] == source.to_bytes(4)
            if sound and number % 4 == 0 and number not in seen:
                seen.add(number)
                dropped.append(number)
                return
            receive(data, address)

        protocol.datagram_received = receive_some  # type: ignore[method-assign,assignment]
    await until(lambda: {p.sequence_number for p in arrived} & set(dropped[1:]) != set())


async def test_pictures_get_smaller_where_a_browsers_network_is_narrow(
    monkeypatch: pytest.MonkeyPatch,
    browsers: list[Browser],
    session: GatewaySession,
    doubles: Doubles,
) -> None:
    monkeypatch.setattr(allowance, "_LONGEST_LOOK_S", 0.1)
    monkeypatch.setattr(allowance, "_LOOK_S", 0.1)
    await browsers[0].connect("viewer")
    await frames(browsers[0].tracks["video"], 5)
    (receiver,) = [r for r in browsers[0].pc.getReceivers() if r.track.kind == "video"]
    (source,) = receiver.getSynchronizationSources()
    async with asyncio.timeout(30):
        for sent in range(100_000, 10_000_000, 100):
            lost = RtcpReceiverInfo(source.source, 128, (sent - 100_000) // 2, sent, 0, 0, 0)
            await receiver._send_rtcp(RtcpRrPacket(0, [lost]))
            if doubles.seen.of("face", "bitrate"):
                break
            await asyncio.sleep(0.02)
    request = doubles.seen.of("face", "bitrate")[0]
    assert request.bitrate.most_kbps == 120, "lips are to be seen"
    assert REGISTRY.get_sample_value("gateway_narrow_sessions") == 1
    await browsers[1].connect("viewer")  # who looks on as well, from a better network
    await until(lambda: doubles.seen.of("face", "bitrate")[-1].bitrate.most_kbps == 0)
    assert REGISTRY.get_sample_value("gateway_narrow_sessions") == 0


async def test_a_bad_offer_is_explained(client: GatewayClient, session: GatewaySession) -> None:
    for offer, words in (
        ({"sdp": "v=0", "type": "offer"}, "audio and one video"),
        ({"sdp": "m=audio x\nm=video y", "type": "offer"}, "sdp"),
        ({"sdp": "v=0", "type": "answer"}, "type"),
        ({"sdp": "v=0", "type": "offer", "role": "king"}, "role"),
        ({"type": "offer"}, "sdp"),
    ):
        with pytest.raises(GatewayError, match=words) as refusal:
            await client.call("POST", f"/v1/sessions/{session.id}/webrtc", json=offer)
        assert refusal.value.code == "invalid_input"


_CANDIDATE = ("a=candidate:", "1 1 udp 1 203.0.113.1 2000 typ host")


@pytest.mark.parametrize(
    ("begins", "goes_on", "end"),
    [
        *((*_CANDIDATE, end) for end in ("\r\n", "\n", "\r", "\x0b", "\u2028")),
        ("m=", "audio 9 A 96", "\r\n"),
        ("a=rtpmap:", "96 VP8/90000", "\r\n"),
        ("a=rtcp-fb:", "* nack", "\r\n"),
        ("a=fmtp:", "96 x=1", "\r\n"),
    ],
)
async def test_an_offer_of_too_many_lines_is_refused_whatever_ends_them(
    client: GatewayClient, session: GatewaySession, begins: str, goes_on: str, end: str
) -> None:
    path, media_type = f"/v1/sessions/{session.id}", {"Content-Type": "application/sdp"}
    sdp = "m=audio 9 A 96\r\nm=video 9 A 96\r\n" + 400 * f"{begins}{goes_on}{end}"
    for refused, words in ((sdp, f"lines of {begins}"), (sdp + 200_000 * " ", "characters")):
        with pytest.raises(GatewayError, match=words) as refusal:
            await client.call("POST", f"{path}/whep", content=refused, headers=media_type)
        assert refusal.value.code == "invalid_input"
    with pytest.raises(GatewayError, match=f"lines of {begins}") as refusal:
        await client.call("POST", f"{path}/webrtc", json={"sdp": sdp, "type": "offer"})
    assert refusal.value.code == "invalid_input"


async def _another_signature(self: Any, packets: Any, urgent: bool) -> None: ...


@pytest.mark.parametrize(
    ("owner", "name", "changed"),
    [
        (RTCRtpSender, "_send_rtcp", _another_signature),
        (RTCRtpSender, "_run_rtcp", RTCRtpSender.stop),
        (StreamStatistics, "add", None),
    ],
)
async def test_an_aiortc_that_has_changed_inside_is_told_before_anybody_is_served(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    owner: type,
    name: str,
    changed: object,
) -> None:
    monkeypatch.setattr("sys.argv", ["gateway", "--port", "0"])
    monkeypatch.setattr(owner, name, changed)
    with pytest.raises(SystemExit):
        main()
    (told,) = capsys.readouterr().err.splitlines()
    assert f"aiortc {version('aiortc')}" in told and f"{owner.__name__}.{name}" in told


class Narrow:
    """A connection that takes packets while it is not `blocked`."""

    def __init__(self) -> None:
        self.ready, self.blocked = True, False
        self.sent: list[Any] = []

    octets = 0

    def send(self, encoded: Any, *, again: bool = False, keyframe: bool = False) -> None:
        self.sent.append(encoded)


async def test_sound_is_not_kept_for_a_connection_that_takes_none() -> None:
    way, lost = Narrow(), list[str]()
    track = PassTrack("audio", way, lambda: lost.append("lost"))
    for index in range(6):
        way.blocked = 1 < index < 5
        track.send(index)
    assert way.sent == [0, 1, 5], "what it could not take in time is never heard"
    assert track.dropped == 3 and lost == ["lost"]


async def test_pictures_that_a_connection_loses_are_lost_up_to_a_key_frame() -> None:
    way, lost = Narrow(), list[str]()
    track = PassTrack("video", way, lambda: lost.append("lost"))
    for index in range(9):
        way.blocked = index == 4
        track.send(index, keyframe=index in (1, 7))
    assert way.sent == [1, 2, 3, 7, 8]
    assert lost == ["lost"]
    way.ready = False
    track.send(9)
    assert way.sent[-1] == 8 and lost == ["lost"]
