"""The stack by OpenAI's Python SDK, unchanged, in an environment of its own: `make clients`."""

from __future__ import annotations

import io
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import av
import pytest

from tests.running_stack import RunningStack
from tests.stack.client_table import Record

_ROOT = Path(__file__).parents[2]
_PYTHON = Path(os.environ.get("VISAVIS_CLIENTS", _ROOT / ".venv-clients")) / "bin" / "python"
_WITHIN_S = 170.0


@pytest.fixture(scope="module")
def seen(stack: RunningStack, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the client has seen, all of it once; its files lie in `folder`."""
    folder = tmp_path_factory.mktemp("sdk")
    command = [_PYTHON, Path(__file__).with_name("openai_sdk.py"), stack.url, folder]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_WITHIN_S)
    assert done.returncode == 0, done.stderr
    (folder / "seen.json").write_text(done.stdout)
    return {**json.loads(done.stdout), "folder": folder}


pytestmark = pytest.mark.skipif(
    not _PYTHON.exists(), reason="OpenAI's SDK is not installed: `make clients` installs it"
)


@pytest.mark.client("openai", "models listed, one fetched, an unknown one")
def test_models(seen: dict[str, Any], record_property: Record) -> None:
    told = seen["models"]
    assert {"visavis", "smollm2-135m", "tts-1", "whisper-1"} <= set(told["ids"])
    assert (told["one"], told["missing"]) == ("whisper-1", "model_not_found")
    record_property("seen", f"{len(told['ids'])} models; `NotFoundError`, `model_not_found`")


@pytest.mark.client(
    "openai",
    "chat whole and streamed at temperature 0 with a seed and usage; `stop`; the asynchronous "
    "client",
)
def test_chat_whole_and_streamed(seen: dict[str, Any], record_property: Record) -> None:
    told = seen["chat"]
    assert told["text"] == told["streamed"] != ""
    assert told["streamed_pieces"] > 4 and told["roles"] == "assistant"
    usage = told["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"] > 12
    assert told["streamed_usage"]["completion_tokens"] == usage["completion_tokens"]
    assert told["finish_reason"] in ("stop", "length")
    assert told["stopped_before"] not in told["stopped"]
    assert seen["chat_async"]
    record_property(
        "seen", "the same text both ways, role first, usage last; the text ends before `stop`"
    )


@pytest.mark.client("openai", "a tool by name, whole and streamed; its result given back")
def test_tools_are_called_and_their_results_read(
    seen: dict[str, Any], record_property: Record
) -> None:
    told = seen["tools"]
    assert (told["finish_reason"], told["name"]) == ("tool_calls", "get_weather")
    assert isinstance(told["arguments"]["city"], str)
    assert told["streamed_name"] == "get_weather" and told["streamed_pieces"] > 2
    assert told["streamed_arguments"].keys() == {"city"}
    assert told["answer"]
    record_property("seen", "`tool_calls`, arguments that fit the schema, an answer")


@pytest.mark.client("openai", "`n=3`, an unknown model and voice, a file without sound")
def test_refusals_are_the_sdks_own_errors(seen: dict[str, Any], record_property: Record) -> None:
    assert seen["refusals"] == {
        "n": ["BadRequestError", "n", "unsupported_parameter", True],
        "model": ["NotFoundError", "model", "model_not_found", True],
        "voice": ["BadRequestError", "voice", "invalid_value", True],
        "file": ["BadRequestError", "file", "invalid_value", True],
    }
    record_property("seen", "`BadRequestError`, `NotFoundError` with `param`, `code`, `request_id`")


@pytest.mark.client(
    "openai", "endless streams until there is no room; one more that waits; then all closed"
)
def test_who_closes_frees_the_slots_and_a_full_house_says_when(
    seen: dict[str, Any], record_property: Record
) -> None:
    told = seen["full"]
    assert told["streams"] >= 1 and told["refused"]["code"] == "at_capacity"
    assert int(told["refused"]["retry_after"]) >= 1
    assert told["waited"] and told["then"] in ("stop", "length")
    record_property(
        "seen",
        f"room for {told['streams']}, then 429 with `Retry-After: "
        f"{told['refused']['retry_after']}`, after which the SDK comes again and is answered",
    )


@pytest.mark.client("openai", "speech in six formats, streamed; as events")
def test_speech_in_six_formats_begins_before_it_ends(
    seen: dict[str, Any], record_property: Record
) -> None:
    pcm = (seen["folder"] / "speech.pcm").read_bytes()
    length_s = len(pcm) / 2 / 24_000
    assert 3.0 < length_s < 9.0
    for form, (kind, first_s, whole_s) in seen["speech"].items():
        assert kind.startswith("audio/") and first_s < whole_s
        if form != "pcm":
            tolerance_s = 0.1 if form in ("mp3", "aac") else 0.01
            assert seconds_of(seen["folder"] / f"speech.{form}") == pytest.approx(
                length_s, abs=tolerance_s
            ), form
    *deltas, done = seen["speech_events"]
    assert set(deltas) == {"speech.audio.delta"} and done == "speech.audio.done"
    firsts, alls = zip(*(times for _, *times in seen["speech"].values()), strict=True)
    events_s = seconds_of(seen["folder"] / "events.wav")
    assert events_s == pytest.approx(length_s, abs=0.01)
    record_property(
        "seen",
        f"each as long as the pcm, {length_s:.1f} s; first bytes after {min(firsts):.2f} to "
        f"{max(firsts):.2f} s, all after {min(alls):.2f} to {max(alls):.2f} s",
    )


@pytest.mark.client(
    "openai", "that wav as json, text, srt, vtt, verbose_json with word times, streamed"
)
def test_what_was_spoken_is_heard_in_each_format(
    seen: dict[str, Any], record_property: Record
) -> None:
    told = seen["transcriptions"]
    for text in (told["json"], told["text"], told["streamed"]):
        assert "stairs on the left" in text.lower().replace(",", ""), text
    assert told["streamed"] == told["streamed_done"]
    assert told["srt"].startswith("1\n00:00:0") and told["vtt"].startswith("WEBVTT\n\n00:00:0")
    times = [time for start, end, _ in told["words"] for time in (start, end)]
    assert times == sorted(times) and 0 <= times[0] < times[-1] <= told["duration"] + 0.01
    assert len(told["words"]) >= 12 and len(told["segments"]) >= 2
    record_property(
        "seen",
        f"the words that were spoken; {len(told['words'])} word times that rise; deltas make up "
        "the text",
    )


def seconds_of(path: Path) -> float:
    with av.open(io.BytesIO(path.read_bytes())) as container:
        stream = container.streams.audio[0]
        return sum(frame.samples for frame in container.decode(stream)) / stream.rate
