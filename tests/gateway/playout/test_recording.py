"""Recordings: what is in the file, from where to where."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gateway.playout.pacing import TICK_SAMPLES
from gateway.playout.playout import Playout
from gateway.playout.sinks.recording import Recording, RecordingPhase, Scope
from gateway.playout.sinks.recording_folders import forget_left_behind, make_folder
from tests.full_disk import limited_files
from tests.gateway.media import PictureEncoder, film, tone
from visavis.wire.media import VideoCodec


def test_what_a_gateway_that_was_killed_has_left_goes_as_the_next_one_starts(
    tmp_path: Path,
) -> None:
    ours = make_folder(tmp_path / "films", "one")
    here, _, name = ours.name.rpartition(f"@{os.getpid()}.")
    began, _, _ = name.partition("@")
    killed = [f"{os.getpid()}.{int(began) - 60}", f"999999999.{began}"]
    for process in killed:
        (ours.parent / f"{here}@{process}@two-x").mkdir()
    elsewhere = ours.parent / f"visavis-recording@another@{killed[0]}@three-x"
    elsewhere.mkdir()
    forget_left_behind(tmp_path / "films")
    assert sorted(ours.parent.iterdir()) == sorted([ours, elsewhere])


class Stage:
    """A playout whose face is a real encoder, and a recording of it."""

    def __init__(self, folder: Path, scope: Scope, **options: Any) -> None:
        self.playout = Playout()
        self.playout.set_codecs({VideoCodec.H264})
        self.encoder = PictureEncoder()
        self.recording = Recording(folder / "film.mp4", scope, **options)

    def idle(self, pictures: int, *, keyframe: bool = False) -> None:
        """The face waits, for so many pictures."""
        for i in range(pictures):
            picture = self.encoder.picture(brightness=40, keyframe=keyframe and i == 0)
            self.playout.push_picture(picture)
            self.run(2)

    def speak(self, turn: int, frames: int, *, keyframe: bool = True, ticks: int = 0) -> None:
        """A turn of `frames` pictures, played to its end or for so many ticks."""
        self.playout.open_turn(turn)
        self.playout.push_voice(turn, tone(2 * frames * TICK_SAMPLES), last=True)
        for i in range(frames):
            self.playout.push_picture(
                self.encoder.picture(
                    turn, i, brightness=200, keyframe=keyframe and i == 0, last=i == frames - 1
                )
            )
        self.run(ticks or 2 * frames + 2)

    def run(self, ticks: int) -> None:
        for _ in range(ticks):
            self.recording.push(self.playout.tick())

    def read(self) -> tuple[list[float], list[float], float]:
        """Times and brightness of the pictures; length of the sound in seconds."""
        assert self.recording.phase is RecordingPhase.DONE
        payload = self.recording.path.read_bytes()
        with film(payload) as container:
            frames = list(container.decode(video=0))
        with film(payload) as container:
            sound = sum(f.samples for f in container.decode(audio=0)) / 48_000
        times = [f.pts / 90_000 for f in frames]
        return times, [float(f.to_ndarray(format="gray").mean()) for f in frames], sound


def test_a_turn_from_its_first_picture_to_its_last(tmp_path: Path) -> None:
    stage = Stage(tmp_path, Scope.TURN)
    stage.idle(5)
    stage.speak(1, 10)
    stage.idle(3)
    stage.speak(2, 5)  # is not in it
    times, brightness, sound = stage.read()
    assert times == pytest.approx([i / 25 for i in range(10)])
    assert min(brightness) > 150
    assert sound == pytest.approx(0.4, abs=0.04)
    assert stage.recording.duration_s == pytest.approx(0.4)


def test_without_a_key_frame_it_begins_with_the_one_before(tmp_path: Path) -> None:
    stage = Stage(tmp_path, Scope.TURN)
    stage.idle(5)
    stage.idle(3, keyframe=True)
    stage.speak(1, 10, keyframe=False)
    times, brightness, sound = stage.read()
    assert [b > 150 for b in brightness] == [False] * 3 + [True] * 10
    assert times == pytest.approx([i / 25 for i in range(13)])
    assert sound == pytest.approx(13 / 25, abs=0.04)


@pytest.mark.parametrize("scope", Scope)
def test_what_is_said_before_a_face_is_there_is_heard_under_its_first_picture(
    tmp_path: Path, scope: Scope
) -> None:
    stage = Stage(tmp_path, scope)
    stage.run(50)  # nothing is said yet
    stage.playout.open_turn(1)
    stage.playout.push_voice(1, tone(50 * TICK_SAMPLES), last=True)
    stage.run(22)  # two of them it waits for a picture
    for i in range(10, 25):
        picture = stage.encoder.picture(1, i, brightness=200, keyframe=i == 10, last=i == 24)
        stage.playout.push_picture(picture)
    stage.run(40)
    stage.recording.finish(stage.playout.now_samples)
    times, _, sound = stage.read()
    assert times == pytest.approx([0, *(i / 25 for i in range(11, 25))], abs=0.001)
    assert sound == pytest.approx(1.0, abs=0.2)


def test_a_turn_that_is_cut_off_ends_there(tmp_path: Path) -> None:
    stage = Stage(tmp_path, Scope.TURN)
    stage.speak(1, 40, ticks=20)
    stage.recording.turn_cut(2, stage.playout.now_samples)
    assert stage.recording.phase is RecordingPhase.RECORDING
    stage.recording.turn_cut(1, stage.playout.now_samples)
    times, _, sound = stage.read()
    assert len(times) == 10
    assert sound == pytest.approx(0.4, abs=0.04)


def test_a_session_is_recorded_until_it_is_stopped(tmp_path: Path) -> None:
    stage = Stage(tmp_path, Scope.SESSION)
    stage.idle(10)
    stage.speak(1, 10)
    stage.idle(10)
    stage.recording.finish(stage.playout.now_samples)
    times, brightness, sound = stage.read()
    # A picture that came late in its tick may still wait.
    assert len(times) == pytest.approx(30, abs=1)
    assert sound == pytest.approx(stage.recording.duration_s, abs=0.04)
    assert sound == pytest.approx(31 / 25, abs=0.08)
    with film(stage.recording.path.read_bytes()) as container:
        samples = np.concatenate([f.to_ndarray()[0] for f in container.decode(audio=0)])
    heard_s = np.argmax(np.abs(samples) > 0.05) / 48_000
    seen_s = times[next(i for i, b in enumerate(brightness) if b > 150)]
    assert heard_s == pytest.approx(seen_s, abs=0.01)


def test_a_picture_that_is_lost_leaves_the_last_good_one_up_to_a_key_frame(tmp_path: Path) -> None:
    stage = Stage(tmp_path, Scope.SESSION)
    bright = [60, 80, 100, 120, 140, 160, 180, 200]
    for number, brightness in enumerate(bright):
        picture = stage.encoder.picture(brightness=brightness, keyframe=number in (0, 6))
        if number != 3:
            stage.playout.push_picture(picture)
        asked = stage.playout.needs_keyframe()
        assert asked == ([VideoCodec.H264] if number in (4, 5) else [])
        stage.run(2)
    stage.recording.finish(stage.playout.now_samples)
    _, seen, sound = stage.read()
    # In the full range of a grey picture.
    assert seen == pytest.approx([(b - 16) * 255 / 219 for b in (60, 80, 100, 180, 200)], abs=3)
    assert sound == pytest.approx(8 / 25, abs=0.05)


def test_a_recording_has_an_end(tmp_path: Path) -> None:
    stage = Stage(tmp_path, Scope.SESSION, limit_s=0.5)
    stage.idle(30)
    assert stage.read()[2] == pytest.approx(0.5, abs=0.06)
    assert "none is longer than 0.5 s" in stage.recording.error


def test_nothing_recorded_leaves_no_file(tmp_path: Path) -> None:
    stage = Stage(tmp_path, Scope.TURN)
    stage.idle(5)
    stage.recording.finish(stage.playout.now_samples)
    assert stage.recording.empty
    assert list(tmp_path.iterdir()) == []


def test_what_waits_for_a_turn_is_bounded(tmp_path: Path) -> None:
    stage = Stage(tmp_path, Scope.TURN)
    stage.idle(2)
    stage.run(50 * 60)
    recording = stage.recording
    assert len(recording._preroll_sound) <= 50 * 12 + 1
    assert len(recording._preroll_pictures) == 0


def test_an_abandoned_recording_is_deleted(tmp_path: Path) -> None:
    stage = Stage(tmp_path, Scope.SESSION)
    stage.idle(5)
    stage.recording.abandon()
    assert stage.recording.phase is RecordingPhase.DONE
    assert list(tmp_path.iterdir()) == []
    stage.run(3)


def test_a_full_disk_leaves_what_can_be_played(tmp_path: Path) -> None:
    stage = Stage(tmp_path, Scope.SESSION)
    failed: list[OSError] = []
    with limited_files(12_000):
        for number in range(250):
            stage.playout.push_picture(stage.encoder.picture(brightness=40 + number % 150))
            try:
                stage.run(2)
            except OSError as error:
                failed.append(error)
                stage.recording.fail(error)
    assert len(failed) == 1, "nothing is written after it"
    recording = stage.recording
    times, _, sound = stage.read()
    assert recording.duration_s > 1 and recording.path.stat().st_size <= 12_000
    assert sound == pytest.approx(recording.duration_s, abs=0.05)
    assert times[-1] == pytest.approx(recording.duration_s, abs=0.1)
    assert f"its first {recording.duration_s:.1f} s are kept" in recording.error
    assert list(tmp_path.iterdir()) == [recording.path]


def test_a_larger_face_in_mid_recording_still_decodes(tmp_path: Path) -> None:
    stage = Stage(tmp_path, Scope.SESSION)
    stage.idle(5)
    stage.encoder = PictureEncoder(size=128)
    stage.playout.restart_stream()
    stage.idle(5, keyframe=True)
    stage.recording.finish(stage.playout.now_samples)
    assert len(stage.read()[0]) == pytest.approx(10, abs=1)
