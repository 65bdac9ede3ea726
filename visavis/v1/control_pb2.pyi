from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AttachEvent(_message.Message):
    __slots__ = ("ready", "turn_started", "turn_finished", "turn_failed", "turn_notice", "draining", "tools_called", "bus_lost")
    READY_FIELD_NUMBER: _ClassVar[int]
    TURN_STARTED_FIELD_NUMBER: _ClassVar[int]
    TURN_FINISHED_FIELD_NUMBER: _ClassVar[int]
    TURN_FAILED_FIELD_NUMBER: _ClassVar[int]
    TURN_NOTICE_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    TOOLS_CALLED_FIELD_NUMBER: _ClassVar[int]
    BUS_LOST_FIELD_NUMBER: _ClassVar[int]
    ready: AttachReady
    turn_started: TurnStarted
    turn_finished: TurnFinished
    turn_failed: TurnFailed
    turn_notice: TurnNotice
    draining: Draining
    tools_called: ToolsCalled
    bus_lost: BusLost
    def __init__(self, ready: _Optional[_Union[AttachReady, _Mapping]] = ..., turn_started: _Optional[_Union[TurnStarted, _Mapping]] = ..., turn_finished: _Optional[_Union[TurnFinished, _Mapping]] = ..., turn_failed: _Optional[_Union[TurnFailed, _Mapping]] = ..., turn_notice: _Optional[_Union[TurnNotice, _Mapping]] = ..., draining: _Optional[_Union[Draining, _Mapping]] = ..., tools_called: _Optional[_Union[ToolsCalled, _Mapping]] = ..., bus_lost: _Optional[_Union[BusLost, _Mapping]] = ...) -> None: ...

class Draining(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class BusLost(_message.Message):
    __slots__ = ("away",)
    AWAY_FIELD_NUMBER: _ClassVar[int]
    away: bool
    def __init__(self, away: _Optional[bool] = ...) -> None: ...

class AttachReady(_message.Message):
    __slots__ = ("instance",)
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    instance: str
    def __init__(self, instance: _Optional[str] = ...) -> None: ...

class TurnStarted(_message.Message):
    __slots__ = ("turn",)
    TURN_FIELD_NUMBER: _ClassVar[int]
    turn: int
    def __init__(self, turn: _Optional[int] = ...) -> None: ...

class TurnFinished(_message.Message):
    __slots__ = ("turn", "seconds", "produced", "cancelled")
    class SecondsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    TURN_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    PRODUCED_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    turn: int
    seconds: _containers.ScalarMap[str, float]
    produced: int
    cancelled: bool
    def __init__(self, turn: _Optional[int] = ..., seconds: _Optional[_Mapping[str, float]] = ..., produced: _Optional[int] = ..., cancelled: _Optional[bool] = ...) -> None: ...

class TurnFailed(_message.Message):
    __slots__ = ("turn", "code", "message")
    TURN_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    turn: int
    code: str
    message: str
    def __init__(self, turn: _Optional[int] = ..., code: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class TurnNotice(_message.Message):
    __slots__ = ("turn", "code", "message")
    TURN_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    turn: int
    code: str
    message: str
    def __init__(self, turn: _Optional[int] = ..., code: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class ToolsCalled(_message.Message):
    __slots__ = ("turn", "text", "calls", "run")
    TURN_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    turn: int
    text: str
    calls: _containers.RepeatedCompositeFieldContainer[ToolCall]
    run: int
    def __init__(self, turn: _Optional[int] = ..., text: _Optional[str] = ..., calls: _Optional[_Iterable[_Union[ToolCall, _Mapping]]] = ..., run: _Optional[int] = ...) -> None: ...

class ToolCall(_message.Message):
    __slots__ = ("id", "name", "arguments_json")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    arguments_json: str
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., arguments_json: _Optional[str] = ...) -> None: ...

class GetStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ServiceStatus(_message.Message):
    __slots__ = ("service", "instance", "version", "engines", "slots", "free_slots", "languages", "clock", "capacity", "free_recordings")
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ENGINES_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    FREE_SLOTS_FIELD_NUMBER: _ClassVar[int]
    LANGUAGES_FIELD_NUMBER: _ClassVar[int]
    CLOCK_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    FREE_RECORDINGS_FIELD_NUMBER: _ClassVar[int]
    service: str
    instance: str
    version: str
    engines: _containers.RepeatedCompositeFieldContainer[EngineStatus]
    slots: int
    free_slots: int
    languages: _containers.RepeatedScalarFieldContainer[str]
    clock: ClockReading
    capacity: Capacity
    free_recordings: int
    def __init__(self, service: _Optional[str] = ..., instance: _Optional[str] = ..., version: _Optional[str] = ..., engines: _Optional[_Iterable[_Union[EngineStatus, _Mapping]]] = ..., slots: _Optional[int] = ..., free_slots: _Optional[int] = ..., languages: _Optional[_Iterable[str]] = ..., clock: _Optional[_Union[ClockReading, _Mapping]] = ..., capacity: _Optional[_Union[Capacity, _Mapping]] = ..., free_recordings: _Optional[int] = ...) -> None: ...

class Capacity(_message.Message):
    __slots__ = ("service", "instance", "machine", "sessions", "free_slots", "refusal", "unit_cost_s", "units_per_s", "late_p95_s", "predicted_p95_s", "alone_p95_s", "slack", "session_cores", "used_cores", "run_queue_share", "memory_bytes", "free_memory_bytes", "duty")
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    MACHINE_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    FREE_SLOTS_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    UNIT_COST_S_FIELD_NUMBER: _ClassVar[int]
    UNITS_PER_S_FIELD_NUMBER: _ClassVar[int]
    LATE_P95_S_FIELD_NUMBER: _ClassVar[int]
    PREDICTED_P95_S_FIELD_NUMBER: _ClassVar[int]
    ALONE_P95_S_FIELD_NUMBER: _ClassVar[int]
    SLACK_FIELD_NUMBER: _ClassVar[int]
    SESSION_CORES_FIELD_NUMBER: _ClassVar[int]
    USED_CORES_FIELD_NUMBER: _ClassVar[int]
    RUN_QUEUE_SHARE_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    FREE_MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    DUTY_FIELD_NUMBER: _ClassVar[int]
    service: str
    instance: str
    machine: int
    sessions: int
    free_slots: int
    refusal: str
    unit_cost_s: float
    units_per_s: float
    late_p95_s: float
    predicted_p95_s: float
    alone_p95_s: float
    slack: float
    session_cores: float
    used_cores: float
    run_queue_share: float
    memory_bytes: int
    free_memory_bytes: int
    duty: float
    def __init__(self, service: _Optional[str] = ..., instance: _Optional[str] = ..., machine: _Optional[int] = ..., sessions: _Optional[int] = ..., free_slots: _Optional[int] = ..., refusal: _Optional[str] = ..., unit_cost_s: _Optional[float] = ..., units_per_s: _Optional[float] = ..., late_p95_s: _Optional[float] = ..., predicted_p95_s: _Optional[float] = ..., alone_p95_s: _Optional[float] = ..., slack: _Optional[float] = ..., session_cores: _Optional[float] = ..., used_cores: _Optional[float] = ..., run_queue_share: _Optional[float] = ..., memory_bytes: _Optional[int] = ..., free_memory_bytes: _Optional[int] = ..., duty: _Optional[float] = ...) -> None: ...

class ClockReading(_message.Message):
    __slots__ = ("clock", "monotonic_ns")
    CLOCK_FIELD_NUMBER: _ClassVar[int]
    MONOTONIC_NS_FIELD_NUMBER: _ClassVar[int]
    clock: int
    monotonic_ns: int
    def __init__(self, clock: _Optional[int] = ..., monotonic_ns: _Optional[int] = ...) -> None: ...

class EngineStatus(_message.Message):
    __slots__ = ("bundle", "backend", "device", "detail", "file")
    BUNDLE_FIELD_NUMBER: _ClassVar[int]
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    bundle: str
    backend: str
    device: str
    detail: str
    file: str
    def __init__(self, bundle: _Optional[str] = ..., backend: _Optional[str] = ..., device: _Optional[str] = ..., detail: _Optional[str] = ..., file: _Optional[str] = ...) -> None: ...
