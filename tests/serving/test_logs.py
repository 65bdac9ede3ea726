"""A log line is one line, and nothing that stands in it steers the terminal that shows it."""

from __future__ import annotations

import json
import logging

from visavis.serving.logs import JsonFormatter


def test_what_strangers_write_does_not_steer_a_terminal() -> None:
    told = "a\n\x1b[2J\x9b2J\u202eb\u2028c 你好"
    record = logging.LogRecord("x", logging.WARNING, "", 0, "tool %s", (told,), None)
    line = JsonFormatter("gateway").format(record)
    assert line.isprintable() and "你好" in line
    assert json.loads(line)["message"] == f"tool {told}"
