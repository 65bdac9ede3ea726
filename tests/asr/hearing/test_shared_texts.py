"""Texts of several sessions on one lane: who shares a run, who goes first, who leaves."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Generator, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from services.asr.hearing.networks import Hearing
from services.asr.hearing.transcript import Encoded, Order, Transcriber, Transcript
from simulation.models import SimulatedNetworks
from tests.rows import KnownCurve
from visavis.engine import Urgency
from visavis.engine.rows import RowAsk, RowNetwork, result_of


class HeldTranscriber(Transcriber):
    """The text is the length of the sound; it says what each run held, and waits in the first."""

    languages = ("en",)
    loop: asyncio.AbstractEventLoop | None = None
    """Of those who ask: no run ends before it has told them what was answered until then, and they
    have asked for their next step, so that a busy machine changes no order."""

    def __init__(self) -> None:
        self.runs: list[list[int]] = []
        self.begun, self.go = threading.Event(), threading.Event()
        self.go.set()
        curve = KnownCurve(*[0.010] * 8)
        self._network = RowNetwork(self._run, 8, len, curve)

    def transcribe(self, pcm: NDArray[np.float32], language: str, draft: str = "") -> Transcript:
        return result_of(self.steps(pcm, language, draft))

    def steps(
        self, pcm: NDArray[np.float32], language: str, draft: str = ""
    ) -> Generator[RowAsk, Any, Transcript]:
        yield RowAsk(self._network, pcm)
        return Transcript(str(len(pcm)), language)

    def _run(self, rows: Sequence[NDArray[np.float32]]) -> list[Encoded]:
        self.runs.append([len(row) for row in rows])
        self.begun.set()
        assert self.go.wait(10)
        time.sleep(0.05)
        if self.loop is not None:
            asyncio.run_coroutine_threadsafe(rounds(5), self.loop).result(10)
        return [Encoded(row[None, None], 0.010) for row in rows]


async def rounds(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


class OneEar(SimulatedNetworks):
    def __init__(self, ear: HeldTranscriber) -> None:
        self._ear = ear

    def transcriber(self, name: str) -> Any:
        return self._ear


@pytest.fixture
def ear() -> HeldTranscriber:
    return HeldTranscriber()


@pytest.fixture
async def hearing(ear: HeldTranscriber) -> AsyncIterator[Hearing]:
    hearing = Hearing(OneEar(ear), "en")
    await hearing.load()
    ear.loop = asyncio.get_running_loop()
    ear.runs.clear()
    ear.begun.clear()
    ear.go.clear()
    yield hearing
    ear.go.set()
    hearing.close()


def ask(hearing: Hearing, size: int, order: Order, key: object = None) -> asyncio.Task[Any]:
    urgency = Urgency(order, key=key, owner=size)
    sound = np.zeros(size, np.float32)
    return asyncio.create_task(hearing.transcribe(sound, "en", "", urgency))


async def test_classes_go_in_their_order_and_those_of_one_together(
    hearing: Hearing, ear: HeldTranscriber
) -> None:
    first = ask(hearing, 1, Order.FINAL)
    await asyncio.to_thread(ear.begun.wait, 10)
    others = [ask(hearing, 50 + n, Order.PARTIAL) for n in range(2)]
    others += [ask(hearing, 30 + n, Order.PAUSE, key=n) for n in range(3)]
    others += [ask(hearing, 10 + n, Order.FINAL) for n in range(5)]
    unwanted = ask(hearing, 99, Order.FINAL)
    await asyncio.sleep(0)
    hearing.requeue(2, Order.FINAL)
    unwanted.cancel()
    await asyncio.sleep(0)
    ear.go.set()
    told = await asyncio.gather(first, *others)
    said = [1, 50, 51, 30, 31, 32, *range(10, 15)]
    assert [text.text for text, _ in told] == [str(size) for size in said]
    assert all(0.010 <= cost < 0.2 for _, cost in told), "waiting costs nothing"
    # The pause that became a final goes with the finals, by its later steps too.
    rows = [row for run in ear.runs for row in run]
    assert [{*rows[:1]}, {*rows[1:7]}, {*rows[7:9]}, {*rows[9:]}] == [
        {1},
        {10, 11, 12, 13, 14, 32},
        {30, 31},
        {50, 51},
    ]
    run_of = {row: number for number, run in enumerate(ear.runs) for row in run}
    assert run_of[32] <= max(run_of[size] for size in range(10, 15)), "not behind them"
    assert max(map(len, ear.runs)) > 1
