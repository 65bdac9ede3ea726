"""The audit where there is no network: told, and no fault of the checkout."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.version import Version

from tests.audit import FOUND, LOCK, NOT_ASKED, compared, main, pinned

_NOBODY = ["--osv-url", "http://127.0.0.1:9/v1/query"]


@pytest.mark.parametrize(("more", "status"), [([], NOT_ASKED), (["--warn"], 0)])
def test_where_nobody_can_be_asked_it_says_so(
    capsys: pytest.CaptureFixture[str], more: list[str], status: int
) -> None:
    assert main([*_NOBODY, *more]) == status
    assert "Not audited: 127.0.0.1 cannot be reached" in capsys.readouterr().out


def advisory(name: str, *events: dict[str, str], **more: Any) -> str:
    affected = {
        "package": {"name": name, "ecosystem": "PyPI"},
        "ranges": [{"type": "ECOSYSTEM", "events": list(events)}],
    }
    told = {"id": f"X-{name}", "modified": "2026-05-03T10:00:00Z", "affected": [affected], **more}
    return str(yaml.safe_dump(told))


@pytest.mark.parametrize(
    ("version", "hit"),
    [("1.0", False), ("1.2", True), ("1.9.9", True), ("2.0", False), ("3.1", True), ("3.2", False)],
)
def test_a_version_is_found_between_what_brought_and_what_ended_it(
    tmp_path: Path, version: str, hit: bool
) -> None:
    events = [{"introduced": "3.0"}, {"last_affected": "3.1"}, {"introduced": "1.2"}]
    text = advisory("A_b", *events, {"fixed": "2.0"}, aliases=["CVE-1"])
    (tmp_path / "one.yaml").write_text(text)
    (tmp_path / "old.yaml").write_text(advisory("a-b", {"introduced": "0"}, withdrawn="2026-01-01"))
    (tmp_path / "other.yaml").write_text(advisory("other", {"introduced": "0"}))
    status, told = compared(tmp_path, {"a-b": [Version(version)]})
    assert (status, "a-b" in told, "CVE-1" in told) == (FOUND if hit else 0, hit, hit)
    assert "2 advisories, the newest of 2026-05-03" in told


def test_every_locked_package_is_compared_with_a_folder_of_advisories(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--advisories", str(tmp_path)]) == NOT_ASKED
    pins = pinned(LOCK)
    entries = [line for line in LOCK.read_text().splitlines() if not line.startswith((" ", "#"))]
    assert sum(map(len, pins.values())) == len(entries) > 100
    (tmp_path / "one.json").write_text("{}")
    (tmp_path / "two.yaml").write_text(advisory("NumPy", {"introduced": "0"}))
    assert main(["--advisories", str(tmp_path)]) == FOUND
    told = capsys.readouterr().out
    assert all(f"numpy {version}: X-NumPy" in told for version in pins["numpy"])
