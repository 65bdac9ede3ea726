"""The timeline of one face: what it shows in each frame, idle or speaking.

Pure logic: it does no I/O and gets the time as an argument. Frames come out in the order in which
they are shown. Between turns they are live, one each 1/fps seconds; during a turn frame k belongs
to voice second k/fps and is made ahead of time, as far as the lips are known and the credit goes.

The motion of the head runs on one frame counter through both, so it never jumps. Where the lips do
change their ground (a turn begins, runs dry, is interrupted), what differs from the pose on screen
is eased out over EASE_FRAMES.

Idle life that repeats can be shown from memory elsewhere (`rest`). The face then makes no live
frames, and a turn begins with the frame of the motion that follows what the viewer sees by then.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.face.draw.loop import FromMemory
from services.face.draw.pose import POSE_INDEX, FacePose, Frame
from services.face.life.accents import Accent, AccentKind
from services.face.life.attention import Attention, Bearing, turned
from services.face.life.expressions import Expressed, Expressions, express, offsets_of
from services.face.life.gaze import Phase
from services.face.life.motion import Motion
from services.face.lips.lips import LipTrack
from services.face.lips.sound_track import SoundTrack
from services.face.lips.visemes import JAW, LIP_COEFFICIENTS, PUCKER, WIDE
from visavis.styles import NEUTRAL

EASE_FRAMES = 3
"""120 ms at 25 fps: how fast the mouth shuts after an interruption."""
_NOWHERE = -1
_LIP_COLUMNS = [POSE_INDEX[name] for name in LIP_COEFFICIENTS]
_SPEECH_RISE, _SPEECH_FALL = 0.12, 0.18
"""Share of the way to speaking and back to rest that the livelier motion goes in one frame."""
_ACCENT_GAP_S = 0.8
_BLINK_GAP_S = 1.0
_LOOKS_BACK_S = 0.7
"""Before the end of what is said the eyes are on who is to speak next."""
_SLOW_FRAMES = 4
"""An engine is slow when so many frames in a row were: one that had to wait is no sign of it."""
_STILL = 0.04
"""So little of the livelier motion of speech moves nothing by a fifth of a pixel."""
_CLOCK_TRUST_S = 0.5
"""Playback is taken to go on for so long after the clock last spoke."""
_CLOCK_SILENT_S = 2.0
"""Playback that is not heard of for so long beyond what it had to play counts as finished."""


@dataclass(frozen=True, slots=True)
class _Shown:
    """A frame that was made, so that the face can return to it."""

    turn: int
    index: int
    motion: int
    speech: float
    expression: Expressed
    bearing: Bearing
    pose: NDArray[np.float32]


@dataclass(slots=True)
class _Turn:
    """The turn being spoken."""

    number: int
    lips: LipTrack
    held: bool = False
    """Not to be shown before the clock speaks of it."""
    made: int = 0
    first_made_s: float | None = None
    """When its first frame was made, which need not be frame 0."""
    clock_s: float | None = None
    """Voice played when the clock last spoke, and when that was."""
    clock_at_s: float = 0.0
    ended: bool = False
    paused: bool = False
    """Playing stands still: the face rests, and makes the frames that follow anew."""

    def played_s(self, now_s: float) -> float:
        """Voice played by now: what the clock said, and the time since if that is not long."""
        if self.clock_s is None:
            return 0.0
        return self.clock_s + min(max(0.0, now_s - self.clock_at_s), _CLOCK_TRUST_S)

    def due_s(self, time_s: float, now_s: float) -> float:
        """When this time of the voice is heard; before the clock speaks, it may begin now."""
        if self.clock_s is None:
            return now_s + time_s
        return self.clock_at_s + time_s - self.clock_s


class Animator:
    """Says which frame of one face to draw next, and when: speech where there is any, else life.

    Call `next_frame` until it gives None, then wait for `delay_s`.
    """

    def __init__(
        self,
        *,
        seed: int,
        fps: int = 25,
        lead_s: float = 1.0,
        first_lead_s: float = 0.4,
        start_frame: int = 0,
        motion: Motion | None = None,
    ) -> None:
        """`lead_s`: how far frames may run ahead of the clock; `first_lead_s`: before it starts.

        `start_frame`: frame of the motion to begin with. `motion`: None: one of the seed.
        """
        self.fps = fps
        self.late = 0
        """Frames of turns skipped because their time had passed."""
        self.late_live = 0
        """And of idle life."""
        self._lead_s, self._first_lead_s = lead_s, min(first_lead_s, lead_s)
        self._motion = motion or Motion(seed, fps)
        self._draws = np.random.default_rng(seed)
        self._accents: list[Accent] = []
        self._accent_free = 0
        self._history: deque[_Shown] = deque(maxlen=math.ceil((min(lead_s, 1.0) + 1) * fps))
        self._turn: _Turn | None = None
        self._left = 0
        self._newest_turn = 0
        self._held = False
        self._early_clock: tuple[int, float, float, bool] | None = None
        self._joined = 0
        self._restart = True
        self._expressions = Expressions(fps)
        self._attention = Attention(seed, fps)
        self._phase = Phase.IDLE
        self._frame = start_frame
        self._speech = 0.0
        self._ground = 0
        self._ease_from: NDArray[np.float32] | None = None
        self._ease = np.zeros(len(_LIP_COLUMNS), np.float32)
        self._eased = EASE_FRAMES
        self._live = 0
        self._live_since_s: float | None = None
        self._live_due = 0
        self._memory = FromMemory(fps)
        self._draw_s: deque[float] = deque([0.0], maxlen=_SLOW_FRAMES)

    @property
    def attends(self) -> bool:
        """Whether somebody speaks to it, waits for an answer, or is answered."""
        turn = self._turn
        speaks = turn is not None and not (turn.ended or turn.held or turn.paused)
        return speaks or self._phase is not Phase.IDLE

    def rest(self, frame: int) -> None:
        """From this frame of the motion on idle life is shown from memory, up to the next turn.

        Where a turn is being made, it comes too late and means nothing; not so where live frames
        follow one whose end was never heard of.
        """
        turn = self._turn
        if turn is None or turn.held or turn.paused or self._ground == 0:
            self._memory.rest(frame)

    def wake(self, frame: int | None, now_s: float) -> None:
        """Live frames are wanted again: viewers see this frame of the motion now; None: no new
        one since the rest began.

        Where a turn has begun meanwhile, they follow that.
        """
        if self._turn is not None and not self._screen_is_free(self._turn, now_s):
            self._memory.leave(now_s)
            return
        if frame is not None:
            self._memory.see(frame, now_s)
        self._go_on_from_seen(now_s)
        self._restart = True
        self._live_since_s = None

    def begin_to_be_seen(self, now_s: float) -> None:
        """Nobody has seen what was made so far: a turn goes on with the frame that is heard now,
        and with no later one.
        """
        self.wake(None, now_s)
        turn = self._turn
        if turn is not None and not self._screen_is_free(turn, now_s):
            self._leave_turn(now_s)
            turn.made, turn.ended = math.floor(turn.played_s(now_s) * self.fps + 1e-6), False

    def advance(
        self, turn: int, now_s: float, *, held: bool = False, seen: int | None = None
    ) -> None:
        """The session's turn is now `turn`: anything older stops where the screen has it.

        A held turn may yet be thrown away: the face stays idle until the clock speaks of it.
        seen: frame of the motion that the viewer sees now, from memory.
        """
        if turn <= self._newest_turn:
            return
        if seen is not None:
            self._memory.see(seen, now_s)
        self._newest_turn, self._held = turn, held
        self._restart = True
        if self._turn is not None:
            self._leave_turn(now_s)
            self._turn = None

    def speak_turn(self, turn: int, lips: LipTrack, now_s: float) -> None:
        """Begin a turn whose lips are `lips`; they may grow afterwards. Stale turns are ignored."""
        self.advance(turn, now_s)
        if turn == self._newest_turn and self._turn is None:
            self._turn = _Turn(turn, lips, self._held)
            if self._early_clock is not None and self._early_clock[0] == turn:
                _, played_s, at_s, paused = self._early_clock
                self.played(turn, played_s, at_s, paused=paused)
            if turn == self._joined:
                self._turn.made = math.floor(self._turn.played_s(now_s) * self.fps + 1e-6)

    def join(self, turn: int) -> None:
        """Another face has shown the turn so far: it begins with the frame that is heard by then.

        Call it with the clock, before `speak_turn`.
        """
        self._joined = turn

    def express(self, turn: int, time_s: float, style: str) -> None:
        """From this time of the turn's voice on it is said in `style`."""
        self._expressions.cue(turn, time_s, style)

    def attend(self, phase: Phase, *, cue: bool = False, shown_from: int | None = None) -> None:
        """What goes on while the face says nothing. cue: whom it listens to has ended a phrase.

        shown_from: it is shown from memory as it begins to listen or, with cue, as it nods, from
        this frame of the motion on.
        """
        self._phase = Phase.IDLE if phase is Phase.SPEAKING else phase
        if phase is not Phase.LISTENING:
            return
        if shown_from is None and cue and not self._memory.resting:
            self._accents += self._attention.answer_cue(self._frame)
        elif shown_from is not None and cue:
            self._memory.nod(shown_from)
        elif shown_from is not None:
            self._memory.listen(shown_from)

    def abandon(self, turn: int) -> None:
        """Nothing more will come of a turn: the face rests once what was made has been shown."""
        if self._turn is not None and turn == self._turn.number:
            self._turn.ended = True

    def played(
        self,
        turn: int,
        played_s: float,
        now_s: float,
        *,
        paused: bool = False,
        seen: int | None = None,
    ) -> None:
        """The clock: so much of the turn's voice has been played; none yet: it is wanted.

        paused: it stands there, and goes on with the frame of the next time that it does not say
        so, which may be one made before. seen: as in `advance`.
        """
        if seen is not None:
            self._memory.see(seen, now_s)
        if self._turn is not None and turn == self._turn.number:
            wanted, self._turn.held = self._turn.held, False
            was_paused, self._turn.paused = self._turn.paused, paused
            if played_s > 0 or not (wanted or self._turn.first_made_s is None):
                self._turn.clock_s, self._turn.clock_at_s = played_s, now_s
            if paused and not was_paused:
                self._turn.ended = False
                self._leave_turn(now_s)
            elif was_paused and not paused:
                self._turn.made = math.floor(played_s * self.fps + 1e-6)
                self._restart = True
                if seen is not None or not self._turn.made:
                    self._turn.first_made_s = None  # nothing of it has been seen
        elif turn > self._newest_turn or (turn == self._newest_turn and self._turn is None):
            self._early_clock = (turn, played_s, now_s, paused)

    def took(self, draw_s: float) -> None:
        """How long the last frame took to draw. Where all of them take longer than they are shown,
        frames are skipped so far ahead that those which are drawn come in time.
        """
        self._draw_s.append(draw_s)

    def wants(self, frame: Frame) -> bool:
        """Whether a frame that was made is still to be shown: not where its turn was left since,
        interrupted or paused.
        """
        return frame.live or frame.left == self._left

    def due_s(self, now_s: float) -> float | None:
        """When the next frame is to be shown; None where none may be made now."""
        turn = self._turn
        if turn is not None:
            self._catch_up(turn)
            if self._may_speak(turn):
                return turn.due_s(turn.made / self.fps, now_s)
            if not self._screen_is_free(turn, now_s):
                return None
        if self._memory.resting:
            return None
        if self._live_since_s is None:
            return now_s
        return self._live_due_s() if self._live_behind(now_s) >= 0 else None

    def next_spoken(self, now_s: float) -> Frame | None:
        """The next frame of the turn, if one may be made now."""
        if self._turn is None:
            return None
        self._catch_up(self._turn)
        return self._speaking_frame(self._turn, now_s) if self._may_speak(self._turn) else None

    def next_frame(self, now_s: float) -> Frame | None:
        """The next frame, spoken or live, if one may be made now."""
        frame = self.next_spoken(now_s)
        if frame is not None:
            return frame
        if self._turn is not None and not self._screen_is_free(self._turn, now_s):
            return None
        return self._live_frame(now_s)

    def delay_s(self, now_s: float) -> float | None:
        """How long to wait for the next frame if nothing is heard; None: until something is."""
        if self._turn is not None and not self._screen_is_free(self._turn, now_s):
            return self._free_in_s(self._turn, now_s)
        if self._memory.resting:
            return None
        if self._live_since_s is None:
            return 0.0
        return max(0.0, self._live_due_s() - now_s)

    # Turns

    def _may_speak(self, turn: _Turn) -> bool:
        if turn.ended or turn.held or turn.paused:
            return False
        time_s = turn.made / self.fps
        return time_s <= turn.lips.known_s and time_s < self._limit_s(turn)

    def _limit_s(self, turn: _Turn) -> float:
        """How far into the voice frames may be made now."""
        return self._first_lead_s if turn.clock_s is None else turn.clock_s + self._lead_s

    def _catch_up(self, turn: _Turn) -> None:
        """Skip frames whose voice will have been heard when they are drawn: better fewer of them
        than late ones.
        """
        if turn.ended or turn.paused:
            return
        slow_s = min(self._draw_s)
        ahead_s = slow_s if slow_s > 1 / self.fps else 0.0
        # Before the clock speaks, the voice is about to begin.
        due_s = min((turn.clock_s or 0.0) + ahead_s, self._limit_s(turn) - 1 / self.fps)
        seen_s = min(due_s, turn.lips.known_s)
        behind = math.floor(seen_s * self.fps + 1e-6) - turn.made
        if turn.lips.end_s is not None:
            behind = min(behind, self._frame_count(turn.lips.end_s) - 1 - turn.made)
        if behind > 1:
            self.late += behind
            turn.made += behind

    def _frame_count(self, seconds: float) -> int:
        """Frames of a voice of this length; even an empty turn has one, to say that it is over."""
        return max(1, math.ceil(seconds * self.fps - 1e-6))

    def _screen_is_free(self, turn: _Turn, now_s: float) -> bool:
        """Everything made of the turn has been shown, so live frames may follow."""
        return self._free_in_s(turn, now_s) <= 0.0

    def _free_in_s(self, turn: _Turn, now_s: float) -> float:
        if turn.first_made_s is None or turn.paused:
            return 0.0
        made_s = turn.made / self.fps
        clock_s, at_s = (turn.clock_s, turn.clock_at_s)
        if clock_s is None:  # nobody plays this turn, yet
            clock_s, at_s = 0.0, turn.first_made_s
        silent = at_s + made_s - clock_s + _CLOCK_SILENT_S - now_s
        return min(silent, made_s - turn.played_s(now_s))

    def _speaking_frame(self, turn: _Turn, now_s: float) -> Frame:
        self._stand_on(turn.number)
        self._live_since_s = None
        time_s = turn.made / self.fps
        if turn.first_made_s is None:
            turn.first_made_s = now_s
            self._go_on_from_seen(now_s)
            # So that a recording of the turn can begin with its first picture.
            self._restart = True
        self._note_accents(turn.lips, time_s)
        self._speech += _SPEECH_RISE * (1 - self._speech)
        self._expressions.follow(turn.number, time_s)
        end_s = turn.lips.end_s
        ending = end_s is not None and time_s > end_s - _LOOKS_BACK_S
        self._attention.follow(self._frame, Phase.SPEAKING, ending=ending)
        pose = self._pose(turn.lips.at(time_s))
        index, turn.made = turn.made, turn.made + 1
        turn.ended = end_s is not None and turn.made >= self._frame_count(end_s)
        return self._shown(
            pose,
            turn.number,
            index,
            live=False,
            last=turn.ended,
            due_s=turn.due_s(time_s, now_s),
            sound=turn.lips.sound,
        )

    def _live_frame(self, now_s: float) -> Frame | None:
        if self._turn is not None and self._turn.ended:
            self._turn = None
        listening = self._attention.now.phase is Phase.LISTENING
        if self._memory.has_begun(self._frame, now_s, listening=listening):
            return None
        behind = 0
        if self._live_since_s is None:
            # Those that follow come at the same instants for all faces, so as to be drawn together.
            self._live_since_s = math.ceil(now_s * self.fps - 1e-6) / self.fps
            self._live_due = 0
        else:
            behind = self._live_behind(now_s)
        if behind < 0:
            return None
        self._stand_on(0)
        if behind > 0:
            # Too late for these. The motion waits with them, so that nothing jumps.
            self.late_live += behind
            self._live_due += behind
        due_s = self._live_due_s()
        self._live_due += 1
        self._speech += _SPEECH_FALL * (0 - self._speech)
        if self._speech < _STILL:
            self._speech = 0.0
        self._expressions.rest()
        later = self._memory.listens_later(self._frame)
        self._attention.follow(self._frame, Phase.IDLE if later else self._phase)
        pose = self._pose(np.zeros(len(_LIP_COLUMNS), np.float32))
        index, self._live = self._live, self._live + 1
        return self._shown(pose, 0, index, live=True, last=False, due_s=due_s)

    def _live_due_s(self) -> float:
        return (self._live_since_s or 0.0) + self._live_due / self.fps

    def _live_behind(self, now_s: float) -> int:
        """How many live frames are late, but for the one that is due; below 0: none is due."""
        since_s = now_s - (self._live_since_s or 0.0)
        return math.floor(since_s * self.fps + 1e-6) - self._live_due

    def _go_on_from_seen(self, now_s: float) -> None:
        """Leave the rest: what is made now is seen after what is shown from memory until then."""
        seen = self._memory.leave(now_s)
        if seen is not None:
            self._frame = seen.frame
            self._speech = 0.0
            self._expressions.now = Expressed(offsets_of(NEUTRAL))
            self._attention.now = self._attention.heard(seen.listened)
            self._accents += seen.nods

    def _at_rest(self) -> bool:
        """Whether the pose of this frame is the motion's own, or that of a face that listens."""
        moved = self._speech or self._eased < EASE_FRAMES or self._expressions.offsets.any()
        moved = moved or not self._attention.settled
        return not moved and all(self._frame >= a.frame + a.frames for a in self._accents)

    # Poses

    def _pose(self, lips: NDArray[np.float32]) -> NDArray[np.float32]:
        # An accent that is over matters again where frames are forgotten.
        kept = self._history.maxlen or 0
        self._accents = [a for a in self._accents if self._frame < a.frame + a.frames + kept]
        pose = self._motion.pose(
            self._frame,
            speech=self._speech,
            accents=self._accents,
            look=self._attention.now.look,
        )
        offsets = self._attention.now.offsets
        pose = express(turned(pose, offsets), self._expressions.offsets)
        lips = _articulated(lips, self._expressions.now.articulation)
        if self._ease_from is not None:
            self._ease, self._ease_from, self._eased = self._ease_from - lips, None, 0
        if self._eased < EASE_FRAMES:
            self._eased += 1
            x = self._eased / EASE_FRAMES
            lips = lips + self._ease * np.float32(1 - x * x * (3 - 2 * x))
        pose[_LIP_COLUMNS] = np.clip(lips, 0.0, 1.0)
        return pose

    def _shown(
        self,
        pose: NDArray[np.float32],
        turn: int,
        index: int,
        *,
        live: bool,
        last: bool,
        due_s: float,
        sound: SoundTrack | None = None,
    ) -> Frame:
        motion, bearing = self._frame, self._attention.now
        self._history.append(
            _Shown(turn, index, motion, self._speech, self._expressions.now, bearing, pose)
        )
        at_rest = live and self._at_rest()
        listening = bearing.phase is Phase.LISTENING
        self._frame += 1
        restart, self._restart = self._restart, False
        drawn = FacePose.from_vector(pose)
        return Frame(
            turn,
            index,
            live,
            last,
            restart,
            drawn,
            sound,
            due_s,
            motion,
            at_rest,
            listening,
            self._left,
        )

    def _stand_on(self, ground: int) -> None:
        """The lips follow a turn from here on, or rest (0): ease over from the last frame's."""
        if ground != self._ground and self._history:
            self._ease_from = self._history[-1].pose[_LIP_COLUMNS]
        self._ground = ground

    def _leave_turn(self, now_s: float) -> None:
        """Idle frames follow, from what the viewer sees on."""
        self._return_to_screen(now_s)
        self._left += 1
        self._restart = True
        self._ground = _NOWHERE
        self._live_since_s = None

    def _return_to_screen(self, now_s: float) -> None:
        """Forget what was made but not shown, and go on from what the viewer sees."""
        turn = self._turn
        if turn is None:
            return
        seen = -1 if turn.clock_s is None else math.floor(turn.played_s(now_s) * self.fps)
        while self._history and self._history[-1].turn == turn.number:
            if self._history[-1].index <= seen:
                break
            self._frame = self._history.pop().motion
        self._speech = self._history[-1].speech if self._history else 0.0
        if self._history:
            self._expressions.now = self._history[-1].expression
            self._attention.now = self._history[-1].bearing
        self._accents = [a for a in self._accents if a.frame < self._frame]
        self._accent_free = min(self._accent_free, self._frame)

    def _note_accents(self, lips: LipTrack, time_s: float) -> None:
        """Nods and brows on some of the stressed sounds, blinks in some of the pauses."""
        for _, strength in lips.stresses(time_s):
            chance = float(self._draws.random())
            if strength == 0.0:
                if chance < 0.55 and not self._blinks_soon():
                    self._accents.append(Accent(AccentKind.BLINK, self._frame, fps=self.fps))
            elif self._frame >= self._accent_free and chance < 0.25 + 0.5 * strength:
                kind = AccentKind.NOD if self._draws.random() < 0.6 else AccentKind.BROW
                self._accents.append(Accent(kind, self._frame, 0.4 + 0.6 * strength, self.fps))
                self._accent_free = self._frame + round(_ACCENT_GAP_S * self.fps)

    def _blinks_soon(self) -> bool:
        """One blink is not to follow another at once."""
        gap = round(_BLINK_GAP_S * self.fps)
        just = any(
            a.kind is AccentKind.BLINK and self._frame < a.frame + a.frames + gap
            for a in self._accents
        )
        return just or self._motion.blinks_within(self._frame - gap, 2 * _BLINK_GAP_S)


def _articulated(lips: NDArray[np.float32], articulation: float) -> NDArray[np.float32]:
    """Lips [len(LIP_COEFFICIENTS)] of somebody who opens his mouth so much wider: closures stay.

    Jaw and lips are two ways to articulate more or less (Edwards, Landreth, Fiume and Singh,
    "JALI", ACM Transactions on Graphics 35, 2016).
    """
    if articulation == 1.0:
        return lips
    out = lips.copy()
    out[JAW] *= articulation
    out[[WIDE, PUCKER]] *= 1 + 0.5 * (articulation - 1)
    return out
