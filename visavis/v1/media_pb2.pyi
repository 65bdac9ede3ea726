from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class VideoCodec(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VIDEO_CODEC_UNSPECIFIED: _ClassVar[VideoCodec]
    H264: _ClassVar[VideoCodec]
    VP8: _ClassVar[VideoCodec]
    BLENDSHAPES: _ClassVar[VideoCodec]
VIDEO_CODEC_UNSPECIFIED: VideoCodec
H264: VideoCodec
VP8: VideoCodec
BLENDSHAPES: VideoCodec

class ChunkHeader(_message.Message):
    __slots__ = ("session", "turn", "seq", "pts", "last", "stamps")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    PTS_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    STAMPS_FIELD_NUMBER: _ClassVar[int]
    session: str
    turn: int
    seq: int
    pts: int
    last: bool
    stamps: _containers.RepeatedCompositeFieldContainer[StageStamp]
    def __init__(self, session: _Optional[str] = ..., turn: _Optional[int] = ..., seq: _Optional[int] = ..., pts: _Optional[int] = ..., last: _Optional[bool] = ..., stamps: _Optional[_Iterable[_Union[StageStamp, _Mapping]]] = ...) -> None: ...

class StageStamp(_message.Message):
    __slots__ = ("stage", "monotonic_ns", "clock")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    MONOTONIC_NS_FIELD_NUMBER: _ClassVar[int]
    CLOCK_FIELD_NUMBER: _ClassVar[int]
    stage: str
    monotonic_ns: int
    clock: int
    def __init__(self, stage: _Optional[str] = ..., monotonic_ns: _Optional[int] = ..., clock: _Optional[int] = ...) -> None: ...

class PcmChunk(_message.Message):
    __slots__ = ("header", "sample_rate_hz", "pcm_s16le", "marks", "recorded", "run")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_RATE_HZ_FIELD_NUMBER: _ClassVar[int]
    PCM_S16LE_FIELD_NUMBER: _ClassVar[int]
    MARKS_FIELD_NUMBER: _ClassVar[int]
    RECORDED_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    header: ChunkHeader
    sample_rate_hz: int
    pcm_s16le: bytes
    marks: _containers.RepeatedCompositeFieldContainer[TextMark]
    recorded: bool
    run: int
    def __init__(self, header: _Optional[_Union[ChunkHeader, _Mapping]] = ..., sample_rate_hz: _Optional[int] = ..., pcm_s16le: _Optional[bytes] = ..., marks: _Optional[_Iterable[_Union[TextMark, _Mapping]]] = ..., recorded: _Optional[bool] = ..., run: _Optional[int] = ...) -> None: ...

class TextMark(_message.Message):
    __slots__ = ("chars", "samples", "pause")
    CHARS_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    PAUSE_FIELD_NUMBER: _ClassVar[int]
    chars: int
    samples: int
    pause: bool
    def __init__(self, chars: _Optional[int] = ..., samples: _Optional[int] = ..., pause: _Optional[bool] = ...) -> None: ...

class WordTime(_message.Message):
    __slots__ = ("word", "start_ms", "end_ms")
    WORD_FIELD_NUMBER: _ClassVar[int]
    START_MS_FIELD_NUMBER: _ClassVar[int]
    END_MS_FIELD_NUMBER: _ClassVar[int]
    word: str
    start_ms: int
    end_ms: int
    def __init__(self, word: _Optional[str] = ..., start_ms: _Optional[int] = ..., end_ms: _Optional[int] = ...) -> None: ...

class TranscriptChunk(_message.Message):
    __slots__ = ("header", "event", "utterance", "text", "language", "end_of_turn_probability", "words", "speech_end_samples", "stable_characters", "voiced_ms", "compute_ms", "hum_odds")
    class Event(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        EVENT_UNSPECIFIED: _ClassVar[TranscriptChunk.Event]
        SPEECH_STARTED: _ClassVar[TranscriptChunk.Event]
        PARTIAL: _ClassVar[TranscriptChunk.Event]
        FINAL: _ClassVar[TranscriptChunk.Event]
        DISCARDED: _ClassVar[TranscriptChunk.Event]
        PAUSED: _ClassVar[TranscriptChunk.Event]
    EVENT_UNSPECIFIED: TranscriptChunk.Event
    SPEECH_STARTED: TranscriptChunk.Event
    PARTIAL: TranscriptChunk.Event
    FINAL: TranscriptChunk.Event
    DISCARDED: TranscriptChunk.Event
    PAUSED: TranscriptChunk.Event
    HEADER_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    UTTERANCE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    END_OF_TURN_PROBABILITY_FIELD_NUMBER: _ClassVar[int]
    WORDS_FIELD_NUMBER: _ClassVar[int]
    SPEECH_END_SAMPLES_FIELD_NUMBER: _ClassVar[int]
    STABLE_CHARACTERS_FIELD_NUMBER: _ClassVar[int]
    VOICED_MS_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_MS_FIELD_NUMBER: _ClassVar[int]
    HUM_ODDS_FIELD_NUMBER: _ClassVar[int]
    header: ChunkHeader
    event: TranscriptChunk.Event
    utterance: int
    text: str
    language: str
    end_of_turn_probability: float
    words: _containers.RepeatedCompositeFieldContainer[WordTime]
    speech_end_samples: int
    stable_characters: int
    voiced_ms: int
    compute_ms: float
    hum_odds: float
    def __init__(self, header: _Optional[_Union[ChunkHeader, _Mapping]] = ..., event: _Optional[_Union[TranscriptChunk.Event, str]] = ..., utterance: _Optional[int] = ..., text: _Optional[str] = ..., language: _Optional[str] = ..., end_of_turn_probability: _Optional[float] = ..., words: _Optional[_Iterable[_Union[WordTime, _Mapping]]] = ..., speech_end_samples: _Optional[int] = ..., stable_characters: _Optional[int] = ..., voiced_ms: _Optional[int] = ..., compute_ms: _Optional[float] = ..., hum_odds: _Optional[float] = ...) -> None: ...

class TurnChunk(_message.Message):
    __slots__ = ("header", "reason", "held", "style", "motion_frame", "language")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    STYLE_FIELD_NUMBER: _ClassVar[int]
    MOTION_FRAME_FIELD_NUMBER: _ClassVar[int]
    LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    header: ChunkHeader
    reason: str
    held: bool
    style: str
    motion_frame: int
    language: str
    def __init__(self, header: _Optional[_Union[ChunkHeader, _Mapping]] = ..., reason: _Optional[str] = ..., held: _Optional[bool] = ..., style: _Optional[str] = ..., motion_frame: _Optional[int] = ..., language: _Optional[str] = ...) -> None: ...

class TokenChunk(_message.Message):
    __slots__ = ("header", "text", "block", "language", "run")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    header: ChunkHeader
    text: str
    block: int
    language: str
    run: int
    def __init__(self, header: _Optional[_Union[ChunkHeader, _Mapping]] = ..., text: _Optional[str] = ..., block: _Optional[int] = ..., language: _Optional[str] = ..., run: _Optional[int] = ...) -> None: ...

class PhonemeSpan(_message.Message):
    __slots__ = ("symbol", "start_samples", "duration_samples")
    SYMBOL_FIELD_NUMBER: _ClassVar[int]
    START_SAMPLES_FIELD_NUMBER: _ClassVar[int]
    DURATION_SAMPLES_FIELD_NUMBER: _ClassVar[int]
    symbol: str
    start_samples: int
    duration_samples: int
    def __init__(self, symbol: _Optional[str] = ..., start_samples: _Optional[int] = ..., duration_samples: _Optional[int] = ...) -> None: ...

class MelChunk(_message.Message):
    __slots__ = ("header", "sample_rate_hz", "hop_samples", "n_mels", "mel_f16le", "phonemes", "style", "run")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_RATE_HZ_FIELD_NUMBER: _ClassVar[int]
    HOP_SAMPLES_FIELD_NUMBER: _ClassVar[int]
    N_MELS_FIELD_NUMBER: _ClassVar[int]
    MEL_F16LE_FIELD_NUMBER: _ClassVar[int]
    PHONEMES_FIELD_NUMBER: _ClassVar[int]
    STYLE_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    header: ChunkHeader
    sample_rate_hz: int
    hop_samples: int
    n_mels: int
    mel_f16le: bytes
    phonemes: _containers.RepeatedCompositeFieldContainer[PhonemeSpan]
    style: str
    run: int
    def __init__(self, header: _Optional[_Union[ChunkHeader, _Mapping]] = ..., sample_rate_hz: _Optional[int] = ..., hop_samples: _Optional[int] = ..., n_mels: _Optional[int] = ..., mel_f16le: _Optional[bytes] = ..., phonemes: _Optional[_Iterable[_Union[PhonemeSpan, _Mapping]]] = ..., style: _Optional[str] = ..., run: _Optional[int] = ...) -> None: ...

class VideoChunk(_message.Message):
    __slots__ = ("header", "live", "codec", "keyframe", "width", "height", "fps", "data", "number", "motion_frame", "loop", "at_rest", "listening")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    LIVE_FIELD_NUMBER: _ClassVar[int]
    CODEC_FIELD_NUMBER: _ClassVar[int]
    KEYFRAME_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    HEIGHT_FIELD_NUMBER: _ClassVar[int]
    FPS_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    MOTION_FRAME_FIELD_NUMBER: _ClassVar[int]
    LOOP_FIELD_NUMBER: _ClassVar[int]
    AT_REST_FIELD_NUMBER: _ClassVar[int]
    LISTENING_FIELD_NUMBER: _ClassVar[int]
    header: ChunkHeader
    live: bool
    codec: VideoCodec
    keyframe: bool
    width: int
    height: int
    fps: int
    data: bytes
    number: int
    motion_frame: int
    loop: str
    at_rest: bool
    listening: bool
    def __init__(self, header: _Optional[_Union[ChunkHeader, _Mapping]] = ..., live: _Optional[bool] = ..., codec: _Optional[_Union[VideoCodec, str]] = ..., keyframe: _Optional[bool] = ..., width: _Optional[int] = ..., height: _Optional[int] = ..., fps: _Optional[int] = ..., data: _Optional[bytes] = ..., number: _Optional[int] = ..., motion_frame: _Optional[int] = ..., loop: _Optional[str] = ..., at_rest: _Optional[bool] = ..., listening: _Optional[bool] = ...) -> None: ...

class BlendshapeChunk(_message.Message):
    __slots__ = ("header", "live", "fps", "weights", "head_rotation")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    LIVE_FIELD_NUMBER: _ClassVar[int]
    FPS_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    HEAD_ROTATION_FIELD_NUMBER: _ClassVar[int]
    header: ChunkHeader
    live: bool
    fps: int
    weights: _containers.RepeatedScalarFieldContainer[float]
    head_rotation: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, header: _Optional[_Union[ChunkHeader, _Mapping]] = ..., live: _Optional[bool] = ..., fps: _Optional[int] = ..., weights: _Optional[_Iterable[float]] = ..., head_rotation: _Optional[_Iterable[float]] = ...) -> None: ...

class ClockChunk(_message.Message):
    __slots__ = ("header", "sample_rate_hz", "paused", "motion_frame")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_RATE_HZ_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    MOTION_FRAME_FIELD_NUMBER: _ClassVar[int]
    header: ChunkHeader
    sample_rate_hz: int
    paused: bool
    motion_frame: int
    def __init__(self, header: _Optional[_Union[ChunkHeader, _Mapping]] = ..., sample_rate_hz: _Optional[int] = ..., paused: _Optional[bool] = ..., motion_frame: _Optional[int] = ...) -> None: ...
