"""Work that lasts as long as its process."""

from __future__ import annotations

import asyncio

import pytest

from visavis.serving.lifetime.supervision import Keeper


async def test_work_that_fails_or_ends_is_told_and_begins_anew(
    caplog: pytest.LogCaptureFixture,
) -> None:
    begun = 0
    lasting = asyncio.Event()

    async def work() -> None:
        nonlocal begun
        begun += 1
        if begun == 1:
            raise RuntimeError("a fault of ours")
        if begun == 3:
            lasting.set()
            await asyncio.Event().wait()

    keeper = Keeper("sweeping", work, pause_s=0)
    keeper.start()
    async with asyncio.timeout(30):
        await lasting.wait()
    await keeper.stop()
    assert "a fault of ours" in caplog.text and "sweeping has ended" in caplog.text
