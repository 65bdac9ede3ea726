"""What one exchange looked like from the visitor's side, as it was noted while it happened.

Pure: a log of times. All of them are seconds of one monotonic clock, the client's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from visavis.tools.bench.visitor.media import HeardSound, SeenPicture

ENDS = ("finished", "interrupted", "failed", "replaced")
"""Events that end a turn."""


@dataclass(frozen=True, slots=True)
class Audible:
    """A sample that can be heard: when its packet arrived, and its place in the stream."""

    at_s: float
    media_s: float


@dataclass
class Trace:
    """What came in one exchange, from the first sample of a clip to the end of the answer."""

    speech_start_s: float = 0.0
    """When the packet with the first sample of speech was sent."""
    speech_end_s: float = float("inf")
    """When the packet with the last sample of speech was sent."""
    events: list[tuple[float, dict[str, Any]]] = field(default_factory=list)
    sounds: list[HeardSound] = field(default_factory=list)
    pictures: list[SeenPicture] = field(default_factory=list)

    def audible(self, after_s: float = float("-inf")) -> Iterator[Audible]:
        """Each packet's first audible sample, for packets that arrived after `after_s`."""
        for sound in self.sounds:
            if sound.at_s <= after_s:
                continue
            if sound.audible_at is not None:
                yield Audible(sound.at_s, sound.media_s + sound.audible_at / sound.rate_hz)

    def audible_s(self, from_s: float, until_s: float = float("inf")) -> float:
        """Seconds of sound, arrived in this time, in packets with anything audible in them."""
        return sum(
            len(sound.pcm) / sound.rate_hz
            for sound in self.sounds
            if from_s < sound.at_s <= until_s and sound.audible_at is not None
        )

    def last_audible_s(self, from_s: float, until_s: float = float("inf")) -> float | None:
        """When the last packet with anything audible arrived in this time."""
        times = [a.at_s for a in self.audible(from_s) if a.at_s <= until_s]
        return max(times, default=None)

    def event_s(self, kind: str, **fields: Any) -> float | None:
        """When the first event of this type with these fields arrived."""
        for at_s, event in self.events:
            if event.get("type") == kind and all(event.get(k) == v for k, v in fields.items()):
                return at_s
        return None

    def turn_event_s(self, turn: int, *events: str) -> float | None:
        """When the first of these events of a turn arrived."""
        times = [self.event_s("turn", turn=turn, event=event) for event in events]
        return min((at_s for at_s in times if at_s is not None), default=None)

    def is_over(self, turn: int) -> bool:
        """Whether an answer that nobody interrupts has come to its end."""
        return self.turn_event_s(turn, "finished", "failed") is not None

    def missed(
        self, records: Sequence[Mapping[str, Any]], newest: int, question: str
    ) -> list[dict[str, Any]]:
        """Turns' events that came while nobody was connected, as far as the gateway's `records` of
        them show it. newest: the last turn that was told of; question: the last one."""
        opened, found = self.opened_turns(), list[dict[str, Any]]()
        for record in records:
            turn, state = int(record["turn"]), str(record["state"])
            if turn <= newest and turn not in opened:
                continue
            if turn not in opened and record["transcript"] != question:
                said = {"final": True, "text": record["transcript"], "turn": turn}
                found.append({"type": "transcript", **said})
            spoke = ["speaking"] if state in ("speaking", "finished") else []
            for life in dict.fromkeys(["opened", *spoke, state]):
                if self.turn_event_s(turn, life) is None:
                    found.append({"type": "turn", "turn": turn, "event": life})
        return found

    def pending(self) -> bool:
        """Whether a turn is open, or something said waits for one."""
        turns = self.opened_turns()
        if turns and self.turn_event_s(turns[-1], *ENDS) is None:
            return True
        states = [event["state"] for _at, event in self.events if event["type"] == "state"]
        return bool(states) and states[-1] != "idle"

    def opened_turns(self) -> list[int]:
        """Turns whose words were final, in order."""
        return self._turns("opened")

    def replaced_turns(self) -> list[int]:
        """Those of them with whose question the visitor went on, unheard."""
        return self._turns("replaced")

    def answer_from_s(self) -> float:
        """From when on what is audible is the answer to all that was said."""
        turns = self.opened_turns()
        opened_s = self.turn_event_s(turns[-1], "opened") if turns else None
        return max(self.speech_end_s, opened_s or self.speech_end_s)

    def _turns(self, life: str) -> list[int]:
        return [
            int(event["turn"])
            for _at, event in self.events
            if event.get("type") == "turn" and event.get("event") == life
        ]
