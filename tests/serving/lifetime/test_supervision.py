"""Work that lasts as long as its process."""

from __future__ import annotations

import asyncio

import pytest

from visavis.serving.lifetime import supervision
from visavis.serving.lifetime.supervision import Keeper, read_whole


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


@pytest.mark.parametrize("over", [True, False])
async def test_a_read_that_is_given_up_ends_with_its_call_and_is_cut_off_only_else(
    over: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervision, "_READ_ENDS_S", 30 if over else 0)
    ended, came = asyncio.Event(), asyncio.get_running_loop().create_future()

    async def read() -> None:
        try:
            await ended.wait()
            came.set_result("over")
        except asyncio.CancelledError:
            came.set_result("cut off")

    reading = asyncio.create_task(read_whole(read(), ended.set if over else lambda: None))
    await asyncio.sleep(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert await came == ("over" if over else "cut off")
