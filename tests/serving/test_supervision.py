"""Work that lasts as long as its process."""

from __future__ import annotations

import asyncio

import pytest

from visavis.serving.lifetime import supervision
from visavis.serving.lifetime.supervision import Keeper


async def test_work_that_fails_or_ends_is_told_and_begins_anew(
    caplog: pytest.LogCaptureFixture,
) -> None:
    begun = 0
    lasting = asyncio.Event()
    cut = asyncio.get_running_loop().create_future()  # as a call whose channel is closed

    async def work() -> None:
        nonlocal begun
        begun += 1
        if begun == 1:
            raise RuntimeError("a fault of ours")
        if begun == 3:
            asyncio.get_running_loop().call_soon(cut.cancel)
            await cut
        if begun == 4:
            lasting.set()
            await asyncio.Event().wait()

    keeper = Keeper("sweeping", work, pause_s=0)
    keeper.start()
    async with asyncio.timeout(30):
        await lasting.wait()
    await keeper.stop()
    assert "a fault of ours" in caplog.text and "sweeping has ended" in caplog.text


async def test_work_that_forgets_that_it_was_cancelled_is_told_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(supervision, "_TOLD_AGAIN_S", 0.01)
    told = 0

    async def work() -> None:
        nonlocal told
        while told < 2:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                told += 1
        raise asyncio.CancelledError

    keeper = Keeper("deaf", work)
    keeper.start()
    await asyncio.sleep(0)
    async with asyncio.timeout(30):
        await keeper.stop()
    assert told == 2
