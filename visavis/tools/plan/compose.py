"""What carries a plan out: a Compose override for each machine, and the same by hand.

Pure. The override is laid over deploy/compose.yaml, and over deploy/compose.gpu.yaml where the
machine has cards; services, settings, images and volumes are called as there, and a test holds it
by having Compose render them together. Compose tells one entry by one name, one set of devices and
one address, so each further process of a service has an entry of its own: asr-2.
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
_BUS = "nats://bus:4222"
_CARD_IMAGES = {
    "asr": "visavis-asr-gpu",
    "llm": "visavis-llm-tensorrt",
    "tts": "visavis-tts-gpu",
    "face": "visavis-face-gpu",
    "gateway": "visavis-gateway",
}


class Instead(list[Any]):
    """A list that takes the place of the one below it; others are added to that by Compose."""


def overrides(plan: Plan) -> dict[str, dict[str, Any]]:
    """By machine, the content of a Compose file that is laid over the one that runs the stack."""
    found: dict[str, dict[str, Any]] = {}
    for n, node in enumerate(plan.scene.inventory.nodes):
        here = [load for load in plan.prediction.loads if load.seat.node == n]
        services: dict[str, Any] = {}
        for load in sorted(here, key=_reading_order):
            called = "bus" if load.seat.service == "nats" else load.seat.service
            for _ in range(load.seat.processes):
                of_service = [name for name in services if name.split("-")[0] == called]
                name = called + (f"-{len(of_service) + 1}" if of_service else "")
                services[name] = _entry(plan, load, name)
        found[node.name] = {"services": services}
    return found


def _reading_order(load: SeatLoad) -> tuple[int, int]:
    names = ("nats", "asr", "llm", "tts", "face", "gateway")
    return names.index(load.seat.service), load.seat.gpu or 0


def _entry(plan: Plan, load: SeatLoad, name: str) -> dict[str, Any]:
    """Of one process, as the service `name`."""
    seat = load.seat
    card, gpus = plan.scene.card(seat), bool(plan.scene.inventory.nodes[seat.node].gpus)
    reserved: dict[str, Any] = {"memory": f"{math.ceil(host_bytes(plan, load) / _MB)}M"}
    deploy = {"resources": {"reservations": reserved}}
    if seat.service == "nats":
        return {"deploy": deploy}
    further = name != seat.service
    if card is not None:
        device = {"driver": "nvidia", "device_ids": [card.device_id], "capabilities": ["gpu"]}
        reserved["devices"] = Instead([device])
    elif gpus and seat.service != "gateway" and not further:
        reserved["devices"] = Instead()  # compose.gpu.yaml gives it one
    entry = _further(seat.service, name, gpus=gpus) if further else {}
    told = {**entry.get("environment", {}), **environment(plan, load, devices=gpus)}
    if seat.service == "gateway" and not further and _gateways(plan) > 1:
        told[f"{ENV_PREFIX}GATEWAY_ADVERTISE"] = name
    home = next(x.seat.node for x in plan.prediction.loads if x.seat.service == "nats")
    if seat.node != home:
        where = plan.scene.inventory.nodes[home].name
        told[f"{ENV_PREFIX}{seat.service.upper()}_NATS_URL"] = (
            f"${{VISAVIS_NATS_URL:?set it to nats-server on {where}, such as nats://{where}:4222}}"
        )
    return {**entry, "deploy": deploy, "environment": told}


def _further(service: str, name: str, *, gpus: bool) -> dict[str, Any]:
    """What deploy/compose.yaml says of a service once, for one more process of it.

    gpus: as with deploy/compose.gpu.yaml over it.
    """
    prefix = f"{ENV_PREFIX}{service.upper()}_"
    told = {
        f"{prefix}NATS_URL": _BUS,
        f"{prefix}NATS_PASSWORD_FILE": f"/run/secrets/bus_{service}",
        f"{prefix}STACK_SECRET_FILE": "/run/secrets/stack",
        f"{prefix}ADVERTISE": name,
    }
    entry: dict[str, Any] = {
        "image": _CARD_IMAGES[service] if gpus else f"visavis-{service}",
        "environment": told,
        "read_only": True,
        "tmpfs": ["/tmp"],
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "restart": "unless-stopped",
        "stop_grace_period": "60s",
        "depends_on": {"buckets": {"condition": "service_healthy"}},
        "secrets": [f"bus_{service}", "stack"],
    }
    if service == "gateway":
        # Visitors come in by the first one, which hands them on.
        told[f"{prefix}API_KEY_FILE"] = "/run/secrets/api_key"
        told[f"{prefix}TOKEN_KEY_FILE"] = "/run/secrets/token_key"
        told[f"{prefix}RECORDING_DIR"] = "/data/recordings"
        return {
            **entry,
            "secrets": ["api_key", *entry["secrets"], "token_key"],
            "volumes": ["recordings:/data"],
        }
    told[f"{prefix}PROFILE"] = "${PROFILE:-default}"
    entry["depends_on"]["weights"] = {"condition": "service_completed_successfully"}
    entry["volumes"] = ["weights:/models:ro", "plans:/plans"]
    if service == "face":
        entry["volumes"].append("avatars:/data")
    if service == "llm" and gpus:
        told["HOME"] = "/tmp"
        told[f"{prefix}KV_CACHE_FRACTION"] = "${LLM_KV_CACHE_FRACTION:-0.3}"
        entry["volumes"] = ["${CHECKPOINT:?a folder with a checkpoint}:/models/llm:ro"]
        # What it compiles for the GPU is loaded from there.
        entry |= {"tmpfs": ["/tmp:exec"], "ipc": "host"}
        entry["ulimits"] = {"memlock": -1, "stack": 67108864}
    return entry


def _gateways(plan: Plan) -> int:
    loads = plan.prediction.loads
    return sum(load.seat.processes for load in loads if load.seat.service == "gateway")


def environment(plan: Plan, load: SeatLoad, *, devices: bool) -> dict[str, str]:
    """Settings of one process, as variables; its card is the only one that it sees.

    devices: what it is laid over has given it one, so it is told which it has. What TensorRT-LLM
    needs to know of its checkpoint is in its image.
    """
    service = load.seat.service
    told = {"slots": str(slots(plan, load))}
    if service == "gateway":
        told = {"max-sessions": str(slots(plan, load))}
    elif devices:
        told["device"] = "cpu" if load.seat.gpu is None else "cuda:0"
    prefix = f"{ENV_PREFIX}{service.upper()}_"
    return {f"{prefix}{key.replace('-', '_').upper()}": value for key, value in told.items()}


def host_bytes(plan: Plan, load: SeatLoad) -> float:
    """Main memory that one process is planned to take."""
    seat, cost = load.seat, plan.scene.profile.costs[load.seat.service]
    if seat.gpu is not None:
        return cost.host_bytes
    return cost.memory_bytes + math.ceil(load.sessions / seat.processes) * cost.session_bytes


def slots(plan: Plan, load: SeatLoad) -> int:
    """Sessions that a process must take, after a loss as well where there are spares."""
    after = (x for left in plan.after_losses for x in left.loads)
    alike = [x for x in (load, *after) if x.seat.service == load.seat.service]
    most = max(x.sessions / x.seat.processes for x in alike)
    return min(_MOST_SLOTS, math.ceil(most - 1e-9))


def _settings(plan: Plan, load: SeatLoad, device: str) -> dict[str, str]:
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
            told["model"] = "FOLDER"
    return told


# ------------------------------------------------------------ by hand

# A gateway that others can reach does not start without.
_KEYS = "--api-key-file key --token-key-file token-key"
_MAKE_KEYS = "openssl rand -hex 24 > key; openssl rand -hex 32 > token-key"


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
    yield f"# beside every gateway, the same: {_MAKE_KEYS}"
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
    if seat.service == "gateway":
        flags += f" {_KEYS}" + (" --share-port true" if seat.processes > 1 else "")
    module = "gateway" if seat.service == "gateway" else f"services.{seat.service}"
    times = f"   # {seat.processes} of these" if seat.processes > 1 else ""
    yield f"python -m {module} --nats-url {bus} --host 0.0.0.0 {flags}{times}"
