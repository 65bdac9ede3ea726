"""A page of OpenAI's SDK for voice agents, unchanged, with our face in it: recorded.

    python -m tests.tools.bench.realtime.recording agents.mp4 --strip agents.jpg

Needs what `make clients` and `make browser` install, and ffmpeg. A visitor's question comes out of
Chromium's microphone; what the page shows is taken picture by picture as the browser draws it, its
sound (both voices) is recorded in the page itself. The strip is four moments of the answer.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import os
import subprocess
import tempfile
import wave
from contextlib import suppress
from pathlib import Path
from typing import Any

from playwright.async_api import Error, ViewportSize

from tests.browser.conftest import chromium, find_chromium
from tests.stack.conftest import spoken
from tests.tools.bench.realtime.sessions import stack_at
from visavis.client import GatewayClient

_ROOT = Path(__file__).parents[4]
_CLIENTS = Path(os.environ.get("VISAVIS_CLIENTS", _ROOT / ".venv-clients")).absolute()
_SDK = _CLIENTS / "node_modules/@openai/agents-realtime"
_PAGE = Path(__file__).with_name("agents_page.js")
_QUESTION = "Hello! What is the capital of France, and what can I see there?"
_LISTENS_S, _AFTERWARDS_S, _BEFORE_S = 3.0, 12.0, 0.7
_SIZE = ViewportSize(width=960, height=540)
_SHOWN = 4


def microphone(question: Path) -> Path:
    """What Chromium hears: the question once somebody listens, then silence."""
    with wave.open(str(question)) as file:
        form, frames = file.getparams(), file.readframes(file.getnframes())
    path = question.with_name("microphone.wav")
    with wave.open(str(path), "wb") as file:
        file.setparams(form)
        second = bytes(2 * form.framerate)
        file.writeframes(second * round(_LISTENS_S) + frames + second * round(_AFTERWARDS_S))
    return path


class Screen:
    """What a page shows, as the browser draws it. Pictures lie in a folder as JPEG."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.pictures: list[tuple[float, Path]] = []
        """With when they were drawn, in seconds since 1970."""

    async def watch(self, page: Any) -> None:
        cdp = await page.context.new_cdp_session(page)
        acknowledged = set[asyncio.Task[None]]()

        async def acknowledge(number: int) -> None:
            with suppress(Error):  # the page is closed
                await cdp.send("Page.screencastFrameAck", {"sessionId": number})

        def drawn(event: dict[str, Any]) -> None:
            path = self._folder / f"{len(self.pictures):05}.jpg"
            path.write_bytes(base64.b64decode(event["data"]))
            self.pictures.append((event["metadata"]["timestamp"], path))
            task = asyncio.create_task(acknowledge(event["sessionId"]))
            acknowledged.add(task)
            task.add_done_callback(acknowledged.discard)

        cdp.on("Page.screencastFrame", drawn)
        await cdp.send("Page.startScreencast", {"format": "jpeg", "quality": 90})

    def list_from(self, since_s: float) -> Path:
        """For ffmpeg: each picture and how long it is seen."""
        shown = [picture for picture in self.pictures if picture[0] >= since_s]
        ends = [at_s for at_s, _ in shown[1:]] + [shown[-1][0] + 0.04]
        lines = (
            f"file '{path}'\nduration {end - at_s:.4f}\n"
            for (at_s, path), end in zip(shown, ends, strict=True)
        )
        path = self._folder / "pictures.txt"
        path.write_text("".join(lines), encoding="utf-8")
        return path


async def record(url: str, folder: Path, browser_path: str) -> tuple[Screen, dict[str, Any]]:
    """The page's pictures, and what it tells: its sound, since when, and its captions."""
    async with GatewayClient(url) as client:
        question = microphone(await spoken(client, _QUESTION, folder))
        session = {"type": "realtime"}
        made = await client.call("POST", "/v1/realtime/client_secrets", json={"session": session})
    flags = (
        "--autoplay-policy=no-user-gesture-required",
        f"--use-file-for-fake-audio-capture={question}%noloop",
    )
    screen = Screen(folder)
    async with chromium(browser_path, *flags) as browser:
        context = await browser.new_context(
            bypass_csp=True, permissions=["microphone"], viewport=_SIZE
        )
        page = await context.new_page()
        await page.goto(f"{url}/healthz")
        await page.add_script_tag(path=_SDK / "dist/bundle/openai-realtime-agents.umd.js")
        await screen.watch(page)
        asked = {"url": url, "key": made.json()["value"]}
        async with asyncio.timeout(120):
            told = await page.evaluate(_PAGE.read_text(encoding="utf-8"), asked)
    return screen, told


def write(screen: Screen, told: dict[str, Any], folder: Path, video: Path) -> float:
    """Pictures and sound into one file, from a moment before the question. Returns which."""
    sound = folder / "sound.webm"
    sound.write_bytes(base64.b64decode(told["sound"]))
    since_s: float = max(told["since_s"], screen.pictures[0][0], told["asked_s"] - _BEFORE_S)
    _ffmpeg(
        *("-f", "concat", "-safe", "0", "-i", screen.list_from(since_s)),
        *("-ss", f"{since_s - told['since_s']:.3f}", "-i", sound),
        *("-vf", "fps=25,format=yuv420p", "-c:v", "libx264", "-crf", "20", "-c:a", "aac"),
        *("-shortest", video),
    )
    return since_s


def draw_strip(video: Path, answer_s: tuple[float, float], strip: Path) -> None:
    """Moments of the answer, from above to below. answer_s: from when to when in the video."""
    begin, end = answer_s
    every_s = (end - begin) / _SHOWN
    filters = f"fps={1 / every_s:.5f},scale=640:-2,tile=2x{_SHOWN // 2}:padding=6:color=white"
    _ffmpeg(
        *("-ss", f"{begin:.3f}", "-t", f"{end - begin:.3f}", "-i", video),
        *("-vf", filters, "-frames:v", "1", "-q:v", "4", strip),
    )


def _ffmpeg(*arguments: object) -> None:
    command = ["ffmpeg", "-y", "-loglevel", "error", *map(str, arguments)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


async def main(video: Path, strip: Path | None, url: str, profile: str) -> None:
    browser_path = find_chromium()
    if browser_path is None or not _SDK.exists():
        raise SystemExit("Chromium or OpenAI's SDK is missing: `make browser`, `make clients`")
    with tempfile.TemporaryDirectory() as name, stack_at(url, 1, profile) as running:
        folder = Path(name)
        screen, told = await record(running, folder, browser_path)
        since_s = write(screen, told, folder, video)
    if strip is not None:
        draw_strip(video, (told["begins_s"] - since_s, told["ends_s"] - since_s), strip)
    print(f"{video}: {len(screen.pictures)} pictures; {told['captions']}")  # noqa: T201


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("video", type=Path)
    parser.add_argument("--strip", type=Path, default=None)
    parser.add_argument("--url", default="", help="of a stack that runs; default: start one")
    parser.add_argument("--profile", default="tiny")
    told = parser.parse_args()
    asyncio.run(main(told.video, told.strip, told.url, told.profile))
