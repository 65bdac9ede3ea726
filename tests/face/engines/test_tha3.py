"""Drawn characters: their poses, their pictures, and the service that shows them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from services.face.avatar.consent import Consent
from services.face.avatar.making.decoding import Decoder, Reading
from services.face.draw.animator import Animator
from services.face.draw.pose import FacePose, Frame
from services.face.engines.tha3.characters import Character, CharacterStore, read_character
from services.face.engines.tha3.engine import Tha3Engine
from services.face.engines.tha3.network import NAMES, CharacterNetworks, character_pose
from services.face.lips.visemes import LIP_COEFFICIENTS
from tests.face.draw.drawn import FakeDecomposer, FakePoser, character, png
from tests.face.draw.test_animator import mel_chunks
from tests.face.portraits import portrait
from tests.face.serving import STATED, animate_config, answers, drawn_by, mel_request
from tests.face.test_servicer_studio import WORD, decoded
from visavis.serving.errors import EngineError, EngineLoadError, InvalidInputError
from visavis.v1 import face_pb2
from visavis.wire.bucket import digest_of


def posed(**coefficients: float) -> dict[str, float]:
    """What is not 0 of the 45."""
    vector = character_pose(FacePose(**coefficients))
    assert vector.shape == (45,) and vector.dtype == np.float32
    return {name: float(v) for name, v in zip(NAMES, vector, strict=True) if v != 0}


# Poses


def test_rest_is_the_picture_as_it_was_drawn() -> None:
    assert posed() == {}


def test_head_and_eyes_turn_the_way_that_the_networks_count() -> None:
    turned = posed(yaw=0.131, pitch=0.131, roll=0.131, gaze_x=0.5, gaze_y=-0.25)
    assert turned["head_y"] == pytest.approx(-0.5, abs=0.01)
    assert turned["head_x"] == pytest.approx(-0.5, abs=0.01)
    assert turned["neck_z"] == pytest.approx(-0.5, abs=0.01)
    assert (turned["iris_rotation_y"], turned["iris_rotation_x"]) == (-0.5, 0.25)
    assert turned["body_y"] < 0 and posed(yaw=9.0)["head_y"] == -1


def test_each_eye_winks_alone() -> None:
    assert posed(blink_left=0.8) == {"eye_wink_left": pytest.approx(0.8)}
    assert posed(blink_right=0.8) == {"eye_wink_right": pytest.approx(0.8)}


@pytest.mark.parametrize(
    ("lips", "vowel"),
    [
        ({"jaw_open": 0.5, "mouth_wide": 0.14}, "mouth_aaa"),
        ({"jaw_open": 0.32, "mouth_wide": 0.9}, "mouth_eee"),
        ({"jaw_open": 0.1, "mouth_wide": 0.58}, "mouth_iii"),
        ({"jaw_open": 0.38, "pucker": 0.58}, "mouth_ooo"),
        ({"jaw_open": 0.16, "pucker": 0.88}, "mouth_uuu"),
    ],
)
def test_a_mouth_shape_is_mostly_one_vowel(lips: dict[str, float], vowel: str) -> None:
    shares = {name: share for name, share in posed(**lips).items() if name.startswith("mouth_")}
    assert max(shares, key=lambda name: shares[name]) == vowel
    assert sum(shares.values()) < 1.001


def test_closed_lips_are_closed_whatever_the_jaw_does() -> None:
    assert posed(jaw_open=0.4, mouth_wide=0.3, lips_closed=1.0) == {}


# Pictures


def bgra(rgba: Any) -> Any:
    """As a picture is decoded."""
    return rgba[..., [2, 1, 0, 3]]


def test_a_character_of_any_size_is_brought_to_the_one_that_is_needed() -> None:
    small = read_character(bgra(character(300)))
    assert small.shape == (512, 512, 4)
    assert np.abs(small[:300].astype(int) - character()[:300]).mean() < 3
    assert (read_character(bgra(character())) == character()).all()


async def test_a_character_of_sixteen_bits_is_read_as_one_of_eight() -> None:
    painted: Any = character().astype(np.uint16) * 257
    pixels = await Decoder(5.0).decode(png(painted), Reading.AS_IS)
    assert (read_character(pixels) == character()).all()


def test_colours_that_nobody_sees_do_not_bleed_in() -> None:
    rgba = character()
    hidden = rgba[..., 3] == 0
    rgba[hidden, :3] = 200
    image = Character("x", "", False, read_character(bgra(rgba))).image()
    assert (image[:, hidden] == -1).all()
    assert image[3, ~hidden].min() == 1 and image[0, 128, 256] > 0.5


@pytest.mark.parametrize(
    ("pixels", "said"),
    [
        (character()[:400], "512 x 400 pixels: it must be square"),
        (character(200), "200 x 200 pixels"),
        (character()[..., :3], "no transparency"),
        (np.full((512, 512, 4), 255, np.uint8), "nothing of the picture is transparent"),
        (np.roll(character(), 256, axis=1), "no head where it must be"),
    ],
)
def test_pictures_that_will_not_do_are_refused_with_the_reason(pixels: Any, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        read_character(pixels)


# The engine


def engine(folder: Path, poser: FakePoser, decomposer: FakeDecomposer | None = None) -> Tha3Engine:
    own = folder / "own.png"
    own.write_bytes(png(character()))
    store = CharacterStore(folder / "characters", own, "CC0")
    networks = CharacterNetworks(decomposer or FakeDecomposer(), poser)
    return Tha3Engine(store, "", "fake-tha3", networks)


@contextlib.asynccontextmanager
async def loaded(made: Tha3Engine) -> AsyncIterator[Tha3Engine]:
    await made.load()
    try:
        yield made
    finally:
        await made.close()


def frame(**pose: float) -> Frame:
    return Frame(0, 0, True, False, False, FacePose(**pose))


async def test_networks_that_change_nothing_show_the_character(tmp_path: Path) -> None:
    decomposer = FakeDecomposer()
    async with loaded(engine(tmp_path, FakePoser(), decomposer)) as made:
        painter = made.painter("")
        picture = (await painter.prepare(frame()))()
        await painter.prepare(frame(yaw=0.1))
        painter.cancel_ahead()
    assert decomposer.runs == 1, "a character is parted once"
    assert picture.shape == (512, 512, 3) and picture.dtype == np.uint8
    # The head's middle, an eye, and the backdrop, where 288 pixels are shown as 512.
    for (x, y), colour in (
        ((256, 160), (250, 214, 190)),
        ((230, 120), (40, 40, 60)),
        ((380, 40), (226, 229, 234)),
    ):
        seen = picture[round((y - 24) * 512 / 288), round((x - 112) * 512 / 288)]
        np.testing.assert_allclose(seen.astype(int), colour, atol=2)


async def test_a_network_that_fails_leaves_the_character_standing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broken = True

    def draw(image: Any, pose: Any) -> Any:
        if broken:
            raise EngineError("out of memory")
        return -np.ones_like(image)

    async with loaded(engine(tmp_path, FakePoser(draw))) as made:
        painter = made.painter("default")
        standing = (await painter.prepare(frame()))()
        assert (standing == (await painter.prepare(frame()))()).all()
        broken = False
        gone = (await painter.prepare(frame()))()
        broken = True
        assert (gone == (await painter.prepare(frame()))()).all()
        painter.cancel_ahead()
    assert standing.std() > 20 and gone.std(axis=(0, 1)).max() == 0
    assert caplog.text.count("out of memory") == 2


async def test_other_networks_are_refused(tmp_path: Path) -> None:
    made = engine(tmp_path, FakePoser(), decomposer=FakePoser())  # type: ignore[arg-type]
    with pytest.raises(EngineLoadError, match="not of THA3"):
        async with loaded(made):
            pass


async def test_animate_poses_the_character_from_the_phonemes(tmp_path: Path) -> None:
    def paint_open_mouths(image: Any, pose: Any) -> Any:
        picture = image.copy()
        open_ = pose[:, NAMES.index("mouth_aaa")] > 0.3
        picture[open_, :3, 150:180, 240:272] = -1.0
        return picture

    chunks = [mel_request(chunk) for chunk in mel_chunks(WORD)]
    async with drawn_by(engine(tmp_path, FakePoser(paint_open_mouths))) as stub:
        call = stub.Animate(iter([animate_config(seed=1), *chunks]))
        pictures = decoded("h264", [answer.video.data for answer in await answers(call)])
    rows, columns = slice(230, 270), slice(235, 275)
    mouth = [picture[rows, columns].mean() for picture in pictures]
    assert len(mouth) == 20 and mouth[10] < mouth[2] - 80


async def test_characters_are_made_listed_and_deleted(tmp_path: Path) -> None:
    async with drawn_by(engine(tmp_path, FakePoser())) as stub:

        async def names() -> list[str]:
            listed = await stub.ListAvatars(face_pb2.ListAvatarsRequest())
            return [avatar.name for avatar in listed.avatars]

        with pytest.raises(grpc.aio.AioRpcError) as caught:
            photo = png(portrait())
            await stub.CreateAvatar(face_pb2.CreateAvatarRequest(name="me", image=photo))
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "drawn" in str(caught.value.details()) or "standing" in str(caught.value.details())
        drawing = face_pb2.CreateAvatarRequest(name="me", image=png(character()))
        drawing.consent.CopyFrom(STATED)
        made = await stub.CreateAvatar(drawing)
        assert made.consent.likeness == STATED.likeness
        assert (made.width, made.builtin, made.licence) == (512, False, "as uploaded")
        assert await names() == ["default", "me"]
        drawing.ClearField("consent")
        for name in ("default", "me"):
            asked = face_pb2.GetAvatarPortraitRequest(name=name)
            assert (await stub.GetAvatarPortrait(asked)).jpeg.startswith(b"\xff\xd8")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.CreateAvatar(drawing)
        assert caught.value.code() is grpc.StatusCode.ALREADY_EXISTS
        await stub.DeleteAvatar(face_pb2.DeleteAvatarRequest(name="me"))
        assert await names() == ["default"]
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.DeleteAvatar(face_pb2.DeleteAvatarRequest(name="default"))
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_what_was_stated_of_a_character_is_not_said_of_another_that_took_its_place(
    tmp_path: Path,
) -> None:
    """As on a replica that was away while the one was deleted and the other one made."""
    stated = Consent("Ann Lee", "to greet visitors", "Bo", "a test", "2026-11-28")
    drawn = Character("me", "as uploaded", False, character(), stated)
    stores = [CharacterStore(tmp_path / at, tmp_path / "own.png", "CC0") for at in "abc"]
    away, *others = stores
    for store, each in zip(others, (drawn, replace(drawn, consent=None)), strict=True):
        store.keep(each, b"a portrait")
        packed = store.pack("me")
        away.take("me", packed, digest_of(packed))
    assert [info.consent for info in away.infos()] == [None, None]
    assert away.pack("me") == packed


# Slow engines


class _Known:
    """Lips that are known for six seconds."""

    known_s, end_s, sound = 6.0, 6.0, None

    def at(self, time_s: float) -> np.ndarray[Any, np.dtype[np.float32]]:
        return np.zeros(len(LIP_COEFFICIENTS), np.float32)

    def stresses(self, until_s: float) -> list[tuple[float, float]]:
        return []


@pytest.mark.parametrize("draw_s", [0.003, 1.5])
def test_pictures_of_a_slow_engine_are_fewer_and_still_in_time(draw_s: float) -> None:
    """Each is drawn when its voice is heard, but for the first and the last, and as far as the
    credit of 0.8 s goes. The voice begins after 150 ms.
    """
    animator = Animator(seed=1, lead_s=0.8)
    animator.advance(1, 0.0)
    assert (idle := animator.next_frame(0.0)) is not None and idle.live
    animator.speak_turn(1, _Known(), 0.0)
    for _ in range(4):
        animator.took(draw_s)
    now_s, drawn, late_s = 0.0, [], []
    while not drawn or not drawn[-1].last:
        made = animator.next_spoken(now_s)
        now_s += draw_s if made is not None else 0.02
        if made is not None:
            animator.took(draw_s)
            drawn.append(made)
            late_s.append(now_s - 0.15 - made.index / 25)
        if now_s > 0.15:
            animator.played(1, min(now_s - 0.15, 6.0), now_s)
    assert [made.restart for made in drawn] == [True] + [False] * (len(drawn) - 1)
    assert max(late_s[1:-1]) < max(0.05, draw_s - 0.7)
    indices = [made.index for made in drawn]
    if draw_s < 0.04:
        assert indices == list(range(150))
    else:
        assert indices[0] == 9, "the credit before the clock speaks is 0.4 s"
        assert 6.0 / draw_s - 1 <= len(indices) <= 6.0 / draw_s + 2
