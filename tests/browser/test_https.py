"""The page as another machine opens it: by https, under the policy that its answers carry."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page

from tests.browser.conftest import fresh_page
from tests.browser.flash_and_beep import SignalRig
from visavis.serving.addresses import machine_addresses
from visavis.wire.media import PcmChunk
from visavis.wire.subjects import Kind

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SignalRig]:
    folder = tmp_path_factory.mktemp("https")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder))
        rig = SignalRig(folder)
        await rig.start(host="0.0.0.0", tls_self_signed=True)
        yield rig
        await rig.stop()


def address_of(rig: SignalRig) -> str:
    own = machine_addresses(v6=False) or pytest.skip("this machine has no address but its loopback")
    return rig.running.url.replace("127.0.0.1", own[0])


def complaints(page: Page) -> list[str]:
    """What the browser has to say against the page, as it comes."""
    said: list[str] = []
    page.on("console", lambda m: said.append(m.text) if m.type in ("error", "warning") else None)
    return said


@pytest.mark.parametrize("transport", ["webrtc", "websocket"])
async def test_the_microphone_works_at_the_address_of_another_machine(
    browser: Browser, rig: SignalRig, transport: str
) -> None:
    async with fresh_page(browser, ignore_https_errors=True) as page:
        said = complaints(page)
        await page.goto(f"{address_of(rig)}/?transport={transport}")
        await page.click("#start-talk")
        live = f"[data-connection=live][data-video=playing][data-transport={transport}]"
        await page.wait_for_selector(f"body{live}[data-microphone=on]")
        session = await page.get_attribute("body", "data-session")
        async with rig.bus.subscribe(str(session), Kind.MIC, limit=64) as heard:
            assert isinstance(await anext(heard), PcmChunk)
        assert said == []


async def test_the_api_page_works_under_its_policy(browser: Browser, rig: SignalRig) -> None:
    async with fresh_page(browser, ignore_https_errors=True) as page:
        said = complaints(page)
        await page.goto(f"{address_of(rig)}/docs")
        await page.click(".opblock-summary-path[data-path='/v1/services']")
        await page.click(".try-out__btn")
        await page.click(".execute")
        await page.wait_for_selector(".live-responses-table .response-col_status >> text=200")
        assert said == []
