"""Our calls under the type checker, with the real signatures of TensorRT 11 in place of our pages.

`builder_api` and `trt_api` describe what we use, so the daily check holds our calls against
those descriptions. Here the classes of the bindings themselves take their place.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.real_tensorrt import MODULE, RealTensorrt
from visavis.bundles.compile import builder_api
from visavis.engine.tensorrt.bindings import trt_api

_ROOT = Path(__file__).parents[3]
_CALLERS = (
    "visavis/bundles/compile/compiler.py",
    "visavis/bundles/compile/network.py",
    "visavis/tools/cli/engine/inspect.py",
    "visavis/engine/tensorrt/plan.py",
    "visavis/engine/tensorrt/context.py",
)
_PAGES = {
    "visavis/bundles/compile/builder_api.py": builder_api.PROTOCOLS,
    "visavis/engine/tensorrt/bindings/trt_api.py": {**trt_api.PROTOCOLS, trt_api.Dims: "Dims"},
}
_WRONG = """
from tensorrt import Builder, ICudaEngine, IExecutionContext, INetworkDefinition

def call(
    builder: Builder, engine: ICudaEngine, context: IExecutionContext, network: INetworkDefinition
) -> None:
    builder.max_workspace_size = 1
    builder.create_network("strongly typed")
    engine.get_binding_index("x")
    context.execute_async_v2([1], 0)
    context.set_input_shape("x")
    network.get_input(name="x")
"""


def complaints(folder: Path, stub: str) -> list[str]:
    """What the type checker says of our callers, and of `wrong.py`, as `file:line: message`."""
    (folder / "tensorrt").mkdir()
    (folder / "tensorrt" / "__init__.pyi").write_text(stub)
    (folder / "wrong.py").write_text(_WRONG)
    shadows: list[str] = []
    for page, protocols in _PAGES.items():
        written = folder / Path(page).name
        names = ", ".join(f"{real} as {ours.__name__}" for ours, real in protocols.items())
        written.write_text(f"from tensorrt import {names}\nShape = tuple[int, ...]\n")
        shadows += ["--shadow-file", page, str(written)]
    options = [
        "--config-file=",
        f"--cache-dir={folder / 'cache'}",
        # Only the files named here: all else that they import is of no interest.
        "--follow-imports=skip",
        "--ignore-missing-imports",
        "--check-untyped-defs",
        "--hide-error-context",
        "--no-error-summary",
    ]
    checked = [folder / "tensorrt" / "__init__.pyi", folder / "wrong.py", *_PAGES, *_CALLERS]
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *shadows, *checked],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode in (0, 1), ran.stderr + ran.stdout
    return ran.stdout.splitlines()


@pytest.fixture(scope="module")
def said(tensorrt_11: RealTensorrt, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    stub = tensorrt_11.run("-m", "tests.bindings_stub", MODULE)
    return complaints(tmp_path_factory.mktemp("typed"), stub)


def test_calls_that_tensorrt_does_not_have_are_found(said: list[str]) -> None:
    found = {int(m[1]) for line in said if (m := re.search(r"wrong\.py:(\d+): error", line))}
    assert found == set(range(7, 13))


def test_our_calls_fit_the_real_signatures(said: list[str]) -> None:
    ours = [line for line in said if "wrong.py" not in line and ": error:" in line]
    # What only TensorRT-RTX has is called where it was asked for alone.
    rtx_only = ("num_compute_capabilities", "set_compute_capability")
    assert [line for line in ours if not any(name in line for name in rtx_only)] == []
    assert len(ours) == len(rtx_only)
