"""The Pipecat example within Pipecat, by the real stack: `make frameworks`."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from tests.running_stack import RunningStack

ROOT = Path(__file__).parents[2]
PYTHON = Path(os.environ.get("VISAVIS_FRAMEWORKS", ROOT / ".venv-frameworks")) / "bin" / "python"

pytestmark = pytest.mark.skipif(
    not PYTHON.exists(), reason="Pipecat is not installed: `make frameworks` installs it"
)


async def test_a_pipelines_voice_gets_a_face(stack: RunningStack) -> None:
    script = Path(__file__).with_name("pipecat_pipeline.py")
    process = await asyncio.create_subprocess_exec(
        *map(str, (PYTHON, script, stack.url)),
        env={**os.environ, "PYTHONPATH": f"{ROOT}/docs/examples:{ROOT}"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()[-3000:]
    told = json.loads(output)
    sys.stdout.write(f"{told}\n")
    assert told["heard_s"] == pytest.approx(0.8, abs=0.1)
    assert 0.3 < told["interrupted_s"] < 2.0, "20 s were brought"
    assert told["pictures"] > 20 and told["size"] == [512, 512]
