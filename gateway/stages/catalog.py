"""Voices and avatars, as the tts and face services list them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

import grpc.aio

from gateway.stages.registry import Registry, ReplicaState
from visavis.serving.errors import (
    AlreadyExistsError,
    AtCapacityError,
    InvalidInputError,
    OutOfOrderError,
    StageLostError,
    UnknownNameError,
    VisavisError,
    without_addresses,
)
from visavis.serving.lease import CallLimit
from visavis.v1 import face_pb2, tts_pb2

CALL_TIMEOUT_S = 5.0
CREATE_TIMEOUT_S = 60.0
DELETE_TIMEOUT_S = 25.0
UPLOADS_AT_ONCE = 8
_NONE_RUNS = "{}: no replica is running"

_READING = ("List", "Get")
"""Calls that any other replica can answer where the first one has just gone, or hangs."""
_ERRORS: dict[grpc.StatusCode, type[VisavisError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidInputError,
    grpc.StatusCode.NOT_FOUND: UnknownNameError,
    grpc.StatusCode.ALREADY_EXISTS: AlreadyExistsError,
    grpc.StatusCode.FAILED_PRECONDITION: OutOfOrderError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: AtCapacityError,
}


class _GoneError(StageLostError):
    """A replica ends while it is asked."""


class _SilentError(StageLostError):
    """A replica does not answer in time."""


@dataclass(frozen=True, slots=True)
class Voice:
    """One voice. languages: BCP 47; controls: what of its speech can be set; styles: by name."""

    name: str
    languages: list[str]
    gender: str
    sample_rate_hz: int
    licence: str
    description: str
    controls: list[str]
    styles: list[str]


@dataclass(frozen=True, slots=True)
class Avatar:
    """One face, `width` x `height` pixels. builtin: it ships with the product. engine: draws it.
    left_out: what is not drawn of the head that it was just made of, each as a whole sentence.
    """

    name: str
    width: int
    height: int
    builtin: bool
    licence: str
    head: bool
    engine: str
    left_out: tuple[str, ...] = ()


class HeadFile(Enum):
    """What clients need that draw a head themselves."""

    MODEL = face_pb2.GetAvatarHeadRequest.FILE_MODEL
    SCENE = face_pb2.GetAvatarHeadRequest.FILE_SCENE
    BACKGROUND = face_pb2.GetAvatarHeadRequest.FILE_BACKGROUND


@dataclass(frozen=True, slots=True)
class HeadContent:
    """A file of a head that clients draw themselves. content: empty where it is the one that is
    known.
    """

    content: bytes
    sha256: str


@dataclass(frozen=True, slots=True)
class Consent:
    """What the person in a photograph has agreed to, as it was stated. For operators: it names
    people. stated_at: ISO 8601, set by the service.
    """

    likeness: str
    agreed_to: str
    stated_by: str
    stated_via: str
    stated_at: str = ""


class Catalog:
    """Lists and makes voices and avatars: asks any replica, for all of a service know the same."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.uploads = CallLimit(UPLOADS_AT_ONCE, "uploads")
        """Each holds its photo in memory."""

    async def voices(self, language: str = "") -> list[Voice]:
        """Of one language, "": all. Raises StageLostError where no tts runs."""
        request = tts_pb2.ListVoicesRequest(language=language)
        answer: tts_pb2.ListVoicesResponse = await self._call("tts", "ListVoices", request)
        return [
            Voice(
                name=voice.name,
                languages=list(voice.languages),
                gender=voice.gender,
                sample_rate_hz=voice.sample_rate_hz,
                licence=voice.licence,
                description=voice.description,
                controls=list(voice.controls),
                styles=list(voice.styles),
            )
            for voice in answer.voices
        ]

    async def avatars(self) -> list[Avatar]:
        """The first one is the default. Raises StageLostError where no face runs."""
        answer: face_pb2.ListAvatarsResponse = await self._call(
            "face", "ListAvatars", face_pb2.ListAvatarsRequest()
        )
        return [_avatar_of(avatar) for avatar in answer.avatars]

    async def portrait(self, name: str) -> bytes:
        """JPEG. Raises UnknownNameError."""
        request = face_pb2.GetAvatarPortraitRequest(name=name)
        answer: face_pb2.AvatarPortrait = await self._call("face", "GetAvatarPortrait", request)
        return answer.jpeg

    async def consent(self, name: str) -> Consent:
        """Raises UnknownNameError, also where none was stated."""
        answer: face_pb2.ListAvatarsResponse = await self._call(
            "face", "ListAvatars", face_pb2.ListAvatarsRequest()
        )
        known = {avatar.name: avatar for avatar in answer.avatars}
        _known("avatar", name, list(known))
        if not known[name].HasField("consent"):
            raise UnknownNameError(f"consent: of {name!r} none was stated")
        told = known[name].consent
        return Consent(
            told.likeness, told.agreed_to, told.stated_by, told.stated_via, told.stated_at
        )

    async def head(self, name: str, file: HeadFile, known_sha256: str = "") -> HeadContent:
        """What clients need that draw an avatar. Raises UnknownNameError, also where it is no
        head.
        """
        request = face_pb2.GetAvatarHeadRequest(
            name=name, known_sha256=known_sha256, file=file.value
        )
        answer: face_pb2.AvatarHead = await self._call("face", "GetAvatarHead", request)
        return HeadContent(answer.content, answer.sha256)

    async def create_avatar(self, name: str, image: bytes, consent: Consent | None) -> Avatar:
        """Raises InvalidInputError with the reason why a picture will not do, or what has to be
        stated with it; AlreadyExistsError, AtCapacityError.
        """
        told = None if consent is None else face_pb2.Consent(**asdict(consent))
        request = face_pb2.CreateAvatarRequest(name=name, image=image, consent=told)
        made = await self._call("face", "CreateAvatar", request, timeout_s=CREATE_TIMEOUT_S)
        return _avatar_of(made)

    async def delete_avatar(self, name: str) -> None:
        """Every replica is asked: when this returns, none that answers has it on its disk.

        Raises UnknownNameError, InvalidInputError for one that ships with the product, and
        StageLostError where a replica has failed to delete it.
        """
        request = face_pb2.DeleteAvatarRequest(name=name)
        without: list[VisavisError] = []
        failed: list[VisavisError] = []
        replicas = await self._replicas("face")
        for state in replicas:
            try:
                await self._ask(state, "DeleteAvatar", request, DELETE_TIMEOUT_S)
            except (UnknownNameError, _GoneError) as error:
                # Told by another one; or it looks what there is before it is ready again.
                without.append(error)
            except VisavisError as error:
                failed.append(error)
        if failed or len(without) == len(replicas):
            raise [*failed, *without, StageLostError(_NONE_RUNS.format("face"))][0]

    async def rename_avatar(self, name: str, new_name: str) -> Avatar:
        """Raises UnknownNameError, InvalidInputError, AlreadyExistsError."""
        request = face_pb2.RenameAvatarRequest(name=name, new_name=new_name)
        # What is under the old name is deleted as any other is.
        told = await self._call("face", "RenameAvatar", request, timeout_s=DELETE_TIMEOUT_S)
        return _avatar_of(told)

    async def check_voice(self, name: str) -> None:
        """Raises UnknownNameError that lists what exists."""
        if name:
            _known("voice", name, [v.name for v in await self.voices()])

    def check_language(self, tag: str) -> None:
        """Raises UnknownNameError unless it is both understood and spoken."""
        language = tag.split("-")[0].lower()
        for service in ("asr", "tts"):
            replicas = self._registry.replicas(service)
            known = {name for s in replicas for name in s.languages}
            if known:  # else none is there that could be asked, and the leases will tell
                _known("language", language, sorted(known))

    async def check_avatar(self, name: str) -> None:
        """Raises UnknownNameError that lists what exists."""
        if name:
            _known("avatar", name, [a.name for a in await self.avatars()])

    async def _call(
        self, service: str, method: str, request: Any, *, timeout_s: float | None = None
    ) -> Any:
        within_s = CALL_TIMEOUT_S if timeout_s is None else timeout_s
        failed: VisavisError = StageLostError(_NONE_RUNS.format(service))
        for state in await self._replicas(service):
            try:
                return await self._ask(state, method, request, within_s)
            except (_GoneError, _SilentError) as error:
                failed = error
                if not method.startswith(_READING):
                    break
        raise failed

    async def _replicas(self, service: str) -> list[ReplicaState]:
        """Those that answer."""
        replicas = [s for s in self._registry.replicas(service) if s.healthy]
        if not replicas:
            await self._registry.refresh()
            replicas = [s for s in self._registry.replicas(service) if s.healthy]
        return replicas

    async def _ask(self, state: ReplicaState, method: str, request: Any, timeout_s: float) -> Any:
        stub = self._registry.stub(state.replica)
        try:
            return await getattr(stub, method)(request, timeout=timeout_s)
        except grpc.aio.AioRpcError as error:
            service = state.replica.service
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                why = f"{service}: it does not answer within {timeout_s:g} s"
                raise _SilentError(why) from None
            failed = our_error(error, service)
            gone = error.code() is grpc.StatusCode.UNAVAILABLE
            raise (_GoneError(str(failed)) if gone else failed) from None


def our_error(error: grpc.aio.AioRpcError, service: str) -> VisavisError:
    """For one that a service has answered with, or gRPC in its place."""
    kind, details = _ERRORS.get(error.code(), StageLostError), error.details() or ""
    said = without_addresses(details or error.code().name, service)
    return kind(details if said == details else f"{service}: {said}")


def _avatar_of(avatar: face_pb2.Avatar) -> Avatar:
    name, width, height, builtin = avatar.name, avatar.width, avatar.height, avatar.builtin
    origin = builtin, avatar.licence, avatar.head, avatar.engine
    return Avatar(name, width, height, *origin, tuple(avatar.left_out))


def _known(what: str, name: str, names: Sequence[str]) -> None:
    if name not in names:
        known = ", ".join(sorted(names)) or "none"
        raise UnknownNameError(f"{what}: there is no {name[:64]!r}; known are {known}")
