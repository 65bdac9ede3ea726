"""What a room says of its own: how a comment is put to the avatar, thanks, talk when nothing comes.

A comment and its author's name are a stranger's text. They reach the language model as what a
visitor typed, on one line, the text in quotation marks that it cannot close; never as an
instruction of ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.room.choosing.gifts import Batch, Given
from gateway.room.choosing.selection import Entry

_QUOTES = str.maketrans('“”"«»「」『』', "'''''''''")
_NAMED_GIFTS = 3


@dataclass(frozen=True, slots=True)
class Phrases:
    """The sentences of one language."""

    asks: str
    writes: str
    others_ask: str
    somebody: str
    several: str
    thanks: str
    and_others: str
    joined: str
    last_joined: str
    gift: str
    gifts: str

    def question(self, entry: Entry) -> str:
        """A comment as it is put to the avatar, so that it answers to a name."""
        name = entry.name or self.somebody
        frame = self.asks if entry.question else self.writes
        if entry.others:
            frame = self.others_ask.replace("{n}", str(entry.others))
        text = entry.text.translate(_QUOTES)
        return frame.replace("{name}", name).replace("{text}", text)

    def thanking(self, batch: Batch) -> str:
        """One sentence for all that is thanked now."""
        # Without its digits a platform's own name for newcomers is that of many.
        names = list(dict.fromkeys(giver.name for giver in batch.givers if giver.name))
        if others := batch.others + len(batch.givers) - len(names):
            frame = self.and_others if names else self.several if others > 1 else self.somebody
            names.append(frame.replace("{n}", str(others)))
        gifts = [self._gift(given) for given in batch.gifts]
        named = self._list(gifts) if 0 < len(gifts) <= _NAMED_GIFTS and all(gifts) else self.gifts
        return self.thanks.replace("{names}", self._list(names)).replace("{gifts}", named)

    def _gift(self, given: Given) -> str:
        if not given.gift:
            return ""
        return self.gift.replace("{n}", str(given.count)).replace("{gift}", given.gift)

    def _list(self, parts: Sequence[str]) -> str:
        if len(parts) < 2:
            return "".join(parts)
        return self.joined.join(parts[:-1]) + self.last_joined + parts[-1]


ENGLISH = Phrases(
    asks="{name} asks: “{text}”",
    writes="{name} writes: “{text}”",
    others_ask="{name} and {n} more ask: “{text}”",
    somebody="A viewer",
    several="{n} viewers",
    thanks="Thank you, {names}, for {gifts}!",
    and_others="{n} more",
    joined=", ",
    last_joined=" and ",
    gift="the {gift}",
    gifts="your gifts",
)
MANDARIN = Phrases(
    asks="{name}问：“{text}”",
    writes="{name}说：“{text}”",
    others_ask="{name}和另外{n}位观众问：“{text}”",
    somebody="一位观众",
    several="{n}位观众",
    thanks="谢谢{names}送的{gifts}！",
    and_others="另外{n}位朋友",
    joined="、",
    last_joined="和",
    gift="{n}个{gift}",
    gifts="礼物",
)


def phrases_of(language: str) -> Phrases:
    """Those of a language (BCP 47); English where there are none."""
    return MANDARIN if language.lower().partition("-")[0] in ("zh", "cmn") else ENGLISH


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the script. asked: it is put to the avatar, which says something about it."""

    text: str
    asked: bool = False


class Script:
    """What is said when nothing comes, line by line and then from the beginning. Pure.

    every_s: so long nothing has been said before a line is due.
    """

    def __init__(self, lines: Sequence[Line], every_s: float) -> None:
        self._lines = tuple(lines)
        self._every_s = every_s
        self.said = 0
        """Lines up to now, each as often as it was."""

    def due(self, quiet_since_s: float, now: float) -> Line | None:
        """The next line, once it is its time."""
        if not self._lines or now - quiet_since_s < self._every_s:
            return None
        line = self._lines[self.said % len(self._lines)]
        self.said += 1
        return line
