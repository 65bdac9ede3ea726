"""With what a process shows that it belongs to a stack: its secret, and certificates."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path

import grpc

from visavis.serving.errors import SettingsError


@dataclass(frozen=True)
class Certificates:
    """Of TLS between the parts of a stack, PEM files; None: there is none.

    cert, key: a process's own, made out to its service's name ("asr"). ca: who has signed those of
    all. With them both sides of a call show each other theirs; the CA alone is for the bus. Read at
    each start: new ones are taken up as a process is started anew.
    """

    cert: Path | None = None
    key: Path | None = None
    ca: Path | None = None

    def check(self) -> None:
        """Raises SettingsError where one of them is missing, or a file cannot be read."""
        if len({self.cert is None, self.key is None}) > 1 or (self.cert and not self.ca):
            raise SettingsError(
                "stack_tls_cert, stack_tls_key and stack_tls_ca are of no use without each other"
            )
        for setting in ("cert", "key", "ca"):
            _pem(getattr(self, setting), setting)

    def server(self) -> grpc.ServerCredentials | None:
        """A service's; None: it speaks no TLS."""
        if self.cert is None:
            return None
        pair = (_pem(self.key, "key") or b"", _pem(self.cert, "cert") or b"")
        return grpc.ssl_server_credentials([pair], _pem(self.ca, "ca"), require_client_auth=True)

    def client(self) -> grpc.ChannelCredentials | None:
        """A caller's; None: it speaks no TLS."""
        if self.cert is None:
            return None
        return grpc.ssl_channel_credentials(
            _pem(self.ca, "ca"), _pem(self.key, "key"), _pem(self.cert, "cert")
        )

    def bus(self) -> ssl.SSLContext:
        """For a bus at tls://. Raises SettingsError."""
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.cert is not None:
                context.load_cert_chain(self.cert, self.key)
        except OSError as error:  # ssl.SSLError is one
            files = ", ".join(str(path) for path in (self.ca, self.cert, self.key) if path)
            raise SettingsError(f"certificates ({files}) cannot be used: {error}") from None
        return context


@dataclass(frozen=True)
class Access:
    """By what calls between the parts of a stack are proven. secret: "": they are not."""

    secret: str = field(default="", repr=False)
    certificates: Certificates = field(default_factory=Certificates)


OPEN = Access()
"""Nothing is asked: on the plain gRPC API, and where a developer starts the parts one by one."""


def _pem(path: Path | None, setting: str) -> bytes | None:
    try:
        return None if path is None else path.read_bytes()
    except OSError as error:
        raise SettingsError(f"stack_tls_{setting}: cannot read {path}: {error.strerror}") from None
