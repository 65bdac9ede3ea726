"""The small pure parts: microphone, ledger, records, resampling, throttle."""

from __future__ import annotations

import numpy as np
import pytest

from gateway.ledger.ledger import Ledger, Mark
from gateway.ledger.records import Records
from gateway.playout.pictures import KeyframeThrottle
from gateway.playout.sound import AAC_FRAME_SAMPLES, AacEncoder, OpusEncoder, VoiceResampler
from gateway.talk.conversation import Conversation
from gateway.talk.history import SpokenMark, system_message
from gateway.talk.microphone import AHEAD_S, STALE_S, Microphone, MicrophoneTakenError
from gateway.talk.turn import KEPT_TURNS
from tests.gateway.media import tone
from visavis.wire.media import VideoCodec

# ------------------------------------------------------------ microphone


def test_the_microphone_counts_samples() -> None:
    microphone = Microphone()
    microphone.take("a", 0.0)
    assert [microphone.place("a", 320, 0.02 * i) for i in range(3)] == [0, 320, 640]
    assert microphone.place("b", 320, 0.1) is None


def test_the_microphone_is_taken_until_it_is_given_back() -> None:
    microphone = Microphone()
    microphone.take("a", 0.0)
    microphone.place("a", 320, 1.0)
    with pytest.raises(MicrophoneTakenError):
        microphone.take("b", 1.0 + STALE_S - 0.1)
    microphone.release("b")
    assert microphone.holder == "a"
    microphone.release("a")
    assert microphone.take("b", 1.1) is None


def test_a_speaker_that_went_without_a_word_is_replaced() -> None:
    microphone = Microphone()
    microphone.take("a", 0.0)
    assert microphone.take("b", STALE_S) == "a"
    assert microphone.place("a", 320, STALE_S) is None


def test_media_time_goes_on_with_the_next_speaker() -> None:
    microphone = Microphone()
    microphone.take("a", 0.0)
    microphone.place("a", 320, 0.0)
    microphone.release("a")
    microphone.take("b", 9.0)
    assert microphone.place("b", 320, 9.0) == 320


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


# ------------------------------------------------------------ ledger and records


def ledger(**marks: float) -> Ledger:
    made = Ledger(1, "speech")
    for name, at in marks.items():
        made.mark(Mark(name), at)
    return made


def test_a_stage_lasts_from_what_it_waits_for_to_what_it_gives() -> None:
    made = ledger(
        asked=10.0, opened=10.1, understood=10.3, first_token=10.2, first_voice=10.25,
        first_picture=10.26, started=10.32,
    )  # fmt: skip
    stages = {s.name: (s.start_ms, s.end_ms) for s in made.stages()}
    assert stages == {
        "asr": (0.0, 300.0),
        "llm": (100.0, 200.0),
        "tts": (200.0, 250.0),
        "face": (250.0, 260.0),
        "playout": (300.0, 320.0),
    }
    assert made.since_asked(Mark.STARTED) == pytest.approx(0.32)


def test_playout_waits_for_the_later_of_words_and_voice() -> None:
    made = ledger(asked=1.0, understood=1.1, first_voice=1.3, started=1.35)
    assert [(s.name, s.start_ms) for s in made.stages()] == [("asr", 0.0), ("playout", 300.0)]


def test_a_moment_comes_once() -> None:
    made = ledger(asked=1.0)
    assert made.mark(Mark.STARTED, 2.0) and not made.mark(Mark.STARTED, 3.0)
    assert made.since_asked(Mark.STARTED) == 1.0


def test_an_incomplete_turn_shows_what_there_was() -> None:
    assert Ledger(1, "text").stages() == []
    assert [s.name for s in ledger(asked=1.0, opened=1.0, first_token=2.0).stages()] == ["llm"]


def test_records_follow_the_conversation() -> None:
    talk = Conversation()
    records = Records(talk.turns)
    talk.paused(1, "What", 0.9, 0)
    talk.token(1, "It ", last=False, now=0)
    assert records.get(1) is None and records.all() == [], "nobody was told of it"
    held = talk.turns.find(1)
    assert held is not None
    held.stage_seconds["llm"] = {"total": 0.5}
    talk.final(1, "What?", 0)
    talk.token(1, "[sad] is.", last=True, now=0)
    record = records.get(1)
    assert record is not None
    assert (record.state, record.transcript, record.answer_complete) == ("opened", "What?", True)
    assert record.stage_seconds == {"llm": {"total": 0.5}}
    talk.voice(1, 1.0, [SpokenMark(2, 0.5), SpokenMark(6, 1.0)], last=True, now=0)
    talk.started(1)
    talk.played(1, 0.6, 1)
    talk.submit_text("Hi.", 2)
    record = records.get(1)
    assert record is not None
    assert (record.state, record.reason, record.heard) == ("interrupted", "text", "It")
    assert record.answer.split() == ["It", "is."]
    assert [record.turn for record in records.all()] == [1, 2]


def test_old_records_are_forgotten() -> None:
    talk = Conversation()
    for _ in range(KEPT_TURNS + 2):
        talk.submit_text("Hi.", 0)
    records = Records(talk.turns)
    assert records.get(2) is None and len(records.all()) == KEPT_TURNS


# ------------------------------------------------------------ sound


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
    assert len(first) == 100 and resampler.missing_samples == 50


def test_a_hole_without_end_is_cut() -> None:
    resampler = VoiceResampler(48_000)
    assert len(resampler.resample(10**9, np.ones(10, np.int16))) == 48_010
    assert len(resampler.resample(10**9 + 10, np.ones(10, np.int16))) == 10


def test_opus_packets_follow_each_other() -> None:
    encoder = OpusEncoder()
    times = [p.pts for i in range(5) for p in encoder.encode(tone(960), 4800 + 960 * i)]
    assert np.diff([t or 0 for t in times]).tolist() == [960] * 4
    assert min(t or 0 for t in times) > 0


def test_aac_packets_follow_each_other() -> None:
    encoder = AacEncoder(10_000)
    packets = [p for _ in range(9) for p in encoder.encode(tone(1000))]
    assert packets[0].time_samples == 10_000 - AAC_FRAME_SAMPLES
    assert set(np.diff([p.time_samples for p in packets])) == {AAC_FRAME_SAMPLES}
    assert encoder.config.hex() == "1188"  # AAC-LC, 48 kHz, mono


# ------------------------------------------------------------ the rest


def test_key_frames_are_asked_for_now_and_then() -> None:
    throttle = KeyframeThrottle()
    asked = [throttle.allows(VideoCodec.H264, 0.1 * i) for i in range(9)]
    assert [i for i, yes in enumerate(asked) if yes] == [0, 4, 8]
    assert throttle.allows(VideoCodec.VP8, 0.1)


def test_a_key_frame_that_was_refused_is_still_wanted() -> None:
    throttle = KeyframeThrottle()
    assert throttle.allows(VideoCodec.H264, 0.0) and not throttle.refused
    assert not throttle.allows(VideoCodec.H264, 0.1)
    assert throttle.refused == {VideoCodec.H264}
    assert throttle.allows(VideoCodec.H264, 0.5) and not throttle.refused


def test_the_answer_is_in_the_session_s_language() -> None:
    assert system_message("Be kind.", "en-GB") == "Be kind. Answer in English."
    assert system_message("", "zh") == ""
    assert system_message("Be kind.", "xx") == "Be kind."
    assert system_message("友好。", "zh-CN") == "友好。 请用简体中文回答。"
