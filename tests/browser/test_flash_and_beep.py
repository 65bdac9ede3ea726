"""In step where it counts: at the screen and at the speaker of a real browser."""

from __future__ import annotations

import math
import sys
from collections.abc import AsyncIterator

import numpy as np
import pytest
import pytest_asyncio
from playwright.async_api import BrowserContext

from tests.browser.conftest import tab
from tests.browser.flash_and_beep import (
    EVERY_FRAMES,
    FIRST_FRAME,
    SignalFace,
    SignalRig,
    Skews,
    measure,
)
from tests.gateway.doubles import FPS

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]

# So wrong is an encoder's delay that nobody took off, or a clock of its own. By the median: a busy
# machine holds up the one or the other here and there.
_WRONG_MS = 100
# Pictures that stay late by one flash and a half are as far from every beep as can be.
_EVERY_MS = 1000 * EVERY_FRAMES / FPS
_FLASHES, _LATE_FLASH, _LATE_S = 10, 4, 1.4
_LATE_FRAME = FIRST_FRAME + _LATE_FLASH * EVERY_FRAMES
# The first flash that is due once they are there, by more than a browser takes to show them.
_FIRST_GOOD = _LATE_FLASH + math.ceil(1000 * (_LATE_S + 0.2) / _EVERY_MS)
# A sound that waited for them would stand still for what they are late beyond the face's lead.
_LATE_BEYOND_LEAD_MS = 900
_STILL_LATE_MS = 200


@pytest_asyncio.fixture(loop_scope="session")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SignalRig]:
    rig = SignalRig(tmp_path_factory.mktemp("signal"))
    await rig.start()
    yield rig
    await rig.stop()


def off_ms(skews: Skews, which: slice) -> list[float]:
    """How far the nearest flash is from each of these beeps."""
    beeps = skews.beeps_ms[which]
    return [min(abs(flash - beep) for flash in skews.flashes_ms) for beep in beeps]


@pytest.mark.parametrize("transport", ["webrtc", "websocket"])
async def test_flashes_are_seen_with_their_beeps_and_late_ones_hold_up_no_sound_and_are_made_good(
    profile: BrowserContext,
    rig: SignalRig,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    transport: str,
) -> None:
    """The face stands still for more than it is ahead: pictures of 0.9 s come late, at once."""
    monkeypatch.setattr(SignalFace, "late", (_LATE_FRAME, _LATE_S))
    for _ in range(2):  # a machine that stands still just then looks like a sound that waits
        async with tab(profile, rig.running.url) as page:
            skews = await measure(page, rig, transport, _FLASHES)
        with capsys.disabled():
            sys.stdout.write(f"\n{skews}")
        assert len(skews.beeps_ms) == _FLASHES
        before_ms = np.median(off_ms(skews, slice(_LATE_FLASH)))
        # Between the beeps around the late pictures: the sound's begin may be held up as well.
        around = np.diff(skews.beeps_ms)[_LATE_FLASH - 1 : _LATE_FLASH + 2] - _EVERY_MS
        waited_ms = np.abs(around).max()
        if before_ms <= _WRONG_MS and waited_ms < _LATE_BEYOND_LEAD_MS / 2:
            break
    assert len(skews.flashes_ms) <= _FLASHES, "a flash was seen twice"
    assert before_ms <= _WRONG_MS
    assert waited_ms < _LATE_BEYOND_LEAD_MS / 2, "the sound has waited"
    assert np.median(off_ms(skews, slice(_FIRST_GOOD, None))) <= _STILL_LATE_MS
