"""One client's connection at work: what comes from it and from its session, in one order.

Reads, asks the adapter what follows, and has that done: by the session, beside it, or by the
client. Sound that comes faster than it is spoken waits here.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic_core import from_json

from gateway import metrics
from gateway.access.callers import Caller
from gateway.api.events import ErrorEvent, ServerEvent
from gateway.api.hub import Overheard, Voiced
from gateway.api.state import Gateway
from gateway.background import Background
from gateway.openai.errors import RefusedError
from gateway.realtime.making import Making, failed
from gateway.realtime.protocol import effects as to_do
from gateway.realtime.protocol.config import SemanticVad
from gateway.realtime.protocol.dialogue import Dialogue, News
from gateway.realtime.protocol.reply import Event
from gateway.realtime.queues import MicQueue, SideBand
from gateway.session.session import Session
from gateway.stages.plain_calls import Speaking
from gateway.talk.conversation import TurnTaking
from gateway.talk.microphone import RATE_HZ
from visavis.serving.errors import InvalidInputError, UnknownNameError, VisavisError
from visavis.wire.clock import Clock, MonotonicClock

log = logging.getLogger(__name__)

T = TypeVar("T")

HOLDER = "realtime"
ENDING = "this gateway is about to end; connect again"
MOST_NEWS = 4000
"""Of the session that wait because a client does not read: about a minute of an answer."""
_MOST_MESSAGES = 2
"""Of the client that wait, each of up to 20 MB."""
_MOST_SAID = 256
"""Of one who cannot be made to wait: each has to fit into a message of SCTP."""
_LARGE = 256 * 1024
"""Characters of a message that are better read on a thread."""
_LOOK_S = 0.02
_CLOSING_SILENCE = np.zeros(3 * RATE_HZ // 2, np.int16)
"""After so much of it whoever spoke has finished."""
_CLOSING_SILENCE_MS = 500
"""So much would do, wherever the client says that it is the end."""


class Link:
    """Keeps one client and one session together, until one of them is gone.

    caller: whose the session is. send: to the client; may take as long as the client does. holder:
    by which name its sound comes to the session. Follows the session.
    """

    def __init__(
        self,
        gateway: Gateway,
        caller: Caller,
        session: Session,
        dialogue: Dialogue,
        send: Callable[[Event], Awaitable[None]],
        holder: str = HOLDER,
        clock: Clock | None = None,
    ) -> None:
        self._gateway = gateway
        self.caller = caller
        self._session = session
        self._dialogue = dialogue
        self._send = send
        self._holder = holder
        self._clock = clock or MonotonicClock()
        self._news: deque[News] = deque()
        self._arrived = asyncio.Event()
        self._messages: asyncio.Queue[str | bytes] = asyncio.Queue(_MOST_MESSAGES)
        self._said: deque[str | bytes] = deque()
        self._side_bands: list[SideBand] = []
        self._mic = MicQueue()
        self._all_said_at = math.inf
        """So many samples of it are all of what is being said, as the client says."""
        self._sounding = asyncio.Event()
        self._background = Background()
        patience_s = gateway.settings.answer_timeout_s
        self._making = Making(gateway.plain, session, self._background, self._note, patience_s)
        self._spoken: dict[str, int] = {}
        """Pieces of the reply that the session is saying as it is written."""
        self.why = ""
        """Why it has ended, where the client has not."""
        self.too_slow = False
        self._quiet_since_s: float | None = None

    def told(self, event: ServerEvent | Voiced | Overheard) -> None:
        """The session tells something; nothing is done with it here."""
        self._note(event)

    async def said(self, message: str | bytes) -> None:
        """A message of the client's; returns once there is room for another."""
        await self._messages.put(message)
        self._arrived.set()

    def said_at_once(self, message: str | bytes) -> None:
        """As `said`, by somebody who cannot wait: one who says too much at once is given up."""
        if len(self._said) >= _MOST_SAID:
            self.end("too much was said at once")
            return
        self._said.append(message)
        self._arrived.set()

    def join(self) -> SideBand:
        """Tell somebody else all that the client is told from now on. `leave` it."""
        side_band = SideBand()
        side_band.tell(self._dialogue.greeting())
        self._side_bands.append(side_band)
        return side_band

    def leave(self, side_band: SideBand) -> None:
        if side_band in self._side_bands:
            self._side_bands.remove(side_band)

    def end(self, why: str) -> None:
        """Have `run` return."""
        self.why = self.why or why
        self._arrived.set()

    async def run(self) -> None:
        """Returns when the session has ended, or the client cannot be served."""
        self._session.follow(self)
        self._background.keep(self._feed(), "realtime-microphone")
        self._background.run(self._watch_for_the_end())
        by = "websocket" if self._holder == HOLDER else "webrtc"
        metrics.realtime_sessions.labels(by).inc()
        try:
            await self._session.take_microphone(self._holder)
            await self._perform_all(self._dialogue.begin())
            while not self.why:
                await self._step()
        finally:
            metrics.realtime_sessions.labels(by).dec()
            for side_band in self._side_bands:
                side_band.end()
            self._session.unfollow(self)
            self._session.release_microphone(self._holder)
            await self._background.cancel_all()

    async def _watch_for_the_end(self) -> None:
        """Of this gateway."""
        await self._gateway.sessions.leaving.wait()
        self._arrived.set()

    async def _step(self) -> None:
        if self._background.failed.is_set():
            self.why = "internal error; see the gateway's log"
        elif self._leaves:
            self.why = ENDING
            await self._perform_all(self._dialogue.leave(ENDING))
        elif self._news:
            news = self._news.popleft()
            if isinstance(news, ErrorEvent) and news.code == "session_closed":
                self.why = news.message
                return
            await self._perform_all(self._dialogue.hear(news))
        elif self._said:
            await self._obey(self._said.popleft())
        elif not self._messages.empty():
            await self._obey(self._messages.get_nowait())
        else:
            self._arrived.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(await self._idle_s()):
                    await self._arrived.wait()

    @property
    def _leaves(self) -> bool:
        """Whether this gateway is about to end, and there is nothing that it should finish."""
        if not self._gateway.sessions.draining:
            return False
        waits = self._news or self._said or not self._messages.empty()
        return not waits and self._dialogue.quiet

    async def _idle_s(self) -> float | None:
        """How long nobody may say anything more before that is told; None: for ever."""
        limit_s, now = self._dialogue.patience_s, self._clock.now()
        if limit_s is None:
            self._quiet_since_s = None
            return None
        if self._quiet_since_s is None:
            self._quiet_since_s = now
        rest_s = self._quiet_since_s + limit_s - now
        if rest_s > 0:
            return rest_s
        self._quiet_since_s = None
        heard_ms = self._mic.sent_ms
        await self._perform_all(self._dialogue.idle(heard_ms - round(limit_s * 1000), heard_ms))
        return 0.0

    async def _obey(self, message: str | bytes) -> None:
        self._session.touch()
        await self._perform_all(await self._read(message))
        await asyncio.sleep(0)  # who says a lot at once lets others in

    async def _read(self, message: str | bytes) -> list[to_do.Effect]:
        own_id, large = None, len(message) > _LARGE
        try:
            event = await _run(object_in, message, "event", apart=large)
            own_id = event.get("event_id")
            event = await self._with_a_face_there_is(event)
            # Nobody else touches the adapter meanwhile.
            return await _run(self._dialogue.client, event, apart=large)
        except RefusedError as error:
            return self._dialogue.refuse(error, own_id)
        except InvalidInputError as error:
            return self._dialogue.refuse(RefusedError(str(error), code="invalid_event"))

    async def _with_a_face_there_is(self, event: Mapping[str, Any]) -> Mapping[str, Any]:
        """The event; without its avatar where that is the client's choice already and cannot be
        chosen now: it may be worn by another name. Raises RefusedError for one that there is not.
        """
        wanted = event.get("session") if event.get("type") == "session.update" else None
        name = wanted.get("avatar") if isinstance(wanted, Mapping) else None
        chosen = name == self._dialogue.config.avatar
        if not isinstance(name, str) or (chosen and name == self._session.options.avatar):
            return event
        try:
            await self._gateway.catalog.check_avatar(name)  # today's are known, too
            return event
        except UnknownNameError as error:
            if not chosen:
                raise RefusedError(f"session.{error}", "session.avatar", "invalid_value") from None
        except VisavisError as error:  # no face can be asked now; the lease will tell
            log.info("%s", error)
            if not chosen:
                return event
        assert isinstance(wanted, Mapping)
        rest = {key: value for key, value in wanted.items() if key != "avatar"}
        return {**event, "session": rest}

    def _note(self, news: News) -> None:
        if len(self._news) >= MOST_NEWS:
            self.too_slow, self.why = True, "too much waits to be read"
        else:
            self._news.append(news)
        self._arrived.set()

    # ------------------------------------------------------------ doing

    async def _perform_all(self, effects: list[to_do.Effect]) -> None:
        waiting = deque(effects)
        while waiting:
            waiting.extendleft(reversed(await self._perform(waiting.popleft())))

    async def _perform(self, effect: to_do.Effect) -> list[to_do.Effect]:
        """What follows from doing it."""
        session = self._session
        match effect:
            case to_do.Send():
                for side_band in self._side_bands:
                    side_band.tell(effect.event)
                count(effect.event)
                await self._send(effect.event)
            case to_do.TellLimits():
                left = await self._gateway.standing_of(self.caller)
                return self._dialogue.limits(left.limit, left.remaining, left.reset_s)
            case to_do.Hear():
                return self._queue(effect.pcm)
            case to_do.ForgetSound():
                self._mic.clear()
            case to_do.EndUtterance():
                self._all_said_at = self._mic.whole_samples
                return self._queue(_CLOSING_SILENCE)
            case to_do.Silence():
                if session.turn is not None and session.turn.number == effect.turn:
                    session.interrupt()
            case to_do.Remember():
                await self._remember(effect)
            case to_do.Configure():
                await self._configure(effect)
            case to_do.Answer():
                return await self._begin(effect)
            case to_do.Speak():
                return await self._speak_on(effect)
            case to_do.Write():
                options = session.options
                voice = self._dialogue.voice_of(effect.voice) or options.voice
                self._making.write(effect, Speaking(options.language, voice, options.speed))
            case to_do.Stop():
                self._making.stop(effect.reply)
            case to_do.Recognise():
                self._making.recognise(effect)
        return []

    def _queue(self, pcm: NDArray[np.int16]) -> list[to_do.Effect]:
        try:
            self._mic.add(pcm)
        except InvalidInputError as error:
            return self._dialogue.refuse(error)
        self._sounding.set()
        return []

    async def _begin(self, effect: to_do.Answer | to_do.Speak) -> list[to_do.Effect]:
        """Have the session begin to speak."""
        try:
            await self._session.wake()
            if isinstance(effect, to_do.Answer):
                turn = self._session.respond(effect.prompt)
            else:
                await self._session.stages.settle()
                turn = self._session.begin_speaking()
        except VisavisError as error:
            return self._dialogue.hear(failed(effect.reply, error))
        return self._dialogue.began(effect.reply, turn)

    async def _speak_on(self, effect: to_do.Speak) -> list[to_do.Effect]:
        """Have it say what comes next; a turn opens with the first words."""
        begun: list[to_do.Effect] = []
        if effect.reply not in self._spoken:
            begun = await self._begin(effect)
        turn = self._dialogue.turn_of(effect.reply)
        if turn is not None:
            piece = self._spoken.get(effect.reply, 0)
            self._spoken = {effect.reply: piece + 1}
            block = (effect.block, effect.language)
            self._session.speak_on(turn, effect.text, piece, *block, last=effect.last)
        return begun

    async def _remember(self, effect: to_do.Remember) -> None:
        self._session.rewrite(effect.said)
        if effect.persona != self._session.persona:
            await self._session.update(self._session.options, effect.persona)

    async def _configure(self, effect: to_do.Configure) -> None:
        config, session, self._all_said_at = effect.config, self._session, math.inf
        detection = config.audio.input.turn_detection
        interrupts = detection is not None and detection.interrupt_response
        taking = TurnTaking(
            config.answers_by_itself,
            interrupts,
            goes_on=isinstance(detection, SemanticVad),
            answers_again=False,  # its client has the answer, cut where it was
        )
        session.take_turns(taking)
        options = replace(
            session.options,
            language=self._dialogue.language,
            voice=self._dialogue.voice_of(effect.voice or config.wanted_voice),
            speed=config.audio.output.speed,
            avatar=session.options.avatar if effect.avatar is None else effect.avatar,
            endpointing=config.endpointing,
        )
        if options != session.options:
            await session.update(options)

    async def _feed(self) -> None:
        """Have the session hear what has come, no faster than it is spoken."""
        while True:
            for piece in self._mic.take(self._clock.now(), self._all_said_at):
                self._session.push_mic(self._holder, piece)
            if self._mic.sent_samples >= self._all_said_at:
                # The silence behind it is heard by those who know that it is the end.
                self._all_said_at = math.inf
                await self._end_utterance()
            if len(self._mic):
                await asyncio.sleep(_LOOK_S)
            else:
                self._sounding.clear()
                await self._sounding.wait()

    async def _end_utterance(self) -> None:
        """However long a silence the client wants waited for: it has said that this was all."""
        options = self._session.options
        soon = replace(options.endpointing, silence_ms=_CLOSING_SILENCE_MS)
        await self._session.update(replace(options, endpointing=soon))


async def _run(work: Callable[..., T], *given: object, apart: bool) -> T:
    """apart: on a thread."""
    return await asyncio.to_thread(work, *given) if apart else work(*given)


def count(event: Event) -> None:
    """What of an event for a client operators are told: how responses end, and errors."""
    match event.get("type"):
        case "response.done":
            metrics.realtime_responses.labels(event["response"]["status"]).inc()
        case "error":
            metrics.realtime_errors.labels(event["error"]["code"] or "other").inc()


def object_in(content: str | bytes, where: str) -> Mapping[str, Any]:
    """What a client sends as JSON. Raises InvalidInputError where it is no object, is nested too
    deeply, or holds half a character.
    """
    try:
        told: object = from_json(content, allow_inf_nan=False)
    except ValueError as error:
        raise InvalidInputError(f"{where}: not JSON, {error}") from None
    if not isinstance(told, dict):
        raise InvalidInputError(f"{where}: a JSON object is wanted")
    return told
