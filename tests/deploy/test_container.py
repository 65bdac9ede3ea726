"""What a container does beside its service."""

from pathlib import Path

import nats

from deploy.container import spread_buckets
from tests.deploy.test_kubernetes import of_kind
from visavis.tools.stack.nats_server import NatsServer
from visavis.wire.permissions import BUCKETS


def test_the_job_names_every_bucket() -> None:
    job = of_kind("cpu", "Job")["buckets"]["spec"]["template"]["spec"]["containers"][0]
    assert set(job["command"][5:]) == set(BUCKETS)


async def test_a_bucket_is_made_once_and_what_is_in_it_stays(tmp_path: Path) -> None:
    server = NatsServer(tmp_path)
    server.process.storage = tmp_path / "storage"
    with server:
        await spread_buckets(server.url, 1, ["visavis-test"])
        client = await nats.connect(server.url)
        store = await client.jetstream().object_store("visavis-test")
        await store.put("avatar", b"picture")
        await spread_buckets(server.url, 1, ["visavis-test"])
        assert (await store.get("avatar")).data == b"picture"
        await client.close()
