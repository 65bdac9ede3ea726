"""Which device a setting means: "cuda", "cuda:N" or "cuda:GPU-uuid"."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from visavis.engine.tensorrt.bindings.device import CudaBinding, CudaDevice, CudaError, DeviceInfo
from visavis.serving.errors import EngineLoadError


class NoDeviceError(EngineLoadError):
    """There is no CUDA device at all, or nothing that can talk to one."""


class UnknownDeviceError(EngineLoadError):
    """There are devices, and the one that was asked for is not among them."""


def _cuda_python() -> CudaBinding:
    from visavis.engine.tensorrt.bindings.cuda_python import CudaPython

    return CudaPython()


def _pycuda() -> CudaBinding:
    from visavis.engine.tensorrt.bindings.pycuda import PyCuda

    return PyCuda()


BINDINGS: dict[str, Callable[[], CudaBinding]] = {"cuda-python": _cuda_python, "pycuda": _pycuda}
"""In the order of preference: cuda-python has CUDA graphs."""


def open_binding() -> CudaBinding:
    """The first binding that is installed. Raises NoDeviceError naming what to install."""
    failures = []
    for name, factory in BINDINGS.items():
        try:
            return factory()
        except ImportError as error:
            failures.append(f"{name}: {error}")
    raise NoDeviceError(
        "device: no Python binding of CUDA; pip install -e '.[gpu]' (" + "; ".join(failures) + ")"
    )


def list_devices(binding: CudaBinding) -> list[DeviceInfo]:
    """Every device. Raises NoDeviceError where there is none."""
    try:
        devices = binding.devices()
    except CudaError as error:
        raise NoDeviceError(f"device: this machine has no usable CUDA device: {error}") from error
    except RuntimeError as error:  # cuda-python's, where libcuda itself is missing
        raise NoDeviceError(f"device: no CUDA driver: {error}") from error
    if not devices:
        raise NoDeviceError("device: this machine has no CUDA device")
    return devices


def find_device(wanted: str, devices: Sequence[DeviceInfo]) -> DeviceInfo:
    """The device that `wanted` means. Raises UnknownDeviceError listing what exists."""
    check_device_name(wanted)
    which = wanted.partition(":")[2] or "0"
    for info in devices:
        if which == str(info.index) or (info.uuid and which.lower() == info.uuid.lower()):
            return info
    there = ", ".join(str(info) for info in devices)
    raise UnknownDeviceError(f"device: no {wanted!r} on this machine; there is {there}")


def check_device_name(device: str) -> None:
    """Raise UnknownDeviceError unless it reads cpu, cuda, cuda:N or cuda:GPU-uuid."""
    kind, _, which = device.partition(":")
    if device == "cpu" or (
        kind == "cuda" and (which.isdecimal() or which.startswith("GPU-") or device == "cuda")
    ):
        return
    raise UnknownDeviceError(f"device: {device!r} is none of cpu, cuda:N and cuda:GPU-uuid")


def open_device(wanted: str, binding: CudaBinding | None = None) -> CudaDevice:
    """The device that a setting means, opened. Raises NoDeviceError or UnknownDeviceError."""
    check_device_name(wanted)
    if wanted == "cpu":
        raise UnknownDeviceError("device: TensorRT runs on cuda:N or cuda:GPU-uuid, not on cpu")
    binding = binding or open_binding()
    return binding.open(find_device(wanted, list_devices(binding)))
