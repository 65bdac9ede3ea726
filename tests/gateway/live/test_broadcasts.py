"""Broadcasts of a running gateway to servers of others, and a publisher that is not ours."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.fakes import MetricGrowth
from tests.gateway.conftest import RunningGateway, until
from tests.gateway.live.peers import Received, RtmpServer, WhipEndpoint, free_port
from visavis.client import GatewayClient, GatewayError

pytestmark = pytest.mark.asyncio(loop_scope="module")

KEY = "a-stream-key-that-nobody-else-may-see"


@pytest_asyncio.fixture(loop_scope="module")
async def path(client: GatewayClient) -> AsyncIterator[str]:
    """A session's, which nobody is connected to."""
    made = (await client.call("POST", "/v1/sessions", json={})).json()
    yield f"/v1/sessions/{made['id']}"
    await client.call("DELETE", f"/v1/sessions/{made['id']}")


async def state_of(client: GatewayClient, path: str) -> dict[str, Any]:
    """Of the only broadcast."""
    (told,) = (await client.call("GET", f"{path}/broadcasts")).json()["broadcasts"]
    assert KEY not in str(told)
    found: dict[str, Any] = told
    return found


async def reaches(client: GatewayClient, path: str, state: str) -> dict[str, Any]:
    async with asyncio.timeout(20):
        while (told := await state_of(client, path))["state"] != state:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    return told


async def served(client: GatewayClient, path: str, port: int, *, sing: bool) -> Received:
    """What a server gets of an answer, or of idle life, until it ends."""
    server = RtmpServer(port, f"/live/{KEY}")
    got = server.received
    server.start()
    await reaches(client, path, "live")
    if sing:
        await client.call("POST", f"{path}/text", json={"text": "Sing."})
        # Pictures of a turn get brighter; both begin with the turn.
        await until(lambda: any(light > 60 for _, light in got.pictures))
        await until(lambda: any(loud > 0.3 for _, loud in got.sound))
    else:
        await until(lambda: len(got.pictures) > 5 and got.sound)
    await server.stop()
    await reaches(client, path, "waiting")
    return got


async def test_rtmp_to_a_server_that_starts_again(
    client: GatewayClient,
    gateway: RunningGateway,
    path: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gateway.live.push.flow._RETRIES_S", (0.05,))
    caplog.set_level(logging.INFO)
    lost = MetricGrowth("gateway_broadcasts_lost", protocol="rtmp")
    over = MetricGrowth("gateway_broadcasts_ended_total", protocol="rtmp", how="stopped")
    port = free_port()
    body = {"url": f"rtmp://127.0.0.1:{port}/live", "key": KEY}
    made = await client.call("POST", f"{path}/broadcasts", json=body)
    assert made.json()["target"] == f"rtmp://127.0.0.1:{port}/…" and KEY not in made.text
    assert "refused" in (await reaches(client, path, "waiting"))["error"]
    assert lost.value == 0, "it was never there"
    got = await served(client, path, port, sing=True)
    assert lost.value == 1
    seen_s = next(at for at, light in got.pictures if light > 44)
    heard_s = next(at for at, loud in got.sound if loud > 0.1)
    assert abs(seen_s - heard_s) < 0.12, "within a picture, and a packet"
    assert (await state_of(client, path))["reconnects"] > 0
    got = await served(client, path, port, sing=False)
    assert got.pictures[0][0] == pytest.approx(0, abs=0.05), "times begin anew"
    told = await state_of(client, path)
    assert told["sent_pictures"] > 10 and told["sent_bytes"] > 1000
    (session,) = gateway.inside.sessions.all()
    assert session.audience.attending
    ended = (await client.call("DELETE", f"{path}/broadcasts/{told['id']}")).json()
    assert ended["state"] == "stopped" and (lost.value, over.value) == (0, 1)
    assert not session.audience.attending
    assert KEY not in caplog.text and "broadcast" in caplog.text


async def test_whip_to_an_endpoint(
    client: GatewayClient, gateway: RunningGateway, path: str
) -> None:
    endpoint = WhipEndpoint(KEY)
    await endpoint.start()
    try:
        body = {"url": endpoint.url, "key": "wrong"}
        await client.call("POST", f"{path}/broadcasts", json=body)
        assert "401" in (await reaches(client, path, "failed"))["error"]
        made = (await client.call("POST", f"{path}/broadcasts", json=body | {"key": KEY})).json()
        await until(lambda: endpoint.received.pictures and endpoint.received.sound)
        (offer,) = endpoint.offers
        assert offer.count("a=sendonly") == 2 and "VP8" not in offer
        assert offer.index("42e01f") < offer.index("42001f")
        ended = (await client.call("DELETE", f"{path}/broadcasts/{made['id']}")).json()
        assert (ended["state"], endpoint.deleted) == ("stopped", 1)
        assert ended["sent_pictures"] > 0
        # Where a Location cannot be read there is nothing to take leave of, and no fault of ours.
        endpoint.location, endpoint.received = "http://127.0.0.1:port/resource/1", Received()
        made = (await client.call("POST", f"{path}/broadcasts", json=body | {"key": KEY})).json()
        await until(lambda: endpoint.received.pictures)
        await client.call("DELETE", f"{path}/broadcasts/{made['id']}")
        (session,) = gateway.inside.sessions.all()
        assert endpoint.deleted == 1 and not session.failed
    finally:
        await endpoint.stop()


async def test_no_more_targets_than_there_may_be(client: GatewayClient, path: str) -> None:
    body = {"url": "rtmp://127.0.0.1:1/live", "key": KEY}
    for _ in range(8):
        await client.call("POST", f"{path}/broadcasts", json=body)
    with pytest.raises(GatewayError, match="8 already"):
        await client.call("POST", f"{path}/broadcasts", json=body)
    with pytest.raises(GatewayError) as refused:
        await client.call("POST", f"{path}/broadcasts", json={"url": f"ftp://{KEY}"})
    assert KEY not in str(refused.value)
