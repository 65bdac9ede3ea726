"""A catalogue and a model folder of bundles with one small network each."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from typer.testing import Result

from visavis.bundles.store.pulling.puller import PullSetup, pull
from visavis.bundles.store.pulling.web import PipSettings

Engine = Callable[..., Result]

_MANIFEST = """
name = "{name}"
version = "1"
task = "face"
summary = "A small network."
licence = "Apache-2.0"

[[files]]
path = "net.onnx"
sha256 = "{sha256}"
size_bytes = {size}
sources = [{{ kind = "file", location = "{location}" }}]

{plans}
"""
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
        manifest = _MANIFEST.format(
            name=name,
            sha256=hashlib.sha256(graph).hexdigest(),
            size=len(graph),
            location=original,
            plans=plans,
        )
        (self.catalogue / f"{name}.toml").write_text(manifest)

    def pull(self, *names: str) -> None:
        # To ask how pip is set up takes a process.
        pull(names, model_dir=self.models, setup=PullSetup(pip=PipSettings()))
