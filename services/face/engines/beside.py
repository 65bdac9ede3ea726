"""Heads beside whatever else the service draws: one list of avatars, each drawn by its engine."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from services.face.avatar.consent import Consent
from services.face.avatar.packing import is_packed, packed_names
from services.face.avatar.store import no_avatar
from services.face.draw.pictures import Painter
from services.face.engines.base import AvatarInfo, FaceEngine, Keep, NetworkState, Upload
from services.face.engines.head.bundle import ABOUT
from services.face.engines.head.engine import HeadEngine
from services.face.lips.sound_track import Ear
from visavis.serving.errors import AlreadyExistsError, UnknownNameError
from visavis.wire.shelf import Shelf

_HEAD = "-head"


class WithHeads:
    """The engine that the settings name, and that of heads beside it, as one.

    An avatar belongs to the one that keeps it. A head that has the name of a picture, as what the
    default one was taken of, goes by that name with "-head" after it. The photographs that ship
    with the product are pictures of the first head that does: clients may draw it in their place.
    """

    def __init__(self, pictures: FaceEngine, heads: HeadEngine, default: str) -> None:
        """pictures: of photographs or characters; default: the avatar that "" means, "" for
        theirs.
        """
        self._pictures, self._heads = pictures, heads
        self._default = default
        self.name = pictures.name
        self.reading = pictures.reading
        self.of_people = pictures.of_people
        self.shelf = _shelf(pictures, heads)

    @property
    def states(self) -> Sequence[NetworkState]:
        return self._pictures.states

    def ear(self, sample_rate_hz: int, fps: int) -> Ear | None:
        return self._pictures.ear(sample_rate_hz, fps)

    @property
    def needs_voice(self) -> bool:
        return self._pictures.needs_voice

    async def load(self) -> None:
        await self._heads.load()
        await self._pictures.load()

    async def close(self) -> None:
        await self._heads.close()
        await self._pictures.close()

    def avatars(self) -> Sequence[AvatarInfo]:
        """The default one first, then those that ship with the product."""
        heads = self._heads.avatars()
        pictured = next((head.head for head in heads if head.builtin), None)
        found = [
            replace(
                avatar,
                engine=self.name,
                head=pictured if avatar.builtin and self.of_people else None,
            )
            for avatar in self._pictures.avatars()
        ]
        names = {avatar.name for avatar in found}
        for head in heads:
            shown = head.name + _HEAD if head.name in names else head.name
            if shown not in names:
                found.append(replace(head, name=shown, engine=self._heads.name))
        default = self._default or next((avatar.name for avatar in found), "")
        return sorted(found, key=lambda avatar: (avatar.name != default, not avatar.builtin))

    def portrait(self, name: str) -> bytes:
        engine, own = self._of(name)
        with self._all_named(name):
            return engine.portrait(own)

    def painter(self, name: str) -> Painter:
        engine, own = self._of(name or self._default)
        with self._all_named(name):
            return engine.painter(own)

    def check_new(self, name: str) -> None:
        self._pictures.check_new(name)
        self._heads.check_new(name)
        if name in self._names(self):
            raise AlreadyExistsError(f"there is already an avatar {name!r}")

    def make(self, name: str, upload: Upload, consent: Consent | None) -> Keep:
        packed = isinstance(upload, bytes) and is_packed(upload)
        engine = self._heads if packed else self._pictures
        keep = engine.make(name, upload, consent)
        return lambda: replace(keep(), engine=engine.name)

    def delete(self, name: str) -> None:
        engine, own = self._of(name)
        with self._all_named(name):
            engine.delete(own)

    def _of(self, name: str) -> tuple[FaceEngine, str]:
        """Whose avatar it is, if it is anybody's, and what it is called there."""
        own = name.removesuffix(_HEAD)
        if self._heads.has(name) or self._heads.has(own):
            pictures = self._names(self._pictures)
            if self._heads.has(name) and name not in pictures:
                return self._heads, name
            if own != name and own in pictures and name not in pictures:
                return self._heads, own
        return self._pictures, name

    def _names(self, engine: FaceEngine) -> set[str]:
        return {avatar.name for avatar in engine.avatars()}

    @contextlib.contextmanager
    def _all_named(self, name: str) -> Iterator[None]:
        """Whoever asks for an avatar that is not there is told of the heads as well."""
        try:
            yield
        except UnknownNameError as error:
            raise no_avatar(name, [avatar.name for avatar in self.avatars()]) from error


def _shelf(pictures: FaceEngine, heads: HeadEngine) -> Shelf:
    """One for both, in the bucket of the pictures."""
    return _BothShelves(pictures.shelf, heads.shelf) if pictures.shelf else heads.shelf


class _BothShelves:
    """Two shelves as one, so that a name belongs to one avatar wherever it is."""

    def __init__(self, pictures: Shelf, heads: Shelf) -> None:
        self.bucket = pictures.bucket
        self._pictures, self._heads = pictures, heads

    def kept(self) -> dict[str, str]:
        return {**self._pictures.kept(), **self._heads.kept()}

    def pack(self, name: str) -> bytes:
        return self._of(name).pack(name)

    def take(self, name: str, packed: bytes, digest: str) -> None:
        taker, other = self._pictures, self._heads
        if ABOUT in packed_names(packed):
            taker, other = other, taker
        taker.take(name, packed, digest)
        if name in other.kept():
            other.drop(name)

    def note(self, name: str, digest: str) -> None:
        self._of(name).note(name, digest)

    def drop(self, name: str) -> None:
        self._of(name).drop(name)

    def deleted(self) -> Mapping[str, str]:
        return {**self._pictures.deleted(), **self._heads.deleted()}

    def settle(self, name: str) -> None:
        self._pictures.settle(name)
        self._heads.settle(name)

    def buried(self) -> Collection[str]:
        return {*self._pictures.buried(), *self._heads.buried()}

    def bury(self, digests: Collection[str]) -> None:
        self._pictures.bury(digests)
        self._heads.bury(digests)

    def _of(self, name: str) -> Shelf:
        return self._heads if name in self._heads.kept() else self._pictures
