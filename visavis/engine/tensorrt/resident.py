"""Outputs that stay on the device, to be the input of the next engine there."""

from __future__ import annotations

import logging
import threading
import weakref
from collections import defaultdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visavis.engine.tensorrt.buffers import bytes_of
from visavis.engine.tensorrt.device import CudaDevice, CudaError
from visavis.errors import InvalidInputError

log = logging.getLogger(__name__)

_LEAST_BYTES = 4096
_BLOCKS_KEPT = 64


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
        size_bytes = max(_LEAST_BYTES, 1 << (needed - 1).bit_length() if needed else 0)
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
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        return bytes_of(self.shape, self.dtype)

    def __getitem__(self, key: slice | tuple[slice, ...]) -> CudaTensor:
        """A contiguous part. Raises InvalidInputError where it would not be contiguous."""
        keys = key if isinstance(key, tuple) else (key,)
        if len(keys) > self.ndim or not all(isinstance(part, slice) for part in keys):
            raise InvalidInputError(f"{keys}: a tensor of {self.ndim} dimensions is cut by slices")
        offset, shape, cut = 0, list(self.shape), False
        for axis, part in enumerate(keys):
            start, stop, step = part.indices(self.shape[axis])
            shape[axis] = max(0, stop - start)
            if step == 1 and shape[axis] == self.shape[axis]:
                continue
            if step != 1 or any(size != 1 for size in shape[:axis]) or cut:
                raise InvalidInputError(f"{keys}: that part of {list(self.shape)} has gaps")
            cut = True
            offset = start * int(np.prod(self.shape[axis + 1 :], dtype=np.int64))
        return CudaTensor(
            self.device,
            self.address + offset * self.dtype.itemsize,
            tuple(shape),
            self.dtype,
            self._owner or self,
        )

    def to_host(self) -> NDArray[Any]:
        """A copy in host memory: for the bus, or for an engine on the CPU. Raises CudaError."""
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
