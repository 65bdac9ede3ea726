"""Tools through the real stack: a model that calls, a client that answers, a voice that goes on."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tests.running_stack import RunningStack
from visavis.client import GatewayClient

TOOL = {
    "name": "get_weather",
    "description": "The weather of a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 12}},
        "required": ["city"],
    },
}
RESULT = "18 degrees and sunny."


async def test_an_answer_calls_a_tool_says_so_and_goes_on_to_its_end(
    stack: RunningStack, gateway: GatewayClient
) -> None:
    calls: list[dict[str, Any]] = []
    states: list[str] = []
    text, ended = "", {}
    chosen = {"name": "get_weather"}
    async with gateway.session(tools=[TOOL], tool_choice=chosen) as session, asyncio.timeout(60):
        turn = await session.ask("How is the weather in Rome?")
        async for event in session.events():
            if event["type"] == "answer.tool_call":
                calls.append(event)
            elif event["type"] == "state":
                states.append(event["state"])
                # The result lets them wait until the few words meanwhile are said.
                if states[-2:] == ["speaking", "thinking"]:
                    await session.tool_result(calls[0]["call_id"], RESULT)
            elif event["type"] == "answer":
                text += event["text"]
            elif event["type"] == "turn" and event["event"] in ("finished", "failed"):
                ended = event
                break
    assert (ended["turn"], ended["event"]) == (turn, "finished")
    # A grammar holds the call that has to be made to its schema.
    assert json.loads(calls[0]["arguments"]).keys() == {"city"}, calls
    # So small a model would call for as long as it may, and at last write a call as text.
    assert len(calls) == 1
    assert (
        text.startswith("One moment, please.") and text.removeprefix("One moment, please.").strip()
    )
    assert states[:4] == ["idle", "thinking", "speaking", "thinking"] and "speaking" in states[4:]
