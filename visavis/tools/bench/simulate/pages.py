"""A simulation's tables. Each title says that it is simulated, each column how it was dilated."""

from __future__ import annotations

from collections.abc import Sequence

from visavis.serving.settings import SERVICES
from visavis.tools.bench.figures.report import Summary
from visavis.tools.bench.load.pages import late_pictures
from visavis.tools.bench.simulate.results import (
    NATS_MOST_CONNECTIONS,
    CarriedOn,
    Efficiency,
    Likeness,
    SimulatedStep,
)
from visavis.tools.shown import Table

_LATENCIES = (
    ("voice to voice", "voice_to_voice"),
    ("voice to voice, as due", "voice_to_voice_due"),
    ("text to voice", "text_to_voice"),
    ("text to voice, as due", "text_to_voice_due"),
    ("first picture", "first_frame"),
)


def name_of(step: SimulatedStep) -> str:
    """A step's column: `dilated` wherever it is."""
    people = f"{step.load.sessions} simulated, {step.replicas} replica{'s' * (step.replicas > 1)}"
    slower = step.plan.dilation
    return f"{people}, {'real time' if slower == 1 else f'dilated {slower:g} times'}"


def _columns(title: str, steps: Sequence[SimulatedStep]) -> Table:
    table = Table("visitors", title=title)
    for step in steps:
        table.add_column(name_of(step), justify="right")
    return table


def _seconds(summary: Summary | None) -> str:
    if summary is None:
        return "-"
    return f"{summary.p50:.3f} / {summary.p95:.3f} ({summary.count})"


def visitors_table(steps: Sequence[SimulatedStep]) -> Table:
    """What the visitors met, and whether it may be believed."""
    table = _columns("Simulated devices: median / P95 (n), simulated seconds", steps)
    for label, figure in _LATENCIES:
        table.add_row(label, *(_seconds(step.load.summaries.get(figure)) for step in steps))
    loads = [step.load for step in steps]
    table.add_row("questions", *(str(len(load.exchanges)) for load in loads))
    table.add_row("  failed, refused", *(f"{x.failed}, {len(x.refused)}" for x in loads))
    table.add_row("duty, as it came out", *(f"{load.duty:.2f}" for load in loads))
    table.add_row("underruns", *(f"{x.playout.underruns} / {x.gateway_underruns}" for x in loads))
    table.add_row("pictures late or missing", *map(late_pictures, loads))
    table.add_row("answers a second", *(f"{step.answers_per_s:.2f}" for step in steps))
    heard = [step.heard for step in steps]
    table.add_row("answers heard whole", *(f"{one.whole} of {one.answers}" for one in heard))
    table.add_row(
        "  words lost, repeated, another's, unclear",
        *(f"{one.lost}, {one.repeated}, {one.foreign}, {one.unclear}" for one in heard),
        end_section=True,
    )
    for name in dict.fromkeys(name for step in steps for name in step.late_s):
        late = [step.late_s.get(name) for step in steps]
        cells = ["-" if late_s is None else f"{1000 * late_s:.1f} ms" for late_s in late]
        table.add_row(f"late for their appointments, P95: {name}", *cells)
    others = [load.others_share for load in loads]
    table.add_row("other work on this machine", *("-" if o is None else f"{o:.0%}" for o in others))
    table.add_row("valid", *("no" if step.doubts() else "yes" for step in steps))
    return table


def _people(step: SimulatedStep) -> int:
    """All whom the gateway serves."""
    return step.load.sessions + step.load.watchers


def devices_table(steps: Sequence[SimulatedStep]) -> Table:
    """How the devices were occupied."""
    title = "Simulated devices: occupied, steps a second (all replicas), requests in a run"
    table = _columns(title, steps)
    for stage in SERVICES:
        devices = [step.devices[stage] for step in steps]
        cells = [f"{d.share:.0%}  {d.steps_per_s:.1f}/s  {d.mean_batch:.2f}" for d in devices]
        table.add_row(stage, *cells)
    return table


def cost_table(steps: Sequence[SimulatedStep]) -> Table:
    """What bus and gateway used, measured, for each session."""
    table = _columns("Bus and gateway, for each session and simulated second: measured", steps)
    for process in ("gateway", "nats-server"):
        cells = []
        for step in steps:
            load = step.load.processes.get(process)
            cells.append("-" if load is None else f"{1000 * load.cores / _people(step):.2f} ms")
        table.add_row(f"{process}, processor time", *cells)
    for label, name, scale, unit in (
        ("messages into the bus", "msgs_in", 1.0, ""),
        ("messages out of it", "msgs_out", 1.0, ""),
        ("bytes out of it", "bytes_out", 1e-3, " kB"),
    ):
        cells = [f"{scale * getattr(s.bus, name) / _people(s):.1f}{unit}" for s in steps]
        table.add_row(label, *cells)
    table.add_row("subscriptions, of all", *(f"{step.bus.subscriptions:.0f}" for step in steps))
    files = [f"{s.files.get('gateway', 0)}, {s.files.get('nats-server', 0)}" for s in steps]
    table.add_row("open files of gateway, nats-server", *files)
    return table


def efficiency_table(found: Sequence[Efficiency]) -> Table:
    """Throughput by replicas."""
    table = Table(
        "replicas of each service",
        "language models occupied",
        "tokens a second",
        "over one's, times so many",
        "answers: the same",
        title="Simulated throughput by replicas",
    )
    for one in found:
        table.add_row(
            str(one.replicas),
            f"{one.occupied:.0%}",
            f"{one.tokens_per_s:.2f}",
            f"{one.tokens:.3f}",
            f"{one.answers:.2f}",
        )
    return table


def likeness_table(found: Sequence[Likeness]) -> Table:
    """Dilated medians beside those in real time."""
    table = Table(
        "median", "dilated", "real", "dilated / real", "alike", title="Dilated beside real time"
    )
    for one in found:
        table.add_row(
            f"{one.figure.replace('_', ' ')}, dilated {one.dilation:g} times",
            f"{one.dilated_s:.3f} s",
            f"{one.real_s:.3f} s",
            f"{one.ratio:.3f}",
            {None: "a step is not valid", True: "yes", False: "no"}[one.alike],
        )
    return table


def carried_table(one: CarriedOn) -> Table:
    """The straight line, and what it runs into."""
    title = (
        f"{one.sessions} sessions: CARRIED ON in a straight line from "
        f"{one.measured_sessions} simulated ones, not measured"
    )
    table = Table("what", "carried on", "its limit", title=title)
    table.add_row("gateways, cores", f"{one.gateway_cores:.0f}", "a process uses one core")
    table.add_row(
        "gateway processes",
        f"{one.gateways} of {one.sessions_per_gateway} sessions",
        "70 % of a core each, so that ticks are in time",
    )
    table.add_row(
        "nats-server, cores",
        f"{one.bus_cores:.1f}",
        "it uses all cores of a machine; beyond them, a cluster",
    )
    table.add_row("messages a second, in and out", f"{one.msgs_per_s:,.0f}", "as its cores")
    table.add_row(
        "out of the bus",
        f"{one.bus_bits_per_s / 1e9:.1f} Gbit/s",
        "the machine's network: one link of 10 Gbit/s carries no more",
    )
    table.add_row("subscriptions", f"{one.subscriptions:,.0f}", "memory of nats-server")
    table.add_row(
        "connections to the bus", f"{one.connections:,.0f}", f"{NATS_MOST_CONNECTIONS:,} unless set"
    )
    table.add_row(
        "open files of one gateway", f"{one.files_per_gateway:.0f}", "ulimit -n, often 1024"
    )
    return table
