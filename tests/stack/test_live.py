"""The real face, live: what a platform gets of an answer."""

from __future__ import annotations

import httpx
import numpy as np

from tests.gateway.conftest import until
from tests.gateway.live.peers import Received, RtmpServer, free_port
from tests.gateway.media import film
from tests.running_stack import KNOWN_ANSWER, KNOWN_QUESTION, RunningStack
from tests.stack.conftest import Run
from tests.stack.test_conversation import until_turn
from visavis.client import Client, GatewayClient, GatewaySession
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
        await session.record_turn()
        await session.ask(KNOWN_QUESTION)
        await until_turn(session, "finished")
        spoken = [loud for _, loud in got.sound if loud > 0.05]
        assert len(spoken) > 20, "half a second of voice, at least"
        (told,) = (await gateway.call("GET", f"{where}/broadcasts")).json()["broadcasts"]
        assert (told["state"], told["dropped_pictures"]) == ("live", 0)
        recorded = Received()
        with film(await session.recording()) as file:
            for shown in file.decode(video=0):
                recorded.take(shown)
    await gateway.call("DELETE", where)
    await server.ended()
    # The row that has rolled up; the last one would go seconds after the end.
    assert got.captions[:1] == [KNOWN_ANSWER.partition(" Monday")[0]] == recorded.captions[:1]
    assert (server.codecs, server.metadata["comment"]) == (["h264", "aac"], SYNTHETIC)
    times = np.array([at for at, _ in got.pictures])
    # A face that waits for a core shows one for longer, once.
    assert np.percentile(np.diff(times), 95) < 0.2 and np.diff(times).min() > 0
    assert np.diff([*got.keyframes, times[-1]]).max() < 2.05 + np.diff(times).max()


def test_broadcasts_by_the_command(stack: RunningStack, run: Run) -> None:
    with Client(stack.url) as client, client.session() as session:
        path = f"/v1/sessions/{session.id}/broadcasts"
        httpx.post(
            f"{stack.url}{path}", json={"url": "rtmp://127.0.0.1:1/app/key"}, trust_env=False
        )
        listed = run("live", "list", "--url", stack.url)
        assert session.id in listed.output and "rtmp://127.0.0.1:1/…" in listed.output
        stopped = run("live", "stop", session.id, "--url", stack.url)
        assert stopped.status == 0 and "127.0.0.1:1/…, stopped: 0 s" in stopped.output
        links = run("live", "links", session.id, "--url", stack.url)
        assert f"{stack.url}/v1/sessions/{session.id}/hls/index.m3u8" in links.output
    refused = run("live", "start", "ftp://somewhere", "--url", stack.url)
    assert refused.status == 1 and "rtmps://" in refused.error
