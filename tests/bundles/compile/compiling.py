"""The compiler in tests: NVIDIA's own, which needs no GPU."""

from __future__ import annotations

from typing import Any

import pytest

from visavis.bundles.compile.targets import load_flavour
from visavis.serving.errors import PlanError


def rtx() -> Any:
    """The module tensorrt_rtx; skips the test, saying why, where it cannot be used."""
    try:
        return load_flavour("rtx")
    except PlanError as error:
        pytest.skip(str(error))
