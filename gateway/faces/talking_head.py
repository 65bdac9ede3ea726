"""Sound and poses together, in the shape in which the TalkingHead of the browser takes them.

Its `streamAudio` wants a piece of sound and the animations that go with it. So each message has a
fifth of a second of both, while an answer is heard; `start`, `end` and `interrupt` say when
`streamStart`, `streamNotifyEnd` and `streamInterrupt` are to be called. What the head does while
nothing is said is its own.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
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

    def join(self) -> FaceViewer:
        viewer = super().join()
        if self._turn:
            viewer.queue(_start(self._turn))
        return viewer

    def push(self, tick: Tick) -> None:
        """Send what the tick completes; while nobody is here, only remember what is heard."""
        for event, turn in tick.events:
            if event is PlayoutEvent.STARTED:
                self._turn, self._answer = turn, None
                self._tell([_start(turn)])
        finished = any(event is PlayoutEvent.FINISHED for event, _ in tick.events)
        if not self._viewers:
            self._answer = None
        elif self._turn:
            self._answer = self._answer or _Answer(self._turn, tick)
            self._tell(self._answer.take(tick, last=finished))
        if finished and self._turn:
            self._tell([json.dumps({"type": "end", "turn": self._turn})])
            self._turn, self._answer = 0, None

    def cut(self, turn: int) -> None:
        """Have them fall silent."""
        if self._turn == turn:
            self._turn, self._answer = 0, None
            self._tell([json.dumps({"type": "interrupt", "turn": turn})])


class _Answer:
    """The sound and the poses of one turn, on their way into messages."""

    def __init__(self, turn: int, first: Tick) -> None:
        self._turn = turn
        self._resampler = soxr.ResampleStream(RATE_HZ, SOUND_HZ, 1, dtype="int16", quality="MQ")
        self._last_ms = 1000 * first.start_samples / RATE_HZ
        self._sound: list[NDArray[np.int16]] = []
        self._poses: list[tuple[float, Pose]] = []
        self._moved: set[int] = set()
        """Shapes that the last message left away from rest."""

    def take(self, tick: Tick, *, last: bool) -> Sequence[str]:
        """The message that the tick completes, if it does."""
        self._sound.append(tick.pcm)
        for released in tick.pictures:
            if released.picture.codec is VideoCodec.BLENDSHAPES:
                pose = pose_of(released.picture.payload)
                if pose is not None:
                    self._poses.append((released.time / _TICKS_PER_MS, pose))
        if len(self._sound) < _TICKS_TOGETHER and not last:
            return ()
        sound = self._resampler.resample_chunk(np.concatenate(self._sound), last=last)
        message = {
            "type": "audio",
            "turn": self._turn,
            "audio": base64.b64encode(sound.astype("<i2").tobytes()).decode(),
            "anims": self._animations(),
        }
        self._sound, self._poses = [], []
        return (json.dumps(message),)

    def _animations(self) -> list[dict[str, Any]]:
        """One animation of all poses: how long each takes to come, and the shapes that move."""
        if not self._poses:
            return []
        times = [self._last_ms, *(time_ms for time_ms, _ in self._poses)]
        steps = [max(1, round(later - earlier)) for earlier, later in pairwise(times)]
        self._last_ms = times[-1]
        weights = np.array([pose.weights for _, pose in self._poses])
        moving = set(np.flatnonzero(weights.any(axis=0)).tolist())
        shapes = {
            ARKIT_NAMES[i]: [round(float(w), _FINE) for w in weights[:, i]]
            for i in sorted(moving | self._moved)
        }
        self._moved = set(np.flatnonzero(weights[-1]).tolist())
        return [{"dt": steps, "vs": shapes}]


def _start(turn: int) -> str:
    told = {"type": "start", "turn": turn, "sampleRate": SOUND_HZ, "lipsyncType": "blendshapes"}
    return json.dumps(told)
