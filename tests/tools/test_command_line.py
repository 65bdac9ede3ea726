"""How commands begin and end, whichever they are."""

from __future__ import annotations

import subprocess
import sys

import pytest

INTERRUPTED_AT = """
import signal, sys

signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever these tests are begun with

at = sys.argv.pop(1)

class Finder:
    def find_spec(self, name, *_):
        if name == at:
            try:
                signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt:  # as modules do whose other modules fail them
                raise ImportError("cut short") from None

sys.meta_path.insert(0, Finder())
from visavis.__main__ import main
main()
"""


@pytest.mark.parametrize("module", ["typer", "visavis.tools.charts"])
def test_ctrl_c_while_a_command_is_imported_ends_it_without_a_word(module: str) -> None:
    command = [sys.executable, "-c", INTERRUPTED_AT, module, "timeline", "--url", "http://[::1]:1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
