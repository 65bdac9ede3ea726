"""What the adapter asks its session to do, in order, and what it is told of work on the side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gateway.realtime.protocol.config import SessionConfig
from gateway.realtime.protocol.reply import Event
from gateway.stages.plain_calls import Passage, Wanted
from gateway.talk.actions import Message

# ---------------------------------------------------------------- to be done


@dataclass(frozen=True, slots=True)
class Send:
    """An event for the client."""

    event: Event


@dataclass(frozen=True, slots=True)
class TellLimits:
    """A response has begun: tell the client how far its limits are used up."""


@dataclass(frozen=True, slots=True)
class Configure:
    """This is the session from now on.

    voice: of the next answer alone; None: the session's. avatar: that the client chooses; None: it
    has not said which, and what it chose before may be called otherwise by now, or be gone.
    """

    config: SessionConfig
    voice: str | None = None
    avatar: str | None = None


@dataclass(frozen=True, slots=True)
class Remember:
    """This is who the face is, and what was said."""

    persona: str
    said: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Hear:
    """The visitor's sound, [N] int16 at 16 kHz."""

    pcm: NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class ForgetSound:
    """Sound that has not been listened to yet is not to be."""


@dataclass(frozen=True, slots=True)
class EndUtterance:
    """The visitor says that he has finished."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Have the session answer this prompt aloud."""

    reply: str
    prompt: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Speak:
    """Have the session say what is being written for a reply, of which this comes next. block,
    language: as of `Written`.
    """

    reply: str
    text: str
    last: bool
    block: int = 0
    language: str = ""


@dataclass(frozen=True, slots=True)
class Write:
    """Have the language model write. then: who speaks what it has written."""

    reply: str
    wanted: Wanted
    then: Literal["nobody", "session", "voice"]
    voice: str = ""


@dataclass(frozen=True, slots=True)
class Stop:
    """Nobody wants any more what is being written or spoken for this."""

    reply: str


@dataclass(frozen=True, slots=True)
class Silence:
    """Be silent now, if this turn is still the one that is spoken: it may be over by then."""

    turn: int


@dataclass(frozen=True, slots=True)
class Recognise:
    """Find out what is said in an item's sound, [N] int16 at 16 kHz. of: what that is called."""

    of: str
    pcm: NDArray[np.int16]
    language: str


Effect: TypeAlias = (
    Send
    | TellLimits
    | Configure
    | Remember
    | Hear
    | ForgetSound
    | EndUtterance
    | Answer
    | Speak
    | Write
    | Stop
    | Silence
    | Recognise
)

# ---------------------------------------------------------------- what came of it


@dataclass(frozen=True, slots=True)
class Written:
    """A piece of what the language model writes for a reply.

    block: 0; else the block, from 1 on, of code in a language, or of a table, which is not said.
    """

    reply: str
    text: str
    block: int = 0
    language: str = ""


@dataclass(frozen=True, slots=True)
class Called:
    """The language model wants a tool. arguments: JSON, whole."""

    reply: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The language model has written all. cut: it would have written more than it may."""

    reply: str
    usage: dict[str, Any] | None
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Sounded:
    """A piece of a reply's voice, [N] int16, that no session speaks."""

    reply: str
    pcm: NDArray[np.int16]
    rate_hz: int
    last: bool


@dataclass(frozen=True, slots=True)
class Failed:
    """A reply, or the transcript of an item's sound, cannot be had."""

    of: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Recognised:
    """What is said in an item's sound."""

    of: str
    text: str
    passages: tuple[Passage, ...] = ()


Outcome: TypeAlias = Written | Called | Ended | Sounded | Failed | Recognised
