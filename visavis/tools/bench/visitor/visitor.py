"""A visitor who speaks clips into a session in real time, listens, and notes when what came.

The edge: one connection for media and one for events, nothing is judged here. The microphone is
never off: what is between clips is digital silence, sent in real time too.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from visavis.client import GatewayClient, GatewayError, GatewaySession
from visavis.serving.errors import VisavisError
from visavis.tools.bench.visitor.clips import RATE_HZ, Clip
from visavis.tools.bench.visitor.media import (
    MIC_SAMPLES,
    HeardSound,
    Media,
    MediaEndedError,
    MediaMovedError,
    Role,
    SeenPicture,
)
from visavis.tools.bench.visitor.trace import Trace
from visavis.wire.clock import Clock

Transport: TypeAlias = Literal["websocket", "webrtc"]
Drawer: TypeAlias = Literal["server", "client"]
"""Who draws the face. A client is sent no pictures, and this one draws none: sound is all."""

_GREETING_S = 0.3


class Witness(Protocol):
    """Is told of all that comes to a visitor, over all his exchanges; a trace is of one alone."""

    def media(self, found: HeardSound | SeenPicture) -> None:
        """This arrived."""

    def media_begins_anew(self) -> None:
        """What arrives from now on counts its media time from zero."""

    def event(self, at_s: float, event: Mapping[str, Any]) -> None:
        """This was told at `at_s`."""


class Speaker:
    """Speaks clips into a connection in real time and notes in `trace` what comes over it.

    One clip at a time."""

    def __init__(self, clock: Clock, witness: Witness | None = None) -> None:
        self.trace = Trace()
        self._clock = clock
        self._witness = witness
        self._changed = asyncio.Event()
        self._speech: NDArray[np.int16] = np.zeros(0, np.int16)
        self._spoken = 0
        self._send_times: list[float] = []
        self._ended: BaseException | None = None

    async def say(self, clip: Clip) -> None:
        """Begin to speak; `trace` is new. Returns when the clip's sound has been sent."""
        # Nothing of the last exchange may be taken for this one's.
        self.trace = Trace()
        await self.speak_over(clip)

    async def speak_over(self, clip: Clip) -> None:
        """Speak `clip` into the present exchange; returns when its sound has been sent."""
        self._speech, self._spoken, self._send_times = clip.pcm, 0, []
        await self.until(lambda: self._spoken >= len(clip.pcm), len(clip.pcm) / RATE_HZ + 10)
        self.trace.speech_start_s = self.sent_at(clip.span.start_samples)
        self.trace.speech_end_s = self.sent_at(clip.span.end_samples - 1)

    def sent_at(self, sample: int) -> float:
        """When the packet with this sample of the newest clip was sent."""
        return self._send_times[sample // MIC_SAMPLES]

    async def until(self, met: Callable[[], bool], timeout_s: float) -> bool:
        """Wait for something in the trace; whether it came in time.

        Raises MediaEndedError.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not met():
                    if self._ended is not None:
                        raise MediaEndedError(f"the session ended: {self._ended}")
                    self._changed.clear()
                    await self._changed.wait()
                return True
        return False

    async def pause(self, seconds: float) -> None:
        """Let time pass, with the microphone on."""
        await self.until(lambda: False, seconds)

    async def talk(self, media: Media) -> None:
        """Microphone and ears, until cancelled. Raises what ends the connection, in a group."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._send(media))
            tasks.create_task(self._listen(media))

    def end(self, error: BaseException) -> None:
        """Nothing comes any more: whoever waits in `until` is told."""
        self._ended = error
        self._changed.set()

    async def _send(self, media: Media) -> None:
        silence = np.zeros(MIC_SAMPLES, np.int16)
        started, count = self._clock.now(), 0
        while True:
            due = started + count * MIC_SAMPLES / RATE_HZ
            # A deadline from the start: sleeping by intervals would drift.
            await asyncio.sleep(max(0.0, due - self._clock.now()))
            chunk = self._speech[self._spoken : self._spoken + MIC_SAMPLES]
            if len(chunk):
                chunk = np.concatenate([chunk, silence[len(chunk) :]])
                self._send_times.append(self._clock.now())
            await media.send((chunk if len(chunk) else silence).tobytes())
            if len(chunk):
                self._spoken += MIC_SAMPLES
                self._changed.set()
            count += 1

    async def _listen(self, media: Media) -> None:
        async for found in media.arrivals():
            if isinstance(found, SeenPicture):
                self.trace.pictures.append(found)
            else:
                self.trace.sounds.append(found)
            if self._witness is not None:
                self._witness.media(found)
            self._changed.set()


class Visitor(Speaker):
    """A speaker in a session of ours, whose events are in `trace`, too. Made by `visit`."""

    def __init__(
        self,
        client: GatewayClient,
        session: GatewaySession,
        clock: Clock,
        witness: Witness | None = None,
        drawn_by: Drawer = "server",
    ) -> None:
        super().__init__(clock, witness)
        self.session = session
        self._drawn_by = drawn_by
        self._client = client

    async def record(self, turn: int) -> dict[str, Any]:
        """The turn as the gateway has recorded it; {} where it is not known.

        `timeline` in it is what /timeline tells, {} where the gateway tells none.
        """
        path = f"/v1/sessions/{self.session.id}/turns/{turn}"
        record = await self._told(path)
        return {**record, "timeline": await self._told(f"{path}/timeline")} if record else {}

    async def _told(self, path: str) -> dict[str, Any]:
        try:
            told: dict[str, Any] = (await self._client.call("GET", path)).json()
        except GatewayError:
            return {}
        return told

    async def hush(self) -> None:
        """Have the avatar be silent; returns when nothing is being said any more."""
        trace = self.trace
        await self.session.interrupt()
        await self.until(lambda: not trace.pending(), 3.0)

    # ------------------------------------------------------------ the three loops

    async def run(self, transport: Transport) -> None:
        """Microphone, ears and events, until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._follow())
                while await self._moved(transport):
                    if self._witness is not None:
                        self._witness.media_begins_anew()
        except BaseException as error:
            self.end(error)
            raise

    async def _moved(self, transport: Transport) -> bool:
        """Speak and listen; True once the session has gone to another gateway."""
        pictures = self._drawn_by == "server"
        connecting = connect(
            transport, self._client, self.session.id, self._clock, pictures=pictures
        )
        moved = False
        try:
            async with connecting as media:
                await self.talk(media)
        except* MediaMovedError:
            moved = True
        return moved

    async def _follow(self) -> None:
        async for event in self.session.events():
            at_s = self._clock.now()
            self.trace.events.append((at_s, event))
            if self._witness is not None:
                self._witness.event(at_s, event)
            self._changed.set()
        raise MediaEndedError("the events socket was closed")


@contextlib.asynccontextmanager
async def visit(
    client: GatewayClient,
    clock: Clock,
    *,
    transport: Transport = "websocket",
    witness: Witness | None = None,
    on_place: Callable[[dict[str, Any]], None] | None = None,
    drawn_by: Drawer = "server",
    **options: str,
) -> AsyncIterator[Visitor]:
    """A session with `language`, `voice` …, and a visitor in it whose microphone is on.

    on_place: he waits in line where there is no room, see GatewayClient.session.

    Raises VisavisError where no session is given, or no media come.
    """
    async with client.session(on_place=on_place, drawn_by=drawn_by, **options) as session:
        visitor = Visitor(client, session, clock, witness, drawn_by)
        running = asyncio.create_task(visitor.run(transport))
        try:
            # Viewers start with a key frame; before it there is no sound either.
            if not await visitor.until(lambda: bool(visitor.trace.sounds), 20.0):
                raise VisavisError("no sound and no picture came within 20 s of connecting")
            # A gateway may greet its visitors; that is no answer.
            await visitor.pause(_GREETING_S)
            await visitor.hush()
            yield visitor
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


def connect(
    transport: Transport,
    client: GatewayClient,
    session: str,
    clock: Clock,
    role: Role = "speaker",
    *,
    pictures: bool = True,
) -> contextlib.AbstractAsyncContextManager[Media]:
    """Speaker and viewer of a session, or a viewer without a microphone.

    pictures: False for sessions whose face the client draws.
    """
    # FFmpeg and aiortc come with the gateway; `visavis doctor` must start without them.
    if transport == "webrtc":
        from visavis.tools.bench.visitor import webrtc

        return webrtc.connect(client, session, clock, role, pictures=pictures)
    from visavis.tools.bench.visitor import websocket

    return websocket.connect(client, session, clock, role)
