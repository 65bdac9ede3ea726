"""Under which addresses others reach this machine, and the ports on which it listens there."""

from __future__ import annotations

import ipaddress
import socket
import sys
from collections.abc import Iterable

import psutil

SHARES_PORTS = sys.platform == "linux"
"""Whether several processes that listen on one port each have a part of its connections. Elsewhere
a port can be bound so, too, and one of them has all: on macOS even one that does not listen yet.
"""

# Documentation's own network (RFC 5737): nothing is sent there, only a way to it is looked up.
_ELSEWHERE = {socket.AF_INET: ("192.0.2.1", 9), socket.AF_INET6: ("2001:db8::1", 9)}


def is_every_address(host: str) -> bool:
    """Whether `host`, such as 0.0.0.0, means all addresses of the machine, and so tells none."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return not host


def is_loopback(host: str) -> bool:
    """Whether `host` is this machine's own name for itself, which nobody else reaches."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def could_be_a_host(name: str) -> bool:
    """Whether `name` can be looked up: no part of it is empty, or too long."""
    try:
        return bool(name.encode("idna"))
    except UnicodeError:
        return False


def machine_addresses(*, v6: bool = True) -> list[str]:
    """Addresses at which other machines may reach this one, that of the way out first."""
    families = [socket.AF_INET, *([socket.AF_INET6] if v6 else [])]
    found = [_of_the_way_out(family) for family in families]
    for own in psutil.net_if_addrs().values():
        found += [a.address for a in own if a.family in families]
    return [a for a in dict.fromkeys(filter(None, found)) if _reaches_beyond(a)]


def told_to_others(host: str) -> str:
    """What others are told to reach a server by that listens on `host`; IPv6 in brackets.

    Of a server that listens on every address, the one of the machine's way out; where the machine
    has none, its loopback.
    """
    if is_every_address(host):
        v6 = ":" in host
        known = [a for a in machine_addresses(v6=v6) if (":" in a) == v6]
        host = known[0] if known else "::1" if v6 else "127.0.0.1"
    return in_address(host)


def in_address(host: str) -> str:
    """`host` as it stands before a port, which it may have been given as."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def bound(host: str, port: int, options: Iterable[int]) -> list[socket.socket]:
    """A TCP socket with these options for each address that `host` names, all on one port.

    port: 0: any that is free. Raises OSError.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except UnicodeError:  # of a part that is empty, or longer than 63 characters
        raise socket.gaierror(socket.EAI_NONAME, "no name that a machine can have") from None
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            try:
                one = socket.socket(family, kind, protocol)
            except OSError:
                continue  # an IPv6 address of a machine that has none
            sockets.append(one)
            for option in options:
                one.setsockopt(socket.SOL_SOCKET, option, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            chosen = port or (sockets[0].getsockname()[1] if len(sockets) > 1 else 0)
            one.bind((address[0], chosen, *address[2:]))
    except OSError:
        for one in sockets:
            one.close()
        raise
    return sockets


def _of_the_way_out(family: socket.AddressFamily) -> str:
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(_ELSEWHERE[family])
            return str(probe.getsockname()[0])
    except OSError:
        return ""


def _reaches_beyond(address: str) -> bool:
    try:
        known = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    return not (known.is_loopback or known.is_unspecified or known.is_link_local)
