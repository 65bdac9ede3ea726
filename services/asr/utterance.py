"""What a listener knows of one utterance, and its text so far."""

from dataclasses import dataclass, field, replace

from services.asr.partial_text import PartialText, after
from services.asr.transcript import Transcript, join


@dataclass(slots=True)
class Utterance:
    """piece_start: first sample of the piece that a final text would still be made of; what was
    said before is `settled`."""

    number: int
    language: str
    first: int
    """First sample, some silence before the speech included."""
    piece_start: int
    partial: PartialText
    settled: list[Transcript] = field(default_factory=list)
    speech: list[float] = field(default_factory=list)
    """VAD probabilities since piece_start."""
    pause: int = 0
    """Counts pauses; answers about an earlier one are stale."""
    paused: bool = False
    text: Transcript | None = None
    """Of the present pause."""
    announced: bool = False
    end_of_turn: float | None = None
    """The turn detector's opinion on the present pause."""
    finished: float = 0.0
    """Turn detector and words together."""
    speech_end: int = 0
    ended_at: int | None = None
    settle_pauses: set[int] = field(default_factory=set)
    next_partial: int = 0
    text_cost_s: float = 0.0
    judge_cost_s: float = 0.0

    def begin_pause(self, speech_end: int) -> None:
        """Silence after speech that ended at this sample."""
        self.paused = True
        self.pause += 1
        self.speech_end = speech_end
        self.text, self.announced, self.end_of_turn = None, False, None

    def whole(self) -> Transcript:
        """Settled pieces and the text of the present pause; begins with what is stable."""
        before = join(self.settled, self.language)
        if self.text is None or not self.text.text:
            return before
        together = join([before, self.text], self.language)
        text = after(before.text, self.partial.stable, self.text.text, together.language)
        return replace(together, text=text)

    def settle(self, text: Transcript) -> None:
        """`text` is that of the piece left behind."""
        before = join(self.settled, self.language).text
        if text.text:
            spoken = after(before, self.partial.stable, text.text, self.language)
            text = replace(text, text=spoken[len(before) :].strip())
        self.settled.append(text)

    def draft(self) -> str:
        """A guess at the text of the present piece."""
        before = join(self.settled, self.language).text
        text = self.partial.text
        return text[len(before) :].strip() if text.startswith(before) else ""
