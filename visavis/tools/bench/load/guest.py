"""One visitor of a load: asks what his schedule says when it says so, whatever the server does.

The edge: it speaks, types, waits and listens through the public API; what came of each question is
judged in `exchange`, what was heard and seen in `playout`, whose words it were in `ledger`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from visavis.client import GatewayClient, GatewayError, GatewaySession
from visavis.client.session import Missed
from visavis.serving.errors import InvalidInputError, VisavisError
from visavis.tools.bench.load.exchange import (
    Asked,
    Exchange,
    Talk,
    lost,
    never_asked,
    settle,
    silent_wait_s,
)
from visavis.tools.bench.load.ledger import Line, with_code
from visavis.tools.bench.load.playout import PlayoutJudge
from visavis.tools.bench.load.results import Break, Wait
from visavis.tools.bench.load.schedule import Planned, dealt
from visavis.tools.bench.visitor.clips import Clip, load_clips
from visavis.tools.bench.visitor.media import HeardSound, Media, MediaEndedError, SeenPicture
from visavis.tools.bench.visitor.trace import Trace
from visavis.tools.bench.visitor.visitor import Transport, Visitor, connect, stay
from visavis.wire.clock import Clock

# From a question's end to the first sound of its answer: later, there is none.
_ANSWER_TIMEOUT_S = 30.0
# The longest answer that is listened to.
_LISTEN_S = 90.0
# Talk that lies longer ago overlaps no wait.
_KEPT_TALK = 32


class Notes:
    """What a visitor is told and sees, noted for the judges. A witness."""

    def __init__(self, visitor: int) -> None:
        self.visitor = visitor
        self.visit = 1
        """How often he has come, with this time."""
        self.start_s = 0.0
        """The run's start; lines are timed from it."""
        self.judge = PlayoutJudge()
        self.lines: list[Line] = []
        self.breaks: list[Break] = []
        self._media_s: float | None = None
        """When something last came of face and voice."""
        self._media_moved: bool | None = None
        """How it was lost since; None: it was not."""
        self._missed = False
        """Some events were, since he came."""
        self._opened: set[int] = set()
        """Turns of whose opening he was told, or of which something is known to be missing."""
        self._under_way: set[int] = set()

    def media(self, found: HeardSound | SeenPicture) -> None:
        if self._media_moved is not None and self._media_s is not None:
            away_s = found.at_s - self._media_s
            self._broke("media", self._media_s, away_s, moved=self._media_moved)
            self._media_moved = None
        self._media_s = found.at_s
        self.judge.note(found)

    def media_lost(self, *, moved: bool) -> None:
        self._media_moved = moved and self._media_moved is not False
        self.judge.begin_anew()

    def events_missed(self, at_s: float, missed: Missed) -> None:
        self._missed = True
        self._broke("events", at_s - missed.away_s, missed.away_s, moved=missed.moved)
        for turn in sorted(self._under_way):
            self.line(at_s, "away", turn, "")

    def event(self, at_s: float, event: Mapping[str, Any]) -> None:
        if event.get("type") == "turn":
            turn, opens = int(event["turn"]), event["event"] == "opened"
            if opens:
                self._opened.add(turn)
                self._under_way.add(turn)
            elif event["event"] != "speaking":
                self._under_way.discard(turn)
        elif event.get("type") == "answer":
            self._seen(at_s, int(event["turn"]))
            self.line(at_s, "answer", int(event["turn"]), str(event["text"]))
        elif event.get("type") == "transcript" and event.get("final"):
            self.line(at_s, "understood", int(event.get("turn") or 0), str(event["text"]))

    def asked(self, at_s: float, what: Literal["typed", "spoken"], turn: int, text: str) -> None:
        """He has asked this."""
        self.judge.asked()
        self.line(at_s, what, turn, text)

    def recorded(self, at_s: float, asked: Asked, record: Mapping[str, Any]) -> None:
        """What the gateway has written down of the turn with a question's answer. Of what was
        missed as it was told, the rest is there."""
        turn = asked.answering()
        self._seen(at_s, turn)
        told = any(line.what == "understood" and line.turn == asked.turn for line in self.lines)
        if self._missed and asked.turn and not told:
            self.line(at_s, "understood", asked.turn, str(record.get("transcript", "")))
        if record.get("state") == "finished":
            self.line(at_s, "record", turn, str(record.get("answer", "")))

    def _seen(self, at_s: float, turn: int) -> None:
        """Of a turn whose opening was missed, what came with it is missing."""
        if turn not in self._opened and self._missed:
            self._opened.add(turn)
            self.line(at_s, "away", turn, "")

    def _broke(
        self, what: Literal["media", "events"], at_s: float, away_s: float, *, moved: bool
    ) -> None:
        at_s = round(at_s - self.start_s, 3)
        self.breaks.append(Break(self.visitor, what, at_s, round(away_s, 3), moved))

    def line(self, at_s: float, what: Any, turn: int, text: str) -> None:
        at_s = round(at_s - self.start_s, 3)
        self.lines.append(Line(self.visitor, at_s, what, turn, text, self.visit))


class InLine:
    """Notes how a visitor's place in line stood. `told` is told of it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._joined_s: float | None = None
        self._admitted_s: float | None = None
        self._told_s: float | None = None
        self._position = 0

    def told(self, place: Mapping[str, Any]) -> None:
        """As GatewayClient.session has it told."""
        if self._joined_s is None:
            self._joined_s = self._clock.now()
            self._told_s, self._position = place["expected_wait_s"], place["position"]
        if place["state"] == "admitted":
            self._admitted_s = self._clock.now()

    def wait(self) -> Wait | None:
        """As it came out, or stands now; None where nobody had to wait."""
        if self._joined_s is None:
            return None
        end_s = self._clock.now() if self._admitted_s is None else self._admitted_s
        waited_s = round(end_s - self._joined_s, 3)
        return Wait(waited_s, self._told_s, self._position, self._admitted_s is not None)


def clips_of(folder: Path, language: str) -> list[Clip]:
    """The clips of a folder in one language. Raises InvalidInputError where there are none."""
    clips = [clip for clip in load_clips(folder) if clip.language == language]
    if not clips:
        raise InvalidInputError(f"language: no clip in {folder} is in {language!r}")
    return clips


class Questions(Protocol):
    """Where a visitor has his questions from."""

    def clip(self, planned: Planned) -> Clip:
        """What is spoken, or the question that is typed."""
        ...


class Deck:
    """The questions that visitors draw from: clips to be spoken, texts to be typed."""

    def __init__(self, clips: Sequence[Clip], long_texts: Sequence[str], seed: int) -> None:
        self._clips = {clip.name: clip for clip in clips}
        self._seed = seed
        self._names: dict[bool, list[str]] = {True: [], False: []}
        for clip in clips:
            self._names[clip.text in long_texts].append(clip.name)

    def clip(self, planned: Planned) -> Clip:
        """What is spoken, or the question that is typed; one of the other sort where there is
        none."""
        names = self._names[planned.long] or self._names[not planned.long]
        return self._clips[dealt(names, planned.draw, self._seed)]


class Guest:
    """Keeps one visitor's schedule in a session that `visitor` holds.

    on_exchange: told of each question once nothing more comes of it.
    """

    def __init__(
        self,
        visitor: Visitor,
        notes: Notes,
        deck: Questions,
        clock: Clock,
        on_exchange: Callable[[Exchange], None],
    ) -> None:
        self._visitor = visitor
        self._notes = notes
        self._deck = deck
        self._clock = clock
        self._on_exchange = on_exchange
        self._open: Asked | None = None
        """What was asked last, until it is settled."""
        self._talk: list[Talk] = []

    async def converse(self, plan: Sequence[Planned], start_s: float, end_s: float) -> None:
        """Ask all of `plan` and hear the last answer out; what cannot be asked by `end_s` is
        not."""
        left = list(plan)
        try:
            async with asyncio.timeout(end_s - self._clock.now()):
                while left:
                    await self._until_due(left[0], start_s + left[0].due_s)
                    await self._ask(left.pop(0), start_s)
                await self._hear_out()
        except TimeoutError:
            pass
        except VisavisError as error:
            # The connection is gone, and with it whatever was to come.
            if self._open is not None:
                self._on_exchange(lost(self._notes.visitor, self._open.planned, str(error)))
            for planned in left:
                self._on_exchange(lost(self._notes.visitor, planned, str(error)))
            return
        await self._give_up(left, start_s)

    async def _until_due(self, planned: Planned, due_s: float) -> None:
        """Returns when the question is to be asked: when it is due, or once it may be."""
        while self._open is not None and (left_s := due_s - self._clock.now()) > 0:
            if await self._visitor.until(self._open.over, left_s):
                await self._settle(self._open)
        await self._visitor.pause(due_s - self._clock.now())
        if self._open is not None:
            voice = planned.interrupts and await self._voice_begins(self._open)
            if not voice:
                await self._until_over(self._open)
        # Nobody asks a face that he sees is away.
        await self._visitor.until(lambda: not self._visitor.away, _LISTEN_S)

    async def _voice_begins(self, asked: Asked) -> bool:
        """Wait until the answer can be heard, but not for ever; whether it then can be
        interrupted."""
        left_s = asked.trace.speech_end_s + _ANSWER_TIMEOUT_S - self._clock.now()
        heard = await self._visitor.until(lambda: _audible(asked) or asked.over(), left_s)
        return heard and not asked.over()

    async def _until_over(self, asked: Asked) -> None:
        """Hear an answer out; one that does not come or does not end is given up."""
        begins = await self._voice_begins(asked)
        if begins and await self._visitor.until(asked.over, _LISTEN_S):
            return
        if not asked.over():
            asked.gave_up = True
            await self._visitor.hush()

    async def _ask(self, planned: Planned, start_s: float) -> None:
        """Ask, into the last answer where that still goes on; then settle that one."""
        last, now_s = self._open, self._clock.now()
        cuts_in = last is not None and not last.over() and not last.gave_up
        if last is not None:
            last.cut_off_s = now_s if cuts_in else None
            self._remember(last.talk(now_s))
        waited_s = silent_wait_s(start_s + planned.due_s, now_s, self._talk)
        asked = Asked(planned, "", Trace(), now_s, waited_s, cut_in=cuts_in)
        self._open = asked
        try:
            await (self._speak(asked) if planned.spoken else self._type(asked))
        finally:
            if last is not None:
                await self._settle(last)

    async def _speak(self, asked: Asked) -> None:
        clip = self._deck.clip(asked.planned)
        asked.text = clip.text
        self._notes.asked(self._clock.now(), "spoken", 0, clip.text)
        await self._visitor.say(clip)
        asked.trace = self._visitor.trace

    async def _type(self, asked: Asked) -> None:
        clip = self._deck.clip(asked.planned)
        asked.text = with_code(self._notes.visitor, asked.planned.number, clip.text)
        asked.trace = self._visitor.trace = Trace()
        asked.trace.speech_start_s = asked.trace.speech_end_s = self._clock.now()
        try:
            asked.turn = await self._visitor.ask(asked.text)
        except GatewayError as error:
            asked.refusal = str(error)
            return
        self._notes.asked(asked.trace.speech_end_s, "typed", asked.turn, asked.text)

    async def _hear_out(self) -> None:
        if self._open is not None:
            await self._until_over(self._open)
            await self._settle(self._open)

    async def _settle(self, asked: Asked) -> None:
        """Nothing more comes of a question: look up what the gateway has recorded of it."""
        now_s, turn = self._clock.now(), asked.answering()
        record = await self._visitor.record(turn) if turn else {}
        if record:
            self._notes.recorded(now_s, asked, record)
        self._remember(asked.talk(now_s))
        if asked is self._open:
            self._open = None
        self._on_exchange(settle(self._notes.visitor, asked, record, self._notes.start_s, now_s))

    async def _give_up(self, left: Sequence[Planned], start_s: float) -> None:
        """The run is over: an answer that can be heard has come, what is left was never asked."""
        now_s = self._clock.now()
        if self._open is not None:
            await self._settle(self._open)
        for planned in left:
            waited_s = silent_wait_s(start_s + planned.due_s, now_s, self._talk)
            self._on_exchange(never_asked(self._notes.visitor, planned, waited_s))

    def _remember(self, talk: Sequence[Talk]) -> None:
        self._talk = [*self._talk, *talk][-_KEPT_TALK:]


def _audible(asked: Asked) -> bool:
    """Whether something of the answer has been heard."""
    from_s = asked.heard_from_s()
    return from_s is not None and next(asked.trace.audible(from_s), None) is not None


async def watch(
    client: GatewayClient,
    notes: Notes,
    clock: Clock,
    transport: Transport,
    ready: asyncio.Event,
    avatar: str = "",
) -> None:
    """Watch a session of one's own without a word and without a microphone, until cancelled.

    `ready` is set once something has come. avatar: "" is the default one. Raises VisavisError,
    mostly in a group.
    """

    shown: Media | None = None

    async def look(media: Media) -> None:
        nonlocal shown
        shown = media
        async for found in media.arrivals():
            notes.media(found)
            ready.set()

    async def follow(session: GatewaySession) -> None:
        async for event in session.told():
            if isinstance(event, Missed):
                notes.events_missed(clock.now(), event)
                if shown is not None:
                    shown.doubt(clock.now() - event.away_s)
        raise MediaEndedError("the session has ended")

    async with client.session(avatar=avatar) as session, asyncio.TaskGroup() as tasks:
        tasks.create_task(follow(session))
        await stay(
            lambda: connect(transport, client, session.id, clock, "viewer"),
            look,
            lambda moved: notes.media_lost(moved=moved),
            client.reconnect_s,
        )
