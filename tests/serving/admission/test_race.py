"""Two gateways that race for the last places of a replica, over real gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import grpc

from tests.fakes import ManualClock
from visavis.serving.admission.admission import Admission
from visavis.serving.admission.meter import Assumed
from visavis.serving.admission.prediction import Promise
from visavis.serving.interceptor import ErrorInterceptor
from visavis.serving.lease import read_config
from visavis.serving.stage import Leases
from visavis.v1 import control_pb2, llm_pb2, llm_pb2_grpc
from visavis.wire.bus import Bus

RACES = 1000
AT_ONCE = 50
"""Of each gateway."""


class Replica(llm_pb2_grpc.LanguageModelServicer):
    """Lets sessions in as any service does, and notes how many there were at once."""

    def __init__(self) -> None:
        assumed = Assumed(units_per_s=0.1, unit_cost_s=0.5, cores=0.05)
        # A clock that stands: in time it would learn that these sessions ask for little, and take
        # more of them.
        self.admission = Admission(
            "llm", ManualClock(), assumed, Promise(), slots=AT_ONCE, cores=2.0
        )
        self.leases = Leases("llm", "llm-1", cast(Bus, object()), self.admission)
        self.most = self.let_in = 0

    async def Attach(self, requests: Any, context: Any) -> AsyncIterator[control_pb2.AttachEvent]:
        first = await read_config(requests, "Attach")
        with self.leases.attach(first.config.session):
            self.let_in += 1
            self.most = max(self.most, self.admission.meter.sessions)
            yield control_pb2.AttachEvent(ready=control_pb2.AttachReady(instance="llm-1"))
            async for _ in requests:
                pass


async def test_a_thousand_races_of_two_gateways_never_overbook() -> None:
    replica = Replica()
    places = replica.admission.capacity().free_slots
    assert 2 <= places < AT_ONCE, "predicted, and fewer than there are slots"
    server = grpc.aio.server(interceptors=[ErrorInterceptor()])
    llm_pb2_grpc.add_LanguageModelServicer_to_server(replica, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    options = [("grpc.use_local_subchannel_pool", 1)]  # a connection for each gateway
    channels = [grpc.aio.insecure_channel(f"127.0.0.1:{port}", options) for _ in range(2)]
    refused = 0
    all_answered = asyncio.Barrier(2 * AT_ONCE)

    async def race(channel: grpc.aio.Channel, name: str) -> None:
        """Whoever got a place keeps it until everybody of the round has an answer."""
        nonlocal refused
        call = llm_pb2_grpc.LanguageModelStub(channel).Attach()
        config = llm_pb2.LlmAttachConfig(session=name)
        try:
            await call.write(llm_pb2.LlmAttachRequest(config=config))
            assert (await call.read()).ready.instance == "llm-1"
            await all_answered.wait()
            await call.done_writing()
            assert await call.read() is grpc.aio.EOF
        except grpc.aio.AioRpcError as error:
            assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED, error
            assert "first of an answer" in (error.details() or "")
            refused += 1
            await all_answered.wait()

    async def gateway(number: int) -> None:
        for begin in range(0, RACES // 2, AT_ONCE):
            names = [f"g{number}-{begin + i}" for i in range(AT_ONCE)]
            await asyncio.gather(*(race(channels[number], name) for name in names))

    await asyncio.gather(gateway(0), gateway(1))
    for channel in channels:
        await channel.close()
    await server.stop(0)
    assert replica.let_in + refused == RACES
    assert refused, "nobody raced"
    assert replica.most == places, "all places were taken at some time, and never one more"
    assert replica.admission.meter.sessions == 0
