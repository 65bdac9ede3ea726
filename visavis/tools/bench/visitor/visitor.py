"""A visitor who speaks clips into a session in real time, listens, and notes when what came.

The edge: one connection for media and one for events, nothing is judged here. The microphone is
never off: what is between clips is digital silence, sent in real time too.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from visavis.client import GatewayClient, GatewayError, GatewaySession
from visavis.client.errors import NOT_REACHED, PASSING
from visavis.client.session import Missed, again
from visavis.serving.errors import VisavisError
from visavis.tools.bench.visitor.clips import RATE_HZ, Clip
from visavis.tools.bench.visitor.media import (
    MIC_SAMPLES,
    HeardSound,
    Media,
    MediaEndedError,
    MediaLostError,
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
_MIC_S = MIC_SAMPLES / RATE_HZ
# Longer than any connection is tried again.
_SENT_TIMEOUT_S = 60.0
# The gateway may not have noticed yet that the microphone's last connection is gone.
_MEDIA_PASSING = (*PASSING, "microphone_taken")


class Witness(Protocol):
    """Is told of all that comes to a visitor, over all his exchanges; a trace is of one alone."""

    def media(self, found: HeardSound | SeenPicture) -> None:
        """This arrived."""

    def media_lost(self, *, moved: bool) -> None:
        """The connection ended; what arrives from now on counts its media time from zero. moved:
        the gateway has sent its clients to another one."""

    def events_missed(self, at_s: float, missed: Missed) -> None:
        """What happened until `at_s` may not have been told."""

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
        self.away = False
        """The connection was lost, and nothing has come over the next one yet."""

    async def say(self, clip: Clip) -> None:
        """Begin to speak; `trace` is new. Returns when the clip's sound has been sent."""
        # Nothing of the last exchange may be taken for this one's.
        self.trace = Trace()
        await self.speak_over(clip)

    async def speak_over(self, clip: Clip) -> None:
        """Speak `clip` into the present exchange; returns when its sound has been sent. What is
        due while there is no connection is lost, as a microphone's is."""
        self._speech, self._spoken, self._send_times = clip.pcm, 0, []
        timeout_s = len(clip.pcm) / RATE_HZ + _SENT_TIMEOUT_S
        if not await self.until(lambda: self._spoken >= len(clip.pcm), timeout_s):
            raise MediaEndedError("the microphone's sound was not taken")
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
                        raise MediaEndedError(f"the session ended: {first_of(self._ended)}")
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
        while self._speaking and self._send_times and self._send_times[-1] + _MIC_S < started:
            self._send_times.append(self._send_times[-1] + _MIC_S)
            self._spoken += MIC_SAMPLES
        while True:
            due = started + count * _MIC_S
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

    @property
    def _speaking(self) -> bool:
        return self._spoken < len(self._speech)

    async def _listen(self, media: Media) -> None:
        async for found in media.arrivals():
            self.away = False
            if isinstance(found, SeenPicture):
                self.trace.pictures.append(found)
            else:
                self.trace.sounds.append(found)
            if self._witness is not None:
                self._witness.media(found)
            self._changed.set()


class Visitor(Speaker):
    """A speaker in a session of ours, whose events are in `trace`, too. Made by `visit`.

    comes_back: as the page does, where a connection of his is lost."""

    def __init__(
        self,
        client: GatewayClient,
        session: GatewaySession,
        clock: Clock,
        witness: Witness | None = None,
        drawn_by: Drawer = "server",
        *,
        comes_back: bool = False,
    ) -> None:
        super().__init__(clock, witness)
        self.session = session
        self._drawn_by = drawn_by
        self._client = client
        self._comes_back_s = client.reconnect_s if comes_back else 0.0
        self._media: Media | None = None
        self._newest_turn, self._question = 0, ""

    @property
    def lost(self) -> str:
        """Why he is in his session no more; "": he is."""
        return "" if self._ended is None else str(first_of(self._ended))

    async def ask(self, text: str) -> int:
        """Type `text`; the turn that answers it. Where the gateway goes before it says so, that is
        looked up, and the text typed again if it has not arrived. Raises GatewayError.
        """
        typed = False

        async def arrives() -> int:
            nonlocal typed
            for record in reversed(await self._records() if typed else []):
                if record["transcript"] == text:
                    return int(record["turn"])
            typed = True
            return await self.session.ask(text)

        return await again(arrives, self._comes_back_s, NOT_REACHED)

    async def record(self, turn: int) -> dict[str, Any]:
        """The turn as the gateway has recorded it; {} where it is not known.

        `timeline` in it is what /timeline tells, {} where the gateway tells none.
        """
        path = f"/v1/sessions/{self.session.id}/turns/{turn}"
        record = await self._told(path)
        return {**record, "timeline": await self._told(f"{path}/timeline")} if record else {}

    async def _told(self, path: str) -> dict[str, Any]:
        try:
            told: dict[str, Any] = await self._looked_up(path)
        except GatewayError:
            return {}
        return told

    async def _records(self) -> list[dict[str, Any]]:
        """Of the session's last turns, oldest first."""
        told: list[dict[str, Any]] = await self._looked_up(f"/v1/sessions/{self.session.id}/turns")
        return told

    async def _looked_up(self, path: str) -> Any:
        call = partial(self._client.call, "GET", path)
        return (await again(call, self._comes_back_s, NOT_REACHED)).json()

    async def hush(self) -> None:
        """Have the avatar be silent; returns when nothing is being said any more."""
        trace = self.trace
        await again(self.session.interrupt, self._comes_back_s, NOT_REACHED)
        await self.until(lambda: not trace.pending(), 3.0)

    # ------------------------------------------------------------ the three loops

    async def run(self, transport: Transport) -> None:
        """Microphone, ears and events, until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._follow())
                await stay(
                    lambda: self._connecting(transport), self._use, self._lose, self._comes_back_s
                )
        except BaseException as error:
            self.end(error)
            raise

    def _connecting(self, transport: Transport) -> AbstractAsyncContextManager[Media]:
        pictures = self._drawn_by == "server"
        return connect(transport, self._client, self.session.id, self._clock, pictures=pictures)

    async def _use(self, media: Media) -> None:
        self._media = media
        await self.talk(media)

    def _lose(self, moved: bool) -> None:
        self._media, self.away = None, True
        if self._witness is not None:
            self._witness.media_lost(moved=moved)

    async def _follow(self) -> None:
        async for event in self.session.told():
            if isinstance(event, Missed):
                await self._catch_up(event)
                continue
            self._note(event)
            if self._witness is not None:
                self._witness.event(self._clock.now(), event)
        raise MediaEndedError("the session has ended")

    async def _catch_up(self, missed: Missed) -> None:
        """What was not told of turns is looked up."""
        if self._witness is not None:
            self._witness.events_missed(self._clock.now(), missed)
        if self._media is not None:
            self._media.doubt(self._clock.now() - missed.away_s)
        records = await self._records()
        for event in self.trace.missed(records, self._newest_turn, self._question):
            self._note(event)

    def _note(self, event: dict[str, Any]) -> None:
        self.trace.events.append((self._clock.now(), event))
        if event.get("type") == "turn":
            self._newest_turn = max(self._newest_turn, int(event["turn"]))
        elif event.get("type") == "transcript" and event["final"]:
            self._question = event["text"]
        self._changed.set()


@contextlib.asynccontextmanager
async def visit(
    client: GatewayClient,
    clock: Clock,
    *,
    transport: Transport = "websocket",
    witness: Witness | None = None,
    on_place: Callable[[dict[str, Any]], None] | None = None,
    drawn_by: Drawer = "server",
    comes_back: bool = False,
    **options: str,
) -> AsyncIterator[Visitor]:
    """A session with `language`, `voice` …, and a visitor in it whose microphone is on.

    on_place: he waits in line where there is no room, see GatewayClient.session. comes_back: where
    a connection breaks; else that ends the visit.

    Raises VisavisError where no session is given, or no media come.
    """
    async with client.session(on_place=on_place, drawn_by=drawn_by, **options) as session:
        visitor = Visitor(client, session, clock, witness, drawn_by, comes_back=comes_back)
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


async def stay(
    connecting: Callable[[], AbstractAsyncContextManager[Media]],
    use: Callable[[Media], Awaitable[None]],
    on_lost: Callable[[bool], None],
    comes_back_s: float,
) -> None:
    """Use a session's media, over as many connections as it takes: a session that has moved is
    followed, and one whose connection broke sought for `comes_back_s`; 0: not at all.

    on_lost: told whether it has moved. Raises what ends it, in a group.
    """
    patience_s = 0.0
    while True:
        async with AsyncExitStack() as stack:
            media = await _reached(stack, connecting, patience_s)
            try:
                await use(media)
            except* MediaMovedError:
                on_lost(True)
            except* MediaLostError:
                if not comes_back_s:
                    raise
                on_lost(False)
        patience_s = comes_back_s


async def _reached(
    stack: AsyncExitStack,
    connecting: Callable[[], AbstractAsyncContextManager[Media]],
    patience_s: float,
) -> Media:
    return await again(lambda: stack.enter_async_context(connecting()), patience_s, _MEDIA_PASSING)


def first_of(error: BaseException) -> BaseException:
    """What a group was made for."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def connect(
    transport: Transport,
    client: GatewayClient,
    session: str,
    clock: Clock,
    role: Role = "speaker",
    *,
    pictures: bool = True,
) -> AbstractAsyncContextManager[Media]:
    """Speaker and viewer of a session, or a viewer without a microphone.

    pictures: False for sessions whose face the client draws.
    """
    # FFmpeg and aiortc come with the gateway; `visavis doctor` must start without them.
    if transport == "webrtc":
        from visavis.tools.bench.visitor import webrtc

        return webrtc.connect(client, session, clock, role, pictures=pictures)
    from visavis.tools.bench.visitor import websocket

    return websocket.connect(client, session, clock, role)
