"""What `visavis engine` asks and prints: the choice of plans, progress, tables."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from rich import box
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from visavis.bundles.compile.build_progress import Cancelled
from visavis.bundles.compile.build_progress import Progress as Report
from visavis.bundles.compile.plans.cache import PlanEntry, PlanState
from visavis.bundles.compile.plans.record import LayerInfo, PlanRecord, TensorInfo
from visavis.bundles.compile.survey import Checked
from visavis.bundles.store.recipe import Precision, ProfileSpec
from visavis.serving.errors import PlanCancelledError
from visavis.tools.cli.leaving import INTERRUPTED
from visavis.tools.plan_bench import BenchRow
from visavis.tools.shown import Progress, Table


@dataclass(frozen=True)
class EngineChoice:
    """Options that the commands share; empty or None: the default."""

    plans: tuple[str, ...] = ()
    precisions: tuple[Precision, ...] = ()
    device: str | None = None
    target: str | None = None
    workspace_bytes: int | None = None
    flavour: str | None = None
    model_dir: Path | None = None
    plan_dir: Path | None = None


# ------------------------------------------------------------ a running build

_DRAW_EVERY_S = 0.1

T = TypeVar("T")


class BuildBar:
    """One bar for the plan that is being built, and lines above it."""

    def __init__(self, console: Console) -> None:
        self._bar = Progress(
            TextColumn("{task.fields[plan]}", markup=False),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(),
            TextColumn("{task.description}", markup=False),
            console=console,
        )
        self._task = self._bar.add_task("", plan="", total=1.0, visible=False)
        self._drawn_at = 0.0

    def __enter__(self) -> BuildBar:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Take the bar away and give the cursor back."""
        self._bar.stop()

    def begin_plan(self, plan: str) -> None:
        """Start the bar anew for `plan`."""
        self._bar.reset(self._task, description="", plan=plan, visible=True)

    def report(self, report: Report) -> None:
        """Move the bar. The compiler reports thousands of steps: not each is drawn."""
        now = time.monotonic()
        if now - self._drawn_at >= _DRAW_EVERY_S or report.fraction >= 1.0:
            self._drawn_at = now
            self._bar.update(self._task, completed=report.fraction, description=report.phase)

    def say(self, text: str | Text) -> None:
        """Print a line above the bar."""
        shown = text if isinstance(text, Text) else Text(text)
        self._bar.console.print(shown, soft_wrap=True)


def run_cancellable(
    work: Callable[[Cancelled], T],
    on_cancel: Callable[[], None],
    on_give_up: Callable[[], None] = lambda: None,
) -> T:
    """Run `work(cancelled)` in a thread of its own; Ctrl-C makes `cancelled()` true.

    The compiler calls back into Python, where no KeyboardInterrupt may rise: it would end the
    process. So this thread takes the signal, tells the work, and waits for it to end; a second
    Ctrl-C calls `on_give_up` and ends the process at once. Returns or raises what `work` does;
    after Ctrl-C raises PlanCancelledError even if the work was done. Whatever else ends the waiting
    makes `cancelled()` true as well.
    """
    asked, ended = threading.Event(), threading.Event()
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work(asked.is_set))
        except BaseException as error:
            errors.append(error)
        finally:
            ended.set()

    thread = threading.Thread(target=run, name="plan-build", daemon=True)
    try:
        thread.start()
        ended.wait()
    except KeyboardInterrupt:
        asked.set()
        on_cancel()
        try:
            ended.wait()
        except KeyboardInterrupt:
            # The compiler does not listen. Python cannot shut down in order around it.
            on_give_up()
            os._exit(INTERRUPTED)
    except BaseException:
        asked.set()  # nobody waits for it any more, and it holds what others wait for
        raise
    if errors:
        raise errors[0]
    if asked.is_set():
        raise PlanCancelledError("stopped")
    return results[0]


# ------------------------------------------------------------ tables

_COLOURS = {PlanState.FRESH: "green", PlanState.STALE: "yellow", PlanState.DAMAGED: "red"}


def plans_table(entries: Sequence[tuple[PlanEntry, PlanState]], title: str) -> Table:
    """Cached plans, and how each stands."""
    table = _table(title, "plan", "", "profiles", "MB:", "took:")
    table.add_column("state", no_wrap=True)
    bundle = ""
    for entry, state in entries:
        if entry.path.parent.name != bundle:
            bundle = entry.path.parent.name
            table.add_row(Text(bundle, "bold"))
        shown = Text(state.value, _COLOURS[state])
        if (record := entry.record) is None:
            table.add_row(Text(f"  {entry.path.stem}"), "", "", "", "", shown)
            continue
        table.add_row(
            Text(f"  {record.plan}"),
            record.precision,
            Text(" ".join(profile.name for profile in record.profiles)),
            megabytes(record.size_bytes),
            f"{record.build_s:.1f} s",
            shown,
        )
    return table


def checks_table(checks: Sequence[Checked], compiler: str, target: str) -> Table:
    """Every compilation of a check."""
    title = f"Compiled by {compiler} for {target}; none was loaded"
    table = _table(title, "plan", "", "profile", "layers:", "MB:", "took:")
    table.add_column("", no_wrap=True)
    bundle = ""
    for check in checks:
        request = check.request
        if request.bundle != bundle:
            bundle = request.bundle
            table.add_row(Text(bundle, "bold"))
        made = (f"{check.layers:,}", megabytes(check.size_bytes), f"{check.build_s:.1f} s")
        table.add_row(
            Text(f"  {request.recipe.name}"),
            request.precision,
            Text(check.profile),
            *(("", "", "") if check.problem else made),
            Text("failed", "red") if check.problem else Text("compiled", "green"),
        )
    return table


def check_line(check: Checked) -> str:
    """One compilation in one line, for a log."""
    made = f"{megabytes(check.size_bytes)} MB in {check.build_s:.1f} s"
    return f"{check.request} {check.profile}".rstrip() + f": {check.problem or made}"


def tensors_table(record: PlanRecord) -> Table:
    """Inputs with the range that each profile gives them, and outputs."""
    table = _table("Tensors: min … best … max by profile", "tensor", "type", "shape")
    for profile in record.profiles:
        table.add_column(profile.name, overflow="fold")
    for tensor in record.inputs:
        ranges = [_range(profile, tensor.name) for profile in record.profiles]
        table.add_row(Text(tensor.name), tensor.dtype, _shape(tensor), *ranges)
    for tensor in record.outputs:
        table.add_row(Text(f"→ {tensor.name}"), tensor.dtype, _shape(tensor))
    return table


def kinds_table(record: PlanRecord) -> Table:
    """How many layers of which kind and type."""
    table = _table(
        f"{sum(record.layers.values()):,} layers before fusion", "kind", "type", "layers:"
    )
    for name, count in record.layers.items():
        kind, _, dtype = name.partition(" ")
        table.add_row(kind, dtype, f"{count:,}")
    return table


def layers_table(layers: Sequence[LayerInfo]) -> Table:
    """Every layer."""
    table = _table("Layers", "layer", "kind", "type")
    for layer in layers:
        table.add_row(Text(layer.name), layer.kind, layer.dtype)
    return table


def bench_table(title: str, rows: Sequence[BenchRow]) -> Table:
    """Latency and throughput by engine and batch size, and how many times as fast as the first
    engine at the same size: the fallback."""
    columns = ("engine", "batch:", "median ms:", "95 % ms:", "items/s:", "× fallback:", "runs:")
    table = _table(title, *columns)
    table.add_column("", overflow="fold")
    fallback = {row.batch: row.per_second for row in rows if row.engine == rows[0].engine}
    for row in rows:
        reference = fallback.get(row.batch, 0.0)
        made = (
            f"{row.median_ms:,.2f}",
            f"{row.p95_ms:,.2f}",
            f"{row.per_second:,.1f}",
            f"{row.per_second / reference:,.1f}" if reference else "",
            str(row.runs),
        )
        table.add_row(
            row.engine,
            str(row.batch),
            *([""] * len(made) if row.problem else made),
            Text(row.problem, "yellow"),
        )
    return table


def megabytes(size_bytes: int) -> str:
    """Megabytes of a million bytes, with one decimal."""
    return f"{size_bytes / 1e6:,.1f}"


def _table(title: str, *columns: str) -> Table:
    """A table without frames; a column named `x:` is of numbers."""
    table = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        numeric = name.endswith(":")
        table.add_column(
            name.removesuffix(":"),
            justify="right" if numeric else "left",
            overflow="fold",
            no_wrap=numeric or name in ("", "plan"),
        )
    return table


def _shape(tensor: TensorInfo) -> Text:
    return Text(str([size if size >= 0 else "?" for size in tensor.shape]).replace("'", ""))


def _range(profile: ProfileSpec, name: str) -> Text:
    allowed = profile.shapes.get(name)
    if allowed is None:
        return Text("")
    return Text(f"{list(allowed.min)} … {list(allowed.opt)} … {list(allowed.max)}")
