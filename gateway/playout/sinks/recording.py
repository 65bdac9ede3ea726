"""Recordings: the very pictures that the face encoded, and the sound that went with them.

A recording begins with a key frame. Where the turn's first picture is none, it begins
with the key frame before it, so that no sound of the turn is lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import shutil
import tempfile
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from gateway.playout.pacing import RATE_HZ, to_samples
from gateway.playout.pictures import ReleasedPicture
from gateway.playout.playout import PlayoutEvent, Tick
from gateway.playout.sinks.fmp4 import Fragment, Muxer, init_segment
from gateway.playout.sound import AacEncoder
from visavis.serving.errors import OutOfOrderError, UnknownNameError
from visavis.wire.media import VideoCodec

log = logging.getLogger(__name__)

# Sound and pictures kept while waiting for the turn; key frames come more often.
PREROLL_SAMPLES = 12 * RATE_HZ
DEFAULT_LIMIT_S = 2 * 3600.0


class Scope(StrEnum):
    TURN = "turn"
    SESSION = "session"


class Phase(StrEnum):
    ARMED = "armed"
    """Waiting for the turn or for a key frame."""
    RECORDING = "recording"
    DONE = "done"


@dataclass(slots=True)
class _Sound:
    """A tick's sound in the pre-roll."""

    start_samples: int
    pcm: NDArray[np.int16]


class Recording:
    """One recording of a session, into the file at `path`.

    Feed every tick; `finish` ends it. The file is complete when phase is DONE.
    """

    def __init__(self, path: Path, scope: Scope, *, limit_s: float = DEFAULT_LIMIT_S) -> None:
        self.path = path
        self.scope = scope
        self.phase = Phase.ARMED
        self.turn: int | None = None
        self.duration_s = 0.0
        self.error = ""
        """Why it could not be written."""
        self._limit_samples = round(limit_s * RATE_HZ)
        self._file: BinaryIO | None = None
        self._muxer: Muxer | None = None
        self._aac: AacEncoder | None = None
        self._start_samples = 0
        self._sound_samples = 0
        self._picture_end = 0
        self._preroll_pictures: deque[ReleasedPicture] = deque()
        self._preroll_sound: deque[_Sound] = deque()

    def push(self, tick: Tick) -> None:
        """What leaves in this tick."""
        if self.phase is Phase.DONE:
            return
        if self.scope is Scope.TURN:
            for event, turn in tick.events:
                if event is PlayoutEvent.STARTED and self.turn is None:
                    self.turn = turn
                if event is PlayoutEvent.FINISHED and turn == self.turn:
                    rest = tuple(p for p in tick.pictures if p.picture.turn == turn)
                    self._take(replace(tick, pcm=tick.pcm[:0], pictures=rest))
                    self.finish(tick.start_samples)
                    return
        self._take(tick)
        if self.phase is Phase.RECORDING and self._sound_samples >= self._limit_samples:
            self.finish(tick.start_samples + len(tick.pcm))

    def turn_cut(self, turn: int, now_samples: int) -> None:
        """Turn `turn` was interrupted; what is recorded of it ends here."""
        if self.scope is Scope.TURN and self.turn == turn:
            self.finish(now_samples)

    def finish(self, now_samples: int) -> None:
        """End the recording at `now_samples`, or with its last picture if that is later."""
        if self.phase is Phase.RECORDING:
            self._complete(max(now_samples, self._picture_end))
        self.phase = Phase.DONE
        self._preroll_pictures.clear()
        self._preroll_sound.clear()

    def abandon(self, error: str = "") -> None:
        """Stop and delete what was recorded."""
        self.phase, self.error = Phase.DONE, error
        self._aac = None  # it holds threads
        if self._file is not None:
            with contextlib.suppress(OSError):  # what is buffered may not fit either
                self._file.close()
            self._file = None
        self.path.unlink(missing_ok=True)

    @property
    def empty(self) -> bool:
        """Nothing was recorded: there is no file."""
        return self._muxer is None

    # ------------------------------------------------------------ inside

    def _take(self, tick: Tick) -> None:
        pictures = [p for p in tick.pictures if p.picture.codec is VideoCodec.H264]
        if self.phase is Phase.RECORDING:
            self._write_pictures(pictures)
            self._write_sound(tick.start_samples, tick.pcm)
            return
        self._preroll_sound.append(_Sound(tick.start_samples, tick.pcm))
        for released in pictures:
            if released.picture.keyframe:
                self._preroll_pictures.clear()
            if released.picture.keyframe or self._preroll_pictures:
                self._preroll_pictures.append(released)
            if self._begins_with(released):
                self._begin()
                self._write_pictures(pictures[pictures.index(released) + 1 :])
                return
        self._trim(tick.start_samples)

    def _begins_with(self, released: ReleasedPicture) -> bool:
        if not self._preroll_pictures:
            return False
        if self.scope is Scope.SESSION:
            return True
        return self.turn is not None and released.picture.turn == self.turn

    def _trim(self, now_samples: int) -> None:
        """Bound the pre-roll. Pictures without their key frame are of no use."""
        oldest = now_samples - PREROLL_SAMPLES
        if self._preroll_pictures and to_samples(self._preroll_pictures[0].time) < oldest:
            self._preroll_pictures.clear()
        if self._preroll_pictures:
            oldest = max(oldest, to_samples(self._preroll_pictures[0].time))
        while self._preroll_sound:
            head = self._preroll_sound[0]
            if head.start_samples + len(head.pcm) > oldest:
                break
            self._preroll_sound.popleft()

    def _begin(self) -> None:
        self._start_samples = to_samples(self._preroll_pictures[0].time)
        self._muxer = Muxer(self._start_samples, live=False)
        # Shifted by the encoder's delay, which the edit list takes out again.
        self._aac = AacEncoder(self._start_samples + AacEncoder.PRIMING_SAMPLES)
        self._file = self.path.open("wb")
        self.phase = Phase.RECORDING
        first = True
        while self._preroll_pictures:
            released = self._preroll_pictures.popleft()
            self._write_pictures([released], header=first)
            first = False
        while self._preroll_sound:
            sound = self._preroll_sound.popleft()
            self._write_sound(sound.start_samples, sound.pcm)

    def _write_pictures(self, pictures: list[ReleasedPicture], *, header: bool = False) -> None:
        assert self._muxer is not None and self._file is not None
        for released in pictures:
            fragment = self._muxer.picture(released)
            if header:
                self._file.write(self._header(0))
            self._write(fragment)
            end = to_samples(released.time) + released.picture.duration_samples
            self._picture_end = max(self._picture_end, end)

    def _write_sound(self, start_samples: int, pcm: NDArray[np.int16]) -> None:
        assert self._muxer is not None and self._aac is not None
        skip = self._start_samples + self._sound_samples - start_samples
        if skip > 0:
            pcm = pcm[skip:]
        elif skip < 0:
            pcm = np.concatenate([np.zeros(-skip, np.int16), pcm])
        self._sound_samples += len(pcm)
        for packet in self._aac.encode(pcm):
            self._write(self._muxer.sound(packet))

    def _write(self, fragment: Fragment | None) -> None:
        assert self._file is not None
        if fragment is not None:
            self._file.write(fragment.payload)

    def _complete(self, end_samples: int) -> None:
        assert self._muxer is not None and self._aac is not None and self._file is not None
        self._write_sound(end_samples, np.zeros(0, np.int16))
        self._write(self._muxer.finish(end_samples))
        for packet in self._aac.finish():
            self._write(self._muxer.sound(packet))
        self.duration_s = (end_samples - self._start_samples) / RATE_HZ
        self._file.seek(0)
        self._file.write(self._header(round(self.duration_s * 1000)))
        self._file.close()
        self._file = self._aac = None

    def _header(self, duration_ms: int) -> bytes:
        muxer, aac = self._muxer, self._aac
        assert muxer is not None and aac is not None and muxer.sets is not None
        return init_segment(
            muxer.sets,
            muxer.width,
            muxer.height,
            aac.config,
            priming_samples=AacEncoder.PRIMING_SAMPLES,
            duration_ms=duration_ms,
        )


class Recordings:
    """One session's: one at a time, which ticks go into. A sink.

    folder: where its own folder is made; None: among the machine's temporary ones.
    on_keyframe: it cannot begin before the next one. changed: one has begun or ended.
    """

    def __init__(
        self,
        session: str,
        folder: Path | None,
        limit_s: float,
        on_keyframe: Callable[[VideoCodec], None],
        changed: Callable[[], None],
    ) -> None:
        self.current: Recording | None = None
        """The newest, which may be over."""
        self._session = session
        self._parent = folder
        self._limit_s = limit_s
        self._on_keyframe = on_keyframe
        self._changed = changed
        self._folder: Path | None = None
        self._now_samples = 0

    @property
    def watched(self) -> bool:
        return self.current is not None and self.current.phase is not Phase.DONE

    @property
    def codecs(self) -> set[VideoCodec]:
        return {VideoCodec.H264} if self.watched else set()

    @property
    def waits(self) -> bool:
        """One starts with the next turn."""
        return self.current is not None and self.current.phase is Phase.ARMED

    def start(self, scope: Scope) -> Recording:
        """Raises OutOfOrderError while one is running. An older one is forgotten."""
        if self.watched:
            raise OutOfOrderError("recording: one is running; stop it first")
        if self._folder is None:
            if self._parent is not None:
                self._parent.mkdir(parents=True, exist_ok=True)
            made = tempfile.mkdtemp(prefix=f"{self._session}-", dir=self._parent)
            self._folder = Path(made)
        self._drop()
        path = self._folder / f"{secrets.token_hex(4)}.mp4"
        self.current = Recording(path, scope, limit_s=self._limit_s)
        self._changed()
        self._on_keyframe(VideoCodec.H264)
        return self.current

    def stop(self) -> Recording:
        """Raises UnknownNameError where none was started."""
        recording = self.current
        if recording is None:
            raise UnknownNameError("recording: none was started")
        self._write(lambda: recording.finish(self._now_samples))
        return recording

    def push(self, tick: Tick) -> None:
        """Record what leaves in this tick."""
        self._now_samples = tick.start_samples + len(tick.pcm)
        recording = self.current
        if recording is not None and self.watched:
            self._write(lambda: recording.push(tick))

    def cut(self, turn: int) -> None:
        """What is recorded of the turn ends here."""
        recording = self.current
        if recording is not None and self.watched:
            self._write(lambda: recording.turn_cut(turn, self._now_samples))

    async def close(self) -> None:
        """Delete all of them."""
        self._drop()
        if self._folder is not None:
            await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    def _write(self, work: Callable[[], None]) -> None:
        """A full disk ends the recording, not the conversation."""
        recorded = self.watched
        try:
            work()
        except OSError as error:
            log.error("recording: %s", error)
            if self.current is not None:
                self.current.abandon(error.strerror or str(error))
        if recorded and not self.watched:
            self._changed()

    def _drop(self) -> None:
        if self.current is not None:
            self.current.abandon()
            self.current = None
