"""Heads: what is drawn of a bundle, what is refused, and how they live beside photographs."""

from __future__ import annotations

import importlib.util
import os
import shutil
import struct
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cv2
import grpc
import numba
import numpy as np
import pytest
from numpy.typing import NDArray

from services.face.draw import compiling
from services.face.draw.blendshapes import ARKIT_NAMES
from services.face.draw.compiling import is_kept
from services.face.draw.pose import FacePose
from services.face.engines.head.bundle import FILES, read_bundle, unpack_bundle
from services.face.engines.head.engine import HeadEngine
from services.face.engines.head.framing import portrayed
from services.face.engines.head.gltf.parts import Part
from services.face.engines.head.likeness import likened
from services.face.engines.head.model import Model, freedom, model_of
from services.face.engines.head.raster.picture import draw_head
from services.face.engines.head.renderer import HeadRenderer, thread_work
from services.face.engines.head.store import BUILTIN_FOLDER, HeadStore
from services.face.engines.head.visible import seen_alone, with_fewer_ribbons
from tests.face.engines import made_head
from tests.face.engines.made_gltf import Gltf
from tests.face.engines.made_head import bundle_files, made_glb, zipped
from tests.face.test_servicer_studio import Stub, serving
from visavis.serving.errors import InvalidInputError
from visavis.v1 import face_pb2, media_pb2

SIZE = 256
RGB = NDArray[np.uint8]


@cache
def renderer(size: int = SIZE) -> HeadRenderer:
    return HeadRenderer(model_of(read_bundle(bundle_files()), size))


def shipped(name: str, size: int) -> Model:
    """As it is served: to find what of its hair is seen takes a while."""
    return HeadStore(BUILTIN_FOLDER, size=size, builtin=BUILTIN_FOLDER).load(name).model


def picture(pose: FacePose, size: int = SIZE) -> RGB:
    return renderer(size).draw(pose)[..., :3].copy()


def near(colour: tuple[int, int, int], drawn: RGB, within: int = 40) -> NDArray[np.bool_]:
    return np.asarray(np.abs(drawn.astype(int) - colour).max(axis=-1) < within)


def middle(mask: NDArray[np.bool_]) -> tuple[float, float]:
    y, x = np.nonzero(mask)
    return float(x.mean()), float(y.mean())


def test_behind_the_head_the_background_stays_as_it_is() -> None:
    drawn = picture(FacePose(yaw=0.2, jaw_open=0.5))
    behind = made_head.background(SIZE)
    changed = (drawn != behind).any(axis=-1)
    assert 0.1 < changed.mean() < 0.6
    _, x = np.nonzero(changed[: SIZE * 3 // 4])
    assert x.min() > SIZE // 5 and x.max() < SIZE * 4 // 5, "nothing is drawn beside the head"


@pytest.fixture
def keeping(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], None]]:
    """Has what is compiled from now on kept in a folder."""

    def keep(folder: Path) -> None:
        monkeypatch.setattr(numba.config, "CACHE_DIR", str(folder))
        compiling._root.cache_clear()

    yield keep
    compiling._root.cache_clear()


def compiled_sum(checkout: Path, offset: int, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A compiled function of a checkout: its argument and `offset`, which another module has."""
    checkout.mkdir()
    (built_in := checkout / "built_in.py").write_text(f"OFFSET = {offset}\n")
    (source := checkout / "sums.py").write_text(
        "import built_in\n"
        "from services.face.draw.compiling import compiled, source_digest\n"
        "def made(digest):\n"
        "    @compiled\n"
        "    def plus(x):\n"
        "        assert digest\n"
        "        return x + built_in.OFFSET\n"
        "    return plus\n"
        "plus = made(source_digest(built_in))\n"
    )
    for file in (built_in, source):
        spec = importlib.util.spec_from_file_location(file.stem, file)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, file.stem, module)
        spec.loader.exec_module(module)
    return module.plus


def test_compiled_code_is_found_by_whoever_has_the_same_source_and_by_nobody_else(
    tmp_path: Path, keeping: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    keeping(tmp_path / "kept")
    first = compiled_sum(tmp_path / "first", 2, monkeypatch)
    assert not is_kept(first)
    assert first(1) == 3 and is_kept(first)
    same = compiled_sum(tmp_path / "same", 2, monkeypatch)
    assert is_kept(same)
    assert same(1) == 3 and same.stats.cache_hits and not same.stats.cache_misses
    changed = compiled_sum(tmp_path / "changed", 5, monkeypatch)
    assert not is_kept(changed)
    assert changed(1) == 6


def test_compiled_code_that_nobody_uses_any_more_goes(
    tmp_path: Path, keeping: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    keeping(tmp_path / "kept")
    folders = []
    for offset in (2, 3, 4):
        plus = compiled_sum(tmp_path / str(offset), offset, monkeypatch)
        plus(1)
        folders.append(Path(plus.stats.cache_path))
        os.utime(folders[-1], (0, 0))
        compiled_sum(tmp_path / f"again {offset}", 2, monkeypatch)  # the first is used
    assert [folder.is_dir() for folder in folders] == [True, False, True]


def test_where_nothing_can_be_kept_it_is_compiled_all_the_same(
    tmp_path: Path,
    keeping: Callable[[Path], None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (tmp_path / "file").touch()
    keeping(tmp_path / "file" / "kept")
    assert compiled_sum(tmp_path / "checkout", 2, monkeypatch)(1) == 3
    assert "compiled at each start" in caplog.text


async def test_what_draws_is_compiled_before_anybody_can_wear_a_head(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture(FacePose())
    assert is_kept(draw_head)
    rehearsed: list[bool] = []
    module = "services.face.engines.head.engine"
    monkeypatch.setattr(f"{module}.rehearse", lambda: rehearsed.append(True))
    engine = HeadEngine(HeadStore(tmp_path, size=SIZE), 1.0)
    await engine.load()
    assert not rehearsed, "what is on disk is read when it is needed"
    nothing = SimpleNamespace(py_func=draw_head.py_func, stats=SimpleNamespace(cache_path=tmp_path))
    monkeypatch.setattr(f"{module}.draw_head", nothing)
    await engine.load()
    assert rehearsed == [True]


def test_nothing_is_left_of_the_picture_before() -> None:
    """Nor of another head of as many triangles before another wall."""
    model = model_of(read_bundle(bundle_files()), SIZE)
    other = np.asarray(model.background // 2, np.uint32)
    heads = [HeadRenderer(model), HeadRenderer(model._replace(background=other))]
    poses = [
        FacePose(yaw=0.6, shift_x=0.1, jaw_open=1.0),
        FacePose(yaw=-0.6, pitch=0.4, shift_y=-0.1),
        FacePose(roll=0.5, shift_x=-0.1, shift_y=0.1),
        FacePose(),
    ]
    for pose in poses:
        for head in heads:
            with ThreadPoolExecutor(1) as fresh:
                alone = fresh.submit(head.draw, pose).result()
            assert (head.draw(pose) == alone).all()


def test_a_head_that_turns_shows_how_deep_it_is() -> None:
    """Eyes, which are in front of the neck, go further than the hair above it; both to the side
    that the pose says, and clothes stay.
    """
    at_rest, turned = picture(FacePose()), picture(FacePose(yaw=0.3))
    eyes, hair = made_head.BALL, made_head.HAIR
    eye_shift = middle(near(eyes, turned))[0] - middle(near(eyes, at_rest))[0]
    hair_shift = middle(near(hair, turned))[0] - middle(near(hair, at_rest))[0]
    assert eye_shift > 8 and hair_shift < 0.6 * eye_shift
    left = picture(FacePose(yaw=-0.3))
    assert middle(near(eyes, left))[0] < middle(near(eyes, at_rest))[0] - 8
    below = slice(SIZE * 15 // 16, None)
    assert (turned[below] == at_rest[below]).all(), "clothes do not turn"


def test_nods_go_down_and_breath_lifts_the_shoulders() -> None:
    at_rest, nodding = picture(FacePose()), picture(FacePose(pitch=0.2))
    assert middle(near(made_head.BALL, nodding))[1] > middle(near(made_head.BALL, at_rest))[1] + 3
    breathing = picture(FacePose(breath=1.0), 512)
    cloth = (
        near(made_head.CLOTH, breathing).sum()
        - near(made_head.CLOTH, picture(FacePose(), 512)).sum()
    )
    assert cloth > 512, "shoulders rise by more than a line"


def test_a_blink_closes_the_eye_that_blinks() -> None:
    at_rest, shut = picture(FacePose()), picture(FacePose(blink_left=1.0))
    white = near(made_head.BALL, at_rest)
    assert white[:, : SIZE // 2].sum() > 30 and white[:, SIZE // 2 :].sum() > 30
    still = near(made_head.BALL, shut)
    # The picture's right is the person's left.
    assert not still[:, SIZE // 2 :].any()
    assert still[:, : SIZE // 2].sum() == white[:, : SIZE // 2].sum()


def test_outlines_are_smooth() -> None:
    """Drawn four times as large and made small again, edges are as they were drawn."""
    fine = cv2.resize(picture(FacePose(), 1024), (SIZE, SIZE), interpolation=cv2.INTER_AREA)
    difference = np.abs(picture(FacePose()).astype(int) - fine.astype(int)).max(axis=-1)
    assert (difference > 60).mean() < 0.002


def test_it_looks_the_same_whichever_way_its_textures_lie() -> None:
    bundle = read_bundle(bundle_files())
    corners = np.array([[(200, 40, 40), (40, 200, 40)], [(40, 40, 200), (200, 200, 40)]], np.uint8)
    colours = cv2.resize(corners, (64, 32), interpolation=cv2.INTER_LINEAR)
    painted = np.dstack([colours, np.full((32, 64), 255, np.uint8)])
    parts = [
        part if part.blends else replace(part, texture=painted, places=_unfolded(part))
        for part in bundle.parts
    ]
    turned = [
        replace(part, texture=part.texture.swapaxes(0, 1).copy(), places=part.places[:, ::-1])
        for part in parts
    ]
    one, other = (
        HeadRenderer(model_of(replace(bundle, parts=them), SIZE)).draw(FacePose(yaw=0.2)).copy()
        for them in (parts, turned)
    )
    assert (one == other).all()


def _unfolded(part: Part) -> NDArray[np.float32]:
    """Places in a texture by where on the part they are, seen from the front."""
    flat = part.positions[:, :2] - part.positions[:, :2].min(axis=0)
    return np.asarray(flat / flat.max() * 0.9, np.float32)


def test_its_light_is_that_of_its_portrait() -> None:
    model = model_of(read_bundle(bundle_files()), SIZE)
    drawn = HeadRenderer(model).draw(FacePose())[..., :3].copy()
    portrait = np.rint(drawn * (0.85, 0.7, 0.75)).astype(np.uint8)
    alike = HeadRenderer(likened(model, portrait)).draw(FacePose())[..., :3]
    skin = near(made_head.SKIN, drawn, 60) & (drawn != made_head.background(SIZE)).any(axis=-1)
    assert np.abs(alike[skin].astype(int) - portrait[skin]).mean() < 6
    assert np.abs(drawn[skin].astype(int) - portrait[skin]).mean() > 25


def test_skin_beneath_clothes_stays_there() -> None:
    parts = read_bundle(bundle_files()).parts
    clothes = [part for part in parts if "clothes" in part.names]
    at = clothes[0].positions[0]
    skin = at + np.array([(0, 0, 0), (0, 0, 0.01), (0, 0, 0.1)], np.float32)
    assert freedom(skin, clothes, 1.0).tolist() == [0.0, 0.0, 1.0]
    assert freedom(skin, [], 1.0).tolist() == [1.0, 1.0, 1.0]


def test_what_is_never_seen_is_left_out_and_nothing_else() -> None:
    whole = model_of(read_bundle(bundle_files()), SIZE)
    less = seen_alone(whole)
    assert len(less.triangles) < 0.8 * len(whole.triangles) and len(less.rest) < len(whole.rest)
    for pose in (
        FacePose(yaw=0.15, pitch=-0.1, blink_left=1.0),
        FacePose(yaw=-0.45, jaw_open=0.3, breath=1.0),
        FacePose(pitch=0.25, roll=0.2, gaze_x=0.5),
    ):
        wanted = HeadRenderer(whole).draw(pose)[..., :3].copy()
        differs = (HeadRenderer(less).draw(pose)[..., :3] != wanted).any(axis=-1)
        assert differs.mean() < 0.001


def test_small_pictures_have_fewer_ribbons_of_hair_that_cover_as_much() -> None:
    bundle = read_bundle({f: (BUILTIN_FOLDER / "ada" / f).read_bytes() for f in FILES})
    whole, fewer = (model_of(b, 512) for b in (bundle, with_fewer_ribbons(bundle, 512)))
    less, hair = shipped("ada", 512), whole.part_of.max()
    ribbons = [(model.part_of == hair).sum() for model in (less, fewer, whole)]
    assert ribbons[0] <= ribbons[1] < 0.8 * ribbons[2]
    for pose in (FacePose(), FacePose(yaw=0.35), FacePose(yaw=-0.35, pitch=0.15)):
        covered = []
        for model in (whole, less):
            HeadRenderer(model).draw(pose)
            covered.append(float((thread_work(model).clear >> 24).sum()))
        assert covered[1] == pytest.approx(covered[0], rel=0.04)


@pytest.mark.parametrize("name", ["ada", "ben", "cleo", "dai"])
def test_a_head_that_ships_shows_tongue_where_sounds_have_it(name: str) -> None:
    model = shipped(name, SIZE)
    drawer = HeadRenderer(model)
    within = model.inside[model.triangles[:, 0]]
    inside = np.unique(model.part_of[within]).tolist()
    tongue = min(inside, key=lambda part: (model.part_of == part).sum())
    teeth = max(inside, key=lambda part: (model.part_of == part).sum())

    def seen(pose: FacePose, part: int) -> int:
        drawer.draw(pose)
        shown = thread_work(model).triangles()
        return int((model.part_of[shown[shown >= 0]] == part).sum())

    between = FacePose(jaw_open=0.15, mouth_wide=0.12, tongue_up=1.0, tongue_out=1.0)
    behind = FacePose(jaw_open=0.08, mouth_wide=0.15, tongue_up=0.9)
    bitten = FacePose(jaw_open=0.07, lower_lip_under_teeth=1.0)
    assert seen(between, tongue) > 50
    assert seen(behind, tongue) > 15
    assert seen(bitten, teeth) > 45 > 10 > seen(bitten, tongue)


def _glb_without(what: bytes, by: bytes) -> bytes:
    whole = made_glb()
    assert len(what) == len(by) and what in whole
    return whole.replace(what, by)


def _framed(what: bytes, by: bytes) -> bytes:
    whole = bundle_files()["head.toml"]
    assert what in whole
    return whole.replace(what, by, 1)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"head.toml": b"name = "}, "head.toml is no TOML"),
        ({"head.toml": b'name = "x"'}, "licence: nothing says"),
        ({"head.toml": b'licence = "CC0-1.0"'}, "position: must be three numbers"),
        ({"head.glb": b"glTF"}, "not a binary glTF 2.0"),
        ({"head.glb": made_glb()[:-4000]}, "cut off|damaged|no picture"),
        ({"head.glb": made_glb()[:900]}, "cut off"),
        ({"head.glb": made_glb(names=ARKIT_NAMES[:5])}, "5 of the 52 ARKit shapes"),
        ({"head.glb": _glb_without(b"jawOpen", b"jawFell")}, "51 of the 52 .* and no jawOpen"),
        ({"head.glb": made_glb(eyes="marbles")}, "no eyes"),
        ({"head.glb": made_glb(layers=2000)}, "35. times over .* 200 times are allowed: take"),
        ({"head.glb": _glb_without(b'"indices": 1', b'"indices": 7')}, "damaged"),
        ({"head.toml": _framed(b"1.5", b"900.0")}, "does not see the face"),
        ({"head.toml": _framed(b"0.0, 0.0, 0.0", b"0.0, 0.0, 3.0")}, "does not see the face"),
        ({"head.toml": _framed(b"0.0, 0.0, 0.0", b"0.0, 0.9, 0.0")}, "does not see the face"),
        ({"portrait.png": b"no picture"}, "portrait.png must be a square picture"),
    ],
)
def test_a_bundle_that_will_not_do_is_refused_with_the_reason(
    changes: dict[str, bytes], said: str
) -> None:
    with pytest.raises(InvalidInputError, match=said):
        model_of(read_bundle(bundle_files(changes)), SIZE)


def test_a_zip_may_hold_a_folder_and_must_hold_all_files() -> None:
    files = bundle_files()
    assert unpack_bundle(zipped(files, "ada/")) == files
    with pytest.raises(InvalidInputError, match="cannot be read"):
        unpack_bundle(b"PK\x03\x04" + bytes(100))
    with pytest.raises(InvalidInputError, match=r"lacks head\.glb, portrait\.png"):
        lacking = {name: files[name] for name in ("head.toml", "background.png")}
        read_bundle(unpack_bundle(zipped(lacking)))


def test_a_head_alone_is_given_a_camera_a_wall_light_and_the_portrait_that_they_show() -> None:
    files = bundle_files()
    assert portrayed(files) == files, "a whole one stays as it is"
    bundle = read_bundle(portrayed({"head.toml": b'licence = "CC0-1.0"', "head.glb": made_glb()}))
    assert not bundle.about.light.baked
    model = model_of(bundle, SIZE)
    drawn = HeadRenderer(likened(model, bundle.portrait)).draw(FacePose())[..., :3].copy()
    shown = cv2.resize(bundle.portrait, (SIZE, SIZE), interpolation=cv2.INTER_AREA)
    assert np.abs(drawn.astype(int) - shown).mean() < 3
    at, visible = thread_work(model).screen[model.eyes[:, 4].astype(int)], drawn[60:200, 60:200]
    apart = SIZE / 7
    assert np.abs(at[:, 0] - (SIZE / 2 - apart / 2, SIZE / 2 + apart / 2)).max() < 3
    assert np.abs(at[:, 1] - (SIZE / 2 - apart / 2)).max() < 3
    assert visible.max() < 255, "no light burns out what is less than white"


async def test_heads_and_photographs_live_side_by_side(tmp_path: Path) -> None:
    photograph = Path(__file__).parents[1] / "astronaut"
    shutil.copytree(photograph, tmp_path / "cleo")  # a visitor's, from before
    async with serving(tmp_path) as stub:
        gltf = Gltf()
        gltf.material()["extensions"] = {"KHR_materials_clearcoat": {}}
        packed = zipped(bundle_files({"head.glb": gltf.packed()}))
        made = await stub.CreateAvatar(face_pb2.CreateAvatarRequest(name="balls", image=packed))
        assert (made.name, made.licence, made.builtin) == ("balls", "CC0-1.0", False)
        assert made.engine == "head", "as the list has it"
        assert made.left_out == ["material 'head': KHR_materials_clearcoat is not drawn"]
        listed = {
            a.name: a for a in (await stub.ListAvatars(face_pb2.ListAvatarsRequest())).avatars
        }
        assert listed["balls"].engine == "head" and listed["default"].engine == "warp"
        assert listed["cleo"].engine == "warp" and not listed["cleo"].builtin
        shipped = listed["cleo-head"]
        assert shipped.engine == "head" and shipped.builtin and shipped.licence == "CC0-1.0"
        assert not listed["cleo"].head, "a visitor's photograph, whatever it is called"
        ask = face_pb2.GetAvatarHeadRequest
        for avatar, bundle in (("cleo-head", "cleo"), ("dai", "dai"), ("default", "ada")):
            drawn = await stub.GetAvatarHead(ask(name=avatar))
            assert drawn.content == (BUILTIN_FOLDER / bundle / "head.glb").read_bytes(), avatar
        asked = face_pb2.GetAvatarPortraitRequest(name="balls")
        assert (await stub.GetAvatarPortrait(asked)).jpeg.startswith(b"\xff\xd8")
        assert await _refused(stub, "balls", packed) is grpc.StatusCode.ALREADY_EXISTS
        assert await _refused(stub, "default", packed) is grpc.StatusCode.ALREADY_EXISTS
        alone = zipped({"head.toml": b'licence = "CC0-1.0"', "head.glb": made_glb()})
        await stub.CreateAvatar(face_pb2.CreateAvatarRequest(name="alone", image=alone))
        asked = face_pb2.GetAvatarPortraitRequest(name="alone")
        assert (await stub.GetAvatarPortrait(asked)).jpeg.startswith(b"\xff\xd8")
        bad = zipped(bundle_files({"head.glb": b"glTF" + struct.pack("<II", 2, 20)}))
        assert await _refused(stub, "other", bad) is grpc.StatusCode.INVALID_ARGUMENT
        loop = stub.RenderLoop(face_pb2.RenderLoopRequest(avatar="balls", codec=media_pb2.H264))
        first = await loop.read()
        assert first.loop.width == 512
        loop.cancel()
        await stub.DeleteAvatar(face_pb2.DeleteAvatarRequest(name="balls"))
        left = (await stub.ListAvatars(face_pb2.ListAvatarsRequest())).avatars
        assert "balls" not in {avatar.name for avatar in left}


async def _refused(stub: Stub, name: str, packed: bytes) -> grpc.StatusCode:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.CreateAvatar(face_pb2.CreateAvatarRequest(name=name, image=packed))
    return caught.value.code()
