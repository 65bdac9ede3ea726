"""One picture of a head, from beginning to end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from services.face.draw import raster
from services.face.draw.compiling import compiled, source_digest
from services.face.engines.head import light, model
from services.face.engines.head.model import Model
from services.face.engines.head.raster import (
    carriage,
    clear,
    colours,
    edges,
    lanes,
    lines,
    planes,
    solid,
    vertices,
    work,
)
from services.face.engines.head.raster.carriage import placing
from services.face.engines.head.raster.clear import gather_clear, lay_over, sort_clear
from services.face.engines.head.raster.colours import colour_pixels, draw_catchlights
from services.face.engines.head.raster.edges import smooth_edges, soften_hair
from services.face.engines.head.raster.solid import fill_triangles, wipe
from services.face.engines.head.raster.vertices import (
    face_triangles,
    light_vertices,
    project_vertices,
    shape_vertices,
    turn_normals,
)
from services.face.engines.head.raster.work import Work
from visavis import arkit

_Draw: TypeAlias = Callable[[NDArray[np.float32], NDArray[np.float64], Model, Work], None]


def _drawing(built_in: int) -> _Draw:
    @compiled
    def draw(
        weights: NDArray[np.float32], carried: NDArray[np.float64], model: Model, work: Work
    ) -> None:
        """Draws one picture. weights: [targets] float32; carried: as `placing` has it."""
        assert built_in
        head = placing(carried, weights, model)
        wipe(work)
        shape_vertices(weights, model, work)
        project_vertices(head, model, work)
        turn_normals(head, model, work)
        light_vertices(head, model, work)
        face_triangles(model, work)
        fill_triangles(model, work)
        first, last = gather_clear(sort_clear(model, work), model, work)
        colour_pixels(model, work)
        for eye in range(len(model.eyes)):
            draw_catchlights(eye, head, model, work)
        lay_over(first, last, model, work)
        soften_hair(first, last, work)
        smooth_edges(model, work)

    made: _Draw = draw
    return made


_BUILT_IN = source_digest(
    arkit,
    raster,
    light,
    model,
    work,
    carriage,
    vertices,
    planes,
    lanes,
    lines,
    solid,
    clear,
    colours,
    edges,
)
draw_head = _drawing(_BUILT_IN)
