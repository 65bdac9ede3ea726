"""Where an utterance begins, pauses and ends: a state machine without sound.

It is fed the probability of speech per VAD frame, whether the frame is as quiet as
the room, and, during a pause, the opinion of turn detector and words. The surer that
the visitor has finished, the shorter the silence that ends the utterance: a finished
question is not delayed, a pause for thought is waited out.

How long is where cutting off costs as much as waiting on. Pauses of those who go on last
`typical_pause_frames` on average, as if they ended by chance, so that after w frames
exp(-w / typical) of them are left; waiting one frame more costs a frame where the visitor has
finished (probability p), and saves `cut_off_cost_frames` where he goes on within it. Both are the
same at w = typical (ln(cost / typical) - ln(p / (1 - p))). Endpointing by expected cost: Raux &
Eskenazi, "A finite-state turn-taking model for spoken dialog systems", NAACL 2009.
"""

import math
from dataclasses import dataclass
from enum import Enum, auto

from services.asr.hearing.detectors import FRAME_SAMPLES, SAMPLE_RATE_HZ


@dataclass(frozen=True, slots=True)
class EndpointRules:
    """Thresholds of probability, and lengths in VAD frames of 32 ms."""

    speech_probability: float = 0.5
    silence_probability: float = 0.35
    fading_probability: float = 0.9
    """A frame as quiet as the room holds no speech unless the VAD is surer than this."""
    start_frames: int = 3
    pause_frames: int = 1
    second_opinion_frames: int = 6
    fewest_voiced_frames: int = 4
    shortest_wait_frames: int = 4
    question_sooner_frames: int = 1
    """A whole question may be over so much sooner: seldom does anything follow it."""
    longest_wait_frames: int = 38
    typical_pause_frames: float = 12.0
    cut_off_cost_frames: float = 55.0
    """What one visitor cut off costs, in frames that another waits."""
    most_quiet_frames: int = 3
    lead_frames: int = 8
    """Sound before the beginning that belongs to the utterance: the VAD notices it late."""
    silence_frames: int | None = None
    """Silence that ends an utterance, whatever opinions there are; None: they say how much."""
    patience_frames: int | None = None
    """The longest wait, after what surely goes on; None: nothing is waited for longer than
    `longest_wait_frames`."""
    asked: bool | None = None
    """Whether the visitor was asked something last; None: nobody knows."""
    answered: int | None = None
    """The newest utterance that was the visitor's own and wanted an answer; None: nobody judges."""
    unfinished_probability: float = 0.2
    """From here down to the next one the patience grows."""
    surely_unfinished_probability: float = 0.05
    longest_utterance_frames: int = 120 * SAMPLE_RATE_HZ // FRAME_SAMPLES

    def wait_frames(
        self, end_of_turn: float | None, habit_odds: float = 0.0, *, asks: bool = False
    ) -> int:
        """Silence that ends an utterance. end_of_turn: None: the turn detector has not spoken yet.

        habit_odds: log odds by which this visitor's pauses are ends more often than others'. asks:
        the words are a whole question.
        """
        if self.silence_frames is not None:
            return self.silence_frames
        shortest = self.shortest_wait_frames - (self.question_sooner_frames if asks else 0)
        wait = max(shortest, self._usual_wait_frames(end_of_turn, habit_odds))
        if self.patience_frames is None:
            return wait
        return min(self.patience_frames, wait + self._extra_frames(end_of_turn))

    def _usual_wait_frames(self, end_of_turn: float | None, habit_odds: float) -> int:
        if end_of_turn is None:
            return self.longest_wait_frames
        sure = min(_SUREST, max(1 - _SUREST, end_of_turn))
        odds = math.log(sure / (1 - sure)) + habit_odds
        typical = self.typical_pause_frames
        wait = typical * (math.log(self.cut_off_cost_frames / typical) - odds)
        return min(self.longest_wait_frames, round(wait))

    def _extra_frames(self, end_of_turn: float | None) -> int:
        """Where it is as good as certain that more will come."""
        assert self.patience_frames is not None
        if end_of_turn is None or end_of_turn >= self.unfinished_probability:
            return 0
        span = self.unfinished_probability - self.surely_unfinished_probability
        certainty = min(1.0, (self.unfinished_probability - end_of_turn) / span)
        return round(certainty * max(0, self.patience_frames - self.longest_wait_frames))


_SUREST = 0.999


@dataclass(slots=True)
class Hesitation:
    """What one utterance tells of how its speaker pauses."""

    pauses: int = 0
    """So many were judged, and were no end."""
    takes_back: bool = False
    """It began so soon after an end that this was none."""


@dataclass(slots=True)
class PauseHabit:
    """How often this visitor's pauses are ends of his turns; he who hesitates is waited for."""

    turns: int = 0
    pauses: int = 0

    def learn(self, told: Hesitation) -> None:
        """An utterance of his is over."""
        # What it takes back was counted as a turn, and was a pause.
        self.turns += not told.takes_back
        self.pauses += told.pauses + told.takes_back

    def odds(self, now: Hesitation) -> float:
        """Log odds beside those of a stranger. now: what the open utterance tells."""
        heard = math.log((self.turns + _STRANGER) / (self.pauses + now.pauses + _STRANGER))
        return min(_MOST_FLUENT, max(_MOST_HESITANT, heard))


# So many turns and pauses of others stand for what is not known of a visitor.
_STRANGER = 4
# A fluent visitor is hardly answered sooner: he may begin a list yet.
_MOST_FLUENT, _MOST_HESITANT = 0.2, -1.0
# Who speaks again so soon after an end had only paused.
_TAKEN_BACK_FRAMES = 25


class Kind(Enum):
    """What became known with the latest frame or judgement."""

    STARTED = auto()
    """Speech; at_samples is its beginning, a little in the past."""
    PAUSED = auto()
    """Silence after speech: ask the turn detector. at_samples is the end of speech."""
    STILL_PAUSED = auto()
    """The silence has grown and the turn detector was not sure: ask it again."""
    RESUMED = auto()
    """Speech goes on after PAUSED."""
    ENDED = auto()
    """The utterance is over. at_samples is the end of speech."""
    DISCARDED = auto()
    """What started was too short for a word."""


@dataclass(frozen=True, slots=True)
class Signal:
    """What became known, and of which sample, counted from the first that was heard."""

    kind: Kind
    at_samples: int


class Endpointer:
    """Where the utterances of one stream begin, pause and end. Time is counted in samples heard."""

    def __init__(self, rules: EndpointRules | None = None) -> None:
        self.rules = rules or EndpointRules()
        self._frames = 0
        self._run_frames = 0
        self.voiced_frames = 0
        """Frames of the latest utterance that were speech: its length without pauses."""
        self.silent_frames = 0
        """Length of the silence at the end of the open utterance."""
        self.quiet_frames = 0
        """How many of the latest frames are as quiet as the room, whatever the VAD says."""
        self._utterance_frames = 0
        self._speaking = False
        self._paused = False
        self._end_of_turn: float | None = None
        self._asks = False
        self.habit = PauseHabit()
        self.hesitation = Hesitation()
        """Of the latest utterance."""
        self._ended_at_frame: int | None = None

    def hear_frame(self, speech_probability: float, *, quiet: bool = False) -> list[Signal]:
        """The next FRAME_SAMPLES hold speech with this probability.

        quiet: they hold no more than the room's own sound. The VAD needs some such frames
        before it doubts; they count as silence once it does.
        """
        self._frames += 1
        quiet_before = self.quiet_frames
        self.quiet_frames = quiet_before + 1 if quiet else 0
        if not self._speaking:
            return self._outside(speech_probability)
        self._utterance_frames += 1
        if self._utterance_frames >= self.rules.longest_utterance_frames:
            return self.end_utterance()
        rules = self.rules
        fading = quiet and speech_probability < rules.fading_probability
        if speech_probability >= rules.speech_probability and not fading:
            return self._voiced()
        # Between the thresholds a sound continues whatever was there before it.
        if fading or speech_probability < rules.silence_probability or self.silent_frames:
            if not self.silent_frames:
                late = min(quiet_before, rules.most_quiet_frames, self.voiced_frames)
                self.silent_frames = late
                self.voiced_frames -= late
            return self._silent()
        return []

    def judge(self, end_of_turn: float, *, asks: bool = False) -> list[Signal]:
        """The turn detector's opinion on the present pause; late ones are ignored.

        asks: what was said before it is a whole question.
        """
        if not self._paused:
            return []
        self._end_of_turn, self._asks = end_of_turn, asks
        return self._end_if_waited()

    def wait_differs(self, one: float, other: float, *, asks: bool = False) -> bool:
        """Whether these two opinions on a pause would have it waited out for different times."""
        one_frames, other_frames = (
            self._wait_frames(opinion, asks=asks) for opinion in (one, other)
        )
        return one_frames != other_frames

    def end_utterance(self) -> list[Signal]:
        """Close the open utterance, if any, whatever the silence."""
        if not self._speaking:
            return []
        too_short = self.voiced_frames < self.rules.fewest_voiced_frames
        if not too_short:
            self._ended_at_frame = self._frames
        signal = Signal(Kind.DISCARDED if too_short else Kind.ENDED, self._speech_end())
        self._speaking = self._paused = False
        self._run_frames = 0
        self._end_of_turn = None
        return [signal]

    def _outside(self, speech_probability: float) -> list[Signal]:
        loud = speech_probability >= self.rules.speech_probability
        self._run_frames = self._run_frames + 1 if loud else 0
        if self._run_frames < self.rules.start_frames:
            return []
        self._speaking = True
        ended, self._ended_at_frame = self._ended_at_frame, None
        soon = ended is not None and self._frames - ended <= _TAKEN_BACK_FRAMES
        self.hesitation = Hesitation(takes_back=soon)
        self.voiced_frames = self._utterance_frames = self._run_frames
        self.silent_frames = 0
        return [Signal(Kind.STARTED, (self._frames - self._run_frames) * FRAME_SAMPLES)]

    def _voiced(self) -> list[Signal]:
        resumed = self._paused
        if resumed and self._end_of_turn is not None:
            self.hesitation.pauses += 1
        self.voiced_frames += 1
        self.silent_frames = 0
        self._paused = False
        self._end_of_turn = None
        return [Signal(Kind.RESUMED, self._frames * FRAME_SAMPLES)] if resumed else []

    def _silent(self) -> list[Signal]:
        rules = self.rules
        self.silent_frames += 1
        if not self._paused:
            if self.silent_frames < rules.pause_frames:
                return []
            self._paused = True
            return [Signal(Kind.PAUSED, self._speech_end())]
        if ended := self._end_if_waited():
            return ended
        judged = self._end_of_turn is not None
        if self.silent_frames == rules.second_opinion_frames and judged:
            return [Signal(Kind.STILL_PAUSED, self._speech_end())]
        return []

    def _end_if_waited(self) -> list[Signal]:
        if self.silent_frames < self._wait_frames(self._end_of_turn, asks=self._asks):
            return []
        return self.end_utterance()

    def _wait_frames(self, end_of_turn: float | None, *, asks: bool) -> int:
        return self.rules.wait_frames(end_of_turn, self.habit.odds(self.hesitation), asks=asks)

    def _speech_end(self) -> int:
        return (self._frames - self.silent_frames) * FRAME_SAMPLES
