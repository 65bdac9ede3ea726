"""The manifests: rendered, valid, and true of the services that they run."""

import json
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import prometheus_client
import pytest
import yaml

import visavis.serving.metrics  # noqa: F401  (registers what is looked up below)
from deploy.container import COMMANDS
from gateway.settings import GatewaySettings
from services.asr.settings import AsrSettings
from services.face.settings import FaceSettings
from services.llm.settings import LlmSettings
from services.tts.settings import TtsSettings
from tests.deploy.checkers import (
    CUSTOM,
    DEPLOY,
    Resource,
    assert_accepted,
    checked,
    checker,
    rendered,
)
from tests.deploy.dockerfile import read_stages
from visavis.bundles.store.catalogue import default_catalog
from visavis.bundles.store.installed import Standing, State
from visavis.bundles.store.manifest import BundleManifest
from visavis.tools.stack.keys import write_keys
from visavis.tools.stack.nats_server import nats_server_binary

OVERLAYS = ("cpu", "one-gpu", "one-gpu-mig", "many-gpu")
STAGES = ("asr", "llm", "tts", "face")
SETTINGS = {
    "asr": AsrSettings,
    "llm": LlmSettings,
    "tts": TtsSettings,
    "face": FaceSettings,
    "gateway": GatewaySettings,
}
MEMORY = "visavis/gpu-memory-mib"
MIG = re.compile(r"nvidia\.com/mig-(\d)g\.(\d+)gb")

each_overlay = pytest.mark.parametrize("overlay", OVERLAYS)


def of_kind(overlay: str, *kinds: str) -> dict[str, Resource]:
    found = rendered(f"overlays/{overlay}")
    return {one["metadata"]["name"]: one for one in found if one["kind"] in kinds}


def services(overlay: str) -> dict[str, Resource]:
    """Deployments, but the one that has nothing to do while the bus keeps what it has."""
    found = of_kind(overlay, "Deployment")
    assert found.pop("buckets")["spec"]["replicas"] == 1
    assert found.keys() == SETTINGS.keys()
    return found


def pods(overlay: str) -> Iterator[tuple[str, Resource]]:
    for name, one in of_kind(overlay, "Deployment", "StatefulSet", "Job").items():
        yield name, one["spec"]["template"]["spec"]


def containers(pod: Resource) -> list[Resource]:
    return [*pod.get("initContainers", []), *pod["containers"]]


@each_overlay
def test_kubernetes_accepts_every_resource(overlay: str) -> None:
    """CustomResources aside, which a test below holds against their definitions."""
    assert_accepted(rendered(f"overlays/{overlay}"))


def test_kubernetes_accepts_every_manifest_before_it_is_rendered() -> None:
    """Where nothing renders, this is known all the same."""
    files = [
        file
        for file in (DEPLOY / "kubernetes").rglob("*.yaml")
        if file.name != "kustomization.yaml" and not file.name.endswith(".patch.yaml")
    ]
    found = [one for file in files for one in yaml.safe_load_all(file.read_text("utf-8"))]
    assert len(found) > len(files) > 10
    assert_accepted(found)


@each_overlay
def test_operators_accept_their_resources(overlay: str, tmp_path: Path) -> None:
    folder = os.environ.get("VISAVIS_CRDS")
    if not folder:
        pytest.skip("VISAVIS_CRDS names no folder with the definitions of KEDA and Prometheus")
    jsonschema = checker("jsonschema", "the package of that name on PyPI")
    schemas = {}
    for file in Path(folder).iterdir():
        definition = yaml.safe_load(file.read_text(encoding="utf-8"))["spec"]
        schemas[definition["names"]["kind"]] = definition["versions"][0]["schema"]
    schema, instance = tmp_path / "schema.json", tmp_path / "instance.json"
    for one in rendered(f"overlays/{overlay}"):
        if one["kind"] in CUSTOM:
            wanted = closed(schemas[one["kind"]]["openAPIV3Schema"])
            schema.write_text(json.dumps(wanted), encoding="utf-8")
            instance.write_text(json.dumps(one), encoding="utf-8")
            checked(jsonschema, "-i", str(instance), str(schema))


def closed(schema: Any) -> Any:
    """A definition's schema that refuses fields it does not name, as `kubectl` does."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: closed(value) for key, value in schema.items()}
    # Kubernetes itself says what is in `metadata`.
    if isinstance(made.get("properties"), dict) and made.get("type") == "object":
        made.setdefault("additionalProperties", False)
    return made


@each_overlay
def test_no_container_may_do_more_than_it_needs(overlay: str) -> None:
    for name, pod in pods(overlay):
        of_pod = pod["securityContext"]
        assert of_pod["runAsNonRoot"] and of_pod["runAsUser"] == 10001, name
        assert of_pod["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert pod["automountServiceAccountToken"] is False, name
        for one in containers(pod):
            assert one["securityContext"] == {
                "readOnlyRootFilesystem": True,
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
            }, name
            assert "memory" in one["resources"]["limits"], name
            # What was loaded onto a node is not looked for elsewhere.
            loaded = overlay == "cpu" and not one["image"].startswith("nats:")
            assert not loaded or one["imagePullPolicy"] == "IfNotPresent", name


@each_overlay
def test_a_pod_is_given_time_to_drain(overlay: str) -> None:
    for service, deployment in services(overlay).items():
        pod = deployment["spec"]["template"]["spec"]
        fields = SETTINGS[service].model_fields
        told = {e["name"]: e.get("value") for e in pod["containers"][0]["env"]}
        drain_s = float(told[f"VISAVIS_{service.upper()}_DRAIN_LIMIT_S"])
        grace_s = fields["grace_s"].default if "grace_s" in fields else 0.0
        before_s = 0.0
        if service == "gateway":  # whoever sends visitors there has time to hear that it ends
            command, told_s = pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
            assert command == "sleep"
            before_s = float(told_s)
        assert drain_s >= fields["drain_limit_s"].default
        assert pod["terminationGracePeriodSeconds"] > before_s + drain_s + grace_s


@each_overlay
def test_what_is_set_exists(overlay: str) -> None:
    from_map: dict[str, str] = {}
    for one in of_kind(overlay, "ConfigMap").values():
        from_map |= {key: v for key, v in one["data"].items() if key.startswith("VISAVIS_")}
    for service, deployment in services(overlay).items():
        env = deployment["spec"]["template"]["spec"]["containers"][0]["env"]
        told = {**from_map, **{e["name"]: e.get("value", "10.0.0.1") for e in env}}
        prefix = f"VISAVIS_{service.upper()}_"
        values = {k.removeprefix(prefix).lower(): v for k, v in told.items() if prefix in k}
        for key, value in values.items():
            assert SETTINGS[service].model_validate({key: value}), key


@each_overlay
def test_it_asks_at_the_ports_that_the_image_listens_at(overlay: str) -> None:
    _, stages = read_stages(DEPLOY / "Dockerfile", {})
    image = dict(word.split("=", 1) for one in stages[-1].of("ENV") for word in one.words())
    for service in STAGES:
        (container,) = dict(pods(overlay))[service]["containers"]
        port = int(image[f"VISAVIS_{service.upper()}_PORT"])
        metrics = int(image[f"VISAVIS_{service.upper()}_METRICS_PORT"])
        ports = {p["name"]: p["containerPort"] for p in container["ports"]}
        assert ports == {"grpc": port, "metrics": metrics}
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            assert container[probe]["grpc"] == {"port": port}
        headless = of_kind(overlay, "Service")[service]["spec"]
        assert headless["clusterIP"] == "None"
        assert [p["port"] for p in headless["ports"]] == [port]


def test_the_gateway_is_asked_for_what_it_answers() -> None:
    from gateway.api.routes.operation import health
    from gateway.edge.headers import LIVE_PATH

    (container,) = dict(pods("cpu"))["gateway"]["containers"]
    ready = container["readinessProbe"]["httpGet"]["path"]
    assert ready in {route.path for route in health.routes if hasattr(route, "path")}
    assert container["livenessProbe"]["httpGet"]["path"] == LIVE_PATH
    assert container["startupProbe"]["httpGet"]["path"] == LIVE_PATH


@each_overlay
def test_what_a_pod_names_is_there(overlay: str) -> None:
    made_by_hand = {"api-key", "bus-users", "bus-operator"}
    claims = set(of_kind(overlay, "PersistentVolumeClaim"))
    maps = set(of_kind(overlay, "ConfigMap"))
    for name, pod in pods(overlay):
        volumes = {v["name"]: v for v in pod.get("volumes", [])}
        for volume in volumes.values():
            if "persistentVolumeClaim" in volume:
                assert volume["persistentVolumeClaim"]["claimName"] in claims, name
            if "configMap" in volume:
                assert volume["configMap"]["name"] in maps, name
            if "secret" in volume:
                assert volume["secret"]["secretName"] in made_by_hand, name
        for one in containers(pod):
            mounted = {m["name"] for m in one["volumeMounts"]} - {"data"}
            assert mounted <= set(volumes), name
            assert {m["configMapRef"]["name"] for m in one.get("envFrom", [])} <= maps, name
            command = [str(word) for word in one.get("command", [])]
            if "/opt/visavis/container.py" in command:
                assert command[2] in COMMANDS, name


def test_weights_are_brought_of_the_profile_that_each_service_waits_for(tmp_path: Path) -> None:
    told, python = tmp_path / "told", tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho "$2 $3 $4" >> {told}\n')
    python.chmod(0o755)
    profiles = {f"VISAVIS_{s.upper()}_PROFILE": f"p-{s}" for s in STAGES}
    manifest = (DEPLOY / "kubernetes" / "base" / "weights.yaml").read_text()
    (job,) = (one for one in yaml.safe_load_all(manifest) if one["kind"] == "Job")
    (pull,) = job["spec"]["template"]["spec"]["containers"]
    path = f"{tmp_path}:{os.environ['PATH']}"
    subprocess.run(pull["command"], env={"PATH": path, **profiles}, check=True)
    assert told.read_text().splitlines() == [f"pull {s} p-{s}" for s in STAGES]


@each_overlay
def test_scaling_asks_for_metrics_that_exist(overlay: str) -> None:
    known = {sample.name for m in prometheus_client.REGISTRY.collect() for sample in m.samples}
    known |= {metric.name for metric in prometheus_client.REGISTRY.collect()}
    scaled = of_kind(overlay, "ScaledObject")
    assert scaled
    for name, one in scaled.items():
        assert name in of_kind(overlay, "Deployment")
        for trigger in one["spec"]["triggers"]:
            asked = set(re.findall(r"(\w+)\{", trigger["metadata"]["query"]))
            assert asked and asked <= known, name


def test_metrics_come_under_the_job_that_rules_and_panels_choose_by() -> None:
    """Left to the operator, it has the PodMonitor's name: alerts would be for nobody."""
    monitoring = DEPLOY / "monitoring"
    files = [*monitoring.glob("rules/*.yml"), *monitoring.glob("grafana/dashboards/*.json")]
    asked = {job for file in files for job in re.findall(r'job=\\?"(\w+)', file.read_text())}
    manifest = (DEPLOY / "kubernetes" / "base" / "monitoring.yaml").read_text()
    for one in yaml.safe_load_all(manifest):
        for endpoint in one["spec"]["podMetricsEndpoints"]:
            fixed = {r["targetLabel"]: r.get("replacement") for r in endpoint["relabelings"]}
            assert {fixed.get("job")} == asked == {"visavis"}, one["metadata"]["name"]


def test_scaling_reckons_with_this_namespace_alone(tmp_path: Path) -> None:
    """Two replicas of four slots, seven visitors and one in line, by Prometheus' own arithmetic."""
    promtool = checker("promtool", "Debian's package prometheus")
    series: dict[str, float] = {
        'gateway_sessions{namespace="visavis"}': 7,
        'gateway_queue_length{namespace="visavis"}': 1,
    }
    for service in STAGES:
        for replica, sessions, slack in (("1", 3, 0.2), ("2", 4, -9)):
            labels = f'{{namespace="visavis",service="{service}",instance="{replica}"}}'
            told = {"attached_sessions": sessions, "slots": 4, "admission_slack_ratio": slack}
            series |= {f"{name}{labels}": value for name, value in told.items()}
    elsewhere = {name.replace("visavis", "other"): 100 for name in series}
    wanted = {"slots": (7 + 1) / 4, "slack": 1 - (0.2 - 1) / 2, "sessions": 7 + 1}
    asked = [
        {
            "expr": trigger["metadata"]["query"],
            "eval_time": "2m",
            "exp_samples": [{"labels": "{}", "value": wanted[trigger.get("name", "sessions")]}],
        }
        for one in of_kind("many-gpu", "ScaledObject").values()
        for trigger in one["spec"]["triggers"]
    ]
    assert len(asked) == 2 * len(STAGES) + 1
    case = {
        "interval": "1m",
        "input_series": [
            {"series": name, "values": f"{value}+0x9"}
            for name, value in (series | elsewhere).items()
        ],
        "promql_expr_test": asked,
    }
    file = tmp_path / "scaling.yml"
    file.write_text(json.dumps({"evaluation_interval": "1m", "tests": [case]}), encoding="utf-8")
    checked(promtool, "test", "rules", str(file))


@each_overlay
def test_every_service_outlives_one_node(overlay: str) -> None:
    workloads = services(overlay) | of_kind(overlay, "StatefulSet")
    budgets = of_kind(overlay, "PodDisruptionBudget")
    for name, one in workloads.items():
        assert budgets[name]["spec"]["selector"] == one["spec"]["selector"]
        pod = one["spec"]["template"]["spec"]
        assert pod.get("topologySpreadConstraints") or pod["affinity"]["podAntiAffinity"], name
    assert workloads["bus"]["spec"]["replicas"] == 3


@pytest.mark.parametrize("overlay", ["one-gpu", "many-gpu"])
def test_what_shares_a_card_fits_into_its_memory(overlay: str) -> None:
    """many-gpu shares none: there each one's budget is held against the smallest card named."""
    card_mib = {"NVIDIA-L4": 23034, "NVIDIA-A10": 23028, "NVIDIA-A100-SXM4-80GB": 81920}
    taken: Counter[str] = Counter()
    for service in STAGES:
        spec = of_kind(overlay, "Deployment")[service]["spec"]
        pod = spec["template"]["spec"]
        needed = int(spec["template"]["metadata"]["annotations"][MEMORY])
        if overlay == "many-gpu":
            assert needed < card_mib[pod["nodeSelector"]["nvidia.com/gpu.product"]]
            continue
        rules = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        (chosen,) = rules["nodeSelectorTerms"][0]["matchExpressions"]
        assert (chosen["key"], chosen["operator"]) == ("nvidia.com/gpu.memory", "Gt")
        at_once = spec["replicas"] + spec["strategy"]["rollingUpdate"]["maxSurge"]
        taken[service] = needed * at_once
        assert service not in of_kind(overlay, "ScaledObject")
        assert taken.total() <= int(chosen["values"][0]), taken


def test_a_card_is_cut_into_as_many_turns_as_are_asked_for() -> None:
    maps = {one["metadata"]["name"]: one["data"] for one in rendered("devices")}
    sharing = yaml.safe_load(maps["visavis-time-slicing"]["any"])["sharing"]["timeSlicing"]
    turns = {one["name"]: one["replicas"] for one in sharing["resources"]}
    asked = [
        one["resources"]["limits"].get("nvidia.com/gpu", 0)
        for _, pod in pods("one-gpu")
        for one in pod["containers"]
    ]
    assert sum(asked) == turns["nvidia.com/gpu"]


def test_a_card_is_cut_into_instances_that_hold_what_is_put_there() -> None:
    maps = {one["metadata"]["name"]: one["data"] for one in rendered("devices")}
    (cut,) = yaml.safe_load(maps["visavis-mig"]["config.yaml"])["mig-configs"]["visavis"]
    instances = {f"nvidia.com/mig-{name}": n for name, n in cut["mig-devices"].items()}
    sizes = [(MIG.fullmatch(name), count) for name, count in instances.items()]
    assert sum(int(found[1]) * count for found, count in sizes if found) <= 7
    assert sum(int(found[2]) * count for found, count in sizes if found) <= 80
    asked: Counter[str] = Counter()
    for name, pod in pods("one-gpu-mig"):
        for one in pod["containers"]:
            for resource in filter(MIG.fullmatch, one["resources"]["limits"]):
                asked[resource] += 1
                whole = of_kind("one-gpu-mig", "Deployment", "Job")[name]["spec"]["template"]
                needed = int(whole["metadata"].get("annotations", {}).get(MEMORY, 0))
                found = MIG.fullmatch(resource)
                assert found and needed <= int(found[2]) * 1000
    assert asked == instances


def mounts(name: str, overlay: str = "cpu") -> list[tuple[str, str]]:
    """The secrets that a pod is given, and where."""
    pod = dict(pods(overlay))[name]
    found = []
    for volume in pod["volumes"]:
        sources = volume.get("projected", {}).get("sources", [volume])
        told = [s["secret"] for s in sources if "secret" in s]
        (path,) = {
            m["mountPath"]
            for one in containers(pod)
            for m in one["volumeMounts"]
            if m["name"] == volume["name"]
        }
        found += [(one.get("secretName") or one["name"], path) for one in told]
    return found


@each_overlay
def test_each_pod_is_given_its_own_keys_alone(overlay: str) -> None:
    for name in SETTINGS:
        more = {"api-key"} if name == "gateway" else set()
        given = dict(mounts(name, overlay))
        assert set(given) == {f"bus-{name}", "stack"} | more
        (one,) = dict(pods(overlay))[name]["containers"]
        told = {e["name"]: e.get("value", "") for e in one["env"]}
        for setting in ("NATS_PASSWORD_FILE", "STACK_SECRET_FILE"):
            file = Path(told[f"VISAVIS_{name.upper()}_{setting}"])
            assert str(file.parent) == given["stack"]
    assert dict(mounts("bus", overlay)) == {"bus-users": "/etc/nats-users"}
    assert set(dict(mounts("buckets", overlay))) == {"bus-operator"}


@pytest.mark.parametrize("profile", default_catalog().profile_names)
def test_plans_are_built_of_what_a_profile_has_with_some(
    profile: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    manifest = (DEPLOY / "kubernetes" / "plans" / "job.yaml").read_text("utf-8")
    (build,) = containers(yaml.safe_load(manifest)["spec"]["template"]["spec"])
    _python, _program, command, *arguments = build["command"]
    built: list[str] = []

    def run(told: list[str], *, check: bool) -> None:
        assert told[1:5] == ["-m", "visavis", "engine", "build"] and check
        assert told[6:] == ["--device", "cuda:0"]
        built.append(told[5])

    def inspect(manifest: BundleManifest, folder: Path) -> Standing:
        return Standing(manifest.name, State.READY)

    monkeypatch.setattr("subprocess.run", run)
    monkeypatch.setattr("visavis.bundles.store.installed.inspect", inspect)
    monkeypatch.setenv("VISAVIS_MODEL_DIR", str(tmp_path))
    for variable in (f"VISAVIS_{stage.upper()}_PROFILE" for stage in STAGES):
        monkeypatch.setenv(variable, profile)
    COMMANDS[command](arguments)
    catalog = default_catalog()
    named = [n for role in catalog.profile(profile).values() for several in role for n in several]
    wanted = {name for name in named if catalog.manifest(name).plans}
    assert sorted(built) == sorted(wanted | {"audio-to-face"})


def test_each_kind_of_card_has_its_plans() -> None:
    plans = of_kind("many-gpu", "Job")
    assert {name for name in plans if name.startswith("plans")} == {"plans-l4", "plans-a10"}


def test_the_bus_takes_its_configuration_and_its_users(tmp_path: Path) -> None:
    config = tmp_path / "nats" / "nats.conf"
    config.parent.mkdir()
    shutil.copy(DEPLOY / "kubernetes" / "base" / "nats.conf", config)
    (mounted,) = (path for name, path in mounts("bus") if name == "bus-users")
    write_keys(tmp_path / Path(mounted).name)
    checked(str(nats_server_binary()), "-t", "--config", str(config), POD_NAME="bus-0")
