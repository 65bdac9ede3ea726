"""`python -m gateway`: the public side of visavis."""

from __future__ import annotations

import contextlib
import sys

from gateway.api.app import create_app
from gateway.peers.leaving import DrainingServer
from gateway.peers.listening import listen
from gateway.settings import GatewaySettings, check_exposure
from visavis.serving.errors import VisavisError, exit_with
from visavis.serving.logs import configure_logging
from visavis.serving.settings import load_settings


def main() -> None:
    """Serve until SIGTERM or SIGINT. Exits with one line on an error."""
    try:
        settings = load_settings(GatewaySettings, sys.argv[1:], prog="python -m gateway")
        check_exposure(settings)
        configure_logging("gateway", settings.log_level)
        with contextlib.closing(listen(settings)) as listening:
            app = create_app(settings, listening.address)
            server = DrainingServer(app, settings.drain_limit_s, listening.shared)
            with contextlib.suppress(KeyboardInterrupt):
                server.run(listening.sockets)
        if not server.started:
            sys.exit(1)
    except VisavisError as error:
        exit_with("gateway", error)


if __name__ == "__main__":
    main()
