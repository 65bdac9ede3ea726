"""The microphone: who holds it, how long its sound waits, what a bad network leaves of it."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import av
import numpy as np
import pytest
from aiortc import RTCRtpCodecParameters
from aiortc.rtcdtlstransport import RTCDtlsTransport, RtpRouter, State
from aiortc.rtp import HeaderExtensions, HeaderExtensionsMap, RtpPacket
from numpy.typing import NDArray

from gateway import metrics
from gateway.playout.sound import OpusEncoder
from gateway.talk.microphone import (
    AHEAD_S,
    RATE_HZ,
    STALE_S,
    MicBundle,
    Microphone,
    MicrophoneTakenError,
    level_of,
)
from gateway.talk.rtp_sound import MicPackets, MicSound
from services.asr.hearing.detectors import FRAME_SAMPLES
from tests.gateway.media import tone
from visavis.serving.aiortc_private.incoming import SoundIntake, SoundPacket, take_in_at_once

PACKET_SAMPLES = RATE_HZ // 50
COUNT = 40
BEEP_AT = 30
FIRST_NUMBER = 65_530
OPUS = 96


@pytest.fixture(scope="module")
def payloads() -> list[bytes]:
    """A hum, and from packet BEEP_AT on a tone: [COUNT] Opus packets of 20 ms."""
    encoder = OpusEncoder()
    sound = np.concatenate([tone(BEEP_AT * 960) // 20, tone(10 * 960, frequency_hz=2000)])
    return [
        bytes(packet)
        for index, pcm in enumerate(sound.reshape(-1, 960))
        for packet in encoder.encode(pcm, index * 960)
    ]


def packet(payload: bytes, index: int, *, ssrc: int = 1) -> SoundPacket:
    """Packet `index` of a stream whose numbers wrap around."""
    return SoundPacket((FIRST_NUMBER + index) % (1 << 16), index * 960, ssrc, payload)


class Receiver:
    """As much of aiortc's as an intake needs."""

    def __init__(self) -> None:
        self._enabled = True
        opus = RTCRtpCodecParameters(mimeType="audio/opus", clockRate=48_000, payloadType=OPUS)
        self._RTCRtpReceiver__codecs = {OPUS: opus}
        self._RTCRtpReceiver__remote_streams: dict[int, Any] = {}


class Way:
    """From packets to the VAD's frames, as in the gateway and in asr."""

    def __init__(
        self, payloads: list[bytes], may_wait: Callable[[float], bool] = lambda level: False
    ) -> None:
        self._payloads = payloads
        self.receiver: Any = Receiver()
        self._intake = SoundIntake(self.receiver, MicPackets().add, self._hear, may_wait)
        self._sound = MicSound()
        self.pcm = np.zeros(0, np.int16)

    def arrive(self, *indices: int) -> None:
        for index in indices:
            self.receive(packet(self._payloads[index], index))

    def receive(self, arrived: SoundPacket) -> None:
        self._intake.add(OPUS, arrived)

    def _hear(self, frame: av.AudioFrame) -> None:
        self.pcm = np.concatenate([self.pcm, *self._sound.decoded(frame)])

    @property
    def vad_frames(self) -> int:
        return len(self.pcm) // FRAME_SAMPLES

    def onset(self) -> int:
        """Where the beep begins."""
        return int(np.argmax(np.abs(self.pcm) > 6000))


def heard(payloads: list[bytes], indices: Iterable[int]) -> NDArray[np.int16]:
    way = Way(payloads)
    way.arrive(*indices)
    return way.pcm


def counted(fate: str) -> float:
    return metrics.mic_packets.labels(fate)._value.get()


def test_sound_is_there_a_millisecond_after_its_packet(payloads: list[bytes]) -> None:
    way = Way(payloads)
    for index in range(COUNT):
        way.arrive(index)
        spoken = (index + 1) * PACKET_SAMPLES
        assert spoken - len(way.pcm) <= RATE_HZ // 1000
        # A frame of the VAD waits for the packet that ends it and for no other.
        assert way.vad_frames == (spoken - RATE_HZ // 1000) // FRAME_SAMPLES


@pytest.mark.parametrize("lost", [(7,), (7, 8, 9), (3, 12, 28)])
def test_what_is_lost_is_concealed_for_its_own_length(
    payloads: list[bytes], lost: tuple[int, ...]
) -> None:
    before = counted("lost")
    whole, kept = Way(payloads), Way(payloads)
    for index in range(COUNT):
        whole.arrive(index)
        if index not in lost:
            kept.arrive(index)
            assert len(kept.pcm) == len(whole.pcm)
    assert counted("lost") - before == len(lost)
    assert kept.onset() == pytest.approx(whole.onset(), abs=8)
    concealed = slice(lost[0] * PACKET_SAMPLES, (lost[-1] + 1) * PACKET_SAMPLES)
    sound, error = whole.pcm[concealed], kept.pcm[concealed] - whole.pcm[concealed].astype(float)
    assert np.std(error) < np.std(sound) / 2, "the hum goes on"
    assert np.abs(np.diff(kept.pcm[: BEEP_AT * PACKET_SAMPLES - 40])).max() < 400, "no click"


def test_of_a_long_loss_the_end_is_silent(payloads: list[bytes]) -> None:
    kept = heard(payloads, [*range(10), *range(20, COUNT)])
    assert len(kept) == len(heard(payloads, range(COUNT)))
    ends = 20 * PACKET_SAMPLES - RATE_HZ // 1000
    faded, joined = slice(ends - PACKET_SAMPLES, ends - 40), slice(ends + 80, ends + 400)
    assert np.abs(kept[faded]).max() <= 1 < np.abs(kept[joined]).max()


def test_copies_and_late_packets_change_nothing(payloads: list[bytes]) -> None:
    before = counted("late")
    in_order = heard(payloads, range(COUNT))
    assert np.array_equal(heard(payloads, [0, 0, 1, 2, 2, 1, *range(3, COUNT)]), in_order)
    # Of two that are swapped the first to come is heard at once and at its own place.
    swapped, missing = [*range(10), 11, 10, *range(12, COUNT)], {10}
    without = [index for index in range(COUNT) if index not in missing]
    assert np.array_equal(heard(payloads, swapped), heard(payloads, without))
    assert counted("late") - before == 4


def test_after_a_long_pause_or_with_a_new_source_sound_goes_on_at_once(
    payloads: list[bytes],
) -> None:
    way = Way(payloads)
    way.arrive(0, 1)
    long_after = packet(payloads[2], 2)
    long_after.timestamp = 60 * 48_000
    way.receive(long_after)
    assert len(way.pcm) == 3 * PACKET_SAMPLES - RATE_HZ // 1000
    before = counted("late"), counted("lost")
    restarted = packet(payloads[3], 3, ssrc=2)
    restarted.sequence_number, restarted.timestamp = 40_000, 60 * 48_000 + 960
    way.receive(restarted)
    back = packet(payloads[4], 4, ssrc=2)
    back.sequence_number, back.timestamp = 20, 60 * 48_000 + 1920
    way.receive(back)
    assert len(way.pcm) == 5 * PACKET_SAMPLES - RATE_HZ // 1000
    assert (counted("late"), counted("lost")) == before


def test_a_packet_without_sound_does_not_end_the_stream(payloads: list[bytes]) -> None:
    way = Way(payloads)
    way.arrive(0)
    way.receive(packet(b"", 1))
    way.arrive(2)
    assert len(way.pcm) == 3 * PACKET_SAMPLES - RATE_HZ // 1000


class Line:
    """A connection whose packets are not encrypted, with one receiver at its end."""

    def __init__(self, receiver: Any) -> None:
        protocol = SimpleNamespace(datagram_received=lambda data, address: None)
        self._protocol: Any = protocol
        self.failed: list[Exception] = []
        dtls: Any = SimpleNamespace(
            transport=SimpleNamespace(_connection=SimpleNamespace(_protocols=[protocol])),
            _state=State.CONNECTED,
            _rx_srtp=SimpleNamespace(unprotect=bytes),
            _rtp_router=RtpRouter(),
            _rtp_header_extensions_map=HeaderExtensionsMap(),
            _RTCDtlsTransport__rx_bytes=0,
            _RTCDtlsTransport__rx_packets=0,
            _RTCDtlsTransport__log_debug=lambda *_: None,
        )
        dtls._handle_rtp_data = lambda *given, **named: RTCDtlsTransport._handle_rtp_data(
            dtls, *given, **named
        )
        dtls._rtp_router.register_receiver(receiver, ssrcs=[], payload_types=[OPUS])
        self._dtls = dtls
        take_in_at_once(dtls, self.failed.append)

    def bring(self, datagram: bytes) -> None:
        self._protocol.datagram_received(datagram, ("127.0.0.1", 9))

    def agree_on_levels(self) -> None:
        """Both sides say how loud a packet is (RFC 6464)."""
        uri = "urn:ietf:params:rtp-hdrext:ssrc-audio-level"
        self._dtls._rtp_header_extensions_map.configure(
            SimpleNamespace(headerExtensions=[SimpleNamespace(uri=uri, id=2)])
        )


def telling(payload: bytes, index: int, level_dbov: int) -> bytes:
    """A packet of the stream that says how loud it is."""
    plain = packet(payload, index)
    # One byte of a level behind its head, padded to a word (RFC 8285, 4.2).
    extension = bytes([0xBE, 0xDE, 0, 1, 2 << 4, level_dbov, 0, 0])
    head = struct.pack("!BBHLL", 0x90, OPUS, plain.sequence_number, plain.timestamp, plain.ssrc)
    return head + extension + payload


def told_apart(payload: bytes, index: int) -> bytes:
    """A packet of the stream, its header in one of the forms that RFC 3550 and 8285 know."""
    plain = packet(payload, index)
    made = RtpPacket(
        payload_type=OPUS,
        marker=index % 2,
        sequence_number=plain.sequence_number,
        timestamp=plain.timestamp,
        ssrc=plain.ssrc,
        payload=payload,
    )
    extensions = HeaderExtensionsMap()
    match index % 5:
        case 1:
            named = SimpleNamespace(
                headerExtensions=[
                    SimpleNamespace(uri="urn:ietf:params:rtp-hdrext:sdes:mid", id=1),
                    SimpleNamespace(uri="urn:ietf:params:rtp-hdrext:ssrc-audio-level", id=2),
                ]
            )
            extensions.configure(named)  # type: ignore[arg-type]
            made.extensions = HeaderExtensions(mid="0", audio_level=(True, 40))
        case 2:
            made.csrc = [7, 8]
        case 3:
            made.padding_size = 5
    return made.serialize(extensions)


def test_whatever_a_packets_header_holds_its_sound_is_heard(payloads: list[bytes]) -> None:
    way = Way(payloads)
    line = Line(way.receiver)
    for index in range(COUNT):
        line.bring(told_apart(payloads[index], index))
    assert not line.failed
    np.testing.assert_array_equal(way.pcm, heard(payloads, range(COUNT)))
    (stream,) = way.receiver._RTCRtpReceiver__remote_streams.values()
    assert (stream.packets_received, stream.packets_lost) == (COUNT, 0)


def test_what_is_no_packet_of_the_microphone_is_not_heard(payloads: list[bytes]) -> None:
    way = Way(payloads)
    line = Line(way.receiver)
    line.bring(told_apart(payloads[0], 0))
    told = told_apart(payloads[1], 0)
    cut_extension = bytes([told[0] | 0x10]) + told[1:12] + b"\xbe\xde\xff\xff" + os.urandom(20)
    other_codec = told[:1] + bytes([OPUS + 1]) + told[2:]
    for odd in (cut_extension, other_codec, told[:1] + b"\x00" * 30, b""):
        line.bring(odd)
    way.receiver._enabled = False
    line.bring(told_apart(payloads[1], 1))
    assert not line.failed
    assert len(way.pcm) == PACKET_SAMPLES - RATE_HZ // 1000


@pytest.fixture
def quiet_line(payloads: list[bytes]) -> tuple[Line, Way]:
    """A room in which packets below 1000 of 32768 may wait; the first has been heard."""
    way = Way(payloads, may_wait=lambda level: level < 1000)
    line = Line(way.receiver)
    line.agree_on_levels()
    line.bring(telling(payloads[0], 0, 60))
    return line, way


def heard_packets(way: Way) -> int:
    return -(-len(way.pcm) // PACKET_SAMPLES)


def test_quiet_packets_are_handled_five_at_a_time(
    payloads: list[bytes], quiet_line: tuple[Line, Way]
) -> None:
    line, way = quiet_line
    after = []
    for index in range(1, COUNT):
        line.bring(telling(payloads[index], index, 60))
        after.append(heard_packets(way))
    assert after[:10] == [1, 1, 1, 1, 6, 6, 6, 6, 6, 11]
    np.testing.assert_array_equal(way.pcm, heard(payloads, range(after[-1])))
    assert not line.failed


def test_whoever_begins_to_speak_is_heard_with_what_waited(
    payloads: list[bytes], quiet_line: tuple[Line, Way]
) -> None:
    line, way = quiet_line
    for index, level_dbov in ((1, 60), (2, 60), (3, 20)):
        line.bring(telling(payloads[index], index, level_dbov))
    assert heard_packets(way) == 4
    # What says nothing of its level, or nothing that can be read, waits for nobody.
    line.bring(telling(payloads[4], 4, 60))
    line.bring(told_apart(payloads[5], 5))
    assert heard_packets(way) == 6
    unreadable = bytearray(telling(payloads[6], 6, 60))
    unreadable[16] = 2 << 4 | 7  # a level of eight bytes
    line.bring(bytes(unreadable))
    assert heard_packets(way) == 7
    assert not line.failed


def test_packets_that_all_claim_one_time_do_not_wait_for_ever(
    payloads: list[bytes], quiet_line: tuple[Line, Way]
) -> None:
    line, way = quiet_line
    for index in range(1, 11):
        standing = bytearray(telling(payloads[index], index, 60))
        standing[4:8] = bytes(4)
        line.bring(bytes(standing))
    assert way.receiver._RTCRtpReceiver__remote_streams[1].packets_received == 11


# ------------------------------------------------------------ who holds it


def test_the_microphone_counts_samples() -> None:
    microphone = Microphone()
    microphone.take("a", 0.0)
    assert [microphone.place("a", 320, 0.02 * i) for i in range(3)] == [0, 320, 640]
    assert microphone.place("b", 320, 0.1) is None
    microphone.release("a")
    microphone.take("b", 9.0)
    assert microphone.place("b", 320, 9.0) == 960, "media time goes on with the next speaker"


def test_the_microphone_is_taken_until_it_is_given_back_or_nothing_comes_from_it() -> None:
    microphone = Microphone()
    microphone.take("a", 0.0)
    microphone.place("a", 320, 1.0)
    with pytest.raises(MicrophoneTakenError):
        microphone.take("b", 1.0 + STALE_S - 0.1)
    microphone.release("b")
    assert microphone.holder == "a"
    assert microphone.take("b", 1.0 + STALE_S) == "a"
    assert microphone.place("a", 320, 1.0 + STALE_S) is None


def test_sound_that_runs_ahead_of_time_is_dropped() -> None:
    microphone = Microphone()
    microphone.take("a", 0.0)
    used = [microphone.place("a", 16_000, 0.0) for _ in range(10)]
    assert sum(pts is not None for pts in used) == AHEAD_S + 1
    assert microphone.place("a", 16_000, 5.0) is not None


def test_when_a_sample_arrived() -> None:
    microphone = Microphone()
    assert microphone.arrival_s(0) is None
    microphone.take("a", 0.0)
    for i in range(5):
        microphone.place("a", 320, 10 + i)
    assert microphone.arrival_s(320) == 10
    assert microphone.arrival_s(321) == 11
    assert microphone.arrival_s(99_999) == 14


# ------------------------------------------------------------ which packets travel together


def sent(bundle: MicBundle, packets: Iterable[NDArray[np.int16]], *, awaited: bool) -> list[int]:
    """Samples of each message; asserts that they are the sound, in order and without a hole."""
    messages, heard = [], []
    pts = 0
    for pcm in packets:
        for begins_at, sound in bundle.add(pts, pcm, level_of(pcm), awaited=awaited):
            assert begins_at == sum(map(len, heard))
            heard.append(sound)
            messages.append(len(sound))
        heard_samples, pts = sum(map(len, heard)), pts + len(pcm)
        assert pts - heard_samples < 3 * FRAME_SAMPLES, "no sound is held back for longer"
    everything = np.concatenate(heard) if heard else np.zeros(0, np.int16)
    np.testing.assert_array_equal(everything, np.concatenate(list(packets))[: len(everything)])
    return messages


def hum(packets: int, level: float, seed: int = 0) -> list[NDArray[np.int16]]:
    noise = np.random.default_rng(seed).normal(0, level, (packets, PACKET_SAMPLES))
    return list(noise.astype(np.int16))


@pytest.mark.parametrize("level", [0, 30, 1000])
def test_a_room_in_which_nobody_speaks_sends_few_messages(level: float) -> None:
    # 20 ms each: five make 1600 samples. Where the room has a sound, its level is learnt first.
    messages = sent(MicBundle(), hum(200, level), awaited=False)
    assert 40 <= len(messages) <= 44, messages


def test_who_is_waited_for_is_heard_as_soon_as_a_frame_of_the_voice_detector_is_full() -> None:
    bundle, heard = MicBundle(), 0
    for at, pcm in enumerate(hum(50, 30)):
        for begins_at, sound in bundle.add(at * PACKET_SAMPLES, pcm, level_of(pcm), awaited=True):
            heard = begins_at + len(sound)
        assert heard // FRAME_SAMPLES == (at + 1) * PACKET_SAMPLES // FRAME_SAMPLES
    assert len(sent(MicBundle(), hum(50, 30), awaited=True)) <= 50 * PACKET_SAMPLES // FRAME_SAMPLES


def test_whoever_begins_to_speak_is_heard_at_once() -> None:
    bundle = MicBundle()
    sent(bundle, hum(102, 30), awaited=False)  # two packets are held
    (loud,) = hum(1, 300, 1)
    ((begins_at, sound),) = bundle.add(102 * PACKET_SAMPLES, loud, level_of(loud), awaited=False)
    assert (begins_at, len(sound)) == (100 * PACKET_SAMPLES, 3 * PACKET_SAMPLES)


def test_a_long_message_is_not_made_longer() -> None:
    bundle = MicBundle()
    assert bundle.add(0, hum(1, 0)[0], 0.0, awaited=False) == []
    long = np.zeros(RATE_HZ, np.int16)
    assert [len(sound) for _, sound in bundle.add(PACKET_SAMPLES, long, 0.0, awaited=False)] == [
        PACKET_SAMPLES,
        RATE_HZ,
    ]
