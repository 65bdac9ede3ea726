"""Builds and runs the images of deploy/Dockerfile where there is no container engine.

    python -m tests.deploy.dry_build asr llm tts face gateway --profile tiny

Each instruction is read from the Dockerfile and done in a folder that stands for the image's root:
RUN by a shell whose absolute paths are turned there, COPY, ENV, ARG and WORKDIR as a builder does
them. Then all are started as the image says, by its user if this one is root, with a bus, and the
image's own health check has to pass for each, and a SIGTERM to end each with status 0. What this
does not show: the base image and what apt adds to it, and a read-only file system, for which it
looks what the user, to whom nothing but the volumes and /tmp is writable, has left elsewhere.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.deploy.dockerfile import Instruction, Stage, filled_in, lineage, read_stages
from visavis.tools.stack.nats_server import free_port, nats_server_binary

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
# In the image's root; everything else is this machine's.
_IMAGE_PATHS = re.compile(r"(?<![\w./}-])/(opt|models|plans|data)\b")
_KEPT = ("PIP_", "UV_", "SSL_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "NPM_CONFIG_")
_READY_WITHIN_S = 240.0
_END_WITHIN_S = 60.0


@dataclass
class Image:
    """An image that was built: a folder in the place of its root, and how it is to be run."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict)
    user: int | None = None
    folder: Path = Path("/tmp")
    health: list[str] = field(default_factory=list)
    entry: list[str] = field(default_factory=list)

    def there(self, text: str) -> str:
        """`text` with the image's paths turned to where they lie here."""
        return _IMAGE_PATHS.sub(rf"{self.root}/\1", text)

    def command(self, words: Sequence[str]) -> list[str]:
        """A command of the image, its program looked up in the image's PATH."""
        first = shutil.which(words[0], path=self.environment["PATH"]) or words[0]
        return [first, *map(self.there, words[1:])]


def build(service: str, root: Path, arguments: Mapping[str, str]) -> Image:
    """Do what the Dockerfile says for `service`. Raises CalledProcessError where a step fails."""
    given = {"SERVICE": service, **arguments}
    known, stages = read_stages(DOCKERFILE, given)
    image = Image(root)
    for target in (next(s for s in stages if s.name == "build"), stages[-1]):
        if root.exists():
            root.rename(root.with_suffix(".build"))
        root.mkdir(parents=True)
        image = Image(root, _outside())
        for stage in lineage(stages, target):
            _do(stage, image, {**known, **given})
    shutil.rmtree(root.with_suffix(".build"))
    return image


def _outside() -> dict[str, str]:
    """What the base image would have set, and how this machine reaches its package index."""
    kept = {k: v for k, v in os.environ.items() if k.upper().startswith(_KEPT)}
    return {**kept, "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}


def _do(stage: Stage, image: Image, given: Mapping[str, str]) -> None:
    arguments: dict[str, str] = {}
    for one in stage.instructions:
        values = {**arguments, **image.environment}
        if one.name == "ARG":
            name, _, default = one.text.partition("=")
            if given.get(name, default):
                arguments[name] = given.get(name, default)
        elif one.name == "ENV":
            for pair in one.words():
                name, _, value = pair.partition("=")
                image.environment[name] = image.there(filled_in(value, values))
        elif one.name == "WORKDIR":
            image.folder = Path(image.there(one.text))
            image.folder.mkdir(parents=True, exist_ok=True)
        elif one.name == "COPY":
            _copy(one, image)
        elif one.name == "RUN" and "apt-get" in one.text:
            print(f"left out, it is the base's: {one.text}", flush=True)  # noqa: T201
        elif one.name == "RUN":
            print(f"RUN {one.text}", flush=True)  # noqa: T201
            shell = ["/bin/sh", "-ec", image.there(one.text)]
            subprocess.run(shell, cwd=image.folder, env=values, check=True)
        elif one.name == "USER":
            image.user = int(one.text.partition(":")[0])
        elif one.name == "HEALTHCHECK":
            image.health = Instruction("CMD", one.text.partition("CMD ")[2].strip(), {}).words()
        elif one.name == "ENTRYPOINT":
            image.entry = one.words()
        elif one.name != "EXPOSE":
            raise ValueError(f"{one.name} is not known here")


def _copy(one: Instruction, image: Image) -> None:
    *sources, target = one.words()
    context = image.root.with_suffix(f".{one.flags['from']}") if "from" in one.flags else ROOT
    into = Path(image.there(target)) if target.startswith("/") else image.folder / target
    for source in sources:
        found = context / source.lstrip("/")
        if found.is_dir():
            ignored = shutil.ignore_patterns("__pycache__") if context == ROOT else None
            shutil.copytree(found, into, symlinks=True, dirs_exist_ok=True, ignore=ignored)
        else:
            place = into / found.name if target.endswith("/") else into
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(found, place)
    if os.getuid() == 0:
        owner = one.flags.get("chown", "0:0")
        subprocess.run(["chown", "--recursive", "--no-dereference", owner, into], check=True)


def run(images: Mapping[str, Image], profile: str) -> None:
    """Start a bus and all of `images`, see each healthy, and end them. Raises AssertionError."""
    bus_port = free_port()
    shared = _settings(images, f"nats://127.0.0.1:{bus_port}", profile)
    storage = tempfile.mkdtemp(prefix="visavis-dry-bus-")
    bus = [str(nats_server_binary()), "-a", "127.0.0.1", "-p", str(bus_port), "-js", "-sd", storage]
    started = {"bus": subprocess.Popen(bus, stderr=subprocess.DEVNULL)}
    try:
        for service, image in images.items():
            image.environment |= shared
            started[service] = _start(image, image.entry)
        for service, image in images.items():
            _see_healthy(service, image, started[service], whole=len(images) == 5)
        for service in reversed(images):
            started[service].terminate()
            status = started[service].wait(_END_WITHIN_S)
            assert status == 0, f"{service} ended with {status}"
            _see_untouched(service, images[service])
    finally:
        for process in started.values():
            process.kill()
            process.wait()
        shutil.rmtree(storage)


def _settings(images: Mapping[str, Image], bus: str, profile: str) -> dict[str, str]:
    """Ports that are free here, the bus, the weights, and a key for the gateway."""
    settings = {"VISAVIS_GATEWAY_API_KEY": "dry-build"}
    for service in images:
        prefix = f"VISAVIS_{service.upper()}_"
        settings |= {prefix + "NATS_URL": bus, prefix + "PORT": str(free_port())}
        settings[prefix + "ADVERTISE"] = "127.0.0.1"
        if service != "gateway":
            settings |= {prefix + "METRICS_PORT": str(free_port()), prefix + "PROFILE": profile}
    return settings


def _start(image: Image, words: Sequence[str]) -> subprocess.Popen[bytes]:
    user = image.user if os.getuid() == 0 else None
    return subprocess.Popen(
        image.command(words),
        cwd=image.folder,
        env=image.environment,
        user=user,
        group=user,
        extra_groups=None if user is None else [],
    )


def _see_healthy(
    service: str, image: Image, process: subprocess.Popen[bytes], *, whole: bool
) -> None:
    if service == "gateway" and not whole:
        return  # without all services a turn would not work, and the gateway says so
    limit = time.monotonic() + _READY_WITHIN_S
    while _start(image, image.health).wait() != 0:
        assert process.poll() is None, f"{service} ended with {process.returncode}"
        assert time.monotonic() < limit, f"{service} is not healthy"
        time.sleep(1.0)
    print(f"{service} is healthy", flush=True)  # noqa: T201


def _see_untouched(service: str, image: Image) -> None:
    allowed = [image.root / name for name in ("models", "plans", "data")]
    written = [
        path
        for path in image.root.rglob("*")
        if path.lstat().st_uid == image.user and not any(path.is_relative_to(a) for a in allowed)
    ]
    assert not written, f"{service} wrote to its root: {written[:5]}"


def main() -> None:
    """Build, measure and run what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("services", nargs="+")
    parser.add_argument("--profile", default="tiny")
    parser.add_argument("--device", default="cpu", choices=("cpu", "gpu"))
    parser.add_argument("--folder", type=Path, help="where to build; kept")
    given = parser.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="visavis-dry-build-"))
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    arguments = {"WEIGHTS": "baked", "PROFILE": given.profile, "DEVICE": given.device}
    images = {s: build(s, folder / s, arguments) for s in given.services}
    for service, image in images.items():
        for part in ("opt/visavis", "models"):
            size = subprocess.run(
                ["du", "-sm", image.root / part], check=True, capture_output=True, text=True
            ).stdout.split()[0]
            print(f"{service}: {size} MB in /{part}")  # noqa: T201
    run(images, given.profile)
    if given.folder is None:
        shutil.rmtree(folder)
    print("all built, all healthy, all ended")  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
