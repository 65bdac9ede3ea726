"""How often a key frame is asked for: many viewers may miss the same one."""

from __future__ import annotations

from visavis.media import VideoCodec

INTERVAL_S = 0.4


class KeyframeThrottle:
    """Pure: time comes as an argument."""

    def __init__(self) -> None:
        self._asked_at_s: dict[VideoCodec, float] = {}

    def allows(self, codec: VideoCodec, now: float) -> bool:
        """Whether to ask now; if so, it counts as asked."""
        last = self._asked_at_s.get(codec)
        if last is not None and now - last < INTERVAL_S:
            return False
        self._asked_at_s[codec] = now
        return True
