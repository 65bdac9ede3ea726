"""Bodies of the HTTP API."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool

from gateway.api.choices import (
    MAX_HISTORY,
    MAX_TOOLS,
    AnyLanguage,
    Change,
    DrawnBy,
    Language,
    Name,
    Persona,
    Speed,
    SpokenBy,
    StyleName,
    ToolChosen,
    ToolOption,
    TypedText,
    WelcomeText,
)
from gateway.playout.sinks.descriptions import LONGEST_SDP
from gateway.playout.sinks.ice import IceServer
from gateway.playout.sinks.recording import RecordingPhase, Scope
from visavis.styles import STYLES
from visavis.synthetic import SOURCE_TYPE, SourceType


class Body(BaseModel):
    """A request's body: unknown keys are errors."""

    model_config = ConfigDict(extra="forbid")


class Told(BaseModel):
    """An answer's body: all of it always comes, what has no value as null."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)


class Said(Body):
    """What one of both has said."""

    side: Literal["visitor", "avatar"]
    text: TypedText


class SessionRequest(Body):
    """What the session is to be; all of it may be left out."""

    language: Language = Field("en", description="BCP 47")
    voice: Name = Field("", description="From /v1/voices; empty: the best one")
    avatar: Name = Field("", description="From /v1/avatars; empty: the default one")
    persona: Persona | None = Field(
        default=None,
        description="What the language model is told it is; absent: the gateway's own",
    )
    speed: Speed = Field(1.0, description="Of the voice; 1 is normal")
    style: StyleName = Field(
        "",
        description=f"How answers are said, by voice and face: {', '.join(STYLES)}. What the voice "
        "cannot do of it is told in a warning event",
    )
    welcome: StrictBool | WelcomeText = Field(
        default=False,
        description="Said once somebody watches: true, the phrase configured for the language and "
        "persona, else a usual one; a text, that one; false, nothing",
    )

    history: list[Said] = Field(
        default_factory=list,
        max_length=MAX_HISTORY,
        description="What was said before, oldest first, in a session that is no more: answers go "
        "on from there",
    )

    drawn_by: DrawnBy = Field(
        "server",
        description="client: no pictures are sent, but what a client draws the face from, on the "
        "WebSocket `…/face`. Holds for connections that do not say it themselves",
    )

    tools: list[ToolOption] = Field(
        default_factory=list,
        max_length=MAX_TOOLS,
        description="What answers may have the session's clients do: they are told by the event "
        "`answer.tool_call` and answer with `tool_result`; see docs/tools.md",
    )
    tool_choice: ToolChosen = "auto"

    spoken_by: SpokenBy = Field(
        "server",
        description="client: nothing is heard, thought or spoken here; the face says the speech "
        "that the client brings, on the WebSocket `…/speech` or over WebRTC",
    )

    queue: StrictBool = Field(
        False,
        description="Where there is no room: wait for it, with an answer 202, instead of 429",
    )


class PlaceInfo(Told):
    """A place in line, and how it stands."""

    id: str = Field(description="Of the session, once it is there")
    state: Literal["waiting", "admitted", "refused", "left"] = Field(
        description="admitted: the session is there; refused: what was asked for cannot be; left: "
        "the place was given up"
    )
    position: int = Field(
        description="1: next; 0: it waits no more. Exact within the gateway that answers; with "
        "several behind one address each has a line of its own"
    )
    expected_wait_s: float | None = Field(
        description="By how long other visits lasted; null: that cannot be told"
    )
    message: str = Field("", description="Of refused: why")
    again: bool = Field(False, description="Of refused: its gateway ends; ask for another place")


class SessionChange(Body, Change):
    """What is left out stays. Takes effect from the next turn on."""

    tools: list[ToolOption] | None = Field(
        None, max_length=MAX_TOOLS, description="For the app that made the session, or an operator"
    )
    tool_choice: ToolChosen | None = None


class SessionInfo(Told):
    """A session as it is now."""

    id: str
    created_at: datetime | None = Field(
        None, description="UTC; null where a gateway of an earlier version has it"
    )
    language: str
    voice: str
    avatar: str
    persona: str = Field(
        description="What the language model is told it is; empty to who has the session's token "
        "alone, and to all where the llm service's own holds"
    )
    speed: float
    style: str
    drawn_by: DrawnBy
    spoken_by: SpokenBy
    state: Literal["idle", "listening", "thinking", "speaking"]
    welcome: str = Field(description="What is still to be said first; empty: nothing")
    viewers: int
    stages: dict[str, str | None] = Field(
        description="Replica that serves each stage; null while it is being replaced"
    )
    digital_source_type: SourceType = Field(
        default=SOURCE_TYPE,
        description="Of its sound and pictures, as IPTC calls what is synthetic",
    )


class TokenInfo(BaseModel):
    """What opens one session alone, for a while."""

    token: str = Field(description="Sent as `Authorization: Bearer …`; renewed by `POST …/token`")
    token_role: Literal["visitor", "viewer"]
    token_expires_in_s: float


class NewSession(SessionInfo, TokenInfo):
    """A session that has just been made, and what opens it."""


class NewPlace(PlaceInfo, TokenInfo):
    """A place in line, and what opens it and the session that comes of it."""


class TokenRequest(Body):
    """For whom a token is to be."""

    role: Literal["visitor", "viewer"] | None = Field(
        default=None,
        description="A viewer looks on, says nothing and changes nothing; absent: as the caller is",
    )


class SessionList(BaseModel):
    """All open sessions."""

    sessions: list[SessionInfo]


class Offer(Body):
    """A browser's SDP offer with all its candidates, one audio and one video section.

    Without the latter where the client draws the face.
    """

    sdp: str = Field(min_length=1, max_length=LONGEST_SDP)
    type: Literal["offer"]
    role: Literal["speaker", "viewer"] = "viewer"
    drawn_by: DrawnBy | None = Field(
        None, description="Whether this connection takes pictures; absent: as the session says"
    )


class Answer(BaseModel):
    """The SDP answer, and the name of the connection."""

    sdp: str
    type: str
    peer_id: str


class IceServerList(BaseModel):
    """What a browser's RTCPeerConnection takes as `iceServers`."""

    ice_servers: list[IceServer]


class TextRequest(Body):
    """What the visitor types."""

    text: TypedText
    style: StyleName = Field("", description="Of this answer alone; empty: the session's")


class SayRequest(Body):
    """What is to be said as it stands."""

    text: TypedText
    style: StyleName = Field("", description="Of this text alone; empty: the session's")
    language: AnyLanguage = Field(
        "",
        description="Of this text alone, where its script does not tell; empty: the session's",
    )
    interrupt: StrictBool = Field(
        False, description="Say it now, in place of what is being said and of all that waits"
    )


class SayNumber(BaseModel):
    """Which of the session's texts it became; `say` events name it."""

    say: int


class TurnNumber(BaseModel):
    """Which turn it became."""

    turn: int


class RecordingRequest(Body):
    """What is to be recorded."""

    scope: Scope = Field(
        Scope.SESSION,
        description="turn: the next turn, first picture to last; session: until it is stopped",
    )


class RecordingInfo(Told):
    """How a recording stands."""

    scope: Scope
    state: RecordingPhase
    turn: int | None = Field(description="The turn that is recorded, for scope turn")
    duration_s: float = Field(description="Set when done")
    error: str = Field("", description="Why it ended early, and what of it is kept")


class VoiceInfo(BaseModel):
    """One voice to choose."""

    name: str
    languages: list[str]
    gender: str
    sample_rate_hz: int
    licence: str
    description: str
    controls: list[str] = Field(description="What can be changed: speed, pitch_range …")
    styles: list[str] = Field(description="Styles of which it can do everything")


class VoiceList(BaseModel):
    """Voices to choose from."""

    voices: list[VoiceInfo]


class AvatarInfo(Told):
    """One face to choose."""

    name: str
    width: int
    height: int
    builtin: bool = Field(description="Ships with the product; cannot be deleted")
    licence: str
    head: bool = Field(description="A client can draw it itself: see head.glb")
    engine: str = Field("", description="What draws it: warp, wav2lip, tha3 or head")
    left_out: list[str] = Field(
        default_factory=list,
        description="What of a head's GLB is not drawn, in sentences: told as it is made alone",
    )


class ConsentInfo(BaseModel):
    """What the person in a photograph has agreed to, as it was stated."""

    likeness: str = Field(description="Who is shown")
    agreed_to: str
    stated_by: str
    stated_via: str = Field(description="page, http, command line …")
    stated_at: str = Field(description="ISO 8601, UTC")


class AvatarChange(Body):
    """What of an avatar is to be another."""

    name: str = Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")


class AvatarList(BaseModel):
    """Faces to choose from; the first one is the default."""

    avatars: list[AvatarInfo]


class EngineInfo(Told):
    """One network of a replica, and where it runs."""

    model: str
    file: str = Field("", description="The weights' file as its makers call it, where it is known")
    backend: str
    device: str
    detail: str = Field("", description="Why that is not what was asked for; empty: it is")


class ReplicaInfo(BaseModel):
    """One replica of a service: its health and capacity."""

    service: str
    instance: str
    version: str
    address: str
    healthy: bool
    slots: int
    free_slots: int
    languages: list[str]
    engines: list[EngineInfo]


class ServiceList(BaseModel):
    """Every replica that is known."""

    services: list[ReplicaInfo]


class ConfiguredInfo(BaseModel):
    """An answer of the gateway's file."""

    language: str
    persona: str | None = Field(description="null: the gateway's own; *: everybody's")
    questions: list[str]
    answer: str
    hits: int


class LearnedInfo(BaseModel):
    """What the language model once answered."""

    language: str
    persona_digest: str
    question: str
    answer: str
    age_s: float
    hits: int


class PhrasesInfo(BaseModel):
    """Prerendered sound of one tts replica."""

    replica: str
    entries: int
    seconds: float
    bytes: int
    limit_bytes: int
    hits: int
    misses: int
    evictions: int


class CacheInfo(BaseModel):
    """All that can be said without a language model."""

    file: str | None = Field(description="Where configured answers come from")
    learns: bool
    lookups: dict[str, int] = Field(description="exact, normalised, learned and miss")
    evictions: int
    expirations: int
    learned_bytes: int
    configured: list[ConfiguredInfo]
    learned: list[LearnedInfo]
    welcome: dict[str, list[str]] = Field(description="Welcome phrases by language")
    phrases: list[PhrasesInfo]


class WarmRequest(Body):
    """With which voice the answers are to be ready."""

    language: AnyLanguage = Field("", description="BCP 47; empty: all in the file")
    voice: Name = Field("", description="From /v1/voices; empty: the best one")
    speed: Speed = 1.0
    style: StyleName = Field("", description="Of the session; tags in the texts count besides")


class CacheCleared(BaseModel):
    """How many of each were forgotten."""

    learned: int
    phrases: int


class Health(BaseModel):
    """Whether the gateway works now."""

    status: str
    missing: dict[str, str] = Field(
        default_factory=dict, description="Of /readyz: what is not there, and why"
    )


class Target(BaseModel):
    """One entry of Prometheus' HTTP service discovery."""

    targets: list[str]
    labels: dict[str, str]


class ErrorBody(BaseModel):
    """What is wrong."""

    code: str = Field(description="For programs")
    message: str = Field(description="For people: what is wrong, and what to do")
    service: str | None = Field(
        None,
        description="Of 429: what has no room: asr, llm, tts, face; answer: all between a question "
        "and its answer together; queue: others wait already; gateway",
    )
    expected_wait_s: float | None = Field(
        None,
        description="Of 429: until a new visitor would be let in, by how long other visits lasted; "
        "null: that cannot be told",
    )
    waiting: int | None = Field(None, description="Of 429: visitors in line at this gateway")


class Problem(BaseModel):
    """Body of every answer from 400 on."""

    error: ErrorBody
