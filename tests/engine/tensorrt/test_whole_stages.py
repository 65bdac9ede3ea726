"""Whole stages over the doubles, computed by ONNX Runtime: what crosses the bus and what does not.

The doubles prove the bookkeeping: buffers, shapes, tensors that stay. Not a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer

from services.asr.hearing.moonshine import Moonshine
from services.tts.voices.english import EnglishVoice
from services.tts.voices.mandarin import MandarinVoice
from services.tts.voices.opening import own_voices
from tests.asr.hearing.test_transcripts import sound
from tests.bundles.compile.float_graphs import FloatGraphs
from tests.engine.tensorrt.onnx_network import network_of, ranges_of
from tests.engine.tensorrt.recorded_device import RecordedBinding, RecordedDevice
from tests.engine.tensorrt.recorded_trt import RecordedTrt
from tests.rows import together
from tests.tts.voices.small_kokoro import pull_kokoro, small_kokoro
from visavis.bundles.compile.sources import BundlePlan, bundle_plans
from visavis.bundles.store import recipes_of
from visavis.engine import Engine, open_engine
from visavis.engine.base import EngineOptions
from visavis.engine.rows import alone
from visavis.engine.tensorrt import engine
from visavis.engine.tensorrt.bindings import messages
from visavis.engine.tensorrt.compiled import CompiledEngine
from visavis.serving.errors import UnfitShapeError

Bundle = Callable[[str], Path]
Open = Callable[[str, str], CompiledEngine]


@pytest.fixture
def device() -> RecordedDevice:
    return RecordedDevice()


@pytest.fixture
def open_compiled(
    bundle: Bundle,
    float_graphs: FloatGraphs,
    device: RecordedDevice,
    monkeypatch: pytest.MonkeyPatch,
) -> Open:
    """A file of a bundle through the whole backend, with doubles in the place of plan and GPU."""
    trt = RecordedTrt(device, {})

    def read(plan: BundlePlan, _trt: Any, _info: Any) -> bytes:
        return str(plan.request).encode()

    def open_file(name: str, file: str) -> CompiledEngine:
        for recipe in recipes_of(name):
            if recipe.graph == file:
                key = f"{name} {recipe.name} fp32".encode()
                graph = float_graphs.path(name, recipe.name).read_bytes()
                trt.plans[key] = network_of(graph, ranges_of(recipe.profiles))
        return CompiledEngine(
            bundle(name) / file,
            device="cuda:0",
            options=EngineOptions(plans=partial(bundle_plans, precision="fp32")),
        )

    monkeypatch.setattr(messages, "_relays", {})
    monkeypatch.setattr(BundlePlan, "read", read)
    monkeypatch.setattr(engine, "import_trt", lambda backend: trt)
    monkeypatch.setattr(
        engine, "open_device", lambda wanted, binding: RecordedBinding(device).open(device.info)
    )
    return open_file


def test_the_mandarin_mel_stays_on_the_device(
    bundle: Bundle, device: RecordedDevice, open_compiled: Open
) -> None:
    folder = bundle("fastspeech2-mbmelgan-zh")
    names = ("encoder", "decoder", "vocoder")

    def speak(engines: list[Engine]) -> np.ndarray:
        voice = MandarinVoice(*engines, folder / "mapper.json")
        device.calls.clear()
        return np.concatenate([block.voice for block in alone(voice.speak("你好世界。"))])

    def opened(engines: list[Engine]) -> np.ndarray:
        for each in engines:
            each.load()
        try:
            return speak(engines)
        finally:
            for each in engines:
                each.close()

    ours = opened([open_compiled(folder.name, f"{name}.onnx") for name in names])
    calls = list(device.calls)
    theirs = opened([open_engine(folder / f"{name}.onnx") for name in names])
    np.testing.assert_allclose(ours, theirs, atol=1e-4)
    # ids in; hidden and mask in; then only pieces of the mel, and those from the device.
    assert calls.count("copy_to_device") == 3
    assert calls.count("copy_on_device") >= 2
    assert device.nothing_left()


def test_moonshines_cache_stays_on_the_device(
    bundle: Bundle, device: RecordedDevice, open_compiled: Open
) -> None:
    folder = bundle("moonshine-tiny-en")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    speech = sound("jfk")[:20_000]
    with (
        open_engine(folder / "encoder.onnx") as encoder,
        open_engine(folder / "decoder.onnx") as whole,
        open_compiled("moonshine-tiny-en", "decoder.onnx") as parts,
    ):
        expected = Moonshine(encoder, whole, tokenizer).transcribe(speech)
        device.calls.clear()
        made = Moonshine(encoder, parts, tokenizer).transcribe(speech)
        steps = device.calls.count("copy_to_host")
    assert expected.text == made.text != ""
    assert steps > 3, "one for the logits of each step and no other"
    # The token of each step, and once what the encoder made.
    assert device.calls.count("copy_to_device") == steps + 1
    assert device.nothing_left()


def test_phrases_share_runs_of_hibaris_plans_as_far_as_these_take_them(
    open_compiled: Open, device: RecordedDevice
) -> None:
    texts = ("Yes.", "Hello, my friend.", "It was the best of times, it was the worst. " * 5)
    engine = open_compiled("hibari-en", "hibari-durations.onnx")
    engine.load()
    voice = EnglishVoice(engine)
    apart = [[block.voice for block in alone(voice.speak(text))] for text in texts]
    for shared, copied in ((texts[:2], 2 + 3), (texts[1:], 2 + 2 * 3)):
        device.calls.clear()
        made, rows = together([voice.speak(text) for text in shared])
        assert rows == [len(shared)]
        # ids and speeds; then states and mask: of all, or of each where all are too long.
        assert device.calls.count("copy_to_device") == copied
        for blocks, text in zip(made, shared, strict=True):
            expected = apart[texts.index(text)]
            for block, other in zip(blocks, expected, strict=True):
                np.testing.assert_allclose(block.voice, other, atol=1e-3)
    engine.close()
    assert device.nothing_left()


def test_kokoro_speaks_by_the_plans_of_its_halves(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    device: RecordedDevice,
    open_compiled: Open,
) -> None:
    """Random weights, but the catalogue's plans: from one letter to as many as it says at once."""
    name = pull_kokoro(tmp_path, monkeypatch, "together", small_kokoro())
    (own,) = own_voices(name)
    texts = ("A", "Hello, my friend.", "It was the best of times, it was the worst. " * 8)

    def spoken(engines: list[Engine]) -> list[np.ndarray]:
        for each in engines:
            each.load()
        voice = own.build(engines)
        return [block.voice for text in texts for block in voice.speak(text)]

    compiled: list[Engine] = [open_compiled(name, file.name) for file in own.files]
    ours, theirs = spoken(compiled), spoken([open_engine(file) for file in own.files])
    assert [len(block) for block in ours] == [len(block) for block in theirs]
    for block, expected in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(block, expected, atol=1e-4)
    text, sound = compiled
    wide = {"tokens": np.ones((1, 385), np.int64), "speed": np.ones(1, np.float32)}
    style = np.zeros((1, 256), np.float32)
    with pytest.raises(UnfitShapeError, match=r"tokens: shape \[1, 385\]"):
        text.infer({**wide, "style": style})
    short = {"text_states": (1, 512, 2), "prosody_states": (1, 640, 2)}
    with pytest.raises(UnfitShapeError, match=r"_states: shape"):
        sound.infer({"style": style} | {name: np.zeros(s, np.float32) for name, s in short.items()})
    for each in compiled:
        each.close()
    assert device.nothing_left()
