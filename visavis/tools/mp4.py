"""Writes an mp4 file from pictures that are already H.264 and sound that is PCM."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Self

import av
import numpy as np
from numpy.typing import NDArray

from visavis.serving.errors import InvalidInputError


class Mp4Writer:
    """Context manager; the file is complete once it is left.

    Pictures are passed through as they are, sound becomes AAC. The file appears under
    its name only when it is whole; leaving by an error leaves nothing.
    """

    def __init__(
        self, path: Path, *, fps: int, width: int, height: int, sample_rate_hz: int
    ) -> None:
        self._path = path
        self._part = path.with_name(path.name + ".part")
        self._samples_per_frame = Fraction(sample_rate_hz, fps)
        self._sample_rate_hz = sample_rate_hz
        self._frames = 0
        self._samples = 0
        try:
            self._part.touch()  # FFmpeg would open it only when the first packet comes
        except OSError as error:
            raise InvalidInputError(f"{path}: cannot be written: {error.strerror}") from error
        self._file = av.open(str(self._part), "w", format="mp4")
        self._video = self._file.add_mux_stream("h264", rate=fps, width=width, height=height)
        self._video_base = Fraction(1, fps)
        self._sound = self._file.add_stream("aac", rate=sample_rate_hz)
        self._sound.layout = "mono"

    @property
    def frames(self) -> int:
        return self._frames

    def add_picture(self, payload: bytes, *, keyframe: bool) -> None:
        """The next picture: an Annex B access unit, parameter sets before the first one."""
        packet = av.Packet(payload)
        packet.stream = self._video
        packet.time_base = self._video_base
        packet.pts = packet.dts = self._frames
        packet.duration = 1
        packet.is_keyframe = keyframe
        self._file.mux(packet)
        self._frames += 1

    def add_sound(self, pcm: NDArray[np.int16]) -> None:
        """The next sound. pcm: [N] int16 mono; cut where the pictures end, see `close`."""
        if not len(pcm):
            return
        frame = av.AudioFrame.from_ndarray(pcm[None], format="s16", layout="mono")
        frame.sample_rate = self._sample_rate_hz
        frame.pts = self._samples
        frame.time_base = Fraction(1, self._sample_rate_hz)
        self._samples += len(pcm)
        self._file.mux(self._sound.encode(frame))

    def close(self) -> None:
        """Fill the sound up with silence to the end of the last picture, and finish."""
        missing = int(self._frames * self._samples_per_frame) - self._samples
        if missing > 0:
            self.add_sound(np.zeros(missing, np.int16))
        self._file.mux(self._sound.encode(None))
        self._file.close()
        self._part.replace(self._path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
        else:
            self._file.close()
            self._part.unlink(missing_ok=True)
