"""A voice on its way out: at 48 kHz, quieter, remembered, and as Opus (WebRTC) or AAC (mp4)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import av
import numpy as np
import soxr
from numpy.typing import NDArray

from gateway.playout.pacing import (
    HALF_TICK_SAMPLES,
    LONG_TICK_SAMPLES,
    RATE_HZ,
    SOUND_TIME_BASE,
    TICK_SAMPLES,
)

AAC_FRAME_SAMPLES = 1024
OPUS_BIT_RATE = 32_000
AAC_BIT_RATE = 96_000
# By then an encoder has settled on silence, whatever it heard before.
_SETTLED_PACKETS = 10
_LAYOUTS = {1: "mono", 2: "stereo"}
_SILENCE = np.zeros(AAC_FRAME_SAMPLES, np.int16)


class VoiceResampler:
    """One turn's voice at 48 kHz, whatever rate it comes in; holes become silence."""

    def __init__(self, sample_rate_hz: int, first: int = 0) -> None:
        """first: sample of the voice that it begins with."""
        self.sample_rate_hz = sample_rate_hz
        self._expected = first
        self._stream = (
            None
            if sample_rate_hz == RATE_HZ
            else soxr.ResampleStream(sample_rate_hz, RATE_HZ, 1, dtype="int16", quality="HQ")
        )

    def resample(
        self, pts: int, pcm: NDArray[np.int16], *, last: bool = False
    ) -> NDArray[np.int16]:
        """Samples at 48 kHz that are known so far. pcm: [N] int16 at the voice's rate.

        pts: where `pcm` begins, in samples of the turn's voice. What is missing before
        it is filled with silence (a second at most), what was heard already is cut off.
        """
        end = pts + len(pcm)
        hole = min(pts - self._expected, self.sample_rate_hz)
        if hole > 0:
            pcm = np.concatenate([np.zeros(hole, np.int16), pcm])
        elif hole < 0:
            pcm = pcm[-hole:]
        self._expected = max(self._expected, end)
        if self._stream is None:
            return pcm
        resampled = self._stream.resample_chunk(np.ascontiguousarray(pcm), last=last)
        return cast(NDArray[np.int16], resampled)


class Fader:
    """The loudness of a voice on its way out: a gain that moves to its goal without a click."""

    def __init__(self) -> None:
        self.goal = 1.0
        self._gain = 1.0

    def jump(self, gain: float) -> None:
        """Have this gain now: where silence was, there is nothing to click."""
        self._gain = gain

    def apply(self, pcm: NDArray[np.int16]) -> NDArray[np.int16]:
        """pcm: [N] int16."""
        if self._gain == self.goal == 1.0 or not len(pcm):
            return pcm
        ramp = np.linspace(self._gain, self.goal, len(pcm), dtype=np.float32)
        self._gain = self.goal
        return (pcm * ramp).astype(np.int16)


class Recall:
    """What was heard or played a moment ago: the newest `limit_samples` of a sound."""

    def __init__(self, limit_samples: int) -> None:
        self._limit = limit_samples
        self._pieces: deque[NDArray[np.int16]] = deque()
        self._samples = 0

    def add(self, pcm: NDArray[np.int16]) -> None:
        """pcm: [N] int16, after what came before."""
        self._pieces.append(pcm)
        self._samples += len(pcm)
        while self._samples - len(self._pieces[0]) >= self._limit:
            self._samples -= len(self._pieces.popleft())

    def take(self, count: int) -> NDArray[np.int16]:
        """The newest `count` samples, or as many as there are, removed: [count] int16."""
        kept = np.concatenate(self._pieces) if self._pieces else np.zeros(0, np.int16)
        count = min(count, len(kept))
        self._pieces = deque([kept[: len(kept) - count]])
        self._samples = len(kept) - count
        return kept[len(kept) - count :]

    def whole(self) -> NDArray[np.int16] | None:
        """[limit_samples] int16; None while there is less."""
        if self._samples < self._limit:
            return None
        return np.concatenate(self._pieces)[-self._limit :]


@dataclass(frozen=True, slots=True)
class AacPacket:
    """time_samples: session media time of its first sample, the encoder's delay included."""

    payload: bytes
    time_samples: int
    duration_samples: int


class AacEncoder:
    """AAC-LC, 48 kHz, for sound that begins at `start_samples` and has no gaps.

    The first packet starts a frame before the first sample. Silence is not encoded for ever, as
    with Opus: once its packets are all the same, the last one is sent again.
    """

    def __init__(
        self, start_samples: int, *, channels: int = 1, bit_rate: int = AAC_BIT_RATE
    ) -> None:
        """channels: 1, or 2 with the same sound on both."""
        self._channels = channels
        self._codec = av.CodecContext.create("aac", "w")
        self._codec.sample_rate = RATE_HZ
        self._codec.layout = _LAYOUTS[channels]
        self._codec.format = "fltp"
        self._codec.bit_rate = bit_rate
        # A third of the work, for a difference that speech does not show.
        self._codec.options = {"aac_coder": "fast"}
        # A pool of threads for one voice would outlast its session until it is collected.
        self._codec.thread_count = 1
        self._codec.time_base = SOUND_TIME_BASE
        self._codec.open()
        self._start = start_samples
        self._pushed = 0
        """Frames that were encoded, or known already."""
        self._silent_frames = 0
        self._silence: list[bytes] = []
        self._waiting = np.zeros(0, np.int16)
        self._hushed = False
        """What waits is silence that was known as such."""

    @property
    def config(self) -> bytes:
        """AudioSpecificConfig of the stream."""
        return bytes(self._codec.extradata or b"")[:2]

    @property
    def settled(self) -> bool:
        """Whether it has been silent for so long that its packets are all the same."""
        return self._silent_frames > _SETTLED_PACKETS

    def encode(self, pcm: NDArray[np.int16], *, silent: bool = False) -> list[AacPacket]:
        """pcm: [N] int16, any N. silent: it is known to be all 0."""
        if silent and self.settled and self._hushed:
            return self._go_on(len(pcm))
        self._hushed = silent
        self._waiting = np.concatenate([self._waiting, pcm])
        packets: list[AacPacket] = []
        while len(self._waiting) >= AAC_FRAME_SAMPLES:
            packets += self._push(self._waiting[:AAC_FRAME_SAMPLES])
            self._waiting = self._waiting[AAC_FRAME_SAMPLES:]
        return packets

    def _go_on(self, samples: int) -> list[AacPacket]:
        """Silence goes on: its packet is known, and what waits is zeros."""
        waiting = len(self._waiting) + samples
        packets: list[AacPacket] = []
        while waiting >= AAC_FRAME_SAMPLES:
            waiting -= AAC_FRAME_SAMPLES
            packets += self._packets()
        self._waiting = _SILENCE[:waiting]
        return packets

    def _push(self, samples: NDArray[np.int16]) -> list[AacPacket]:
        """samples: [1024] int16."""
        self._silent_frames = 0 if samples.any() else self._silent_frames + 1
        if not self.settled:
            self._silence = self._encode(samples)
        return self._packets()

    def _packets(self) -> list[AacPacket]:
        """What the encoder made last, at the time of the frame that is next."""
        # A packet comes with the frame after it, and the first one starts before the sound.
        time = self._start + (self._pushed - 2) * AAC_FRAME_SAMPLES
        self._pushed += 1
        return [AacPacket(payload, time, AAC_FRAME_SAMPLES) for payload in self._silence]

    def _encode(self, samples: NDArray[np.int16]) -> list[bytes]:
        wave = samples.astype(np.float32) / 32768
        planes = np.repeat(wave[None], self._channels, axis=0)
        frame = av.AudioFrame.from_ndarray(planes, format="fltp", layout=_LAYOUTS[self._channels])
        frame.sample_rate = RATE_HZ
        frame.pts = self._pushed * AAC_FRAME_SAMPLES
        frame.time_base = SOUND_TIME_BASE
        return [bytes(packet) for packet in self._codec.encode(frame)]


class OpusEncoder:
    """Opus, mono, 20 ms a packet: encoded once for all listeners.

    Nobody speaks most of the time, and digital silence is always the same: after 200 ms of it
    its packet is sent again instead of being made anew. One of 10 or 40 ms is always the same.
    """

    def __init__(self) -> None:
        self._codec = _opus_codec(TICK_SAMPLES)
        # Made here, where somebody begins to listen, not in a tick.
        half, self._lookahead = _silence_of(HALF_TICK_SAMPLES)
        self._silences = {
            HALF_TICK_SAMPLES: half,
            LONG_TICK_SAMPLES: _silence_of(LONG_TICK_SAMPLES)[0],
        }
        self._silent_packets = 0
        self._silence = b""

    def encode(
        self, pcm: NDArray[np.int16], time_samples: int, *, silent: bool = False
    ) -> list[av.Packet[Any]]:
        """Packets with session media time. silent: it is known to be all 0.

        pcm: [960] int16, or [480] or [1920] of silence that some silence was before.
        """
        # Of any(), most would be the way there.
        silent = silent or not np.count_nonzero(pcm)
        if len(pcm) != TICK_SAMPLES:
            packets: list[av.Packet[Any]] = [av.Packet(self._silences[len(pcm)])]
        else:
            packets = self._of_tick(pcm, time_samples, silent=silent)
        for packet in packets:
            # The encoder would count on from what it was given last.
            packet.pts = packet.dts = time_samples - self._lookahead
            packet.time_base, packet.duration = SOUND_TIME_BASE, len(pcm)
        return packets

    def _of_tick(
        self, pcm: NDArray[np.int16], time_samples: int, *, silent: bool
    ) -> list[av.Packet[Any]]:
        self._silent_packets = self._silent_packets + 1 if silent else 0
        if self._silence and self._silent_packets > _SETTLED_PACKETS:
            return [av.Packet(self._silence)]
        packets = _opus_packets(self._codec, pcm, time_samples)
        self._silence = bytes(packets[0]) if len(packets) == 1 else b""
        return packets


def _opus_codec(packet_samples: int) -> Any:
    """An encoder of packets of this length, each of the same mode whatever its length."""
    codec = av.CodecContext.create("libopus", "w")
    codec.sample_rate = RATE_HZ
    codec.layout = "mono"
    codec.format = "s16"
    codec.bit_rate = OPUS_BIT_RATE
    codec.time_base = SOUND_TIME_BASE
    packet_ms = str(1000 * packet_samples // RATE_HZ)
    codec.options = {
        "application": "voip",
        "compression_level": "5",
        "frame_duration": packet_ms,
    }
    return codec


def _opus_packets(codec: Any, pcm: NDArray[np.int16], time_samples: int) -> list[av.Packet[Any]]:
    """pcm: [N] int16, a packet's length; encoded."""
    frame = av.AudioFrame("s16", "mono", len(pcm))
    frame.planes[0].update(pcm.tobytes())
    frame.sample_rate = RATE_HZ
    frame.pts = time_samples
    frame.time_base = SOUND_TIME_BASE
    return list(codec.encode(frame))


@cache
def _silence_of(samples: int) -> tuple[bytes, int]:
    """The packet of so much silence, and how many samples earlier than its sound a packet is.

    An encoder has one length of packets. Another one's silence does no harm between its own, for
    decoders remember of silence what they remember of any other.
    """
    codec = _opus_codec(samples)
    times = range(0, 2 * _SETTLED_PACKETS * samples, samples)
    silence = np.zeros(samples, np.int16)
    packets = [packet for time in times for packet in _opus_packets(codec, silence, time)]
    return bytes(packets[-1]), -(packets[0].pts or 0)
