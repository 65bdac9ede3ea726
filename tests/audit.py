"""`make audit`: known weaknesses of the locked packages, by pip-audit and the OSV database.

`make test` runs it as well, beside the tests, with `--warn`: what is found is told there and fails
nothing, for a newcomer's checkout must not stop working on the day somebody publishes a weakness.
Where the database cannot be reached, it says so at once and asks nothing. With `--advisories` it
needs no network: it compares with a folder of OSV's files, such as a clone of
github.com/pypa/advisory-database, and says of when the newest of them is.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version
from rich.console import Console

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements" / "test.lock"
OWN_LOCK = ROOT / "requirements" / "audit.lock"
DATABASE = "https://api.osv.dev/v1/query"
_REACH_S = 3.0
_LONGEST_S = 300.0
FOUND, NOT_ASKED = 1, 3
"""Exit statuses: a package has a known weakness; nobody could be asked."""


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.audit", description=__doc__)
    parser.add_argument("--warn", action="store_true", help="tell, and exit with 0 all the same")
    parser.add_argument("--osv-url", default=DATABASE, help="of a mirror of the database")
    parser.add_argument(
        "--advisories", type=Path, metavar="FOLDER", help="of OSV's files: nobody is asked"
    )
    given = parser.parse_args(argv)
    console = Console(soft_wrap=True)
    folder = given.advisories
    status, told = audited(given.osv_url) if folder is None else compared(folder, pinned(LOCK))
    console.print(told, markup=False, highlight=False)
    if status and given.warn:
        console.print("This is a warning: `make audit` fails for it.")
    return 0 if given.warn else status


def audited(url: str) -> tuple[int, str]:
    """Exit status, and what to say."""
    if (reason := _unreachable(url)) is not None:
        return NOT_ASKED, f"Not audited: {urlsplit(url).hostname} cannot be reached ({reason})."
    try:
        python = _ready_python()
    except subprocess.SubprocessError as error:
        return NOT_ASKED, f"Not audited: pip-audit could not be installed ({error})."
    command = [str(python), "-m", "pip_audit", "--requirement", str(LOCK), "--require-hashes"]
    command += ["--disable-pip", "--vulnerability-service", "osv", "--osv-url", url]
    command += ["--progress-spinner", "off", "--desc", "off", "--aliases", "on"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LONGEST_S)
    except subprocess.TimeoutExpired:
        return NOT_ASKED, f"Not audited: the database took more than {_LONGEST_S:g} s."
    told = (done.stdout + done.stderr).strip()
    if done.returncode == 0:
        return 0, told
    # pip-audit exits with 1 for its own errors, too, and prints its table for findings alone.
    return (FOUND if done.stdout.strip() else NOT_ASKED), told


Pins = Mapping[str, Sequence[Version]]
"""By canonical name: of some, one for each version of Python."""


def pinned(lock: Path) -> Pins:
    pins = re.findall(r"^([\w.-]+)==([^\s;\\]+)", lock.read_text(encoding="utf-8"), re.MULTILINE)
    found: dict[str, list[Version]] = {}
    for name, version in pins:
        found.setdefault(canonicalize_name(name), []).append(Version(version))
    return found


def compared(folder: Path, pins: Pins) -> tuple[int, str]:
    """Exit status, and what to say, by the advisories in `folder`."""
    found, known, newest = [], 0, ""
    for advisory in _advisories(folder):
        known += 1
        newest = max(newest, str(advisory.get("modified") or advisory.get("published") or ""))
        for name, version in _hit(advisory, pins):
            also = ", ".join(advisory.get("aliases", []))
            found.append(f"{name} {version}: {advisory['id']} {f'({also})' if also else ''}")
    if not known:
        return NOT_ASKED, f"Not audited: {folder} holds no advisories."
    told = f"{len(pins)} packages, {known} advisories, the newest of {newest[:10]}"
    return (FOUND if found else 0), "\n".join([*sorted(found), f"{told}: {len(found)} found."])


def _advisories(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".json", ".yaml"):
            text = path.read_text(encoding="utf-8")
            told = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
            if isinstance(told, dict) and "affected" in told and not told.get("withdrawn"):
                yield told


def _hit(advisory: dict[str, Any], pins: Pins) -> Iterator[tuple[str, Version]]:
    for one in advisory["affected"]:
        name = canonicalize_name(one["package"]["name"])
        if one["package"]["ecosystem"] != "PyPI":
            continue
        for version in pins.get(name, ()):
            listed = str(version) in one.get("versions", [])
            if listed or any(_within(version, r) for r in one.get("ranges", [])):
                yield name, version


def _within(version: Version, told: dict[str, Any]) -> bool:
    """Whether OSV's events, in the order of their versions, leave this one affected."""
    if told["type"] != "ECOSYSTEM":
        return False
    affected = False
    events = [(_version(at), kind) for event in told["events"] for kind, at in event.items()]
    for at, kind in sorted(events):
        if kind == "introduced" and version >= at:
            affected = True
        elif (kind == "fixed" and version >= at) or (kind == "last_affected" and version > at):
            affected = False
    return affected


def _version(told: str) -> Version:
    """One that is none, as of old packages, is older than any."""
    try:
        return Version(str(told))
    except InvalidVersion:
        return Version("0.dev0")


def _unreachable(url: str) -> str | None:
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((parts.hostname or "", port), _REACH_S).close()
    except OSError as error:
        return str(error)
    return None


def _ready_python() -> Path:
    """Of an environment that has the locked pip-audit, made once and again when the lock changes.

    Raises subprocess.SubprocessError.
    """
    key = hashlib.sha256(OWN_LOCK.read_bytes()).hexdigest()[:10]
    folder = ROOT / ".out" / f"audit-{key}"
    python = folder / "bin" / "python"
    if not (folder / "complete").is_file():
        _quietly([sys.executable, "-m", "venv", "--clear", str(folder)])
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        _quietly([*pip, "--require-hashes", "--no-deps", "-r", str(OWN_LOCK)])
        (folder / "complete").touch()
    return python


def _quietly(command: list[str]) -> None:
    subprocess.run(command, capture_output=True, check=True, timeout=_LONGEST_S)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
