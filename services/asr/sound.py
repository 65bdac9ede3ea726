"""A stream of sound: brought to 16 kHz, its recent past, and which frames are as quiet as
the room.
"""

import math
from collections import deque

import numpy as np
import soxr
from numpy.typing import NDArray

from services.asr.hearing.detectors import SAMPLE_RATE_HZ

# Short filters: 6 ms of delay from 48 kHz, where the best quality takes 21 ms
# and recognition is no better.
_RESAMPLING_QUALITY = "LQ"

_FIRST_TAPE_SAMPLES = SAMPLE_RATE_HZ
_HOP_SAMPLES = 160
_QUIET_HOPS = 6

_TINY_LEVEL = 1e-5
# So much above the room's level a frame is still as quiet as the room.
_MARGIN = 10 ** (6 / 20)
# The room's level falls at once and rises by this much per frame.
_RISE_PER_FRAME = 10 ** (0.5 / 20)
# A room cannot be told from speech that is not well above it.
_FEWEST_RANGE = 10 ** (18 / 20)
_PEAK_FALL_PER_FRAME = 10 ** (-0.1 / 20)
# Of powers: chosen on turns in babble of 5 and 10 dB, of the half of the material that is for that.
_MEAN_FRAMES = 8
# Of the way from their softest to the visitor, in decibels.
_REACH = 0.4
_REACH_BETWEEN = 0.75
_FULL_ROOM, _LATEST_SHARE = 0.3, 0.1
_MUCH_SOFTER, _FEWEST_KNOWN = 10 ** (-3 / 10), 8
# Where the microphone was shut before, the soft end of a voice may be the softest that was heard.
_FEWEST_KNOWN_OPENED = 24
_SHORTEST_REACH, _LONGEST_REACH = 10 ** (5 / 10), 10 ** (10 / 10)
_FEWEST_BELOW_VISITOR = 10 ** (6 / 10)
# A microphone that is off, or shut by a noise gate: no room is as silent.
_SHUT = 10 ** (-80 / 10)
_SOFTEST_RISE_PER_FRAME = 10 ** (0.005 / 10)
# Two decibels in ten minutes: he may say nothing for long while they talk on.
_VISITOR_FALL_PER_FRAME = 10 ** (-0.0001 / 10)
# Of powers. Who leans back or turns away is 6 to 10 dB softer, and 4 more in a short soft word.
_FAR_BELOW = 10 ** (-15 / 10)
# A visitor is known by so many utterances of about his level, none a mere word, and together of
# a second and a half.
_KNOWN_BY, _FEWEST_LEARNT_FRAMES, _FEWEST_KNOWN_FRAMES = 5, 16, 48
_HIS_LEVEL = 10 ** (-8 / 10)
# Far voices that were heard for so much of the latest 20 s wait for no answer.
_GOES_ON, _FAR_SHARE = 0.3, 1 / 625


class Resampler:
    """Brings one stream of sound to 16 kHz; state is carried from call to call."""

    def __init__(self, sample_rate_hz: int) -> None:
        """sample_rate_hz: 8000 to 48000 of what will be fed."""
        self.sample_rate_hz = sample_rate_hz
        self._stream = (
            None
            if sample_rate_hz == SAMPLE_RATE_HZ
            else soxr.ResampleStream(
                sample_rate_hz, SAMPLE_RATE_HZ, 1, dtype="float32", quality=_RESAMPLING_QUALITY
            )
        )

    def feed(self, pcm: NDArray[np.int16], *, last: bool = False) -> NDArray[np.float32]:
        """pcm: [N] int16 -> [M] float32 in -1..1 at 16 kHz; `last` brings the rest."""
        level = pcm.astype(np.float32) / np.float32(32768)
        if self._stream is None:
            return level
        resampled: NDArray[np.float32] = self._stream.resample_chunk(level, last=last)
        return resampled


def resample(pcm: NDArray[np.int16], sample_rate_hz: int) -> NDArray[np.float32]:
    """A whole recording [N] int16 -> [M] float32 in -1..1 at 16 kHz."""
    return Resampler(sample_rate_hz).feed(pcm, last=True)


class Tape:
    """Keeps the recent past of a stream of sound, addressed by absolute sample position.

    It grows at its end and forgets at its beginning; appending is amortised O(1).
    """

    def __init__(self) -> None:
        self._samples = np.zeros(_FIRST_TAPE_SAMPLES, np.float32)
        self._first = 0
        self._used = 0

    @property
    def start(self) -> int:
        """Position of the oldest sample that is kept."""
        return self._first

    @property
    def end(self) -> int:
        """Position after the newest sample: how much has been heard."""
        return self._first + self._used

    @property
    def capacity(self) -> int:
        """Samples that the memory held at present has room for."""
        return len(self._samples)

    def append(self, pcm: NDArray[np.float32]) -> None:
        """pcm: [N] float32."""
        needed = self._used + len(pcm)
        if needed > len(self._samples):
            grown = np.zeros(max(needed, 2 * len(self._samples)), np.float32)
            grown[: self._used] = self._samples[: self._used]
            self._samples = grown
        self._samples[self._used : needed] = pcm
        self._used = needed

    def between(self, start: int, end: int) -> NDArray[np.float32]:
        """A copy, [N] float32, of what is left of [start, end); before the stream was silence."""
        low = max(start - self._first, 0)
        high = max(min(end - self._first, self._used), low)
        before = max(min(end, 0) - start, 0) if self._first == 0 else 0
        return np.pad(self._samples[low:high], (before, 0))

    def quietest(self, start: int, end: int) -> int:
        """The middle of the quietest 60 ms in [start, end), or `start` where that is shorter."""
        pcm = self.between(start, end)
        n_hops = len(pcm) // _HOP_SAMPLES
        if n_hops < _QUIET_HOPS:
            return start
        power = (pcm[: n_hops * _HOP_SAMPLES].reshape(n_hops, -1) ** 2).mean(axis=1)
        smooth = np.convolve(power, np.ones(_QUIET_HOPS), "valid")
        return start + (int(smooth.argmin()) + _QUIET_HOPS // 2) * _HOP_SAMPLES

    def forget(self, before: int) -> None:
        """Drop what lies before this position."""
        gone = min(max(before - self._first, 0), self._used)
        if not gone:
            return
        left = self._used - gone
        size = len(self._samples)
        # A long monologue must not leave its size behind for the rest of the session.
        target = max(_FIRST_TAPE_SAMPLES, size // 2) if left < size // 4 else size
        kept = self._samples[gone : self._used].copy()
        if target != size:
            self._samples = np.zeros(target, np.float32)
        self._samples[:left] = kept
        self._first += gone
        self._used = left


class QuietFrames:
    """Tells which frames of a stream are as quiet as its room: an end of speech is seen there
    before the VAD sees it. It learns the levels of room and speech as it hears them.
    """

    def __init__(self) -> None:
        self._room = 1.0
        self._speech = _TINY_LEVEL
        self._level = 1.0

    def is_quiet(self, pcm: NDArray[np.float32], speech_probability: float) -> bool:
        """Whether the next frame, [N] float32, holds no more than the room's own sound."""
        # One product: each frame comes by here.
        self._level = level = max(_TINY_LEVEL, math.sqrt(float(pcm @ pcm) / len(pcm)))
        self._speech *= _PEAK_FALL_PER_FRAME
        if speech_probability >= 0.5:
            self._speech = max(self._speech, level)
        if level < self._room:
            self._room = level
        elif speech_probability < 0.5:
            self._room = min(level, self._room * _RISE_PER_FRAME)
        return level < self._room * _MARGIN and self._speech > level * _FEWEST_RANGE

    @property
    def depth(self) -> float:
        """Of the latest frame: how far it has fallen from the level of speech (0) to the room's
        (1), in decibels."""
        loudest = max(self._speech, self._level)
        span = math.log(loudest / self._room)
        return min(1.0, math.log(loudest / self._level) / span) if span else 0.0


class Bystanders:
    """Tells which frames hold no more than the voices behind the visitor.

    A VAD takes the talk of a full room for speech, and the visitor never seems to end. But that
    talk is steady, as many voices are, and was there before him: what is hardly louder than it was
    at its softest, and clearly softer than he is, is not his. Levels are means of a
    quarter of a second, which bridges the gaps between words of one voice and evens out many.
    Somebody who speaks softly where others do not is heard as ever: he is above the softest level.
    What was soft is forgotten while the microphone is shut: the room may be another when it opens,
    and that silence is none that anybody hears behind him.
    """

    def __init__(self) -> None:
        self._powers: deque[float] = deque(maxlen=_MEAN_FRAMES)
        self._softest = math.inf
        self._known_from, self._known_frames = math.inf, 0
        """About this soft; and frames that were: a voice that fades is so for a moment only."""
        self._fewest_known = _FEWEST_KNOWN
        self._visitor = 0.0
        self._talk = 0.0
        """Share of the latest soft frames that the VAD took for speech: of a quiet room few."""

    def are_all(
        self, pcm: NDArray[np.float32], speech_probability: float, *, speaking: bool
    ) -> bool:
        """Whether the next frame, [N] float32, holds nobody but them. speaking: the visitor has
        begun, and not ended."""
        latest = float(pcm @ pcm) / len(pcm)
        if latest < _SHUT:
            self._powers.clear()
            self._softest = self._known_from = math.inf
            self._fewest_known = _FEWEST_KNOWN_OPENED
            return False
        self._powers.append(latest)
        if len(self._powers) < _MEAN_FRAMES:
            return False
        power = sum(self._powers) / _MEAN_FRAMES
        self._softest = min(power, self._softest * _SOFTEST_RISE_PER_FRAME)
        if self._softest < self._known_from * _MUCH_SOFTER:
            self._known_from, self._known_frames = self._softest, 0
        self._visitor *= _VISITOR_FALL_PER_FRAME
        if speech_probability >= 0.5:
            self._visitor = max(self._visitor, power)
        # The further they are below him the further up they may reach.
        way = self._visitor / self._softest
        reach = min(_LONGEST_REACH, max(_SHORTEST_REACH, way**_REACH))
        softer = self._visitor / _FEWEST_BELOW_VISITOR
        if power < min(softer, self._softest * reach):
            self._talk += _LATEST_SHARE * ((speech_probability >= 0.5) - self._talk)
            self._known_frames += 1
        if self._talk < _FULL_ROOM or self._known_frames < self._fewest_known:
            return False
        if not speaking:
            reach = max(reach, way**_REACH_BETWEEN)
        return power < self._softest * reach and max(power, latest) < softer


class FarVoices:
    """Tells which frames hold only voices far behind the visitor, such as a television's.

    Their words are as good as his; two things tell them. They are further below the level of his
    latest utterances than he comes by leaning back. And they go on, whether or not anybody answers:
    a visitor who whispers, or speaks from across the room, falls silent to be answered. So a far
    voice is heard until such voices have talked for much of the latest time, and none is far before
    the visitor is known. What has begun as an utterance is left alone. A level is that of the
    loudest quarter of a second of voice. A microphone that evens out levels hides what is far.
    """

    def __init__(self) -> None:
        self._powers: deque[float] = deque(maxlen=_MEAN_FRAMES)
        """Of the latest voiced frames, while they follow each other or an utterance is open."""
        self._loudest = 0.0
        self._learnt: deque[tuple[float, int]] = deque(maxlen=_KNOWN_BY)
        """Power and voiced frames of the visitor's latest utterances."""
        self._visitor = 0.0
        """Power; 0: not known yet."""
        self._share = 0.0
        """Of the latest time, but for the visitor's own utterances, in which far voices talked."""

    @property
    def loudest(self) -> float:
        """Power of the open utterance, or of the latest voice."""
        return self._loudest

    def are_all(
        self, pcm: NDArray[np.float32], speech_probability: float, *, speaking: bool
    ) -> bool:
        """Whether the next frame, [N] float32, is speech that is none of the visitor's.

        speaking: an utterance has begun, and not ended.
        """
        self._visitor *= _VISITOR_FALL_PER_FRAME
        voiced = speech_probability >= 0.5
        if voiced:
            self._powers.append(float(pcm @ pcm) / len(pcm))
            self._loudest = max(self._loudest, sum(self._powers) / len(self._powers))
        elif not speaking:
            self._powers.clear()
            self._loudest = 0.0
        far = self._loudest < self._visitor * _FAR_BELOW
        if far or not speaking:
            self._share += _FAR_SHARE * ((far and voiced) - self._share)
        return far and voiced and not speaking and self._share > _GOES_ON

    def ended(self) -> None:
        """The open utterance has; what follows is another."""
        self._powers.clear()
        self._loudest = 0.0

    def learn(self, loudest: float, voiced_frames: int) -> None:
        """An utterance with words was this loud, and so long without its pauses."""
        if voiced_frames < _FEWEST_LEARNT_FRAMES or loudest <= self._visitor * _HIS_LEVEL:
            return
        self._learnt.append((loudest, voiced_frames))
        if sum(frames for _, frames in self._learnt) >= _FEWEST_KNOWN_FRAMES:
            # Not the loudest: a single shout is none.
            self._visitor = sorted(power for power, _ in self._learnt)[-2:][0]
