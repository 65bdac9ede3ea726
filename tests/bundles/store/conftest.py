"""A store of one's own per test: registry, catalogue folder, model folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.bundles.store.registry import Hosted, Registry, wheel
from visavis.bundles.store.catalogue import Catalog
from visavis.bundles.store.pulling import web
from visavis.bundles.store.pulling.puller import Pulled, PullSetup, pull
from visavis.bundles.store.pulling.sources.npm import NpmSettings
from visavis.bundles.store.pulling.web import PipSettings

BIG = bytes(range(256)) * 4096  # 1 MiB: several blocks on the wire, even compressed as noise


@pytest.fixture
def registry() -> Iterator[Registry]:
    server = Registry()
    yield server
    server.close()


@pytest.fixture
def without_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes a second to tell its settings; `test_source_settings` asks it."""
    monkeypatch.setattr(web, "_config_lines", web._environment_lines)


class Recorder:
    """Progress that remembers."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.bytes_by_task: dict[str, list[int]] = {}
        self.steps: list[tuple[str, str, float]] = []
        self.on_line: Callable[[str], None] = lambda line: None

    def transferred(self, task: str, done_bytes: int, total_bytes: int | None) -> None:
        self.bytes_by_task.setdefault(task, []).append(done_bytes)

    def finished(self, task: str) -> None:
        self.bytes_by_task.setdefault(task, [])

    def prepared(self, bundle: str, text: str, fraction: float) -> None:
        self.steps.append((bundle, text, fraction))

    def say(self, text: str) -> None:
        self.lines.append(text)
        self.on_line(text)


@dataclass
class Store:
    """What a test pulls from and into."""

    registry: Registry
    root: Path
    progress: Recorder = field(default_factory=Recorder)
    waits_s: list[float] = field(default_factory=list)

    @property
    def models(self) -> Path:
        return self.root / "models"

    @property
    def catalog(self) -> Catalog:
        return Catalog([self.root / "catalog"])

    def declare(self, name: str, files: Sequence[Mapping[str, Any]], **more: Any) -> None:
        """Write a manifest; `files` as `file_of` makes them."""
        folder = self.root / "catalog"
        folder.mkdir(exist_ok=True)
        manifest = {
            "name": name,
            "version": "1",
            "task": "vad",
            "summary": "for a test",
            "licence": "MIT",
            "files": list(files),
            **more,
        }
        (folder / f"{name}.toml").write_text(to_toml(manifest))

    def host(self, name: str, bodies: Mapping[str, bytes], **more: Any) -> Hosted:
        """Declare a bundle of these files, and put a wheel of its name with them on the index."""
        files = [file_of(path, body, pypi(name, path)) for path, body in bodies.items()]
        self.declare(name, files, **more)
        return self.registry.add_pypi(name, f"{name}-1.0-py3-none-any.whl", wheel(bodies))

    def setup(self, **changes: Any) -> PullSetup:
        defaults: dict[str, Any] = {
            "pip": PipSettings(index_urls=(self.registry.index_url,)),
            "npm": NpmSettings.from_options({"registry": self.registry.npm_url}),
            "sleep": self.waits_s.append,
            "attempts": 3,
        }
        return PullSetup(**(defaults | changes))

    def pull(
        self, *names: str, repair: bool = False, force: bool = False, **setup: Any
    ) -> list[Pulled]:
        return pull(
            names,
            model_dir=self.models,
            catalog=self.catalog,
            progress=self.progress,
            repair=repair,
            force=force,
            setup=self.setup(**setup),
        )

    def left(self) -> set[str]:
        """What lies in the model folder, lock and partial downloads apart."""
        if not self.models.exists():
            return set()
        ignored = {".pull.lock", ".downloads"}
        return {path.name for path in self.models.iterdir()} - ignored


@pytest.fixture
def store(registry: Registry, tmp_path: Path) -> Store:
    return Store(registry, tmp_path)


def to_toml(table: Mapping[str, Any]) -> str:
    """Keys and values as TOML; nested tables and lists go inline."""
    return "".join(f"{key} = {_value(value)}\n" for key, value in table.items())


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(k)} = {_value(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    return json.dumps(value)


def file_of(path: str, body: bytes, *sources: Mapping[str, Any]) -> dict[str, Any]:
    """A [[files]] entry whose digest and size are those of `body`."""
    return {
        "path": path,
        "sha256": hashlib.sha256(body).hexdigest(),
        "size_bytes": len(body),
        "sources": list(sources),
    }


def pypi(package: str, member: str, **more: Any) -> dict[str, Any]:
    return {"kind": "pypi", "package": package, "version": "1.0", "member": member, **more}
