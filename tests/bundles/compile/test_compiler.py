"""The real compiler on small graphs: what it makes, and what it says when it cannot."""

from __future__ import annotations

from typing import Any

import onnx
import pytest

from tests.bundles.compile import small_graphs
from tests.bundles.compile.compiling import rtx
from tests.bundles.compile.small_graphs import USUAL, profile
from visavis.bundles.compile.build_progress import Progress
from visavis.bundles.compile.compiler import Plan, compile_plan, memory_in, read_layers
from visavis.bundles.compile.plans.record import PlanMemory
from visavis.bundles.compile.targets import Target
from visavis.engine.tensorrt.bindings.messages import Message, Messages
from visavis.serving.errors import PlanError


@pytest.fixture(scope="module")
def trt() -> Any:
    return rtx()


@pytest.fixture(scope="module")
def plan(trt: Any) -> Plan:
    return compile_plan(
        trt,
        small_graphs.linear(),
        [USUAL],
        workspace_bytes=1 << 28,
        target=Target("sm_89", ("SM89",)),
    )


def test_a_plan_tells_what_goes_in_and_out(plan: Plan) -> None:
    assert [(t.name, t.dtype, t.shape) for t in plan.inputs] == [("x", "FLOAT", (-1, 8))]
    assert [(t.name, t.dtype, t.shape) for t in plan.outputs] == [("y", "FLOAT", (-1, 4))]
    assert len(plan.content) > 1000
    assert plan.build_s > 0
    assert plan.memory.weights_bytes >= 8 * 4 * 4


def test_layers_carry_the_precision_of_the_graph(trt: Any) -> None:
    half = compile_plan(trt, small_graphs.linear(dtype=onnx.TensorProto.FLOAT16), [USUAL])
    assert [t.dtype for t in (*half.inputs, *half.outputs)] == ["HALF", "HALF"]
    product = [layer for layer in half.layers if layer.kind == "MATRIX_MULTIPLY"]
    assert [layer.dtype for layer in product] == ["HALF"]
    assert read_layers(trt, small_graphs.linear(dtype=onnx.TensorProto.FLOAT16)) == half.layers


def test_values_of_a_shape_input_have_ranges_of_their_own(trt: Any) -> None:
    grown = compile_plan(
        trt, small_graphs.shape_input(), [profile((1, 8), (4, 8), (16, 8), tensor="size")]
    )
    assert [t.holds_shape for t in grown.inputs] == [False, True]
    assert any("Int64" in warning for warning in grown.warnings), "what it warns of is kept"


@pytest.mark.parametrize(
    ("graph", "told"),
    [
        (b"junk", "not an ONNX graph"),
        (b"", "empty"),
        (small_graphs.linear()[:-40], "ONNX graph"),
        (small_graphs.nonzero(), r"node places \(NonZero\)"),
        (small_graphs.unknown_operator(), r"node mystery \(Frobnicate\)"),
        (small_graphs.branches(), r"node .*If|[Cc]ondition|branch"),
        (small_graphs.linear(weight_dtype=onnx.TensorProto.FLOAT16), r"product.*Float.*Half"),
        (small_graphs.linear(dtype=onnx.TensorProto.DOUBLE), r"x: .*DOUBLE.*FLOAT.*cast"),
    ],
    ids=["junk", "empty", "cut", "NonZero", "unknown", "If", "mixed types", "narrowed type"],
)
def test_what_is_no_graph_or_has_what_is_unsupported_is_named(
    trt: Any, graph: bytes, told: str
) -> None:
    with pytest.raises(PlanError, match=told):
        compile_plan(trt, graph, [USUAL])


@pytest.mark.parametrize(
    ("nonsense", "told"),
    [
        (profile((8, 8), (4, 8), (16, 8)), r"usual: x: .*min 8, opt 4, max 16"),
        (profile((1, 8), (4, 8), (2, 8)), r"min 1, opt 4, max 2"),
        (profile((1,), (4,), (16,)), r"x: \[1\] to \[16\] does not fit the input \[-1, 8\]"),
        (profile((1, 9), (4, 9), (16, 9)), r"does not fit the input \[-1, 8\]"),
        (profile((1, 8), (4, 8, 1), (16, 8)), "different numbers of dimensions"),
        (profile((1, 8), (4, 8), (16, 8), tensor="z"), "z is no input; there are x"),
    ],
)
def test_an_impossible_profile_is_named(trt: Any, nonsense: Any, told: str) -> None:
    with pytest.raises(PlanError, match=told):
        compile_plan(trt, small_graphs.linear(), [nonsense])


def test_an_input_that_varies_needs_a_range(trt: Any) -> None:
    nothing = USUAL.model_copy(update={"shapes": {}})
    with pytest.raises(PlanError, match=r"usual: x \[-1, 8\] varies and has no range"):
        compile_plan(trt, small_graphs.linear(), [nothing])
    # Without any profile the compiler itself objects, in words of its own.
    with pytest.raises(PlanError, match="no optimization profile"):
        compile_plan(trt, small_graphs.linear(), [])


def test_progress_rises_to_the_end(trt: Any) -> None:
    reports: list[Progress] = []
    compile_plan(trt, small_graphs.deep(), [USUAL], on_progress=reports.append)
    fractions = [report.fraction for report in reports]
    assert fractions == sorted(fractions)
    assert fractions[0] < 0.2
    assert fractions[-1] == 1.0
    assert len({report.phase for report in reports}) > 3


@pytest.mark.parametrize("kind", [RuntimeError, KeyboardInterrupt])
def test_an_error_of_the_caller_comes_back_as_it_is(trt: Any, kind: type[BaseException]) -> None:
    def fail(report: Progress) -> None:
        raise kind("of the bar")

    with pytest.raises(kind, match="of the bar"):
        compile_plan(trt, small_graphs.deep(), [USUAL], on_progress=fail)


def test_a_failure_says_nothing_of_an_earlier_one(trt: Any) -> None:
    with pytest.raises(PlanError):
        compile_plan(trt, small_graphs.nonzero(), [USUAL])
    with pytest.raises(PlanError) as second:
        compile_plan(trt, small_graphs.unknown_operator(), [USUAL])
    assert "NonZero" not in str(second.value)


def test_a_missing_driver_is_named_only_if_nothing_else_is_wrong() -> None:
    driver = Message("ERROR", "catchCudaError: cudaError 35: no driver")
    said = Messages()
    said.add(driver)
    assert said.errors == [driver.text]
    said.add(Message("ERROR", "the real reason"))
    said.add(Message("ERROR", "the real reason"))
    said.add(Message("WARNING", "by the way"))
    assert said.errors == ["the real reason"]
    assert said.warnings == ["by the way"]


def test_memory_is_that_of_the_hungriest_profile() -> None:
    texts = [
        "Total Activation Memory: 100 bytes",
        "Total Activation Memory: 300 bytes",
        "Total Weights Memory: 7 bytes",
        "Max Scratch Memory: 20 bytes",
    ]
    assert memory_in(texts) == PlanMemory(7, 300, 20)
    assert memory_in([]) == PlanMemory()
