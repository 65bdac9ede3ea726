import json

import nats.micro

from visavis.serving.discovery import Replica, discover, parse_info
from visavis.wire.bus import Bus

INFO = {
    "name": "visavis-tts",
    "version": "0.1.0",
    "metadata": {"instance": "tts-1", "grpc": "127.0.0.1:5", "device": "cpu"},
}


async def test_replicas_that_answer_are_found(bus: Bus) -> None:
    assert await discover(bus.client, wait_s=0.05) == []
    service = await nats.micro.add_service(
        bus.client, name="visavis-tts", version="0.1.0", metadata=INFO["metadata"]
    )
    other = await nats.micro.add_service(bus.client, name="weather", version="1.0.0")
    found = await discover(bus.client, wait_s=0.2)
    assert found == [Replica("tts", "tts-1", "0.1.0", "127.0.0.1:5", "", "cpu")]
    await service.stop()
    await other.stop()
    assert await discover(bus.client, wait_s=0.05) == []


def test_unreadable_answers_are_skipped() -> None:
    for payload in (b"", b"{", b"[]", b"{}", json.dumps({**INFO, "metadata": {}}).encode()):
        assert parse_info(payload) is None
