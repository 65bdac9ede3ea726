"""A pose becomes a picture, in one compiled call.

What the call reads of an avatar is a `Scene`. What it writes on the way is small, a `Scratch`, or
large, a `Canvas`, which all renderers of a thread share: so the processor's caches hold one,
however many faces are drawn.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from services.face.avatar import avatar, shapes, topology
from services.face.avatar.avatar import TEXTURE_SCALE, Avatar
from services.face.avatar.shapes import SHAPES
from services.face.draw import eyes, head_turn, mouth, pose, raster
from services.face.draw.compiling import compiled, inlined, is_kept, source_digest
from services.face.draw.eyes import EYE_PARAMETERS, draw_eye
from services.face.draw.head_turn import (
    HEAD_PARAMETERS,
    add_shapes,
    fill_head,
    shut_lips,
    to_rest,
    turn_head,
)
from services.face.draw.pose import POSE_INDEX, POSE_NAMES, FacePose
from services.face.draw.raster import (
    NOWHERE,
    TABLE,
    fraction_bits,
    locate_texels,
    opening_table,
    paint_box,
    paint_texels,
    smooth_step,
    texel_pairs,
)

_GAZE_REACH = 0.045
"""How far the iris travels at full gaze, in eye distances: 20 degrees on an eyeball of 12 mm."""
_BAND = 64
"""Lines of a picture that are painted together: what belongs to them fits the caches."""
_UNLIMITED = ("yaw", "pitch", "roll", "shift_x", "shift_y", "breath")
_LIMITS = {
    "smile": (-1.0, 1.0),
    "brow_raise": (-0.7, 1.0),
    "brow_frown": (0.0, 1.5),
    "gaze_x": (-1.0, 1.0),
    "gaze_y": (-1.0, 1.0),
    **dict.fromkeys(_UNLIMITED, (-np.inf, np.inf)),
}
_LOW, _HIGH = np.array([_LIMITS.get(name, (0.0, 1.0)) for name in POSE_NAMES]).T.copy()
_SHAPE_COLUMNS = np.array([POSE_INDEX[name] for name in SHAPES])
_JAW, _PUCKER = POSE_INDEX["jaw_open"], POSE_INDEX["pucker"]
_TONGUE, _TIP = POSE_INDEX["tongue_up"], POSE_INDEX["tongue_out"]
_CLOSED = POSE_INDEX["lips_closed"]
_DIMPLE_LEFT, _DIMPLE_RIGHT = POSE_INDEX["dimple_left"], POSE_INDEX["dimple_right"]
_SMILE = SHAPES.index("smile")
_CORNER = 0.7
"""Of a whole smile's way."""
_GAZE_X, _GAZE_Y = POSE_INDEX["gaze_x"], POSE_INDEX["gaze_y"]
_BLINK_LEFT, _BLINK_RIGHT = POSE_INDEX["blink_left"], POSE_INDEX["blink_right"]
_UPPER_LIP = np.array(topology.UPPER_LIP_ROWS, np.int32)
_LOWER_LIP = np.array(topology.LOWER_LIP_ROWS, np.int32)
_MOUTH = np.array([topology.UPPER_INNER_LIP, topology.LOWER_INNER_LIP])
_RIGHT_EYE = np.array([topology.RIGHT_UPPER_LID, topology.RIGHT_LOWER_LID])
_LEFT_EYE = np.array([topology.LEFT_UPPER_LID, topology.LEFT_LOWER_LID])
_EYES = np.array((_RIGHT_EYE, _LEFT_EYE[:, ::-1]))
"""Rims of each eye from the right corner to the left, as those of the mouth."""


class Scene(NamedTuple):
    """What is drawn of an avatar, as compiled code reads it. Pixels are those of the picture."""

    rest: NDArray[np.float64]
    """[N, 2] pixels."""
    shapes: NDArray[np.float64]
    """[len(SHAPES), N, 2] pixels for a weight of 1."""
    lip_edge: NDArray[np.int64]
    lip_strip: NDArray[np.int64]
    """[K] vertices of the lips' linings, and of the edges that they hang from."""
    lip_offsets: NDArray[np.float64]
    """[K, 2] pixels from the one to the other."""
    depth: NDArray[np.float64]
    weight: NDArray[np.float64]
    """[N] as those of the mesh."""
    pivot: NDArray[np.float64]
    """[2] pixels."""
    unit: float
    """Eye distance, pixels."""
    background: NDArray[np.uint32]
    """[size, size], bytes R, G, B, 0."""
    cracks: NDArray[np.int64]
    """Under mouth and eyes a crack in the mesh may show: vertices around them, one after the other,
    """
    crack_ends: NDArray[np.int64]
    """where each of them ends there,"""
    crack_colours: NDArray[np.uint8]
    """[3, 3] and what shows: dark lip, skin."""
    source: NDArray[np.float32]
    """[N, 2] texels."""
    triangles: NDArray[np.int32]
    """[M, 3] vertices, in drawing order."""
    pairs: NDArray[np.uint64]
    """`texel_pairs` of what is painted."""
    fraction_bits: int
    """Of the places in it."""
    texture: NDArray[np.uint8]
    """[rows, columns, 4] of the person, which the eyes are drawn from."""
    mouth: bool
    """Whether it is drawn, or in the texels."""
    mouth_middle: NDArray[np.float64]
    """[2] pixels."""
    lip_depth: float
    to_local: NDArray[np.float64]
    """[2, 2] pixels to eye distances along the head's axes."""
    teeth_edge: float
    mouth_light: NDArray[np.float64]
    """[3] about 1."""
    seam: float
    upper_teeth: NDArray[np.float32]
    lower_teeth: NDArray[np.float32]
    """[h, w, 4] RGB 0..255, alpha 0..1."""
    iris: NDArray[np.float64]
    """[2, 3] x, y, radius; pixels."""
    eye_depths: NDArray[np.float64]
    """[2] pixels."""
    lids: NDArray[np.uint8]
    lids_at: NDArray[np.float64]
    """[2] pixels."""
    lash: NDArray[np.float64]
    """[3] RGB."""


class Scratch(NamedTuple):
    """What every picture overwrites: nothing of it is read before."""

    pose: NDArray[np.float64]
    """[len(POSE_NAMES)] within limits."""
    weights: NDArray[np.float64]
    """[len(SHAPES)]"""
    places: NDArray[np.float64]
    """[N, 2] every vertex, pixels."""
    near: NDArray[np.float32]
    """[N, 2] the same."""
    head: NDArray[np.float64]
    bounds: NDArray[np.float64]
    table: NDArray[np.float64]
    mouth: NDArray[np.float64]
    eye: NDArray[np.float64]


class Canvas(NamedTuple):
    """What a picture is painted on."""

    texel_at: NDArray[np.uint32]
    """[_BAND * size] as `locate_texels` writes it; nothing of it is read before."""
    picture: NDArray[np.uint8]
    """[size, size, 4] RGB and a zero: so that a pixel is one number of 32 bits."""


def scene_of(avatar: Avatar) -> Scene:
    """The scene of an avatar; it shares what it can."""
    mesh, frame = avatar.mesh, avatar.frame
    upper_teeth = avatar.upper_teeth.astype(np.float32)
    upper_teeth[..., 3] /= 255.0
    strips = [lining.strip[1:-1] for lining in mesh.linings[:2]]
    lip = avatar.colour_at(topology.LOWER_LIP_ROWS[1][3:8])
    skins = (topology.RIGHT_UNDER_EYE, topology.LEFT_UNDER_EYE)
    under_eyes = [avatar.colour_at(skin[1:-1]) * 0.8 for skin in skins]
    openings = [_MOUTH.ravel(), _RIGHT_EYE.ravel(), _LEFT_EYE.ravel()]
    strip = np.concatenate(strips).astype(np.int64)
    return Scene(
        rest=avatar.rest,
        shapes=np.ascontiguousarray(avatar.shapes, np.float64),
        lip_edge=np.concatenate([lining.edge[1:-1] for lining in mesh.linings[:2]]).astype(int),
        lip_strip=strip,
        lip_offsets=np.ascontiguousarray(mesh.offsets[strip]),
        depth=mesh.depth,
        weight=mesh.weight,
        pivot=frame.pivot,
        unit=frame.eye_distance,
        background=avatar.backdrop,
        cracks=np.concatenate(openings),
        crack_ends=np.cumsum([len(opening) for opening in openings]),
        crack_colours=np.array([lip * 0.35, *under_eyes]).astype(np.uint8),
        source=(mesh.source * TEXTURE_SCALE + (TEXTURE_SCALE - 1) / 2).astype(np.float32),
        triangles=avatar.visible_triangles(),
        pairs=texel_pairs(avatar.texture),
        fraction_bits=fraction_bits(avatar.texture.shape[0], avatar.texture.shape[1]),
        texture=avatar.texture,
        mouth=True,
        mouth_middle=avatar.mouth_middle,
        lip_depth=float(mesh.depth[_MOUTH[0]].mean()),
        to_local=np.ascontiguousarray(frame.axes.T / frame.eye_distance),
        teeth_edge=avatar.teeth_edge,
        mouth_light=avatar.mouth_light,
        seam=avatar.seam,
        upper_teeth=upper_teeth,
        lower_teeth=mouth.teeth_texture(avatar.ivory, upper=False),
        iris=avatar.iris,
        eye_depths=np.array([mesh.depth[eye[0]].mean() for eye in _EYES]),
        lids=avatar.lids,
        lids_at=np.array(avatar.lids_at, np.float64),
        lash=avatar.lash,
    )


_Place: TypeAlias = Callable[[NDArray[np.float64], Scene, Scratch], None]
_Draw: TypeAlias = Callable[[NDArray[np.float64], Scene, Scratch, Canvas], None]


class Renderer:
    """Draws one avatar. No state from picture to picture; one thread at a time."""

    def __init__(self, avatar: Avatar) -> None:
        self._avatar = avatar
        self._scene = scene_of(avatar)
        vertices = len(avatar.rest)
        self._scratch = Scratch(
            pose=np.zeros(len(POSE_NAMES)),
            weights=np.zeros(len(SHAPES)),
            places=np.zeros((vertices, 2)),
            near=np.zeros((vertices, 2), np.float32),
            head=np.zeros(HEAD_PARAMETERS),
            bounds=np.zeros(5),
            table=np.zeros((2, TABLE)),
            mouth=np.zeros(mouth.MOUTH_PARAMETERS),
            eye=np.zeros(EYE_PARAMETERS),
        )

    @property
    def size(self) -> int:
        """Width and height of the pictures, pixels."""
        return self._avatar.size

    def draw(self, pose: FacePose) -> NDArray[np.uint8]:
        """The picture of `pose`: [size, size, 4] uint8, RGB and a zero, until this thread draws the
        next one.

        The same pose gives the same bytes.
        """
        canvas = _canvas(self.size)
        _draw(np.array(pose.values()), self._scene, self._scratch, canvas)
        return canvas.picture

    def places(self, pose: FacePose) -> NDArray[np.float64]:
        """Every vertex in `pose`, [N, 2] float64 pixels: the first part of drawing it."""
        _place(np.array(pose.values()), self._scene, self._scratch)
        return self._scratch.places.copy()


def picture_at_rest(avatar: Avatar) -> NDArray[np.uint8]:
    """The face as it is seen while nothing is said: [size, size, 3] uint8 RGB."""
    return Renderer(avatar).draw(FacePose())[..., :3].copy()


_of_thread = threading.local()


def _canvas(size: int) -> Canvas:
    """This thread's, for pictures of that size."""
    canvas: Canvas | None = getattr(_of_thread, "canvas", None)
    if canvas is None or len(canvas.picture) != size:
        canvas = Canvas(np.empty(_BAND * size, np.uint32), np.empty((size, size, 4), np.uint8))
        _of_thread.canvas = canvas
    return canvas


_BUILT_IN = source_digest(avatar, topology, shapes, eyes, head_turn, mouth, pose, raster)


def _place_with(built_in: int) -> _Place:
    @compiled
    def place(pose: NDArray[np.float64], scene: Scene, scratch: Scratch) -> None:
        """Where every vertex is; pose, weights and head of the scratch are set, too."""
        assert built_in
        p, places = scratch.pose, scratch.places
        for k in range(len(p)):
            p[k] = min(_HIGH[k], max(_LOW[k], pose[k]))
        # The lids come down with a blink, and follow the gaze.
        follow = 0.18 * max(0.0, p[_GAZE_Y])
        for lid in (_BLINK_LEFT, _BLINK_RIGHT):
            p[lid] = max(0.0, p[lid] + follow * (1 - p[lid]))
        for k in range(len(scratch.weights)):
            scratch.weights[k] = p[_SHAPE_COLUMNS[k]]
        add_shapes(scene.rest, scene.shapes, scratch.weights, places)
        _draw_in_corners(places, scene, p[_DIMPLE_LEFT], p[_DIMPLE_RIGHT])
        if p[_CLOSED] > 0:
            shut_lips(places, p[_CLOSED], _UPPER_LIP, _LOWER_LIP)
            for k in range(len(scene.lip_strip)):
                for axis in range(2):
                    edge = places[scene.lip_edge[k], axis]
                    places[scene.lip_strip[k], axis] = edge + scene.lip_offsets[k, axis]
        fill_head(scratch.head, p, scene.pivot, scene.unit, len(scene.background))
        turn_head(places, scene.depth, scene.weight, scratch.head)
        for k in range(len(places)):
            scratch.near[k, 0], scratch.near[k, 1] = places[k, 0], places[k, 1]

    made: _Place = place
    return made


def _draw_with(built_in: int) -> _Draw:
    @compiled
    def draw(pose: NDArray[np.float64], scene: Scene, scratch: Scratch, canvas: Canvas) -> None:
        """pose: [len(POSE_NAMES)] float64, of any size."""
        assert built_in
        _place(pose, scene, scratch)
        picture, rows, columns = canvas.picture, scene.texture.shape[0], scene.texture.shape[1]
        pixels, background = picture.reshape(-1).view(np.uint32), scene.background.reshape(-1)
        size, bits = len(picture), scene.fraction_bits
        for top in range(0, size, _BAND):
            height = min(_BAND, size - top)
            first, end = size * top, size * (top + height)
            _copy(background[first:end], pixels[first:end])
            _paint_cracks(picture[top : top + height], top, scene, scratch)
            texel_at = canvas.texel_at[: end - first]
            _fill(texel_at, NOWHERE)
            lines = texel_at.reshape(height, size)
            locate_texels(
                scratch.near, scene.source, scene.triangles, rows, columns, bits, lines, top
            )
            paint_texels(lines, bits, scene.pairs, columns, pixels[first:end])
        if scene.mouth:
            _draw_mouth(picture, scene, scratch)
        for which in range(2):
            _draw_eye(picture, which, scene, scratch)

    made: _Draw = draw
    return made


_place = _place_with(_BUILT_IN)
_draw = _draw_with(_BUILT_IN)


def is_compiled() -> bool:
    """Whether what draws is on disk; else the first picture takes half a minute."""
    return is_kept(_draw)


@inlined()
def _draw_in_corners(places, scene, left, right):  # type: ignore[no-untyped-def]
    """One corner of the mouth by itself: half of a smile."""
    if left <= 0 and right <= 0:
        return
    smile, middle, across = scene.shapes[_SMILE], scene.mouth_middle, scene.to_local[0]
    for k in range(len(places)):
        u = across[0] * (places[k, 0] - middle[0]) + across[1] * (places[k, 1] - middle[1])
        side = smooth_step(0.5 + u / 0.2)
        share = _CORNER * (left * side + right * (1 - side))
        for axis in range(2):
            places[k, axis] += share * smile[k, axis]


@inlined()
def _copy(source, out):  # type: ignore[no-untyped-def]
    for k in range(np.uint64(len(out))):
        out[k] = source[k]


@inlined()
def _fill(out, value):  # type: ignore[no-untyped-def]
    for k in range(np.uint64(len(out))):
        out[k] = value


@inlined()
def _paint_cracks(lines, top, scene, scratch):  # type: ignore[no-untyped-def]
    first = 0
    for k in range(len(scene.crack_ends)):
        end = scene.crack_ends[k]
        paint_box(lines, top, scratch.places, scene.cracks[first:end], scene.crack_colours[k])
        first = end


@inlined()
def _draw_mouth(picture, scene, scratch):  # type: ignore[no-untyped-def]
    pose, unit, parameters = scratch.pose, scene.unit, scratch.mouth
    opening_table(scratch.places, _MOUTH, scratch.bounds, scratch.table)
    mx, my = scene.mouth_middle[0], scene.mouth_middle[1]
    a, b, c, d, e, f = to_rest(mx, my, scene.lip_depth - 0.04 * unit, 0.1 * unit, scratch.head)
    c, f = c - mx, f - my
    for axis in range(2):
        x, y = scene.to_local[axis, 0], scene.to_local[axis, 1]
        parameters[3 * axis] = x * a + y * d
        parameters[3 * axis + 1] = x * b + y * e
        parameters[3 * axis + 2] = x * c + y * f
    jaw, pucker = pose[_JAW], pose[_PUCKER]
    parameters[6] = scene.teeth_edge
    # Rounded lips stand out from the teeth, cover the lower and shade the upper.
    parameters[7] = 0.018 + 0.275 * jaw * (1 - 0.8 * pose[_CLOSED]) + 0.03 * pucker
    parameters[8] = pose[_TONGUE]
    for channel in range(3):
        parameters[9 + channel] = scene.mouth_light[channel] * (1 - 0.15 * pucker)
    parameters[12], parameters[13], parameters[14] = unit, scene.seam, jaw
    parameters[15] = pose[_TIP]
    mouth.draw_mouth(
        picture, scratch.bounds, scratch.table, parameters, scene.upper_teeth, scene.lower_teeth
    )


@inlined()
def _draw_eye(picture, which, scene, scratch):  # type: ignore[no-untyped-def]
    pose, unit, parameters, iris = scratch.pose, scene.unit, scratch.eye, scene.iris[which]
    opening_table(scratch.places, _EYES[which], scratch.bounds, scratch.table)
    inverse = to_rest(iris[0], iris[1], scene.eye_depths[which], 0.1 * unit, scratch.head)
    for k in range(6):
        parameters[k] = TEXTURE_SCALE * inverse[k]
    shift = (TEXTURE_SCALE - 1) / 2
    parameters[2] += shift
    parameters[5] += shift
    parameters[6] = iris[0] * TEXTURE_SCALE + shift
    parameters[7] = iris[1] * TEXTURE_SCALE + shift
    parameters[8] = iris[2] * TEXTURE_SCALE
    reach = _GAZE_REACH * unit * TEXTURE_SCALE
    parameters[9] = reach * pose[_GAZE_X]
    parameters[10] = 0.7 * reach * pose[_GAZE_Y]
    parameters[11] = unit
    parameters[12] = pose[_BLINK_RIGHT] if which == 0 else pose[_BLINK_LEFT]
    parameters[13], parameters[14] = scene.lids_at[0], scene.lids_at[1]
    for channel in range(3):
        parameters[15 + channel] = scene.lash[channel]
    draw_eye(picture, scratch.bounds, scratch.table, parameters, scene.texture, scene.lids)
