"""What carries a plan out on a cluster: a Kustomize overlay over deploy/kubernetes. Pure.

A Deployment knows one machine, one number of slots and one kind of place, so each machine of the
plan has Deployments of its own. They are the base's, taken once more by a kustomization for each
machine: the first one keeps all else that the base has, the further ones nothing but their
Deployments, under names that end in -2, -3. Machines are known by a label, because a cluster gives
its nodes names of its own.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from visavis.serving.errors import InvalidInputError
from visavis.serving.settings import ENV_PREFIX, SECTIONS
from visavis.tools.plan.compose import environment, host_bytes, slots
from visavis.tools.plan.inventory import GB, Node
from visavis.tools.plan.placement import Plan
from visavis.tools.plan.prediction import SeatLoad

MACHINE_LABEL = "visavis/machine"
CONTEXT_TOKENS = 2048
"""What profiles count as a session of a language model; its own default."""
_NAME = "app.kubernetes.io/name"
_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?")
_MIB = 2**20
_LIMIT_GB = 2.0
_LLM_LIMIT_GB = 16.0
"""What components/gpu allows TensorRT-LLM of the main memory."""
_INSTEAD = "or carry the plan out with --compose"

Files = dict[str, dict[str, Any]]


def overlay(plan: Plan, manifests: str) -> Files:
    """By path in the overlay's folder, what each file says.

    manifests: where deploy/kubernetes is, as seen from that folder. Raises InvalidInputError, with
    what to do instead, where a cluster cannot be told what is planned.
    """
    _check(plan)
    machines = _machines(plan)
    files: Files = {}
    for number, node in enumerate(machines, 1):
        folder = f"{plan.scene.inventory.nodes[node].name}/" if len(machines) > 1 else ""
        patches = _patches(plan, node, alone=len(machines) == 1)
        if number == 1:
            patches["bus"] = _bus(plan)
        files |= {f"{folder}{name}.patch.yaml": patch for name, patch in patches.items()}
        above = f"../{manifests}" if folder else manifests
        files[f"{folder}kustomization.yaml"] = {
            **_kustomization([f"{above}/base"]),
            **({"components": [f"{above}/components/gpu"]} if _on_cards(plan) else {}),
            **({"nameSuffix": f"-{number}"} if number > 1 else {}),
            "patches": [
                *_left_out(plan, node, first=number == 1, alone=len(machines) == 1),
                *({"path": f"{name}.patch.yaml"} for name in patches),
            ],
        }
    if len(machines) > 1:
        nodes = plan.scene.inventory.nodes
        files["kustomization.yaml"] = _kustomization([nodes[node].name for node in machines])
    return files


def labels(plan: Plan) -> Iterator[str]:
    """Commands by which the cluster learns which of its nodes is which machine."""
    for node in _machines(plan):
        machine = plan.scene.inventory.nodes[node]
        shared = any(len(services) > 1 for services in _of_cards(plan, node).values())
        turns = " nvidia.com/device-plugin.config=any" if shared else ""
        yield f"kubectl label node NODE {MACHINE_LABEL}={machine.name}{turns}"


def _machines(plan: Plan) -> list[int]:
    """Machines with something to do besides the bus, which Kubernetes places."""
    nodes = range(len(plan.scene.inventory.nodes))
    return [n for n in nodes if any(_loads(plan, n, service) for service in SECTIONS)]


def _loads(plan: Plan, node: int, service: str) -> list[SeatLoad]:
    loads = plan.prediction.loads
    return [load for load in loads if (load.seat.node, load.seat.service) == (node, service)]


def _of_cards(plan: Plan, node: int) -> dict[int, list[str]]:
    """What is on each card of a machine that has something."""
    found: dict[int, list[str]] = {}
    for load in plan.prediction.loads:
        if load.seat.node == node and load.seat.gpu is not None:
            found.setdefault(load.seat.gpu, []).append(load.seat.service)
    return found


def _on_cards(plan: Plan) -> bool:
    return any(load.seat.gpu is not None for load in plan.prediction.loads)


# ------------------------------------------------------------ what cannot be told


def _check(plan: Plan) -> None:
    """A pod asks for a card of its node, and is given any: NVIDIA's device plugin chooses."""
    for n, node in enumerate(plan.scene.inventory.nodes):
        if not _VALUE.fullmatch(node.name):
            raise InvalidInputError(
                f"--kubernetes: the machine {node.name!r} cannot be a label's value: at most 63 of "
                "a-z, A-Z, 0-9, - and _, the first and the last a letter or a digit"
            )
        if used := _of_cards(plan, n):
            _check_cards(node, used)
    if _on_cards(plan) and any(
        load.seat.gpu is None for load in plan.prediction.loads if load.seat.service == "llm"
    ):
        raise InvalidInputError(
            "--kubernetes: the plan has the language model on a CPU and others on cards, for which "
            f'deploy/kubernetes has no component: give it `device = "gpu"`, {_INSTEAD}'
        )


def _check_cards(node: Node, used: Mapping[int, Sequence[str]]) -> None:
    if any(not card.device_id.isdecimal() for card in node.gpus):
        raise InvalidInputError(
            f"--kubernetes: cards of {node.name} are named by uuid, and a pod is given any card of "
            f"its node: leave `uuid` out where any of them will do, {_INSTEAD}"
        )
    if len(node.gpus) == 1:
        return
    if len({(card.model, card.memory_bytes, card.speed) for card in node.gpus}) > 1:
        models = ", ".join(dict.fromkeys(card.model for card in node.gpus))
        raise InvalidInputError(
            f"--kubernetes: cards of {node.name} are of several kinds ({models}), and a pod is "
            "given any card of its node: take machines whose cards are alike, or that have one, "
            f"{_INSTEAD}"
        )
    for services in used.values():
        if len(services) > 1:
            raise InvalidInputError(
                f"--kubernetes: {' and '.join(services)} share one of the {len(node.gpus)} cards "
                f"of {node.name}; sharing (time-slicing) is a node's, for all of its cards, and "
                "does not say who shares with whom: take machines with one card each, or so many "
                f"cards that nothing shares, {_INSTEAD}"
            )


# ------------------------------------------------------------ kustomizations


def _kustomization(resources: Sequence[str]) -> dict[str, Any]:
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": "visavis",
        "resources": list(resources),
    }


def _left_out(plan: Plan, node: int, *, first: bool, alone: bool) -> Iterator[dict[str, Any]]:
    """What of the base has no place on this machine, and what a plan's numbers replace."""
    here = [service for service in SECTIONS if _loads(plan, node, service)]
    if not first:
        yield _delete(labelSelector=f"{_NAME} notin ({', '.join(here)})")
        return
    # So many are planned: nobody adds or takes away.
    yield _delete(kind="ScaledObject")
    if gone := "|".join(service for service in SECTIONS if service not in here):
        yield _delete(kind="Deployment", name=gone)
    if alone:
        # Any disk will do that one node has.
        modes = {"op": "replace", "path": "/spec/accessModes", "value": ["ReadWriteOnce"]}
        yield {"target": {"kind": "PersistentVolumeClaim"}, "patch": json.dumps([modes])}


def _delete(**target: str) -> dict[str, Any]:
    """What the patch is called does not count: its target says what goes."""
    patch = {"apiVersion": "v1", "kind": "Any", "metadata": {"name": "any"}, "$patch": "delete"}
    return {"target": target, "patch": json.dumps(patch)}


# ------------------------------------------------------------ patches


def _patches(plan: Plan, node: int, *, alone: bool) -> Files:
    """By service, what this machine's Deployment of it says otherwise than the base's."""
    return {
        service: _deployment(plan, service, loads, alone=alone)
        for service in SECTIONS
        if (loads := _loads(plan, node, service))
    }


def _deployment(
    plan: Plan, service: str, loads: Sequence[SeatLoad], *, alone: bool
) -> dict[str, Any]:
    """Of the processes of a service on one machine; a process each pod."""
    load = max(loads, key=lambda one: slots(plan, one))
    machine = plan.scene.inventory.nodes[load.seat.node]
    labelled = {MACHINE_LABEL: machine.name}
    on_card = load.seat.gpu is not None
    pod: dict[str, Any] = {"nodeSelector": labelled, "containers": [_container(plan, load)]}
    template: dict[str, Any] = {"spec": pod}
    spec: dict[str, Any] = {"replicas": sum(one.seat.processes for one in loads)}
    if not alone:
        # Deployments of one service on several machines: each knows its own pods.
        spec["selector"] = {"matchLabels": labelled}
        template["metadata"] = {"labels": labelled}
    if on_card:
        # Each has its card; the next one comes once one has gone.
        spec["strategy"] = {"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}
    if _on_cards(plan) and service != "gateway":
        cost = plan.scene.profile.costs[service]
        taken = cost.memory_bytes + slots(plan, load) * cost.session_bytes
        budget = str(math.ceil(taken / _MIB)) if on_card else None
        template.setdefault("metadata", {})["annotations"] = {"visavis/gpu-memory-mib": budget}
    elif machine.gpus:
        pod["tolerations"] = [
            {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
        ]
    return _patch("Deployment", service, {**spec, "template": template})


def _container(plan: Plan, load: SeatLoad) -> dict[str, Any]:
    service, on_card = load.seat.service, load.seat.gpu is not None
    told = environment(plan, load, devices=_on_cards(plan))
    resources = _resources(plan, load)
    if service == "llm" and on_card:
        tokens = slots(plan, load) * CONTEXT_TOKENS
        told[f"{ENV_PREFIX}LLM_KV_CACHE_TOKENS"] = str(tokens)
    if service != "gateway" and _on_cards(plan) and not on_card:
        resources["limits"]["nvidia.com/gpu"] = None  # components/gpu gives it one
    return {
        "name": "gateway" if service == "gateway" else "service",
        "env": [{"name": name, "value": value} for name, value in told.items()],
        "resources": resources,
    }


def _resources(plan: Plan, load: SeatLoad) -> dict[str, Any]:
    """Of one process: asked for is what is planned, allowed is twice as much."""
    seat, cost = load.seat, plan.scene.profile.costs[load.seat.service]
    cores = cost.base_cores + load.sessions / seat.processes * cost.cores(plan.scene.habits.duty)
    memory = host_bytes(plan, load)
    most_gb = _LLM_LIMIT_GB if seat.service == "llm" and seat.gpu is not None else _LIMIT_GB
    return {
        "requests": {"cpu": f"{math.ceil(1000 * cores)}m", "memory": _megabytes(memory)},
        "limits": {"memory": _megabytes(max(2 * memory, most_gb * GB))},
    }


def _bus(plan: Plan) -> dict[str, Any]:
    """Each of the base's three servers asks for what the plan's one takes."""
    load = next(load for load in plan.prediction.loads if load.seat.service == "nats")
    container = {"name": "nats", "resources": _resources(plan, load)}
    return _patch("StatefulSet", "bus", {"template": {"spec": {"containers": [container]}}})


def _megabytes(size: float) -> str:
    return f"{math.ceil(size / 1e6)}M"


def _patch(kind: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": dict(spec)}
