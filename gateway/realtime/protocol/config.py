"""The session object: what a client may set of it, what it is told of it. Pure.

An update is sparse: what is absent stays, `null` clears. Fields that are known and change nothing
here are kept and told back, for clients read them from `session.updated`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import to_json

from gateway.api.choices import MAX_PERSONA_CHARACTERS, JsonSchema, Language, Name, ToolName
from gateway.api.events import why_of
from gateway.openai.errors import RefusedError
from gateway.stages.stages import Endpointing

LOWEST_RATE_HZ, HIGHEST_RATE_HZ = 8_000, 48_000
RATE_HZ = 24_000
_MOST_TOOLS = 64
_MOST_LANGUAGES = 100
_LARGEST_BYTES, _LARGEST_KEPT_BYTES = 100_000, 4_000
"""As JSON, of all and of what is only kept: it is gone through, and told back, with each update."""
_OPEN_AI_TELEPHONE = ("audio/pcmu", "audio/pcma")
_MERGED = ("audio", "input", "output", "format", "turn_detection", "transcription")
"""Objects that an update changes in part; any other is taken as a whole."""
_WITH_A_DEFAULT = (
    "instructions",
    "output_modalities",
    "tools",
    "tool_choice",
    "max_output_tokens",
    "audio",
    "input",
    "output",
    "format",
    "voice",
    "speed",
    "avatar",
)
"""Of these, `null` stands for what a session begins with."""
_OF_THE_BETA = {
    "modalities": "output_modalities",
    "voice": "audio.output.voice",
    "speed": "audio.output.speed",
    "input_audio_format": "audio.input.format",
    "output_audio_format": "audio.output.format",
    "input_audio_transcription": "audio.input.transcription",
    "input_audio_noise_reduction": "audio.input.noise_reduction",
    "turn_detection": "audio.input.turn_detection",
    "max_response_output_tokens": "max_output_tokens",
}
_PATIENCE_MS = {"low": 8_000, "medium": 4_000, "auto": 4_000, "high": 2_000}
_SURELY_HEARD, _HARDLY_HEARD = 0.02, 0.98
"""Within these a threshold tells sound from speech."""
_SHORTEST_SILENCE_MS = 64
_TELLS_SPEAKERS = "-diarize"
_FIXED = ("id", "object", "model", "expires_at")


class _Part(BaseModel):
    """Unknown fields are left alone: clients learn new ones every month."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Pcm(_Part):
    """16-bit little-endian samples, mono."""

    type: Literal["audio/pcm"] = "audio/pcm"
    rate: Annotated[int, Field(ge=LOWEST_RATE_HZ, le=HIGHEST_RATE_HZ)] = RATE_HZ


class Telephone(_Part):
    """G.711, mono, 8 kHz: mu-law or A-law."""

    type: Literal["audio/pcmu", "audio/pcma"]


Format: TypeAlias = Annotated[Pcm | Telephone, Field(discriminator="type")]


class Transcription(_Part):
    """Whether, and in which language, the client is told what was said. languages: of several that
    it may be, the first one counts.
    """

    model: Annotated[str, Field(max_length=200)] = "whisper-1"
    language: Language | None = None
    languages: Annotated[tuple[Language, ...], Field(max_length=_MOST_LANGUAGES)] | None = None
    prompt: Annotated[str, Field(max_length=8000)] | None = None


class NoiseReduction(_Part):
    type: Literal["near_field", "far_field"]


class _TurnDetection(_Part):
    create_response: bool = True
    interrupt_response: bool = True


class ServerVad(_TurnDetection):
    """Silence ends an utterance, and a voice that lasts interrupts at once, whatever it says."""

    type: Literal["server_vad"] = "server_vad"
    threshold: Annotated[float, Field(ge=0, le=1)] = 0.5
    prefix_padding_ms: Annotated[int, Field(ge=0, le=5_000)] = 300
    silence_duration_ms: Annotated[int, Field(ge=0, le=60_000)] = 500
    idle_timeout_ms: Annotated[int, Field(ge=5_000, le=30_000)] | None = None


class SemanticVad(_TurnDetection):
    """Words decide whether a voice interrupts: a listener's "uh-huh" does not."""

    type: Literal["semantic_vad"] = "semantic_vad"
    eagerness: Literal["low", "medium", "high", "auto"] = "auto"

    @property
    def patience_ms(self) -> int:
        """The longest silence after words that are surely not all."""
        return _PATIENCE_MS[self.eagerness]


TurnDetection: TypeAlias = Annotated[ServerVad | SemanticVad, Field(discriminator="type")]


class AudioInput(_Part):
    format: Format = Pcm()
    transcription: Transcription | None = None
    noise_reduction: NoiseReduction | None = None
    turn_detection: TurnDetection | None = ServerVad()


class NamedVoice(_Part):
    """A voice by its id."""

    id: Annotated[str, Field(max_length=200)]


class AudioOutput(_Part):
    """voice: one of ours or of OpenAI's names; "default": the best of the language."""

    format: Format = Pcm()
    voice: Annotated[str, Field(max_length=200)] | NamedVoice = "default"
    speed: Annotated[float, Field(ge=0.5, le=1.5)] = 1.0


class Audio(_Part):
    input: AudioInput = AudioInput()
    output: AudioOutput = AudioOutput()


class Tool(_Part):
    """Something that the client can do for the model. parameters: JSON Schema."""

    type: Literal["function"] = "function"
    name: ToolName
    description: Annotated[str, Field(max_length=8000)] | None = None
    parameters: JsonSchema | None = None


def _named_apart(tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
    if len({tool.name for tool in tools}) < len(tools):
        raise ValueError("two have one name")
    return tools


class NamedTool(_Part):
    type: Literal["function"]
    name: str


Modalities: TypeAlias = tuple[Literal["audio", "text"]]
Tools: TypeAlias = Annotated[
    tuple[Tool, ...], Field(max_length=_MOST_TOOLS), AfterValidator(_named_apart)
]
WantedChoice: TypeAlias = Literal["auto", "none", "required"] | NamedTool
OutputTokens: TypeAlias = Annotated[int, Field(ge=1, le=4096)] | Literal["inf"]


def _small(value: Any) -> Any:
    if len(to_json(value)) > _LARGEST_KEPT_BYTES:
        raise ValueError(f"larger than {_LARGEST_KEPT_BYTES // 1000} kB")
    return value


Kept: TypeAlias = Annotated[Any, AfterValidator(_small)]
"""Nothing is done with it here."""


class SessionConfig(_Part):
    """A session as its client has set it."""

    type: Literal["realtime", "transcription"] = "realtime"
    instructions: Annotated[str, Field(max_length=MAX_PERSONA_CHARACTERS)] = ""
    output_modalities: Modalities = ("audio",)
    audio: Audio = Audio()
    tools: Tools = ()
    tool_choice: WantedChoice = "auto"
    parallel_tool_calls: bool | None = None
    max_output_tokens: OutputTokens = "inf"
    truncation: Kept = "auto"
    tracing: Kept = None
    prompt: Kept = None
    include: Kept = None
    reasoning: Kept = None
    avatar: Name = ""
    """Ours: the face that is worn, where there are pictures."""

    @property
    def answers_by_itself(self) -> bool:
        """Whether what is said is answered aloud, without being asked for, by the session alone."""
        detection = self.audio.input.turn_detection
        wanted = detection is not None and detection.create_response
        wanted = wanted and self.max_output_tokens == "inf"
        return wanted and self.speaks and self.type == "realtime" and not self.offered_tools

    @property
    def speaks(self) -> bool:
        """Whether answers are spoken, where nothing else is asked for."""
        return self.output_modalities == ("audio",)

    @property
    def endpointing(self) -> Endpointing:
        """Where utterances begin and end, as the recogniser is asked to find them."""
        match self.audio.input.turn_detection:
            case ServerVad() as vad:
                return Endpointing(
                    speech_probability=min(max(vad.threshold, _SURELY_HEARD), _HARDLY_HEARD),
                    lead_ms=vad.prefix_padding_ms,
                    silence_ms=max(vad.silence_duration_ms, _SHORTEST_SILENCE_MS),
                )
            case SemanticVad() as vad:
                return Endpointing(patience_ms=vad.patience_ms)
        return Endpointing()

    @property
    def tells_segments(self) -> bool:
        """Whether transcripts are told passage by passage, too."""
        transcription = self.audio.input.transcription
        if transcription is None:
            return False
        return self.type == "transcription" or transcription.model.endswith(_TELLS_SPEAKERS)

    @property
    def offered_tools(self) -> tuple[Tool, ...]:
        """Those that the model may call."""
        return () if self.tool_choice == "none" else self.tools

    @property
    def wanted_language(self) -> str:
        """Empty: none is named."""
        transcription = self.audio.input.transcription
        if transcription is None:
            return ""
        return transcription.language or next(iter(transcription.languages or ()), "")

    @property
    def wanted_voice(self) -> str:
        """By any of its names; "": the best of the language."""
        voice = self.audio.output.voice
        name = voice if isinstance(voice, str) else voice.id
        return "" if name == "default" else name

    def told(self) -> dict[str, Any]:
        """As JSON, whole, as it is: what is not done here is not told as if it were."""
        content = self.model_dump(mode="json")
        content["audio"]["input"]["noise_reduction"] = None
        transcription = content["audio"]["input"]["transcription"]
        if transcription is not None and transcription["languages"] is None:
            # Who has not set it may not know it: Pipecat fails at it.
            del transcription["languages"]
        if self.type == "transcription":
            kept = ("type", "include")
            listening = {"input": content["audio"]["input"]}
            return {key: content[key] for key in kept} | {"audio": listening}
        return content


def updated(config: SessionConfig, change: object) -> SessionConfig:
    """`config` with a client's sparse `change`. Raises RefusedError."""
    if not isinstance(change, Mapping):
        raise RefusedError("session: an object is wanted", "session", "invalid_type")
    if "type" not in change:
        message = 'session.type: it is missing; "realtime" or "transcription" is wanted'
        raise RefusedError(message, "session.type", "missing_required_parameter")
    for name, now in _OF_THE_BETA.items():
        if name in change:
            raise RefusedError(
                f"session.{name}: this is of the beta; it is session.{now} now",
                f"session.{name}",
                "unknown_parameter",
            )
    before = dict(config)  # what does not change was gone through
    if "audio" in change:
        before["audio"] = config.audio.model_dump(mode="json")
    wanted = {key: value for key, value in change.items() if key not in _FIXED}
    if wanted["type"] != config.type:
        message = f"session.type: it is {config.type!r} and cannot be changed"
        raise RefusedError(message, "session.type", "invalid_value")
    return checked(_merged(before, wanted), "session")


def first_config(change: object, instructions: str) -> SessionConfig:
    """Of a session that begins. change: None: nothing is said of it. Raises RefusedError."""
    kind = change.get("type", "realtime") if isinstance(change, Mapping) else "realtime"
    begun = checked({"type": kind, "instructions": instructions}, "session")
    return begun if change is None else updated(begun, _with_type(change, begun.type))


def checked(content: Mapping[str, Any], where: str) -> SessionConfig:
    """Raises RefusedError that names the field."""
    try:
        config = SessionConfig.model_validate(content)
    except ValidationError as error:
        raise refusal_of(error, where) from None
    if len(config.model_dump_json()) > _LARGEST_BYTES:
        message = f"{where}: larger than {_LARGEST_BYTES // 1000} kB"
        raise RefusedError(message, where, "invalid_value")
    check_choice(config.tool_choice, config.tools, where)
    return config


def check_choice(choice: WantedChoice, tools: Sequence[Tool], where: str) -> None:
    """Raises RefusedError where a tool is named that is none of these."""
    if isinstance(choice, NamedTool) and choice.name not in [tool.name for tool in tools]:
        param = f"{where}.tool_choice"
        message = f"{param}: tool choice {choice.name[:64]!r} not found in tools"
        raise RefusedError(message, param, "invalid_value")


def refusal_of(error: ValidationError, where: str) -> RefusedError:
    """The first fault, by the name that the field has on the wire."""
    fault = error.errors(include_url=False, include_input=False)[0]
    # Of a choice of objects, pydantic names the chosen one.
    skipped = ("audio/pcm", *_OPEN_AI_TELEPHONE, "server_vad", "semantic_vad")
    parts = [str(part)[:80] for part in fault["loc"] if part not in skipped]
    name = ".".join([where, *parts])
    code = "missing_required_parameter" if fault["type"] == "missing" else "invalid_value"
    return RefusedError(f"{name}: {why_of(fault)}", name, code)


def _with_type(change: object, kind: str) -> object:
    return {"type": kind, **change} if isinstance(change, Mapping) else change


def _merged(before: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(before)
    for key, value in change.items():
        if value is None and key in _WITH_A_DEFAULT:
            merged.pop(key, None)
            continue
        old = merged.get(key)
        merged[key] = value
        if key in _MERGED and isinstance(old, Mapping) and isinstance(value, Mapping):
            # Another kind of the same thing begins with its own defaults.
            if value.get("type", old.get("type")) == old.get("type"):
                merged[key] = _merged(old, value)
    return merged
