"""`visavis bench face`: what one face costs, idle and speaking."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Annotated, Literal

import typer
from rich.table import Table

from visavis.bench.face_cost import FaceCost, face_under_test
from visavis.bench.report import check_target, report, write_report
from visavis.cli.bench_options import Json
from visavis.cli.bench_tables import wide_console
from visavis.clock import MonotonicClock
from visavis.media import VideoCodec
from visavis.stack.location import log_dir


def face(
    seconds: Annotated[float, typer.Option(min=1, help="So long each, idle and speaking.")] = 15.0,
    codec: Annotated[Literal["h264", "vp8"], typer.Option(help="What is watched.")] = "h264",
    json_path: Json = None,
) -> None:
    """Start a face service and measure the processor time of each picture."""
    check_target(json_path, ".json")
    console = wide_console()
    folder = log_dir() / "bench"
    folder.mkdir(parents=True, exist_ok=True)

    async def run() -> dict[str, FaceCost]:
        chosen = VideoCodec[codec.upper()]
        async with face_under_test(chosen, folder, MonotonicClock()) as under_test:
            idle = await under_test.cost(seconds)
            speaking = asyncio.create_task(under_test.speak())
            try:
                return {"idle": idle, "speaking": await under_test.cost(seconds)}
            finally:
                speaking.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await speaking

    with console.status("measuring"):
        costs = asyncio.run(run())
    console.print(_table(costs))
    if json_path is not None:
        settings = {"seconds": seconds, "codec": codec}
        write_report(
            json_path, report("face", [], counts=_counts(costs), turns=[], settings=settings)
        )


def _table(costs: Mapping[str, FaceCost]) -> Table:
    table = Table("", title="One face, 512 x 512, 25 pictures a second", title_justify="left")
    for column in ("CPU a picture", "of a core", "pictures/s", "kbit/s"):
        table.add_column(column, justify="right")
    for name, cost in costs.items():
        table.add_row(
            name,
            f"{1e3 * cost.frame_cpu_s:.2f} ms",
            f"{cost.share:.1%}",
            f"{cost.frames / cost.seconds:.1f}",
            f"{cost.bits_per_second / 1e3:.0f}",
        )
    return table


def _counts(costs: Mapping[str, FaceCost]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, cost in costs.items():
        found[f"{name}_frame_cpu_s"] = round(cost.frame_cpu_s, 6)
        found[f"{name}_share_of_a_core"] = round(cost.share, 4)
        found[f"{name}_bits_per_second"] = round(cost.bits_per_second)
    return found
