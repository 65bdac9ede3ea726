"""What is lost comes back: connections, sessions, the microphone."""

from __future__ import annotations

import asyncio
import socket

import pytest
from playwright.async_api import Page, Route, expect

from tests.browser.driving import (
    NOTES_RECONNECTING,
    body,
    moves,
    open_page,
    reconnecting,
    start,
)
from tests.browser.stub_gateway import StubGateway

# One event loop, and so one browser, for all of them; every test has a fresh profile.
pytestmark = pytest.mark.asyncio(loop_scope="session")


KEEPS = """{
  const { addEventListener: add, removeEventListener: remove } = EventTarget.prototype;
  window.kept = new Set();
  EventTarget.prototype.addEventListener = function (type, act, ...rest) {
    if (this instanceof AbortSignal) kept.add(act);
    add.call(this, type, act, ...rest);
  };
  EventTarget.prototype.removeEventListener = function (type, act, ...rest) {
    kept.delete(act);
    remove.call(this, type, act, ...rest);
  };
}"""
"""What waits for the end of a conversation, and keeps what it would act on."""


@pytest.mark.parametrize("transport", ["webrtc", "websocket"])
async def test_reconnects_to_the_same_session_and_keeps_nothing_of_the_last_connection(
    page: Page, stub: StubGateway, transport: str
) -> None:
    await page.add_init_script(KEEPS)
    await start(page, stub, f"?transport={transport}")
    kept = await page.evaluate("kept.size")
    async with reconnecting(page):
        stub.drop()
    await page.wait_for_selector("body[data-connection=live][data-video=playing]")
    assert await page.evaluate("kept.size") == kept
    assert len(stub.seen.sessions) == 1
    assert await moves(page, stub)


async def test_a_gateway_without_room_for_webrtc_is_asked_for_it_again(
    page: Page, stub: StubGateway
) -> None:
    await start(page, stub, "")
    for status, transport in ((503, "websocket"), (200, "webrtc")):
        stub.script.webrtc_status = status
        stub.drop()
        await page.wait_for_selector(f"body[data-connection=live][data-transport={transport}]")


async def test_what_is_lost_while_the_rest_still_connects_comes_back(
    page: Page, stub: StubGateway
) -> None:
    stub.script.dark = True
    await open_page(page, stub, "?transport=websocket")
    await page.click("#start-type")
    await stub.until(lambda seen: seen.media)
    stub.drop("events")
    stub.script.dark = False
    await stub.until(lambda seen: seen.media == 2)
    await page.wait_for_selector("body[data-connection=live][data-video=playing]")
    await page.fill("#message", "hello")
    await page.press("#message", "Enter")
    await stub.until(lambda seen: {"type": "text", "text": "hello"} in seen.events)


async def test_a_request_that_a_network_swallows_holds_up_no_reconnect(
    page: Page, stub: StubGateway
) -> None:
    await page.clock.install()
    await start(page, stub)
    swallowed = asyncio.Event()
    # By all six connections that the browser has kept: a network has forgotten them.
    await page.route("**/v1/sessions/session1", lambda _: swallowed.set(), times=6)
    stub.drop()
    await swallowed.wait()
    await page.clock.fast_forward(10_000)  # then it asks over all of them at once
    await page.wait_for_selector("body[data-connection=live][data-video=playing]")
    assert len(stub.seen.sessions) == 1


async def test_media_that_are_lost_alone_come_back_and_the_microphone_survives(
    page: Page, stub: StubGateway
) -> None:
    await open_page(page, stub, "?autostart=1&mic=1&transport=websocket")
    await page.wait_for_selector("body[data-microphone=on]")
    for lost in ("media", ""):
        async with reconnecting(page):
            stub.drop(lost)
        await page.wait_for_selector("body[data-connection=live][data-video=playing]")
    before = len(stub.seen.pcm)
    await stub.until(lambda seen: len(seen.pcm) > before + 6400)
    assert len(stub.seen.sessions) == 1
    # One that cannot be opened again holds up no reconnect.
    await page.evaluate(
        "navigator.mediaDevices.getUserMedia ="
        " async () => { throw new DOMException('no', 'NotReadableError'); }; null"
    )
    await page.click("#settings-open")
    await page.check("input[value=push]", force=True)
    await expect(page.locator(".toast[role=alert]")).to_contain_text("in use")
    async with reconnecting(page):
        stub.drop()
    await page.wait_for_selector("body[data-connection=live]")


async def test_a_new_session_writes_no_old_line_and_says_what_is_forgotten(
    page: Page, stub: StubGateway
) -> None:
    await start(page, stub)
    stub.push({"type": "answer", "turn": 1, "text": "Before.", "final": True})
    async with reconnecting(page):
        stub.drop(forget=True)
    await page.wait_for_selector("body[data-connection=live]")
    stub.push({"type": "answer", "turn": 1, "text": "After.", "final": True})
    lines = page.locator(".line")
    await expect(lines).to_have_count(3)
    assert [s["welcome"] for s in stub.seen.sessions] == [True, False], "nobody is greeted twice"
    assert await lines.nth(0).inner_text() == "Before."
    assert "remembers what is written above" in await lines.nth(1).inner_text()
    assert await lines.nth(2).inner_text() == "After."
    told = stub.seen.sessions[1]["history"]
    assert told == [{"side": "avatar", "text": "Before."}], "it goes on from there"


async def test_a_microphone_that_is_allowed_after_the_end_is_given_back(
    page: Page, stub: StubGateway
) -> None:
    await page.add_init_script(
        """const open = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
        navigator.mediaDevices.getUserMedia = async (wanted) => {
          await new Promise((allow) => (window.allow = allow));
          return (window.opened = await open(wanted));
        };"""
    )
    stub.begin("abc")
    await open_page(page, stub, "?session=abc&transport=websocket#token=token-of-abc")
    await page.click("#start-talk")
    await page.wait_for_selector("body[data-microphone=opening]")
    stub.drop(forget=True)
    await page.wait_for_selector("body[data-link=dead]")
    await page.evaluate("window.allow()")
    ended = "window.opened?.getAudioTracks()[0].readyState === 'ended'"
    await page.wait_for_function(ended, timeout=5000)
    assert await body(page, "microphone") == "off"


async def test_a_reload_tells_of_the_recording_before_the_microphone_is_allowed(
    page: Page, stub: StubGateway
) -> None:
    await open_page(page, stub, "?autostart=1&mic=1&transport=websocket")
    await page.wait_for_selector("body[data-microphone=on]")
    await page.click("#record")
    await page.wait_for_selector("body[data-recording=on]")
    # As browsers do that ask for it on each visit.
    await page.add_init_script(
        "navigator.mediaDevices.getUserMedia = () => new Promise(() => null)"
    )
    await page.reload()
    await page.wait_for_selector("body[data-microphone=opening]")
    await page.wait_for_selector("body[data-recording=on]", timeout=5000)
    await expect(page.locator("#elapsed")).to_be_visible()


async def test_a_conversation_that_was_joined_and_is_over_says_so_and_ends_what_needs_it(
    page: Page, stub: StubGateway
) -> None:
    stub.begin("abc")
    await open_page(page, stub, "?session=abc&transport=websocket#token=token-of-abc")
    await page.click("#start-talk")
    await page.wait_for_selector("body[data-connection=live]")
    await page.click("#record")
    await page.wait_for_selector("body[data-recording=on]")
    stub.drop(forget=True)
    await expect(page.locator("#start-heading")).to_have_text("This link leads nowhere any more.")
    await expect(page.locator("#start-talk")).to_be_visible()
    assert not stub.seen.deleted, "it is not the page's to end"
    assert await body(page, "recording") == "off"
    await expect(page.locator("#elapsed")).to_be_hidden()
    for needs_it in ("#record", "#share"):
        await expect(page.locator(needs_it)).to_be_disabled()


async def test_a_reload_goes_on_with_the_conversation(page: Page, stub: StubGateway) -> None:
    await start(page, stub)
    stub.push({"type": "answer", "turn": 1, "text": "It is", "final": False})
    stub.script.turns = [
        {"turn": 1, "transcript": "", "answer": "It is noon.", "state": "finished"}
    ]
    await page.reload()
    await page.wait_for_selector("body[data-connection=live][data-video=playing]")
    await expect(page.locator(".line")).to_have_text("It is noon.")  # the rest came meanwhile
    assert (len(stub.seen.sessions), stub.seen.deleted) == (1, [])
    # Of a session that has gone, what was said is still to be read, and gone on from.
    await page.goto("about:blank")
    stub.drop(forget=True)
    await page.goto(f"{stub.url}/?transport=websocket")
    await page.wait_for_selector("body[data-ready][data-phase=start]")
    await page.click("#start-type")
    await page.wait_for_selector("body[data-connection=live]")
    await expect(page.locator(".line").first).to_have_text("It is noon.")
    await expect(page.locator(".line[data-side=note]")).to_have_count(1)
    assert stub.seen.sessions[1]["history"] == [{"side": "avatar", "text": "It is noon."}]


async def test_a_gateway_that_is_away_at_a_reload_and_a_tab_that_cannot_go_on_end_no_conversation(
    page: Page, stub: StubGateway
) -> None:
    alerts = page.locator(".toast[role=alert]")
    stub.script.api_key = "open sesame"
    await page.add_init_script("sessionStorage['visavis.api-key'] = 'open sesame'")
    await start(page, stub, "")
    stub.push({"type": "answer", "turn": 1, "text": "Before.", "final": True})
    await expect(page.locator(".line")).to_have_text("Before.")
    await page.route("**/token", lambda route: route.fulfill(status=502))  # as a proxy says
    await page.reload()
    await expect(alerts).to_contain_text("502")
    await page.click("#start-type")
    await page.wait_for_selector("body[data-connection=live]")
    assert len(stub.seen.sessions) == 1
    await page.unroute("**/token")
    stub.script.webrtc_status = 409  # as in a second tab, made of this one: another one speaks
    await page.reload()
    await expect(alerts).to_contain_text("no WebRTC here")
    stub.script.webrtc_status = 200
    await page.click("#start-type")
    await page.wait_for_selector("body[data-connection=live][data-video=playing]")
    assert stub.seen.deleted == []
    assert stub.seen.sessions[1]["history"] == [{"side": "avatar", "text": "Before."}]


@pytest.mark.parametrize("way", ["lost", "reload", "late"])
async def test_a_question_whose_end_came_meanwhile_is_one_caption(
    page: Page, stub: StubGateway, way: str
) -> None:
    await start(page, stub)
    stub.push({"type": "answer", "turn": 1, "text": "Good morning to you.", "final": True})
    stub.push({"type": "transcript", "utterance": 1, "text": "what is the", "final": False})
    greeting = {"turn": 1, "transcript": "", "answer": "Good morning to you."}
    asked = {"turn": 2, "transcript": "What is the time?", "answer": "Noon.", "state": "finished"}
    again = {**asked, "turn": 3, "answer": "Still noon."}
    cut = {**greeting, "state": "interrupted", "heard": "Good morning"}
    stub.script.turns = [cut, asked, again]
    lines = page.locator(".line")
    await expect(lines).to_have_count(2)
    caught_up = asyncio.Event()

    async def hold_back(route: Route) -> None:
        await caught_up.wait()
        await route.continue_()

    if way == "reload":
        await page.reload()
    elif way == "lost":
        stub.drop()
    else:
        await page.route("**/turns", hold_back)
        async with reconnecting(page):
            stub.drop()
        await page.wait_for_selector("body[data-connection=live]")
        for piece in ("Still noon.", " noon."):  # one that had been said was told again
            stub.push({"type": "answer", "turn": 3, "text": piece})
        await expect(lines).to_have_count(3)
        caught_up.set()
    question = "What is the time?"
    said = ["Good morning to you.", question, "Noon.", question, "Still noon."]
    await expect(lines).to_have_text(said)
    await expect(page.locator(".line[data-partial]")).to_have_count(0)
    await expect(lines.first.locator("s")).to_have_text(" to you.")


async def test_a_long_conversation_forgets_its_first_lines_for_good(
    page: Page, stub: StubGateway
) -> None:
    await start(page, stub)
    answers = [{"type": "answer", "turn": n, "text": f"Answer {n}."} for n in range(1, 251)]
    stub.push(*answers)
    lines = page.locator(".line")
    await expect(lines.last).to_have_text("Answer 250.")
    told = {"transcript": "", "state": "finished"}
    stub.script.turns = [{"turn": n, "answer": f"Answer {n}.", **told} for n in range(40, 252)]
    await page.reload()
    await page.wait_for_selector("body[data-connection=live]")
    await expect(lines.last).to_have_text("Answer 251.")
    await expect(lines.first).to_have_text("Answer 52.")


IMPATIENT = """{
  const { setTimeout: later, setInterval: again } = window;
  window.setTimeout = (what, ms, ...rest) => later(what, ms === 3000 ? 1000 : ms, ...rest);
  window.setInterval = (what, ms, ...rest) => again(what, ms === 1000 ? 200 : ms, ...rest);
}"""
"""Has the page wait for a gateway's sign of life for a second, and not for three or five."""


async def test_dead_sockets_are_noticed_and_what_is_typed_into_them_is_not_lost_nor_sent_twice(
    page: Page, stub: StubGateway
) -> None:
    await page.add_init_script(IMPATIENT)
    await start(page, stub)
    for silent in ("deaf", "dark"):  # its machine has vanished: of either socket
        setattr(stub.script, silent, True)
        await page.wait_for_selector("body[data-connection=reconnecting]")
        setattr(stub.script, silent, False)
        await page.wait_for_selector("body[data-connection=live][data-video=playing]")
    assert len(stub.seen.sessions) == 1
    stub.script.deaf = True
    for words in ("How far is the moon?", "In miles."):
        await page.fill("#message", words)
        await page.press("#message", "Enter")
    await page.wait_for_selector("body[data-connection=reconnecting]")
    await expect(page.locator("#message")).to_have_value("How far is the moon? In miles.")
    await expect(page.locator(".toast[role=alert]")).to_contain_text("may not have arrived")
    stub.script.deaf = False
    await page.wait_for_selector("body[data-connection=live]")
    await page.press("#message", "Enter")
    await stub.until(lambda seen: any(event["type"] == "text" for event in seen.events))
    # Now it arrives, and it is the answer that does not.
    stub.script.deaf = True
    await page.fill("#message", "And the sun?")
    await page.press("#message", "Enter")
    await expect(page.locator("#message")).to_have_value("And the sun?")
    # Until the next connection, which asks for the turns, it stands there.
    stub.script.turns = [{"turn": 1, "transcript": "And the sun?", "answer": ""}]
    await page.wait_for_selector("body[data-connection=reconnecting]")
    stub.script.deaf = False
    await page.wait_for_selector("body[data-connection=live]")
    await expect(page.locator("#message")).to_have_value("")
    # And now all that is lost is what comes behind it.
    stub.script.deaf = True
    await page.fill("#message", "And Mars?")
    await page.press("#message", "Enter")
    stub.push({"type": "transcript", "utterance": 0, "text": "And Mars?", "final": True})
    await page.wait_for_selector("body[data-connection=reconnecting]")
    stub.script.deaf = False
    await page.wait_for_selector("body[data-connection=live]")
    await expect(page.locator("#message")).to_have_value("")
    assert [event["type"] for event in stub.seen.events].count("text") == 1


async def test_a_token_that_ran_out_while_the_machine_slept_is_made_good(
    page: Page, stub: StubGateway
) -> None:
    await start(page, stub)
    stub.script.token = "newer"
    await page.click("#settings-open")
    await page.select_option("#style", "calm")
    await stub.until(lambda seen: {"style": "calm"} in seen.updates)
    await expect(page.locator(".toast")).to_have_count(0)
    async with reconnecting(page):
        stub.drop()
    await page.wait_for_selector("body[data-connection=live]")
    assert len(stub.seen.sessions) == 1


NETWORK = """{
  const later = window.setTimeout;
  const limits_ms = { 1000: 0, 3000: 60_000 };
  window.setTimeout = (what, ms, ...rest) => later(what, limits_ms[ms] ?? ms, ...rest);
  window.setInterval = () => 0;
  Object.defineProperty(navigator.connection, "type", { get: () => window.networkType ?? "wifi" });
  window.change = () => navigator.connection.dispatchEvent(new Event("change"));
}"""
"""Nobody else looks; who has a second for his answer has none, who has three has a minute."""


async def test_a_network_that_becomes_another_one_is_looked_at_at_once(
    page: Page, stub: StubGateway
) -> None:
    await page.add_init_script(NETWORK)
    async with page.expect_websocket(lambda socket: socket.url.endswith("/events")) as events:
        await start(page, stub)
    await page.evaluate(NOTES_RECONNECTING)
    async with (await events.value).expect_event("framereceived", lambda frame: "pong" in frame):
        await page.evaluate("change()")  # only its estimates are other ones
    assert await page.evaluate("window.said") == "", "a slow answer is one"
    stub.script.deaf = True
    await page.evaluate("window.networkType = 'cellular'; change()")
    await page.wait_for_selector("body[data-connection=reconnecting]")
    stub.script.deaf = False
    await page.wait_for_selector("body[data-connection=live][data-video=playing]")


async def test_a_new_conversation_forgets_the_old_one(page: Page, stub: StubGateway) -> None:
    await start(page, stub)
    stub.push({"type": "answer", "turn": 1, "text": "A secret.", "final": True})
    async with page.expect_download() as saved:
        await page.click("#transcript-save")
    assert "Eileen: A secret." in (await (await saved.value).path()).read_text("utf-8")
    await page.click("#record")
    await page.wait_for_selector("body[data-recording=on]")
    async with page.expect_download() as film:
        await page.click("#conversation-new")
    assert (await film.value).suggested_filename.endswith(".mp4"), "it would go with its session"
    await stub.until(lambda seen: len(seen.sessions) == 2)
    await page.wait_for_selector("body[data-connection=live][data-phase=live]")
    assert stub.seen.deleted == ["session1"]
    assert stub.seen.sessions[1]["welcome"] is True, "it begins as the first one did"
    await expect(page.locator(".line")).to_have_count(0)


async def test_an_opening_that_nobody_answers_is_given_up(page: Page, stub: StubGateway) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        await page.goto(f"{stub.url}/static/events.js")
        told = await page.evaluate(
            """async (url) => {
                const { EventChannel } = await import("/static/events.js");
                const later = window.setTimeout;
                window.setTimeout = (what, ms) => later(what, ms / 100);
                const opening = new EventChannel().open({ url, protocols: [] });
                return opening.catch((error) => error.message);
            }""",
            f"ws://127.0.0.1:{port}/",
        )
    assert "could not be opened" in told
