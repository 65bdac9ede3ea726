"""What a process and its bucket keep alike where the bucket is full."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

from tests.fakes import ManualClock
from visavis.tools.stack.nats_server import NatsServer
from visavis.wire.bucket import Bucket
from visavis.wire.bus import Bus
from visavis.wire.shelf import Shared

NAME = "visavis-things"


class Memory:
    """A shelf without a disk."""

    bucket = NAME

    def __init__(self, **things: bytes) -> None:
        self._things = things
        self._digests = dict.fromkeys(things, "")

    def kept(self) -> Mapping[str, str]:
        return self._digests

    def pack(self, name: str) -> bytes:
        return self._things[name]

    def take(self, name: str, packed: bytes, digest: str) -> None:
        self._things[name], self._digests[name] = packed, digest

    def note(self, name: str, digest: str) -> None:
        self._digests[name] = digest

    def drop(self, name: str) -> None:
        del self._things[name], self._digests[name]

    def deleted(self) -> Mapping[str, str]:
        return {}

    def settle(self, name: str) -> None: ...

    def buried(self) -> Collection[str]:
        return ()

    def bury(self, digests: Collection[str]) -> None: ...


async def test_what_a_full_bucket_has_no_room_for_is_tried_once_a_minute_and_keeps_nothing_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nats = NatsServer(tmp_path)
    nats.process.storage = tmp_path / "storage"
    put, tried = Bucket.put, list[str]()

    async def counted(bucket: Bucket, name: str, content: bytes, *, new: bool = False) -> str:
        tried.append(name)
        return await put(bucket, name, content, new=new)

    monkeypatch.setattr(Bucket, "put", counted)
    with nats:
        bus = await Bus.connect(nats.url, name="test")
        await bus.client.jetstream().create_object_store(NAME, max_bytes=300_000)
        clock, shelf = ManualClock(), Memory(large=bytes(500_000), small=bytes(10_000))
        shared = Shared(bus, shelf, 1_000_000, clock)
        for _ in range(3):
            await shared.sync()
        assert tried == ["large", "small"]
        assert shelf.kept()["small"] and not shelf.kept()["large"]
        clock.advance(60.0)
        await shared.sync()
        assert tried == ["large", "small", "large"]
        await bus.close()
