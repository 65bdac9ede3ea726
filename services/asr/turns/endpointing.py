"""Where an utterance begins, pauses and ends: a state machine without sound.

It is fed the probability of speech per VAD frame, whether the frame is as quiet as
the room, and, during a pause, the opinion of turn detector and words. The surer that
the visitor has finished, the shorter the silence that ends the utterance: a finished
question is not delayed, a pause for thought is waited out.
"""

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
    certain_probability: float = 0.96
    finished_probability: float = 0.8
    unfinished_probability: float = 0.2
    shortest_wait_frames: int = 5
    finished_wait_frames: int = 6
    longest_wait_frames: int = 38
    most_quiet_frames: int = 3
    longest_utterance_frames: int = 120 * SAMPLE_RATE_HZ // FRAME_SAMPLES

    def wait_frames(self, end_of_turn: float | None) -> int:
        """Silence that ends an utterance. None: the turn detector has not spoken yet."""
        if end_of_turn is None:
            return self.longest_wait_frames
        if end_of_turn >= self.certain_probability:
            return self.shortest_wait_frames
        finished_wait = max(self.finished_wait_frames, self.shortest_wait_frames)
        span = self.finished_probability - self.unfinished_probability
        doubt = min(1.0, max(0.0, (self.finished_probability - end_of_turn) / span))
        return finished_wait + round(doubt * (self.longest_wait_frames - finished_wait))


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

    def judge(self, end_of_turn: float) -> list[Signal]:
        """The turn detector's opinion on the present pause; late ones are ignored."""
        if not self._paused:
            return []
        self._end_of_turn = end_of_turn
        return self._end_if_waited()

    def end_utterance(self) -> list[Signal]:
        """Close the open utterance, if any, whatever the silence."""
        if not self._speaking:
            return []
        too_short = self.voiced_frames < self.rules.fewest_voiced_frames
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
        self.voiced_frames = self._utterance_frames = self._run_frames
        self.silent_frames = 0
        return [Signal(Kind.STARTED, (self._frames - self._run_frames) * FRAME_SAMPLES)]

    def _voiced(self) -> list[Signal]:
        resumed = self._paused
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
        unsure = self._end_of_turn is not None and self._end_of_turn < rules.finished_probability
        if self.silent_frames == rules.second_opinion_frames and unsure:
            return [Signal(Kind.STILL_PAUSED, self._speech_end())]
        return []

    def _end_if_waited(self) -> list[Signal]:
        if self.silent_frames < self.rules.wait_frames(self._end_of_turn):
            return []
        return self.end_utterance()

    def _speech_end(self) -> int:
        return (self._frames - self.silent_frames) * FRAME_SAMPLES
