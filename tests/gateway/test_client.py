"""The client package and a real gateway: the examples of docs/apps.md, and what may go wrong."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import re
import sys
import threading
from collections.abc import AsyncIterator, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import websockets
from typer.testing import CliRunner

from tests.gateway.conftest import RunningGateway, eventually, until
from tests.gateway.doubles import Doubles
from tests.gateway.media import film
from visavis.client import ARKIT_NAMES, Client, GatewayClient, GatewayError, Session
from visavis.client.poses import poses_of
from visavis.serving.errors import VisavisError
from visavis.tools.cli.ask import converse
from visavis.tools.cli.main import app

pytestmark = pytest.mark.asyncio(loop_scope="module")

PAGE = Path(__file__).parents[2] / "docs" / "apps.md"
WRITTEN_URL = "http://127.0.0.1:8080"
SETTINGS = {"persona": "You are a guide."}
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
async def test_the_examples_of_the_documentation_run(
    gateway: RunningGateway,
    number: int,
    doubles: Doubles,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    doubles.script.voice_s = 0.2
    example = EXAMPLES[number]
    assert WRITTEN_URL in example
    code = compile(example.replace(WRITTEN_URL, gateway.url), f"apps.md[{number}]", "exec")
    await asyncio.to_thread(exec, code, {"__name__": "example"})
    printed = capsys.readouterr().out
    if number == 0:
        assert printed.split("\n") == [
            doubles.script.answer,
            "By the way, we close in ten minutes.",
        ]
    if number == 1:
        assert (tmp_path / "hello.wav").stat().st_size > 12_000
        assert re.fullmatch(r"\d+ 0\.\d+ -?\d\.\d+\n", printed)


async def test_what_is_refused_is_told(gateway: RunningGateway) -> None:
    def asks() -> None:
        with Client(gateway.url) as client, client.session() as session:
            with pytest.raises(GatewayError) as refused:
                session.say("Hello.", language="tlh")
            assert refused.value.code == "not_found"
            assert client.call("GET", "/v1/voices")["voices"][0]["name"] == "ada"

    await asyncio.to_thread(asks)


async def test_what_is_lost_is_followed_again(client: GatewayClient) -> None:
    async with client.session() as session:
        heard = session.listen(16_000)
        events = session.events()
        assert (await anext(events))["type"] == "session"
        await anext(heard)
        await cut_off(session._events)
        async with asyncio.timeout(30):
            async for event in events:
                if event["type"] == "session":
                    break
            assert len(await anext(heard)) > 0
        await client.call("DELETE", f"/v1/sessions/{session.id}")
        async with asyncio.timeout(30):
            assert [e["code"] async for e in events if e["type"] == "error"] == ["session_closed"]
            async for _ in heard:
                pass


async def cut_off(socket: Any) -> None:
    """As a network does: no closing handshake."""
    socket.transport.abort()
    await socket.wait_closed()


async def asked(reader: asyncio.StreamReader) -> bool:
    """Whether a request has come, all of it."""
    with contextlib.suppress(asyncio.IncompleteReadError):
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head.lower())
        await reader.readexactly(int(length[1]) if length else 0)
        return True
    return False


@contextlib.asynccontextmanager
async def gateway_that_dies_after(*answers: str) -> AsyncIterator[str]:
    """Its address. answers: status, headers and body for one request each; where one is empty, and
    after the last, it hangs up.
    """
    left = list(answers)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await asked(reader) and left and left[0]:
            status, _, body = left.pop(0).rpartition("\n")
            head = f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n\r\n"
            writer.write((head + body).encode())
        del left[:1]
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_a_gateway_that_dies_in_mid_request_is_not_taken_for_one_of_https() -> None:
    """By then it has been talked to: as it comes back, it is to be tried again."""
    async with gateway_that_dies_after("200 OK\n{}") as url, GatewayClient(url) as client:
        assert await client.answers()
        with pytest.raises(GatewayError) as lost:
            await client.call("GET", "/v1/voices")
        assert (lost.value.code, "https" in str(lost.value)) == ("unreachable", False)


async def test_a_website_is_taken_for_no_gateway() -> None:
    """As one in development answers, at the port of ours and whatever it is asked for."""
    page = "200 OK\r\ncontent-type: text/html; charset=utf-8\n<!doctype html>"
    async with gateway_that_dies_after(page, page) as url, GatewayClient(url) as client:
        assert not await client.answers()
        with pytest.raises(GatewayError, match="a website answers, and no gateway"):
            await client.call("GET", "/v1/cache")


async def test_a_gateway_whose_bus_is_away_is_one() -> None:
    """A command that starts a stack where none runs would start a second one beside it."""
    away = '503 Service Unavailable\n{"status": "the bus is not connected"}'
    async with gateway_that_dies_after(away) as url, GatewayClient(url) as client:
        assert await client.answers()


async def test_a_session_that_goes_before_it_is_followed_is_refused_in_the_gateways_words() -> None:
    made = '201 Created\n{"id": "s-1", "token": "t", "token_expires_in_s": 900}'
    gone = '404 Not Found\n{"error": {"code": "not_found", "message": "the gateway is gone"}}'
    async with gateway_that_dies_after(made, gone) as url, GatewayClient(url) as client:
        with pytest.raises(GatewayError, match="the gateway is gone"):
            async with client.session():
                raise AssertionError("it cannot be followed")


@pytest.mark.parametrize(
    "lost",
    [
        '404 Not Found\n{"error": {"code": "not_found", "message": "the gateway is gone"}}',
        '200 OK\n{"id": "p-1", "state": "refused", "position": 0, "message": "", "again": true}',
    ],
    ids=["gone", "ending"],
)
async def test_a_place_in_line_that_goes_with_its_gateway_is_asked_for_anew(
    lost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("visavis.client.gateway._PLACE_POLL_S", 0.0)
    token = '"token": "t", "token_expires_in_s": 900'
    waits = '202 Accepted\n{"id": "%s", "state": "waiting", "position": %d, ' + token + "}"
    gone = '404 Not Found\n{"error": {"code": "not_found", "message": "it is gone"}}'
    ending = '503 X\n{"error": {"code": "at_capacity", "message": "this gateway ends"}}'
    let_in = '200 OK\n{"id": "p-2", "state": "admitted", "position": 0, "message": ""}'
    looked_for = [gone] if lost.startswith("404") else []
    answers = (waits % ("p-1", 5), lost, *looked_for, ending, waits % ("p-2", 2), let_in, gone)
    places: list[tuple[str, int]] = []
    async with gateway_that_dies_after(*answers) as url, GatewayClient(url) as client:
        with pytest.raises(
            GatewayError, match="it is gone"
        ):  # this one's doing: it cannot be followed
            async with client.session(
                on_place=lambda told: places.append((told["state"], told["position"]))
            ):
                raise AssertionError("it cannot be followed")
    assert places == [("waiting", 5), ("waiting", 2), ("admitted", 0)]


async def test_a_callback_that_would_wait_for_its_own_client_is_told_so() -> None:
    waits = '202 Accepted\n{"id": "p", "state": "waiting", "position": 5, "token": "t", '
    answer = waits + '"token_expires_in_s": 900}'

    def waits_for_itself(url: str) -> None:
        with Client(url) as client, client.session(on_place=lambda _: client.call("GET", "/")):
            raise AssertionError("nobody is let in")

    async with gateway_that_dies_after(answer, answer) as url, asyncio.timeout(20):
        with pytest.raises(RuntimeError, match="use another thread"):
            await asyncio.to_thread(waits_for_itself, url)


async def test_what_ends_while_the_connection_is_away_has_ended(
    client: GatewayClient, doubles: Doubles, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_path: str) -> None:
        raise ConnectionRefusedError

    doubles.script.voice_s = 2.0
    async with client.session() as session:
        asked = asyncio.create_task(session.answer_to("How are you?"))
        turns = f"/v1/sessions/{session.id}/turns"

        async def stands(state: str) -> bool:
            records = (await client.call("GET", turns)).json()
            return bool(records and records[-1]["state"] == state)

        await eventually(lambda: stands("speaking"))
        monkeypatch.setattr(client, "connect", refused)
        await cut_off(session._events)
        await eventually(lambda: stands("finished"))
        monkeypatch.undo()
        async with asyncio.timeout(15):
            assert await asked == doubles.script.answer


async def test_a_session_is_followed_whether_its_events_are_read_or_not(
    client: GatewayClient,
) -> None:
    async with client.session() as session:
        await cut_off(session._events)

        async def can_be_told() -> bool:
            with contextlib.suppress(websockets.ConnectionClosed):
                await session.tool_result("none", "")
                return True
            return False

        await eventually(can_be_told)


async def test_a_spoken_question_that_nobody_can_hear_is_not_waited_for(
    client: GatewayClient,
) -> None:
    async with (
        client.session() as session,
        client.connect(f"/v1/sessions/{session.id}/media?role=speaker"),
    ):
        with pytest.raises(GatewayError) as refused:
            async with asyncio.timeout(15):
                await converse(session, "a.wav", np.zeros(16_000, np.int16), record=False)
        assert refused.value.code == "microphone_taken"


async def test_without_reconnecting_a_loss_is_raised(gateway: RunningGateway) -> None:
    async with GatewayClient(gateway.url, reconnect_s=0) as client, client.session() as session:
        talking = asyncio.create_task(session.talk(np.zeros(0, np.int16), asyncio.Event()))
        events = session.events()
        await anext(events)
        await cut_off(session._events)
        with pytest.raises(GatewayError, match="lost"):
            async for _ in events:
                pass
        held = gateway.inside.sessions.get(session.id).microphone
        await until(lambda: held.holder)
        await client.call("DELETE", f"/v1/sessions/{session.id}")
        with pytest.raises(GatewayError) as ended:
            await talking
        assert ended.value.code == "session_closed"


def ends(work: Callable[[], None]) -> bool:
    """Whether it does, on a thread of its own."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(15)
    return not thread.is_alive()


async def test_a_client_that_is_left_leaves_no_thread_waiting(gateway: RunningGateway) -> None:
    told: list[Exception] = []

    def talks(session: Session) -> None:
        try:
            session.talk(np.zeros(16_000 * 60, np.int16))
        except GatewayError as error:
            told.append(error)

    def leaves() -> None:
        client = Client(gateway.url)
        with client, client.session() as session:
            kept = session.events()
            next(kept)
            talking = threading.Thread(target=talks, args=[session], daemon=True)
            talking.start()
        talking.join(10)
        client.__exit__()  # once more
        with pytest.raises(GatewayError) as refused:
            session.ask("Are you there?")
        assert (refused.value.code, len(told), list(kept)) == ("closed", 1, [])

    await asyncio.to_thread(leaves)


async def test_what_was_forgotten_is_deleted_on_any_thread(gateway: RunningGateway) -> None:
    """Python finds what refers to itself at any time, on the thread that happens to run."""

    def forgets() -> None:
        with Client(gateway.url) as client, client.session() as session:
            forgotten: list[Any] = [session.events()]
            forgotten.append(forgotten)
            next(forgotten[0])
            del forgotten

            def collect(request: httpx.Request) -> httpx.Request:  # called on the client's thread
                gc.collect()
                return request

            client.call("GET", "/v1/voices", auth=collect)

    assert await asyncio.to_thread(ends, forgets)


async def test_a_microphone_that_takes_no_pictures(client: GatewayClient, doubles: Doubles) -> None:
    doubles.script.hears = "Hello?"
    loud = np.full(4_800, 9000, np.int16)
    async with client.session() as session:
        stop = asyncio.Event()
        talking = asyncio.create_task(session.talk(loud, stop, pictures=False))
        await until(lambda: doubles.seen.prompts)
        stop.set()
        await talking
        assert doubles.seen.of("face", "codecs")[-1].codecs.codecs == []


async def test_what_is_no_pose_is_refused() -> None:
    record = (1200).to_bytes(4, "little") + bytes([255]) + bytes(51)
    record += b"".join(v.to_bytes(2, "little", signed=True) for v in (1000, -1000, 0, 5, 0, 10_000))
    (pose,) = poses_of(record)
    assert (pose.media_ms, pose.yaw, pose.pitch, pose.breath) == (1200, 0.1, -0.1, 1.0)
    assert pose.named()["browDownLeft"] == 1.0 and len(ARKIT_NAMES) == 52
    with pytest.raises(GatewayError), contextlib.closing(poses_of(record[:-1])) as poses:
        next(poses)


# ------------------------------------------------------------ commands that take --url


async def command(*arguments: str) -> str:
    """What a command prints."""
    done = await asyncio.to_thread(CliRunner().invoke, app, arguments)
    if isinstance(done.exception, VisavisError):
        raise done.exception  # what `main` tells
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


async def test_an_empty_persona_is_not_the_gateways_own(
    client: GatewayClient, http: httpx.AsyncClient
) -> None:
    personas = []
    for persona in (None, "", "You are brief."):
        async with client.session(persona=persona, language="") as session:
            told = await http.get(f"/v1/sessions/{session.id}")
            personas.append(told.json()["persona"])
    assert personas == ["You are a guide.", "", "You are brief."]


async def test_a_script_is_said_by_a_gateway(
    gateway: RunningGateway, doubles: Doubles, tmp_path: Path
) -> None:
    doubles.script.voice_s = 0.2
    text, video = tmp_path / "lecture.txt", tmp_path / "lecture.mp4"
    text.write_text("One.\n\nTwo.")
    told = await command("script", str(text), "-o", str(video), "--url", gateway.url)
    assert told.endswith("2 parts.")
    with film(video.read_bytes()) as file:
        loud = [abs(frame.to_ndarray()).max() > 0.05 for frame in file.decode(audio=0)]
    begins = sum(after and not before for before, after in pairwise([False, *loud]))
    assert begins == 2, "both parts, one after the other"


async def test_a_recording_that_ends_before_the_script_is_told(
    gateway: RunningGateway, doubles: Doubles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The video holds what was recorded; nothing more is said for nobody to see."""
    monkeypatch.setitem(gateway.inside.settings.__dict__, "recording_limit_s", 0.1)
    doubles.script.voice_s = 0.2
    text, video = tmp_path / "lecture.txt", tmp_path / "lecture.mp4"
    text.write_text("One.\n\nTwo.")
    with pytest.raises(VisavisError, match=r"ends with part 1 of 2: .* none is longer than 0\.1 s"):
        await command("script", str(text), "-o", str(video), "--url", gateway.url)
    with film(video.read_bytes()) as file:
        assert next(file.decode(video=0)).width


async def test_what_is_said_in_brackets_is_shown(
    gateway: RunningGateway, doubles: Doubles, tmp_path: Path
) -> None:
    """It is no style of the terminal's; what small models leave of their prompt looks like one."""
    doubles.script.answer = "Take [bold] and [/INST] as they are."
    video = tmp_path / "answer.mp4"
    told = await command("ask", "What is [/b]?", "-o", str(video), "--url", gateway.url)
    assert f"Avatar: {doubles.script.answer}" in told and "You: What is [/b]?" in told


def news(state: str, error: str = "") -> str:
    """What a gateway answers of a broadcast."""
    figures = '"sent_bytes": 1, "sent_pictures": 1, "dropped_pictures": 0, "reconnects": 0'
    told = f'"state": "{state}", "error": "{error}", "live_s": 1, "lag_s": 0, {figures}'
    return f'200 OK\n{{"id": "b", "target": "rtmp://x", {told}}}'


BROADCAST, GONE = '201 Created\n{"id": "s"}', "204 No Content\n"
READY = ('200 OK\n{"status": "ok"}', '200 OK\n{"status": "ok"}')
"""What is asked before: whether a gateway is there, and a turn would work."""


async def test_a_broadcast_is_not_ended_by_news_that_fail_to_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("visavis.tools.live._LOOK_S", 0.0)
    told = (news("live"), news("live"), "", news("live"), news("stopped"))
    async with gateway_that_dies_after(*READY, BROADCAST, *told, GONE, GONE) as url:
        printed = await command("live", "start", "rtmp://x/y", "--key", "k", "--url", url)
    lines = ("live: 1 s", "no news of it", "stopped: 1 s")
    assert [printed.count(line) for line in lines] == [2, 1, 1]


async def test_a_broadcast_that_fails_ends_its_command_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("visavis.tools.live._LOOK_S", 0.0)
    told = (news("connecting"), news("failed", "the key is refused"))
    async with gateway_that_dies_after(*READY, BROADCAST, *told, GONE, GONE) as url:
        with pytest.raises(
            VisavisError, match=r"rtmp://x: the broadcast failed: the key is refused"
        ):
            await command("live", "start", "rtmp://x/y", "--key", "k", "--url", url)


async def test_a_broadcast_and_its_session_end_with_the_command(gateway: RunningGateway) -> None:
    """Also where it is told so by a supervisor, not at a terminal."""
    asked = ["live", "start", "rtmp://127.0.0.1:1/x", "--key", "k", "--url", gateway.url]
    main = "from visavis.tools.cli.main import main; main()"
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", main, *asked, stdout=pipe)
    async with asyncio.timeout(30):
        assert process.stdout is not None and b"Session" in await process.stdout.readline()
        assert len(gateway.inside.sessions.all()) == 1
        process.terminate()
        await process.communicate()
    assert process.returncode == 0
    assert not gateway.inside.sessions.all()


async def test_that_nothing_is_broadcast_is_said(gateway: RunningGateway) -> None:
    assert "Nothing is broadcast" in await command("live", "list", "--url", gateway.url)
    assert json.loads(await command("live", "list", "--json", "--url", gateway.url)) == []


async def test_what_is_ended_is_told_and_that_nothing_was_broadcast() -> None:
    def listed(*states: str) -> str:
        told = (news(state).partition("\n")[2] for state in states)
        return f'200 OK\n{{"broadcasts": [{", ".join(told)}]}}'

    here, stopped = READY[0], news("stopped")
    for broadcasts, named, said in (
        ((listed("stopped", "live"), stopped), [], "Ended: broadcast b to rtmp://x, stopped: 1 s"),
        ((listed("stopped"),), [], "Nothing of session s is broadcast."),
        ((listed("stopped"), stopped), ["b"], "Over already: broadcast b to rtmp://x, stopped"),
    ):
        async with gateway_that_dies_after(here, *broadcasts) as url:
            assert said in await command("live", "stop", "s", *named, "--url", url)


async def test_avatars_of_a_gateway_are_made_listed_and_deleted(
    gateway: RunningGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):  # as in a container, whose user has none
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 7)
    photo = tmp_path / "ann.jpg"
    photo.write_bytes(b"a photo")
    there = ("--url", gateway.url)
    likeness = ("--likeness", "Ann Lee", "--consent", "to greet [contract 12, see [/ann.pdf]]")
    assert "Avatar ann is ready" in await command("avatar", "create", str(photo), *likeness, *there)
    listed = await command("avatar", "list", *there)
    assert "ann" in listed and "yours" in listed
    assert all(told in listed for told in ("[contract", "[/ann.pdf]]", "2147483641"))
    head = tmp_path / "cleo"
    head.mkdir()
    (head / "head.toml").write_text("")
    os.utime(head / "head.toml", (1, 1))  # as in what is built so that it can be built again
    added = await command("avatar", "add", str(head), *there)
    assert "Avatar cleo is ready" in added and "material '[hat]': its fur is not drawn" in added
    monkeypatch.chdir(head.rename(tmp_path / "Eve Lee"))
    assert "Avatar Eve-Lee is ready" in await command("avatar", "add", ".", *there)
    figure = tmp_path / "fay.vrm"
    figure.write_bytes(b"glTF")
    licence = ("--licence", 'CC BY "4.0"')
    assert "Avatar fay is ready" in await command("avatar", "add", str(figure), *licence, *there)
    await command("avatar", "delete", "ann", *there)
    assert "ann" not in (await command("avatar", "list", *there)).split()
