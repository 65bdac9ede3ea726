"""What carries a plan out: a Compose override for each machine, and the same by hand.

Pure. The names are those of the processes: asr, llm, tts, face, gateway, nats. A service with
replicas on several cards needs an entry for each card, since one entry has one set of devices:
the second one is called asr-2, and needs to be told the image and the bus that the first one has.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from visavis.serving.settings import ENV_PREFIX
from visavis.tools.plan.placement import Plan
from visavis.tools.plan.prediction import SeatLoad

_MB = 1e6
_MOST_SLOTS = 1024
_CHECKPOINT_VARIABLE = "${VISAVIS_LLM_MODEL:?set it to the folder of the checkpoint}"


def overrides(plan: Plan) -> dict[str, dict[str, Any]]:
    """By machine, the content of a Compose file that is laid over the one that runs the stack."""
    found: dict[str, dict[str, Any]] = {}
    for n, node in enumerate(plan.scene.inventory.nodes):
        here = [load for load in plan.prediction.loads if load.seat.node == n]
        services: dict[str, Any] = {}
        for load in sorted(here, key=_reading_order):
            of_service = [name for name in services if name.split("-")[0] == load.seat.service]
            name = load.seat.service + (f"-{len(of_service) + 1}" if of_service else "")
            services[name] = _entry(plan, load, first=not of_service)
        found[node.name] = {"services": services}
    return found


def _reading_order(load: SeatLoad) -> tuple[int, int]:
    names = ("nats", "asr", "llm", "tts", "face", "gateway")
    return names.index(load.seat.service), load.seat.gpu or 0


def _entry(plan: Plan, load: SeatLoad, *, first: bool) -> dict[str, Any]:
    seat = load.seat
    cost = plan.scene.profile.costs[seat.service]
    each = math.ceil(load.sessions / seat.processes)
    main = (
        cost.host_bytes if seat.gpu is not None else cost.memory_bytes + each * cost.session_bytes
    )
    reserved: dict[str, Any] = {"memory": f"{math.ceil(main / _MB)}M"}
    card = plan.scene.card(seat)
    if card is not None:
        device = {"driver": "nvidia", "device_ids": [card.device_id], "capabilities": ["gpu"]}
        reserved["devices"] = [device]
    deploy: dict[str, Any] = {"resources": {"reservations": reserved}}
    if seat.processes > 1:
        deploy["replicas"] = seat.processes
    entry: dict[str, Any] = {"deploy": deploy}
    variables = environment(plan, load)
    if variables:
        entry["environment"] = variables
    prefix = f"{ENV_PREFIX}{seat.service.upper()}_"
    home = next(x.seat.node for x in plan.prediction.loads if x.seat.service == "nats")
    if seat.node != home:
        where = plan.scene.inventory.nodes[home].name
        entry["environment"][f"{prefix}NATS_URL"] = (
            f"${{VISAVIS_NATS_URL:?set it to nats-server on {where}, such as nats://{where}:4222}}"
        )
    if not first:
        image = f"VISAVIS_{seat.service.upper()}_IMAGE"
        entry["image"] = f"${{{image}:?set it to the image of service {seat.service}}}"
        entry["command"] = ["python", "-m", f"services.{seat.service}"]
        entry["environment"].setdefault(f"{prefix}NATS_URL", "nats://nats:4222")
        entry["environment"][f"{prefix}HOST"] = "0.0.0.0"
    return entry


def environment(plan: Plan, load: SeatLoad) -> dict[str, str]:
    """Settings of one process, as variables; its card is the only one that it sees."""
    told = _settings(plan, load, "cuda:0", _CHECKPOINT_VARIABLE)
    prefix = f"{ENV_PREFIX}{load.seat.service.upper()}_"
    return {f"{prefix}{key.replace('-', '_').upper()}": value for key, value in told.items()}


def slots(plan: Plan, load: SeatLoad) -> int:
    """Sessions that a process must take, after a loss as well where there are spares."""
    after = (x for left in plan.after_losses for x in left.loads)
    alike = [x for x in (load, *after) if x.seat.service == load.seat.service]
    most = max(x.sessions / x.seat.processes for x in alike)
    return min(_MOST_SLOTS, math.ceil(most - 1e-9))


def _settings(
    plan: Plan, load: SeatLoad, device: str, checkpoint: str = "FOLDER"
) -> dict[str, str]:
    service = load.seat.service
    if service == "nats":
        return {}
    if service == "gateway":
        return {"max-sessions": str(slots(plan, load))}
    told = {"slots": str(slots(plan, load))}
    if load.seat.gpu is not None:
        told["device"] = device
        if service == "llm":
            told["backend"] = "tensorrt_llm"
            told["model"] = checkpoint
    return told


# ------------------------------------------------------------ by hand


def by_hand(plan: Plan) -> Iterator[str]:
    """Command lines that start the same without containers; one machine without a card needs one
    command and a file of settings."""
    nodes = plan.scene.inventory.nodes
    loads = plan.prediction.loads
    if len(nodes) == 1 and all(load.seat.gpu is None for load in loads):
        yield from _up(plan, loads)
        return
    home = next(load.seat.node for load in loads if load.seat.service == "nats")
    bus = f"nats://{nodes[home].name}:4222"
    for n, node in enumerate(nodes):
        yield f"# on {node.name}"
        for load in sorted((x for x in loads if x.seat.node == n), key=_reading_order):
            yield from _processes(plan, load, bus)


def _up(plan: Plan, loads: Sequence[SeatLoad]) -> Iterator[str]:
    several = [(x.seat.service, x.seat.processes) for x in loads if x.seat.processes > 1]
    replicas = ",".join(f"{service}={count}" for service, count in several)
    yield "visavis up --config plan.toml" + (f" --replicas {replicas}" if replicas else "")
    yield "# plan.toml"
    for load in sorted(loads, key=_reading_order):
        settings: Mapping[str, str] = _settings(plan, load, "cpu")
        if settings:
            told = ", ".join(f"{k.replace('-', '_')} = {v}" for k, v in settings.items())
            yield f"[{load.seat.service}]"
            yield told


def _processes(plan: Plan, load: SeatLoad, bus: str) -> Iterator[str]:
    seat = load.seat
    if seat.service == "nats":
        yield "nats-server -js"
        return
    settings = _settings(plan, load, f"cuda:{seat.gpu}")
    flags = " ".join(f"--{key} {value}" for key, value in settings.items())
    if seat.service == "gateway" and seat.processes > 1:
        flags += " --share-port true"
    module = "gateway" if seat.service == "gateway" else f"services.{seat.service}"
    times = f"   # {seat.processes} of these" if seat.processes > 1 else ""
    yield f"python -m {module} --nats-url {bus} --host 0.0.0.0 {flags}{times}"
