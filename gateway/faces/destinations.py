"""Where poses may be sent, as the operator has named it: nobody else gives an address. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, Protocol
from urllib.parse import parse_qsl, urlsplit

from gateway.faces import live_link, vmc
from gateway.faces.live_link import LiveLinkSender
from gateway.faces.poses import Pose
from gateway.faces.vmc import VmcSender
from visavis.serving.addresses import could_be_a_host

_NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")
_SUBJECT = re.compile(r"[\w .-]{1,64}")
_PORTS = {"vmc": vmc.PORT, "livelink": live_link.PORT}


class Sender(Protocol):
    """Makes the datagrams of one destination."""

    def frame(self, pose: Pose, at_s: float) -> list[bytes]:
        """For a pose. at_s: its time, from any beginning on."""

    def rest(self) -> list[bytes]:
        """For the end: a face that does nothing."""


@dataclass(frozen=True, slots=True)
class Destination:
    """A host's port, and what is spoken there. names: of the blendshapes (vmc); subject: what the
    face is called (livelink).
    """

    name: str
    kind: Literal["vmc", "livelink"]
    host: str
    port: int
    names: str = "ARKit"
    subject: str = "visavis"

    def sender(self) -> Sender:
        """A new one."""
        return VmcSender(self.names) if self.kind == "vmc" else LiveLinkSender(self.subject)


def destination(name: str, url: str) -> Destination:
    """vmc://HOST[:PORT][?names=…] or livelink://HOST[:PORT][?subject=…]. Raises ValueError."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name[:40]!r} is no name: letters, digits, - and _, up to 40")
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname or parts.path.strip("/"):
        raise ValueError(f"{url!r} is neither vmc://HOST:PORT nor livelink://HOST:PORT")
    if not could_be_a_host(parts.hostname):
        raise ValueError(f"{url!r}: no host can have such a name")
    told = dict(parse_qsl(parts.query, keep_blank_values=True))
    host, port = parts.hostname, parts.port or _PORTS[parts.scheme]
    if parts.scheme == "vmc":
        names = told.pop("names", "ARKit")
        if names not in vmc.NAMES:
            raise ValueError(f"names: {names[:20]!r} is none of {', '.join(vmc.NAMES)}")
        found = Destination(name, "vmc", host, port, names=names)
    else:
        subject = told.pop("subject", "visavis")
        if not _SUBJECT.fullmatch(subject):
            raise ValueError(f"subject: {subject[:40]!r} is no name that an engine would list")
        found = Destination(name, "livelink", host, port, subject=subject)
    if told:
        raise ValueError(f"{url!r}: {next(iter(told))[:20]!r} means nothing here")
    return found
