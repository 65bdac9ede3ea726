"""`visavis engine` as it is typed, on a bundle of one small network."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.bundles.compile import small_graphs
from tests.bundles.compile.compiling import rtx
from tests.bundles.compile.small_store import PLAN, Engine, Store
from tests.gpus import why_no_gpu
from visavis.bundles.compile.build_progress import Cancelled, Progress
from visavis.bundles.compile.compiler import compile_plan
from visavis.bundles.compile.plans.cache import CachedPlan, PlanCache
from visavis.bundles.compile.targets import PORTABLE
from visavis.serving.errors import (
    InvalidInputError,
    ModelStoreError,
    PlanCancelledError,
    PlanError,
    VisavisError,
)
from visavis.tools.cli.engine.inspect import loaded_facts
from visavis.tools.cli.engine.output import run_cancellable

BUILD = ("build", "small-net", "--precision", "fp32", "--flavour", "rtx")


def test_a_plan_is_built_once_and_listed(engine: Engine, store: Store) -> None:
    assert "No plan in" in engine("list").output
    first = engine(*BUILD).output
    assert "small-net net fp32" in first
    assert "compiled in" in first
    assert "was here" in engine(*BUILD).output
    assert "compiled in" in engine(*BUILD, "--force").output
    listed = engine("list").output
    assert "net fp32 usual" in " ".join(listed.split())
    assert "by tensorrt_rtx" in listed
    assert "fresh" in listed


def test_a_plan_of_a_changed_bundle_is_stale(engine: Engine, store: Store) -> None:
    engine(*BUILD)
    store.add("small-net", small_graphs.linear(weight=3.0), PLAN.format(name="net"))
    store.pull("small-net")
    listed = engine("list").output
    assert "stale" in listed
    assert "has changed: small-net net fp32" in listed
    assert "compiled in" in engine(*BUILD).output


def test_a_target_has_a_plan_of_its_own(engine: Engine) -> None:
    engine(*BUILD)
    assert "compiled in" in engine(*BUILD, "--target", "sm_89").output
    listed = engine("list").output
    assert "for portable" in listed
    assert "for sm_89" in listed


@pytest.mark.parametrize(
    ("arguments", "kind", "told"),
    [
        (("build", "smal-net"), ModelStoreError, "Did you mean small-net"),
        (("build", "far-net"), ModelStoreError, "visavis models pull far-net"),
        (("build", "plain-files"), PlanError, "nothing to compile: net.onnx: it is small"),
        (("build", "small-net", "--plan", "nett"), PlanError, "did you mean net?"),
        (("build", "small-net", "--precision", "int8"), PlanError, "net: fp32, fp16"),
        (("build", "small-net", "--device", "gpu0"), VisavisError, "none of cpu, cuda:N"),
        (("build", "broken-net", "--precision", "fp32"), PlanError, r"node places \(NonZero\)"),
        (("build", "junk-net", "--precision", "fp32"), PlanError, r"net\.onnx is no ONNX model"),
        (
            ("build", "odd-net", "--precision", "fp32"),
            PlanError,
            r"x: .* \[4, 9\] .*\[-1, 8\]",
        ),
        (("bench", "small-net", "--picture", "a.png"), InvalidInputError, "name it a.svg"),
    ],
)
def test_what_is_wrong_is_said(
    engine: Engine, arguments: tuple[str, ...], kind: type[VisavisError], told: str
) -> None:
    flavour = () if arguments[0] == "bench" else ("--flavour", "rtx")
    result = engine(*arguments, *flavour, fails=kind)
    assert re.search(told, str(result.exception)), result.exception


CHECK = ("check", "--precision", "fp32", "--flavour", "rtx")


def test_a_check_goes_on_after_a_failure_tells_it_and_keeps_nothing(
    engine: Engine, store: Store
) -> None:
    chosen = ("--bundle", "broken-net", "--bundle", "small-net")
    output = engine(*CHECK, *chosen, exit_code=1).output
    assert "node places (NonZero)" in output
    assert "1 compiled in" in output
    assert "1 failed" in output
    assert list(store.plans.rglob("*.plan")) == []


def test_a_check_names_what_it_leaves_out(engine: Engine) -> None:
    # Of the shipped bundles none is in this folder.
    output = engine(*CHECK, exit_code=1).output
    assert "plain-files net.onnx: it is small" in output
    assert "bundle far-net is not pulled" in output
    assert "3 failed" in output


def test_inspect_tells_tensors_layers_and_memory(engine: Engine) -> None:
    arguments = ("inspect", "small-net", "--precision", "fp32", "--flavour", "rtx", "--layers")
    told = " ".join(engine(*arguments).output.split())
    assert "x FLOAT [?, 8] [1, 8] … [1, 8] … [4, 8]" in told
    assert "→ y FLOAT [?, 4]" in told
    assert "MATRIX_MULTIPLY FLOAT 1" in told
    assert "product MATRIX_MULTIPLY FLOAT" in told
    assert "as the compiler expects: weights" in told


@pytest.mark.skipif(not why_no_gpu(), reason="there is a GPU, so the plan is loaded")
def test_a_plan_that_cannot_be_loaded_says_why(engine: Engine, store: Store) -> None:
    engine(*BUILD)
    (entry,) = PlanCache(store.plans).entries()
    assert entry.record is not None
    with pytest.raises(PlanError, match=r"net\.fp32\..*plan cannot be loaded: "):
        loaded_facts(rtx(), PORTABLE, CachedPlan(entry.path, entry.record))


def test_a_bench_without_a_gpu_measures_the_fallback_and_says_so(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from visavis.bundles.compile import targets
    from visavis.engine.tensorrt.bindings.selection import NoDeviceError

    def none() -> None:
        raise NoDeviceError("device: none in this test")

    monkeypatch.setattr(targets, "_cuda_devices", none)
    picture = tmp_path / "bench.svg"
    sizes = ("--batch", "4", "--batch", "1", "--seconds", "0.05")
    output = engine("bench", "small-net", *sizes, "--picture", str(picture)).output
    assert "only the fallback: device: none in this test" in output
    rows = [line.split() for line in output.splitlines() if "onnxruntime cpu fp32" in line]
    assert [row[3] for row in rows] == ["1", "4"]
    assert all(float(row[4]) > 0 for row in rows)
    drawn = ElementTree.fromstring(picture.read_text())
    lines = drawn.findall("{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == 2
    assert "net: onnxruntime cpu fp32" in picture.read_text()


def test_the_other_commands_need_neither_ffmpeg_nor_onnx_nor_a_compiler() -> None:
    told = (
        "import sys; from typer.testing import CliRunner; from visavis.tools.cli.main import app; "
        "helped = [CliRunner().invoke(app, [*of, '--help']) for of in ([], ['bench'])]; "
        "assert all(run.exit_code == 0 for run in helped); "
        "heavy = {'av', 'onnx', 'onnxruntime', 'tensorrt_rtx', 'cuda'}; "
        "sys.exit(', '.join(heavy & {*sys.modules}))"
    )
    ran = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=False)
    assert ran.stderr.strip() == ""


def patient(cancelled: Cancelled) -> Cancelled:
    """`cancelled`, but it waits until Ctrl-C has arrived in the main thread.

    Where it never does, the build ends all the same: its thread has the compiler's lock.
    """
    arrived = threading.Event()

    def ask() -> bool:
        for _ in range(1000):
            if cancelled():
                break
            arrived.wait(0.01)
        return True

    return ask


def test_ctrl_c_ends_a_build_of_the_real_compiler() -> None:
    trt, told = rtx(), []

    def work(cancelled: Cancelled) -> None:
        sent = threading.Event()

        def interrupt(report: Progress) -> None:
            if not sent.is_set():
                sent.set()
                os.kill(os.getpid(), signal.SIGINT)

        compile_plan(
            trt,
            small_graphs.deep(),
            [small_graphs.USUAL],
            on_progress=interrupt,
            cancelled=lambda: sent.is_set() and patient(cancelled)(),
        )

    with pytest.raises(PlanCancelledError):
        run_cancellable(work, lambda: told.append("stopping"))
    assert told == ["stopping"]


def test_work_that_nobody_waits_for_any_more_is_cancelled() -> None:
    """As a test's time limit leaves it; Ctrl-C is not the only thing that ends the waiting."""
    stopped = threading.Event()

    def give_up(signal_number: int, frame: object) -> None:
        raise TimeoutError

    def work(cancelled: Cancelled) -> None:
        os.kill(os.getpid(), signal.SIGUSR1)
        if patient(cancelled)() and cancelled():
            stopped.set()

    before = signal.signal(signal.SIGUSR1, give_up)
    try:
        with pytest.raises(TimeoutError):
            run_cancellable(work, lambda: None)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert stopped.wait(5)
