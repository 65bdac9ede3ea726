"""Tracing begins and ends with the process, where its environment says so."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping

from visavis.serving.errors import SettingsError
from visavis.serving.telemetry.traces import FILE_VARIABLE, tracer, use_tracer

log = logging.getLogger(__name__)

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_END_WAIT_S = 3.0  # for a collector that does not answer


def wanted(environment: Mapping[str, str]) -> bool:
    """Whether spans have somewhere to go, by OpenTelemetry's variables and ours."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    if environment.get(FILE_VARIABLE):
        return True
    exporter = environment.get("OTEL_TRACES_EXPORTER", "").strip()
    return exporter == "otlp" or (
        not exporter and any(environment.get(name) for name in _ENDPOINTS)
    )


def start_tracing(service: str, instance: str) -> None:
    """Trace from now on, if the environment says so.

    Raises SettingsError where a file is asked for that cannot be written, or without the
    libraries; where a machine's environment names a collector for all that run there, the lack
    of them is only told.
    """
    if not wanted(os.environ):
        return
    try:
        from visavis.serving.telemetry.opentelemetry_spans import open_tracer
    except ImportError as error:
        missing = f"traces need OpenTelemetry: pip install -e '.[otel]' ({error})"
        if os.environ.get(FILE_VARIABLE):
            raise SettingsError(f"{FILE_VARIABLE}: {missing}") from None
        log.warning("%s", missing)
        return
    use_tracer(open_tracer(service, instance, os.environ.get(FILE_VARIABLE, "")))
    log.info("turns are traced")


def stop_tracing() -> None:
    """Hand over what is kept, as far as it goes within three seconds."""
    ending = tracer()
    use_tracer(None)
    if ending is not None:
        closing = threading.Thread(target=ending.close, name="traces-close", daemon=True)
        closing.start()
        closing.join(_END_WAIT_S)
