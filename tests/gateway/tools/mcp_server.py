"""A server of the Model Context Protocol, by its own package: over stdio when it is run."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import EmbeddedResource, TextResourceContents, Tool

WAITING_FILE = "VISAVIS_TEST_WAITING_FILE"


class Server(MCPServer):
    """What its tool `weigh` gives is not what its list promises."""

    async def list_tools(self) -> list[Tool]:
        tools = await super().list_tools()
        for tool in tools:
            if tool.name == "weigh":
                tool.output_schema = {"type": "object", "required": ["grams"]}
        return tools


server = Server("test")


@server.tool(description="Add two numbers.")
def add(a: int, b: int) -> int:
    return a + b


@server.tool()
def fail() -> str:
    raise ToolError("the shop is closed")


@server.tool()
def weigh() -> int:
    return 3


@server.tool()
def fetch() -> EmbeddedResource:
    content = TextResourceContents(uri="file:///hours.txt", text="Open until six.")
    return EmbeddedResource(type="resource", resource=content)


@server.tool()
def flood() -> str:
    return " " * 8_000_000


@server.tool()
async def wait() -> str:
    _tell_begun()
    await asyncio.Event().wait()
    return "never"


@server.tool()
async def hold() -> str:
    """Until the file is gone."""
    _tell_begun()
    while Path(os.environ[WAITING_FILE]).exists():  # noqa: ASYNC110, ASYNC240
        await asyncio.sleep(0.01)
    return "held"


def _tell_begun() -> None:
    """A call that waits for ever has come here."""
    Path(os.environ[WAITING_FILE]).touch()


@server.tool()
def end() -> str:
    """The process ends, as after a fault."""
    os._exit(1)


if __name__ == "__main__":
    server.run()
