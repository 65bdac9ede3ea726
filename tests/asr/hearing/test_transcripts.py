"""Recorded speech through the real networks, as a file and as a live stream."""

from __future__ import annotations

import asyncio
import re
import wave
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from services.asr.hearing.detectors import (
    FRAME_SAMPLES,
    SAMPLE_RATE_HZ,
    TurnDetector,
    VadAsk,
    VadState,
    VoiceDetector,
)
from services.asr.hearing.networks import BundledNetworks, Hearing
from services.asr.hearing.transcript import Transcript
from services.asr.session import ListeningSession
from services.asr.turns.endpointing import EndpointRules
from services.asr.utterance import Heard
from tests.fakes import ManualClock
from visavis.bundles.store import profile
from visavis.engine import open_engine
from visavis.tools.bench.figures.word_errors import edits
from visavis.tools.bench.turns import load_turn_clips
from visavis.wire.media import TranscriptEvent

CLIPS = Path(__file__).parents[2] / "clips"
_DIGITS = str.maketrans("一二三四五六七八九", "123456789")


@pytest.fixture(scope="module")
def hearing(bundle: Callable[[str], Path]) -> Iterator[Hearing]:
    """Loading takes seconds, and the networks keep no state of whom they hear."""
    names = profile("tiny")["asr"]
    hearing = Hearing(BundledNetworks({n: bundle(n) for n in names}, open_engine), "en")
    asyncio.run(hearing.load())
    yield hearing
    hearing.close()


@cache
def clip(name: str) -> NDArray[np.int16]:
    with wave.open(str(CLIPS / f"{name}.wav")) as file:
        return np.frombuffer(file.readframes(file.getnframes()), "<i2")


def sound(name: str) -> NDArray[np.float32]:
    return clip(name).astype(np.float32) / 32768


def units(text: str, language: str) -> list[str]:
    """Words, or for Mandarin characters; numbers as digits."""
    if language == "zh":
        text = text.replace("十", "10").translate(_DIGITS)
        return [char for char in text if char.isalnum()]
    return re.sub(r"[^\w']+", " ", text.lower()).split()


def error_rate(name: str, heard: str, language: str) -> float:
    said = units((CLIPS / f"{name}.txt").read_text(encoding="utf-8"), language)
    return edits(said, units(heard, language)) / len(said)


class Unhurried:
    """Networks that say of every text that it cost little, however busy this machine is."""

    def __init__(self, hearing: Hearing) -> None:
        self._hearing = hearing

    def __getattr__(self, name: str) -> Any:
        return getattr(self._hearing, name)

    async def transcribe(self, *work: Any) -> tuple[Transcript, float]:
        text, _ = await self._hearing.transcribe(*work)
        return text, 0.05


async def live(
    hearing: Hearing,
    pcm: NDArray[np.int16],
    language: str,
    rate: int = SAMPLE_RATE_HZ,
    *,
    interim: bool = False,
) -> list[Heard]:
    """Events of a stream that ends with a second and a half of silence."""
    session = ListeningSession(
        Unhurried(hearing),  # type: ignore[arg-type]
        language,
        interim_results=interim,
        rules=EndpointRules(),
        clock=ManualClock(),
        recorded=True,
    )
    heard: list[Heard] = []
    async with session:
        pcm = np.concatenate([pcm, np.zeros(rate * 3 // 2, np.int16)])
        for start in range(0, len(pcm), rate // 50):
            await session.hear(pcm[start : start + rate // 50], rate)
            heard += session.ready_events()
        await session.finish()
        heard += session.ready_events()
    return heard


def finals(heard: list[Heard]) -> list[Heard]:
    return [event for event in heard if event.event is TranscriptEvent.FINAL]


async def test_recordings_are_understood(hearing: Hearing) -> None:
    """Those that are not heard live."""
    for name, language, worst in (("jfk", "en", 0.15), ("zh/nls_digits", "zh", 0.3)):
        heard = await hearing.recognize(sound(name), language)
        assert error_rate(name, heard.text, language) <= worst, heard.text
    last_words = sound("jfk")[156_800:169_600]  # no silence before them
    heard = await hearing.recognize(np.pad(last_words, (0, 6_400)), "en")
    assert units(heard.text, "en") == ["your", "country"]
    assert all(s.start_samples == 0 for s in heard.segments)


async def test_whisper_understands_english_and_times_it(hearing: Hearing) -> None:
    whisper = hearing.ear("whisper-base").transcriber
    heard = whisper.transcribe(sound("jfk"), "en")
    assert error_rate("jfk", heard.text, "en") <= 0.1
    starts = [segment.start_samples for segment in heard.segments]
    assert starts == sorted(starts)
    assert all(s.start_samples < s.end_samples <= len(sound("jfk")) for s in heard.segments)
    assert whisper.transcribe(sound("jfk")[: 3 * SAMPLE_RATE_HZ], "").language == "en"


async def test_a_long_recording_is_cut_and_whole(hearing: Hearing) -> None:
    pause = np.zeros(SAMPLE_RATE_HZ, np.float32)
    recording = np.concatenate([sound("two_cities_01"), pause] * 4)
    heard = await hearing.recognize(recording, "en")
    assert units(heard.text, "en").count("worst") == 4
    assert len(heard.segments) >= 2
    ends = [segment.end_samples for segment in heard.segments]
    assert ends == sorted(ends)
    assert ends[-1] <= len(recording)


@pytest.mark.parametrize("language", ["en", "zh"])
async def test_what_is_not_speech_gives_no_text(hearing: Hearing, language: str) -> None:
    rng = np.random.default_rng(0)
    n = 5 * SAMPLE_RATE_HZ
    square = np.sign(np.sin(np.arange(n) * 0.17))
    for noise in (
        np.zeros(0),
        np.zeros(1),
        np.zeros(n),
        rng.normal(size=n) * 0.1,
        np.clip(rng.normal(size=n) * 3, -1, 1),
        square,
        np.sin(np.arange(n) * 2 * np.pi * 50 / SAMPLE_RATE_HZ) * 0.5,
    ):
        heard = await hearing.recognize(noise.astype(np.float32), language)
        assert heard.text == ""


async def test_clipped_speech_is_still_understood(hearing: Hearing) -> None:
    loud = np.clip(sound("two_cities_01") * 20, -1, 1)
    heard = await hearing.recognize(loud, "en")
    assert error_rate("two_cities_01", heard.text, "en") <= 0.3


def ends_soon(final: Heard) -> None:
    """After its last word."""
    assert final.end_of_turn > 0.7  # calibrated: of such pauses some go on
    assert final.at_samples - final.speech_end_samples <= 0.25 * SAMPLE_RATE_HZ


async def test_a_live_sentence_is_told_in_simplified_characters_and_ends_soon(
    hearing: Hearing,
) -> None:
    name = "zh/funasr_asr_example"
    (final,) = finals(await live(hearing, clip(name), "zh"))
    assert error_rate(name, final.text, "zh") <= 0.3
    assert "欢迎大家来体验" in final.text
    assert final.language == "zh"
    ends_soon(final)


async def test_a_sentence_that_sounds_unfinished_is_waited_for(hearing: Hearing) -> None:
    heard = await live(hearing, clip("austen_0880"), "en")
    (final,) = finals(heard)
    assert final.at_samples - final.speech_end_samples > 0.6 * SAMPLE_RATE_HZ
    assert error_rate("austen_0880", final.text, "en") <= 0.15, final.text


async def test_a_telephone_rate_is_understood(hearing: Hearing) -> None:
    half = clip("two_cities_01")[::2]
    (final,) = finals(await live(hearing, half, "en", rate=8000))
    assert error_rate("two_cities_01", final.text, "en") <= 0.3


@pytest.mark.parametrize("bundle_name", ["moonshine-tiny-en", "whisper-base"])
def test_a_guess_at_the_text_does_not_change_it(hearing: Hearing, bundle_name: str) -> None:
    transcriber = hearing.ear(bundle_name).transcriber
    pcm = sound("two_cities_01")[: 5 * SAMPLE_RATE_HZ // 2]
    said = transcriber.transcribe(pcm, "en").text
    astray = f"{said[:15]} what was the weather like yesterday in the city"
    for draft in (said, said[: len(said) // 2], astray, "\ufffd\0"):
        heard = transcriber.transcribe(pcm, "en", draft).text
        # A quantised network rounds many tokens at once another way: marks may differ.
        assert units(heard, "en") == units(said, "en")


def test_only_a_short_sound_is_asked_whether_it_is_a_hum(hearing: Hearing) -> None:
    transcriber = hearing.ear("moonshine-tiny-en").transcriber
    assert transcriber.transcribe(sound("jfk")[: 3 * SAMPLE_RATE_HZ], "en").hum_odds is None
    # "And so": words, and no "mm-hm".
    first = slice(SAMPLE_RATE_HZ * 3 // 10, SAMPLE_RATE_HZ * 9 // 10)
    words = transcriber.transcribe(sound("jfk")[first], "en")
    assert words.text and words.hum_odds is not None
    assert words.hum_odds < -0.3
    # "And so my": of three words, too.
    three = slice(SAMPLE_RATE_HZ * 3 // 10, SAMPLE_RATE_HZ * 14 // 10)
    more = transcriber.transcribe(sound("jfk")[three], "en")
    assert len(more.text.split()) == 3 and more.hum_odds is not None
    assert more.hum_odds < 0.6


def test_only_short_mandarin_is_asked_by_whisper(hearing: Hearing) -> None:
    transcriber = hearing.ear("whisper-base").transcriber
    pcm = sound("zh/nls_digits")[: 5 * SAMPLE_RATE_HZ // 2]
    short = slice(SAMPLE_RATE_HZ // 2, SAMPLE_RATE_HZ * 3 // 2)
    assert transcriber.transcribe(pcm, "zh").hum_odds is None
    assert transcriber.transcribe(pcm[short], "en").hum_odds is None
    digits = transcriber.transcribe(pcm[short], "zh")
    assert digits.text and digits.hum_odds is not None
    assert digits.hum_odds < 0.6


async def test_partials_come_early_and_their_stable_part_stays(hearing: Hearing) -> None:
    heard = await live(hearing, clip("two_cities_01"), "en", interim=True)
    started = next(e for e in heard if e.event is TranscriptEvent.SPEECH_STARTED)
    first = next(e for e in heard if e.text)
    assert first.at_samples - started.at_samples <= SAMPLE_RATE_HZ // 2
    stable = ""
    for event in heard[heard.index(first) :]:
        assert event.text.startswith(stable)
        stable = event.text[: event.stable_characters]
    (final,) = finals(heard)
    assert error_rate("two_cities_01", final.text, "en") <= 0.15 and final.language == "en"
    ends_soon(final)
    partials = [e for e in heard if e.event is TranscriptEvent.PARTIAL]
    assert partials[-1].stable_characters >= len("It was the best of times")


@pytest.mark.parametrize(
    "file",
    ["en_hesitant_03", "zh_unfinished_06"],
)
async def test_a_pause_where_nobody_ends_does_not_end_the_turn(hearing: Hearing, file: str) -> None:
    turn = next(c for c in load_turn_clips(CLIPS.parent / "turns") if c.path.stem == file)
    heard = await live(hearing, turn.sound(), turn.language, interim=True)
    (final,) = finals(heard)
    assert final.at_samples >= turn.turn_end


@pytest.mark.parametrize("file", ["en_short_08", "zh_finished_01"])
async def test_a_finished_question_is_not_held_up(hearing: Hearing, file: str) -> None:
    turn = next(c for c in load_turn_clips(CLIPS.parent / "turns") if c.path.stem == file)
    heard = await live(hearing, turn.sound(), turn.language, interim=True)
    (final,) = finals(heard)
    assert final.at_samples - turn.turn_end <= 0.25 * SAMPLE_RATE_HZ
    paused = next(e for e in heard if e.event is TranscriptEvent.PAUSED)
    assert paused.at_samples - turn.turn_end <= 0.15 * SAMPLE_RATE_HZ


async def test_streams_and_turns_that_share_a_run_are_judged_as_each_alone(
    bundle: Callable[[str], Path],
) -> None:
    heard = sound("jfk")
    with open_engine(bundle("silero-vad") / "silero_vad.onnx") as engine:
        detector = VoiceDetector(engine)
        assert detector.rows > 1
        frames = heard[: 160 * FRAME_SAMPLES].reshape(-1, FRAME_SAMPLES)
        streams = [frames[40 * k : 80 * k + 10] for k in range(1, 3)] + [frames[:25]]
        together = detector.probabilities([VadAsk(stream, VadState()) for stream in streams])
        for stream, odds in zip(streams, together, strict=True):
            state = VadState()
            assert odds == pytest.approx([detector.probability(f, state) for f in stream], abs=1e-5)
    with open_engine(bundle("smart-turn") / "smart-turn.onnx") as engine:
        judge = TurnDetector(engine)
        turns = [heard[: 2 * SAMPLE_RATE_HZ], heard[SAMPLE_RATE_HZ : 9 * SAMPLE_RATE_HZ]]
        alone = [judge.probability(turn) for turn in turns]
        assert judge.probabilities(turns) == pytest.approx(alone, abs=1e-4)
