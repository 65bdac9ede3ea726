"""Networks with the inputs and outputs of Wav2Lip that draw something known."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from services.face.avatar.making.portrait import PortraitStudio
from services.face.avatar.store import AvatarStore
from services.face.engines.warp import WarpEngine
from services.face.engines.wav2lip.engine import Wav2LipEngine
from tests.made_engine import MadeEngine
from visavis.engine import Engine, Tensors

Arrays = NDArray[np.float32]


def pass_through(mel: Arrays, face: Arrays) -> Arrays:
    """The face as it is in the portrait."""
    return face[:, 3:]


class FakeWav2Lip(MadeEngine):
    """`draw`: mel [N, 1, 80, 16] and face [N, 6, 96, 96] to picture [N, 3, 96, 96]."""

    takes: ClassVar = {"mel": (None, 1, 80, 16), "face": (None, 6, 96, 96)}
    gives: ClassVar = {"picture": (None, 3, 96, 96)}

    def __init__(self, draw: Callable[[Arrays, Arrays], Arrays] = pass_through) -> None:
        super().__init__()
        self._draw = draw
        self.batches: list[int] = []

    def _infer(self, inputs: Tensors) -> dict[str, NDArray[Any]]:
        mel, face = (np.asarray(inputs[name]) for name in ("mel", "face"))
        self.batches.append(len(mel))
        return {"picture": np.asarray(self._draw(mel, face), np.float32)}


def wav2lip_engine(network: Engine, avatar_dir: Path) -> Wav2LipEngine:
    """The engine with the shipped avatar, not yet loaded."""

    def no_uploads() -> PortraitStudio:
        raise AssertionError("no avatar is made here")

    avatars = WarpEngine(AvatarStore(avatar_dir, no_uploads), "")
    return Wav2LipEngine(avatars, "fake-wav2lip", network)


@contextlib.asynccontextmanager
async def loaded(network: Engine, avatar_dir: Path) -> AsyncIterator[Wav2LipEngine]:
    engine = wav2lip_engine(network, avatar_dir)
    await engine.load()
    try:
        yield engine
    finally:
        await engine.close()
