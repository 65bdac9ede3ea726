"""Ctrl-C while a command is still being imported."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it."""


@contextmanager
def leaving_at_once() -> Iterator[None]:
    """Meanwhile Ctrl-C, and a SIGTERM that is taken for it, end the process without a word.

    For imports: nothing is under way that would have to be tidied up, and KeyboardInterrupt leaves
    them as a traceback, or as an ImportError of whatever it has cut short.
    """
    taken = []
    with suppress(ValueError):  # of a thread that no signal comes to
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is signal.default_int_handler:
                signal.signal(number, _leave)
                taken.append(number)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.default_int_handler)


def _leave(_number: int, _frame: FrameType | None) -> None:
    os._exit(INTERRUPTED)
