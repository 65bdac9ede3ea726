"""The real face, live: what a platform gets of an answer."""

from __future__ import annotations

import numpy as np

from tests.gateway.conftest import until
from tests.gateway.live.peers import RtmpServer, free_port
from tests.running_stack import KNOWN_QUESTION
from tests.stack.test_conversation import until_turn
from visavis.client import GatewayClient, GatewaySession
from visavis.synthetic import SYNTHETIC


async def test_a_platform_gets_the_answer(gateway: GatewayClient) -> None:
    port = free_port()
    server = RtmpServer(port, "/app/key")
    server.start()
    # By who made it, as a platform's operator does: its visitor's token would not broadcast it.
    made = (await gateway.call("POST", "/v1/sessions", json={"language": "en"})).json()
    where = f"/v1/sessions/{made['id']}"
    async with gateway.connect(f"{where}/events") as events:
        session = GatewaySession(gateway, made["id"], events)
        body = {"url": f"rtmp://127.0.0.1:{port}/app", "key": "key"}
        await gateway.call("POST", f"{where}/broadcasts", json=body)
        got = server.received
        await until(lambda: got.pictures)
        await session.ask(KNOWN_QUESTION)
        await until_turn(session, "finished")
        spoken = [loud for _, loud in got.sound if loud > 0.05]
        assert len(spoken) > 20, "half a second of voice, at least"
        (told,) = (await gateway.call("GET", f"{where}/broadcasts")).json()["broadcasts"]
        assert (told["state"], told["dropped_pictures"]) == ("live", 0)
    await gateway.call("DELETE", where)
    await server.ended()
    assert (server.codecs, server.metadata["comment"]) == (["h264", "aac"], SYNTHETIC)
    times = np.array([at for at, _ in got.pictures])
    assert np.diff(times).max() < 0.2 and np.diff(times).min() > 0
    assert np.diff([*got.keyframes, times[-1]]).max() < 2.1
