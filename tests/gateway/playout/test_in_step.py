"""Face and playout together on a clock of their own: what a stall does to voice and lips."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest

from gateway.playout.pacing import RATE_HZ, TICK_S
from gateway.playout.pictures import Picture
from gateway.playout.playout import Playout, PlayoutEvent
from services.face.draw.animator import Animator
from services.face.draw.pose import Frame
from services.face.lips.lips import DurationLips
from visavis.wire.media import MelChunk, PhonemeSpan, Place, VideoCodec

FPS, STEP_S = 25, 0.005
VOICE_S = 6.0


def lips() -> DurationLips:
    """Of a voice of VOICE_S, known as a whole."""
    spans = tuple(PhonemeSpan("AA1", i * 2400, 2400) for i in range(round(VOICE_S * 10)))
    mel = np.zeros((round(VOICE_S * 80), 80), np.float32)
    track = DurationLips(1 / FPS)
    track.add(MelChunk(Place("s", 1, 0, 0, last=True), 24_000, 300, mel, spans))
    return track


class Show:
    """A face that draws a frame in 5 ms, a bus, and a gateway that plays."""

    def __init__(self) -> None:
        self.now_s = 10.0
        self.animator = Animator(seed=1, fps=FPS)
        self.playout = Playout()
        self.playout.set_codecs({VideoCodec.H264})
        self.face_stalls = self.bus_stalls = False
        self.on_the_bus: deque[Frame] = deque()
        self.skews: list[tuple[float, float]] = []
        """When a picture of the turn left, and how late."""
        self.seen_s: list[float] = []
        """When any picture left."""
        self.sound: list[bool] = []
        self.events: list[str] = []
        self._steps = 0
        self._due_s = self.now_s + TICK_S

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds / STEP_S)):
            self._steps += 1
            self.now_s = 10.0 + self._steps * STEP_S
            if not self.face_stalls:
                frame = self.animator.next_frame(self.now_s)
                if frame is not None:
                    self.on_the_bus.append(frame)
            while self.on_the_bus and not self.bus_stalls:
                self.playout.push_picture(_picture(self.on_the_bus.popleft()))
            if self.now_s >= self._due_s:
                self._tick()

    def speak(self, *, held: bool = False) -> None:
        self.playout.open_turn(1, held=held)
        self.animator.advance(1, self.now_s, held=held)
        self.animator.speak_turn(1, lips(), self.now_s)
        self.playout.push_voice(1, np.full(round(VOICE_S * RATE_HZ), 9, np.int16), last=True)

    def confirm(self) -> None:
        self.playout.confirm(1)
        self.animator.played(1, 0.0, self.now_s)

    def _tick(self) -> None:
        tick = self.playout.tick()
        self._due_s += len(tick.pcm) / RATE_HZ
        self.sound.append(bool(tick.pcm.any()))
        self.events += [event.value for event, _ in tick.events]
        self.seen_s += [self.now_s] * len(tick.pictures)
        self.skews += [(self.now_s, p.skew_s) for p in tick.pictures if p.skew_s is not None]
        played = self.playout.played_samples
        if self.playout.playing and (self._steps // 4) % 5 == 0:
            self.animator.played(1, played / RATE_HZ, self.now_s)


def _picture(frame: Frame) -> Picture:
    return Picture(
        frame.turn, frame.index, frame.live, VideoCodec.H264, frame.restart, 64, 64, FPS,
        b"picture", frame.last,
    )  # fmt: skip


def test_undisturbed_every_picture_leaves_with_its_sound() -> None:
    show = Show()
    show.run(1.0)
    show.speak()
    show.run(VOICE_S + 0.5)
    late = np.abs([skew for _, skew in show.skews])
    assert len(late) == VOICE_S * FPS
    assert np.percentile(late, 99) <= 0.015
    assert show.events == [PlayoutEvent.STARTED, PlayoutEvent.FINISHED]


@pytest.mark.parametrize(("where", "stall_s"), [("face", 1.2), ("bus", 0.3)])
def test_a_stall_of_the_pictures_never_holds_up_the_sound(where: str, stall_s: float) -> None:
    show = Show()
    show.run(1.0)
    show.speak()
    show.run(2.0)
    setattr(show, f"{where}_stalls", True)
    show.run(1.0 + stall_s)  # beyond the second that the face is ahead
    setattr(show, f"{where}_stalls", False)
    ended_s = show.now_s
    show.run(1.5)
    spoken = show.sound[show.sound.index(True) :]
    assert all(spoken) and PlayoutEvent.UNDERRUN not in show.events
    back = [skew for at_s, skew in show.skews if at_s > ended_s + 0.2]
    assert np.abs(back).max() <= 0.015
    assert len(back) == pytest.approx(1.3 * FPS, abs=1)


def test_while_a_turn_is_held_the_face_goes_on_living() -> None:
    show = Show()
    show.run(1.0)
    show.speak(held=True)
    held_s = show.now_s
    show.run(0.8)
    shown = [at_s for at_s in show.seen_s if at_s > held_s]
    assert np.diff(shown).max() <= 0.061 and not show.skews
    show.confirm()
    confirmed_s = show.now_s
    show.run(1.0)
    assert show.events == [PlayoutEvent.STARTED]
    assert show.skews[0][0] - confirmed_s <= 0.03
    assert np.diff(show.seen_s).max() <= 0.061
