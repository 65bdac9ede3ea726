"""The real Python bindings of TensorRT 11, imported without the libraries behind them.

Those libraries are not on the package index, the bindings are. Stand-ins that export the same
symbols let the bindings be imported in a process of their own: classes, signatures and
enumerations are the real ones, and classes of ours can be derived from theirs. Nothing compiles
or runs.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.bindings_dump import Offer

MODULE = "tensorrt_bindings"
_LIBRARIES = ("libnvinfer.so.11", "libnvinfer_plugin.so.11", "libnvonnxparser.so.11")
_SYMBOLS = (
    "createInferBuilder_INTERNAL",
    "createInferRefitter_INTERNAL",
    "createInferRuntime_INTERNAL",
    "createNvOnnxParserRefitter_INTERNAL",
    "createNvOnnxParser_INTERNAL",
    "getBuilderPluginRegistry",
    "getInferLibVersion",
    "getNvOnnxParserVersion",
    "getPluginRegistry",
    "initLibNvInferPlugins",
)
_ROOT = Path(__file__).parents[1]


class RealTensorrt:
    """Asks the bindings, each time in a process of its own."""

    def __init__(self, libraries: Path) -> None:
        """Skips the test, saying why, where the stand-ins cannot be made in `libraries`."""
        if find_spec(MODULE) is None:
            pytest.skip("tensorrt-cu13-bindings is not installed")
        if (compiler := shutil.which("cc") or shutil.which("gcc")) is None:
            pytest.skip("no C compiler for the stand-ins of TensorRT's libraries")
        source = libraries / "stand_in.c"
        source.write_text("".join(f"long {name}(void) {{ return 0; }}\n" for name in _SYMBOLS))
        for library in _LIBRARIES:
            made = libraries / library
            subprocess.run([compiler, "-shared", "-fPIC", "-o", made, source], check=True)
        self._environ = {**os.environ, "LD_LIBRARY_PATH": str(libraries)}
        self._offer: Offer | None = None

    def offer(self) -> Offer:
        """What the module offers; asked once."""
        if self._offer is None:
            self._offer = json.loads(self.run("-m", "tests.bindings_dump", MODULE))
        assert self._offer is not None
        return self._offer

    def run(self, *arguments: str) -> str:
        """What Python prints when it is called with `arguments`."""
        ran = subprocess.run(
            [sys.executable, *arguments],
            env=self._environ,
            cwd=_ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout
