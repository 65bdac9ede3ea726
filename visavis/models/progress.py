"""What a pull reports while it works. The command line draws it; a library caller may ignore it."""

from __future__ import annotations

from typing import Protocol


class PullProgress(Protocol):
    """Calls come from several threads."""

    def transferred(self, task: str, done_bytes: int, total_bytes: int | None) -> None:
        """`task` has `done_bytes` of `total_bytes` (None: the server does not say)."""

    def finished(self, task: str) -> None:
        """`task` needs no bar any more."""

    def prepared(self, bundle: str, text: str, fraction: float) -> None:
        """A prepare step of `bundle` is at `fraction` (0..1) of its work."""

    def say(self, text: str) -> None:
        """A line worth reading: a retry, a bundle that is ready, a wait for another pull."""


class SilentProgress:
    """Reports nothing."""

    def transferred(self, task: str, done_bytes: int, total_bytes: int | None) -> None:
        del task, done_bytes, total_bytes

    def finished(self, task: str) -> None:
        del task

    def prepared(self, bundle: str, text: str, fraction: float) -> None:
        del bundle, text, fraction

    def say(self, text: str) -> None:
        del text
