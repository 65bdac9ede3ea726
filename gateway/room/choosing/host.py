"""What a room's avatar says next: answers, thanks, the operator's words, talk when nothing comes.

Pure: told what comes and what its session does, it answers with what is to be done. One thing is
said at a time, and at most one comment is chosen ahead, when what is being said is nearly over.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from gateway.room.choosing.comments import Comment, Kind, Outcome
from gateway.room.choosing.gifts import Gifts, ThankRules
from gateway.room.choosing.phrases import Line, Phrases, Script
from gateway.room.choosing.safety import WordList
from gateway.room.choosing.selection import Entry, Rules, Selection, is_target

MOST_TO_SAY = 20
"""Things of the operator's that wait to be said."""
_RECENT = 50
_MOST_AGES = 2_000
# A word that may still go on.
_LAST_WORD = re.compile(r"[A-Za-z0-9']+$")
# Before anything was measured, and never more than this.
_FIRST_LEAD_S = 2.0
_LONGEST_LEAD_S = 12.0
# An answer is stopped so long before its time is over: nobody looks oftener.
_MARGIN_S = 0.3
# A turn of which nothing is heard any more has ended unseen.
_LOST_AFTER_S = 3.0
# Where nothing could be begun, for want of room, it is tried again.
_AGAIN_AFTER_S = 2.0


class Why(StrEnum):
    """What something is said for."""

    COMMENT = "comment"
    THANKS = "thanks"
    OPERATOR = "operator"
    SCRIPT = "script"


class SpeechPhase(StrEnum):
    """Where something that is said stands."""

    ORDERED = "ordered"
    SPEAKING = "speaking"
    OVER = "over"


_GOOD = {Why.COMMENT: Outcome.ANSWERED, Why.THANKS: Outcome.THANKED}


@dataclass(slots=True)
class Speech:
    """One thing that the room has its avatar say; the one record of it."""

    why: Why
    text: str
    """What is put to the avatar where `asked`, else what it says."""
    asked: bool
    entry: Entry | None = None
    gifts: int = 0
    """Of thanks: how many gifts, as they came."""
    phase: SpeechPhase = SpeechPhase.ORDERED
    turn: int = 0
    ordered_at_s: float = 0.0
    age_s: float | None = None
    """Of the comment, as the first sound of its answer left."""
    answer: str = ""
    stopped_for: Outcome | None = None
    outcome: Outcome | None = None


@dataclass(frozen=True, slots=True)
class Situation:
    """What the session does. turn: the one that is open; None: none, and nobody speaks.

    left_s: what is still to be heard of its voice, where all of that is there.
    """

    idle: bool
    turn: int | None = None
    left_s: float | None = None


@dataclass(frozen=True, slots=True)
class Begin:
    """Have this said now."""

    speech: Speech


@dataclass(frozen=True, slots=True)
class Hush:
    """Stop what is being said."""


Order = Begin | Hush


@dataclass(frozen=True, slots=True)
class HostRules:
    """When a room speaks. Times in seconds."""

    nearly_over_s: float = 3.0
    """So much before an answer's end the next comment is chosen."""
    pause_s: float = 0.7
    """Between one answer and the next."""


@dataclass(slots=True)
class Measured:
    """What was seen of a room's answers."""

    lead_s: float = _FIRST_LEAD_S
    """From asking to the first sound, smoothed."""
    ages_s: deque[float] = field(default_factory=lambda: deque(maxlen=_MOST_AGES))

    def began(self, lead_s: float, age_s: float | None) -> None:
        self.lead_s += 0.3 * (lead_s - self.lead_s)
        if age_s is not None:
            self.ages_s.append(age_s)

    @property
    def expected_lead_s(self) -> float:
        """With room for one that takes longer than most."""
        return min(_LONGEST_LEAD_S, 1.5 * self.lead_s + 0.3)


class Host:
    """Decides for one room what is said next, and keeps account of all that came."""

    def __init__(
        self,
        rules: Rules,
        words: WordList,
        phrases: Phrases,
        script: Script,
        now: float,
        *,
        thanks: ThankRules | None = None,
        pacing: HostRules | None = None,
    ) -> None:
        self.selection = Selection(rules, words)
        self.gifts = Gifts(thanks or ThankRules())
        self.measured = Measured()
        self.paused = False
        self.current: Speech | None = None
        self.next: Entry | None = None
        self.recent: deque[Speech] = deque(maxlen=_RECENT)
        self.phrases = phrases
        self._script = script
        self._pacing = pacing or HostRules()
        self._to_say: deque[str] = deque()
        self._again: Speech | None = None
        self._quiet_since_s = now
        self._seen_at_s = now

    # ------------------------------------------------------------ what comes

    def take(self, comment: Comment, now: float) -> Outcome | None:
        """What became of it at once; None: it waits. See `remove` for what is taken back."""
        match comment.kind:
            case Kind.COMMENT:
                taken = self.selection.take(comment, now)
                return taken if isinstance(taken, Outcome) else None
            case Kind.SUPERCHAT:
                return self._take_paid(comment, now)
            case Kind.GIFT | Kind.MEMBER:
                return self._take_gift(comment, now)
        self.selection.received += 1
        outcome = self.selection.may_come(comment) or Outcome.NOTED
        self.selection.outcomes[outcome] += 1
        return outcome

    def _take_paid(self, comment: Comment, now: float) -> Outcome | None:
        """It is thanked for, whatever becomes of what it says."""
        taken = self.selection.take(comment, now)
        if taken not in (Outcome.REPEATED, Outcome.BLOCKED_AUTHOR, Outcome.OWN):
            self._give(comment, now)
            self.selection.received += 1  # as a gift, beside the question
        return taken if isinstance(taken, Outcome) else None

    def _take_gift(self, comment: Comment, now: float) -> Outcome | None:
        self.selection.received += 1
        refused = self.selection.may_come(comment)
        if refused is not None:
            self.selection.outcomes[refused] += 1
            return refused
        self._give(comment, now)
        return None

    def _give(self, comment: Comment, now: float) -> None:
        sayable = self.selection.sayable
        self.gifts.take(comment, sayable(comment.author.name), sayable(comment.gift), now)

    @property
    def unsettled(self) -> int:
        """What came and has no outcome yet."""
        ordered = [speech for speech in (self.current, self._again) if speech is not None]
        chosen = sum(speech.entry is not None for speech in ordered) + (self.next is not None)
        thanked = sum(speech.gifts for speech in ordered)
        return self.selection.places_taken + chosen + self.gifts.waiting + thanked

    # ------------------------------------------------------------ what is to be done

    def look(self, now: float, situation: Situation) -> Order | None:
        """What is to be done now, if anything; asked several times a second."""
        self.selection.expire(now)
        if self.next is not None and not self.selection.is_timely(self.next, now):
            self._drop_next(Outcome.EXPIRED, now)
        if situation.idle and self.current is None:
            return self._begin_next(now)
        self._quiet_since_s = now
        if self.current is None:
            return None  # somebody else speaks with the avatar
        self._watch(self.current, now, situation)
        if self.current is None:
            return None
        if self._is_late(self.current, now):
            return self._stop(Outcome.LATE)
        self._choose_ahead(self.current, now, situation)
        return None

    def _begin_next(self, now: float) -> Begin | None:
        if self._again is not None and (self._again.why is Why.OPERATOR or not self.paused):
            speech = self._once_more(now)
        else:
            speech = self._operators() or (None if self.paused else self._of_the_room(now))
        if speech is None:
            return None
        speech.ordered_at_s = self._seen_at_s = now
        self.current = speech
        return Begin(speech)

    def _once_more(self, now: float) -> Speech | None:
        """What could not begin, unless it would come too late by now."""
        speech = self._again
        if speech is None or now - self._quiet_since_s < _AGAIN_AFTER_S:
            return None
        self._again = None
        entry = speech.entry
        if entry is None or self.selection.is_timely(entry, now, self.measured.expected_lead_s):
            return speech
        self._close(speech, Outcome.EXPIRED, now)
        return None

    def _operators(self) -> Speech | None:
        if not self._to_say:
            return None
        return Speech(Why.OPERATOR, self._to_say.popleft(), asked=False)

    def _of_the_room(self, now: float) -> Speech | None:
        if now - self._quiet_since_s < self._pacing.pause_s:
            return None
        batch = self.gifts.due(now)
        if batch is not None:
            text = self.phrases.thanking(batch)
            return Speech(Why.THANKS, text, asked=False, gifts=batch.events)
        entry = self._timely_next(now)
        if entry is not None:
            return Speech(Why.COMMENT, self.phrases.question(entry), asked=True, entry=entry)
        line = self._script.due(self._quiet_since_s, now)
        return None if line is None else _speech_of(line)

    def _timely_next(self, now: float) -> Entry | None:
        """The one that was chosen ahead, if it can still be answered in time; else another."""
        lead_s = self.measured.expected_lead_s
        entry, self.next = self.next, None
        if entry is not None:
            if self.selection.is_timely(entry, now, lead_s):
                return entry
            self.selection.over(entry, Outcome.EXPIRED, now)
        return self.selection.pick(now, lead_s)

    def _choose_ahead(self, current: Speech, now: float, situation: Situation) -> None:
        if self.paused or self.next is not None or current.phase is not SpeechPhase.SPEAKING:
            return
        left_s = situation.left_s
        if left_s is not None and left_s <= self._pacing.nearly_over_s:
            lead_s = left_s + self._pacing.pause_s + self.measured.expected_lead_s
            self.next = self.selection.pick(now, lead_s)

    def _is_late(self, speech: Speech, now: float) -> bool:
        if speech.entry is None or speech.phase is not SpeechPhase.ORDERED:
            return False
        return not self.selection.is_timely(speech.entry, now, _MARGIN_S)

    def _watch(self, speech: Speech, now: float, situation: Situation) -> None:
        """Notice a turn whose end nobody has told of."""
        if not speech.turn or situation.turn == speech.turn:
            self._seen_at_s = now
        elif now - self._seen_at_s > _LOST_AFTER_S:
            self.ended(speech.turn, "interrupted", now)

    def _stop(self, why: Outcome) -> Hush | None:
        """Have what is being said stopped, once."""
        if self.current is None or self.current.stopped_for is not None:
            return None
        self.current.stopped_for = why
        return Hush()

    # ------------------------------------------------------------ what the session tells

    def opened(self, speech: Speech, turn: int) -> Hush | None:
        """What was to begin is this turn; Hush where it was stopped before."""
        speech.turn = turn
        return None if speech.stopped_for is None else Hush()

    def failed(self, speech: Speech, now: float) -> None:
        """It could not even begin: it is tried again, unless it was stopped."""
        if self.current is not speech:
            return
        if speech.stopped_for is not None:
            self._close(speech, speech.stopped_for, now)
            return
        # One that waits for the end of a pause, while the operator's come first.
        if self._again is not None:
            self._close(self._again, Outcome.FAILED, now)
        self.current, self._again, self._quiet_since_s = None, speech, now

    def began(self, turn: int, now: float) -> None:
        """The first sound of a turn leaves."""
        speech = self._of(turn)
        if speech is None or speech.phase is not SpeechPhase.ORDERED:
            return
        speech.phase = SpeechPhase.SPEAKING
        if speech.entry is not None:
            speech.age_s = now - speech.entry.comment.at_s
        if speech.asked:
            self.measured.began(now - speech.ordered_at_s, speech.age_s)

    def said(self, turn: int, text: str, *, last: bool) -> Hush | None:
        """Text of a turn: Hush where it holds a blocked word, before that is spoken."""
        speech = self._of(turn)
        if speech is None:
            return None
        speech.answer += text
        known = speech.answer if last else _LAST_WORD.sub("", speech.answer)
        return self._stop(Outcome.BLOCKED_WORD) if self.selection.words.find(known) else None

    def ended(self, turn: int, how: str, now: float) -> Speech | None:
        """A turn is over: "finished", "interrupted" or "failed"; what of ours it was."""
        speech = self._of(turn)
        if speech is None:
            return None
        good = _GOOD.get(speech.why, Outcome.NOTED)
        outcomes = {"finished": good, "failed": Outcome.FAILED}
        outcome = outcomes.get(how, Outcome.INTERRUPTED)
        if outcome is Outcome.INTERRUPTED and speech.phase is SpeechPhase.SPEAKING:
            outcome = good  # it was answered; somebody had heard enough of it
        self._close(speech, speech.stopped_for or outcome, now)
        return speech

    def _close(self, speech: Speech, outcome: Outcome, now: float) -> None:
        speech.phase, speech.outcome = SpeechPhase.OVER, outcome
        if speech.entry is not None:
            self.selection.over(speech.entry, outcome, now)
        self.selection.outcomes[outcome] += speech.gifts
        if self.current is speech:
            self.current = None
        self.recent.append(speech)
        self._quiet_since_s = now

    def _of(self, turn: int) -> Speech | None:
        current = self.current
        return current if current is not None and current.turn == turn else None

    # ------------------------------------------------------------ from gateway to gateway

    @property
    def unsaid(self) -> list[str]:
        """What the operator wants said, and nobody has heard any of."""
        ordered = [speech.text for speech in self._not_begun if speech.why is Why.OPERATOR]
        return [*ordered, *self._to_say]

    @property
    def script_said(self) -> int:
        """Lines of the script that somebody has heard."""
        return self._script.said - sum(speech.why is Why.SCRIPT for speech in self._not_begun)

    def carry_on(self, script_said: int) -> None:
        """Go on in the script where another gateway stood."""
        self._script.said = script_said

    def unanswered(self, now: float) -> list[Entry]:
        """What waits, or is chosen and was not begun; what comes first of it first."""
        chosen = [*(speech.entry for speech in self._not_begun), self.next]
        return [*(entry for entry in chosen if entry is not None), *self.selection.waiting(now)]

    @property
    def _not_begun(self) -> list[Speech]:
        speeches = [speech for speech in (self.current, self._again) if speech is not None]
        return [s for s in speeches if s.phase is SpeechPhase.ORDERED and s.stopped_for is None]

    # ------------------------------------------------------------ the end

    def close(self, now: float) -> Speech | None:
        """Nothing is said any more but what is being said; that, as it stands now."""
        last = self.current
        for speech in (self._again, last):
            if speech is not None:
                begun = speech.phase is SpeechPhase.SPEAKING and speech.stopped_for is None
                good = _GOOD.get(speech.why, Outcome.NOTED)
                self._close(speech, good if begun else Outcome.CLOSED, now)
        self._again = None
        self._drop_next(Outcome.CLOSED, now)
        self.selection.close()
        self.selection.outcomes[Outcome.CLOSED] += self.gifts.forget()
        return last

    # ------------------------------------------------------------ the operator

    def say(self, text: str) -> bool:
        """Have this said as it stands, before anything else; False: too much waits already."""
        if len(self._to_say) >= MOST_TO_SAY:
            return False
        self._to_say.append(text)
        return True

    @property
    def to_say(self) -> tuple[str, ...]:
        return tuple(self._to_say)

    def skip(self) -> Hush | None:
        """Stop what is being said."""
        return self._stop(Outcome.SKIPPED)

    def skip_waiting(self, platform: str, comment_id: str, now: float) -> bool:
        """A comment that waits, or is chosen, is not answered; False: there is none."""
        if self.next is not None and _is(self.next.comment, platform, comment_id):
            self._drop_next(Outcome.SKIPPED, now)
            return True
        return self.selection.skip(platform, comment_id)

    def ban(self, author: str, name: str, now: float) -> Hush | None:
        """Nothing of this author is answered any more, not even what is being answered, and his
        gifts are thanked for without his name.
        """
        self.selection.ban(author, name)
        self.gifts.unname(author)
        return self._review(
            lambda entry: entry.comment.author_key == author, Outcome.BLOCKED_AUTHOR, now
        )

    def remove(self, removal: Comment, now: float) -> Hush | None:
        """The platform has taken something back, which is not answered any more; all by an author:
        his gifts are thanked for without his name.
        """
        self.selection.remove(removal)
        if not removal.target:
            self.gifts.unname(removal.author_key)
        return self._review(lambda entry: is_target(removal, entry.comment), Outcome.REMOVED, now)

    def block(self, words: WordList, now: float) -> Hush | None:
        """Other words are blocked from now on."""
        self.selection.block(words)
        self.gifts.review(words.find)
        if self._again is not None and self._again.gifts and words.find(self._again.text):
            speech, self._again = self._again, None
            self._close(speech, Outcome.BLOCKED_WORD, now)
        found = self._review(
            lambda entry: bool(words.find(f"{entry.name}\n{entry.text}")), Outcome.BLOCKED_WORD, now
        )
        if found is None and self.current is not None and words.find(self.current.answer):
            return self._stop(Outcome.BLOCKED_WORD)
        return found

    def _review(self, unwanted: Callable[[Entry], bool], why: Outcome, now: float) -> Hush | None:
        """Let go of what was chosen, or is being answered, and is not wanted any more."""
        if self.next is not None and unwanted(self.next):
            self._drop_next(why, now)
        if self._again is not None and self._again.entry and unwanted(self._again.entry):
            speech, self._again = self._again, None
            self._close(speech, why, now)
        entry = self.current.entry if self.current is not None else None
        return self._stop(why) if entry is not None and unwanted(entry) else None

    def _drop_next(self, outcome: Outcome, now: float) -> None:
        entry, self.next = self.next, None
        if entry is not None:
            self.selection.over(entry, outcome, now)


def _speech_of(line: Line) -> Speech:
    return Speech(Why.SCRIPT, line.text, asked=line.asked)


def _is(comment: Comment, platform: str, comment_id: str) -> bool:
    return (comment.platform, comment.id) == (platform, comment_id)
