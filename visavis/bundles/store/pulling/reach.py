"""Whether addresses answer, asked before anything is made to depend on them.

A host that swallows packets would otherwise hold a pull for minutes before the next source is
tried. Package registries are not asked: they are what the user's pip and npm are told to use.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx

from visavis.bundles.store.catalogue import Alternatives, Catalog
from visavis.bundles.store.choice import bundle_here
from visavis.bundles.store.manifest import (
    Archive,
    BundleFile,
    BundleManifest,
    FileSource,
    HuggingFaceSource,
    Source,
)
from visavis.bundles.store.pulling.sources.remote import LocalFile, Remote
from visavis.bundles.store.pulling.sources.resolver import Resolver
from visavis.serving.errors import ModelStoreError

ANSWER_WITHIN_S = 2.0
Problem = Callable[[Source], str]
"""Says why a source does not answer; "" where it does."""


class Reach:
    """Asks each address once."""

    def __init__(
        self, client: httpx.Client, resolver: Resolver, within_s: float = ANSWER_WITHIN_S
    ) -> None:
        self._client = client
        self._resolver = resolver
        self._within_s = within_s
        self._known: dict[Archive, str] = {}

    def problem(self, source: Source) -> str:
        """Why `source` does not answer; "" where it does, or is not asked. Blocks a while."""
        if not isinstance(source, HuggingFaceSource | FileSource):
            return ""
        archive = source.archive
        if archive not in self._known:
            self._known[archive] = self._ask(archive)
        return self._known[archive]

    def _ask(self, archive: Archive) -> str:
        try:
            found = self._resolver.resolve(archive)
        except ModelStoreError as error:
            return str(error)
        if isinstance(found, LocalFile):
            return ""
        host = httpx.URL(found.url).host
        answers: queue.SimpleQueue[str] = queue.SimpleQueue()
        # A thread of its own: a name that does not resolve knows no timeout.
        threading.Thread(
            target=lambda: answers.put(self._first_byte(found)), name="reach", daemon=True
        ).start()
        try:
            problem = answers.get(timeout=self._within_s)
        except queue.Empty:
            problem = f"did not answer within {self._within_s:g} s"
        return f"{host} {problem}" if problem else ""

    def _first_byte(self, remote: Remote) -> str:
        headers = {**remote.headers, "Range": "bytes=0-0"}
        try:
            with self._client.stream(
                "GET", remote.url, headers=headers, timeout=self._within_s
            ) as answer:
                return f"answers {answer.status_code}" if answer.is_error else ""
        except httpx.TimeoutException:
            return f"did not answer within {self._within_s:g} s"
        except (httpx.HTTPError, httpx.InvalidURL, RuntimeError) as error:
            # RuntimeError: the client was closed, and nobody waits for this any more.
            return f"cannot be reached ({error or type(error).__name__})"


def first_answering(file: BundleFile, problem: Problem) -> tuple[int, list[str]]:
    """Number of the first source of `file` that answers, and what was wrong with those before.

    The last source is taken as it is: there is nothing left to turn to.
    """
    problems: list[str] = []
    for number, source in enumerate(file.sources[:-1]):
        if not (found := problem(source)):
            return number, problems
        problems.append(found)
    return len(file.sources) - 1, problems


@dataclass(frozen=True)
class Chosen:
    """One place of a profile that several bundles could take."""

    bundle: str
    several: Alternatives
    why: str
    """For people."""
    asked: bool
    """Whether addresses were asked; else what is here decided."""


def choose(catalog: Catalog, several: Alternatives, model_dir: Path, problem: Problem) -> Chosen:
    """The one that is here, else the first whose every file has a source that answers."""
    if (found := bundle_here(catalog, several, model_dir)) is not None:
        return Chosen(found, several, _why_here(found, several), asked=False)
    problems: list[str] = []
    for name in several[:-1]:
        told = _cannot_be_had(catalog.manifest(name), problem)
        if not told:
            return Chosen(name, several, "its address answers", asked=True)
        problems.append(f"{name} cannot be had: {told}")
    later = f"`visavis models pull {several[0]}` takes that one instead, once it can be had"
    return Chosen(several[-1], several, f"{'; '.join(problems)}. {later}", asked=True)


def _cannot_be_had(manifest: BundleManifest, problem: Problem) -> str:
    for file in manifest.files:
        problems = [problem(source) for source in file.sources]
        if all(problems):
            return problems[-1]
    return ""


def _why_here(found: str, several: Alternatives) -> str:
    if found == several[0]:
        return "it is here"
    return f"it is here; `visavis models pull {several[0]}` takes that one instead"
