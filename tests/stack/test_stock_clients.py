"""The stack by clients of Riva, Wyoming and Audio2Face-3D, unchanged: `make clients`."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.faces.poses import REST
from gateway.faces.vmc import VmcSender
from tests.running_stack import CLIENT_KEY, RunningStack
from tests.stack.client_table import Record

_ROOT = Path(__file__).parents[2]
_PYTHON = Path(os.environ.get("VISAVIS_CLIENTS", _ROOT / ".venv-clients")) / "bin" / "python"
_WITHIN_S = 170.0
SAID = "stairs on the left"

pytestmark = pytest.mark.skipif(
    not _PYTHON.exists(), reason="no stock clients are installed: `make clients` installs them"
)


@pytest.fixture(scope="module")
def seen(stack: RunningStack, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the clients have seen, all of it once; kept as seen.json."""
    told = httpx.get(f"{stack.url}/v1/services", trust_env=False).json()["services"]
    at = {service["service"]: service["address"] for service in told}
    addresses = [at["asr"], at["tts"], at["face"], CLIENT_KEY, str(stack.wyoming_port)]
    command = [_PYTHON, Path(__file__).with_name("stock_clients.py"), *addresses]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_WITHIN_S)
    assert done.returncode == 0, done.stderr
    (tmp_path_factory.mktemp("clients") / "seen.json").write_text(done.stdout)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.mark.client(
    "nvidia-riva-client",
    "a voice whole and while it is made; back whole, as a file and raw with looks and word "
    "times; listed; no key, an unknown voice, no rate",
)
def test_riva_speaks_and_hears_what_was_spoken(
    seen: dict[str, Any], record_property: Record
) -> None:
    told = seen["riva"]
    assert (told["health"], told["stranger"]) == (1, "UNAUTHENTICATED")
    voice, ears = told["voice"], told["ears"]
    assert voice["voices"][0] == "visavis.heart" and voice["unknown"] == "NOT_FOUND"
    assert 3.0 < voice["whole_s"] < 9.0 and voice["first_s"] < voice["online_took_s"]
    assert voice["online_s"] > 3.0
    for text in (ears["whole"], ears["from_file"], ears["from_raw"]):
        assert SAID in text.lower().replace(",", ""), text
    assert ears["looks"] and ears["models"] == ["offline", "online"]
    times = [time for _, start, end in ears["words"] for time in (start, end)]
    assert times == sorted(times) and len(ears["words"]) >= 12
    assert ears["no_header"] == "INVALID_ARGUMENT"
    record_property(
        "seen",
        f"{voice['whole_s']:.1f} s of voice, the first sound after {voice['first_s']:.2f} s, all "
        f"after {voice['online_took_s']:.2f} s; its words each way; `UNAUTHENTICATED`, "
        "`NOT_FOUND`, `INVALID_ARGUMENT`",
    )


@pytest.mark.client(
    "wyoming",
    "discovery, ping, sound to text, text to sound whole and streamed, a question, an unknown "
    "voice",
)
def test_home_assistant_finds_three_programs_and_uses_them(
    seen: dict[str, Any], record_property: Record
) -> None:
    told = seen["wyoming"]
    assert told["programs"] == [1, 1, 1] and told["pong"] == "there?"
    assert "en" in told["languages"] and "heart" in told["voices"]
    voice = told["voice"]
    assert voice["form"] == [24_000, 2, 1] and 3.0 < voice["whole_s"] < 9.0
    assert voice["streamed"] == ["audio-start", "audio-chunk", "audio-stop", "synthesize-stopped"]
    assert voice["error"] == "not_found"
    assert SAID in told["heard"].lower().replace(",", ""), told["heard"]
    assert told["heard_kinds"][0] == "transcript-start"
    assert told["heard_kinds"][-2:] == ["transcript", "transcript-stop"]
    assert told["handled"] and told["handled"][0]
    kinds = ["handled-start", "handled-chunk", "handled", "handled-stop"]
    assert told["handled_kinds"] == kinds
    record_property("seen", "three programs, all events in their order; `not_found`")


_READ_OSC = """
import json, sys
from pythonosc.osc_bundle import OscBundle
for line in sys.stdin:
    print(json.dumps([[m.address, *m.params] for m in OscBundle(bytes.fromhex(line))]))
"""


@pytest.mark.client("python-osc", "a frame of VMC read")
def test_python_osc_reads_what_figures_get(record_property: Record) -> None:
    face = replace(REST, yaw=0.1)
    sent = "\n".join(bundle.hex() for bundle in VmcSender("ARKit").frame(face, 1.0))
    command = [_PYTHON, "-c", _READ_OSC]
    done = subprocess.run(command, input=sent, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    messages = [message for line in done.stdout.splitlines() for message in json.loads(line)]
    assert messages[0] == ["/VMC/Ext/OK", 1] and messages[-1] == ["/VMC/Ext/Blend/Apply"]
    values = {m[1]: m[2] for m in messages if m[0] == "/VMC/Ext/Blend/Val"}
    assert len(values) == 52 and set(values.values()) == {0.0}
    (head,) = [m for m in messages if m[0] == "/VMC/Ext/Bone/Pos"]
    assert head[1] == "Head" and head[6] == pytest.approx(-0.05, abs=1e-3)
    record_property("seen", "52 values, the head's turn, applied once")


@pytest.mark.client(
    "nvidia-audio2face-3d",
    "a voice behind a second of silence, `JawOpen` times 0, stereo, no key",
)
def test_an_engine_gets_the_face_of_a_voice(seen: dict[str, Any], record_property: Record) -> None:
    told = seen["audio2face"]
    assert told["names"] == ["EyeBlinkLeft", "JawOpen", "TongueOut", 52]
    assert abs(told["frames"] - 30 * told["seconds"]) <= 1 and told["last"] == 0
    assert told["quiet"] < 0.08 < 0.15 < told["loud"] and told["shut"] == 0
    assert (told["stereo"], told["stranger"]) == ("INVALID_ARGUMENT", "UNAUTHENTICATED")
    record_property(
        "seen",
        f"{told['frames']} frames in {told['took_s']:.2f} s; the jaw rests ({told['quiet']:.3f}), "
        f"opens ({told['loud']:.2f}), stays shut; `INVALID_ARGUMENT`, `UNAUTHENTICATED`",
    )
