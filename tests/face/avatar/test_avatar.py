"""Avatar folders: the shipped one, saving, loading, listing, making and deleting."""

from __future__ import annotations

import errno
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from services.face.avatar.avatar import FILES, load_avatar, read_portrait, save_avatar
from services.face.avatar.making.portrait import PortraitStudio
from services.face.avatar.packing import pack
from services.face.avatar.store import DEFAULT_AVATAR, AvatarStore
from services.face.draw.pose import FacePose
from services.face.draw.renderer import Renderer
from tests.face.portraits import DEFAULT_FOLDER, astronaut, picture_of
from tests.full_disk import limited_files
from visavis.serving.errors import (
    AtCapacityError,
    InvalidInputError,
    UnknownNameError,
)


def _no_studio() -> PortraitStudio:
    raise AssertionError("no portrait is read here")


@pytest.fixture
def store(tmp_path: Path) -> AvatarStore:
    return AvatarStore(tmp_path / "avatars", _no_studio)


@pytest.fixture(scope="module")
def saved_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("avatar") / "saved"
    folder.mkdir()
    save_avatar(astronaut(), folder)
    return folder


@pytest.fixture
def saved(saved_once: Path, tmp_path: Path) -> Path:
    """A folder of an avatar, written by `save_avatar`, to do with as one likes."""
    return Path(shutil.copytree(saved_once, tmp_path / "saved"))


def test_default_avatar_ships_small_and_with_its_origin() -> None:
    assert sum(file.stat().st_size for file in DEFAULT_FOLDER.iterdir()) < 1_500_000
    avatar = load_avatar(DEFAULT_FOLDER)
    assert avatar.licence == "CC0-1.0" and "MakeHuman" in avatar.source_note
    assert avatar.size == 512


def test_person_over_background_is_the_portrait() -> None:
    avatar = astronaut()
    texture = avatar.texture.reshape(512, 2, 512, 2, 4).mean(axis=(1, 3))
    composed = texture[..., :3] + (1 - texture[..., 3:] / 255) * avatar.background
    assert np.abs(composed - avatar.portrait).mean() < 2.0


def test_saved_avatar_draws_the_same(saved: Path) -> None:
    pose = FacePose(jaw_open=0.5, yaw=0.1, blink_left=0.5)
    again = picture_of(Renderer(load_avatar(saved)), pose).astype(int)
    assert np.abs(again - picture_of(Renderer(astronaut()), pose)).max() <= 1


def test_a_folder_without_a_thumbnail_gets_one(saved: Path) -> None:
    ready = (saved / "portrait.jpg").read_bytes()
    (saved / "portrait.jpg").unlink()
    assert read_portrait(saved) == ready == (saved / "portrait.jpg").read_bytes()


def test_store_lists_and_loads_the_default(store: AvatarStore) -> None:
    assert store.names() == [DEFAULT_AVATAR] and store.is_builtin(DEFAULT_AVATAR)
    assert store.load() is store.load(DEFAULT_AVATAR)


def test_unknown_name_lists_what_exists(store: AvatarStore) -> None:
    for name in ("nobody", "../default", "."):
        with pytest.raises(UnknownNameError, match="there are: default"):
            store.load(name)


def test_of_many_names_an_unknown_one_is_told_some(store: AvatarStore, tmp_path: Path) -> None:
    for number in range(40):
        folder = tmp_path / "avatars" / f"guest{number:02}"
        folder.mkdir(parents=True)
        (folder / "avatar.toml").touch()
    with pytest.raises(UnknownNameError, match=r"default, guest00, .*, guest18 and 21 more$"):
        store.load("nobody")


def test_bad_names_are_refused(store: AvatarStore) -> None:
    for name in ("", "a b", "../x", "x" * 65, "ä", "a\n"):
        with pytest.raises(InvalidInputError, match="no avatar name"):
            store.check_new(name)


def test_a_name_that_would_do_is_said(store: AvatarStore) -> None:
    with pytest.raises(InvalidInputError, match="'My-aunt' would do"):
        store.check_new("My aunt")


@pytest.mark.parametrize("damage", ["avatar.toml", "mesh.npz", "portrait.png"])
def test_damaged_folder_is_named(saved: Path, damage: str) -> None:
    (saved / damage).write_bytes(b"\0garbage")
    with pytest.raises(InvalidInputError, match="damaged"):
        load_avatar(saved)


def test_other_version_asks_to_make_it_again(saved: Path) -> None:
    about = saved / "avatar.toml"
    about.write_text(about.read_text().replace("version = ", "version = 9"))
    with pytest.raises(InvalidInputError, match="make it again"):
        load_avatar(saved)


def test_a_deletion_that_is_cut_off_leaves_the_name_free_and_is_made_up_for(
    tmp_path: Path, store: AvatarStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the process is killed, or writes into the folder at that moment."""
    unlink = os.unlink

    def unless_it_is_the_mesh(path: str, **told: Any) -> None:
        if Path(path).name == "mesh.npz":
            raise OSError(errno.EIO, "of the disk")
        unlink(path, **told)

    folder, packed = tmp_path / "avatars", pack({name: DEFAULT_FOLDER / name for name in FILES})
    store.take("ann", packed, "")
    with monkeypatch.context() as failing:
        failing.setattr(os, "unlink", unless_it_is_the_mesh)
        with pytest.raises(OSError, match="of the disk"):
            store.delete("ann")
    store.check_new("ann")
    assert not (folder / "ann").exists()
    store.take("ann", packed, "")
    store.delete("ann")
    assert not list(folder.rglob("*.npz"))


def test_what_a_killed_process_had_written_of_an_avatar_does_not_stay(
    tmp_path: Path, store: AvatarStore
) -> None:
    """It has no name by which it could be deleted; what is being written now is let alone."""
    folder, packed = tmp_path / "avatars", pack({name: DEFAULT_FOLDER / name for name in FILES})
    cut_off, at_work = folder / ".new-1" / "ann", folder / ".new-2" / "eve"
    for being_made in (cut_off, at_work):
        being_made.mkdir(parents=True)
        (being_made / "portrait.jpg").write_bytes(b"a person")
    os.utime(cut_off.parent, (0, 0))
    store.take("bob", packed, "")
    assert {path.parent for path in folder.rglob("portrait.jpg")} == {at_work, folder / "bob"}
    os.utime(at_work.parent, (0, 0))
    AvatarStore(folder, _no_studio)
    assert [path.parent for path in folder.rglob("portrait.jpg")] == [folder / "bob"]


def test_an_avatar_can_be_deleted_from_a_full_disk(
    tmp_path: Path, store: AvatarStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, digest = tmp_path / "avatars" / "ann", "SHA-256=abc"
    packed = pack({name: DEFAULT_FOLDER / name for name in FILES}, "0123456789abcdef")
    store.take("ann", packed, digest)
    write_text = Path.write_text

    def where_there_is_room(path: Path, text: str) -> int:
        if folder.exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write_text(path, text)

    monkeypatch.setattr(Path, "write_text", where_there_is_room)
    store.delete("ann")
    assert not store.has("ann") and not list(tmp_path.rglob("*.npz"))
    assert store.deleted() == {"ann": digest} and store.buried() == {digest}


def test_a_folder_that_cannot_be_written_is_told_and_left_clean(tmp_path: Path) -> None:
    store = AvatarStore(tmp_path, _no_studio)
    with (
        limited_files(100_000),
        pytest.raises(AtCapacityError, match="not be kept: File too large"),
    ):
        store.keep(replace(astronaut(), name="big"))
    assert store.names() == [DEFAULT_AVATAR] and list(tmp_path.iterdir()) == []
