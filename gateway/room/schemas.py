"""What the doors of a live room take and tell, as JSON."""

from __future__ import annotations

from typing import Annotated, Literal, Self, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    PlainSerializer,
    SecretStr,
    SerializationInfo,
    StrictBool,
    StrictFloat,
    StrictInt,
    StringConstraints,
    Tag,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from gateway.api.choices import StyleName, TypedText
from gateway.api.events import MAX_MESSAGE_CHARACTERS, explain
from gateway.api.schemas import Told
from gateway.room.choosing.comments import (
    LONGEST_CURRENCY,
    LONGEST_NAME,
    LONGEST_PATIENCE_S,
    LONGEST_TEXT,
    MOST_GIFTS,
    MOST_PAID,
    Author,
    Comment,
    Kind,
    Outcome,
)
from gateway.room.choosing.host import SpeechPhase, Why
from gateway.room.choosing.safety import LONGEST_WORD
from visavis.serving.errors import InvalidInputError

MOST_AT_ONCE = 100
"""Comments in one request or message."""

Short: TypeAlias = Annotated[str, Field(max_length=LONGEST_NAME)]
Viewer: TypeAlias = Annotated[
    str,
    Field(
        max_length=LONGEST_NAME + 33,  # a platform's name and a colon before it
        pattern=r"^[a-z0-9_-]{1,32}:",
        description="platform:id, as the room's state tells it",
    ),
]
Word: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_WORD)]
Platform: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_-]{1,32}$")]
WITH_SECRETS = "with secrets"
"""Context of a `model_dump` that another gateway is to read; all others tell no secret."""


def _shown(secret: SecretStr, about: SerializationInfo) -> str:
    return secret.get_secret_value() if about.context == WITH_SECRETS else str(secret)


def _sendable(secret: SecretStr) -> SecretStr:
    shown = secret.get_secret_value()
    if not (shown.isascii() and shown.isprintable()):
        raise ValueError("only printable ASCII characters, as every platform gives them")
    return secret


Secret: TypeAlias = Annotated[
    SecretStr,
    Field(max_length=4000),
    AfterValidator(_sendable),
    PlainSerializer(_shown, when_used="json"),
]


class Strict(BaseModel):
    """Base of what is taken: unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


# ---------------------------------------------------------------- what comes in


class AuthorIn(Strict):
    """Who sends it."""

    name: Short
    id: Short = Field(default="", description="Of the platform; empty: the name")
    moderator: StrictBool = False
    member: StrictBool = False
    first_time: StrictBool = False


class CommentIn(Strict):
    """What one viewer sends."""

    author: AuthorIn
    text: str = Field(default="", max_length=LONGEST_TEXT)
    id: Short = Field(
        default="",
        description="Of the platform: what comes twice counts once; empty: one is made up",
    )
    platform: Platform = "app"
    kind: Kind = Kind.COMMENT
    at: StrictFloat | None = Field(default=None, description="Seconds since 1970; left out: now")
    amount: StrictFloat = Field(default=0.0, ge=0, le=MOST_PAID, description="What it has cost")
    currency: str = Field(
        default="", max_length=LONGEST_CURRENCY, description="Of the amount, such as USD"
    )
    gift: Short = ""
    count: StrictInt = Field(default=1, ge=1, le=MOST_GIFTS)
    target: Short = Field(
        default="",
        description="removed: the comment's id, or * for all of the platform; empty: all by author",
    )

    def comment(self, now_s: float, unix_s: float) -> Comment:
        """now_s: on the room's clock; unix_s: the same moment as `at` counts."""
        age_s = 0.0 if self.at is None else min(LONGEST_PATIENCE_S, max(0.0, unix_s - self.at))
        who = self.author
        return Comment(
            self.id,
            self.platform,
            Author(who.id or who.name, who.name, who.moderator, who.member, who.first_time),
            self.text,
            now_s - age_s,
            self.kind,
            self.amount,
            self.currency,
            self.gift,
            self.count,
            self.target,
        )


class CommentsIn(Strict):
    """Comments in the order in which they were sent."""

    comments: Annotated[list[CommentIn], Field(min_length=1, max_length=MOST_AT_ONCE)]


def _one_or_more(body: object) -> str:
    return "comments" if isinstance(body, dict) and "comments" in body else "comment"


Sent: TypeAlias = Annotated[
    Annotated[CommentsIn, Tag("comments")] | Annotated[CommentIn, Tag("comment")],
    Discriminator(_one_or_more),
]
"""One comment or several: of what is wrong, what was meant alone is told."""


class ScriptLine(Strict):
    """A line for when nothing comes: spoken as it stands, or put to the avatar as a question."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.say is None and self.ask is None:
            raise ValueError("say, or ask, is wanted")
        return self

    say: TypedText | None = None
    ask: TypedText | None = None


class TwitchIn(Strict):
    """A channel of Twitch. Without login and token it is read, and nothing is posted."""

    channel: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_]{1,25}$")]
    login: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_]{0,25}$")] = ""
    token: Secret = Field(default=SecretStr(""), description="OAuth, chat:read and chat:edit")


class BilibiliIn(Strict):
    """A room of Bilibili, by its open platform."""

    access_key: Short
    access_secret: Secret
    app_id: StrictInt = Field(ge=1)
    code: Secret = Field(description="The streamer's identity code")


class YouTubeIn(Strict):
    """A live chat of YouTube. An API key reads; an OAuth token also posts."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if not (self.chat_id or self.video_id):
            raise ValueError("chat_id, or video_id, is wanted")
        if not (self.api_key.get_secret_value() or self.token.get_secret_value()):
            raise ValueError("api_key, or token, is wanted")
        return self

    chat_id: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_=-]{0,200}$")] = ""
    video_id: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{0,20}$")] = Field(
        default="", description="Of the broadcast, where its chat's id is not known"
    )
    api_key: Secret = SecretStr("")
    token: Secret = SecretStr("")


class RoomRequest(Strict):
    """How a room is to be."""

    answer_within_s: StrictFloat = Field(default=30.0, ge=5, le=LONGEST_PATIENCE_S)
    places: StrictInt = Field(default=100, ge=1, le=1000, description="Comments that wait at most")
    per_author: StrictInt = Field(default=2, ge=1, le=100)
    longest_characters: StrictInt = Field(default=200, ge=10, le=1000)
    addressed_as: list[Short] = Field(
        default_factory=list, max_length=20, description="Names the avatar is called by"
    )
    bots: list[Short] = Field(
        default_factory=list,
        max_length=100,
        description="Authors that are programs, ours among them",
    )
    blocked_words: list[Word] = Field(default_factory=list, max_length=2000)
    shipped_words: StrictBool = Field(
        default=True, description="Block those of the lists that ship, too"
    )
    thanks_every_s: StrictFloat = Field(default=30.0, ge=1, le=3600)
    script: list[ScriptLine] = Field(default_factory=list, max_length=200)
    idle_after_s: StrictFloat = Field(default=45.0, ge=5, le=3600)
    memory: StrictInt = Field(
        default=0,
        ge=0,
        le=20,
        description="Comments and answers before that the language model reads with a comment",
    )
    style: StyleName = Field(default="", description="In which comments are answered")
    post_answers: StrictBool = Field(
        default=False, description="As text, where the platform allows"
    )
    paused: StrictBool = False
    twitch: TwitchIn | None = None
    bilibili: BilibiliIn | None = None
    youtube: YouTubeIn | None = None


# ---------------------------------------------------------------- commands


class PauseCommand(Strict):
    """Answer nothing until `resume`; what is being said is said to its end."""

    type: Literal["pause"]


class ResumeCommand(Strict):
    type: Literal["resume"]


class SkipCommand(Strict):
    """Stop what is being said; or, with an id, do not answer that comment."""

    type: Literal["skip"]
    platform: Platform = "app"
    id: Short = ""


class SayCommand(Strict):
    """Have this said as it stands, before anything else."""

    type: Literal["say"]
    text: Annotated[TypedText, Field(max_length=1000)]


class BanCommand(Strict):
    """Answer nothing of this author any more."""

    type: Literal["ban"]
    author: Viewer
    name: Short = ""


class UnbanCommand(Strict):
    type: Literal["unban"]
    author: Viewer


class BlockCommand(Strict):
    """These words are blocked instead of those that were; those that ship stay."""

    type: Literal["block"]
    words: list[Word] = Field(max_length=2000)


class CommentsMessage(CommentsIn):
    """Of the WebSocket."""

    type: Literal["comments"]


class PingMessage(Strict):
    type: Literal["ping"]


RoomCommand: TypeAlias = (
    PauseCommand
    | ResumeCommand
    | SkipCommand
    | SayCommand
    | BanCommand
    | UnbanCommand
    | BlockCommand
)
Command: TypeAlias = Annotated[RoomCommand, Field(discriminator="type")]
Message: TypeAlias = Annotated[
    RoomCommand | CommentsMessage | PingMessage, Field(discriminator="type")
]
_MESSAGE: TypeAdapter[Message] = TypeAdapter(Message)


def parse_message(text: str) -> Message:
    """One message of the WebSocket. Raises InvalidInputError that says what is wrong with it."""
    if len(text) > MAX_MESSAGE_CHARACTERS:
        raise InvalidInputError(
            f"message: {len(text)} characters, at most {MAX_MESSAGE_CHARACTERS} are allowed"
        )
    try:
        return _MESSAGE.validate_json(text)
    except ValidationError as error:
        raise InvalidInputError(explain(error)) from None


# ---------------------------------------------------------------- what is told


class Taken(Told):
    """What became of a comment at once."""

    id: str = Field(description="Its own, or the one that was made up: `skip` names it so")
    outcome: Outcome | None = Field(default=None, description="Absent: it waits")


class TakenList(BaseModel):
    taken: list[Taken]


class TakenEvent(TakenList):
    type: Literal["taken"] = "taken"


class AnsweredEvent(BaseModel):
    """A comment was answered, or why it was not after all; to be posted by whoever can."""

    type: Literal["answered"] = "answered"
    platform: str
    id: str
    author: str
    question: str
    answer: str
    outcome: Outcome
    turn: int
    age_s: float | None = None


class RoomErrorEvent(BaseModel):
    type: Literal["error"] = "error"
    code: str
    message: str


class DoneEvent(BaseModel):
    """A command was carried out."""

    type: Literal["done"] = "done"
    done: str


class RoomPongEvent(BaseModel):
    type: Literal["pong"] = "pong"


RoomEvent: TypeAlias = TakenEvent | AnsweredEvent | DoneEvent | RoomErrorEvent | RoomPongEvent


class SpeechInfo(Told):
    """Something that is being said, or was."""

    why: Why
    phase: SpeechPhase
    text: str = Field(description="The comment, or what is said as it stands")
    name: str = ""
    author: str = ""
    platform: str = ""
    id: str = ""
    answer: str = ""
    turn: int = 0
    age_s: float | None = Field(default=None, description="Of the comment as its answer began")
    outcome: Outcome | None = None


class WaitingInfo(BaseModel):
    """A comment that waits."""

    id: str
    platform: str
    author: str = Field(description="platform:id")
    name: str
    text: str
    others: int = Field(description="How many ask the same")
    age_s: float
    score: float
    amount: float
    currency: str


class Coverage(Told):
    """What became of all that came; `received` is their sum and what is unsettled."""

    received: int
    unsettled: int
    outcomes: dict[Outcome, int]
    answered_share: float = Field(description="Answered, merged and thanked, of all that came")
    age_median_s: float | None = None
    age_p95_s: float | None = None
    age_most_s: float | None = None
    lead_s: float = Field(description="From asking to the first sound, smoothed")


class PlatformInfo(Told):
    """A connection to a platform."""

    platform: str
    room: str
    phase: Literal["connecting", "live", "waiting", "refused"]
    posts: bool
    received: int
    message: str = ""


class RoomInfo(BaseModel):
    """A room as it is now."""

    session: str
    paused: bool
    state: str
    current: SpeechInfo | None
    next: WaitingInfo | None
    waiting: list[WaitingInfo] = Field(description="Those that matter most, 50 at most")
    waiting_in_all: int
    to_say: list[str]
    recent: list[SpeechInfo]
    gifts_waiting: int
    banned: dict[str, str]
    blocked_words: list[str]
    coverage: Coverage
    platforms: list[PlatformInfo]
