"""Silence is encoded once and sent again; what is said after it sounds as if it had not been."""

from __future__ import annotations

from typing import Any

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from gateway.playout import sound
from gateway.playout.sound import OpusEncoder

TICK = 960


def _voice() -> NDArray[np.int16]:
    """A second of somebody's voice at 48 kHz, two seconds of nothing, and again the voice."""
    rng = np.random.default_rng(5)
    time_s = np.arange(TICK * 50) / 48_000
    pitch = np.sin(2 * np.pi * 130 * time_s) + 0.6 * np.sin(2 * np.pi * 1300 * time_s)
    voice = 6000 * pitch * (0.5 + 0.5 * np.sin(2 * np.pi * 4 * time_s))
    voice += rng.normal(0, 200, len(voice))
    pcm = np.concatenate([voice, np.zeros(TICK * 100), voice])
    return np.asarray(pcm, np.int16)


def _encode(pcm: NDArray[np.int16]) -> list[av.Packet[Any]]:
    encoder = OpusEncoder()
    return [
        packet
        for at in range(0, len(pcm), TICK)
        for packet in encoder.encode(pcm[at : at + TICK], at)
    ]


def _decode(packets: list[av.Packet[Any]]) -> NDArray[np.float32]:
    decoder = av.CodecContext.create("opus", "r")
    assert isinstance(decoder, av.AudioCodecContext)
    decoder.sample_rate = 48_000
    frames = [f for p in packets for f in decoder.decode(av.Packet(bytes(p)))]
    return np.concatenate([frame.to_ndarray()[0] for frame in frames])


def test_packets_keep_time() -> None:
    packets = _encode(_voice())
    assert len(packets) == 200
    assert set(np.diff([packet.pts or 0 for packet in packets])) == {TICK}
    assert {packet.duration for packet in packets} == {TICK}


def test_silence_is_sent_again_and_speech_after_it_is_not_harmed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pcm = _voice()
    again = _encode(pcm)
    assert len({bytes(packet) for packet in again[61:150]}) == 1
    monkeypatch.setattr(sound, "_SETTLED_PACKETS", 10_000)
    anew = _encode(pcm)
    ours, theirs = _decode(again), _decode(anew)
    assert np.abs(ours[TICK * 65 : TICK * 145]).max() < 0.001, "nothing is heard in the silence"
    part = slice(TICK * 150, TICK * 198)
    wanted = pcm[part] / 32768.0
    delay = 312  # of the codec

    def miss(heard: NDArray[np.float32]) -> float:
        late = heard[part.start + delay : part.stop + delay]
        return float(np.sqrt(np.mean((late - wanted) ** 2)))

    assert miss(ours) < 1.05 * miss(theirs) + 1e-4
