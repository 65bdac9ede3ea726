from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EventType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    END_OF_A2F_AUDIO_PROCESSING: _ClassVar[EventType]
END_OF_A2F_AUDIO_PROCESSING: EventType

class AudioStream(_message.Message):
    __slots__ = ("audio_stream_header", "audio_with_emotion", "end_of_audio")
    class EndOfAudio(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    AUDIO_STREAM_HEADER_FIELD_NUMBER: _ClassVar[int]
    AUDIO_WITH_EMOTION_FIELD_NUMBER: _ClassVar[int]
    END_OF_AUDIO_FIELD_NUMBER: _ClassVar[int]
    audio_stream_header: AudioStreamHeader
    audio_with_emotion: AudioWithEmotion
    end_of_audio: AudioStream.EndOfAudio
    def __init__(self, audio_stream_header: _Optional[_Union[AudioStreamHeader, _Mapping]] = ..., audio_with_emotion: _Optional[_Union[AudioWithEmotion, _Mapping]] = ..., end_of_audio: _Optional[_Union[AudioStream.EndOfAudio, _Mapping]] = ...) -> None: ...

class AudioStreamHeader(_message.Message):
    __slots__ = ("audio_header", "emotion_post_processing_params", "blendshape_params", "emotion_params")
    AUDIO_HEADER_FIELD_NUMBER: _ClassVar[int]
    EMOTION_POST_PROCESSING_PARAMS_FIELD_NUMBER: _ClassVar[int]
    BLENDSHAPE_PARAMS_FIELD_NUMBER: _ClassVar[int]
    EMOTION_PARAMS_FIELD_NUMBER: _ClassVar[int]
    audio_header: AudioHeader
    emotion_post_processing_params: EmotionPostProcessingParameters
    blendshape_params: BlendShapeParameters
    emotion_params: EmotionParameters
    def __init__(self, audio_header: _Optional[_Union[AudioHeader, _Mapping]] = ..., emotion_post_processing_params: _Optional[_Union[EmotionPostProcessingParameters, _Mapping]] = ..., blendshape_params: _Optional[_Union[BlendShapeParameters, _Mapping]] = ..., emotion_params: _Optional[_Union[EmotionParameters, _Mapping]] = ...) -> None: ...

class AudioHeader(_message.Message):
    __slots__ = ("audio_format", "channel_count", "samples_per_second", "bits_per_sample")
    class AudioFormat(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        AUDIO_FORMAT_PCM: _ClassVar[AudioHeader.AudioFormat]
    AUDIO_FORMAT_PCM: AudioHeader.AudioFormat
    AUDIO_FORMAT_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_COUNT_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    BITS_PER_SAMPLE_FIELD_NUMBER: _ClassVar[int]
    audio_format: AudioHeader.AudioFormat
    channel_count: int
    samples_per_second: int
    bits_per_sample: int
    def __init__(self, audio_format: _Optional[_Union[AudioHeader.AudioFormat, str]] = ..., channel_count: _Optional[int] = ..., samples_per_second: _Optional[int] = ..., bits_per_sample: _Optional[int] = ...) -> None: ...

class EmotionPostProcessingParameters(_message.Message):
    __slots__ = ("emotion_strength",)
    EMOTION_STRENGTH_FIELD_NUMBER: _ClassVar[int]
    emotion_strength: float
    def __init__(self, emotion_strength: _Optional[float] = ...) -> None: ...

class BlendShapeParameters(_message.Message):
    __slots__ = ("bs_weight_multipliers", "bs_weight_offsets", "enable_clamping_bs_weight")
    class BsWeightMultipliersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    class BsWeightOffsetsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    BS_WEIGHT_MULTIPLIERS_FIELD_NUMBER: _ClassVar[int]
    BS_WEIGHT_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    ENABLE_CLAMPING_BS_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    bs_weight_multipliers: _containers.ScalarMap[str, float]
    bs_weight_offsets: _containers.ScalarMap[str, float]
    enable_clamping_bs_weight: bool
    def __init__(self, bs_weight_multipliers: _Optional[_Mapping[str, float]] = ..., bs_weight_offsets: _Optional[_Mapping[str, float]] = ..., enable_clamping_bs_weight: _Optional[bool] = ...) -> None: ...

class EmotionParameters(_message.Message):
    __slots__ = ("beginning_emotion",)
    class BeginningEmotionEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    BEGINNING_EMOTION_FIELD_NUMBER: _ClassVar[int]
    beginning_emotion: _containers.ScalarMap[str, float]
    def __init__(self, beginning_emotion: _Optional[_Mapping[str, float]] = ...) -> None: ...

class AudioWithEmotion(_message.Message):
    __slots__ = ("audio_buffer", "emotions")
    AUDIO_BUFFER_FIELD_NUMBER: _ClassVar[int]
    EMOTIONS_FIELD_NUMBER: _ClassVar[int]
    audio_buffer: bytes
    emotions: _containers.RepeatedCompositeFieldContainer[EmotionWithTimeCode]
    def __init__(self, audio_buffer: _Optional[bytes] = ..., emotions: _Optional[_Iterable[_Union[EmotionWithTimeCode, _Mapping]]] = ...) -> None: ...

class EmotionWithTimeCode(_message.Message):
    __slots__ = ("time_code", "emotion")
    class EmotionEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    TIME_CODE_FIELD_NUMBER: _ClassVar[int]
    EMOTION_FIELD_NUMBER: _ClassVar[int]
    time_code: float
    emotion: _containers.ScalarMap[str, float]
    def __init__(self, time_code: _Optional[float] = ..., emotion: _Optional[_Mapping[str, float]] = ...) -> None: ...

class AnimationDataStream(_message.Message):
    __slots__ = ("animation_data_stream_header", "animation_data", "event", "status")
    ANIMATION_DATA_STREAM_HEADER_FIELD_NUMBER: _ClassVar[int]
    ANIMATION_DATA_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    animation_data_stream_header: AnimationDataStreamHeader
    animation_data: AnimationData
    event: Event
    status: Status
    def __init__(self, animation_data_stream_header: _Optional[_Union[AnimationDataStreamHeader, _Mapping]] = ..., animation_data: _Optional[_Union[AnimationData, _Mapping]] = ..., event: _Optional[_Union[Event, _Mapping]] = ..., status: _Optional[_Union[Status, _Mapping]] = ...) -> None: ...

class AnimationDataStreamHeader(_message.Message):
    __slots__ = ("audio_header", "skel_animation_header", "start_time_code_since_epoch")
    AUDIO_HEADER_FIELD_NUMBER: _ClassVar[int]
    SKEL_ANIMATION_HEADER_FIELD_NUMBER: _ClassVar[int]
    START_TIME_CODE_SINCE_EPOCH_FIELD_NUMBER: _ClassVar[int]
    audio_header: AudioHeader
    skel_animation_header: SkelAnimationHeader
    start_time_code_since_epoch: float
    def __init__(self, audio_header: _Optional[_Union[AudioHeader, _Mapping]] = ..., skel_animation_header: _Optional[_Union[SkelAnimationHeader, _Mapping]] = ..., start_time_code_since_epoch: _Optional[float] = ...) -> None: ...

class SkelAnimationHeader(_message.Message):
    __slots__ = ("blend_shapes",)
    BLEND_SHAPES_FIELD_NUMBER: _ClassVar[int]
    blend_shapes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, blend_shapes: _Optional[_Iterable[str]] = ...) -> None: ...

class AnimationData(_message.Message):
    __slots__ = ("skel_animation", "audio")
    SKEL_ANIMATION_FIELD_NUMBER: _ClassVar[int]
    AUDIO_FIELD_NUMBER: _ClassVar[int]
    skel_animation: SkelAnimation
    audio: AudioWithTimeCode
    def __init__(self, skel_animation: _Optional[_Union[SkelAnimation, _Mapping]] = ..., audio: _Optional[_Union[AudioWithTimeCode, _Mapping]] = ...) -> None: ...

class SkelAnimation(_message.Message):
    __slots__ = ("blend_shape_weights",)
    BLEND_SHAPE_WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    blend_shape_weights: _containers.RepeatedCompositeFieldContainer[FloatArrayWithTimeCode]
    def __init__(self, blend_shape_weights: _Optional[_Iterable[_Union[FloatArrayWithTimeCode, _Mapping]]] = ...) -> None: ...

class FloatArrayWithTimeCode(_message.Message):
    __slots__ = ("time_code", "values")
    TIME_CODE_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    time_code: float
    values: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, time_code: _Optional[float] = ..., values: _Optional[_Iterable[float]] = ...) -> None: ...

class AudioWithTimeCode(_message.Message):
    __slots__ = ("time_code", "audio_buffer")
    TIME_CODE_FIELD_NUMBER: _ClassVar[int]
    AUDIO_BUFFER_FIELD_NUMBER: _ClassVar[int]
    time_code: float
    audio_buffer: bytes
    def __init__(self, time_code: _Optional[float] = ..., audio_buffer: _Optional[bytes] = ...) -> None: ...

class Event(_message.Message):
    __slots__ = ("event_type",)
    EVENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    event_type: EventType
    def __init__(self, event_type: _Optional[_Union[EventType, str]] = ...) -> None: ...

class Status(_message.Message):
    __slots__ = ("code", "message")
    class Code(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        SUCCESS: _ClassVar[Status.Code]
        INFO: _ClassVar[Status.Code]
        WARNING: _ClassVar[Status.Code]
        ERROR: _ClassVar[Status.Code]
    SUCCESS: Status.Code
    INFO: Status.Code
    WARNING: Status.Code
    ERROR: Status.Code
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    code: Status.Code
    message: str
    def __init__(self, code: _Optional[_Union[Status.Code, str]] = ..., message: _Optional[str] = ...) -> None: ...
