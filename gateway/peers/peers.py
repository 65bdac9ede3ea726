"""The other gateways of one address: which of them has a session, which has room for another.

A session's id ends with the name of the gateway that has it, and that one answers on the bus under
this name: whoever gets a request knows where it belongs, and whether that one is still there.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass

import nats.errors
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from gateway.stages.registry import Registry
from visavis.serving.discovery import Registration
from visavis.serving.errors import BusError, StageLostError, UnknownNameError
from visavis.wire.bus import Bus
from visavis.wire.subjects import gateway_subject

log = logging.getLogger(__name__)

ASK_S = 1.0
"""A gateway that says nothing for so long is frozen, or its machine is."""
GLANCE_S = 0.3
"""So long nobody who makes a session waits for a gateway that may have room."""
_OWNED = re.compile(r"[A-Za-z0-9_-]+-([0-9a-f]{8})")


@dataclass(frozen=True, slots=True)
class Peer:
    """One gateway. address: "host:port" of its own. free: sessions that it has room for."""

    instance: str
    address: str
    free: int


class Peers:
    """Tells the others of this gateway, and of them. `start` it, `stop` it.

    instance: our name on the bus. address: where the others reach us; "": they do not.
    """

    def __init__(
        self, bus: Bus, registry: Registry, instance: str, address: str, free: Callable[[], int]
    ) -> None:
        self._bus = bus
        self._registry = registry
        self._instance = instance
        self._address = address
        self._free = free
        self._registration: Registration | None = None
        self._asked: Subscription | None = None

    async def start(self) -> None:
        """The others find us from now on."""
        if not self._address:
            return
        subject = gateway_subject(owner_of(self._instance))
        self._asked = await self._bus.client.subscribe(subject, cb=self._tell)
        self._registration = Registration(
            self._bus,
            "gateway",
            instance=self._instance,
            addresses={"http": self._address, "metrics": self._address},
            states=lambda: (),
            wanted_device="",
        )
        await self._registration.start()

    async def stop(self) -> None:
        """Who asks for us from now on is told that we are gone."""
        if self._registration is not None:
            await self._registration.stop()
        if self._asked is not None and self._bus.connected:
            with contextlib.suppress(nats.errors.Error, OSError, BusError):
                await self._asked.unsubscribe()
                await self._bus.flush(ASK_S)

    async def address_of(self, session: str) -> str:
        """Where a session's gateway is; "": it is ours, or nobody's.

        Raises UnknownNameError where its gateway is gone, StageLostError where that one does not
        answer, BusError.
        """
        owned = _OWNED.fullmatch(session)
        if owned is None or owned[1] == owner_of(self._instance):
            return ""
        peer = await self._ask(owned[1])
        if peer is None:
            raise UnknownNameError("session: the gateway that had it is gone; make a new one")
        return peer.address

    async def roomier(self) -> str:
        """Address of the gateway with most room for a session; "": nobody has more than we."""
        best = max(await self.others(GLANCE_S), key=lambda peer: peer.free, default=None)
        return best.address if best is not None and best.free > self._free() else ""

    async def others(self, within_s: float = ASK_S) -> list[Peer]:
        """Those that answer."""
        known = [owner_of(g.instance) for g in self._registry.gateways]
        asked = (self._ask(o, within_s) for o in known if o != owner_of(self._instance))
        answers = await asyncio.gather(*asked, return_exceptions=True)
        return [answer for answer in answers if isinstance(answer, Peer)]

    async def _ask(self, owner: str, within_s: float = ASK_S) -> Peer | None:
        """None where it is gone. Raises StageLostError, BusError."""
        if not self._bus.connected:
            raise BusError("the bus is not connected")
        try:
            told = await self._bus.client.request(gateway_subject(owner), timeout=within_s)
            return Peer(**json.loads(told.data))
        except nats.errors.NoRespondersError:
            return None
        except nats.errors.TimeoutError:
            raise StageLostError("session: the gateway that has it does not answer") from None
        except (nats.errors.Error, OSError, ValueError, TypeError) as error:
            raise BusError(f"gateway {owner}: {error}") from error

    async def _tell(self, message: Msg) -> None:
        own = Peer(self._instance, self._address, self._free())
        await message.respond(json.dumps(asdict(own)).encode())


def owner_of(instance: str) -> str:
    """How sessions name a gateway: the end of its instance name."""
    return instance.rpartition("-")[2]


def session_id(instance: str) -> str:
    """A new session's id, by which any gateway finds the one that has it."""
    return f"{secrets.token_urlsafe(12)}-{owner_of(instance)}"
