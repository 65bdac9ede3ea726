"""How commands begin and end, whichever they are."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

import pytest

from visavis.tools.cli.systems import refusal

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


ON_WINDOWS = """
import sys

sys.platform = "win32"
sys.modules["fcntl"] = sys.modules["resource"] = None
from visavis.__main__ import main
main()
"""


def test_on_windows_a_sentence_says_where_it_runs_instead() -> None:
    command = [sys.executable, "-c", ON_WINDOWS, "up"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "install WSL 2" in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("machine", "macos", "said"),
    [
        ("x86_64", "15.1", "a Python for arm64"),
        ("arm64", "13.6.1", "macOS 14 or newer"),
        ("arm64", "14.0", ""),
        ("arm64", "26.1", ""),
    ],
)
def test_macs_without_packages_are_told_so(machine: str, macos: str, said: str) -> None:
    told = refusal("darwin", machine, macos)
    assert said in told if said else not told
    assert not refusal("linux", machine, "")


COUNTED = """
import resource, sys
from visavis.tools.cli.main import main

resource.setrlimit(resource.RLIMIT_NOFILE, (256, int(sys.argv.pop(1))))
try:
    main()
finally:
    print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize(("hard", "soft"), [(512, 512), (20_000, 10_240)])
def test_a_command_may_have_as_many_files_open_as_it_can_be_given(hard: int, soft: int) -> None:
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < hard:
        pytest.skip("this machine allows fewer")
    command = [sys.executable, "-c", COUNTED, str(hard), "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == f"{soft} {hard}"


NAMELESS = """
import os, pwd, sys

from visavis.__main__ import main

def getpwuid(number):
    raise KeyError(number)

pwd.getpwuid = getpwuid
main()
"""


def test_a_user_whom_the_system_does_not_know_may_ask() -> None:
    """As in containers: neither a name nor HOME."""
    surroundings = {k: v for k, v in os.environ.items() if k not in _FOLDERS}
    command = [sys.executable, "-c", NAMELESS, "models", "list"]
    done = subprocess.run(command, env=surroundings, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "missing" in done.stdout


_FOLDERS = {"HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "VISAVIS_MODEL_DIR"}
