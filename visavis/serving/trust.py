"""Certificates: where this machine keeps its own, and which ones our clients believe."""

from __future__ import annotations

import contextlib
import os
import ssl
from pathlib import Path

import certifi


def state_root() -> Path:
    """`$XDG_STATE_HOME/visavis`, by default under `~/.local/state`."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state).expanduser() / "visavis"


def own_certificate() -> Path:
    """Where a gateway of this user on this machine keeps the certificate that it signed itself."""
    return state_root() / "tls" / "certificate.pem"


def client_context() -> ssl.SSLContext:
    """For connections to a gateway: whom the system trusts, or SSL_CERT_FILE names; and ourselves.

    The certificate that a gateway of this user signed itself counts: only he can read its key.
    """
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    with contextlib.suppress(OSError, ssl.SSLError):  # there is none
        context.load_verify_locations(own_certificate())
    return context
