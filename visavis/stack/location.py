"""Where a stack keeps its logs on this machine."""

from __future__ import annotations

import os
from pathlib import Path


def log_dir() -> Path:
    """`$XDG_STATE_HOME/visavis/logs`, by default under `~/.local/state`."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state).expanduser() / "visavis" / "logs"
