"""An avatar whose mouth is painted, not moved: its picture carries a mouth that is replaced."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from services.face.avatar import topology
from services.face.avatar.avatar import Avatar, person_texture
from services.face.draw.pose import FacePose
from services.face.draw.renderer import Renderer


class PhotographedAvatar(Avatar):
    """The avatar with everything where the portrait has it, the inside of the mouth included."""

    @classmethod
    def of(cls, avatar: Avatar) -> PhotographedAvatar:
        """Shares the arrays of `avatar`."""
        parts = {field.name: getattr(avatar, field.name) for field in fields(Avatar)}
        return cls(**{**parts, "rest": avatar.mesh.source})

    @cached_property
    def texture(self) -> NDArray[np.uint8]:
        return person_texture(self, self.portrait)

    def visible_triangles(self) -> NDArray[np.int32]:
        """With the opening of the mouth covered, too."""
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
        self._texels = self._painted.reshape(-1).view("<u4")
        # The first is that of the mouth, which is covered.
        self._openings = self._openings[1:]

    def paint(self, window: tuple[int, int, int, int], colours: NDArray[np.uint8]) -> None:
        """Replace what the texture has at x0, y0, x1, y1 by `colours` [H, W, 3], for good.

        Only where the person is solid.
        """
        x0, y0, x1, y1 = window
        self._painted[y0:y1, x0:x1, :3] = colours

    def render(self, pose: FacePose) -> NDArray[np.uint8]:
        """The picture of `pose`, but for its lips."""
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
        return super().render(still)

    def _draw_mouth(
        self, out: NDArray[np.uint8], places: NDArray[np.float64], pose: FacePose
    ) -> None:
        """It is in the texture."""
