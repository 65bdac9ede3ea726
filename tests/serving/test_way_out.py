"""Which proxy of the environment leads to whom."""

from __future__ import annotations

import httpx
import pytest

from visavis.serving.errors import SettingsError
from visavis.serving.way_out import proxy_to, why_not

ENVIRONMENT = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
PROXY = "http://me:pw@proxy.test:3128"


@pytest.fixture(autouse=True)
def company(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("HTTPS_PROXY", "me:pw@proxy.test:3128")
    monkeypatch.setenv("ALL_PROXY", PROXY)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8000/v1",
        "https://localhost",
        "http://[::1]:8080",
        "ws://127.1.2.3",
        "http://0.0.0.0:8080",
        "http://gpu.house.test/v1",
        "http://10.1.2.3:8000",
        "http://[fd00::7]:8000",
        "https://one.test:8443",
        "wss://[",
    ],
)
def test_this_machine_and_what_is_named_are_reached_past_it(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("NO_PROXY", ".house.test, 10.0.0.0/8,fd00::/8, one.test:8443")
    assert proxy_to(url) is None
    others = ("https://one.test", "http://a.test", "wss://a.test", "http://11.0.0.1")
    assert {proxy_to(other) for other in others} == {PROXY}


def test_a_proxy_that_is_none_is_refused_where_it_would_be_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://me:pw@proxy.test:1080")
    assert proxy_to("https://a.test") == PROXY, "another variable comes first"
    assert proxy_to("http://localhost") is None
    with pytest.raises(SettingsError, match=r"socks5://proxy.test:1080 .* a.test in NO_PROXY"):
        proxy_to("http://a.test")
    for unreadable in ("http://[::1", "http://proxy.test:port", "http://"):
        monkeypatch.setenv("HTTPS_PROXY", unreadable)
        with pytest.raises(SettingsError, match="cannot be reached by the proxy"):
            proxy_to("https://a.test")
    monkeypatch.setenv("HTTPS_PROXY", "http://[fd00::9]:3128/")
    assert proxy_to("https://a.test") == "http://[fd00::9]:3128/"


def test_a_reason_names_the_proxy_without_its_login_and_the_authority() -> None:
    said = "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: unknown CA (_ssl.c:1006)"
    told = why_not("https://a.test", httpx.ConnectError(said))
    assert "(unknown CA): SSL_CERT_FILE names" in told and "http://proxy.test:3128" in told
    assert why_not("http://localhost", httpx.ConnectTimeout("")) == "ConnectTimeout"
