"""The cache on a real disk: whole plans come back, everything else is recognised."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.bundles.compile.small_graphs import USUAL
from tests.full_disk import limited_files
from visavis.bundles.compile.plans.cache import CachedPlan, PlanCache, Wanted, plan_dir
from visavis.bundles.compile.plans.record import (
    COMPILER_REVISION,
    PlanKey,
    PlanMemory,
    PlanRecord,
    TensorInfo,
)
from visavis.serving.errors import PlanCancelledError, PlanError

CONTENT = bytes(range(256)) * 64


def key(**changes: object) -> PlanKey:
    fields = {
        "compiler": "tensorrt_rtx 1.7.1",
        "target": "portable",
        "onnx_sha256": "0" * 64,
        "profiles_sha256": "1" * 64,
        "workspace_bytes": None,
    }
    return PlanKey(**{**fields, **changes})  # type: ignore[arg-type]


def record(content: bytes = CONTENT, **changes: object) -> PlanRecord:
    return PlanRecord(
        bundle="some-bundle",
        plan="net",
        precision="fp32",
        key=key(**changes),
        source_sha256="2" * 64,
        plan_sha256=hashlib.sha256(content).hexdigest(),
        size_bytes=len(content),
        profiles=(USUAL,),
        inputs=(TensorInfo("x", "FLOAT", (-1, 8)),),
        outputs=(TensorInfo("y", "FLOAT", (-1, 4)),),
        layers={"MATRIX_MULTIPLY FLOAT": 1},
        memory=PlanMemory(1, 2, 3),
        build_s=0.5,
        built_at=datetime(2030, 1, 2, tzinfo=UTC),
    )


WANTED = Wanted(
    "some-bundle", "net", "fp32", "tensorrt_rtx 1.7.1", "portable", None, "2" * 64,
    COMPILER_REVISION,
)  # fmt: skip


@pytest.fixture
def cache(tmp_path: Path) -> PlanCache:
    return PlanCache(tmp_path / "plans")


@pytest.fixture
def stored(cache: PlanCache) -> CachedPlan:
    return cache.store(record(), CONTENT)


def files_of(cache: PlanCache) -> list[str]:
    return sorted(path.name for path in cache.folder.rglob("*") if path.is_file())


def test_a_plan_comes_back_as_it_was(cache: PlanCache, stored: CachedPlan) -> None:
    found = cache.find(WANTED)
    assert found == stored
    assert found.read() == CONTENT
    assert [(entry.record, entry.problem) for entry in cache.entries()] == [(record(), "")]


@pytest.mark.parametrize(
    "change",
    [
        {"bundle": "other"},
        {"plan": "other"},
        {"precision": "fp16"},
        {"compiler": "tensorrt_rtx 1.7.2"},
        {"compiler": "tensorrt 11.4"},
        {"target": "sm_89"},
        {"workspace_bytes": 1},
        {"source_sha256": "3" * 64},
        {"revision": COMPILER_REVISION + 1},
    ],
    ids=lambda change: " ".join(change),
)
def test_a_plan_for_something_else_is_not_found(
    cache: PlanCache, stored: CachedPlan, change: dict[str, object]
) -> None:
    assert cache.find(Wanted(**{**WANTED.__dict__, **change})) is None


def test_every_part_of_the_key_counts() -> None:
    changes: list[dict[str, object]] = [
        {},
        {"compiler": "tensorrt 11.4"},
        {"target": "sm_89"},
        {"onnx_sha256": "9" * 64},
        {"profiles_sha256": "9" * 64},
        {"workspace_bytes": 1},
        {"revision": COMPILER_REVISION + 1},
    ]
    assert len({key(**change).digest for change in changes}) == len(changes)


FLIPPED = CONTENT[:1000] + bytes([CONTENT[1000] ^ 1]) + CONTENT[1001:]
OLDER = "its sidecar is of another version or damaged"


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda plan, _: plan.write_bytes(FLIPPED), "the plan's sha256 is not the one"),
        (
            lambda plan, _: plan.write_bytes(CONTENT[:-1]),
            "the plan has 16383 bytes instead of 16384",
        ),
        (lambda plan, _: plan.unlink(), "the plan cannot be read: No such file or directory"),
        (lambda _, sidecar: sidecar.unlink(), "its sidecar is missing"),
        (lambda _, sidecar: sidecar.write_text("{"), f"{OLDER} (its text)"),
        (lambda _, sidecar: sidecar.write_text(_of_format_2(sidecar)), f"{OLDER} (format)"),
    ],
)
def test_damage_is_recognised(
    cache: PlanCache, stored: CachedPlan, damage: Callable[[Path, Path], object], told: str
) -> None:
    damage(stored.path, stored.path.with_suffix(".json"))
    assert cache.find(WANTED) is None
    assert cache.find_key("some-bundle", "net", "fp32", key()) is None
    (entry,) = cache.entries()
    assert told in entry.problem


def _of_format_2(sidecar: Path) -> str:
    return sidecar.read_text().replace('"format": 1', '"format": 2')


def test_a_damaged_plan_is_never_handed_out(stored: CachedPlan) -> None:
    stored.path.write_bytes(FLIPPED)
    with pytest.raises(PlanError, match=r"sha256.*engine build"):
        stored.read()


def test_a_new_plan_takes_the_place_of_the_old(cache: PlanCache, stored: CachedPlan) -> None:
    other_use = cache.store(record(workspace_bytes=5), CONTENT)
    newer = cache.store(record(onnx_sha256="a" * 64), CONTENT)
    newest = cache.store(record(onnx_sha256="a" * 64, compiler="tensorrt_rtx 1.8"), CONTENT)
    assert not stored.path.exists()
    assert not newer.path.exists()
    assert other_use.read() == newest.read() == CONTENT
    assert len(files_of(cache)) == 4


def test_a_full_disk_leaves_no_half_of_a_replaced_plan(
    cache: PlanCache, stored: CachedPlan
) -> None:
    with limited_files(4096), pytest.raises(PlanError, match=r"cannot be kept.*VISAVIS_PLAN_DIR"):
        cache.store(record(), CONTENT)
    assert cache.find(WANTED) is None
    assert files_of(cache) == [stored.path.name]


def test_a_folder_that_takes_no_files_is_named(tmp_path: Path) -> None:
    blocked = tmp_path / "plans"
    blocked.write_text("a file where the folder should be")
    cache = PlanCache(blocked)
    with pytest.raises(PlanError, match=f"{blocked}: Not a directory"):
        cache.store(record(), CONTENT)
    with pytest.raises(PlanError, match="cannot be kept"), cache.locked("net"):
        pass
    assert list(cache.entries()) == []
    assert cache.timing_cache("tensorrt 11.4", "sm_90") is None


def test_only_one_builds_at_a_time(cache: PlanCache) -> None:
    waiting, entered = threading.Event(), threading.Event()

    def second() -> None:
        waiting.set()
        with cache.locked("net"):
            entered.set()

    with cache.locked("net"):
        thread = threading.Thread(target=second)
        thread.start()
        waiting.wait()
        with cache.locked("another"):
            pass
        assert not entered.is_set()
    thread.join()
    assert entered.is_set()


def test_waiting_for_another_build_can_be_cancelled(cache: PlanCache) -> None:
    with cache.locked("net"), pytest.raises(PlanCancelledError), cache.locked("net", lambda: True):
        pass


def test_the_lock_is_free_after_an_error(cache: PlanCache) -> None:
    with pytest.raises(OSError, match="of the work"), cache.locked("net"):
        raise OSError("of the work")
    with cache.locked("net"):
        pass


def test_timings_come_back_for_the_same_compiler_and_target(cache: PlanCache) -> None:
    cache.store_timing_cache("tensorrt 11.4", "sm_90", b"timings")
    assert cache.timing_cache("tensorrt 11.4", "sm_90") == b"timings"
    assert cache.timing_cache("tensorrt 11.5", "sm_90") is None
    assert cache.timing_cache("tensorrt 11.4", "sm_89") is None
    (path,) = cache.folder.glob("*/*.timing")
    path.write_bytes(path.read_bytes()[:-1])
    assert cache.timing_cache("tensorrt 11.4", "sm_90") is None


def test_the_folder_is_chosen_by_argument_setting_or_custom(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("VISAVIS_PLAN_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert plan_dir() == tmp_path / "visavis" / "plans"
    monkeypatch.setenv("VISAVIS_PLAN_DIR", str(tmp_path / "own"))
    assert plan_dir() == tmp_path / "own"
    assert plan_dir(tmp_path / "given") == tmp_path / "given"
