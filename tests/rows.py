"""Works of several sessions driven hand in hand, so that they share every run they can."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from visavis.engine import RunCurve
from visavis.engine.rows import RowAsk, step_of


class KnownCurve(RunCurve):
    """Runs of 1, 2, 3 … requests take as long as is said, whatever is measured."""

    def __init__(self, *seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    def observe(self, size: int, length: float, seconds: float, now_s: float) -> None:
        pass

    def seconds(self, size: int, now_s: float) -> float | None:
        return self._seconds[size - 1] if size <= len(self._seconds) else None


def together(works: Sequence[Generator[Any, Any, None]]) -> tuple[list[list[Any]], list[int]]:
    """What each work yields but for its asks, and how many rows each run had."""
    made: list[list[Any]] = [[] for _ in works]
    asks: dict[int, RowAsk] = {}
    sizes: list[int] = []

    def go_on(number: int, answer: Any = None) -> None:
        while (step := step_of(works[number], answer)) is not None:
            answer = None
            if isinstance(step, RowAsk):
                asks[number] = step
                return
            made[number].append(step)

    for number in range(len(works)):
        go_on(number)
    while asks:
        network = next(iter(asks.values())).network
        rows = {n: ask.row for n, ask in asks.items() if ask.network is network}
        assert len(rows) <= network.largest
        sizes.append(len(rows))
        for number in rows:
            del asks[number]
        for number, answer in zip(rows, network.run(list(rows.values())), strict=True):
            go_on(number, answer)
    return made, sizes
