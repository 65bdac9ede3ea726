"""A service's entry in the NATS micro protocol: where it is, and where its networks run now."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version

import nats.micro
from nats.micro.service import Service as MicroService

from visavis.bus import Bus
from visavis.discovery import MICRO_PREFIX
from visavis.engine.base import EngineState

REFRESH_S = 2.0
"""How old the told device may be: an engine can step down at any time."""


class Registration:
    """Answers $SRV.PING and $SRV.INFO; the gateway finds replicas by them."""

    def __init__(
        self,
        bus: Bus,
        name: str,
        *,
        instance: str,
        addresses: Mapping[str, str],
        states: Callable[[], Sequence[EngineState]],
        wanted_device: str,
        refresh_s: float = REFRESH_S,
    ) -> None:
        """addresses: "host:port" by kind. states: of every engine, asked again and again."""
        self._bus = bus
        self._name = name
        self._states = states
        self._wanted_device = wanted_device
        self._refresh_s = refresh_s
        # The micro service keeps this very object and reads it for every answer.
        self._metadata = {"instance": instance, **addresses}
        self._micro: MicroService | None = None
        self._telling: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._metadata.update(placement(self._states(), self._wanted_device))
        self._micro = await nats.micro.add_service(
            self._bus.client,
            name=f"{MICRO_PREFIX}{self._name}",
            version=version("visavis"),
            description=f"visavis {self._name} service",
            metadata=self._metadata,
        )
        self._telling = asyncio.create_task(self._keep_telling(), name="registration")

    async def stop(self) -> None:
        """Nobody finds the service any more. Nothing if it was not started."""
        if self._telling is not None:
            self._telling.cancel()
            await asyncio.gather(self._telling, return_exceptions=True)
        if self._micro is not None:
            await self._micro.stop()

    async def _keep_telling(self) -> None:
        while True:
            await asyncio.sleep(self._refresh_s)
            self._metadata.update(placement(self._states(), self._wanted_device))


def placement(states: Sequence[EngineState], wanted_device: str) -> dict[str, str]:
    """`device`: where the networks run, a GPU first. `wanted`: where not all of them could be."""
    devices = sorted(dict.fromkeys(state.device for state in states), key=lambda d: d == "cpu")
    stepped_down = any(state.detail for state in states)
    return {"device": ", ".join(devices), "wanted": wanted_device if stepped_down else ""}
