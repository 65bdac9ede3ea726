from visavis.v1 import control_pb2 as _control_pb2
from visavis.v1 import media_pb2 as _media_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RecognitionConfig(_message.Message):
    __slots__ = ("sample_rate_hz", "language", "interim_results", "recorded", "endpointing", "foresight")
    SAMPLE_RATE_HZ_FIELD_NUMBER: _ClassVar[int]
    LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    INTERIM_RESULTS_FIELD_NUMBER: _ClassVar[int]
    RECORDED_FIELD_NUMBER: _ClassVar[int]
    ENDPOINTING_FIELD_NUMBER: _ClassVar[int]
    FORESIGHT_FIELD_NUMBER: _ClassVar[int]
    sample_rate_hz: int
    language: str
    interim_results: bool
    recorded: bool
    endpointing: Endpointing
    foresight: bool
    def __init__(self, sample_rate_hz: _Optional[int] = ..., language: _Optional[str] = ..., interim_results: _Optional[bool] = ..., recorded: _Optional[bool] = ..., endpointing: _Optional[_Union[Endpointing, _Mapping]] = ..., foresight: _Optional[bool] = ...) -> None: ...

class Endpointing(_message.Message):
    __slots__ = ("speech_probability", "lead_ms", "silence_ms", "patience_ms", "asked", "answered")
    SPEECH_PROBABILITY_FIELD_NUMBER: _ClassVar[int]
    LEAD_MS_FIELD_NUMBER: _ClassVar[int]
    SILENCE_MS_FIELD_NUMBER: _ClassVar[int]
    PATIENCE_MS_FIELD_NUMBER: _ClassVar[int]
    ASKED_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_FIELD_NUMBER: _ClassVar[int]
    speech_probability: float
    lead_ms: int
    silence_ms: int
    patience_ms: int
    asked: bool
    answered: int
    def __init__(self, speech_probability: _Optional[float] = ..., lead_ms: _Optional[int] = ..., silence_ms: _Optional[int] = ..., patience_ms: _Optional[int] = ..., asked: _Optional[bool] = ..., answered: _Optional[int] = ...) -> None: ...

class RecognizeRequest(_message.Message):
    __slots__ = ("config", "pcm_s16le")
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    PCM_S16LE_FIELD_NUMBER: _ClassVar[int]
    config: RecognitionConfig
    pcm_s16le: bytes
    def __init__(self, config: _Optional[_Union[RecognitionConfig, _Mapping]] = ..., pcm_s16le: _Optional[bytes] = ...) -> None: ...

class RecognizeResponse(_message.Message):
    __slots__ = ("text", "language", "words", "audio_ms")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    WORDS_FIELD_NUMBER: _ClassVar[int]
    AUDIO_MS_FIELD_NUMBER: _ClassVar[int]
    text: str
    language: str
    words: _containers.RepeatedCompositeFieldContainer[_media_pb2.WordTime]
    audio_ms: int
    def __init__(self, text: _Optional[str] = ..., language: _Optional[str] = ..., words: _Optional[_Iterable[_Union[_media_pb2.WordTime, _Mapping]]] = ..., audio_ms: _Optional[int] = ...) -> None: ...

class StreamingRecognizeRequest(_message.Message):
    __slots__ = ("config", "pcm_s16le")
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    PCM_S16LE_FIELD_NUMBER: _ClassVar[int]
    config: RecognitionConfig
    pcm_s16le: bytes
    def __init__(self, config: _Optional[_Union[RecognitionConfig, _Mapping]] = ..., pcm_s16le: _Optional[bytes] = ...) -> None: ...

class StreamingRecognizeResponse(_message.Message):
    __slots__ = ("transcript",)
    TRANSCRIPT_FIELD_NUMBER: _ClassVar[int]
    transcript: _media_pb2.TranscriptChunk
    def __init__(self, transcript: _Optional[_Union[_media_pb2.TranscriptChunk, _Mapping]] = ...) -> None: ...

class AsrAttachRequest(_message.Message):
    __slots__ = ("config", "listening")
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    LISTENING_FIELD_NUMBER: _ClassVar[int]
    config: AsrAttachConfig
    listening: Listening
    def __init__(self, config: _Optional[_Union[AsrAttachConfig, _Mapping]] = ..., listening: _Optional[_Union[Listening, _Mapping]] = ...) -> None: ...

class Listening(_message.Message):
    __slots__ = ("language", "endpointing")
    LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    ENDPOINTING_FIELD_NUMBER: _ClassVar[int]
    language: str
    endpointing: Endpointing
    def __init__(self, language: _Optional[str] = ..., endpointing: _Optional[_Union[Endpointing, _Mapping]] = ...) -> None: ...

class AsrAttachConfig(_message.Message):
    __slots__ = ("session", "recognition", "first_utterance", "admitted")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    RECOGNITION_FIELD_NUMBER: _ClassVar[int]
    FIRST_UTTERANCE_FIELD_NUMBER: _ClassVar[int]
    ADMITTED_FIELD_NUMBER: _ClassVar[int]
    session: str
    recognition: RecognitionConfig
    first_utterance: int
    admitted: bool
    def __init__(self, session: _Optional[str] = ..., recognition: _Optional[_Union[RecognitionConfig, _Mapping]] = ..., first_utterance: _Optional[int] = ..., admitted: _Optional[bool] = ...) -> None: ...
