"""What visitors of a layout would meet, and what it would be busy with. Pure.

A layout says which service has a replica where. Of each replica `queueing` tells how busy it is and
how long an answer waits there; services that share a card or the cores of a machine slow each
other down. What a visitor waits is the sum over his stages.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from visavis.tools.bench.load.schedule import Habits
from visavis.tools.plan import queueing
from visavis.tools.plan.inventory import Gpu, Inventory
from visavis.tools.plan.profiles import Profile
from visavis.tools.plan.queueing import MOST_BUSY, Delay

FACE_LANES = 2
"""Threads that draw, of one face process; its own default."""
GPU_MEMORY_SHARE = 0.92
"""Of a card's memory: the rest is the driver's, and fragments."""
HOST_MEMORY_SHARE = 0.9
START_GRID_S = 0.01
"""An awaited voice begins on it."""
_ROUNDS = 60


@dataclass(frozen=True, slots=True)
class Seat:
    """A service's replica on one card, or its processes on the cores of one machine."""

    service: str
    node: int
    gpu: int | None = None
    processes: int = 1


@dataclass(frozen=True, slots=True)
class SeatLoad:
    """What a replica has to do. busy: share of the time in which it is at work; full: of what it
    can do at most, batches included."""

    seat: Seat
    sessions: float
    busy: float
    full: float
    delay: Delay


@dataclass(frozen=True, slots=True)
class Problem:
    """What does not fit, where, and by how much. unit: GB, cores, s or "" for a share."""

    resource: str
    where: str
    needed: float
    available: float
    unit: str = ""

    def __str__(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        gap = abs(self.needed - self.available)
        if self.resource == "latency":
            return (
                f"{self.where} would be {self.needed:.3g} s, {self.available:.3g} s are wanted: "
                f"{gap:.2g} s too long"
            )
        if self.resource == "throughput":
            return (
                f"{self.where} would be asked for {self.needed:.0%} of what it can do, "
                f"{self.available:.0%} is the most that is planned for"
            )
        return (
            f"{self.resource} of {self.where}: {self.needed:.3g}{unit} needed, "
            f"{self.available:.3g}{unit} to be had, {gap:.2g}{unit} too little"
        )


@dataclass(frozen=True, slots=True)
class Prediction:
    """A layout with so many sessions. P95s are of the worst placed of them."""

    sessions: int
    voice: Delay
    text: Delay
    loads: tuple[SeatLoad, ...]
    gpu_bytes: Mapping[tuple[int, int], float]
    node_bytes: tuple[float, ...]
    node_cores: tuple[float, ...]
    problems: tuple[Problem, ...]

    def p95(self, figure: str) -> float:
        """Of voice_to_voice or text_to_voice, seconds."""
        return (self.voice if figure == "voice_to_voice" else self.text).p95_s

    def gpu_busy(self, node: int, gpu: int) -> float:
        """Share of the time in which anything runs on a card."""
        idle = 1.0
        for load in self.loads:
            if (load.seat.node, load.seat.gpu) == (node, gpu):
                idle *= 1.0 - min(1.0, load.busy)
        return 1.0 - idle


# ------------------------------------------------------------ a layout


@dataclass(frozen=True)
class Scene:
    """What a prediction stands on besides the layout."""

    inventory: Inventory
    profile: Profile
    habits: Habits
    foreign_cores: float = 0.0
    """Of each machine, what other work takes."""

    def card(self, seat: Seat) -> Gpu | None:
        return None if seat.gpu is None else self.inventory.nodes[seat.node].gpus[seat.gpu]

    def card_name(self, node: int, gpu: int) -> str:
        machine = self.inventory.nodes[node]
        return f"card {machine.gpus[gpu].device_id} ({machine.gpus[gpu].model}) in {machine.name}"


def predict(sessions: int, layout: Sequence[Seat], scene: Scene) -> Prediction:
    """So many sessions on a layout that has a seat of every service."""
    shares = shared_out(sessions, layout, scene)
    node_cores = _cores(layout, shares, scene)
    stretches = _stretches(sessions, layout, shares, scene)
    loads = _loads(layout, shares, stretches, scene)
    gpu_bytes, node_bytes = memory(layout, shares, scene)
    voice, text = _latencies(loads, stretches, scene)
    problems = [
        *_memory_problems(gpu_bytes, node_bytes, scene),
        *_load_problems(loads, node_cores, scene),
    ]
    return Prediction(
        sessions, voice, text, loads, gpu_bytes, node_bytes, tuple(node_cores), tuple(problems)
    )


def shared_out(sessions: int, layout: Sequence[Seat], scene: Scene) -> list[float]:
    """Sessions of each seat: by the card's speed or the number of processes, as far as the
    memory of the card goes; the gateway takes the replica with most room."""
    shares = [0.0] * len(layout)
    for service in scene.profile.costs:
        places = [i for i, seat in enumerate(layout) if seat.service == service]
        left, open_places = float(sessions), places
        while left > 1e-9 and open_places:
            total = sum(_weight(layout[i], scene) for i in open_places)
            parts = {i: left * _weight(layout[i], scene) / total for i in open_places}
            most = {i: _most(layout, i, sessions, scene) for i in open_places}
            full = [i for i in open_places if shares[i] + parts[i] >= most[i]]
            if not full or len(full) == len(open_places):
                for i in open_places:
                    shares[i] += parts[i]
                break
            for i in full:
                left -= max(0.0, most[i] - shares[i])
                shares[i] = max(shares[i], most[i])
            open_places = [i for i in open_places if i not in full]
    return shares


def _weight(seat: Seat, scene: Scene) -> float:
    card = scene.card(seat)
    return float(seat.processes) if card is None else card.speed


def _most(layout: Sequence[Seat], place: int, sessions: int, scene: Scene) -> float:
    """How many sessions a replica of a language model has memory for on its card."""
    seat, card = layout[place], scene.card(layout[place])
    costs = scene.profile.costs
    if card is None or seat.service != "llm":
        return math.inf
    here = [s for s in layout if (s.node, s.gpu) == (seat.node, seat.gpu)]
    taken = sum(costs[s.service].memory_bytes for s in here)
    for other in here:
        if other.service != "llm":
            of_kind = sum(s.service == other.service for s in layout)
            taken += costs[other.service].session_bytes * math.ceil(sessions / of_kind)
    left = card.memory_bytes * GPU_MEMORY_SHARE - taken
    return max(0.0, math.floor(left / max(1.0, costs["llm"].session_bytes)))


def _cores(layout: Sequence[Seat], shares: Sequence[float], scene: Scene) -> list[float]:
    cores = [scene.foreign_cores] * len(scene.inventory.nodes)
    for seat, share in zip(layout, shares, strict=True):
        cost = scene.profile.costs[seat.service]
        cores[seat.node] += share * cost.cores(scene.habits.duty) + seat.processes * cost.base_cores
    return cores


def _stretches(
    sessions: int, layout: Sequence[Seat], shares: Sequence[float], scene: Scene
) -> list[Delay]:
    """How many times longer work takes on each machine than where nobody else is."""
    talking = [0.0] * len(scene.inventory.nodes)
    idle = list(talking)
    for seat, share in zip(layout, shares, strict=True):
        cost = scene.profile.costs[seat.service]
        talking[seat.node] += cost.cores_talking * share / sessions
        idle[seat.node] += cost.cores_idle * share / sessions
    nodes = scene.inventory.nodes
    return [
        queueing.stretch(
            sessions,
            queueing.Appetite(talking[n], idle[n], scene.foreign_cores),
            node.cores,
            scene.habits.duty,
        )
        for n, node in enumerate(nodes)
    ]


def _loads(
    layout: Sequence[Seat], shares: Sequence[float], stretches: Sequence[Delay], scene: Scene
) -> tuple[SeatLoad, ...]:
    """Of each seat; those that share a card slow each other down, found by going round."""
    busy = [0.0] * len(layout)
    loads: list[SeatLoad] = []
    cards: dict[tuple[int, int | None], list[int]] = {}
    for place, seat in enumerate(layout):
        cards.setdefault((seat.node, seat.gpu), []).append(place)
    for _ in range(_ROUNDS):
        loads = []
        for place, (seat, share) in enumerate(zip(layout, shares, strict=True)):
            card = scene.card(seat)
            scale = stretches[seat.node].mean_s
            if card is not None:
                others = (i for i in cards[seat.node, seat.gpu] if i != place)
                scale = (1.0 + sum(busy[i] for i in others)) / card.speed
            loads.append(_load(seat, share, scale, scene))
        now = [min(1.0, load.busy) for load in loads]
        settled = max(abs(a - b) for a, b in zip(now, busy, strict=True)) < 1e-5
        busy = now
        if settled:
            break
    return tuple(loads)


def _load(seat: Seat, sessions: float, scale: float, scene: Scene) -> SeatLoad:
    habits, turn = scene.habits, scene.profile.turn
    cost = scene.profile.costs[seat.service]
    rate = sessions / habits.interval_s
    busy = full = 0.0
    delay = Delay()
    if seat.service == "asr":
        each = rate * habits.spoken_share / seat.processes
        busy, delay = queueing.listening(cost, turn, each, scale)
        full = busy
    elif seat.service == "llm":
        busy, full, delay = queueing.writing(cost, rate / seat.processes, scale)
    elif seat.service == "tts":
        busy, delay = queueing.speaking(cost, rate / seat.processes, scale)
        full = busy
    elif seat.service == "face":
        activity = min(1.0, (turn.answer_s + cost.tail_s) / habits.interval_s)
        lanes = 1.0 if seat.gpu is not None else float(FACE_LANES * seat.processes)
        busy, full, delay = queueing.drawing(cost, activity, sessions, scale, lanes)
    elif seat.service == "gateway":
        busy = sessions * cost.cores(habits.duty) / seat.processes
        full = busy / cost.process_cores * MOST_BUSY
    return SeatLoad(seat, sessions, busy, full, delay)


def memory(
    layout: Sequence[Seat], shares: Sequence[float], scene: Scene
) -> tuple[dict[tuple[int, int], float], tuple[float, ...]]:
    """Bytes of each card, by (node, card), and of each machine."""
    gpus: dict[tuple[int, int], float] = {}
    nodes = [0.0] * len(scene.inventory.nodes)
    for seat, share in zip(layout, shares, strict=True):
        cost = scene.profile.costs[seat.service]
        of_sessions = cost.session_bytes * math.ceil(share - 1e-9)
        if seat.gpu is None:
            nodes[seat.node] += seat.processes * cost.memory_bytes + of_sessions
        else:
            nodes[seat.node] += cost.host_bytes
            place = (seat.node, seat.gpu)
            gpus[place] = gpus.get(place, 0.0) + cost.memory_bytes + of_sessions
    return gpus, tuple(nodes)


def _latencies(
    loads: Sequence[SeatLoad], stretches: Sequence[Delay], scene: Scene
) -> tuple[Delay, Delay]:
    """Voice to voice and text to voice of a visitor whose stages are the worst of each."""

    def worst(service: str) -> Delay:
        delays = []
        for load in loads:
            if load.seat.service == service:
                delay, slow = load.delay, stretches[load.seat.node]
                if load.seat.gpu is None:  # the cores are now more, now less busy
                    extra = slow.variance * (delay.mean_s / slow.mean_s) ** 2
                    delay = Delay(delay.mean_s, delay.variance + extra)
                delays.append(delay)
        return max(delays, key=lambda d: d.p95_s)

    turn = scene.profile.turn
    gateway = max(stretches[x.seat.node].mean_s for x in loads if x.seat.service == "gateway")
    after = [worst(service) for service in ("llm", "tts", "face")]
    asr = worst("asr")
    out_s = turn.overhead_s * gateway + START_GRID_S / 2.0 + turn.transport_s
    made_s = sum(delay.mean_s for delay in after)
    variance = sum(delay.variance for delay in after) + START_GRID_S**2 / 12.0
    heard_s = max(turn.end_wait_s, turn.notice_s + asr.mean_s + made_s)
    voice = Delay(heard_s + out_s, variance + asr.variance + turn.spread_s**2)
    read = max((_read(load, stretches, scene) for load in loads), key=lambda d: d.mean_s)
    text = Delay(read.mean_s + made_s + out_s, read.variance + variance + turn.spread_s**2)
    return voice, text


def _read(load: SeatLoad, stretches: Sequence[Delay], scene: Scene) -> Delay:
    """What a typed question takes longer than one that was read while it was spoken."""
    read_s, card = scene.profile.costs[load.seat.service].read_s, scene.card(load.seat)
    if card is not None:
        return Delay(read_s / card.speed)
    slow = stretches[load.seat.node]
    return Delay(read_s * slow.mean_s, read_s**2 * slow.variance)


def _memory_problems(
    gpu_bytes: Mapping[tuple[int, int], float], node_bytes: Sequence[float], scene: Scene
) -> list[Problem]:
    found = []
    for (node, gpu), needed in gpu_bytes.items():
        has = scene.inventory.nodes[node].gpus[gpu].memory_bytes * GPU_MEMORY_SHARE
        if needed > has:
            where = scene.card_name(node, gpu)
            found.append(Problem("GPU memory", where, needed / 1e9, has / 1e9, "GB"))
    for node, needed in enumerate(node_bytes):
        machine = scene.inventory.nodes[node]
        has = machine.memory_bytes * HOST_MEMORY_SHARE
        if needed > has:
            found.append(Problem("memory", machine.name, needed / 1e9, has / 1e9, "GB"))
    return found


def _load_problems(
    loads: Sequence[SeatLoad], node_cores: Sequence[float], scene: Scene
) -> list[Problem]:
    found = []
    for node, cores in enumerate(node_cores):
        machine = scene.inventory.nodes[node]
        if cores > machine.cores * MOST_BUSY:
            most = machine.cores * MOST_BUSY
            found.append(Problem("processor", machine.name, cores, most, "cores"))
    for load in loads:
        if load.full > MOST_BUSY:
            seat = load.seat
            place = scene.inventory.nodes[seat.node].name
            if seat.gpu is not None:
                place = scene.card_name(seat.node, seat.gpu)
            name = f"{seat.service} on {place}"
            found.append(Problem("throughput", name, load.full, MOST_BUSY))
    return found
