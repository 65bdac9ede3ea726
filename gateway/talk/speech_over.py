"""Somebody speaks over an answer: echo, cough or interruption? What says so, and when.

A cough or a knock that the VAD took for a voice is over within a fifth of a second; speech goes
on. So the answer gets quieter at once, and stops only where the sound lasts (`BargeIn`). The words
that are understood later decide whether it goes on (`Doubts`).

Whether it is our own echo, `echo.py` tells.

Pure: sound, words and time come as arguments, times in seconds of any clock.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum, auto

import numpy as np
from numpy.typing import NDArray

from gateway.talk.echo import EchoGuard, Likeness
from gateway.talk.turn import Turn
from gateway.talk.words import (
    asks,
    is_backchannel,
    is_echo,
    is_too_short_to_tell,
    without_echo,
)

# What sounds like a voice and holds no word for so long is none.
WORDLESS_S = 2.0
# The longest that our own voice takes out of the loudspeaker and back into the microphone.
ECHO_TAIL_S = 1.0

# A stop consonant is a silence of up to so long in the middle of speech.
_CLOSURE_S = 0.08
# Of the loudest that was heard since the sound began: -12 dB.
_STILL_THERE = 0.25
# Of 10 ms each: longer than a sound is judged.
_REMEMBERED_CHUNKS = 512
# How often, and on how much sound, a voice is looked for in an echo.
_ECHO_EVERY_S = 0.06
_NEWEST_S = 0.2
_LOOKS = 2
# How often it is learned what comes back of an answer over which nobody speaks, and how far the
# microphone's sound may lag behind.
_LEARN_EVERY_S = 1.0
_LATEST_S = 0.1


class Verdict(Enum):
    """What to make of a sound over the answer, and then of its words."""

    OPEN = auto()
    """Too early to say, or it has gone: go on, quieter."""
    VOICE = auto()
    """It lasts, or somebody wants something: fall silent."""
    ECHO = auto()
    """It is our own voice."""
    ASSENT = auto()
    """A listener's word: go on."""


# ------------------------------------------------------------ what the sound says


@dataclass(slots=True)
class _Sound:
    """The sound that is being judged."""

    onset_s: float
    """When its first sample reached us."""
    judged_at_s: float = float("-inf")
    echo: bool = False
    doubts: int = 0
    too_early: bool = False
    """The answer began a moment ago: what there is of it cannot be known again."""

    def judged(self, likeness: Likeness | None) -> None:
        """What our own voice is in is an echo until several looks in a row find more in it."""
        self.doubts = 0 if likeness is not None and likeness.is_echo else self.doubts + 1
        alike = self.echo or (likeness is not None and likeness.is_alike)
        self.echo = alike and self.doubts < _LOOKS


class BargeIn:
    """Judges a sound over an answer before a word of it is known: is it a voice, and does it last?

    after_s: how long a sound lasts before it stops the answer.
    """

    def __init__(self, after_s: float = 0.2) -> None:
        self._after_s = after_s
        self._levels: deque[tuple[float, float]] = deque(maxlen=_REMEMBERED_CHUNKS)
        self._echo = EchoGuard()
        self._sound: _Sound | None = None
        self._learned_at_s = float("-inf")

    def hear(self, pcm: NDArray[np.int16], level: float, now: float) -> None:
        """Sound of the microphone. pcm: [N] int16, N > 0; level: its root mean square."""
        self._echo.hear(pcm)
        self._levels.append((now, level))

    def play(self, pcm: NDArray[np.int16]) -> None:
        """What leaves now. pcm: [N] int16 at 48 kHz."""
        self._echo.play(pcm)

    def speech_began(self, onset_s: float) -> None:
        """The VAD marks speech over the answer, whose first sample reached us at `onset_s`."""
        self._sound = _Sound(onset_s)

    def speech_known(self) -> None:
        """It is known what the sound was."""
        self._sound = None

    def nobody_speaks(self, now: float) -> None:
        """An answer is heard, and nothing over it: what comes back of it is learned."""
        streams = bool(self._levels) and now - self._levels[-1][0] <= _LATEST_S
        if streams and now - self._learned_at_s >= _LEARN_EVERY_S:
            self._learned_at_s = now
            self._echo.nobody_speaks()

    def verdict(self, now: float) -> Verdict:
        """On the sound that has begun, as far as it goes."""
        sound = self._sound
        if sound is None:
            return Verdict.OPEN
        if now - sound.judged_at_s >= _ECHO_EVERY_S:
            sound.judged_at_s = now
            likeness = self._echo.likeness(min(_NEWEST_S, now - sound.onset_s))
            sound.judged(likeness)
            sound.too_early = likeness is None and self._echo.has_just_begun()
        if sound.echo:
            return Verdict.ECHO
        if sound.too_early:
            return Verdict.OPEN
        enough_s = sound.onset_s + self._after_s
        if now < enough_s - 1e-6:
            return Verdict.OPEN
        # Where the VAD told late, a short word may be over by now: what was there in time counts.
        lasts = self._lasts(sound.onset_s, enough_s) or self._lasts(sound.onset_s, now)
        return Verdict.VOICE if lasts else Verdict.OPEN

    def _lasts(self, onset_s: float, now: float) -> bool:
        """Whether the sound is still there at `now`, which may be past."""
        since = [(at_s, level) for at_s, level in self._levels if onset_s <= at_s <= now + 1e-6]
        newest = [level for at_s, level in since if at_s > now - _CLOSURE_S]
        if not newest:
            # The microphone says nothing at all: believe the VAD.
            return True
        return max(newest) >= _STILL_THERE * max(level for _, level in since)


# ------------------------------------------------------------ what the words say


class DoubtPhase(Enum):
    """What an utterance over an answer is, so far as is known."""

    OPEN = auto()
    """Nobody can say yet."""
    AFTER = auto()
    """The answer was over before it began: only its echo can be nothing."""
    DISMISSED = auto()
    """Only words can still make it an interruption."""
    ENDED = auto()
    """Its words have ended the answer; more of them may come."""


class Whose(Enum):
    """Whose voice it sounds like."""

    THEIRS = auto()
    MIXED = auto()
    """It began as our own; a visitor's is heard over it."""
    OURS = auto()


@dataclass(slots=True)
class Doubt:
    """An utterance that began while an answer was heard, or just after it: what is it?"""

    utterance: int
    since_s: float
    said: str = ""
    """The answer, where it is over."""
    phase: DoubtPhase = DoubtPhase.OPEN
    whose: Whose = Whose.THEIRS
    worded: bool = False
    """Something was understood of it."""
    answers: bool = False
    """What was heard of the answer that its words have ended was a question."""
    ended: Turn | None = None
    """The answer that its words have ended."""

    @property
    def echo(self) -> bool:
        """What is heard of it is our own voice."""
        return self.whose is Whose.OURS

    @property
    def over_answer(self) -> bool:
        """It began while the answer was still heard."""
        return self.phase is not DoubtPhase.AFTER

    def sounds_like_us(self) -> None:
        """It is our own voice; a visitor's may be heard over it later on."""
        self.whose = Whose.OURS

    def sounds_like_a_voice(self) -> None:
        """Somebody speaks, if only into our own voice."""
        self.whose = Whose.MIXED if self.echo else self.whose

    def judge(self, text: str, turn: Turn | None, *, complete: bool) -> Verdict:
        """What its words amount to, as far as they go. turn: the answer, if it is not over."""
        if self.whose is Whose.MIXED and not text:
            return Verdict.OPEN  # words come later than the sound: so far it is ours
        if self.over_answer and is_backchannel(text, complete=complete, asked=self.asked(turn)):
            # A hum that is made of an echo tells nothing of who speaks over it later.
            return Verdict.ECHO if self.echo else Verdict.ASSENT
        if is_echo(text, self.said_by(turn), sounds_like_it=self.echo, complete=complete):
            return Verdict.ECHO
        if self.echo and not complete:
            return Verdict.OPEN  # of an echo a recogniser may write anything until a pause
        spoken = turn is not None and self.over_answer and turn.heard()
        if spoken and not complete and is_too_short_to_tell(text):
            return Verdict.OPEN  # the voice is silent by now: nothing is lost by more words
        return Verdict.VOICE

    def words_of_visitor(self, text: str, turn: Turn | None) -> str:
        """`text` without our own words, where the visitor spoke into our echo."""
        return without_echo(text, self.said_by(turn)) if self.whose is Whose.MIXED else text

    def said_by(self, turn: Turn | None) -> str:
        """What we have said, and are about to: the clock of the voice is that of its leaving."""
        if turn is None:
            return self.said
        heard, soon = _said_soon(turn)
        return " ".join((heard, *soon))

    def asked(self, turn: Turn | None) -> bool:
        """Whether that asks something, so that "yes" is an answer; who answers may be quicker than
        the question's last word.
        """
        if turn is None:
            return asks(self.said)
        heard, soon = _said_soon(turn)
        return any(asks(" ".join((heard, *soon[:n]))) for n in range(len(soon) + 1))


def _said_soon(turn: Turn) -> tuple[str, list[str]]:
    """What was heard, and the next two words."""
    heard = turn.heard()
    return heard, turn.text[len(heard) :].split()[:2]


class Doubts:
    """Follows the utterances of a session: which one is in doubt, and what came of it."""

    def __init__(self) -> None:
        self._latest: Doubt | None = None
        self._said = ("", 0.0)
        """The newest answer that was heard to its end, and until when it may echo."""

    @property
    def current(self) -> Doubt | None:
        """The utterance that may be an interruption, until that is known."""
        latest = self._latest
        return None if latest is None or latest.phase is DoubtPhase.ENDED else latest

    def speech_began(self, utterance: int, now: float, began_s: float, turn: Turn | None) -> None:
        """An utterance begins, over the answer `turn` if there is one.

        began_s: when it was there; that is told late.
        """
        said, until_s = self._said
        if turn is not None:
            self._latest = Doubt(utterance, now)
        elif began_s < until_s:
            self._latest = Doubt(utterance, now, said, DoubtPhase.AFTER)
        else:
            self._latest = None

    def unheard(self, now: float) -> None:
        """Whoever listened has gone: what was understood counts no more, and the utterance has as
        long as a new one to have words.
        """
        if (doubt := self.current) is not None:
            doubt.since_s, doubt.worded = now, False

    def resolve(self) -> None:
        """It is known what the utterance was, or will never be."""
        if self.current is not None:
            self._latest = None

    def answer_over(self, text: str, now: float) -> None:
        """An answer was heard to its end."""
        self._said = (text, now + ECHO_TAIL_S)
        if self.current is not None:
            self.current.said = text

    def turn_ended(self, turn: Turn | None) -> None:
        """An answer ends before its end, if there is one."""
        if (doubt := self.current) is not None:
            doubt.answers, doubt.said = doubt.asked(turn), doubt.said_by(turn)
            doubt.phase, doubt.ended = DoubtPhase.ENDED, turn

    def ended_by(self, utterance: int) -> Turn | None:
        """The answer that its words have ended, if there is one."""
        doubt = self._latest
        return doubt.ended if doubt is not None and doubt.utterance == utterance else None

    def answers(self, utterance: int) -> bool:
        """Whether that has cut a question short, which it may answer."""
        doubt = self._latest
        return doubt is not None and doubt.utterance == utterance and doubt.answers

    def own_words(self, utterance: int, text: str, turn: Turn | None) -> str:
        """What of `text` the visitor has said."""
        doubt = self._latest
        if doubt is not None and doubt.utterance == utterance:
            text = doubt.words_of_visitor(text, None if doubt.phase is DoubtPhase.ENDED else turn)
        return text.strip()

    def judge(self, text: str, turn: Turn | None, *, complete: bool) -> Verdict:
        """What words amount to: where nothing is in doubt, somebody wants something."""
        doubt = self.current
        return Verdict.VOICE if doubt is None else doubt.judge(text, turn, complete=complete)

    def understood(self, utterance: int, text: str, verdict: Verdict) -> None:
        """Note what was judged: what else is said in the same breath shows in its words."""
        doubt = self.current
        if doubt is None:
            return
        if doubt.utterance == utterance and text:
            doubt.worded = True
        if verdict is Verdict.ASSENT:
            doubt.phase = DoubtPhase.DISMISSED
        elif verdict is Verdict.ECHO:
            doubt.sounds_like_us()
