"""Whose CPU time it was."""

import asyncio
import contextlib
import signal
import subprocess
import sys

import psutil
import pytest

from visavis.serving.admission.probes import MachineTime
from visavis.tools.bench.figures.processes import Processes, share_of_others
from visavis.tools.bench.load.killer import Killer
from visavis.wire.clock import MonotonicClock


def test_what_others_took_is_neither_ours_nor_idle() -> None:
    before, after = MachineTime(100.0, 1000.0), MachineTime(160.0, 1200.0)
    assert share_of_others(before, after, ours_s=40.0) == pytest.approx(0.1)
    assert share_of_others(before, after, ours_s=70.0) == 0.0
    assert share_of_others(before, before, ours_s=1.0) == 0.0
    now = MachineTime.now()
    assert MachineTime.now().total_s >= now.total_s > now.busy_s > 0


def test_what_a_process_used_is_not_taken_back_when_it_ends() -> None:
    work = "sum(range(3_000_000)); print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", work], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        counted = Processes([psutil.Process(process.pid)])
        before = counted.usage()
        process.communicate(b"\n")
    after = counted.usage()
    assert after.cpu_s == before.cpu_s > 0.0
    assert after.memory_bytes == 0 < before.memory_bytes


def test_of_several_the_process_is_killed_that_has_run_longest() -> None:
    with contextlib.ExitStack() as stack:
        waits = [sys.executable, "-c", "print(flush=True); input()"]
        faces = []
        for _ in range(2):
            face = subprocess.Popen(waits, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            faces.append(stack.enter_context(face))
            assert face.stdout is not None
            face.stdout.readline()

        async def find() -> dict[str, list[psutil.Process]]:
            return {"face": [psutil.Process(face.pid) for face in reversed(faces)]}

        killer = Killer(["face", "tts"], find)
        now_s = MonotonicClock().now()
        asyncio.run(killer.run(MonotonicClock(), now_s, [now_s, now_s]))
        assert [kill.kind for kill in killer.kills] == ["face"]
        assert faces[0].wait(timeout=10.0) == -signal.SIGKILL
        faces[1].communicate(b"\n")
        assert faces[1].returncode == 0
