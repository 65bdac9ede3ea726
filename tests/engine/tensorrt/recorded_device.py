"""A double of a CUDA device: host memory, streams that run only when waited for, a record.

It proves what we ask of a device and in which order: that nothing is read before the
stream was waited for, that no freed memory is used, that a captured graph meets its
addresses again. It proves nothing about a GPU. Several threads may use it.
"""

from __future__ import annotations

import ctypes
import itertools
import mmap
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from visavis.engine.tensorrt.bindings.device import (
    CudaDevice,
    CudaError,
    DeviceInfo,
    MemoryInfo,
    PinnedMemory,
)

Work = Callable[[], None]
_FILLED_BYTES = 1 << 20
INFO = DeviceInfo(0, "Double", "GPU-00000000-0000-0000-0000-000000000000", (8, 9), 2**30)


@dataclass(frozen=True)
class Piece:
    """Work that waits on a stream. What is `optional` is left out where nobody reads what it
    writes before the stream was waited for: the largest shapes would take a CPU minutes."""

    work: Work
    reads: int = 0
    writes: frozenset[int] = frozenset()
    optional: bool = False


@dataclass
class RecordedDevice:
    """`fail[call]` is raised, once, by the next call of that name."""

    info: DeviceInfo = INFO
    has_graphs: bool = True
    calls: list[str] = field(default_factory=list)
    fail: dict[str, CudaError] = field(default_factory=dict)
    on_device: dict[int, np.ndarray] = field(default_factory=dict)
    pinned: dict[int, np.ndarray] = field(default_factory=dict)
    queued: dict[int, list[Piece]] = field(default_factory=dict)
    events: dict[int, float] = field(default_factory=dict)
    graphs: dict[int, list[Piece]] = field(default_factory=dict)
    captures: dict[int, list[Piece]] = field(default_factory=dict)
    written: dict[int, int] = field(default_factory=dict)
    """Device address -> how many bytes were last written there."""
    unwritten: set[int] = field(default_factory=set)
    """Addresses whose work was left out."""

    def __post_init__(self) -> None:
        self._handles = itertools.count(1)
        self._time = itertools.count(1)
        self._thread = threading.local()

    @property
    def depth(self) -> int:
        """How often this thread has made the device its own."""
        return getattr(self._thread, "depth", 0)

    @depth.setter
    def depth(self, value: int) -> None:
        self._thread.depth = value

    @contextmanager
    def current(self) -> Iterator[None]:
        self._note("current")
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1

    def alloc(self, size_bytes: int) -> int:
        self._note("alloc")
        # Pages that nobody touches cost nothing, and their beginning is aligned as CUDA's is.
        block = np.frombuffer(mmap.mmap(-1, size_bytes), np.uint8)
        if size_bytes <= _FILLED_BYTES:
            block[:] = 0xAB
        self.on_device[block.ctypes.data] = block
        return int(block.ctypes.data)

    def free(self, address: int) -> None:
        self._note("free")
        del self.on_device[address]
        self.written.pop(address, None)

    def alloc_pinned(self, size_bytes: int) -> PinnedMemory:
        self._note("alloc_pinned")
        block = np.full(size_bytes, 0xCD, np.uint8)
        self.pinned[block.ctypes.data] = block
        return PinnedMemory(block.ctypes.data, block)

    def free_pinned(self, memory: PinnedMemory) -> None:
        self._note("free_pinned")
        del self.pinned[memory.address]

    def copy_to_device(
        self, target: int, source: PinnedMemory, size_bytes: int, stream: int
    ) -> None:
        self._note("copy_to_device")
        self._enqueue(stream, lambda: self._copy(target, source.address, size_bytes))

    def copy_to_host(self, target: PinnedMemory, source: int, size_bytes: int, stream: int) -> None:
        self._note("copy_to_host")
        self._enqueue(stream, lambda: self._copy(target.address, source, size_bytes), source)

    def copy_on_device(self, target: int, source: int, size_bytes: int, stream: int) -> None:
        self._note("copy_on_device")
        self._enqueue(stream, lambda: self._copy(target, source, size_bytes), source)

    def clear(self, address: int, size_bytes: int, stream: int) -> None:
        self._note("clear")

        def work() -> None:
            self._owned(address, size_bytes, self.on_device)
            block = self.on_device.get(address)
            if block is not None and isinstance(block.base, mmap.mmap):
                # Pages that are given back read as zeros.
                whole = size_bytes // mmap.PAGESIZE * mmap.PAGESIZE
                if whole:
                    block.base.madvise(mmap.MADV_DONTNEED, 0, whole)
                ctypes.memset(address + whole, 0, size_bytes - whole)
            else:
                ctypes.memset(address, 0, size_bytes)
            self._wrote(address, size_bytes)

        self._enqueue(stream, work)

    def create_stream(self) -> int:
        self._note("create_stream")
        stream = next(self._handles)
        self.queued[stream] = []
        return stream

    def destroy_stream(self, stream: int) -> None:
        self._note("destroy_stream")
        assert not self.queued.pop(stream), "a stream was destroyed with work on it"

    def synchronize(self, stream: int) -> None:
        assert stream not in self.captures, "waiting for a stream that is being captured"
        pieces, self.queued[stream] = self.queued[stream], []
        self._note("synchronize")
        for at, piece in enumerate(pieces):
            if piece.optional and not any(later.reads in piece.writes for later in pieces[at:]):
                self.unwritten |= piece.writes
                continue
            piece.work()
            self.unwritten -= piece.writes

    def create_event(self) -> int:
        self._note("create_event")
        event = next(self._handles)
        self.events[event] = 0.0
        return event

    def destroy_event(self, event: int) -> None:
        self._note("destroy_event")
        del self.events[event]

    def record(self, event: int, stream: int) -> None:
        self._note("record")

        def happen() -> None:
            self.events[event] = float(next(self._time))

        self._enqueue(stream, happen)

    def elapsed_s(self, start: int, end: int) -> float:
        assert 0 < self.events[start] < self.events[end], "events in the wrong order"
        return self.events[end] - self.events[start]

    def begin_capture(self, stream: int) -> None:
        self._note("begin_capture")
        assert not self.queued[stream], "capture while work waits"
        self.captures[stream] = []

    def end_capture(self, stream: int) -> int:
        captured = self.captures.pop(stream)
        self._note("end_capture")
        graph = next(self._handles)
        self.graphs[graph] = captured
        return graph

    def launch_graph(self, graph: int, stream: int) -> None:
        self._note("launch_graph")
        self.queued[stream].extend(self.graphs[graph])

    def destroy_graph(self, graph: int) -> None:
        self._note("destroy_graph")
        del self.graphs[graph]

    def memory(self) -> MemoryInfo:
        used = sum(block.nbytes for block in self.on_device.values())
        return MemoryInfo(self.info.total_bytes - used, self.info.total_bytes)

    def run_on(self, stream: int, piece: Piece) -> None:
        """Work of the double of TensorRT."""
        self.captures.get(stream, self.queued[stream]).append(piece)

    def in_capture(self, stream: int) -> bool:
        return stream in self.captures

    def device_array(self, address: int, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """The tensor at a device address; fails where that was not allocated."""
        size = int(np.prod(shape)) * dtype.itemsize
        self._owned(address, size, self.on_device)
        assert address % 256 == 0, "an address that is not aligned"
        raw = (ctypes.c_uint8 * size).from_address(address)
        return np.frombuffer(raw, dtype).reshape(shape)

    def nothing_left(self) -> bool:
        """Was everything given back?"""
        kept = (self.on_device, self.pinned, self.queued, self.events, self.graphs)
        return not any(kept)

    def _enqueue(self, stream: int, work: Work, reads: int = 0) -> None:
        self.run_on(stream, Piece(work, reads))

    def _copy(self, target: int, source: int, size: int) -> None:
        assert source not in self.unwritten, "an output is read whose run was left out"
        everything = {**self.on_device, **self.pinned}
        self._owned(target, size, everything)
        self._owned(source, size, everything)
        ctypes.memmove(target, source, size)
        self._wrote(target, size)

    def _wrote(self, address: int, size: int) -> None:
        self.written[address] = size
        self.unwritten.discard(address)

    def _owned(self, address: int, size: int, blocks: dict[int, np.ndarray]) -> None:
        assert any(
            start <= address and address + size <= start + block.nbytes
            for start, block in list(blocks.items())
        ), "memory that is not allocated (any more)"

    def _note(self, call: str) -> None:
        self.calls.append(call)
        if call != "current":
            assert self.depth > 0, f"{call} while the device is not current"
        if (error := self.fail.pop(call, None)) is not None:
            raise error


@dataclass
class RecordedBinding:
    """One device, or none."""

    device: RecordedDevice
    name: str = "double"
    missing: CudaError | None = None

    def devices(self) -> list[DeviceInfo]:
        if self.missing is not None:
            raise self.missing
        return [self.device.info]

    def open(self, info: DeviceInfo) -> CudaDevice:
        return self.device
