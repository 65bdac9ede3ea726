"""What Wav2Lip hears and sees, how its picture goes back into the portrait, and when it runs."""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
from collections.abc import AsyncIterator
from functools import cache
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from services.face.avatar import topology
from services.face.avatar.avatar import load_avatar
from services.face.draw.pose import FacePose, Frame
from services.face.engines.wav2lip.engine import PhotographedAvatar, PhotographRenderer
from services.face.engines.wav2lip.face_crop import FaceCrop, face_crop
from services.face.engines.wav2lip.mel import SILENCE, MelEar, MelTrack
from services.face.engines.wav2lip.network import AHEAD_FRAMES, MouthNetwork, Mouths
from services.face.lips.sound_track import SoundTrack
from tests.face.engines.fake_mouths import Arrays, FakeWav2Lip, loaded, pass_through
from tests.face.portraits import DEFAULT_FOLDER, astronaut, picture_of
from tests.rows import KnownCurve
from visavis.engine import EngineLane
from visavis.serving.errors import EngineError, EngineLoadError

SWAY = FacePose(yaw=0.12, pitch=0.06, roll=-0.05, blink_left=0.6, gaze_x=0.3, breath=0.5)


# What it hears


@pytest.mark.parametrize("piece", [6400, 777, 130])
def test_the_mel_is_the_one_that_it_was_trained_on(piece: int) -> None:
    """Held against librosa 0.11 with the published settings, in pieces of any length."""
    with np.load(Path(__file__).parent / "wav2lip_mel.npz") as known:
        pcm, wanted = known["pcm"], known["mel"]
    ear = MelEar(16_000, 25)
    hops = [
        ear.features(pcm[at : at + piece], last=at + piece >= len(pcm))
        for at in range(0, len(pcm), piece)
    ]
    np.testing.assert_allclose(np.concatenate(hops), wanted, atol=2e-4)


def test_other_rates_give_the_same_picture_of_the_sound() -> None:
    tones = []
    for rate in (16_000, 24_000):
        seconds = np.arange(rate) / rate
        pcm = (9000 * np.sin(2 * np.pi * 440 * seconds)).astype(np.int16)
        ear = MelEar(rate, 25)
        tones.append(ear.features(pcm, last=True))
    assert np.abs(tones[0][10:70] - tones[1][10:70]).mean() < 0.12


def test_a_window_is_there_once_all_its_sound_is() -> None:
    track = MelTrack(25)
    hops = np.arange(40, dtype=np.float32)[:, None].repeat(80, axis=1)
    assert track.known_s < 0 and track.window(0) is None
    track.add(hops[:13], last=False)
    # The first frame's window begins a frame early: 4 hops of silence, then 12 of sound.
    first = track.window(0)
    assert first is not None and first.shape == (80, 16)
    assert first[0].tolist() == [SILENCE] * 4 + list(range(12))
    assert track.window(1) is None
    track.add(hops[13:], last=False)
    # 3.2 hops to a frame.
    assert [int(track.window(k)[0, 0]) for k in (1, 2, 3, 4, 5)] == [0, 3, 6, 9, 12]  # type: ignore[index]
    assert 8 / 25 <= track.known_s + 1e-9 < 9 / 25
    assert track.window(8) is not None and track.window(9) is None


def test_after_the_end_there_is_silence_and_then_nothing() -> None:
    track = MelTrack(25)
    track.add(np.zeros((33, 80), np.float32), last=True)
    assert track.known_s == math.inf
    last = track.window(10)
    assert last is not None and last[0].tolist() == [0.0] * 5 + [SILENCE] * 11
    assert track.window(11) is None


def test_a_long_turn_keeps_only_what_may_still_be_wanted() -> None:
    track = MelTrack(25)
    for second in range(60):
        track.add(np.full((80, 80), second, np.float32), last=False)
        if second:
            window = track.window(25 * second)
            assert window is not None and window[0, -1] == second
    assert track.window(0) is None


# What it sees, and what becomes of its picture


@cache
def photographed() -> PhotographedAvatar:
    return PhotographedAvatar.of(astronaut())


@cache
def crop() -> FaceCrop:
    return face_crop(photographed(), photographed().texture)


def test_the_crop_is_the_face_and_its_lower_half_is_hidden() -> None:
    seen = crop().network_input()
    assert seen.shape == (6, 96, 96) and seen.dtype == np.float32
    assert (seen[:3, 48:] == 0).all() and (seen[:3, :48] == seen[3:, :48]).all()
    # The mean colour is that of the portrait around the nose, blue first.
    x, y = astronaut().mesh.source[1].astype(int)
    skin = astronaut().portrait[y - 20 : y + 20, x - 20 : x + 20].mean(axis=(0, 1)) / 255
    np.testing.assert_allclose(seen[3:, 40:56, 40:56].mean(axis=(1, 2)), skin[::-1], atol=0.08)


def test_the_same_face_gives_back_the_photograph_to_the_last_bit() -> None:
    assert (crop().paste(crop().reference) == crop().person).all()


def test_a_picture_that_is_only_darker_is_matched_to_the_photograph() -> None:
    pasted = crop().paste(crop().reference * 0.85 + 0.02)
    assert np.abs(pasted.astype(int) - crop().person).max() <= 1


def test_an_open_mouth_does_not_change_the_light_of_the_cheeks() -> None:
    opened = crop().reference * 0.9
    opened[58:80, 34:62] = (0.1, 0.02, 0.02)
    opened[80:] = crop().reference[70:86] * 0.9
    pasted = crop().paste(opened).astype(int)
    cheeks = np.s_[40:100, 50:120]
    mouth = np.s_[60:120, 175:240]
    assert np.abs(pasted[cheeks] - crop().person[cheeks]).mean() < 2
    assert pasted[mouth].mean() < 60


def test_a_mark_of_the_network_stands_where_it_drew_it() -> None:
    marked = crop().reference.copy()
    marked[70:78, 40:56] = (0.0, 1.0, 0.0)
    renderer = PhotographRenderer(photographed())
    renderer.paint(crop().window, crop().paste(marked))
    green = picture_of(renderer, FacePose()).astype(int)
    changed = (green[..., 1] - green[..., 0] > 120) & (green[..., 1] - green[..., 2] > 120)
    rows, columns = np.nonzero(changed)
    # The same place in the portrait, by the outline of the face in the head's own axes.
    axes = astronaut().frame.axes
    outline = astronaut().mesh.source[list(topology.FACE_OVAL)] @ axes
    (left, top), (right, chin) = outline.min(axis=0), outline.max(axis=0)
    width, height = right - left, chin - top
    middle = axes @ (left + width / 2, top + (0.1 + 0.95 * 74 / 96) * height)
    np.testing.assert_allclose((columns.mean(), rows.mean()), middle, atol=1.5)
    assert len(rows) == pytest.approx(width * 16 / 96 * 0.95 * height * 8 / 96, rel=0.15)


def test_nothing_is_painted_above_the_middle_of_the_face_or_beside_the_person() -> None:
    noise = np.random.default_rng(0).random((96, 96, 3), np.float32)
    renderer = PhotographRenderer(photographed())
    before = picture_of(renderer, FacePose()).astype(int)
    renderer.paint(crop().window, crop().paste(noise))
    changed = np.abs(picture_of(renderer, FacePose()) - before).max(axis=2) > 2
    nose = int(astronaut().mesh.source[1, 1])
    assert not changed[: nose - 8].any() and changed[nose + 30 :].any()
    assert not changed[astronaut().matte < 128].any()


def test_at_rest_the_picture_is_the_photograph_with_its_open_smile() -> None:
    picture = picture_of(PhotographRenderer(photographed()), FacePose()).astype(int)
    difference = np.abs(picture - astronaut().portrait)
    assert difference.mean() < 0.5 and np.percentile(difference, 99) <= 6


def test_the_lips_are_left_to_the_network() -> None:
    renderer = PhotographRenderer(photographed())
    speaking = FacePose(jaw_open=0.5, pucker=0.4, lips_closed=0.2, smile=0.3)
    assert (picture_of(renderer, speaking) == picture_of(renderer, FacePose())).all()
    assert (picture_of(renderer, SWAY) != picture_of(renderer, FacePose())).any()


# When it runs


class Known:
    """A sound whose windows say which frame they are of, up to `until`."""

    def __init__(self, until: int) -> None:
        self.until = until

    @property
    def known_s(self) -> float:
        return (self.until - 1) / 25

    def window(self, index: int) -> NDArray[np.float32] | None:
        return np.full((80, 16), float(index), np.float32) if index < self.until else None


def spoken(index: int, sound: SoundTrack, pose: FacePose = SWAY) -> Frame:
    return Frame(1, index, False, False, index == 0, pose, sound)


def idle(pose: FacePose = SWAY) -> Frame:
    return Frame(0, 0, True, False, False, pose)


def by_number(mel: Arrays, face: Arrays) -> Arrays:
    """A mouth as bright as the number of its frame; silence is black."""
    number = np.where(mel[:, 0, 0, 0] == SILENCE, 0.0, mel[:, 0, 0, 0])
    return np.broadcast_to((number / 100)[:, None, None, None], (len(mel), 3, 96, 96))


@contextlib.asynccontextmanager
async def mouths_of(network: FakeWav2Lip, largest: int = 4) -> AsyncIterator[Mouths]:
    """Of one session, with a black mouth at rest."""
    network.load()
    lane = EngineLane("test")
    curve = KnownCurve(0.010, 0.011, 0.012, 0.013)
    runs = lane.shared(MouthNetwork(network).draw, largest=largest, curve=curve)
    face = np.zeros((6, 96, 96), np.float32)
    mouths = Mouths(runs, face, np.zeros((96, 96, 3), np.float32))
    yield mouths
    mouths.cancel_ahead()
    lane.close()


async def brightness(mouths: Mouths, frame: Frame) -> float:
    return float((await mouths.of(frame)).mean())


async def test_a_network_that_passes_the_face_through_gives_the_photograph(tmp_path: Path) -> None:
    """At every angle, idle and speaking, to the last bit."""
    untouched = PhotographRenderer(PhotographedAvatar.of(load_avatar(DEFAULT_FOLDER)))
    sound = Known(100)
    async with loaded(FakeWav2Lip(pass_through), tmp_path) as engine:
        painter = engine.painter("")
        for frame in (idle(), spoken(0, sound), spoken(1, sound, FacePose()), idle(FacePose())):
            draw = await painter.prepare(frame)
            drawn = draw()[..., :3].copy()
            assert (drawn == picture_of(untouched, frame.pose)).all()
        painter.cancel_ahead()


async def test_mouths_are_drawn_ahead_in_batches_and_in_order() -> None:
    network = FakeWav2Lip(by_number)
    async with mouths_of(network) as mouths:
        sound = Known(30)
        seen = [await brightness(mouths, spoken(index, sound)) for index in range(30)]
    assert seen[2:] == pytest.approx([index / 100 for index in range(2, 30)], abs=1e-6)
    assert sum(network.batches) == 30, "each frame once"
    # How many go into one run depends on how late they are by then.
    assert 1 < max(network.batches) <= 4


async def test_sessions_share_runs(tmp_path: Path) -> None:
    began, go = threading.Event(), threading.Event()

    def draw(mel: Arrays, face: Arrays) -> Arrays:
        if len(network.batches) == 2:
            began.set()
            assert go.wait(10)
        return by_number(mel, face)

    network = FakeWav2Lip(draw)
    async with loaded(network, tmp_path) as engine:
        painters = [engine.painter("") for _ in range(3)]
        for painter in painters:
            await painter.prepare(idle())
        assert len(network.batches) == 1, "the mouth at rest is drawn once for an avatar"
        sound = Known(1)
        first, *others = (painter.prepare(spoken(0, sound)) for painter in painters)
        busy = asyncio.create_task(first)
        assert await asyncio.to_thread(began.wait, 10)
        sharing = [asyncio.create_task(prepared) for prepared in others]
        await asyncio.sleep(0)
        go.set()
        await asyncio.gather(busy, *sharing)
        for painter in painters:
            painter.cancel_ahead()
    assert network.batches == [1, 1, 2]


async def test_where_batches_are_formed_elsewhere_all_frames_are_under_way_at_once(
    tmp_path: Path,
) -> None:
    together = threading.Barrier(AHEAD_FRAMES)

    def draw(mel: Arrays, face: Arrays) -> Arrays:
        if not (mel == SILENCE).all():
            together.wait(timeout=10)
        return by_number(mel, face)

    network = FakeWav2Lip(draw)
    network.at_once = AHEAD_FRAMES
    async with loaded(network, tmp_path) as engine:
        painter = engine.painter("")
        await painter.prepare(spoken(0, Known(AHEAD_FRAMES)))
        painter.cancel_ahead()
    assert network.batches == [1] * (1 + AHEAD_FRAMES), "the mouth at rest, and each frame alone"


async def test_frames_that_came_too_late_are_not_drawn() -> None:
    allowed = threading.Semaphore(1)

    def draw(mel: Arrays, face: Arrays) -> Arrays:
        assert allowed.acquire(timeout=10)
        return by_number(mel, face)

    network = FakeWav2Lip(draw)
    async with mouths_of(network, largest=1) as mouths:
        sound = Known(200)
        await brightness(mouths, spoken(0, sound))
        # As many runs as are needed and no more, so that none can begin before they are counted;
        # the next frame's may have begun.
        seen = []
        for index, runs in ((100, 2), (101, 1), (102, 1)):
            mouth = asyncio.create_task(brightness(mouths, spoken(index, sound)))
            await asyncio.sleep(0)  # it is asked for, and what came before is not any more
            allowed.release(runs)
            seen.append(await mouth)
        assert seen[1:] == pytest.approx([1.01, 1.02], abs=1e-6)
        drawn = sum(network.batches)
        allowed.release(10)
    assert drawn <= 6, "the rest of the first eight was never drawn"


async def test_the_mouth_eases_from_one_turn_to_the_next() -> None:
    async with mouths_of(FakeWav2Lip(by_number)) as mouths:
        sound = Known(99)
        for index in range(77, 81):
            await mouths.of(spoken(index, sound))
        seen = [await brightness(mouths, idle()) for _ in range(4)]
    assert seen == sorted(seen, reverse=True)
    assert 0.8 > seen[0] > seen[1] > 0 == seen[2] == seen[3]


async def test_a_network_that_fails_leaves_the_mouth_where_it_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broken = False

    def draw(mel: Arrays, face: Arrays) -> Arrays:
        if broken:
            raise EngineError("out of memory")
        return by_number(mel, face)

    async with mouths_of(FakeWav2Lip(draw)) as mouths:
        for index in range(3):
            before = await brightness(mouths, spoken(index, Known(3)))
        broken = True
        sound = Known(60)
        for index in range(20, 24):
            assert await brightness(mouths, spoken(index, sound)) == before
        broken = False
        for index in range(50, 54):
            after = await brightness(mouths, spoken(index, sound))
        assert after == pytest.approx(0.53, abs=1e-6)
    assert caplog.text.count("out of memory") == 1


async def test_another_network_is_refused(tmp_path: Path) -> None:
    class Wrong(FakeWav2Lip):
        gives: ClassVar = {}

    with pytest.raises(EngineLoadError, match="not the generator of Wav2Lip"):
        async with loaded(Wrong(), tmp_path):
            pass
