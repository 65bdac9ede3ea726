"""What a process may take that opens a stranger's file.

Imports nothing of ours: such a process starts for every upload.
"""

from __future__ import annotations

import contextlib
import os
import resource


def environ() -> dict[str, str]:
    """Of such a process: it is told no password, and a pool of threads would be address space that
    the file cannot have.
    """
    told = {name: value for name, value in os.environ.items() if not name.startswith("VISAVIS_")}
    return told | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def take_no_more(cpu_s: int, memory_bytes: int) -> None:
    """From now on the kernel ends this process after `cpu_s` of work, and gives it no memory beyond
    `memory_bytes` and none to dump.

    macOS bounds no memory: it counts what all processes share as each one's own, which is more than
    any limit worth setting, and takes none below that.
    """
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(ValueError):  # refused, or bounded more narrowly already
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
