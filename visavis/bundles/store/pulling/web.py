"""The HTTP client of the model store: the user's own pip configuration, certificates, proxy.

Weights come from where the user's packages come from.
"""

from __future__ import annotations

import ast
import importlib.util
import netrc
import os
import random
import ssl
import subprocess
import sys
import threading
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from urllib.request import getproxies, proxy_bypass

import certifi
import httpx

from visavis.serving.errors import ModelStoreError
from visavis.serving.way_out import in_words

# pip's own precedence: the environment over the command's section over [global].
_SCOPES = ("global", "download", ":env:")
_CONFIG_TIMEOUT_S = 30


@dataclass(frozen=True)
class PipSettings:
    """The part of pip's configuration that says where and how to download."""

    index_urls: tuple[str, ...] = field(default_factory=lambda: (_public_index(),))
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
    return options.get("index-url") or options.get("pypi-url") or _public_index()


def _public_index() -> str:
    from pypi_simple import PYPI_SIMPLE_ENDPOINT  # slow to import; nothing is pulled at most starts

    return PYPI_SIMPLE_ENDPOINT


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


_RETRY_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})
# Short enough that Ctrl-C on a dead line does not seem to hang; a retry continues.
_TIMEOUT = httpx.Timeout(20.0)
_MAX_WAIT_S = 30.0


class PullCancelledError(ModelStoreError):
    """The pull was given up (Ctrl-C, or another download failed)."""

    def __init__(self) -> None:
        super().__init__("the pull was stopped; run it again and it goes on where it was")


@dataclass
class Patience:
    """How often and how long to wait before a failed request is tried again."""

    attempts: int = 5
    first_wait_s: float = 0.5
    cancel: threading.Event = field(default_factory=threading.Event)
    sleep: Callable[[float], object] | None = None
    """Replaces the wait on `cancel`, for tests."""

    def check(self) -> None:
        """PullCancelledError if the pull was given up meanwhile."""
        if self.cancel.is_set():
            raise PullCancelledError

    def pause(self, failures: int, retry_after: str | None = None) -> None:
        """Wait before the next attempt: doubling, with jitter, or as the server asks."""
        wait_s = self.first_wait_s * 2 ** (failures - 1) * random.uniform(0.8, 1.2)
        if retry_after is not None and retry_after.isdecimal():
            wait_s = float(retry_after)
        (self.sleep or self.cancel.wait)(min(wait_s, _MAX_WAIT_S))
        self.check()


class Web:
    """One connection pool for a whole pull; used from several threads."""

    def __init__(self, client: httpx.Client, patience: Patience) -> None:
        self.client = client
        self.patience = patience

    def get(self, url: str, headers: Mapping[str, str] | None = None) -> httpx.Response:
        """A small document, with retries; a refusal (4xx) is an answer, not an error.

        Raises ModelStoreError where no answer comes, or `url` is none.
        """
        failures = 0
        while True:
            self.patience.check()
            retry_after: str | None = None
            try:
                answer = self.client.get(url, headers=headers)
                if not retryable(answer.status_code):
                    return answer
                problem = f"answers {answer.status_code}"
                retry_after = answer.headers.get("retry-after")
            except httpx.RequestError as error:
                problem = f"cannot be reached ({in_words(error)})"
            except httpx.InvalidURL as error:
                raise ModelStoreError(f"an address is not a URL: {error}") from error
            failures += 1
            if failures >= self.patience.attempts:
                host = httpx.URL(url).host
                raise ModelStoreError(
                    f"{host} {problem}, {failures} times; check the network and proxy, pull again"
                )
            self.patience.pause(failures, retry_after)

    def stream(
        self, url: str, headers: Mapping[str, str]
    ) -> AbstractContextManager[httpx.Response]:
        """A large document, streamed; one attempt."""
        return self.client.stream("GET", url, headers=dict(headers))


def retryable(status: int) -> bool:
    """Whether the same request may succeed a little later."""
    return status in _RETRY_STATUS


def open_client(pip: PipSettings) -> httpx.Client:
    """A client with pip's certificate, proxy and trusted hosts, else the environment's, and as pip
    with the logins of the user's netrc file.

    Raises ModelStoreError for a certificate that cannot be read, or a proxy that is none.
    """
    verify, logins = _tls(pip.cert), _logins()

    def show_login(request: httpx.Request) -> None:
        # Each time anew: the host may be another one that the first has led to.
        if "Authorization" not in request.headers and request.url.host in logins:
            request.headers["Authorization"] = logins[request.url.host]

    try:
        # httpx takes trust per mounted host, as pip's trusted-host means it.
        mounts: dict[str, httpx.BaseTransport | None] = {
            f"https://{host}": httpx.HTTPTransport(verify=False, proxy=_proxy_to(host, pip))
            for host in pip.trusted_hosts
        }
        return httpx.Client(
            verify=verify,
            proxy=_with_scheme(pip.proxy),
            mounts=mounts or None,
            timeout=_TIMEOUT,
            follow_redirects=True,
            headers={"User-Agent": "visavis"},
            event_hooks={"request": [show_login]},
        )
    except (ValueError, ImportError, httpx.InvalidURL) as error:
        raise ModelStoreError(
            f"the proxy cannot be used ({error}): correct pip's `proxy` option, or HTTPS_PROXY and "
            "ALL_PROXY of the environment"
        ) from error


def _logins() -> dict[str, str]:
    """Headers that show the logins of the user's netrc file, by host.

    None where the file is missing or malformed. Its `default` is left out: every public host would
    be told it.
    """
    try:
        hosts = netrc.netrc(os.environ.get("NETRC") or os.path.expanduser("~/.netrc")).hosts
    except (OSError, ValueError, netrc.NetrcParseError):
        return {}
    told = {host: f"{login or account}:{key}" for host, (login, account, key) in hosts.items()}
    return {host: f"Basic {b64encode(login.encode()).decode()}" for host, login in told.items()}


def _proxy_to(host: str, pip: PipSettings) -> str | None:
    """By which proxy a host is reached that has a transport of its own; None: by none."""
    if pip.proxy or proxy_bypass(host):
        return _with_scheme(pip.proxy)
    proxies = getproxies()
    return _with_scheme(proxies.get("https") or proxies.get("all"))


def _with_scheme(proxy: str | None) -> str | None:
    """As pip reads it: a proxy without a scheme is asked by http."""
    return f"http://{proxy}" if proxy and "://" not in proxy else proxy


def _tls(cert: str | None) -> ssl.SSLContext:
    """Trust the certificate that was configured, else the system's and certifi's together."""
    given = (
        cert
        or os.environ.get("REQUESTS_CA_BUNDLE")
        or os.environ.get("CURL_CA_BUNDLE")
        or os.environ.get("SSL_CERT_FILE")
    )
    if given:
        try:
            if os.path.isdir(given):
                return ssl.create_default_context(capath=given)
            return ssl.create_default_context(cafile=given)
        except (OSError, ssl.SSLError) as error:
            raise ModelStoreError(
                f"the certificate file {given} cannot be read ({error}); "
                "correct pip's `cert` option or the variable that names it"
            ) from error
    context = ssl.create_default_context()
    context.load_verify_locations(cafile=certifi.where())
    return context
