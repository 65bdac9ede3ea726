"""NVIDIA's own scripts, which PyPI's package does not hold, as they are: `make clients
RIVA_SCRIPTS=python-clients/scripts` with a checkout of nvidia-riva/python-clients.
"""

from __future__ import annotations

import json
import os
import subprocess
import wave
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.running_stack import CLIENT_KEY, RunningStack

_ROOT = Path(__file__).parents[2]
_PYTHON = Path(os.environ.get("VISAVIS_CLIENTS", _ROOT / ".venv-clients")).absolute() / "bin/python"
_SCRIPTS = Path(os.environ.get("VISAVIS_RIVA_SCRIPTS") or "nowhere").absolute()
SPOKEN = "The museum opens at nine. Please take the stairs on the left, and mind the step."
SAID = "stairs on the left"

pytestmark = pytest.mark.skipif(
    not (_SCRIPTS / "tts/talk.py").exists() or not _PYTHON.exists(),
    reason="NVIDIA's scripts are not there: `make clients RIVA_SCRIPTS=…` tells where they are",
)

Script = Callable[..., str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scripts")


@pytest.fixture(scope="module")
def script(stack: RunningStack, folder: Path) -> Script:
    """Runs one with the key and the service that it is for; gives what it prints."""
    told = httpx.get(f"{stack.url}/v1/services", trust_env=False).json()["services"]
    at = {service["service"]: service["address"] for service in told}

    def run(name: str, *arguments: str, key: str = CLIENT_KEY) -> str:
        server = ("--server", at[name.partition("/")[0]])
        shown = ("--metadata", "authorization", f"Bearer {key}")
        command = [_PYTHON, _SCRIPTS / name, *server, *shown, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=folder)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def length_s(path: Path) -> float:
    with wave.open(str(path)) as file:
        assert file.getframerate() == 44_100
        return file.getnframes() / 44_100


@pytest.mark.client("nvidia-riva-client", "NVIDIA's scripts: voices and models listed")
def test_what_there_is_is_listed(script: Script) -> None:
    voices = json.loads(script("tts/talk.py", "--list-voices"))
    assert "visavis.heart" in voices["en-US"]["voices"]
    for name in ("asr/transcribe_file.py", "asr/transcribe_file_offline.py"):
        assert "en" in script(name, "--list-models")


@pytest.fixture(scope="module")
def recording(script: Script, folder: Path) -> str:
    path = folder / "whole.wav"
    told = script("tts/talk.py", "--text", SPOKEN, "-o", str(path))
    assert "Time spent" in told and 3.0 < length_s(path) < 9.0
    return str(path)


@pytest.mark.client("nvidia-riva-client", "talk.py: a text whole and with --stream")
def test_a_voice_comes_while_it_is_made(script: Script, recording: str, folder: Path) -> None:
    path = folder / "streamed.wav"
    told = script("tts/talk.py", "--text", SPOKEN, "--stream", "-o", str(path))
    assert "Time to first audio" in told
    assert length_s(path) == pytest.approx(length_s(Path(recording)), abs=0.7)


@pytest.mark.client(
    "nvidia-riva-client",
    "transcribe_file.py, transcribe_file_offline.py, riva_streaming_asr_client.py: that file",
)
@pytest.mark.parametrize(
    "name", ["transcribe_file.py", "transcribe_file_offline.py", "riva_streaming_asr_client.py"]
)
def test_the_words_come_back(script: Script, recording: str, folder: Path, name: str) -> None:
    printed = script(f"asr/{name}", "--input-file", recording)
    if name == "riva_streaming_asr_client.py":
        printed = (folder / "output_0.txt").read_text()
    assert SAID in printed.lower().replace(",", ""), printed


@pytest.mark.client(
    "nvidia-riva-client", "talk.py, transcribe_file_offline.py: an unknown voice, another key"
)
def test_refusals_are_told_in_our_words(script: Script, recording: str) -> None:
    told = script("tts/talk.py", "--text", "Hi.", "--voice", "nobody")
    assert "there is no 'nobody'" in told
    told = script("asr/transcribe_file_offline.py", "--input-file", recording, key="another")
    assert "client_key" in told
