"""The secrets inside a stack: everybody's password on the bus, and what calls are proven by.

One stack has one `Keys`: `visavis up` draws them anew for each run and gives every process its own,
in its environment; `visavis keys` writes them into files for a stack in containers.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from visavis.serving.errors import VisavisError
from visavis.serving.settings import ENV_PREFIX, secret_in
from visavis.wire.permissions import Login, User, users_config

USERS_FILE = "bus.conf"
"""For nats-server: who may say what, with all passwords."""
STACK_FILE = "stack"
TOKENS_FILE = "token-key"
"""For gateways: what session tokens are signed with."""
_FOLDER = "visavis-bus-"
_BYTES = 32


@dataclass(frozen=True)
class Keys:
    """The secrets of one stack: `passwords` on the bus by user, and what all of it shares."""

    passwords: Mapping[User, str] = field(repr=False)
    stack: str = field(repr=False)

    @classmethod
    def draw(cls) -> Keys:
        """New ones that nobody can guess."""
        return cls({user: _drawn() for user in User}, _drawn())

    def login(self, user: User) -> Login:
        """With what a user comes to the bus."""
        return Login(user, self.passwords[user])

    def environ(self, service: str) -> dict[str, str]:
        """What a process of the service is given, and no other: not on its command line, which
        every user of the machine can read.
        """
        prefix = f"{ENV_PREFIX}{service.upper()}_"
        return {
            f"{prefix}NATS_PASSWORD": self.passwords[User(service)],
            f"{prefix}STACK_SECRET": self.stack,
        }


def _drawn() -> str:
    return secrets.token_hex(_BYTES)


def write_private(path: Path, text: str, mode: int = 0o600) -> None:
    """A new file in the place of what was there, from its first byte on for its owner alone.

    Raises OSError.
    """
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as file:
        file.write(text)


# ------------------------------------------------------------ of a stack that runs here


@dataclass(frozen=True)
class OwnersKeys:
    """What the tools of a running stack's owner need to speak to its parts."""

    nats_url: str
    password: str = field(repr=False)
    """The operator's, on the bus."""
    stack: str = field(repr=False)


def private_folder(log_dir: Path) -> Path:
    """Of a stack: for what its bus keeps, and for keys. It need not outlive the stack.

    Raises VisavisError where there can be none.
    """
    root = Path(tempfile.gettempdir())
    for old in root.glob(f"{_FOLDER}*"):
        pid = old.name.removeprefix(_FOLDER).partition("-")[0]
        if pid.isdigit() and not psutil.pid_exists(int(pid)):
            shutil.rmtree(old, ignore_errors=True)  # of a stack that was killed
    for folder in (root, log_dir):
        with contextlib.suppress(OSError):
            return Path(tempfile.mkdtemp(prefix=f"{_FOLDER}{os.getpid()}-", dir=folder))
    raise VisavisError(f"the bus can have a folder neither in {root} nor in {log_dir}")


def hold_folder(folder: Path) -> int:
    """An open file; until it is closed systemd's cleaner of temporary folders leaves this one what
    nobody has touched for days. Raises OSError.
    """
    held = os.open(folder, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_SH)
    return held


def leave_for_owner(folder: Path, port: int, keys: Keys, nats_url: str) -> None:
    """Put what `keys_here` finds into the stack's folder. Raises OSError."""
    told = OwnersKeys(nats_url, keys.passwords[User.OPERATOR], keys.stack)
    write_private(folder / f"{port}.keys", json.dumps(asdict(told)))


def keys_here(port: int) -> OwnersKeys | None:
    """Of the stack of ours whose gateway listens on `port`; None: there is none."""
    for path in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*/{port}.keys"):
        with contextlib.suppress(OSError, ValueError, LookupError):
            if path.stat().st_uid == os.getuid():
                told = json.loads(path.read_text(encoding="utf-8"))
                # A stack of another version may tell more.
                return OwnersKeys(told["nats_url"], told["password"], told["stack"])
    return None


def stack_secret(url: str) -> str:
    """Of the stack whose gateway is at `url`: one that runs here, else what VISAVIS_STACK_SECRET or
    the file of VISAVIS_STACK_SECRET_FILE says; "": calls need not be proven. Raises SettingsError.
    """
    name = f"{ENV_PREFIX}STACK_SECRET"
    if given := os.environ.get(name):
        return given
    if path := os.environ.get(f"{name}_FILE"):
        return secret_in(Path(path), f"{name}_FILE")
    here = keys_here(urlsplit(url).port or 0)
    return "" if here is None else here.stack


# ------------------------------------------------------------ of a stack in containers


def write_keys(folder: Path) -> None:
    """A file for each user's password, one for what the stack shares, one for what its gateways
    sign with, and nats-server's.

    What is there stays, so that a stack can be told of new permissions; delete a file to have
    another secret in it. The folder is its owner's alone; the files can be read by all, because
    containers that one of them is mounted into have users of other numbers. Raises VisavisError.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        passwords = {user: _kept_or_drawn(folder / user) for user in User}
        for name in (STACK_FILE, TOKENS_FILE):
            _kept_or_drawn(folder / name)
        write_private(folder / USERS_FILE, users_config(passwords), 0o644)
    except (OSError, ValueError) as error:
        raise VisavisError(f"keys: {folder}: {error}") from error


def _kept_or_drawn(path: Path) -> str:
    with contextlib.suppress(FileNotFoundError):
        if kept := path.read_text(encoding="utf-8").strip():
            return kept  # else the disk was full as it was written
    drawn = _drawn()
    write_private(path, drawn + "\n", 0o644)
    return drawn
