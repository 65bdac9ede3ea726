"""Rebuilds the Mandarin voice as plain ONNX from the weights in two TFLite files.

Acoustic model: FastSpeech 2 (Ren et al., 2020, arXiv:2006.04558) with pitch and energy per token,
as trained by TensorFlowTTS on the Baker corpus; no TFLite runtime runs the file, because its
dropout was left on. It is cut where the length regulator stood: encoder.onnx gives hidden states
and durations per token, decoder.onnx turns the repeated states into mel; between them stands a
`numpy.repeat`. Every convolution sees zeros where a batch is padded, so an utterance comes out of
a batch as it does alone.
Vocoder: multi-band MelGAN (Yang et al., 2020, arXiv:2005.05106), four bands joined by a
pseudo-QMF bank.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

from visavis.bundles.formats.onnx_graph import GraphBuilder
from visavis.bundles.formats.tflite import TfliteWeights

N_MELS = 80
N_HIDDEN = 256
N_HEADS = 2
N_LAYERS = 3
LAYER_NORM_EPSILON = 1e-5
LEAKY_SLOPE = 0.2
UPSAMPLINGS = (3, 5, 5)
DILATIONS = (1, 3, 9, 27)
N_BANDS = 4

_POSITION_TABLE = "embeddings/position_embeddings/Gather/resource"


def prepare(bundle_dir: Path, progress: Callable[[str, float], None]) -> list[str]:
    """Write encoder.onnx, decoder.onnx and vocoder.onnx next to the TFLite files; return the names.

    `progress` gets a line for the user and the part that is done, 0 to 1. Raises ModelStoreError
    where the files are not the expected ones.
    """
    progress("reading the acoustic model", 0.0)
    acoustic = TfliteWeights(bundle_dir / "fastspeech2_quan.tflite")
    progress("writing encoder.onnx", 0.2)
    build_encoder(acoustic, bundle_dir / "encoder.onnx")
    progress("writing decoder.onnx", 0.5)
    build_decoder(acoustic, bundle_dir / "decoder.onnx")
    progress("writing vocoder.onnx", 0.8)
    build_vocoder(TfliteWeights(bundle_dir / "mb_melgan.tflite"), bundle_dir / "vocoder.onnx")
    progress("voice is ready", 1.0)
    return ["encoder.onnx", "decoder.onnx", "vocoder.onnx"]


def build_encoder(weights: TfliteWeights, path: Path) -> None:
    """ids [N, L] int64 (0 pads) -> hidden [N, L, 256], durations [N, L].

    Durations are in mel frames at speed 1, not rounded.
    """
    graph = GraphBuilder("encoder")
    ids = graph.input("ids", ["N", "L"], TensorProto.INT64)
    present = graph.node(
        "Cast", graph.node("Not", graph.node("Equal", ids, graph.weight([0]))), to=TensorProto.FLOAT
    )
    mask = graph.node("Unsqueeze", present, graph.weight([2]))
    symbols = graph.node("Gather", graph.weight(weights.tensor("embeddings/Gather/resource")), ids)
    states = _transformer(graph, weights, "encoder", _add_positions(graph, weights, symbols), mask)
    log_durations = _predictor(graph, weights, "duration_predictor", (8, 7), states, mask)
    durations = graph.node(
        "Relu",
        graph.node(
            "Sub", graph.node("Exp", _drop_last_axis(graph, log_durations)), graph.weight(1.0)
        ),
    )
    hidden = states
    for name, numbers in (("f0", (6, 5)), ("energy", (7, 6))):
        curve = graph.transpose(
            _predictor(graph, weights, f"{name}_predictor", numbers, states, mask), [0, 2, 1]
        )
        embedded = _same_convolution(
            graph, weights, f"{name}_embeddings", curve, scope_is_layer=True
        )
        hidden = graph.node("Add", hidden, graph.transpose(embedded, [0, 2, 1]))
    graph.output(hidden, "hidden", ["N", "L", N_HIDDEN])
    graph.output(durations, "durations", ["N", "L"])
    graph.save(path)


def build_decoder(weights: TfliteWeights, path: Path) -> None:
    """hidden [N, T, 256], mask [N, T] (1 where there is a frame) -> mel [N, T, 80]; T <= 2048."""
    graph = GraphBuilder("decoder")
    hidden = graph.input("hidden", ["N", "T", N_HIDDEN])
    mask = graph.node("Unsqueeze", graph.input("mask", ["N", "T"]), graph.weight([2]))
    states = _transformer(graph, weights, "decoder", _add_positions(graph, weights, hidden), mask)
    mel = graph.dense(states, weights.kernel("mel_before"), weights.operand("Identity"))
    mask_by_channel = graph.transpose(mask, [0, 2, 1])
    residual = graph.node("Mul", graph.transpose(mel, [0, 2, 1]), mask_by_channel)
    for layer in range(5):
        scale = weights.tensor(f"postnet/batch_norm_._{layer}/batchnorm/mul")
        shift = weights.tensor(f"postnet/batch_norm_._{layer}/batchnorm/sub")
        kernel = _convolution_kernel(weights.kernel(f"postnet/conv_._{layer}"))
        bias = weights.bias(f"postnet/conv_._{layer}")
        # Batch normalisation is a scale and a shift by now: it belongs into the convolution.
        residual = graph.convolve(
            residual, kernel * scale[:, None, None], bias * scale + shift, pads=(2, 2)
        )
        if layer < 4:
            residual = graph.node("Mul", graph.node("Tanh", residual), mask_by_channel)
    mel = graph.node("Add", mel, graph.transpose(residual, [0, 2, 1]))
    graph.output(mel, "mel", ["N", "T", N_MELS])
    graph.save(path)


def build_vocoder(weights: TfliteWeights, path: Path) -> None:
    """mel [N, T, 80] with T of 10 at least -> voice [N, 300 * T], -1 to 1."""
    graph = GraphBuilder("vocoder")
    mel = graph.input("mel", ["N", "T", N_MELS])
    kernels = _vocoder_convolutions(weights)
    signal = graph.transpose(mel, [0, 2, 1])
    signal = graph.convolve(_reflect(graph, signal, 3), *next(kernels))
    for stage, stride in enumerate(UPSAMPLINGS):
        scope = f"sequential_4/conv_transpose_._{stage}"
        kernel = weights.kernel(scope)[:, :, 0, :].transpose(2, 0, 1)
        shift = weights.operand(f"{scope}/conv2d_transpose{f'_{stage}' if stage else ''}/BiasAdd")
        surplus = kernel.shape[2] - stride
        signal = graph.node(
            "ConvTranspose",
            graph.node("LeakyRelu", signal, alpha=LEAKY_SLOPE),
            graph.weight(kernel),
            graph.weight(shift),
            strides=[stride],
            pads=[surplus // 2, surplus - surplus // 2],
        )
        for dilation in DILATIONS:
            active = graph.node("LeakyRelu", signal, alpha=LEAKY_SLOPE)
            shortcut = graph.convolve(signal, *next(kernels))
            inner = graph.convolve(
                _reflect(graph, active, dilation), *next(kernels), dilation=dilation
            )
            inner = graph.convolve(
                graph.node("LeakyRelu", inner, alpha=LEAKY_SLOPE), *next(kernels)
            )
            signal = graph.node("Add", shortcut, inner)
    signal = graph.node("LeakyRelu", signal, alpha=LEAKY_SLOPE)
    bands = graph.node("Tanh", graph.convolve(_reflect(graph, signal, 3), *next(kernels)))
    voice = graph.node(
        "ConvTranspose",
        bands,
        graph.weight(_synthesis_bank(weights)),
        strides=[N_BANDS],
        pads=[31, 31],
    )
    graph.output(graph.node("Squeeze", voice, graph.weight([1])), "voice", ["N", "S"])
    graph.save(path)


def _vocoder_convolutions(
    weights: TfliteWeights,
) -> Iterator[tuple[NDArray[np.float32], NDArray[np.float32]]]:
    """Kernel and bias of each plain convolution, in the order of computation."""
    root = "sequential_4"

    def layer(scope: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        return _convolution_kernel(weights.kernel(scope)), weights.bias(scope)

    yield layer(f"{root}/conv1d")
    number = 1
    for stage in range(len(UPSAMPLINGS)):
        for unit in range(len(DILATIONS)):
            scope = f"{root}/residual_stack_._{stage}._._{unit}"
            yield layer(f"{scope}/shortcut")
            yield layer(f"{scope}/conv1d_{number}")
            yield layer(f"{scope}/conv1d_{number + 1}")
            number += 2
    yield layer(f"{root}/conv1d_{number}")


def _synthesis_bank(weights: TfliteWeights) -> NDArray[np.float32]:
    """Upsampling by four and the band filters behind it, as one transposed kernel [4, 1, 66].

    Upsampled sample 4 i + k of band o is the sum over c of x[c, i] u[o, k, c]; the filter
    h [63, 4], centred on 31, then correlates with it.
    """
    upsample = weights.kernel("PartitionedCall/conv1d_transpose")[:, 0]
    filters = weights.kernel("PartitionedCall/conv1d")[0, 0]
    bank = np.zeros((N_BANDS, 1, filters.shape[0] + N_BANDS - 1), np.float32)
    for step in range(N_BANDS):
        mixed = filters[::-1] @ upsample[:, step]
        bank[:, 0, step : step + filters.shape[0]] += mixed.T
    return bank


def _add_positions(graph: GraphBuilder, weights: TfliteWeights, tensor: str) -> str:
    length = graph.node("Slice", graph.node("Shape", tensor), graph.weight([1]), graph.weight([2]))
    table = graph.weight(weights.tensor(_POSITION_TABLE)[1:])  # row 0 is for padding
    return graph.node(
        "Add", tensor, graph.node("Slice", table, graph.weight([0]), length, graph.weight([0]))
    )


def _transformer(
    graph: GraphBuilder, weights: TfliteWeights, root: str, tensor: str, mask: str
) -> str:
    """Self-attention and convolutions. tensor [N, T, 256], mask [N, T, 1] -> like tensor."""
    absent = graph.node("Mul", graph.node("Sub", graph.weight(1.0), mask), graph.weight(-1e9))
    absent = graph.node("Unsqueeze", graph.transpose(absent, [0, 2, 1]), graph.weight([1]))
    mask_by_channel = graph.transpose(mask, [0, 2, 1])
    for layer in range(N_LAYERS):
        scope = f"{root}/layer_._{layer}"
        attended = graph.node(
            "Add", _attention(graph, weights, f"{scope}/attention", tensor, absent), tensor
        )
        attended = graph.node(
            "Mul", _norm(graph, weights, f"{scope}/attention/output/LayerNorm", attended), mask
        )
        inner = graph.transpose(attended, [0, 2, 1])
        inner = _same_convolution(graph, weights, f"{scope}/intermediate/conv1d_1", inner)
        inner = graph.node("Mul", _mish(graph, inner), mask_by_channel)
        inner = _same_convolution(graph, weights, f"{scope}/intermediate/conv1d_2", inner)
        inner = graph.node("Mul", graph.transpose(inner, [0, 2, 1]), mask)
        inner = graph.node("Add", inner, attended)
        tensor = graph.node("Mul", _norm(graph, weights, f"{scope}/output/LayerNorm", inner), mask)
    return tensor


def _attention(
    graph: GraphBuilder, weights: TfliteWeights, scope: str, tensor: str, absent: str
) -> str:
    def project(name: str) -> str:
        kernel, bias = weights.kernel(f"{scope}/self/{name}"), weights.bias(f"{scope}/self/{name}")
        if name == "query":
            kernel, bias = (
                kernel / np.sqrt(kernel.shape[0] // N_HEADS),
                bias / np.sqrt(kernel.shape[0] // N_HEADS),
            )
        return graph.node(
            "Reshape", graph.dense(tensor, kernel, bias), graph.weight([0, 0, N_HEADS, -1])
        )

    query = graph.transpose(project("query"), [0, 2, 1, 3])
    key = graph.transpose(project("key"), [0, 2, 3, 1])
    value = graph.transpose(project("value"), [0, 2, 1, 3])
    scores = graph.node(
        "Softmax", graph.node("Add", graph.node("MatMul", query, key), absent), axis=-1
    )
    merged = graph.transpose(graph.node("MatMul", scores, value), [0, 2, 1, 3])
    merged = graph.node("Reshape", merged, graph.weight([0, 0, -1]))
    return graph.dense(
        merged, weights.kernel(f"{scope}/output/dense"), weights.bias(f"{scope}/output/dense")
    )


def _predictor(
    graph: GraphBuilder,
    weights: TfliteWeights,
    scope: str,
    numbers: tuple[int, int],
    tensor: str,
    mask: str,
) -> str:
    """One value per token. ``numbers`` are those the trainer gave to its layers. -> [N, L, 1]."""
    sequence, dense = numbers
    signal = tensor
    for layer in range(2):
        inner = f"{scope}/sequential_{sequence}"
        signal = _same_convolution(
            graph, weights, f"{inner}/conv_._{layer}", graph.transpose(signal, [0, 2, 1])
        )
        signal = graph.node("Relu", graph.transpose(signal, [0, 2, 1]))
        signal = graph.node(
            "Mul", _norm(graph, weights, f"{inner}/LayerNorm_._{layer}", signal), mask
        )
    name = f"{scope}/dense_{dense}"
    return graph.node("Mul", graph.dense(signal, weights.kernel(name), weights.bias(name)), mask)


def _norm(graph: GraphBuilder, weights: TfliteWeights, scope: str, tensor: str) -> str:
    scale, shift = (
        weights.operand(f"{scope}/batchnorm/mul"),
        weights.operand(f"{scope}/batchnorm/sub"),
    )
    return graph.layer_norm(tensor, scale, shift, LAYER_NORM_EPSILON)


def _same_convolution(
    graph: GraphBuilder,
    weights: TfliteWeights,
    scope: str,
    tensor: str,
    *,
    scope_is_layer: bool = False,
) -> str:
    kernel = _convolution_kernel(weights.kernel(f"{scope}/conv1d" if not scope_is_layer else scope))
    reach = kernel.shape[2] // 2
    return graph.convolve(tensor, kernel, weights.bias(scope), pads=(reach, reach))


def _convolution_kernel(kernel: NDArray[np.float32]) -> NDArray[np.float32]:
    """TFLite [out, 1, width, in] -> ONNX [out, in, width]."""
    return np.ascontiguousarray(kernel[:, 0].transpose(0, 2, 1))


def _mish(graph: GraphBuilder, tensor: str) -> str:
    """x tanh(ln(1 + e^x)) (Misra, 2019, arXiv:1908.08681).

    Written as x (1 - 2 / (u + 2)) with u = e^x (e^x + 2), which needs one exponential only.
    """
    grown = graph.node("Exp", tensor)
    u = graph.node("Mul", grown, graph.node("Add", grown, graph.weight(2.0)))
    share = graph.node("Div", graph.weight(2.0), graph.node("Add", u, graph.weight(2.0)))
    return graph.node("Mul", tensor, graph.node("Sub", graph.weight(1.0), share))


def _reflect(graph: GraphBuilder, tensor: str, width: int) -> str:
    return graph.node("Pad", tensor, graph.weight([0, 0, width, 0, 0, width]), mode="reflect")


def _drop_last_axis(graph: GraphBuilder, tensor: str) -> str:
    return graph.node("Squeeze", tensor, graph.weight([-1]))
