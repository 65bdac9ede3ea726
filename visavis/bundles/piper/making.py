"""A voice bundle out of a Piper voice: the .onnx file and the .json beside it.

The network is cut at its length regulator (visavis.bundles.piper.vits): noise and durations become
the host's, so that speech can be repeated, lips know every phoneme, and a GPU's compiler takes it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError

from visavis.bundles.compile.surgery.passes import apply_passes
from visavis.bundles.formats.weights import must_exist, read_json
from visavis.bundles.making import BundleFacts, BundleOrder, Say, plan, profile_table, write_bundle
from visavis.engine.rows import MOST_ROWS
from visavis.serving.errors import InvalidInputError, PlanError

_INPUTS = {"input", "input_lengths", "scales"}
_MARKS = ("^", "$", "_")
_SHORTEST, _USUAL, _LONGEST = 4, 240, 2400
_TOGETHER = 640
"""Frames of each row of a run of several, 7 s: eight of the longest would take gigabytes."""
_SYMBOLS = (3, 160, 704)
# A duration that is rounded the other way moves everything behind it.
_DURATIONS = ("/dp/*", "spline*")


@dataclass(frozen=True)
class VoiceFacts:
    """voice.json of the bundle: what the service has to know to speak with it."""

    sample_rate_hz: int
    hop_samples: int
    """Of the sound, for each frame of latents."""
    noise_scale: float
    duration_noise_scale: float
    length_scale: float
    symbol_ids: dict[str, list[int]]
    phonemes: str
    """Who writes them: "espeak" and the name of its voice, or "text" for letters as they are."""
    speaker: int | None


def make_piper(
    order: BundleOrder,
    network: Path,
    *,
    config: Path | None = None,
    speaker: str = "",
    say: Say = lambda line: None,
) -> Path:
    """Make a bundle of the voice in `network`; its folder comes back.

    `config` is the voice's .json, by default the one beside it; `speaker` a name or number of a
    voice that has several. Raises InvalidInputError for files that are no Piper voice, and like
    write_bundle.
    """
    must_exist(network)
    config = config or network.with_name(network.name + ".json")
    found = read_json(config)
    say("reading the voice")
    model = _read_network(network)
    say("cutting it at its length regulator")
    try:
        text = apply_passes(model, ["vits_text", "vits_splines"])
        voice = apply_passes(model, ["vits_voice"])
    except PlanError as error:
        raise InvalidInputError(f"{network} is not built like a voice of Piper: {error}") from error
    facts = _facts(found, config, voice, speaker)
    _check_symbols(facts, text, network)

    def fill(folder: Path) -> BundleFacts:
        say("writing both halves")
        onnx.save(text, str(folder / "text.onnx"))
        onnx.save(voice, str(folder / "voice.onnx"))
        lines = json.dumps(asdict(facts), ensure_ascii=False, indent=1)
        (folder / "voice.json").write_text(lines + "\n", encoding="utf-8")
        return _bundle_facts(found, facts, text, voice)

    return write_bundle(order, "piper", [network, config], fill, say)


def _read_network(path: Path) -> onnx.ModelProto:
    try:
        model = onnx.load(path)
    except OSError as error:
        raise InvalidInputError(f"{path}: cannot be read: {error.strerror}") from error
    except DecodeError as error:
        raise InvalidInputError(f"{path} is no ONNX model: {error}") from error
    inputs = {value.name for value in model.graph.input}
    if not inputs >= _INPUTS:
        raise InvalidInputError(
            f"{path} takes {', '.join(sorted(inputs)) or 'nothing'}; a voice of Piper takes "
            f"{', '.join(sorted(_INPUTS))}"
        )
    return model


def _facts(
    found: Mapping[str, Any], path: Path, voice: onnx.ModelProto, speaker: str
) -> VoiceFacts:
    try:
        scales = found.get("inference", {})
        espeak = str(found.get("espeak", {}).get("voice", ""))
        kind = str(found.get("phoneme_type", "espeak"))
        facts = VoiceFacts(
            sample_rate_hz=int(found["audio"]["sample_rate"]),
            hop_samples=_hop_samples(voice),
            noise_scale=float(scales.get("noise_scale", 0.667)),
            duration_noise_scale=float(scales.get("noise_w", 0.8)),
            length_scale=float(scales.get("length_scale", 1.0)),
            symbol_ids={str(k): [int(n) for n in v] for k, v in found["phoneme_id_map"].items()},
            phonemes=f"espeak {espeak}".strip() if kind == "espeak" else kind,
            speaker=_speaker(found, path, voice, speaker),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidInputError(f"{path} is no config of Piper: {error!r}") from error
    if not isinstance(found.get("language", {}), dict):
        raise InvalidInputError(f"{path}: language is not a table, as Piper writes it")
    if not (facts.length_scale > 0 and math.isfinite(facts.length_scale)):
        raise InvalidInputError(f"{path}: length_scale {facts.length_scale:g} is no speed")
    if any(number < 0 for numbers in facts.symbol_ids.values() for number in numbers):
        raise InvalidInputError(f"{path}: phoneme_id_map has numbers below 0")
    absent = [mark for mark in _MARKS if not facts.symbol_ids.get(mark)]
    if absent:
        raise InvalidInputError(f"{path}: phoneme_id_map lacks {' '.join(absent)}")
    if not 8_000 <= facts.sample_rate_hz <= 48_000:
        raise InvalidInputError(
            f"{path}: sample_rate {facts.sample_rate_hz} is not from 8000 to 48000"
        )
    return facts


def _speaker(
    found: Mapping[str, Any], path: Path, voice: onnx.ModelProto, wanted: str
) -> int | None:
    """Number of the speaker; None for a voice of one."""
    if all(value.name != "sid" for value in voice.graph.input):
        if wanted:
            raise InvalidInputError(f"speaker: {path.stem} has a single one")
        return None
    names = {str(name): int(number) for name, number in found.get("speaker_id_map", {}).items()}
    count = int(found.get("num_speakers", len(names)))
    if wanted in names:
        return names[wanted]
    if wanted.isdecimal() and int(wanted) < count:
        return int(wanted)
    if wanted:
        some = ", ".join(list(names)[:8])
        raise InvalidInputError(f"speaker: {wanted!r} is neither below {count} nor one of {some}")
    return 0


def _hop_samples(voice: onnx.ModelProto) -> int:
    """Samples for each frame: the strides of the transposed convolutions, multiplied."""
    strides = [
        attribute.ints[0]
        for node in voice.graph.node
        if node.op_type == "ConvTranspose"
        for attribute in node.attribute
        if attribute.name == "strides"
    ]
    return int(np.prod(strides)) if strides else 1


def _check_symbols(facts: VoiceFacts, text: onnx.ModelProto, network: Path) -> None:
    """Every number must have a row in the table that the ids are looked up in."""
    tables = [node.input[0] for node in text.graph.node if "ids" in node.input]
    sizes = [w.dims[0] for w in text.graph.initializer if w.name in tables]
    highest = max(number for numbers in facts.symbol_ids.values() for number in numbers)
    if sizes and highest >= sizes[0]:
        raise InvalidInputError(
            f"{network} knows {sizes[0]} symbols, its config names number {highest}: they do not "
            "belong together"
        )


def _bundle_facts(
    found: Mapping[str, Any], facts: VoiceFacts, text: onnx.ModelProto, voice: onnx.ModelProto
) -> BundleFacts:
    language = found.get("language", {})
    code = str(language.get("family") or facts.phonemes.split()[-1].split("-")[0])
    width = voice.graph.input[0].type.tensor_type.shape.dim[1].dim_value
    name = str(found.get("dataset") or "unnamed")
    quality = str(found.get("audio", {}).get("quality", "")) or "unknown"
    sound = {
        "latents": ([1, width, _SHORTEST], [1, width, _USUAL], [1, width, _LONGEST]),
        "mask": ([1, 1, _SHORTEST], [1, 1, _USUAL], [1, 1, _LONGEST]),
    }
    together = {
        "latents": ([2, width, _SHORTEST], [4, width, _USUAL], [MOST_ROWS, width, _TOGETHER]),
        "mask": ([2, 1, _SHORTEST], [4, 1, _USUAL], [MOST_ROWS, 1, _TOGETHER]),
    }
    low, usual, high = _SYMBOLS
    symbols = {
        "ids": ([1, low], [1, usual], [MOST_ROWS, high]),
        "duration_noise": ([1, 2, low], [1, 2, usual], [MOST_ROWS, 2, high]),
        "mask": ([1, 1, low], [1, 1, usual], [MOST_ROWS, 1, high]),
    }
    if facts.speaker is not None:
        symbols["sid"] = ([1], [1], [MOST_ROWS])
        sound["sid"] = ([1], [1], [1])
        together["sid"] = ([2], [4], [MOST_ROWS])
    voice_plan = plan("voice", "voice.onnx", sound, profile="sentence")
    voice_plan["profiles"].append(profile_table("phrases", together))
    return BundleFacts(
        task="tts",
        summary=f"{name}, a voice of Piper, {language.get('name_english', code)}, {quality} "
        f"quality, {facts.sample_rate_hz} Hz",
        languages=[code],
        sample_rate_hz=facts.sample_rate_hz,
        plans=[
            plan("text", "text.onnx", symbols, profile="sentence", keep_fp32=_durations(text)),
            voice_plan,
        ],
    )


def _durations(text: onnx.ModelProto) -> list[str]:
    """Globs of the duration predictor's nodes, as far as this export names them so."""
    names = [node.name for node in text.graph.node]
    return [glob for glob in _DURATIONS if any(fnmatchcase(name, glob) for name in names)]
