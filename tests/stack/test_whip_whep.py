"""A question by WHIP and its answer by WHEP, with `whip-whep` in Chromium: `make clients`."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from playwright.async_api import Route

from tests.browser.conftest import chromium, chromium_path
from tests.running_stack import RunningStack
from tests.stack.client_table import Record
from tests.stack.conftest import spoken
from tests.stack.test_openai_agents import after_silence
from tests.tools.bench.live.browser import PLAY, PUBLISH
from visavis.client import GatewayClient, GatewaySession

__all__ = ["chromium_path"]

_ROOT = Path(__file__).parents[2]
_CLIENTS = Path(os.environ.get("VISAVIS_CLIENTS", _ROOT / ".venv-clients")).absolute()
_MODULES = _CLIENTS / "node_modules/whip-whep"
_WITHIN_S = 120.0
QUESTION = "What is the capital of France?"

pytestmark = pytest.mark.skipif(
    not _MODULES.exists(), reason="whip-whep is not installed: `make clients` installs it, with npm"
)


async def own(route: Route) -> None:
    name = route.request.url.rpartition("/")[2]
    await route.fulfill(path=_MODULES / name, content_type="text/javascript")


async def answered(session: GatewaySession) -> str:
    """What was understood, once it is answered."""
    heard = ""
    async for event in session.events():
        if event["type"] == "transcript" and event["final"]:
            heard = event["text"]
        elif event["type"] == "turn" and event["event"] == "finished":
            break
    return heard


@pytest.mark.client(
    "whip-whep", "in Chromium: a question from the microphone by WHIP, watched by WHEP; both ended"
)
async def test_a_question_by_whip_is_answered_by_whep(
    stack: RunningStack,
    gateway: GatewayClient,
    tmp_path: Path,
    chromium_path: str,
    record_property: Record,
) -> None:
    question = after_silence(await spoken(gateway, QUESTION, tmp_path))
    flags = (
        "--autoplay-policy=no-user-gesture-required",
        f"--use-file-for-fake-audio-capture={question}%noloop",
    )
    async with (
        chromium(chromium_path, *flags) as browser,
        gateway.session(language="en") as session,
        asyncio.timeout(_WITHIN_S),
    ):
        context = await browser.new_context(bypass_csp=True, permissions=["microphone", "camera"])
        page = await context.new_page()
        await page.route("**/static/proof/*", own)
        await page.goto(f"{stack.url}/healthz")
        url = f"{stack.url}/v1/sessions/{session.id}"
        played = await page.evaluate(PLAY, f"{url}/whep")
        listening = asyncio.create_task(answered(session))
        await page.evaluate(PUBLISH, f"{url}/whip")
        heard = await listening
        await page.evaluate("publisher.stop()")
        await page.evaluate("player.stop()")
    assert played["width"] == 512 and "capital of france" in heard.lower()
    record_property("seen", f"“{heard}” understood and answered, a face {played['width']} wide")
