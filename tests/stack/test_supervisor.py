"""What `visavis up` says when it cannot start."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import grpc.aio
import httpx
import psutil
import pytest

from tests.full_disk import limited_files
from tests.gateway.conftest import until
from tests.llm.http_server import Exchange, HttpServer
from tests.stack.conftest import Run
from visavis.bundles.store import profile
from visavis.serving.admission.probes import MachineTime
from visavis.serving.authentication.access import Access
from visavis.serving.authentication.channel import ServiceChannel
from visavis.serving.errors import SETTINGS_EXIT_STATUS, VisavisError
from visavis.tools.stack import process, restarter, supervisor, tether
from visavis.tools.stack.nats_server import NatsServer, free_port
from visavis.tools.stack.plain_service import plain_service
from visavis.tools.stack.process import Child, State, memory_bytes, python_child
from visavis.tools.stack.restarter import Restarter
from visavis.tools.stack.rolling import RollingRestart
from visavis.tools.stack.silence import LONGEST_S, Reading, Silence
from visavis.tools.stack.supervisor import Stack, StackOptions
from visavis.v1 import control_pb2, llm_pb2, llm_pb2_grpc, tts_pb2, tts_pb2_grpc
from visavis.wire import bucket
from visavis.wire.clock import MonotonicClock
from visavis.wire.permissions import BUCKETS


@asynccontextmanager
async def beginning(stack: Stack) -> AsyncIterator[None]:
    """While it starts, which it need not finish; it ends with the block."""
    starting = asyncio.create_task(stack.__aenter__())
    try:
        yield
    finally:
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)


async def test_port_or_host_that_will_not_do_is_named_before_anything_starts(
    tmp_path: Path,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(VisavisError, match=f"port {port}.*in use.*--port"):
            async with Stack(StackOptions(log_dir=tmp_path, port=port)):
                pass
    with pytest.raises(VisavisError, match=r"203\.0\.113\.9 .*: Cannot assign.*--host"):
        async with Stack(StackOptions(log_dir=tmp_path, host="203.0.113.9")):
            pass
    assert not any(tmp_path.iterdir())  # noqa: ASYNC240  # nobody else runs on this loop


async def test_where_no_port_is_shared_one_gateway_is_all(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(supervisor, "SHARES_PORTS", False)
    with pytest.raises(VisavisError, match="several gateways need Linux"):
        await Stack(StackOptions(log_dir=tmp_path, replicas={"gateway": 2})).__aenter__()
    with pytest.raises(VisavisError, match="gateway cannot be restarted beside"):
        await Stack(StackOptions(log_dir=tmp_path)).start_spare("gateway")


async def test_a_port_is_taken_from_when_its_stack_begins(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Gateways of two stacks could share it, and visitors would come to either."""
    monkeypatch.setattr(supervisor, "SERVICES", ())
    options = StackOptions(log_dir=tmp_path, port=free_port(), programs={"gateway": ["this"]})
    async with beginning(Stack(options)):
        await asyncio.sleep(0)  # it begins
        with pytest.raises(VisavisError, match=f"port {options.port}.*another visavis"):
            await Stack(options).__aenter__()


async def test_what_keeps_dying_is_named_with_the_end_of_its_log(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(supervisor, "SERVICES", ())
    monkeypatch.setattr(restarter, "_FIRST_DELAY_S", 0.01)
    monkeypatch.setattr(restarter, "_FAILURE_WINDOW_S", 0.0)  # however far apart
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "dying.py").write_text("import sys; sys.exit(sys.argv[-1])")
    programs, arguments = {supervisor.GATEWAY: ["dying"]}, {supervisor.GATEWAY: ["nonsense"]}
    with pytest.raises(VisavisError, match=r"gateway cannot be started(.|\n)*nonsense"):
        async with Stack(StackOptions(tmp_path, programs=programs, arguments=arguments)) as stack:
            pytest.fail(f"started {stack.children}")


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no folder that root cannot write in")
async def test_where_no_log_can_be_written_a_stack_begins_all_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(supervisor, "SERVICES", ())
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "wrong.py").write_text(f"import sys; sys.exit({SETTINGS_EXIT_STATUS})")
    options = StackOptions(Path("/proc/self"), programs={supervisor.GATEWAY: ["wrong"]})
    with pytest.raises(VisavisError) as told:
        async with Stack(options) as stack:
            pytest.fail(f"started {stack.children}")
    why = f"it ended with status {SETTINGS_EXIT_STATUS}"
    assert str(told.value) == f"gateway cannot be started: {why}", "it came so far"


async def test_an_older_log_is_not_told_as_that_of_a_start_without_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(process, "open_log", refuse)
    (tmp_path / "quiet.log").write_text("an older trouble\n")
    child = Child("quiet", [sys.executable, "-c", ""], tmp_path)
    child.start()
    assert await child.wait() == 0
    assert child.log_tail() == ""


async def test_wrong_settings_are_told_at_once_and_not_tried_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(supervisor, "SERVICES", ())
    log = tmp_path / "gateway.log"
    log.write_text("gateway: an older trouble\n")
    options = StackOptions(log_dir=tmp_path, host="0.0.0.0")
    with pytest.raises(VisavisError, match="gateway cannot be started") as told:
        async with Stack(options) as stack:
            pytest.fail(f"started {stack.children}")
    assert str(told.value).count("API key is needed") == 1
    assert "--api-key" in str(told.value)
    assert "older trouble" not in str(told.value)
    logs = list(tmp_path.glob("*.log"))  # noqa: ASYNC240  # nobody else runs on this loop
    modes = {log.name: log.stat().st_mode & 0o777 for log in logs}
    assert set(modes.values()) == {0o600}, f"others may read what visitors did: {modes}"


async def test_what_a_process_has_started_counts_as_its_memory(tmp_path: Path) -> None:
    hold = "import time; held = bytearray(40 << 20); time.sleep(60)"
    start = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {hold!r}])"
    parent = Child("parent", [sys.executable, "-c", start], tmp_path)
    never = Child("never", [], tmp_path)
    parent.start()
    try:
        await until(lambda: memory_bytes([parent, never])["parent"] > 40 << 20)
        assert memory_bytes([parent, never])["never"] == 0
    finally:
        parent.kill()
    assert await parent.wait() != 0
    await until(lambda: memory_bytes([parent]) == {"parent": 0})


@pytest.mark.skipif(tether.WAY != "kernel", reason="no kernel that could be told")
async def test_where_memory_is_short_who_is_started_again_goes_before_who_does_it(
    tmp_path: Path,
) -> None:
    tell = "print(open('/proc/self/oom_score_adj').read())"
    child = Child("teller", [sys.executable, "-c", tell], tmp_path)
    child.start()
    assert await child.wait() == 0
    own = int(Path("/proc/self/oom_score_adj").read_text())  # noqa: ASYNC240  # of the kernel's
    assert min(own + 1, 1000) <= int(child.log_path.read_text()) <= 1000


async def test_a_process_is_told_no_other_ones_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("VISAVIS_GATEWAY_API_KEY", "VISAVIS_LLM_API_KEY", "VISAVIS_MODEL_DIR"):
        monkeypatch.setenv(variable, "x")
    tell = "import os; print(sorted(name for name in os.environ if name[:8] == 'VISAVIS_'))"
    told = {}
    for name in ("llm-2", "nats-server"):
        child = Child(name, [sys.executable, "-c", tell], tmp_path)
        child.start()
        assert await child.wait() == 0
        told[name] = child.log_path.read_text()
    assert "LLM_API_KEY" in told["llm-2"] and "GATEWAY" not in told["llm-2"]
    assert "API_KEY" not in told["nats-server"] and "MODEL_DIR" in told["nats-server"]


TELLS_ITS_SETTINGS = """
import os, pathlib, sys, time
told = sorted(name for name in os.environ if name.startswith("VISAVIS_"))
pathlib.Path(sys.argv[1], str(os.getpid())).write_text(f"{told}\\n")
time.sleep(60)
"""


async def test_a_process_in_the_place_of_another_one_is_told_the_same_settings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(supervisor, "SERVICES", ())
    monkeypatch.setenv("VISAVIS_GATEWAY_MAX_SESSIONS", "3")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "telling.py").write_text(TELLS_ITS_SETTINGS)
    (told := tmp_path / "told").mkdir()

    def told_by(count: int) -> list[str]:
        texts = [one.read_text() for one in told.iterdir()]
        return texts if len(texts) == count and all(texts) else []

    programs = {supervisor.GATEWAY: ["telling", str(told)]}
    stack = Stack(StackOptions(tmp_path, programs=programs))
    tasks: list[asyncio.Task[Any]] = [asyncio.create_task(stack.__aenter__())]
    try:
        await until(lambda: told_by(1))
        tasks.append(asyncio.create_task(stack.start_spare(supervisor.GATEWAY)))
        first, second = await until(lambda: told_by(2))
    finally:
        for task in reversed(tasks):
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    assert "MAX_SESSIONS" in first and second == first


async def test_a_service_keeps_its_fixed_ports_when_it_is_restarted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A call at work is answered by the old process, and whoever comes by one of the two."""
    monkeypatch.setattr(supervisor, "SERVICES", ("llm",))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    (tmp_path / "idle.py").write_text("import time; time.sleep(600)")
    port, metrics_port, told = free_port(), free_port(), asyncio.Event()
    monkeypatch.setenv("VISAVIS_LLM_PORT", str(port))
    monkeypatch.setenv("VISAVIS_LLM_METRICS_PORT", str(metrics_port))
    address = f"127.0.0.1:{port}"

    async def write(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.event({"choices": [{"delta": {"content": "One."}}]})
        await told.wait()
        await exchange.event({"choices": [{"delta": {"content": " Two."}}]})
        await exchange.event({"choices": [{"delta": {}, "finish_reason": "stop"}]})

    async def whoever_comes() -> str:
        """The instance that answers; a call that comes as the old one closes is cancelled, as ever,
        and asks again.
        """
        async with ServiceChannel(address, Access(stack.keys.stack), "llm") as channel:
            stub = llm_pb2_grpc.LanguageModelStub(channel)
            while True:
                with contextlib.suppress(grpc.aio.AioRpcError):
                    return str((await stub.GetStatus(control_pb2.GetStatusRequest())).instance)

    async with HttpServer(write).running() as model, contextlib.AsyncExitStack() as ending:
        ending.callback(told.set)
        flags = ["--backend", "openai", "--url", model.url, "--model", "first"]
        programs = {supervisor.GATEWAY: ["idle"]}
        stack = Stack(StackOptions(tmp_path, arguments={"llm": flags}, programs=programs))
        async with beginning(stack):
            await until(lambda: "llm" in stack.children)
            old = stack.children["llm"]
            await until(lambda: old.state is State.READY)
            first = await whoever_comes()
            async with ServiceChannel(address, Access(stack.keys.stack), "llm") as channel:
                said = [llm_pb2.Message(role=llm_pb2.Message.USER, content="Count.")]
                request = llm_pb2.GenerateRequest(messages=said)
                answer = aiter(llm_pb2_grpc.LanguageModelStub(channel).Generate(request))
                text = (await anext(answer)).text
                restart = RollingRestart(stack).run(["llm"], lambda step: None)
                restarting = asyncio.create_task(restart)
                while await whoever_comes() == first:
                    assert not restarting.done(), restarting.exception()
                told.set()
                async for piece in answer:
                    text += piece.text
            await restarting
            assert (text, stack.children["llm"] is old) == ("One. Two.", False)
            assert await whoever_comes() != first
            metrics = f"http://127.0.0.1:{metrics_port}/metrics"
            transport = httpx.AsyncHTTPTransport(retries=10)
            async with httpx.AsyncClient(transport=transport) as client:
                assert "draining 0" in (await client.get(metrics)).text


async def test_the_key_stands_in_no_command_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(supervisor, "SERVICES", ())
    keys = {"api_key": "open sesame", "token_key": "sesame" * 6}
    options = StackOptions(log_dir=tmp_path, host="0.0.0.0", **keys)
    async with beginning(Stack(options)):
        # A child that is just being started shows no environment for a moment.
        await until(lambda: [c for c in children() if knows_the_key(c)], 10)
        assert not [child for child in children() if "sesame" in " ".join(child.cmdline())]


def buckets_in(storage: Path) -> int:
    """Object stores on a bus's disk; it may put folders there and take them away meanwhile."""
    folders = (name for _, names, _ in os.walk(storage) for name in names)
    return sum(name.startswith("OBJ_visavis-") for name in folders)


async def test_a_bus_that_lost_its_disk_has_its_buckets_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(supervisor, "SERVICES", ())
    monkeypatch.setattr(bucket, "_LOOK_EVERY_S", 0.1)
    stack = Stack(StackOptions(log_dir=tmp_path))
    async with beginning(stack):
        kept = await until(lambda: stack.nats.process.storage)
        await until(lambda: buckets_in(kept) == len(BUCKETS), 20)
        await until(lambda: stack.nats.process.state is State.READY)
        stack.nats.process.kill()
        shutil.rmtree(kept)
        await until(lambda: buckets_in(kept) == len(BUCKETS), 20)


@pytest.mark.skipif(shutil.which("systemd-tmpfiles") is None, reason="systemd is not here")
async def test_a_bus_comes_back_after_temporary_folders_were_cleaned(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of what nobody has touched for days: here, at all."""
    monkeypatch.setattr(supervisor, "SERVICES", ())
    (temporary := tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    (rules := tmp_path / "rules.conf").write_text(f"d {temporary} - - - 0\n")
    stack = Stack(StackOptions(log_dir=tmp_path / "logs"))
    bus = stack.nats.process
    async with beginning(stack):
        await until(lambda: bus.state is State.READY)
        clean = ["systemd-tmpfiles", "--clean", str(rules)]
        await asyncio.to_thread(subprocess.run, clean, check=True)
        first = bus.pid
        bus.kill()
        await until(lambda: bus.pid != first and bus.state is State.READY, 15)
    assert not any(temporary.glob("visavis-bus-*"))


class Unwatchable(Child):
    """A process of which the first look goes wrong in a way that nobody expects."""

    looks = 0

    async def beats(self) -> bool:
        self.looks += 1
        if self.looks == 1:
            raise ValueError("nobody expects this")
        self.working = True
        return True


async def test_a_process_is_looked_after_whatever_goes_wrong_in_it(tmp_path: Path) -> None:
    child = Unwatchable("sleeper", [sys.executable, "-c", "import time; time.sleep(60)"], tmp_path)
    watching = asyncio.create_task(Restarter(child, {}, MonotonicClock()).run())
    try:
        await until(lambda: child.state is State.READY, 10)
        first = child.pid
        child.kill()
        await until(lambda: child.pid != first and child.state is State.READY, 10)
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await child.stop()


def judged(share_waited: float, *, on_disk: bool = False) -> Silence:
    """A silence of a process that spends such a part of it waiting for a core, once it is too long
    for five seconds in which the process could have spoken.
    """
    silence, now_s = Silence(), 100.0
    while not silence.too_long(5.0):
        silence.missed(1.0, Reading(now_s, now_s * share_waited, on_disk=on_disk))
        now_s += 1.0
    return silence


def test_who_waits_for_a_core_or_the_disk_is_not_taken_for_frozen_but_not_waited_for_for_ever() -> (
    None
):
    frozen, starved = judged(0.0), judged(0.9)
    assert (frozen.lasted_s, str(frozen)) == (5.0, "5 s")
    assert 40.0 < starved.lasted_s < 50.0 and "machine is busy" in str(starved)
    assert judged(3.0).lasted_s == judged(0.0, on_disk=True).lasted_s == LONGEST_S


class Starved(Child):
    """A process that has worked, has been silent since, and only waits for a core; or is frozen."""

    looks, frozen = 0, False

    async def beats(self) -> bool:
        self.working = True
        self.looks += 1
        return self.looks == 1

    def reading(self) -> Reading:
        return Reading(self.looks, 0.0 if self.frozen else self.looks, on_disk=False)


async def test_a_process_is_ended_where_it_is_frozen_and_not_where_the_machine_is_busy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(restarter, "BEAT_S", 0.01)
    monkeypatch.setattr(restarter, "_SILENT_S", 0.05)
    child = Starved("sleeper", [sys.executable, "-c", "import time; time.sleep(60)"], tmp_path)
    watching = asyncio.create_task(Restarter(child, {}, MonotonicClock()).run())
    try:
        await until(lambda: child.looks > 20)
        assert not child.ended
        child.frozen = True
        await until(lambda: child.ended == "did not answer for 0 s and was ended")
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await child.stop()


@pytest.mark.parametrize(
    ("kills", "said"),
    [(1, "killed by the system, which has no memory.*smaller --profile"), (0, "ended by SIGKILL")],
)
async def test_what_the_system_killed_for_memory_is_told_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kills: int, said: str
) -> None:
    counted = count(step=kills)
    monkeypatch.setattr(supervisor, "SERVICES", ())
    monkeypatch.setattr(restarter, "_MAX_FAILURES", 1)
    monkeypatch.setattr(restarter, "killed_for_memory", lambda: next(counted))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "dying.py").write_text("import os; os.kill(os.getpid(), 9)")
    programs = {supervisor.GATEWAY: ["dying"]}
    with pytest.raises(VisavisError, match=f"gateway cannot be started: it was {said}"):
        await Stack(StackOptions(tmp_path, programs=programs)).__aenter__()


async def test_a_start_that_others_leave_no_processor_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(supervisor, "SERVICES", ())
    monkeypatch.setattr(supervisor, "_LOOK_AT_OTHERS_S", 0.0)
    machine = (MachineTime(90.0 * n, 100.0 * n) for n in count())
    monkeypatch.setattr(MachineTime, "now", lambda: next(machine))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "idle.py").write_text("import time; time.sleep(60)")
    programs = {supervisor.GATEWAY: ["idle"]}
    said = r"machine is busy: other programs have \d\d% of its processor(.|\n)*gateway did not"
    with pytest.raises(VisavisError, match=said):
        await Stack(StackOptions(tmp_path, programs=programs, ready_timeout_s=0.3)).__aenter__()


SAYS_MUCH_THEN_LITTLE = """
import pathlib, sys, time
print("much " * 1000, flush=True)
while not pathlib.Path(sys.argv[1]).is_file():
    time.sleep(0.01)
while True:
    print("little", flush=True)
    time.sleep(0.1)
"""


async def test_a_log_that_has_become_long_begins_anew(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(process, "_LONGEST_LOG_BYTES", 4000)
    before = tmp_path / "talker.log.1"
    before.write_text("older")
    command = [sys.executable, "-c", SAYS_MUCH_THEN_LITTLE, str(tmp_path / "little")]
    child = Child("talker", command, tmp_path)
    watching = asyncio.create_task(Restarter(child, {}, MonotonicClock()).run())
    try:
        await until(lambda: before.read_text() == "much " * 1000 + "\n", 10)
        (tmp_path / "little").touch()
        await until(lambda: child.log_tail().startswith("little"), 10)
        assert before.stat().st_mode & 0o777 == 0o600
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await child.stop()


async def test_a_log_for_which_there_is_no_room_twice_stays_and_is_not_tried_again_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(process, "_LONGEST_LOG_BYTES", 4000)
    child = Child("talker", [sys.executable, "-c", "print('much ' * 1000)"], tmp_path)
    child.start()
    assert await child.wait() == 0
    log, before = child.log_path, tmp_path / "talker.log.1"
    with limited_files(1000):
        child.shorten_log()
    child.shorten_log()
    assert log.read_text() == "much " * 1000 + "\n"
    assert not before.exists(), "half of a copy fills the disk"
    with log.open("a") as file:
        file.write("more " * 800)
    child.shorten_log()
    assert log.stat().st_size == 0 and before.read_text().endswith("more " * 800)


COMPUTES_THEN_FREEZES = """
import pathlib, sys, time
while time.process_time() < 1.2:
    pass
pathlib.Path(sys.argv[1]).touch()
time.sleep(60)
"""


async def test_a_start_may_compute_for_long_but_not_stand_still(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(restarter, "BEAT_S", 0.1)
    monkeypatch.setattr(restarter, "_SILENT_STARTING_S", 0.8)
    computed = tmp_path / "computed"
    command = [sys.executable, "-c", COMPUTES_THEN_FREEZES, str(computed)]
    child = Child("compiler", command, tmp_path)
    watching = asyncio.create_task(Restarter(child, {}, MonotonicClock()).run())
    try:
        first = await until(lambda: child.pid, 10)
        await until(computed.exists, 30)
        assert child.pid == first
        await until(lambda: child.pid != first, 10)
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await child.stop()


async def test_a_stack_waits_for_a_start_that_computes_but_not_for_one_that_stands_still(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(supervisor, "SERVICES", ())
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "computing.py").write_text(COMPUTES_THEN_FREEZES)
    computed = tmp_path / "computed"
    programs = {supervisor.GATEWAY: ["computing", str(computed)]}
    with pytest.raises(VisavisError, match="gateway did not become ready"):
        await Stack(StackOptions(tmp_path, programs=programs, ready_timeout_s=0.9)).__aenter__()
    assert computed.exists()


def children() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def knows_the_key(child: psutil.Process) -> bool:
    key = child.environ().get("VISAVIS_GATEWAY_API_KEY")
    return "gateway" in child.cmdline() and key == "open sesame"


def test_what_cannot_start_is_told_in_one_line(run: Run) -> None:
    impossible = run("up", "--profile", "tiny", "--port", "99999")
    assert impossible.status != 0
    assert "--port" in impossible.error and "65535" in impossible.error
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = run("up", "--profile", "tiny", "--port", str(port))
    assert refused.status != 0
    assert f"port {port}" in refused.error
    for told in (impossible, refused):
        assert "Traceback" not in told.error
        assert "Stopping" not in told.output, "nothing was started"


def test_nothing_outlives_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from visavis.tools.cli.main import main; main()", "up"]
    command += ["--profile", "tiny", "--port", "0", "--logs", str(tmp_path)]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=quiet, stderr=quiet) as up:
        while len(children := psutil.Process(up.pid).children(recursive=True)) < 6:
            assert up.poll() is None
            time.sleep(0.05)
        nats = next(c for c in children if Path(c.exe()).name == "nats-server")
        nats.suspend()  # not even what is frozen
        up.kill()
    assert psutil.wait_procs(children, timeout=10)[1] == []


def test_a_guard_ends_its_command_with_whoever_holds_its_leash(tmp_path: Path) -> None:
    """As on systems whose kernel does not do it."""
    telling = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    command = [sys.executable, tether.__file__, "guard", "0", sys.executable, "-c", telling]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as guard:
        assert guard.stdin is not None and guard.stdout is not None
        guarded = psutil.Process(int(guard.stdout.readline()))
        guard.stdin.close()
        guarded.wait(10)
        assert guard.wait(10) != 0


def test_a_bus_is_found_behind_a_guard(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for module in (tether, process):
        monkeypatch.setattr(module, "WAY", "guard")
    with NatsServer(tmp_path) as nats:
        port = nats.process.port
        nats.restart()
        with socket.create_connection(("127.0.0.1", port)) as client:
            assert client.recv(5) == b"INFO "
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port))


async def test_a_service_whose_bus_is_gone_ends_soon_when_told_to(tmp_path: Path) -> None:
    async def asked(exchange: Exchange) -> None:
        raise AssertionError("nobody asks")

    with NatsServer(tmp_path) as nats:
        async with HttpServer(asked).running() as model:
            flags = ["--backend", "openai", "--url", model.url, "--model", "first"]
            flags += ["--nats-url", nats.url]
            llm = python_child("llm", "services.llm", flags, tmp_path)
            llm.start()
            async with asyncio.timeout(50):
                while not llm.working:
                    assert llm.runs(), llm.log_tail()
                    await llm.beats()
                    await asyncio.sleep(0.05)
            nats.stop()
            began_s = time.monotonic()
            await llm.stop()
            took_s = time.monotonic() - began_s
    assert "Traceback" not in llm.log_tail()
    assert took_s < 5, f"ended after {took_s:.1f} s"


async def test_a_service_alone_stays_so_where_the_environment_says_how_a_stack_is_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, bundle: Callable[[str], Path]
) -> None:
    """As in a container of it."""
    for name in profile("tiny")["tts"]:
        bundle(name)
    monkeypatch.setenv("VISAVIS_TTS_HOST", "0.0.0.0")
    monkeypatch.setenv("VISAVIS_TTS_ADVERTISE", "10.0.0.7")
    monkeypatch.setenv("VISAVIS_TTS_NATS_URL", f"nats://127.0.0.1:{free_port()}")
    async with asyncio.timeout(25), plain_service("tts", ["--profile", "tiny"], tmp_path) as tts:
        stub = tts_pb2_grpc.SpeechSynthesisStub(tts)
        assert (await stub.ListVoices(tts_pb2.ListVoicesRequest())).voices
