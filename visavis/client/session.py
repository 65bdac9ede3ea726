"""One conversation through the public API, for asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import httpx
import numpy as np
import websockets
from numpy.typing import NDArray
from websockets.asyncio.client import ClientConnection

from visavis.client.errors import (
    PASSING,
    GatewayError,
    goes_on,
    has_ended,
    lost,
    refused_socket,
    unreachable,
)
from visavis.client.poses import Pose, poses_of
from visavis.client.speech import Speech

T = TypeVar("T")

MIC_RATE_HZ = 16_000
SOUND_RATE_HZ = 24_000
_MIC_CHUNK_SAMPLES = 320
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 3.0
_LOOK_S = 0.05
_OVER = ("finished", "interrupted", "failed")
_UNREAD_EVENTS = 500


class Gateway(Protocol):
    """What a session needs of the client that has made it."""

    url: str
    reconnect_s: float

    async def call(self, method: str, path: str, **arguments: Any) -> httpx.Response: ...

    async def renew_token(self, path: str) -> None: ...

    def connect(self, path: str) -> websockets.connect: ...


@dataclass(frozen=True, slots=True)
class Missed:
    """A connection was lost: what happened until there was the next one is not among the events."""

    away_s: float
    moved: bool
    """The gateway has sent its clients to another one, else it went without a word."""


class GatewaySession:
    """One conversation: ask, have things said, listen, follow what happens.

    Made by `GatewayClient.session`. A connection that is lost is made anew by itself, for as long
    as the client's `reconnect_s`; a session that goes to another gateway is followed there.
    """

    def __init__(self, client: Gateway, session: str, events: ClientConnection) -> None:
        self.id = session
        self._client = client
        self._events = events
        self._unread: deque[str | bytes | Missed] = deque(maxlen=_UNREAD_EVENTS)
        self._news = asyncio.Event()
        self._awaited = False
        self._following: asyncio.Task[None] | None = None

    # ------------------------------------------------------------ to say something

    async def ask(self, text: str, *, style: str = "") -> int:
        """Type `text`, as the visitor; the number of the turn that answers it."""
        body = {"text": text, "style": style}
        answer = await self._client.call("POST", f"{self._path}/text", json=body)
        return int(answer.json()["turn"])

    async def typing(self, text: str) -> None:
        """What the visitor has typed so far and not sent: the answer to it will come sooner."""
        with contextlib.suppress(websockets.ConnectionClosed):  # it comes as soon as any other
            await self._events.send(json.dumps({"type": "typing", "text": text}))

    async def say(
        self, text: str, *, style: str = "", language: str = "", interrupt: bool = False
    ) -> int:
        """Have the face say `text` as it stands, behind what it says now; its number.

        `say` events tell what becomes of it. interrupt: at once instead. Raises GatewayError
        `too_many_waiting`.
        """
        body = {"text": text, "style": style, "language": language, "interrupt": interrupt}
        answer = await self._client.call("POST", f"{self._path}/say", json=body)
        return int(answer.json()["say"])

    async def interrupt(self) -> None:
        """Have the answer stop, as the page's button does."""
        await self._client.call("POST", f"{self._path}/interrupt")

    async def tool_result(self, call_id: str, output: str) -> None:
        """What a call of an `answer.tool_call` event came to.

        The answer waits for it: where the connection is lost it is sent over the next one. Raises
        GatewayError where there is none.
        """
        command = json.dumps({"type": "tool_result", "call_id": call_id, "output": output})
        while True:
            events, following = self._events, self.follow()
            try:
                await events.send(command)
                return
            except websockets.ConnectionClosed as closed:
                again = self._goes_on(closed)
            # `_news` is for one reader, who may be there.
            while again and self._events is events and not following.done():  # noqa: ASYNC110
                await asyncio.sleep(_LOOK_S)
            if self._events is events:
                if following.done() and not following.cancelled():
                    following.result()  # why, where the session has not ended
                raise GatewayError("session_closed", "the session ended before it had the result")

    async def update(self, **options: Any) -> None:
        """Change `language`, `voice`, `avatar`, `speed` or `style` from the next turn on."""
        await self._client.call("PATCH", self._path, json=options)

    async def answer_to(self, text: str) -> str:
        """Type `text` and wait for the answer's end; all of its text.

        It reads `events`. Raises GatewayError where the turn fails.
        """
        turn, answer, whole = await self.ask(text), "", True
        async for event in self.told():
            if isinstance(event, Missed):
                whole = False
                event = await self._outcome(turn)
            if event.get("turn") != turn:
                continue
            if event["type"] == "answer":
                answer += event["text"]
            elif event["type"] == "turn" and event["event"] in _OVER:
                if event["event"] == "failed":
                    raise GatewayError("failed", f"the turn failed: {event.get('reason')}")
                return answer if whole else str((await self._record(turn))["answer"])
        raise GatewayError("session_closed", "the session ended before the answer was complete")

    async def hear_out(self, text: str, *, style: str = "", language: str = "") -> None:
        """Have the face say `text`, and wait until it has.

        It reads `events`. Raises GatewayError where it does not come to its end.
        """
        number = await self.say(text, style=style, language=language)
        turn: int | None = None
        async for event in self.told():
            if isinstance(event, Missed):
                if turn is None:
                    raise GatewayError("lost", "the connection was lost before it was its turn")
                event = await self._outcome(turn)
            if event["type"] == "say" and event["say"] == number:
                turn = event.get("turn")
                if event["event"] == "dropped":
                    raise GatewayError("dropped", f"it was not said: {event.get('reason')}")
            elif event["type"] == "turn" and event["turn"] == turn and event["event"] in _OVER:
                if event["event"] == "finished":
                    return
                raise GatewayError(event["event"], f"it was cut off: {event.get('reason')}")
        raise GatewayError("session_closed", "the session ended before all was said")

    async def talk(
        self, pcm: NDArray[np.int16], stop: asyncio.Event, *, pictures: bool = True
    ) -> None:
        """Be the microphone: `pcm` [N] int16 at 16 kHz in real time, then silence until `stop`.

        Real silence follows a recording, because a microphone is never off. pictures: take those
        meanwhile, as a visitor's page does, and so have the face drawn; False: sound alone. Raises
        GatewayError.
        """
        loop = asyncio.get_running_loop()
        silence = np.zeros(_MIC_CHUNK_SAMPLES, np.int16)
        way = "media" if pictures else "audio"
        async with await self._connect(f"{self._path}/{way}?role=speaker") as sound:
            drain = asyncio.create_task(_discard(sound))
            try:
                started, sent = loop.time(), 0
                while not stop.is_set():
                    chunk = pcm[sent : sent + _MIC_CHUNK_SAMPLES]
                    await sound.send((chunk if len(chunk) else silence).tobytes())
                    sent += _MIC_CHUNK_SAMPLES
                    # A deadline from the start: sleeping by intervals would drift.
                    await asyncio.sleep(started + sent / MIC_RATE_HZ - loop.time())
            except websockets.ConnectionClosed as closed:
                raise lost(closed) from closed
            finally:
                drain.cancel()
                await asyncio.gather(drain, return_exceptions=True)

    @contextlib.asynccontextmanager
    async def bring_speech(self) -> AsyncIterator[Speech]:
        """The way for speech of one's own, in a session made with `spoken_by="client"`.

        Raises GatewayError where that cannot be.
        """
        socket = await self._connect(f"{self._path}/speech")
        try:
            yield Speech(socket)
        finally:
            await socket.close()

    # ------------------------------------------------------------ to follow what happens

    def follow(self) -> asyncio.Task[None]:
        """Take events from now on, and keep the connection, until the session ends.

        Whether anybody reads them or not: behind what is not taken pings wait, too, and the
        connection is thought dead.
        """
        if self._following is None or self._following.done():  # lost for too long, it may be back
            self._following = asyncio.create_task(self._follow(), name=f"events-{self.id}")
            self._following.add_done_callback(self._over)
        return self._following

    def _over(self, following: asyncio.Task[None]) -> None:
        if not following.cancelled():
            following.exception()  # `events` tells it, if anybody reads them
        self._news.set()

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """What happens, as docs/events.md has it, until the session ends.

        What nobody has read yet waits; of more than 500 the oldest are lost. Raises GatewayError.
        """
        async for event in self.told():
            if not isinstance(event, Missed):
                yield event

    async def told(self) -> AsyncIterator[dict[str, Any] | Missed]:
        """As `events`, and where some of them may be missing."""
        following = self.follow()
        while True:
            while self._unread:
                message = self._unread.popleft()
                yield message if isinstance(message, Missed) else json.loads(message)
            if following.done():
                break
            if self._awaited:
                raise GatewayError("busy", "the events of this session are read elsewhere")
            self._news.clear()
            self._awaited = True
            try:
                await self._news.wait()
            finally:
                self._awaited = False
        if not following.cancelled():
            following.result()  # why, where the session has not ended

    async def listen(self, rate_hz: int = SOUND_RATE_HZ) -> AsyncIterator[NDArray[np.int16]]:
        """What is heard, silence included, at the pace of the clock: [N] int16 each.

        rate_hz: 16000, 24000 or 48000.
        """
        path = f"{self._path}/audio?rate_hz={rate_hz}"
        async for message in self._messages(path):
            if isinstance(message, bytes):
                yield np.frombuffer(message, "<i2").astype(np.int16, copy=False)

    async def blendshapes(self) -> AsyncIterator[Pose]:
        """The face for who draws it himself, 25 times a second; a pose comes with its sound."""
        async for message in self._messages(f"{self._path}/face"):
            if isinstance(message, bytes):
                for pose in poses_of(message):
                    yield pose

    async def record_turn(self) -> None:
        """Record the next turn, from its first picture to its last."""
        await self._client.call("POST", f"{self._path}/recording", json={"scope": "turn"})

    async def start_recording(self) -> None:
        """Record all that is seen and heard, until `stop_recording`."""
        await self._client.call("POST", f"{self._path}/recording", json={"scope": "session"})

    async def stop_recording(self) -> None:
        """The recording is complete."""
        await self._client.call("POST", f"{self._path}/recording/stop")

    async def recording(self) -> bytes:
        """The finished recording, mp4."""
        return (await self._client.call("GET", f"{self._path}/recording.mp4")).content

    async def aclose(self) -> None:
        """Follow what happens no more."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        await self._events.close()

    # ------------------------------------------------------------ connections

    @property
    def _path(self) -> str:
        return f"/v1/sessions/{self.id}"

    async def _record(self, turn: int) -> dict[str, Any]:
        """What the gateway has written down of a turn. Raises GatewayError."""
        answer = await self._client.call("GET", f"{self._path}/turns/{turn}")
        record: dict[str, Any] = answer.json()
        return record

    async def _outcome(self, turn: int) -> dict[str, Any]:
        """Where a turn stands, as the event that has told of it and may be missing."""
        record = await self._record(turn)
        told = {"type": "turn", "turn": turn, "event": record["state"]}
        return {**told, "reason": record["reason"]}

    async def _follow(self) -> None:
        """Take events as they come, over as many connections as it needs."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                async for message in self._events:
                    self._unread.append(message)
                    self._news.set()
                return
            except websockets.ConnectionClosed as closed:
                if not self._goes_on(closed):
                    return
                lost_s, moved = loop.time(), goes_on(closed)
            self._events = await self._reconnect(f"{self._path}/events")
            self._unread.append(Missed(loop.time() - lost_s, moved))
            self._news.set()

    async def _messages(self, path: str) -> AsyncIterator[str | bytes]:
        """What comes over a socket until the session ends, over as many connections as it takes."""
        socket = await self._connect(path)
        while True:
            try:
                async for message in socket:
                    yield message
                return
            except websockets.ConnectionClosed as closed:
                if not self._goes_on(closed):
                    return
            finally:
                await socket.close()
            socket = await self._reconnect(path)

    def _goes_on(self, closed: websockets.ConnectionClosed) -> bool:
        """Whether to connect again; False: the session has ended. Raises GatewayError."""
        if has_ended(closed):
            return False
        if not self._client.reconnect_s and not goes_on(closed):
            raise lost(closed) from closed
        return True

    async def _connect(self, path: str) -> ClientConnection:
        await self._client.renew_token(self._path)
        return await connected(self._client, path)

    async def _reconnect(self, path: str) -> ClientConnection:
        """Raises GatewayError where there is no such session any more, or nobody for too long."""
        return await again(lambda: self._connect(path), self._client.reconnect_s)


async def again(
    ask: Callable[[], Awaitable[T]], for_s: float, passing: Collection[str] = PASSING
) -> T:
    """What is asked; for `for_s` once more, after growing pauses, where a refusal's code is one of
    `passing`. Raises GatewayError.
    """
    loop, pause_s = asyncio.get_running_loop(), _FIRST_PAUSE_S
    give_up_at_s = loop.time() + for_s
    while True:
        try:
            return await ask()
        except GatewayError as error:
            if error.code not in passing or loop.time() >= give_up_at_s:
                raise
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


async def connected(client: Gateway, path: str) -> ClientConnection:
    """A WebSocket of the gateway that is open. Raises GatewayError."""
    try:
        return await client.connect(path)
    except websockets.InvalidStatus as error:
        raise refused_socket(error) from None
    except (OSError, websockets.InvalidHandshake) as error:
        raise unreachable(client.url, error) from error


async def _discard(sound: ClientConnection) -> None:
    """Read what is heard away: a client that does not read would be taken for a slow one."""
    async for _ in sound:
        pass
