"""`visavis restart`: a service is exchanged in mid-conversation, unnoticed by the visitor."""

from __future__ import annotations

import asyncio

from tests.running_stack import RunningStack
from tests.stack.conftest import Run
from tests.stack.test_conversation import answer_of, until_turn
from visavis.client import GatewayClient

MODULES = ("services.tts", "gateway")


async def tts_of(client: GatewayClient, session: str) -> str:
    told = (await client.call("GET", f"/v1/sessions/{session}")).json()
    return str(told["stages"]["tts"])


async def test_a_service_is_restarted_in_mid_answer_then_the_gateway_and_no_turn_is_lost(
    stack: RunningStack, gateway: GatewayClient, run: Run
) -> None:
    """There is one process of each, so that for a moment there are two."""
    logs = str(stack.log_dir)
    async with gateway.session() as session:
        await session.ask("Please count slowly from one to twenty.")
        events = await until_turn(session, "speaking", "failed")
        before = await tts_of(gateway, session.id)
        pids = [stack.child(module).pid for module in MODULES]
        restart = asyncio.to_thread(run, "restart", "tts", "gateway", "--logs", logs)
        restarting = asyncio.create_task(restart)
        events += await until_turn(session, "finished", "failed")
        done = await restarting
        assert done.status == 0, done.error
        assert await tts_of(gateway, session.id) not in (before, "None")
        await session.ask("Thank you.")
        events += await until_turn(session, "finished", "failed")
    ends = [e["event"] for e in events if e["type"] == "turn" and e["event"] != "opened"]
    assert ends == ["speaking", "finished"] * 2
    assert answer_of(events) != ""
    assert [e for e in events if e["type"] == "error"] == []
    assert not set(pids) & {stack.child(module).pid for module in MODULES}
    assert "1/2 tts: done" in done.output and "2/2 gateway: done" in done.output
    unknown = await asyncio.to_thread(run, "restart", "nonsense", "--logs", logs)
    assert (unknown.status, "'nonsense'" in unknown.error) == (1, True)
