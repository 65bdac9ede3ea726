"""What cannot be had in a test: a clock that stands still, and what a metric has grown by."""

from __future__ import annotations

from prometheus_client import REGISTRY


class ManualClock:
    """A Clock that moves only when told."""

    def __init__(self, start: float = 0.0) -> None:
        self._now = start

    def now(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        assert seconds >= 0
        self._now += seconds


class MetricGrowth:
    """How much a sample of this process's metrics has grown since this was made."""

    def __init__(self, sample: str, **labels: str) -> None:
        """sample: as it is exported, such as "asr_final_seconds_count"."""
        self._sample = sample
        self._labels = labels
        self._before = self._now()

    def _now(self) -> float:
        return REGISTRY.get_sample_value(self._sample, self._labels) or 0.0

    @property
    def value(self) -> float:
        return self._now() - self._before
