"""Every plan of the bundles that are here: numbers as on the CPU, how fast, how much memory."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.gpu.comparing import largest_error, noise
from tests.gpu.figures import Figures
from visavis.bundles.compile.float_graphs import float_graph
from visavis.bundles.compile.plans.cache import PlanCache
from visavis.bundles.compile.plans.freshness import PlanRequest
from visavis.bundles.compile.sources import BundlePlan
from visavis.bundles.store import recipes_of
from visavis.bundles.store.catalogue import pullable_catalog
from visavis.bundles.store.recipe import PlanRecipe
from visavis.engine import EngineOptions
from visavis.engine.onnxruntime import OnnxRuntimeEngine
from visavis.engine.tensorrt.bindings.device import CudaDevice
from visavis.engine.tensorrt.buffers import CudaTensor
from visavis.engine.tensorrt.engine import TensorRTEngine
from visavis.serving.errors import InvalidInputError
from visavis.tools.plan_bench import bench_engine
from visavis.wire.clock import MonotonicClock

PLANS = [
    (name, recipe.name, precision)
    for name in pullable_catalog().names
    for recipe in recipes_of(name)
    for precision in ("fp32", "fp16")
    if precision in recipe.precisions
]
# Of the largest value. fp32: TensorRT may use TF32, with ten bits of mantissa.
TOLERANCE = {"fp32": 5e-3, "fp16": 5e-2}
BENCH_S = 0.5


@dataclass
class Loaded:
    name: str
    precision: str
    recipe: PlanRecipe
    gpu: TensorRTEngine
    cpu: OnnxRuntimeEngine
    noise: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)
    """By shape: hundreds of megabytes for the largest ones, which take seconds to draw."""

    def inputs(self, which: str, seed: int = 0) -> dict[str, np.ndarray]:
        """Noise in the shape min, opt or max of the first profile."""
        if which not in self.noise:
            self.noise[which] = noise(self.recipe, self.gpu.inputs, which)
        return {name: value * (1 + seed) for name, value in self.noise[which].items()}

    def error(self, inputs: dict[str, np.ndarray]) -> float:
        """Largest difference of any output to the CPU's, as a share of its largest value."""
        return largest_error(self.gpu.infer(inputs), self.cpu.infer(inputs))


@pytest.fixture(scope="module", params=PLANS, ids="-".join)
def loaded(
    request: pytest.FixtureRequest,
    bundle: Callable[[str], Path],
    flavour: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Loaded]:
    name, plan, precision = request.param
    folder = bundle(name)
    recipe = next(r for r in recipes_of(name) if r.name == plan)
    graph = tmp_path_factory.mktemp("graph") / f"{plan}.onnx"
    onnx.save(float_graph(folder, recipe), graph)
    source = BundlePlan(PlanRequest(name, folder, recipe, precision), PlanCache())
    gpu = TensorRTEngine(folder / recipe.graph, device="cuda:0", source=source, backend=flavour)
    with gpu, OnnxRuntimeEngine(graph, device="cpu", threads=4) as cpu:
        yield Loaded(f"{name} {plan} {precision}", precision, recipe, gpu, cpu)


def test_the_numbers_are_those_of_the_cpu(loaded: Loaded, figures: Figures) -> None:
    error = max(loaded.error(loaded.inputs(which)) for which in ("opt", "min", "opt"))
    figures.note(loaded.name, "error", f"{error:.1e}")
    assert error < TOLERANCE[loaded.precision]


def test_graphs_of_several_shapes_do_not_disturb_each_other(loaded: Loaded) -> None:
    """Shapes in turns, with and without graph, against runs that have none."""
    plain = TensorRTEngine(
        loaded.gpu.model,
        device="cuda:0",
        source=loaded.gpu._source,
        backend=loaded.gpu.backend,
        options=EngineOptions(cuda_graphs=False),
    )
    with plain:
        for turn in range(8):
            for which in ("opt", "min", "max"):
                inputs = loaded.inputs(which, seed=turn % 3)
                ours, expected = loaded.gpu.infer(inputs), plain.infer(inputs)
                for name, value in expected.items():
                    np.testing.assert_allclose(ours[name], value, rtol=1e-2, atol=1e-3)


def test_outputs_on_the_device_are_the_outputs(loaded: Loaded) -> None:
    inputs = loaded.inputs("opt")
    expected = loaded.gpu.infer(inputs)
    kept = loaded.gpu.infer_resident(inputs, list(expected))
    for name, tensor in kept.items():
        assert isinstance(tensor, CudaTensor)
        np.testing.assert_allclose(tensor.to_host(), expected[name], rtol=1e-3, atol=1e-4)


def test_a_shape_outside_is_refused_by_name(loaded: Loaded) -> None:
    inputs = loaded.inputs("max")
    name = next(iter(loaded.recipe.profiles[0].shapes))
    axis = next(i for i, size in enumerate(loaded.gpu.inputs[name].shape) if size is None)
    inputs[name] = np.concatenate([inputs[name], inputs[name]], axis)
    with pytest.raises(InvalidInputError, match=name):
        loaded.gpu.infer(inputs)
    assert not loaded.gpu.broken


def test_how_fast(loaded: Loaded, figures: Figures) -> None:
    def median_ms(engine: TensorRTEngine | OnnxRuntimeEngine) -> float:
        rows = bench_engine(
            "",
            engine,
            loaded.recipe,
            (1,),
            seconds=BENCH_S,
            clock=MonotonicClock(),
            within_profile=False,
        )
        (row,) = rows
        assert not row.problem, row.problem
        return row.median_ms

    gpu_ms, cpu_ms = median_ms(loaded.gpu), median_ms(loaded.cpu)
    times = loaded.gpu.times
    assert times is not None
    figures.note(loaded.name, "GPU ms", f"{gpu_ms:.3f}")
    figures.note(loaded.name, "copies ms", f"{(times.copy_in_s + times.copy_out_s) * 1e3:.3f}")
    figures.note(loaded.name, "CPU ms", f"{cpu_ms:.2f}")
    figures.note(loaded.name, "speed-up", f"{cpu_ms / gpu_ms:.1f}")
    plain = TensorRTEngine(
        loaded.gpu.model,
        device="cuda:0",
        source=loaded.gpu._source,
        backend=loaded.gpu.backend,
        options=EngineOptions(cuda_graphs=False),
    )
    with plain:
        figures.note(loaded.name, "no graph ms", f"{median_ms(plain):.3f}")


def test_memory_is_told_and_given_back(loaded: Loaded, figures: Figures, cuda: CudaDevice) -> None:
    memory = loaded.gpu.memory()
    assert memory is not None and memory.weights_bytes > 0
    figures.note(loaded.name, "GPU MiB", f"{memory.device_bytes / 2**20:.0f}")
    loaded.gpu.close()
    loaded.gpu.load()  # what the libraries keep for themselves is taken by now
    levels = []
    for _ in range(3):
        loaded.gpu.close()
        gc.collect()
        with cuda.current():
            levels.append(cuda.memory().free_bytes)
        loaded.gpu.load()
        loaded.gpu.infer(loaded.inputs("opt"))
    assert levels[0] - levels[-1] < 32 * 2**20, "memory is lost with each load"
