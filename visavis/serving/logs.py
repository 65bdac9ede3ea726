"""JSON logs, one object a line, that carry session and turn."""

from __future__ import annotations

import contextlib
import json
import logging
import re
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from datetime import UTC, datetime

# What steers a terminal, ends a line or turns its direction, beside what JSON escapes by itself.
_STEERING = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_context: ContextVar[dict[str, str | int] | None] = ContextVar("log_context", default=None)


@contextlib.contextmanager
def log_context(**fields: str | int) -> Iterator[None]:
    """Every log line written inside carries `fields`, for example session and turn.

    Tasks started inside inherit them.
    """
    token = _context.set({**(_context.get() or {}), **fields})
    try:
        yield
    finally:
        _context.reset(token)


def context_fields() -> dict[str, str | int]:
    """The fields that a log line written here would carry."""
    return dict(_context.get() or {})


class JsonFormatter(logging.Formatter):
    """Each record as one line of JSON: time, level, service, logger, context, message."""

    def __init__(self, service: str) -> None:
        super().__init__()
        self._service = service

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        entry: dict[str, str | int] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "service": self._service,
            "logger": record.name,
            **(_context.get() or {}),
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        line = json.dumps(entry, ensure_ascii=False)
        return _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", line)


def configure_logging(service: str, level: str) -> None:
    """Write all logs of this process to standard error as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(service))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # These report every connection attempt and packet at INFO.
    for noisy in ("nats", "aioice", "aiortc", "httpx", "httpcore", "grpc"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
