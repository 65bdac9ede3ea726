"""`python -m tests.tools.bench.room`: a room's choices over ten minutes, in seconds.

The room's own selection and host, without a stack: a clock that is turned by hand, a session that
only takes time. `visavis bench room` measures the same viewers through a running stack.
"""

from __future__ import annotations

import argparse
import random
import sys
from dataclasses import dataclass, field
from typing import Any

from gateway.room.choosing.comments import Author, Comment, Kind
from gateway.room.choosing.host import Begin, Host, Hush, Situation, Speech
from gateway.room.choosing.phrases import ENGLISH, Line, Script
from gateway.room.choosing.safety import WordList, shipped_words
from gateway.room.choosing.selection import Rules
from visavis.tools.bench.figures.report import summarise
from visavis.tools.bench.room.replay import BLOCKED, BOT, Sent, Viewers

_LOOK_S = 0.1


@dataclass
class Run:
    """What came of it."""

    host: Host
    spoken: list[Speech] = field(default_factory=list)
    """All whose sound began."""
    longest_queue: int = 0

    @property
    def ages_s(self) -> list[float]:
        """Of comments, as the first sound of their answer left."""
        return [speech.age_s for speech in self.spoken if speech.age_s is not None]

    @property
    def questions(self) -> list[str]:
        """All that was answered."""
        return [speech.entry.text for speech in self.spoken if speech.entry is not None]


def comment_of(sent: Sent, at_s: float) -> Comment:
    about = dict(sent)
    return Comment(
        kind=Kind(about.pop("kind")), author=Author(**about.pop("author")), at_s=at_s, **about
    )


def run(comments_per_s: float, duration_s: float, seed: int = 1, **rules: Any) -> Run:
    """Answers begin after 0.8 to 4 s, few much later; what is said as it stands after 0.5 s."""
    words = WordList([*shipped_words(), *BLOCKED])
    script = Script([Line("Ask me anything.")], 45.0)
    host = Host(Rules(bots=(BOT,), **rules), words, ENGLISH, script, 0.0)
    result = Run(host)
    dice = random.Random(seed)
    coming = Viewers(comments_per_s, seed).write(duration_s)
    next_one = next(coming, None)
    turn, begins_s, ends_s = 0, 0.0, 0.0
    for step in range(round((duration_s + 90.0) / _LOOK_S)):
        now = step * _LOOK_S
        while next_one is not None and next_one[0] <= now:
            host.take(comment_of(next_one[1], next_one[0]), next_one[0])
            next_one = next(coming, None)
        result.longest_queue = max(result.longest_queue, host.selection.places_taken)
        speech = host.current
        if speech is not None and begins_s <= now and speech not in result.spoken[-1:]:
            host.began(turn, now)
            result.spoken.append(speech)
        if speech is not None and ends_s <= now:
            host.ended(turn, "finished", now)
        open_turn = None if host.current is None else turn
        left_s = ends_s - now if begins_s <= now else None
        match host.look(now, Situation(open_turn is None, open_turn, left_s)):
            case Begin(begun):
                turn += 1
                host.opened(begun, turn)
                slow = dice.random() < 0.03
                lead_s = dice.uniform(8, 40) if slow else dice.uniform(0.8, 4.0)
                begins_s = now + (lead_s if begun.asked else 0.5)
                ends_s = begins_s + (dice.uniform(3.0, 12.0) if begun.asked else 3.0)
            case Hush():
                host.ended(turn, "interrupted", now)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--comments-per-s", type=float, default=20.0)
    parser.add_argument("--duration-s", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    result = run(asked.comments_per_s, asked.duration_s, asked.seed)
    selection, ages = result.host.selection, summarise(result.ages_s)
    lines = [
        "simulated: a session that only takes time, no stack",
        f"came             {selection.received}",
        *(f"{name.value:16} {count}" for name, count in selection.outcomes.most_common()),
        f"unsettled        {result.host.unsettled}",
        f"longest queue    {result.longest_queue}",
        f"age of answers   {ages and ages.to_dict()}",
    ]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
