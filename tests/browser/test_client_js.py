"""The JavaScript client in a real browser, on a page of another origin: docs/apps.md says how."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page

from tests.browser.conftest import fresh_page
from tests.browser.stub_gateway import StubGateway
from tests.gateway.conftest import Rig

pytestmark = pytest.mark.asyncio(loop_scope="session")

PAGE = Path(__file__).parents[2] / "docs" / "apps.md"
WRITTEN_URL = "http://127.0.0.1:8080"
LOADED = """
  window.loaded = [];
  const { load } = HTMLMediaElement.prototype;
  HTMLMediaElement.prototype.load = function () {
    loaded.push(this.id);
    load.call(this);
  };
"""


class OtherSite:
    """A page of another origin, served as any is: a browser asks itself where it came from."""

    def __init__(self) -> None:
        self.html = ""
        self._server: asyncio.Server

    async def __aenter__(self) -> OtherSite:
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self.origin = f"http://localhost:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_error: object) -> None:
        self._server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = self.html.encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(body)}\r\n"
        writer.write(f"{head}Connection: close\r\n\r\n".encode() + body)
        await writer.drain()
        writer.close()


async def test_the_example_of_the_documentation_runs(browser: Browser, tmp_path: Path) -> None:
    (example,) = re.findall(r"```html\n(<video.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    rig = Rig(tmp_path)
    async with OtherSite() as site:
        await rig.start(allowed_origins=[site.origin])
        try:
            url = rig.running.url
            site.html = example.replace(WRITTEN_URL, url)
            async with fresh_page(browser) as page:
                await page.add_init_script(LOADED)
                await page.goto(f"{site.origin}/")
                answer = rig.doubles.script.answer
                await page.wait_for_function(
                    "(text) => document.querySelector('#caption').textContent === text", arg=answer
                )
                await page.wait_for_function("document.querySelector('#face').videoWidth > 0")
                assert await page.evaluate("loaded") == ["face"], "it may sound in Safari"
                rig.doubles.script.calls = [("c7", "look", "{}")]
                told = await page.evaluate(FOLLOWED, url)
                refused: list[str] = []
                page.on("response", lambda told: told.ok or refused.append(told.url))
                hung_up = await page.evaluate(HUNG_UP, url)
            assert refused == [], "who leaves asks for nothing that goes anyway"
            assert hung_up["plays"], "and not only where it has autoplay"
            assert (hung_up["refused"], hung_up["peers"]) == ("disconnected", 1)
            assert hung_up["tracks"] == ["ended"]
            assert [(its["type"], its["socket"]) for its in hung_up["told"]] == [
                ("lost", "webrtc"),
                ("back", "webrtc"),
            ]
            assert told["refused"] == "invalid_input"
            assert told["weights"] == 52 and told["events"][:2] == ["session", "state"]
            assert told["lost"] == ["lost", "back"] and told["said"] == 1
            assert rig.doubles.seen.prompts[-1][-1][1] == "a cat", (
                "it went over the next connection"
            )
            assert told["late"] == "session_closed"
            assert told["turns"][-1]["transcript"] == "What do you see?"
            assert len(rig.running.inside.sessions.all()) == 1, "the other one was ended"
        finally:
            await rig.stop()


async def test_a_session_that_is_not_found_again_is_let_go_of_wholly(
    page: Page, stub: StubGateway
) -> None:
    await page.goto(f"{stub.url}/static/client.js")
    told = await page.evaluate(LOST, stub.url)
    assert told["audible"] == [False, True], "it talks once it is pushed"
    assert told["ended"] == [{"type": "ended", "socket": "events"}]
    assert (told["opened"], told["live"]) == (2, 0)


async def test_a_token_is_renewed_for_as_long_as_its_session_lives_and_is_followed(
    page: Page, stub: StubGateway
) -> None:
    stub.begin("abc")
    await page.goto(f"{stub.url}/static/client.js")
    told = await page.evaluate(RENEWED, stub.url)
    # Its gateway is away twice; then there is a token for 900 s, and then the session is over.
    assert told["pauses_s"] == [30, 10, 10, 450]
    assert told["asked"] == 4
    assert told["unknown_s"] == [0], "a token whose life was not told may not hold for long"
    assert told["left"] == [], "who follows it no more asks for none"


async def test_a_socket_that_is_dead_and_looks_open_is_given_up(
    page: Page, stub: StubGateway
) -> None:
    stub.begin("abc")
    await page.goto(f"{stub.url}/static/client.js")
    told = await page.evaluate(QUIET, stub.url)
    assert told == ["state"], "who has nothing to say and answers is there"
    assert await page.evaluate("unanswered") == {"status": 0, "code": "unreachable"}
    stub.script.deaf = True  # as after a sleep, or where its machine has vanished
    await page.evaluate("tell('c1')")
    await stub.until(lambda seen: seen.unheard == 2)  # with the ping behind it
    assert await page.evaluate("lookTwice()") == ["state", "lost"]
    stub.script.deaf = False
    assert await page.evaluate("lostAndBack()") == ["state", "lost", "back", "state"]
    await page.evaluate("answered('c2')")
    stub.drop("events")
    await page.evaluate("lostAndBack()")
    await page.evaluate("answered('c3')")
    said = [event["call_id"] for event in stub.seen.events]
    assert said == ["c1", "c2", "c3"], "what was said into it goes again; what was heard does not"
    stub.drop("events", forget=True)
    assert await page.evaluate("ended") == {"type": "ended", "socket": "events"}


FOLLOWED = """async (url) => {
  const { Session } = await import(`${url}/static/client.js`);
  const sockets = [];
  const Real = WebSocket;
  window.WebSocket = class extends Real {
    constructor(...given) { super(...given); sockets.push(this); }
  };
  const made = await Session.make(url, { drawn_by: "client", tools: [{ name: "look" }] });
  const session = new Session(url, { id: made.id, token: "" });
  made.close();
  const events = [], lost = [];
  session.addEventListener("event", ({ detail }) => events.push(detail.type));
  const next = (type) => new Promise((resolve) =>
    session.addEventListener(type, ({ detail }) => resolve(detail), { once: true }));
  for (const type of ["lost", "back"]) session.addEventListener(type, () => lost.push(type));
  await next("state");
  const said = await session.say("Hello there.");
  const pose = await new Promise((resolve) => session.blendshapes(resolve));
  const refused = await session.say("").catch((error) => error.code);
  const [back, called] = [next("back"), next("answer.tool_call")];
  await session.ask("What do you see?");
  const { call_id } = await called;
  sockets.find((socket) => socket.url.endsWith("/events") && socket.readyState === 1).close();
  session.toolResult(call_id, "a cat");
  const answered = next("answer");
  await back;
  await answered;
  const turns = await session.call("GET", "/turns");
  await session.end();
  let late = "";
  try { session.toolResult(call_id, "a dog"); } catch ({ code }) { late = code; }
  return { said, turns, refused, events, lost, late, weights: pose.weights.length };
}"""

HUNG_UP = """async (url) => {
  const { Session } = await import(`${url}/static/client.js`);
  const session = new Session(url, await Session.make(url, {}));
  const [timers, peers] = [[], []];
  const Real = RTCPeerConnection;
  window.RTCPeerConnection = class extends Real {
    constructor(...given) { super(...given); peers.push(this); }
  };
  const audio = new Audio();
  await session.connect({ audio });
  const plays = !audio.paused;
  const told = [];
  const tell = ({ detail }) => told.push(detail);
  for (const type of ["lost", "back"]) session.addEventListener(type, tell);
  const back = new Promise((resolve) => session.addEventListener("back", resolve));
  // It is lost, and before it is connected anew the visitor hangs up.
  const later = setTimeout;
  window.setTimeout = (act) => timers.push(act);
  Object.defineProperty(peers[0], "connectionState", { value: "failed" });
  peers[0].dispatchEvent(new Event("connectionstatechange"));
  window.setTimeout = later;
  await session.disconnect();
  for (const act of timers) await act();
  const before = peers.length;
  // He hangs up while the browser asks whether it may hear him, and then says yes.
  const { mediaDevices } = navigator;
  const [hear, asked] = [mediaDevices.getUserMedia.bind(mediaDevices), Promise.withResolvers()];
  const yes = Promise.withResolvers();
  mediaDevices.getUserMedia = () => { asked.resolve(); return yes.promise; };
  const connecting = session.connect({ audio: new Audio(), microphone: true });
  await asked.promise;
  await session.disconnect();
  const heard = await hear({ audio: true });
  yes.resolve(heard);
  const refused = await connecting.then(() => "", ({ code }) => code);
  await session.connect({ audio });
  await back;
  await session.end();
  const tracks = heard.getTracks().map((track) => track.readyState);
  return { plays, refused, tracks, told, peers: before };
}"""

LOST = """async (url) => {
  const { Session } = await import(`${url}/static/client.js`);
  const [Socket, Peer] = [WebSocket, RTCPeerConnection];
  const { fetch, setTimeout: later } = window;
  const { mediaDevices } = navigator;
  const hear = mediaDevices.getUserMedia.bind(mediaDevices);
  const [sockets, peers, heard, ended] = [[], [], [], []];
  const again = Promise.withResolvers();
  let away = false;
  window.WebSocket = class extends Socket {
    constructor(where, protocols) {
      super(away ? "ws://127.0.0.1:1" : where, protocols);
      sockets.push(this);
    }
  };
  const connected = Promise.withResolvers();
  window.RTCPeerConnection = class extends Peer {
    constructor(...given) {
      super(...given);
      const look = () => peers.length > 1 && this.connectionState === "connected";
      this.addEventListener("connectionstatechange", () => look() && connected.resolve());
      peers.push(this);
    }
    getStats() {
      return this === peers[0] ? new Map() : super.getStats(); // its gateway has gone
    }
  };
  mediaDevices.getUserMedia = async (wanted) => {
    heard.push(await hear(wanted));
    return heard.at(-1);
  };
  const session = await Session.make(url);
  session.muted = true;
  await session.connect({ microphone: true });
  const [{ enabled: before }] = heard[0].getTracks();
  session.muted = false;
  const [{ enabled: after }] = heard[0].getTracks();
  const over = new Promise((resolve) => session.addEventListener("ended", ({ detail }) => {
    ended.push(detail);
    resolve();
  }));
  sockets[0].close(); // as where its gateway has gone: another one has no such peer
  await connected.promise;
  // For two minutes there is no network: neither for the media, nor for the events.
  away = true;
  window.fetch = () => Promise.reject(new TypeError("no network"));
  window.setTimeout = (act, ms) => (ms === 3000 ? again.resolve(act) : later(act, ms));
  Object.defineProperty(peers[1], "connectionState", { value: "failed" });
  peers[1].dispatchEvent(new Event("connectionstatechange"));
  const act = await again.promise;
  window.setTimeout = later;
  const lost = new Promise((resolve) => session.addEventListener("lost", resolve));
  sockets[1].close();
  await lost;
  const now = performance.now.bind(performance);
  performance.now = () => now() + 121_000;
  await over;
  // It is back: what waited for it finds that nothing is wanted any more.
  away = false;
  window.fetch = fetch;
  await act();
  const live = heard.filter((stream) => stream.getTracks()[0].readyState === "live");
  return { ended, opened: heard.length, live: live.length, audible: [before, after] };
}"""

RENEWED = """async (url) => {
  const { Session } = await import(`${url}/static/client.js`);
  const { fetch, setTimeout: later } = window;
  const answers = [502, 0, 200, 404];
  const refusal = (status) => ({ ok: false, status, json: async () => ({}) });
  const [pauses_s, unknown_s, left, over] = [[], [], [], Promise.withResolvers()];
  let asked = 0;
  window.fetch = async (...given) => {
    const status = answers[asked++] ?? 404;
    if (status === 404) later(over.resolve);
    if (status === 0) throw new TypeError("no network");
    return status === 200 ? fetch(...given) : refusal(status);
  };
  // Each pause is over at once; in a loop without an end there would be more and more of them.
  window.setTimeout = (act, ms) => {
    pauses_s.push(ms / 1000);
    if (pauses_s.length < 9) later(act);
  };
  const session = new Session(url, { id: "abc", token: "token-of-abc", token_expires_in_s: 60 });
  await over.promise;
  session.close();
  const [asks, answer] = [Promise.withResolvers(), Promise.withResolvers()];
  window.fetch = () => {
    asks.resolve();
    return answer.promise;
  };
  window.setTimeout = (act, ms) => unknown_s.push(ms / 1000);
  new Session(url, { id: "abc", token: "token-of-abc" }).close();
  window.setTimeout = (act) => later(act);
  const another = new Session(url, { id: "abc", token: "token-of-abc", token_expires_in_s: 60 });
  await asks.promise;
  another.close();
  window.setTimeout = (act, ms) => left.push(ms);
  answer.resolve(refusal(502));
  await new Promise(later);
  return { pauses_s, asked, unknown_s, left };
}"""

QUIET = """async (url) => {
  const { Session } = await import(`${url}/static/client.js`);
  const [looks, told, sockets] = [[], [], []];
  const Real = WebSocket;
  window.WebSocket = class extends Real {
    constructor(...given) { super(...given); sockets.push(this); }
  };
  window.setInterval = (look) => looks.push(look);
  const session = new Session(url, { id: "abc", token: "" });
  session.addEventListener("event", ({ detail }) => told.push(detail.type));
  const next = (type, from = session) => new Promise((resolve) =>
    from.addEventListener(type, resolve, { once: true }));
  const look = () => looks.forEach((act) => act());
  await next("state");
  // A network that swallows what is asked.
  const [{ timeout }, limit] = [AbortSignal, new AbortController()];
  AbortSignal.timeout = () => limit.signal;
  const refused = session.ask("Hello?").catch(({ status, code }) => ({ status, code }));
  limit.abort();
  window.unanswered = await refused;
  AbortSignal.timeout = timeout;
  for (let asked = 0; asked < 2; asked += 1) {
    look();
    const answered = next("message", sockets[0]);
    look();
    await answered;
  }
  window.ended = next("ended").then(({ detail }) => detail);
  const back = () => next("back").then(() => next("state"));
  let comesBack = back();
  const pong = () => next("message", sockets.at(-1));
  window.tell = (callId) => {
    session.toolResult(callId, "a cat");
    comesBack = comesBack.then(pong);
  };
  window.answered = (callId) => {
    comesBack = back();
    session.toolResult(callId, "a cat");
    return pong().then(() => null);
  };
  window.lookTwice = () => {
    for (let silent = 0; silent < 3; silent += 1) look(); // the first has heard the last pong
    return told;
  };
  window.lostAndBack = () => comesBack.then(() => told);
  return told;
}"""
