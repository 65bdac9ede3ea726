"""How many files and connections a process may have open."""

from __future__ import annotations

import contextlib
import resource

_ENOUGH = 10_240
"""The most that macOS takes for a soft limit; about a thousand visitors of one gateway."""


def allow_many() -> None:
    """Raise this process' limit, and that of all it starts, as far as it may.

    Shells begin with 256 on macOS and 1024 on most Linux, which the visitors' connections use up.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else min(_ENOUGH, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    with contextlib.suppress(OSError, ValueError):  # it goes on with what it has
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
