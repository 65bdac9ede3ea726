"""Pictures take what a network carries: less at once, and more again slowly."""

from __future__ import annotations

import pytest

from gateway.playout.allowance import LEAST_BPS, Allowance

SOUND_BPS = 96_000


class Browser:
    """Reports eight times a second; every second report has to wait in it."""

    def __init__(self) -> None:
        self.allowance = Allowance()
        self._reports = self._lost = self._sent_bytes = 0

    def away(self, *, seconds: int) -> bool:
        """All is lost for so long. What is said of the report behind it."""
        for _ in range(8 * seconds):
            self._reports += 1
            self._lost += 20
            self._sent_bytes += 125_000 // 8
        (said,) = self.report(0.1, times=1)
        return said

    def report(
        self, trip_s: float, lost: int = 0, *, seconds: int = 1, times: int = 0, kbps: int = 1000
    ) -> list[bool]:
        """lost: of each twenty packets. times: reports, instead of seconds."""
        said = []
        for _ in range(times or 8 * seconds):
            self._reports += 1
            self._lost += lost
            self._sent_bytes += kbps * 125 // 8
            told_s = trip_s + 0.3 * (self._reports % 2)
            packets, now_s = 20 * self._reports, self._reports / 8
            said.append(
                self.allowance.reported(told_s, self._lost, packets, self._sent_bytes, now_s)
            )
        return said


def test_what_waits_on_the_way_or_is_lost_in_masses_makes_pictures_smaller() -> None:
    narrow, lossy, policed = Browser(), Browser(), Browser()
    narrow.report(0.1, seconds=3)
    narrow.report(0.15, lost=1, seconds=3)
    assert narrow.allowance.bps is None
    narrow.report(0.3)
    assert narrow.allowance.bps == pytest.approx(800_000)
    lossy.report(0.1, lost=2, seconds=20)
    assert lossy.allowance.bps is None, "of less as large a share would be lost"
    policed.report(0.1, seconds=3)
    policed.report(0.1, lost=4)
    assert 500_000 < (policed.allowance.bps or 0) <= 0.8 * 0.8 * 1_000_000
    policed.report(0.1, lost=4, kbps=10)
    assert (policed.allowance.bps or 0) > 200_000, (
        "that little was sent says little of what is carried"
    )


def test_a_network_that_was_away_is_no_narrow_one() -> None:
    browser = Browser()
    browser.report(0.1, seconds=3)
    said = [browser.away(seconds=2), *browser.report(0.1, seconds=3)]
    assert browser.allowance.bps is None
    assert said[0] and not any(said[1:]), "what came meanwhile needs a key frame"


def test_a_way_that_has_become_longer_is_no_narrow_one() -> None:
    browser = Browser()
    browser.report(0.05, seconds=3)
    browser.report(0.25, seconds=2)
    assert browser.allowance.bps is not None
    browser.report(0.25, seconds=30)
    assert browser.allowance.bps is None


def test_it_grows_slowly_near_to_what_was_too_much_and_ends() -> None:
    allowance = Allowance()
    allowance.overrun(1_000_000, 10)
    assert allowance.bps == 800_000
    for now_s in range(11, 16):
        allowance.passed(now_s)
    assert allowance.bps < 1_000_000
    for now_s in range(16, 60):
        allowance.passed(now_s)
    assert allowance.bps is None


def test_what_waits_in_a_queue_tells_how_much_a_network_takes() -> None:
    allowance = Allowance()
    put = waiting = 0
    # Each half second 60 kB are put in, of which 25 leave, then none at all, then everything.
    for look, taken in enumerate([60, 60, 25, 25, 0, 0]):
        put, waiting = put + 60_000, waiting + 60_000 - 1000 * taken
        allowance.queued(put, waiting, SOUND_BPS, look / 2, late=waiting > 30_000)
    assert allowance.bps == pytest.approx(0.8 * (400_000 - SOUND_BPS)), "a stall is no narrow way"
    allowance.queued(put, 0, SOUND_BPS, 3.0, late=False)
    assert 0.8 * (400_000 - SOUND_BPS) < (allowance.bps or 0) < 300_000
    for look in range(7, 12):
        put, waiting = put + 30_000, waiting + 29_000
        allowance.queued(put, waiting, 0, look / 2, late=True)
    assert allowance.bps == LEAST_BPS, "lips are to be seen"
