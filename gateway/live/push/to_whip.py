"""A broadcast to a WHIP endpoint (RFC 9725): the face's H.264 as it is, and Opus."""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
from collections.abc import Callable, Sequence
from typing import Any

import av
import httpx
from aiortc import RTCPeerConnection, RTCRtpSender, RTCSessionDescription
from aiortc.stats import RTCTransportStats

from gateway.live.media import LiveTick
from gateway.live.push.address import PushAddress
from gateway.live.push.failure import PushError
from gateway.live.push.flow import Figures
from gateway.live.sdp import SDP
from gateway.playout.pacing import VIDEO_TIME_BASE
from gateway.playout.sinks.descriptions import LONGEST_SDP, bounded, negotiated_codec
from gateway.playout.sinks.ice import IceServer
from gateway.playout.sinks.tracks import MediaClock, PassTrack, add_pass_track
from gateway.playout.sinks.webrtc import configuration
from visavis.serving.errors import InvalidInputError
from visavis.serving.trust import client_context
from visavis.serving.way_out import UNPACKED, beginning_of
from visavis.wire.media import VideoCodec

_CONNECT_S = 10.0
_DELETE_S = 2.0
_LOOK_S = 0.5
# Whoever receives tells how it does once a second or so; ICE itself notices after half a minute.
_SILENT_S = 6.0
_REDIRECTS = 3
# What may be otherwise in a moment; all other refusals stand.
_TRY_AGAIN = {408, 409, 425, 429}


class WhipPush:
    """One connection to a WHIP endpoint. figures: are counted on. on_keyframe: it wants one."""

    def __init__(
        self,
        address: PushAddress,
        figures: Figures,
        on_keyframe: Callable[[], None],
        ice_servers: Sequence[IceServer],
    ) -> None:
        self._address = address
        self._figures = figures
        self._on_keyframe = on_keyframe
        self._pc = RTCPeerConnection(configuration(ice_servers))
        self._state = asyncio.Event()
        self._sound: PassTrack | None = None
        self._pictures: PassTrack | None = None
        self._started = False
        self._resource = ""
        self._tls: ssl.SSLContext | None = None

    async def open(self) -> None:
        """Offer, and connect. Raises PushError, which tells no secret."""
        clock = MediaClock()
        self._sound = add_pass_track(self._pc, "audio", clock, _nothing, _nothing)
        self._pictures = add_pass_track(self._pc, "video", clock, _nothing, self._on_keyframe)
        for transceiver in self._pc.getTransceivers():
            transceiver.direction = "sendonly"
            if transceiver.kind == "video":
                transceiver.setCodecPreferences(_h264())
        self._pc.on("connectionstatechange", self._state.set)
        try:
            async with asyncio.timeout(_CONNECT_S):
                await self._pc.setLocalDescription(await self._pc.createOffer())
                answer = await self._offer(self._pc.localDescription.sdp)
                await self._accept(answer)
                while self._pc.connectionState != "connected":
                    self._check()
                    self._state.clear()
                    await self._state.wait()
        except TimeoutError:
            raise PushError(f"no connection within {_CONNECT_S:g} s") from None
        self._on_keyframe()

    def push(self, live: LiveTick) -> None:
        """Send what leaves in this tick; never waits."""
        if self._sound is None or self._pictures is None:
            return
        figures = self._figures
        for packet in live.opus:
            if self._sound.send(packet):
                figures.sent_bytes += packet.size
        for picture in live.pictures:
            shown: Any = av.Packet(picture.annex_b)
            shown.pts = picture.time
            shown.time_base = VIDEO_TIME_BASE
            if self._pictures.send(shown, keyframe=picture.keyframe):
                self._started = True
                figures.sent_pictures += 1
                figures.sent_bytes += len(picture.annex_b)
            else:
                figures.dropped_pictures += self._started

    async def ended(self) -> None:
        """Wait for the end of the connection. Raises PushError with why it has ended."""
        packets, quiet_s, heard = -1, 0.0, False
        while True:
            await asyncio.sleep(_LOOK_S)
            self._check()
            stats = (await self._pc.getStats()).values()
            now = sum(s.packetsReceived for s in stats if isinstance(s, RTCTransportStats))
            heard = heard or now > max(packets, 0) > 0
            quiet_s = quiet_s + _LOOK_S if now == packets else 0.0
            packets = now
            if heard and quiet_s >= _SILENT_S:
                raise PushError(f"nothing has come from the server for {_SILENT_S:g} s")

    async def close(self) -> None:
        """End the stream and the connection. May be called again."""
        resource, self._resource = self._resource, ""
        self._sound = self._pictures = None
        try:
            if resource:
                with contextlib.suppress(httpx.HTTPError, TimeoutError):
                    async with asyncio.timeout(_DELETE_S), self._http() as http:
                        async with http.stream("DELETE", resource):
                            pass
        finally:
            await self._pc.close()

    # ------------------------------------------------------------ inside

    def _check(self) -> None:
        if self._pc.connectionState in ("failed", "closed"):
            raise PushError("the connection is lost")

    def _http(self) -> httpx.AsyncClient:
        headers = dict(UNPACKED)
        if self._address.key:
            headers["Authorization"] = f"Bearer {self._address.key}"
        verify = self._tls if self._tls is not None else False
        return httpx.AsyncClient(
            timeout=_CONNECT_S, trust_env=False, verify=verify, headers=headers
        )

    async def _offer(self, sdp: str) -> str:
        """The endpoint's answer. Raises PushError."""
        if self._address.encrypted:
            self._tls = await asyncio.to_thread(client_context)
        url = self._address.url
        async with self._http() as http:
            for _ in range(_REDIRECTS + 1):
                try:
                    offer = http.stream("POST", url, content=sdp, headers={"Content-Type": SDP})
                    async with offer as told:
                        answer = await beginning_of(told, LONGEST_SDP)
                except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
                    raise PushError(f"it cannot be reached: {type(error).__name__}") from None
                if told.status_code not in (307, 308):
                    break
                if not (url := self._named(told)):
                    elsewhere = "the endpoint redirects to another host: give that"
                    raise PushError(elsewhere, permanent=True)
        if not told.is_success:
            permanent = 400 <= told.status_code < 500 and told.status_code not in _TRY_AGAIN
            raise PushError(f"the endpoint answers {told.status_code}", permanent=permanent)
        resource = self._named(told)
        self._resource = "" if resource == str(told.url) else resource
        if len(answer) > LONGEST_SDP:
            raise PushError("the endpoint's answer is too long")
        return answer.decode(errors="replace")

    def _named(self, told: httpx.Response) -> str:
        """What an answer's Location names on the same host: a key is for nobody else, and nor are
        requests of ours. "": nothing there.
        """
        location = told.headers.get("location", "")
        try:
            wanted = told.url.join(location)
        except (httpx.InvalidURL, ValueError):
            return ""
        same = (wanted.scheme, wanted.host) == (self._address.scheme, told.url.host)
        return str(wanted) if location and same else ""

    async def _accept(self, sdp: str) -> None:
        try:
            sdp = bounded(sdp)
        except InvalidInputError as error:
            raise PushError(f"the endpoint's answer is not read: {error}") from None
        try:
            if negotiated_codec(sdp) is not VideoCodec.H264:
                raise InvalidInputError("no H.264")
            await self._pc.setRemoteDescription(RTCSessionDescription(sdp, "answer"))
        except InvalidInputError:
            raise PushError("the endpoint does not take H.264", permanent=True) from None
        except Exception as error:  # aiortc raises whatever its parser met
            raise PushError("the endpoint's answer is no SDP that fits the offer") from error


def _h264() -> list[Any]:
    """Constrained baseline first: some servers take no other; the face's is no other."""
    known = RTCRtpSender.getCapabilities("video").codecs
    wanted = [c for c in known if c.mimeType in ("video/H264", "video/rtx")]

    def rank(codec: Any) -> int:
        if codec.mimeType != "video/H264":
            return 2
        profile = str(codec.parameters.get("profile-level-id", ""))
        return 0 if re.fullmatch("42e0..", profile, re.I) else 1

    return sorted(wanted, key=rank)


def _nothing() -> None:
    """Drops are counted where they happen."""
