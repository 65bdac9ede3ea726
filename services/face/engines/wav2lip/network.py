"""Wav2Lip's runs: faces and windows of sound in, pictures of mouths out, ahead of their frames."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.face.draw.animator import EASE_FRAMES
from services.face.draw.pose import Frame
from services.face.engines.base import load_network
from services.face.engines.wav2lip.face_crop import FACE_SIZE
from services.face.engines.wav2lip.mel import N_MELS, WINDOW_HOPS, silent_window
from services.face.lips.sound_track import SoundTrack
from visavis.engine import Engine, SharedRuns, Urgency
from visavis.serving.errors import AtCapacityError, EngineError

log = logging.getLogger(__name__)

AHEAD_FRAMES = 8
"""How many frames are asked for before they are due: 0.3 s of video fill a batch."""
_ASK_AGAIN = 4
"""More are asked for when so few are left, so that they still go in batches."""
_FRAME_S = 0.04
"""How much later the next frame is due: near enough at any frame rate to put asks in order."""

Mouth = NDArray[np.float32]
"""[96, 96, 3] RGB 0..1, the face as the network drew it."""

_INPUTS = {"mel": (1, N_MELS, WINDOW_HOPS), "face": (6, FACE_SIZE, FACE_SIZE)}
_OUTPUTS = {"picture": (3, FACE_SIZE, FACE_SIZE)}


@dataclass(frozen=True, slots=True)
class MouthAsk:
    """One mouth to be drawn."""

    sound: NDArray[np.float32]
    """[80, 16]: see `mel.py`."""
    face: NDArray[np.float32]
    """[6, 96, 96]: see `FaceCrop.network_input`."""


class MouthNetwork:
    """Draws mouths: the network without state. One run at a time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def load(self) -> None:
        """Loads it. Raises EngineLoadError, also for a network that is not Wav2Lip's."""
        load_network(self._engine, _INPUTS, _OUTPUTS, "the generator of Wav2Lip")

    def draw(self, asks: Sequence[MouthAsk]) -> list[Mouth]:
        """All in one run, in their order, each [96, 96, 3] float32. Raises EngineError where it
        fails.
        """
        mel = np.stack([ask.sound for ask in asks])[:, None]
        face = np.stack([ask.face for ask in asks])
        pictures = self._engine.infer({"mel": mel, "face": face})["picture"]
        # The network paints in BGR, the order of the pictures that it learned from.
        return list(np.ascontiguousarray(pictures[:, ::-1].transpose(0, 2, 3, 1)))


class Mouths:
    """The mouths of one session: asked for ahead of their frames, given when they are due.

    Use from one task. A mouth that failed is replaced by the one before it.
    """

    def __init__(
        self, network: SharedRuns[MouthAsk, Mouth], face: NDArray[np.float32], rest: Mouth
    ) -> None:
        """face: what the network is shown, [6, 96, 96] float32; rest: the mouth while nobody
        speaks, [96, 96, 3] float32.
        """
        self._network = network
        self._face = face
        self._rest = rest
        self._sound: SoundTrack | None = None
        self._asked: dict[int, asyncio.Future[Mouth]] = {}
        self._shown = rest
        self._ease_from = rest
        self._eased = EASE_FRAMES
        self._failing = False

    async def of(self, frame: Frame) -> Mouth:
        """The mouth of a frame, [96, 96, 3] float32. Frames come in order; some may be left out."""
        if frame.sound is not self._sound:
            self._forget()
            self._sound = frame.sound
            self._ease_from, self._eased = self._shown, 0
        mouth = self._rest if frame.sound is None else await self._speaking(frame, frame.sound)
        if self._eased < EASE_FRAMES:
            self._eased += 1
            x = self._eased / EASE_FRAMES
            share = np.float32(x * x * (3 - 2 * x))
            if share < 1:
                mouth = self._ease_from + share * (mouth - self._ease_from)
        self._shown = mouth
        return mouth

    def cancel_ahead(self) -> None:
        """No frame follows. Idempotent."""
        self._forget()
        self._sound = None

    async def _speaking(self, frame: Frame, sound: SoundTrack) -> Mouth:
        if any(index < frame.index for index in self._asked):
            # Frames were left out because they came too late: so would their mouths.
            self._skip_to(frame.index)
        try:
            self._ask(frame, sound)
            answer = self._asked.pop(frame.index, None)
            mouth = self._shown if answer is None else await answer
        except (EngineError, AtCapacityError) as error:
            if not self._failing:
                log.warning("the mouth stands still: %s", error)
            self._failing = True
            return self._shown
        self._failing = False
        return mouth

    def _ask(self, frame: Frame, sound: SoundTrack) -> None:
        """Ask for this frame's, and for more while at it."""
        index = frame.index
        if index in self._asked and len(self._asked) > _ASK_AGAIN:
            return
        for ahead in range(index, index + AHEAD_FRAMES):
            if ahead in self._asked:
                continue
            window = sound.window(ahead)
            if window is None:
                return
            later_s = (ahead - index) * _FRAME_S
            due_s = None if frame.due_s is None else frame.due_s + later_s
            ask = MouthAsk(window, self._face)
            self._asked[ahead] = self._network.ask(ask, Urgency(deadline_s=due_s, owner=id(self)))

    def _skip_to(self, index: int) -> None:
        for k in [k for k in self._asked if k < index]:
            self._asked.pop(k).cancel()

    def _forget(self) -> None:
        for answer in self._asked.values():
            answer.cancel()
        self._asked.clear()


def silent_ask(face: NDArray[np.float32]) -> MouthAsk:
    """What the network is asked for the mouth of somebody who does not speak.

    face: [6, 96, 96] float32, see `FaceCrop.network_input`.
    """
    return MouthAsk(silent_window(), face)
