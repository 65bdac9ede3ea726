"""The commands as a user types them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import av
import numpy as np
import psutil
import pytest

from tests.running_stack import KNOWN_QUESTION, WELCOME, RunningStack
from tests.stack.conftest import Run
from visavis.tools.bench.visitor.clips import read_mono
from visavis.tools.lecture import FPS, PartStore

CLIPS = Path(__file__).parents[1] / "clips"


def frames_in(video: Path) -> int:
    with av.open(str(video)) as file:
        return sum(1 for _ in file.decode(video=0))


def test_ask_prints_the_exchange_and_writes_the_video(
    stack: RunningStack, run: Run, tmp_path: Path
) -> None:
    video = tmp_path / "answer.mp4"
    question = str(CLIPS / "austen_0880.wav")
    done = run("ask", question, "--url", stack.url, "-o", str(video))
    assert done.status == 0, done.error
    assert "young man" in done.output
    assert "Avatar:" in done.output
    for stage in ("asr", "llm", "tts"):
        assert stage in done.output
    assert np.abs(read_mono(video, 16_000)).max() > 1000


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["ask", "nothing.wav"], "nothing.wav: no such file"),
        (["ask", " "], "empty"),
        (["ask", "Hi", "-o", "/nonexistent/a.mp4"], "/nonexistent"),
        (["script", "nothing.txt", "-o", "a.mp4"], "nothing.txt"),
        (["avatar", "create", "nothing.jpg"], "nothing.jpg"),
        (["models", "pull", "hibari"], "hibari-en"),
    ],
)
def test_mistakes_are_told_in_one_line(run: Run, arguments: list[str], named: str) -> None:
    done = run(*arguments)
    assert done.status != 0
    said = " ".join(done.error.split())
    assert named in said
    assert "Traceback" not in said


def silence_parts(folder: Path) -> None:
    """Take the sound out of what is done, so that it can be told from what is made anew."""
    store = PartStore(folder)
    keys = [file.stem for file in folder.glob("*.npz")]
    assert len(keys) >= 2
    for key in keys:
        part = store.load(key)
        assert part is not None
        store.save(key, replace(part, pcm=np.zeros_like(part.pcm)))


def test_script_goes_on_where_it_was_stopped(
    bundle: Callable[[str], Path], run: Run, tmp_path: Path
) -> None:
    for name in ("hibari-en", "fastspeech2-mbmelgan-zh", "face-landmarks"):
        bundle(name)
    text, video = tmp_path / "lecture.txt", tmp_path / "lecture.mp4"
    # The last takes so long that it is not made when the first two are found.
    text.write_text("Part one.\n\nPart two.\n\nAnd so we come to the last of all of its parts.")
    command = ["script", str(text), "-o", str(video), "--profile", "tiny"]
    process = [sys.executable, "-c", "from visavis.tools.cli.main import main; main()", *command]
    parts = tmp_path / "lecture.mp4.parts"
    with subprocess.Popen(process, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as first:
        while len(list(parts.glob("*.npz"))) < 2:
            assert first.poll() is None
            try:
                first.wait(0.05)
            except subprocess.TimeoutExpired:
                continue
        children = psutil.Process(first.pid).children(recursive=True)
        first.send_signal(signal.SIGINT)
        first.wait(30)
    assert psutil.wait_procs(children, timeout=10)[1] == []
    assert not video.exists()
    silence_parts(parts)
    done = run(*command)
    assert done.status == 0, done.error
    assert not parts.exists()
    with av.open(str(video)) as file:
        sound = file.streams.audio[0]
        assert sound.duration is not None and sound.time_base is not None
        length_s = float(sound.duration * sound.time_base)
    assert length_s == pytest.approx(frames_in(video) / FPS, abs=1 / FPS)
    sound_level = np.abs(read_mono(video, 16_000))
    assert sound_level[:16_000].max() < 100, "the parts that were done were made again"
    assert sound_level[-48_000:].max() > 1000


def test_cache_lists_warms_and_clears_what_is_known(stack: RunningStack, run: Run) -> None:
    warmed = run("cache", "warm", "--url", stack.url, "--style", "calm")
    assert warmed.status == 0, warmed.error
    assert "2 texts are ready" in warmed.output
    listed = run("cache", "list", "--url", stack.url)
    assert KNOWN_QUESTION[:20] in listed.output
    assert WELCOME in listed.output
    everything = json.loads(run("cache", "list", "--json", "--url", stack.url).output)
    assert everything["phrases"][0]["entries"] >= 2
    cleared = run("cache", "clear", "--phrases", "--url", stack.url)
    assert "Forgot 0 learned answers and the sound of" in cleared.output
    refused = run("cache", "warm", "--url", stack.url, "--language", "de")
    assert refused.status == 1
    assert "nothing to warm in 'de'" in refused.error
    nobody = run("cache", "list", "--url", "http://127.0.0.1:9")
    assert nobody.status == 1
    assert "127.0.0.1:9" in nobody.error
