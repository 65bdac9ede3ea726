from visavis.v1 import control_pb2 as _control_pb2
from visavis.v1 import media_pb2 as _media_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SynthesisConfig(_message.Message):
    __slots__ = ("language", "voice", "speed", "volume", "style", "pitch_range", "energy")
    LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    VOICE_FIELD_NUMBER: _ClassVar[int]
    SPEED_FIELD_NUMBER: _ClassVar[int]
    VOLUME_FIELD_NUMBER: _ClassVar[int]
    STYLE_FIELD_NUMBER: _ClassVar[int]
    PITCH_RANGE_FIELD_NUMBER: _ClassVar[int]
    ENERGY_FIELD_NUMBER: _ClassVar[int]
    language: str
    voice: str
    speed: float
    volume: float
    style: str
    pitch_range: float
    energy: float
    def __init__(self, language: _Optional[str] = ..., voice: _Optional[str] = ..., speed: _Optional[float] = ..., volume: _Optional[float] = ..., style: _Optional[str] = ..., pitch_range: _Optional[float] = ..., energy: _Optional[float] = ...) -> None: ...

class SynthesizeRequest(_message.Message):
    __slots__ = ("config", "text")
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    config: SynthesisConfig
    text: str
    def __init__(self, config: _Optional[_Union[SynthesisConfig, _Mapping]] = ..., text: _Optional[str] = ...) -> None: ...

class SynthesizeResponse(_message.Message):
    __slots__ = ("voice", "mel", "notice")
    VOICE_FIELD_NUMBER: _ClassVar[int]
    MEL_FIELD_NUMBER: _ClassVar[int]
    NOTICE_FIELD_NUMBER: _ClassVar[int]
    voice: _media_pb2.PcmChunk
    mel: _media_pb2.MelChunk
    notice: _control_pb2.TurnNotice
    def __init__(self, voice: _Optional[_Union[_media_pb2.PcmChunk, _Mapping]] = ..., mel: _Optional[_Union[_media_pb2.MelChunk, _Mapping]] = ..., notice: _Optional[_Union[_control_pb2.TurnNotice, _Mapping]] = ...) -> None: ...

class TtsAttachRequest(_message.Message):
    __slots__ = ("config", "synthesis", "resume")
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    SYNTHESIS_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    config: TtsAttachConfig
    synthesis: SynthesisConfig
    resume: ResumeVoice
    def __init__(self, config: _Optional[_Union[TtsAttachConfig, _Mapping]] = ..., synthesis: _Optional[_Union[SynthesisConfig, _Mapping]] = ..., resume: _Optional[_Union[ResumeVoice, _Mapping]] = ...) -> None: ...

class ResumeVoice(_message.Message):
    __slots__ = ("turn", "text", "complete", "chars", "samples", "heard_samples", "run", "text_run")
    TURN_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    CHARS_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    HEARD_SAMPLES_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    TEXT_RUN_FIELD_NUMBER: _ClassVar[int]
    turn: _media_pb2.TurnChunk
    text: str
    complete: bool
    chars: int
    samples: int
    heard_samples: int
    run: int
    text_run: int
    def __init__(self, turn: _Optional[_Union[_media_pb2.TurnChunk, _Mapping]] = ..., text: _Optional[str] = ..., complete: _Optional[bool] = ..., chars: _Optional[int] = ..., samples: _Optional[int] = ..., heard_samples: _Optional[int] = ..., run: _Optional[int] = ..., text_run: _Optional[int] = ...) -> None: ...

class TtsAttachConfig(_message.Message):
    __slots__ = ("session", "synthesis", "admitted")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SYNTHESIS_FIELD_NUMBER: _ClassVar[int]
    ADMITTED_FIELD_NUMBER: _ClassVar[int]
    session: str
    synthesis: SynthesisConfig
    admitted: bool
    def __init__(self, session: _Optional[str] = ..., synthesis: _Optional[_Union[SynthesisConfig, _Mapping]] = ..., admitted: _Optional[bool] = ...) -> None: ...

class ListVoicesRequest(_message.Message):
    __slots__ = ("language",)
    LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    language: str
    def __init__(self, language: _Optional[str] = ...) -> None: ...

class ListVoicesResponse(_message.Message):
    __slots__ = ("voices",)
    VOICES_FIELD_NUMBER: _ClassVar[int]
    voices: _containers.RepeatedCompositeFieldContainer[Voice]
    def __init__(self, voices: _Optional[_Iterable[_Union[Voice, _Mapping]]] = ...) -> None: ...

class Voice(_message.Message):
    __slots__ = ("name", "languages", "gender", "sample_rate_hz", "licence", "description", "controls", "styles")
    NAME_FIELD_NUMBER: _ClassVar[int]
    LANGUAGES_FIELD_NUMBER: _ClassVar[int]
    GENDER_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_RATE_HZ_FIELD_NUMBER: _ClassVar[int]
    LICENCE_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    CONTROLS_FIELD_NUMBER: _ClassVar[int]
    STYLES_FIELD_NUMBER: _ClassVar[int]
    name: str
    languages: _containers.RepeatedScalarFieldContainer[str]
    gender: str
    sample_rate_hz: int
    licence: str
    description: str
    controls: _containers.RepeatedScalarFieldContainer[str]
    styles: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., languages: _Optional[_Iterable[str]] = ..., gender: _Optional[str] = ..., sample_rate_hz: _Optional[int] = ..., licence: _Optional[str] = ..., description: _Optional[str] = ..., controls: _Optional[_Iterable[str]] = ..., styles: _Optional[_Iterable[str]] = ...) -> None: ...

class PrerenderRequest(_message.Message):
    __slots__ = ("config", "text")
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    config: SynthesisConfig
    text: str
    def __init__(self, config: _Optional[_Union[SynthesisConfig, _Mapping]] = ..., text: _Optional[str] = ...) -> None: ...

class PrerenderResponse(_message.Message):
    __slots__ = ("phrases", "made", "evicted")
    PHRASES_FIELD_NUMBER: _ClassVar[int]
    MADE_FIELD_NUMBER: _ClassVar[int]
    EVICTED_FIELD_NUMBER: _ClassVar[int]
    phrases: int
    made: int
    evicted: int
    def __init__(self, phrases: _Optional[int] = ..., made: _Optional[int] = ..., evicted: _Optional[int] = ...) -> None: ...

class ListPhrasesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListPhrasesResponse(_message.Message):
    __slots__ = ("phrases", "bytes", "limit_bytes", "hits", "misses", "evictions")
    PHRASES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    LIMIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    HITS_FIELD_NUMBER: _ClassVar[int]
    MISSES_FIELD_NUMBER: _ClassVar[int]
    EVICTIONS_FIELD_NUMBER: _ClassVar[int]
    phrases: _containers.RepeatedCompositeFieldContainer[KeptPhrase]
    bytes: int
    limit_bytes: int
    hits: int
    misses: int
    evictions: int
    def __init__(self, phrases: _Optional[_Iterable[_Union[KeptPhrase, _Mapping]]] = ..., bytes: _Optional[int] = ..., limit_bytes: _Optional[int] = ..., hits: _Optional[int] = ..., misses: _Optional[int] = ..., evictions: _Optional[int] = ...) -> None: ...

class KeptPhrase(_message.Message):
    __slots__ = ("text", "language", "voice", "speed", "seconds", "bytes", "hits")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    VOICE_FIELD_NUMBER: _ClassVar[int]
    SPEED_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    HITS_FIELD_NUMBER: _ClassVar[int]
    text: str
    language: str
    voice: str
    speed: float
    seconds: float
    bytes: int
    hits: int
    def __init__(self, text: _Optional[str] = ..., language: _Optional[str] = ..., voice: _Optional[str] = ..., speed: _Optional[float] = ..., seconds: _Optional[float] = ..., bytes: _Optional[int] = ..., hits: _Optional[int] = ...) -> None: ...

class ClearPhrasesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ClearPhrasesResponse(_message.Message):
    __slots__ = ("removed",)
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    removed: int
    def __init__(self, removed: _Optional[int] = ...) -> None: ...
