"""Comments by hand, and a host whose session is a clock."""

from __future__ import annotations

import itertools
from typing import Any

from gateway.room.choosing.comments import Author, Comment, Kind
from gateway.room.choosing.gifts import ThankRules
from gateway.room.choosing.host import Begin, Host, Hush, Situation, Speech
from gateway.room.choosing.phrases import ENGLISH, Line, Script
from gateway.room.choosing.safety import WordList
from gateway.room.choosing.selection import Rules, Selection

_numbers = itertools.count(1)
WORDS = WordList(["grobnik", "vrexlich*", "坏词甲", "!vrexlichen"])


def by(name: str, text: str = "", at_s: float = 0.0, **more: Any) -> Comment:
    """A comment of `name`, whose id is the name."""
    about = {key: more.pop(key) for key in ("moderator", "member", "first_time") if key in more}
    more.setdefault("id", f"c{next(_numbers)}")
    return Comment(
        platform="test", author=Author(name.lower(), name, **about), text=text, at_s=at_s, **more
    )


def gift_of(name: str, gift: str, at_s: float = 0.0, **more: Any) -> Comment:
    return by(name, "", at_s, kind=Kind.GIFT, gift=gift, **more)


def selection(**rules: Any) -> Selection:
    return Selection(Rules(**rules), WORDS)


def host(*lines: Line, every_s: float = 45.0, **rules: Any) -> Host:
    return Host(
        Rules(**rules), WORDS, ENGLISH, Script(lines, every_s), 0.0, thanks=ThankRules(combo_s=1.0)
    )


class Talk:
    """Does what a host orders, in no time, by a clock that a test turns."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.now = 0.0
        self.turn = 0
        self.open: Speech | None = None
        self.left_s: float | None = None
        self.begun: list[Speech] = []

    def wait(self, seconds: float) -> None:
        """Time goes by, and the host looks ten times a second."""
        for _ in range(round(seconds * 10)):
            self.now += 0.1
            self.look()

    def look(self) -> None:
        idle = self.open is None
        turn = None if idle else self.turn
        self.obey(self.host.look(self.now, Situation(idle, turn, self.left_s)))

    def obey(self, order: Begin | Hush | None) -> None:
        match order:
            case Begin(speech):
                self.turn += 1
                self.open = speech
                self.begun.append(speech)
                self.host.opened(speech, self.turn)
            case Hush():
                self.end("interrupted")

    def ask(self, text: str = "say something?") -> None:
        """Anna's comment is put to the avatar."""
        self.host.take(by("Anna", text), self.now)
        self.wait(1.0)

    def speak(self) -> None:
        self.host.began(self.turn, self.now)

    def finish(self) -> None:
        """What was begun is said to its end."""
        self.speak()
        self.end()

    def end(self, how: str = "finished") -> None:
        self.open, self.left_s = None, None
        self.host.ended(self.turn, how, self.now)

    @property
    def texts(self) -> list[str]:
        return [speech.text for speech in self.begun]
