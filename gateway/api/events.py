"""Every message of the events WebSocket, `/v1/sessions/{id}/events`.

Each is one JSON object with a `type`. A bad message is answered with an `error` event that says
what is wrong, and the socket lives. Only a message of more than MAX_SOCKET_MESSAGE_BYTES closes it,
with 1009: nobody reads so much to the end only to say that it is too much. The same holds for the
media WebSocket.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, StrictBool, TypeAdapter, ValidationError

from gateway.api.choices import (
    MAX_TEXT_CHARACTERS,
    AnyLanguage,
    Change,
    DrawnBy,
    SpokenBy,
    StyleName,
    TypedText,
)
from visavis.serving.errors import InvalidInputError
from visavis.synthetic import SOURCE_TYPE, SourceType

MAX_MESSAGE_CHARACTERS = 64_000
MAX_SOCKET_MESSAGE_BYTES = 256 * 1024
MOST_FAULTS = 20
"""Of one message that are told: there may be as many as it has keys."""


class Event(BaseModel):
    """Base of all messages: unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


# ---------------------------------------------------------------- server -> client


class SessionEvent(Event):
    """The session as it is now: first after connecting, and after each change."""

    type: Literal["session"] = "session"
    id: str = Field(description="Of the session, as in its paths")
    language: str = Field(description="BCP 47, for example en or zh")
    voice: str = Field(description="Empty: the best voice of the language")
    avatar: str = Field(description="Empty: the default avatar")
    speed: float = Field(default=1.0, description="Of the voice; 1 is normal")
    style: str = Field(default="", description="How answers are said, for example happy")
    drawn_by: DrawnBy = Field(
        default="server", description="client: there are poses on `…/face`, and no pictures"
    )
    spoken_by: SpokenBy = Field(
        default="server", description="client: it brings the speech, and there is a face alone"
    )
    digital_source_type: SourceType = Field(
        default=SOURCE_TYPE, description="Of sound and pictures, as IPTC calls what is synthetic"
    )


class PlaceEvent(Event):
    """How a place in line stands: on the socket of the place alone, see PlaceInfo."""

    type: Literal["place"] = "place"
    id: str = Field(description="Of the session that will be")
    state: Literal["waiting", "admitted", "refused", "left"] = Field(
        description="admitted: the session is there"
    )
    position: int = Field(description="1: next; 0: it waits no more")
    expected_wait_s: float | None = Field(description="Absent: that cannot be told")
    message: str = Field(default="", description="Why it was refused")
    again: bool = Field(default=False, description="Its gateway ends; ask for another place")


class StateEvent(Event):
    """What the face is doing."""

    type: Literal["state"] = "state"
    state: Literal["idle", "listening", "thinking", "speaking"] = Field(
        description="listening: the visitor speaks; thinking: an answer is on its way"
    )


class TranscriptEvent(Event):
    """What the visitor says or typed; replaces the earlier text of the same utterance.

    A text that was final is replaced, too, where the visitor went on before a word of the answer
    was heard: after `turn` replaced come both parts as one, under the utterance of the first.
    """

    type: Literal["transcript"] = "transcript"
    utterance: int = Field(description="Of what was spoken, counting upwards; 0: typed")
    text: str = Field(
        description="All of it so far; empty and final: it was no speech, or its end is lost"
    )
    final: bool = Field(description="Nothing of it changes any more")
    turn: int | None = Field(default=None, description="The turn that answers it; set where final")


class AnswerEvent(Event):
    """A piece of the answer's text, to be appended; the last one has `final` and may be empty."""

    type: Literal["answer"] = "answer"
    turn: int = Field(description="Its number: they count upwards, with gaps")
    text: str = Field(description="What follows on what came before: a delta, not the whole")
    final: bool = Field(default=False, description="Nothing more of it follows")


class ShownEvent(Event):
    """A piece of a block of code, or of a table: the answer shows it and does not say it.

    To be appended to those of its block before.
    """

    type: Literal["answer.shown"] = "answer.shown"
    turn: int = Field(description="The turn whose answer it belongs to")
    block: int = Field(description="Which of the answer's blocks, from 1")
    language: str = Field(
        description="Of the code, as the model calls it; of a table `markdown`; empty: not known"
    )
    text: str = Field(description="What follows on what came of the block before")
    chars: int = Field(description="Where the block stands in the answer's text, in code points")

    @property
    def as_markdown(self) -> str:
        """The block, as it is written."""
        if self.language == "markdown":
            return f"\n\n{self.text.strip()}\n\n"
        return f"\n```{self.language}\n{self.text.rstrip()}\n```\n"

    @property
    def as_begun(self) -> str:
        """The same while it goes on."""
        opened = "\n" if self.language == "markdown" else f"```{self.language}\n"
        return f"\n{opened}{self.text}"


def add_shown(blocks: list[ShownEvent], piece: ShownEvent) -> None:
    """Appends a piece to its block, the last of `blocks`, or begins that."""
    if not blocks or blocks[-1].block != piece.block:
        blocks.append(piece)
        return
    before = blocks[-1]
    blocks[-1] = before.model_copy(update={"text": before.text + piece.text})


class WordTime(Event):
    """A word of an answer, or several where the voice does not tell them apart, and its times.

    Times count from the first sample of the answer's voice. A word begins where the one before it
    ends: a pause between the two belongs to the later one.
    """

    text: str = Field(description="The word as it is written, with the marks that touch it")
    chars: int = Field(description="Where it ends in the answer's text, in Unicode code points")
    start_ms: int = Field(description="Where it begins in the voice")
    end_ms: int = Field(description="Where it ends in the voice")


class WordsEvent(Event):
    """Words of the answer whose times are known: they come with the voice, before it is heard."""

    type: Literal["words"] = "words"
    turn: int = Field(description="The turn whose answer they are of")
    words: list[WordTime] = Field(description="To be appended to those of before")


class SayEvent(Event):
    """What becomes of a text that is to be said as it stands: it waits, then its turn opens."""

    type: Literal["say"] = "say"
    say: int = Field(description="As the answer to `POST …/say` names it")
    event: Literal["waiting", "opened", "dropped"] = Field(
        description="dropped: it will not be said"
    )
    text: str = Field(description="The whole text, as it was given")
    turn: int | None = Field(default=None, description="The turn in which it is said; with opened")
    reason: str | None = Field(default=None, description="Why it will not be said; with dropped")


class TextSource(Event):
    """A part of a text of the operator's."""

    file: str = Field(description="Its name within the folder")
    heading: str = Field(default="", description="Under which the part stands; empty: none")


class SourcesEvent(Event):
    """The answer's model was given these parts of the operator's texts, beside the question.

    Not sent where none fits.
    """

    type: Literal["answer.sources"] = "answer.sources"
    turn: int = Field(description="The turn whose answer they are for")
    sources: list[TextSource] = Field(description="The best first")


class ToolCallEvent(Event):
    """The answer wants one of the session's tools: do it, and send `tool_result`.

    The answer goes on once all of its calls have a result. One that comes too late is told as an
    error, `not_found`, and changes nothing: the visitor has interrupted, or the time was over.
    """

    type: Literal["answer.tool_call"] = "answer.tool_call"
    turn: int = Field(description="The turn whose answer calls it")
    call_id: str = Field(description="What `tool_result` is to name")
    name: str = Field(description="Of the tool, as the session's option `tools` has it")
    arguments: str = Field(description="JSON of an object")


class TurnEvent(Event):
    """A turn's life: opened, speaking, then one of finished, interrupted, failed, replaced.

    replaced: the visitor goes on with the question, and no word of this answer was heard. What was
    shown of the answer is to be forgotten; a later turn answers all of the question, whose text
    replaces that of this turn's utterance. Or its gateway has died: a later turn has what there is
    of the answer and goes on with it, under the question as it stands.

    interrupted: where what was taken for words turns out to be a noise, a later turn answers the
    same utterance anew.
    """

    type: Literal["turn"] = "turn"
    turn: int = Field(description="Its number: they count upwards, with gaps")
    event: Literal["opened", "speaking", "finished", "interrupted", "failed", "replaced"] = Field(
        description="speaking: its first sample leaves; finished: its last one has left"
    )
    reason: str | None = Field(
        default=None,
        description="What interrupted it (text, speech, interrupt, say …), or why it failed",
    )
    heard: str | None = Field(default=None, description="What was audible of it, where interrupted")
    played_ms: int | None = Field(
        default=None, description="How much of its voice was heard, once it is over"
    )
    media_ms: float | None = Field(
        default=None,
        description="With speaking: media time of its first sample, as the mp4 and the poses count "
        "it. Word times count from there; where the answer stands still they are later by as much",
    )


class StageTime(Event):
    """One stage's share of a turn, relative to the end of the visitor's speech or text."""

    name: str = Field(description="asr, tools, llm, tts, face or playout")
    start_ms: float = Field(description="When its work began")
    end_ms: float = Field(description="When its first chunk was there")


Origin: TypeAlias = Literal["speech", "text", "welcome", "say", "brought"]
SpanStage: TypeAlias = Literal["asr", "llm", "tools", "tts", "face", "encoder", "playout"]
SpanKind: TypeAlias = Literal["transfer", "wait", "queue", "compute"]
ChunkOrder: TypeAlias = Literal["first", "last"]


class Span(Event):
    """What a stage did with its first or last chunk of a turn, and when.

    transfer: the chunk travels to the stage; wait: for what is not made yet, or for the
    visitor; queue: all is there, the engine is busy; compute: the engine works.
    """

    stage: SpanStage = Field(description="Whose time it is")
    kind: SpanKind = Field(description="What the stage did")
    chunk: ChunkOrder = Field(description="Of the turn, with which it did that")
    start_ms: float = Field(description="As all times of the event")
    end_ms: float = Field(description="As all times of the event")


class LatencyEvent(Event):
    """Where the time of a turn went; sent when its sound starts and again when it is over.

    All times in milliseconds from the end of the visitor's speech or the text's arrival; what
    was prepared while the visitor might still have gone on begins before zero.
    """

    type: Literal["latency"] = "latency"
    turn: int = Field(description="The turn that was timed")
    stages: list[StageTime] = Field(description="In the order of their work")
    origin: Origin = Field(
        default="text", description="What began it; else than speech and text: nobody asked"
    )
    spans: list[Span] = Field(default_factory=list, description="In the order of the stages")
    first_frame_ms: float | None = Field(
        default=None, description="To the first lip-synced picture that leaves"
    )
    overhead_ms: float | None = Field(
        default=None,
        description="voice_to_voice without the wait for the end of speech and without the "
        "models' work that nothing else could be done beside",
    )
    underruns: int = Field(default=0, description="Gaps in the voice so far")
    clock_error_ms: float = Field(
        default=0.0,
        description="How far spans of stages on other machines may be misplaced; 0: all on one",
    )
    voice_to_voice_ms: float | None = Field(
        default=None,
        description="End of the visitor's speech or text to the first sample that leaves",
    )


class ErrorEvent(Event):
    """Something went wrong; the session lives on unless `code` is `session_closed`.

    To one client alone, where what it sent is refused: `invalid_input`, `not_found`, `forbidden`,
    `out_of_order`, `microphone_taken`, `too_many_waiting`, and `at_capacity`, `stage_lost` or
    `unavailable` where the session has to take its slots again. To all: `stage_away` (a replica is
    away, and waited for), `at_capacity`, `stage_lost`, `timeout`, `recording_failed`; and where a
    stage fails at a turn, what gRPC calls that in small letters: `internal`, `unavailable`,
    `not_found`, `invalid_argument`, `resource_exhausted`, `deadline_exceeded` …
    """

    type: Literal["error"] = "error"
    code: str = Field(description="For programs; others may come")
    message: str = Field(description="For people, in English")


class WarningEvent(Event):
    """Something that was asked for cannot be done; the turn, or the session, goes on without it."""

    type: Literal["warning"] = "warning"
    turn: int = Field(description="The turn that it is about, or the newest one")
    code: str = Field(
        description="unsupported: the voice cannot do all of a style; avatar_deleted: the face "
        "that was worn is there no more; empty_answer: the language model has said nothing"
    )
    message: str = Field(description="For people, in English")


class BroadcastEvent(Event):
    """A broadcast of the session stands otherwise than before; GET …/broadcasts has all of it."""

    type: Literal["broadcast"] = "broadcast"
    id: str = Field(description="Of the broadcast, as in its path")
    state: Literal["connecting", "live", "waiting", "stopped", "failed"] = Field(
        description="waiting: it is tried again"
    )
    message: str = Field(default="", description="Why it is not live")


class PongEvent(Event):
    """Answer to a ping."""

    type: Literal["pong"] = "pong"


ServerEvent: TypeAlias = (
    SessionEvent
    | StateEvent
    | TranscriptEvent
    | AnswerEvent
    | ShownEvent
    | SourcesEvent
    | ToolCallEvent
    | WordsEvent
    | SayEvent
    | TurnEvent
    | LatencyEvent
    | ErrorEvent
    | WarningEvent
    | BroadcastEvent
    | PongEvent
    | PlaceEvent
)


# ---------------------------------------------------------------- client -> server


class TextCommand(Event):
    """The visitor typed this; it interrupts what is being said."""

    type: Literal["text"]
    text: TypedText = Field(description="Up to 8000 characters")
    style: StyleName = Field(default="", description="Of this answer alone; empty: the session's")


class TypingCommand(Event):
    """What the visitor has typed so far, and not sent yet: the language model reads it now.

    It shows nothing, and nothing is kept of it: the answer to `text` comes sooner. Where it ends as
    a sentence does, an answer is prepared; it is heard if `text` is the same. A few times a second
    are enough, and at once behind such an end.
    """

    type: Literal["typing"]
    text: str = Field(
        max_length=MAX_TEXT_CHARACTERS, description="All of it; empty: nothing any more"
    )


class SayCommand(Event):
    """Have this said as it stands, as `POST …/say` does; `say` events tell what becomes of it."""

    type: Literal["say"]
    text: TypedText = Field(description="Up to 8000 characters")
    style: StyleName = Field(default="", description="Of this text alone; empty: the session's")
    language: AnyLanguage = Field(
        default="", description="Of this text alone, where its script does not tell (BCP 47)"
    )
    interrupt: StrictBool = Field(
        default=False, description="Now, in place of what is being said and of all that waits"
    )


class InterruptCommand(Event):
    """Be silent now."""

    type: Literal["interrupt"]


class ToolResultCommand(Event):
    """What a call of `answer.tool_call` came to, as the language model is to read it."""

    type: Literal["tool_result"]
    call_id: str = Field(max_length=200, description="As `answer.tool_call` named the call")
    output: str = Field(description="Text, mostly JSON; what is too long is cut")


class UpdateCommand(Event, Change):
    """Change the session from the next turn on; what is left out stays."""

    type: Literal["update"]


class PingCommand(Event):
    """Keeps a session without media alive; answered by `pong`."""

    type: Literal["ping"]


Command: TypeAlias = (
    TextCommand
    | TypingCommand
    | SayCommand
    | InterruptCommand
    | ToolResultCommand
    | UpdateCommand
    | PingCommand
)

_COMMAND: TypeAdapter[Command] = TypeAdapter(Annotated[Command, Field(discriminator="type")])


def parse_command(text: str) -> Command:
    """One client message. Raises InvalidInputError that says what is wrong with it."""
    if len(text) > MAX_MESSAGE_CHARACTERS:
        raise InvalidInputError(
            f"message: {len(text)} characters, at most {MAX_MESSAGE_CHARACTERS} are allowed"
        )
    try:
        return _COMMAND.validate_json(text)
    except ValidationError as error:
        raise InvalidInputError(explain(error)) from None


def explain(error: ValidationError) -> str:
    """One line about what is wrong, without the input itself."""
    told = error.errors(include_url=False, include_input=False, include_context=False)
    parts = []
    for problem in told[:MOST_FAULTS]:
        where = ".".join(str(p)[:80] for p in problem["loc"]) or "message"
        parts.append(f"{where}: {why_of(problem)}")
    return "; ".join(parts)


def why_of(fault: Mapping[str, Any]) -> str:
    """What one fault that pydantic found is, without its words before ours."""
    return str(fault["msg"]).removeprefix("Value error, ")
