"""The face drawn by the page itself: which head, and what it does without WebGL."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import numpy as np
import pytest
import pytest_asyncio
from playwright.async_api import Browser, FilePayload, Page, Route, expect

from tests.browser.block_head import block_figure, block_head
from tests.browser.conftest import WEBGL, chromium, fresh_page
from tests.browser.driving import body, open_page, start
from tests.browser.stub_gateway import StubGateway
from tests.face.engines import made_head
from tests.face.engines.made_gltf import Gltf, hold_out_arms
from tests.face.engines.test_head_gltf import held_by_bones

CLOTHES = 4
"""Part of the made head."""

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(240)]


async def until_true(page: Page, expression: str) -> None:
    """As Playwright waits for a function, which the page's policy forbids."""
    async with asyncio.timeout(30):
        while not await page.evaluate(expression):  # noqa: ASYNC110 - the page calls nobody
            await asyncio.sleep(0.1)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def drawing(chromium_path: str) -> AsyncIterator[Browser]:
    flags = ("--autoplay-policy=no-user-gesture-required", *WEBGL)
    async with chromium(chromium_path, *flags) as browser:
        yield browser


def file_of(content: bytes) -> FilePayload:
    return FilePayload(name="own.glb", mimeType="model/gltf-binary", buffer=content)


async def choose_own(page: Page, file: FilePayload) -> None:
    """In the open settings: another file than now."""
    async with page.expect_file_chooser() as chooser:
        if await page.input_value("#drawing-headFile") == "own":
            await page.click(".field:has(#drawing-headFile) button")
        else:
            await page.select_option("#drawing-headFile", "own")
    await (await chooser.value).set_files(file)


KEPT_BYTES = """async () => {
  const { kept } = await import("/static/head/store.js");
  return (await kept("headFile"))?.size ?? 0;
}"""
"""Of the head that the browser keeps."""


async def test_a_head_of_ones_own_is_kept_in_the_browser_and_an_unfit_one_refused(
    drawing: Browser, stub: StubGateway
) -> None:
    async with fresh_page(drawing) as page:
        await open_page(page, stub, "?drawnBy=client&transport=websocket")
        await page.click("#settings-open")
        for content in (block_head(), block_figure()):
            await choose_own(page, file_of(content))
            await until_true(page, f"({KEPT_BYTES})().then((size) => size === {len(content)})")
        # Another visit finds it again, and asks the gateway for no head.
        await open_page(page, stub, "?drawnBy=client&transport=websocket")
        await page.click("#start-type")
        await page.wait_for_selector("#head")
        await stub.until(lambda seen: seen.sessions)
        assert stub.seen.sessions[-1]["drawn_by"] == "client"
        await page.click("#settings-open")
        await choose_own(page, file_of(block_head(["jawOpen"])))
        await expect(page.locator("#toasts")).to_contain_text("no ARKit shapes")
        # The stub's avatars have no head.
        await expect(page.locator("[name=drawnBy][value=server]")).to_be_checked()
        assert await page.evaluate(KEPT_BYTES) == len(block_figure())


READ = """async (packed) => {
  const { headOf } = await import("/static/head/model.js");
  try {
    const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
    const head = await headOf(bytes.buffer);
    let pictures = 0;
    head.object.traverse(({ material }) => (pictures += material?.map ? 1 : 0));
    const bone = (name) => head.object.getObjectByName(name)?.matrixWorld.elements.slice(12, 14);
    const [arm, elbow] = [bone("mixamorigLeftArm"), bone("elbow")];
    if (!arm) return `${pictures} pictures`;
    const [x, y] = [elbow[0] - arm[0], elbow[1] - arm[1]];
    return `arms ${Math.atan2(-y, x).toFixed(1)} down`;
  } catch (error) {
    return error.message;
  }
}"""
"""What the page makes of a file: of how many parts it shows a picture, how far arms hang, radians,
or why it is unfit.
"""


async def test_what_is_compressed_is_told_and_colours_said_in_the_old_way_are_shown(
    drawing: Browser, stub: StubGateway
) -> None:
    async def read(content: bytes) -> str:
        found: str = await page.evaluate(READ, base64.b64encode(content).decode())
        return found

    async with fresh_page(drawing) as page:
        await open_page(page, stub)
        plain, old = Gltf(), Gltf()
        material = old.material()
        diffuse = {"diffuseTexture": material.pop("pbrMetallicRoughness")["baseColorTexture"]}
        material["extensions"] = {"KHR_materials_pbrSpecularGlossiness": diffuse}
        assert await read(old.packed()) == await read(plain.packed()) == "6 pictures"
        plain.told["extensionsRequired"] = ["KHR_draco_mesh_compression"]
        assert await read(plain.packed()) == "head.unfit.compressed"


EYES = """async (packed) => {
  const { headOf } = await import("/static/head/model.js");
  const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
  const { middle, apart } = (await headOf(bytes.buffer)).eyes;
  return [middle.x, middle.y, middle.z, apart];
}"""


async def test_eyes_are_where_bones_hold_them(drawing: Browser, stub: StubGateway) -> None:
    async with fresh_page(drawing) as page:
        await open_page(page, stub)
        plain, held = Gltf(), Gltf()
        held_by_bones(held)
        written = [base64.b64encode(one.packed()).decode() for one in (plain, held)]
        found = [await page.evaluate(EYES, one) for one in written]
        assert found[0] == pytest.approx(found[1], abs=1e-5)


async def test_arms_are_let_down_and_a_mouth_that_does_not_move_is_told(
    drawing: Browser, stub: StubGateway
) -> None:
    async with fresh_page(drawing) as page:
        await open_page(page, stub)
        figures = [Gltf(), Gltf(), Gltf()]
        hold_out_arms(figures[0], CLOTHES, 0.1)
        hold_out_arms(figures[1], CLOTHES, 0.7)
        jaw = figures[2].told["meshes"][0]["extras"]["targetNames"].index("jawOpen")
        for primitive in figures[2].told["meshes"][0]["primitives"]:
            count = figures[2].told["accessors"][primitive["attributes"]["POSITION"]]["count"]
            primitive["targets"][jaw]["POSITION"] = figures[2].add(np.zeros((count, 3)))
        written = [*(figure.packed() for figure in figures), block_figure(speaks=False)]
        found = [await page.evaluate(READ, base64.b64encode(one).decode()) for one in written]
        assert found == ["arms 1.2 down", "arms 0.7 down", *2 * ["head.unfit.shapes"]]


SCENE: dict[str, Any] = {
    "framing": {"position": [0.5, 0.1, 1.2], "target": [0.0, 0.1, 0.0], "vertical_fov_deg": 20.0},
    "light": {
        "lamps": [{"direction": [1, 0, 0], "strength": 1, "angle": 0.2, "colour": [1, 0.5, 0]}],
        "ambient": 0.2,
        "baked": False,
    },
    "neck": [0.0, -0.1, 0.0],
}


WALL = made_head.bundle_files()["background.png"]


async def give_heads(page: Page) -> None:
    """Each avatar has one, the same."""
    for file, given in (
        ("head.glb", {"body": block_head(), "content_type": "model/gltf-binary"}),
        ("head.json", {"json": SCENE}),
        ("background.png", {"body": WALL, "content_type": "image/png"}),
    ):
        await page.route(f"**/v1/avatars/*/{file}", partial(_fulfil, given))


async def _fulfil(given: dict[str, Any], route: Route) -> None:
    await route.fulfill(**given)


async def test_where_a_file_of_ones_own_is_not_kept_the_avatars_head_stands_as_in_its_portrait(
    drawing: Browser, stub: StubGateway
) -> None:
    async with fresh_page(drawing) as page:
        await give_heads(page)
        # As after a private window, whose store is gone and whose preferences are not.
        await page.add_init_script(
            "localStorage.setItem('visavis.preferences', '{\"headFile\": \"own\"}')"
        )
        await open_page(page, stub, "?drawnBy=client&transport=websocket&avatar=eileen")
        await page.click("#start-type")
        await page.wait_for_selector("#head")
        shown = await page.evaluate(
            """async () => {
              const style = getComputedStyle(document.querySelector(".frame"));
              const [, url] = /url\\("(.*)"\\)/.exec(style.getPropertyValue("--backdrop"));
              return (await (await fetch(url)).blob()).size;
            }"""
        )
        assert shown == len(WALL)
        camera, light = await page.evaluate(
            """async (scene) => {
              const { framed, lit } = await import("/static/head/framing.js");
              const eyes = { middle: { x: 0, y: 0, z: 0.1 }, apart: 0.06 };
              return [framed(eyes, scene, "portrait", { x: 0, y: 0, zoom: 1 }, 1.5), lit(scene)];
            }""",
            SCENE,
        )
        framing = SCENE["framing"]
        assert camera["position"] == pytest.approx(framing["position"])
        assert camera["target"] == framing["target"] and camera["angle"] == 20.0
        assert [lamp["direction"] for lamp in light["lamps"]] == [[1, 0, 0]]
        await page.click("#settings-open")
        await expect(page.locator("#drawing-headFile")).to_have_value("avatar")
        async with page.expect_request("**/grandma-gu/head.glb"):
            await page.click("#avatars label:has([value=grandma-gu])")


async def test_the_head_that_was_chosen_last_is_worn_however_late_others_come(
    drawing: Browser, stub: StubGateway
) -> None:
    stub.script.avatars = ["eileen", "grandma-gu", "otto", "tom"]
    held = {"eileen": asyncio.Event(), "otto": asyncio.Event()}

    async def head_of(route: Route) -> None:
        name = route.request.url.split("/")[-2]
        if name in held:
            await held[name].wait()
        # The file does not tell whose it is: how its portrait shows it does.
        await route.fulfill(json=SCENE | {"neck": [stub.script.avatars.index(name), 0.0, 0.0]})

    async with fresh_page(drawing) as page:
        await give_heads(page)
        await page.route("**/v1/avatars/*/head.json", head_of)
        await open_page(page, stub, "?drawnBy=client&transport=websocket&avatar=eileen")
        await page.evaluate(
            """async () => {
              const { HeadScene } = await import("/static/head/scene.js");
              const wear = HeadScene.prototype.wear;
              window.worn = [];
              HeadScene.prototype.wear = function (head) {
                window.worn.push(head.scene.neck[0]);
                wear.call(this, head);
              };
            }"""
        )
        async with page.expect_request("**/eileen/head.json"):
            await page.click("#start-type")
        await page.click("#settings-open")
        async with page.expect_request("**/grandma-gu/head.json"):
            await page.click("#avatars label:has([value=grandma-gu])")
        held["eileen"].set()
        await until_true(page, "worn.at(-1) === 1")
        async with page.expect_request("**/otto/head.json"):
            await page.click("#avatars label:has([value=otto])")
        await page.click("#avatars label:has([value=tom])")
        await until_true(page, "worn.at(-1) === 3")
        async with page.expect_request_finished(lambda r: "otto/head.json" in r.url):
            held["otto"].set()
        await page.click("#avatars label:has([value=eileen])")
        await until_true(page, "worn.at(-1) === 0")
        assert (await page.evaluate("worn"))[-3:] == [1, 3, 0]


async def test_a_head_that_cannot_be_fetched_is_told_and_asked_for_again(
    drawing: Browser, stub: StubGateway
) -> None:
    async with fresh_page(drawing) as page:
        await give_heads(page)
        await page.route("**/head.glb", lambda route: route.abort())
        await start(page, stub)
        await page.click("#settings-open")
        await page.check("input[name=drawnBy][value=client]", force=True)
        await expect(page.locator(".toast[role=alert]")).to_contain_text("cannot be reached")
        await stub.until(lambda seen: {"drawn_by": "server"} in seen.updates)
        await page.reload()
        await expect(page.locator(".toast[role=alert]")).to_contain_text("cannot be reached")
        await page.unroute("**/head.glb")
        await page.click("#settings-open")
        await page.click("input[name=drawnBy][value=client]", force=True)
        await page.wait_for_selector("#head")


async def test_without_webgl_the_page_says_so_and_the_server_draws(
    page: Page, stub: StubGateway
) -> None:
    await page.add_init_script(
        """const native = HTMLCanvasElement.prototype.getContext;
        HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {
          return kind.startsWith("webgl") ? null : native.call(this, kind, ...rest);
        };"""
    )
    await open_page(page, stub, "?drawnBy=client&transport=websocket")
    await page.click("#start-type")
    await page.wait_for_selector("body[data-connection=live][data-video=playing]")
    await expect(page.locator("#toasts")).to_contain_text(re.compile("WebGL"))
    assert stub.seen.sessions[-1]["drawn_by"] == "server"
    assert await body(page, "drawn") is None
