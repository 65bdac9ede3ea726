"""The figures of the GPU that a process runs on, as its driver tells them by NVML.

They are read when somebody scrapes, on the thread that answers: between two scrapes they cost
nothing. On a CPU not even the library is imported.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import prometheus_client

from visavis.engine.tensorrt.bindings.device import CudaBinding
from visavis.engine.tensorrt.bindings.selection import find_device, list_devices, open_binding
from visavis.serving import metrics
from visavis.serving.errors import EngineLoadError

log = logging.getLogger(__name__)

_Figure = Callable[[Any, Any], float]
"""Of NVML's module and the handle of a GPU."""

# Bits of nvmlDeviceGetCurrentClocksEventReasons, as nvml.h names them.
_POWER_CAP = 0x4  # SwPowerCap: at the limit that is set; usual under load
_HEAT = 0x20 | 0x40  # SwThermalSlowdown, HwThermalSlowdown
_POWER_BRAKE = 0x80  # HwPowerBrakeSlowdown: the machine's supply asks for less

_FIGURES: tuple[tuple[prometheus_client.Gauge, _Figure], ...] = (
    (
        metrics.gpu_utilization,
        lambda nvml, gpu: nvml.nvmlDeviceGetUtilizationRates(gpu).gpu / 100,
    ),
    (metrics.gpu_memory_used_bytes, lambda nvml, gpu: nvml.nvmlDeviceGetMemoryInfo(gpu).used),
    (metrics.gpu_memory_total_bytes, lambda nvml, gpu: nvml.nvmlDeviceGetMemoryInfo(gpu).total),
    (
        metrics.gpu_temperature_celsius,
        lambda nvml, gpu: nvml.nvmlDeviceGetTemperature(gpu, nvml.NVML_TEMPERATURE_GPU),
    ),
    (metrics.gpu_power_watts, lambda nvml, gpu: nvml.nvmlDeviceGetPowerUsage(gpu) / 1000),
)
_REASONS = {"power_cap": _POWER_CAP, "heat": _HEAT, "power_brake": _POWER_BRAKE}


def _held_back(bits: int, nvml: Any, gpu: Any) -> float:
    return float(bool(nvml.nvmlDeviceGetCurrentClocksEventReasons(gpu) & bits))


def export_gpu(device: str, binding: CudaBinding | None = None) -> None:
    """From now on the metrics tell of the GPU that a setting means; of `cpu` there is nothing.

    Where NVML or the GPU is not there the log says so once, and there are no series; a figure
    that this GPU does not tell has none either. binding: of CUDA, which knows the GPU's UUID.
    """
    if device == "cpu":
        return
    try:
        import pynvml as nvml
    except ImportError:
        log.info("no figures of %s: nvidia-ml-py is not installed (visavis[gpu])", device)
        return
    try:
        found = find_device(device, list_devices(binding or open_binding()))
        nvml.nvmlInit()
        gpu = _handle(nvml, found.uuid)
    except (EngineLoadError, nvml.NVMLError) as error:
        log.info("no figures of %s: %s", device, error)
        return
    labels = (f"cuda:{found.index}", found.uuid)
    for gauge, figure in _FIGURES:
        _tell(gauge, labels, figure, nvml, gpu)
    for reason, bits in _REASONS.items():
        _tell(metrics.gpu_clocks_held_back, (*labels, reason), partial(_held_back, bits), nvml, gpu)


def _handle(nvml: Any, uuid: str) -> Any:
    """Of a GPU, or of an instance of one (MIG), which CUDA numbers alike. Raises NVMLError."""
    try:
        return nvml.nvmlDeviceGetHandleByUUID(uuid)
    except nvml.NVMLError:
        return nvml.nvmlDeviceGetHandleByUUID(uuid.replace("GPU-", "MIG-", 1))


def _tell(
    gauge: prometheus_client.Gauge, labels: tuple[str, ...], figure: _Figure, nvml: Any, gpu: Any
) -> None:
    try:
        figure(nvml, gpu)
    except nvml.NVMLError as error:
        log.debug("%s is not told by this GPU: %s", gauge, error)
        return
    gauge.labels(*labels).set_function(partial(_read, figure, nvml, gpu))


def _read(figure: _Figure, nvml: Any, gpu: Any) -> float:
    """Not a number where the GPU does not answer: a scrape must not fail by it."""
    try:
        return float(figure(nvml, gpu))
    except nvml.NVMLError:
        return math.nan
