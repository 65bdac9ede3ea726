"""Networks in parts are the whole again: run by ONNX Runtime, part by part, on real sound."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import onnx
import pytest
from tokenizers import Tokenizer

from services.asr.hearing.moonshine import Moonshine
from services.asr.hearing.whisper import Whisper
from tests.asr.test_transcripts import sound
from visavis.bundles.compile.float_graphs import float_graph
from visavis.bundles.store import recipes_of
from visavis.engine import Engine, Resident, Tensors, open_engine
from visavis.engine.onnxruntime import OnnxRuntimeEngine
from visavis.engine.tensorrt.compiled import Arrangement, arrange
from visavis.serving.errors import EngineLoadError

Bundle = Callable[[str], Path]


class Arranged(Engine):
    """Loaded parts as an engine."""

    backend = "parts"
    keeps_tensors = True

    def __init__(self, whole: Arrangement) -> None:
        super().__init__(Path("parts"), device="cpu", threads=1)
        self._whole = whole

    def _load(self):  # type: ignore[no-untyped-def]
        return self._whole.inputs, self._whole.outputs

    def _infer(self, inputs: Tensors):  # type: ignore[no-untyped-def]
        return self._whole.run(inputs, ())

    def _infer_resident(self, inputs: Tensors, resident) -> dict[str, Resident]:  # type: ignore[no-untyped-def]
        return self._whole.run(inputs, resident)

    def _close(self) -> None: ...


@pytest.fixture
def parts(bundle: Bundle, tmp_path: Path) -> Iterator[Callable[[str, str], Arranged]]:
    """A file of a bundle, compiled in parts as its recipes say, but for ONNX Runtime."""
    with ExitStack() as stack:

        def open_parts(name: str, file: str) -> Arranged:
            folder, plans = bundle(name), {}
            for recipe in recipes_of(name):
                if recipe.graph == file:
                    path = tmp_path / f"{recipe.name}.onnx"
                    onnx.save(float_graph(folder, recipe), path)
                    engine = OnnxRuntimeEngine(path, device="cpu", threads=1)
                    plans[recipe.name] = stack.enter_context(engine)
            arranged = Arranged(arrange(file, plans))
            arranged.load()
            return arranged

        yield open_parts


def test_moonshine_in_two_steps_writes_the_same(
    bundle: Bundle, parts: Callable[[str, str], Arranged]
) -> None:
    folder = bundle("moonshine-tiny-en")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    speech = sound("jfk")
    with (
        open_engine(folder / "encoder.onnx") as encoder,
        open_engine(folder / "decoder.onnx") as decoder,
    ):
        arranged = parts("moonshine-tiny-en", "decoder.onnx")
        assert set(arranged.inputs) == set(decoder.inputs)
        assert set(arranged.outputs) == set(decoder.outputs)
        whole = Moonshine(encoder, decoder, tokenizer).transcribe(speech)
        parted = Moonshine(encoder, arranged, tokenizer).transcribe(speech)
    assert whole.text == parted.text
    assert "ask not what your country" in parted.text.lower()


def test_whisper_in_two_steps_writes_the_same(
    bundle: Bundle, parts: Callable[[str, str], Arranged]
) -> None:
    folder = bundle("whisper-base")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    speech = sound("jfk")[: 3 * 16_000]
    with (
        open_engine(folder / "encoder.onnx") as encoder,
        open_engine(folder / "decoder.onnx") as decoder,
    ):
        arranged = parts("whisper-base", "decoder.onnx")
        assert set(arranged.inputs) == set(decoder.inputs)
        assert set(arranged.outputs) == set(decoder.outputs)
        whole = Whisper(encoder, decoder, tokenizer).transcribe(speech, "en")
        parted = Whisper(encoder, arranged, tokenizer).transcribe(speech, "en")
    assert parted.text
    assert whole.text == parted.text


def test_hibari_around_its_length_regulator_sounds_the_same(
    bundle: Bundle, parts: Callable[[str, str], Arranged]
) -> None:
    file = "hibari-durations.onnx"
    inputs = {
        "ids": np.array([[0, 12, 7, 31, 18, 9, 22, 5, 0]], np.int64),
        "speed": np.array([1.1], np.float32),
    }
    arranged = parts("hibari-en", file)
    with open_engine(bundle("hibari-en") / file) as engine:
        assert set(arranged.inputs) == set(engine.inputs)
        assert set(arranged.outputs) == set(engine.outputs)
        whole = engine.infer(inputs)
    parted = arranged.infer(inputs)
    np.testing.assert_array_equal(whole["durations"], parted["durations"])
    for name in whole:
        assert whole[name].shape == parted[name].shape
    # The published weights are 8 bits and quantise on the way; the parts are floats.
    error = np.abs(whole["lh"] - parted["lh"]).mean() / np.abs(whole["lh"]).mean()
    assert error < 0.1


def test_parts_that_nobody_can_join_are_refused() -> None:
    with pytest.raises(EngineLoadError, match=r"no way .* left, right"):
        arrange("model.onnx", {"left": None, "right": None})  # type: ignore[dict-item]
