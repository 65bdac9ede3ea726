"""A plan that scales, over the doubles of device and TensorRT."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.engine.tensorrt.recorded_device import RecordedBinding, RecordedDevice
from tests.engine.tensorrt.recorded_trt import DataType, Network, RecordedTrt
from visavis.engine.base import EngineOptions
from visavis.engine.tensorrt.bindings import messages
from visavis.engine.tensorrt.engine import TensorRTEngine
from visavis.engine.tensorrt.source import PlanFile

Open = Callable[..., TensorRTEngine]

SHORT = ((1, 2), (2, 2), (4, 2))
LONG = ((8, 2), (16, 2), (32, 2))


def scaling(late: bool = False) -> Network:
    """y = 2 x [B, 2] and total [1]; z are the positive values of x, whose number is `late`."""

    def compute(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        x = inputs["x"]
        made = {"y": 2 * x, "total": x.sum(keepdims=True).reshape(1)}
        return {**made, "z": x[x > 0]} if late else made

    def shape_of(shapes: dict[str, Any]) -> dict[str, Any]:
        return {"y": shapes["x"], "total": (1,), **({"z": (-1,)} if late else {})}

    outputs = {"y": (DataType.FLOAT, (-1, 2)), "total": (DataType.FLOAT, (1,))}
    return Network(
        compute,
        {"x": (DataType.FLOAT, (-1, 2))},
        {**outputs, "z": (DataType.FLOAT, (-1,))} if late else outputs,
        [{"x": SHORT}, {"x": LONG}],
        shape_of,
    )


@dataclass
class Bench:
    """Device, module and engine of one test."""

    device: RecordedDevice
    trt: RecordedTrt
    open: Open

    def forget(self) -> None:
        """Look only at what comes now."""
        self.device.calls.clear()
        self.trt.calls.clear()


def x_of(batch: int, value: float = 1.0) -> dict[str, np.ndarray]:
    return {"x": np.full((batch, 2), value, np.float32)}


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """What the test's engines took is given back when they are closed: checked at the end."""
    monkeypatch.setattr(messages, "_relays", {})
    device = RecordedDevice()
    trt = RecordedTrt(device, {b"scaling": scaling(), b"late": scaling(late=True)})
    engines: list[TensorRTEngine] = []

    def open_plan(plan: str = "scaling", **options: Any) -> TensorRTEngine:
        path = tmp_path / f"{plan}.plan"
        path.write_bytes(plan.encode())
        engine = TensorRTEngine(
            path,
            device=options.pop("device", "cuda:0"),
            source=PlanFile(path),
            trt=trt,
            binding=options.pop("binding", RecordedBinding(device)),
            unloader=options.pop("unloader", None),
            options=EngineOptions(**options),
        )
        engines.append(engine)
        return engine

    yield Bench(device, trt, open_plan)
    for engine in engines:
        engine.close()
    assert device.nothing_left()
