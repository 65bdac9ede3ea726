"""Whether all four stages would hold their deadlines with one session more. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from gateway.api.choices import DrawnBy
from gateway.stages.registry import ReplicaState, why_no_room
from visavis.serving.admission.prediction import ANSWER_FACTOR, share_of_allowed
from visavis.serving.errors import AtCapacityError
from visavis.serving.settings import SERVICES

_ANSWERING = ("asr", "llm", "tts")
"""The stages between a question and the first sound of its answer."""


class NoRoomError(AtCapacityError):
    """No session can be let in now. service: what has no room; "": the gateway itself.

    expected_wait_s: None: it is not known. waiting: how many stand in line.
    """

    def __init__(
        self,
        message: str,
        service: str = "",
        *,
        expected_wait_s: float | None = None,
        waiting: int = 0,
    ) -> None:
        super().__init__(message, expected_wait_s=expected_wait_s)
        self.service = service
        self.waiting = waiting


@dataclass(frozen=True, slots=True)
class Shortage:
    """Which stage has no room, and why; "answer": all of them together."""

    service: str
    why: str


def shortage(
    replicas: Callable[[str], Iterable[ReplicaState]],
    *,
    drawn_by: DrawnBy = "server",
    services: Sequence[str] = SERVICES,
) -> Shortage | None:
    """What keeps a session out, as far as replicas have told; None: nothing is known that would.

    replicas: those of a service. services: that the session needs. Where the client draws the face,
    that needs no room. Each stage by itself has to have room, and from a question to its answer the
    answer may take `ANSWER_FACTOR` times what it takes a lone visitor.
    """
    for service in services:
        known = _taking(replicas(service))
        if not known or (service == "face" and drawn_by == "client"):
            continue  # that is no want of room
        if max(state.free_slots for state in known) <= 0:
            return Shortage(service, why_no_room(known))
    load = answer_load(replicas) if "llm" in services else 0.0
    if load <= 1.0:
        return None
    why = f"answers would begin {load * ANSWER_FACTOR:.1f} times as late as a lone visitor's (P95)"
    return Shortage("answer", f"{why}, {ANSWER_FACTOR:g} times are allowed")


def answer_load(replicas: Callable[[str], Iterable[ReplicaState]]) -> float:
    """What asr, llm and tts would take together with one session more, of what is allowed.

    0 where nobody is there, or nothing is told.
    """
    known = [_taking(replicas(service)) for service in _ANSWERING]
    best = [max(states, key=lambda state: state.free_slots).capacity for states in known if states]
    alone_s = sum(capacity.alone_p95_s for capacity in best)
    if not alone_s or not any(capacity.sessions for capacity in best):
        return 0.0
    return share_of_allowed(alone_s, sum(capacity.predicted_p95_s for capacity in best))


def _taking(states: Iterable[ReplicaState]) -> list[ReplicaState]:
    """Those that answer and are not about to end: only they take a session."""
    return [state for state in states if state.healthy and not state.replica.draining]
