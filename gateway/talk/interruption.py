"""Speech over an answer: quieter, silent, or on again; and how long the silence took to come."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gateway import metrics
from gateway.playout.pacing import RATE_HZ
from gateway.playout.playout import Playout
from gateway.talk.actions import Action, DuckTurn, PauseTurn, Reason, ResumeTurn
from gateway.talk.conversation import Conversation
from gateway.talk.speech_over import BargeIn, Verdict

# Speech that began longer ago than this was told about late, and not judged late.
_OLDEST_ONSET_S = 1.0


class Interruption:
    """Carries out on the playout what the turn state machine decides about speech over an answer.

    Tells it in turn what the judge of the microphone's sound finds. Time comes as an argument.
    """

    def __init__(self, session: str, playout: Playout, judge: BargeIn) -> None:
        """session: the name that exemplars bear."""
        self._session = session
        self._playout = playout
        self._judge = judge
        self._echoed = 0
        """The newest utterance that was our own voice."""
        self._onset_s: float | None = None
        self._decided_s: float | None = None
        self._silent_s: float | None = None
        self._void: tuple[int, Reason] | None = None
        """Set once the turn is void: the measurement counts."""

    def hear(self, pcm: NDArray[np.int16], level: float, now: float) -> None:
        """Sound of the microphone. pcm: [N] int16, N > 0; level: its root mean square."""
        self._judge.hear(pcm, level, now)

    def speech_began(self, onset_s: float | None, now: float) -> None:
        """Speech has been detected, whose first sample reached us at `onset_s`."""
        onset_s = now if onset_s is None else max(onset_s, now - _OLDEST_ONSET_S)
        if self._silent_s is None:  # else it was not this one that made the silence
            self._onset_s = onset_s
        self._judge.speech_began(onset_s)

    def tick(
        self, pcm: NDArray[np.int16], conversation: Conversation, now: float
    ) -> Sequence[Action]:
        """So much has left, pcm [N] int16: what follows from what was heard meanwhile."""
        self._judge.play(pcm)
        self._note_silence(now)
        return self.judge(conversation, now)

    def judge(self, conversation: Conversation, now: float) -> Sequence[Action]:
        """What follows from the sound over the answer, if there is any."""
        doubt = conversation.doubt
        if doubt is None:
            self._judge.speech_known()
            if self._playout.playing:
                self._judge.nobody_speaks(now)
            return ()
        verdict = self._judge.verdict(now)
        if doubt.echo and doubt.utterance != self._echoed:
            self._echoed = doubt.utterance
            metrics.echo_suppressed.inc()
        if verdict is Verdict.ECHO:
            return conversation.echo_heard(now)
        return conversation.voice_persists() if verdict is Verdict.VOICE else ()

    def carry_out(self, action: DuckTurn | PauseTurn | ResumeTurn, now: float) -> None:
        """What becomes of the voice."""
        match action:
            case DuckTurn():
                self._playout.duck(action.turn)
            case PauseTurn(rests=True):
                self._playout.pause(action.turn)
            case ResumeTurn(rested=True):
                self._playout.resume(action.turn, round(action.at_s * RATE_HZ))
            case PauseTurn():
                if self._playout.playing:
                    self._decided_s = now
                self._playout.pause(action.turn)
            case ResumeTurn():
                given = "paused" if self._playout.paused else "ducked"
                metrics.false_interruptions.labels(given).inc()
                self._playout.resume(action.turn, round(action.at_s * RATE_HZ))
                self._decided_s = self._silent_s = None

    def void(self, reason: Reason, now: float) -> None:
        """The turn that plays is about to be void, for good."""
        if not self._playout.playing:
            return
        if self._decided_s is None:
            self._decided_s = now
        self._void = (self._playout.turn, reason)

    def _note_silence(self, now: float) -> None:
        """The tick that has just left holds the end of the voice, if a silence was decided."""
        if self._decided_s is None:
            return
        if self._silent_s is None:
            self._silent_s = now
        if self._void is not None:
            (turn, origin), self._void = self._void, None
            exemplar = metrics.exemplar(self._session, turn)
            took_s = self._silent_s - self._decided_s
            metrics.barge_in_decided_seconds.labels(origin).observe(took_s, exemplar)
            if origin == "speech" and self._onset_s is not None:
                whole_s = self._silent_s - self._onset_s
                metrics.barge_in_to_silence_seconds.observe(whole_s, exemplar)
            self._decided_s = self._silent_s = None
