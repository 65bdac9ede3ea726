"""A vocoder bundle out of a HiFi-GAN generator (Kong et al. 2020, arXiv:2010.05646): V1, V2, V3.

The graph is built from the weights and config.json: weight norm is folded, so that only
convolutions, leaky rectifiers and one tanh are left, which every compiler takes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visavis.bundles.formats.onnx_graph import GraphBuilder
from visavis.bundles.formats.weights import Checked, must_exist, read_json, read_weights, state_dict
from visavis.bundles.making import BundleFacts, BundleOrder, Say, plan, write_bundle
from visavis.serving.errors import InvalidInputError

_SLOPE = 0.1
# The last rectifier of the published generator has the default slope of its framework.
_LAST_SLOPE = 0.01
_ENDS_WIDTH = 7
_BATCH, _SHORTEST, _USUAL, _LONGEST = 8, 10, 120, 512


@dataclass(frozen=True)
class HifiGanConfig:
    """What config.json says about the generator and the mel that it was trained on."""

    simple_blocks: bool
    """V3's blocks of one convolution for each dilation, instead of two."""
    rates: tuple[int, ...]
    rate_kernels: tuple[int, ...]
    width: int
    block_kernels: tuple[int, ...]
    block_dilations: tuple[tuple[int, ...], ...]
    n_mels: int
    sample_rate_hz: int
    mel: Mapping[str, Any]
    """Of the spectrogram: n_fft, win_size, fmin, fmax, as far as they are told."""

    @property
    def hop_samples(self) -> int:
        return int(np.prod(self.rates))


def make_hifigan(
    order: BundleOrder,
    weights: Path,
    *,
    config: Path | None = None,
    say: Say = lambda line: None,
) -> Path:
    """Make a bundle of the generator in `weights`; its folder comes back.

    `config` is config.json of the training, by default the one beside the weights. Raises
    InvalidInputError for files that are no HiFi-GAN, and like write_bundle.
    """
    must_exist(weights)
    config = config or weights.parent / "config.json"
    sizes = read_config(config)
    say("reading the weights")
    tensors = Checked(state_dict(read_weights(weights), "generator", "state_dict"), str(weights))
    graph = build_generator(tensors, sizes)

    def fill(folder: Path) -> BundleFacts:
        say("writing the graph")
        graph.save(folder / "vocoder.onnx")
        (folder / "vocoder.json").write_text(json.dumps(_mel_facts(sizes), indent=2) + "\n")
        return _facts(sizes)

    return write_bundle(order, "hifigan", [weights, config], fill, say)


def read_config(path: Path) -> HifiGanConfig:
    """Raises InvalidInputError that names the key which is missing or does not fit."""
    found = read_json(path)
    try:
        config = HifiGanConfig(
            simple_blocks=str(found["resblock"]) == "2",
            rates=_whole(found["upsample_rates"]),
            rate_kernels=_whole(found["upsample_kernel_sizes"]),
            width=int(found["upsample_initial_channel"]),
            block_kernels=_whole(found["resblock_kernel_sizes"]),
            block_dilations=tuple(_whole(row) for row in found["resblock_dilation_sizes"]),
            n_mels=int(found.get("num_mels", 80)),
            sample_rate_hz=int(found["sampling_rate"]),
            mel={k: found[k] for k in ("n_fft", "win_size", "fmin", "fmax") if k in found},
        )
    except KeyError as error:
        raise InvalidInputError(f"{path} is no config of HiFi-GAN: it lacks {error}") from error
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{path} is no config of HiFi-GAN: {error}") from error
    _check(config, found, path)
    return config


def _check(config: HifiGanConfig, found: Mapping[str, Any], path: Path) -> None:
    hop = found.get("hop_size", config.hop_samples)
    problem = ""
    if str(found["resblock"]) not in ("1", "2"):
        problem = f"resblock is {found['resblock']!r}; 1 (V1, V2) and 2 (V3) are known"
    elif len(config.rates) != len(config.rate_kernels) or not config.rates:
        problem = "upsample_rates and upsample_kernel_sizes must have as many numbers"
    elif len(config.block_kernels) != len(config.block_dilations) or not config.block_kernels:
        problem = "resblock_kernel_sizes and resblock_dilation_sizes must have as many entries"
    elif hop != config.hop_samples:
        problem = f"upsample_rates multiply to {config.hop_samples}, but hop_size is {hop}"
    elif config.width % (1 << len(config.rates)):
        problem = f"upsample_initial_channel {config.width} cannot be halved so often"
    elif any(k < r or (k - r) % 2 for k, r in zip(config.rate_kernels, config.rates, strict=True)):
        problem = "each of upsample_kernel_sizes must exceed its rate by an even number"
    elif any(kernel % 2 == 0 for kernel in config.block_kernels):
        problem = "resblock_kernel_sizes must be odd"
    if problem:
        raise InvalidInputError(f"{path}: {problem}")


def build_generator(tensors: Checked, config: HifiGanConfig) -> GraphBuilder:
    """mel [B, n_mels, T] float32, natural log -> voice [B, T * hop] float32 in -1..1.

    Raises InvalidInputError that names the tensor which is missing or has another shape.
    """
    g = _Generator(tensors)
    x = g.input("mel", ["batch", config.n_mels, "frames"])
    x = g.same("conv_pre", x, config.width, config.n_mels, _ENDS_WIDTH)
    width = config.width
    for i, (rate, kernel) in enumerate(zip(config.rates, config.rate_kernels, strict=True)):
        x = g.longer(f"ups.{i}", g.rectify(x), (width, width // 2, kernel), rate)
        width //= 2
        n = len(config.block_kernels)
        blocks = [
            g.block(f"resblocks.{i * n + j}", x, width, size, dilations, config.simple_blocks)
            for j, (size, dilations) in enumerate(
                zip(config.block_kernels, config.block_dilations, strict=True)
            )
        ]
        x = g.node("Mul", g.node("Sum", *blocks), g.weight(1.0 / n))
    x = g.same("conv_post", g.rectify(x, _LAST_SLOPE), 1, width, _ENDS_WIDTH)
    g.output(g.node("Squeeze", g.node("Tanh", x), g.weight([1])), "voice", ["batch", "samples"])
    return g


class _Generator(GraphBuilder):
    """HiFi-GAN's layers."""

    def __init__(self, tensors: Checked) -> None:
        super().__init__("hifigan")
        self._tensors = tensors

    def rectify(self, x: str, slope: float = _SLOPE) -> str:
        return self.node("LeakyRelu", x, alpha=slope)

    def same(self, name: str, x: str, n_out: int, n_in: int, size: int, dilation: int = 1) -> str:
        """A convolution that keeps the length."""
        kernel, bias = self._kernel(name, (n_out, n_in, size)), self._bias(name, n_out)
        pad = dilation * (size - 1) // 2
        return self.convolve(x, kernel, bias, pads=(pad, pad), dilation=dilation)

    def longer(self, name: str, x: str, shape: tuple[int, int, int], rate: int) -> str:
        """A transposed convolution [in, out, size] that makes everything `rate` times as long."""
        weights = self.weight(self._kernel(name, shape)), self.weight(self._bias(name, shape[1]))
        pad = (shape[2] - rate) // 2
        return self.node("ConvTranspose", x, *weights, strides=[rate], pads=[pad, pad])

    def block(
        self, name: str, x: str, width: int, size: int, dilations: Sequence[int], simple: bool
    ) -> str:
        for k, dilation in enumerate(dilations):
            first = f"{name}.convs.{k}" if simple else f"{name}.convs1.{k}"
            inner = self.same(first, self.rectify(x), width, width, size, dilation)
            if not simple:
                inner = self.rectify(inner)
                inner = self.same(f"{name}.convs2.{k}", inner, width, width, size)
            x = self.node("Add", inner, x)
        return x

    def _bias(self, name: str, size: int) -> NDArray[np.float32]:
        return self._tensors.take(f"{name}.bias", size).astype(np.float32)

    def _kernel(self, name: str, shape: tuple[int, int, int]) -> NDArray[np.float32]:
        """A kernel with its weight norm folded: v / |v| * g for each first index."""
        for length, direction in (
            ("weight_g", "weight_v"),
            ("parametrizations.weight.original0", "parametrizations.weight.original1"),
        ):
            if f"{name}.{direction}" in self._tensors:
                g = self._tensors.take(f"{name}.{length}", shape[0], 1, 1).astype(np.float64)
                v = self._tensors.take(f"{name}.{direction}", *shape).astype(np.float64)
                norm = np.sqrt(np.square(v).sum(axis=(1, 2), keepdims=True))
                return np.asarray(v / norm * g, np.float32)
        return self._tensors.take(f"{name}.weight", *shape).astype(np.float32)


def _whole(values: Any) -> tuple[int, ...]:
    return tuple(int(value) for value in values)


def _mel_facts(config: HifiGanConfig) -> dict[str, Any]:
    """vocoder.json: what a mel has to be like."""
    return {
        "sample_rate_hz": config.sample_rate_hz,
        "hop_samples": config.hop_samples,
        "n_mels": config.n_mels,
        "log": "natural",
        **config.mel,
    }


def _facts(config: HifiGanConfig) -> BundleFacts:
    blocks = "V3" if config.simple_blocks else "V1" if config.width >= 512 else "V2"
    return BundleFacts(
        task="vocoder",
        summary=f"HiFi-GAN like {blocks}: {config.n_mels} bands of mel to sound of "
        f"{config.sample_rate_hz} Hz, hop {config.hop_samples}",
        sample_rate_hz=config.sample_rate_hz,
        plans=[
            plan(
                "vocoder",
                "vocoder.onnx",
                {
                    "mel": (
                        [1, config.n_mels, _SHORTEST],
                        [1, config.n_mels, _USUAL],
                        [_BATCH, config.n_mels, _LONGEST],
                    )
                },
                profile="piece",
            )
        ],
    )
