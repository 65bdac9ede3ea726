"""`visavis doctor` finds what is missing and names the command that mends it."""

from __future__ import annotations

import importlib.metadata
import socket
import sys
from collections.abc import Iterable
from pathlib import Path

import psutil
import pytest
import typer
from typer.testing import CliRunner

from tests.bundles.store.conftest import Store
from tests.bundles.store.registry import Fault
from visavis.serving.errors import ModelStoreError
from visavis.tools.cli import doctor_checks
from visavis.tools.cli.doctor import doctor
from visavis.tools.cli.doctor_checks import Finding, Level


@pytest.fixture
def clinic(store: Store) -> Store:
    """A store with one bundle, which is all of profile `small`."""
    store.host("ear", {"a": b"weights"})
    roles = 'asr = ["ear"]\nllm = []\ntts = []\nface = []\n'
    (store.root / "catalog" / "profiles.toml").write_text(f"[small]\n{roles}[other]\n{roles}")
    return store


def found(findings: Iterable[Finding], what: str) -> Finding:
    return next(item for item in findings if item.what == what)


def test_weights_are_missing_then_right_then_damaged(clinic: Store) -> None:
    def weights(profile: str) -> Finding:
        findings = doctor_checks.check_weights(clinic.catalog, clinic.models, "small")
        return found(findings, f"weights {profile}")

    assert weights("small").level is Level.WRONG
    assert weights("small").remedy == "visavis models pull --profile small"
    assert (weights("other").level, weights("other").remedy) == (Level.NOTE, "")
    (pulled,) = clinic.pull("ear")
    assert weights("small").level is Level.OK
    (pulled.path / "a").write_bytes(b"weightz")
    assert weights("small").level is Level.WRONG
    assert weights("small").remedy == "visavis models pull --profile small --repair"
    (pulled.path / "a").unlink()
    assert weights("other").remedy == "visavis models pull --profile other --repair"


def test_a_disk_is_wrong_while_weights_lack_that_a_pull_would_find_no_room_for(
    clinic: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = 2 * len(b"weights") + (64 << 20)

    class Usage:
        free = room - 1

    monkeypatch.setattr("shutil.disk_usage", lambda folder: Usage)
    (before,) = doctor_checks.check_disk(clinic.catalog, clinic.models, "small")
    assert (before.level, "VISAVIS_MODEL_DIR" in before.remedy) == (Level.WRONG, True)
    with pytest.raises(ModelStoreError, match="make room"):
        clinic.pull("ear", free=lambda folder: Usage.free)
    clinic.registry.hosted["/files/ear-1.0-py3-none-any.whl"].faults = [Fault(cut_after_bytes=90)]
    with pytest.raises(ModelStoreError, match="could not be downloaded"):
        clinic.pull("ear", attempts=1, free=lambda folder: room)
    (interrupted,) = doctor_checks.check_disk(clinic.catalog, clinic.models, "small")
    assert interrupted.level is Level.OK, "what has come of the archive is here already"
    Usage.free = 1
    clinic.pull("ear", free=lambda folder: room)
    (after,) = doctor_checks.check_disk(clinic.catalog, clinic.models, "small")
    assert after.level is Level.OK


def test_a_package_that_lacks_is_named_under_each_extra_that_needs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = importlib.metadata.version

    def version(name: str) -> str:
        if name == "onnxruntime":
            raise importlib.metadata.PackageNotFoundError(name)
        return "0.1" if name == "aiortc" else real(name)

    monkeypatch.setattr("importlib.metadata.version", version)
    findings = list(doctor_checks.check_packages())
    # asr asks for it only through the extra onnx.
    assert found(findings, "extra asr").detail == "onnxruntime is not installed"
    assert found(findings, "extra asr").level is Level.WRONG
    assert "aiortc is 0.1, needed " in found(findings, "extra gateway").detail
    assert found(findings, "extra llm").level is Level.OK


def test_a_library_that_the_system_lacks_is_to_be_installed_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said = "libgomp.so.1: cannot open shared object file: No such file or directory"
    (tmp_path / "xllamacpp.py").write_text(f"raise ImportError({said!r})")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "xllamacpp", raising=False)
    model = found(doctor_checks.check_engines(), "xllamacpp")
    assert (model.level, "apt install libgomp1" in model.remedy) == (Level.WRONG, True)


def test_a_python_for_which_there_are_no_packages_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"Requires-Python": ">=3.11,<3.15"}
    monkeypatch.setattr("importlib.metadata.metadata", lambda name: told)

    def level(version: str) -> Level:
        monkeypatch.setattr("platform.python_version", lambda: version)
        return found(doctor_checks.check_machine(), "Python").level

    assert [level(version) for version in ("3.10.13", "3.11.7", "3.14.8", "3.15.0")] == [
        Level.WRONG,
        Level.OK,
        Level.OK,
        Level.WRONG,
    ]


@pytest.mark.parametrize(
    ("free_gb", "all_gb", "remedy"),
    [
        (1.5, 8.0, ""),
        (1.1, 8.0, "close other programs, or use `visavis up --profile small`"),
        (0.5, 8.0, "close other programs"),
        (1.1, 1.1, "use `visavis up --profile small`"),
        (0.5, 0.6, "take a machine, or a limit, with more memory"),
    ],
)
def test_a_profile_that_does_not_fit_into_memory_comes_with_what_to_do(
    clinic: Store, monkeypatch: pytest.MonkeyPatch, free_gb: float, all_gb: float, remedy: str
) -> None:
    roles = 'asr = ["ear"]\nllm = []\ntts = []\nface = []\n'
    none = roles.replace('"ear"', "")
    (clinic.root / "catalog" / "profiles.toml").write_text(f"[small]\n{none}[large]\n{roles}")
    monkeypatch.setattr(doctor_checks, "free_memory_bytes", lambda: round(free_gb * 1e9))
    monkeypatch.setattr(doctor_checks, "memory_limit_bytes", lambda: round(all_gb * 1e9))
    (memory,) = doctor_checks.check_memory(clinic.catalog, clinic.models, "large")
    assert (memory.level is Level.OK, memory.remedy) == (not remedy, remedy)


def test_encoders_that_this_build_lacks_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(doctor_checks.CODECS, "libnothing", "smell")
    codecs = found(doctor_checks.check_engines(), "av")
    assert (codecs.level, codecs.detail) == (
        Level.WRONG,
        "this build has no encoder libnothing (smell)",
    )


def test_a_taken_port_comes_with_another() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        (busy,) = doctor_checks.check_port("127.0.0.1", port)
    assert busy.level is Level.NOTE and busy.remedy.endswith("Choose a free port with --port")
    (free,) = doctor_checks.check_port("127.0.0.1", port)
    assert free.level is Level.OK


@pytest.mark.parametrize(
    ("host", "free"), [("::1", True), ("203.0.113.9", False), ("a" * 64 + ".example", False)]
)
def test_a_host_is_tried_in_its_own_family_and_one_that_is_not_ours_comes_with_another(
    host: str, free: bool
) -> None:
    if ":" in host and not any(
        a.address == host for own in psutil.net_if_addrs().values() for a in own
    ):
        pytest.skip("this machine has no IPv6")
    (told,) = doctor_checks.check_port(host, 0)
    assert (told.level is Level.OK) is free
    assert told.remedy == ("" if free else "choose an address of this machine with --host")


@pytest.mark.parametrize("port", ["65536", "-1"])
def test_a_port_that_there_cannot_be_is_not_thought_free(port: str) -> None:
    app = typer.Typer()
    app.command()(doctor)
    assert CliRunner().invoke(app, ["--port", port]).exit_code == 2


def test_no_gpu_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr("ctypes.util.find_library", lambda name: None)
    (gpu,) = doctor_checks.check_gpus()
    assert gpu.level is Level.OK


def test_a_gpu_is_read_from_its_driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'Tesla X, 16 GB, 1.2'\necho 'Tesla Y, 24 GB, 1.2'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert [item.detail for item in doctor_checks.check_gpus()] == [
        "Tesla X, 16 GB, 1.2",
        "Tesla Y, 24 GB, 1.2",
    ]


def run(*arguments: str) -> tuple[int, str]:
    app = typer.Typer()
    app.command()(doctor)
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "160"})
    return result.exit_code, result.output


def test_missing_weights_end_with_status_1(tmp_path: Path) -> None:
    status, output = run("--model-dir", str(tmp_path))
    assert status == 1
    assert "weights default: visavis models pull --profile default" in output


def test_an_unknown_profile_is_answered_with_the_known(tmp_path: Path) -> None:
    status, output = run("--profile", "defolt")
    assert status == 1
    assert "Did you mean default" in output
