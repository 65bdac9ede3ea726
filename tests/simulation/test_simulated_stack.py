"""A simulated stack through its public door: every word once, and only to whom it was said."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path


def test_each_visitor_hears_each_word_of_his_answers_once(tmp_path: Path) -> None:
    """In a process of its own, as all its clocks are slowed down; a little slower than life, so
    that what else this machine does is not heard in the answers."""
    figures = tmp_path / "figures.json"
    command = [sys.executable, "-c", "from visavis.tools.cli.main import main; main()"]
    command += ["bench", "simulate", "--sessions", "2", "--dilation", "1.25"]
    command += ["--duration-s", "2", "--warmup-s", "0", "--duty", "1", "--turn-s", "1.5"]
    command += ["--arrivals", "even", "--answer-words", "5", "--json", str(figures)]
    done = subprocess.run(
        command,
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    # Status 1 says that this machine was too busy for the times: they are not looked at here.
    assert figures.is_file(), done.stderr
    [step] = json.loads(figures.read_text(encoding="utf-8"))["simulated_steps"]
    heard = step["heard"]
    assert heard["answers"] >= 2
    assert heard["whole"] == heard["answers"] and heard["faults"] == []
    assert step["load"]["failed"] == 0 and step["load"]["ledger"]["faults"] == []
