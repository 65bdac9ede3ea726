"""`visavis restart`: a service is exchanged in mid-conversation, unnoticed by the visitor."""

from __future__ import annotations

import asyncio

from tests.running_stack import RunningStack
from tests.stack.conftest import Run
from tests.stack.test_conversation import answer_of, until_turn
from visavis.tools.client import GatewayClient


async def tts_of(client: GatewayClient, session: str) -> str:
    told = (await client.call("GET", f"/v1/sessions/{session}")).json()
    return str(told["stages"]["tts"])


async def test_a_service_is_restarted_in_mid_answer_and_no_turn_is_lost(
    stack: RunningStack, gateway: GatewayClient, run: Run
) -> None:
    """There is one process of it, so that for a moment there are two."""
    logs = str(stack.log_dir)
    async with gateway.session() as session:
        await session.say("Please count slowly from one to twenty.")
        events = await until_turn(session, "speaking", "failed")
        before, pid = await tts_of(gateway, session.id), stack.child("services.tts").pid
        restarting = asyncio.create_task(asyncio.to_thread(run, "restart", "tts", "--logs", logs))
        events += await until_turn(session, "finished", "failed")
        done = await restarting
        assert done.status == 0, done.error
        assert await tts_of(gateway, session.id) not in (before, "None")
        await session.say("Thank you.")
        events += await until_turn(session, "finished", "failed")
    ends = [e["event"] for e in events if e["type"] == "turn" and e["event"] != "opened"]
    assert ends == ["speaking", "finished"] * 2
    assert answer_of(events) != ""
    assert [e for e in events if e["type"] == "error"] == []
    assert stack.child("services.tts").pid != pid
    assert "1/1 tts: done" in done.output
    unknown = await asyncio.to_thread(run, "restart", "nonsense", "--logs", logs)
    assert (unknown.status, "'nonsense'" in unknown.error) == (1, True)
