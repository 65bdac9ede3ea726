"""What `visavis engine` prints: tables of plans, checks and layers."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from visavis.plans.bench import BenchRow
from visavis.plans.cache import PlanEntry, PlanState
from visavis.plans.plan_facts import LayerInfo, TensorInfo
from visavis.plans.plan_record import PlanRecord
from visavis.plans.recipe import ProfileSpec
from visavis.plans.survey import Checked

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
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
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
