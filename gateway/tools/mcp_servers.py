"""Servers of the Model Context Protocol that the operator has named: listed, called, found again.

Only the gateway's own configuration says which there are. Each is held by a task of its own, which
begins anew where the server is lost; what goes wrong with a call is told to the model in words.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import tomllib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import from_json

from gateway.api.choices import json_of
from gateway.api.events import explain
from gateway.tools.offers import ToolOffer
from visavis.serving.errors import InvalidInputError
from visavis.serving.lifetime.supervision import Keeper
from visavis.serving.way_out import (
    LARGEST_ANSWER_BYTES,
    TOO_LONG,
    UNPACKED,
    by_proxy,
    check_unpacked,
    way_to,
)

log = logging.getLogger(__name__)

CONNECT_S = 10.0
"""Longest wait for a server to come up, and for its list of tools."""
START_S = 5.0
"""So long the gateway's start waits for servers; those that come later are used from then on."""
LOOK_S = 60.0
"""How often the list is read anew."""
MOST_TOOLS = 64
"""Of all servers together."""
_DESCRIPTION_CHARS, _SCHEMA_CHARS, _NAME_CHARS = 2000, 16_000, 64
_LISTS = 20
"""Pages of one list."""
_PAUSES_S = (1.0, 2.0, 5.0, 15.0, 30.0)
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_-]")
_AWAY = "failed: the tool's server is not there now"


class McpServer(BaseModel):
    """How one server is reached: started as a process of the gateway's, or by its address."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["stdio", "http", "streamable-http"] | None = None
    """As other programs' files have it; what is told besides decides."""
    command: str = ""
    args: list[str] = Field(default_factory=list)
    env: dict[str, str] = Field(default_factory=dict)
    """Beside the few variables that every server gets."""
    cwd: Path | None = None
    url: str = ""
    headers: dict[str, str] = Field(default_factory=dict, repr=False)
    tools: list[str] | None = None
    """Those that may be called; absent: all."""

    @model_validator(mode="after")
    def _is_one_of_both(self) -> Self:
        if bool(self.command) == bool(self.url):
            raise ValueError("either `command` or `url` is needed")
        return self


class _McpFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    servers: dict[str, McpServer] = Field(alias="mcpServers", max_length=32)


def read_servers(path: Path) -> dict[str, McpServer]:
    """The servers that a TOML or JSON file names under `mcpServers`.

    Raises InvalidInputError that names the file and all that is wrong with it.
    """
    try:
        text = path.read_text(encoding="utf-8")
        content = json.loads(text) if path.suffix.lower() == ".json" else tomllib.loads(text)
        return _McpFile.model_validate(content).servers
    except OSError as error:
        raise InvalidInputError(f"mcp: cannot read {path}: {error.strerror}") from None
    except ValidationError as error:
        raise InvalidInputError(f"mcp: {path}: {explain(error)}") from None
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"mcp: {path} is neither TOML nor JSON: {error}") from None


class McpServers:
    """The tools of all configured servers, by names that tell the server: `weather_get_forecast`.

    `start` it, `stop` it.
    """

    def __init__(self, servers: Mapping[str, McpServer]) -> None:
        """Raises InvalidInputError where the package that speaks the protocol is missing."""
        if servers and find_spec("mcp") is None:
            raise InvalidInputError("mcp: a package is missing; pip install -e '.[mcp]'")
        self._links = [_Link(name, server, self._taken) for name, server in servers.items()]
        self._keepers = [Keeper(f"mcp-{link.name}", link.keep) for link in self._links]

    async def start(self) -> None:
        """Connect to all; those that are not there within START_S are used once they are."""
        for keeper in self._keepers:
            keeper.start()
        with suppress(TimeoutError):
            async with asyncio.timeout(START_S):
                await asyncio.gather(*(link.tried.wait() for link in self._links))

    async def stop(self) -> None:
        """Let go of all; those that were started as processes end."""
        await asyncio.gather(*(keeper.stop() for keeper in self._keepers))

    @property
    def offers(self) -> tuple[ToolOffer, ...]:
        """What can be called now."""
        return tuple(offer for link in self._links for offer in link.offers)[:MOST_TOOLS]

    def _taken(self, link: _Link) -> set[str]:
        """Names that tools of other servers have."""
        others = (other for other in self._links if other is not link)
        return {offer.name for other in others for offer in other.offers}

    def knows(self, name: str) -> bool:
        """Whether a tool is one of these."""
        return any(name == offer.name for offer in self.offers)

    async def call(self, name: str, arguments: str) -> tuple[bool, str]:
        """Whether it was done, and what came of it or what went wrong. arguments: JSON."""
        try:
            given = from_json(arguments or "{}")
        except ValueError as error:  # such as half a character, with which no connection could live
            return False, f"failed: the arguments cannot be sent: {error}"
        for link in self._links:
            if link.has(name):
                return await link.call(name, given)
        return False, _AWAY


class _Link:
    """One server, for as long as the gateway lives."""

    def __init__(self, name: str, server: McpServer, taken: Callable[[_Link], set[str]]) -> None:
        """taken: names that its tools cannot have."""
        self.name = name
        self.tried = asyncio.Event()
        """It was connected, or could not be."""
        self._server = server
        self._taken = taken
        self._tools: dict[str, tuple[str, ToolOffer]] = {}
        """By our name its own, and what the model is told."""
        self._client: Any = None
        self._calls = 0
        """Under way."""
        self._broken = asyncio.Event()

    @property
    def offers(self) -> Iterable[ToolOffer]:
        return [offer for _, offer in self._tools.values()]

    def has(self, name: str) -> bool:
        return name in self._tools

    async def keep(self) -> None:
        """Hold the connection; where it ends, begin another after a while."""
        failures = 0
        while True:
            try:
                await self._serve()
            except Exception as error:
                known, self._tools, self._client = bool(self._tools), {}, None
                failures = 0 if known else failures + 1
                pause_s = _PAUSES_S[min(failures, len(_PAUSES_S) - 1)]
                why = _reason(error) + (by_proxy(self._server.url) if self._server.url else "")
                log.warning("mcp server %s: %s; tried again in %g s", self.name, why, pause_s)
                self.tried.set()
                await asyncio.sleep(pause_s)

    async def _serve(self) -> None:
        """Ends by raising why the connection has."""
        self._broken.clear()
        async with AsyncExitStack() as stack:
            async with asyncio.timeout(CONNECT_S):
                client = await stack.enter_async_context(await _client_of(self._server, stack))
                self._tools = self._named(await _listed(client))
            self._client = client
            log.info("mcp server %s offers %s", self.name, ", ".join(self._tools) or "nothing")
            self.tried.set()
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_S):
                        await self._broken.wait()
                        raise ConnectionError("the connection was lost")
                try:
                    async with asyncio.timeout(CONNECT_S):
                        self._tools = self._named(await _listed(client))
                except TimeoutError:
                    # One that does one thing after the other tells its list once a call is done.
                    if not self._calls:
                        raise

    def _named(self, tools: Iterable[Any]) -> dict[str, tuple[str, ToolOffer]]:
        return _named(self.name, self._server, tools, self._taken(self))

    async def call(self, name: str, arguments: dict[str, Any]) -> tuple[bool, str]:
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED

        if self._client is None:
            return False, _AWAY
        self._calls += 1
        try:
            result = await self._client.call_tool(self._tools[name][0], arguments)
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                self._broken.set()
                return False, _AWAY
            return False, f"failed: {error.message}"
        except (RuntimeError, ValueError) as error:
            # What was to be sent, or has come, is not in order: others' calls go on.
            log.warning("mcp server %s: %s failed: %s", self.name, name, _reason(error))
            return False, f"failed: {_reason(error)}"
        except Exception as error:
            log.warning("mcp server %s: %s failed: %s", self.name, name, _reason(error))
            self._broken.set()
            return False, _AWAY
        finally:
            self._calls -= 1
        return not result.is_error, _text_of(result)


async def _client_of(server: McpServer, stack: AsyncExitStack) -> Any:
    """Of the package, not entered yet."""
    from mcp import Client, StdioServerParameters
    from mcp.client.streamable_http import streamable_http_client

    if server.command:
        where: Any = StdioServerParameters(
            command=server.command, args=server.args, env=server.env, cwd=server.cwd
        )
    else:
        import httpx2

        # A server may hold an answer open for as long as it works on it: a call has its own limit.
        timeout = httpx2.Timeout(CONNECT_S, read=300.0)
        http = httpx2.AsyncClient(
            headers=UNPACKED | server.headers,
            timeout=timeout,
            event_hooks={"response": [_bound]},
            **way_to(server.url),
        )
        await stack.enter_async_context(http)
        where = streamable_http_client(server.url, http_client=http)
    return Client(where, cache=None)


async def _bound(answer: Any) -> None:
    """Have what is read whole be no longer than `way_out.whole` reads; one event of a stream of
    them may have a megabyte, as the package has it.
    """
    import httpx2

    class Bounded(httpx2.AsyncByteStream):
        """The package tells the model why it fails."""

        def __init__(self, stream: httpx2.AsyncByteStream) -> None:
            self._stream = stream

        async def __aiter__(self) -> AsyncIterator[bytes]:
            check_unpacked(answer)
            received = 0
            async for piece in self._stream:
                received += len(piece)
                if received > LARGEST_ANSWER_BYTES:
                    raise httpx2.StreamError(TOO_LONG)
                yield piece

        async def aclose(self) -> None:
            await self._stream.aclose()

    if not answer.headers.get("content-type", "").startswith("text/event-stream"):
        answer.stream = Bounded(answer.stream)


async def _listed(client: Any) -> list[Any]:
    """All pages of its list."""
    tools: list[Any] = []
    cursor = None
    for _ in range(_LISTS):
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if not cursor:
            break
    return tools


def _named(
    name: str, server: McpServer, tools: Iterable[Any], taken: set[str]
) -> dict[str, tuple[str, ToolOffer]]:
    """Those that may be offered."""
    known: dict[str, tuple[str, ToolOffer]] = {}
    for tool in tools:
        if server.tools is not None and tool.name not in server.tools:
            continue
        try:
            schema = json_of(tool.input_schema)
        except ValueError as error:
            log.warning("mcp server %s: %s is left out: its schema: %s", name, tool.name, error)
            continue
        ours = _NOT_IN_A_NAME.sub("_", f"{name}_{tool.name}")[:_NAME_CHARS]
        twice = ours in known or ours in taken
        if len(schema) > _SCHEMA_CHARS or twice:
            why = f"another is called {ours}" if twice else "its schema is too long"
            log.warning("mcp server %s: %s is left out: %s", name, tool.name, why)
            continue
        description = (tool.description or "")[:_DESCRIPTION_CHARS]
        known[ours] = (tool.name, ToolOffer(ours, description, schema))
    for missing in set(server.tools or ()) - {tool for tool, _ in known.values()}:
        log.warning("mcp server %s: it has no tool %r", name, missing)
    return known


def _text_of(result: Any) -> str:
    text = "\n".join(map(_words_of, result.content))
    if not text and result.structured_content is not None:
        text = json.dumps(result.structured_content, ensure_ascii=False)
    return f"failed: {text}" if result.is_error else text or "done"


def _words_of(content: Any) -> str:
    """Of what is no text, only what it is; a text may come as a resource, too."""
    within = content.resource if content.type == "resource" else content
    text = getattr(within, "text", None)
    return f"[{content.type}]" if text is None else str(text)


def _reason(error: BaseException) -> str:
    """In one line, also of what a group of tasks raises."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
