"""What one answer has called, round by round, and what came of it. Pure; times in seconds.

A round is all that the model calls before it goes on. It is over once each call has its result, or
the time is: what has none then is told to the model in words, so that it can say so.

A small model goes on calling what it has just called, for as long as it may. What stands word for
word in the round before, or twice in one, is not done again, for its result is there; where nothing
else is called the answer has to end in words. Behind another call it is: that may have changed what
comes of it.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence, Set
from dataclasses import dataclass, field, replace

from gateway.talk.actions import Message
from gateway.tools.offers import Call
from visavis.wire.json_objects import is_json_object

MOST_CALLS = 8
"""Of one round that are done."""
_TOO_MANY = f"not done: more than {MOST_CALLS} calls at once"
_NO_OBJECT = "not done: the arguments are no JSON object"


@dataclass(frozen=True, slots=True)
class ToolLimits:
    """How long a call may take, how much of its result is read, and how often an answer calls."""

    timeout_s: float = 20.0
    result_chars: int = 4000
    rounds: int = 4
    filler_after_s: float = 1.0
    """What is said meanwhile is said after so long."""


@dataclass(slots=True)
class _Round:
    text: str
    """Said before the calls."""
    calls: tuple[Call, ...]
    """None: it only repeated the round before."""
    results: dict[str, str] = field(default_factory=dict)
    began_s: float | None = None
    """None: nobody has asked for them yet."""

    @property
    def complete(self) -> bool:
        return len(self.results) == len(self.calls)


class ToolRounds:
    """Follows the tool calls of one answer from the first to the words that end it."""

    def __init__(self, limits: ToolLimits) -> None:
        self._limits = limits
        self._rounds: list[_Round] = []
        self._filler_said = False

    @property
    def used(self) -> bool:
        """Whether the answer has called anything."""
        return bool(self._rounds)

    @property
    def pending(self) -> bool:
        """Whether calls are known that nobody has begun."""
        return bool(self._rounds) and self._rounds[-1].began_s is None

    @property
    def begun(self) -> bool:
        """Whether anything was done that cannot be undone."""
        return any(past.began_s is not None for past in self._rounds)

    @property
    def waits(self) -> bool:
        """Whether calls are under way."""
        return bool(self._rounds) and not self.pending and not self._rounds[-1].complete

    @property
    def said(self) -> str:
        """What the model has said before its last calls, behind those before."""
        return self._rounds[-1].text if self._rounds else ""

    @property
    def exhausted(self) -> bool:
        """The answer has to come to its end without more calls."""
        repeats = bool(self._rounds) and not self._rounds[-1].calls
        return repeats or len(self._rounds) >= self._limits.rounds

    @property
    def ids(self) -> set[str]:
        """Of all calls so far."""
        return {call.id for past in self._rounds for call in past.calls}

    def called(self, text: str, calls: Sequence[Call], taken: Set[str] = frozenset()) -> None:
        """The model has said `text` and wants these; `begin` has them done.

        taken: ids of other answers' calls, whose results may come late; there are models that
        number theirs anew in each answer.
        """
        known = self.ids | taken
        before = self._rounds[-1].calls if self._rounds else ()
        done = {_asked(call) for call in before}
        named = []
        for number, call in enumerate(calls):
            if _asked(call) in done:
                continue
            done.add(_asked(call))
            call_id = _first_free(call.id, number, known)
            known.add(call_id)
            named.append(replace(call, id=call_id, index=0))
        self._rounds.append(_Round(text, tuple(named)))

    def begin(self, now: float) -> tuple[Call, ...]:
        """The calls that are to be done now. Those that cannot be have their result already."""
        current = self._rounds[-1]
        current.began_s = now
        wanted = []
        for number, call in enumerate(current.calls):
            if not is_json_object(call.arguments or "{}"):
                current.results[call.id] = _NO_OBJECT
            elif number >= MOST_CALLS:
                current.results[call.id] = _TOO_MANY
            else:
                wanted.append(call)
        return tuple(wanted)

    def result(self, call_id: str, output: str) -> bool:
        """A call has come to this. False where none waits under this id."""
        if not self.waits:
            return False
        current = self._rounds[-1]
        if call_id in current.results or call_id not in {call.id for call in current.calls}:
            return False
        current.results[call_id] = self._cut(output)
        return True

    def expire(self, now: float) -> bool:
        """Whether the time is over; what has no result by then gets one that says so."""
        current = self._rounds[-1]
        if current.began_s is None or now - current.began_s < self._limits.timeout_s:
            return False
        for call in current.calls:
            late = f"failed: no result within {self._limits.timeout_s:g} s"
            current.results.setdefault(call.id, late)
        return True

    def take_filler(self, now: float) -> bool:
        """Whether it is time to say something meanwhile; True once."""
        began_s = self._rounds[-1].began_s
        if self._filler_said or began_s is None or now - began_s < self._limits.filler_after_s:
            return False
        self._filler_said = True
        return True

    def messages(self, *, spoken: bool = False) -> tuple[Message, ...]:
        """Calls and results of the rounds that are complete, as the model reads them.

        spoken: what was said before the calls is told elsewhere, as it was heard.
        """
        told: list[Message] = []
        for past in self._rounds:
            if past.began_s is None or not past.complete or not past.calls:
                continue
            calls = tuple(
                call if is_json_object(call.arguments or "{}") else replace(call, arguments="{}")
                for call in past.calls
            )
            told.append(Message("assistant", "" if spoken else past.text.strip(), calls))
            told += [Message("tool", past.results[c.id], (), c.id) for c in calls]
        return tuple(told)

    def _cut(self, output: str) -> str:
        most = self._limits.result_chars
        if len(output) <= most:
            return output
        return f"{output[:most]} […] (cut: {most} of {len(output)} characters)"


def _first_free(call_id: str, number: int, known: Set[str]) -> str:
    """`call_id`, or what comes of it with the first number from this on that is nobody's."""
    if call_id and call_id not in known:
        return call_id
    numbered = (f"{call_id}-{n}" for n in itertools.count(number))
    return next(free for free in numbered if free not in known)


def _asked(call: Call) -> tuple[str, str]:
    """Alike for calls of one thing, however their arguments are laid out."""
    if not is_json_object(call.arguments or "{}"):
        return call.name, call.arguments
    return call.name, json.dumps(json.loads(call.arguments or "{}"), sort_keys=True)
