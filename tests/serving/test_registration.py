"""What a service tells of itself on the bus, while its engines step down."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from visavis.engine import EngineState
from visavis.serving import discovery
from visavis.serving.discovery import Registration, Replica, discover, placement
from visavis.tools.cli.up import placed
from visavis.tools.stack.nats_server import NatsServer
from visavis.wire.bus import Bus
from visavis.wire.levels import LEVEL

ON_GPU = EngineState("tensorrt", "cuda:0")
KEPT_ON_CPU = EngineState("onnxruntime", "cpu")
STEPPED_DOWN = EngineState("onnxruntime", "cpu", "stepped down: tensorrt on cuda:0: no device")


def test_a_gpu_comes_first_and_each_device_once() -> None:
    told = placement([KEPT_ON_CPU, ON_GPU, ON_GPU], "cuda:0")
    assert told == {"device": "cuda:0, cpu", "wanted": ""}


def test_a_step_down_tells_what_was_wanted() -> None:
    told = placement([STEPPED_DOWN, STEPPED_DOWN], "cuda:0")
    assert told == {"device": "cpu", "wanted": "cuda:0"}


def test_the_status_table_tells_a_step_down() -> None:
    def shown(device: str, wanted: str) -> str:
        return placed(Replica("tts", "tts-1", "0.1.0", "127.0.0.1:5", "", device, wanted))

    assert shown("cuda:0, cpu", "") == "cuda:0, cpu"
    assert "cpu (not cuda:0)" in shown("cpu", "cuda:0")


async def found(bus: Bus) -> list[Replica]:
    return await discover(bus.client, wait_s=0.02)


async def test_the_bus_learns_when_an_engine_steps_down(bus: Bus) -> None:
    states = [ON_GPU]
    registration = Registration(
        bus,
        "tts",
        instance="tts-1",
        addresses={"grpc": "127.0.0.1:5"},
        states=lambda: states,
        wanted_device="cuda:0",
        refresh_s=0.01,
    )
    await registration.start()
    (replica,) = await found(bus)
    assert (replica.grpc_address, replica.device, replica.wanted_device) == (
        "127.0.0.1:5",
        "cuda:0",
        "",
    )
    assert replica.level == LEVEL
    states[:] = [STEPPED_DOWN]
    async with asyncio.timeout(30):
        while (replica := (await found(bus))[0]).device != "cpu":
            pass
    assert replica.wanted_device == "cuda:0"
    await registration.stop()
    assert await found(bus) == []


async def test_a_bus_that_is_too_busy_to_answer_has_heard_of_a_service_all_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(discovery, "_START_TIMEOUT_S", 0.05)
    with NatsServer(tmp_path) as server:
        bus = await Bus.connect(server.url, name="test")
        registration = Registration(
            bus, "tts", instance="tts-1", addresses={"grpc": "x:5"}, states=list, wanted_device=""
        )
        server.process.started().suspend()
        try:
            await registration.start()
        finally:
            server.process.started().resume()
        (replica,) = await found(bus)
        assert replica.grpc_address == "x:5"
        await registration.stop()
        await bus.close()


async def test_who_knows_how_many_there_are_waits_for_no_others_and_longer_for_those(
    bus: Bus,
) -> None:
    """As long as it has for the first one otherwise."""
    started = [
        Registration(
            bus, name, instance=f"{name}-1", addresses={"grpc": "x"}, states=list, wanted_device=""
        )
        for name in ("tts", "face")
    ]
    for registration in started:
        await registration.start()
    async with asyncio.timeout(10):
        both = await discover(bus.client, wait_s=60.0, patience_s=60.0, all_are=2)
        assert [replica.service for replica in both] == ["face", "tts"]
        assert len(await discover(bus.client, wait_s=0.0, patience_s=0.1, all_are=3)) == 2
    for registration in started:
        await registration.stop()


async def test_what_was_never_started_can_be_stopped(bus: Bus) -> None:
    await Registration(
        bus, "tts", instance="tts-1", addresses={}, states=list, wanted_device="cpu"
    ).stop()
