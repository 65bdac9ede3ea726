"""Memory of tensors on both sides of the bus, and outputs that stay on the device.

A tensor's memory is kept and grown, never shrunk: its address changes only when it becomes larger
than ever before, which warming up with the largest shapes makes the exception. Outputs that stay
can be the input of the next engine there.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections import defaultdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visavis.engine.base import contiguous_part
from visavis.engine.tensorrt.bindings.device import CudaDevice, CudaError, PinnedMemory
from visavis.serving.errors import EngineError

log = logging.getLogger(__name__)

# A tensor without elements still needs an address that is not null.
_LEAST_BYTES = 256
_LEAST_OUTPUT_BYTES = 4096
_BLOCKS_KEPT = 64


def bytes_of(shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    """What an array of that shape and type takes."""
    return int(np.prod(shape, dtype=np.int64)) * dtype.itemsize


class TensorBuffer:
    """Device memory and page-locked host memory of one input or output."""

    def __init__(self, device: CudaDevice, *, on_host: bool = False) -> None:
        """on_host: TensorRT reads this tensor from host memory; it has no device memory."""
        self._device = device
        self._on_host = on_host
        self._address = 0
        self._pinned: PinnedMemory | None = None
        self.device_bytes = 0

    @property
    def address(self) -> int:
        """What TensorRT is told; 0 before the first `grow`."""
        if self._on_host:
            return self._pinned.address if self._pinned else 0
        return self._address

    @property
    def pinned_bytes(self) -> int:
        """Page-locked host memory that it has."""
        return len(self._pinned.array) if self._pinned else 0

    def grow(self, size_bytes: int) -> bool:
        """Make room for `size_bytes`; True if the address changed. The stream must be idle."""
        size_bytes = max(size_bytes, _LEAST_BYTES)
        if self._on_host:
            return self._grow_pinned(size_bytes)
        if size_bytes <= self.device_bytes:
            return False
        if self._address:
            old, self._address, self.device_bytes = self._address, 0, 0
            self._device.free(old)
        self._address = self._device.alloc(size_bytes)
        self.device_bytes = size_bytes
        return True

    def write(self, array: NDArray[Any], stream: int) -> None:
        """Enqueue the copy of `array`, of any shape and dtype, to the device.

        The last copy must have finished. Raises CudaError.
        """
        self._grow_pinned(max(array.nbytes, _LEAST_BYTES))
        assert self._pinned is not None
        staged = self._pinned.array[: array.nbytes].view(array.dtype).reshape(array.shape)
        np.copyto(staged, array)
        if not self._on_host:
            self._device.copy_to_device(self._address, self._pinned, array.nbytes, stream)

    def copy_from(self, address: int, size_bytes: int, stream: int) -> None:
        """Enqueue a copy from elsewhere on the device.

        Raises EngineError for a tensor that TensorRT reads on the host, CudaError.
        """
        if self._on_host:
            raise EngineError("a tensor that TensorRT reads on the host cannot come from the GPU")
        self._device.copy_on_device(self._address, address, size_bytes, stream)

    def clear(self, size_bytes: int, stream: int) -> None:
        """Enqueue zeros, without host memory for them."""
        if self._on_host:
            assert self._pinned is not None
            self._pinned.array[:size_bytes] = 0
        elif size_bytes:
            self._device.clear(self._address, size_bytes, stream)

    def fetch(self, size_bytes: int, stream: int) -> None:
        """Enqueue the copy to the host; `read` after the stream was waited for."""
        self._grow_pinned(max(size_bytes, _LEAST_BYTES))
        assert self._pinned is not None
        self._device.copy_to_host(self._pinned, self._address, size_bytes, stream)

    def read(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """What was fetched, as an array of `shape` and `dtype`, the caller's own."""
        assert self._pinned is not None
        return self._pinned.array[: bytes_of(shape, dtype)].view(dtype).reshape(shape).copy()

    def free(self) -> None:
        """Free both sides. What cannot be freed, because the device is lost, is logged."""
        address, self._address, self.device_bytes = self._address, 0, 0
        pinned, self._pinned = self._pinned, None
        try:
            if address:
                self._device.free(address)
            if pinned is not None:
                self._device.free_pinned(pinned)
        except CudaError as error:
            log.warning("memory was not freed: %s", error)

    def _grow_pinned(self, size_bytes: int) -> bool:
        if self._pinned is not None:
            if size_bytes <= len(self._pinned.array):
                return False
            old, self._pinned = self._pinned, None
            self._device.free_pinned(old)
        # Page-locking is slow: what grows bit by bit must not cost it each time.
        self._pinned = self._device.alloc_pinned(1 << (size_bytes - 1).bit_length())
        return True


def output_allocator(trt: Any, buffer: TensorBuffer) -> Any:
    """An IOutputAllocator of `trt` for an output whose size only the run itself tells.

    After the run `shape` is what was made, and `error` why there was no memory.
    """

    class GrowingOutput(trt.IOutputAllocator):  # type: ignore[misc]  # known at run time only
        def __init__(self) -> None:
            trt.IOutputAllocator.__init__(self)
            self.shape: tuple[int, ...] | None = None
            self.error: CudaError | None = None

        def reallocate_output(
            self, tensor_name: str, memory: int, size: int, alignment: int
        ) -> int:
            # An exception must not pass through TensorRT: 0 is its word for "no memory".
            try:
                buffer.grow(size)
            except CudaError as error:
                self.error = error
                return 0
            return buffer.address

        def reallocate_output_async(
            self, tensor_name: str, memory: int, size: int, alignment: int, stream: int
        ) -> int:
            return self.reallocate_output(tensor_name, memory, size, alignment)

        def notify_shape(self, tensor_name: str, shape: Any) -> None:
            self.shape = tuple(shape)

    return GrowingOutput()


class ResidentPool:
    """Device memory that outputs live in; it returns here when nobody holds them any more.

    Safe to use from any thread, since tensors may be dropped on any.
    """

    def __init__(self, device: CudaDevice) -> None:
        self.device = device
        self._free: dict[int, list[int]] = defaultdict(list)
        # Collecting garbage may drop a tensor while this very thread is in here.
        self._lock = threading.RLock()
        self._kept = 0
        self._closed = False
        self.held_bytes = 0

    def take(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> CudaTensor:
        """An uninitialised tensor. The device must be current. Raises CudaError."""
        needed = bytes_of(shape, dtype)
        size_bytes = max(_LEAST_OUTPUT_BYTES, 1 << (needed - 1).bit_length() if needed else 0)
        with self._lock:
            blocks = self._free[size_bytes]
            address = blocks.pop() if blocks else 0
            self._kept -= bool(address)
        if not address:
            address = self.device.alloc(size_bytes)
            with self._lock:
                self.held_bytes += size_bytes
        tensor = CudaTensor(self.device, address, shape, dtype)
        weakref.finalize(tensor, self._give_back, address, size_bytes)
        return tensor

    def close(self) -> None:
        """Free what nobody holds; the rest is freed when it is dropped."""
        with self._lock:
            self._closed = True
            blocks = [block for kept in self._free.values() for block in kept]
            self._free.clear()
            self._kept = 0
            self.held_bytes = 0
        with self.device.current():
            for address in blocks:
                self.device.free(address)

    def _give_back(self, address: int, size_bytes: int) -> None:
        with self._lock:
            if not self._closed and self._kept < _BLOCKS_KEPT:
                self._free[size_bytes].append(address)
                self._kept += 1
                return
            if not self._closed:
                self.held_bytes -= size_bytes
        try:
            with self.device.current():
                self.device.free(address)
        except CudaError as error:  # nobody is there to catch it
            log.warning("memory of a tensor was not freed: %s", error)


class CudaTensor:
    """A contiguous tensor on a device, written and complete. Its memory lives as long as it does.

    Slices, as in `mel[:, 10:20]`, share the memory; only those that are
    contiguous themselves exist.
    """

    def __init__(
        self,
        device: CudaDevice,
        address: int,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        owner: CudaTensor | None = None,
    ) -> None:
        self.device = device
        self.address = address
        self.shape = shape
        self.dtype = dtype
        self._owner = owner

    @property
    def ndim(self) -> int:
        """As of an array."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """What its elements take."""
        return bytes_of(self.shape, self.dtype)

    def __getitem__(self, key: slice | tuple[slice, ...]) -> CudaTensor:
        """A contiguous part. Raises InvalidInputError where it would not be contiguous."""
        skipped, shape = contiguous_part(self.shape, key)
        return CudaTensor(
            self.device,
            self.address + skipped * self.dtype.itemsize,
            shape,
            self.dtype,
            self._owner or self,
        )

    def to_host(self) -> NDArray[Any]:
        """A copy of its shape and dtype in host memory: for the bus, or for an engine on the CPU.

        Raises CudaError.
        """
        device = self.device
        with device.current():
            staging = device.alloc_pinned(max(1, self.nbytes))
            stream = device.create_stream()
            try:
                device.copy_to_host(staging, self.address, self.nbytes, stream)
                device.synchronize(stream)
                flat = staging.array[: self.nbytes].view(self.dtype)
                return flat.reshape(self.shape).copy()
            finally:
                device.destroy_stream(stream)
                device.free_pinned(staging)
