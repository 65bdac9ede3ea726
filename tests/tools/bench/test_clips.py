"""Where speech begins and ends, and what lies beside a clip."""

import json
import wave
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from visavis.serving.errors import InvalidInputError
from visavis.tools.bench.visitor.clips import (
    RATE_HZ,
    choose,
    load_clips,
    script_language,
    span_by_energy,
    span_of_synthetic,
)

RECORDINGS = Path(__file__).parents[2] / "clips"


def recording(
    speech: list[tuple[float, float]], length_s: float, noise_db: float = -70.0
) -> NDArray[np.int16]:
    """Noise with bursts of a tone, from and to in seconds."""
    random = np.random.default_rng(1)
    count = round(length_s * RATE_HZ)
    wave_ = 10 ** (noise_db / 20) * random.standard_normal(count)
    for start, end in speech:
        at = np.arange(round(start * RATE_HZ), round(end * RATE_HZ))
        wave_[at] += 0.3 * np.sin(at * 2 * np.pi * 220 / RATE_HZ)
    return (wave_ * 32767).astype(np.int16)


def save(path: Path, pcm: NDArray[np.int16]) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE_HZ)
        file.writeframes(pcm.tobytes())


@pytest.mark.parametrize("noise_db", [-80.0, -50.0, -40.0])
def test_energy_finds_the_end_to_a_frame_in_any_noise(noise_db: float) -> None:
    """A click after the speech is none."""
    pcm = recording([(0.5, 1.2), (1.6, 2.4), (2.8, 2.82)], 3.5, noise_db)
    span = span_by_energy(pcm, RATE_HZ)
    assert span.start_samples / RATE_HZ == pytest.approx(0.5, abs=0.011)
    assert span.end_samples / RATE_HZ == pytest.approx(2.4, abs=0.011)
    assert span.method.startswith("energy")


def test_recorded_speech_ends_before_its_file_does() -> None:
    for clip in load_clips(RECORDINGS):
        assert 0.5 * clip.speech_s < len(clip.pcm) / RATE_HZ
        assert 0.1 * RATE_HZ < len(clip.pcm) - clip.span.end_samples < 1.0 * RATE_HZ
        assert clip.text


def test_silence_is_no_clip() -> None:
    silence = np.zeros(RATE_HZ, np.int16)
    with pytest.raises(InvalidInputError, match="no speech"):
        span_by_energy(silence, RATE_HZ)
    with pytest.raises(InvalidInputError, match="no speech"):
        span_of_synthetic(silence)


def test_synthetic_speech_is_known_to_the_sample() -> None:
    pcm = np.zeros(1000, np.int16)
    pcm[100:900] = 5000
    span = span_of_synthetic(pcm)
    assert (span.start_samples, span.end_samples) == (100, 900)


def test_a_label_beats_the_energy(tmp_path: Path) -> None:
    save(tmp_path / "a.wav", recording([(0.2, 0.8)], 1.5))
    (tmp_path / "a.txt").write_text("你好\n", encoding="utf-8")
    label = {"speech_start_s": 0.1, "speech_end_s": 1.0}
    (tmp_path / "a.json").write_text(json.dumps(label), encoding="utf-8")
    (clip,) = load_clips(tmp_path)
    assert clip.span.end_samples == RATE_HZ
    assert (clip.text, clip.language) == ("你好", "zh")


@pytest.mark.parametrize("label", ['{"speech_end_s": 9}', "[]", "{", '{"speech_end_s": "x"}'])
def test_a_wrong_label_is_refused_by_its_file(tmp_path: Path, label: str) -> None:
    save(tmp_path / "a.wav", recording([(0.2, 0.8)], 1.0))
    (tmp_path / "a.json").write_text(label, encoding="utf-8")
    with pytest.raises(InvalidInputError, match=r"a\.(wav|json)"):
        load_clips(tmp_path)


def test_a_folder_without_sound_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="no sound files"):
        load_clips(tmp_path)
    with pytest.raises(InvalidInputError, match="no such folder"):
        load_clips(tmp_path / "none")


def test_few_are_chosen_from_all_over_the_list() -> None:
    clips = load_clips(RECORDINGS)
    assert choose(clips, 0) == clips
    assert [c.name for c in choose(clips * 4, 4)] == [c.name for c in (clips * 4)[::3]]


def test_language_by_script() -> None:
    assert script_language("Hello") == "en"
    assert script_language("GPT 是什么") == "zh"
