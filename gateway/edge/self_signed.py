"""A certificate that the gateway signs itself, so that browsers of other machines get https.

No browser believes it unasked; but with it, once its warning is passed or it is imported, the page
gets the microphone, which browsers give to https and to their own machine alone.
"""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from filelock import FileLock

from visavis.serving.addresses import machine_addresses
from visavis.serving.errors import SettingsError
from visavis.serving.trust import own_certificate
from visavis.whole_file import placed_whole

LIFE = timedelta(days=365)
RENEWED_BEFORE = timedelta(days=30)
# Whose clock is behind ours believes it, too.
_BACKDATED = timedelta(days=1)


def ensure(now: datetime | None = None) -> tuple[Path, Path]:
    """Certificate and key, in files of their owner alone; made where there are none that will do.

    Those that end within a month, that have not begun, for the clock was ahead, or that do not name
    an address that this machine has now, are made anew. Gateways of one user share them. Raises
    SettingsError where they cannot be written.
    """
    now = now or datetime.now(UTC)
    certificate = own_certificate()
    key = certificate.with_name("key.pem")
    try:
        certificate.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with FileLock(certificate.with_name("lock"), mode=0o600):
            if not _will_do(certificate, key, now):
                _make(certificate, key, now)
    except OSError as error:
        raise SettingsError(
            f"tls_self_signed: {certificate.parent} cannot be written ({error.strerror}); give a "
            "certificate with --tls-cert and --tls-key, or another folder in XDG_STATE_HOME"
        ) from error
    return certificate, key


def names(addresses: Iterable[str]) -> tuple[list[str], list[str]]:
    """Names and addresses under which this machine may be opened, which has `addresses`."""
    own = {socket.gethostname(), socket.getfqdn()}
    # A name of another form could not stand in a certificate.
    fit = {name for name in own if name.isascii() and name and len(name) <= 250}
    short = [address.partition("%")[0] for address in addresses]
    return ["localhost", *sorted(fit - {"localhost"})], ["127.0.0.1", "::1", *short]


def _will_do(certificate: Path, key: Path, now: datetime) -> bool:
    try:
        known = x509.load_pem_x509_certificate(certificate.read_bytes())
        private = serialization.load_pem_private_key(key.read_bytes(), None)
        said = known.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (FileNotFoundError, ValueError, TypeError, x509.ExtensionNotFound):
        return False
    # Those of IPv6 change from day to day.
    wanted = {ipaddress.ip_address(address) for address in machine_addresses(v6=False)}
    return (
        known.public_key() == private.public_key()
        and known.not_valid_before_utc <= now < known.not_valid_after_utc - RENEWED_BEFORE
        and wanted <= set(said.get_values_for_type(x509.IPAddress))
    )


def _make(certificate: Path, key: Path, now: datetime) -> None:
    private = ec.generate_private_key(ec.SECP256R1())
    public = private.public_key()
    dns, addresses = names(machine_addresses())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"visavis on {dns[-1]}"[:64])])
    said: list[x509.GeneralName] = [x509.DNSName(name) for name in dns]
    said += [x509.IPAddress(ipaddress.ip_address(a)) for a in dict.fromkeys(addresses)]
    server = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + LIFE)
        .add_extension(x509.SubjectAlternativeName(said), critical=False)
        # It vouches for nobody but itself, wherever it is imported.
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(server, critical=False)
        # By these the one of before is not taken for this one, which has the same name.
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(public), critical=False)
        .sign(private, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    plain, unlocked = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    for path, content in (
        (key, private.private_bytes(pem, plain, unlocked)),
        (certificate, made.public_bytes(pem)),
    ):
        with placed_whole(path, prefix=".making-") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(content)
