"""What a container does beside its service."""

import asyncio
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from deploy.container import BUCKETS_MADE, serve
from tests.deploy.test_kubernetes import of_kind
from tests.gateway.conftest import until
from visavis.tools.stack.nats_server import NatsServer
from visavis.wire.bucket import Bucket
from visavis.wire.bus import Bus
from visavis.wire.permissions import BUCKETS, RECORDS

ROOT = Path(__file__).parents[2]


def test_every_bucket_is_seen_to() -> None:
    pod = of_kind("cpu", "Deployment")["buckets"]["spec"]["template"]["spec"]
    (one,) = pod["containers"]
    assert set(one["command"][5:]) == {*BUCKETS, *RECORDS}
    assert one["readinessProbe"]["exec"]["command"][-1] == str(BUCKETS_MADE)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    server = NatsServer(tmp_path)
    server.process.storage = tmp_path / "storage"
    with server:
        yield server


@pytest.fixture
def seeing_to_it(server: NatsServer) -> Iterator[subprocess.Popen[bytes]]:
    BUCKETS_MADE.unlink(missing_ok=True)
    program = str(ROOT / "deploy/container.py")
    command = [sys.executable, program, "buckets", server.url, "1", "vv-test"]
    process = subprocess.Popen(command, cwd=ROOT, env={"PYTHONPATH": str(ROOT)})
    yield process
    process.kill()
    process.wait()


async def test_a_bus_that_lost_its_disk_has_its_buckets_again(
    server: NatsServer, seeing_to_it: subprocess.Popen[bytes]
) -> None:
    await until(BUCKETS_MADE.exists, timeout_s=20)
    bus = await Bus.connect(server.url, name="test")
    await Bucket(bus, "vv-test", 100).put("avatar", b"picture")
    await asyncio.to_thread(server.restart)
    await until(lambda: bus.connected)
    assert await Bucket(bus, "vv-test", 100).get("avatar") == b"picture", "what is there stays"
    await asyncio.to_thread(server.stop)
    assert server.process.storage is not None
    shutil.rmtree(server.process.storage)
    await asyncio.to_thread(server.start)
    await until(lambda: bus.connected)
    async with asyncio.timeout(20):
        while "OBJ_vv-test" not in [  # noqa: ASYNC110 - nothing tells us
            one.config.name for one in await bus.client.jetstream().streams_info()
        ]:
            await asyncio.sleep(0.1)
    await bus.close()
    seeing_to_it.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(seeing_to_it.wait, 10) == 0


@pytest.mark.parametrize(
    ("page_bytes", "given", "told"),
    [
        (4096, {}, "glibc.malloc.hugetlb=1"),
        (65_536, {}, None),
        (4096, {"GLIBC_TUNABLES": "glibc.malloc.check=1"}, "glibc.malloc.check=1"),
    ],
)
def test_a_service_asks_for_large_pages_where_they_are_of_two_megabytes(
    page_bytes: int, given: dict[str, str], told: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With small ones of 64 KiB they have 512, and every heap would."""
    started: list[Mapping[str, str]] = []
    monkeypatch.setattr("os.execve", lambda program, command, env: started.append(env))
    monkeypatch.setattr("mmap.PAGESIZE", page_bytes)
    monkeypatch.setattr("os.environ", {"SERVICE": "llm", **given})
    serve([])
    assert started[0].get("GLIBC_TUNABLES") == told
