"""Recordings: the very pictures that the face encoded, and the sound that went with them.

A recording begins with a key frame. Where the turn's first picture is none, it begins
with the key frame before it, so that no sound of the turn is lost. What is said before
there is any, as while a face is away, is heard under the first one. What is said
stands in the pictures, as in those that go live.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import math
import secrets
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray

from gateway.api.events import WordTime
from gateway.playout.captions import Captions
from gateway.playout.pacing import RATE_HZ, to_samples, to_video_clock
from gateway.playout.pictures import ReleasedPicture
from gateway.playout.playout import PlayoutEvent, Tick
from gateway.playout.sinks.recording_folders import make_folder
from visavis.mp4 import Mp4Writer
from visavis.serving.errors import AtCapacityError, OutOfOrderError, UnknownNameError
from visavis.wire.media import VideoCodec

log = logging.getLogger(__name__)

# Sound and pictures kept while waiting for the turn; key frames come more often.
PREROLL_SAMPLES = 12 * RATE_HZ
DEFAULT_LIMIT_S = 2 * 3600.0
# A fifth of a second goes to the thread that writes at once; where ten seconds wait for it, it is
# not waited for.
_TICKS_AT_A_TIME = 10
_MOST_HANDED = 50
FETCH_S = 5.0
"""For so long after its end a recording that nobody has fetched yet is waited for."""


class Scope(StrEnum):
    """What is recorded: the next turn, or all from now on."""

    TURN = "turn"
    SESSION = "session"


class RecordingPhase(StrEnum):
    """Where a recording stands."""

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

    Feed every tick; `finish` ends it. The file is complete when phase is DONE. What writes raises
    OSError where the disk is full; then `fail`.
    """

    def __init__(self, path: Path, scope: Scope, *, limit_s: float = DEFAULT_LIMIT_S) -> None:
        self.path = path
        self.scope = scope
        self.phase = RecordingPhase.ARMED
        self.turn: int | None = None
        self.duration_s = 0.0
        self.empty = True
        """Nothing was recorded: there is no file."""
        self.error = ""
        """Why it ended early, and what is kept."""
        self._limit_samples = round(limit_s * RATE_HZ)
        self._film: Mp4Writer | None = None
        self._turn_samples = 0
        """Where the turn begins that is recorded."""
        self._start_samples = 0
        self._start_video = 0
        self._preroll_pictures: deque[ReleasedPicture] = deque()
        self._preroll_sound: deque[_Sound] = deque()

    def push(self, tick: Tick) -> None:
        """What leaves in this tick."""
        if self.phase is RecordingPhase.DONE:
            return
        if self.scope is Scope.TURN:
            for event, turn in tick.events:
                if event is PlayoutEvent.STARTED and self.turn is None:
                    self.turn, self._turn_samples = turn, tick.start_samples
                if event is PlayoutEvent.FINISHED and turn == self.turn:
                    rest = tuple(p for p in tick.pictures if p.picture.turn == turn)
                    self._take(replace(tick, pcm=tick.pcm[:0], pictures=rest))
                    self.finish(tick.start_samples)
                    return
        self._take(tick)
        if self._film is not None and self._film.samples >= self._limit_samples:
            most_s = self._limit_samples / RATE_HZ
            self.finish(tick.start_samples + len(tick.pcm), f"none is longer than {most_s:g} s")

    def turn_cut(self, turn: int, now_samples: int) -> None:
        """Turn `turn` was interrupted; what is recorded of it ends here."""
        if self.scope is Scope.TURN and self.turn == turn:
            self.finish(now_samples)

    def finish(self, now_samples: int, early: str = "") -> None:
        """End the recording at `now_samples`, or with its last picture if that is later.

        early: why, where nobody wanted it to end.
        """
        if early and self.phase is not RecordingPhase.DONE:
            kept = "nothing is kept" if self.empty else "it is kept"
            self.error = f"the recording has ended, for {early}; {kept}"
        if self._film is not None:
            self.duration_s = self._film.close(to_video_clock(now_samples - self._start_samples))
            self._film = None
        self.phase = RecordingPhase.DONE
        self._forget_preroll()

    def fail(self, error: OSError) -> None:
        """The disk is full, or gone: the recording ends here, with what of it can be played."""
        reason = error.strerror or str(error)
        self.phase = RecordingPhase.DONE
        self._forget_preroll()
        film, self._film = self._film, None
        with contextlib.suppress(OSError, av.FFmpegError):
            self.duration_s = film.keep_playable() if film is not None else 0.0
        self.empty = not self.duration_s
        kept = "nothing is kept" if self.empty else f"its first {self.duration_s:.1f} s are kept"
        self.error = f"the recording has ended, for it could not be written ({reason}); {kept}"

    def abandon(self) -> None:
        """Stop and delete what was recorded."""
        self.phase = RecordingPhase.DONE
        self._forget_preroll()
        if self._film is not None:
            self._film.abandon()
            self._film = None
        self.path.unlink(missing_ok=True)

    # ------------------------------------------------------------ inside

    def _take(self, tick: Tick) -> None:
        pictures = [p for p in tick.pictures if p.picture.codec is VideoCodec.H264]
        if self.phase is RecordingPhase.RECORDING:
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
        first = self._preroll_pictures[0]
        self._start_samples, self._start_video = to_samples(first.time), first.time
        said = (s.start_samples for s in self._preroll_sound if s.pcm.any())
        said_from = next((at for at in said if at >= self._turn_samples), self._start_samples)
        if said_from < self._start_samples:
            self._start_samples, self._start_video = said_from, to_video_clock(said_from)
        self.empty = False
        self._film = Mp4Writer(
            self.path,
            fps=first.picture.fps,
            width=first.picture.width,
            height=first.picture.height,
            sample_rate_hz=RATE_HZ,
        )
        self.phase = RecordingPhase.RECORDING
        self._write_pictures(self._preroll_pictures)
        for sound in self._preroll_sound:
            self._write_sound(sound.start_samples, sound.pcm)
        self._forget_preroll()

    def _forget_preroll(self) -> None:
        self._preroll_pictures.clear()
        self._preroll_sound.clear()

    def _write_pictures(self, pictures: Iterable[ReleasedPicture]) -> None:
        assert self._film is not None
        for released in pictures:
            picture = released.picture
            at = released.time - self._start_video if self._film.frames else 0
            self._film.add_picture(picture.payload, keyframe=picture.keyframe, at=at)

    def _write_sound(self, start_samples: int, pcm: NDArray[np.int16]) -> None:
        assert self._film is not None
        skip = self._start_samples + self._film.samples - start_samples
        if skip > 0:
            pcm = pcm[skip:]
        elif skip < 0:
            pcm = np.concatenate([np.zeros(-skip, np.int16), pcm])
        self._film.add_sound(pcm)


class Recordings:
    """Keeps one session's recordings, one at a time. A sink.

    A thread writes them, some ticks at a time: nobody waits for a slow disk, or for the end of a
    long file. What a recording tells of itself is up to date once all is `written`.
    folder: where its own folder is made; None: among the machine's temporary ones.
    on_keyframe: it cannot begin before the next one. changed: one has begun or ended.
    failed: one has ended by itself; why, and what is kept.
    """

    def __init__(
        self,
        session: str,
        folder: Path | None,
        limit_s: float,
        on_keyframe: Callable[[VideoCodec], None],
        changed: Callable[[], None],
        failed: Callable[[str], None] = lambda message: None,
    ) -> None:
        self.current: Recording | None = None
        """The newest, which may be over."""
        self._running: Recording | None = None
        """That one, until its end is known here."""
        self._session = session
        self._parent = folder
        self._limit_s = limit_s
        self._on_keyframe = on_keyframe
        self._changed = changed
        self._failed = failed
        self._folder: Path | None = None
        self._captions = Captions()
        self._now_samples = 0
        self._thread: ThreadPoolExecutor | None = None
        self._works: list[Callable[[], None]] = []
        """What the thread is to do next."""
        self._handed: deque[asyncio.Future[None]] = deque()
        self._given_up = False
        self._fetch_until_s = -math.inf

    @property
    def kept(self) -> bool:
        """One is running, or has just ended and whoever wanted it is about to fetch it."""
        return self.watched or asyncio.get_running_loop().time() < self._fetch_until_s

    def fetched(self) -> None:
        """Somebody is being sent the newest one."""
        self._fetch_until_s = -math.inf

    @property
    def watched(self) -> bool:
        return self._running is not None

    @property
    def codecs(self) -> set[VideoCodec]:
        return {VideoCodec.H264} if self.watched else set()

    @property
    def attended(self) -> bool:
        return False

    @property
    def waits(self) -> bool:
        """One starts with the next turn."""
        return self._running is not None and self._running.phase is RecordingPhase.ARMED

    async def start(self, scope: Scope) -> Recording:
        """An older one is forgotten.

        Raises OutOfOrderError while one is running, AtCapacityError where there is no room for a
        file.
        """
        await self.written()
        if self._running is not None:
            raise OutOfOrderError("recording: one is running; stop it first")
        self._drop()
        path = self._own_folder() / f"{secrets.token_hex(4)}.mp4"
        self._thread = self._thread or ThreadPoolExecutor(1, "recording")
        self.current = self._running = Recording(path, scope, limit_s=self._limit_s)
        self._given_up = False
        self._captions = Captions()
        self._changed()
        self._on_keyframe(VideoCodec.H264)
        return self.current

    async def stop(self) -> Recording:
        """Raises UnknownNameError where none was started."""
        recording = self.current
        if recording is None:
            raise UnknownNameError("recording: none was started")
        self.end()
        await self.written()
        return recording

    def end(self, early: str = "") -> None:
        """The one that runs ends here. early: see `Recording.finish`."""
        if self._running is not None:
            self._works.append(partial(self._running.finish, self._now_samples, early))
            self._hand_over()

    def push(self, tick: Tick) -> None:
        """Record what leaves in this tick."""
        self._now_samples = tick.start_samples + len(tick.pcm)
        recording = self._running
        if recording is None or self._given_up:
            return
        pictures = tuple(map(self._captioned, tick.pictures))
        self._works.append(partial(recording.push, replace(tick, pictures=pictures)))
        if len(self._works) < _TICKS_AT_A_TIME:
            return
        if len(self._handed) >= _MOST_HANDED:
            self._given_up = True
            error = OSError(errno.EIO, "the disk does not keep up")
            self._works = [partial(recording.fail, error)]
        self._hand_over()

    def caption(self, turn: int, words: Sequence[WordTime], played_s: float) -> None:
        """So much of a turn's answer has been heard; see `Captions`."""
        if self._running is not None:
            self._captions.spoken(turn, words, played_s)

    def cut(self, turn: int) -> None:
        """What is recorded of the turn ends here."""
        if self._running is not None:
            self._works.append(partial(self._running.turn_cut, turn, self._now_samples))

    async def written(self) -> None:
        """Return once all that has left so far is in the file."""
        self._hand_over()
        if self._handed:
            # Not gathered: whoever gives up waiting must not cancel what is to be written.
            await asyncio.wait(self._handed)

    async def close(self) -> None:
        """Delete all of them."""
        await self.written()
        self._running = None
        self._drop()
        await asyncio.to_thread(self._clear_away)

    def _captioned(self, released: ReleasedPicture) -> ReleasedPicture:
        picture = released.picture
        if picture.codec is not VideoCodec.H264:
            return released
        payload = self._captions.within(picture.payload, released.time)
        return replace(released, picture=replace(picture, payload=payload))

    def _hand_over(self) -> None:
        """Give the thread what it is to do next."""
        recording = self._running
        works, self._works = self._works, []
        if recording is None or not works:
            return
        loop = asyncio.get_running_loop()
        done = loop.run_in_executor(self._thread, _write, recording, works)
        self._handed.append(done)
        done.add_done_callback(lambda done: self._written(recording, done))

    def _written(self, recording: Recording, done: asyncio.Future[None]) -> None:
        """The thread has done what it was given last."""
        self._handed.remove(done)
        if recording.phase is not RecordingPhase.DONE or self._running is not recording:
            return
        self._running = None
        if not recording.empty:
            self._fetch_until_s = asyncio.get_running_loop().time() + FETCH_S
        if recording.error:
            log.error("%s", recording.error)
            self._failed(recording.error)
        self._changed()

    def _own_folder(self) -> Path:
        if self._folder is None:
            try:
                self._folder = make_folder(self._parent, self._session)
            except OSError as error:
                raise AtCapacityError(
                    f"recording: there is no folder for it: {error.strerror or error}"
                ) from error
        return self._folder

    def _drop(self) -> None:
        """Have the thread delete the newest one, before whatever it is given next."""
        if self.current is not None and self._thread is not None:
            self._thread.submit(_write, self.current, [self.current.abandon])
        self.current = None

    def _clear_away(self) -> None:
        if self._thread is not None:
            self._thread.shutdown()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def _write(recording: Recording, works: Sequence[Callable[[], None]]) -> None:
    """In the thread: a full disk, or a fault of ours, ends the recording, not the conversation."""
    for work in works:
        try:
            work()
        except OSError as error:
            recording.fail(error)
        except Exception:
            log.exception("a recording failed")
            recording.fail(OSError(errno.EIO, "an internal error"))
