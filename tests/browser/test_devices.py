"""Microphones and loudspeakers that come and go while the page talks."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect

from tests.browser.driving import start
from tests.browser.stub_gateway import StubGateway

# One event loop, and so one browser, for all of them; every test has a fresh profile.
pytestmark = pytest.mark.asyncio(loop_scope="session")

# Chromium's pretended devices, which can be taken away and brought back by name.
PLUGS = """
  const { mediaDevices, permissions } = navigator;
  const list = mediaDevices.enumerateDevices.bind(mediaDevices);
  const open = mediaDevices.getUserMedia.bind(mediaDevices);
  const gone = new Set();
  const there = async () => (await list()).filter(({ label }) => !gone.has(label));
  const plugs = (window.plugs = { track: null, taken: "", state: "granted" });
  permissions.query = async () => ({ state: plugs.state });
  mediaDevices.enumerateDevices = there;
  mediaDevices.getUserMedia = async ({ audio }) => {
    const inputs = (await there()).filter(({ kind }) => kind === "audioinput");
    const id = audio.deviceId.exact ?? audio.deviceId.ideal;
    const input = inputs.find(({ deviceId }) => deviceId === id) ?? inputs[0];
    if (!input) throw new DOMException("none", "NotFoundError");
    if (input.label === plugs.taken) throw new DOMException("taken", "NotReadableError");
    const stream = await open({ audio: { ...audio, deviceId: { exact: input.deviceId } } });
    plugs.track = stream.getAudioTracks()[0];
    return stream;
  };
  plugs.end = () => {
    plugs.track.stop();
    plugs.track.dispatchEvent(new Event("ended"));
  };
  plugs.pull = (...labels) => {
    labels.forEach((label) => gone.add(label));
    if (gone.has(plugs.track.label)) plugs.end();
    mediaDevices.dispatchEvent(new Event("devicechange"));
  };
  plugs.put = (...labels) => {
    labels.forEach((label) => gone.delete(label));
    mediaDevices.dispatchEvent(new Event("devicechange"));
  };
  plugs.mute = (muted) => {
    Object.defineProperty(plugs.track, "muted", { value: muted, configurable: true });
    plugs.track.dispatchEvent(new Event(muted ? "mute" : "unmute"));
  };
"""
SYSTEM, DESK, EARS = "Fake Default Audio Input", "Fake Audio Input 1", "Fake Audio Input 2"


async def heard_through(page: Page, stub: StubGateway, name: str) -> None:
    """The page says so, and sends its sound."""
    await expect(page.locator(".toast").last).to_contain_text(f"heard through “{name}”")
    await is_heard(page, stub)


async def is_heard(page: Page, stub: StubGateway) -> None:
    await page.wait_for_selector("body[data-microphone=on]")
    before = len(stub.seen.pcm)
    await stub.until(lambda seen: len(seen.pcm) > before + 3200)


async def choose(page: Page, field: str, name: str) -> None:
    await page.click("#settings-open")
    await page.select_option(field, label=name)
    await page.click("#settings-close")


async def test_the_microphone_that_is_meant_is_listened_with_whatever_is_pulled_out(
    page: Page, stub: StubGateway
) -> None:
    await page.add_init_script(PLUGS)
    await start(page, stub)
    await page.click("#microphone")
    await is_heard(page, stub)
    await choose(page, "#microphone-device", EARS)
    await heard_through(page, stub, EARS)
    await page.evaluate("name => plugs.pull(name)", EARS)
    await heard_through(page, stub, SYSTEM)
    await page.evaluate("name => plugs.put(name)", EARS)
    await heard_through(page, stub, EARS)

    await page.evaluate("plugs.mute(true)")
    await page.wait_for_selector("body[data-microphone=muted]")
    await expect(page.locator(".toast[role=alert]")).to_contain_text("system has muted")
    await page.evaluate("plugs.mute(false)")
    await expect(page.locator(".toast")).to_have_count(0)
    await is_heard(page, stub)

    await page.evaluate("names => plugs.pull(...names)", [SYSTEM, DESK, EARS])
    await page.wait_for_selector("body[data-microphone=off]")
    await expect(page.locator(".toast[role=alert]")).to_contain_text("No microphone was found")
    await page.fill("#message", "hello")
    await page.press("#message", "Enter")
    await stub.until(lambda seen: {"type": "text", "text": "hello"} in seen.events)
    await page.evaluate("name => plugs.put(name)", DESK)
    await heard_through(page, stub, DESK)

    # Another program has what the system says; and once it is forbidden, nobody is asked again.
    await page.evaluate("name => { plugs.taken = name; plugs.put(name); }", SYSTEM)
    await is_heard(page, stub)
    await page.evaluate("plugs.state = 'prompt'; plugs.end()")
    await page.wait_for_selector("body[data-microphone=off]")
    await expect(page.locator(".toast[role=alert]")).to_contain_text("not allowed any more")


async def test_it_sounds_through_the_loudspeaker_that_was_chosen_while_that_is_there(
    page: Page, stub: StubGateway
) -> None:
    await page.add_init_script(PLUGS)
    await page.context.grant_permissions(["microphone"], origin=stub.url)
    await start(page, stub)
    await page.click("#microphone")
    await page.wait_for_selector("body[data-microphone=on]")
    through = """name => navigator.mediaDevices.enumerateDevices().then((all) => all.some((one) =>
      one.label === name && one.deviceId === document.querySelector("video").sinkId))"""
    name = "Fake Audio Output 2"
    await choose(page, "#speaker-device", name)
    await page.wait_for_function(through, arg=name)
    await page.evaluate("name => plugs.pull(name)", name)
    await page.wait_for_function("document.querySelector('video').sinkId === ''")
    await expect(page.locator(".toast")).to_contain_text("loudspeaker that you chose is gone")
    await page.evaluate("name => plugs.put(name)", name)
    await page.wait_for_function(through, arg=name)
