"""Language, voice, avatar, a new avatar from a photo."""

from __future__ import annotations

import base64
from collections.abc import Callable

import numpy as np
import pytest
from playwright.async_api import FilePayload, Page, expect

from services.face.avatar import topology
from services.face.avatar.making.decoding import check_picture
from services.face.avatar.making.landmarks import Landmarks
from services.face.avatar.making.portrait import check_face, check_room, check_seen
from services.face.avatar.store import check_new
from tests.browser.driving import open_page, start
from tests.browser.stub_gateway import StubGateway
from tests.browser.stub_media import drawn_face, jpeg
from tests.face.portraits import astronaut
from visavis.serving.errors import VisavisError

# One event loop, and so one browser, for all of them; every test has a fresh profile.
pytestmark = pytest.mark.asyncio(loop_scope="session")


def portrait(name: str) -> FilePayload:
    return FilePayload(name=name, mimeType="image/jpeg", buffer=jpeg(drawn_face()))


async def test_speaks_chinese_changes_to_a_chinese_voice_and_remembers_it(
    page: Page, stub: StubGateway
) -> None:
    await start(page, stub)
    family = "getComputedStyle(document.querySelector('h1')).fontFamily"
    assert "CJK" not in await page.evaluate(family)
    await page.check("input[name=language][value=zh]", force=True)
    await expect(page.locator("#captions-title")).to_have_text("对话")
    await expect(page.locator("html")).to_have_attribute("lang", "zh-CN")
    assert "CJK" in await page.evaluate(family), "English is set in no Chinese font"
    await stub.until(lambda seen: seen.updates)
    assert stub.seen.updates == [{"language": "zh", "voice": "baker"}]
    await open_page(page, stub, "?transport=websocket")
    await expect(page.locator("input[name=language][value=zh]")).to_be_checked()


def refusals() -> list[str]:
    """What the services themselves say of photos and names that will not do."""
    points = np.zeros((468, 3), np.float32)
    points[list(topology.FACE_OVAL), :2] = [[0, 0], [40, 40]] * (len(topology.FACE_OVAL) // 2)
    turned = points.copy()
    turned[topology.LEFT_EAR, 2], turned[topology.CHIN, 1] = 90, 120
    seen = np.column_stack([astronaut().mesh.source[:468], np.zeros(468)])
    calls: list[Callable[[], object]] = [
        lambda: check_room(points, 40, 40),
        lambda: check_face(Landmarks(points, np.zeros((2, 3), np.float32), 1), 400, 400),
        lambda: check_face(Landmarks(turned, np.zeros((2, 3), np.float32), 1), 400, 400),
        lambda: check_seen(np.zeros((512, 512, 3), np.uint8), seen),
        lambda: check_new("me", ["me"], 0, 9),
        lambda: check_new("me", [], 9, 9),
        lambda: check_picture(b"hello"),
    ]
    said = []
    for call in calls:
        with pytest.raises(VisavisError) as refused:
            call()
        said.append(str(refused.value))
    lost = "its replica was lost: Socket closed"
    return [
        *said,
        f"asr: {lost}",
        f"tts: {lost}",
        f"llm: {lost}; no other one has come within 20 s",
    ]


async def test_every_text_and_what_the_services_refuse_is_there_in_the_pages_words(
    page: Page, stub: StubGateway
) -> None:
    await open_page(page, stub)
    missing = await page.evaluate(
        """async () => {
          const { text, speak } = await import("/static/i18n.js");
          const { ENGLISH } = await import("/static/texts_en.js");
          const { CHINESE } = await import("/static/texts_zh.js");
          const shown = [...document.querySelectorAll("[data-i18n], [data-i18n-label]")]
            .flatMap(({ dataset }) => [dataset.i18n, dataset.i18nLabel]).filter(Boolean);
          const keys = [...shown, ...Object.keys(ENGLISH), ...Object.keys(CHINESE)];
          return ["en", "zh"].flatMap((language) => {
            speak(language);
            return keys.filter((key) => text(key) === key).map((key) => `${language} ${key}`);
          });
        }"""
    )
    assert missing == []
    script = """async (said) => {
      const { inPlainWords } = await import("/static/refusals.js");
      return said.map(inPlainWords).filter((words) => !/[\u4e00-\u9fff]/.test(words));
    }"""
    assert await page.evaluate(script, refusals()) == [], "Chinese was spoken last"


async def test_chooses_avatar_voice_and_how_it_is_to_be_said_and_by_whom(
    page: Page, stub: StubGateway
) -> None:
    await start(page, stub)
    assert stub.seen.sessions[0] == {
        "language": "en",
        "voice": "hibari",
        "avatar": "eileen",
        "welcome": True,
        "drawn_by": "server",
        "queue": True,
    }
    await page.click("#settings-open")
    await page.check("input[name=avatar][value=grandma-gu]", force=True)
    await page.check("input[name=voice][value=joe]", force=True)
    await stub.until(lambda seen: len(seen.updates) == 2)
    assert stub.seen.updates == [{"avatar": "grandma-gu"}, {"voice": "joe"}]
    await expect(page.locator("#avatar-name")).to_have_text("Grandma gu")
    await page.select_option("#style", "calm")
    await page.fill("#speed", "1.3")
    await page.fill("#persona", "You are a pirate.")
    await page.click("#sheet-new")
    await stub.until(lambda seen: len(seen.sessions) == 2)
    assert stub.seen.updates[2:] == [{"style": "calm"}, {"speed": 1.3}]
    kept = {"persona": "You are a pirate.", "style": "calm", "speed": 1.3}
    assert stub.seen.sessions[1].items() >= kept.items()
    await page.click("#mute")
    await expect(page.locator("#stage video")).to_have_js_property("muted", True)
    hint = page.locator("#model-hint")
    await expect(hint).to_contain_text("smollm2-135m")
    await expect(hint.locator("code")).to_have_text("visavis up --profile better")


async def test_creates_an_avatar_from_a_photo(page: Page, stub: StubGateway) -> None:
    await open_page(page, stub)
    await page.click("#settings-open")
    await page.click("#avatar-new")
    photo = portrait("My aunt (2).jpg")
    await page.set_input_files("#photo", files=[photo])
    await expect(page.locator("#avatar-new-name")).to_have_value("My aunt 2")
    await page.click("#creator-submit")
    await expect(page.locator("#creator-fault")).to_contain_text("must have agreed")
    assert not stub.seen.uploads
    await page.fill("#likeness", "Ann Lee")
    await page.check("#consent")
    await page.click("#creator-submit")
    await expect(page.locator("#avatar-name")).to_have_text("Eileen")  # it is looked at first
    await page.click("#fitting-discard")
    await stub.until(lambda _: "My-aunt-2" not in stub.script.avatars)
    await page.set_input_files("#photo", files=[photo])
    await page.fill("#avatar-new-name", "My aunt")
    await page.click("#creator-submit")
    await page.click("#fitting-accept")
    await expect(page.locator("#avatar-name")).to_have_text("My aunt")
    assert [name for name, _ in stub.seen.uploads] == ["My-aunt-2", "My-aunt"]
    likeness, agreed_to = stub.seen.consents[-1]
    assert likeness == "Ann Lee" and "agrees to be seen and heard" in agreed_to
    await page.fill("#own-avatar input", "Aunt Mae")
    await page.press("#own-avatar input", "Tab")
    await expect(page.locator("#avatar-name")).to_have_text("Aunt Mae")
    await page.click("#avatar-delete")
    await page.click("#avatar-delete")  # really
    await expect(page.locator("#avatar-name")).to_have_text("Eileen")
    assert stub.script.avatars == ["eileen", "grandma-gu"]

    # One that cannot be fetched is told of.
    await page.click("#avatar-new")
    await page.set_input_files("#photo", files=[photo])
    await page.fill("#likeness", "Ann Lee")
    await page.check("#consent")
    await page.click("#creator-submit")
    await expect(page.locator("#fitting")).to_be_visible()
    await page.route("**/v1/avatars", lambda route: route.abort())
    await page.click("#fitting-accept")
    await expect(page.locator(".toast[role=alert]")).to_contain_text("cannot be reached")


async def test_a_dropped_photo_opens_the_creator_and_a_refused_one_shows_the_servers_reason(
    page: Page, stub: StubGateway
) -> None:
    stub.script.refuse_avatar = "the face is too small: 31 pixels from brows to chin, 80 are needed"
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
    text = FilePayload(name="notes.txt", mimeType="text/plain", buffer=b"hello")
    await page.set_input_files("#photo", files=[text])
    await expect(page.locator("#creator-fault")).to_contain_text("not a JPEG")
    broken = FilePayload(name="photo.jpg", mimeType="image/jpeg", buffer=b"hello")
    await page.set_input_files("#photo", files=[broken])
    await expect(page.locator("#creator-fault")).to_contain_text("cannot be read as a picture")
    await expect(page.locator("#photo-preview")).to_be_hidden()
    await page.set_input_files("#photo", files=[portrait("far.jpg")])
    await page.fill("#likeness", "Ann Lee")
    await page.check("#consent")
    await page.click("#creator-submit")
    await expect(page.locator("#creator-fault")).to_contain_text("31 pixels")
    await expect(page.locator("#creator-fault")).to_contain_text("taken from closer by")
    await page.check("input[name=sheetLanguage][value=zh]", force=True)
    await page.click("#creator-submit")
    await expect(page.locator("#creator-fault")).to_contain_text("至少需要 80 像素")
    await page.fill("#avatar-new-name", "张三")
    await page.click("#creator-submit")
    await expect(page.locator("#creator-fault")).to_contain_text("不能有“张”")


async def test_what_another_page_has_kept_and_nobody_can_choose_is_passed_over(
    page: Page, stub: StubGateway
) -> None:
    kept = {"volume": 70, "speed": 9, "style": "solemn", "language": "fr", "voice": "joe"}
    await page.add_init_script(
        f"localStorage.setItem('visavis.preferences', JSON.stringify({kept}))"
    )
    await start(page, stub)
    made = stub.seen.sessions[0]
    assert (made["language"], made["voice"]) == ("en", "joe")
    assert not {"speed", "style"} & made.keys()
    await expect(page.locator("#stage video")).to_have_js_property("volume", 1)
