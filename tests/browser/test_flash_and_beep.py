"""In step where it counts: at the screen and at the speaker of a real browser."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from itertools import pairwise

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from tests.browser.flash_and_beep import SignalRig, beeps, frames_of, is_white, measure_all, pair
from tests.gateway.doubles import FPS, VOICE_RATE_HZ

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]

FLASHES = 20
# So wrong is an encoder's delay that nobody took off, or a clock of its own. By the median: a busy
# machine holds up the one or the other here and there.
_WRONG_MS = 100


@pytest_asyncio.fixture(loop_scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SignalRig]:
    rig = SignalRig(tmp_path_factory.mktemp("signal"))
    await rig.start()
    yield rig
    await rig.stop()


async def test_flashes_are_seen_when_their_beeps_are_heard(
    browser: Browser, rig: SignalRig, capsys: pytest.CaptureFixture[str]
) -> None:
    measured = await measure_all(browser, rig, FLASHES)
    with capsys.disabled():
        sys.stdout.writelines(f"\n{skews}" for skews in measured)
    for skews in measured:
        assert FLASHES * 0.9 <= skews.flashes <= FLASHES, "flashes were not seen, or seen twice"
        assert len(skews.pairs_ms) >= 0.8 * FLASHES
        assert skews.percentile(50) <= _WRONG_MS


async def test_the_signal_is_white_where_it_is_loud() -> None:
    sound = beeps(3)
    hop = VOICE_RATE_HZ // FPS
    loud = [bool(sound[i * hop : (i + 1) * hop].any()) for i in range(frames_of(3))]
    assert loud == [is_white(i) for i in range(frames_of(3))]
    assert sum(now and not before for before, now in pairwise(loud)) == 3


async def test_each_flash_is_paired_with_its_own_beep() -> None:
    assert pair([100, 420, 740], [300, 620, 940], 160) == (-200, -200, -200)
    assert pair([100, 420, 740], [90, 430], 160) == (10, -10)
    assert pair([100], [], 160) == ()
