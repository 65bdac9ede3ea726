"""A voice on its way out: its length, pitch and holes, what is encoded of it and of silence."""

from __future__ import annotations

from typing import Any

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from gateway.playout import sound
from gateway.playout.sound import AAC_FRAME_SAMPLES, AacEncoder, OpusEncoder, VoiceResampler
from tests.gateway.media import tone

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
    assert _miss(ours, pcm) < 1.05 * _miss(theirs, pcm) + 1e-4


def _miss(heard: NDArray[np.float32], pcm: NDArray[np.int16]) -> float:
    """How far what is heard of the second voice is from what was said: root mean square."""
    wanted = pcm[TICK * 150 : TICK * 198] / 32768.0
    ends = len(heard) - TICK * 2 + 312  # the delay of the codec
    return float(np.sqrt(np.mean((heard[ends - len(wanted) : ends] - wanted) ** 2)))


@pytest.mark.parametrize(
    "pieces", [[TICK // 2] * 197, [TICK] * 12 + [2 * TICK] * 42 + [TICK, TICK, TICK // 2]]
)
def test_silence_in_pieces_of_10_or_40_ms_harms_no_voice_before_or_behind_it(
    pieces: list[int],
) -> None:
    pcm = _voice()
    lengths = [TICK] * 51 + pieces + [TICK] * 50
    encoder, now = OpusEncoder(), 0
    packets: list[av.Packet[Any]] = []
    said = np.delete(pcm, slice(TICK * 100, TICK * 100 + TICK // 2))
    for length in lengths:
        packets += encoder.encode(said[now : now + length], now)
        now += length
    assert now == len(said) and [p.duration for p in packets] == lengths
    assert np.diff([p.pts or 0 for p in packets]).tolist() == lengths[:-1]
    ours, theirs = _decode(packets), _decode(_encode(pcm))
    assert len(ours) == len(said), "players know how long each is"
    assert np.abs(ours[: TICK * 51] - theirs[: TICK * 51]).max() < 1e-6
    assert np.abs(ours[TICK * 52 : TICK * 148]).max() < 0.001, "nothing is heard in the silence"
    assert _miss(ours, pcm) < 1.05 * _miss(theirs, pcm) + 1e-4


def test_aac_packets_follow_each_other() -> None:
    encoder = AacEncoder(10_000)
    packets = [p for _ in range(9) for p in encoder.encode(tone(1000))]
    assert packets[0].time_samples == 10_000 - AAC_FRAME_SAMPLES
    assert set(np.diff([p.time_samples for p in packets])) == {AAC_FRAME_SAMPLES}
    assert encoder.config.hex() == "1188"  # AAC-LC, 48 kHz, mono


def test_silence_that_is_known_as_such_is_encoded_as_any_other() -> None:
    pcm = np.concatenate([_voice(), np.zeros(TICK * 40, np.int16), _voice()])
    ticks = pcm.reshape(-1, TICK)
    looked, told = AacEncoder(0), AacEncoder(0)
    for tick in ticks:
        assert told.encode(tick, silent=not tick.any()) == looked.encode(tick)
    again, anew = OpusEncoder(), OpusEncoder()
    for at, tick in enumerate(ticks):
        known = again.encode(tick, at * TICK, silent=not tick.any())
        assert [bytes(p) for p in known] == [bytes(p) for p in anew.encode(tick, at * TICK)]


def test_aac_of_silence_is_sent_again_and_speech_after_it_keeps_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pcm = _voice()
    again = AacEncoder(0).encode(pcm)
    encoded = [p.payload for p in again]
    assert len(set(encoded[62:138])) == 1
    monkeypatch.setattr(sound, "_SETTLED_PACKETS", 10_000)
    encoder = AacEncoder(0)
    anew = encoder.encode(pcm)
    assert [p.time_samples for p in again] == [p.time_samples for p in anew]

    def decoded(packets: list[sound.AacPacket]) -> NDArray[np.float32]:
        decoder = av.CodecContext.create("aac", "r")
        assert isinstance(decoder, av.AudioCodecContext)
        decoder.sample_rate, decoder.layout, decoder.extradata = 48_000, "mono", encoder.config
        frames = [f for p in packets for f in decoder.decode(av.Packet(p.payload))]
        return np.concatenate([frame.to_ndarray()[0] for frame in frames])

    ours, theirs = decoded(again), decoded(anew)
    wanted = pcm[: len(ours) - AAC_FRAME_SAMPLES] / 32768.0
    part = slice(TICK * 150, TICK * 196)
    miss = [
        np.sqrt(np.mean((d[AAC_FRAME_SAMPLES:][part] - wanted[part]) ** 2)) for d in (ours, theirs)
    ]
    assert miss[0] < 1.05 * miss[1] + 1e-3
    assert np.abs(ours[TICK * 60 : TICK * 145]).max() < 0.001


@pytest.mark.parametrize("rate_hz", [8_000, 16_000, 22_050, 24_000, 48_000])
def test_a_voice_keeps_its_length_and_pitch(rate_hz: int) -> None:
    resampler, voice = VoiceResampler(rate_hz), tone(rate_hz, rate_hz=rate_hz)
    step = rate_hz // 10
    out = np.concatenate(
        [
            resampler.resample(pts, voice[pts : pts + step], last=pts + step >= rate_hz)
            for pts in range(0, rate_hz, step)
        ]
    )
    assert len(out) == pytest.approx(48_000, abs=1)
    peak_hz = np.argmax(np.abs(np.fft.rfft(out[:47_000]))) * 48_000 / 47_000
    assert peak_hz == pytest.approx(440, abs=2)


def test_a_hole_in_the_voice_becomes_silence() -> None:
    resampler = VoiceResampler(48_000)
    first = resampler.resample(0, np.full(100, 7, np.int16))
    second = resampler.resample(150, np.full(100, 9, np.int16))
    assert second.tolist() == [0] * 50 + [9] * 100
    again = resampler.resample(200, np.full(100, 5, np.int16))
    assert again.tolist() == [5] * 50
    assert len(first) == 100


def test_a_hole_without_end_is_cut() -> None:
    resampler = VoiceResampler(48_000)
    assert len(resampler.resample(10**9, np.ones(10, np.int16))) == 48_010
    assert len(resampler.resample(10**9 + 10, np.ones(10, np.int16))) == 10
