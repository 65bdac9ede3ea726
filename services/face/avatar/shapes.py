"""How every coefficient of a pose moves the vertices of a face: one displacement field each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from services.face.avatar import topology
from services.face.avatar.mesh import FaceMesh, HeadFrame

SHAPES = (
    "jaw_open",
    "mouth_wide",
    "pucker",
    "lower_lip_under_teeth",
    "smile",
    "blink_left",
    "blink_right",
    "brow_raise",
    "brow_frown",
)
"""Coefficients that act linearly, in the order of the basis; the rest is pose, or acts on the lips
as a whole.
"""

Moves = Mapping[int, tuple[float, float]]
"""Landmark -> displacement in (u, v), eye distances."""

_STILL_FACE = (
    33,
    133,
    362,
    263,
    6,
    168,
    197,
    5,
    1,
    4,
    10,
    151,
    127,
    356,
    162,
    389,
    234,
    454,
    8,
    9,
    21,
    251,
    54,
    284,
)
_NOSE_BASE = (2, 98, 327, 164)
_JAW_SIDES = (58, 288, 132, 361)
_HAIR_ABOVE = 0.05
"""What lies around the face above this is at rest whatever is said; from the mouth down, in eye
distances.
"""
_CHEEKS = (205, 425, 50, 280, 187, 411)
_LIP_FOLLOW, _WHOLE_LIP_FOLLOW = (0.4, 0.62, 0.82, 1.0), (0.8, 0.87, 0.94, 1.0)
"""How much each row of a lip, outer to inner, goes along when the mouth of the portrait is shut:
where what was measured as a gap is lip, which fills it; where it shows the inside, and lips of
their own height come together.
"""
_NEUTRAL_WIDTH, _BROAD_WIDTH = 0.58, 0.66
"""Of a mouth, corner to corner, eye distances: nobody smiles; nobody shows teeth without."""
_STEPS = np.arange(11)
_ARCH = np.sin(np.pi * _STEPS / 10)
"""0 at the corners of the mouth, 1 in the middle."""


class FieldSpreader:
    """Spreads displacements of a few landmarks over a whole mesh, lower face and upper face apart
    at the lips.
    """

    def __init__(self, mesh: FaceMesh, frame: HeadFrame, places: NDArray[np.float64]) -> None:
        """places: [N, 2] float64, the vertices in pixels."""
        self.local = frame.local(places)
        self._frame = frame
        # The nearest still ring is enough: what lies beyond is still as well. Beside the face and
        # above it the nearer ones are still, too: there is the hair.
        around = np.arange(topology.LANDMARKS + mesh.lined, mesh.still[0])
        beside = around[self.local[around, 1] < _HAIR_ABOVE]
        ring = mesh.still[: len(topology.FACE_OVAL)]
        self._fixed = np.concatenate([np.array(_STILL_FACE), beside, ring])
        self._mesh = mesh
        upper = {i for row in topology.UPPER_LIP_ROWS for i in row[1:-1]}
        lower = {i for row in topology.LOWER_LIP_ROWS for i in row[1:-1]}
        # Beside the mouth nothing parts them: there the one goes over into the other.
        aside = np.clip((np.abs(self.local[:, 0]) - 0.26) / 0.35, 0, 1)
        below = np.clip(self.local[:, 1] / (0.12 + 0.5 * aside) + 0.5, 0, 1)
        below[list(upper)] = 0.0
        below[list(lower)] = 1.0
        self._below = below * below * (3 - 2 * below)

    def spread(self, moves: Moves) -> NDArray[np.float64]:
        """Displacement of every vertex, [N, 2] float64 in pixels; those of `moves` move just as
        told.
        """
        field = np.zeros_like(self.local)
        for side, share in ((0, 1 - self._below), (1, self._below)):
            controls = [
                i
                for i in moves
                if self._below[i] == side or 0 < self._below[i] < 1 or _is_corner(i)
            ]
            index = np.concatenate([np.array(controls, int), self._fixed])
            wanted = np.vstack(
                [
                    np.array([moves[i] for i in controls]).reshape(-1, 2),
                    np.zeros((len(self._fixed), 2)),
                ]
            )
            index, first = np.unique(index, return_index=True)
            field += interpolate(self.local[index], wanted[first], self.local) * share[:, None]
        field[self._mesh.still] = 0.0
        for i, move in moves.items():
            field[i] = move
        return self.follow(self._to_pixels(field))

    def place(self, moves: Moves) -> NDArray[np.float64]:
        """Displacement, [N, 2] float64 in pixels, of the landmarks of `moves` and nothing else."""
        field = np.zeros_like(self.local)
        for i, move in moves.items():
            field[i] = move
        return self.follow(self._to_pixels(field))

    def follow(self, field: NDArray[np.float64]) -> NDArray[np.float64]:
        """`field`, [N, 2] float64 in pixels, with linings that move as the edges they continue."""
        for lining in self._mesh.linings:
            field[lining.strip[1:-1]] = field[lining.edge[1:-1]]
        return field

    def _to_pixels(self, field: NDArray[np.float64]) -> NDArray[np.float64]:
        return field @ self._frame.axes.T * self._frame.eye_distance


def interpolate(
    at: NDArray[np.float64],
    values: NDArray[np.float64],
    query: NDArray[np.float64],
    stiffness: float = 1e-3,
) -> NDArray[np.float64]:
    """Values [Q, C] at `query` [Q, 2] of the smoothest field through `values` [K, C] at `at` [K,
    2], all float64, places and values in any unit.

    Radial basis |r| with a linear part (Wahba, Spline Models for Observational Data, 1990).
    """
    count = len(at)
    system = np.zeros((count + 3, count + 3))
    system[:count, :count] = np.linalg.norm(at[:, None] - at[None], axis=2) + stiffness * np.eye(
        count
    )
    system[:count, count] = 1
    system[:count, count + 1 :] = at
    system[count:, :count] = system[:count, count:].T
    right = np.zeros((count + 3, values.shape[1]))
    right[:count] = values
    solved = np.linalg.solve(system, right)
    radii = np.linalg.norm(query[:, None] - at[None], axis=2)
    return np.asarray(radii @ solved[:count] + solved[count] + query @ solved[count + 1 :])


def closed_mouth(mesh: FaceMesh, frame: HeadFrame, *, parted: bool) -> NDArray[np.float64]:
    """Displacement, [N, 2] float64 in pixels, from the portrait to the face at rest: lips shut, a
    smile let go.

    parted: the portrait shows what is between its lips.
    """
    spreader = FieldSpreader(mesh, frame, mesh.source)
    local = spreader.local
    upper, lower = local[list(topology.UPPER_INNER_LIP)], local[list(topology.LOWER_INNER_LIP)]
    gap = float((lower - upper)[1:-1, 1].max())
    moves: dict[int, tuple[float, float]] = {}
    # The upper lip takes the smaller part of the way; the meeting line is smoothed along the mouth.
    meeting = upper + (lower - upper) * 0.42
    meeting[:, 0] = (upper[:, 0] + lower[:, 0]) / 2
    follow = _WHOLE_LIP_FOLLOW if parted else _LIP_FOLLOW
    for rows, inner in ((topology.UPPER_LIP_ROWS, upper), (topology.LOWER_LIP_ROWS, lower)):
        for row, share in zip(rows, follow, strict=True):
            for i in range(1, 10):
                step = (meeting[i] - inner[i]) * share
                moves[row[i]] = (float(step[0]), float(step[1]))
    for vertex in _NOSE_BASE:
        moves[vertex] = (0.0, 0.0)
    for vertex in topology.JAW_LINE:
        moves[vertex] = (0.0, -0.45 * gap * float(np.clip(1 - abs(local[vertex, 0]) / 1.1, 0, 1)))
    _let_go(moves, local, meeting[:, 1], parted=parted)
    return spreader.spread(moves)


def _let_go(
    moves: dict[int, tuple[float, float]],
    local: NDArray[np.float64],
    line: NDArray[np.float64],
    *,
    parted: bool,
) -> None:
    """Adds to `moves`, which shut the lips along `line` [11] (v), what a smile does not keep: the
    line straightens, and its corners draw in. A mouth that is wide by nature stays so.
    """
    corners = local[[topology.RIGHT_MOUTH_CORNER, topology.LEFT_MOUTH_CORNER], 0]
    width, rise = float(corners[1] - corners[0]), float(line[4:7].mean()) - line
    lift = float(rise[[0, -1]].mean())
    smiling = float(np.clip((lift - 0.012) / 0.03, 0, 1))
    if parted:
        smiling = max(smiling, float(np.clip((width - _BROAD_WIDTH) / 0.1, 0, 1)))
    drop = 0.9 * smiling * np.clip(rise, 0, 0.12)
    squeeze = -0.65 * smiling * float(np.clip(width - _NEUTRAL_WIDTH, 0, 0.3)) / width
    for row in topology.UPPER_LIP_ROWS + topology.LOWER_LIP_ROWS:
        for vertex, lower in zip(row, drop.tolist(), strict=True):
            u, v = moves.get(vertex, (0.0, 0.0))
            moves[vertex] = (u + squeeze * (float(local[vertex, 0]) + u), v + lower)
    for vertex in _CHEEKS:
        moves[vertex] = (0.0, 0.25 * float(drop[[0, -1]].mean()))


def build_shapes(
    mesh: FaceMesh, frame: HeadFrame, rest: NDArray[np.float64], brow_room: float
) -> NDArray[np.float32]:
    """The basis [len(SHAPES), N, 2] float32 in pixels per unit of coefficient, around the face at
    rest, [N, 2] float64 in pixels.

    `brow_room`: skin between brows and hair, in eye distances; the brows rise by at most half of
    it.
    """
    spreader = FieldSpreader(mesh, frame, rest)
    local = spreader.local
    basis = [
        spreader.spread(_jaw_open(local)),
        spreader.spread(_mouth_wide(local)),
        spreader.spread(_pucker(local)),
        spreader.spread(_lower_lip_under_teeth()),
        spreader.spread(_smile(local)),
        spreader.place(_blink(local, left=True)),
        spreader.place(_blink(local, left=False)),
        spreader.place(_brow_raise(float(np.clip(0.5 * brow_room, 0.035, 0.06)))),
        spreader.place(_brow_frown()),
    ]
    return np.stack(basis).astype(np.float32)


def _is_corner(vertex: int) -> bool:
    return any(vertex in (row[0], row[-1]) for row in topology.UPPER_LIP_ROWS)


def _lip_moves(
    upper: Sequence[NDArray[np.float64]], lower: Sequence[NDArray[np.float64]]
) -> dict[int, tuple[float, float]]:
    """Moves of all lip rows from displacements [11, 2] per row, outer to inner. Corners take the
    upper row's.
    """
    moves: dict[int, tuple[float, float]] = dict.fromkeys(_NOSE_BASE, (0.0, 0.0))
    for rows, fields in ((topology.LOWER_LIP_ROWS, lower), (topology.UPPER_LIP_ROWS, upper)):
        for row, field in zip(rows, fields, strict=True):
            for vertex, (u, v) in zip(row, field, strict=True):
                moves[vertex] = (float(u), float(v))
    return moves


def _columns(u: NDArray[np.float64], v: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.stack([np.broadcast_to(u, (11,)), np.broadcast_to(v, (11,))], axis=1)


def _row_u(local: NDArray[np.float64], row: Sequence[int]) -> NDArray[np.float64]:
    return local[list(row), 0]


def _bow(local: NDArray[np.float64], row: Sequence[int]) -> NDArray[np.float64]:
    """0 at the corners of a lip row, 1 in the middle, a parabola across the mouth: [11]."""
    u = _row_u(local, row)
    place = (u - (u[0] + u[-1]) / 2) / max(1e-6, (u[-1] - u[0]) / 2)
    return np.asarray(np.clip(1 - place**2, 0, 1) ** 0.85)


def _jaw_open(local: NDArray[np.float64]) -> Moves:
    """The jaw turns about the ears: chin and lower lip fall together, corners come along a little
    and draw in.
    """
    inward = -(_STEPS - 5) / 5
    side = np.abs(inward)
    corner = 0.075
    lower = [
        _columns(inward * 0.04, corner + (0.28 - corner) * _bow(local, row))
        for row in topology.LOWER_LIP_ROWS
    ]
    upper = [
        _columns(inward * 0.04 * side, corner - (corner + 0.02) * _bow(local, row))
        for row in topology.UPPER_LIP_ROWS
    ]
    moves = _lip_moves(upper, lower)
    # The further a part of the jaw lies before the ears, the further it falls; the cheeks are
    # drawn in over it.
    for vertex in topology.JAW_LINE:
        aside = float(local[vertex, 0])
        fall = 0.26 * float(np.clip(1 - (abs(aside) / 0.82) ** 2, 0.16, 1))
        moves[vertex] = (-0.03 * aside, fall)
    for vertex in _JAW_SIDES:
        moves[vertex] = (-0.02 * float(local[vertex, 0]), 0.025)
    return moves


def _mouth_wide(local: NDArray[np.float64]) -> Moves:
    """Corners apart, lips thin and parted."""
    upper = [_columns(0.2 * _row_u(local, row), -0.02 * _ARCH) for row in topology.UPPER_LIP_ROWS]
    lower = [
        _columns(0.2 * _row_u(local, row), 0.05 * _ARCH - 0.005) for row in topology.LOWER_LIP_ROWS
    ]
    return {**_lip_moves(upper, lower), topology.CHIN: (0.0, 0.02)}


def _pucker(local: NDArray[np.float64]) -> Moves:
    """Corners together, lips thicker and pushed out, a small round opening."""
    upper = [
        _columns(-0.38 * _row_u(local, row), (-0.035 + 0.010 * depth) * _ARCH)
        for depth, row in enumerate(topology.UPPER_LIP_ROWS)
    ]
    lower = [
        _columns(-0.38 * _row_u(local, row), (0.052 - 0.006 * depth) * _ARCH)
        for depth, row in enumerate(topology.LOWER_LIP_ROWS)
    ]
    return {**_lip_moves(upper, lower), topology.CHIN: (0.0, 0.01)}


def _lower_lip_under_teeth() -> Moves:
    """The lower lip is drawn in under the upper teeth, the upper lip bares them."""
    arch = _ARCH**1.4  # lips touch at the sides
    upper = [_columns(np.zeros(11), -lift * arch) for lift in (0.014, 0.024, 0.034, 0.044)]
    lower = [_columns(np.zeros(11), -lift * arch) for lift in (0.036, 0.028, 0.018, 0.008)]
    return {**_lip_moves(upper, lower), topology.CHIN: (0.0, -0.02)}


def _smile(local: NDArray[np.float64]) -> Moves:
    side = np.abs(_STEPS - 5) / 5
    upper = [
        _columns(0.14 * _row_u(local, row), -0.075 * side**1.6) for row in topology.UPPER_LIP_ROWS
    ]
    lower = [
        _columns(0.14 * _row_u(local, row), -0.075 * side**1.6) for row in topology.LOWER_LIP_ROWS
    ]
    cheeks = dict.fromkeys(_CHEEKS, (0.0, -0.03))
    return {**_lip_moves(upper, lower), **cheeks}


def _blink(local: NDArray[np.float64], *, left: bool) -> Moves:
    """What the skin around an eye does in a blink; the upper lid itself is drawn by `draw_eye`."""
    upper = topology.LEFT_UPPER_LID if left else topology.RIGHT_UPPER_LID
    lower = topology.LEFT_LOWER_LID if left else topology.RIGHT_LOWER_LID
    under = topology.LEFT_UNDER_EYE if left else topology.RIGHT_UNDER_EYE
    orbit = topology.LEFT_ORBIT if left else topology.RIGHT_ORBIT
    moves: dict[int, tuple[float, float]] = {}
    for above, rim, bag, socket in list(zip(upper, lower, under, orbit, strict=True))[1:-1]:
        u, v = local[rim] - local[above]
        moves[rim] = (-0.12 * u, -0.12 * v)
        moves[bag] = (0.0, -0.06 * v)
        moves[socket] = (0.0, 0.05 * v)
    return moves


def _brow_raise(lift: float) -> Moves:
    moves: dict[int, tuple[float, float]] = {}
    for brow in (topology.RIGHT_BROW, topology.LEFT_BROW):
        moves.update(dict.fromkeys(brow, (0.0, -lift)))
    for row in (topology.RIGHT_ORBIT, topology.LEFT_ORBIT):
        moves.update(dict.fromkeys(row[1:-1], (0.0, -0.75 * lift)))
    for row in (topology.RIGHT_LID_CREASE, topology.LEFT_LID_CREASE):
        moves.update(dict.fromkeys(row[2:-1], (0.0, -0.35 * lift)))
    moves.update({9: (0.0, -0.7 * lift), 8: (0.0, -0.35 * lift), 168: (0.0, -0.1 * lift)})
    moves.update(dict.fromkeys((156, 383, 124, 353), (0.0, -0.5 * lift)))
    moves.update(dict.fromkeys((108, 337, 69, 299, 104, 333, 151), (0.0, -0.45 * lift)))
    moves.update(dict.fromkeys((68, 298, 71, 301, 139, 368), (0.0, -0.3 * lift)))
    return moves


def _brow_frown() -> Moves:
    moves: dict[int, tuple[float, float]] = {}
    for brow, sign in ((topology.RIGHT_BROW, 1), (topology.LEFT_BROW, -1)):
        for step, vertex in enumerate(brow):
            inner = (step % 5) / 4
            moves[vertex] = (sign * 0.045 * inner, 0.014 + 0.036 * inner)
    for row in (topology.RIGHT_ORBIT, topology.LEFT_ORBIT):
        moves.update(dict.fromkeys(row[2:-1], (0.0, 0.018)))
    moves.update({9: (0.0, 0.02), 8: (0.0, 0.02)})
    return moves
