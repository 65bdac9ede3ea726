"""Which clock a stamp was read from."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from visavis.serving.lease import clock_reading
from visavis.wire import clock
from visavis.wire.clock import clock_id
from visavis.wire.media import Stamp

_PRINT = "from visavis.wire.clock import clock_id; import sys; sys.stdout.write(str(clock_id()))"


@pytest.mark.skipif(
    sys.platform not in ("linux", "darwin"), reason="elsewhere every process counts for itself"
)
def test_processes_of_one_machine_share_a_clock() -> None:
    other = subprocess.run([sys.executable, "-c", _PRINT], capture_output=True, check=True)
    assert int(other.stdout) == clock_id() > 0


def test_on_macos_a_boot_has_a_clock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By a double of its C library: there is no macOS here."""
    boots = {"kern.bootsessionuuid": "3F2C"}

    def sysctlbyname(name: bytes, told: Any, size: Any, _new: None, _size: Any) -> int:
        told.value = boots[name.decode()].encode()
        assert len(told.value) < size._obj.value
        return 0

    monkeypatch.setattr(clock, "_BOOT_ID", tmp_path / "none")
    monkeypatch.setattr(clock.ctypes, "CDLL", lambda _: SimpleNamespace(sysctlbyname=sysctlbyname))
    one, another = clock_id.__wrapped__(), clock_id.__wrapped__()
    boots["kern.bootsessionuuid"] = "9A41"
    assert one == another != clock_id.__wrapped__()


def test_stamps_and_status_name_the_same_clock() -> None:
    before, reading, after = Stamp.now("a.b"), clock_reading(), Stamp.now("a.c")
    assert before.clock == reading.clock == after.clock == clock_id()
    assert before.monotonic_ns <= reading.monotonic_ns <= after.monotonic_ns


def test_a_stamp_of_the_past() -> None:
    ago, now = Stamp.ago("a.b", 1.5), Stamp.now("a.b")
    assert now.monotonic_ns - ago.monotonic_ns == pytest.approx(1.5e9, rel=0.01)
    assert now.renamed("a.c") == Stamp("a.c", now.monotonic_ns, now.clock)
