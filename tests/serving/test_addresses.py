"""What a process tells others of where it is."""

from __future__ import annotations

import contextlib
import ipaddress
from pathlib import Path

import pytest

from gateway.peers.server import listen
from gateway.settings import GatewaySettings
from visavis.serving import addresses
from visavis.serving.addresses import machine_addresses, told_to_others
from visavis.serving.runtime import addresses_of
from visavis.serving.settings import ServiceSettings
from visavis.tools.stack.supervisor import Stack, StackOptions


class Settings(ServiceSettings):
    section = "face"


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_nobody_is_sent_to_every_address(host: str) -> None:
    told = addresses_of(Settings(host=host), 5, 6)
    own = {ip.strip("[]") for ip in (told["grpc"].rpartition(":")[0],)}
    assert own <= {*machine_addresses(), "127.0.0.1", "::1"}
    assert told["metrics"] == told["grpc"][:-1] + "6"


def test_what_is_said_holds() -> None:
    assert addresses_of(Settings(host="0.0.0.0", advertise="10.0.0.7"), 5, None) == {
        "grpc": "10.0.0.7:5"
    }
    for pod in ("fd00::7", "[fd00::7]"):
        told = addresses_of(Settings(host="0.0.0.0", advertise=pod), 5, 6)
        assert told == {"grpc": "[fd00::7]:5", "metrics": "[fd00::7]:6"}
        with contextlib.closing(listen(GatewaySettings(port=0, advertise=pod))) as listening:
            assert listening.address.startswith("[fd00::7]:")
    assert addresses_of(Settings(), 5, None) == {"grpc": "127.0.0.1:5"}
    assert told_to_others("fd00::1") == "[fd00::1]"


def test_a_machine_without_a_way_out_is_reached_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "machine_addresses", lambda **_: [])
    assert [told_to_others(host) for host in ("0.0.0.0", "::")] == ["127.0.0.1", "[::1]"]


def test_what_others_can_open_is_an_address(tmp_path: Path) -> None:
    everywhere = Stack(StackOptions(tmp_path, host="0.0.0.0", port=8080))
    assert everywhere.url == "http://127.0.0.1:8080"
    assert everywhere.urls == [f"http://{a}:8080" for a in machine_addresses(v6=False)]
    everywhere = Stack(StackOptions(tmp_path, host="::", port=8080))
    assert everywhere.url == "http://[::1]:8080"
    assert all(url.startswith("http://[") for url in everywhere.urls), "IPv4 is not heard there"
    assert Stack(StackOptions(tmp_path, port=8080)).urls == []
    for address in machine_addresses():
        assert not ipaddress.ip_address(address).is_loopback
