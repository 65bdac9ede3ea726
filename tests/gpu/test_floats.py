"""Every network of the bundles that are here by ONNX Runtime on the GPU: its numbers, its rows."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer

from services.asr.hearing.moonshine import Moonshine
from services.tts.voices.english import EnglishVoice
from tests.asr.hearing.test_transcripts import sound
from tests.bundles.compile.float_graphs import FloatGraphs
from tests.gpu.comparing import largest_error, noise
from tests.gpu.figures import Figures
from tests.gpus import why_no_backend
from tests.rows import together
from visavis.bundles.compile.float_graphs import graphs_like_its_plans
from visavis.bundles.store import recipes_of
from visavis.bundles.store.catalogue import pullable_catalog
from visavis.bundles.store.recipe import PlanRecipe
from visavis.engine import EngineOptions, open_engine
from visavis.engine.onnxruntime import OnnxRuntimeEngine
from visavis.engine.rows import alone
from visavis.tools.plan_bench import bench_engine
from visavis.wire.clock import MonotonicClock

FLOATS = EngineOptions(floats=graphs_like_its_plans)
NETWORKS = [(name, recipe) for name in pullable_catalog().names for recipe in recipes_of(name)]
# Of the largest value: products may be in TF32, with ten bits of mantissa.
TOLERANCE = 5e-3
BENCH_S = 0.3


@pytest.fixture(autouse=True)
def provider() -> None:
    if reason := why_no_backend("onnxruntime", "cuda:0"):
        pytest.skip(reason)


@dataclass
class Network:
    name: str
    recipe: PlanRecipe
    gpu: OnnxRuntimeEngine
    cpu: OnnxRuntimeEngine


@pytest.fixture(scope="module", params=NETWORKS, ids=lambda n: f"{n[0]}-{n[1].name}")
def network(request: pytest.FixtureRequest, float_graphs: FloatGraphs) -> Iterator[Network]:
    bundle, recipe = request.param
    path = float_graphs.path(bundle, recipe.name)
    with (
        OnnxRuntimeEngine(path, device="cuda:0", threads=1, keeps_tensors=True) as gpu,
        OnnxRuntimeEngine(path, device="cpu", threads=4) as cpu,
    ):
        yield Network(f"{bundle} {recipe.name}", recipe, gpu, cpu)


def test_the_numbers_are_those_of_the_cpu(network: Network, figures: Figures) -> None:
    worst = 0.0
    for which in ("min", "opt"):
        inputs = noise(network.recipe, network.gpu.inputs, which)
        worst = max(worst, largest_error(network.gpu.infer(inputs), network.cpu.infer(inputs)))
    figures.note(network.name, "error", f"{worst:.1e}")
    assert worst < TOLERANCE


def test_what_rows_gain(network: Network, figures: Figures) -> None:
    def bench(engine: OnnxRuntimeEngine, rows: tuple[int, ...]) -> dict[int, float]:
        measured = bench_engine(
            "",
            engine,
            network.recipe,
            rows,
            seconds=BENCH_S,
            clock=MonotonicClock(),
            within_profile=False,
        )
        return {row.batch: row.median_ms for row in measured if not row.problem}

    gpu, cpu = bench(network.gpu, (1, 8)), bench(network.cpu, (1,))
    figures.note(network.name, "GPU ms", f"{gpu[1]:.2f}")
    figures.note(network.name, "CPU ms", f"{cpu[1]:.2f}")
    figures.note(network.name, "speed-up", f"{cpu[1] / gpu[1]:.1f}")
    if 8 in gpu:
        figures.note(network.name, "8 rows ms", f"{gpu[8]:.2f}")


def test_moonshine_writes_the_same_alone_and_with_others(bundle: Callable[[str], Path]) -> None:
    folder = bundle("moonshine-tiny-en")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    heard = [sound("jfk")[: 3 * 16_000], sound("jfk")[4 * 16_000 : 9 * 16_000]]
    with (
        open_engine(folder / "encoder.onnx") as encoder,
        open_engine(folder / "decoder.onnx") as decoder,
    ):
        expected = [Moonshine(encoder, decoder, tokenizer).transcribe(pcm).text for pcm in heard]
    opened = {"backend": "onnxruntime", "device": "cuda:0", "options": FLOATS}
    with (
        open_engine(folder / "encoder.onnx", **opened) as encoder,
        open_engine(folder / "decoder.onnx", **opened) as decoder,
    ):
        recogniser = Moonshine(encoder, decoder, tokenizer)
        assert [recogniser.transcribe(pcm).text for pcm in heard] == expected

        def said(pcm: np.ndarray) -> Generator[Any, Any, None]:
            yield (yield from recogniser.steps(pcm))

        made, rows = together([said(pcm) for pcm in heard])
        assert rows == [2]
        assert [transcript.text for (transcript,) in made] == expected


def test_english_phrases_share_a_run(bundle: Callable[[str], Path]) -> None:
    file = bundle("hibari-en") / "hibari-durations.onnx"
    texts = ("Yes.", "The quick brown fox jumps over the lazy dog.")
    with open_engine(file, backend="onnxruntime", device="cuda:0", options=FLOATS) as engine:
        voice = EnglishVoice(engine)
        made, rows = together([voice.speak(text) for text in texts])
        assert rows == [2]
        for text, (shared,) in zip(texts, made, strict=True):
            (apart,) = alone(voice.speak(text))
            # By TF32 a duration may round the other way.
            assert abs(len(shared.mel) - len(apart.mel)) <= 4
