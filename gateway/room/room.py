"""A live room of one session: comments come in, the session's avatar answers, all are told.

The edge between the host, which decides, and the session, which speaks. What the room says are
turns like any other: whoever else talks with the avatar interrupts it, and it waits while they do.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import assert_never

from gateway import metrics
from gateway.api.events import AnswerEvent, SayEvent, ShownEvent, TurnEvent
from gateway.api.hub import Outbox
from gateway.background import Background
from gateway.room import schemas
from gateway.room.choosing.comments import Comment, Kind, Outcome
from gateway.room.choosing.gifts import ThankRules
from gateway.room.choosing.host import Begin, Host, Hush, Order, Situation, Speech
from gateway.room.choosing.phrases import Line, Script, phrases_of
from gateway.room.choosing.safety import WordList, shipped_words
from gateway.room.choosing.selection import Rules
from gateway.room.platforms.connection import Connection
from gateway.session.session import Session
from gateway.talk.actions import AS_THE_SESSION_SAYS, Message
from visavis.serving.errors import (
    AtCapacityError,
    InvalidInputError,
    UnknownNameError,
    VisavisError,
)
from visavis.serving.lifetime.supervision import Keeper
from visavis.wire.clock import MonotonicClock

log = logging.getLogger(__name__)

LOOK_S = 0.1
COMMENTS_PER_S = 200.0
"""That a room takes; far more than one can be answered of."""
_BURST = 600
# Of a platform, while the room may be going to another gateway: what is older is lost.
_MOST_LATE = 1000
# So long a room that is about to leave waits for what it has answered last to be posted.
_POST_S = 2.0
_MOST_LISTENERS = 16
_OUTBOX = 200


class RoomOutbox(Outbox[schemas.RoomEvent]):
    """One program's events of a room."""

    def __init__(self) -> None:
        super().__init__(_OUTBOX)


class Allowance:
    """So many a second, and for a moment more: a bucket of tokens that fills by itself.

    Pure: the time is an argument.
    """

    def __init__(self, per_s: float, burst: int, now: float) -> None:
        self._per_s = per_s
        self._burst = burst
        self._left = float(burst)
        self._at_s = now

    def take(self, wanted: int, now: float) -> float:
        """0: they may come, and are counted; else after how many seconds they might."""
        self._left = min(self._burst, self._left + (now - self._at_s) * self._per_s)
        self._at_s = now
        if wanted <= self._left:
            self._left -= wanted
            return 0.0
        return (min(wanted, self._burst) - self._left) / self._per_s


class Room:
    """Takes what viewers write and has its session's avatar answer it. Start it, use it, close it.

    words: blocked by the operator of the gateway, whatever the room says. ended: called once the
    session is over.
    """

    def __init__(
        self,
        session: Session,
        wanted: schemas.RoomRequest,
        words: Sequence[str],
        ended: Callable[[], None],
    ) -> None:
        """Raises InvalidInputError."""
        self.session = session
        self.wanted = wanted
        self._ended = ended
        self._clock = MonotonicClock()
        self._always_blocked = (*words, *(shipped_words() if wanted.shipped_words else ()))
        self.blocked_words = list(wanted.blocked_words)
        now = self._clock.now()
        self.host = Host(
            _rules_of(wanted),
            WordList((*self._always_blocked, *wanted.blocked_words)),
            phrases_of(session.options.language),
            _script_of(wanted),
            now,
            thanks=ThankRules(every_s=wanted.thanks_every_s),
        )
        self.host.paused = wanted.paused
        self._allowance = Allowance(COMMENTS_PER_S, _BURST, now)
        self._listeners: set[RoomOutbox] = set()
        self._sayings: dict[int, Speech] = {}
        self._background = Background()
        self._posts: set[asyncio.Task[None]] = set()
        self._post_by_s = now
        self.leaving = False
        """Whether it is about to go to another gateway: it begins nothing while it `is_posting`."""
        self._told_waiting = 0
        self._counted: dict[Outcome, int] = {}
        self.connections: list[Connection] = []
        self.late: deque[Comment] = deque(maxlen=_MOST_LATE)
        """What platforms have brought since the room may be going to another gateway."""
        self._keepers = [
            Keeper("room-look", self._look),
            Keeper("room-listen", self._listen),
        ]

    def start(self, connections: Sequence[Connection] = ()) -> None:
        """Begin to answer. connections: where comments come from, beside the doors."""
        self.connections = list(connections)
        self._keepers += [Keeper("room-platform", c.run) for c in self.connections]
        for keeper in self._keepers:
            keeper.start()

    async def close(self) -> None:
        """Nothing is answered any more; what is being said is said to its end. What waits ends so,
        too, unless it goes to another gateway with the session.
        """
        for keeper in self._keepers:
            await keeper.stop()
        await self._background.cancel_all()
        if not self.session.moved:
            speech = self.host.close(self._clock.now())
            if speech is not None:
                self._tell(speech)
            self._count()
        for listener in list(self._listeners):
            self.leave(listener)
        metrics.room_waiting.dec(self._told_waiting)
        self._told_waiting = 0

    @property
    def now(self) -> float:
        """On the room's clock."""
        return self._clock.now()

    # ------------------------------------------------------------ what comes

    def allow(self, comments: int) -> float:
        """0: so many may come now; else after how many seconds they might."""
        return self._allowance.take(comments, self._clock.now())

    def take_all(self, comments: Sequence[schemas.CommentIn]) -> schemas.TakenList:
        """What became at once of what viewers sent."""
        now, unix_s = self._clock.now(), time.time()
        named = [_named(sent.comment(now, unix_s)) for sent in comments]
        return schemas.TakenList(
            taken=[schemas.Taken(id=comment.id, outcome=self.take(comment)) for comment in named]
        )

    def take(self, comment: Comment) -> Outcome | None:
        """What became of it at once; None: it waits."""
        now = self._clock.now()
        if comment.kind is Kind.REMOVED:
            self._obey_later(self.host.remove(comment, now))
        outcome = self.host.take(comment, now)
        self._count()
        return outcome

    def hear(self, comment: Comment) -> None:
        """What a platform brings; `take` it once it is known that the room stays here."""
        comment = _named(comment)
        if self.session.presence.departure is None and not self.late:
            self.take(comment)
        else:
            self.late.append(comment)

    def _take_late(self) -> None:
        if self.late and self.session.presence.departure is None:
            late = list(self.late)
            self.late.clear()
            for comment in late:
                self.take(comment)

    # ------------------------------------------------------------ what an operator does

    async def command(self, command: schemas.RoomCommand) -> None:
        """Raises InvalidInputError, UnknownNameError, AtCapacityError."""
        now = self._clock.now()
        match command:
            case schemas.PauseCommand():
                self.host.paused = True
            case schemas.ResumeCommand():
                self.host.paused = False
            case schemas.SkipCommand():
                self._skip(command, now)
            case schemas.SayCommand():
                self._say(command.text)
            case schemas.BanCommand():
                self._obey_later(self.host.ban(command.author, command.name, now))
            case schemas.UnbanCommand():
                if not self.host.selection.unban(command.author):
                    raise UnknownNameError(f"author: {command.author[:80]!r} is not banned")
            case schemas.BlockCommand():
                await self._block(command.words)
            case _:
                assert_never(command)
        self._count()

    def _skip(self, command: schemas.SkipCommand, now: float) -> None:
        if not command.id:
            self._obey_later(self.host.skip())
        elif not self.host.skip_waiting(command.platform, command.id, now):
            raise UnknownNameError(f"id: no comment {command.id[:80]!r} waits (any more)")

    def _say(self, text: str) -> None:
        if found := self.host.selection.words.find(text):
            raise InvalidInputError(f"text: it holds {found!r}, which is blocked in this room")
        if not self.host.say(text):
            raise AtCapacityError("text: too much waits to be said; wait until some of it was")

    async def _block(self, words: list[str]) -> None:
        # Thousands of words take a second, in which the gateway's sessions go on.
        found = await asyncio.to_thread(WordList, (*self._always_blocked, *words))
        self.blocked_words = list(words)
        self._obey_later(self.host.block(found, self._clock.now()))

    # ------------------------------------------------------------ who listens

    def join(self) -> RoomOutbox:
        """What is answered from now on. Raises AtCapacityError."""
        if len(self._listeners) >= _MOST_LISTENERS:
            raise AtCapacityError(f"room: {_MOST_LISTENERS} listen already, the most allowed")
        listener = RoomOutbox()
        self._listeners.add(listener)
        return listener

    def leave(self, listener: RoomOutbox) -> None:
        listener.end()
        self._listeners.discard(listener)

    # ------------------------------------------------------------ the session

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            self._take_late()
            self.host.phrases = phrases_of(self.session.options.language)
            await self._obey(self.host.look(self._clock.now(), self._situation()))
            self._count()

    def _situation(self) -> Situation:
        turn = self.session.turn
        if turn is None:
            held = self.leaving and self.is_posting
            return Situation(idle=self.session.state == "idle" and not held)
        left_s = turn.voice_s - turn.played_s if turn.voice_complete else None
        return Situation(idle=False, turn=turn.number, left_s=left_s)

    def _obey_later(self, order: Order | None) -> None:
        if order is not None:
            self._background.run(self._obey(order))

    async def _obey(self, order: Order | None) -> None:
        match order:
            case Begin(speech):
                await self._begin(speech)
            case Hush():
                current, turn = self.host.current, self.session.turn
                if current is not None and turn is not None and turn.number == current.turn:
                    self.session.interrupt()

    async def _begin(self, speech: Speech) -> None:
        try:
            await self.session.wake()
            if self.session.turn is None and speech.stopped_for is None:
                self._order(speech)
            else:  # somebody was quicker, or it is not wanted any more
                self.host.failed(speech, self._clock.now())
        except VisavisError as error:
            log.warning("room of %s: %s", self.session.id, error)
            self.host.failed(speech, self._clock.now())

    def _order(self, speech: Speech) -> None:
        """Raises what the session raises where it cannot do it."""
        if speech.asked:
            self.session.rewrite(last_exchanges(self.session.said, self.wanted.memory))
            # Who asks stands in none of the operator's texts, and would weigh as much as the rest.
            asks = "" if speech.entry is None else speech.entry.text
            turn = self.session.submit_text(speech.text, self.wanted.style, asks=asks)
            self.host.opened(speech, turn)
        else:
            saying = self.session.say(speech.text, AS_THE_SESSION_SAYS)
            self._sayings[saying.number] = speech  # which turn it is comes as an event

    async def _listen(self) -> None:
        """What the session tells, until it is over."""
        listener = self.session.listen()
        try:
            async for event in listener:
                if isinstance(event, AnswerEvent):
                    await self._obey(self.host.said(event.turn, event.text, last=event.final))
                elif isinstance(event, ShownEvent):
                    await self._obey(self.host.said(event.turn, event.text, last=False))
                elif isinstance(event, TurnEvent):
                    self._turn_told(event)
                elif isinstance(event, SayEvent):
                    self._saying_told(event)
        finally:
            self.session.unlisten(listener)
        self._ended()
        await asyncio.Event().wait()

    def _saying_told(self, event: SayEvent) -> None:
        if event.event == "waiting":
            return
        speech = self._sayings.pop(event.say, None)
        if speech is not None and event.turn is not None:
            self._obey_later(self.host.opened(speech, event.turn))
        elif speech is not None:
            self.host.failed(speech, self._clock.now())

    def _turn_told(self, event: TurnEvent) -> None:
        now = self._clock.now()
        if event.event == "speaking":
            self.host.began(event.turn, now)
        elif event.event != "opened":
            speech = self.host.ended(event.turn, event.event, now)
            if speech is not None:
                self._tell(speech)
                self._post_answer(speech)

    def _tell(self, speech: Speech) -> None:
        """Everybody who listens what became of a comment that was chosen."""
        if speech.entry is None:
            return
        if speech.age_s is not None:
            metrics.room_answer_age_seconds.observe(speech.age_s)
        comment = speech.entry.comment
        event = schemas.AnsweredEvent(
            platform=comment.platform,
            id=comment.id,
            author=comment.author.name,
            question=speech.entry.text,
            answer=speech.answer.strip(),
            outcome=speech.outcome or Outcome.FAILED,
            turn=speech.turn,
            age_s=None if speech.age_s is None else round(speech.age_s, 3),
        )
        for listener in self._listeners:
            listener.tell(event)

    def _post_answer(self, speech: Speech) -> None:
        """Where the comment came from, if that is wanted."""
        answer = speech.answer.strip() if speech.outcome is Outcome.ANSWERED else ""
        if speech.entry is None or not answer or not self.wanted.post_answers:
            return
        comment = speech.entry.comment
        for connection in self.connections:
            if connection.platform == comment.platform and connection.posts:
                post = self._background.run(self._post(connection, comment, answer))
                self._posts.add(post)
                self._post_by_s = self._clock.now() + _POST_S
                post.add_done_callback(self._posts.discard)

    async def _post(self, connection: Connection, comment: Comment, answer: str) -> None:
        with contextlib.suppress(VisavisError):  # how a connection stands is seen in the state
            if posted := await connection.post(comment, answer):
                self.host.selection.posted(connection.platform, posted)

    @property
    def is_posting(self) -> bool:
        """Whether what was answered is being posted, unless that takes long: what the room has
        written itself belongs to what another gateway has to know.
        """
        return bool(self._posts) and self._clock.now() < self._post_by_s

    # ------------------------------------------------------------ figures

    def counted_elsewhere(self, outcomes: Mapping[Outcome, int]) -> None:
        """The metrics of the gateway that had the room before have these."""
        self._counted.update(outcomes)

    def _count(self) -> None:
        """Bring the metrics up to what the host has counted."""
        waiting = self.host.selection.places_taken
        metrics.room_waiting.inc(waiting - self._told_waiting)
        self._told_waiting = waiting
        for outcome, count in self.host.selection.outcomes.items():
            if more := count - self._counted.get(outcome, 0):
                metrics.room_comments.labels(outcome.value).inc(more)
                self._counted[outcome] = count


def _named(comment: Comment) -> Comment:
    """With an id, by which an operator can speak of it: where it has none, one of ours."""
    return comment if comment.id else replace(comment, id=f"room-{secrets.token_hex(6)}")


def last_exchanges(said: Sequence[Message], count: int) -> list[Message]:
    """The last questions with their answers; what was said unasked, such as thanks, is left out.

    A small language model takes whatever it has said before for what it is to say.
    """
    kept: list[Message] = []
    for before, after in pairwise(said):
        if before.role == "user" and after.role == "assistant":
            kept += (before, after)
    return kept[len(kept) - 2 * count :] if count else []


def _rules_of(wanted: schemas.RoomRequest) -> Rules:
    logins = [wanted.twitch.login] if wanted.twitch is not None else []
    return Rules(
        answer_within_s=wanted.answer_within_s,
        places=wanted.places,
        per_author=wanted.per_author,
        longest_characters=wanted.longest_characters,
        addressed_as=tuple(wanted.addressed_as),
        bots=tuple(name for name in (*wanted.bots, *logins) if name),
    )


def _script_of(wanted: schemas.RoomRequest) -> Script:
    lines = []
    for line in wanted.script:
        if line.say is not None:
            lines.append(Line(line.say))
        if line.ask is not None:
            lines.append(Line(line.ask, asked=True))
    return Script(lines, wanted.idle_after_s)
