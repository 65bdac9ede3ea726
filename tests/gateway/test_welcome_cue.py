"""When the welcome phrase is due."""

from __future__ import annotations

from gateway.answers.answering import SETTLE_S, WelcomeCue


def test_said_once_and_not_before_the_player_has_settled() -> None:
    cue = WelcomeCue("Hello")
    assert cue.due(0.0, watched=False, untouched=True) == ""
    assert cue.due(1.0, watched=True, untouched=True) == ""
    assert cue.due(1.0 + SETTLE_S / 2, watched=False, untouched=True) == ""
    assert cue.due(2.0, watched=True, untouched=True) == ""
    assert cue.due(2.1 + SETTLE_S, watched=True, untouched=True) == "Hello"
    assert cue.due(9.0, watched=True, untouched=True) == ""


def test_a_visitor_who_speaks_first_is_not_greeted() -> None:
    cue = WelcomeCue("Hello")
    assert cue.due(0.0, watched=True, untouched=False) == ""
    assert cue.due(9.0, watched=True, untouched=True) == ""
