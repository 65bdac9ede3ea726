"""A pull brings a bundle whole, from every kind of source, and costs nothing the second time."""

from __future__ import annotations

import hashlib
import json
import threading
from pathlib import Path

import pytest

from tests.bundles.store.conftest import BIG, Store, file_of, pypi
from tests.bundles.store.registry import tarball, wheel
from visavis.bundles.store import State, bundle_path, verify
from visavis.bundles.store.pulling.sources.npm import NpmSettings
from visavis.bundles.store.pulling.web import PipSettings
from visavis.serving.errors import ModelStoreError


def test_a_wheel_member_becomes_a_bundle(store: Store) -> None:
    store.registry.add_pypi("ear", "ear-1.0-py3-none-any.whl", wheel({"ear/a.bin": BIG}))
    store.declare("ear", [file_of("deep/a.bin", BIG, pypi("ear", "ear/a.bin"))])
    (pulled,) = store.pull("ear")
    folder = bundle_path("ear", store.models, catalog=store.catalog)
    assert folder == pulled.path
    assert (folder / "deep" / "a.bin").read_bytes() == BIG
    assert 'name = "ear"' in (folder / "bundle.toml").read_text()
    assert "ear is ready (1.0 MB)" in store.progress.lines
    assert store.left() == {"ear"}
    assert not (store.models / ".downloads").exists()


def test_what_is_ready_touches_no_network(store: Store) -> None:
    store.host("ear", {"a": BIG})
    store.pull("ear")
    asked = len(store.registry.asked)
    (again,) = store.pull("ear", repair=True)
    assert again.seconds == 0.0
    assert len(store.registry.asked) == asked


def test_the_smallest_wheel_of_the_version_is_taken(store: Store) -> None:
    small = wheel({"a": b"right"})
    for tag, body in (
        ("cp311-cp311-win_amd64", wheel({"a": b"right", "b": BIG})),
        ("cp312-cp312-macosx_11_0_arm64", small),
    ):
        store.registry.add_pypi("ear", f"ear-1.0-{tag}.whl", body)
    store.registry.add_pypi("ear", "ear-2.0-py3-none-any.whl", wheel({"a": b""}))
    store.declare("ear", [file_of("a", b"right", pypi("ear", "a"))])
    store.pull("ear")
    assert [asked.path for asked in store.registry.asked][1:] == [
        "/files/ear-1.0-cp312-cp312-macosx_11_0_arm64.whl"
    ]


def test_an_sdist_and_an_npm_tarball(store: Store) -> None:
    store.registry.add_pypi("ear", "ear-1.0-py3-none-any.whl", wheel({"other": b""}))
    store.registry.add_pypi("ear", "ear-1.0.tar.gz", tarball({"ear-1.0/a.bin": b"from sdist"}))
    store.registry.add_npm("@ear/drum", "2.0", tarball({"package/b.bin": b"from npm"}))
    npm = {"kind": "npm", "package": "@ear/drum", "version": "2.0", "member": "package/b.bin"}
    store.declare(
        "ear",
        [
            file_of("a", b"from sdist", pypi("ear", "ear-1.0/a.bin", distribution="sdist")),
            file_of("b", b"from npm", npm),
        ],
    )
    (pulled,) = store.pull("ear")
    assert (pulled.path / "a").read_bytes() == b"from sdist"
    assert (pulled.path / "b").read_bytes() == b"from npm"


def test_an_npm_mirror_is_not_left_for_the_public_host(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "visavis.bundles.store.pulling.sources.npm.PUBLIC_REGISTRY", "http://public.test/"
    )
    store.registry.add_npm("drum", "2.0", tarball({"package/b": b"b"}), host="http://public.test")
    npm = {"kind": "npm", "package": "drum", "version": "2.0", "member": "package/b"}
    store.declare("ear", [file_of("b", b"b", npm)])
    token = {"registry": store.registry.npm_url}
    token[store.registry.npm_url.removeprefix("http:") + ":_authToken"] = "secret"
    store.pull("ear", npm=NpmSettings.from_options(token))
    assert {asked.authorization for asked in store.registry.asked} == {"Bearer secret"}


def test_local_files_and_addresses(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    (store.root / "a b.bin").write_bytes(b"path")
    store.registry.add("/c.bin", b"address")
    store.registry.add("/hub/drum/resolve/main/d.bin", b"hub")
    monkeypatch.setenv("HF_ENDPOINT", store.registry.url)
    locations = {
        b"path": str(store.root / "a b.bin"),
        b"address": f"{store.registry.url}/c.bin",
    }
    files = [
        file_of(f"{body.decode()}", body, {"kind": "file", "location": location})
        for body, location in locations.items()
    ]
    url = (store.root / "a b.bin").as_uri()
    files.append(file_of("url", b"path", {"kind": "file", "location": url}))
    hub = {"kind": "huggingface", "repo": "hub/drum", "revision": "main", "path": "d.bin"}
    files.append(file_of("hub", b"hub", hub))
    store.declare("ear", files)
    (pulled,) = store.pull("ear")
    bodies = {name: (pulled.path / name).read_bytes() for name in ("path", "address", "url", "hub")}
    assert bodies == {"path": b"path", "address": b"address", "url": b"path", "hub": b"hub"}
    assert (store.root / "a b.bin").exists()


def test_find_links_serve_without_any_index(store: Store) -> None:
    folder = store.root / "wheels"
    folder.mkdir()
    (folder / "ear_drum-1.0-py3-none-any.whl").write_bytes(wheel({"a": b"a"}))
    store.declare("ear", [file_of("a", b"a", pypi("Ear.Drum", "a"))])
    store.pull("ear", pip=PipSettings(index_urls=(), find_links=(str(folder),)))
    assert store.registry.asked == []
    assert (folder / "ear_drum-1.0-py3-none-any.whl").exists()


def test_an_index_on_disk_and_a_second_index(store: Store) -> None:
    page = store.root / "simple" / "ear"
    page.mkdir(parents=True)
    (page / "index.html").write_text(
        '<a href="ear-1.0-py3-none-any.whl">ear-1.0-py3-none-any.whl</a>'
    )
    (page / "ear-1.0-py3-none-any.whl").write_bytes(wheel({"a": b"a"}))
    store.declare("ear", [file_of("a", b"a", pypi("ear", "a"))])
    indexes = (store.registry.index_url, (store.root / "simple").as_uri() + "/")
    store.pull("ear", pip=PipSettings(index_urls=indexes))
    assert store.left() == {"ear"}


def test_the_index_login_goes_to_its_host_and_into_no_message(store: Store) -> None:
    store.host("ear", {"a": b"a"})
    store.declare("nose", [file_of("a", b"a", pypi("nose", "a"))])
    index = store.registry.index_url.replace("//", "//user:secret@")
    store.pull("ear", pip=PipSettings(index_urls=(index,)))
    assert all(asked.authorization.startswith("Basic ") for asked in store.registry.asked)
    with pytest.raises(ModelStoreError) as caught:
        store.pull("nose", pip=PipSettings(index_urls=(index,)))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(("host", "known"), [("127.0.0.1", True), ("localhost", False)])
def test_the_index_login_is_not_shown_to_other_hosts(store: Store, host: str, known: bool) -> None:
    address = store.registry.url.replace("127.0.0.1", host)
    body = wheel({"a": b"a"})
    store.registry.add_pypi("ear", "ear-1.0-py3-none-any.whl", body, files_at=address)
    store.declare("ear", [file_of("a", b"a", pypi("ear", "a"))])
    index = store.registry.index_url.replace("//", "//user:secret@")
    store.pull("ear", pip=PipSettings(index_urls=(index,)))
    assert bool(store.registry.asked[-1].authorization) is known


def test_twelve_parts_are_joined_as_numbers(store: Store) -> None:
    bodies = [bytes([number]) * 1000 for number in range(1, 13)]
    for number, body in enumerate(bodies, 1):
        name = f"ear_part{number}-1.0-py3-none-any.whl"
        store.registry.add_pypi(f"ear-part{number}", name, wheel({f"part{number:02}": body}))
    part = pypi("ear-part{n}", "part{n:02}", first=1, last=12)
    store.declare("ear", [file_of("a", b"".join(bodies), {"kind": "parts", "parts": [part]})])
    (pulled,) = store.pull("ear")
    assert (pulled.path / "a").read_bytes() == b"".join(bodies)


def test_an_archive_of_two_bundles_is_fetched_once(store: Store) -> None:
    store.registry.add_pypi("ear", "ear-1.0-py3-none-any.whl", wheel({"a": b"a", "b": b"b"}))
    for name, package in (("a", "ear"), ("b", "Ear")):
        store.declare(name, [file_of(name, name.encode(), pypi(package, name))])
    store.pull("a", "b")
    assert store.registry.ranges_asked(".whl") == [""]


def test_progress_counts_to_the_whole(store: Store) -> None:
    hosted = store.host("ear", {"a": hashlib.shake_256(b"noise").digest(1 << 20)})
    store.pull("ear")
    counted = store.progress.bytes_by_task["ear 1.0"]
    assert counted == sorted(counted)
    assert counted[-1] == len(hosted.body)


def test_prepare_steps_are_recorded_and_run_again_when_they_change(store: Store) -> None:
    store.registry.add_pypi("ear", "ear-1.0-py3-none-any.whl", wheel({"raw": b"raw"}))
    made = iter([b"first", b"second", b"third"])

    def cook(name: str, folder: Path, progress: object) -> list[str]:
        assert (name, (folder / "raw").read_bytes()) == ("cook", b"raw")
        (folder / "done").write_bytes(next(made))
        return ["done"]

    def declare(version: int) -> None:
        step = {"name": "cook", "version": version, "inputs": ["raw"], "outputs": ["done"]}
        store.declare("ear", [file_of("raw", b"raw", pypi("ear", "raw"))], prepare=[step])

    declare(1)
    (pulled,) = store.pull("ear", run_step=cook)
    assert store.progress.steps[0] == ("ear", "cook", 0.0)
    record = json.loads((pulled.path / "bundle.lock.json").read_text())
    assert record["prepared"]["done"]["sha256"] == hashlib.sha256(b"first").hexdigest()

    declare(2)
    with pytest.raises(ModelStoreError, match="older version of it: run `visavis models pull ear`"):
        bundle_path("ear", store.models, catalog=store.catalog)
    asked = len(store.registry.asked)
    store.pull("ear", run_step=cook)
    assert (pulled.path / "done").read_bytes() == b"second"
    assert len(store.registry.asked) == asked, "raw was here and right: nothing to download"

    (pulled.path / "done").write_bytes(b"SECOND")
    (standing,) = verify(["ear"], model_dir=store.models, catalog=store.catalog)
    assert (standing.state, standing.problems[0][:4]) == (State.DAMAGED, "done")
    store.pull("ear", run_step=cook, repair=True)
    assert (pulled.path / "done").read_bytes() == b"third"


def test_repair_downloads_only_what_is_damaged(store: Store) -> None:
    for name in ("a", "b"):
        store.registry.add_pypi(name, f"{name}-1.0-py3-none-any.whl", wheel({name: BIG}))
    files = [file_of(name, BIG, pypi(name, name)) for name in ("a", "b")]
    store.declare("ear", files)
    (pulled,) = store.pull("ear")
    (pulled.path / "b").write_bytes(BIG[:-1] + b"?")
    store.registry.asked.clear()
    store.pull("ear")
    assert store.registry.asked == [], "sizes are right: only repair reads the bytes"
    store.pull("ear", repair=True)
    assert [asked.path for asked in store.registry.asked] == [
        "/simple/b/",
        "/files/b-1.0-py3-none-any.whl",
    ]
    assert (pulled.path / "b").read_bytes() == BIG


def test_two_pulls_at_once_download_once(store: Store) -> None:
    hosted = store.host("ear", {"a": BIG})
    hosted.gate = threading.Event()
    gate = hosted.gate

    def open_when_waiting(line: str) -> None:
        if "another pull is running" in line:
            gate.set()

    store.progress.on_line = open_when_waiting
    results: list[float] = []
    pulls = [
        threading.Thread(target=lambda: results.append(store.pull("ear")[0].seconds)) for _ in "ab"
    ]
    for thread in pulls:
        thread.start()
    for thread in pulls:
        thread.join()
    assert results.count(0.0) == 1, "the one that waited found it ready"
    assert store.registry.ranges_asked(".whl") == [""]


def test_a_pull_that_may_not_wait_says_who_is_in_the_way(store: Store) -> None:
    hosted = store.host("ear", {"a": BIG})
    hosted.gate = threading.Event()
    holding = threading.Event()

    def free(folder: Path) -> int:
        holding.set()
        return 1 << 40

    first = threading.Thread(target=lambda: store.pull("ear", free=free))
    first.start()
    assert holding.wait(10)
    with pytest.raises(ModelStoreError, match="another pull has held"):
        store.pull("ear", lock_timeout_s=0.05)
    hosted.gate.set()
    first.join()
