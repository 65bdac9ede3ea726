"""Writes an mp4 file from pictures that are already H.264 and sound that is PCM.

For videos of a script and for recordings. While it grows the file is fragmented, so that what is
on disk can be played whatever happens next; when it is complete it is an ordinary mp4.
"""

from __future__ import annotations

import contextlib
import errno
import io
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Self

import av
import numpy as np
from numpy.typing import NDArray

from visavis.synthetic import SYNTHETIC

VIDEO_HZ = 90_000
"""Clock of the pictures' times."""
_FRAGMENT_US = 500_000
"""What a disk that fills up may cost, besides what does not fit."""
_OPTIONS = {"movflags": "hybrid_fragmented+delay_moov", "frag_duration": str(_FRAGMENT_US)}


class _Disk:
    """The file as FFmpeg sees it: it takes everything. The first error is kept, and nothing is
    written after it, so that what stands before it stays as it is.
    """

    def __init__(self, path: Path) -> None:
        self.error: OSError | None = None
        self._file = io.FileIO(path, "w+")

    def write(self, content: bytes) -> int:
        rest = memoryview(content)
        try:
            while len(rest) and self.error is None:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            self.error = error
        return len(content)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def cut(self) -> bool:
        """Behind the last whole fragment; whether there is one."""
        end = 0
        for kind, at, size in _boxes(self._file):
            if kind == b"mdat":
                end = at + size
        self._file.truncate(end)
        return end > 0

    def close(self) -> None:
        try:
            self._file.close()
        except OSError as error:
            self.error = self.error or error


@dataclass(frozen=True, slots=True)
class _Shown:
    """The newest picture: how long it is shown tells the next one."""

    payload: bytes
    keyframe: bool
    at: int


class Mp4Writer:
    """Context manager; the file is complete once it is left.

    Pictures are passed through as they are, sound becomes AAC. The file appears under its name
    only when it is whole; leaving by an error leaves nothing. Whatever writes raises OSError where
    the disk is full: `keep_playable` saves what was written until then.
    """

    def __init__(
        self, path: Path, *, fps: int, width: int, height: int, sample_rate_hz: int
    ) -> None:
        """Raises OSError where the file cannot be made."""
        self._path = path
        self._part = path.with_name(path.name + ".part")
        self._frame = VIDEO_HZ // fps
        self._sample_rate_hz = sample_rate_hz
        self._samples = 0
        self._frames = 0
        self._shown: _Shown | None = None
        self._disk = _Disk(self._part)
        self._file = av.open(self._disk, "w", format="mp4", options=_OPTIONS)
        self._file.metadata["comment"] = SYNTHETIC
        self._video = self._file.add_mux_stream("h264", rate=fps, width=width, height=height)
        self._video.time_base = Fraction(1, VIDEO_HZ)
        self._sound = self._file.add_stream("aac", rate=sample_rate_hz)
        self._sound.layout = "mono"
        # A third of the work, for a difference that speech does not show.
        self._sound.codec_context.options = {"aac_coder": "fast"}
        # A pool of threads for one voice would outlast the file until it is collected.
        self._sound.codec_context.thread_count = 1

    @property
    def frames(self) -> int:
        """Pictures so far."""
        return self._frames

    @property
    def samples(self) -> int:
        """Sound so far."""
        return self._samples

    @property
    def end(self) -> int:
        """When the newest picture has been shown for one frame, in VIDEO_HZ."""
        return self._shown.at + self._frame if self._shown else 0

    def add_picture(self, payload: bytes, *, keyframe: bool, at: int | None = None) -> None:
        """The next picture: an Annex B access unit, parameter sets before the first one.

        at: when it is shown, in VIDEO_HZ from the beginning; None: right after the one before.
        """
        at = self.end if at is None else max(at, self._shown.at + 1 if self._shown else 0)
        self._flush(at)
        self._shown = _Shown(payload, keyframe, at)
        self._frames += 1

    def add_sound(self, pcm: NDArray[np.int16]) -> None:
        """The next sound. pcm: [N] int16 mono."""
        if not len(pcm):
            return
        frame = av.AudioFrame.from_ndarray(
            np.ascontiguousarray(pcm[None]), format="s16", layout="mono"
        )
        frame.sample_rate = self._sample_rate_hz
        frame.pts = self._samples
        frame.time_base = Fraction(1, self._sample_rate_hz)
        self._samples += len(pcm)
        self._mux(self._sound.encode(frame))

    def close(self, end: int | None = None) -> float:
        """Show the last picture until `end` (VIDEO_HZ), fill the sound up with silence to there,
        and finish; the seconds that the file lasts.
        """
        end = max(self.end, end or 0)
        missing = end * self._sample_rate_hz // VIDEO_HZ - self._samples
        if missing > 0:
            self.add_sound(np.zeros(missing, np.int16))
        self._flush(end)
        self._mux(self._sound.encode(None))
        self._file.close()
        self._check()
        self._disk.close()
        self._check()
        self._part.replace(self._path)
        return end / VIDEO_HZ

    def keep_playable(self) -> float:
        """After an OSError: end the file with its last whole fragment; the seconds that it lasts.

        0.0, and no file, where there is none.
        """
        with contextlib.suppress(OSError):
            self._file.close()
        whole = self._disk.cut()
        self._disk.close()
        if not whole:
            self._part.unlink(missing_ok=True)
            return 0.0
        self._part.replace(self._path)
        with av.open(str(self._path)) as file:
            return (file.duration or 0) / av.time_base

    def abandon(self) -> None:
        """Leave nothing."""
        with contextlib.suppress(OSError):
            self._file.close()
        self._disk.close()
        self._part.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            self.abandon()
            return
        try:
            self.close()
        except OSError:
            self.abandon()
            raise

    def _flush(self, until: int) -> None:
        """Write the newest picture, which is shown until then."""
        if self._shown is None:
            return
        packet = av.Packet(self._shown.payload)
        packet.stream = self._video
        packet.time_base = Fraction(1, VIDEO_HZ)
        packet.pts = packet.dts = self._shown.at
        packet.duration = max(1, until - self._shown.at)
        packet.is_keyframe = self._shown.keyframe
        self._mux([packet])

    def _mux(self, packets: list[av.Packet[Any]]) -> None:
        try:
            self._file.mux(packets)
        except av.FFmpegError as error:
            raise OSError(errno.EIO, f"FFmpeg cannot write it: {error}") from error
        self._check()

    def _check(self) -> None:
        if self._disk.error is not None:
            raise self._disk.error


def _boxes(file: io.FileIO) -> Iterator[tuple[bytes, int, int]]:
    """Type, place and size of the boxes at the top level that are whole (ISO/IEC 14496-12)."""
    at, length = 0, file.seek(0, io.SEEK_END)
    while at + 8 <= length:
        file.seek(at)
        size, kind = struct.unpack(">I4s", file.read(8))
        if size < 8 or at + size > length:
            return
        yield kind, at, size
        at += size
