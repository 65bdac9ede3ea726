"""A live room of the real stack: a comment is answered aloud, by its own model and voice."""

from __future__ import annotations

import asyncio
import json

from visavis.client import GatewayClient


async def test_a_comment_is_answered_and_its_sender_told(gateway: GatewayClient) -> None:
    made = await gateway.call("POST", "/v1/sessions", json={"language": "en"})
    session = f"/v1/sessions/{made.json()['id']}"
    try:
        await gateway.call("POST", f"{session}/room", json={})
        async with gateway.connect(f"{session}/room/live") as live:
            comment = {"id": "1", "author": {"name": "Anna_7"}, "text": "what is a rainbow?"}
            await gateway.call("POST", f"{session}/room/comments", json=comment)
            async with asyncio.timeout(60):
                answered = json.loads(await live.recv())
        assert answered["outcome"] == "answered" and answered["answer"]
        assert 0 < answered["age_s"] < 30
        turn = (await gateway.call("GET", f"{session}/turns/{answered['turn']}")).json()
        assert turn["transcript"] == "Anna asks: “what is a rainbow?”"
        assert turn["answered_by"] == "llm" and turn["voice_to_voice_ms"] > 0
    finally:
        await gateway.call("DELETE", session)
