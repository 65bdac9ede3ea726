"""Which service goes where, so that so many sessions are served in time at the least price.

Pure and deterministic. Machines are hired as a whole, so the cheapest set of them that serves the
sessions is the plan; on it replicas are spread. A layout begins with one replica of each service
and grows by whichever step brings what is missing down most, until nothing is.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from visavis.tools.plan.inventory import GB, Addition, Gpu, Inventory, Node, with_addition
from visavis.tools.plan.prediction import (
    GPU_MEMORY_SHARE,
    Prediction,
    Problem,
    Scene,
    Seat,
    predict,
)
from visavis.tools.plan.profiles import SERVICES, ServiceCost

LATENCIES = ("voice_to_voice", "text_to_voice")
MOST_SESSIONS = 10_000
_MOST_SETS = 64
_MOST_CARDS = 16
_FLEET = 20
"""From so many sessions on, twice as much serves about twice as many."""
_HOPE = 0.7
_MOST_STEPS = 200
_CARDS_TRIED = 2
_CARD_SIZES_GB = (8, 12, 16, 24, 32, 40, 48, 80, 96, 141, 192)
_LADDER = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
_TINY = 1e-9


@dataclass(frozen=True)
class Wanted:
    """What a plan has to hold. p95_s: most seconds, by the latency's name."""

    sessions: int
    p95_s: Mapping[str, float]
    spare: bool = False
    """It must hold as well after the loss of any one card, or of any one process on a CPU."""


@dataclass(frozen=True)
class Plan:
    """A layout that holds what is wanted. scene: with the machines that it uses, and no others."""

    wanted: Wanted
    scene: Scene
    layout: tuple[Seat, ...]
    prediction: Prediction
    after_losses: tuple[Prediction, ...]
    """Of each loss of one; empty where no spare was asked for."""

    @property
    def price(self) -> float:
        """Of an hour."""
        return sum(node.price for node in self.scene.inventory.nodes)

    @property
    def price_per_session(self) -> float:
        return self.price / self.wanted.sessions


@dataclass(frozen=True)
class Refusal:
    """Why there is no plan. most: sessions that would fit; addition: what would do; None: nothing
    that could be added to this inventory."""

    wanted: Wanted
    problems: tuple[Problem, ...]
    most: int
    addition: Addition | None


@dataclass(frozen=True)
class _Try:
    """A layout and how far it is from what is wanted."""

    layout: tuple[Seat, ...]
    prediction: Prediction
    after_losses: tuple[Prediction, ...]
    problems: tuple[Problem, ...]

    @property
    def lack(self) -> float:
        return sum((p.needed - p.available) / max(p.available, _TINY) for p in self.problems)


def plan(wanted: Wanted, scene: Scene) -> Plan | Refusal:
    """The cheapest plan on the scene's inventory, or why there is none and what would help."""
    best: _Try | None = None
    most = 0
    for machines in _machine_sets(scene.inventory):
        smaller = replace(scene, inventory=replace(scene.inventory, nodes=machines))
        found, reached = _serve(wanted, smaller)
        most = max(most, reached)
        if found is not None and reached >= wanted.sessions:
            return Plan(wanted, smaller, found.layout, found.prediction, found.after_losses)
        best = found or best
    problems = best.problems if best else _nowhere(scene)
    addition = _what_would_do(wanted, scene, problems, most)
    return Refusal(wanted, problems, most, addition)


def _machine_sets(inventory: Inventory) -> list[tuple[Node, ...]]:
    """Sets of machines, the cheapest first; of machines that are alike, how many is all that
    counts. All of them come last, whatever they cost."""
    kinds: dict[Node, list[Node]] = {}
    for node in inventory.nodes:
        kinds.setdefault(replace(node, name=""), []).append(node)
    counts = [range(len(nodes) + 1) for nodes in kinds.values()]
    if math.prod(map(len, counts)) > _MOST_SETS:
        return [inventory.nodes[: n + 1] for n in range(len(inventory.nodes))]
    sets = []
    for taken in itertools.product(*counts):
        chosen = {n.name for k, nodes in zip(taken, kinds.values(), strict=True) for n in nodes[:k]}
        if chosen:
            sets.append(tuple(node for node in inventory.nodes if node.name in chosen))
    return sorted(sets, key=lambda s: (sum(node.price for node in s), len(s)))


def _serve(wanted: Wanted, scene: Scene) -> tuple[_Try | None, int]:
    """(what comes nearest to what is wanted, how many sessions fit as far as was looked).

    Whether N fit does not hang on N alone, lest fewer sessions should cost more: what is tried is
    always the same ladder of numbers, from one upwards, each from the layout before."""
    good: _Try | None = None
    last = 0
    for rung in _rungs():
        tried = _grow(replace(wanted, sessions=rung), scene, good)
        if tried is None or tried.problems:
            return _between(wanted, scene, (last, good), (rung, tried))
        if rung >= wanted.sessions:
            return _exactly(wanted, scene, good, tried), rung
        last, good = rung, tried
    return None, last


def _rungs() -> Iterator[int]:
    yield from _LADDER
    yield from range(_LADDER[-1] * 2, MOST_SESSIONS * 2, _LADDER[-1])


def _between(
    wanted: Wanted,
    scene: Scene,
    below: tuple[int, _Try | None],
    above: tuple[int, _Try | None],
) -> tuple[_Try | None, int]:
    """Between two rungs, the lower of which fits, by halving."""
    (low, good), (high, failed) = below, above
    while high - low > 1:
        middle = (low + high) // 2
        tried = _grow(replace(wanted, sessions=middle), scene, good)
        if tried is None or tried.problems:
            high, failed = middle, tried
        elif middle >= wanted.sessions:
            return _exactly(wanted, scene, good, tried), middle
        else:
            low, good = middle, tried
    # What is told is what the largest layout that fits would lack for all of them.
    if good is not None:
        tried = _judged(wanted, good.layout, scene)
        # More processes on cores that are there are no matter for whoever buys.
        free = tuple(f"{name} on " for name in ("gateway", "face"))
        told = [p for p in tried.problems if not p.where.startswith(free)]
        return replace(tried, problems=tuple(told) or tried.problems), low
    return failed, low


def _exactly(wanted: Wanted, scene: Scene, below: _Try | None, above: _Try) -> _Try:
    """The layout for just so many, or else that for a few more."""
    tried = _grow(wanted, scene, below)
    if tried is not None and not tried.problems:
        return tried
    fewer = _judged(wanted, above.layout, scene)
    return above if fewer.problems else fewer


# ------------------------------------------------------------ growing a layout


def _grow(wanted: Wanted, scene: Scene, start: _Try | None) -> _Try | None:
    """A layout for what is wanted, or the one that comes nearest; None: not even one of each."""
    layout = _first(scene) if start is None else start.layout
    if layout is None:
        return None
    now = _judged(wanted, layout, scene)
    for _ in range(_MOST_STEPS):
        if not now.problems:
            break
        steps = (_judged(wanted, step, scene) for step in _steps(now, scene))
        best = min(steps, key=lambda tried: tried.lack, default=now)
        if best.lack >= now.lack - _TINY:
            break
        now = best
    return now


def _first(scene: Scene) -> tuple[Seat, ...] | None:
    """One replica of each, what needs most memory first; None where a network fits on no card."""
    costs = scene.profile.costs
    layout: tuple[Seat, ...] = ()
    for service in sorted(SERVICES, key=lambda name: -costs[name].memory_bytes):
        cost = costs[service]
        if cost.device == "cpu":
            layout = _with_process(layout, service, _roomiest(layout, scene), 1)
            continue
        cards = _cards_for(layout, cost, scene, {})
        if not cards:
            return None
        layout = (*layout, Seat(service, *cards[0]))
    return layout


def _steps(now: _Try, scene: Scene) -> Iterator[tuple[Seat, ...]]:
    """Layouts that are one replica larger, or with one moved from a card to another."""
    layout = now.layout
    busy: dict[tuple[int, int], float] = {}
    for load in now.prediction.loads:
        if load.seat.gpu is not None:
            place = (load.seat.node, load.seat.gpu)
            busy[place] = busy.get(place, 0.0) + load.busy
    for service, cost in scene.profile.costs.items():
        if service == "nats":
            continue
        if cost.device == "cpu":
            have = sum(s.processes for s in layout if s.service == service)
            # Of many processes several at once, or a large fleet would take long.
            for more in sorted({1, max(1, have // 4)}):
                yield _with_process(layout, service, _roomiest(layout, scene), more)
            continue
        cards = [
            card
            for card in _cards_for(layout, cost, scene, busy)
            if Seat(service, *card) not in layout
        ]
        for card in cards[:_CARDS_TRIED]:
            yield (*layout, Seat(service, *card))
            crowded = max(
                (s for s in layout if s.service == service),
                key=lambda s: busy.get((s.node, s.gpu or 0), 0.0),
            )
            yield tuple(Seat(service, *card) if seat == crowded else seat for seat in layout)


def _cards_for(
    layout: Sequence[Seat],
    cost: ServiceCost,
    scene: Scene,
    busy: Mapping[tuple[int, int], float],
) -> list[tuple[int, int]]:
    """Cards with memory for one more replica, the least used first."""
    costs = scene.profile.costs
    found = []
    for n, node in enumerate(scene.inventory.nodes):
        for g, card in enumerate(node.gpus):
            here = [s for s in layout if (s.node, s.gpu) == (n, g)]
            taken = sum(costs[s.service].memory_bytes for s in here)
            free = card.memory_bytes * GPU_MEMORY_SHARE - taken
            if free >= cost.memory_bytes + cost.session_bytes:
                order = len(here) if not busy else busy.get((n, g), 0.0) / card.speed
                found.append(((order, -card.speed, -free), (n, g)))
    return [place for _, place in sorted(found)]


def _roomiest(layout: Sequence[Seat], scene: Scene) -> int:
    """The machine whose processes have most cores each."""

    def room(n: int) -> float:
        processes = sum(s.processes for s in layout if s.node == n and s.gpu is None)
        return scene.inventory.nodes[n].cores / (1.0 + processes)

    return max(range(len(scene.inventory.nodes)), key=lambda n: (room(n), -n))


def _with_process(layout: Sequence[Seat], service: str, node: int, more: int) -> tuple[Seat, ...]:
    seat = next((s for s in layout if (s.service, s.node, s.gpu) == (service, node, None)), None)
    if seat is None:
        return (*layout, Seat(service, node, None, more))
    grown = replace(seat, processes=seat.processes + more)
    return tuple(grown if s is seat else s for s in layout)


# ------------------------------------------------------------ judging one


def _judged(wanted: Wanted, layout: tuple[Seat, ...], scene: Scene) -> _Try:
    prediction = predict(wanted.sessions, layout, scene)
    problems = [*prediction.problems, *_slo_problems(wanted, prediction, "")]
    left: list[Prediction] = []
    if wanted.spare:
        plain = replace(wanted, spare=False)
        for what, rest in losses(layout, scene):
            missing = [s for s in SERVICES if all(seat.service != s for seat in rest)]
            if missing:
                problems += [
                    Problem(f"spare for {s}", f"the loss of {what}", 1, 0.5) for s in missing
                ]
                continue
            tried = _judged(plain, rest, scene)
            problems += [
                replace(p, where=f"{p.where} after the loss of {what}") for p in tried.problems
            ]
            left.append(tried.prediction)
    return _Try(layout, prediction, tuple(left), tuple(problems))


def _slo_problems(wanted: Wanted, prediction: Prediction, where: str) -> list[Problem]:
    return [
        Problem("latency", f"{name} P95{where}", prediction.p95(name), most_s, "s")
        for name, most_s in wanted.p95_s.items()
        if prediction.p95(name) > most_s
    ]


def losses(layout: Sequence[Seat], scene: Scene) -> Iterator[tuple[str, tuple[Seat, ...]]]:
    """What may be lost, and what is left then: each card with all that runs on it (of cards that
    are alike and do the same, one), and one process of each service on a CPU but nats-server."""
    seen = set()
    cards = dict.fromkeys((s.node, s.gpu) for s in layout if s.gpu is not None)
    for node, gpu in cards:
        on_it = tuple(s for s in layout if (s.node, s.gpu) == (node, gpu))
        card = scene.inventory.nodes[node].gpus[gpu]
        kind = (node, card.model, card.memory_bytes, tuple(sorted(s.service for s in on_it)))
        if kind not in seen:
            seen.add(kind)
            yield scene.card_name(node, gpu), tuple(s for s in layout if s not in on_it)
    for seat in layout:
        if seat.gpu is None and seat.service != "nats":
            fewer = replace(seat, processes=seat.processes - 1)
            rest = tuple(fewer if s == seat else s for s in layout)
            yield f"a process of {seat.service}", tuple(s for s in rest if s.processes)


# ------------------------------------------------------------ what would help


def _nowhere(scene: Scene) -> tuple[Problem, ...]:
    """No card takes the largest network."""
    on_cards = [cost for cost in scene.profile.costs.values() if cost.device == "gpu"]
    sizes = [g.memory_bytes for node in scene.inventory.nodes for g in node.gpus]
    cost = max(on_cards, key=lambda c: c.memory_bytes)
    needed = (cost.memory_bytes + cost.session_bytes) / GB
    has = max(sizes, default=0.0) * GPU_MEMORY_SHARE / GB
    if needed > has:
        return (Problem("GPU memory", f"the largest card, for {cost.service}", needed, has, "GB"),)
    total = sum(c.memory_bytes + c.session_bytes for c in on_cards) / GB
    return (Problem("GPU memory", "all cards, for one of each", total, has, "GB"),)


def _what_would_do(
    wanted: Wanted, scene: Scene, problems: Sequence[Problem], most: int
) -> Addition | None:
    """The first addition with which there is a plan, the smallest first. None where even a lone
    visitor with all machines in the world would wait too long."""
    plenty = Node("plenty", 1024.0, 1e13, 0.0, (_fitting_card(scene),) * 4)
    dream = replace(scene, inventory=Inventory((plenty,)), foreign_cores=0.0)
    if _serve(replace(wanted, sessions=1, spare=False), dream)[1] < 1:
        return None
    for addition in _additions(scene, problems):
        larger = replace(scene, inventory=with_addition(scene.inventory, addition))
        if most >= _FLEET and _size(larger) < _HOPE * _size(scene) * wanted.sessions / most:
            continue
        if _serve(wanted, larger)[1] >= wanted.sessions:
            return addition
    return None


def _additions(scene: Scene, problems: Sequence[Problem]) -> Iterator[Addition]:
    nodes = scene.inventory.nodes
    home = max(nodes, key=lambda node: (len(node.gpus), node.cores))
    grown = [2**k for k in range(1, 9)]
    resources = {problem.resource for problem in problems}
    if "processor" in resources or all(c.device == "cpu" for c in scene.profile.costs.values()):
        yield from (Addition(home.name, cores=float(cores)) for cores in grown)
    if "memory" in resources:
        yield from (Addition(home.name, memory_bytes=4.0 * size * GB) for size in grown)
    if any(cost.device == "gpu" for cost in scene.profile.costs.values()):
        card = _fitting_card(scene)
        free = _MOST_CARDS - len(home.gpus)
        yield from (Addition(home.name, gpus=(card,) * n) for n in (1, 2, 4, 8) if n <= free)
        for n in (1, 2, 4, 8):
            if n <= free:
                yield Addition(home.name, 16.0 * n, 64.0 * n * GB, (card,) * n)
    else:
        yield from (Addition(home.name, float(n), 4.0 * n * GB) for n in grown)
    yield from (Addition(home.name, machines=n) for n in (1, 2, 3, 4, 6, 8, 12, 16))


def _size(scene: Scene) -> float:
    """Cards, or cores where no network is on a card."""
    nodes = scene.inventory.nodes
    if any(cost.device == "gpu" for cost in scene.profile.costs.values()):
        return sum(card.speed for node in nodes for card in node.gpus)
    return sum(node.cores for node in nodes)


def _fitting_card(scene: Scene) -> Gpu:
    """The largest card there is if it takes the largest network, else the smallest that does."""
    cost = max(scene.profile.costs.values(), key=lambda c: c.memory_bytes * (c.device == "gpu"))
    needed = (cost.memory_bytes + cost.session_bytes) / GPU_MEMORY_SHARE
    cards = [gpu for node in scene.inventory.nodes for gpu in node.gpus]
    largest = max(cards, key=lambda gpu: gpu.memory_bytes, default=None)
    if largest is not None and largest.memory_bytes >= needed:
        return largest
    size_gb = next((s for s in _CARD_SIZES_GB if s * GB >= needed), math.ceil(needed / GB))
    return Gpu("any", size_gb * GB, "0")
