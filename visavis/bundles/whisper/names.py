"""Whisper's tensors under the names of CTranslate2, from those of transformers and of OpenAI.

CTranslate2 keeps the projections of query, key and value in one matrix, those of the sound's key
and value in another; keys have no bias in Whisper.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from visavis.bundles.formats.safetensors import Array
from visavis.bundles.formats.weights import Checked


@dataclass(frozen=True)
class Sizes:
    """What a checkpoint says about itself."""

    n_mels: int
    width: int
    heads: int
    encoder_layers: int
    decoder_layers: int
    n_vocabulary: int
    audio_positions: int
    max_tokens: int


@dataclass(frozen=True)
class _Names:
    """How one kind of checkpoint calls its tensors."""

    encoder_positions: str
    decoder_positions: str
    embeddings: str
    encoder_norm: str
    decoder_norm: str
    layer: str
    attention: Mapping[str, str]
    """Ours -> theirs, for attention to itself and to the sound."""
    projections: tuple[str, str, str, str]
    """Query, key, value, output."""
    attention_norm: Mapping[str, str]
    feed_forward: tuple[str, str, str]
    """Norm, first and second product."""


TRANSFORMERS = _Names(
    encoder_positions="encoder.embed_positions.weight",
    decoder_positions="decoder.embed_positions.weight",
    embeddings="decoder.embed_tokens.weight",
    encoder_norm="encoder.layer_norm",
    decoder_norm="decoder.layer_norm",
    layer="layers",
    attention={"self_attention": "self_attn", "attention": "encoder_attn"},
    projections=("q_proj", "k_proj", "v_proj", "out_proj"),
    attention_norm={
        "self_attention": "self_attn_layer_norm", "attention": "encoder_attn_layer_norm",
    },
    feed_forward=("final_layer_norm", "fc1", "fc2"),
)  # fmt: skip
OPENAI = _Names(
    encoder_positions="encoder.positional_embedding",
    decoder_positions="decoder.positional_embedding",
    embeddings="decoder.token_embedding.weight",
    encoder_norm="encoder.ln_post",
    decoder_norm="decoder.ln",
    layer="blocks",
    attention={"self_attention": "attn", "attention": "cross_attn"},
    projections=("query", "key", "value", "out"),
    attention_norm={"self_attention": "attn_ln", "attention": "cross_attn_ln"},
    feed_forward=("mlp_ln", "mlp.0", "mlp.2"),
)


def renamed(tensors: Checked, sizes: Sizes, names: _Names) -> dict[str, Array]:
    """Every tensor that the graphs need, with its shape checked.

    Raises InvalidInputError that names the tensor which is missing or has another shape.
    """
    made: dict[str, Array] = {"encoder/num_heads": np.array(sizes.heads, np.int16)}
    width = sizes.width

    def norm(ours: str, theirs: str) -> None:
        made[f"{ours}/gamma"] = tensors.take(f"{theirs}.weight", width)
        made[f"{ours}/beta"] = tensors.take(f"{theirs}.bias", width)

    for conv, n_in in (("conv1", sizes.n_mels), ("conv2", width)):
        made[f"encoder/{conv}/weight"] = tensors.take(f"encoder.{conv}.weight", width, n_in, 3)
        made[f"encoder/{conv}/bias"] = tensors.take(f"encoder.{conv}.bias", width)
    made["encoder/position_encodings/encodings"] = tensors.take(
        names.encoder_positions, sizes.audio_positions, width
    )
    made["decoder/position_encodings/encodings"] = tensors.take(
        names.decoder_positions, sizes.max_tokens, width
    )
    made["decoder/embeddings/weight"] = tensors.take(names.embeddings, sizes.n_vocabulary, width)
    norm("encoder/layer_norm", names.encoder_norm)
    norm("decoder/layer_norm", names.decoder_norm)
    for side, layers, attentions in (
        ("encoder", sizes.encoder_layers, ("self_attention",)),
        ("decoder", sizes.decoder_layers, ("self_attention", "attention")),
    ):
        for i in range(layers):
            ours, theirs = f"{side}/layer_{i}", f"{side}.{names.layer}.{i}"
            for kind in attentions:
                made |= _attention(tensors, names, f"{ours}/{kind}", f"{theirs}.", kind, width)
                norm(f"{ours}/{kind}/layer_norm", f"{theirs}.{names.attention_norm[kind]}")
            inner_norm, first, second = names.feed_forward
            norm(f"{ours}/ffn/layer_norm", f"{theirs}.{inner_norm}")
            for number, product in enumerate((first, second)):
                shape = (None, width) if number == 0 else (width, None)
                name = f"{theirs}.{product}"
                made[f"{ours}/ffn/linear_{number}/weight"] = tensors.take(f"{name}.weight", *shape)
                made[f"{ours}/ffn/linear_{number}/bias"] = tensors.take(f"{name}.bias", shape[0])
    return made


def _attention(
    tensors: Checked, names: _Names, ours: str, layer: str, kind: str, width: int
) -> dict[str, Array]:
    query, key, value, out = (
        f"{layer}{names.attention[kind]}.{part}" for part in names.projections
    )
    joined = _joiner(tensors, width)
    groups: tuple[tuple[str, ...], ...]
    if kind == "self_attention":
        groups = ((query, key, value), (out,))
    else:
        groups = ((query,), (key, value), (out,))
    made: dict[str, Array] = {}
    for number, group in enumerate(groups):
        made[f"{ours}/linear_{number}/weight"], made[f"{ours}/linear_{number}/bias"] = joined(group)
    return made


def _joiner(tensors: Checked, width: int) -> Callable[[tuple[str, ...]], tuple[Array, Array]]:
    def joined(group: tuple[str, ...]) -> tuple[Array, Array]:
        weights = [tensors.take(f"{name}.weight", width, width) for name in group]
        biases = [
            tensors.take(f"{name}.bias", width)
            if f"{name}.bias" in tensors
            else np.zeros(width, weight.dtype)
            for name, weight in zip(group, weights, strict=True)
        ]
        return np.concatenate(weights), np.concatenate(biases)

    return joined
