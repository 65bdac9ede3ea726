"""The page fits the screen, can be used by keyboard, and rests where motion is not wanted."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, ViewportSize, expect

from tests.browser.driving import open_page, start
from tests.browser.stub_gateway import StubGateway

pytestmark = pytest.mark.asyncio(loop_scope="session")

SCREENS = {
    "desktop": (1280, 800),
    "large": (1920, 1080),
    "phone": (390, 844),
    "small phone": (320, 568),
    "phone on its side": (844, 390),
    "tablet": (820, 1180),
}

LONG = {
    "type": "transcript",
    "utterance": 0,
    "text": "And a rather long question, asked to see whether it stays where it belongs? " * 3,
    "final": True,
}


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
    ("screen", "language"), [*((name, "en") for name in SCREENS), ("small phone", "zh")]
)
async def test_everything_fits(page: Page, stub: StubGateway, screen: str, language: str) -> None:
    size = SCREENS[screen]
    await page.set_viewport_size(ViewportSize(width=size[0], height=size[1]))
    await open_page(page, stub, f"?transport=websocket&language={language}")
    for box in await boxes(page, "#stage", "#start-talk", "#start-type", "#settings-open"):
        assert inside(box, size)
    await page.click("#start-type")
    await page.wait_for_selector("body[data-connection=live][data-video=playing]")
    stub.push(*[LONG] * 6, {"type": "state", "state": "speaking"})
    await expect(page.locator(".line")).to_have_count(6)
    controls = ["#microphone", "#message", "#send", "#interrupt"]
    shown = ["#stage", "#captions", *controls, "#record", "#settings-open"]
    found = await boxes(page, *shown)
    assert [name for name, box in zip(shown, found, strict=True) if not inside(box, size)] == []
    assert all(apart(box, control) for box in found[:2] for control in found[2:6])
    stage = found[0]
    assert (stage["right"] - stage["left"]) * (stage["bottom"] - stage["top"]) > 0.2 * size[
        0
    ] * size[1]
    assert await page.evaluate("document.documentElement.scrollWidth") <= size[0]


async def test_controls_are_large_enough_for_fingers(page: Page, stub: StubGateway) -> None:
    await page.set_viewport_size(ViewportSize(width=390, height=844))
    await start(page, stub)
    stub.push({"type": "state", "state": "speaking"})
    await expect(page.locator("#interrupt")).to_be_visible()
    for box in await boxes(page, "#microphone", "#send", "#interrupt", "#settings-open", "#record"):
        assert box["right"] - box["left"] >= 40
        assert box["bottom"] - box["top"] >= 40


async def test_every_control_has_a_name(page: Page, stub: StubGateway) -> None:
    await start(page, stub)
    await page.click("#settings-open")
    await page.click("#avatar-new")
    nameless = await page.evaluate(
        """() => [...document.querySelectorAll("button, input, select, [role=meter]")]
          .filter((node) => !(node.getAttribute("aria-label") || node.textContent.trim()
            || [...(node.labels ?? [])].some((label) => label.textContent.trim()) || node.hidden))
          .map((node) => node.outerHTML)"""
    )
    assert nameless == []


async def test_works_by_keyboard_alone(page: Page, stub: StubGateway) -> None:
    await open_page(page, stub, "?transport=websocket")
    await page.focus("#start-type")
    await page.keyboard.press("Enter")
    await page.wait_for_selector("body[data-connection=live]")
    await expect(page.locator("#message")).to_be_focused()
    await page.keyboard.type("good morning")
    await page.keyboard.press("Enter")
    await stub.until(lambda seen: seen.events)
    await page.focus("#settings-open")
    await page.keyboard.press("Enter")
    await expect(page.locator("#settings")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.locator("#settings")).to_be_hidden()
    await expect(page.locator("#settings-open")).to_be_focused()


async def test_rests_where_motion_is_not_wanted(page: Page, stub: StubGateway) -> None:
    await start(page, stub)
    stub.push({"type": "state", "state": "thinking"})
    await expect(page.locator("#state")).to_have_text("Thinking")
    assert await page.evaluate("document.getAnimations().length") == 0
