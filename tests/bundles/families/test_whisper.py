"""Whisper bundles against what transformers and OpenAI's own code compute; see write_references."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tokenizers import AddedToken, Tokenizer
from tokenizers.models import BPE

from services.asr.hearing.networks import BundledNetworks
from services.asr.hearing.whisper import Whisper
from services.asr.servicer import open_hearing
from services.asr.settings import AsrSettings
from tests.bundles.compile.graph_runs import GraphRun
from tests.bundles.families import seeded
from tests.bundles.families.compiling import compile_plans, kinds_read
from tests.parity import Parity
from visavis.bundles.compile.float_graphs import float_graph
from visavis.bundles.formats.safetensors import read_safetensors, write_safetensors
from visavis.bundles.making import BundleOrder
from visavis.bundles.store import load_manifest, profile, recipes_of
from visavis.bundles.store.recipe import PlanRecipe
from visavis.bundles.whisper.graph import MADE_SOURCE, WhisperShape
from visavis.bundles.whisper.making import facts_of, make_whisper
from visavis.engine import Engine, open_engine
from visavis.serving.errors import InvalidInputError, ModelStoreError, SettingsError

REFERENCES = np.load(Path(__file__).parent / "files" / "references.npz")
OPENAI = Path(__file__).parent / "files" / "openai.pt"
Weights = dict[str, NDArray[Any]]


def tokenizer(folder: Path) -> Path:
    """Whisper's control tokens and nothing else."""
    made = Tokenizer(BPE())
    names = ["endoftext", "startoftranscript", "en", "de", "translate", "transcribe"]
    names += ["startoflm", "startofprev", "nospeech", "notimestamps"]
    made.add_special_tokens([AddedToken(f"<|{name}|>", special=True) for name in names])
    made.save(str(folder / "tokenizer.json"))
    return folder / "tokenizer.json"


def transformers_folder(folder: Path, kind: str, **changes: object) -> Path:
    folder.mkdir()
    config = seeded.whisper_config(kind)
    write_safetensors(folder / "model.safetensors", seeded.weights(seeded.whisper_shapes(config)))
    (folder / "config.json").write_text(json.dumps(config | changes))
    tokenizer(folder)
    return folder


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., tuple[Engine, Engine]]:
    def make(source: Path, **options: Any) -> tuple[Engine, Engine]:
        order = BundleOrder("ear", "MIT", model_dir=tmp_path / "models", replace=True)
        folder = make_whisper(order, source, **options)
        engines = open_engine(folder / "encoder.onnx"), open_engine(folder / "decoder.onnx")
        for engine in engines:
            engine.load()
        return engines

    return make


def logits(encoder: Engine, decoder: Engine, mel: NDArray[Any], *steps: list[int]) -> NDArray[Any]:
    """[tokens, vocabulary], of tokens that are given in `steps` to an empty cache."""
    audio = encoder.infer({"mel": mel})
    cache = {
        name: np.zeros((1, spec.shape[1] or 0, 0, spec.shape[3] or 0), np.float32)
        for name, spec in decoder.inputs.items()
        if name.startswith("past_")
    }
    made = []
    for tokens in steps:
        out = decoder.infer({"tokens": np.array([tokens], np.int64), **audio, **cache})
        cache = {name: out[name.replace("past", "present")] for name in cache}
        made.append(out["logits"][0])
    return np.concatenate(made)


@pytest.mark.parametrize("kind", ["multilingual", "english", "turbo"])
def test_the_bundle_computes_what_transformers_does(
    kind: str,
    make: Callable[..., tuple[Engine, Engine]],
    tmp_path: Path,
    parities: list[Parity],
) -> None:
    engines = make(transformers_folder(tmp_path / "hf", kind), exact=True)
    mel = seeded.whisper_mel(128 if kind == "turbo" else 80)
    tokens = seeded.WHISPER_TOKENS
    ways = [tokens], [tokens[:2], tokens[2:3], tokens[3:]]
    found = [logits(*engines, mel, *steps)[:, seeded.WHISPER_KEPT] for steps in ways]
    error = float(np.abs(found - REFERENCES[f"whisper_{kind}"]).max())
    parities.append(Parity(f"Whisper, {kind}", "against transformers", "random weights", error))
    assert error < 1e-4
    manifest = load_manifest("ear", tmp_path / "models")
    assert manifest.languages == (("en",) if kind == "english" else ("en", "zh"))
    profile = next(p for p in manifest.plans if p.name == "decoder-next").profiles[0]
    assert ("past_key_1" in profile.shapes) == (kind != "turbo")


def test_the_bundle_computes_what_openais_code_does(
    make: Callable[..., tuple[Engine, Engine]], tmp_path: Path
) -> None:
    engines = make(OPENAI, tokenizer=tokenizer(tmp_path), exact=True)
    found = logits(*engines, seeded.whisper_mel(80, 3000), [3, 1, 4, 1, 5])
    # Its weights are float16, rounded after the reference was computed.
    assert np.abs(found - REFERENCES["openai"]).max() < 2e-2 * np.abs(REFERENCES["openai"]).max()


@pytest.fixture
def weights(make: Callable[..., tuple[Engine, Engine]], tmp_path: Path) -> Weights:
    """Those of the multilingual one as CTranslate2 has them: in 16 bits, under its names."""
    make(transformers_folder(tmp_path / "multilingual", "multilingual"))
    named = read_safetensors(tmp_path / "models" / "ear" / MADE_SOURCE)
    return {n: w.astype(np.float16) if w.dtype.kind == "f" else w for n, w in named.items()}


def write_model(path: Path, weights: Mapping[str, Any], specification: str = "WhisperSpec") -> None:
    """As CTranslate2 serialises a model, with the projection as an alias."""
    codes = {np.dtype(np.float16): 4, np.dtype(np.int16): 2}

    def name(text: str) -> bytes:
        return struct.pack("<H", len(text) + 1) + text.encode() + b"\0"

    parts = [struct.pack("<I", 6), name(specification), struct.pack("<II", 3, len(weights))]
    for key, tensor in weights.items():
        raw = tensor.tobytes()
        parts.append(name(key) + struct.pack("<B", tensor.ndim))
        parts.append(struct.pack(f"<{tensor.ndim}I", *tensor.shape))
        parts.append(struct.pack("<BI", codes[tensor.dtype], len(raw)) + raw)
    parts.append(struct.pack("<I", 1) + name("decoder/projection/weight"))
    parts.append(name("decoder/embeddings/weight"))
    path.write_bytes(b"".join(parts))


def ctranslate2_folder(folder: Path, weights: Weights, **model: str) -> Path:
    folder.mkdir()
    write_model(folder / "model.bin", weights, **model)
    tokenizer(folder)
    return folder


def test_the_first_step_needs_no_empty_cache(
    weights: Weights, tmp_path: Path, parities: list[Parity]
) -> None:
    """By the plans of the one that is pulled, out of a file like its own."""
    folder = ctranslate2_folder(tmp_path / "pulled", weights)
    encoder, first, following = (
        GraphRun(float_graph(folder, recipe)) for recipe in recipes_of("whisper-base")
    )
    given = {"tokens": np.array([[3, 1, 4]]), **encoder({"mel": seeded.whisper_mel(80)})}
    assert not [name for name in first.inputs if name.startswith("past_")]
    empty = {
        name: np.zeros((1, shape[1], 0, shape[3]), np.float32)
        for name, shape in following.inputs.items()
        if name.startswith("past_")
    }
    alone, wanted = first(given), following(given | empty)
    assert alone.keys() == wanted.keys()
    error = max(float(np.abs(alone[name] - made).max()) for name, made in wanted.items())
    parities.append(Parity("Whisper decoder", "drop_empty_cache", "random weights", error))
    assert error < 1e-4


def test_ctranslate2_is_read_quantised_or_not_and_computes_near_it_on_integers(
    make: Callable[..., tuple[Engine, Engine]], weights: Weights, tmp_path: Path
) -> None:
    weights["decoder/alignment_layer"] = np.array(1, np.int16)
    expected = REFERENCES["whisper_multilingual"]
    largest, usual = np.abs(expected).max(), np.abs(expected).mean()

    def differs(folder: Path, **options: Any) -> NDArray[Any]:
        engines = make(folder, **options)
        made = logits(*engines, seeded.whisper_mel(80), seeded.WHISPER_TOKENS)
        return np.abs(made[:, seeded.WHISPER_KEPT] - expected)

    halves = ctranslate2_folder(tmp_path / "halves", weights)
    assert differs(halves, exact=True).max() < 2e-3 * largest
    assert 0 < differs(halves).mean() < 0.05 * usual
    name = "decoder/layer_1/ffn/linear_0/weight"
    scale = (127 / np.abs(weights[name]).max(axis=1)).astype(np.float16)
    rounded = np.rint(weights[name] * scale[:, None]).astype(np.int16)
    quantised = weights | {name: rounded, f"{name}_scale": scale}
    folder = ctranslate2_folder(tmp_path / "quantised", quantised)
    assert differs(folder, exact=True).max() < 0.1 * largest


def test_the_recogniser_runs_it(
    make: Callable[..., tuple[Engine, Engine]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """128 bands, a prompt of its own for English alone; what it says is noise."""
    for kind, languages, prompt in (
        ("turbo", ("en", "de"), ["startoftranscript", "en", "transcribe"]),
        ("english", ("en",), ["startoftranscript"]),
    ):
        folder = transformers_folder(tmp_path / kind, kind)
        words = Tokenizer.from_file(str(folder / "tokenizer.json"))
        encoder, decoder = make(folder)
        whisper = Whisper(encoder, decoder, words)
        assert whisper.languages == languages
        steps: list[list[int]] = []
        run = decoder.infer_resident

        def noting(inputs: Any, resident: Any, run: Any = run, steps: Any = steps) -> Any:
            steps.append(inputs["tokens"][0].tolist())
            return run(inputs, resident)

        monkeypatch.setattr(decoder, "infer_resident", noting)
        assert whisper.transcribe(np.zeros(4000, np.float32), "en").language == "en"
        assert steps[0] == [words.token_to_id(f"<|{name}|>") for name in prompt]


def test_the_service_hears_with_it_under_any_name(
    make: Callable[..., tuple[Engine, Engine]], tmp_path: Path
) -> None:
    make(transformers_folder(tmp_path / "hf", "english"))
    folders = {
        "ear": tmp_path / "models" / "ear",
        "silero-vad": tmp_path / "silero-vad",
        "smart-turn": tmp_path / "smart-turn",
    }
    networks = BundledNetworks(folders, open_engine)
    assert isinstance(networks.transcriber("ear"), Whisper)
    networks.close()


def test_large_float_graphs_keep_matrices_in_halves(
    make: Callable[..., tuple[Engine, Engine]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(transformers_folder(tmp_path / "hf", "multilingual"))
    folder = tmp_path / "models" / "ear"
    recipes = {recipe.name: recipe for recipe in load_manifest("ear", tmp_path / "models").plans}
    whole = float_graph(folder, recipes["decoder-next"])
    monkeypatch.setattr("visavis.bundles.whisper.graph._LARGEST_FLOAT_BYTES", 1000)
    small = float_graph(folder, recipes["decoder-next"])
    assert small.ByteSize() < 0.8 * whole.ByteSize()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model_type": "bart"}, "type 'bart', not Whisper"),
        ({"scale_embedding": True}, "scale_embedding off"),
        ({"activation_function": "relu"}, "must be gelu"),
        ({"d_model": 32}, r"encoder.conv1.weight has the shape \[24, 80, 3\]; \[32, 80, 3\]"),
        ({"encoder_layers": 3}, "no tensor encoder.layers.2"),
        ({"decoder_attention_heads": 2}, "as many heads"),
        ({"vocab_size": "many"}, "config.json lacks"),
    ],
)
def test_a_config_that_does_not_fit_is_told(
    changes: dict[str, object], said: str, tmp_path: Path
) -> None:
    folder = transformers_folder(tmp_path / "hf", "multilingual", **changes)
    with pytest.raises(InvalidInputError, match=said):
        make_whisper(BundleOrder("ear", "MIT", model_dir=tmp_path / "models"), folder)
    assert not (tmp_path / "models" / "ear").exists()


def test_what_is_no_whisper_is_told(weights: Weights, tmp_path: Path) -> None:
    order = BundleOrder("ear", "MIT", model_dir=tmp_path / "models")

    def said(source: Path, **options: Any) -> str:
        with pytest.raises(InvalidInputError) as caught:
            make_whisper(order, source, **options)
        return str(caught.value)

    assert "no such file or folder" in said(tmp_path / "absent")
    (tmp_path / "empty").mkdir()
    assert "model.bin of CTranslate2" in said(tmp_path / "empty")
    assert "give --tokenizer" in said(OPENAI)
    (tmp_path / "strange.json").write_text('{"added_tokens": [{"content": "<s>"}]}')
    assert "not Whisper's tokenizer" in said(OPENAI, tokenizer=tmp_path / "strange.json")
    assert "sizes under 'dims'" in said(OPENAI.with_name("zip.pt"))
    folder = transformers_folder(tmp_path / "hf", "english")
    (folder / "model.safetensors").unlink()
    assert "holds no weights" in said(folder)
    (folder / "model.bin").write_bytes(b"\0" * 100)
    assert "not a CTranslate2 model" in said(folder)
    other = ctranslate2_folder(tmp_path / "other", weights, specification="TransformerSpec")
    assert "TransformerSpec" in said(other)
    positions = "encoder/position_encodings/encodings"
    short = ctranslate2_folder(tmp_path / "short", weights | {positions: weights[positions][:60]})
    assert "hears 1.2 s at a time" in said(short)
    whole = (short / "model.bin").read_bytes()
    (short / "model.bin").write_bytes(whole[: len(whole) // 2])
    assert "cut short" in said(short)


def test_its_plans_compile(
    make: Callable[..., tuple[Engine, Engine]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which stands for the pulled one, too: see below. The first step is the next one but for the
    keys and values that it is given, and is read."""
    make(transformers_folder(tmp_path / "hf", "english"))
    models = tmp_path / "models"
    assert "HALF" in kinds_read("ear", "decoder-first", models, "fp16")
    assert len(compile_plans("ear", models, "fp16", ("encoder",))) == 1
    monkeypatch.setattr("visavis.bundles.whisper.graph._LARGEST_FLOAT_BYTES", 1000)
    monkeypatch.setattr("visavis.bundles.whisper.graph._LARGE_MATRIX", 500)
    assert len(compile_plans("ear", models, "fp16", ("decoder-next",))) == 1


def test_the_pulled_one_has_the_plans_that_one_of_its_size_is_made_with() -> None:
    made = facts_of(WhisperShape(80, 512, 8, 6, 6, 51_865, 448)).plans
    assert [PlanRecipe.model_validate(table) for table in made] == list(recipes_of("whisper-base"))


def test_the_setting_names_recognisers_of_ones_own(
    make: Callable[..., tuple[Engine, Engine]], tmp_path: Path, bundle: Callable[[str], Path]
) -> None:
    make(transformers_folder(tmp_path / "hf", "english"))
    models = tmp_path / "models"
    for name in profile("tiny")["asr"]:
        (models / name).symlink_to(bundle(name))
    settings = AsrSettings(recognisers=" ear ,", model_dir=models, profile="tiny")
    hearing = open_hearing(settings)
    assert hearing.bundles[0] == "ear"  # so it keeps the languages that it knows
    hearing.close()
    wrong = settings.model_copy(update={"recognisers": "whisper-base"})
    with pytest.raises(SettingsError, match="whisper-base was not made with"):
        open_hearing(wrong)
    absent = settings.model_copy(update={"recognisers": "nose"})
    with pytest.raises(ModelStoreError, match="no bundle named 'nose'"):
        open_hearing(absent)
