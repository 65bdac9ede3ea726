"""A bundle out of any Whisper checkpoint: transformers, CTranslate2 or OpenAI's own.

Their weights are brought under one set of names, out of which visavis.bundles.whisper.graph
writes encoder and decoder, the same that run for the pulled bundle.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from visavis.bundles.formats.ctranslate2 import read_variables
from visavis.bundles.formats.safetensors import Array, write_safetensors
from visavis.bundles.formats.weights import Checked, read_json, read_weights, state_dict
from visavis.bundles.making import (
    BundleFacts,
    BundleOrder,
    Say,
    Shapes,
    Table,
    plan,
    profile_table,
    write_bundle,
)
from visavis.bundles.whisper import graph as whisper_graphs
from visavis.bundles.whisper.graph import WhisperShape, shape_of
from visavis.bundles.whisper.names import OPENAI, TRANSFORMERS, Sizes, renamed
from visavis.serving.errors import InvalidInputError, ModelStoreError

_AUDIO_POSITIONS = 1500
_ENGLISH_VOCABULARY = 51_864
_TOKENS = ("<|startoftranscript|>", "<|endoftext|>", "<|notimestamps|>", "<|en|>")
_HEAD = "decoder/projection/weight"
_INDEX = "model.safetensors.index.json"
# What a plan reserves on the GPU grows with it.
_BATCH, _BATCH_OF_LARGE, _LARGE_WIDTH = 8, 2, 1024


@dataclass(frozen=True)
class _Checkpoint:
    """What was read: weights under CTranslate2's names, the files they came from."""

    weights: dict[str, Array]
    sources: list[Path]
    folder: Path


def make_whisper(
    order: BundleOrder,
    source: Path,
    *,
    tokenizer: Path | None = None,
    exact: bool = False,
    say: Say = lambda line: None,
) -> Path:
    """Make a bundle of the checkpoint `source`, a folder or OpenAI's .pt; its folder comes back.

    `tokenizer` is needed where no tokenizer.json lies beside the weights. With `exact` the CPU
    computes everything on float32, not the large products on int8. Raises InvalidInputError for
    a source that is no Whisper, and like write_bundle.
    """
    say("reading the checkpoint")
    found = _read(source)
    shape = _checked(found, source)
    _drop_tied_head(found.weights)
    words = _tokenizer(tokenizer or found.folder / "tokenizer.json", shape)

    def fill(folder: Path) -> BundleFacts:
        say("writing the weights")
        write_safetensors(folder / whisper_graphs.MADE_SOURCE, found.weights)
        shutil.copyfile(words, folder / "tokenizer.json")
        whisper_graphs.prepare(folder, lambda text, part: say(text), int8=not exact)
        return facts_of(shape)

    return write_bundle(order, "whisper", [*found.sources, words], fill, say)


def facts_of(shape: WhisperShape) -> BundleFacts:
    """What the manifest says about a Whisper of this size."""
    english = shape.n_vocabulary <= _ENGLISH_VOCABULARY
    layers = f"{shape.encoder_layers} + {shape.decoder_layers} layers of {shape.width}"
    return BundleFacts(
        task="asr",
        summary=f"Whisper, {layers}, {'English' if english else 'many languages'}",
        languages=["en"] if english else ["en", "zh"],
        sample_rate_hz=16_000,
        plans=_plans(shape),
    )


def _plans(shape: WhisperShape) -> list[Table]:
    """Shapes as for the pulled Whisper: 0 to 30 s of sound are 152 to 3000 mel frames."""
    batch = _BATCH if shape.width < _LARGE_WIDTH else _BATCH_OF_LARGE
    heads, width, mels = shape.heads, shape.head_width, shape.n_mels
    cross, longest = _cross(shape, batch), shape.max_tokens - 1
    past = (
        [1, heads, 1, width],
        [1, heads, min(24, longest), width],
        [batch, heads, longest, width],
    )
    first = plan(
        "decoder-first",
        "decoder.onnx",
        {"tokens": ([1, 1], [1, 3], [batch, 4]), **cross},
        rebuild="whisper_decoder",
        passes=["drop_empty_cache"],
    )
    # A guess at the whole text behind the prompt, looked at in one step.
    draft = ([1, 2], [1, min(12, shape.max_tokens)], [1, shape.max_tokens])
    first["profiles"].append(profile_table("draft", {"tokens": draft, **_cross(shape, 1)}))
    return [
        plan(
            "encoder",
            "encoder.onnx",
            {"mel": ([1, mels, 152], [1, mels, 550], [batch, mels, 2 * _AUDIO_POSITIONS])},
            rebuild="whisper_encoder",
        ),
        first,
        plan(
            "decoder-next",
            "decoder.onnx",
            {
                "tokens": ([1, 1], [1, 1], [batch, 1]),
                f"past_{{key,value}}_{{0..{shape.decoder_layers - 1}}}": past,
                **cross,
            },
            rebuild="whisper_decoder",
        ),
    ]


def _cross(shape: WhisperShape, batch: int) -> Shapes:
    """Keys and values of the sound, 50 positions a second."""
    heads, width, last = shape.heads, shape.head_width, shape.decoder_layers - 1
    keys, values = zip(
        *(([n, heads, width, at], [n, heads, at, width]) for n, at in (
            (1, 76), (1, 275), (batch, _AUDIO_POSITIONS),
        )),
        strict=True,
    )  # fmt: skip
    return {f"cross_key_{{0..{last}}}": keys, f"cross_value_{{0..{last}}}": values}


def _read(source: Path) -> _Checkpoint:
    if source.is_dir():
        if (source / "model.bin").is_file():
            return _ctranslate2(source)
        return _transformers(source)
    if not source.exists():
        raise InvalidInputError(f"{source}: there is no such file or folder")
    return _openai(source)


def _ctranslate2(folder: Path) -> _Checkpoint:
    path = folder / "model.bin"
    try:
        variables = read_variables(path, "WhisperSpec")
    except ModelStoreError as error:
        raise InvalidInputError(str(error).replace("pull the bundle again", "copy it anew")) from (
            error
        )
    weights = {
        name: _unpacked(variables, name)
        for name in variables
        if not name.endswith("weight_scale") and name.startswith(("encoder/", "decoder/"))
    }
    return _Checkpoint(weights, [path], folder)


def _unpacked(variables: Mapping[str, Array], name: str) -> Array:
    """A tensor as floats: quantised ones were multiplied by the scale of their row."""
    tensor: Array = variables[name]
    scale = variables.get(f"{name}_scale")
    if scale is None:
        return tensor
    rows = np.asarray(scale, np.float32).reshape(-1, *[1] * (tensor.ndim - 1))
    return np.asarray(tensor.astype(np.float32) / rows, np.float32)


def _transformers(folder: Path) -> _Checkpoint:
    if not (folder / "config.json").is_file():
        raise InvalidInputError(_what_is_read(folder))
    config = read_json(folder / "config.json")
    if config.get("model_type") != "whisper":
        raise InvalidInputError(
            f"{folder} holds a model of the type {config.get('model_type')!r}, not Whisper"
        )
    if config.get("activation_function", "gelu") != "gelu" or config.get("scale_embedding"):
        raise InvalidInputError(
            f"{folder}: activation_function must be gelu and scale_embedding off, as in every "
            "Whisper that was published"
        )
    paths = _shards(folder)
    tensors: dict[str, Array] = {}
    for path in paths:
        tensors |= state_dict(read_weights(path), "state_dict")
    # The model with its head, or without.
    tensors = {name.removeprefix("model."): tensor for name, tensor in tensors.items()}
    checked = Checked(tensors, str(folder))
    weights = renamed(checked, _transformers_sizes(config, folder), TRANSFORMERS)
    if "proj_out.weight" in checked:
        weights[_HEAD] = checked.take("proj_out.weight")
    return _Checkpoint(weights, [folder / "config.json", *paths], folder)


def _shards(folder: Path) -> list[Path]:
    """The weight files: one, or those that an index names."""
    if (folder / _INDEX).is_file():
        named = read_json(folder / _INDEX).get("weight_map")
        if not isinstance(named, dict):
            raise InvalidInputError(f"{folder / _INDEX} names no files")
        return [folder / Path(str(name)).name for name in sorted(set(named.values()))]
    for name in ("model.safetensors", "pytorch_model.bin"):
        if (folder / name).is_file():
            return [folder / name]
    raise InvalidInputError(_what_is_read(folder))


def _what_is_read(folder: Path) -> str:
    return (
        f"{folder} holds no weights: model.safetensors (with config.json and tokenizer.json) of "
        "transformers is read, or model.bin of CTranslate2, or the .pt file of OpenAI"
    )


def _transformers_sizes(config: Mapping[str, Any], folder: Path) -> Sizes:
    try:
        heads = int(config["encoder_attention_heads"])
        if heads != int(config["decoder_attention_heads"]):
            raise InvalidInputError(f"{folder}: encoder and decoder must have as many heads")
        return Sizes(
            n_mels=int(config["num_mel_bins"]),
            width=int(config["d_model"]),
            heads=heads,
            encoder_layers=int(config["encoder_layers"]),
            decoder_layers=int(config["decoder_layers"]),
            n_vocabulary=int(config["vocab_size"]),
            audio_positions=int(config["max_source_positions"]),
            max_tokens=int(config["max_target_positions"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInputError(f"{folder / 'config.json'} lacks {error}") from error


def _openai(path: Path) -> _Checkpoint:
    checkpoint = read_weights(path)
    dims = checkpoint.get("dims")
    if not isinstance(dims, Mapping):
        raise InvalidInputError(
            f"{path} is no Whisper of OpenAI, which has its sizes under 'dims'; of other "
            "checkpoints give the folder with config.json and model.safetensors"
        )
    try:
        sizes = Sizes(
            n_mels=int(dims["n_mels"]),
            width=int(dims["n_text_state"]),
            heads=int(dims["n_text_head"]),
            encoder_layers=int(dims["n_audio_layer"]),
            decoder_layers=int(dims["n_text_layer"]),
            n_vocabulary=int(dims["n_vocab"]),
            audio_positions=int(dims["n_audio_ctx"]),
            max_tokens=int(dims["n_text_ctx"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInputError(f"{path}: its sizes under 'dims' lack {error}") from error
    checked = Checked(state_dict(checkpoint, "model_state_dict"), str(path))
    return _Checkpoint(renamed(checked, sizes, OPENAI), [path], path.parent)


def _drop_tied_head(weights: dict[str, Array]) -> None:
    """Mostly the head is the table of embeddings, which the graphs take by themselves."""
    head = weights.get(_HEAD)
    if head is not None and np.array_equal(head, weights["decoder/embeddings/weight"]):
        del weights[_HEAD]


def _checked(found: _Checkpoint, source: Path) -> WhisperShape:
    try:
        shape = shape_of(found.weights)
    except (KeyError, ValueError) as error:
        raise InvalidInputError(f"{source} is no Whisper: {error}") from error
    positions = len(found.weights["encoder/position_encodings/encodings"])
    if positions != _AUDIO_POSITIONS:
        raise InvalidInputError(
            f"{source} hears {positions / 50:g} s at a time; the recogniser is made for Whisper's "
            f"30 s ({_AUDIO_POSITIONS} positions)"
        )
    if shape.width % shape.heads:
        raise InvalidInputError(f"{source}: {shape.heads} heads do not divide {shape.width}")
    if shape.n_mels not in (80, 128):
        raise InvalidInputError(f"{source} hears {shape.n_mels} bands of mel; 80 and 128 are known")
    return shape


def _tokenizer(path: Path, shape: WhisperShape) -> Path:
    if not path.is_file():
        raise InvalidInputError(
            f"{path} is missing: give --tokenizer with the tokenizer.json of a Whisper with "
            f"{shape.n_vocabulary} tokens (that of the bundle whisper-base has 51865)"
        )
    known = {str(t.get("content")) for t in read_json(path).get("added_tokens", ())}
    absent = [token for token in _TOKENS if token not in known]
    if absent:
        raise InvalidInputError(f"{path} is not Whisper's tokenizer: it has no {absent[0]}")
    return path
