"""A microphone's RTP packets as plain sound, as they come; what is lost on the way is concealed."""

from __future__ import annotations

import av
import numpy as np
from numpy.typing import NDArray

from gateway import metrics
from gateway.talk.microphone import RATE_HZ, level_of
from visavis.serving.aiortc_private.incoming import SoundPacket

# Further back or ahead than this a packet is neither late nor the first after a loss: its sender
# counts anew (RFC 3550, appendix A.1).
_MOST_MISORDERED = 100
_MOST_LOST = 3000
_SEQUENCES = 1 << 16
# Longer gaps are pauses of a sender that has nothing to say; recognition counts them by itself.
LONGEST_GAP_S = 1.0

# A voice's fundamental, and how much of the sound is compared to find it.
_LOWEST_HZ, _HIGHEST_HZ = 66, 400
_COMPARED_S = 0.020
# A repeated period sounds like the voice for so long, and fades to nothing from there on. Slower
# than G.711 has it (by 0.06 s): it need not sound well, and a voice detector is not to hear a pause
# where a tenth of a second is missing.
_AS_LOUD_S, _FADED_S = 0.020, 0.150
_JOIN_S = 0.004
# Root mean square, of 32768: below it there is no voice to go on.
_QUIET = 40.0


class MicPackets:
    """In place of a jitter buffer: each packet is heard as it comes, or never.

    Players wait for packets that may still come, so that they play evenly. Nobody plays a
    microphone here, and each millisecond of it is heard as a longer wait for the answer. What has
    not come in time is lost, and something else is heard for its own length, so that sound and
    clock stay together (`MicSound`).
    """

    def __init__(self) -> None:
        self._source: int | None = None
        self._newest = 0

    def add(self, packet: SoundPacket) -> bool:
        """A packet has come; whether it is to be heard."""
        ahead = _signed(packet.sequence_number - self._newest)
        if packet.ssrc != self._source or not -_MOST_MISORDERED < ahead <= _MOST_LOST:
            ahead = 1
        if ahead <= 0:
            # A copy, or so late that something else was heard in its place.
            metrics.mic_packets.labels("late").inc()
            return False
        self._source, self._newest = packet.ssrc, packet.sequence_number
        if ahead > 1:
            metrics.mic_packets.labels("lost").inc(ahead - 1)
        return True


class MicSound:
    """Decoded frames to mono at `rate_hz`; what was lost between them is concealed."""

    def __init__(self, rate_hz: int = RATE_HZ) -> None:
        self._rate_hz = rate_hz
        self._resampler = self._new_resampler()
        self._next_pts: int | None = None
        self._concealment = Concealment(rate_hz)

    def _new_resampler(self) -> av.AudioResampler:
        # Without a frame size: pieces of fixed length would wait for the next packet's sound,
        # because the resampler holds back its filter's millisecond.
        return av.AudioResampler("s16", "mono", self._rate_hz)

    def decoded(self, frame: av.AudioFrame) -> list[NDArray[np.int16]]:
        """Pieces [N] int16, N about as long as the frame. frame.pts: in its samples."""
        pieces: list[NDArray[np.int16]] = []
        if frame.pts is not None:
            lost = 0 if self._next_pts is None else frame.pts - self._next_pts
            if 0 < lost <= LONGEST_GAP_S * frame.sample_rate:
                pieces = self._conceal(lost * self._rate_hz // frame.sample_rate)
            self._next_pts = frame.pts + frame.samples
        return pieces + self._resampled(frame)

    def _conceal(self, samples: int) -> list[NDArray[np.int16]]:
        """What the resampler has held back, and something in place of what was lost."""
        rest = self._resampled(None)
        self._resampler = self._new_resampler()
        return [*rest, self._concealment.lost(samples)]

    def _resampled(self, frame: av.AudioFrame | None) -> list[NDArray[np.int16]]:
        """frame: None: nothing more comes, and nothing is held back."""
        return [
            self._concealment.heard(_samples_of(piece))
            for piece in self._resampler.resample(frame)
            if piece.samples
        ]


class Concealment:
    """Goes on with a voice where packets of it are missing, as ITU-T G.711, appendix I (1999) does:
    its last period is repeated, and fades. Pure.

    Silence in its place would be a pause to the voice detector, in which a question may end.
    """

    def __init__(self, rate_hz: int) -> None:
        self._rate_hz = rate_hz
        self._shortest, self._longest = rate_hz // _HIGHEST_HZ, rate_hz // _LOWEST_HZ
        self._compared = round(_COMPARED_S * rate_hz)
        self._join = round(_JOIN_S * rate_hz)
        self._kept = self._longest + self._compared
        self._recent = np.zeros(0, np.int16)
        self._tail = np.zeros(0, np.float32)
        """How the concealed sound would have gone on, until what comes is joined to it."""

    def heard(self, pcm: NDArray[np.int16]) -> NDArray[np.int16]:
        """[N] int16 that has come, N > 0: as it is, or with its beginning joined to `lost`."""
        if len(self._tail):
            join = min(len(self._tail), len(pcm))
            pcm = pcm.copy()
            pcm[:join] = _crossfaded(self._tail[:join], pcm[:join])
            self._tail = self._tail[:0]
        self._recent = np.concatenate((self._recent, pcm))[-self._kept :]
        return pcm

    def lost(self, samples: int) -> NDArray[np.int16]:
        """[samples] int16 in place of what has not come."""
        if len(self._recent) < self._kept or level_of(self._recent) < _QUIET:
            return np.zeros(samples, np.int16)
        period = self._period(self._recent.astype(np.float32))
        at_s = np.arange(samples + self._join) / self._rate_hz
        fading = np.clip((_FADED_S - at_s) / (_FADED_S - _AS_LOUD_S), 0, 1).astype(np.float32)
        repeated = np.resize(period, samples + self._join) * fading
        self._tail = repeated[samples:]
        filled: NDArray[np.int16] = np.clip(repeated[:samples], -32768, 32767).astype(np.int16)
        return filled

    def _period(self, voice: NDArray[np.float32]) -> NDArray[np.float32]:
        """The newest one, by the highest normalised correlation; its end leads to its beginning."""
        newest = voice[-self._compared :]
        earlier = voice[: -self._shortest]
        products = np.correlate(earlier, newest, "valid")
        sums = np.cumsum(np.concatenate(([0.0], earlier.astype(np.float64) ** 2)))
        energies = sums[self._compared :] - sums[: -self._compared]
        best = int(np.argmax(products / np.sqrt(energies + 1.0)))
        lag = len(voice) - self._compared - best
        period = voice[-lag:].copy()
        join = max(1, lag // 4)
        period[-join:] = _crossfaded(period[-join:], voice[-lag - join : -lag])
        return period


def _crossfaded(
    one: NDArray[np.float32], other: NDArray[np.float32] | NDArray[np.int16]
) -> NDArray[np.float32]:
    """[N] that begins as `one` and ends as `other`, both [N]."""
    rising = np.linspace(0, 1, len(one), endpoint=False, dtype=np.float32)
    return one * (1 - rising) + other * rising


def _samples_of(frame: av.AudioFrame) -> NDArray[np.int16]:
    """[N] int16 of a mono frame; its own `to_ndarray` takes several times as long for so few."""
    return np.frombuffer(bytes(frame.planes[0]), np.int16, frame.samples)


def _signed(difference: int) -> int:
    """Of two sequence numbers, as a step of at most half their range."""
    return (difference + _SEQUENCES // 2) % _SEQUENCES - _SEQUENCES // 2
