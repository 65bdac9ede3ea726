"""Weights that a name and a shape determine, so that only what they compute has to be kept."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

Shapes = Mapping[str, tuple[int, ...]]


def seeded(name: str, shape: tuple[int, ...], scale: float = 0.1) -> NDArray[np.float32]:
    """Normal numbers; those of norms lie around 1."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    values = rng.normal(size=shape).astype(np.float32) * np.float32(scale)
    is_scale = name.endswith(("norm.weight", "weight_g", "original0"))
    return np.abs(values) + np.float32(0.9) if is_scale else values


def weights(shapes: Shapes) -> dict[str, NDArray[np.float32]]:
    return {name: seeded(name, shape) for name, shape in shapes.items()}


def whisper_config(name: str) -> dict[str, object]:
    """Small ones of the kinds that there are: config.json of transformers."""
    n_mels, vocabulary, encoder, decoder = {
        "multilingual": (80, 51865, 2, 2),
        "english": (80, 51864, 1, 2),
        "turbo": (128, 51866, 3, 1),
    }[name]
    return {
        "model_type": "whisper", "d_model": 24, "encoder_attention_heads": 3,
        "decoder_attention_heads": 3, "encoder_layers": encoder, "decoder_layers": decoder,
        "encoder_ffn_dim": 40, "decoder_ffn_dim": 40, "num_mel_bins": n_mels,
        "vocab_size": vocabulary, "max_source_positions": 1500, "max_target_positions": 448,
        "activation_function": "gelu", "scale_embedding": False,
    }  # fmt: skip


def whisper_shapes(config: Mapping[str, object]) -> dict[str, tuple[int, ...]]:
    """The tensors of transformers' WhisperForConditionalGeneration, its tied head left out."""

    def size(key: str) -> int:
        return int(str(config[key]))

    width = size("d_model")
    shapes: dict[str, tuple[int, ...]] = {
        "encoder.conv1.weight": (width, size("num_mel_bins"), 3),
        "encoder.conv1.bias": (width,),
        "encoder.conv2.weight": (width, width, 3),
        "encoder.conv2.bias": (width,),
        "encoder.embed_positions.weight": (size("max_source_positions"), width),
        "decoder.embed_positions.weight": (size("max_target_positions"), width),
        "decoder.embed_tokens.weight": (size("vocab_size"), width),
    }
    for side in ("encoder", "decoder"):
        shapes |= _norm(f"{side}.layer_norm", width)
        for i in range(size(f"{side}_layers")):
            layer = f"{side}.layers.{i}"
            for attention in ("self_attn", "encoder_attn")[: 1 + (side == "decoder")]:
                shapes |= dict(_attention(f"{layer}.{attention}", width))
                shapes |= _norm(f"{layer}.{attention}_layer_norm", width)
            shapes |= _norm(f"{layer}.final_layer_norm", width)
            inner = size(f"{side}_ffn_dim")
            shapes[f"{layer}.fc1.weight"], shapes[f"{layer}.fc1.bias"] = (inner, width), (inner,)
            shapes[f"{layer}.fc2.weight"], shapes[f"{layer}.fc2.bias"] = (width, inner), (width,)
    return {f"model.{name}": shape for name, shape in shapes.items()}


def _attention(name: str, width: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
        yield f"{name}.{part}.weight", (width, width)
        if part != "k_proj":
            yield f"{name}.{part}.bias", (width,)


def _norm(name: str, width: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}


WHISPER_TOKENS = [50258, 50259, 50359, 50364, 440, 1002]
WHISPER_KEPT = slice(None, None, 997)
"""Logits that are kept."""


def whisper_mel(n_mels: int, frames: int = 60) -> NDArray[np.float32]:
    """[1, n_mels, frames] float32."""
    return seeded(f"mel {n_mels}", (1, n_mels, frames), scale=1.0)


HIFIGAN: dict[str, dict[str, object]] = {
    # Small ones of the published kinds: V1 and V2 differ in width alone, V3 has other blocks.
    "v1": {
        "resblock": "1", "upsample_rates": [8, 8, 2, 2], "upsample_kernel_sizes": [16, 16, 4, 4],
        "upsample_initial_channel": 32, "resblock_kernel_sizes": [3, 7, 11],
        "resblock_dilation_sizes": [[1, 3, 5], [1, 3, 5], [1, 3, 5]],
        "num_mels": 80, "n_fft": 1024, "hop_size": 256, "win_size": 1024,
        "sampling_rate": 22050, "fmin": 0, "fmax": 8000,
    },
    "v3": {
        "resblock": "2", "upsample_rates": [8, 8, 4], "upsample_kernel_sizes": [16, 16, 8],
        "upsample_initial_channel": 32, "resblock_kernel_sizes": [3, 5, 7],
        "resblock_dilation_sizes": [[1, 2], [2, 6], [3, 12]],
        "num_mels": 80, "n_fft": 1024, "hop_size": 256, "win_size": 1024,
        "sampling_rate": 22050, "fmin": 0, "fmax": 8000,
    },
}  # fmt: skip


def hifigan_shapes(config: Mapping[str, object]) -> dict[str, tuple[int, ...]]:
    """The generator's tensors as it is trained: every convolution with weight norm."""

    def numbers(key: str) -> list[int]:
        found = config[key]
        assert isinstance(found, list)
        return found

    shapes: dict[str, tuple[int, ...]] = {}

    def convolution(name: str, kernel: tuple[int, int, int], n_out: int) -> None:
        shapes[f"{name}.bias"] = (n_out,)
        shapes[f"{name}.weight_g"] = (kernel[0], 1, 1)
        shapes[f"{name}.weight_v"] = kernel

    width = int(str(config["upsample_initial_channel"]))
    convolution("conv_pre", (width, int(str(config["num_mels"])), 7), width)
    sizes = numbers("upsample_kernel_sizes")
    blocks = list(
        zip(numbers("resblock_kernel_sizes"), numbers("resblock_dilation_sizes"), strict=True)
    )
    for i, size in enumerate(sizes):
        n_in, n_out = width >> i, width >> (i + 1)
        convolution(f"ups.{i}", (n_in, n_out, size), n_out)
        for j, (kernel, dilations) in enumerate(blocks):
            for k in range(len(list(dilations))):  # type: ignore[call-overload]
                block = f"resblocks.{i * len(blocks) + j}"
                names = ("convs1", "convs2") if config["resblock"] == "1" else ("convs",)
                for name in names:
                    convolution(f"{block}.{name}.{k}", (n_out, n_out, kernel), n_out)
    convolution("conv_post", (1, width >> len(sizes), 7), 1)
    return shapes


def hifigan_mel(frames: int = 12) -> NDArray[np.float32]:
    """[1, 80, frames] float32."""
    return seeded("hifigan mel", (1, 80, frames), scale=1.0) - 4
