"""The page fits the screen, can be used by keyboard, and rests where motion is not wanted."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Literal

import pytest
from playwright.async_api import Browser, Page, ViewportSize, expect

from tests.browser.conftest import fresh_page
from tests.browser.driving import open_page, start
from tests.browser.stub_gateway import STATIC, StubGateway

pytestmark = pytest.mark.asyncio(loop_scope="session")

AXE = (files("axe_playwright_python") / "axe.min.js").read_text("utf-8")

SCREENS = {
    "desktop": (1280, 800),
    "large": (1920, 1080),
    "phone": (390, 844),
    "small phone": (320, 568),
    "phone on its side": (844, 390),
    "tablet": (820, 1180),
    "magnified": (640, 400),
    "frame": (520, 420),
    "phone with its keyboard": (390, 420),
}

LONG = {
    "type": "transcript",
    "utterance": 0,
    "text": "And a rather long question, asked to see whether it stays where it belongs? " * 3,
    "final": True,
}


_PLACEHOLDER_FITS = """() => {
  const input = document.querySelector("#message");
  const brush = new OffscreenCanvas(1, 1).getContext("2d");
  brush.font = getComputedStyle(input).font;
  return brush.measureText(input.placeholder).width <= input.clientWidth;
}"""


async def boxes(page: Page, *selectors: str) -> list[dict[str, float]]:
    found: list[dict[str, float]] = await page.evaluate(
        """(selectors) => selectors.map((selector) => {
          const box = document.querySelector(selector).getBoundingClientRect();
          return { left: box.left, top: box.top, right: box.right, bottom: box.bottom };
        })""",
        list(selectors),
    )
    return found


def inside(box: dict[str, float], size: tuple[int, int]) -> bool:
    return (
        box["left"] >= 0
        and box["top"] >= 0
        and box["right"] <= size[0]
        and box["bottom"] <= size[1]
    )


def apart(a: dict[str, float], b: dict[str, float]) -> bool:
    beside = a["right"] <= b["left"] or b["right"] <= a["left"]
    return beside or a["bottom"] <= b["top"] or b["bottom"] <= a["top"]


@pytest.mark.parametrize(
    ("language", "screens"), [("en", [*SCREENS]), ("zh", ["small phone"])], ids=["en", "zh"]
)
async def test_everything_fits(
    page: Page, stub: StubGateway, language: str, screens: list[str]
) -> None:
    await open_page(page, stub, f"?transport=websocket&language={language}")
    for screen in screens:
        size = await resize(page, screen)
        for box in await boxes(page, "#stage", "#start-talk", "#start-type", "#settings-open"):
            assert inside(box, size), screen
    await page.click("#start-type")
    await page.wait_for_selector("body[data-connection=live][data-video=playing]")
    stub.push(*[LONG] * 6, {"type": "state", "state": "speaking"})
    await expect(page.locator(".line")).to_have_count(6)
    controls = ["#microphone", "#message", "#send", "#interrupt"]
    shown = ["#stage", "#captions", *controls, "#record", "#settings-open"]
    for screen in screens:
        size = await resize(page, screen)
        found = await boxes(page, *shown)
        out = [name for name, box in zip(shown, found, strict=True) if not inside(box, size)]
        assert out == [], screen
        assert all(apart(box, control) for box in found[:2] for control in found[2:6]), screen
        assert await page.evaluate(_PLACEHOLDER_FITS), screen
        stage = found[0]
        area = (stage["right"] - stage["left"]) * (stage["bottom"] - stage["top"])
        assert area > 0.2 * size[0] * size[1], screen
        assert await page.evaluate("document.documentElement.scrollWidth") <= size[0], screen


async def resize(page: Page, screen: str) -> tuple[int, int]:
    width, height = SCREENS[screen]
    await page.set_viewport_size(ViewportSize(width=width, height=height))
    followed = "(px) => document.documentElement.style.getPropertyValue('--height') === px"
    await page.wait_for_function(followed, arg=f"{height}px")
    return width, height


async def test_a_long_name_and_a_long_state_lie_apart(page: Page, stub: StubGateway) -> None:
    screens = ("desktop", "small phone", "phone on its side")
    stub.script.avatars = ["A-person-of-the-longest-name-that-a-gateway-takes-of-its-visitor"]
    await start(page, stub)
    for screen in screens:
        await resize(page, screen)
        state, name = await boxes(page, "#state", "#avatar-name")
        assert apart(state, name), screen
    stub.script.dark = True
    stub.drop()
    await page.wait_for_selector("body[data-connection=reconnecting]")
    for screen in screens:
        size = await resize(page, screen)
        assert await page.get_attribute("body", "data-connection") == "reconnecting"
        stage, settings, state, name = await boxes(
            page, "#stage", "#settings-open", "#state", "#avatar-name"
        )
        assert inside(stage, size), screen
        assert inside(settings, size), screen
        assert apart(state, name) or await page.locator("#avatar-name").is_hidden(), screen
    stub.script.dark = False


async def test_browsers_that_cannot_choose_colours_have_the_dark_ones() -> None:
    both, _, rest = (STATIC / "style.css").read_text("utf-8").partition("@supports not")
    dark = dict(re.findall(r"(--[\w-]+): light-dark\([^,]+, ([^,;]+)\);", both))
    assert dark and dark == dict(re.findall(r"(--[\w-]+): ([^;]+);", rest.partition("\n}")[0]))


async def test_a_link_that_is_to_be_copied_by_hand_is_shown_whole_until_it_is_closed(
    page: Page, stub: StubGateway
) -> None:
    """Without https browsers have no clipboard; and a token has no place to break."""
    await page.add_init_script(
        "Object.defineProperty(navigator, 'clipboard', { value: undefined })"
    )
    await page.set_viewport_size(ViewportSize(width=320, height=568))
    told = {"token": "eyJhbGciOiJIUzI1NiJ9" * 8, "token_role": "viewer"}
    await page.route("**/token", lambda route: route.fulfill(json=told))
    await page.clock.install()
    await start(page, stub)
    await page.evaluate("document.querySelector('#share').click()")
    await expect(page.locator(".toast")).to_contain_text(told["token"])
    for box in await boxes(page, ".toast span", ".toast-close"):
        assert inside(box, (320, 568))
    await page.clock.fast_forward(60_000)
    await page.click(".toast-close")


async def test_what_is_told_covers_no_control_and_stays_until_it_can_be_read(
    page: Page, stub: StubGateway
) -> None:
    await page.clock.install()
    await start(page, stub)
    for message in ("Too short.", "This takes its time to be read. " * 8):
        stub.push({"type": "error", "code": "busy", "message": message})
    toasts = page.locator(".toast")
    await expect(toasts).to_have_count(2)
    for screen in SCREENS:
        await resize(page, screen)
        told, bar, send = await boxes(page, "#toasts", ".top-actions", ".compose")
        assert bar["bottom"] <= told["top"] and told["bottom"] <= send["top"], screen
    await page.clock.fast_forward(6_000)
    await expect(toasts).to_have_count(1)
    await toasts.hover()
    await page.clock.fast_forward(20_000)
    await expect(toasts).to_have_count(1)
    await page.mouse.move(0, 0)
    await page.clock.fast_forward(2_000)
    await expect(toasts).to_have_count(0)


async def test_controls_rest_have_names_and_are_large_enough_for_fingers(
    page: Page, stub: StubGateway
) -> None:
    await start(page, stub)
    await resize(page, "phone")
    stub.push({"type": "state", "state": "thinking"})
    await expect(page.locator("#state")).to_have_text("Thinking")
    assert await page.evaluate("document.getAnimations().length") == 0, "no motion is wanted"
    throbs = "getComputedStyle(document.querySelector('.glow')).getPropertyValue('--level')"
    assert await page.evaluate(throbs) == "0.5", "nor with the voice"
    video = page.locator("#stage video")
    await expect(video).to_have_css("opacity", "1")
    await page.evaluate("document.querySelector('#moving').click()")
    await expect(video).to_have_css("opacity", "0")
    stub.push({"type": "state", "state": "speaking"})
    await expect(page.locator("#interrupt")).to_be_visible()
    for box in await boxes(page, "#microphone", "#send", "#interrupt", "#settings-open", "#record"):
        assert box["right"] - box["left"] >= 40
        assert box["bottom"] - box["top"] >= 40
    await page.click("#settings-open")
    await page.click("#avatar-new")
    nameless = await page.evaluate(
        """() => [...document.querySelectorAll("button, input, select, [role=meter]")]
          .filter((node) => !(node.getAttribute("aria-label") || node.textContent.trim()
            || [...(node.labels ?? [])].some((label) => label.textContent.trim()) || node.hidden))
          .map((node) => node.outerHTML)"""
    )
    assert nameless == []


async def test_works_by_keyboard_alone_and_goes_on_from_what_was_chosen(
    page: Page, stub: StubGateway
) -> None:
    stub.script.avatars = ["eileen", "grandma-gu", "tom"]
    await open_page(page, stub, "?transport=websocket")
    await page.focus("#start-type")
    stub.script.ahead = 1
    await page.keyboard.press("Enter")
    await expect(page.locator("#queue button")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.locator("#start-type")).to_be_focused()
    stub.script.ahead = 0
    await page.keyboard.press("Enter")
    await page.wait_for_selector("body[data-connection=live]")
    await expect(page.locator("#message")).to_be_focused()
    await page.keyboard.type("good morning")
    await page.keyboard.press("Enter")
    await stub.until(lambda seen: seen.events)
    stub.push({"type": "state", "state": "speaking"})
    await expect(page.locator("#interrupt")).to_be_visible()
    await page.keyboard.press("Tab")
    await expect(page.locator("#interrupt")).to_be_focused()
    await page.keyboard.press("Enter")
    await stub.until(lambda seen: {"type": "interrupt"} in seen.events)
    stub.push({"type": "state", "state": "idle"})
    await expect(page.locator("#message")).to_be_focused()
    await page.focus("#settings-open")
    await page.keyboard.press("Enter")
    await expect(page.locator("#settings")).to_be_visible()
    await page.focus("input[name=avatar]:checked")
    for chosen in ("grandma-gu", "tom"):
        await page.keyboard.press("ArrowDown")
        await stub.until(lambda seen, wanted=chosen: {"avatar": wanted} in seen.updates)
        await expect(page.locator(f"input[value={chosen}]")).to_be_focused()
    await page.focus("input[name=voice]:checked")
    await page.keyboard.press("ArrowDown")
    await expect(page.locator("input[name=voice][value=joe]")).to_be_focused()
    stub.push({"type": "error", "code": "busy", "message": "Told over the settings."})
    await page.focus("#settings .toast button")
    await page.keyboard.press("Enter")
    await expect(page.locator("input[name=voice][value=joe]")).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(page.locator("#settings")).to_be_hidden()
    await expect(page.locator("#settings-open")).to_be_focused()


@pytest.mark.parametrize(
    ("size", "scheme", "language"),
    [((1280, 800), "dark", "en"), ((390, 844), "light", "zh")],
)
async def test_axe_finds_nothing(
    browser: Browser,
    stub: StubGateway,
    size: tuple[int, int],
    scheme: Literal["dark", "light"],
    language: str,
) -> None:
    viewport = ViewportSize(width=size[0], height=size[1])
    async with fresh_page(browser, viewport=viewport, color_scheme=scheme) as page:
        await open_page(page, stub, "?transport=websocket")
        await page.evaluate(AXE)
        found = [await axe(page)]
        stub.script.ahead = 3
        await page.click("#start-type")
        await expect(page.locator("#queue")).to_be_visible()
        found.append(await axe(page))
        stub.script.ahead = 0
        await page.wait_for_selector("body[data-connection=live]")
        stub.push(*[LONG] * 2, {"type": "answer", "turn": 1, "text": "So it is.", "final": True})
        stub.push({"type": "turn", "turn": 1, "event": "interrupted", "heard": "So"})
        stub.push(*BLOCKS, {"type": "error", "code": "busy", "message": "Come again later."})
        stub.push({"type": "state", "state": "speaking"})
        await expect(page.locator(".line s")).to_have_text(" it is.")
        await expect(page.locator(".toast, .line td, #interrupt:visible")).to_have_count(4)
        found.append(await axe(page))
        await page.click("#settings-open")
        await page.click("#avatar-new")
        await page.check(f"input[name=sheetLanguage][value={language}]", force=True)
        found.append(await axe(page))
    assert found == [[]] * 4


BLOCKS = [
    {"type": "answer.shown", "turn": 1, "block": block, "language": language, "text": written}
    for block, language, written in (
        (1, "python", "print('A line that is longer than what is there for it.')"),
        (2, "markdown", "| n | m |\n|---|---|\n| 1 | 2 |\n"),
    )
]


async def axe(page: Page) -> list[str]:
    """Rules that are violated, and where first; with two that it looks at only where asked."""
    violated: list[str] = await page.evaluate(
        """async (rules) => (await axe.run({ rules })).violations.map(
          ({ id, nodes }) => `${id}: ${nodes.length} × ${nodes[0].html.slice(0, 120)}`)""",
        {rule: {"enabled": True} for rule in ("target-size", "label-content-name-mismatch")},
    )
    return violated


async def test_without_captions_no_part_stays_empty(page: Page, stub: StubGateway) -> None:
    await start(page, stub)
    await page.click("#settings-open")
    await page.uncheck("#show-captions", force=True)
    await page.click("#settings-close")
    stage, dock = await boxes(page, "#stage", "#dock")
    for box in (stage, dock):
        assert abs((box["left"] + box["right"]) / 2 - 640) < 2, "in the middle of the window"
    assert stage["bottom"] - stage["top"] > 400
