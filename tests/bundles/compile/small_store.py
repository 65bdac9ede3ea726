"""A catalogue and a model folder of bundles with one small network each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from typer.testing import Result

from tests.bundles.store.conftest import file_of, to_toml
from visavis.bundles.store.pulling.puller import PullSetup, pull
from visavis.bundles.store.pulling.web import PipSettings

Engine = Callable[..., Result]

PLAN = """
[[plans]]
name = "{name}"
graph = "net.onnx"
precisions = ["fp32", "fp16"]

[[plans.profiles]]
name = "usual"
shapes.x = {{ min = [1, 8], opt = [1, 8], max = [4, 8] }}
"""


class Store:
    """A catalogue and a model folder of the test's own."""

    def __init__(self, folder: Path) -> None:
        self.catalogue, self.models = folder / "catalogue", folder / "models"
        self.plans = folder / "plans"
        self.catalogue.mkdir(exist_ok=True)
        self._originals = folder / "originals"
        self._originals.mkdir(exist_ok=True)

    def add(self, name: str, graph: bytes, plans: str) -> None:
        """A bundle with one file, not pulled yet."""
        original = self._originals / f"{name}.onnx"
        original.write_bytes(graph)
        file = file_of("net.onnx", graph, {"kind": "file", "location": str(original)})
        told = {"name": name, "version": "1", "task": "face", "summary": "A small network."}
        manifest = to_toml({**told, "licence": "Apache-2.0", "files": [file]})
        (self.catalogue / f"{name}.toml").write_text(manifest + plans)

    def pull(self, *names: str) -> None:
        # To ask how pip is set up takes a process.
        pull(names, model_dir=self.models, setup=PullSetup(pip=PipSettings()))
