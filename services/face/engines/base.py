"""What every engine of the face is, and how its networks are loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from services.face.avatar.consent import Consent
from services.face.avatar.making.decoding import Pixels, Reading
from services.face.draw.pictures import Painter
from services.face.lips.sound_track import Ear
from visavis.engine import Engine, EngineState
from visavis.serving.errors import EngineLoadError, InvalidInputError
from visavis.wire.shelf import Shelf


@dataclass(frozen=True, slots=True)
class AvatarInfo:
    """What a client is told about an avatar."""

    name: str
    size: int
    builtin: bool
    licence: str
    consent: Consent | None = None
    """As it was stated with the photograph; None: it was not."""
    head: Path | None = None
    """Folder of the head bundle that clients can draw it from themselves; None: they cannot."""
    engine: str = ""
    """What draws it."""
    loops: Path | None = None
    """Folder in which its loops of idle life may be kept: it goes with the avatar. None: they may
    not.
    """
    left_out: Sequence[str] = ()
    """What is not drawn of what it was just made of, each as a whole sentence."""


Keep = Callable[[], AvatarInfo]
"""Adds an avatar that was made. Raises as `FaceEngine.check_new` does."""


@dataclass(frozen=True, slots=True)
class NetworkState:
    """Where a network of the engine runs."""

    bundle: str
    state: EngineState


Upload = Pixels | bytes
"""A picture, decoded as the engine reads them, or the files of a head in one archive."""


class FaceEngine(Protocol):
    """What draws the faces of a whole service: its avatars, and painters of them.

    What lists, makes, loads and deletes avatars blocks and is called from several threads, the
    rest on the event loop.
    """

    name: str
    """As settings and records of avatars call it."""
    reading: Reading
    """What it wants of a picture that an avatar is made of."""
    of_people: bool
    """Its avatars are made of photographs: who is shown must have agreed to it."""

    @property
    def shelf(self) -> Shelf | None:
        """Where its avatars lie, to be kept alike with those of other replicas."""
        ...

    @property
    def states(self) -> Sequence[NetworkState]:
        """Of its networks; empty where it has none."""
        ...

    def ear(self, sample_rate_hz: int, fps: int) -> Ear | None:
        """Hears a turn for pictures that are drawn from the voice; None where they are not."""
        ...

    @property
    def needs_voice(self) -> bool:
        """Pictures are drawn from the voice, whatever else a client sends."""
        ...

    async def load(self) -> None:
        """Make ready to draw. Raises EngineLoadError or ModelStoreError with what to do."""
        ...

    async def close(self) -> None: ...

    def avatars(self) -> Sequence[AvatarInfo]:
        """From their small records; nothing else of them is read."""
        ...

    def portrait(self, name: str) -> bytes:
        """JPEG. UnknownNameError lists the names that exist."""
        ...

    def painter(self, name: str) -> Painter:
        """A painter of its own for one session; "" is the default avatar.

        UnknownNameError lists the names that exist.
        """
        ...

    def check_new(self, name: str) -> None:
        """Raises where no avatar of that name can be made: InvalidInputError, AlreadyExistsError,
        AtCapacityError.
        """
        ...

    def make(self, name: str, upload: Upload, consent: Consent | None) -> Keep:
        """An avatar, and what keeps it: until that is called, nobody sees it. One at a time.

        InvalidInputError tells why an upload will not do.
        """
        ...

    def delete(self, name: str) -> None: ...


def decoded(upload: Upload) -> Pixels:
    """The picture that an avatar is to be made of. Raises InvalidInputError for an archive."""
    if isinstance(upload, bytes):
        raise InvalidInputError("this face is drawn from a picture: JPEG, PNG and WebP are read")
    return upload


Shapes = Mapping[str, tuple[int, ...]]
"""Of tensors by name, but for the first axis, which is the batch."""


def load_network(engine: Engine, inputs: Shapes, outputs: Shapes, known_as: str) -> None:
    """Loads a network. Raises EngineLoadError, also where its tensors are others than these."""
    engine.load()
    for specs, wanted in ((engine.inputs, inputs), (engine.outputs, outputs)):
        found = {name: spec.shape[1:] for name, spec in specs.items()}
        if found != wanted:
            raise EngineLoadError(
                f"{engine.model.name} takes or gives {found} instead of {wanted}: "
                f"it is not {known_as}"
            )
