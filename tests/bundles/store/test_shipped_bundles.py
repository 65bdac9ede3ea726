"""The catalogue against the real weights, where they are pulled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from visavis.bundles.store import load_manifest
from visavis.bundles.store.catalogue import pullable_catalog

WITH_TENSORS = [
    name for name in pullable_catalog().names if pullable_catalog().manifest(name).tensors
]


@pytest.mark.parametrize("name", WITH_TENSORS)
def test_the_tensors_told_are_those_of_the_graph(name: str, bundle: Callable[[str], Path]) -> None:
    runtime = pytest.importorskip("onnxruntime")
    folder = bundle(name)
    for file, table in load_manifest(name).tensors.items():
        session = runtime.InferenceSession(folder / file, providers=["CPUExecutionProvider"])
        assert {i.name: len(i.shape) for i in session.get_inputs()} == {
            tensor: _rank(spec) for tensor, spec in table.inputs.items()
        }
        assert [i.name for i in session.get_outputs()] == list(table.outputs)


def _rank(spec: str) -> int:
    inside = spec.partition("[")[2].rstrip("]")
    return len(inside.split(",")) if inside else 0
