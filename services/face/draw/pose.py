"""What a face does at one instant: the coefficients between the animator and the renderer, and the
frame that shows them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from services.face.lips.sound_track import SoundTrack


@dataclass(frozen=True, slots=True)
class FacePose:
    """One instant of a face. All zeros is the avatar at rest: lips closed, eyes open, looking at
    the camera.

    Left and right are the person's own, as in ARKit; x grows to the right and y downwards in the
    picture. Coefficients outside their range are clipped by the renderer.
    """

    jaw_open: float = 0.0
    """0 closed, 1 as wide as it goes. Vowels of calm speech lie between 0.1 and 0.55."""
    mouth_wide: float = 0.0
    """0..1, corners drawn apart ("ee", "s"). Parts the lips a little."""
    pucker: float = 0.0
    """0..1, corners drawn together and lips rounded ("oo", "w"). Parts the lips a little."""
    lips_closed: float = 0.0
    """0..1, lips pressed together ("m", "b", "p"). At 1 they stay shut, whatever the jaw does."""
    lower_lip_under_teeth: float = 0.0
    """0..1, lower lip raised to the upper teeth ("f", "v")."""
    smile: float = 0.0
    """-1..1, corners up and out; negative turns them down."""
    tongue_up: float = 0.0
    """0..1, tongue raised to the teeth ("l", "th", "n"). Seen only through parted lips."""
    blink_left: float = 0.0
    """0 open, 1 shut."""
    blink_right: float = 0.0
    """0 open, 1 shut."""
    brow_raise: float = 0.0
    """-0.7..1; negative lowers the brows."""
    brow_frown: float = 0.0
    """0..1.5, brows drawn together and down."""
    gaze_x: float = 0.0
    """-1..1, positive looks to the right of the picture; 1 is about 20 degrees."""
    gaze_y: float = 0.0
    """-1..1, positive looks down. The upper lids follow."""
    yaw: float = 0.0
    """Radians, positive turns the face to the right of the picture; looks good up to 0.2."""
    pitch: float = 0.0
    """Radians, positive nods down; looks good up to 0.15."""
    roll: float = 0.0
    """Radians, positive tilts clockwise in the picture; looks good up to 0.15."""
    shift_x: float = 0.0
    """Head carried to the right, in picture widths; up to 0.02."""
    shift_y: float = 0.0
    """Head carried down, in picture heights; up to 0.02."""
    breath: float = 0.0
    """0 breathed out .. 1 breathed in: shoulders rise by about two pixels."""
    # Facial actions (FACS) that a drawn head has, and a bent photograph has not, all 0..1.
    tongue_out: float = 0.0
    """Tip of the tongue between the teeth ("th")."""
    inner_brow_raise: float = 0.0
    """AU 1 alone: the inner ends of the brows go up."""
    lids_wide: float = 0.0
    """AU 5, the upper lids rise above where they rest."""
    lids_tight: float = 0.0
    """AU 7, the lids narrow without shutting."""
    cheek_raise: float = 0.0
    """AU 6, as in a smile that is meant."""
    nose_wrinkle: float = 0.0
    """AU 9."""
    upper_lip_raise: float = 0.0
    """AU 10."""
    lower_lip_down: float = 0.0
    """AU 16."""
    chin_raise: float = 0.0
    """AU 17, the chin pushes the lower lip up."""
    mouth_stretch: float = 0.0
    """AU 20, corners drawn straight aside."""
    lips_tight: float = 0.0
    """AU 23, lips narrowed while they may be parted."""
    dimple_left: float = 0.0
    """AU 14 of one side, the corner drawn in; with a little smile of that side."""
    dimple_right: float = 0.0
    """As the left."""
    gaze_far: float = 0.0
    """0: both eyes turn in to a viewer at arm's length; 1: they look into the distance."""

    def vector(self) -> NDArray[np.float32]:
        """The coefficients in the order of `POSE_NAMES`: [len(POSE_NAMES)] float32."""
        return np.array(self.values(), np.float32)

    def values(self) -> tuple[float, ...]:
        """The coefficients in the order of `POSE_NAMES`."""
        values: tuple[float, ...] = _VALUES(self)
        return values

    @classmethod
    def from_vector(cls, vector: NDArray[np.floating]) -> FacePose:
        """Inverse of `vector`, [len(POSE_NAMES)] float. Raises ValueError for another shape."""
        if vector.shape != (len(POSE_NAMES),):
            raise ValueError(f"a pose has {len(POSE_NAMES)} coefficients, not shape {vector.shape}")
        return cls(*vector.tolist())


POSE_NAMES: tuple[str, ...] = tuple(field.name for field in fields(FacePose))
_VALUES = attrgetter(*POSE_NAMES)
POSE_INDEX: dict[str, int] = {name: index for index, name in enumerate(POSE_NAMES)}


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame to draw. `index` counts from 0 within its turn; live frames belong to turn 0."""

    turn: int
    index: int
    live: bool
    last: bool
    restart: bool
    """It must stand on its own: a turn begins, or the viewer may have lost frames before it."""
    pose: FacePose
    sound: SoundTrack | None = None
    """The turn's sound, for pictures that are drawn from it."""
    due_s: float | None = None
    """When it is to be shown, on the clock of the animator's calls; None: now."""
    motion: int = 0
    """Frame of the motion that runs through life and speech."""
    at_rest: bool = False
    """Nothing but that motion moves the face: no speech, no expression, no rest of either."""
    listening: bool = False
    """It listens to somebody; with `at_rest`, as a loop of faces that listen shows it."""
    left: int = 0
    """How many turns had been left before it, see `Animator.wants`."""
