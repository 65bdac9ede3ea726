"""What each committed weight is made of: digests are compared before anything is trained.

`inputs.toml` beside this file is the list. `verify` is what every command calls first.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from visavis.bundles.store import bundle_path
from visavis.serving.errors import InvalidInputError

ROOT = Path(__file__).parents[1]
LIST = Path(__file__).with_name("inputs.toml")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class InputFile(_Strict):
    """A file that has to be fetched by hand."""

    version: str
    address: str
    licence: str
    sha256: str


class Sentences(_Strict):
    """Made-up text: its digest stands for everything that it is drawn from."""

    count: int
    seed: int
    sha256: str

    def problem(self, language: str, made: Sequence[str]) -> str:
        found = hashlib.sha256("\n".join(made).encode()).hexdigest()
        if found == self.sha256:
            return ""
        return f"the {language} sentences have sha256 {found} instead of {self.sha256}"


class Inputs(_Strict):
    """One committed weight."""

    weights: str
    sha256: str
    command: str
    reproduces: str
    """How near the command comes to what is committed."""
    python: str = ""
    files: dict[str, InputFile] = Field(default_factory=dict)
    packages: dict[str, str] = Field(default_factory=dict)
    bundles: dict[str, dict[str, str]] = Field(default_factory=dict)
    """Files as pulled, name -> sha256, by bundle."""
    sentences: dict[str, Sentences] = Field(default_factory=dict)


def inputs_of(weight: str) -> Inputs:
    """The entry `weight` of the list."""
    return known_inputs()[weight]


def known_inputs() -> dict[str, Inputs]:
    """Every committed weight of this folder by name."""
    tables = tomllib.loads(LIST.read_text(encoding="utf-8"))
    return {name: Inputs.model_validate(table) for name, table in tables.items()}


def verify(
    inputs: Inputs,
    *,
    files: Mapping[str, Path] | None = None,
    sentences: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Compare all inputs; `files` and `sentences` are what the command was given and made.

    Raises InvalidInputError that names every one that differs, ModelStoreError for a bundle that
    is not pulled.
    """
    problems = [
        *_wrong_files(inputs, files or {}),
        *_wrong_packages(inputs),
        *_wrong_bundles(inputs),
        *(
            problem
            for language, wanted in inputs.sentences.items()
            if (problem := wanted.problem(language, (sentences or {}).get(language, ())))
        ),
    ]
    if problems:
        made_with = f" (made with Python {inputs.python})" if inputs.python else ""
        raise InvalidInputError(
            f"{inputs.weights}: not what it was trained on{made_with}, here is Python "
            f"{platform.python_version()}: {'; '.join(problems)}. See {LIST.name}; "
            "--any-inputs trains on other ones"
        )


def _wrong_files(inputs: Inputs, files: Mapping[str, Path]) -> Iterator[str]:
    for name, wanted in inputs.files.items():
        found = _sha256(files[name])
        if found != wanted.sha256:
            yield (
                f"{files[name]} has sha256 {found} instead of {wanted.sha256}: "
                f"{wanted.version}, {wanted.address}"
            )


def _wrong_packages(inputs: Inputs) -> Iterator[str]:
    for name, version in inputs.packages.items():
        try:
            found = importlib.metadata.version(name).partition("+")[0]
        except importlib.metadata.PackageNotFoundError:
            found = "not installed"
        if found != version:
            yield f"{name} is {found} instead of {version}"


def _wrong_bundles(inputs: Inputs) -> Iterator[str]:
    for bundle, digests in inputs.bundles.items():
        folder = bundle_path(bundle)
        for name, wanted in digests.items():
            found = _sha256(folder / name)
            if found != wanted:
                yield f"{bundle}/{name} has sha256 {found} instead of {wanted}"


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read: {error.strerror}") from error
