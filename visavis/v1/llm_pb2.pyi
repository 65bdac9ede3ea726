from visavis.v1 import control_pb2 as _control_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Message(_message.Message):
    __slots__ = ("role", "content", "tool_calls", "tool_call_id")
    class Role(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        ROLE_UNSPECIFIED: _ClassVar[Message.Role]
        SYSTEM: _ClassVar[Message.Role]
        USER: _ClassVar[Message.Role]
        ASSISTANT: _ClassVar[Message.Role]
        TOOL: _ClassVar[Message.Role]
    ROLE_UNSPECIFIED: Message.Role
    SYSTEM: Message.Role
    USER: Message.Role
    ASSISTANT: Message.Role
    TOOL: Message.Role
    ROLE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALLS_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    role: Message.Role
    content: str
    tool_calls: _containers.RepeatedCompositeFieldContainer[_control_pb2.ToolCall]
    tool_call_id: str
    def __init__(self, role: _Optional[_Union[Message.Role, str]] = ..., content: _Optional[str] = ..., tool_calls: _Optional[_Iterable[_Union[_control_pb2.ToolCall, _Mapping]]] = ..., tool_call_id: _Optional[str] = ...) -> None: ...

class ToolDefinition(_message.Message):
    __slots__ = ("name", "description", "parameters_json")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_JSON_FIELD_NUMBER: _ClassVar[int]
    name: str
    description: str
    parameters_json: str
    def __init__(self, name: _Optional[str] = ..., description: _Optional[str] = ..., parameters_json: _Optional[str] = ...) -> None: ...

class KnownPassage(_message.Message):
    __slots__ = ("source", "text")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    source: str
    text: str
    def __init__(self, source: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class ToolChoice(_message.Message):
    __slots__ = ("mode", "name")
    class Mode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        AUTO: _ClassVar[ToolChoice.Mode]
        NONE: _ClassVar[ToolChoice.Mode]
        REQUIRED: _ClassVar[ToolChoice.Mode]
    AUTO: ToolChoice.Mode
    NONE: ToolChoice.Mode
    REQUIRED: ToolChoice.Mode
    MODE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    mode: ToolChoice.Mode
    name: str
    def __init__(self, mode: _Optional[_Union[ToolChoice.Mode, str]] = ..., name: _Optional[str] = ...) -> None: ...

class GenerateRequest(_message.Message):
    __slots__ = ("messages", "max_tokens", "temperature", "stop", "seed", "top_p", "tools", "tool_choice", "one_call_at_most", "passages", "spoken", "session")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    TOP_P_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    TOOL_CHOICE_FIELD_NUMBER: _ClassVar[int]
    ONE_CALL_AT_MOST_FIELD_NUMBER: _ClassVar[int]
    PASSAGES_FIELD_NUMBER: _ClassVar[int]
    SPOKEN_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[Message]
    max_tokens: int
    temperature: float
    stop: _containers.RepeatedScalarFieldContainer[str]
    seed: int
    top_p: float
    tools: _containers.RepeatedCompositeFieldContainer[ToolDefinition]
    tool_choice: ToolChoice
    one_call_at_most: bool
    passages: _containers.RepeatedCompositeFieldContainer[KnownPassage]
    spoken: bool
    session: str
    def __init__(self, messages: _Optional[_Iterable[_Union[Message, _Mapping]]] = ..., max_tokens: _Optional[int] = ..., temperature: _Optional[float] = ..., stop: _Optional[_Iterable[str]] = ..., seed: _Optional[int] = ..., top_p: _Optional[float] = ..., tools: _Optional[_Iterable[_Union[ToolDefinition, _Mapping]]] = ..., tool_choice: _Optional[_Union[ToolChoice, _Mapping]] = ..., one_call_at_most: _Optional[bool] = ..., passages: _Optional[_Iterable[_Union[KnownPassage, _Mapping]]] = ..., spoken: _Optional[bool] = ..., session: _Optional[str] = ...) -> None: ...

class GenerateResponse(_message.Message):
    __slots__ = ("text", "finish_reason", "prompt_tokens", "completion_tokens", "tool_calls", "block", "language")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    FINISH_REASON_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALLS_FIELD_NUMBER: _ClassVar[int]
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    text: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    tool_calls: _containers.RepeatedCompositeFieldContainer[ToolCallDelta]
    block: int
    language: str
    def __init__(self, text: _Optional[str] = ..., finish_reason: _Optional[str] = ..., prompt_tokens: _Optional[int] = ..., completion_tokens: _Optional[int] = ..., tool_calls: _Optional[_Iterable[_Union[ToolCallDelta, _Mapping]]] = ..., block: _Optional[int] = ..., language: _Optional[str] = ...) -> None: ...

class ToolCallDelta(_message.Message):
    __slots__ = ("index", "id", "name", "arguments_json")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    index: int
    id: str
    name: str
    arguments_json: str
    def __init__(self, index: _Optional[int] = ..., id: _Optional[str] = ..., name: _Optional[str] = ..., arguments_json: _Optional[str] = ...) -> None: ...

class LlmAttachRequest(_message.Message):
    __slots__ = ("config", "begin", "read_ahead", "go_on", "say")
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    READ_AHEAD_FIELD_NUMBER: _ClassVar[int]
    GO_ON_FIELD_NUMBER: _ClassVar[int]
    SAY_FIELD_NUMBER: _ClassVar[int]
    config: LlmAttachConfig
    begin: BeginTurn
    read_ahead: ReadAhead
    go_on: ContinueTurn
    say: SayMeanwhile
    def __init__(self, config: _Optional[_Union[LlmAttachConfig, _Mapping]] = ..., begin: _Optional[_Union[BeginTurn, _Mapping]] = ..., read_ahead: _Optional[_Union[ReadAhead, _Mapping]] = ..., go_on: _Optional[_Union[ContinueTurn, _Mapping]] = ..., say: _Optional[_Union[SayMeanwhile, _Mapping]] = ...) -> None: ...

class LlmAttachConfig(_message.Message):
    __slots__ = ("session", "admitted")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    ADMITTED_FIELD_NUMBER: _ClassVar[int]
    session: str
    admitted: bool
    def __init__(self, session: _Optional[str] = ..., admitted: _Optional[bool] = ...) -> None: ...

class ReadAhead(_message.Message):
    __slots__ = ("request",)
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    request: GenerateRequest
    def __init__(self, request: _Optional[_Union[GenerateRequest, _Mapping]] = ...) -> None: ...

class BeginTurn(_message.Message):
    __slots__ = ("turn", "request", "held", "so_far", "chars", "blocks", "run")
    TURN_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    SO_FAR_FIELD_NUMBER: _ClassVar[int]
    CHARS_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    turn: int
    request: GenerateRequest
    held: bool
    so_far: str
    chars: int
    blocks: int
    run: int
    def __init__(self, turn: _Optional[int] = ..., request: _Optional[_Union[GenerateRequest, _Mapping]] = ..., held: _Optional[bool] = ..., so_far: _Optional[str] = ..., chars: _Optional[int] = ..., blocks: _Optional[int] = ..., run: _Optional[int] = ...) -> None: ...

class ContinueTurn(_message.Message):
    __slots__ = ("turn", "request")
    TURN_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    turn: int
    request: GenerateRequest
    def __init__(self, turn: _Optional[int] = ..., request: _Optional[_Union[GenerateRequest, _Mapping]] = ...) -> None: ...

class SayMeanwhile(_message.Message):
    __slots__ = ("turn", "text")
    TURN_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    turn: int
    text: str
    def __init__(self, turn: _Optional[int] = ..., text: _Optional[str] = ...) -> None: ...
