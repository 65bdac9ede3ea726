"""The page against a stub of the gateway: what it shows, what it sends, how it recovers."""

from __future__ import annotations

import asyncio
import base64
import re
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from numpy.typing import NDArray
from playwright.async_api import Page, Route, expect

from tests.browser.conftest import chromium, fresh_page
from tests.browser.driving import body, join, moves, open_page, start
from tests.browser.stub_gateway import StubGateway

# One event loop, and so one browser, for all of them; every test has a fresh profile.
pytestmark = pytest.mark.asyncio(loop_scope="session")


# ------------------------------------------------------------------- start


async def test_opens_with_two_ways_to_start_moves_by_webrtc_and_needs_nothing_from_elsewhere(
    page: Page, stub: StubGateway
) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    await open_page(page, stub)
    await expect(page.locator("#start-talk")).to_be_visible()
    assert await page.evaluate("document.querySelector('#portrait').naturalWidth") > 0
    assert not stub.seen.sessions  # nothing is spent before the visitor wants to talk
    await page.click("#start-type")
    await page.wait_for_selector("body[data-connection=live][data-video=playing]")
    assert await body(page, "transport") == "webrtc"
    assert await moves(page, stub)
    assert asked
    assert all(url.startswith((stub.url, "data:", "blob:")) for url in asked)


async def test_in_a_frame_there_are_face_and_controls_alone(page: Page, stub: StubGateway) -> None:
    await open_page(page, stub, "?embed=1&captions=0&appearance=light")
    await expect(page.locator(".top")).to_be_hidden()
    await expect(page.locator("#start-talk")).to_be_visible()
    assert await page.evaluate("document.body.hasAttribute('data-no-captions')")
    assert await page.evaluate("document.documentElement.dataset.appearance") == "light"
    assert await page.evaluate("localStorage.length") == 0, "the address is not kept"


async def test_over_the_websocket_it_moves_where_the_browser_keeps_no_data_of_sites(
    page: Page, stub: StubGateway
) -> None:
    """As Chromium does where its visitor blocks them: even to name a store throws."""
    blocked = "{ get() { throw new DOMException('denied', 'SecurityError') } }"
    for name in ("localStorage", "sessionStorage"):
        await page.add_init_script(f"Object.defineProperty(window, {name!r}, {blocked})")
    await start(page, stub)
    assert await body(page, "transport") == "websocket"
    assert await moves(page, stub)


# An iPhone's browser, as far as one that is none can be made like it: no codecs for pages, a media
# source of its own, pictures that are not counted, loudness that is set by its buttons, sound only
# from what was loaded within a click, and nothing copied later. Here a second of the page's clock
# takes a twentieth.
LIKE_AN_IPHONE = """
  window.ManagedMediaSource = MediaSource;
  const missing = ["MediaSource", "RTCRtpScriptTransform", "AudioDecoder", "VideoDecoder"];
  for (const name of missing) delete window[name];
  const uncounted = () => ({ totalVideoFrames: 0 });
  HTMLVideoElement.prototype.getVideoPlaybackQuality = uncounted;
  const { load, play } = HTMLMediaElement.prototype;
  const permitted = new WeakSet();
  let clicking = false;
  addEventListener("click", () => {
    clicking = true;
    setTimeout(() => (clicking = false));
  }, true);
  HTMLMediaElement.prototype.load = function () {
    if (clicking) permitted.add(this);
    load.call(this);
  };
  HTMLMediaElement.prototype.play = async function () {
    if (!this.muted && !permitted.has(this)) throw new DOMException("no", "NotAllowedError");
    return play.call(this);
  };
  const later = new DOMException("no", "NotAllowedError");
  Clipboard.prototype.writeText = () => Promise.reject(later);
  Clipboard.prototype.write = async function ([item]) {
    if (!clicking) throw later;
    window.copied = await (await item.getType("text/plain")).text();
  };
  const set = () => null;
  Object.defineProperty(HTMLMediaElement.prototype, "volume", { get: () => 1, set });
  const every = setInterval;
  window.seconds = 0;
  window.setInterval = (act, ms) => every(act, ms === 1000 ? 50 : ms);
  setInterval(() => (seconds += 1), 1000);
"""


@pytest.mark.parametrize("missing", ["RTCPeerConnection", ""])
async def test_it_talks_and_moves_where_the_browser_is_an_iphones(
    page: Page, stub: StubGateway, missing: str
) -> None:
    await page.add_init_script(LIKE_AN_IPHONE + f"delete window[{missing!r}];")
    await open_page(page, stub)
    await page.click("#start-type")
    await page.wait_for_selector("body[data-connection=live][data-video=playing]")
    assert await body(page, "transport") == ("websocket" if missing else "webrtc")
    assert await moves(page, stub)
    stub.push({"type": "answer", "turn": 1, "text": "Here I am.", "final": True})
    await expect(page.locator(".line")).to_have_text("Here I am.")
    await page.evaluate("window.seconds = 0")
    await page.wait_for_function("window.seconds > 10")
    await page.wait_for_selector("body:not([data-away])")  # it does not stand still
    await expect(page.locator("#sound"), "it can be heard").to_be_hidden()
    video = page.locator("#stage video")
    await expect(video).to_have_js_property("muted", False)
    await video.evaluate("(video) => video.pause()")  # as a call does
    await expect(video).to_have_js_property("paused", False)
    await page.evaluate("document.querySelector('#share').click()")
    await page.wait_for_function("window.copied?.includes('token-of')")
    await page.click("#settings-open")
    await expect(page.locator("#speed")).to_be_visible()
    await expect(page.locator("#volume")).to_be_hidden()


async def test_what_a_call_interrupts_sounds_again_with_the_next_touch(
    page: Page, stub: StubGateway
) -> None:
    await open_page(page, stub)
    resumed = await page.evaluate(
        """async () => {
          const { resumeOnGesture } = await import("./static/gesture.js");
          const resumed = [];
          const context = new (class extends EventTarget {
            state = "running";
            async resume() { resumed.push(this.state); }
            become(state) {
              this.state = state;
              this.dispatchEvent(new Event("statechange"));
              dispatchEvent(new PointerEvent("pointerup"));
            }
          })();
          resumeOnGesture(context);
          for (const state of ["interrupted", "running", "suspended", "closed"]) {
            context.become(state);
          }
          return resumed;
        }"""
    )
    assert resumed == ["interrupted", "interrupted", "suspended", "suspended"]


async def test_what_goes_wrong_at_the_start_and_later_is_told(
    page: Page, stub: StubGateway
) -> None:
    """A full gateway, WebRTC that fails, an error, and what the voice cannot do."""
    alerts = page.locator(".toast[role=alert]")
    stub.script.full = "all 4 seats are taken" + ", try again later" * 30
    await open_page(page, stub)
    await page.click("#start-type")
    await expect(alerts).to_contain_text("all 4 seats are taken")
    await expect(page.locator("#start-type")).to_be_visible()
    stub.script.full, stub.script.webrtc_status = "", 503
    await page.click("#start-type")
    await expect(page.locator(".toast", has_text="WebSocket")).to_be_visible()
    await page.wait_for_selector("body[data-connection=live][data-video=playing]")
    await expect(alerts, "that is over").to_have_count(0)
    assert await body(page, "transport") == "websocket"
    stub.push({"type": "error", "code": "busy", "message": "another microphone speaks here"})
    await expect(alerts.last).to_contain_text("another microphone")
    message = "style 'happy': the voice cannot change its pitch"
    stub.push({"type": "warning", "turn": 1, "code": "unsupported", "message": message})
    await expect(page.locator(".toast", has_text=message)).to_be_visible()


async def test_waits_in_line_comes_in_by_itself_and_with_what_was_chosen_there(
    page: Page, stub: StubGateway
) -> None:
    stub.script.ahead, stub.script.wait_s = 3, 130.0
    await open_page(page, stub)
    await page.click("#start-type")
    await expect(page.locator(".queue-position")).to_have_text("You are number 3 in line.")
    await expect(page.locator(".queue-wait")).to_have_text("About 2 minutes to go.")
    stub.script.ahead, stub.script.wait_s = 1, None
    await expect(page.locator(".queue-position")).to_have_text("You are next.")
    await expect(page.locator(".queue-wait")).to_contain_text("cannot be told")
    await page.check("#language input[value=zh]", force=True)
    await expect(page.locator("#queue button")).to_have_text("不排了")
    await page.click("#settings-open")
    await page.check("input[name=transport][value=websocket]", force=True)
    stub.script.ahead = 0
    await page.wait_for_selector("body[data-phase=live]:not([data-waiting])")
    assert len(stub.seen.sessions) == 1
    assert stub.seen.updates == [{"language": "zh", "voice": "baker"}]
    assert await body(page, "transport") == "websocket"


async def test_a_place_that_is_lost_with_its_gateway_is_asked_for_anew(
    page: Page, stub: StubGateway
) -> None:
    stub.script.ahead, stub.script.places_lost = 2, 2
    await open_page(page, stub, "?transport=websocket")
    await page.click("#start-type")
    await stub.until(lambda seen: len(seen.sessions) == 3)
    await expect(page.locator(".toast").first).to_contain_text("You are in line.")
    stub.script.ahead = 0
    await page.wait_for_selector("body[data-phase=live]:not([data-waiting])")
    assert len(stub.seen.sessions) == 3


async def test_who_is_refused_for_good_stands_in_line_no_more_and_the_line_can_be_left(
    page: Page, stub: StubGateway
) -> None:
    stub.script.ahead, stub.script.place_refused = 2, "avatar: there is no 'nobody'"
    await open_page(page, stub, "?transport=websocket")
    await page.click("#start-type")
    await expect(page.locator(".toast").first).to_contain_text("there is no 'nobody'")
    assert len(stub.seen.sessions) == 1
    stub.script.place_refused = ""
    await page.click(".toast-close")
    await page.click("#start-type")
    await page.click("#queue button")
    await expect(page.locator("#start-type")).to_be_visible()
    await stub.until(lambda seen: "session2" in seen.deleted)
    await expect(page.locator(".toast")).to_have_count(0)


async def test_waits_for_the_services_and_then_fills_itself(page: Page, stub: StubGateway) -> None:
    stub.script.missing = {"tts": "no replica is running", "face": "no replica is running"}
    await page.goto(stub.url)
    await expect(page.locator(".waiting-what")).to_contain_text("Not everything is awake")
    assert await page.locator(".waiting-stages [data-there=no]").all_inner_texts() == [
        "Voice\nwaking up…",
        "Face\nwaking up…",
    ]
    await expect(page.locator("#start-type")).to_be_hidden()
    stub.script.missing = {}
    await expect(page.locator("#start-type")).to_be_visible()
    await expect(page.locator("#avatar-name")).to_have_text("Eileen")
    await expect(page.locator(".toast")).to_have_count(0)


async def test_a_link_outlasts_a_moment_without_its_gateway(page: Page, stub: StubGateway) -> None:
    away = iter([True])

    async def lose(route: Route) -> None:
        await (route.abort() if next(away, False) else route.continue_())

    await page.route("**/token", lose)
    stub.begin("abc")
    await open_page(page, stub, "?session=abc&transport=websocket#token=token-of-abc")
    await page.click("#start-type")
    await page.wait_for_selector("body[data-connection=live]:not([data-role])")


async def test_a_link_that_leads_nowhere_says_so_and_cannot_ask_for_something_else(
    page: Page, stub: StubGateway
) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if request.post_data else None)
    for session in ("../sessions?", "abc/recording?", "expired"):
        await page.goto("about:blank")
        await page.goto(f"{stub.url}/?session={quote(session)}#token=x")
        await expect(page.locator("#start-heading")).to_have_text(
            "This link leads nowhere any more."
        )
    names = ("-", "-", "expired")
    assert asked == [f"{stub.url}/v1/sessions/{name}/token" for name in names]
    assert not stub.seen.sessions
    await page.click("#start-talk")
    await page.wait_for_selector("body[data-ready]:not([data-link])")
    await expect(page.locator("#start-type")).to_be_visible()


# ------------------------------------------------------------ conversation


async def test_captions_grow_are_joined_cut_and_have_code_and_tables_beside_them(
    page: Page, stub: StubGateway
) -> None:
    await start(page, stub)
    heard = {"type": "transcript", "utterance": 1}
    stub.push({**heard, "text": "what is", "final": False})
    line = page.locator(".line[data-side=visitor]")
    await expect(line).to_have_text("what is")
    await expect(line).to_have_attribute("data-partial", "")
    text = "What is <img src=x onerror=alert(1)>?"
    stub.push({**heard, "text": text, "final": True})
    await expect(line).to_have_text(text)
    await expect(line).not_to_have_attribute("data-partial", "")
    assert await line.locator("img").count() == 0
    # What an answer is made of comes first, and stands under it without being a part of it.
    answer = {"type": "answer", "turn": 4}
    sources = [{"file": "<b>.md", "heading": "Hours"}, {"file": "b.txt"}]
    stub.push({"type": "answer.sources", "turn": 4, "sources": sources})
    line = page.locator(".line[data-side=avatar]").first
    under = page.locator(".sources")
    await expect(under).to_be_hidden()
    stub.push({**answer, "text": "It is ", "final": False}, {**answer, "text": "noon, I think."})
    await expect(line).to_have_text("It is noon, I think.")
    await expect(under).to_have_text("Source: Hours (<b>.md) · b.txt")
    stub.push({"type": "turn", "turn": 4, "event": "interrupted", "heard": "It is noon,"})
    await expect(line).to_have_attribute("data-ended", "interrupted")
    await expect(line.locator("s")).to_have_text(" I think.")
    shown = {"type": "answer.shown", "turn": 5, "chars": 5}
    code, table = {"block": 1, "language": "html"}, {"block": 2, "language": "markdown"}
    stub.push(
        {"type": "answer", "turn": 5, "text": "Look.\n"},
        {**shown, **code, "text": "<b>"},
        {**shown, **code, "text": "x</b>\n"},
        {**shown, **table, "text": "| n | n² |\n|---|---|\n| **2** | `4` |\n"},
        {"type": "answer", "turn": 5, "text": "That is it.", "final": True},
    )
    blocks = page.locator(".line[data-side=shown]")
    said = page.locator(".line[data-side=avatar]").last
    await expect(said).to_have_text("Look.\nThat is it.")
    await expect(blocks.first.locator("code")).to_have_text("<b>x</b>")
    await expect(blocks.last.locator("th, td")).to_have_text(["n", "n²", "2", "4"])
    await page.reload()
    await expect(blocks.first.locator("code")).to_have_text("<b>x</b>")
    await expect(blocks.last.locator("td")).to_have_text(["2", "4"])
    await expect(under).to_have_text("Source: Hours (<b>.md) · b.txt")


async def test_a_screen_reader_tells_who_speaks_in_what_language_and_talks_over_no_voice(
    page: Page, stub: StubGateway
) -> None:
    """What sounds is not read out as well; without sound answers are, sentence by sentence."""
    await start(page, stub)
    told = page.locator("body > .announcer p")
    answer = {"type": "answer", "turn": 1}
    stub.push({"type": "transcript", "utterance": 0, "text": "Hello in Chinese?", "final": True})
    stub.push({"type": "state", "state": "thinking"})
    stub.push({**answer, "text": "It is 你好，世界。 That is all.", "final": True})
    shown = {"type": "answer.shown", "turn": 1, "chars": 5, "block": 1, "language": "markdown"}
    stub.push({**shown, "text": "| n | m |\n|---|---|\n| 1 | 2 |\n"})
    items = page.get_by_role("list", name="Conversation").get_by_role("listitem")
    said = ["You" + "Hello in Chinese?", "Eileen" + "It is 你好，世界。 That is all."]
    await expect(items).to_have_text([*said, re.compile("^nm12")])
    await expect(items.locator("[lang=zh-CN]")).to_have_text("你好，世界。")
    await expect(page.get_by_role("columnheader")).to_have_text(["n", "m"])
    await expect(told).to_have_text(["Thinking", "A table is shown"])
    await page.click("#mute")
    answer["turn"] = 2
    stub.push({**answer, "text": "It is noon. And"})
    await expect(told.last).to_have_text("Eileen: It is noon.")
    stub.push({**answer, "text": " warm", "final": True})
    await expect(told.last).to_have_text("And warm")


async def test_a_question_that_goes_on_or_is_answered_anew_is_one_caption(
    page: Page, stub: StubGateway
) -> None:
    await start(page, stub)
    heard = {"type": "transcript", "utterance": 1}
    stub.push({**heard, "text": "How far is the moon.", "final": True, "turn": 1})
    stub.push({"type": "answer", "turn": 1, "text": "The moon is"})
    lines = page.locator(".line")
    await expect(lines).to_have_text(["How far is the moon.", "The moon is"])
    stub.push({"type": "turn", "turn": 1, "event": "replaced"})
    stub.push({**heard, "text": "How far is the moon, and the", "final": False})
    await expect(lines).to_have_text(["How far is the moon, and the"])
    await expect(lines).to_have_attribute("data-partial", "")
    question = "How far is the moon, and the sun?"
    asked = {**heard, "text": question, "final": True}
    stub.push({**asked, "turn": 3}, {"type": "answer", "turn": 3, "text": "Very far."})
    await expect(lines).to_have_text([question, "Very far."])
    noise = {"type": "transcript", "utterance": 2}
    stub.push({**noise, "text": "you", "final": False})
    stub.push({"type": "turn", "turn": 3, "event": "interrupted", "heard": "Very"})
    await expect(lines).to_have_count(3)
    await page.click("#mute")  # now what is said is told to screen readers
    stub.push({**noise, "text": "", "final": True}, {**asked, "turn": 4})
    stub.push({"type": "answer", "turn": 4, "text": "Far away.", "final": True})
    await expect(lines).to_have_text([question, "Very far.", "Far away."])
    await expect(lines.nth(1).locator("s")).to_have_text(" far.")
    await expect(page.locator("body > .announcer")).to_have_text("Eileen: Far away.")
    ended = {"transcript": question, "answer": "Very far.", "state": "interrupted", "heard": "Very"}
    anew = {"transcript": question, "answer": "Far away. And cold.", "state": "finished"}
    half = {"transcript": "How far is the moon.", "answer": "The moon is", "state": "replaced"}
    stub.script.turns = [{"turn": 1, **half}, {"turn": 3, **ended}, {"turn": 4, **anew}]
    stub.drop()
    await expect(lines).to_have_text([question, "Very far.", "Far away. And cold."])


async def test_what_is_typed_is_told_before_it_is_sent_once(page: Page, stub: StubGateway) -> None:
    await start(page, stub)
    await page.fill("#message", "what is the cap")
    await stub.until(lambda seen: {"type": "typing", "text": "what is the cap"} in seen.events)
    await page.fill("#message", "مرحبا")
    await expect(page.locator("#message")).to_have_css("direction", "rtl")
    await page.fill("#message", "  hello there ")
    await page.press("#message", "Enter")
    await stub.until(lambda seen: {"type": "text", "text": "hello there"} in seen.events)
    assert [event["type"] for event in stub.seen.events].count("text") == 1
    await expect(page.locator("#message")).to_have_value("")
    await expect(page.locator("#send")).to_be_disabled()
    await page.focus("#message")
    await page.keyboard.insert_text("word " * 1000)
    await expect(page.locator(".toast[role=alert]")).to_contain_text("cut off")


async def test_button_and_escape_interrupt_and_nothing_that_is_buffered_outlasts_it(
    page: Page, stub: StubGateway
) -> None:
    await start(page, stub)
    await expect(page.locator("#interrupt")).to_be_hidden()
    for told in (1, 2):
        stub.push({"type": "state", "state": "speaking"})
        await expect(page.locator("#state")).to_have_text("Speaking")
        await (page.click("#interrupt") if told == 1 else page.keyboard.press("Escape"))
        await stub.until(lambda seen, told=told: seen.events.count({"type": "interrupt"}) == told)
        stub.push({"type": "state", "state": "idle"})
        await expect(page.locator("#interrupt")).to_be_hidden()
    await expect(page.locator("#stage video")).to_have_js_property("muted", False)
    await page.evaluate(NOTES_MUTING)

    async def muted(*turns: bool) -> None:
        """It lasts for 0.4 s: a busy machine may look too late."""
        wanted = "turns => String(document.querySelector('#stage video').turns).startsWith(turns)"
        await page.wait_for_function(wanted, arg=",".join(map(str, turns)).lower())

    speaking, listening = ({"type": "state", "state": s} for s in ("speaking", "listening"))
    stub.push(speaking, listening)
    await muted(True)
    stub.push(speaking)  # it was a cough
    await muted(True, False)
    await page.click("#interrupt")  # before the gateway knows; then the next answer is heard
    await muted(True, False, True, False)
    stub.push({"type": "turn", "turn": 1, "event": "interrupted", "heard": ""})
    await muted(True, False, True, False, True)


NOTES_MUTING = """() => {
  const video = document.querySelector("#stage video");
  const { get, set } = Object.getOwnPropertyDescriptor(HTMLMediaElement.prototype, "muted");
  video.turns = [];
  Object.defineProperty(video, "muted", {
    get: () => get.call(video),
    set: (muted) => { video.turns.push(muted); set.call(video, muted); },
  });
}"""
TELLS_OF_SOUND = """
  const Real = AudioContext;
  window.AudioContext = class extends Real {
    constructor(...given) {
      super(...given);
      this.addEventListener("statechange", () => console.log(`sound ${this.state}`));
    }
  };
  addEventListener("DOMContentLoaded", () => {
    const button = document.querySelector("#sound");
    const told = () => !button.hidden && console.log("asks");
    new MutationObserver(told).observe(button, { attributes: true });
  });
"""


async def test_a_finger_that_is_asked_for_sound_brings_it(
    chromium_path: str, stub: StubGateway
) -> None:
    refusing = "--autoplay-policy=document-user-activation-required"
    async with (
        chromium(chromium_path, refusing) as browser,
        fresh_page(browser, has_touch=True) as page,
    ):
        # What Playwright itself does on a page counts as a visitor's gesture.
        await page.add_init_script(TELLS_OF_SOUND)
        driver = await page.context.new_cdp_session(page)
        async with page.expect_console_message(lambda message: message.text == "asks"):
            await page.goto(f"{stub.url}/?autostart=1")
        where = (
            "(({ x, y }) => [x + 9, y + 9])(document.querySelector('#sound').getClientRects()[0])"
        )
        found = await driver.send("Runtime.evaluate", {"expression": where, "returnByValue": True})
        x, y = found["result"]["value"]
        async with page.expect_console_message(lambda message: message.text == "sound running"):
            for kind, points in (("touchStart", [{"x": x, "y": y}]), ("touchEnd", [])):
                finger = {"type": kind, "touchPoints": points}
                await driver.send("Input.dispatchTouchEvent", finger)
        await expect(page.locator("#stage video")).to_have_js_property("muted", False)


async def test_latency_strip_lays_stages_on_one_axis_and_tells_work_from_waiting(
    page: Page, stub: StubGateway
) -> None:
    await start(page, stub)
    stages = [
        {"name": "asr", "start_ms": -50.0, "end_ms": 50.0},
        {"name": "llm", "start_ms": 50.0, "end_ms": 150.0},
    ]
    stub.push({"type": "latency", "turn": 1, "stages": stages, "voice_to_voice_ms": 287.3})
    await expect(page.locator(".latency-total")).to_have_text("287 ms")
    bars = page.locator(".lane .bar")
    lefts = [await bars.nth(i).evaluate("bar => bar.style.left") for i in range(2)]
    assert [round(float(left.rstrip("%")), 1) for left in lefts] == [0, 29.6]
    await expect(page.locator(".stage-name").first).to_have_text("Recognise")

    def span(stage: str, kind: str, start_ms: float, end_ms: float, chunk: str = "first") -> Any:
        times = {"start_ms": start_ms, "end_ms": end_ms}
        return {"stage": stage, "kind": kind, "chunk": chunk, **times}

    spans = [
        span("llm", "transfer", 0, 10),
        span("llm", "queue", 10, 20),
        span("llm", "compute", 20, 60),
        span("tts", "wait", 60, 80),
        span("tts", "compute", 80, 100),
        span("tts", "compute", 900, 990, "last"),
    ]
    latency = {"turn": 2, "stages": [], "spans": spans, "voice_to_voice_ms": 100.0}
    stub.push({"type": "latency", **latency, "first_frame_ms": 104.0, "overhead_ms": 4.5})
    await expect(page.locator(".stage-row")).to_have_count(2)
    await expect(page.locator(".stage-ms").first).to_have_text("40 ms")
    bars = await page.locator(".lane .bar").evaluate_all(
        "bars => bars.map(({ dataset, style }) => [dataset.kind, style.left, style.width])"
    )
    assert bars == [
        ["transfer", "0%", "10%"], ["queue", "10%", "10%"], ["compute", "20%", "40%"],
        ["wait", "60%", "20%"], ["compute", "80%", "20%"],
    ]  # fmt: skip
    facts = page.locator(".latency-facts")
    await expect(facts).to_contain_text("worksqueueswaitstravels")
    await expect(facts).to_contain_text("Overhead 4.5 ms")
    await page.set_viewport_size({"width": 360, "height": 740})
    await page.locator("#latency").evaluate("strip => { strip.open = true; }")
    wide = await page.evaluate("document.documentElement.scrollWidth")
    assert wide <= 360


# -------------------------------------------------------------- microphone


async def test_a_refused_microphone_is_explained_and_pcm_is_sent_while_it_is_on_or_held(
    page: Page, stub: StubGateway
) -> None:
    await page.add_init_script(
        """const { mediaDevices } = navigator;
        window.allow = () => delete mediaDevices.getUserMedia;
        mediaDevices.getUserMedia = () => Promise.reject(new DOMException('no', 'NotAllowedError'));
        """
    )
    await start(page, stub)
    await page.click("#microphone")
    await page.wait_for_selector("body[data-microphone=denied]")
    await expect(page.locator(".toast[role=alert]")).to_contain_text("blocked")
    await page.evaluate("allow()")
    await page.click("#microphone")
    await page.wait_for_selector("body[data-microphone=on]")
    await stub.until(lambda seen: len(seen.pcm) >= 32_000)  # one second of 16 kHz s16le
    samples = np.frombuffer(bytes(stub.seen.pcm[:32_000]), "<i2")
    assert np.abs(samples).max() > 1000  # Chromium's own test tone
    await page.click("#microphone")
    await page.wait_for_selector("body[data-microphone=off]")
    await page.click("#settings-open")
    await page.check("input[value=push]", force=True)
    await page.click("#settings-close")
    await page.hover("#microphone")
    await page.mouse.down()
    await page.wait_for_selector("body[data-microphone=on]")
    await page.mouse.up()
    await page.wait_for_selector("body[data-microphone=muted]")
    for state in ("on", "muted"):  # a screen reader holds nothing
        await page.evaluate("document.querySelector('#microphone').click()")
        await page.wait_for_selector(f"body[data-microphone={state}]")


async def test_resampler_keeps_speech_and_removes_what_would_fold(
    page: Page, stub: StubGateway
) -> None:
    await page.goto(f"{stub.url}/static/resampler.js")
    script = """async ({from_hz, tone_hz}) => {
      const { Resampler } = await import("/static/resampler.js");
      const resampler = new Resampler(from_hz, 16000), out = [];
      for (let start = 0; start < from_hz; start += 128) {
        out.push(...resampler.push(Float32Array.from({length: 128}, (_, i) =>
          Math.sin(2 * Math.PI * tone_hz * (start + i) / from_hz))));
      }
      const bytes = new Uint8Array(Float32Array.from(out).buffer);
      return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
    }"""

    async def resampled(from_hz: int, tone_hz: int) -> NDArray[np.float32]:
        told = await page.evaluate(script, {"from_hz": from_hz, "tone_hz": tone_hz})
        return np.frombuffer(base64.b64decode(told), np.float32)

    for from_hz in (48_000, 44_100, 16_000, 8_000):
        kept = await resampled(from_hz, 1000)
        assert abs(len(kept) - 16_000) < 60 + 128 * 16_000 / from_hz  # fed in blocks of 128
        spectrum = np.abs(np.fft.rfft(kept[500:15_500] * np.hanning(15_000)))
        assert abs(spectrum.argmax() * 16_000 / 15_000 - 1000) < 2
        assert np.sqrt(np.mean(kept[500:15_500] ** 2)) == pytest.approx(np.sqrt(0.5), rel=0.02)
    folded = await resampled(48_000, 9_500)
    assert np.sqrt(np.mean(folded[500:15_500] ** 2)) < 0.01


# ---------------------------------------------------- recording, key, viewers


async def test_records_and_a_film_that_a_lost_network_keeps_back_is_asked_for_again(
    page: Page, stub: StubGateway
) -> None:
    async def lose_the_answer(route: Route) -> None:
        await route.fetch()
        await route.abort()

    await start(page, stub)
    await page.route("**/recording", lose_the_answer)
    await page.click("#record")
    await expect(page.locator(".toast[role=alert]")).to_contain_text("cannot be reached")
    await page.unroute("**/recording")
    await page.click(".toast[role=alert] .toast-close")
    await page.click("#record")  # it runs, and is known now
    await page.wait_for_selector("body[data-recording=on]")
    await expect(page.locator("#elapsed")).to_have_text(re.compile(r"^00:0\d$"))
    await page.reload()
    await page.wait_for_selector("body[data-connection=live][data-recording=on]")
    for step in ("recording/stop", "recording.mp4"):
        await page.route(f"**/{step}", lambda route: route.abort())
        await page.click("#record")
        await expect(page.locator(".toast[role=alert]")).to_contain_text("cannot be reached")
        await page.wait_for_selector("body[data-recording=on] #record:enabled")
        await page.unroute(f"**/{step}")
        await page.click(".toast[role=alert] .toast-close")
    async with page.expect_download() as download:
        await page.click("#record")
    assert (await download.value).suggested_filename.endswith(".mp4")
    await page.wait_for_selector("body[data-recording=off]")
    assert stub.seen.recording == ["start", "stop", "stop"], "and none is begun over it"


async def test_asks_for_the_key_once_and_a_refusal_that_comes_late_asks_for_no_other(
    page: Page, stub: StubGateway
) -> None:
    stub.script.api_key = "open sesame"
    right_one_entered = asyncio.Event()

    async def hold_back(route: Route) -> None:
        refused = route.request.headers.get("authorization") == "Bearer wrong"
        response = await route.fetch()
        if refused:
            await right_one_entered.wait()
        await route.fulfill(response=response)

    await page.route("**/v1/voices", hold_back)
    await page.goto(f"{stub.url}/?transport=websocket")
    for key in ("wrong", "open sesame"):
        await page.fill("#key-value", key)
        await page.press("#key-value", "Enter")
    await expect(page.locator("#key")).to_be_hidden()
    right_one_entered.set()
    await page.wait_for_selector("body[data-ready]")
    await expect(page.locator("#key")).to_be_hidden()
    await page.click("#start-type")
    await page.wait_for_selector("body[data-connection=live]")
    assert await page.evaluate("document.querySelector('#portrait').naturalWidth") > 0
    await page.route("**/portrait.jpg", lambda route: route.abort())
    await open_page(page, stub, "?transport=websocket")
    await expect(page.locator("#key")).to_be_hidden()
    await page.unroute("**/portrait.jpg")
    await page.check("#language input[value=zh]", force=True)  # what can be chosen is shown anew
    await page.wait_for_function("document.querySelector('#portrait').naturalWidth > 0")


async def test_a_secret_that_no_header_can_carry_is_refused_as_any_other(
    page: Page, stub: StubGateway
) -> None:
    stub.script.api_key = "open sesame"
    await page.goto(stub.url)
    await page.fill("#key-value", "open\u200b sesame")  # as some programs copy it
    await page.press("#key-value", "Enter")
    await page.wait_for_function("localStorage.length === 1")
    await page.reload()
    await page.fill("#key-value", "open sesame")
    await page.press("#key-value", "Enter")
    await page.wait_for_selector("body[data-ready]")
    await page.goto("about:blank")
    await page.goto(f"{stub.url}/?session=abc#token=cut-off…")
    await expect(page.locator("#start-heading")).to_have_text("This link leads nowhere any more.")


async def test_a_viewer_has_no_session_and_his_keys_neither_interrupt_nor_open_a_microphone(
    page: Page, stub: StubGateway
) -> None:
    kept = "JSON.stringify({ microphoneMode: 'push' })"
    await page.add_init_script(f"localStorage.setItem('visavis.preferences', {kept})")
    await join(page, stub, "abc")
    await expect(page.locator("#dock")).to_be_hidden()
    assert not stub.seen.sessions
    stub.push({"type": "state", "state": "speaking"})
    await page.wait_for_selector("body[data-state=speaking]")
    await page.evaluate("document.activeElement.blur()")
    await page.keyboard.press("Escape")
    await page.keyboard.press("Space")
    assert await body(page, "microphone") == "off"
    stub.drop("media")  # what was sent before arrives before it connects anew
    await stub.until(lambda seen: seen.media == 2)
    assert stub.seen.events == []
