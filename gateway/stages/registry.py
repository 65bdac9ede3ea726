"""Which replicas of each service exist, how loaded they are, how their clocks stand to ours."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import grpc
import grpc.aio

from gateway import metrics
from visavis.serving.admission.admission import Capacity
from visavis.serving.authentication.access import OPEN, Access
from visavis.serving.authentication.channel import ServiceChannel
from visavis.serving.discovery import Replica, discover
from visavis.serving.errors import (
    AtCapacityError,
    BusError,
    StageLostError,
    UnauthenticatedError,
)
from visavis.serving.lifetime.supervision import Keeper
from visavis.serving.runtime import KEEPALIVE, MESSAGE_LIMITS
from visavis.serving.settings import SERVICES
from visavis.v1 import asr_pb2_grpc, control_pb2, face_pb2_grpc, llm_pb2_grpc, tts_pb2_grpc
from visavis.wire.bus import Bus
from visavis.wire.clock import MonotonicClock, clock_id
from visavis.wire.levels import LEVEL
from visavis.wire.media import Stamp

log = logging.getLogger(__name__)

REFRESH_S = 2.0
STATUS_TIMEOUT_S = 1.0
GLANCE_S = 0.3
BUS_TIMEOUT_S = 1.0
# Leases and calls end with their connection: one to a replica that was not found may be in use, for
# one that ends is not found any more, and answers what it was asked. To one that has really gone it
# breaks by itself, by keepalive.
KEEP_UNUSED_S = 120.0
# Enough for a quick one to be among them, few enough that quartz does not drift (50 ppm).
_KEPT_READINGS = 8
_DRIFT_S = 0.05
# Instances: more than a fleet has at once, with some hours of one that dies again and again.
_REMEMBERED = 4096

_STUBS: Mapping[str, Callable[[ServiceChannel], Any]] = {
    "asr": asr_pb2_grpc.SpeechRecognitionStub,
    "llm": llm_pb2_grpc.LanguageModelStub,
    "tts": tts_pb2_grpc.SpeechSynthesisStub,
    "face": face_pb2_grpc.FaceAnimationStub,
}


@dataclass(frozen=True, slots=True)
class EngineState:
    """One network of a replica, and where it runs. detail: why not as asked for; "": it does."""

    model: str
    file: str
    backend: str
    device: str
    detail: str


_SILENT = Capacity()


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """A replica and what it last said of itself. healthy: it answers."""

    replica: Replica
    healthy: bool = False
    slots: int = 0
    free_slots: int = 0
    languages: tuple[str, ...] = ()
    engines: tuple[EngineState, ...] = ()
    capacity: Capacity = _SILENT
    """What it measures and predicts; empty where it does not tell."""

    @property
    def spare_slots(self) -> int:
        """For sessions that were let in before: what is predicted does not count for them."""
        taken = self.capacity.sessions
        return self.slots - taken if taken else self.free_slots


def why_no_room(known: Sequence[ReplicaState]) -> str:
    """Of those that would take nobody."""
    told = next((state.capacity.refusal for state in known if state.capacity.refusal), "")
    return told or f"no free slot on any of its {len(known)} replicas"


class Registry:
    """Finds and chooses replicas, and has the channels to them: the one thing that sessions share.

    `start` it, `close` it.
    """

    def __init__(self, bus: Bus, access: Access = OPEN, *, refresh_s: float = REFRESH_S) -> None:
        """access: by what replicas and we prove ourselves; open: all are believed."""
        self._bus = bus
        self._access = access
        self._refresh_s = refresh_s
        self._states: dict[str, ReplicaState] = {}
        self.gateways: list[Replica] = []
        """Those of which others know where they are, the asking one among them."""
        self._channels: dict[str, ServiceChannel] = {}
        """By instance: who comes to where another one was is not kept waiting for the rest that
        a channel takes behind a connection that failed."""
        self._unused_since_s: dict[str, float] = {}
        """Channels by instance, to replicas that are not known any more."""
        self._met: dict[str, None] = {}
        """Instances that were found, those that were last found at the end."""
        self._watch = Keeper("registry", self._keep_watching)
        self._refreshing = asyncio.Lock()
        self.looks = 0
        """So many times `refresh` has begun to ask."""
        self._bus_answers = True
        self._clock = MonotonicClock()
        self.clocks = HostClocks()
        """Where the replicas' clocks stand against ours."""

    async def start(self) -> None:
        await self.refresh()
        self._watch.start()

    async def close(self) -> None:
        await self._watch.stop()
        for channel in self._channels.values():
            await channel.close()
        self._channels.clear()

    def replicas(self, service: str | None = None) -> list[ReplicaState]:
        """Those known now, of one service or of all."""
        return [s for s in self._states.values() if service in (None, s.replica.service)]

    async def missing(self, services: Sequence[str] = SERVICES) -> dict[str, str]:
        """What a turn would need and is not there: "bus" or a service, and what is wrong with it.

        What seems to be missing is asked for anew.
        """
        if self._missing(services) and self._bus.connected:
            await self.refresh()
        return self._missing(services)

    async def choose(
        self,
        service: str,
        *,
        prefer: str = "",
        avoid: frozenset[str] = frozenset(),
        admitted: bool = False,
        light: bool = False,
    ) -> Replica:
        """The instance `prefer` if it has a free slot, else the least loaded replica that has one.

        Instances in `avoid` come last of all. admitted: any slot will do, also one that nobody new
        would get. light: it needs none. Raises AtCapacityError where there is none, StageLostError
        where no replica answers.
        """
        candidates = self._candidates(service, admitted, light)
        if all(state.replica.instance in avoid for state in candidates):
            # None, or those that have just refused: one that ends may have a successor by now.
            await self.refresh()
            candidates = self._candidates(service, admitted, light)
        if not candidates:
            absent = self._absent(service)
            if absent:
                raise StageLostError(f"{service}: {absent}")
            why = why_no_room(self.replicas(service))
            raise AtCapacityError(f"{service}: {why}; try again later")
        if len(candidates) > 1 and len(self.gateways) > 1:
            # Others have chosen, too, since these were last asked.
            if prefer not in [state.replica.instance for state in candidates]:
                await self._look_again(candidates)
                candidates = self._candidates(service, admitted, light) or candidates

        def order(state: ReplicaState) -> tuple[bool, bool, int]:
            instance = state.replica.instance
            return instance in avoid, instance != prefer, -state.free_slots

        best = min(candidates, key=order)
        if not light:
            self._count_slots(best, -1)
        return best.replica

    def returned(self, replica: Replica, *, light: bool = False) -> None:
        """A lease on this replica was given back. light: it had no slot."""
        state = self._states.get(replica.instance)
        if state is not None and state.healthy and not light:
            self._count_slots(state, +1)

    def refused(self, replica: Replica) -> None:
        """It takes no lease now: others come first, until it tells its free slots anew."""
        state = self._states.get(replica.instance)
        if state is not None:
            self._count_slots(state, -state.slots)

    def draining(self, replica: Replica) -> None:
        """It is about to end: nothing new goes there."""
        state = self._states.get(replica.instance)
        if state is not None:
            told = replace(replica, draining=True)
            self._states[replica.instance] = replace(state, replica=told)

    def alone(self, replica: Replica) -> bool:
        """Whether no other replica of its service would take a session, now or later."""
        others = (
            s for s in self.replicas(replica.service) if s.replica.instance != replica.instance
        )
        return not any(other.healthy and not other.replica.draining for other in others)

    def stub(self, replica: Replica) -> Any:
        """gRPC stub of the replica's service, on a channel that all sessions share."""
        channel = self._channels.get(replica.instance)
        if channel is None:
            channel = ServiceChannel(
                replica.grpc_address,
                self._access,
                replica.service,
                options=[
                    *MESSAGE_LIMITS,
                    *KEEPALIVE,
                    ("grpc.initial_reconnect_backoff_ms", 100),
                    # What is tried for no longer than this is given up, however near it was.
                    ("grpc.min_reconnect_backoff_ms", round(1000 * STATUS_TIMEOUT_S)),
                    ("grpc.max_reconnect_backoff_ms", 2000),
                    ("grpc.use_local_subchannel_pool", 1),  # by address it would be shared again
                ],
            )
            self._channels[replica.instance] = channel
        return _STUBS[replica.service](channel)

    async def check(self, replica: Replica, call: Any) -> None:
        """Have the replica that answers a call of `stub` prove that it belongs to the stack.

        Raises StageLostError; then it is not chosen any more.
        """
        channel = self._channels.get(replica.instance)
        if channel is None:
            raise StageLostError(f"{replica.service}: its replica has gone")
        try:
            await channel.check(call)
        except UnauthenticatedError as error:
            self.lost(replica)
            raise StageLostError(f"{replica.service}: {error}") from None

    def told(self, told: control_pb2.Capacity) -> None:
        """What a replica says of itself between two questions; of others nothing is noted."""
        state = self._states.get(told.instance)
        if state is not None and state.healthy and state.replica.service == told.service:
            capacity = _capacity_of(told)
            self._states[told.instance] = replace(
                state, free_slots=capacity.free_slots, capacity=capacity
            )

    def lost(self, replica: Replica) -> None:
        """A lease on this replica died: it is not chosen before it answers again."""
        if replica.instance in self._states:
            self._states[replica.instance] = ReplicaState(replica)

    async def refresh(self, *, after: int | None = None) -> None:
        """Ask the bus who is there, and each one how loaded it is.

        Those who ask while others are being answered share one look. after: any that has begun
        since there were so many `looks` will do; None: since now.
        """
        wanted = (self.looks if after is None else after) + 1
        async with self._refreshing:
            if self.looks >= wanted:
                return
            self.looks += 1
            try:
                await self._bus.flush(BUS_TIMEOUT_S)
                self._bus_answers = True
                everybody = await discover(self._bus.client)
            except BusError as error:
                self._bus_answers = False
                log.warning("registry: %s", error)
                return
            self._meet(everybody)
            self.gateways = [replica for replica in everybody if replica.http_address]
            found = {r.instance: r for r in everybody if r.service in _STUBS}
            # A replica too busy to be found in time, or behind a bus that is restarting, is
            # still there if it answers itself.
            known = {r.replica.instance: r.replica for r in self._states.values()}
            states = await asyncio.gather(*map(self._ask, (known | found).values()))
            self._states = {
                state.replica.instance: state
                for state in states
                if state.healthy or state.replica.instance in found
            }
        await self._close_unused()

    def _meet(self, found: Sequence[Replica]) -> None:
        """Count those that are new. One that was away for a while is the same process, and those
        of the first look were there before us.
        """
        first = not self._met
        for replica in found:
            if replica.instance not in self._met:
                if not first:
                    metrics.processes_met.labels(replica.service).inc()
                if replica.level < LEVEL:
                    log.info(
                        "%s is of an earlier version: it is not asked for what came since",
                        replica.instance,
                    )
            self._met.pop(replica.instance, None)
            self._met[replica.instance] = None
        for instance in list(self._met)[:-_REMEMBERED]:
            del self._met[instance]

    def _missing(self, services: Sequence[str]) -> dict[str, str]:
        if not self._bus.connected:
            return {"bus": "it is not connected"}
        if not self._bus_answers:
            return {"bus": "it does not answer"}
        return {service: absent for service in services if (absent := self._absent(service))}

    def _absent(self, service: str) -> str:
        """Why no replica of a service can be asked; "": one can."""
        known = self.replicas(service)
        if not known:
            return "no replica is running"
        answering = [state for state in known if state.healthy]
        if not answering:
            return f"none of its replicas answers ({len(known)} known)"
        ends = all(state.replica.draining for state in answering)
        return "its replica is about to end" if ends else ""

    def _candidates(self, service: str, admitted: bool, light: bool) -> list[ReplicaState]:
        """Those that may take a session."""
        known = [state for state in self.replicas(service) if not state.replica.draining]
        if light:
            return [state for state in known if state.healthy]
        return [s for s in known if (s.spare_slots if admitted else s.free_slots) > 0]

    async def _look_again(self, states: Sequence[ReplicaState]) -> None:
        """Note which slots have been taken; of who does not say so at once nothing is known."""
        asked = (self._ask(state.replica, timeout_s=GLANCE_S) for state in states)
        for told in await asyncio.gather(*asked):
            known = self._states.get(told.replica.instance)
            if known is not None and told.healthy:
                # What we have chosen ourselves may not have reached it yet.
                free = min(known.free_slots, told.free_slots)
                self._states[told.replica.instance] = replace(told, free_slots=free)

    def _count_slots(self, state: ReplicaState, change: int) -> None:
        """Estimate free slots until the replica tells them itself."""
        free = min(state.slots, max(0, state.free_slots + change))
        self._states[state.replica.instance] = replace(state, free_slots=free)

    async def _ask(self, replica: Replica, *, timeout_s: float = STATUS_TIMEOUT_S) -> ReplicaState:
        sent_s = self._clock.now()
        try:
            call = self.stub(replica).GetStatus(control_pb2.GetStatusRequest(), timeout=timeout_s)
            answer = await call
            await self.check(replica, call)
        except grpc.aio.AioRpcError as error:
            log.warning("registry: %s: %s", replica.instance, error.details())
            return ReplicaState(replica)
        except StageLostError as error:
            log.warning("registry: %s is not asked for anything: %s", replica.instance, error)
            return ReplicaState(replica)
        inner = getattr(answer, "service", answer)
        status: control_pb2.ServiceStatus = (
            inner if isinstance(inner, control_pb2.ServiceStatus) else answer
        )
        if status.instance != replica.instance:
            # A process begun anew on the same port would be counted for the dead one, too.
            log.warning("registry: %s: %s answers there now", replica.instance, status.instance)
            return ReplicaState(replica)
        reading_s = status.clock.monotonic_ns / 1e9
        self.clocks.note(status.clock.clock, reading_s, sent_s, self._clock.now())
        engines = (
            EngineState(e.bundle, e.file, e.backend, e.device, e.detail) for e in status.engines
        )
        return ReplicaState(
            replica,
            True,
            status.slots,
            status.free_slots,
            tuple(status.languages),
            tuple(engines),
            _capacity_of(status.capacity),
        )

    async def _close_unused(self) -> None:
        now = self._clock.now()
        unused = self._channels.keys() - self._states.keys()
        since = {instance: self._unused_since_s.get(instance, now) for instance in unused}
        self._unused_since_s = since
        for instance in [i for i, since_s in since.items() if now - since_s > KEEP_UNUSED_S]:
            await self._channels.pop(instance).close()

    async def _keep_watching(self) -> None:
        while True:
            await asyncio.sleep(self._refresh_s)
            await self.refresh()


def _capacity_of(told: control_pb2.Capacity) -> Capacity:
    return Capacity(**{field.name: getattr(told, field.name) for field in fields(Capacity)})


@dataclass(frozen=True, slots=True)
class Offset:
    """What has to be added to a remote clock to have ours, and by how much it may be wrong."""

    offset_s: float
    error_s: float


class HostClocks:
    """Where the monotonic clocks of other machines stand against ours, by clock as stamps name it.

    Services on this machine share our clock. The others tell theirs with each status that they
    give: sent, read there, received. The reading lies between the two, so half of the round trip
    is the error; of the last readings the quickest counts (the clock filter of NTP, RFC 5905,
    section 10). Pure: all times are passed in.
    """

    def __init__(self, own: int | None = None) -> None:
        self._own = clock_id() if own is None else own
        self._readings: dict[int, deque[Offset]] = {}

    def note(self, clock: int, reading_s: float, sent_s: float, received_s: float) -> None:
        """A clock said `reading_s` between two moments of ours."""
        if clock in (0, self._own):
            return
        middle_s, error_s = (sent_s + received_s) / 2, (received_s - sent_s) / 2
        readings = self._readings.setdefault(clock, deque(maxlen=_KEPT_READINGS))
        told = Offset(middle_s - reading_s, error_s)
        if any(
            abs(told.offset_s - r.offset_s) > told.error_s + r.error_s + _DRIFT_S for r in readings
        ):
            readings.clear()  # a monotonic clock stands still while its machine sleeps
        readings.append(told)

    def offset(self, clock: int) -> Offset | None:
        """None where nothing is known of a clock."""
        if clock == self._own:
            return Offset(0.0, 0.0)
        readings = self._readings.get(clock)
        return min(readings, key=lambda offset: offset.error_s) if readings else None

    def local_s(self, stamp: Stamp) -> float | None:
        """When a stamp was made, on our clock."""
        offset = self.offset(stamp.clock)
        return None if offset is None else stamp.monotonic_ns / 1e9 + offset.offset_s
