"""What the turn state machine asks its session to do, in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from gateway.api.events import ServerEvent
from gateway.tools.offers import Call

Unasked: TypeAlias = Literal["welcome", "say", "brought"]
"""Why something is said that nobody asked for; brought: it is a client's own speech."""

Reason: TypeAlias = Literal["text", "speech", "interrupt", "failed", "close"] | Unasked
Role: TypeAlias = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class Message:
    """One entry of the conversation that the language model reads.

    calls: of an assistant's, what it called; tool_call_id: of a tool's, which call has this result.
    """

    role: Role
    content: str
    calls: tuple[Call, ...] = ()
    tool_call_id: str = ""


@dataclass(frozen=True, slots=True)
class Manner:
    """How one turn alone is said; empty: as the session says."""

    style: str = ""
    language: str = ""


AS_THE_SESSION_SAYS = Manner()


@dataclass(frozen=True, slots=True)
class AnnounceTurn:
    """Make `turn` the epoch everywhere: what is older falls silent and is dropped.

    opens: an answer follows under this number; held until ConfirmTurn where `held`. foreseen: the
    visitor has not even paused.
    """

    turn: int
    reason: Reason
    opens: bool = False
    held: bool = False
    foreseen: bool = False


@dataclass(frozen=True, slots=True)
class BeginAnswer:
    """Let the language model answer. messages: oldest first, the last is the visitor's.

    run: not 0 where that was asked for before.
    """

    turn: int
    messages: tuple[Message, ...]
    run: int = 0


@dataclass(frozen=True, slots=True)
class ResumeAnswer:
    """Have the language model that there is now go on with the answer.

    messages: as in BeginAnswer, with the results of what it has called so far; so_far: what it has
    written behind these; chars, blocks: that the turn had before; last: it may call nothing more.
    """

    turn: int
    messages: tuple[Message, ...]
    run: int
    so_far: str = ""
    chars: int = 0
    blocks: int = 0
    last: bool = False


@dataclass(frozen=True, slots=True)
class ResumeVoice:
    """Have the voice that there is now go on with the turn: behind so many characters of its text,
    and so many seconds of its voice. run: which voice of the turn it is by then.
    """

    turn: int
    run: int
    chars: int
    at_s: float


@dataclass(frozen=True, slots=True)
class ResumeFace:
    """Have the face that there is now show the rest of the turn."""

    turn: int


@dataclass(frozen=True, slots=True)
class CallTool:
    """Have a tool do what the answer wants of it, and tell what it came to."""

    turn: int
    call: Call


@dataclass(frozen=True, slots=True)
class ContinueAnswer:
    """Let the language model go on with the results that the messages end with.

    last: it may call nothing more.
    """

    turn: int
    messages: tuple[Message, ...]
    last: bool


@dataclass(frozen=True, slots=True)
class SayMeanwhile:
    """A tool takes its time: say that something is being done, if there are words for it."""

    turn: int


@dataclass(frozen=True, slots=True)
class ReadAhead:
    """Let the language model read what the visitor has said so far, to be quicker later."""

    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class ConfirmTurn:
    """The visitor has finished: the turn may be heard."""

    turn: int
    lead_s: float | None = None
    """How long before that it was begun, where the visitor had not paused then."""


@dataclass(frozen=True, slots=True)
class DuckTurn:
    """Somebody may be speaking: the turn's voice goes on, quieter, until that is known."""

    turn: int


@dataclass(frozen=True, slots=True)
class PauseTurn:
    """Somebody speaks: the turn falls silent and keeps what it has.

    rests: nobody does; it has nothing more to say until a tool is done.
    """

    turn: int
    rests: bool = False


@dataclass(frozen=True, slots=True)
class ResumeTurn:
    """It was no interruption: the turn goes on, after a pause from `at_s` of its voice."""

    turn: int
    at_s: float
    rested: bool = False
    """As in PauseTurn."""


@dataclass(frozen=True, slots=True)
class CloseTurn:
    """The turn is over; nothing more will be counted for it."""

    turn: int
    outcome: Literal["finished", "interrupted", "failed", "replaced", "discarded"]
    voice_s: float = 0.0
    """Of a discarded or replaced one: the voice that was made for nothing."""
    tokens: int = 0
    """Of such a one: text that was, as far as the stage has told."""


@dataclass(frozen=True, slots=True)
class Emit:
    """Tell everybody who listens to the session's events."""

    event: ServerEvent


Action: TypeAlias = (
    AnnounceTurn
    | BeginAnswer
    | ResumeAnswer
    | ResumeVoice
    | ResumeFace
    | CallTool
    | ContinueAnswer
    | SayMeanwhile
    | ReadAhead
    | ConfirmTurn
    | DuckTurn
    | PauseTurn
    | ResumeTurn
    | CloseTurn
    | Emit
)
