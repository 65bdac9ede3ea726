"""The same for programs without an event loop: each call returns when it is done."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from visavis.client.errors import GatewayError
from visavis.client.gateway import GatewayClient
from visavis.client.poses import Pose
from visavis.client.session import SOUND_RATE_HZ, GatewaySession

T = TypeVar("T")

_END = object()


class _ClosedError(GatewayError):
    """The client that was to do it is closed, or was closed meanwhile."""

    def __init__(self) -> None:
        super().__init__("closed", "the client is closed")


class _Loop:
    """An event loop on a thread of its own, which others have work done on."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="visavis", daemon=True)
        self._thread.start()
        self._handing_over = threading.RLock()
        self._closed = False

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Its result; where the caller is interrupted, so is the work, and has cleaned up then.

        Raises GatewayError `closed` where the loop is closed, or is meanwhile; RuntimeError where
        the loop's own thread is to wait for it.
        """
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("a callback of this client cannot wait for it: use another thread")
        begun: list[asyncio.Task[T]] = []
        ended = threading.Event()

        def begin() -> None:
            begun.append(self._loop.create_task(work))
            begun[0].add_done_callback(lambda _: ended.set())

        with self._handing_over:
            if self._closed:
                work.close()
                raise _ClosedError
            self._loop.call_soon_threadsafe(begin)
        try:
            ended.wait()
        except BaseException:
            self._loop.call_soon_threadsafe(lambda: begun[0].cancel())
            ended.wait()
            raise
        if begun[0].cancelled():
            raise _ClosedError
        return begun[0].result()

    def each(self, items: AsyncIterator[T]) -> Iterator[T]:
        """What an asynchronous iterator brings, until the loop is closed at the latest."""

        async def following() -> Any:
            return await anext(items, _END)

        async def closed() -> None:
            await items.aclose()  # type: ignore[attr-defined]  # ours are generators, all of them

        try:
            while (item := self.run(following())) is not _END:
                yield item
        except _ClosedError:
            return
        finally:
            # One that was forgotten is deleted on any thread. Ours would wait for itself.
            if threading.current_thread() is self._thread:
                self._loop.create_task(closed())
            else:
                with contextlib.suppress(_ClosedError):  # it was closed with the loop
                    self.run(closed())

    def close(self, last: Coroutine[Any, Any, None]) -> None:
        """Interrupt what goes on, wait until it has cleaned up, and do the `last`. Idempotent."""

        async def ending() -> None:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            await self._loop.shutdown_asyncgens()
            await last

        with self._handing_over:
            if self._closed:
                last.close()
                return
            self._closed = True
        try:
            asyncio.run_coroutine_threadsafe(ending(), self._loop).result()
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


class Client:
    """One gateway for programs without an event loop; a context manager. See GatewayClient."""

    def __init__(self, url: str, api_key: str = "", *, reconnect_s: float = 30.0) -> None:
        """reconnect_s: so long a session's lost connection is tried again; 0: not at all.

        Raises GatewayError for an address that cannot be asked, or a key that cannot be sent.
        """
        self._client = GatewayClient(url, api_key, reconnect_s=reconnect_s)
        self._loop = _Loop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.close(self._client.__aexit__())

    def call(self, method: str, path: str, **arguments: Any) -> Any:
        """One request; its JSON, or None where it has none. Raises GatewayError."""
        answer = self._loop.run(self._client.call(method, path, **arguments))
        is_json = answer.headers.get("content-type", "").startswith("application/json")
        return answer.json() if is_json else None

    @contextlib.contextmanager
    def session(
        self, *, on_place: Callable[[dict[str, Any]], None] | None = None, **options: Any
    ) -> Iterator[Session]:
        """A session with `language`, `voice`, `avatar` …; deleted when the context ends.

        on_place: wait in line where there is no room; told how the place stands.
        """
        made = self._client.session(on_place=on_place, **options)
        session = self._loop.run(made.__aenter__())
        try:
            yield Session(self._loop, session)
        finally:
            self._loop.run(made.__aexit__(None, None, None))


class Session:
    """One conversation, without an event loop. Made by `Client.session`; see GatewaySession.

    What goes on (`events`, `listen`, `blendshapes`, `talk`) may each run on a thread of its own.
    """

    def __init__(self, loop: _Loop, session: GatewaySession) -> None:
        self.id = session.id
        self._loop = loop
        self._session = session

    def ask(self, text: str, *, style: str = "") -> int:
        """Type `text`, as the visitor; the number of the turn that answers it."""
        return self._loop.run(self._session.ask(text, style=style))

    def typing(self, text: str) -> None:
        """What the visitor has typed so far and not sent: the answer to it will come sooner."""
        self._loop.run(self._session.typing(text))

    def say(
        self, text: str, *, style: str = "", language: str = "", interrupt: bool = False
    ) -> int:
        """Have the face say `text` as it stands, behind what it says now; its number."""
        said = self._session.say(text, style=style, language=language, interrupt=interrupt)
        return self._loop.run(said)

    def answer_to(self, text: str) -> str:
        """Type `text` and wait for the answer's end; all of its text."""
        return self._loop.run(self._session.answer_to(text))

    def hear_out(self, text: str, *, style: str = "", language: str = "") -> None:
        """Have the face say `text`, and wait until it has."""
        self._loop.run(self._session.hear_out(text, style=style, language=language))

    def interrupt(self) -> None:
        """Have the answer stop."""
        self._loop.run(self._session.interrupt())

    def tool_result(self, call_id: str, output: str) -> None:
        """What a call of an `answer.tool_call` event came to."""
        self._loop.run(self._session.tool_result(call_id, output))

    def update(self, **options: Any) -> None:
        """Change `language`, `voice`, `avatar`, `speed` or `style` from the next turn on."""
        self._loop.run(self._session.update(**options))

    def talk(self, pcm: NDArray[np.int16], then_s: float = 1.0) -> None:
        """Be the microphone: `pcm` [N] int16 at 16 kHz in real time, then `then_s` of silence."""
        silence = np.zeros(round(then_s * 16_000), np.int16)

        async def talking() -> None:
            stop = asyncio.Event()
            whole = np.concatenate([pcm, silence])
            asyncio.get_running_loop().call_later(len(whole) / 16_000, stop.set)
            await self._session.talk(whole, stop, pictures=False)

        self._loop.run(talking())

    def events(self) -> Iterator[dict[str, Any]]:
        """What happens, as docs/events.md has it, until the session ends."""
        return self._loop.each(self._session.events())

    def listen(self, rate_hz: int = SOUND_RATE_HZ) -> Iterator[NDArray[np.int16]]:
        """What is heard, silence included, at the pace of the clock: [N] int16 each."""
        return self._loop.each(self._session.listen(rate_hz))

    def blendshapes(self) -> Iterator[Pose]:
        """The face for who draws it himself, 25 times a second."""
        return self._loop.each(self._session.blendshapes())
