"""The figures of a GPU. A fake NVML in the place of the driver's: there is no GPU here."""

from __future__ import annotations

import math
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from prometheus_client import REGISTRY

from visavis.engine.tensorrt.bindings.device import CudaDevice, DeviceInfo
from visavis.serving.telemetry.gpus import export_gpu


class FakeCuda:
    """A binding of CUDA that only knows which devices there are."""

    name = "fake"

    def __init__(self, uuid: str) -> None:
        self._device = DeviceInfo(0, "a GPU", uuid, (9, 0), 80 * 2**30)

    def devices(self) -> list[DeviceInfo]:
        return [self._device]

    def open(self, info: DeviceInfo) -> CudaDevice:
        raise AssertionError("nothing is computed here")


class FakeNvml(ModuleType):
    """As nvidia-ml-py, of one GPU."""

    NVML_TEMPERATURE_GPU = 0

    class NVMLError(Exception):
        pass

    def __init__(self, uuid: str, *, tells_power: bool = True) -> None:
        super().__init__("pynvml")
        self.uuid = uuid
        self.tells_power = tells_power
        self.lost = False
        self.reasons = 0

    def nvmlInit(self) -> None: ...

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        return self._told(uuid) if uuid == self.uuid else self._refused()

    def nvmlDeviceGetUtilizationRates(self, gpu: str) -> Any:
        return self._told(SimpleNamespace(gpu=37))

    def nvmlDeviceGetMemoryInfo(self, gpu: str) -> Any:
        return self._told(SimpleNamespace(used=20 * 2**30, total=80 * 2**30))

    def nvmlDeviceGetTemperature(self, gpu: str, sensor: int) -> int:
        return self._told(61)

    def nvmlDeviceGetPowerUsage(self, gpu: str) -> int:
        return self._told(250_500) if self.tells_power else self._refused()

    def nvmlDeviceGetCurrentClocksEventReasons(self, gpu: str) -> int:
        return self._told(self.reasons)

    def _told(self, value: Any) -> Any:
        return self._refused() if self.lost else value

    def _refused(self) -> Any:
        raise self.NVMLError("not here")


def value(name: str, uuid: str, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(name, {"device": "cuda:0", "uuid": uuid, **labels})


def test_figures_are_those_of_the_scrape_which_a_gpu_that_is_lost_does_not_break(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nvml = FakeNvml("GPU-1")
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    export_gpu("cuda:0", FakeCuda("GPU-1"))
    assert value("gpu_utilization_ratio", "GPU-1") == 0.37
    assert value("gpu_memory_used_bytes", "GPU-1") == 20 * 2**30
    assert value("gpu_memory_total_bytes", "GPU-1") == 80 * 2**30
    assert value("gpu_temperature_celsius", "GPU-1") == 61
    assert value("gpu_power_watts", "GPU-1") == 250.5
    assert value("gpu_clocks_held_back", "GPU-1", reason="heat") == 0
    nvml.reasons = 0x40 | 0x4
    assert value("gpu_clocks_held_back", "GPU-1", reason="heat") == 1
    assert value("gpu_clocks_held_back", "GPU-1", reason="power_cap") == 1
    assert value("gpu_clocks_held_back", "GPU-1", reason="power_brake") == 0
    nvml.lost = True
    used = value("gpu_memory_used_bytes", "GPU-1")
    assert used is not None and math.isnan(used)


def test_a_part_of_a_gpu_tells_what_it_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml("MIG-3", tells_power=False))
    export_gpu("cuda:0", FakeCuda("GPU-3"))
    assert value("gpu_memory_used_bytes", "GPU-3") == 20 * 2**30
    assert value("gpu_power_watts", "GPU-3") is None


def test_without_a_gpu_or_its_library_there_is_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)  # importing it fails
    export_gpu("cpu")
    export_gpu("cuda:0", FakeCuda("GPU-4"))
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml("GPU-of-somebody-else"))
    export_gpu("cuda:0", FakeCuda("GPU-4"))
    assert value("gpu_memory_used_bytes", "GPU-4") is None
