"""Where this machine has a Chromium, for the tests and for pictures of dashboards."""

from __future__ import annotations

import shutil

# As `make browser` looks for them.
_NAMES = (
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)
NO_CHROMIUM = "no Chromium: `make browser` installs it (needs root), or says what to do"


def find_chromium() -> str | None:
    """Where the system's browser is, if there is one."""
    return next(filter(None, map(shutil.which, _NAMES)), None)
