"""Over WebRTC the picture is held back for as long as the sound is."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Page

from tests.browser.driving import body, start
from tests.browser.stub_gateway import StubGateway

# One event loop, and so one browser, for all of them; every test has a fresh profile.
pytestmark = pytest.mark.asyncio(loop_scope="session")

SCRIPT = """async ({waits_ms, need_ms}) => {
  const { InStep } = await import("/static/in_step.js");
  const seen = { type: "inbound-rtp", jitterBufferDelay: 0, jitterBufferEmittedCount: 0 };
  if (need_ms !== null) seen.jitterBufferMinimumDelay = 0;
  const stats = new Map([["c", { type: "codec" }], ["a", seen]]);
  const sound = { track: { kind: "audio" }, getStats: async () => stats };
  const picture = { track: { kind: "video" }, jitterBufferTarget: null };
  const inStep = new InStep({ getReceivers: () => [sound, picture] });
  const targets_ms = [];
  for (const wait_ms of waits_ms) {
    // A quarter of a second of sound, each sample of which has waited so long.
    const samples = wait_ms === null ? 0 : 12000;
    stats.set("a", Object.assign({}, stats.get("a"), {
      jitterBufferDelay: stats.get("a").jitterBufferDelay + samples * (wait_ms ?? 0) / 1000,
      jitterBufferMinimumDelay: stats.get("a").jitterBufferMinimumDelay + samples * need_ms / 1000,
      jitterBufferEmittedCount: stats.get("a").jitterBufferEmittedCount + samples,
    }));
    await inStep.follow();
    targets_ms.push(picture.jitterBufferTarget);
  }
  return targets_ms;
}"""


MUTES_FOR = """async ({held_ms}) => {
  const { Hush } = await import("/static/hush.js");
  const timers_ms = [];
  window.setTimeout = (_, ms) => timers_ms.push(ms);
  new Hush({ muted: false, dataset: {} }).begin(held_ms);
  return timers_ms;
}"""


async def targets(page: Page, waits_ms: list[int | None], need_ms: int | None = None) -> list[Any]:
    told: list[Any] = await page.evaluate(SCRIPT, {"waits_ms": waits_ms, "need_ms": need_ms})
    return told


async def test_the_picture_waits_as_long_as_the_sound(page: Page, stub: StubGateway) -> None:
    await page.goto(f"{stub.url}/static/in_step.js")
    # Even packets, a stall, and back; what is not to be seen is not followed.
    assert await targets(page, [40, 44, 420, 420, 60]) == [55, 55, 435, 435, 75]
    assert await targets(page, [None, 40, None, 90]) == [None, 55, 55, 105]
    assert await targets(page, [5000]) == [1000]
    # What the browser holds back for the picture alone is given back bit by bit.
    assert await targets(page, [80, 880, 680], need_ms=80) == [95, 695, 545]


async def test_what_waits_when_an_answer_is_cut_off_is_not_heard(
    page: Page, stub: StubGateway
) -> None:
    await page.goto(f"{stub.url}/static/hush.js")
    assert await page.evaluate(MUTES_FOR, {"held_ms": 900}) == [1300]


@pytest.mark.parametrize("lacking", ["nothing", "window.RTCRtpScriptTransform"])
async def test_webrtc_holds_the_picture_back(page: Page, stub: StubGateway, lacking: str) -> None:
    """By what the page tells of its own playout, or the browser of its own."""
    await page.add_init_script(
        f"""const Native = window.RTCPeerConnection;
        window.RTCPeerConnection = class extends Native {{
          constructor(...given) {{ super(...given); window.pc = this; }}
        }};
        delete {lacking};"""
    )
    await start(page, stub, "?transport=webrtc")
    assert await body(page, "transport") == "webrtc"
    receiver = "pc.getReceivers().find(({track}) => track.kind === 'video')"
    await page.wait_for_function(f"() => {receiver}.jitterBufferTarget > 0")
    assert await page.evaluate("pc.getReceivers().some(({transform}) => transform)") is (
        lacking == "nothing"
    )
