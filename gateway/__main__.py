"""`python -m gateway`: the public side of visavis."""

from __future__ import annotations

import gc

if __name__ == "__main__":
    # What modules are made of is no garbage: to search it again and again, until the start is over
    # (`Collecting`), would take a sixth of it.
    gc.disable()

import contextlib
import socket
import sys
from collections.abc import Callable, Sequence

from gateway.api.app import create_app
from gateway.edge.tls import open_tls
from gateway.peers.server import DrainingServer, listen
from gateway.settings import GatewaySettings, check_exposure
from visavis.serving.errors import VisavisError, exit_with
from visavis.serving.lifetime.open_files import allow_many
from visavis.serving.logs import configure_logging
from visavis.serving.settings import load_settings

Run = Callable[[DrainingServer, list[socket.socket]], object]


def serve(argv: Sequence[str], *, prog: str, run: Run = DrainingServer.run) -> None:
    """Serve until SIGTERM or SIGINT, with the settings that `argv` and the environment give.

    run: runs the server, on an event loop of its own or of the caller's. Raises VisavisError;
    exits where the server could not start.
    """
    settings = load_settings(GatewaySettings, argv, prog=prog)
    check_exposure(settings)
    _ = settings.ice  # a secret that cannot be read is told now, not to the first visitor
    configure_logging("gateway", settings.log_level)
    allow_many()
    tls = open_tls(settings)
    with contextlib.closing(listen(settings)) as listening:
        app = create_app(settings, listening.address, tls)
        server = DrainingServer(app, settings, listening.shared, tls)
        with contextlib.suppress(KeyboardInterrupt):
            run(server, listening.sockets)
    if not server.started:
        sys.exit(1)


def main() -> None:
    """Exits with one line on an error."""
    try:
        serve(sys.argv[1:], prog="python -m gateway")
    except VisavisError as error:
        exit_with("gateway", error)


if __name__ == "__main__":
    main()
