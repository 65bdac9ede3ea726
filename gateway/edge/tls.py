"""The certificate that the gateway shows, read anew when its files change."""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
from collections.abc import Callable
from pathlib import Path

from gateway.edge import self_signed
from gateway.settings import GatewaySettings
from visavis.serving.errors import SettingsError

log = logging.getLogger(__name__)

Files = tuple[Path, Path]
"""Certificate, with those of who vouches for it behind it, and its key."""
_LOOK_S = 60.0
_FIRST = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.S)


class Tls:
    """What the gateway shows to visitors, and how it knows other gateways.

    Gateways behind one address share a certificate, so each believes in its own, whatever the name
    is that it is reached by, and in no other. Raises SettingsError where the files will not do.
    """

    def __init__(self, files: Callable[[], Files]) -> None:
        self._files = files
        self.server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        """Of the listening sockets."""
        self.server.minimum_version = ssl.TLSVersion.TLSv1_2
        self.server.set_alpn_protocols(["http/1.1"])
        self.peers = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        """Of connections to other gateways."""
        self.peers.check_hostname = False
        # Also where somebody else has signed it: it is this one that is believed.
        self.peers.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        self._seen: tuple[Files, int, int] | None = None
        self.look()

    def look(self) -> bool:
        """Read certificate and key where they have changed; whether they had. Raises SettingsError.

        Connections that are open stay as they are; peers are still known by what was read before.
        """
        certificate, key = self._files()
        try:
            seen = ((certificate, key), certificate.stat().st_mtime_ns, key.stat().st_mtime_ns)
            if seen == self._seen:
                return False
            tried = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)  # where they do not fit, all stays
            tried.load_cert_chain(certificate, key)
            self.server.load_cert_chain(certificate, key)
            first = _FIRST.search(certificate.read_bytes())
            if first is None:
                raise SettingsError(f"tls_cert: {certificate} holds no certificate (PEM)")
            self.peers.load_verify_locations(cadata=first[0].decode("ascii"))
        except ssl.SSLError as error:
            raise SettingsError(
                f"tls_cert: {certificate} and {key} are not a certificate and its key, in PEM and "
                f"without a passphrase ({error.reason or error})"
            ) from error
        except OSError as error:
            raise SettingsError(
                f"tls_cert, tls_key: cannot read {error.filename or certificate}: {error.strerror}"
            ) from error
        self._seen = seen
        return True

    async def keep_looking(self) -> None:
        """Read the files anew whenever they have changed; never ends."""
        while True:
            await asyncio.sleep(_LOOK_S)
            await asyncio.to_thread(self.look_again)

    def look_again(self) -> None:
        """As `look`; where the new files will not do, the log says so and the old ones serve on."""
        try:
            if self.look():
                log.info("a new certificate is shown from now on")
        except SettingsError as error:
            log.error("the certificate of before is shown: %s", error)


def open_tls(settings: GatewaySettings) -> Tls | None:
    """What the settings say; None: plain http. Raises SettingsError."""
    if settings.tls_cert is None and settings.tls_key is None:
        return Tls(self_signed.ensure) if settings.tls_self_signed else None
    if settings.tls_self_signed:
        raise SettingsError("tls_self_signed: a certificate is given already, with tls_cert")
    if settings.tls_cert is None or settings.tls_key is None:
        raise SettingsError("tls_cert, tls_key: both are needed, or neither")
    files = (settings.tls_cert, settings.tls_key)
    return Tls(lambda: files)
