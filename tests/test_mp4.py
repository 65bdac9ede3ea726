from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from tests.full_disk import limited_files
from visavis.mp4 import Mp4Writer
from visavis.serving.errors import InvalidInputError
from visavis.synthetic import SYNTHETIC
from visavis.tools.bench.visitor.clips import read_mono

FPS = 25
RATE_HZ = 24_000


@pytest.fixture(scope="module")
def pictures() -> list[bytes]:
    """Ten H.264 access units, the first one a key frame."""
    encoder = av.CodecContext.create("libx264", "w")
    assert isinstance(encoder, av.VideoCodecContext)
    encoder.width = encoder.height = 64
    encoder.pix_fmt = "yuv420p"
    encoder.time_base = Fraction(1, FPS)
    encoder.options = {"preset": "ultrafast", "tune": "zerolatency"}
    units = []
    for i in range(10):
        frame = av.VideoFrame.from_ndarray(np.full((64, 64, 3), i * 20, np.uint8), format="rgb24")
        frame.pts = i
        units += [bytes(packet) for packet in encoder.encode(frame)]
    return units


def opened(path: Path) -> Mp4Writer:
    return Mp4Writer(path, fps=FPS, width=64, height=64, sample_rate_hz=RATE_HZ)


def write(path: Path, pictures: list[bytes], samples: int) -> None:
    with opened(path) as video:
        for i, payload in enumerate(pictures):
            video.add_picture(payload, keyframe=i == 0)
        tone = 8000 * np.sin(np.arange(samples) * 2 * np.pi * 440 / RATE_HZ)
        video.add_sound(tone.astype(np.int16))


@pytest.mark.parametrize("samples", [0, 4_000, 9_600])
def test_sound_and_picture_have_the_same_length(
    tmp_path: Path, pictures: list[bytes], samples: int
) -> None:
    path = tmp_path / "a.mp4"
    write(path, pictures, samples)
    with av.open(str(path)) as file:
        video, sound = file.streams.video[0], file.streams.audio[0]
        assert video.frames == 10
        assert video.duration is not None and video.time_base is not None
        assert sound.duration is not None and sound.time_base is not None
        length_s = float(video.duration * video.time_base)
        assert length_s == pytest.approx(0.4)
        assert float(sound.duration * sound.time_base) == pytest.approx(length_s, abs=1 / FPS)
        assert sum(1 for _ in file.decode(video=0)) == 10
        assert file.metadata["comment"] == SYNTHETIC
    assert list(tmp_path.iterdir()) == [path]


def test_error_leaves_no_file(tmp_path: Path, pictures: list[bytes]) -> None:
    with pytest.raises(RuntimeError), opened(tmp_path / "a.mp4") as video:
        video.add_picture(pictures[0], keyframe=True)
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("room_bytes", [50, 12_000, 18_000, 23_500])
def test_a_full_disk_leaves_what_is_whole(
    tmp_path: Path, pictures: list[bytes], room_bytes: int
) -> None:
    path = tmp_path / "a.mp4"
    video = opened(path)
    rng = np.random.default_rng(1)
    with limited_files(room_bytes), pytest.raises(OSError, match="too large"):
        for i in range(40):
            video.add_picture(pictures[i % 10], keyframe=i % 10 == 0)
            video.add_sound(rng.integers(-9_000, 9_000, RATE_HZ // FPS).astype(np.int16))
        video.close()
    kept_s = video.keep_playable()
    assert list(tmp_path.iterdir()) == ([path] if kept_s else [])
    if kept_s:
        with av.open(str(path)) as file:
            shown = [frame.pts for frame in file.decode(video=0)]
        assert len(shown) / FPS == pytest.approx(kept_s, abs=0.1)
    assert (kept_s > 0.4) == (room_bytes > 10_000)


def test_sound_files_are_read_at_the_rate_asked_for(tmp_path: Path, pictures: list[bytes]) -> None:
    path = tmp_path / "a.mp4"
    write(path, pictures, 9_600)
    pcm = read_mono(path, 16_000)
    assert abs(len(pcm) - 6_400) < 1_100  # AAC adds a frame of priming
    assert np.abs(pcm).max() > 4_000
    with pytest.raises(InvalidInputError, match="not a sound file"):
        read_mono(tmp_path / "none.wav", 16_000)
    (tmp_path / "junk.wav").write_bytes(b"RIFF junk")
    with pytest.raises(InvalidInputError, match="not a sound file"):
        read_mono(tmp_path / "junk.wav", 16_000)
