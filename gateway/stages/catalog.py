"""Voices and avatars, as the tts and face services list them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import grpc.aio

from gateway.stages.registry import Registry
from visavis.serving.errors import (
    AlreadyExistsError,
    AtCapacityError,
    InvalidInputError,
    OutOfOrderError,
    StageLostError,
    UnknownNameError,
    VisavisError,
)
from visavis.serving.lease import CallLimit
from visavis.v1 import face_pb2, tts_pb2

CALL_TIMEOUT_S = 5.0
CREATE_TIMEOUT_S = 60.0
UPLOADS_AT_ONCE = 8

_READING = ("List", "Get")
"""Calls that any other replica can answer where the first one has just gone."""
_ERRORS: dict[grpc.StatusCode, type[VisavisError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidInputError,
    grpc.StatusCode.NOT_FOUND: UnknownNameError,
    grpc.StatusCode.ALREADY_EXISTS: AlreadyExistsError,
    grpc.StatusCode.FAILED_PRECONDITION: OutOfOrderError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: AtCapacityError,
}


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
    """One face, `width` x `height` pixels. builtin: it ships with the product."""

    name: str
    width: int
    height: int
    builtin: bool
    licence: str


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

    async def create_avatar(self, name: str, image: bytes, consent: Consent | None) -> Avatar:
        """Raises InvalidInputError with the reason why a picture will not do, or what has to be
        stated with it; AlreadyExistsError, AtCapacityError.
        """
        told = None if consent is None else face_pb2.Consent(**asdict(consent))
        request = face_pb2.CreateAvatarRequest(name=name, image=image, consent=told)
        made = await self._call("face", "CreateAvatar", request, timeout_s=CREATE_TIMEOUT_S)
        return _avatar_of(made)

    async def delete_avatar(self, name: str) -> None:
        """Raises UnknownNameError, OutOfOrderError for one that ships with the product."""
        await self._call("face", "DeleteAvatar", face_pb2.DeleteAvatarRequest(name=name))

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
        self, service: str, method: str, request: Any, *, timeout_s: float = CALL_TIMEOUT_S
    ) -> Any:
        replicas = [s for s in self._registry.replicas(service) if s.healthy]
        if not replicas:
            await self._registry.refresh()
            replicas = [s for s in self._registry.replicas(service) if s.healthy]
        failed: VisavisError = StageLostError(f"{service}: no replica is running")
        for state in replicas:
            stub = self._registry.stub(state.replica)
            try:
                return await getattr(stub, method)(request, timeout=timeout_s)
            except grpc.aio.AioRpcError as error:
                gone = error.code() is grpc.StatusCode.UNAVAILABLE and method.startswith(_READING)
                failed = our_error(error, service)
                if not gone:
                    raise failed from None
        raise failed


def our_error(error: grpc.aio.AioRpcError, service: str) -> VisavisError:
    """For one that a service has answered with."""
    kind = _ERRORS.get(error.code(), StageLostError)
    return kind(error.details() or f"{service}: {error.code().name}")


def _avatar_of(avatar: face_pb2.Avatar) -> Avatar:
    return Avatar(avatar.name, avatar.width, avatar.height, avatar.builtin, avatar.licence)


def _known(what: str, name: str, names: Sequence[str]) -> None:
    if name not in names:
        known = ", ".join(sorted(names)) or "none"
        raise UnknownNameError(f"{what}: there is no {name[:64]!r}; known are {known}")
