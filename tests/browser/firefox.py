"""A real Firefox, driven by WebDriver BiDi over a WebSocket of its own: no driver stands between.

Playwright wants a build of its own, or one that knows a command which the ESR of today does not.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import shutil
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

NO_FIREFOX = "no Firefox: `apt-get install firefox-esr` brings one (needs root)"
_NAMES = ("firefox-esr", "firefox")
_PREFERENCES: dict[str, bool | int | str] = {
    # The microphone is a tone, and nobody is asked for it.
    "media.navigator.streams.fake": True,
    "media.navigator.permission.disabled": True,
    # As for a visitor who has let the page play sound.
    "media.autoplay.default": 0,
    # A machine without a GPU would draw the page's animations picture by picture.
    "ui.prefersReducedMotion": 1,
    "intl.accept_languages": "en-US",
    # Nothing is asked of the network, nor of the user.
    "app.update.disabledForTesting": True,
    "browser.shell.checkDefaultBrowser": False,
    "browser.safebrowsing.update.enabled": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "extensions.update.enabled": False,
    "media.gmp-manager.updateEnabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "services.settings.server": "data:,#remote-settings-dummy/v1",
    "toolkit.telemetry.server": "data:,",
}
_START_LIMIT_S = 60
_LOOK_S = 0.05


def find_firefox() -> str | None:
    """Where the system's Firefox is, if there is one."""
    return next(filter(None, map(shutil.which, _NAMES)), None)


class FirefoxError(Exception):
    """What the browser refused, or what a script in a page has thrown."""


class Tab:
    """One tab."""

    def __init__(self, browser: Firefox, context: str) -> None:
        self._browser = browser
        self._context = context
        self.said: list[str] = []
        """What the page has thrown, and its console's warnings and errors."""

    async def goto(self, url: str) -> None:
        """Returns once the page has been loaded."""
        await self._ask("browsingContext.navigate", url=url, wait="complete")

    async def evaluate(self, script: str) -> Any:
        """What an expression is in the page, awaited there, as far as JSON tells it."""
        told = await self._browser.ask(
            "script.evaluate",
            expression=f"(async () => JSON.stringify((await ({script})) ?? null))()",
            target={"context": self._context},
            awaitPromise=True,
            userActivation=False,
        )
        if told["type"] == "exception":
            raise FirefoxError(told["exceptionDetails"]["text"])
        return json.loads(told["result"]["value"])

    async def until(self, condition: str, limit_s: float = 20) -> None:
        """Returns once an expression is true in the page. Raises TimeoutError with what it said."""
        try:
            async with asyncio.timeout(limit_s):
                while not await self.evaluate(condition):  # noqa: ASYNC110 - it is another process's
                    await asyncio.sleep(_LOOK_S)
        except TimeoutError:
            raise TimeoutError(f"never: {condition}; the page said {self.said}") from None

    async def sees(self, selector: str, limit_s: float = 20) -> None:
        """Returns once there is such an element."""
        await self.until(f"document.querySelector({json.dumps(selector)}) !== null", limit_s)

    async def click(self, selector: str) -> None:
        """With the pointer, in the middle of the element: a gesture of the visitor's."""
        x, y = await self.evaluate(
            f"""(() => {{
              const at = document.querySelector({json.dumps(selector)});
              at.scrollIntoView({{ block: "nearest" }});
              const {{ x, y, width, height }} = at.getBoundingClientRect();
              return [Math.round(x + width / 2), Math.round(y + height / 2)];
            }})()"""
        )
        move = {"type": "pointerMove", "x": x, "y": y}
        press = [{"type": kind, "button": 0} for kind in ("pointerDown", "pointerUp")]
        await self._act({"type": "pointer", "id": "mouse", "actions": [move, *press]})

    async def press(self, keys: str) -> None:
        """One after the other, into what has the focus; see WebDriver's table for named ones."""
        strokes = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        await self._act({"type": "key", "id": "keyboard", "actions": strokes})

    async def _act(self, source: dict[str, Any]) -> None:
        await self._ask("input.performActions", actions=[source])

    async def _ask(self, method: str, **params: Any) -> dict[str, Any]:
        return await self._browser.ask(method, context=self._context, **params)


class Firefox:
    """The browser's end of the wire. `firefox` starts one."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._tabs: dict[str, Tab] = {}
        self._reading = asyncio.create_task(self._read())

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """One command and its result. Raises FirefoxError."""
        number = next(self._numbers)
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            await self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
            return await answer
        finally:
            del self._waiting[number]

    async def begin(self) -> None:
        await self.ask("session.new", capabilities={"alwaysMatch": {"acceptInsecureCerts": True}})
        await self.ask("session.subscribe", events=["log.entryAdded"])

    @asynccontextmanager
    async def tab(self) -> AsyncIterator[Tab]:
        """A desktop tab of which nothing is remembered."""
        whose = (await self.ask("browser.createUserContext"))["userContext"]
        made = await self.ask("browsingContext.create", type="tab", userContext=whose)
        tab = self._tabs[made["context"]] = Tab(self, made["context"])
        viewport = {"width": 1280, "height": 800}
        await self.ask("browsingContext.setViewport", context=made["context"], viewport=viewport)
        yield tab
        await self.ask("browser.removeUserContext", userContext=whose)

    async def _read(self) -> None:
        try:
            async for text in self._socket:
                self._take(json.loads(text))
        finally:
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(FirefoxError("Firefox has gone"))

    def _take(self, message: dict[str, Any]) -> None:
        answer = self._waiting.get(message.get("id", -1))
        if message["type"] == "event":
            self._note(message["params"])
        elif answer is None or answer.done():
            return
        elif message["type"] == "success":
            answer.set_result(message["result"])
        else:
            answer.set_exception(FirefoxError(f"{message['error']}: {message['message']}"))

    def _note(self, entry: dict[str, Any]) -> None:
        tab = self._tabs.get(entry["source"].get("context", ""))
        if tab is not None and entry["level"] in ("warn", "error"):
            tab.said.append(str(entry["text"]))


@asynccontextmanager
async def firefox(path: str, folder: Path) -> AsyncIterator[Firefox]:
    """Without a window, with a profile of its own in `folder`."""
    lines = [
        f"user_pref({json.dumps(name)}, {json.dumps(value)});"
        for name, value in _PREFERENCES.items()
    ]
    (folder / "user.js").write_text("\n".join(lines), "utf-8")
    process = await asyncio.create_subprocess_exec(
        *(path, "--headless", "--no-remote", "--profile", str(folder)),
        *("--remote-debugging-port", "0"),
        stdout=PIPE,
        stderr=STDOUT,
    )
    try:
        async with asyncio.timeout(_START_LIMIT_S):
            address = await _listens(process)
        draining = asyncio.create_task(_drain(process))
        async with connect(f"{address}/session", ping_interval=None) as socket:
            browser = Firefox(socket)
            await browser.begin()
            yield browser
    finally:
        process.kill()  # it would put its profile in order first, which nobody needs any more
        await process.wait()
    await draining


async def _listens(process: Process) -> str:
    """Where, as it says itself."""
    assert process.stdout is not None
    said = []
    while line := (await process.stdout.readline()).decode(errors="replace"):
        said.append(line)
        if "BiDi listening on " in line:
            return line.split()[-1]
    raise FirefoxError("".join(said))


async def _drain(process: Process) -> None:
    assert process.stdout is not None
    while await process.stdout.read(1 << 16):
        pass
