"""The user's own pip configuration, so that weights come from where packages come from."""

from __future__ import annotations

import ast
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pypi_simple import PYPI_SIMPLE_ENDPOINT

# pip's own precedence: the environment over the command's section over [global].
_SCOPES = ("global", "download", ":env:")
_CONFIG_TIMEOUT_S = 30


@dataclass(frozen=True)
class PipSettings:
    """The part of pip's configuration that says where and how to download."""

    index_urls: tuple[str, ...] = (PYPI_SIMPLE_ENDPOINT,)
    find_links: tuple[str, ...] = ()
    cert: str | None = None
    proxy: str | None = None
    trusted_hosts: tuple[str, ...] = ()

    @classmethod
    def read(cls) -> PipSettings:
        """Ask the pip of the running interpreter; without pip only PIP_* variables count."""
        return cls.from_options(_options(_config_lines()))

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> PipSettings:
        """From option names as pip spells them, such as `index-url`."""
        extra = options.get("extra-index-url", "").split()
        first = [] if _is_true(options.get("no-index", "")) else [_index(options), *extra]
        return cls(
            index_urls=tuple(dict.fromkeys(url.rstrip("/") + "/" for url in first)),
            find_links=tuple(options.get("find-links", "").split()),
            cert=options.get("cert") or None,
            proxy=options.get("proxy") or None,
            trusted_hosts=tuple(options.get("trusted-host", "").split()),
        )


def _index(options: Mapping[str, str]) -> str:
    return options.get("index-url") or options.get("pypi-url") or PYPI_SIMPLE_ENDPOINT


def _is_true(value: str) -> bool:
    return value.strip().lower() in ("1", "true", "yes", "on", "y", "t")


def _config_lines() -> list[str]:
    if importlib.util.find_spec("pip") is None:
        return _environment_lines()
    command = [sys.executable, "-m", "pip", "config", "list"]
    try:
        shown = subprocess.run(
            command, capture_output=True, text=True, timeout=_CONFIG_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return _environment_lines()
    return shown.stdout.splitlines()


def _environment_lines() -> list[str]:
    return [
        f":env:.{key.removeprefix('PIP_').lower().replace('_', '-')}={value!r}"
        for key, value in os.environ.items()
        if key.startswith("PIP_")
    ]


def _options(lines: Iterable[str]) -> dict[str, str]:
    """Lines of `pip config list` (`global.index-url='...'`) to one value per option."""
    by_scope: dict[str, dict[str, str]] = {scope: {} for scope in _SCOPES}
    for line in lines:
        key, equals, quoted = line.partition("=")
        scope, dot, option = key.rpartition(".")
        if not (equals and dot) or scope not in by_scope:
            continue
        try:
            value = ast.literal_eval(quoted)
        except (ValueError, SyntaxError):
            value = quoted
        by_scope[scope][option] = str(value)
    merged: dict[str, str] = {}
    for scope in _SCOPES:
        merged.update({option: value for option, value in by_scope[scope].items() if value})
    return merged
