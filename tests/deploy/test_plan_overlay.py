"""What `visavis plan --kubernetes` writes: rendered, it is the plan, and fits the machines."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from services.llm.settings import LlmSettings
from tests.deploy.checkers import CUSTOM, Resource, assert_accepted, rendered
from tests.deploy.test_kubernetes import MEMORY, SETTINGS, containers
from visavis.serving.errors import InvalidInputError
from visavis.tools.cli.main import app

# docs/plan.md: one card of 24 GB, four mixed ones in two machines, eight of 80 GB.
ONE = [("box", 16, 64, [("L4", 24, 1)])]
MIXED = [
    ("large", 32, 128, [("L40S", 48, 1), ("A10", 24, 1)]),
    ("small", 16, 64, [("L4", 24, 1), ("T4", 16, 1)]),
]
EIGHT = [("big", 128, 1024, [("A100", 80, 8)])]
# The four mixed ones, each in a machine of its own: what a cluster can be told.
APART = [
    (f"m{number}", 16, 64, [card])
    for number, card in enumerate(cards for machine in MIXED for cards in machine[3])
]
CORES = [("cores", 16, 64, [])]
Machines = list[tuple[str, int, int, list[tuple[str, int, int]]]]


@dataclass(frozen=True)
class Written:
    """What the command made, and what it said."""

    machines: Machines
    told: dict[str, Any]
    output: str
    resources: list[Resource]

    def pods(self) -> list[tuple[str, str, Resource]]:
        """Machine, service and Deployment, for each replica of it."""
        return [
            (
                one["spec"]["template"]["spec"]["nodeSelector"]["visavis/machine"],
                one["metadata"]["labels"]["app.kubernetes.io/name"],
                one,
            )
            for one in self.resources
            if one["kind"] == "Deployment" and one["metadata"]["name"] != "buckets"
            for _ in range(one["spec"]["replicas"])
        ]


def planned(machines: Machines, folder: Path, *options: str) -> Written:
    file, told = folder / "inventory.yaml", folder / "plan.json"
    nodes = [
        {
            "name": name,
            "cores": cores,
            "memory_gb": memory,
            "price_per_hour": 1,
            "gpus": [{"model": m, "memory_gb": gb, "count": n} for m, gb, n in cards],
        }
        for name, cores, memory, cards in machines
    ]
    file.write_text(yaml.safe_dump({"nodes": nodes}), encoding="utf-8")
    flags = ["--gpus", str(file), "--json", str(told), "--kubernetes", str(folder / "overlay")]
    done = CliRunner().invoke(app, ["plan", *flags, *options])
    if done.exception is not None:
        raise done.exception
    made = json.loads(told.read_text(encoding="utf-8"))
    return Written(machines, made, done.output, rendered(str(folder / "overlay")))


@pytest.fixture(
    scope="module",
    params=[
        (ONE, ("--sessions", "4", "--profile", "gpu-small")),
        (EIGHT, ("--sessions", "60")),
        (APART, ("--sessions", "15", "--spare", "--slo", "voice_to_voice_p95=2")),
        (CORES, ("--sessions", "12", "--slo", "voice_to_voice_p95=2")),
    ],
    ids=["one card", "eight cards", "machines of one card", "no card"],
)
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Written:
    machines, options = request.param
    return planned(machines, tmp_path_factory.mktemp("plan"), *options)


def test_each_machine_has_the_replicas_that_were_planned_for_it(written: Written) -> None:
    wanted: Counter[tuple[str, str]] = Counter()
    for load in written.told["replicas"]:
        if (seat := load["seat"])["service"] != "nats":
            machine = written.told["machines"][seat["node"]]
            wanted[machine, seat["service"]] += seat["processes"]
    assert Counter((machine, service) for machine, service, _ in written.pods()) == wanted
    for machine in {machine for machine, _ in wanted}:
        assert f"kubectl label node NODE visavis/machine={machine}" in written.output


def test_all_else_is_that_of_the_base_and_kubernetes_accepts_it(written: Written) -> None:
    assert_accepted(written.resources)

    def names(resources: list[Resource]) -> Counter[tuple[str, str]]:
        found = Counter((one["kind"], one["metadata"]["name"]) for one in resources)
        return Counter({k: n for k, n in found.items() if k[0] not in ("Deployment", *CUSTOM[:1])})

    more = {("PersistentVolumeClaim", "checkpoint")}
    cards = any(cards for *_, cards in written.machines)
    base = names(rendered("base")) | Counter(more if cards else set())
    assert names(written.resources) == base
    assert CUSTOM[0] not in {one["kind"] for one in written.resources}, "the plan says how many"


def test_it_fits_the_machines(written: Written) -> None:
    asked: dict[str, Counter[str]] = {}
    for machine, _, one in written.pods():
        (container,) = one["spec"]["template"]["spec"]["containers"]
        resources, sums = container["resources"], asked.setdefault(machine, Counter())
        sums["millicores"] += int(resources["requests"]["cpu"].removesuffix("m"))
        sums["memory"] += int(resources["requests"]["memory"].removesuffix("M"))
        sums["cards"] += int(resources["limits"].get("nvidia.com/gpu", 0))
        limit = int(resources["limits"]["memory"].removesuffix("M"))
        assert limit >= int(resources["requests"]["memory"].removesuffix("M"))
    (turns,) = [
        yaml.safe_load(one["data"]["any"])["sharing"]["timeSlicing"]["resources"][0]["replicas"]
        for one in rendered("devices")
        if "any" in one["data"]
    ]
    for name, cores, memory_gb, cards in written.machines:
        if name in asked:
            shared = f"machine={name} nvidia.com/device-plugin.config=any" in written.output
            have = sum(count for *_, count in cards)
            assert asked[name]["millicores"] <= 1000 * cores
            assert asked[name]["memory"] <= 1000 * memory_gb
            assert asked[name]["cards"] <= have * (turns if shared else 1), name
            assert shared == (asked[name]["cards"] > have)


def test_settings_are_known_and_the_device_is_that_of_the_plan(written: Written) -> None:
    on_cards = {
        (written.told["machines"][load["seat"]["node"]], load["seat"]["service"])
        for load in written.told["replicas"]
        if load["seat"]["gpu"] is not None
    }
    sessions: Counter[str] = Counter()
    for machine, service, one in written.pods():
        (container,) = one["spec"]["template"]["spec"]["containers"]
        env = {entry["name"]: entry.get("value") for entry in container["env"]}
        prefix = f"VISAVIS_{service.upper()}_"
        for name, value in env.items():
            if value is not None and name.startswith(prefix):
                key = name.removeprefix(prefix).lower()
                assert SETTINGS[service].model_validate({key: value}), name
        on_card = (machine, service) in on_cards
        assert (env.get(f"{prefix}DEVICE") == "cuda:0") == on_card, (machine, service)
        assert ("nvidia.com/gpu" in container["resources"]["limits"]) == on_card
        annotations = one["spec"]["template"]["metadata"].get("annotations", {})
        assert (MEMORY in annotations) == on_card
        slots = env["VISAVIS_GATEWAY_MAX_SESSIONS" if service == "gateway" else f"{prefix}SLOTS"]
        sessions[service] += int(slots or 0)
        if service == "llm" and on_card:
            context = LlmSettings.model_fields["context_tokens"].default
            assert int(env[f"{prefix}KV_CACHE_TOKENS"] or 0) == int(slots or 0) * context
    assert all(room >= written.told["sessions"] for room in sessions.values()), sessions


def test_deployments_know_their_own_pods_and_what_these_name_is_there(written: Written) -> None:
    made = [one for one in written.resources if one["kind"] == "Deployment"]
    there = {(one["kind"], one["metadata"]["name"]) for one in written.resources}
    for one in made:
        selector = one["spec"]["selector"]["matchLabels"].items()
        matching = [
            other["metadata"]["name"]
            for other in made
            if selector <= other["spec"]["template"]["metadata"]["labels"].items()
        ]
        assert matching == [one["metadata"]["name"]]
        pod = one["spec"]["template"]["spec"]
        named = {
            ("ConfigMap", source["configMapRef"]["name"])
            for container in containers(pod)
            for source in container.get("envFrom", [])
        }
        claims = [
            v["persistentVolumeClaim"] for v in pod["volumes"] if "persistentVolumeClaim" in v
        ]
        assert named | {("PersistentVolumeClaim", c["claimName"]) for c in claims} <= there


def test_what_a_cluster_cannot_be_told_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"large are of several kinds \(L40S, A10\)"):
        planned(MIXED, tmp_path, "--sessions", "15", "--spare")
    two = [("two", 16, 64, [("L4", 24, 2)])]
    with pytest.raises(InvalidInputError, match=r"share one of the 2 cards of two.*one card each"):
        planned(two, tmp_path, "--sessions", "4", "--profile", "gpu-small")
    with pytest.raises(InvalidInputError, match="cannot be a label's value"):
        planned([("box_", 16, 64, [])], tmp_path, "--sessions", "1")
    assert not (tmp_path / "overlay").exists()
    mine = tmp_path / "overlay"
    mine.mkdir()
    (mine / "kustomization.yaml").write_text("resources: []\n", encoding="utf-8")
    with pytest.raises(InvalidInputError, match="was not written by `visavis plan`"):
        planned(ONE, tmp_path, "--sessions", "1")
