"""Wav2Lip's generator, which paints mouths from a voice, as a bundle from its published weights.

Architecture: Prajwal, Mukhopadhyay, Namboodiri and Jawahar, "A Lip Sync Expert Is All You Need
for Speech to Lip Generation In the Wild" (2020), in the widths of the published checkpoints. A
face encoder, an audio encoder, and a decoder that grows the sound's 512 numbers back to a picture
and takes in what the face encoder had at each size. Batch normalisation is folded into the
convolutions before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from visavis.bundles.formats.onnx_graph import GraphBuilder
from visavis.bundles.formats.weights import Checked, read_weights, state_dict
from visavis.bundles.making import BundleFacts, BundleOrder, Say, plan, write_bundle

FACE_SIZE = 96
"""Pixels on each side of what goes in and comes out."""
MEL_BANDS, MEL_HOPS = 80, 16
BATCH_NORM_EPSILON = 1e-5


@dataclass(frozen=True, slots=True)
class Layer:
    """A convolution, its batch normalisation and a ReLU."""

    key: str
    """What the names of its weights begin with."""
    inner: int
    """Channels that go in."""
    outer: int
    """Channels that come out."""
    kernel: int = 3
    stride: tuple[int, int] = (1, 1)
    pad: int = 1
    residual: bool = False
    """What goes in is added before the ReLU."""
    transposed: bool = False

    @property
    def weight_shape(self) -> tuple[int, ...]:
        channels = (self.inner, self.outer) if self.transposed else (self.outer, self.inner)
        return (*channels, self.kernel, self.kernel)


def _block(prefix: str, first: Layer, residuals: int) -> list[Layer]:
    """`first`, and `residuals` layers of its width behind it."""
    width = first.outer
    more = [
        Layer(f"{prefix}.{1 + index}", width, width, residual=True) for index in range(residuals)
    ]
    return [first, *more]


def _face_encoder() -> list[list[Layer]]:
    """From 96 x 96 down to 1 x 1, halving; its outputs are the decoder's skip connections."""
    name = "face_encoder_blocks"
    blocks = [[Layer(f"{name}.0.0", 6, 16, kernel=7, pad=3)]]
    widths = (16, 32, 64, 128, 256, 512)
    for index, residuals in enumerate((2, 3, 2, 2, 1), start=1):
        first = Layer(f"{name}.{index}.0", widths[index - 1], widths[index], stride=(2, 2))
        blocks.append(_block(f"{name}.{index}", first, residuals))
    last = [Layer(f"{name}.6.0", 512, 512, pad=0), Layer(f"{name}.6.1", 512, 512, kernel=1, pad=0)]
    return [*blocks, last]


def _audio_encoder() -> list[Layer]:
    """From 80 bands x 16 hops down to 1 x 1."""
    layers: list[Layer] = []
    inner = 1
    for outer, stride, residuals in (
        (32, (1, 1), 2),
        (64, (3, 1), 2),
        (128, (3, 3), 2),
        (256, (3, 2), 1),
    ):
        layers.append(Layer(f"audio_encoder.{len(layers)}", inner, outer, stride=stride))
        for _ in range(residuals):
            layers.append(Layer(f"audio_encoder.{len(layers)}", outer, outer, residual=True))
        inner = outer
    layers.append(Layer(f"audio_encoder.{len(layers)}", 256, 512, pad=0))
    layers.append(Layer(f"audio_encoder.{len(layers)}", 512, 512, kernel=1, pad=0))
    return layers


def _face_decoder() -> list[list[Layer]]:
    """From 1 x 1 up to 96 x 96, doubling; before each block a skip connection is joined on."""
    name = "face_decoder_blocks"
    blocks = [[Layer(f"{name}.0.0", 512, 512, kernel=1, pad=0)]]
    rows = (
        (1024, 512, 1),
        (1024, 512, 2),
        (768, 384, 2),
        (512, 256, 2),
        (320, 128, 2),
        (160, 64, 2),
    )
    for index, (inner, outer, residuals) in enumerate(rows, start=1):
        grow = (1, 1) if index == 1 else (2, 2)
        first = Layer(
            f"{name}.{index}.0", inner, outer, stride=grow, pad=int(index > 1), transposed=True
        )
        blocks.append(_block(f"{name}.{index}", first, residuals))
    return blocks


FACE_ENCODER, AUDIO_ENCODER, FACE_DECODER = _face_encoder(), _audio_encoder(), _face_decoder()
OUTPUT = Layer("output_block.0", 80, 32)
"""Before the last convolution, to colours."""
LAST = "output_block.1"


def layers() -> Iterator[Layer]:
    """Every convolution with batch normalisation, in the order of the checkpoint."""
    for block in FACE_ENCODER:
        yield from block
    yield from AUDIO_ENCODER
    for block in FACE_DECODER:
        yield from block
    yield OUTPUT


def wav2lip_model(weights: Checked) -> onnx.ModelProto:
    """mel [N, 1, 80, 16] and face [N, 6, 96, 96] -> picture [N, 3, 96, 96], all float32.

    InvalidInputError that names the weight which is missing or of another shape.
    """
    graph = GraphBuilder("wav2lip")
    mel = graph.input("mel", ("batch", 1, MEL_BANDS, MEL_HOPS))
    face = graph.input("face", ("batch", 6, FACE_SIZE, FACE_SIZE))
    seen: list[str] = []
    for block in FACE_ENCODER:
        face = _run(graph, weights, block, face)
        seen.append(face)
    tensor = _run(graph, weights, AUDIO_ENCODER, mel)
    for block in FACE_DECODER:
        tensor = _run(graph, weights, block, tensor)
        tensor = graph.node("Concat", tensor, seen.pop(), axis=1)
    tensor = _run(graph, weights, [OUTPUT], tensor)
    last = [
        weights.take(f"{LAST}.weight", 3, 32, 1, 1),
        weights.take(f"{LAST}.bias", 3),
    ]
    tensor = graph.node("Conv", tensor, *map(graph.weight, last))
    graph.output(graph.node("Sigmoid", tensor), "picture", ("batch", 3, FACE_SIZE, FACE_SIZE))
    return graph.model()


def _run(graph: GraphBuilder, weights: Checked, block: list[Layer], tensor: str) -> str:
    for layer in block:
        kernel, bias = folded(weights, layer)
        more: dict[str, Any] = {}
        if layer.transposed and layer.stride != (1, 1):
            more["output_padding"] = [1, 1]
        out = graph.node(
            "ConvTranspose" if layer.transposed else "Conv",
            tensor,
            graph.weight(kernel),
            graph.weight(bias),
            pads=[layer.pad] * 4,
            strides=list(layer.stride),
            **more,
        )
        if layer.residual:
            out = graph.node("Add", out, tensor)
        tensor = graph.node("Relu", out)
    return tensor


def folded(weights: Checked, layer: Layer) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Kernel and bias of a layer with its batch normalisation in them.

    float32: the kernel of `layer.weight_shape`, the bias [layer.outer]. Raises InvalidInputError
    where a tensor is missing or has another shape.
    """
    inside, width = f"{layer.key}.conv_block", layer.outer
    kernel = _exact(weights, f"{inside}.0.weight", *layer.weight_shape)
    bias = _exact(weights, f"{inside}.0.bias", width)
    scale = _exact(weights, f"{inside}.1.weight", width)
    shift = _exact(weights, f"{inside}.1.bias", width)
    mean = _exact(weights, f"{inside}.1.running_mean", width)
    variance = _exact(weights, f"{inside}.1.running_var", width)
    gain = scale / np.sqrt(variance + BATCH_NORM_EPSILON)
    across = (1, -1, 1, 1) if layer.transposed else (-1, 1, 1, 1)
    return (
        np.asarray(kernel * gain.reshape(across), np.float32),
        np.asarray((bias - mean) * gain + shift, np.float32),
    )


def _exact(weights: Checked, name: str, *shape: int) -> NDArray[np.float64]:
    return np.asarray(weights.take(name, *shape), np.float64)


GRAPH = "wav2lip.onnx"
_LARGEST_BATCH, _USUAL_BATCH = 32, 1


def make_wav2lip(order: BundleOrder, source: Path, *, say: Say = lambda line: None) -> Path:
    """Make a bundle of the checkpoint `source` (.pth, .safetensors or .npz); its folder comes back.

    Raises InvalidInputError for a file that holds no such generator, and like write_bundle.
    """
    say("reading the checkpoint")
    weights = Checked(state_dict(read_weights(source), "state_dict"), source.name)
    say("building the graph")
    model = wav2lip_model(weights)

    def fill(folder: Path) -> BundleFacts:
        say("writing the graph")
        onnx.save(model, str(folder / GRAPH))
        return FACTS

    return write_bundle(order, "wav2lip", [source], fill, say)


_MEL, _FACE = (1, MEL_BANDS, MEL_HOPS), (6, FACE_SIZE, FACE_SIZE)
FACTS = BundleFacts(
    task="face_mouth",
    summary=f"Wav2Lip at {FACE_SIZE} x {FACE_SIZE}: mouths painted from the voice",
    sample_rate_hz=16_000,
    plans=[
        plan(
            "mouth",
            GRAPH,
            {
                "mel": ((1, *_MEL), (_USUAL_BATCH, *_MEL), (_LARGEST_BATCH, *_MEL)),
                "face": ((1, *_FACE), (_USUAL_BATCH, *_FACE), (_LARGEST_BATCH, *_FACE)),
            },
            profile="frames",
        )
    ],
)
