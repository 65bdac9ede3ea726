"""Laid-out weights in the cache: made once, whole or not at all, never a reason not to start."""

import logging
import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.bundles.gguf.small_gguf import Types, blocks_of, small_model, write_gguf
from visavis.bundles.compile.plans.cache import PlanCache
from visavis.bundles.gguf import prepared
from visavis.bundles.gguf.prepared import laid_out_file
from visavis.bundles.store.installed import RECORD_NAME, BundleRecord, FileRecord
from visavis.serving.errors import PlanCancelledError


@pytest.fixture
def cache(tmp_path: Path) -> PlanCache:
    return PlanCache(tmp_path / "plans")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "tiny").mkdir()
    return small_model(tmp_path / "tiny" / "model.gguf")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for every time that weights are laid out."""
    times: list[int] = []
    whole = prepared.rewrite

    def counted(*args: object, **more: object) -> None:
        times.append(1)
        whole(*args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(prepared, "rewrite", counted)
    return times


def files_in(cache: PlanCache) -> list[str]:
    return sorted(path.name for path in (cache.folder / "tiny").glob("*"))


def test_it_is_made_once_and_found_again(source: Path, cache: PlanCache, made: list[int]) -> None:
    told: list[float] = []
    first = laid_out_file(source, "tiny", cache=cache, on_fraction=told.append)
    assert told == sorted(told) and told[-1] == 1.0
    assert first != source
    assert laid_out_file(source, "tiny", cache=cache) == first
    assert len(made) == 1
    assert cache.for_this_processor() == [first]
    assert not list(cache.entries())  # no compiled plan, and no damaged one


def test_a_bundle_that_was_renamed_keeps_what_was_made(
    source: Path, cache: PlanCache, made: list[int]
) -> None:
    laid_out_file(source, "former", cache=cache)
    path = laid_out_file(source, "tiny", cache=cache)
    assert cache.for_this_processor() == [path]
    assert laid_out_file(source, "tiny", cache=cache) == path
    assert len(made) == 1


@pytest.mark.parametrize("damage", ["changed", "cut", "no digest"])
def test_a_damaged_file_is_made_anew(
    source: Path, cache: PlanCache, made: list[int], damage: str
) -> None:
    path = laid_out_file(source, "tiny", cache=cache)
    whole = path.read_bytes()
    match damage:
        case "changed":
            path.write_bytes(whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:])
        case "cut":
            path.write_bytes(whole[: len(whole) // 2])
        case _:
            path.with_suffix(".sha256").unlink()
    assert laid_out_file(source, "tiny", cache=cache) == path
    assert path.read_bytes() == whole
    assert len(made) == 2


def test_many_at_once_make_one(source: Path, cache: PlanCache, made: list[int]) -> None:
    together = threading.Barrier(4)

    def start(_: int) -> Path:
        together.wait()
        return laid_out_file(source, "tiny", cache=cache)

    with ThreadPoolExecutor(4) as threads:
        assert len(set(threads.map(start, range(4)))) == 1
    assert len(made) == 1


def test_another_source_replaces_what_was_made(source: Path, cache: PlanCache) -> None:
    old = laid_out_file(source, "tiny", cache=cache)
    write_gguf(source, {"output.weight": (Types.Q5_0, blocks_of(Types.Q5_0, 8, 64))})
    new = laid_out_file(source, "tiny", cache=cache)
    assert new != old
    assert files_in(cache) == sorted([new.name, new.with_suffix(".sha256").name])


def test_a_cancel_leaves_nothing(source: Path, cache: PlanCache) -> None:
    reached: list[float] = []
    with pytest.raises(PlanCancelledError):
        laid_out_file(
            source,
            "tiny",
            cache=cache,
            on_fraction=reached.append,
            cancelled=lambda: bool(reached),
        )
    assert 0 < reached[-1] < 1
    assert files_in(cache) == []


def test_what_a_killed_process_left_is_swept(source: Path, cache: PlanCache) -> None:
    (cache.folder / "tiny").mkdir(parents=True)
    (cache.folder / "tiny" / ".weights-abc").write_bytes(b"half")
    path = laid_out_file(source, "tiny", cache=cache)
    assert files_in(cache) == sorted([path.name, path.with_suffix(".sha256").name])


@pytest.mark.parametrize("trouble", ["full", "fails", "no folder"])
def test_where_it_cannot_be_kept_the_published_file_is_used(
    source: Path,
    cache: PlanCache,
    trouble: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    if trouble == "full":
        usage = shutil.disk_usage(source)._replace(free=100)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    elif trouble == "fails":

        def refuse(_: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", refuse)
    else:
        cache.folder.write_bytes(b"a file stands where the folder should")
    with caplog.at_level(logging.WARNING):
        assert laid_out_file(source, "tiny", cache=cache) == source
    assert "tiny is loaded as published, which is slower" in caplog.text
    if trouble != "no folder":
        assert files_in(cache) == []


def test_a_source_that_is_not_what_was_pulled_is_not_laid_out(
    source: Path, cache: PlanCache, caplog: pytest.LogCaptureFixture
) -> None:
    pulled = FileRecord(sha256="0" * 64, size_bytes=source.stat().st_size)
    record = BundleRecord(
        name="tiny", version="1", files={"model.gguf": pulled}, prepared={}, steps={}
    )
    (source.parent / RECORD_NAME).write_text(record.model_dump_json())
    assert laid_out_file(source, "tiny", cache=cache) == source
    assert "visavis models verify tiny" in caplog.text
    assert files_in(cache) == []


def test_what_is_no_gguf_or_has_nothing_to_gain_is_left_alone(
    tmp_path: Path, cache: PlanCache
) -> None:
    strange = tmp_path / "model.gguf"
    strange.write_bytes(b"GGUF" + bytes(range(256)))
    fast = write_gguf(
        tmp_path / "fast.gguf", {"output.weight": (Types.Q4_0, blocks_of(Types.Q4_0, 8, 64))}
    )
    for path in (strange, fast, tmp_path / "absent.gguf"):
        assert laid_out_file(path, "tiny", cache=cache) == path
    assert not cache.folder.exists()
