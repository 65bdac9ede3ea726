"""`python -m tests.fuzz.openapi`: schemathesis against a running gateway and its own description.

The gateway is the real one, on a bus of its own, with doubles of the services behind it.
schemathesis is no part of the locked requirements: it is installed into an environment of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.gateway.openai.test_openai import TOLD, WRITTEN, OpenAiRig
from visavis.client import GatewayClient

_REQUIREMENT = "schemathesis==4.32.5"
# A request that is right by the description may still ask for a voice that is not there.
_CHECKS_LEFT_OUT = "positive_data_acceptance"
_FOREVER_S = 100_000.0
# Something to be said beforehand, for those who ask that it be made.
_ANSWERS = """
[[answers]]
language = "en"
questions = ["When are you open?"]
answer = "From nine to five."
"""
# Of the kinds of text that it does not know: they are sent as they are.
_HOOKS = """
import schemathesis

texts = ["application/sdp", "application/trickle-ice-sdpfrag"]
schemathesis.serializer.alias(texts, "text/plain")
"""
_KEY = "the key of who tries it"
# A body that is too large is refused, too.
_REFUSALS = [400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 428, 429, "5xx"]
# What ends a session gets one of its own: the others ask about theirs until the end.
_ENDING = (
    "delete_session",
    "hang_up_call",
)


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.openapi", description=__doc__)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--python", type=Path, help="of an environment that has schemathesis")
    given = parser.parse_args(argv)
    python = given.python or _installed()
    return asyncio.run(_run(python, given.seconds, given.seed))


def _installed() -> Path:
    """The interpreter of the environment, which is made first where it is not there."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "visavis" / "bench" / _REQUIREMENT.replace("==", "-")
    python = folder / "bin" / "python"
    if not (folder / "complete").is_file():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        subprocess.run([*pip, _REQUIREMENT], check=True)
        (folder / "complete").touch()
    return python


async def _run(python: Path, seconds: int, seed: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        TOLD.answers = WRITTEN
        rig = OpenAiRig(Path(folder))
        answers = Path(folder) / "answers.toml"
        answers.write_text(_ANSWERS)
        await rig.start(
            api_key=_KEY,
            answers=answers,
            max_sessions=10_000,
            session_idle_s=3600,
            idle_release_s=_FOREVER_S,
        )
        try:
            rig.doubles.script.slots = 10_000
            await rig.running.inside.registry.refresh()
            async with GatewayClient(rig.running.url, _KEY) as client:
                session, *ended = [await _session(client) for _ in range(1 + len(_ENDING))]
                await client.call("POST", f"/v1/sessions/{session}/text", json={"text": "Hi"})
            settings = Path(folder) / "schemathesis.toml"
            settings.write_text(_settings(session, ended))
            (settings.parent / "hooks.py").write_text(_HOOKS)
            return await _tried(python, rig.running.url, settings, seconds, seed)
        finally:
            await rig.reset()
            await rig.stop()


async def _session(client: GatewayClient) -> str:
    return str((await client.call("POST", "/v1/sessions", json={})).json()["id"])


def _settings(session: str, ended: Sequence[str]) -> str:
    """schemathesis' own. session: one that lives, for of any other every answer is 404."""
    told = f"""
hooks = "hooks.py"

[checks.negative_data_rejection]
expected-statuses = {_REFUSALS}

[auth.openapi.HTTPBearer]
bearer = "{_KEY}"

[parameters]
"path.session_id" = "{session}"
"path.turn" = 1
"""
    for operation, other in zip(_ENDING, ended, strict=True):
        told += f"""
[[operations]]
include-operation-id = "{operation}"
parameters = {{ "path.session_id" = "{other}" }}
"""
    return told


async def _tried(python: Path, url: str, settings: Path, seconds: int, seed: int) -> int:
    process = await asyncio.create_subprocess_exec(
        *(str(python), "-m", "schemathesis.cli", "--config-file", str(settings), "run"),
        *(f"{url}/openapi.json", "--max-time", str(seconds), "--seed", str(seed)),
        *("--exclude-checks", _CHECKS_LEFT_OUT, "--phases", "examples,coverage,fuzzing"),
        *("--continue-on-failure", "--request-timeout", "30", "--no-shrink"),
        cwd=settings.parent,
    )
    return await process.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
