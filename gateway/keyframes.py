"""How often a key frame is asked for: many viewers may miss the same one."""

from __future__ import annotations

from visavis.media import VideoCodec

INTERVAL_S = 0.4


class KeyframeThrottle:
    """Pure: time comes as an argument. What was refused is not forgotten: ask for `refused` again.

    Somebody who came just after a key frame has not seen it.
    """

    def __init__(self) -> None:
        self.refused: set[VideoCodec] = set()
        self._asked_at_s: dict[VideoCodec, float] = {}

    def allows(self, codec: VideoCodec, now: float) -> bool:
        """Whether to ask now; if so, it counts as asked."""
        last = self._asked_at_s.get(codec)
        if last is not None and now - last < INTERVAL_S:
            self.refused.add(codec)
            return False
        self.refused.discard(codec)
        self._asked_at_s[codec] = now
        return True
