"""One client of the Wyoming port: its requests one after the other, each with its own answer."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from gateway import metrics
from gateway.access.callers import Caller
from gateway.api.problems import code_of
from gateway.api.state import Gateway
from gateway.stages.growing import Growing
from gateway.stages.plain_calls import Speaking
from gateway.wyoming.answering import (
    LONGEST_QUESTION,
    LONGEST_TEXT,
    Microphone,
    handled,
    info,
    spoken,
    transcribed,
)
from gateway.wyoming.events import Event, encoded, read_head, read_rest
from gateway.wyoming.remembering import Conversations
from visavis.serving.errors import InvalidInputError, StageLostError, VisavisError
from visavis.serving.lifetime.supervision import end_tasks
from visavis.wire.clock import Clock

log = logging.getLogger(__name__)

IDLE_S = 300.0
"""A client that asks for nothing is disconnected after so long."""
_FRAME_S = 20.0
"""For what a line has announced."""
_LONGEST_ID = 200

_Answer = AsyncGenerator[Event, None]


class Connection:
    """Reads one client's events and answers them. `serve` it once."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        gateway: Gateway,
        conversations: Conversations,
        clock: Clock,
        caller: Caller,
        address: str,
    ) -> None:
        """caller: whose limits hold; address: the client's, whose conversations are its own."""
        self._reader = reader
        self._writer = writer
        self._gateway = gateway
        self._conversations = conversations
        self._clock = clock
        self._caller = caller
        self._address = address
        self._job: asyncio.Task[None] | None = None
        self._language = ""
        self._microphone: Microphone | None = None
        self._text: Growing[str] | None = None
        self._characters = 0
        self._writing = asyncio.Lock()
        self._over = False
        """It was told of an error, and nothing more comes."""

    async def serve(self) -> None:
        """Until the client hangs up, which ends what it has asked for."""
        try:
            while (event := await self._next()) is not None:
                if self._over:
                    continue  # sent before it could know
                try:
                    await self._take(event)
                except VisavisError as error:
                    await self._drop_job()
                    await self._refuse(error)
        except InvalidInputError as error:  # of the frame itself: where the next begins, who knows
            await self._send(_error(error))
        except (asyncio.IncompleteReadError, ConnectionError, TimeoutError):
            pass
        finally:
            await self._drop_job()

    async def _next(self) -> Event | None:
        """None: the client has hung up. Raises TimeoutError, InvalidInputError."""
        while True:
            try:
                async with asyncio.timeout(IDLE_S):
                    head = await read_head(self._reader)
                break
            except TimeoutError:
                if not self._busy or self._waits_for_client:
                    raise
        if head is None:
            return None
        async with asyncio.timeout(_FRAME_S):
            return await read_rest(self._reader, head)

    @property
    def _waits_for_client(self) -> bool:
        """What is being answered is not complete yet."""
        sound = self._microphone.sound if self._microphone is not None else None
        return any(more is not None and not more.ended for more in (sound, self._text))

    async def _take(self, event: Event) -> None:
        """What is not known is passed over, as the protocol wants it."""
        match event.type:
            case "describe":
                await self._send(await self._info())
            case "ping":
                await self._send(Event("pong", {"text": event.text("text")}))
            case "transcribe":
                self._language = event.text("language")
            case "audio-start":
                await self._listen()
            case "audio-chunk":
                if self._microphone is not None and self._busy:
                    self._microphone.hear(event)
            case "audio-stop":
                if self._microphone is not None:
                    self._microphone.end()
            case "synthesize" if self._text is None or self._text.ended:
                await self._begin("synthesize", self._spoken(event, _plain(event)))
            case "synthesize-start":
                await self._begin_text(event)
            case "synthesize-chunk":
                self._add_text(event.text("text"))
            case "synthesize-stop":
                if self._text is not None:
                    self._text.end()
            case "transcript":
                await self._begin("handle", self._handled(event))

    # ------------------------------------------------------------ what is asked for

    async def _info(self) -> Event:
        hears = {
            tag for s in self._gateway.registry.replicas("asr") if s.healthy for tag in s.languages
        }
        try:
            voices = await self._gateway.catalog.voices()
        except StageLostError:
            voices = []
        return info(sorted(hears), voices)

    async def _listen(self) -> None:
        microphone = Microphone()
        language, self._language = self._language, ""
        await self._begin("transcribe", transcribed(self._gateway.plain, microphone, language))
        self._microphone = microphone

    async def _begin_text(self, event: Event) -> None:
        text: Growing[str] = Growing()
        _plain(event)

        async def events() -> _Answer:
            async with aclosing(self._spoken(event, text)) as voice:
                async for each in voice:
                    yield each
            yield Event("synthesize-stopped")

        await self._begin("synthesize", events())
        self._text, self._characters = text, 0

    def _add_text(self, text: str) -> None:
        self._characters += len(text)
        if self._characters > LONGEST_TEXT:
            raise InvalidInputError(f"synthesize-chunk: more than {LONGEST_TEXT} characters")
        if self._text is not None and text:
            self._text.add(text)

    def _spoken(self, event: Event, text: str | Growing[str]) -> _Answer:
        voice = Event(event.type, event.part("voice"))
        how = Speaking(voice.text("language"), voice.text("name"))
        return spoken(self._gateway.plain, text, how)

    async def _handled(self, event: Event) -> _Answer:
        question = event.text("text").strip()
        if len(question) > LONGEST_QUESTION:
            raise InvalidInputError(f"transcript: more than {LONGEST_QUESTION} characters")
        context: dict[str, Any] = dict(event.part("context"))
        if not isinstance(context.get("conversation_id"), str):
            context["conversation_id"] = secrets.token_hex(8)
        key = (self._address, context["conversation_id"][:_LONGEST_ID])
        if not question:
            yield Event("not-handled", {"text": "", "context": context})
            return
        before = self._conversations.said(key, self._clock.now())
        language, persona = event.text("language"), self._gateway.settings.persona
        answer = handled(self._gateway.plain, question, before, persona, language, context)
        async with aclosing(answer) as events:
            async for each in events:
                if each.type == "handled":
                    told = each.text("text")
                    self._conversations.add(key, question, told, self._clock.now())
                yield each

    # ------------------------------------------------------------ one at a time

    @property
    def _busy(self) -> bool:
        return self._job is not None and not self._job.done()

    async def _begin(self, kind: str, events: _Answer) -> None:
        """After what was asked for before; what will never be complete is given up."""
        if self._job is not None and not self._waits_for_client:
            await asyncio.wait([self._job])
        await self._drop_job()
        self._job = asyncio.create_task(self._answer(kind, events), name=f"wyoming-{kind}")

    async def _drop_job(self) -> None:
        job, self._job = self._job, None
        self._microphone = self._text = None
        if job is not None:
            await end_tasks([job])

    async def _answer(self, kind: str, events: _Answer) -> None:
        code = "cancelled"
        try:
            async with self._gateway.within_limits(self._caller), aclosing(events):
                async for event in events:
                    await self._send(event)
            code = "ok"
        except VisavisError as error:
            code = code_of(error)[1]
            with contextlib.suppress(ConnectionError, TimeoutError):
                await self._refuse(error)
        except (ConnectionError, TimeoutError):
            self._writer.transport.abort()  # nobody reads; the reading side notices
        except Exception:
            code = "internal"
            log.exception("Wyoming: a request failed")
            self._writer.transport.abort()
        finally:
            metrics.wyoming_requests.labels(kind, code).inc()

    async def _refuse(self, error: VisavisError) -> None:
        """Home Assistant before about 2026.9 passes an error over, and waits five minutes for what
        is behind it: it knows the end alone.
        """
        await self._send(_error(error))
        self._over = True
        self._writer.write_eof()

    async def _send(self, event: Event) -> None:
        """Raises TimeoutError where the client reads nothing."""
        async with self._writing, asyncio.timeout(self._gateway.settings.stalled_timeout_s):
            self._writer.write(encoded(event))
            await self._writer.drain()


def _plain(event: Event) -> str:
    """The text that is to be spoken. Raises InvalidInputError."""
    if event.text("text_format") not in ("", "text"):
        raise InvalidInputError(f"{event.type}: text_format can be text alone")
    text = event.text("text")
    if len(text) > LONGEST_TEXT:
        raise InvalidInputError(f"{event.type}: more than {LONGEST_TEXT} characters")
    return text


def _error(error: VisavisError) -> Event:
    return Event("error", {"text": str(error), "code": code_of(error)[1]})
