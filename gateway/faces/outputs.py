"""Sends a session's poses to where the operator has said, in the tick in which they leave.

A destination shows one face: one session has it at a time. What is sent is a few hundred bytes to a
few thousand, 25 times a second; where the network does not take them, they are left out.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from gateway.faces.destinations import Destination, Sender
from gateway.faces.poses import Pose, pose_of
from gateway.playout.audience import Seats
from gateway.playout.playout import Tick
from visavis.serving.errors import StageLostError, UnknownNameError
from visavis.wire.media import VideoCodec

log = logging.getLogger(__name__)

TAKES = 3
"""Turns of which the poses are kept, the newest."""
LONGEST_TAKE = 3000
"""Poses: two minutes."""
_TICKS_PER_S = 90_000
_OPEN_S = 5.0
_MOST_WAITING_BYTES = 65_536


class FaceOutputs:
    """Sends the face of one session to the destinations that it has. A sink.

    seats: a destination takes one, as any viewer does. changed: called when one was added or given
    back.
    """

    def __init__(self, seats: Seats, changed: Callable[[], None]) -> None:
        self._seats = seats
        self._changed = changed
        self._opening: set[str] = set()
        self._open: dict[str, _Output] = {}
        self._takes: OrderedDict[int, list[tuple[int, bytes]]] = OrderedDict()

    @property
    def codecs(self) -> set[VideoCodec]:
        return {VideoCodec.BLENDSHAPES} if self._open else set()

    @property
    def attended(self) -> bool:
        """Whoever has connected it wants it to be seen, whether or not a browser is there."""
        return bool(self._open)

    @property
    def watched(self) -> bool:
        return bool(self._open)

    @property
    def names(self) -> list[str]:
        """Of the destinations to which poses go."""
        return list(self._open)

    def has(self, name: str) -> bool:
        """Whether poses go to the destination of this name, or are about to."""
        return name in self._open or name in self._opening

    async def connect(self, destination: Destination) -> None:
        """Send poses there from now on; harmless where that is so already.

        Raises StageLostError where its host has no address, AtCapacityError, UnknownNameError once
        the session is over.
        """
        name = destination.name
        if self.has(name):
            return
        self._seats.take()
        self._opening.add(name)
        try:
            output = await _Output.open(destination)
            try:
                self._seats.check_open()
            except UnknownNameError:
                output.close()
                raise
        except BaseException:
            self._seats.give_back()
            raise
        finally:
            self._opening.discard(name)
        self._open[name] = output
        self._changed()

    def disconnect(self, name: str) -> None:
        """Have the face rest there, and send no more. Raises UnknownNameError."""
        output = self._open.pop(name, None)
        if output is None:
            raise UnknownNameError(f"face output: the session has no {name[:40]!r}")
        output.close()
        self._seats.give_back()
        self._changed()

    def take(self, turn: int) -> list[tuple[int, Pose]]:
        """A turn's poses and their frames, counted from its first voice sample.

        Raises UnknownNameError.
        """
        kept = self._takes.get(turn)
        if not kept:
            raise UnknownNameError(
                f"turn {turn}: its poses are not here; those of the last {TAKES} turns are, whose "
                "face somebody drew or that went to a face output"
            )
        poses = ((frame, pose_of(payload)) for frame, payload in kept)
        return [(frame, pose) for frame, pose in poses if pose is not None]

    def push(self, tick: Tick) -> None:
        """Send the tick's poses."""
        for released in tick.pictures:
            picture = released.picture
            if picture.codec is not VideoCodec.BLENDSHAPES:
                continue
            if picture.turn and not picture.live:
                self._keep(picture.turn, picture.index, picture.payload)
            if self._open and (pose := pose_of(picture.payload)) is not None:
                for output in self._open.values():
                    output.send(pose, released.time / _TICKS_PER_S)

    def cut(self, turn: int) -> None:
        """Nothing: the next pose takes the place of the last."""

    async def close(self) -> None:
        for name in list(self._open):
            self.disconnect(name)

    def _keep(self, turn: int, index: int, payload: bytes) -> None:
        take = self._takes.setdefault(turn, [])
        while take and take[-1][0] >= index:
            take.pop()  # made anew after a pause
        if len(take) < LONGEST_TAKE:
            take.append((index, payload))
        while len(self._takes) > TAKES:
            self._takes.popitem(last=False)


class _Output(asyncio.DatagramProtocol):
    """One destination."""

    def __init__(self, destination: Destination) -> None:
        self._name = destination.name
        self._sender: Sender = destination.sender()
        self._transport: Any = None
        self._failing = False

    @classmethod
    async def open(cls, destination: Destination) -> _Output:
        """Raises StageLostError."""
        loop, output = asyncio.get_running_loop(), cls(destination)
        at = (destination.host, destination.port)
        try:
            async with asyncio.timeout(_OPEN_S):
                output._transport, _ = await loop.create_datagram_endpoint(
                    lambda: output, remote_addr=at
                )
        except (OSError, TimeoutError) as error:
            name = destination.name
            raise StageLostError(f"face output {name}: its host has no address") from error
        return output

    def error_received(self, exc: Exception) -> None:
        """Nobody listens there now; somebody may, later."""
        if not self._failing:
            self._failing = True
            log.info("face output %s: %s", self._name, exc)

    def send(self, pose: Pose, at_s: float) -> None:
        self._send(self._sender.frame(pose, at_s))

    def close(self) -> None:
        self._send(self._sender.rest())
        if self._transport is not None:
            self._transport.close()

    def _send(self, datagrams: list[bytes]) -> None:
        transport = self._transport
        if transport is None or transport.get_write_buffer_size() > _MOST_WAITING_BYTES:
            return
        for datagram in datagrams:
            transport.sendto(datagram)
