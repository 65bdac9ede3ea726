"""What a process has to give, told once a second: on the bus, in metrics, to its own admission."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import asdict

import nats.errors
from google.protobuf.message import DecodeError
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from visavis.serving import metrics
from visavis.serving.admission.admission import Admission, Capacity, Neighbour
from visavis.serving.admission.meter import Assumed
from visavis.serving.admission.prediction import Promise
from visavis.serving.admission.probes import (
    cores,
    foreign_cores,
    free_memory_bytes,
    memory_bytes,
    usage,
)
from visavis.serving.lifetime.supervision import Keeper
from visavis.serving.settings import ServiceSettings
from visavis.v1 import control_pb2 as pb
from visavis.wire.bus import Bus
from visavis.wire.clock import Clock, MonotonicClock, clock_id
from visavis.wire.subjects import capacity_subject

log = logging.getLogger(__name__)

REPORT_S = 1.0
_GATEWAY = "gateway"


def open_admission(
    settings: ServiceSettings,
    assumed: Assumed,
    *,
    clock: Clock | None = None,
    slots: int = 0,
    lanes: int = 1,
    pace_hz: float = 0.0,
) -> Admission:
    """As a service's settings say. slots: 0: those of the settings; the rest as in `Promise`."""
    promise = Promise(lanes, 0.0 if pace_hz else settings.first_unit_budget_s, pace_hz)
    return Admission(
        settings.section,
        clock or MonotonicClock(),
        assumed,
        promise,
        slots=slots or settings.slots,
        predicts=settings.admission == "predicted",
        cores=cores(),
        foreign_cores=foreign_cores(),
    )


def message_of(capacity: Capacity, service: str, instance: str) -> pb.Capacity:
    """As it is told."""
    return pb.Capacity(service=service, instance=instance, machine=clock_id(), **asdict(capacity))


class CapacityReporter:
    """Tells what this process has to give, and hears what its neighbours have. `start`, `stop`.

    on_told: called with whatever any process tells; on_look: before each look at this one.
    capacity: what is told of this one; None: what its admission says.
    """

    def __init__(
        self,
        bus: Bus | None,
        service: str,
        instance: str,
        admission: Admission,
        *,
        on_told: Callable[[pb.Capacity], None] = lambda told: None,
        on_look: Callable[[], None] = lambda: None,
        capacity: Callable[[], Capacity] | None = None,
    ) -> None:
        self._bus = bus
        self._service = service
        self._instance = instance
        self._admission = admission
        self._on_told = on_told
        self._on_look = on_look
        self._capacity = capacity or admission.capacity
        self._clock = MonotonicClock()
        self._heard: Subscription | None = None
        self._telling = Keeper("capacity", self._keep_telling)

    async def start(self) -> None:
        """Tell and hear from now on."""
        if self._bus is not None:
            self._heard = await self._bus.client.subscribe(capacity_subject("*"), cb=self._hear)
        self._telling.start()

    async def stop(self) -> None:
        """Nothing is told or heard any more. Nothing if it was not started."""
        await self._telling.stop()
        if self._heard is not None and self._bus is not None and self._bus.connected:
            with contextlib.suppress(nats.errors.Error, OSError):
                await self._heard.unsubscribe()

    async def _keep_telling(self) -> None:
        while True:
            self._on_look()
            self._admission.look(usage(), memory_bytes(), free_memory_bytes())
            capacity = self._capacity()
            if self._service != _GATEWAY:  # which holds no deadlines here
                _show(capacity)
            metrics.admission_session_cores.set(capacity.session_cores)
            metrics.admission_run_queue_share.set(capacity.run_queue_share)
            if self._bus is not None and self._bus.connected:
                told = message_of(capacity, self._service, self._instance)
                with contextlib.suppress(nats.errors.Error, OSError):  # the next one follows
                    subject = capacity_subject(self._service)
                    await self._bus.client.publish(subject, told.SerializeToString())
            await asyncio.sleep(REPORT_S)

    async def _hear(self, message: Msg) -> None:
        try:
            told = pb.Capacity.FromString(message.data)
        except DecodeError as error:
            log.warning("capacity: cannot be read: %s", error)
            return
        if message.subject != capacity_subject(told.service):
            log.warning("capacity: %s speaks for %s", message.subject, told.service)
            return
        self._on_told(told)
        here = told.machine == clock_id()
        if told.instance == self._instance or not (here or told.service == _GATEWAY):
            return
        neighbour = Neighbour(
            # The cores of another machine are no business of ours; what its visitors do is.
            told.service if here else "",
            told.sessions,
            told.session_cores if here else 0.0,
            told.used_cores if here else 0.0,
            self._clock.now(),
            told.duty,
        )
        self._admission.hear(told.instance, neighbour)


def _show(capacity: Capacity) -> None:
    metrics.admission_free_slots.set(capacity.free_slots)
    metrics.admission_slack.set(capacity.slack)
    metrics.admission_unit_cost_seconds.set(capacity.unit_cost_s)
    metrics.admission_units_per_second.set(capacity.units_per_s)
    metrics.admission_first_p95_seconds.labels("measured").set(capacity.late_p95_s)
    metrics.admission_first_p95_seconds.labels("predicted").set(capacity.predicted_p95_s)
    metrics.admission_first_p95_seconds.labels("alone").set(capacity.alone_p95_s)
