"""The essential conversation in a Firefox of the system's, where there is one."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.browser.firefox import NO_FIREFOX, Firefox, find_firefox, firefox
from tests.gateway.conftest import Rig
from visavis.wire.media import PcmChunk
from visavis.wire.subjects import Kind

pytestmark = pytest.mark.asyncio(loop_scope="session")

ENTER = "\ue007"
# As long as it takes the page to say that the picture stands still.
_VOICE_S = 5.5
SAYS_AWAY = """(() => {
  window.away = false;
  const look = () => (window.away ||= "away" in document.body.dataset);
  new MutationObserver(look).observe(document.body, { attributeFilter: ["data-away"] });
})()"""


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Firefox]:
    path = find_firefox() or pytest.skip(NO_FIREFOX)
    async with firefox(path, tmp_path_factory.mktemp("firefox")) as browser:
        yield browser


async def test_a_visitor_types_and_speaks_with_a_face_that_moves(
    browser: Firefox, rig: Rig
) -> None:
    """By WebRTC, in whatever codec the two agree on: Debian's Firefox has no H.264 there."""
    rig.doubles.script.voice_s = _VOICE_S
    async with browser.tab() as tab:
        await tab.goto(f"{rig.running.url}/?transport=webrtc&language=en&welcome=0")
        await tab.sees("body[data-ready]")
        await tab.click("#start-type")
        await tab.sees("body[data-connection=live][data-transport=webrtc][data-video=playing]")
        await tab.evaluate(SAYS_AWAY)
        await tab.press(f"How are you?{ENTER}")
        await tab.sees("body[data-state=speaking]")
        await tab.sees("body[data-state=idle]")
        answer = "document.querySelector('.line[data-side=avatar]').innerText"
        assert await tab.evaluate(answer) == rig.doubles.script.answer
        await tab.click("#microphone")
        await tab.sees("body[data-microphone=on]")
        session = str(await tab.evaluate("document.body.dataset.session"))
        async with rig.bus.subscribe(session, Kind.MIC, limit=64) as heard:
            assert isinstance(await anext(heard), PcmChunk)
        assert not await tab.evaluate("away"), (
            "it says of a picture that moves that it stands still"
        )
        assert tab.said == []


async def test_the_websocket_brings_the_answer_too(browser: Firefox, rig: Rig) -> None:
    rig.doubles.script.voice_s = 0.4
    async with browser.tab() as tab:
        await tab.goto(f"{rig.running.url}/?transport=websocket&language=en&welcome=0")
        await tab.sees("body[data-ready]")
        await tab.click("#start-type")
        await tab.sees("body[data-connection=live][data-transport=websocket][data-video=playing]")
        await tab.press(f"How are you?{ENTER}")
        await tab.sees("body[data-state=speaking]")
        await tab.sees("body[data-state=idle]")
        assert tab.said == []
