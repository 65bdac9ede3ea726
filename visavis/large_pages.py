"""Memory of a process in large pages, where weights are read sooner."""

from __future__ import annotations

import mmap

_SMALL_BYTES = 4096


def large_pages() -> dict[str, str]:
    """Environment of a process whose heap asks the kernel for them.

    Nothing unless a small one has 4 KiB: then a large one has 2 MiB. Of 16 KiB (Raspberry Pi 5) it
    has 32 MiB and of 64 KiB (many servers with Arm) 512, by which each heap would grow.
    """
    if mmap.PAGESIZE != _SMALL_BYTES:
        return {}
    return {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
