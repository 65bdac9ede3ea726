"""The model that tests of the embedded backend read, whole and with its first layers alone."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.llm.shallow_model import write_shallow


@pytest.fixture(scope="session")
def model_file(bundle: Callable[[str], Path]) -> Path:
    return bundle("smollm2-135m") / "model.gguf"


@pytest.fixture(scope="session")
def shallow_file(model_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What writes no sense, and takes a tenth of the time."""
    return write_shallow(model_file, tmp_path_factory.mktemp("shallow") / "model.gguf")
