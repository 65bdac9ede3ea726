"""The conformance suite that every engine backend must pass."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.gpus import why_no_backend, why_no_gpu
from tests.triton_server import TritonDouble, serving
from visavis.bundles.compile.sources import bundle_plans
from visavis.bundles.store.recipe import PlanRecipe, ProfileSpec, ShapeRange
from visavis.engine import Engine, EngineOptions, TensorSpec, TritonOptions, open_engine
from visavis.serving.errors import EngineError, EngineLoadError, InvalidInputError

PLACES = (
    ("auto", "cpu"),
    ("onnxruntime", "cpu"),
    ("auto", "cuda:0"),
    ("onnxruntime", "cuda:0"),
    ("tensorrt", "cuda:0"),
    ("tensorrt_rtx", "cuda:0"),
    ("triton", "cpu"),
)
RECIPE = PlanRecipe(
    name="add",
    graph="add.onnx",
    profiles=(
        ProfileSpec(name="batch", shapes={"x": ShapeRange(min=(1, 3), opt=(2, 3), max=(8, 3))}),
    ),
)


def as_it_is(model: Path) -> dict[str, Callable[[Path], bytes]]:
    """What ONNX Runtime runs on a GPU: the file itself, as if it were what a plan is made of."""
    return {"add": Path.read_bytes}


OPTIONS = EngineOptions(
    plans=partial(bundle_plans, precision="fp32", recipes=(RECIPE,)), floats=as_it_is
)

Opener = partial[Engine]


@pytest.fixture(
    params=[
        pytest.param(place, id="-".join(place), marks=pytest.mark.gpu if place[1] != "cpu" else ())
        for place in PLACES
    ]
)
def opened(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Opener]:
    """open_engine with a backend and a device; both can be given otherwise."""
    backend, device = request.param
    if reason := why_no_backend(backend, device):
        pytest.skip(reason)
    if backend == "triton":
        double = TritonDouble(tmp_path)
        with serving(double):
            asked = replace(OPTIONS, triton=TritonOptions(double.url, "add"))
            yield partial(open_engine, backend=backend, device=device, options=asked)
        return
    monkeypatch.setenv("VISAVIS_PLAN_DIR", str(tmp_path / "plans"))
    yield partial(open_engine, backend=backend, device=device, options=OPTIONS)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """y = x + b and n = 2 * n0, with a free first dimension."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3])
    n0 = helper.make_tensor_value_info("n0", TensorProto.INT64, [1])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3])
    n = helper.make_tensor_value_info("n", TensorProto.INT64, [1])
    bias = helper.make_tensor("b", TensorProto.FLOAT, [3], [1.0, 2.0, 3.0])
    nodes = [
        helper.make_node("Add", ["x", "b"], ["y"]),
        helper.make_node("Add", ["n0", "n0"], ["n"]),
    ]
    graph = helper.make_graph(nodes, "add", [x, n0], [y, n], [bias])
    path = tmp_path / "add.onnx"
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path
    )
    return path


def inputs(batch: int = 2) -> dict[str, np.ndarray]:
    return {"x": np.ones((batch, 3), np.float32), "n0": np.array([21])}


def test_computes_and_describes_itself(opened: Opener, model: Path) -> None:
    with opened(model) as engine:
        assert engine.inputs["x"] == TensorSpec("x", np.dtype(np.float32), (None, 3))
        assert set(engine.outputs) == {"y", "n"}
        outputs = engine.infer(inputs())
    np.testing.assert_array_equal(outputs["y"], [[2, 3, 4], [2, 3, 4]])
    assert outputs["n"].tolist() == [42]


def test_outputs_belong_to_the_caller(opened: Opener, model: Path) -> None:
    with opened(model) as engine:
        first = engine.infer(inputs())["y"]
        kept = first.copy()
        engine.infer({**inputs(), "x": np.zeros((2, 3), np.float32)})
        np.testing.assert_array_equal(first, kept)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"x": np.ones((2, 4), np.float32)}, "x: shape"),
        ({"x": np.ones(3, np.float32)}, "x: shape"),
        ({"x": np.ones((2, 3), np.float64)}, "x: dtype"),
        ({"z": np.ones(1)}, "unknown.*z"),
    ],
)
def test_input_that_does_not_fit_is_named(
    opened: Opener, model: Path, change: dict[str, np.ndarray], named: str
) -> None:
    with opened(model) as engine:
        with pytest.raises(InvalidInputError, match=named):
            engine.infer({**inputs(), **change})
        with pytest.raises(InvalidInputError, match=r"missing.*n0"):
            engine.infer({"x": inputs()["x"]})
        assert engine.infer(inputs())["n"].tolist() == [42]  # and it still works


def test_life_cycle(opened: Opener, model: Path) -> None:
    engine = opened(model)
    with pytest.raises(EngineError, match="load"):
        engine.infer(inputs())
    engine.load()
    engine.load()
    engine.close()
    engine.close()
    with pytest.raises(EngineError, match="load"):
        engine.infer(inputs())
    engine.load()
    assert engine.infer(inputs())["n"].tolist() == [42]


def test_missing_or_junk_model(opened: Opener, tmp_path: Path) -> None:
    with pytest.raises(EngineLoadError, match="no such model"):
        opened(tmp_path / "none.onnx").load()
    junk = tmp_path / "junk.onnx"
    junk.write_bytes(b"not a model")
    with pytest.raises(EngineLoadError, match=r"junk\.onnx"):
        opened(junk).load()


def test_device_that_is_not_there(opened: Opener, model: Path) -> None:
    if opened.keywords["backend"] == "triton":
        pytest.skip("the device is the server's")
    with pytest.raises(EngineLoadError, match="device"):
        opened(model, device="tpu").load()
    if why_no_gpu() and opened.keywords["backend"] == "auto":
        engine = opened(model, device="cuda:7")
        engine.load()
        assert engine.state.device == "cpu" and "no usable CUDA device" in engine.state.detail
    else:
        with pytest.raises(EngineLoadError, match="device"):
            opened(model, device="cuda:7").load()


def test_outputs_that_stay_where_they_are(opened: Opener, model: Path) -> None:
    with opened(model) as engine:
        first = engine.infer_resident(inputs(), ["y"])["y"]
        engine.infer(inputs())  # what was kept is not overwritten
        again = engine.infer({**inputs(), "x": first})["y"]
        part = engine.infer({**inputs(), "x": first[1:2]})["y"]
        with pytest.raises(InvalidInputError, match=r"outputs.*z"):
            engine.infer_resident(inputs(), ["z"])
    np.testing.assert_array_equal(again, [[3, 5, 7], [3, 5, 7]])
    np.testing.assert_array_equal(part, [[3, 5, 7]])


@pytest.mark.parametrize("clipped", [None, True], ids=["here", "clipped"])
def test_eight_bit_products_are_exact_on_every_processor(
    clipped: bool | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What differs is how a processor adds products of unsigned by signed bytes.

    With VNNI, and on Arm, it adds them in 32 bits. With AVX2 alone ONNX Runtime's own choice adds
    pairs of them in 16 bits and clips the sum at 32767, of up to 64770; the engine sees to it.
    "clipped": as on such a processor, whatever this one is. Two products share their weights, as
    in the English voice, which ONNX Runtime's remedy does not take.
    """
    if clipped:
        monkeypatch.setattr("visavis.engine.eight_bit_products.are_clipped", lambda: True)
    generator = np.random.default_rng(5)
    x = generator.integers(128, 256, (4, 64), np.uint8)
    w = generator.integers(-128, 128, (64, 8), np.int8)
    given = {"x": x, "z": x[::-1].copy()}
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", [name, "w"], [f"{name}w"], name=name) for name in given],
        "products",
        [helper.make_tensor_value_info(n, TensorProto.UINT8, [4, 64]) for n in given],
        [helper.make_tensor_value_info(f"{n}w", TensorProto.INT32, [4, 8]) for n in given],
        [numpy_helper.from_array(w, "w")],
    )
    path = tmp_path / "products.onnx"
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path
    )
    with open_engine(path) as engine:
        outputs = engine.infer(given)
    for name, value in given.items():
        wanted = value.astype(np.int32) @ w.astype(np.int32)
        np.testing.assert_array_equal(outputs[f"{name}w"], wanted)


def test_unknown_backend_lists_what_exists(model: Path) -> None:
    with pytest.raises(EngineLoadError, match="onnxruntime"):
        open_engine(model, backend="abacus")


def test_onnx_runtime_keeps_no_account_of_who_runs_it(tmp_path: Path) -> None:
    """Left to itself it gives the machine a number, kept at home, and tells Microsoft."""
    opened = "import visavis, onnxruntime"
    subprocess.run([sys.executable, "-c", opened], env={"HOME": str(tmp_path)}, check=True)
    assert list(tmp_path.iterdir()) == []
