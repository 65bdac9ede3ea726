"""One question of a load and what came of it, with its figures.

Pure. Two figures are told of every answer. *As asked*: from the end of the question as it was
asked. *As due*: with the time that passed in silence between the moment at which the question was
due and the moment at which it was asked. A visitor who still waits for the last answer asks later;
were that wait left out, a slow server would be asked less and look better (coordinated omission).
Time in which he spoke himself, or was being spoken to, is not the server's and does not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

from visavis.tools.bench.figures.turn_figures import client_figures, record_figures
from visavis.tools.bench.load.schedule import Planned
from visavis.tools.bench.visitor.trace import Trace

Outcome: TypeAlias = Literal[
    "answered", "interrupted", "spoke_over", "failed", "unanswered", "not_asked"
]
"""interrupted: by this visitor, once it could be heard; spoke_over: the answer began before the
question's end; unanswered: nothing came in time; not_asked: the run ended before it could be."""

FAILURES: tuple[Outcome, ...] = ("failed", "unanswered", "not_asked")

STAGE_FIGURES = tuple(
    f"{stage}_{kind}"
    for stage in ("asr", "llm", "tts", "face", "encoder", "playout")
    for kind in ("queue", "compute")
    if (stage, kind) not in (("encoder", "queue"), ("playout", "compute"))
)
"""Time of a turn's first chunk in each stage: waiting for its engine, and the engine's work."""


# A turn that is replaced is followed by the one that answers its question.
_ENDS = ("finished", "interrupted", "failed")


@dataclass(frozen=True, slots=True)
class Talk:
    """A stretch of time in which the visitor spoke or was being spoken to; client's clock."""

    from_s: float
    until_s: float


@dataclass
class Exchange:
    """A question and what came of it. Times are seconds from the run's start."""

    visitor: int
    number: int
    spoken: bool
    long: bool
    due_s: float
    outcome: Outcome
    reason: str = ""
    asked_s: float | None = None
    ended_s: float | None = None
    cut_in: bool = False
    """It was asked into the last answer."""
    silent_wait_s: float = 0.0
    """Between due and asked, the time in which nobody spoke."""
    figures: dict[str, float | None] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        return self.outcome in FAILURES

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class Asked:
    """A question that is being asked, or has been, with all that its visitor has noted of it.

    All times are the client's clock."""

    planned: Planned
    text: str
    trace: Trace
    asked_s: float
    silent_wait_s: float
    turn: int = 0
    """That was opened for it; 0: not known."""
    cut_in: bool = False
    """It was asked into the last answer."""
    cut_off_s: float | None = None
    """When its visitor asked into its answer."""
    gave_up: bool = False
    """Nothing came of it in time."""
    refusal: str = ""
    """Why the gateway did not take it."""

    def answering(self) -> int:
        """The turn that answers it, the newest of it; 0: none is opened yet."""
        return max([0, *self._turns()])

    def speaking_s(self) -> float | None:
        """When the answer's voice began, as the gateway told. Where another turn goes on with an
        answer, that was in the first of them."""
        replaced = self.trace.replaced_turns()
        turns = [*(turn for turn in self._turns() if turn in replaced), self.answering()]
        told = [self.trace.turn_event_s(turn, "speaking") for turn in turns]
        begun = (at_s for at_s in told if at_s is not None and at_s >= self.trace.speech_end_s)
        return next(begun, told[-1])

    def over(self) -> bool:
        """Whether the answer has come to its end, by itself or not, or will not come."""
        turn = self.answering()
        told = bool(turn) and self.trace.turn_event_s(turn, *_ENDS) is not None
        ended = (told or self._not_understood()) and not self.trace.pending()
        return bool(self.refusal) or ended

    def _turns(self) -> list[int]:
        """Those that were opened for it, in order. The last answer may go on in another turn, too,
        though this was asked into it: of such a turn no question is told."""
        found = [self.turn] if self.turn else []
        for turn in self.trace.opened_turns():
            if found or self.trace.event_s("transcript", turn=turn) is not None:
                found.append(turn)
        return found

    def _not_understood(self) -> bool:
        """Whether the recogniser has made nothing of a question."""
        final_s = self.trace.event_s("transcript", final=True, text="")
        return not self.answering() and final_s is not None and final_s > self.trace.speech_end_s

    def heard_from_s(self) -> float | None:
        """From when on what is audible belongs to this answer: the end of the question and the
        gateway's word that this answer's voice begins; before, it may be the end of another."""
        speaking_s = self.speaking_s()
        return None if speaking_s is None else max(self.trace.speech_end_s, speaking_s)

    def ended_s(self, now_s: float) -> float:
        """When the answer was over; `now_s` where nothing says so."""
        turn = self.answering()
        told_s = self.trace.turn_event_s(turn, *_ENDS)
        return next((at for at in (self.cut_off_s, told_s) if at is not None), now_s)

    def talk(self, now_s: float) -> list[Talk]:
        """Question and answer, as far as they go."""
        said = Talk(self.asked_s, min(self.trace.speech_end_s, now_s))
        begun_s = self.heard_from_s()
        return [said] if begun_s is None else [said, Talk(begun_s, self.ended_s(now_s))]


def silent_wait_s(due_s: float, asked_s: float, talk: Iterable[Talk]) -> float:
    """Of the time from `due_s` to `asked_s`, what lies outside of `talk` (which may overlap)."""
    silent_s, at_s = 0.0, due_s
    for stretch in sorted(talk, key=lambda t: t.from_s):
        if at_s >= asked_s:
            break
        silent_s += max(0.0, min(stretch.from_s, asked_s) - at_s)
        at_s = max(at_s, stretch.until_s)
    return silent_s + max(0.0, asked_s - at_s)


def settle(
    visitor: int, asked: Asked, record: Mapping[str, Any], start_s: float, now_s: float
) -> Exchange:
    """What came of a question whose answer is over or given up. record: of its turn."""
    trace, planned = asked.trace, asked.planned
    outcome, reason = _outcome(asked, record)
    exchange = _begun(visitor, planned, outcome, reason)
    exchange.asked_s = round(asked.asked_s - start_s, 4)
    exchange.ended_s = round(asked.ended_s(now_s) - start_s, 4)
    exchange.cut_in = asked.cut_in
    exchange.silent_wait_s = round(asked.silent_wait_s, 4)
    heard_from_s = asked.heard_from_s()
    if outcome in ("answered", "interrupted") and heard_from_s is not None:
        client = client_figures(trace, heard_from_s)
        exchange.figures = {
            name: value if value is None else round(value, 4)
            for name, value in {
                **_to_voice(planned.spoken, client["voice_to_voice"], asked.silent_wait_s),
                "first_frame": client["first_frame"],
                "end_of_turn": client["end_of_turn"] if planned.spoken else None,
                "final_to_voice": _final_to_voice(client) if planned.spoken else None,
                "overhead": record_figures(record)["overhead"],
                **stage_figures(record.get("timeline", {})),
            }.items()
        }
    return exchange


def never_asked(visitor: int, planned: Planned, waited_s: float) -> Exchange:
    """A question that the run's end overtook. Its wait until then is a lower bound of what would
    have come, and counts as such."""
    exchange = _begun(visitor, planned, "not_asked", "the last answer was not over")
    exchange.silent_wait_s = round(waited_s, 4)
    exchange.figures = _to_voice(planned.spoken, 0.0, exchange.silent_wait_s, as_asked=False)
    return exchange


def lost(visitor: int, planned: Planned, reason: str) -> Exchange:
    """A question that was not answered because the connection was gone."""
    return _begun(visitor, planned, "failed", reason)


def stage_figures(timeline: Mapping[str, Any]) -> dict[str, float | None]:
    """Queue and compute of each stage on the way to the first sound and picture, seconds."""
    spans = [span for span in timeline.get("spans", ()) if span["chunk"] == "first"]
    seen = {span["stage"] for span in spans}
    found: dict[str, float | None] = {}
    for name in STAGE_FIGURES:
        stage, kind = name.rsplit("_", 1)
        if stage not in seen:
            found[name] = None
            continue
        lengths = [
            span["end_ms"] - span["start_ms"]
            for span in spans
            if (span["stage"], span["kind"]) == (stage, kind)
        ]
        # The shortest queues are not told: they are none.
        found[name] = sum(lengths) / 1000
    return found


def _begun(visitor: int, planned: Planned, outcome: Outcome, reason: str) -> Exchange:
    return Exchange(
        visitor,
        planned.number,
        planned.spoken,
        planned.long,
        round(planned.due_s, 4),
        outcome,
        reason,
    )


def _outcome(asked: Asked, record: Mapping[str, Any]) -> tuple[Outcome, str]:
    trace, turn = asked.trace, asked.answering()
    if asked.refusal:
        return "failed", asked.refusal
    if record.get("state") == "failed":
        return "failed", str(record.get("reason"))
    if not turn:
        return "unanswered", "no turn came of it"
    speaking_s = asked.speaking_s()
    if speaking_s is None or next(trace.audible(speaking_s), None) is None:
        return "unanswered", "no answer could be heard"
    if asked.planned.spoken and speaking_s < trace.speech_end_s:
        return "spoke_over", "the answer began before the question's end"
    if asked.gave_up:
        return "unanswered", "the answer did not end in time"
    return ("interrupted", "") if asked.cut_off_s is not None else ("answered", "")


def _final_to_voice(client: Mapping[str, float | None]) -> float | None:
    """From the gateway's word that the visitor has finished to the first sound; None where that
    came in another turn, with which the one that was told of last has gone on."""
    voice_s, final_s = client["voice_to_voice"], client["end_of_turn"]
    return None if voice_s is None or final_s is None or voice_s < final_s else voice_s - final_s


def _to_voice(
    spoken: bool, seconds: float | None, waited_s: float, *, as_asked: bool = True
) -> dict[str, float | None]:
    name = "voice_to_voice" if spoken else "text_to_voice"
    due_s = None if seconds is None else seconds + waited_s
    return {name: seconds, f"{name}_due": due_s} if as_asked else {f"{name}_due": due_s}
