"""What ends by itself: sessions that nobody uses, answers that stand still."""

from __future__ import annotations

import httpx
import pytest

from tests.gateway.conftest import until
from tests.gateway.doubles import Doubles
from tests.gateway.test_api import new_session, problem
from tests.gateway.test_turns import collect
from visavis.tools.client import GatewayClient

SETTINGS = {"session_idle_s": 1.0, "answer_timeout_s": 0.4}
pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_session_that_nobody_uses_ends(http: httpx.AsyncClient, doubles: Doubles) -> None:
    session = await new_session(http)
    await until(lambda: doubles.leases() == 0, timeout_s=6)
    assert "expired" in problem(await http.get(f"/v1/sessions/{session}"), 404)


@pytest.mark.parametrize("stage", ["llm", "tts"])
async def test_a_stage_that_falls_silent_is_named(
    client: GatewayClient, doubles: Doubles, stage: str
) -> None:
    doubles.script.silent = {stage}
    async with client.session() as session:
        await session.say("Hello?")
        events = await collect(session, "failed")
    assert events[-1]["reason"].startswith(stage)
