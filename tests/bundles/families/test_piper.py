"""Piper bundles: both halves equal the whole, and the service speaks with them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from services.tts.prosody import Prosody
from services.tts.sound import HOP_SAMPLES, Block
from services.tts.speech_options import SpeechOptions
from services.tts.synthesizer import Synthesizer
from services.tts.voices.base import VOICES
from services.tts.voices.opening import own_voices
from services.tts.voices.piper import PiperConfig, PiperVoice, espeak_symbols
from tests.bundles.compile.graph_runs import GraphEngine
from tests.bundles.families.compiling import compile_plans
from tests.bundles.families.small_voice import STRIDE, small_voice, write_voice
from tests.rows import together
from tests.tts.fakes import WordVoice
from visavis.bundles.compile.surgery.passes import apply_passes
from visavis.bundles.making import BundleOrder
from visavis.bundles.piper.making import make_piper
from visavis.bundles.store import load_manifest
from visavis.engine import open_engine
from visavis.engine.rows import alone
from visavis.serving.errors import InvalidInputError, PlanError, SettingsError, UnknownNameError

Make = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def make(source: Path, name: str = "small", **options: Any) -> Path:
        order = BundleOrder(name, "CC0-1.0", model_dir=tmp_path / "models", replace=True)
        return make_piper(order, source, **options)

    return make


def both_halves(
    folder: Path, ids: NDArray[Any], length_scale: float, **speaker: NDArray[Any]
) -> NDArray[Any]:
    """The voice without noise, the regulator's work done here."""
    with open_engine(folder / "text.onnx") as text, open_engine(folder / "voice.onnx") as voice:
        noise = np.zeros((1, 2, ids.shape[1]), np.float32)
        mask = np.ones((1, 1, ids.shape[1]), np.float32)
        first = text.infer({"ids": ids, "duration_noise": noise, "mask": mask, **speaker})
        frames = np.ceil(first["durations"][0, 0] * np.float32(length_scale)).astype(int)
        latents = np.repeat(first["means"][0], frames, axis=0).T[None]
        mask = np.ones((1, 1, latents.shape[2]), np.float32)
        return voice.infer({"latents": latents, "mask": mask, **speaker})["voice"][0]


@pytest.mark.parametrize("speakers", [1, 3])
def test_both_halves_are_the_whole(speakers: int, make: Make, tmp_path: Path) -> None:
    source = write_voice(tmp_path / "in", speakers=speakers)
    folder = make(source)
    ids = np.random.default_rng(1).integers(3, 40, (1, 25))
    speaker = {"sid": np.array([2])} if speakers > 1 else {}
    with open_engine(source) as whole:
        expected = whole.infer(
            {
                "input": ids,
                "input_lengths": np.array([25]),
                "scales": np.array([0, 1.3, 0], np.float32),
                **speaker,
            }
        )["output"].ravel()
    found = both_halves(folder, ids, 1.3, **speaker)
    assert len(found) > 25 * STRIDE
    assert np.abs(found - expected).max() < 1e-6


def test_noise_and_sums_with_zero_leave_the_graphs() -> None:
    model = small_voice()
    kept = {
        node.op_type
        for name in ("vits_text", "vits_voice")
        for node in apply_passes(model, [name]).graph.node
    }
    assert not kept & {"RandomNormalLike", "ConstantOfShape", "Ceil", "CumSum", "Range", "Less"}


def test_the_noise_of_the_durations_is_the_hosts() -> None:
    text = GraphEngine(apply_passes(small_voice(), ["vits_text"]))
    ids = np.arange(3, 13)[None]

    def durations(level: float) -> list[float]:
        noise = np.full((1, 2, 10), level, np.float32)
        mask = np.ones((1, 1, 10), np.float32)
        made = text.infer({"ids": ids, "duration_noise": noise, "mask": mask})
        return made["durations"].ravel().tolist()

    assert durations(0.0) == durations(0.0) != durations(1.0)


def test_both_halves_compile(make: Make, tmp_path: Path) -> None:
    make(write_voice(tmp_path / "in"))
    assert list(compile_plans("small", tmp_path / "models", "fp16")) == ["text", "voice"]


def test_the_manifest_says_who_speaks(make: Make, tmp_path: Path) -> None:
    folder = make(write_voice(tmp_path / "in", speakers=2), speaker="bob")
    manifest = load_manifest("small", tmp_path / "models")
    assert (manifest.task, manifest.languages, manifest.sample_rate_hz) == ("tts", ("en",), 8000)
    assert manifest.made is not None
    assert [f.path for f in manifest.made.sources] == ["small.onnx", "small.onnx.json"]
    config = PiperConfig.read(folder / "voice.json")
    assert (config.hop_samples, config.speaker, config.length_scale) == (STRIDE, 1, 1.2)
    assert config.symbol_ids["^"] == [1]


@pytest.mark.parametrize(
    ("changes", "options", "said"),
    [
        ({"phoneme_id_map": {"a": [3]}}, {}, r"lacks \^ \$ _"),
        ({"phoneme_id_map": {"_": [0], "^": [1], "$": [2], "a": [900]}}, {}, "names number 900"),
        ({"phoneme_id_map": [1]}, {}, "no config of Piper"),
        ({"audio": {}}, {}, "no config of Piper: KeyError"),
        ({"audio": {"sample_rate": 96000}}, {}, "sample_rate 96000 is not from"),
        ({"language": "en"}, {}, "language is not a table"),
        ({"inference": {"length_scale": 0}}, {}, "length_scale 0 is no speed"),
        ({"phoneme_id_map": {"^": [-1]}}, {}, "numbers below 0"),
        ({}, {"speaker": "ann"}, "has a single one"),
        ({"speakers": 2}, {"speaker": "carl"}, "'carl' is neither below 2 nor one of ann, bob"),
    ],
)
def test_a_config_that_does_not_fit_is_told(
    changes: dict[str, Any], options: dict[str, Any], said: str, make: Make, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInputError, match=said):
        make(write_voice(tmp_path / "in", **changes), **options)


def test_what_is_no_voice_is_told(make: Make, tmp_path: Path) -> None:
    source = write_voice(tmp_path / "in")
    junk = source.with_name("junk.onnx")
    junk.write_bytes(b"\xff" * 90)
    config = source.with_name("small.onnx.json")
    with pytest.raises(InvalidInputError, match=r"absent\.onnx: there is no such file"):
        make(source.with_name("absent.onnx"))
    with pytest.raises(InvalidInputError, match="no ONNX model"):
        make(junk, config=config)
    with pytest.raises(InvalidInputError, match=r"junk\.onnx\.json: cannot be read"):
        make(junk)
    other = apply_passes(onnx.load(source), ["vits_voice"])
    onnx.save(other, str(junk))
    with pytest.raises(InvalidInputError, match="takes latents, mask; a voice of Piper takes"):
        make(junk, config=config)
    model = onnx.load(source)
    for node in model.graph.node:
        node.op_type = "Floor" if node.op_type == "Ceil" else node.op_type
    onnx.save(model, str(junk))
    with pytest.raises(InvalidInputError, match=r"not built like a voice of Piper: .*rounding"):
        make(junk, config=config)
    with pytest.raises(PlanError, match="rounding"):
        apply_passes(model, ["vits_text"])


@pytest.fixture
def voice(make: Make, tmp_path: Path) -> Any:
    folder = make(write_voice(tmp_path / "in", speakers=2), speaker="1")
    config = PiperConfig.read(folder / "voice.json")
    with open_engine(folder / "text.onnx") as text, open_engine(folder / "voice.onnx") as sound:
        yield PiperVoice(text, sound, config)


def test_its_speech_has_whole_hops_every_phoneme_and_the_ends_of_words(voice: PiperVoice) -> None:
    (block,) = alone(voice.speak("Hello, my friend."))
    assert len(block.voice) == len(block.mel) * HOP_SAMPLES
    ends = [span.start_hops + span.hops for span in block.spans]
    assert [span.start_hops for span in block.spans] == [0, *ends[:-1]]
    assert ends[-1] == len(block.mel)
    assert [s.symbol for s in block.spans if s.symbol != "sil"] == [
        "HH", "AH0", "L", "OW1", "M", "AY0", "F", "R", "EH1", "N", "D",
    ]  # fmt: skip
    assert [word for word, _ in block.words] == [0, 1, 2]
    hops = [hops for _, hops in block.words]
    assert hops == sorted(hops)
    assert 0 < hops[0] <= hops[2] <= len(block.mel)


def test_it_repeats_itself_and_heeds_the_speed(voice: PiperVoice) -> None:
    first, second, slow = (
        next(alone(voice.speak("Good morning to you.", Prosody(speed=speed))))
        for speed in (1.0, 1.0, 0.5)
    )
    assert np.array_equal(first.voice, second.voice)
    assert len(slow.voice) > 1.5 * len(first.voice)
    assert list(alone(voice.speak("..."))) == []


def test_long_text_comes_in_parts(voice: PiperVoice) -> None:
    blocks = list(alone(voice.speak("It was the best of times, it was the worst of times. " * 8)))
    assert len(blocks) > 2
    assert all(block.voice.any() for block in blocks)


@pytest.mark.parametrize(
    ("letters", "symbols"),
    [
        ("həlˈO", "həlˈoʊ"),
        ("bˈɜɹd", "bˈɜːd"),
        ("lˈATəɹ", "lˈeɪɾɚ"),
        ("əɹˈWnd", "ɚɹˈaʊnd"),
        ("sˈi hˈæpi", "sˈiː hˈæpi"),
        ("ʤˈʌʤ ʧˈOz", "dʒˈʌdʒ tʃˈoʊz"),
        ("wˈɔɹm—ju", "wˈɔːɹm,juː"),
    ],
)
def test_letters_become_what_espeak_writes(letters: str, symbols: str) -> None:
    assert "".join(espeak_symbols(letters)) == symbols


def test_the_service_knows_it_by_name(make: Make, tmp_path: Path) -> None:
    models = tmp_path / "models"
    make(write_voice(tmp_path / "in"))
    (own,) = own_voices(" small ,", models)
    assert (own.info.name, own.info.languages, own.info.licence) == ("small", ("en",), "CC0-1.0")
    assert own_voices("", models) == []
    with pytest.raises(SettingsError, match="hibari-en was not made"):
        (models / "hibari-en").symlink_to(_hibari())
        own_voices("hibari-en", models)
    german = {"language": {"family": "de", "name_english": "German"}}
    make(write_voice(tmp_path / "de", **german), "german")
    with pytest.raises(SettingsError, match="german speaks de, and only for English"):
        own_voices("german", models)


def _hibari() -> Path:
    from visavis.bundles.store import bundle_path
    from visavis.serving.errors import ModelStoreError

    try:
        return bundle_path("hibari-en")
    except ModelStoreError as error:
        pytest.skip(str(error))


def test_it_speaks_where_it_is_asked_for_and_only_its_language(make: Make, tmp_path: Path) -> None:
    make(write_voice(tmp_path / "in"))
    (own,) = own_voices("small", tmp_path / "models")
    ours, mine = {tag: WordVoice(tag) for tag in ("en", "zh")}, WordVoice("en")
    known = (*VOICES, own.info)
    synthesizer = Synthesizer(ours, own={"small": mine}, known=known)
    list(synthesizer.speak("Good morning."))
    list(synthesizer.speak("Good evening 北京.", voice="small"))
    assert ours["en"].heard == ["Good morning."]
    assert mine.heard == ["Good evening "]
    assert [text.strip(" .") for text in ours["zh"].heard] == ["北京"]
    with pytest.raises(UnknownNameError, match="known are heart, baker, small"):
        synthesizer.answer(SpeechOptions(voice="big"))
    with pytest.raises(InvalidInputError, match="pitch_range: voice 'small' cannot change"):
        synthesizer.answer(SpeechOptions(voice="small", pitch_range=1.5))
    pieces = synthesizer.speak("[happy] Good evening.", voice="small")
    assert any("voice 'small' cannot change" in n for piece in pieces for n in piece.notices)


def test_phrases_of_other_lengths_share_runs_and_sound_as_alone(voice: PiperVoice) -> None:
    texts = ["Hello, my friend.", "Yes.", "It was the best."]
    made, rows = together([voice.speak(text) for text in texts])
    assert rows == [3, 3], "one run of each half"
    for text, (block,) in zip(texts, made, strict=True):
        (apart,) = alone(voice.speak(text))
        assert isinstance(block, Block) and isinstance(apart, Block)
        assert block.words == apart.words and len(block.voice) == len(apart.voice)
        assert np.abs(block.voice - apart.voice).max() < 1e-5
