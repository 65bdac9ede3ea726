"""Which of the backend's sequences a session works in."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from visavis.errors import AtCapacityError


class SlotPool:
    """Slots 0 to n-1, each held by one session at a time.

    A slot still holds its last session's prompt, so a session that comes back
    gets its own one where that is free, and else the one unused for longest.
    """

    def __init__(self, slots: int) -> None:
        self.slots = slots
        # Oldest first, each with the session that it served last.
        self._free: dict[int, str] = dict.fromkeys(range(slots), "")

    @property
    def free(self) -> int:
        return len(self._free)

    @contextlib.contextmanager
    def hold(self, session: str = "") -> Iterator[int]:
        """A slot for as long as the context lasts. Raises AtCapacityError."""
        if not self._free:
            raise AtCapacityError(f"all {self.slots} slots are taken")
        own = [slot for slot, last in self._free.items() if session and last == session]
        slot = own[0] if own else next(iter(self._free))
        del self._free[slot]
        try:
            yield slot
        finally:
            self._free[slot] = session
