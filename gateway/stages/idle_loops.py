"""Loops of idle life: fetched once for the process, held by the sessions that play them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import grpc.aio

from gateway import metrics
from gateway.background import Background
from gateway.playout.loops import IdleLoop, LoopShelf
from gateway.playout.pictures import Picture
from gateway.playout.playout import Playout
from gateway.stages.incoming import MAX_FPS, MAX_SIDE_PIXELS
from gateway.stages.registry import Registry
from gateway.stages.stages import Stages
from visavis.serving.discovery import Replica
from visavis.serving.errors import AtCapacityError, InvalidInputError, StageLostError, VisavisError
from visavis.serving.lifetime.supervision import Keeper
from visavis.v1 import face_pb2
from visavis.wire.clock import Clock, MonotonicClock
from visavis.wire.idle_order import times_drawn
from visavis.wire.media import VideoCodec

log = logging.getLogger(__name__)

# A second of the loop takes a face a tenth, where nothing else wants its processor.
PART_TIMEOUT_S = 30.0
RETRY_S = 30.0
_MOST_WANTED = 64


@dataclass(frozen=True, slots=True)
class Wanted:
    """A loop that some session would play. avatar: whose it is; "": the service's default one.

    listening: as it listens to somebody, instead of at rest.
    """

    digest: str
    codec: VideoCodec
    avatar: str
    listening: bool = False


class LoopLibrary:
    """Has the face draw loops, one after the other, and keeps them in bounded memory.

    `start` it, `close` it. limit_bytes: of all loops; 0: none is ever fetched.
    """

    def __init__(self, registry: Registry, limit_bytes: int, clock: Clock | None = None) -> None:
        self._registry = registry
        self._limit_bytes = limit_bytes
        self._clock = clock or MonotonicClock()
        self._shelf = LoopShelf(limit_bytes)
        self._wanted: dict[Wanted, None] = {}
        self._not_before_s: dict[Wanted, float] = {}
        self._news = asyncio.Event()
        self._fetcher = Keeper("idle-loops", self._fetch_wanted)

    def start(self) -> None:
        self._fetcher.start()

    async def close(self) -> None:
        await self._fetcher.stop()

    def take(self, wanted: Wanted) -> IdleLoop | None:
        """Use a loop, up to `give_back`. None where it is not here: it is then being fetched."""
        loop = self._shelf.take(wanted.digest, wanted.codec, listening=wanted.listening)
        if loop is None and self._limit_bytes and wanted not in self._wanted:
            tried = self._not_before_s.get(wanted, 0.0) > self._clock.now()
            if not tried and len(self._wanted) < _MOST_WANTED:
                self._wanted[wanted] = None
                self._news.set()
        return loop

    def give_back(self, loop: IdleLoop) -> None:
        """One that was taken is not used any more."""
        self._shelf.give_back(loop)

    def forget(self, avatar: str) -> None:
        """An avatar was deleted: no loop of it is kept, or fetched."""
        self._shelf.forget(avatar)
        self._give_up(avatar)
        metrics.loops.set(len(self._shelf))
        metrics.loop_bytes.set(self._shelf.bytes)

    def rename(self, avatar: str, new_name: str) -> None:
        """An avatar is called so now: its loops stay, and those on their way are asked for anew."""
        self._shelf.rename(avatar, new_name)
        self._give_up(avatar)

    def _give_up(self, avatar: str) -> None:
        """Nothing is fetched of what is called so."""
        self._wanted = {w: None for w in self._wanted if w.avatar != avatar}
        self._not_before_s = {w: at for w, at in self._not_before_s.items() if w.avatar != avatar}

    async def _fetch_wanted(self) -> None:
        while True:
            while not self._wanted:
                self._news.clear()
                await self._news.wait()
            wanted = next(iter(self._wanted))
            try:
                result = await self._fetch(wanted)
            finally:
                self._wanted.pop(wanted, None)
            metrics.loop_fetches.labels(result).inc()
            metrics.loops.set(len(self._shelf))
            metrics.loop_bytes.set(self._shelf.bytes)
            if result != "kept":
                now_s = self._clock.now()
                known = self._not_before_s.items()
                self._not_before_s = {one: at for one, at in known if at > now_s}
                self._not_before_s[wanted] = now_s + RETRY_S

    async def _fetch(self, wanted: Wanted) -> str:
        """What became of it."""
        if wanted.listening and not self._shelf.room_to_listen(wanted.digest, wanted.codec):
            return "refused"
        for state in self._registry.replicas("face"):
            if not state.healthy:
                continue
            try:
                loop = await self._ask(state.replica, wanted)
            except AtCapacityError as error:
                log.warning("idle loop: %s", error)
                return "refused"
            except VisavisError as error:
                log.warning("idle loop of %s: %s", state.replica.instance, error)
                continue
            if loop is None:
                return "refused"
            if self._shelf.put(loop, wanted.avatar):
                return "kept"
            log.warning("idle loop: those in use leave no room; see loop_memory_mb")
            return "refused"
        return "failed"

    async def _ask(self, replica: Replica, wanted: Wanted) -> IdleLoop | None:
        """None where the avatar was deleted meanwhile, of which then nothing more is drawn.

        Raises VisavisError where it cannot be had, or is another one.
        """
        codec: Any = int(wanted.codec)  # as the generated code's annotations want it
        request = face_pb2.RenderLoopRequest(
            avatar=wanted.avatar, codec=codec, listening=wanted.listening
        )
        call = self._registry.stub(replica).RenderLoop(request)
        parts: list[bytes] = []
        keyframes: list[bool] = []
        size, record = 0, None
        try:
            while (answer := await asyncio.wait_for(call.read(), PART_TIMEOUT_S)) is not _END:
                if wanted not in self._wanted:
                    return None
                if answer.WhichOneof("response") == "loop":
                    record = _checked(answer.loop, wanted)
                    continue
                for picture in answer.pictures.pictures:
                    size += len(picture.data)
                    parts.append(picture.data)
                    keyframes.append(picture.keyframe)
                if size > self._limit_bytes:
                    raise AtCapacityError(f"it is larger than {self._limit_bytes} bytes")
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError) as error:
            told = error.details() if isinstance(error, grpc.aio.AioRpcError) else str(error)
            raise StageLostError(told or "the face does not answer") from None
        except TimeoutError:
            raise StageLostError(f"the face has drawn nothing for {PART_TIMEOUT_S:g} s") from None
        finally:
            call.cancel()
        return _loop_of(record, wanted, parts, keyframes) if wanted in self._wanted else None


_END: Any = grpc.aio.EOF


def _checked(record: face_pb2.IdleLoop, wanted: Wanted) -> face_pb2.IdleLoop:
    if record.digest != wanted.digest:
        raise InvalidInputError("the avatar is another one by now")
    sides = (record.width, record.height)
    if not 1 <= record.fps <= MAX_FPS or not all(1 <= side <= MAX_SIDE_PIXELS for side in sides):
        raise InvalidInputError(f"it has {record.fps} pictures a second of {sides} pixels")
    if record.listening is not wanted.listening:
        raise InvalidInputError("the face is older and does not know how it listens")
    parts = max(1, record.segments) * times_drawn(listening=record.listening)
    if record.pictures % parts:
        raise InvalidInputError(f"{record.pictures} pictures are no {parts} parts")
    return record


def _loop_of(
    record: face_pb2.IdleLoop | None, wanted: Wanted, parts: list[bytes], keyframes: list[bool]
) -> IdleLoop:
    if record is None or not parts or len(parts) != record.pictures or not keyframes[0]:
        raise InvalidInputError(f"only {len(parts)} of its pictures have come")
    pictures = tuple(
        Picture(
            turn=0,
            index=k,
            live=True,
            codec=wanted.codec,
            keyframe=keyframe,
            width=record.width,
            height=record.height,
            fps=record.fps,
            payload=payload,
            motion_frame=k,
            loop=wanted.digest,
            at_rest=True,
            listening=wanted.listening,
        )
        for k, (payload, keyframe) in enumerate(zip(parts, keyframes, strict=True))
    )
    segments = max(1, record.segments)
    return IdleLoop(wanted.digest, wanted.codec, pictures, segments, wanted.listening)


class SessionLoops:
    """Gets one session the loops of its face, and tells the face who shows its idle life.

    avatar: that which the session wears.
    """

    def __init__(
        self,
        playout: Playout,
        library: LoopLibrary,
        stages: Stages,
        background: Background,
        avatar: Callable[[], str],
    ) -> None:
        self._playout = playout
        self._library = library
        self._stages = stages
        self._background = background
        self._avatar = avatar
        self._held: list[IdleLoop] = []

    def tick(self) -> None:
        """Call after each tick of playout."""
        for order in self._playout.idle.take_orders():
            self._background.run(self._stages.tell_idle(order))
        while self._playout.idle.skips:
            skipped = self._playout.idle.skips.pop()
            log.debug("a turn ends the loop: %d frames are left out", skipped)
            metrics.loop_skips.observe(abs(skipped))
        digest = self._playout.idle.digest
        self._give_back([held for held in self._held if held.digest != digest])
        for codec, listening in self._playout.missing_loops:
            loop = self._library.take(Wanted(digest, codec, self._avatar(), listening))
            if loop is not None:
                self._held.append(loop)
                self._playout.idle.offer(loop)

    def close(self) -> None:
        """Nothing is played any more."""
        self._give_back(list(self._held))

    def _give_back(self, loops: list[IdleLoop]) -> None:
        for loop in loops:
            self._held.remove(loop)
            self._library.give_back(loop)
