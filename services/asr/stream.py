"""One session's listener: sound and answers of networks in, transcript events out.

It runs no network itself. It hands out work (transcribe this, has the visitor
finished?) for others to do, and takes the results when they come. At the first
frame of a pause it asks for the text at once: if the visitor has finished, the
final text is ready before the silence is long enough to be sure. The turn detector
is asked where the words leave open how long that is.
"""

from collections.abc import Hashable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from services.asr.hearing.cutter import LONGEST_PIECE_SAMPLES, quietest
from services.asr.hearing.detectors import FRAME_SAMPLES, SAMPLE_RATE_HZ, WINDOW_SAMPLES
from services.asr.hearing.transcript import Order, Transcript
from services.asr.sound import Bystanders, FarVoices, QuietFrames, Tape
from services.asr.turns.completeness import RULED_OUT, asks, finished_odds, fused, states
from services.asr.turns.endpointing import Endpointer, EndpointRules, Hesitation, Kind, Signal
from services.asr.turns.foresight import Foresight
from services.asr.turns.languages import words_of
from services.asr.turns.wording import FEWEST_HEAD_SAMPLES, FEWEST_TAIL_SAMPLES, PartialText
from services.asr.utterance import Heard, Judge, Output, Purpose, Requeue, Transcribe, Utterance
from visavis.engine import Urgency
from visavis.wire.media import TranscriptEvent

# What lies before the beginning of speech is kept for as long, whatever of it is used.
_LEAD_SAMPLES = EndpointRules().lead_frames * FRAME_SAMPLES
# What is said and left behind at a pause after this much needs no second hearing; what is
# shorter than a pause between words may be one within a word.
_SETTLED_SAMPLES = 10 * SAMPLE_RATE_HZ
_SETTLING_PAUSE_SAMPLES = 5 * FRAME_SAMPLES
# Where all is left behind before a longer pause, only the end of that is heard again: clients may
# have a minute waited for, and a recogniser takes half of that.
_LONG_PAUSE_SAMPLES = 5 * SAMPLE_RATE_HZ
# A piece without any pause is cut in its last seconds.
_CUT_WINDOW_FRAMES = 5 * SAMPLE_RATE_HZ // FRAME_SAMPLES
_FIRST_PARTIAL_SAMPLES = SAMPLE_RATE_HZ * 3 // 10
_PARTIAL_EVERY_SAMPLES = SAMPLE_RATE_HZ * 2 // 5
# Partial transcripts may take this share of one core.
_PARTIAL_DUTY = 1 / 5
# And those of all who speak at once this much: the others' finals need it more.
_PARTIALS_TOGETHER = 1 / 2
# While an utterance is young and has no words yet, somebody waits for the first.
_FIRST_WORDS_DUTY = 1 / 2
_YOUNG_SAMPLES = SAMPLE_RATE_HZ * 3 // 2
# What has no words is over after a third of a second or so.
_WORDLESS_FINISHED = 0.67
# Log odds by the words alone from which an answer is prepared before the intonation is judged.
_MAYBE_ALL = -1.0
# The words of a look are told again once they are so much likelier to be all, and likely.
_LIKELIER, _LIKELY = 0.15, 0.3
# Whose they were is told within a fraction of a second, or never.
_MOST_UNJUDGED = 4
# Nothing understood yet: look again soon.
_AGAIN_SAMPLES = SAMPLE_RATE_HZ // 10
# The turn detector was trained on turns with a longer silence at their end than
# there is when it is asked.
_JUDGED_SILENCE = np.zeros(SAMPLE_RATE_HZ // 6, np.float32)


class Listener:
    """What one session's sound comes to: utterances, pauses, texts and ends of turn.

    Feed frames with `hear_frame`, results with `transcribed`, `passed_over` and `judged`; `finish`
    ends an utterance, and all of it.
    """

    def __init__(
        self,
        language: str,
        *,
        interim_results: bool,
        foresight: bool = False,
        rules: EndpointRules | None = None,
        first_utterance: int = 1,
    ) -> None:
        """language: as the recogniser names it; used from the next utterance on.

        foresight: interim results tell how likely their words are all. first_utterance: its
        number; later ones count upwards.
        """
        self.language = language
        self.speaking = 1
        """How many speak at once to those who answer this listener's questions."""
        self._interim_results = interim_results
        self._endpointer = Endpointer(rules)
        self._bystanders = Bystanders()
        self._far = FarVoices()
        self.far = False
        """Whether the latest frame was speech that is too far from the visitor to be his."""
        self._quiet = QuietFrames()
        self.live = True
        """Whether it is heard as it is said: nobody waits for the first words of what is not."""
        self.foresees = True
        """Whether foresight is told now: there is a core to spare for what is prepared early."""
        self.foresight = Foresight() if foresight else None
        """Whether the words of the newest look are all; None: nobody asks."""
        self._tape = Tape()
        self._utterances: dict[int, Utterance] = {}
        self._current: Utterance | None = None
        self._newest = first_utterance - 1
        self._transcribing = 0
        self._looks = object()
        """Of this listener's looks only the newest counts, and none after the speech itself."""
        self._opinions = object()
        """Of the turn detector's opinions only the newest counts."""
        self._said_until = 0
        """Sample at which the last utterance ended."""
        self._cut_at = 0
        """Sample at which one was ended in mid-speech."""
        self._unjudged: dict[int, Hesitation] = {}
        """Of the newest finals, until it is told which of them was the visitor's."""

    @property
    def idle(self) -> bool:
        """Nothing is open and no answer is awaited."""
        return not self._utterances

    def take_turns_by(self, rules: EndpointRules) -> None:
        """From now on, also in an utterance that is open."""
        self._endpointer.rules = rules
        newest = rules.answered or 0
        if (told := self._unjudged.get(newest)) is not None:
            self._endpointer.habit.learn(told)
            self._unjudged = {n: h for n, h in self._unjudged.items() if n > newest}

    @property
    def kept_samples(self) -> int:
        """Sound held in memory."""
        return self._tape.end - self._tape.start

    def hear_frame(self, pcm: NDArray[np.float32], speech_probability: float) -> list[Output]:
        """The next [FRAME_SAMPLES] float32 and how likely they are speech."""
        self._tape.append(pcm)
        speaking = self._current is not None
        self.far = self._far.are_all(pcm, speech_probability, speaking=speaking)
        if self._bystanders.are_all(pcm, speech_probability, speaking=speaking) or self.far:
            speech_probability = 0.0
        if self._current is not None:
            self._current.speech.append(speech_probability)
        quiet = self._quiet.is_quiet(pcm, speech_probability)
        if self.foresight is not None:
            self.foresight.hear_frame(self._quiet.depth, speech_probability)
        outputs = self._heed(self._endpointer.hear_frame(speech_probability, quiet=quiet))
        outputs += self._cut_if_long()
        outputs += self._partial_if_due()
        outputs += self._foresee()
        self._forget()
        return outputs

    def finish(self) -> list[Output]:
        """The open utterance has ended, whatever the silence."""
        return self._heed(self._endpointer.end_utterance())

    def transcribed(self, work: Transcribe, text: Transcript, cost_s: float) -> list[Output]:
        """The answer to `work`, and how long the recogniser computed."""
        self._transcribing -= 1
        utterance = self._utterances.get(work.utterance)
        if utterance is None:
            return []
        if not words_of(text.text, text.language):
            # Marks alone, "...", are what a recogniser writes of a noise.
            text = replace(text, text="", segments=())
        text = text.shifted(work.start_samples)
        if work.purpose is Purpose.SETTLE or work.pause in utterance.settle_pauses:
            utterance.settle_pauses.discard(work.pause)
            utterance.settle(text)
            return []
        if work.purpose.is_look:
            return self._take_look(utterance, work, text, cost_s)
        if work.pause != utterance.pause or not (
            utterance.paused or utterance.ended_at is not None
        ):
            return []
        utterance.text, utterance.text_cost_s = text, cost_s
        if utterance.ended_at is not None:
            return self._finalise(utterance)
        return self._weigh_pause(utterance)

    def passed_over(self, work: Transcribe) -> None:
        """Work that was not begun: there was something more urgent, or nobody wants it any more.

        Of looks there will be others.
        """
        self._transcribing -= 1
        utterance = self._utterances.get(work.utterance)
        if utterance is not None and work.purpose.is_look:
            utterance.next_partial = self._tape.end + _PARTIAL_EVERY_SAMPLES

    def judged(self, work: Judge, end_of_turn: float, cost_s: float) -> list[Output]:
        """The turn detector's answer to `work`, and how long it computed."""
        utterance = self._utterances.get(work.utterance)
        stale = utterance is None or work.pause != utterance.pause or not utterance.paused
        if utterance is None or stale:
            return []
        utterance.end_of_turn, utterance.judge_cost_s = end_of_turn, cost_s
        return self._weigh_pause(utterance)

    def _heed(self, signals: list[Signal]) -> list[Output]:
        return [output for signal in signals for output in self._on_signal(signal)]

    def _on_signal(self, signal: Signal) -> list[Output]:
        if signal.kind is Kind.STARTED:
            return self._begin_utterance(signal.at_samples)
        utterance = self._current
        assert utterance is not None
        if signal.kind is Kind.PAUSED:
            utterance.begin_pause(signal.at_samples)
            return [self._ask_recogniser(utterance, Purpose.PAUSE)]
        if signal.kind is Kind.STILL_PAUSED:
            return [self._ask_detector(utterance)] if self._doubts(utterance) else []
        if signal.kind is Kind.RESUMED:
            return self._go_on(utterance)
        self._current = None
        utterance.loudest = self._far.loudest
        utterance.voiced_frames = self._endpointer.voiced_frames
        utterance.hesitation = self._endpointer.hesitation
        self._far.ended()
        if signal.kind is Kind.DISCARDED:
            return self._discard(utterance)
        return self._end_utterance(utterance, signal.at_samples)

    def _begin_utterance(self, start: int) -> list[Output]:
        self._newest += 1
        first = self._first_sample(start)
        partial = PartialText(self.language, first)
        utterance = Utterance(self._newest, self.language, first, first, partial)
        utterance.next_partial = start + _FIRST_PARTIAL_SAMPLES
        utterance.speech = [1.0] * ((self._tape.end - first) // FRAME_SAMPLES)
        if self.foresight is not None:
            self.foresight.begin()
        self._utterances[utterance.number] = self._current = utterance
        return [self._event(TranscriptEvent.SPEECH_STARTED, utterance, start)]

    def _first_sample(self, start: int) -> int:
        """Of an utterance whose speech begins at `start`."""
        lead = self._lead_samples
        first = start - lead
        if lead > _LEAD_SAMPLES:  # what was said before is no part of it
            first = min(max(first, self._said_until), start - _LEAD_SAMPLES)
        if self._cut_at == self._tape.start == 0:
            return first  # before the stream was silence, without which a word may be missed
        return max(first, self._cut_at, self._tape.start)

    @property
    def _lead_samples(self) -> int:
        return self._endpointer.rules.lead_frames * FRAME_SAMPLES

    def _go_on(self, utterance: Utterance) -> list[Output]:
        utterance.paused = False
        utterance.look = None
        outputs: list[Output] = []
        utterance.next_partial = self._tape.end + _PARTIAL_EVERY_SAMPLES
        if utterance.announced:
            # Withdraws the announcement at once; nothing is known yet of what follows.
            outputs.append(
                self._event_with_text(TranscriptEvent.PARTIAL, utterance, utterance.whole())
            )
        pause = self._tape.end - utterance.speech_end
        long = utterance.speech_end - utterance.piece_start >= _SETTLED_SAMPLES
        overdue = self._tape.end - utterance.piece_start >= LONGEST_PIECE_SAMPLES
        if pause >= _SETTLING_PAUSE_SAMPLES and (long or overdue):
            self._leave_behind(utterance)
        elif utterance.text is None:
            outputs.append(Requeue(self._pause_key(utterance), None))
        outputs.append(Requeue(self._opinions, None))
        utterance.text = None
        return outputs

    def _leave_behind(self, utterance: Utterance) -> None:
        """What was said before the pause that is over now."""
        said = utterance.partial.text if utterance.text is None else utterance.whole().text
        if utterance.text is None:
            utterance.settle_pauses.add(utterance.pause)
        else:
            utterance.settle(utterance.text)
        start = utterance.speech_end
        if self._tape.end - start >= _LONG_PAUSE_SAMPLES:
            start = self._tape.end - _LEAD_SAMPLES
            utterance.partial.leave_all(start, said)
        self._begin_piece(utterance, start)

    def _end_utterance(self, utterance: Utterance, speech_end: int) -> list[Output]:
        utterance.ended_at = self._tape.end
        utterance.speech_end = self._said_until = speech_end
        if utterance.text is not None:
            return self._finalise(utterance)
        if utterance.paused:
            # What was left behind at earlier pauses is a part of it, and stays in front.
            pauses = [*sorted(utterance.settle_pauses), utterance.pause]
            return [Requeue((self, utterance.number, k), Order.FINAL) for k in pauses]
        # The sound stopped or became too long in the middle of speech.
        self._cut_at = speech_end
        utterance.pause += 1
        utterance.finished = 1.0
        return [self._ask_recogniser(utterance, Purpose.PAUSE)]

    def _weigh_pause(self, utterance: Utterance) -> list[Output]:
        """What follows from the pause's text and the turn detector's opinion, once known."""
        if utterance.text is None:
            return []
        whole = utterance.whole()
        if not whole.text:
            # Not a word so far. Nobody waits for the end of a cough, but a first word may
            # have been too short to be understood.
            return self._heed(self._endpointer.judge(_WORDLESS_FINISHED))
        odds = finished_odds(whole.text, whole.language)
        opinion, outputs = utterance.end_of_turn, list[Output]()
        judged = opinion is not None or not self._opinion_tells(odds, whole)
        if not judged:
            outputs.append(self._ask_detector(utterance))
        utterance.finished = self._fused(0.5 if opinion is None else opinion, odds, whole)
        # An answer can be prepared to words that may be all, whatever the intonation will say.
        if not utterance.announced and (judged or odds >= _MAYBE_ALL):
            utterance.announced = True
            outputs.append(self._event_with_text(TranscriptEvent.PAUSED, utterance, whole))
        if judged:
            question = asks(whole.text, whole.language)
            outputs += self._heed(self._endpointer.judge(utterance.finished, asks=question))
        return outputs

    def _opinion_tells(self, odds: float, whole: Transcript) -> bool:
        """Whether the turn detector could change how long a pause behind such words is waited out.

        Where it could not it is not asked: the language model has the processor for itself.
        """
        least, most = (self._fused(opinion, odds, whole) for opinion in (0.0, 1.0))
        question = asks(whole.text, whole.language)
        return self._endpointer.wait_differs(least, most, asks=question)

    def _fused(self, opinion: float, odds: float, whole: Transcript) -> float:
        """Probability that `whole` is all, as far as words, intonation and what was asked tell."""
        unasked = self._endpointer.rules.asked is False and states(whole.text, whole.language)
        return fused(opinion, odds, whole.language, unprompted=unasked and odds > 0)

    def _doubts(self, utterance: Utterance) -> bool:
        """Whether the turn detector is worth asking again, in a silence that has grown."""
        whole = utterance.whole()
        if utterance.text is None or not whole.text:
            return True
        odds = finished_odds(whole.text, whole.language)
        return odds > RULED_OUT and self._opinion_tells(odds, whole)

    def _finalise(self, utterance: Utterance) -> list[Output]:
        whole = utterance.whole()
        if not whole.text:
            return self._discard(utterance)
        self._far.learn(utterance.loudest, utterance.voiced_frames)
        del self._utterances[utterance.number]
        self._note_hesitation(utterance)
        return [self._event_with_text(TranscriptEvent.FINAL, utterance, whole)]

    def _note_hesitation(self, utterance: Utterance) -> None:
        if self._endpointer.rules.answered is None:
            self._endpointer.habit.learn(utterance.hesitation)
            return
        self._unjudged[utterance.number] = utterance.hesitation
        if len(self._unjudged) > _MOST_UNJUDGED:
            del self._unjudged[min(self._unjudged)]

    def _discard(self, utterance: Utterance) -> list[Output]:
        del self._utterances[utterance.number]
        unwanted = (self._looks, self._opinions, self._pause_key(utterance))
        event = self._event(TranscriptEvent.DISCARDED, utterance, self._tape.end)
        return [event, *(Requeue(key, None) for key in unwanted)]

    def _take_look(
        self, utterance: Utterance, work: Transcribe, text: Transcript, cost_s: float
    ) -> list[Output]:
        pace = _PARTIAL_EVERY_SAMPLES if text.text else _AGAIN_SAMPLES
        young = not text.text and self._tape.end - utterance.first < _YOUNG_SAMPLES
        duty = _FIRST_WORDS_DUTY if young else _PARTIAL_DUTY
        duty = min(duty, (2 if young else 1) * _PARTIALS_TOGETHER / max(1, self.speaking))
        rest = max(pace, int(cost_s * (1 / duty - 1) * SAMPLE_RATE_HZ))
        utterance.next_partial = self._tape.end + rest
        utterance.text_cost_s = cost_s
        partial = utterance.partial
        if work.purpose is Purpose.HEAD:
            partial.leave_head(work.start_samples, work.end_samples, text.text)
            return []
        current = partial.take_look(work.start_samples, work.end_samples, text.text)
        if not (current and partial.text) or utterance.ended_at is not None or utterance.paused:
            return []
        language = text.language or utterance.language
        spoken = Transcript(partial.text, language, hum_odds=text.hum_odds)
        if self.foresight is None:
            return [self._event_with_text(TranscriptEvent.PARTIAL, utterance, spoken)]
        behind = (self._tape.end - work.end_samples) // FRAME_SAMPLES
        self.foresight.looked(partial.text, language, behind)
        utterance.look = spoken
        return [self._tell_look(utterance, spoken, self._chance)]

    @property
    def _chance(self) -> float:
        """That the words of the newest look are all; 0 where that is not told now."""
        if self.foresight is None or not self.foresees:
            return 0.0
        return self.foresight.probability

    def _tell_look(self, utterance: Utterance, look: Transcript, chance: float) -> Heard:
        utterance.foreseen = chance
        told = self._event_with_text(TranscriptEvent.PARTIAL, utterance, look)
        return replace(told, end_of_turn=chance)

    def _foresee(self) -> list[Output]:
        """Nothing follows the words of the newest look: they may be all, and are told as such."""
        utterance = self._current
        if utterance is None or utterance.look is None or utterance.announced:
            return []
        chance = self._chance
        if chance < max(_LIKELY, utterance.foreseen + _LIKELIER):
            return []
        return [self._tell_look(utterance, utterance.look, chance)]

    def _partial_if_due(self) -> list[Output]:
        utterance = self._current
        if (
            not self._interim_results
            or utterance is None
            or self._transcribing
            or self._endpointer.silent_frames
            or self._endpointer.quiet_frames
            or self._tape.end < utterance.next_partial
        ):
            return []
        partial = utterance.partial
        if not partial.is_full(self._tape.end):
            return [self._ask_recogniser(utterance, Purpose.PARTIAL)] if self.live else []
        first = partial.start + FEWEST_HEAD_SAMPLES
        # Looks that more urgent work went before have let the window grow.
        last = min(self._tape.end - FEWEST_TAIL_SAMPLES, partial.start + LONGEST_PIECE_SAMPLES)
        cut = self._tape.quietest(first, last)
        return [self._ask_recogniser(utterance, Purpose.HEAD, cut)]

    def _cut_if_long(self) -> list[Output]:
        """Leave a piece behind before it gets longer than a recogniser takes."""
        utterance = self._current
        if utterance is None or utterance.paused:
            return []
        if self._tape.end - utterance.piece_start < LONGEST_PIECE_SAMPLES:
            return []
        n_frames = len(utterance.speech)
        at = quietest(utterance.speech, n_frames - _CUT_WINDOW_FRAMES, n_frames)
        cut = self._tape.end - (n_frames - at) * FRAME_SAMPLES
        work = self._ask_recogniser(utterance, Purpose.SETTLE, cut)
        self._begin_piece(utterance, cut)
        return [work]

    def _begin_piece(self, utterance: Utterance, start: int) -> None:
        utterance.piece_start = start
        frames = (self._tape.end - start) // FRAME_SAMPLES
        utterance.speech = utterance.speech[len(utterance.speech) - frames :]

    def _ask_recogniser(
        self, utterance: Utterance, purpose: Purpose, end: int | None = None
    ) -> Transcribe:
        self._transcribing += 1
        look = purpose.is_look
        start = utterance.partial.start if look else utterance.piece_start
        return Transcribe(
            utterance.number,
            purpose,
            utterance.pause if purpose is Purpose.PAUSE else 0,
            self._tape.between(start, self._tape.end if end is None else end),
            start,
            utterance.language,
            utterance.partial.draft if look else utterance.draft(),
            self._urgency(utterance, purpose),
        )

    def _urgency(self, utterance: Utterance, purpose: Purpose) -> Urgency:
        looks = self._looks
        if purpose.is_look:
            return Urgency(Order.PARTIAL, key=looks, supersedes=looks, owner=id(self))
        # A piece left behind is a part of the final text: what follows must not overtake it.
        final = purpose is Purpose.SETTLE or utterance.ended_at is not None
        order = Order.FINAL if final and not utterance.settle_pauses else Order.PAUSE
        key = self._pause_key(utterance) if purpose is Purpose.PAUSE else None
        return Urgency(order, key=key, supersedes=looks, owner=id(self))

    def _pause_key(self, utterance: Utterance) -> Hashable:
        """Of the question for the text of the present pause."""
        return self, utterance.number, utterance.pause

    def _ask_detector(self, utterance: Utterance) -> Judge:
        # What was said before this utterance is not its intonation.
        first = max(utterance.first, self._tape.end - WINDOW_SAMPLES)
        pcm = self._tape.between(first, self._tape.end)
        heard = np.concatenate([pcm, _JUDGED_SILENCE])
        urgency = Urgency(key=self._opinions, supersedes=self._opinions, owner=id(self))
        return Judge(utterance.number, utterance.pause, heard, urgency)

    def _event(self, event: TranscriptEvent, utterance: Utterance, at: int) -> Heard:
        voiced = self._endpointer.voiced_frames
        return Heard(event, utterance.number, at, voiced_frames=voiced)

    def _event_with_text(
        self, event: TranscriptEvent, utterance: Utterance, text: Transcript
    ) -> Heard:
        now = self._tape.end
        final = event is TranscriptEvent.FINAL
        done = final or event is TranscriptEvent.PAUSED
        return Heard(
            event,
            utterance.number,
            at_samples=now,
            text=text.text,
            language=text.language,
            end_of_turn=utterance.finished if done else 0.0,
            segments=text.segments if final else (),
            speech_end_samples=utterance.speech_end if done else 0,
            late_samples=0 if utterance.ended_at is None else now - utterance.ended_at,
            stable_characters=len(text.text if final else utterance.partial.stable),
            voiced_frames=self._endpointer.voiced_frames,
            compute_s=utterance.text_cost_s + (utterance.judge_cost_s if done else 0.0),
            hum_odds=text.hum_odds,
        )

    def _forget(self) -> None:
        kept = _LEAD_SAMPLES + max(_LEAD_SAMPLES, self._lead_samples)
        if self._current is not None:
            first = min(self._current.piece_start, self._current.partial.start)
            kept = max(WINDOW_SAMPLES, self._tape.end - first)
        self._tape.forget(self._tape.end - kept)
