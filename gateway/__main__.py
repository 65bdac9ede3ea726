"""`python -m gateway`: the public side of visavis."""

from __future__ import annotations

import sys

import uvicorn

from gateway.api.app import create_app
from gateway.settings import GatewaySettings, check_exposure
from visavis.serving.errors import VisavisError, exit_with
from visavis.serving.logs import configure_logging
from visavis.serving.settings import load_settings

# Sound and events are small; photos come over HTTP.
_SOCKET_MESSAGE_LIMIT_BYTES = 256 * 1024
_DRAIN_S = 3
# A client that vanished without a word holds its session's slots until that is noticed.
_PING_EVERY_S, _PING_TIMEOUT_S = 5, 15


def main() -> None:
    """Serve until SIGTERM or SIGINT. Exits with one line on an error."""
    try:
        settings = load_settings(GatewaySettings, sys.argv[1:], prog="python -m gateway")
        check_exposure(settings)
        configure_logging("gateway", settings.log_level)
        app = create_app(settings)
        uvicorn.run(
            app,
            host=settings.host,
            port=settings.port,
            log_config=None,
            access_log=False,
            ws="websockets-sansio",
            ws_max_size=_SOCKET_MESSAGE_LIMIT_BYTES,
            ws_per_message_deflate=False,
            ws_ping_interval=_PING_EVERY_S,
            ws_ping_timeout=_PING_TIMEOUT_S,
            timeout_graceful_shutdown=_DRAIN_S,
        )
    except VisavisError as error:
        exit_with("gateway", error)


if __name__ == "__main__":
    main()
