"""Language, voice, avatar, a new avatar from a photo."""

from __future__ import annotations

import base64

import pytest
from playwright.async_api import FilePayload, Page, expect

from tests.browser.driving import open_page, start
from tests.browser.stub_gateway import StubGateway
from tests.browser.stub_media import drawn_face, jpeg

# One event loop, and so one browser, for all of them; every test has a fresh profile.
pytestmark = pytest.mark.asyncio(loop_scope="session")


def portrait(name: str) -> FilePayload:
    return FilePayload(name=name, mimeType="image/jpeg", buffer=jpeg(drawn_face()))


async def test_speaks_chinese_and_changes_to_a_chinese_voice(page: Page, stub: StubGateway) -> None:
    await start(page, stub)
    await page.check("input[name=language][value=zh]", force=True)
    await expect(page.locator("#captions-title span")).to_have_text("对话")
    await expect(page.locator("html")).to_have_attribute("lang", "zh-CN")
    await stub.until(lambda seen: seen.updates)
    assert stub.seen.updates == [{"language": "zh", "voice": "baker"}]


async def test_every_text_exists_in_both_languages(page: Page, stub: StubGateway) -> None:
    await open_page(page, stub)
    missing = await page.evaluate(
        """async () => {
          const { text, speak } = await import("/static/i18n.js");
          const keys = [...document.querySelectorAll("[data-i18n], [data-i18n-label]")]
            .flatMap(({ dataset }) => [dataset.i18n, dataset.i18nLabel]).filter(Boolean);
          return ["en", "zh"].flatMap((language) => {
            speak(language);
            return keys.filter((key) => text(key) === key).map((key) => `${language} ${key}`);
          });
        }"""
    )
    assert missing == []


async def test_chooses_avatar_and_voice(page: Page, stub: StubGateway) -> None:
    await start(page, stub)
    assert stub.seen.sessions[0] == {
        "language": "en",
        "voice": "hibari",
        "avatar": "eileen",
        "welcome": True,
        "queue": True,
    }
    await page.click("#settings-open")
    await page.check("input[name=avatar][value=grandma-gu]", force=True)
    await page.check("input[name=voice][value=joe]", force=True)
    await stub.until(lambda seen: len(seen.updates) == 2)
    assert stub.seen.updates == [{"avatar": "grandma-gu"}, {"voice": "joe"}]
    await expect(page.locator("#avatar-name")).to_have_text("Grandma gu")


async def test_creates_an_avatar_from_a_photo(page: Page, stub: StubGateway) -> None:
    await open_page(page, stub)
    await page.click("#settings-open")
    await page.click("#avatar-new")
    photo = portrait("My aunt (2).jpg")
    await page.set_input_files("#photo", files=[photo])
    await expect(page.locator("#avatar-new-name")).to_have_value("My-aunt-2")
    await page.fill("#likeness", "Ann Lee")
    await page.click("#creator-submit")
    assert await page.locator("#consent:invalid").count() and not stub.seen.uploads
    await page.check("#consent")
    await page.click("#creator-submit")
    await expect(page.locator("#avatar-name")).to_have_text("My aunt 2")
    assert stub.seen.uploads == [("My-aunt-2", len(photo["buffer"]))]
    [(likeness, agreed_to)] = stub.seen.consents
    assert likeness == "Ann Lee" and "agrees to be seen and heard" in agreed_to


async def test_a_dropped_photo_opens_the_creator(page: Page, stub: StubGateway) -> None:
    await open_page(page, stub)
    picture = base64.b64encode(jpeg(drawn_face())).decode()
    await page.evaluate(
        """(picture) => {
          const bytes = Uint8Array.from(atob(picture), (c) => c.charCodeAt(0));
          const dataTransfer = new DataTransfer();
          dataTransfer.items.add(new File([bytes], "uncle.jpg", { type: "image/jpeg" }));
          document.body.dispatchEvent(new DragEvent("drop", { bubbles: true, dataTransfer }));
        }""",
        picture,
    )
    await expect(page.locator("#photo-preview")).to_be_visible()
    await expect(page.locator("#avatar-new-name")).to_have_value("uncle")


async def test_a_refused_photo_shows_the_servers_reason(page: Page, stub: StubGateway) -> None:
    stub.script.refuse_avatar = "two faces in the picture"
    await open_page(page, stub)
    await page.click("#settings-open")
    await page.click("#avatar-new")
    text = FilePayload(name="notes.txt", mimeType="text/plain", buffer=b"hello")
    await page.set_input_files("#photo", files=[text])
    await expect(page.locator("#creator-fault")).to_contain_text("not a JPEG")
    photo = portrait("two.jpg")
    await page.set_input_files("#photo", files=[photo])
    await page.fill("#likeness", "Ann Lee")
    await page.check("#consent")
    await page.click("#creator-submit")
    await expect(page.locator("#creator-fault")).to_have_text("two faces in the picture")
    await expect(page.locator("#creator-submit")).to_be_enabled()


async def test_choices_are_remembered(page: Page, stub: StubGateway) -> None:
    await open_page(page, stub)
    await page.check("input[name=language][value=zh]", force=True)
    await open_page(page, stub)
    await expect(page.locator("input[name=language][value=zh]")).to_be_checked()
