"""A broadcast to an RTMP server: the face's pictures and AAC, from a key frame on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gateway.live.media import LivePicture, LiveTick, PictureFormat
from gateway.live.push.address import PushAddress
from gateway.live.push.failure import PushError
from gateway.live.push.flow import Figures, Flow
from gateway.live.rtmp import flv
from gateway.live.rtmp.chunks import DATA, PICTURE, SOUND
from gateway.live.rtmp.client import RtmpPublisher
from gateway.playout.pacing import RATE_HZ, VIDEO_HZ
from gateway.playout.sound import AacPacket
from visavis.serving.lifetime.supervision import first_of
from visavis.serving.trust import client_context

_ASK_TICKS = 25
_LOOK_S = 1.0
_STALLED_S = 8.0


class RtmpPush:
    """One connection to an RTMP server. figures: are counted on. on_keyframe: it waits for one."""

    def __init__(
        self, address: PushAddress, figures: Figures, on_keyframe: Callable[[], None]
    ) -> None:
        self._address = address
        self._on_keyframe = on_keyframe
        self._flow = Flow(figures)
        self._figures = figures
        self._publisher: RtmpPublisher | None = None
        self._format: PictureFormat | None = None
        self._begin_s = 0.0
        self._picture_ms = -1
        self._ticks = 0

    async def open(self) -> None:
        """Connect, and begin to publish. Raises PushError."""
        tls = await asyncio.to_thread(client_context) if self._address.encrypted else None
        with self._judged():
            self._publisher = await RtmpPublisher.open(self._address, tls)

    def push(self, live: LiveTick) -> None:
        """Send what leaves in this tick; never waits."""
        publisher = self._publisher
        if publisher is None:
            return
        self._flow.look(publisher.waiting_bytes)
        for picture in live.pictures:
            self._send_picture(publisher, picture, live.sound_config)
        for packet in live.sound:
            self._send_sound(publisher, packet)
        if not self._flow.started:
            if self._ticks % _ASK_TICKS == 0:
                self._on_keyframe()
            self._ticks += 1

    async def ended(self) -> None:
        """Wait for the end of the connection. Raises PushError with why it has ended."""
        assert self._publisher is not None
        either = (self._publisher.ended(), self._stalled(self._publisher))
        with self._judged():
            await first_of(*either)

    async def close(self) -> None:
        publisher, self._publisher = self._publisher, None
        if publisher is not None:
            await publisher.close()

    # ------------------------------------------------------------ inside

    @contextmanager
    def _judged(self) -> Iterator[None]:
        """What took pictures with this key refuses them until it notices that they have ended."""
        try:
            yield
        except PushError as error:
            if error.permanent and self._figures.sent_pictures:
                raise PushError(str(error)) from None
            raise

    def _send_picture(
        self, publisher: RtmpPublisher, picture: LivePicture, sound_config: bytes
    ) -> None:
        if not self._flow.admits_picture(keyframe=picture.keyframe):
            return
        if self._format is None:
            self._begin_s = picture.time / VIDEO_HZ
        time_s = picture.time / VIDEO_HZ - self._begin_s
        # Late ones leave at nearly one time: in milliseconds, too, each has its own.
        at_ms = self._picture_ms = max(_ms(time_s), self._picture_ms + 1)
        sent = 0
        if picture.format != self._format:
            first = self._format is None
            self._format = picture.format
            sent += publisher.send(DATA, flv.metadata(picture.format), at_ms)
            sent += publisher.send(PICTURE, flv.picture_header(picture.format), at_ms)
            if first:
                sent += publisher.send(SOUND, flv.sound_header(sound_config), at_ms)
        sent += publisher.send(PICTURE, flv.picture(picture), at_ms)
        self._flow.sent(sent, time_s, picture=True)

    def _send_sound(self, publisher: RtmpPublisher, packet: AacPacket) -> None:
        time_s = packet.time_samples / RATE_HZ - self._begin_s
        if self._flow.admits_sound and time_s >= 0:
            self._flow.sent(publisher.send(SOUND, flv.sound(packet.payload), _ms(time_s)), time_s)

    async def _stalled(self, publisher: RtmpPublisher) -> None:
        """Raises PushError once nothing has been taken by the network for long."""
        quiet_s, before = 0.0, -1
        while quiet_s < _STALLED_S:
            await asyncio.sleep(_LOOK_S)
            gone = self._figures.sent_bytes - publisher.waiting_bytes
            quiet_s = quiet_s + _LOOK_S if publisher.waiting_bytes and gone == before else 0.0
            before = gone
        raise PushError(f"the server has taken nothing for {_STALLED_S:g} s")


def _ms(time_s: float) -> int:
    return round(1000 * time_s)
