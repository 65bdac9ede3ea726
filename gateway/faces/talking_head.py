"""Sound and poses together, in the shape in which the TalkingHead of the browser takes them.

Its `streamAudio` wants a piece of sound and the animations that go with it. So each message has a
fifth of a second of both, while an answer is heard; `start`, `end` and `interrupt` say when
`streamStart`, `streamNotifyEnd` and `streamInterrupt` are to be called. What the head does while
nothing is said is its own.

The head plays an animation `delay` milliseconds after the first sound of its stream, and takes away
on `streamInterrupt` those that are named `blendshapes`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import soxr
from numpy.typing import NDArray

from gateway.faces.poses import Pose, pose_of
from gateway.playout.pacing import RATE_HZ, TICK_S
from gateway.playout.playout import PlayoutEvent, Tick
from gateway.playout.sinks.blendshapes import Blendshapes, FaceViewer
from visavis.arkit import ARKIT_NAMES
from visavis.wire.media import VideoCodec

SOUND_HZ = 24_000
_TICKS_TOGETHER = round(0.2 / TICK_S)
_TICKS_PER_MS = 90
_LEAD_MS = 100
"""Of silence, before an answer: the head begins with the first piece that comes, and each comes as
the one before it ends, so that whatever is a little late would be a gap."""
_FINE = 3
"""Digits of a weight: a byte told it."""


class TalkingHeads(Blendshapes):
    """Sends a session's voice and face to all who play them with TalkingHead. A sink.

    Whoever comes in the middle of an answer hears it from there on.
    """

    def __init__(self, limit: int, changed: Callable[[], None]) -> None:
        """As for Blendshapes."""
        super().__init__(limit, changed)
        self._turn = 0
        """The one that is heard; 0: none."""
        self._answer: _Answer | None = None
        self._begins_ms: dict[FaceViewer, float] = {}
        """Where in media time each one's sound of this answer begins."""

    def join(self) -> FaceViewer:
        viewer = super().join()
        if self._turn:
            viewer.tell(_start(self._turn))
        return viewer

    def push(self, tick: Tick) -> None:
        """Send what the tick completes; while nobody is here, only remember what is heard."""
        for event, turn in tick.events:
            if event is PlayoutEvent.STARTED:
                self._turn, self._answer = turn, None
                self._begins_ms.clear()
                self._tell([_start(turn)])
        finished = any(event is PlayoutEvent.FINISHED for event, _ in tick.events)
        if not self._viewers:
            self._answer = None
        elif self._turn:
            self._answer = self._answer or _Answer(tick)
            self._hand_out(self._answer.take(tick, last=finished))
        if finished and self._turn:
            self._tell([json.dumps({"type": "end", "turn": self._turn})])
            self._turn, self._answer = 0, None

    def _hand_out(self, piece: _Piece | None) -> None:
        """To each with its place in the stream that began when he came."""
        if piece is None:
            return
        written: dict[float, str] = {}
        for viewer in self._viewers:
            begins_ms = self._begins_ms.setdefault(viewer, piece.starts_ms)
            if begins_ms not in written:
                written[begins_ms] = piece.message(self._turn, begins_ms)
            viewer.tell(written[begins_ms])

    def cut(self, turn: int) -> None:
        """Have them fall silent."""
        if self._turn == turn:
            self._turn, self._answer = 0, None
            self._tell([json.dumps({"type": "interrupt", "turn": turn})])


@dataclass(frozen=True)
class _Piece:
    """A fifth of a second of an answer, sound and face."""

    starts_ms: float
    sound: NDArray[np.int16]
    moves_ms: float
    """From when on the face moves."""
    steps_ms: list[int]
    shapes: dict[str, list[float]]

    def message(self, turn: int, begins_ms: float) -> str:
        """For a stream whose sound began at begins_ms."""
        anims: list[dict[str, Any]] = []
        sound = self.sound
        if begins_ms == self.starts_ms:
            sound = np.concatenate((np.zeros(SOUND_HZ * _LEAD_MS // 1000, np.int16), sound))
        if self.steps_ms:
            delay_ms = round(self.moves_ms - begins_ms) + _LEAD_MS
            moved = {"dt": self.steps_ms, "vs": self.shapes}
            anims = [{"name": "blendshapes", "delay": delay_ms, **moved}]
        audio = base64.b64encode(sound.astype("<i2").tobytes()).decode()
        return json.dumps({"type": "audio", "turn": turn, "audio": audio, "anims": anims})


class _Answer:
    """The sound and the poses of one turn, on their way into messages."""

    def __init__(self, first: Tick) -> None:
        self._resampler = soxr.ResampleStream(RATE_HZ, SOUND_HZ, 1, dtype="int16", quality="MQ")
        self._last_ms = self._starts_ms = 1000 * first.start_samples / RATE_HZ
        self._sound: list[NDArray[np.int16]] = []
        self._poses: list[tuple[float, Pose]] = []
        self._moved: set[int] = set()
        """Shapes that the last message left away from rest."""

    def take(self, tick: Tick, *, last: bool) -> _Piece | None:
        """The piece that the tick completes, if it does."""
        if not self._sound:
            self._starts_ms = 1000 * tick.start_samples / RATE_HZ
        self._sound.append(tick.pcm)
        for released in tick.pictures:
            if released.picture.codec is VideoCodec.BLENDSHAPES:
                pose = pose_of(released.picture.payload)
                if pose is not None:
                    self._poses.append((released.time / _TICKS_PER_MS, pose))
        if len(self._sound) < _TICKS_TOGETHER and not last:
            return None
        sound = self._resampler.resample_chunk(np.concatenate(self._sound), last=last)
        moves_ms, steps_ms, shapes = self._movement()
        self._sound, self._poses = [], []
        return _Piece(self._starts_ms, sound, moves_ms, steps_ms, shapes)

    def _movement(self) -> tuple[float, list[int], dict[str, list[float]]]:
        """Since when, how long each pose takes to come, and the shapes that move."""
        since_ms = self._last_ms
        if not self._poses:
            return since_ms, [], {}
        times = [since_ms, *(time_ms for time_ms, _ in self._poses)]
        steps_ms = [max(1, round(later - earlier)) for earlier, later in pairwise(times)]
        self._last_ms = times[-1]
        weights = np.array([pose.weights for _, pose in self._poses])
        moving = set(np.flatnonzero(weights.any(axis=0)).tolist())
        shapes = {
            ARKIT_NAMES[i]: [round(float(w), _FINE) for w in weights[:, i]]
            for i in sorted(moving | self._moved)
        }
        self._moved = set(np.flatnonzero(weights[-1]).tolist())
        return since_ms, steps_ms, shapes


def _start(turn: int) -> str:
    told = {"type": "start", "turn": turn, "sampleRate": SOUND_HZ, "lipsyncType": "blendshapes"}
    return json.dumps(told)
