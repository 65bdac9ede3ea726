from visavis.v1 import control_pb2 as _control_pb2
from visavis.v1 import media_pb2 as _media_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class FaceConfig(_message.Message):
    __slots__ = ("avatar", "source", "codecs", "blendshapes", "seed", "start_frame")
    class Source(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        SOURCE_MEL: _ClassVar[FaceConfig.Source]
        SOURCE_VOICE: _ClassVar[FaceConfig.Source]
    SOURCE_MEL: FaceConfig.Source
    SOURCE_VOICE: FaceConfig.Source
    AVATAR_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    CODECS_FIELD_NUMBER: _ClassVar[int]
    BLENDSHAPES_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    START_FRAME_FIELD_NUMBER: _ClassVar[int]
    avatar: str
    source: FaceConfig.Source
    codecs: _containers.RepeatedScalarFieldContainer[_media_pb2.VideoCodec]
    blendshapes: bool
    seed: int
    start_frame: int
    def __init__(self, avatar: _Optional[str] = ..., source: _Optional[_Union[FaceConfig.Source, str]] = ..., codecs: _Optional[_Iterable[_Union[_media_pb2.VideoCodec, str]]] = ..., blendshapes: _Optional[bool] = ..., seed: _Optional[int] = ..., start_frame: _Optional[int] = ...) -> None: ...

class AnimateRequest(_message.Message):
    __slots__ = ("config", "mel", "voice")
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    MEL_FIELD_NUMBER: _ClassVar[int]
    VOICE_FIELD_NUMBER: _ClassVar[int]
    config: FaceConfig
    mel: _media_pb2.MelChunk
    voice: _media_pb2.PcmChunk
    def __init__(self, config: _Optional[_Union[FaceConfig, _Mapping]] = ..., mel: _Optional[_Union[_media_pb2.MelChunk, _Mapping]] = ..., voice: _Optional[_Union[_media_pb2.PcmChunk, _Mapping]] = ...) -> None: ...

class AnimateResponse(_message.Message):
    __slots__ = ("video", "face")
    VIDEO_FIELD_NUMBER: _ClassVar[int]
    FACE_FIELD_NUMBER: _ClassVar[int]
    video: _media_pb2.VideoChunk
    face: _media_pb2.BlendshapeChunk
    def __init__(self, video: _Optional[_Union[_media_pb2.VideoChunk, _Mapping]] = ..., face: _Optional[_Union[_media_pb2.BlendshapeChunk, _Mapping]] = ...) -> None: ...

class FaceAttachRequest(_message.Message):
    __slots__ = ("config", "keyframe", "codecs", "idle", "attention", "resume", "bitrate")
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    KEYFRAME_FIELD_NUMBER: _ClassVar[int]
    CODECS_FIELD_NUMBER: _ClassVar[int]
    IDLE_FIELD_NUMBER: _ClassVar[int]
    ATTENTION_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    BITRATE_FIELD_NUMBER: _ClassVar[int]
    config: FaceAttachConfig
    keyframe: KeyframeRequest
    codecs: SetCodecs
    idle: SetIdle
    attention: SetAttention
    resume: ResumeFace
    bitrate: SetBitrate
    def __init__(self, config: _Optional[_Union[FaceAttachConfig, _Mapping]] = ..., keyframe: _Optional[_Union[KeyframeRequest, _Mapping]] = ..., codecs: _Optional[_Union[SetCodecs, _Mapping]] = ..., idle: _Optional[_Union[SetIdle, _Mapping]] = ..., attention: _Optional[_Union[SetAttention, _Mapping]] = ..., resume: _Optional[_Union[ResumeFace, _Mapping]] = ..., bitrate: _Optional[_Union[SetBitrate, _Mapping]] = ...) -> None: ...

class ResumeFace(_message.Message):
    __slots__ = ("turn", "mel", "voice", "clock")
    TURN_FIELD_NUMBER: _ClassVar[int]
    MEL_FIELD_NUMBER: _ClassVar[int]
    VOICE_FIELD_NUMBER: _ClassVar[int]
    CLOCK_FIELD_NUMBER: _ClassVar[int]
    turn: _media_pb2.TurnChunk
    mel: _containers.RepeatedCompositeFieldContainer[_media_pb2.MelChunk]
    voice: _containers.RepeatedCompositeFieldContainer[_media_pb2.PcmChunk]
    clock: _media_pb2.ClockChunk
    def __init__(self, turn: _Optional[_Union[_media_pb2.TurnChunk, _Mapping]] = ..., mel: _Optional[_Iterable[_Union[_media_pb2.MelChunk, _Mapping]]] = ..., voice: _Optional[_Iterable[_Union[_media_pb2.PcmChunk, _Mapping]]] = ..., clock: _Optional[_Union[_media_pb2.ClockChunk, _Mapping]] = ...) -> None: ...

class FaceAttachConfig(_message.Message):
    __slots__ = ("session", "face", "admitted")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    FACE_FIELD_NUMBER: _ClassVar[int]
    ADMITTED_FIELD_NUMBER: _ClassVar[int]
    session: str
    face: FaceConfig
    admitted: bool
    def __init__(self, session: _Optional[str] = ..., face: _Optional[_Union[FaceConfig, _Mapping]] = ..., admitted: _Optional[bool] = ...) -> None: ...

class KeyframeRequest(_message.Message):
    __slots__ = ("codec",)
    CODEC_FIELD_NUMBER: _ClassVar[int]
    codec: _media_pb2.VideoCodec
    def __init__(self, codec: _Optional[_Union[_media_pb2.VideoCodec, str]] = ...) -> None: ...

class SetCodecs(_message.Message):
    __slots__ = ("codecs",)
    CODECS_FIELD_NUMBER: _ClassVar[int]
    codecs: _containers.RepeatedScalarFieldContainer[_media_pb2.VideoCodec]
    def __init__(self, codecs: _Optional[_Iterable[_Union[_media_pb2.VideoCodec, str]]] = ...) -> None: ...

class SetBitrate(_message.Message):
    __slots__ = ("most_kbps",)
    MOST_KBPS_FIELD_NUMBER: _ClassVar[int]
    most_kbps: int
    def __init__(self, most_kbps: _Optional[int] = ...) -> None: ...

class SetIdle(_message.Message):
    __slots__ = ("live", "motion_frame")
    LIVE_FIELD_NUMBER: _ClassVar[int]
    MOTION_FRAME_FIELD_NUMBER: _ClassVar[int]
    live: bool
    motion_frame: int
    def __init__(self, live: _Optional[bool] = ..., motion_frame: _Optional[int] = ...) -> None: ...

class SetAttention(_message.Message):
    __slots__ = ("phase", "cue", "shown_from")
    class Phase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        NOBODY: _ClassVar[SetAttention.Phase]
        LISTENING: _ClassVar[SetAttention.Phase]
        THINKING: _ClassVar[SetAttention.Phase]
    NOBODY: SetAttention.Phase
    LISTENING: SetAttention.Phase
    THINKING: SetAttention.Phase
    PHASE_FIELD_NUMBER: _ClassVar[int]
    CUE_FIELD_NUMBER: _ClassVar[int]
    SHOWN_FROM_FIELD_NUMBER: _ClassVar[int]
    phase: SetAttention.Phase
    cue: bool
    shown_from: int
    def __init__(self, phase: _Optional[_Union[SetAttention.Phase, str]] = ..., cue: _Optional[bool] = ..., shown_from: _Optional[int] = ...) -> None: ...

class RenderLoopRequest(_message.Message):
    __slots__ = ("avatar", "codec", "listening")
    AVATAR_FIELD_NUMBER: _ClassVar[int]
    CODEC_FIELD_NUMBER: _ClassVar[int]
    LISTENING_FIELD_NUMBER: _ClassVar[int]
    avatar: str
    codec: _media_pb2.VideoCodec
    listening: bool
    def __init__(self, avatar: _Optional[str] = ..., codec: _Optional[_Union[_media_pb2.VideoCodec, str]] = ..., listening: _Optional[bool] = ...) -> None: ...

class RenderLoopResponse(_message.Message):
    __slots__ = ("loop", "pictures")
    LOOP_FIELD_NUMBER: _ClassVar[int]
    PICTURES_FIELD_NUMBER: _ClassVar[int]
    loop: IdleLoop
    pictures: LoopPictures
    def __init__(self, loop: _Optional[_Union[IdleLoop, _Mapping]] = ..., pictures: _Optional[_Union[LoopPictures, _Mapping]] = ...) -> None: ...

class IdleLoop(_message.Message):
    __slots__ = ("digest", "codec", "width", "height", "fps", "pictures", "segments", "listening")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    CODEC_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    HEIGHT_FIELD_NUMBER: _ClassVar[int]
    FPS_FIELD_NUMBER: _ClassVar[int]
    PICTURES_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    LISTENING_FIELD_NUMBER: _ClassVar[int]
    digest: str
    codec: _media_pb2.VideoCodec
    width: int
    height: int
    fps: int
    pictures: int
    segments: int
    listening: bool
    def __init__(self, digest: _Optional[str] = ..., codec: _Optional[_Union[_media_pb2.VideoCodec, str]] = ..., width: _Optional[int] = ..., height: _Optional[int] = ..., fps: _Optional[int] = ..., pictures: _Optional[int] = ..., segments: _Optional[int] = ..., listening: _Optional[bool] = ...) -> None: ...

class LoopPictures(_message.Message):
    __slots__ = ("pictures",)
    PICTURES_FIELD_NUMBER: _ClassVar[int]
    pictures: _containers.RepeatedCompositeFieldContainer[LoopPicture]
    def __init__(self, pictures: _Optional[_Iterable[_Union[LoopPicture, _Mapping]]] = ...) -> None: ...

class LoopPicture(_message.Message):
    __slots__ = ("data", "keyframe")
    DATA_FIELD_NUMBER: _ClassVar[int]
    KEYFRAME_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    keyframe: bool
    def __init__(self, data: _Optional[bytes] = ..., keyframe: _Optional[bool] = ...) -> None: ...

class ListAvatarsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListAvatarsResponse(_message.Message):
    __slots__ = ("avatars",)
    AVATARS_FIELD_NUMBER: _ClassVar[int]
    avatars: _containers.RepeatedCompositeFieldContainer[Avatar]
    def __init__(self, avatars: _Optional[_Iterable[_Union[Avatar, _Mapping]]] = ...) -> None: ...

class Avatar(_message.Message):
    __slots__ = ("name", "width", "height", "builtin", "licence", "consent", "head", "engine", "left_out")
    NAME_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    HEIGHT_FIELD_NUMBER: _ClassVar[int]
    BUILTIN_FIELD_NUMBER: _ClassVar[int]
    LICENCE_FIELD_NUMBER: _ClassVar[int]
    CONSENT_FIELD_NUMBER: _ClassVar[int]
    HEAD_FIELD_NUMBER: _ClassVar[int]
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    name: str
    width: int
    height: int
    builtin: bool
    licence: str
    consent: Consent
    head: bool
    engine: str
    left_out: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., width: _Optional[int] = ..., height: _Optional[int] = ..., builtin: _Optional[bool] = ..., licence: _Optional[str] = ..., consent: _Optional[_Union[Consent, _Mapping]] = ..., head: _Optional[bool] = ..., engine: _Optional[str] = ..., left_out: _Optional[_Iterable[str]] = ...) -> None: ...

class Consent(_message.Message):
    __slots__ = ("likeness", "agreed_to", "stated_by", "stated_via", "stated_at")
    LIKENESS_FIELD_NUMBER: _ClassVar[int]
    AGREED_TO_FIELD_NUMBER: _ClassVar[int]
    STATED_BY_FIELD_NUMBER: _ClassVar[int]
    STATED_VIA_FIELD_NUMBER: _ClassVar[int]
    STATED_AT_FIELD_NUMBER: _ClassVar[int]
    likeness: str
    agreed_to: str
    stated_by: str
    stated_via: str
    stated_at: str
    def __init__(self, likeness: _Optional[str] = ..., agreed_to: _Optional[str] = ..., stated_by: _Optional[str] = ..., stated_via: _Optional[str] = ..., stated_at: _Optional[str] = ...) -> None: ...

class GetAvatarPortraitRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class AvatarPortrait(_message.Message):
    __slots__ = ("jpeg",)
    JPEG_FIELD_NUMBER: _ClassVar[int]
    jpeg: bytes
    def __init__(self, jpeg: _Optional[bytes] = ...) -> None: ...

class GetAvatarHeadRequest(_message.Message):
    __slots__ = ("name", "known_sha256", "file")
    class File(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        FILE_MODEL: _ClassVar[GetAvatarHeadRequest.File]
        FILE_SCENE: _ClassVar[GetAvatarHeadRequest.File]
        FILE_BACKGROUND: _ClassVar[GetAvatarHeadRequest.File]
    FILE_MODEL: GetAvatarHeadRequest.File
    FILE_SCENE: GetAvatarHeadRequest.File
    FILE_BACKGROUND: GetAvatarHeadRequest.File
    NAME_FIELD_NUMBER: _ClassVar[int]
    KNOWN_SHA256_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    name: str
    known_sha256: str
    file: GetAvatarHeadRequest.File
    def __init__(self, name: _Optional[str] = ..., known_sha256: _Optional[str] = ..., file: _Optional[_Union[GetAvatarHeadRequest.File, str]] = ...) -> None: ...

class AvatarHead(_message.Message):
    __slots__ = ("content", "sha256")
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    content: bytes
    sha256: str
    def __init__(self, content: _Optional[bytes] = ..., sha256: _Optional[str] = ...) -> None: ...

class CreateAvatarRequest(_message.Message):
    __slots__ = ("name", "image", "consent")
    NAME_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    CONSENT_FIELD_NUMBER: _ClassVar[int]
    name: str
    image: bytes
    consent: Consent
    def __init__(self, name: _Optional[str] = ..., image: _Optional[bytes] = ..., consent: _Optional[_Union[Consent, _Mapping]] = ...) -> None: ...

class DeleteAvatarRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class DeleteAvatarResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RenameAvatarRequest(_message.Message):
    __slots__ = ("name", "new_name")
    NAME_FIELD_NUMBER: _ClassVar[int]
    NEW_NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    new_name: str
    def __init__(self, name: _Optional[str] = ..., new_name: _Optional[str] = ...) -> None: ...

class FaceStatus(_message.Message):
    __slots__ = ("service", "blendshapes")
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    BLENDSHAPES_FIELD_NUMBER: _ClassVar[int]
    service: _control_pb2.ServiceStatus
    blendshapes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, service: _Optional[_Union[_control_pb2.ServiceStatus, _Mapping]] = ..., blendshapes: _Optional[_Iterable[str]] = ...) -> None: ...
