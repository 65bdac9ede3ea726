"""Wav2Lip as an engine of the face: the avatars of the photo warp, their mouths by the network."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from services.face.avatar import topology
from services.face.avatar.avatar import Avatar, person_texture
from services.face.avatar.consent import Consent
from services.face.draw.pictures import Draw, Painter
from services.face.draw.pose import FacePose, Frame
from services.face.draw.raster import texel_pairs
from services.face.draw.renderer import Renderer
from services.face.engines.base import AvatarInfo, Keep, NetworkState, Upload
from services.face.engines.warp import WarpEngine
from services.face.engines.wav2lip.face_crop import FaceCrop, face_crop
from services.face.engines.wav2lip.mel import MelEar
from services.face.engines.wav2lip.network import Mouth, MouthAsk, MouthNetwork, Mouths, silent_ask
from services.face.lips.sound_track import Ear
from visavis.engine import Engine, EngineLane, SharedRuns
from visavis.serving.errors import AtCapacityError, EngineError
from visavis.wire.shelf import Shelf

log = logging.getLogger(__name__)

_KEPT_FACES = 16
_LARGEST = 16
"""Frames in a run at most: what plans are compiled for."""


@dataclass
class _Face:
    """What all sessions that wear an avatar share."""

    photo: Avatar
    """The avatar that it was made of."""
    avatar: PhotographedAvatar
    crop: FaceCrop
    rest: Mouth | None = None
    """The mouth of somebody who does not speak, once the network has drawn it."""


class Wav2LipPainter:
    """Draws one avatar for one session."""

    waits = True

    def __init__(self, face: _Face, network: SharedRuns[MouthAsk, Mouth], bundle: str) -> None:
        """bundle: of the network, which draws the mouth at rest, too."""
        self.look = f"wav2lip {bundle} {face.photo.digest}"
        self._face = face
        self._network = network
        self._renderer = PhotographRenderer(face.avatar)
        self._mouths: Mouths | None = None
        self._painted: Mouth | None = None

    @property
    def size(self) -> int:
        return self._renderer.size

    async def prepare(self, frame: Frame) -> Draw:
        if self._mouths is None:
            seen = self._face.crop.network_input()
            self._mouths = Mouths(self._network, seen, await self._rest(seen))
        return partial(self._draw, frame.pose, await self._mouths.of(frame))

    def cancel_ahead(self) -> None:
        if self._mouths is not None:
            self._mouths.cancel_ahead()

    async def _rest(self, seen: NDArray[np.float32]) -> Mouth:
        if self._face.rest is None:
            try:
                self._face.rest = await self._network.ask(silent_ask(seen))
            except (EngineError, AtCapacityError) as error:
                log.warning("the mouth at rest is that of the portrait: %s", error)
                return self._face.crop.reference
        return self._face.rest

    def _draw(self, pose: FacePose, mouth: Mouth) -> NDArray[np.uint8]:
        """On a lane; of one session never two at once."""
        if mouth is not self._painted:
            self._renderer.paint(self._face.crop.window, self._face.crop.paste(mouth))
            self._painted = mouth
        return self._renderer.draw(pose)


class Wav2LipEngine:
    """The engine that has a network paint the mouths of the photo warp's avatars."""

    name = "wav2lip"
    needs_voice = True
    reading = WarpEngine.reading
    of_people = True

    def __init__(self, avatars: WarpEngine, bundle: str, engine: Engine) -> None:
        """`engine` holds the generator of `bundle` and is not loaded yet."""
        self._avatars = avatars
        self._bundle = bundle
        self._engine = engine
        self._lane = EngineLane("face-wav2lip", at_once=engine.at_once)
        self._network: SharedRuns[MouthAsk, Mouth] | None = None
        self._faces: OrderedDict[str, _Face] = OrderedDict()
        self._changing = threading.Lock()
        avatars.shelf.on_gone = self._forget

    @property
    def states(self) -> Sequence[NetworkState]:
        return [NetworkState(self._bundle, self._engine.state)]

    @property
    def shelf(self) -> Shelf:
        return self._avatars.shelf

    def ear(self, sample_rate_hz: int, fps: int) -> Ear | None:
        return MelEar(sample_rate_hz, fps)

    async def load(self) -> None:
        network = MouthNetwork(self._engine)
        await self._lane.run(network.load)
        # Where several runs are taken at once, the batches are formed there.
        largest = _LARGEST if self._engine.at_once == 1 else 1
        self._network = self._lane.shared(network.draw, largest=largest)

    async def close(self) -> None:
        self._lane.close()
        self._engine.close()

    def avatars(self) -> Sequence[AvatarInfo]:
        return self._avatars.avatars()

    def painter(self, name: str) -> Painter:
        """Raises EngineError before `load`, UnknownNameError where there is no such avatar."""
        if self._network is None:
            raise EngineError("the network that draws mouths is not loaded")
        face = self._face(self._avatars.load_avatar(name))
        return Wav2LipPainter(face, self._network, self._bundle)

    def portrait(self, name: str) -> bytes:
        return self._avatars.portrait(name)

    def check_new(self, name: str) -> None:
        self._avatars.check_new(name)

    def make(self, name: str, upload: Upload, consent: Consent | None) -> Keep:
        return self._avatars.make(name, upload, consent)

    def delete(self, name: str) -> None:
        self._avatars.delete(name)

    def _face(self, avatar: Avatar) -> _Face:
        """Made once for each avatar; one that was deleted and made again is another."""
        face = self._faces.get(avatar.name)
        if face is None or face.photo is not avatar:
            photographed = PhotographedAvatar.of(avatar)
            face = _Face(avatar, photographed, face_crop(photographed, photographed.texture))
        with self._changing:
            self._faces[avatar.name] = face
            self._faces.move_to_end(avatar.name)
            while len(self._faces) > _KEPT_FACES:
                self._faces.popitem(last=False)
        return face

    def _forget(self, name: str) -> None:
        with self._changing:
            self._faces.pop(name, None)


class PhotographedAvatar(Avatar):
    """An avatar whose mouth is painted, not moved: everything is where the portrait has it, the
    inside of the mouth included.
    """

    @classmethod
    def of(cls, avatar: Avatar) -> PhotographedAvatar:
        """Shares the arrays of `avatar`."""
        parts = {field.name: getattr(avatar, field.name) for field in fields(Avatar)}
        return cls(**{**parts, "rest": avatar.mesh.source})

    @cached_property
    def texture(self) -> NDArray[np.uint8]:
        """[scale * size, scale * size, 4] uint8 as an avatar's, the whole of the photograph."""
        return person_texture(self, self.portrait)

    def visible_triangles(self) -> NDArray[np.int32]:
        """With the opening of the mouth covered, too: vertices [M, 3] int32."""
        upper, lower = topology.UPPER_INNER_LIP, topology.LOWER_INNER_LIP
        opening = []
        for i in range(len(upper) - 1):
            opening.append((upper[i], upper[i + 1], lower[i + 1]))
            opening.append((upper[i], lower[i + 1], lower[i]))
        return np.concatenate([np.array(opening, np.int32), super().visible_triangles()])


class PhotographRenderer(Renderer):
    """Draws such an avatar for one session: head, eyes and brows move, the lips are painted."""

    def __init__(self, avatar: PhotographedAvatar) -> None:
        super().__init__(avatar)
        self._painted = avatar.texture.copy()
        scene = self._scene
        first = scene.crack_ends[0]
        self._scene = scene._replace(
            pairs=texel_pairs(self._painted),
            mouth=False,
            # The first is that of the mouth, which is covered.
            cracks=scene.cracks[first:],
            crack_ends=scene.crack_ends[1:] - first,
            crack_colours=scene.crack_colours[1:],
        )

    def paint(self, window: tuple[int, int, int, int], colours: NDArray[np.uint8]) -> None:
        """Replace what the texture has at x0, y0, x1, y1 by `colours` [H, W, 3] uint8, for good.

        Only where the person is solid.
        """
        x0, y0, x1, y1 = window
        self._painted[y0:y1, x0:x1, :3] = colours

    def draw(self, pose: FacePose) -> NDArray[np.uint8]:
        """The picture of `pose`, but for its lips: as a `Renderer`."""
        still = replace(
            pose,
            jaw_open=0.0,
            mouth_wide=0.0,
            pucker=0.0,
            lips_closed=0.0,
            lower_lip_under_teeth=0.0,
            smile=0.0,
            tongue_up=0.0,
        )
        return super().draw(still)
