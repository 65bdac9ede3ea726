"""Who counts as a viewer by HLS: pure, the time is made up."""

from __future__ import annotations

import re

import pytest

from gateway.live.hls.viewers import HERE_S, TOKEN, HlsViewers
from gateway.playout.audience import Seats
from visavis.serving.errors import AtCapacityError, UnknownNameError


def test_who_asks_again_in_time_keeps_one_seat() -> None:
    seats = Seats(2)
    viewers = HlsViewers(seats)
    token = viewers.hand_out(0.0)
    assert re.fullmatch(TOKEN, token) and seats.taken == 0
    for second in range(10):
        viewers.asked(token, float(second))
    assert seats.taken == 1
    viewers.look(9.0 + HERE_S)
    assert seats.taken == 1
    viewers.look(9.1 + HERE_S)
    assert seats.taken == 0


def test_there_are_no_more_viewers_than_seats() -> None:
    seats = Seats(2)
    viewers = HlsViewers(seats)
    seats.take()  # by WHEP
    first, late = viewers.hand_out(0.0), viewers.hand_out(0.0)
    viewers.asked(first, 0.0)
    for refused in (lambda: viewers.hand_out(1.0), lambda: viewers.asked(late, 1.0)):
        with pytest.raises(AtCapacityError):
            refused()
    viewers.asked(first, 2.0)  # who has a seat keeps it
    viewers.asked(late, 2.1 + HERE_S)
    assert seats.taken == 2
    with pytest.raises(AtCapacityError):
        viewers.asked(first, 2.2 + HERE_S)  # another has it now


def test_the_seats_of_one_stream_are_given_back_with_it() -> None:
    seats = Seats(3)
    viewers = HlsViewers(seats)
    for number in range(3):
        viewers.asked(f"{number:012}", 0.0)
    viewers.clear()
    assert seats.taken == 0
    seats.admit_nobody()
    with pytest.raises(UnknownNameError):
        viewers.hand_out(0.0)
