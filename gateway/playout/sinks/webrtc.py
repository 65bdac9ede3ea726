"""WebRTC viewers: encoded packets pass through, a microphone comes back.

An `av.Packet` is put into RTP as it is, in the tick that releases it; nothing is encoded here a
second time, and no task stands between the tick and the network.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Literal

import av
import numpy as np
from aiortc import (
    RTCConfiguration,
    RTCDataChannel,
    RTCIceCandidate,
    RTCIceServer,
    RTCPeerConnection,
    RTCRtpReceiver,
    RTCRtpSender,
    RTCRtpTransceiver,
    RTCSessionDescription,
)
from aiortc.stats import RTCTransportStats
from numpy.typing import NDArray

from gateway import metrics
from gateway.playout.allowance import Allowance
from gateway.playout.audience import Seats
from gateway.playout.pacing import VIDEO_TIME_BASE
from gateway.playout.pictures import ReleasedPicture
from gateway.playout.playout import Tick
from gateway.playout.sinks.blendshapes import records_of
from gateway.playout.sinks.descriptions import bounded, negotiated_codec
from gateway.playout.sinks.ice import ICE_USER, IceServer
from gateway.playout.sinks.tracks import MediaClock, PassTrack, add_pass_track
from gateway.playout.sound import OpusEncoder
from gateway.talk.microphone import RATE_HZ as MIC_RATE_HZ
from gateway.talk.rtp_sound import MicPackets, MicSound
from visavis.serving.aiortc_private.incoming import (
    SoundIntake,
    bound_messages,
    take_in_at_once,
)
from visavis.serving.aiortc_private.outgoing import Report, on_reports
from visavis.serving.errors import InvalidInputError, UnknownNameError
from visavis.wire.media import VideoCodec

log = logging.getLogger(__name__)

Role = Literal["speaker", "viewer", "publisher"]
"""A publisher speaks, and takes neither sound nor pictures."""

POSES_CHANNEL = "face"
"""A data channel of this label has the poses, in the records of the WebSocket of that name."""
_MOST_POSES_BYTES = 16_384
"""Of poses that wait for a slow connection: some seconds."""
CONNECT_TIMEOUT_S = 20.0
# A browser tells how it receives several times a second to every five seconds. One that tells
# nothing for so long is not there now; its connection is kept, for it may come back.
SILENT_S = 12.0
_LOOK_EVERY_S = 2.0

# Lost packets come in rows, and rows in evenings: for so long after one, sound is sent twice.
_LOSSY_S = 30.0

_MOST_LATER = 100
"""Candidates since the offer: each is tried from every address of ours."""

# Browsers that were not allowed the microphone give names in place of their addresses (mDNS), which
# mean nothing beyond their network; and once it is told that all candidates are known, aioice gives
# up where it can reach none. The browser knows our addresses: it comes by itself, if we wait.
_HIDDEN = ".local"
_UNUSED = re.compile(
    r"^a=(?:end-of-candidates|candidate:(?:\S+ ){4}\S+\.local )[^\r\n]*(?:\r?\n|\Z)", re.M
)


class Peer:
    """One browser that watches a session, or speaks in it, or both, over WebRTC.

    pictures: False where it takes none: it draws the face itself, or is a publisher.
    on_mic: gets the speaker's sound, [N] int16 at mic_rate_hz. mic_may_wait: see `SoundIntake`.
    on_keyframe: the browser has lost the picture, or is new.
    on_closed: the connection is gone; called once. on_draws: it draws the face from now on, or does
    not any more.
    """

    def __init__(
        self,
        peer_id: str,
        role: Role,
        *,
        ice_servers: Sequence[IceServer],
        on_mic: Callable[[NDArray[np.int16]], None],
        mic_may_wait: Callable[[float], bool],
        on_keyframe: Callable[[VideoCodec], None],
        on_closed: Callable[[Peer], None],
        on_draws: Callable[[], None] = lambda: None,
        pictures: bool = True,
        mic_rate_hz: int = MIC_RATE_HZ,
    ) -> None:
        self.id = peer_id
        self.role = role
        self.codec: VideoCodec | None = VideoCodec.H264 if pictures else None
        self._on_mic = on_mic
        self._mic_may_wait = mic_may_wait
        self._on_keyframe = on_keyframe
        self._on_closed = on_closed
        self._on_draws = on_draws
        self._poses: RTCDataChannel | None = None
        self._sound: PassTrack | None = None
        self._pictures: PassTrack | None = None
        self._mic_sound = MicSound(mic_rate_hz)
        self._told_later = 0
        """Candidates, since its offer."""
        self._pc = RTCPeerConnection(configuration(ice_servers))
        self._tasks: set[asyncio.Task[None]] = set()
        self.closed = False
        """The connection is gone, or going."""
        self.silent = False
        """Nothing has come from the browser for SILENT_S."""
        self.allowance = Allowance()
        """Of its pictures."""
        self._lossy_until_s = 0.0

    @property
    def codecs(self) -> set[VideoCodec]:
        """The streams that it takes now."""
        drawn = {VideoCodec.BLENDSHAPES} if self._poses is not None else set()
        return drawn | ({self.codec} if self.codec is not None else set())

    @property
    def connected(self) -> bool:
        return str(self._pc.connectionState) == "connected"

    def on_channel(self, opened: Callable[[RTCDataChannel], None]) -> None:
        """Call `opened` for each data channel that the browser opens."""
        self._pc.on("datachannel", opened)

    async def answer(self, sdp: str, kind: str) -> tuple[str, str]:
        """SDP and type that answer a browser's offer. Raises InvalidInputError."""
        if kind != "offer":
            raise InvalidInputError(f"type: {kind[:20]!r} is not 'offer'")
        sdp = bounded(sdp)
        kinds = ("audio", "video") if self.codec else ("audio",)
        if not all(re.search(f"^m={kind} ", sdp, re.M) for kind in kinds):
            needed = " and ".join(f"one {kind}" for kind in kinds)
            raise InvalidInputError(f"sdp: the offer needs {needed} section")
        if self.role != "publisher":
            self._add_tracks()
        self._pc.on("connectionstatechange", self._state_changed)
        self._pc.on("datachannel", self._channel_opened)
        try:
            ours = self._pc.getTransceivers()
            await self._pc.setRemoteDescription(RTCSessionDescription(_UNUSED.sub("", sdp), kind))
            if self.role == "publisher":
                self._take_sound_alone()
            else:
                self._decline_others(ours)
            await self._pc.setLocalDescription(await self._pc.createAnswer())
        except Exception as error:  # aiortc raises whatever its parser met
            with contextlib.suppress(Exception):  # and again, as it closes what is half made
                await self.close()
            raise InvalidInputError(f"sdp: not an offer that can be answered: {error}") from error
        if self._pc.sctp is not None:
            bound_messages(self._pc.sctp)
        local = self._pc.localDescription
        if self.codec is not None:
            self.codec = negotiated_codec(local.sdp)
        self._start(self._give_up())
        self._start(self._look_for_life())
        return local.sdp, local.type

    async def add_candidates(self, candidates: Iterable[RTCIceCandidate], ufrag: str = "") -> None:
        """What the browser has found since its offer. Raises InvalidInputError.

        ufrag: the ICE user that they are of; another than the offer's would begin anew.
        """
        known = ICE_USER.findall(self._pc.remoteDescription.sdp)
        if ufrag and known and ufrag not in known:
            raise InvalidInputError("ice-ufrag: ICE is not restarted here; offer anew")
        found = [candidate for candidate in candidates if not candidate.ip.endswith(_HIDDEN)]
        if self._told_later + len(found) > _MOST_LATER:
            raise InvalidInputError(f"candidate: more than {_MOST_LATER} since the offer")
        self._told_later += len(found)
        try:
            for candidate in found:
                await self._pc.addIceCandidate(candidate)
        except Exception as error:  # aiortc raises whatever it met
            raise InvalidInputError(f"candidate: it cannot be used: {error}") from error

    def push(
        self, packets: Iterable[Any], pictures: Sequence[ReleasedPicture], *, silent: bool = False
    ) -> None:
        """Send Opus packets in session media time, and the pictures in this viewer's codec.

        silent: they are of silence, of which one that is lost is no loss. What goes wrong
        ends this connection alone.
        """
        if self.closed:
            return
        try:
            again = not silent and time.monotonic() < self._lossy_until_s
            for packet in packets:
                self._push_sound(packet, again=again)
            for released in pictures:
                self._push_picture(released)
            if self._poses is not None:
                self._push_poses(self._poses, pictures)
        except Exception as error:
            self._fail(error)

    async def close(self) -> None:
        """Close the connection and end all tasks of it. May be called again."""
        if self.closed:
            return
        self.closed = True
        current = asyncio.current_task()
        for task in self._tasks:
            if task is not current:
                task.cancel()
        try:
            await self._pc.close()
        finally:
            self._on_closed(self)

    # ------------------------------------------------------------ inside

    def _push_sound(self, packet: Any, *, again: bool) -> None:
        if self._sound is not None:
            self._sound.send(packet, again=again)

    def _push_picture(self, released: ReleasedPicture) -> None:
        if released.picture.codec is not self.codec or self._pictures is None:
            return
        packet: Any = av.Packet(released.picture.payload)
        packet.pts = released.time
        packet.time_base = VIDEO_TIME_BASE
        self._pictures.send(packet, keyframe=released.picture.keyframe)

    def _push_poses(self, channel: RTCDataChannel, pictures: Iterable[ReleasedPicture]) -> None:
        records = records_of(pictures)
        if not records or channel.readyState != "open":
            return
        if channel.bufferedAmount > _MOST_POSES_BYTES:
            self._dropped()
        else:
            channel.send(records)

    def _channel_opened(self, channel: RTCDataChannel) -> None:
        """The browser draws the face, too, where it calls the channel so; the newest has poses."""
        if channel.label == POSES_CHANNEL:
            self._poses = channel
            channel.on("close", partial(self._channel_closed, channel))
            self._on_draws()

    def _channel_closed(self, channel: RTCDataChannel) -> None:
        if self._poses is channel:
            self._poses = None
            self._on_draws()

    def _add_tracks(self) -> None:
        clock, lost = MediaClock(), self._lost_picture
        self._sound = add_pass_track(self._pc, "audio", clock, self._dropped, lost)
        if self.codec is not None:
            self._pictures = add_pass_track(self._pc, "video", clock, lost, lost)
        for sender in self._pc.getSenders():
            on_reports(sender, partial(self._reported, sender.kind))
        for transceiver in self._pc.getTransceivers():
            receives = self.role == "speaker" and transceiver.kind == "audio"
            transceiver.direction = "sendrecv" if receives else "sendonly"
            if transceiver.kind == "video":
                transceiver.setCodecPreferences(_preferred_codecs())
            elif receives:
                self._listen_to(transceiver.receiver)

    def _take_sound_alone(self) -> None:
        """Of what a publisher offers."""
        sections = self._pc.getTransceivers()
        first = next((t for t in sections if t.kind == "audio"), None)
        for transceiver in sections:
            transceiver.direction = "recvonly" if transceiver is first else "inactive"
        if first is not None:
            self._listen_to(first.receiver)

    def _decline_others(self, ours: Sequence[RTCRtpTransceiver]) -> None:
        """What is offered beside our tracks, as a camera: aiortc would decode and keep all of it,
        and nobody would ever fetch it.
        """
        for transceiver in self._pc.getTransceivers():
            if transceiver not in ours:
                transceiver.direction = "inactive"

    def _listen_to(self, receiver: RTCRtpReceiver) -> None:
        # As they come, where aiortc holds 80 ms of them back.
        SoundIntake(receiver, MicPackets().add, self._hear, self._mic_may_wait)

    def _reported(self, kind: str, report: Report) -> None:
        """How the browser receives what is sent."""
        now_s = time.monotonic()
        if report.lost_share:
            self._lossy_until_s = now_s + _LOSSY_S
        if kind == "video" and self._pictures is not None:
            sent_bytes, rtt_s = self._pictures.octets, report.round_trip_s
            if self.allowance.reported(rtt_s, report.lost, report.highest, sent_bytes, now_s):
                self._pictures.wait_for_keyframe()

    def _lost_picture(self) -> None:
        if self.codec is not None:
            self._on_keyframe(self.codec)

    def _dropped(self) -> None:
        metrics.viewer_drops.labels("webrtc").inc()

    async def _state_changed(self) -> None:
        state = self._pc.connectionState
        if state == "connected":
            for way in {sender.transport for sender in self._pc.getSenders()}:
                take_in_at_once(way, self._fail)
            self._lost_picture()
        elif state in ("failed", "closed"):
            await self.close()

    async def _give_up(self) -> None:
        await asyncio.sleep(CONNECT_TIMEOUT_S)
        if not self.connected:
            log.info("peer %s did not connect within %g s", self.id, CONNECT_TIMEOUT_S)
            await self.close()

    async def _look_for_life(self) -> None:
        packets, quiet_s = -1, 0.0
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            stats = (await self._pc.getStats()).values()
            now = sum(s.packetsReceived for s in stats if isinstance(s, RTCTransportStats))
            quiet_s = quiet_s + _LOOK_EVERY_S if now == packets else 0.0
            packets, self.silent = now, quiet_s >= SILENT_S

    def _hear(self, frame: av.AudioFrame) -> None:
        """Sound of the microphone has come."""
        if self.closed:
            return
        try:
            for pcm in self._mic_sound.decoded(frame):
                self._on_mic(pcm)
        except Exception as error:
            self._fail(error)

    def _start(self, work: Any) -> None:
        task = asyncio.create_task(work, name=f"peer-{self.id}")
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """A browser that is not listened to any more shall see that, and connect again."""
        if not self.closed:
            log.error("peer %s failed", self.id, exc_info=error)
            self._start(self.close())


class Peers:
    """Connects the browsers of one session; sound is encoded once for them. A sink.

    ice_servers: what both sides are told, at each connection anew. on_keyframe: somebody cannot
    decode before the next one. changed: called when somebody has come or gone. mic_may_wait:
    whether a microphone's packet of that level need not be heard at once (`SoundIntake`).
    """

    def __init__(
        self,
        ice_servers: Callable[[], Sequence[IceServer]],
        seats: Seats,
        on_keyframe: Callable[[VideoCodec], None],
        changed: Callable[[], None],
        *,
        mic_rate_hz: int = MIC_RATE_HZ,
        mic_may_wait: Callable[[float], bool] = lambda level: False,
    ) -> None:
        """mic_rate_hz: of what microphones bring."""
        self._mic_rate_hz = mic_rate_hz
        self._mic_may_wait = mic_may_wait
        self.ice_servers = ice_servers
        self._seats = seats
        self._on_keyframe = on_keyframe
        self._changed = changed
        self._peers: dict[str, Peer] = {}
        self._opus: OpusEncoder | None = None

    @property
    def codecs(self) -> set[VideoCodec]:
        return {codec for peer in self._peers.values() for codec in peer.codecs}

    @property
    def attended(self) -> bool:
        return not all(peer.silent for peer in self._peers.values())

    @property
    def watched(self) -> bool:
        return any(peer.connected for peer in self._peers.values())

    def allowances(self, *, speakers: bool) -> list[Allowance]:
        """Of the pictures of those who speak, or of those who look on."""
        return [
            peer.allowance
            for peer in self._peers.values()
            if peer.codec is not None and (peer.role == "speaker") is speakers
        ]

    def __contains__(self, peer_id: str) -> bool:
        return peer_id in self._peers

    async def connect(
        self,
        sdp: str,
        kind: str,
        role: Role,
        *,
        on_mic: Callable[[str, NDArray[np.int16]], None],
        on_gone: Callable[[str], None],
        peer_id: str,
        pictures: bool = True,
    ) -> tuple[str, str]:
        """Answer an offer; SDP and type. on_mic: gets [N] int16 at mic_rate_hz.

        pictures: else sound alone.

        Raises InvalidInputError, AtCapacityError, UnknownNameError once the session is over.
        """

        def closed(peer: Peer) -> None:
            if self._peers.pop(peer.id, None) is not None:
                metrics.viewers.labels("webrtc").dec()
                self._seats.give_back()
            on_gone(peer.id)
            self._changed()

        self._seats.take()
        peer = Peer(
            peer_id,
            role,
            ice_servers=self.ice_servers(),
            on_mic=lambda pcm: on_mic(peer_id, pcm),
            mic_may_wait=self._mic_may_wait,
            on_keyframe=self._on_keyframe,
            on_closed=closed,
            on_draws=self._changed,
            pictures=pictures,
            mic_rate_hz=self._mic_rate_hz,
        )
        try:
            answer = await peer.answer(sdp, kind)
            self._seats.check_open()
            if peer.closed:
                raise InvalidInputError("sdp: the connection was closed before it was answered")
        except BaseException:
            self._seats.give_back()
            await peer.close()
            raise
        self._peers[peer_id] = peer
        metrics.viewers.labels("webrtc").inc()
        self._changed()
        return answer

    def on_channel(self, peer_id: str, opened: Callable[[RTCDataChannel], None]) -> None:
        """Call `opened` for each data channel of a browser that was just answered.

        It opens none before it has the answer.
        """
        self._peers[peer_id].on_channel(opened)

    async def add_candidates(
        self, peer_id: str, candidates: Iterable[RTCIceCandidate], ufrag: str = ""
    ) -> None:
        """Of one that had not found all as it connected.

        Raises UnknownNameError, InvalidInputError.
        """
        await self._peer(peer_id).add_candidates(candidates, ufrag)

    async def disconnect(self, peer_id: str) -> None:
        """Raises UnknownNameError."""
        await self._peer(peer_id).close()

    def _peer(self, peer_id: str) -> Peer:
        peer = self._peers.get(peer_id)
        if peer is None:
            raise UnknownNameError(f"peer: the session has no peer {peer_id[:64]!r}")
        return peer

    def push(self, tick: Tick) -> None:
        """Hand a tick to all browsers."""
        if not self._peers:
            self._opus = None  # encoders hold threads
            return
        self._opus = self._opus or OpusEncoder()
        packets = self._opus.encode(tick.pcm, tick.start_samples, silent=tick.silent)
        for peer in self._peers.values():
            peer.push(packets, tick.pictures, silent=tick.silent)

    def cut(self, turn: int) -> None:
        """Nothing: what has left is the browser's, whose page falls silent by itself."""

    async def close(self) -> None:
        """Close all connections."""
        closing = [peer.close() for peer in list(self._peers.values())]
        for error in await asyncio.gather(*closing, return_exceptions=True):
            if isinstance(error, BaseException):
                log.error("a viewer did not close in order", exc_info=error)
        self._opus = None


def configuration(ice_servers: Sequence[IceServer]) -> RTCConfiguration:
    """Of a connection by these servers alone: without it, aiortc would ask a public STUN server.

    Servers by an IPv6 address are for browsers: aiortc cannot read them, and is lent IPv4 alone.
    """
    servers = [
        RTCIceServer(
            urls=urls,
            username=server.username or None,
            credential=server.credential or None,
        )
        for server in ice_servers
        if (urls := [url for url in server.urls if "[" not in url])
    ]
    return RTCConfiguration(iceServers=servers)


def _preferred_codecs() -> list[Any]:
    """H.264 first (one encode serves the mp4 path too), then VP8, each with its rtx."""
    known = RTCRtpSender.getCapabilities("video").codecs

    def rank(codec: Any) -> int:
        name = codec.mimeType.lower()
        return {"video/h264": 0, "video/vp8": 1}.get(name, 2)

    return sorted((c for c in known if rank(c) < 2 or c.mimeType.endswith("rtx")), key=rank)
