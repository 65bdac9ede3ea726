"""How long a process has said nothing though it could have. Pure.

One that is frozen neither runs nor wants to. One that only comes late, on a machine whose cores or
disk others have, waits to run: such waiting counts for nothing, up to a limit.
"""

from __future__ import annotations

from dataclasses import dataclass

LONGEST_S = 60.0
"""A silence lasts no longer, whatever is waited for meanwhile, where nobody says otherwise."""


@dataclass(frozen=True)
class Reading:
    """What the kernel tells of a process that is silent."""

    at_s: float
    """When, on a monotonic clock."""
    waited_s: float
    """Time in which one of its threads could have run and had no core, since it was started, all
    threads together; 0 where the kernel does not tell."""
    on_disk: bool
    """Whether one of its threads is just kept by a disk."""


class Silence:
    """Of one process that is looked at again and again, until it is heard.

    Looks are counted and not seconds: where all of the machine is late, or asleep, we hear as
    little as we look.
    """

    def __init__(self) -> None:
        self.lasted_s = 0.0
        self.waited_s = 0.0
        """The part of it in which it waited for a core or a disk."""
        self._before: Reading | None = None

    def heard(self) -> None:
        """It has given a sign of life."""
        self.lasted_s = self.waited_s = 0.0
        self._before = None

    def missed(self, look_s: float, now: Reading | None) -> None:
        """It has given none since the look before, which was to be `look_s` ago.

        now: None: whatever it waits for counts as silence.
        """
        self.lasted_s += look_s
        self.waited_s += look_s * self._share_waited(now)
        self._before = now

    def __str__(self) -> str:
        """As in "5 s"; where the machine is busy that is said."""
        if self.waited_s < self.lasted_s / 2:
            return f"{self.lasted_s:.0f} s"
        waited = f"for {self.waited_s:.0f} s of them it waited for a core or the disk"
        return f"{self.lasted_s:.0f} s (this machine is busy: {waited})"

    def too_long(self, limit_s: float, longest_s: float = LONGEST_S) -> bool:
        """Whether it has given none for `limit_s` in which it could have, or for `longest_s`."""
        return self.lasted_s - self.waited_s >= limit_s or self.lasted_s >= longest_s

    def _share_waited(self, now: Reading | None) -> float:
        """The part of the time since the look before."""
        if now is not None and now.on_disk:
            return 1.0
        if now is None or self._before is None or now.at_s <= self._before.at_s:
            return 0.0
        waited_s = max(0.0, now.waited_s - self._before.waited_s)  # less where threads have ended
        return min(1.0, waited_s / (now.at_s - self._before.at_s))
