"""CPU time and memory of the stack's processes, where they run on this machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import psutil

from visavis.serving.admission.probes import MachineTime


@dataclass(frozen=True, slots=True)
class Usage:
    """What the stack uses: CPU seconds until now, bytes of memory now (shared pages divided)."""

    cpu_s: float
    memory_bytes: int


def share_of_others(before: MachineTime, after: MachineTime, ours_s: float) -> float:
    """Share of the machine's CPU time that went neither to us nor to nobody; `ours_s`: seconds
    of CPU that the stack and the benchmark used meanwhile."""
    total_s = after.total_s - before.total_s
    others_s = after.busy_s - before.busy_s - ours_s
    return min(1.0, max(0.0, others_s / total_s)) if total_s > 0 else 0.0


class Processes:
    """The processes of one stack. Empty where they run on another machine."""

    def __init__(self, processes: Iterable[psutil.Process]) -> None:
        self._processes = list(processes)
        self._used_s: dict[int, float] = {}
        """By pid, as last seen."""

    def __len__(self) -> int:
        return len(self._processes)

    def __iter__(self) -> Iterator[psutil.Process]:
        return iter(self._processes)

    def usage(self) -> Usage:
        """Of all together; one that has ended takes no memory, and has used what was seen last."""
        memory = 0
        for process in self._processes:
            try:
                times = process.cpu_times()
                self._used_s[process.pid] = times.user + times.system
                memory += _own_bytes(process)
            except psutil.Error:
                continue
        return Usage(sum(self._used_s.values()), memory)


def _own_bytes(process: psutil.Process) -> int:
    """Proportional set size where the system tells it, so that shared pages count once."""
    memory = process.memory_full_info()
    return int(getattr(memory, "pss", memory.rss))


def find_processes(gateway_url: str, service_addresses: Sequence[str]) -> Processes:
    """The processes that listen where the gateway and its services do, and their bus."""
    named = find_named_processes(gateway_url, [(address, "") for address in service_addresses])
    # Several names may belong to one process.
    found = {process.pid: process for processes in named.values() for process in processes}
    return Processes(found.values())


def find_named_processes(
    gateway_url: str, services: Sequence[tuple[str, str]]
) -> dict[str, Processes]:
    """The processes that listen where the gateway and its services do, and their bus, by name.

    services: (address, name); replicas may share a name.
    """
    names = {urlsplit(f"//{address}").port: name for address, name in services}
    names[urlsplit(gateway_url).port] = "gateway"
    found: dict[str, dict[int, psutil.Process]] = {}
    for process in psutil.process_iter():
        try:
            ports = {
                c.laddr.port
                for c in process.net_connections("tcp")
                if c.status == psutil.CONN_LISTEN and c.laddr.port in names
            }
        except psutil.Error:
            continue  # another user's
        for port in ports:
            found.setdefault(names[port], {})[process.pid] = process
    listening = [process for group in found.values() for process in group.values()]
    for process in listening:
        for sibling in _siblings(process):
            if "nats-server" in sibling.name():
                found.setdefault("nats-server", {})[sibling.pid] = sibling
    return {name: Processes(group.values()) for name, group in found.items()}


def _siblings(process: psutil.Process) -> list[psutil.Process]:
    try:
        parent = process.parent()
        return parent.children() if parent is not None and parent.pid != 1 else []
    except psutil.Error:
        return []
