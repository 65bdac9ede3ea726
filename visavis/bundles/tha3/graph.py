"""The networks of "Talking Head(?) Anime from a Single Image 3" as two ONNX graphs.

Architecture: Pramook Khungurn, "Talking Head(?) Anime from a Single Image 3: Now the Body Too"
(2022), in its separable variant. Five networks work on one picture [4, 512, 512] of a character:

- the eyebrow decomposer parts the brows from the face behind them, once for a character;
- the eyebrow combiner poses the brows (12 numbers of the pose) and lays them back;
- the face morpher moves eyes and mouth (27 numbers);
- the body rotator turns head and body (6 numbers), at half the size;
- the editor does that again at full size and mends what the turning tore.

The first becomes `decomposer`, the other four with what lies between them `poser`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from visavis.bundles.formats.onnx_graph import GraphBuilder
from visavis.bundles.formats.weights import Checked

SIZE, HALF, FACE, BROWS = 512, 256, 192, 128
"""Pixels on each side: of the picture, at half size, of the face, of the part with the brows."""
BROW_PARAMETERS, FACE_PARAMETERS, TURN_PARAMETERS = 12, 27, 6
POSE_PARAMETERS = BROW_PARAMETERS + FACE_PARAMETERS + TURN_PARAMETERS
FACE_AT = (32, 160)
"""Row and column of the face's corner in the picture."""
BROWS_AT = (32, 32)
"""Row and column of the corner of the part with the brows, in the face."""
NETWORKS = (
    "eyebrow_decomposer",
    "eyebrow_morphing_combiner",
    "face_morpher",
    "two_algo_face_body_rotator",
    "editor",
)
PLACES = "place"
"""Nodes whose name begins so compute places in pictures, which need all of 32 bits."""

_EPSILON = 1e-5
_SLOPE = 0.1
"""Of the leaky ReLU of rotator and editor."""


def decomposer_model(weights: Mapping[str, Checked]) -> onnx.ModelProto:
    """image [N, 4, 512, 512] -> background and brows, each [N, 4, 128, 128].

    InvalidInputError that names the weight which is missing or of another shape.
    """
    graph = GraphBuilder("decomposer")
    image = graph.input("image", ("batch", 4, SIZE, SIZE))
    row, column = FACE_AT[0] + BROWS_AT[0], FACE_AT[1] + BROWS_AT[1]
    part = _cut(graph, image, row, column, BROWS)
    net = _Net(graph, weights["eyebrow_decomposer"])
    feature = net.encoder_decoder(part, width=64, levels=4)
    shape = ("batch", 4, BROWS, BROWS)
    behind = net.blend(
        net.head("background_layer_alpha.0", feature, 64, 1, "Sigmoid"),
        net.head("background_layer_color_change.0", feature, 64, 4, "Tanh"),
        part,
    )
    # What is seen of the brows is the picture, elsewhere it is made up.
    brows = net.blend(
        net.head("eyebrow_layer_alpha.0", feature, 64, 1, "Sigmoid"),
        part,
        net.head("eyebrow_layer_color_change.0", feature, 64, 4, "Tanh"),
    )
    graph.output(behind, "background", shape)
    graph.output(brows, "brows", shape)
    return graph.model()


def poser_model(weights: Mapping[str, Checked]) -> onnx.ModelProto:
    """image [N, 4, 512, 512], its background and brows, pose [N, 45] -> picture like image.

    InvalidInputError that names the weight which is missing or of another shape.
    """
    graph = GraphBuilder("poser")
    image = graph.input("image", ("batch", 4, SIZE, SIZE))
    background = graph.input("background", ("batch", 4, BROWS, BROWS))
    brows = graph.input("brows", ("batch", 4, BROWS, BROWS))
    pose = graph.input("pose", ("batch", POSE_PARAMETERS))
    brow_pose = _columns(graph, pose, 0, BROW_PARAMETERS)
    face_pose = _columns(graph, pose, BROW_PARAMETERS, BROW_PARAMETERS + FACE_PARAMETERS)
    turn_pose = _columns(graph, pose, BROW_PARAMETERS + FACE_PARAMETERS, POSE_PARAMETERS)

    net = _Net(graph, weights["eyebrow_morphing_combiner"])
    browed = _combiner(net, background, brows, brow_pose)
    face = _paste(graph, _cut(graph, image, *FACE_AT, FACE), browed, *BROWS_AT, FACE, BROWS)
    face = _morpher(_Net(graph, weights["face_morpher"]), face, face_pose)
    whole = _paste(graph, image, face, *FACE_AT, SIZE, FACE)
    half = graph.node("AveragePool", whole, kernel_shape=[2, 2], strides=[2, 2])
    net = _Net(graph, weights["two_algo_face_body_rotator"], slope=_SLOPE)
    turned, moved = _rotator(net, half, turn_pose)
    net = _Net(graph, weights["editor"], slope=_SLOPE)
    picture = _editor(net, whole, _doubled(graph, turned), _doubled(graph, moved), turn_pose)
    graph.output(picture, "picture", ("batch", 4, SIZE, SIZE))
    return graph.model()


def _combiner(net: _Net, background: str, brows: str, pose: str) -> str:
    graph = net.graph
    both = graph.node("Concat", background, brows, axis=1)
    feature = net.encoder_decoder(both, width=64, levels=4, channels=8, pose=pose, poses=12)
    moved = net.head("morphed_eyebrow_layer_grid_change", feature, 64, 2)
    layer = net.blend(
        net.head("morphed_eyebrow_layer_alpha.0", feature, 64, 1, "Sigmoid"),
        net.head("morphed_eyebrow_layer_color_change.0", feature, 64, 4, "Tanh"),
        net.displaced(brows, moved, BROWS),
    )
    # The layer's own alpha, from -1..1 to 0..1, says where it covers the face.
    alpha = _channels(graph, layer, 3, 4)
    alpha = graph.node("Mul", graph.node("Add", alpha, graph.weight(1.0)), graph.weight(0.5))
    colours = net.blend(alpha, _channels(graph, layer, 0, 3), _channels(graph, background, 0, 3))
    return graph.node("Concat", colours, _channels(graph, background, 3, 4), axis=1)


def _morpher(net: _Net, face: str, pose: str) -> str:
    feature = net.encoder_decoder(face, width=64, levels=4, pose=pose, poses=27, size=FACE)
    moved = net.head("iris_mouth_grid_change", feature, 64, 2)
    image = net.blend(
        net.head("iris_mouth_alpha.0", feature, 64, 1, "Sigmoid"),
        net.head("iris_mouth_color_change.0", feature, 64, 4, "Tanh"),
        net.displaced(face, moved, FACE),
    )
    return net.blend(
        net.head("eye_alpha.0", feature, 64, 1, "Sigmoid"),
        net.head("eye_color_change.0", feature, 64, 4, "Tanh"),
        image,
    )


def _rotator(net: _Net, half: str, pose: str) -> tuple[str, str]:
    """The turned picture and how its pixels have moved, both at half size."""
    feature = net.graph.node("Concat", half, net.spread(pose, TURN_PARAMETERS, HALF), axis=1)
    inside = "encoder_decoder"
    feature = net.block(f"{inside}.downsample_blocks.0", feature, 10, 64, kernel=7)
    width = 64
    for level in range(1, 4):
        name = f"{inside}.downsample_blocks.{level}"
        feature = net.block(name, feature, width, 2 * width, kernel=4, stride=2)
        width *= 2
    for index in range(6):
        feature = net.residual(f"{inside}.bottleneck_blocks.{index}", feature, width)
    for level in range(3):
        name = f"{inside}.upsample_blocks.{level}.1"
        feature = net.block(name, net.enlarged(feature), width, width // 2)
        width //= 2
    moved = net.head("grid_change_creator", feature, 64, 2)
    return net.displaced(half, moved, HALF), moved


def _editor(net: _Net, whole: str, turned: str, moved: str, pose: str) -> str:
    graph = net.graph
    pose = net.spread(pose, TURN_PARAMETERS, SIZE)
    feature = graph.node("Concat", whole, turned, moved, pose, axis=1)
    feature = net.block("body.downsample_blocks.0", feature, 16, 32)
    width, seen = 32, [feature]
    for level in range(1, 4):
        name = f"body.downsample_blocks.{level}"
        feature = net.block(name, feature, width, 2 * width, kernel=4, stride=2)
        width *= 2
        seen.append(feature)
    for index in range(6):
        feature = net.residual(f"body.bottleneck_blocks.{index}", feature, width)
    for level in range(3):
        width //= 2
        feature = graph.node("Concat", net.enlarged(feature), seen[2 - level], axis=1)
        feature = net.block(f"body.upsample_blocks.{level}", feature, 3 * width, width)
    further = graph.node("Add", moved, net.head("grid_change_creator", feature, 32, 2), kind=PLACES)
    return net.blend(
        net.head("alpha_creator.0", feature, 32, 4, "Sigmoid"),
        net.head("color_change_creator.0", feature, 32, 4, "Tanh"),
        net.displaced(whole, further, SIZE),
    )


@dataclass(frozen=True)
class _Net:
    """Adds the layers of one network to a graph, by the names of its weights."""

    graph: GraphBuilder
    weights: Checked
    slope: float = 0.0
    """Of what is below 0."""

    def encoder_decoder(
        self,
        image: str,
        *,
        width: int,
        levels: int,
        channels: int = 4,
        pose: str = "",
        poses: int = 0,
        size: int = BROWS,
    ) -> str:
        """Down to the bottleneck, where the pose comes in, and up again: [N, width, size, size]."""
        feature = self.block("body.downsample_blocks.0", image, channels, width)
        for level in range(1, levels):
            name = f"body.downsample_blocks.{level}"
            feature = self.block(name, feature, width, 2 * width, kernel=4, stride=2)
            width *= 2
        if pose:
            around = self.spread(pose, poses, size >> (levels - 1))
            feature = self.graph.node("Concat", feature, around, axis=1)
        feature = self.block("body.bottleneck_blocks.0", feature, width + poses, width)
        for index in range(1, 6):
            feature = self.residual(f"body.bottleneck_blocks.{index}", feature, width)
        for level in range(levels - 1):
            name = f"body.upsample_blocks.{level}"
            feature = self.block(name, feature, width, width // 2, kernel=4, stride=2, grow=True)
            width //= 2
        return feature

    def block(
        self,
        name: str,
        tensor: str,
        inner: int,
        outer: int,
        *,
        kernel: int = 3,
        stride: int = 1,
        grow: bool = False,
    ) -> str:
        """A separable convolution, instance normalisation and the nonlinearity."""
        tensor = self.separable(name, tensor, inner, outer, kernel, stride, grow)
        return self._active(self._normalised(f"{name}.2", tensor, outer))

    def residual(self, name: str, tensor: str, width: int) -> str:
        """Two separable convolutions on a side path."""
        path = f"{name}.resnet_path"
        out = self.separable(f"{path}.0", tensor, width, width)
        out = self._active(self._normalised(f"{path}.1", out, width))
        out = self.separable(f"{path}.3", out, width, width)
        return self.graph.node("Add", tensor, self._normalised(f"{path}.4", out, width))

    def separable(
        self,
        name: str,
        tensor: str,
        inner: int,
        outer: int,
        kernel: int = 3,
        stride: int = 1,
        grow: bool = False,
    ) -> str:
        """Each channel by itself over space, then all of them at each place."""
        apart = self.weights.take(f"{name}.0.weight", inner, 1, kernel, kernel)
        together = self.weights.take(f"{name}.1.weight", outer, inner, 1, 1)
        pad = (kernel - 1) // 2
        tensor = self.graph.node(
            "ConvTranspose" if grow else "Conv",
            tensor,
            self.graph.weight(apart),
            group=inner,
            pads=[pad] * 4,
            strides=[stride, stride],
        )
        return self.graph.node("Conv", tensor, self.graph.weight(together))

    def head(self, name: str, feature: str, inner: int, outer: int, ending: str = "") -> str:
        """The last convolution of one output, and what brings it into range."""
        weights = [self.graph.weight(self.weights.take(f"{name}.weight", outer, inner, 3, 3))]
        if ending:
            weights.append(self.graph.weight(self.weights.take(f"{name}.bias", outer)))
        out = self.graph.node("Conv", feature, *weights, pads=[1] * 4)
        return self.graph.node(ending, out) if ending else out

    def blend(self, alpha: str, over: str, under: str) -> str:
        """over * alpha + under * (1 - alpha)"""
        change = self.graph.node("Sub", over, under)
        return self.graph.node("Add", under, self.graph.node("Mul", change, alpha))

    def displaced(self, image: str, moved: str, size: int) -> str:
        """`image` with every pixel taken from as far away as `moved` [N, 2, size, size] says, in
        halves of the picture.
        """
        graph = self.graph
        along = ((2 * np.arange(size) + 1) / size - 1).astype(np.float32)
        places = np.stack(np.meshgrid(along, along)).astype(np.float32)[None]
        places_there = graph.node("Add", moved, graph.weight(places), kind=PLACES)
        grid = graph.node("Transpose", places_there, perm=[0, 2, 3, 1], kind=PLACES)
        return graph.node(
            "GridSample",
            image,
            grid,
            kind=PLACES,
            mode="bilinear",
            padding_mode="border",
            align_corners=0,
        )

    def spread(self, pose: str, count: int, size: int) -> str:
        """The pose [N, count] at every pixel: [N, count, size, size]."""
        graph = self.graph
        column = graph.node("Reshape", pose, graph.weight([-1, count, 1, 1]))
        return graph.node("Add", column, graph.weight(np.zeros((1, 1, size, size), np.float32)))

    def enlarged(self, tensor: str) -> str:
        """Twice the size, each pixel four times."""
        return _resized(self.graph, tensor, mode="nearest", nearest_mode="floor")

    def _normalised(self, name: str, tensor: str, width: int) -> str:
        scale = self.graph.weight(self.weights.take(f"{name}.weight", width))
        shift = self.graph.weight(self.weights.take(f"{name}.bias", width))
        return self.graph.node("InstanceNormalization", tensor, scale, shift, epsilon=_EPSILON)

    def _active(self, tensor: str) -> str:
        if self.slope:
            return self.graph.node("LeakyRelu", tensor, alpha=self.slope)
        return self.graph.node("Relu", tensor)


def _doubled(graph: GraphBuilder, tensor: str) -> str:
    return _resized(graph, tensor, mode="linear")


def _resized(graph: GraphBuilder, tensor: str, **how: Any) -> str:
    where = "asymmetric" if how["mode"] == "nearest" else "half_pixel"
    scales = graph.weight(np.array([1, 1, 2, 2], np.float32))
    return graph.node("Resize", tensor, "", scales, coordinate_transformation_mode=where, **how)


def _columns(graph: GraphBuilder, pose: str, first: int, end: int) -> str:
    return graph.node("Slice", pose, *map(graph.weight, ([first], [end], [1])))


def _channels(graph: GraphBuilder, image: str, first: int, end: int) -> str:
    return graph.node("Slice", image, *map(graph.weight, ([first], [end], [1])))


def _cut(graph: GraphBuilder, image: str, row: int, column: int, size: int) -> str:
    """A square out of the picture."""
    return _part(graph, image, (row, row + size), (column, column + size))


def _part(graph: GraphBuilder, image: str, rows: tuple[int, int], columns: tuple[int, int]) -> str:
    first, end = [rows[0], columns[0]], [rows[1], columns[1]]
    return graph.node("Slice", image, *map(graph.weight, (first, end, [2, 3])))


def _paste(
    graph: GraphBuilder, image: str, part: str, row: int, column: int, size: int, side: int
) -> str:
    """`image` [.., size, size] with the square `part` [.., side, side] laid over it."""
    rows = (row, row + side)
    left = _part(graph, image, rows, (0, column))
    right = _part(graph, image, rows, (column + side, size))
    middle = graph.node("Concat", left, part, right, axis=3)
    above = _part(graph, image, (0, row), (0, size))
    below = _part(graph, image, (row + side, size), (0, size))
    return graph.node("Concat", above, middle, below, axis=2)
