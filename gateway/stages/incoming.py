"""Chunks from the bus on their way into the pure parts."""

from __future__ import annotations

import logging
from collections import deque
from typing import Any

from gateway.api.hub import EventHub, Overheard, Voiced
from gateway.ledger.stopwatch import Stopwatch
from gateway.playout.pacing import RATE_HZ
from gateway.playout.pictures import Picture
from gateway.playout.playout import Playout
from gateway.playout.sound import VoiceResampler
from gateway.stages.ears import Ears
from gateway.talk.actions import Action
from gateway.talk.conversation import Conversation
from gateway.talk.history import SpokenMark
from gateway.talk.interruption import Interruption
from gateway.talk.microphone import RATE_HZ as MIC_RATE_HZ
from gateway.talk.microphone import Microphone
from gateway.talk.turn import Turn
from gateway.talk.words import is_misheard_hum
from visavis.wire.media import (
    MelChunk,
    PcmChunk,
    TokenChunk,
    TranscriptChunk,
    TranscriptEvent,
    VideoChunk,
)

log = logging.getLogger(__name__)

# How a hum is written where the recogniser wrote words.
HUM = "Mm-hm."
_GOES_ON_BELOW = 0.35
# What was heard so long ago still shapes the lips; and more than this no voice runs ahead.
_SHAPES_LIPS_S, _MOST_UNHEARD_S = 1.0, 30.0
MAX_FPS = 120
MAX_SIDE_PIXELS = 4096


def heard(
    conversation: Conversation, chunk: TranscriptChunk, now: float, began_s: float | None = None
) -> list[Action]:
    """What follows from an event in the visitor's speech. began_s: when we had its first sample,
    where it begins; None: now.
    """
    utterance, text, event = chunk.utterance, chunk.text, chunk.event
    doubt = conversation.doubt
    if doubt is not None and doubt.utterance == utterance and doubt.over_answer:
        breaks_off = chunk.end_of_turn_probability < _GOES_ON_BELOW
        # A "yes" sounds like a listener's; to a question of ours it is the answer.
        odds = None if doubt.asked(conversation.turn) else chunk.hum_odds
        if _is_hum(chunk, odds, goes_on=breaks_off and event is TranscriptEvent.FINAL):
            text = HUM
        elif event is TranscriptEvent.PAUSED and _is_hum(chunk, odds, goes_on=breaks_off):
            # A hum, or "tell me" with the question behind it: silent until one of them is known.
            event = TranscriptEvent.PARTIAL
    match event:
        case TranscriptEvent.SPEECH_STARTED:
            return conversation.speech_started(utterance, now, began_s)
        case TranscriptEvent.PARTIAL:
            return conversation.partial(utterance, text, chunk.end_of_turn_probability, now)
        case TranscriptEvent.PAUSED:
            return conversation.paused(utterance, text, chunk.end_of_turn_probability, now)
        case TranscriptEvent.FINAL:
            return conversation.final(utterance, text, now)
        case TranscriptEvent.DISCARDED:
            return conversation.discarded(utterance, now)


def _is_hum(chunk: TranscriptChunk, hum_odds: float | None, *, goes_on: bool) -> bool:
    """Of speech over an answer. goes_on: its words cannot be all, and there is a pause."""
    return is_misheard_hum(
        chunk.text,
        voiced_ms=chunk.voiced_ms,
        hum_odds=hum_odds,
        goes_on=goes_on,
        language=chunk.language,
    )


def picture_of(chunk: VideoChunk) -> Picture | None:
    """The chunk as playout wants it; None if it cannot be timed or written to a file."""
    if not 1 <= chunk.fps <= MAX_FPS:
        log.warning("video: a chunk with %d frames a second is dropped", chunk.fps)
        return None
    if not (1 <= chunk.width <= MAX_SIDE_PIXELS and 1 <= chunk.height <= MAX_SIDE_PIXELS):
        log.warning("video: a chunk of %d x %d pixels is dropped", chunk.width, chunk.height)
        return None
    return Picture(
        turn=chunk.place.turn,
        index=chunk.place.pts,
        live=chunk.live,
        codec=chunk.codec,
        keyframe=chunk.keyframe,
        width=chunk.width,
        height=chunk.height,
        fps=chunk.fps,
        payload=chunk.payload,
        last=chunk.place.last,
        number=chunk.number,
        motion_frame=chunk.motion_frame,
        loop=chunk.loop,
        at_rest=chunk.at_rest,
        listening=chunk.listening,
    )


def marks_of(chunk: PcmChunk) -> list[SpokenMark]:
    """Where words of the turn's text end, in seconds of its voice."""
    rate = chunk.sample_rate_hz
    return [SpokenMark(m.chars, m.samples / rate, m.pause) for m in chunk.marks]


def played(turn: Turn, samples: int) -> tuple[int, int] | None:
    """`samples` that have left at the playout's rate, in the voice's own rate, and that rate."""
    if turn.resampler is None:
        return None
    rate_hz = turn.resampler.sample_rate_hz
    return samples * rate_hz // RATE_HZ, rate_hz


class Unheard:
    """Sound of the turn that is open and may not have been shown yet: a face that takes over in its
    midst is told.
    """

    def __init__(self) -> None:
        self._turn = 0
        self._mel: deque[MelChunk] = deque()
        self._voice: deque[PcmChunk] = deque()

    def add(self, chunk: MelChunk | PcmChunk, heard_s: float) -> None:
        """More of it. heard_s: so much of the turn's voice has been heard."""
        if chunk.place.turn != self._turn:
            self.clear()
            self._turn = chunk.place.turn
        kept: deque[Any] = self._mel if isinstance(chunk, MelChunk) else self._voice
        while kept and kept[-1].place.pts >= chunk.place.pts:
            kept.pop()  # another voice says it again
        kept.append(chunk)
        while len(kept) > 1 and kept[1].start_s < max(
            heard_s - _SHAPES_LIPS_S, chunk.start_s - _MOST_UNHEARD_S
        ):
            kept.popleft()

    def of(self, turn: int) -> tuple[tuple[MelChunk, ...], tuple[PcmChunk, ...]]:
        """What is known of `turn`."""
        return (tuple(self._mel), tuple(self._voice)) if turn == self._turn else ((), ())

    def clear(self) -> None:
        """The turn is over."""
        self._mel.clear()
        self._voice.clear()


class Incoming:
    """Notes what comes for one session where it belongs, and tells what follows.

    microphone: tells when a sample of it came.
    """

    def __init__(
        self,
        conversation: Conversation,
        playout: Playout,
        interruption: Interruption,
        stopwatch: Stopwatch,
        microphone: Microphone,
        ears: Ears,
        hub: EventHub,
        unheard: Unheard,
    ) -> None:
        self._conversation = conversation
        self._playout = playout
        self._interruption = interruption
        self._stopwatch = stopwatch
        self._microphone = microphone
        self._ears = ears
        self._hub = hub
        self._unheard = unheard

    def transcript(self, chunk: TranscriptChunk, now: float) -> list[Action]:
        """The visitor's speech goes on."""
        if not self._ears.count(chunk):
            return []
        self._tell_followers(chunk)
        ended = chunk.speech_end_samples
        end_s = self._microphone.arrival_s(ended) if ended else None
        self._stopwatch.heard(chunk, end_s or now)
        began_s = None
        if chunk.event is TranscriptEvent.SPEECH_STARTED:
            began_s = self._microphone.arrival_s(chunk.place.pts)
            self._interruption.speech_began(began_s, now)
        actions = heard(self._conversation, chunk, now, began_s)
        return [*actions, *self._interruption.judge(self._conversation, now)]

    def token(self, chunk: TokenChunk, now: float) -> list[Action]:
        """A piece of an answer's text."""
        place, turn = chunk.place, self._conversation.current(chunk.place.turn)
        if turn is None:
            return []
        if turn.text_run.lacks(chunk.run, place.seq):
            return self._conversation.text_missed(place.turn)
        if not turn.text_run.take(chunk.run, place.seq):
            return []
        self._stopwatch.token(chunk, now)
        if chunk.block:
            about = (chunk.block, chunk.language)
            return self._conversation.shown(place.turn, *about, chunk.text, now)
        return self._conversation.token(place.turn, chunk.text, last=place.last, now=now)

    def voice(self, chunk: PcmChunk, now: float) -> list[Action]:
        """A piece of an answer's voice, for playout at its rate."""
        turn, last = self._conversation.current(chunk.place.turn), chunk.place.last
        if turn is None:
            return []
        if turn.source != "brought":
            if turn.voice_run.lacks(chunk.run, chunk.place.seq):
                return self._conversation.voice_missed(turn.number)
            if not turn.voice_run.take(chunk.run, chunk.place.seq):
                return []
        if turn.resampler is None:
            turn.resampler = VoiceResampler(chunk.sample_rate_hz)
        if chunk.sample_rate_hz != turn.resampler.sample_rate_hz:
            log.warning("voice: a chunk of another rate than its turn's is dropped")
            return []
        self._unheard.add(chunk, turn.played_s)
        pcm = turn.resampler.resample(chunk.place.pts, chunk.pcm, last=last)
        self._playout.push_voice(turn.number, pcm, last=last)
        self._stopwatch.voice(chunk, now)
        marks, seconds = marks_of(chunk), len(chunk.pcm) / chunk.sample_rate_hz
        self._hub.overheard(Voiced(turn.number, *turn.new_to_followers(pcm, marks), last))
        return self._conversation.voice(turn.number, seconds, marks, last=last, now=now)

    def mel(self, chunk: MelChunk) -> None:
        """What a face reads of the voice: kept for another one, should this one be lost."""
        turn = self._conversation.current(chunk.place.turn)
        if turn is not None and chunk.run == turn.voice_run.number:
            self._unheard.add(chunk, turn.played_s)

    def _tell_followers(self, chunk: TranscriptChunk) -> None:
        match chunk.event:
            case TranscriptEvent.SPEECH_STARTED:
                at_ms = chunk.place.pts * 1000 // MIC_RATE_HZ
                self._hub.overheard(Overheard("began", chunk.utterance, at_ms))
            case TranscriptEvent.FINAL | TranscriptEvent.DISCARDED:
                at_ms = chunk.speech_end_samples * 1000 // MIC_RATE_HZ
                self._hub.overheard(Overheard("ended", chunk.utterance, at_ms, chunk.words))

    def video(self, chunk: VideoChunk, now: float) -> Picture | None:
        """A picture of the face, for playout; None if it cannot be used."""
        picture = picture_of(chunk)
        if picture is not None:
            self._stopwatch.picture(chunk.place, picture, now)
            self._playout.push_picture(picture)
        return picture
