"""Tools of real MCP servers: through the public API from a process, and over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import uvicorn

from gateway.tools import mcp_servers
from gateway.tools.mcp_servers import McpServer, McpServers, read_servers
from tests.fakes import MetricGrowth
from tests.gateway.conftest import RunningGateway, served, until
from tests.gateway.doubles import Doubles
from tests.gateway.tools import mcp_server
from tests.gateway.visiting import collect
from visavis.client import GatewayClient, GatewayError
from visavis.serving.errors import InvalidInputError
from visavis.v1 import llm_pb2

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that is there once a call of `shop_wait` has begun."""
    return tmp_path_factory.mktemp("waiting") / "begun"


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory, waiting: Path) -> dict[str, Any]:
    """Of a gateway with a server in a process of its own, and one that cannot be started."""
    file = tmp_path_factory.mktemp("mcp") / "servers.json"
    shop = {
        "command": sys.executable,
        "args": ["-m", "tests.gateway.tools.mcp_server"],
        "cwd": str(Path(__file__).parents[3]),
        "env": {mcp_server.WAITING_FILE: str(waiting)},
    }
    servers = {"shop": shop, "gone": {"command": "/nowhere/at/all"}}
    file.write_text(json.dumps({"mcpServers": servers}))
    return {"mcp": file}


@pytest_asyncio.fixture(loop_scope="module")
async def client(gateway: RunningGateway, client: GatewayClient) -> GatewayClient:
    """Once the shop is there: where the machine is busy, a gateway's start does not wait for it."""
    tools = gateway.inside.sessions._answers.tools
    await until(lambda: tools.knows("shop_add"))
    return client


async def told(client: GatewayClient, doubles: Doubles, *calls: tuple[str, str, str]) -> list[str]:
    """What the model is told of these calls."""
    doubles.script.calls, doubles.script.voice_s = list(calls), 0.04
    async with client.session() as session:
        await session.ask("How much is it?")
        await collect(session, "finished")
    on = doubles.seen.of("llm", "go_on")[-1].go_on
    return [m.content for m in on.request.messages if m.tool_call_id]


async def test_answers_call_a_server_and_what_goes_wrong_is_told_in_words(
    client: GatewayClient, doubles: Doubles
) -> None:
    counted = [
        MetricGrowth("gateway_tool_calls_total", by=by, result=result)
        for by, result in (("server", "done"), ("server", "failed"), ("nobody", "failed"))
    ]
    results = await told(
        client,
        doubles,
        ("c1", "shop_add", '{"a": 2, "b": 3}'),
        ("c2", "shop_fail", ""),
        ("c3", "shop_add", '{"a": "x"}'),
        ("c4", "other", "{}"),
        ("c5", "shop_weigh", "{}"),
        ("c6", "shop_add", r'{"a": "\ud800"}'),
        ("c7", "shop_fetch", "{}"),
    )
    assert results[0] == "5"
    assert results[1].startswith("failed: ") and "the shop is closed" in results[1]
    assert results[2].startswith("failed: ") and "valid integer" in results[2]
    assert results[3] == "failed: there is no tool 'other'"
    assert results[4].startswith("failed: Invalid structured content")
    assert results[5].startswith("failed: the arguments cannot be sent")
    assert "Open until six." in results[6], "a text that comes as a resource"
    assert [growth.value for growth in counted] == [2, 4, 1]
    begin, *_ = doubles.seen.of("llm", "begin")
    offered = {t.name: t for t in begin.begin.request.tools}
    assert set(offered) == {
        f"shop_{name}" for name in ("add", "fail", "weigh", "fetch", "flood", "wait", "hold", "end")
    }
    assert offered["shop_add"].description == "Add two numbers."
    assert json.loads(offered["shop_add"].parameters_json)["required"] == ["a", "b"]
    again = await told(client, doubles, ("c1", "shop_add", '{"a": 1, "b": 1}'))
    assert again == ["2"], "the connection has ended"


async def test_a_tool_of_the_gateways_own_can_be_named_as_the_one_to_call(
    client: GatewayClient, doubles: Doubles
) -> None:
    async with client.session(tool_choice={"name": "shop_add"}) as session:
        await session.ask("How much is it?")
        await collect(session, "finished")
    (begin,) = doubles.seen.of("llm", "begin")
    choice = begin.begin.request.tool_choice
    assert (choice.mode, choice.name) == (llm_pb2.ToolChoice.REQUIRED, "shop_add")
    with pytest.raises(GatewayError, match="there is no tool 'shop_none'"):
        async with client.session(tool_choice={"name": "shop_none"}):
            pass


async def test_a_visitor_who_interrupts_ends_the_call(
    client: GatewayClient, doubles: Doubles, waiting: Path
) -> None:
    dropped = MetricGrowth("gateway_tool_calls_total", by="server", result="dropped")
    doubles.script.calls = [("c1", "shop_wait", "{}")]
    async with client.session() as session:
        await session.ask("How much is it?")
        await until(waiting.exists)
        await session.interrupt()
        await collect(session, "interrupted")
        await until(lambda: dropped.value)
    assert not doubles.seen.of("llm", "go_on")


async def test_a_server_that_ends_is_told_of_and_started_again(
    monkeypatch: pytest.MonkeyPatch,
    gateway: RunningGateway,
    client: GatewayClient,
    doubles: Doubles,
) -> None:
    monkeypatch.setattr(mcp_servers, "_PAUSES_S", (0.1,))
    (result,) = await told(client, doubles, ("c1", "shop_end", "{}"))
    assert result == "failed: the tool's server is not there now"

    tools = gateway.inside.sessions._answers.tools
    await until(lambda: not tools.knows("shop_add"))
    await until(lambda: tools.knows("shop_add"), timeout_s=60)
    assert await told(client, doubles, ("c1", "shop_add", '{"a": 1, "b": 1}')) == ["2"]


async def test_a_server_that_does_one_thing_after_the_other_is_let_finish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0

    async def counted(client: Any) -> Any:
        nonlocal looks
        looks += 1
        return await listed(client)

    listed = mcp_servers._listed
    monkeypatch.setattr(mcp_servers, "_listed", counted)
    monkeypatch.setattr(mcp_servers, "LOOK_S", 0.05)
    begun = tmp_path / "begun"
    monkeypatch.setenv(mcp_server.WAITING_FILE, str(begun))
    async with over_http([], asyncio.Lock()) as url:
        servers = McpServers({"shop": McpServer(url=url)})
        await servers.start()
        try:
            held = asyncio.create_task(servers.call("shop_hold", "{}"))
            await until(begun.exists)
            monkeypatch.setattr(mcp_servers, "CONNECT_S", 0.05)
            before = looks
            await until(lambda: looks > before + 1 or held.done())
            begun.unlink()
            assert await held == (True, "held")
        finally:
            await servers.stop()


@contextlib.asynccontextmanager
async def over_http(
    headers: list[str], turn: asyncio.Lock | None = None, *, json: bool = False
) -> AsyncIterator[str]:
    """Where the server is found in this process; takes what is shown to it as x-key.

    turn: whatever is asked waits for it. json: it answers so, not by events.
    """
    app = mcp_server.server.streamable_http_app(json_response=json)

    async def noting(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            headers.append(dict(scope["headers"]).get(b"x-key", b"").decode())
        asks = turn is not None and scope.get("method") == "POST"
        async with turn if turn is not None and asks else contextlib.nullcontext():
            await app(scope, receive, send)

    async with served(uvicorn.Config(noting, port=0, log_level="error")) as port:
        yield f"http://127.0.0.1:{port}/mcp"


async def test_of_two_servers_over_http_each_offers_what_is_allowed_and_one_name_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    headers: list[str] = []
    async with over_http(headers) as url:
        shown = {"x-key": "7"}
        server = McpServer(url=url, headers=shown, tools=["add", "missing"])
        servers = McpServers({"my shop": server, "my.shop": server})
        await servers.start()
        try:
            await until(lambda: "another is called my_shop_add" in caplog.text)
            assert [offer.name for offer in servers.offers] == ["my_shop_add"]
            assert await servers.call("my_shop_add", '{"a": 2, "b": 2}') == (True, "4")
            assert not (await servers.call("my_shop_fail", ""))[0]
        finally:
            await servers.stop()
    assert set(headers) == {"7"}


async def test_of_an_answer_that_is_too_long_the_model_is_told_so_alone() -> None:
    async with over_http([], json=True) as url:
        servers = McpServers({"shop": McpServer(url=url)})
        await servers.start()
        try:
            done, told = await servers.call("shop_flood", "{}")
            assert not done and "longer than 8 MB" in told and len(told) < 200
            assert await servers.call("shop_add", '{"a": 2, "b": 2}') == (True, "4")
        finally:
            await servers.stop()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[mcpServers.a]\ncommand = 'x'\nurl = 'y'", "either `command` or `url`"),
        ("[mcpServers.a]\nargs = []", "either `command` or `url`"),
        ("[mcpServers.a]\ncommand = 'x'\ncolour = 1", "mcpServers.a.colour"),
        ("[[", "is neither TOML nor JSON"),
    ],
)
async def test_a_file_that_is_not_in_order_is_refused(
    tmp_path: Path, text: str, complaint: str
) -> None:
    file = tmp_path / "servers.toml"
    file.write_text(text)
    with pytest.raises(InvalidInputError, match=complaint.replace("[", r"\[")):
        read_servers(file)
    with pytest.raises(InvalidInputError, match="cannot read"):
        read_servers(tmp_path / "none.toml")
