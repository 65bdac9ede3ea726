"""Heads beside whatever else the service draws: one list of avatars, each drawn by its engine."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

from services.face.avatar.packing import is_packed, packed_names
from services.face.draw.pictures import Painter
from services.face.engines.base import AvatarInfo, FaceEngine, Keep, NetworkState, Upload
from services.face.engines.head.bundle import ABOUT
from services.face.engines.head.engine import HeadEngine
from services.face.lips.sound_track import Ear
from visavis.serving.errors import UnknownNameError
from visavis.wire.bucket import Shelf


class WithHeads:
    """The engine that the settings name, and that of heads beside it, as one.

    An avatar belongs to the one that keeps it. A head that ships under the name of a picture is
    what the picture was taken of: the picture is drawn, which takes less.
    """

    def __init__(self, pictures: FaceEngine, heads: HeadEngine, default: str) -> None:
        """pictures: of photographs or characters; default: the avatar that "" means, "" for
        theirs.
        """
        self._pictures, self._heads = pictures, heads
        self._default = default
        self.name = pictures.name
        self.reading = pictures.reading
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
        pictures = [replace(avatar, engine=self.name) for avatar in self._pictures.avatars()]
        names = {avatar.name for avatar in pictures}
        heads = [replace(head, engine=self._heads.name) for head in self._heads.avatars()]
        found = pictures + [head for head in heads if head.name not in names]
        default = self._default or next((avatar.name for avatar in found), "")
        return sorted(found, key=lambda avatar: (avatar.name != default, not avatar.builtin))

    def portrait(self, name: str) -> bytes:
        with self._all_named():
            return self._of(name).portrait(name)

    def painter(self, name: str) -> Painter:
        name = name or self._default
        with self._all_named():
            return self._of(name).painter(name)

    def check_new(self, name: str) -> None:
        self._pictures.check_new(name)
        self._heads.check_new(name)

    def make(self, name: str, upload: Upload) -> Keep:
        packed = isinstance(upload, bytes) and is_packed(upload)
        return (self._heads if packed else self._pictures).make(name, upload)

    def delete(self, name: str) -> None:
        with self._all_named():
            self._of(name).delete(name)

    def _of(self, name: str) -> FaceEngine:
        """Whose avatar it is, if it is anybody's."""
        if self._heads.has(name):
            if name not in [avatar.name for avatar in self._pictures.avatars()]:
                return self._heads
        return self._pictures

    @contextlib.contextmanager
    def _all_named(self) -> Iterator[None]:
        """Whoever asks for an avatar that is not there is told of the heads as well."""
        try:
            yield
        except UnknownNameError as error:
            heads = [avatar.name for avatar in self._heads.avatars()]
            raise UnknownNameError(", ".join([str(error), *heads])) from error


def _shelf(pictures: FaceEngine, heads: HeadEngine) -> Shelf:
    """One for both, where both have the same bucket; else that of the heads is not shared."""
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

    def _of(self, name: str) -> Shelf:
        return self._heads if name in self._heads.kept() else self._pictures
