"""A plan, a refusal and a back-test as tables and plain sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator

from visavis.tools.bench.figures.intervals import Interval
from visavis.tools.plan.backtest import OUTSIDE, TOLERANCE, BackTest, Row
from visavis.tools.plan.inventory import GB
from visavis.tools.plan.placement import Plan, Refusal
from visavis.tools.plan.prediction import (
    GPU_MEMORY_SHARE,
    HOST_MEMORY_SHARE,
    SeatLoad,
)
from visavis.tools.plan.profiles import ESTIMATE, SERVICES, Profile
from visavis.tools.plan.queueing import MOST_BUSY
from visavis.tools.shown import Table


def placement_table(plan: Plan) -> Table:
    """A line for each replica on a card, and for a service's processes on a machine."""
    title = f"Where {plan.wanted.sessions} sessions are served, profile {plan.scene.profile.name}"
    table = Table(title=title)
    for name in ("machine", "place", "service"):
        table.add_column(name, overflow="fold")
    for name in ("sessions", "at work", "of its most", "first of an answer, P95"):
        table.add_column(name, justify="right", overflow="fold")
    for load in sorted(plan.prediction.loads, key=_order):
        seat = load.seat
        node = plan.scene.inventory.nodes[seat.node]
        card = plan.scene.card(seat)
        place = "CPU" if card is None else f"card {card.device_id}: {card.model}"
        times = f" × {seat.processes}" if seat.processes > 1 else ""
        known = seat.service != "nats"
        table.add_row(
            node.name,
            place,
            seat.service + times,
            f"{load.sessions:.4g}",
            f"{load.busy:.0%}" if known else "-",
            f"{load.full:.0%}" if known else "-",
            f"{load.delay.p95_s:.3f} s" if load.delay.mean_s else "-",
        )
    return table


def _order(load: SeatLoad) -> tuple[int, int, int]:
    seat = load.seat
    return seat.node, 99 if seat.gpu is None else seat.gpu, SERVICES.index(seat.service)


def devices_table(plan: Plan) -> Table:
    """What cards and machines are asked for, of what they have."""
    table = Table("device", title="Memory and utilisation")
    for name in ("memory planned", "of", "busy"):
        table.add_column(name, justify="right", overflow="fold")
    prediction = plan.prediction
    for n, node in enumerate(plan.scene.inventory.nodes):
        for g, card in enumerate(node.gpus):
            used = prediction.gpu_bytes.get((n, g))
            name = f"{node.name}, card {card.device_id}: {card.model}"
            cells = ("unused", "", "") if used is None else (f"{used / GB:.1f} GB", "", "")
            busy = f"{prediction.gpu_busy(n, g):.0%}" if used is not None else ""
            table.add_row(name, cells[0], f"{card.memory_bytes / GB:g} GB", busy)
        cores = prediction.node_cores[n]
        table.add_row(
            f"{node.name}, {node.cores:g} cores",
            f"{prediction.node_bytes[n] / GB:.1f} GB",
            f"{node.memory_bytes / GB:g} GB",
            f"{cores / node.cores:.0%} ({cores:.1f} cores)",
        )
    return table


def reasons(plan: Plan) -> Iterator[str]:
    """Why it is so, in sentences."""
    prediction, wanted = plan.prediction, plan.wanted
    for name, most_s in wanted.p95_s.items():
        told = f"{name.replace('_', ' ')} P95 {prediction.p95(name):.2f} s, {most_s:g} s are wanted"
        if plan.after_losses:
            worst_s = max(left.p95(name) for left in plan.after_losses)
            told += f"; {worst_s:.2f} s after the worst loss of one"
        yield told + "."
    tightest = max(prediction.loads, key=lambda load: load.full)
    yield (
        f"Fullest is {tightest.seat.service}, asked for {tightest.full:.0%} of what it can do; "
        f"{MOST_BUSY:.0%} is the most that is planned for."
    )
    yield from _why_replicas(plan)
    for (n, g), used in prediction.gpu_bytes.items():
        card = plan.scene.inventory.nodes[n].gpus[g]
        most = card.memory_bytes * GPU_MEMORY_SHARE
        if used > 0.9 * most:
            yield (
                f"{plan.scene.card_name(n, g)} is full: {used / GB:.1f} of the {most / GB:.1f} GB "
                "that are planned for."
            )
    currency = plan.scene.inventory.currency
    machines = ", ".join(node.name for node in plan.scene.inventory.nodes)
    if plan.price:
        yield (
            f"{machines}: {plan.price:.2f} {currency} an hour, {plan.price_per_session:.4f} "
            f"{currency} for a session-hour with all {wanted.sessions} there."
        )
    else:
        yield f"{machines}: the inventory names no price_per_hour, so no cost is told."


def _why_replicas(plan: Plan) -> Iterator[str]:
    loads = plan.prediction.loads
    for service in SERVICES:
        here = [load for load in loads if load.seat.service == service]
        count = sum(load.seat.processes for load in here)
        if count > 1:
            sessions = plan.wanted.sessions / count
            spare = ", one of them to spare" if plan.wanted.spare else ""
            yield f"{service}: {count} replicas{spare}, about {sessions:.3g} sessions each."
    shared = {(x.seat.node, x.seat.gpu) for x in loads if x.seat.gpu is not None}
    for n, g in sorted(shared, key=lambda place: (place[0], place[1] or 0)):
        names = [x.seat.service for x in loads if (x.seat.node, x.seat.gpu) == (n, g)]
        if len(names) > 1 and g is not None:
            yield (
                f"{' and '.join(names)} share {plan.scene.card_name(n, g)}: whenever another is at "
                "work, each gets its part of it."
            )


def refused(refusal: Refusal) -> Iterator[str]:
    """Why there is no plan, and what would do."""
    yield f"{refusal.wanted.sessions} sessions do not fit; {refusal.most} would."
    seen = dict.fromkeys(str(problem) for problem in refusal.problems)
    yield from (f"- {told}" for told in list(seen)[:6])
    if refusal.addition is not None:
        yield f"It would do to add {refusal.addition}."
    else:
        yield (
            "Nothing that was tried would do (cards, cores, memory, up to 16 machines more): allow "
            "more with --slo, or measure quicker figures and give them with --profiles."
        )


def estimates(profile: Profile) -> Iterator[str]:
    """What is not measured, by name."""
    yield f"Profile {profile.name}: {profile.about}."
    known = sum(1 for _ in profile.sources())
    names = profile.estimates
    yield (
        f"{len(names)} of its {known} figures are estimates (their names end in {ESTIMATE}; "
        "--sources shows all): " + ", ".join(names[:5]) + (" …" if len(names) > 5 else ".")
    )
    yield (
        f"Planned for: {GPU_MEMORY_SHARE:.0%} of a card's memory, {HOST_MEMORY_SHARE:.0%} of a "
        f"machine's, {MOST_BUSY:.0%} of what a device or the cores can do."
    )


def sources_table(profile: Profile) -> Table:
    """Each figure and where it comes from."""
    title = f"Figures of profile {profile.name}, as published with visavis or given by --profiles"
    table = Table("figure", title=title)
    table.add_column("value", justify="right", overflow="fold")
    table.add_column("from", overflow="fold")
    for service, figure in profile.sources():
        table.add_row(f"{service}.{figure.told_name}", f"{figure.value:g}", figure.source)
    return table


def back_test_table(test: BackTest) -> Table:
    """Predicted beside measured. off: how much too large a prediction is; in: whether it lies in
    the interval of what was measured, as far as its answers tell."""
    title = "Predicted beside measured: from published figures, and from the lone visitor's"
    table = Table("visitors", "figure", title=title)
    within = f"{1 - OUTSIDE:.0%} interval"
    for name in ("measured", within, "published", "off", "in", "lone's", "off", "in"):
        table.add_column(name, justify="right", overflow="fold")
    for row in test.rows:
        table.add_row(
            str(row.sessions),
            row.figure,
            f"{row.measured:.3f}",
            _interval(row.interval),
            *_held(row, row.published),
            *_held(row, row.set_right),
        )
    return table


def _held(row: Row, predicted: float | None) -> tuple[str, str, str]:
    """A prediction, by how much it is off, and whether it is inside."""
    inside = {None: "-", True: "yes", False: "no"}[row.inside(predicted)]
    return "-" if predicted is None else f"{predicted:.3f}", _off(row.off(predicted)), inside


def _interval(told: Interval | None) -> str:
    """Without the end that too few answers leave open."""
    if told is None:
        return "-"
    return " – ".join("" if math.isinf(end) else f"{end:.3f}" for end in told).strip()


def _off(share: float | None) -> str:
    if share is None:
        return "-"
    colour = "green" if abs(share) <= TOLERANCE else "red"
    return f"[{colour}]{share:+.0%}[/]"


def knees(test: BackTest) -> Iterator[str]:
    """The knee, measured and predicted."""
    found = test.knees
    beyond = "" if found.broke_at is not None else " or more: no step broke"
    yield f"Knee, measured: {found.measured} visitors{beyond}."
    for name, knee in (
        ("from published figures", found.published),
        ("from the lone visitor's", found.set_right),
    ):
        yield f"Knee, predicted {name}: {'beyond the steps' if knee is None else knee}."
    for name, rows in (
        ("from published figures", [(row, row.published) for row in test.rows]),
        (
            "from the lone visitor's",
            [(row, row.set_right) for row in test.rows if row.sessions > 1],
        ),
    ):
        known = [(row, one) for row, one in rows if one is not None]
        if known:
            judged = [row.inside(one) for row, one in known if abs(row.off(one) or 0.0) > TOLERANCE]
            told = f"{len(known) - len(judged)} of {len(known)} figures within {TOLERANCE:.0%}"
            if any(verdict is not None for verdict in judged):
                told += (
                    f"; of the others {judged.count(True)} in the interval of what was measured, "
                    f"{judged.count(False)} not, {judged.count(None)} cannot be told"
                )
            yield f"Predicted {name}: {told}."
