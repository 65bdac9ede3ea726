from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np
import pytest

from services.face.draw.animator import Animator
from services.face.draw.loop import listens_at, loop_frames
from services.face.draw.pose import POSE_INDEX, FacePose, Frame
from services.face.life.gaze import Phase
from services.face.life.motion import Motion
from services.face.lips.lips import DurationLips, SoundLips
from services.face.lips.visemes import LIP_COEFFICIENTS
from visavis.wire.idle_order import Listening, segment_of
from visavis.wire.media import MelChunk, PhonemeSpan, Place

RATE, HOP, FPS = 24_000, 300, 25
# A bilabial closure may take one frame; the rest of the mouth moves slower, the head much slower.
LARGEST_STEP = {
    "jaw_open": 0.4,
    "mouth_wide": 0.4,
    "pucker": 0.5,
    "smile": 0.03,
    "yaw": 0.012,
    "pitch": 0.02,
    "roll": 0.012,
    "shift_x": 0.002,
    "shift_y": 0.002,
    "breath": 0.09,
    "brow_raise": 0.15,
}


def mel_chunks(sounds: list[tuple[str, float]], chunk_s: float = 0.2) -> list[MelChunk]:
    """Chunks of a turn whose phonemes are (symbol, seconds)."""
    spans, start_s = [], 0.0
    for symbol, duration_s in sounds:
        spans.append(PhonemeSpan(symbol, round(start_s * RATE), round(duration_s * RATE)))
        start_s += duration_s
    hops = round(start_s * RATE / HOP)
    step = round(chunk_s * RATE / HOP)
    chunks = []
    for seq, first in enumerate(range(0, hops, step)):
        end = min(hops, first + step)
        mel = np.random.default_rng(seq).normal(size=(end - first, 80)).astype(np.float32)
        inside = tuple(s for s in spans if first * HOP <= s.start_samples < end * HOP)
        place = Place("s", 1, seq, first, last=end == hops)
        chunks.append(MelChunk(place, RATE, HOP, mel, inside))
    return chunks


SENTENCE = [
    ("sil", 0.1),
    *[(s, 0.09) for s in "M AA1 P L IY1 F UW1 B AY1 M EH1 N".split()],
    ("sil", 0.2),
    *[(s, 0.1) for s in "W AO1 T ER0 V OW1 L UW1 M".split()],
    ("sil", 0.15),
]
SENTENCE_S = sum(duration for _, duration in SENTENCE)
SENTENCE_FRAMES = int(np.ceil(SENTENCE_S * FPS - 1e-6))


def lips_of(chunks: list[MelChunk]) -> DurationLips:
    lips = DurationLips(1 / FPS)
    for chunk in chunks:
        lips.add(chunk)
    return lips


class Viewer:
    """A gateway that plays what it gets: live frames at once, spoken ones with their voice."""

    def __init__(self, animator: Animator) -> None:
        self.animator = animator
        self.now_s = 100.0
        self.shown: list[Frame] = []
        self.frames: list[Frame] = []
        self.waiting: deque[Frame] = deque()
        self.playing: tuple[int, float] | None = None
        self.lead: list[float] = []
        self._ticks = 0

    def run(self, seconds: float, each: Callable[[], None] = lambda: None) -> None:
        for _ in range(round(seconds * 100)):
            self._ticks += 1
            self.now_s = 100.0 + self._ticks / 100
            each()
            if self.playing is not None and self._ticks % 4 == 0:
                turn, since_s = self.playing
                self.animator.played(turn, self.now_s - since_s, self.now_s)
            while (frame := self.animator.next_frame(self.now_s)) is not None:
                self.frames.append(frame)
                self.waiting.append(frame)
                if not frame.live:
                    self.lead.append(frame.index / FPS - self._played_s())
            self._show()

    def prepare(self, turn: int) -> None:
        """What the turn says is there; nobody plays it yet."""
        self.animator.speak_turn(turn, lips_of(mel_chunks(SENTENCE)), self.now_s)

    def speak(self, turn: int) -> None:
        self.prepare(turn)
        self.play(turn)

    def play(self, turn: int) -> None:
        self.playing = (turn, self.now_s)
        self.animator.played(turn, 0.0, self.now_s)

    def interrupt(self, turn: int) -> None:
        self.animator.advance(turn, self.now_s)
        self.waiting.clear()
        self.playing = None

    def pause(self) -> float:
        """Seconds of the turn that have been played."""
        assert self.playing is not None
        played_s = self._played_s()
        self.animator.played(self.playing[0], played_s, self.now_s, paused=True)
        self.waiting.clear()
        self.playing = None
        return played_s

    def resume(self, turn: int, played_s: float) -> None:
        self.playing = (turn, self.now_s - played_s)
        self.animator.played(turn, played_s, self.now_s)

    def _show(self) -> None:
        while self.waiting:
            frame = self.waiting[0]
            early = self.playing is None or frame.index / FPS > self._played_s() + 1e-6
            if not frame.live and early:
                break
            self.shown.append(self.waiting.popleft())

    def _played_s(self) -> float:
        return self.now_s - self.playing[1] if self.playing else 0.0

    def poses(self) -> np.ndarray:
        return np.stack([frame.pose.vector() for frame in self.shown])


def assert_smooth(poses: np.ndarray) -> None:
    for name, largest in LARGEST_STEP.items():
        step = np.abs(np.diff(poses[:, POSE_INDEX[name]])).max()
        assert step <= largest, f"{name} jumps by {step:.3f}"


def mouth(frame: Frame) -> float:
    return max(float(frame.pose.vector()[POSE_INDEX[name]]) for name in LIP_COEFFICIENTS)


def test_idle_frames_come_at_the_frame_rate_and_the_first_stands_alone() -> None:
    viewer = Viewer(Animator(seed=1))
    viewer.run(4.0)
    assert [f.index for f in viewer.frames] == list(range(100))
    assert all(f.live and f.turn == 0 for f in viewer.frames)
    assert [f.restart for f in viewer.frames] == [True] + [False] * 99
    assert max(mouth(f) for f in viewer.frames) == 0
    assert_smooth(viewer.poses())


def test_delay_tells_when_the_next_idle_frame_is_due() -> None:
    animator = Animator(seed=1)
    assert animator.delay_s(5.0) == 0
    assert animator.next_frame(5.0) is not None
    assert animator.next_frame(5.01) is None
    assert animator.delay_s(5.01) == pytest.approx(0.03)


def test_a_late_loop_skips_idle_frames_instead_of_running_behind() -> None:
    animator = Animator(seed=1)
    first = animator.next_frame(0.0)
    second = animator.next_frame(0.5)
    assert first is not None and second is not None
    assert animator.next_frame(0.5) is None
    assert animator.late_live == 11
    assert_smooth(np.stack([first.pose.vector(), second.pose.vector()]))
    assert animator.delay_s(0.5) == pytest.approx(0.02)


def test_frames_whose_voice_was_heard_are_skipped_but_not_the_last() -> None:
    animator = Animator(seed=1)
    animator.speak_turn(1, lips_of(mel_chunks(SENTENCE)), 0.0)
    animator.played(1, 0.0, 0.0)
    first = animator.next_spoken(0.0)
    animator.played(1, 1.0, 1.0)
    second = animator.next_spoken(1.0)
    animator.played(1, 60.0, 2.0)
    third = animator.next_spoken(2.0)
    assert first is not None and second is not None and third is not None
    assert [first.index, second.index, third.index] == [0, 25, SENTENCE_FRAMES - 1]
    assert third.last and animator.late == 24 + SENTENCE_FRAMES - 1 - 26
    assert animator.next_spoken(2.0) is None


def test_idle_to_speech_to_idle_without_a_jump() -> None:
    viewer = Viewer(Animator(seed=1))
    viewer.run(2.0)
    viewer.speak(1)
    viewer.run(5.0)
    spoken = [f for f in viewer.frames if f.turn == 1]
    assert [f.index for f in spoken] == list(range(SENTENCE_FRAMES))
    assert [f.last for f in spoken] == [False] * (SENTENCE_FRAMES - 1) + [True]
    assert [f.restart for f in spoken] == [True] + [False] * (SENTENCE_FRAMES - 1)
    assert max(mouth(f) for f in spoken) == 1.0
    assert viewer.shown[-1].live and mouth(viewer.shown[-1]) == 0
    assert_smooth(viewer.poses())


@pytest.mark.parametrize("paused_s", [0.1, 3.0])
def test_a_pause_rests_the_face_and_an_earlier_frame_follows_it(paused_s: float) -> None:
    viewer = Viewer(Animator(seed=1))
    viewer.run(1.0)
    viewer.speak(1)
    viewer.run(1.0)
    assert viewer.pause() == pytest.approx(1.0)
    before = len(viewer.frames)
    viewer.run(paused_s)
    rest = viewer.frames[before:]
    assert all(f.live for f in rest) and rest[0].restart and rest[-1].turn == 0
    assert len(rest) == pytest.approx(paused_s * FPS, abs=1)
    viewer.resume(1, 0.8)
    before = len(viewer.frames)
    viewer.run(3.0)
    again = [f for f in viewer.frames[before:] if not f.live]
    assert [f.index for f in again] == list(range(20, SENTENCE_FRAMES))
    assert again[0].restart and again[-1].last
    assert viewer.shown[-1].live and mouth(viewer.shown[-1]) == 0
    assert_smooth(viewer.poses())


def test_a_pause_behind_the_last_frame_can_be_gone_back_from() -> None:
    viewer = Viewer(Animator(seed=1))
    viewer.speak(1)
    viewer.run(SENTENCE_S - 0.1)  # all frames are made
    viewer.pause()
    viewer.run(0.5)
    viewer.resume(1, SENTENCE_S - 0.5)
    before = len(viewer.frames)
    viewer.run(1.0)
    assert [f.last for f in viewer.frames[before:] if not f.live][-1]


def test_frames_wait_for_lips_that_are_not_known() -> None:
    viewer = Viewer(Animator(seed=1))
    chunks = mel_chunks(SENTENCE)
    lips = lips_of(chunks[:3])
    viewer.animator.speak_turn(1, lips, viewer.now_s)
    viewer.play(1)
    viewer.run(0.2)
    made = [f for f in viewer.frames if f.turn == 1]
    assert made[-1].index / FPS <= 0.6 - 0.12 + 1e-6
    viewer.run(0.28)
    viewer.playing = None  # the voice has run dry with the lips
    viewer.run(1.2)
    assert viewer.frames[-1].live and mouth(viewer.frames[-1]) == 0
    assert len([f for f in viewer.frames if f.turn == 1]) == len(made)
    viewer.playing = (1, viewer.now_s - len(made) / FPS)
    for chunk in chunks[3:]:
        lips.add(chunk)
    viewer.run(4.0)
    assert [f.index for f in viewer.frames if f.turn == 1] == list(range(SENTENCE_FRAMES))
    assert_smooth(viewer.poses())


def test_credit_keeps_the_lead_over_the_clock() -> None:
    long = [(s, 0.1) for s in "AA1 M IY1 F".split()] * 20
    viewer = Viewer(Animator(seed=1, lead_s=1.0, first_lead_s=0.4))
    viewer.animator.speak_turn(1, lips_of(mel_chunks(long)), viewer.now_s)
    viewer.run(0.5)
    assert max(f.index for f in viewer.frames) < 0.4 * FPS
    viewer.play(1)
    viewer.run(6.0)
    assert 0.9 < max(viewer.lead) <= 1.0


def test_a_frame_says_when_it_is_due() -> None:
    animator = Animator(seed=1)
    live = animator.next_frame(10.0)
    assert live is not None and live.due_s == 10.0
    animator.speak_turn(1, lips_of(mel_chunks(SENTENCE)), 10.02)
    first = [frame for frame in (animator.next_frame(10.03) for _ in range(3)) if frame]
    assert [frame.due_s for frame in first] == pytest.approx([10.03, 10.07, 10.11])
    animator.played(1, 0.2, 10.5)
    frame = animator.next_frame(10.52)
    assert frame is not None and frame.due_s == pytest.approx(10.5 + frame.index / FPS - 0.2)


def test_no_live_frame_comes_between_spoken_ones_that_are_not_shown_yet() -> None:
    viewer = Viewer(Animator(seed=1))
    viewer.prepare(1)
    viewer.run(0.3)
    viewer.play(1)
    viewer.run(4.0)
    lives = [i for i, f in enumerate(viewer.frames) if f.live]
    assert min(lives) == SENTENCE_FRAMES


def test_interruption_goes_on_from_the_screen_and_shuts_the_mouth() -> None:
    viewer = Viewer(Animator(seed=1))
    viewer.run(1.0)
    viewer.speak(1)
    viewer.run(0.55)  # in the middle of an open vowel
    assert mouth(viewer.shown[-1]) > 0.3
    made = len(viewer.frames)
    viewer.interrupt(2)
    viewer.run(1.0)
    after = viewer.frames[made:]
    assert after[0].restart and after[0].live and not any(f.restart for f in after[1:])
    assert mouth(after[0]) > 0.1
    assert mouth(after[2]) == pytest.approx(0, abs=1e-6)
    assert_smooth(viewer.poses())


@pytest.mark.parametrize("held", [False, True])
def test_a_turn_thrown_away_before_it_was_played_leaves_no_trace(held: bool) -> None:
    viewer = Viewer(Animator(seed=1))
    viewer.run(1.0)
    viewer.animator.advance(1, viewer.now_s, held=held)
    viewer.prepare(1)
    viewer.run(0.1)
    viewer.interrupt(2)
    viewer.run(1.0)
    assert not any(f.turn == 1 for f in viewer.shown)
    assert max(mouth(f) for f in viewer.shown) == 0
    assert_smooth(viewer.poses())


def test_a_held_turn_leaves_the_face_alive_until_it_is_wanted_and_begins_without_a_jump() -> None:
    viewer = Viewer(Animator(seed=1))
    viewer.run(1.0)
    viewer.animator.advance(1, viewer.now_s, held=True)
    viewer.run(0.2)
    viewer.prepare(1)
    made = len(viewer.shown)
    viewer.run(0.8)
    assert len(viewer.shown) - made == pytest.approx(0.8 * FPS, abs=1)
    assert all(f.live for f in viewer.frames)
    viewer.play(1)
    viewer.run(0.01)
    first = next(f for f in viewer.frames if not f.live)
    assert (first.turn, first.index, first.restart) == (1, 0, True), "made at once"
    viewer.run(SENTENCE_S + 1.0)
    assert [f.index for f in viewer.shown if f.turn == 1] == list(range(SENTENCE_FRAMES))
    assert_smooth(viewer.poses())


def test_a_turn_wanted_before_its_lips_are_known_is_not_held() -> None:
    animator = Animator(seed=1)
    animator.advance(1, 0.0, held=True)
    animator.played(1, 0.0, 0.0)
    animator.speak_turn(1, lips_of(mel_chunks(SENTENCE)), 0.1)
    frame = animator.next_frame(0.1)
    assert frame is not None and frame.turn == 1


def test_the_next_turn_may_follow_an_interruption_at_once() -> None:
    viewer = Viewer(Animator(seed=1))
    viewer.speak(1)
    viewer.run(0.53)
    viewer.interrupt(2)
    viewer.animator.speak_turn(2, lips_of(mel_chunks(SENTENCE[3:])), viewer.now_s)
    viewer.play(2)
    viewer.run(4.0)
    assert [f.index for f in viewer.frames if f.turn == 2][:3] == [0, 1, 2]
    assert_smooth(viewer.poses())


def test_a_clock_that_is_heard_before_the_mel_counts() -> None:
    animator = Animator(seed=1, lead_s=1.0, first_lead_s=0.2)
    animator.played(1, 0.5, 0.0)
    animator.speak_turn(1, lips_of(mel_chunks(SENTENCE)), 0.0)
    indices = []
    while (frame := animator.next_spoken(0.0)) is not None:
        indices.append(frame.index)
    assert indices == list(range(12, 38))


def test_stale_turns_are_ignored() -> None:
    animator = Animator(seed=1)
    animator.advance(5, 0.0)
    animator.speak_turn(4, lips_of(mel_chunks(SENTENCE)), 0.0)
    animator.played(4, 1.0, 0.0)
    frame = animator.next_frame(0.0)
    assert frame is not None and frame.live


def test_a_turn_that_nobody_plays_does_not_freeze_the_face() -> None:
    viewer = Viewer(Animator(seed=1))
    viewer.prepare(1)
    viewer.run(6.0)
    assert viewer.frames[-1].live


def test_an_empty_turn_still_says_that_it_is_over() -> None:
    animator = Animator(seed=1)
    empty = MelChunk(Place("s", 1, 0, 0, last=True), RATE, HOP, np.zeros((0, 80), np.float32))
    animator.speak_turn(1, lips_of([empty]), 0.0)
    frame = animator.next_frame(0.0)
    assert frame is not None and frame.last and frame.turn == 1


def test_sound_lips_keep_closures_that_fall_between_frames() -> None:
    track = SoundLips(1 / FPS)
    outputs = np.zeros((100, len(LIP_COEFFICIENTS)), np.float32)
    closed = LIP_COEFFICIENTS.index("lips_closed")
    outputs[50, closed] = 1.0
    track.add(outputs[:40])
    assert 0.3 < track.known_s < 0.4
    track.add(outputs[40:], end_s=1.0)
    assert track.known_s == float("inf")
    values = [track.at(k / FPS)[closed] for k in range(25)]
    assert max(values) == 1.0


def test_sound_lips_tell_stresses_and_pauses_once() -> None:
    track = SoundLips(1 / FPS)
    outputs = np.zeros((200, len(LIP_COEFFICIENTS)), np.float32)
    outputs[60:90, LIP_COEFFICIENTS.index("jaw_open")] = 0.45
    track.add(outputs, end_s=2.0)
    told = [stress for k in range(50) for stress in track.stresses(k / FPS)]
    assert [round(strength, 1) for _, strength in told] == [0.9, 0.9, 0.0]
    assert [when for when, _ in told] == pytest.approx([0.6, 0.75, 0.9])


def test_stressed_sounds_move_head_and_brows() -> None:
    moved = {name: 0.0 for name in ("pitch", "brow_raise")}
    for seed in range(12):
        with_speech, silent = Animator(seed=seed), Animator(seed=seed)
        calm = [("sil" if s == "sil" else "AH0", d) for s, d in SENTENCE[:-9]]
        poses = []
        for animator, sounds in ((with_speech, SENTENCE), (silent, calm)):
            animator.speak_turn(1, lips_of(mel_chunks(sounds * 2)), 0.0)
            animator.played(1, 2.0, 0.0)
            spoken = [animator.next_spoken(0.0) for _ in range(60)]
            poses.append(np.stack([f.pose.vector() for f in spoken if f is not None]))
        for name in moved:
            column = POSE_INDEX[name]
            difference = poses[0][:60, column] - poses[1][:60, column]
            moved[name] = max(moved[name], float(difference.max()))
    assert moved["pitch"] > 0.015 and moved["brow_raise"] > 0.1


# ------------------------------------------------------------ life shown from memory

LOOP = Motion(seed=3, fps=FPS, segments=3, segment_frames=10 * FPS)


def loop_viewer(start_frame: int = 5) -> Viewer:
    """Its face lives the loop's life."""
    return Viewer(Animator(seed=1, start_frame=start_frame, motion=LOOP))


def test_a_face_at_rest_shows_the_loops_own_pictures() -> None:
    viewer = loop_viewer()
    viewer.run(2.0)
    drawn, length = list(loop_frames(LOOP)), LOOP.segment_frames
    for frame in viewer.frames:
        block, within = divmod(frame.motion, length)
        picture = segment_of(block, LOOP.segments) * length + within
        assert frame.at_rest and frame.pose == drawn[picture].pose
    assert [f.motion for f in viewer.frames[:3]] == [5, 6, 7]


def test_after_a_turn_it_comes_to_rest_within_four_seconds() -> None:
    viewer = loop_viewer()
    viewer.run(0.5)
    viewer.animator.express(1, 0.0, "angry")
    viewer.speak(1)
    viewer.run(SENTENCE_S)
    said = len(viewer.frames)
    viewer.run(6.0)
    spoken = [f for f in viewer.frames if not f.live]
    assert spoken and not any(f.at_rest for f in viewer.frames[said - 5 : said + 40])
    settled = next(f for f in viewer.frames if f.at_rest and f.motion > spoken[-1].motion)
    assert settled.motion - spoken[-1].motion < 4.5 * FPS
    last = viewer.frames[-1]
    assert last.at_rest and last.pose == FacePose.from_vector(LOOP.pose(last.motion))
    around = viewer.frames[viewer.frames.index(settled) - 25 :]
    steps = np.abs(np.diff([f.pose.vector() for f in around], axis=0))
    for name, largest in LARGEST_STEP.items():
        assert steps[:, POSE_INDEX[name]].max() < largest


def test_a_resting_face_makes_nothing_until_a_turn_goes_on_from_what_is_seen() -> None:
    viewer = loop_viewer()
    viewer.run(0.5)
    rest_from = viewer.frames[-1].motion + 4
    viewer.animator.rest(rest_from)
    viewer.run(2.0)
    assert viewer.frames[-1].motion == rest_from - 1
    assert viewer.animator.delay_s(viewer.now_s) is None
    viewer.animator.advance(1, viewer.now_s, seen=900)
    viewer.run(0.4)
    viewer.speak(1)
    viewer.run(0.2)
    first = next(f for f in viewer.frames if not f.live)
    assert first.restart and abs(first.motion - (900 + 10 + 1)) <= 2
    viewer.animator.advance(2, viewer.now_s)
    viewer.run(0.2)
    assert viewer.frames[-1].live


def test_it_rests_behind_a_turn_whose_end_was_lost() -> None:
    viewer = loop_viewer()
    lips = lips_of(mel_chunks(SENTENCE)[:-1])
    assert lips.end_s is None
    viewer.animator.speak_turn(1, lips, viewer.now_s)
    viewer.play(1)
    viewer.run(SENTENCE_S + 3.0)
    assert viewer.frames[-1].live
    viewer.animator.rest(0)
    viewer.run(0.1)
    viewer.frames.clear()
    viewer.run(1.0)
    assert viewer.frames == []


def test_without_news_it_goes_on_as_if_the_loop_had_been_shown_since() -> None:
    viewer = loop_viewer()
    viewer.animator.rest(0)
    viewer.run(4.0)
    assert viewer.frames == []
    viewer.speak(1)
    viewer.run(0.1)
    assert abs(viewer.frames[0].motion - (5 + 4 * FPS)) <= 3


def test_it_lives_again_when_it_is_told_to() -> None:
    viewer = loop_viewer()
    viewer.animator.rest(0)
    viewer.run(1.0)
    viewer.animator.wake(300, viewer.now_s)
    viewer.run(0.2)
    assert viewer.frames[0].restart and viewer.frames[0].at_rest
    assert 300 < viewer.frames[0].motion <= 303
    assert len(viewer.frames) >= 4


def test_a_turn_that_has_begun_goes_on_where_it_was_told_too_late_to_live_again() -> None:
    viewer = loop_viewer()
    viewer.animator.rest(0)
    viewer.run(1.0)
    viewer.animator.advance(1, viewer.now_s, seen=500)
    viewer.prepare(1)
    viewer.run(0.02)
    assert viewer.frames and not viewer.frames[-1].live
    viewer.animator.wake(501, viewer.now_s)
    viewer.play(1)
    viewer.run(SENTENCE_S)
    spoken = [f for f in viewer.frames if not f.live]
    assert [f.motion for f in spoken] == [spoken[0].motion + k for k in range(len(spoken))]
    assert not any(f.restart for f in spoken[1:])


def test_who_comes_to_see_a_turn_sees_it_at_once_and_the_face_live_behind_it() -> None:
    viewer = loop_viewer()
    viewer.speak(1)
    viewer.run(0.4)
    played_s = viewer.pause()
    viewer.animator.rest(0)  # nobody sees it any more
    viewer.run(0.5)
    viewer.frames.clear()
    viewer.resume(1, played_s)
    viewer.run(0.1)
    heard_s = viewer.now_s - viewer.playing[1] if viewer.playing else 0.0
    viewer.frames.clear()
    viewer.animator.begin_to_be_seen(viewer.now_s)
    viewer.run(SENTENCE_S + 1.0)
    first = viewer.frames[0]
    assert first.restart and abs(first.index - heard_s * FPS) <= 1, "not what was made ahead"
    motions = [frame.motion for frame in viewer.frames]
    assert motions == list(range(motions[0], motions[0] + len(motions)))
    assert sum(frame.last for frame in viewer.frames) == 1
    assert all(frame.live for frame in viewer.frames[-FPS // 2 :])


@pytest.mark.parametrize(("heard_s", "index"), [(0.0, 0), (0.05, 1)])
def test_a_turn_that_is_paused_before_it_is_seen_begins_where_the_viewer_is_then(
    heard_s: float, index: int
) -> None:
    viewer = loop_viewer()
    viewer.animator.rest(0)
    viewer.run(1.0)
    viewer.animator.advance(1, viewer.now_s, seen=500)
    viewer.prepare(1)
    viewer.run(0.1)
    assert [f.turn for f in viewer.frames if not f.live]
    viewer.animator.played(1, heard_s, viewer.now_s, paused=True)
    viewer.animator.rest(0)
    viewer.frames.clear()
    viewer.run(2.0)
    assert len(viewer.frames) <= 1
    viewer.animator.played(1, index / FPS, viewer.now_s, seen=555)
    viewer.run(0.1)
    first = next(f for f in viewer.frames if not f.live)
    assert first.index == index and first.restart and 555 < first.motion <= 558


def test_a_turn_that_is_paused_before_it_came_waits() -> None:
    viewer = loop_viewer()
    viewer.animator.advance(1, viewer.now_s)
    viewer.animator.played(1, 0.0, viewer.now_s, paused=True)
    viewer.prepare(1)
    viewer.run(0.5)
    assert all(f.live for f in viewer.frames)
    viewer.animator.played(1, 0.0, viewer.now_s)
    viewer.run(0.1)
    assert not viewer.frames[-1].live


def test_a_turn_that_is_let_go_on_long_before_it_comes_is_spoken_without_life_between() -> None:
    viewer = loop_viewer()
    viewer.animator.advance(1, viewer.now_s)
    viewer.animator.played(1, 0.0, viewer.now_s, paused=True)
    viewer.run(0.5)
    viewer.animator.played(1, 0.0, viewer.now_s)
    viewer.run(3.0)
    viewer.frames.clear()
    viewer.prepare(1)
    viewer.run(0.2)  # up to the gateway's first word of it
    viewer.play(1)
    viewer.run(SENTENCE_S)
    spoken = [frame.index for frame in viewer.frames if not frame.live]
    assert [frame.live for frame in viewer.frames[: len(spoken)]] == [False] * len(spoken)
    assert spoken == list(range(SENTENCE_FRAMES))


# ------------------------------------------------------------ attention


def listening(part: Listening, frame: int) -> FacePose:
    """As the loop shows a frame of the motion."""
    block, within = divmod(frame, LOOP.segment_frames)
    index = segment_of(block, LOOP.segments) * LOOP.segment_frames + within
    return FacePose.from_vector(listens_at(LOOP, index, part))


def test_the_loop_shows_how_it_listens_without_a_join() -> None:
    rested = [FacePose.from_vector(LOOP.pose(k)) for k in range(FPS)]
    begins = [listening(Listening.BEGINS, k) for k in range(FPS, 2 * FPS)]
    goes_on = [listening(Listening.GOES_ON, k) for k in range(2 * FPS, 3 * FPS)]
    nods = [listening(Listening.NODS, k) for k in range(3 * FPS, 4 * FPS)]
    after = [listening(Listening.GOES_ON, k) for k in range(4 * FPS, 5 * FPS)]
    assert_smooth(np.stack([p.vector() for p in rested + begins + goes_on + nods + after]))
    drawn = [frame.pose for frame in loop_frames(LOOP, listening=True)]
    segments = LOOP.segments * LOOP.segment_frames
    assert len(drawn) == len(Listening) * segments
    assert drawn[:segments] != drawn[segments : 2 * segments]
    index = segment_of(0, LOOP.segments) * LOOP.segment_frames
    assert drawn[2 * segments + index + 3 * FPS + 5] == nods[5]
    nodded = nods[8].pitch - listening(Listening.GOES_ON, 3 * FPS + 8).pitch
    assert nodded > 0.02


def test_who_listens_live_comes_to_look_as_the_loop_does() -> None:
    viewer = loop_viewer()
    viewer.run(1.0)
    viewer.animator.attend(Phase.LISTENING)
    viewer.run(3.0)
    settled = [f for f in viewer.frames if f.at_rest and f.listening]
    assert settled and settled[0].motion < viewer.frames[0].motion + 2.2 * FPS
    for frame in settled:
        off = frame.pose.vector() - listening(Listening.GOES_ON, frame.motion).vector()
        assert np.abs(off).max() < 0.005


@pytest.mark.parametrize(
    ("seen", "part"),
    [(310, Listening.BEGINS), (330, Listening.GOES_ON), (355, Listening.NODS)],
)
def test_an_answer_begins_as_the_face_was_shown_listening(seen: int, part: Listening) -> None:
    viewer = loop_viewer()
    viewer.run(0.5)
    viewer.animator.rest(0)
    viewer.run(0.5)
    viewer.animator.attend(Phase.LISTENING, shown_from=300)
    viewer.animator.attend(Phase.LISTENING, cue=True, shown_from=350)
    viewer.animator.attend(Phase.IDLE)
    viewer.frames.clear()
    viewer.shown.clear()
    viewer.animator.advance(1, viewer.now_s, seen=seen)
    viewer.speak(1)
    viewer.run(SENTENCE_S + 5.0)
    first = next(f for f in viewer.frames if not f.live)
    shown = [listening(part, k).vector() for k in range(first.motion - 4, first.motion)]
    assert_smooth(np.concatenate([shown, viewer.poses()]))
    rest = FacePose.from_vector(LOOP.pose(first.motion - 1)).vector()
    assert np.abs(shown[-1] - rest).max() > 0.02, "else it would join however it goes on"
    assert viewer.shown[-1].at_rest and not viewer.shown[-1].listening


def test_it_attends_from_the_first_word_to_it_until_its_answer_is_made() -> None:
    viewer = loop_viewer()
    viewer.run(0.2)
    assert not viewer.animator.attends
    for phase in (Phase.LISTENING, Phase.THINKING):
        viewer.animator.attend(phase)
        assert viewer.animator.attends
    viewer.prepare(1)
    viewer.animator.attend(Phase.SPEAKING)
    assert viewer.animator.attends
    viewer.play(1)
    viewer.run(SENTENCE_S + 1.0)
    assert not viewer.animator.attends


def test_until_it_is_shown_listening_it_rests() -> None:
    viewer = loop_viewer()
    viewer.run(0.5)
    shown_from = viewer.frames[-1].motion + 11
    viewer.animator.rest(shown_from)
    viewer.animator.attend(Phase.LISTENING, shown_from=shown_from)
    viewer.run(1.0)
    assert viewer.frames[-1].motion == shown_from - 1
    assert all(f.at_rest and not f.listening for f in viewer.frames)


def test_one_who_was_shown_listening_goes_on_live_when_it_is_told_to() -> None:
    viewer = loop_viewer()
    viewer.animator.attend(Phase.LISTENING)
    viewer.run(3.0)
    viewer.animator.rest(0)
    viewer.run(1.0)
    viewer.animator.attend(Phase.IDLE)
    viewer.frames.clear()
    viewer.shown.clear()
    viewer.animator.wake(200, viewer.now_s)
    viewer.run(4.0)
    before = listening(Listening.GOES_ON, viewer.frames[0].motion - 1).vector()
    assert_smooth(np.concatenate([[before], viewer.poses()]))
    assert not viewer.frames[0].at_rest and viewer.frames[-1].at_rest


def test_listening_thinking_and_speaking_are_joined_within_ordinary_motion() -> None:
    viewer = loop_viewer()
    viewer.run(2.0)
    for k in range(3):
        viewer.animator.attend(Phase.LISTENING, cue=k > 0)
        viewer.run(2.2)
    viewer.animator.attend(Phase.THINKING)
    viewer.run(2.5)
    viewer.animator.attend(Phase.IDLE)
    viewer.speak(1)
    viewer.run(SENTENCE_S + 5.0)
    assert_smooth(viewer.poses())
    assert viewer.shown[-1].at_rest


def test_a_listener_nods_and_only_while_it_listens() -> None:
    def pitch(phase: Phase) -> np.ndarray:
        viewer = loop_viewer()
        for _ in range(6):
            viewer.animator.attend(phase, cue=True)
            viewer.run(3.0)
        still = np.stack([LOOP.pose(f.motion) for f in viewer.shown])
        return np.asarray((viewer.poses() - still)[:, POSE_INDEX["pitch"]])

    assert pitch(Phase.LISTENING).max() > 0.03
    assert np.abs(pitch(Phase.IDLE)).max() == 0.0


def test_it_looks_aside_to_think_but_not_at_once() -> None:
    viewer = loop_viewer()
    viewer.animator.attend(Phase.THINKING)
    viewer.run(5.0)
    away = np.hypot(*viewer.poses()[:, [POSE_INDEX["gaze_x"], POSE_INDEX["gaze_y"]]].T)
    assert away[: round(0.3 * FPS)].max() < 0.25 < away[FPS:].max()
    assert not viewer.shown[-1].at_rest


def test_the_same_seed_listens_alike() -> None:
    def heard(seed: int) -> np.ndarray:
        viewer = Viewer(Animator(seed=seed))
        viewer.animator.attend(Phase.LISTENING, cue=True)
        viewer.run(4.0)
        return viewer.poses()

    np.testing.assert_array_equal(heard(4), heard(4))
    assert not np.allclose(heard(4), heard(5))


def test_a_style_opens_the_mouth_more_or_less_and_shuts_it_as_ever() -> None:
    def lips(style: str, name: str) -> float:
        animator = Animator(seed=1, fps=FPS)
        animator.express(1, 0.0, style)
        animator.speak_turn(1, lips_of(mel_chunks(SENTENCE)), 0.0)
        animator.played(1, 1.5, 0.0)
        made = []
        while (frame := animator.next_spoken(0.0)) is not None:
            made.append(frame.pose.vector()[POSE_INDEX[name]])
        return float(max(made))

    assert lips("whisper", "jaw_open") < lips("", "jaw_open") < lips("excited", "jaw_open")
    assert lips("whisper", "lips_closed") == lips("excited", "lips_closed") == 1.0
