"""The operator's page of a live room, in Chromium, on a real gateway above doubles."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from playwright.async_api import BrowserContext, Page, Route, expect

from tests.browser.conftest import tab
from tests.browser.stub_gateway import StubGateway
from tests.browser.test_layout import AXE, axe
from tests.gateway.conftest import Rig

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_an_operator_runs_a_room_from_its_page(profile: BrowserContext, rig: Rig) -> None:
    rig.doubles.script.answer = "I am well, thank you."
    url = rig.running.url
    async with httpx.AsyncClient(base_url=url, trust_env=False) as http, tab(profile, url) as page:
        session = (await http.post("/v1/sessions", json={})).json()["id"]
        await page.goto(f"{url}/static/room.html")
        await expect(page.locator("#session option")).to_have_count(1)
        await page.evaluate(AXE)
        found = [await axe(page)]
        await page.fill("#names", "Cleo, Kleo")
        await page.fill("#first-words", "marzipan")
        await page.click("#choose button")
        await page.click("#pause")
        await expect(page.locator("#pause")).to_have_text("Go on")
        sent = [
            {"author": {"name": "Anna"}, "text": "Cleo, how are you?", "id": "1"},
            {"author": {"name": "Troll <b>"}, "text": "<img src=x onerror=alert(1)> hi", "id": "2"},
            {"author": {"name": "Ben"}, "text": "what is for dinner?", "id": "3"},
        ]
        path = f"/v1/sessions/{session}/room"
        await http.post(f"{path}/comments", json={"comments": sent})
        rows = page.locator("#waiting li")
        await expect(rows).to_have_count(3)
        await expect(rows.first.locator("strong")).to_have_text("Anna")
        await expect(page.locator("#waiting img")).to_have_count(0)
        found.append(await axe(page))
        await page.get_by_role("button", name="Ban Troll <b>").focus()
        await page.keyboard.press("Enter")
        await expect(rows).to_have_count(2)
        await expect(page.locator(":focus"), "goes on with the next").to_have_text(
            "Do not answer Ben"
        )
        await page.get_by_role("button", name="Do not answer Ben").click()
        await expect(rows).to_have_count(1)
        await expect(page.locator("#banned li")).to_contain_text("app:Troll <b>")
        await page.fill("#say-text", "Welcome, everybody.")
        await page.click("#say button")
        await expect(page.locator("#recent")).to_contain_text("Welcome, everybody.")
        looks = asyncio.Semaphore(0)

        async def twice(route: Route) -> None:
            room = await (await route.fetch()).json()
            await route.fulfill(json={**room, "to_say": ["Hi.", "Hi."]})
            looks.release()

        await page.route("**/room", twice)
        for _ in range(3):
            await looks.acquire()
        await expect(page.locator("#to-say li")).to_have_text(["Hi.", "Hi."])
        await page.unroute("**/room")
        await expect(page.locator("#to-say li")).to_have_count(0)
        await page.fill("#say-text", "I like marzipan.")
        await page.click("#say button")
        await expect(page.locator("#fault")).to_contain_text("marzipan")
        down = {"error": {"code": "unavailable", "message": "this gateway ends"}}
        await page.route("**/room", lambda route: route.fulfill(status=503, json=down))
        await expect(page.locator("#fault")).to_have_text("this gateway ends")
        await page.unroute("**/room")
        await expect(page.locator("#fault")).to_be_hidden()
        await page.click("#pause")
        await expect(page.locator("#recent")).to_contain_text("I am well, thank you.")
        await expect(page.locator("#outcomes")).to_contain_text("Answered")
        await page.check("input[name=language][value=zh]", force=True)
        await expect(page.locator("#pause")).to_have_text("暂停")
        await expect(page.locator("#recent .does button").first).to_have_text("封禁Anna")
        found.append(await axe(page))
        await page.set_viewport_size({"width": 390, "height": 844})
        wide = await page.evaluate("document.documentElement.scrollWidth")
        assert wide <= 390
        await page.click("#close")
        await expect(page.locator("#choose")).to_be_visible()
    assert found == [[]] * 3


ROOM = {
    "paused": False,
    **dict.fromkeys(("current", "next")),
    **{name: [] for name in ("to_say", "waiting", "recent", "platforms", "blocked_words")},
    "waiting_in_all": 0,
    "banned": {},
    "coverage": {"received": 0, "answered_share": 0, "unsettled": 0, "outcomes": {}},
}


@pytest.mark.parametrize("desk", ["room", "live"])
async def test_what_is_to_be_said_is_sent_once_however_slow_the_network(
    page: Page, stub: StubGateway, desk: str
) -> None:
    """On the page of broadcasts as well, which has the same field."""
    sent: list[str] = []
    arrived = asyncio.Event()

    async def answer(route: Route) -> None:
        if route.request.method == "POST":
            sent.append(route.request.post_data_json["text"])
            await arrived.wait()
            if sent[-1] == "Refused.":
                await route.fulfill(status=422, json={"error": {"message": "not that"}})
                return
        told = {"sessions": [{"id": "abc", "viewers": 0}], "broadcasts": []}
        await route.fulfill(json={**told, **ROOM})

    await page.route("**/v1/sessions**", answer)
    await page.route("**/v1/sessions/abc/**", answer)
    await page.goto(f"{stub.url}/static/{desk}.html?session=abc")
    field = page.locator("#say-text")
    await expect(page.locator("#desk, #watch:enabled")).to_be_visible()
    await field.fill("Hello.")
    await field.press("Enter")
    await field.press("Enter")
    await field.fill("The next")
    async with page.expect_request_finished(lambda request: request.method == "POST"):
        arrived.set()
    await expect(field).to_have_value("The next")
    await field.fill("Refused.")
    await field.press("Enter")
    await expect(page.locator("#fault:visible, .toast")).to_contain_text("not that")
    await expect(field).to_have_value("Refused.")
    assert sent == ["Hello.", "Refused."]


async def test_a_viewers_name_is_shown_as_it_is(page: Page, stub: StubGateway) -> None:
    """None of it is a sign of what else is to be filled in."""
    who = {"platform": "app", "author": "app:1", "name": "A$$ap {text} $&", "id": "1"}
    comment = {**who, "text": "Hi.", "age_s": 1, "score": 1}
    room = {**ROOM, "waiting": [comment], "next": comment}
    await page.route("**/v1/sessions/abc/room", lambda route: route.fulfill(json=room))
    await page.goto(f"{stub.url}/static/room.html?session=abc")
    await expect(page.locator("#waiting button").first).to_have_text(f"Do not answer {who['name']}")
    await expect(page.locator("#next")).to_contain_text(who["name"])
