"""A plan's override, laid over the files that run the stack: it names what is there."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from functools import cache, reduce
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.checkers import DEPLOY, composed, rendered
from tests.deploy.test_kubernetes import SETTINGS
from visavis.tools import plan as package
from visavis.tools.bench.load.schedule import Habits
from visavis.tools.plan.command import as_yaml
from visavis.tools.plan.compose import overrides
from visavis.tools.plan.inventory import Gpu, Inventory, Node
from visavis.tools.plan.placement import Plan, Wanted, plan
from visavis.tools.plan.prediction import Scene
from visavis.tools.plan.profiles import SERVICES, profile_of

CARDS = tuple(Gpu(f"card{n}", 24e9, str(n)) for n in range(12))


def planned(profile: str, node: Node, sessions: int) -> dict[str, Any]:
    """The override of the one machine."""
    shipped = tomllib.loads((Path(package.__file__).parent / "profiles.toml").read_text("utf-8"))
    scene = Scene(Inventory((node,)), profile_of(profile, ("shipped", shipped)), Habits())
    found = plan(Wanted(sessions, {"voice_to_voice": 2.0}), scene)
    assert isinstance(found, Plan), found
    (override,) = overrides(found).values()
    return override


@cache
def on_cards() -> dict[str, Any]:
    return planned("gpu-small", Node("one", 16, 64e9, 1.0, CARDS[:4]), 40)


@cache
def on_cores() -> dict[str, Any]:
    return planned("cpu", Node("cores", 16, 64e9, 1.0), 12)


@cache
def on_many_cards() -> dict[str, Any]:
    """Several of each service."""
    return planned("gpu-small", Node("large", 512, 1024e9, 1.0, CARDS), 250)


def test_it_names_services_of_the_stack_and_settings_that_they_have() -> None:
    stack = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))["services"]
    for override in (on_cards(), on_cores()):
        services = override["services"]
        assert {name.split("-")[0] for name in services} == {
            "bus" if name == "nats" else name for name in SERVICES
        }
        assert any("-" in name for name in services), "a plan with several of a service is wanted"
        for name, entry in services.items():
            first = name.split("-")[0]
            assert first in stack
            for variable, value in entry.get("environment", {}).items():
                if variable != "HOME" and not value.startswith("${"):
                    key = variable.removeprefix(f"VISAVIS_{first.upper()}_").lower()
                    assert SETTINGS[first].model_validate({key: value}), variable


class Compose(yaml.SafeLoader):
    """YAML in which Compose may be told that a list takes the place of the one below."""


class Override(list[Any]):
    pass


def override(loader: yaml.SafeLoader, node: yaml.Node) -> Any:
    if isinstance(node, yaml.SequenceNode):
        return Override(loader.construct_sequence(node, deep=True))
    return loader.construct_mapping(node, deep=True)  # of a build, at which nobody looks


Compose.add_constructor("!override", override)


def over(below: Any, above: Any) -> Any:
    """As Compose lays one file over another, as far as ours are written."""
    if isinstance(below, dict) and isinstance(above, dict):
        return below | {k: over(below[k], v) if k in below else v for k, v in above.items()}
    if isinstance(below, list) and not isinstance(above, Override):
        return [*below, *above]
    return above


@pytest.mark.parametrize(
    ("planned", "files"),
    [
        (on_cores, ["compose.yaml"]),
        (on_cards, ["compose.yaml", "compose.gpu.yaml"]),
        (on_many_cards, ["compose.yaml", "compose.gpu.yaml"]),
    ],
)
def test_a_further_process_is_told_what_the_first_one_is(
    planned: Callable[[], dict[str, Any]], files: list[str]
) -> None:
    texts = [(DEPLOY / file).read_text("utf-8") for file in files] + [as_yaml(planned())]
    made = reduce(over, (yaml.load(text, Compose) for text in texts))
    assert_alike(made["services"])


def laid_over(override: dict[str, Any], folder: Path, *files: str) -> dict[str, Any]:
    """The services that Compose makes of both."""
    file = folder / "plan.yaml"
    file.write_text(as_yaml(override), encoding="utf-8")
    made: dict[str, Any] = composed(*files, str(file))["services"]
    return made


def test_compose_takes_it_on_a_machine_with_cards(tmp_path: Path) -> None:
    override = on_cards()
    made = laid_over(override, tmp_path, "compose.yaml", "compose.gpu.yaml")
    plain = set(composed("compose.yaml", "compose.gpu.yaml")["services"])
    assert set(made) == plain | set(override["services"])
    assert_alike(made)
    taken = set()
    for name, one in made.items():
        reserved = one.get("deploy", {}).get("resources", {}).get("reservations", {})
        devices = reserved.get("devices") or []
        wants_gpu = one.get("environment", {}).get(f"VISAVIS_{name.split('-')[0].upper()}_DEVICE")
        assert bool(devices) == (wants_gpu == "cuda:0"), name
        for device in devices:
            assert len(device["device_ids"]) == 1, f"{name}: cards of both files"
            taken.add((name, *device["device_ids"]))
    assert len(taken) == sum(
        bool(e["deploy"]["resources"]["reservations"].get("devices"))
        for e in override["services"].values()
    )


def test_compose_takes_it_on_a_machine_without(tmp_path: Path) -> None:
    made = laid_over(on_cores(), tmp_path, "compose.yaml")
    assert_alike(made)
    published = [name for name, one in made.items() if one.get("ports") and "gateway" in name]
    assert published == ["gateway"]


def assert_alike(made: dict[str, Any]) -> None:
    """A further process of a service is what the first one is, but for its address and card."""
    for name, one in made.items():
        first, _, number = name.partition("-")
        if not number.isdecimal():
            continue
        told = {**one["environment"], f"VISAVIS_{first.upper()}_ADVERTISE": first}
        assert told == made[first]["environment"], name
        apart = {"environment", "deploy", "build", "ports"}
        mine = {key: value for key, value in one.items() if key not in apart}
        assert mine == {k: v for k, v in made[first].items() if k not in apart}, name


def test_the_cluster_has_the_same_services_variables_and_bus() -> None:
    there = {
        one["metadata"]["name"]: one["spec"]["template"]["spec"]["containers"][0]
        for one in rendered("overlays/cpu")
        if one["kind"] in ("Deployment", "StatefulSet")
    }
    for name, entry in on_cores()["services"].items():
        first = name.split("-")[0]
        assert first in there
        here = {e["name"]: e.get("value") for e in there[first].get("env", ())}
        prefix = f"VISAVIS_{first.upper()}_"
        for variable, value in entry.get("environment", {}).items():
            if variable in (f"{prefix}NATS_URL", f"{prefix}API_KEY_FILE", f"{prefix}ADVERTISE"):
                assert variable in here
            if variable == f"{prefix}NATS_URL":
                assert value == here[variable]
