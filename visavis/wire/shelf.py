"""What a process keeps on its own disk of what all have in common.

`Shelf` is its own copy of what a bucket holds, and `Shared` keeps the two alike.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Protocol, TypeVar

from visavis.serving.errors import AlreadyExistsError, AtCapacityError, BusError
from visavis.wire.bucket import (
    Bucket,
    NoRoomError,
    NoStoreError,
    NotWholeError,
    State,
    Trouble,
    digest_of,
    is_digest,
)
from visavis.wire.bus import Bus
from visavis.wire.clock import Clock, MonotonicClock

log = logging.getLogger(__name__)

# It takes all of an upload to be told that there is no room.
_NO_ROOM_S = 60.0

T = TypeVar("T")


class Shelf(Protocol):
    """A process's own copies, on its disk. What it does blocks; one call follows the other."""

    bucket: str
    """What the bucket is called."""

    def kept(self) -> Mapping[str, str]:
        """Digests by name, as in the bucket; "" for what has never been in it."""
        ...

    def pack(self, name: str) -> bytes:
        """The same bytes for the same content. Raises OSError."""
        ...

    def take(self, name: str, packed: bytes, digest: str) -> None:
        """Keep this from now on, in place of what had the name. Raises OSError, and ValueError
        for what is no such thing.
        """
        ...

    def note(self, name: str, digest: str) -> None:
        """What it keeps under that name is in the bucket now. Raises OSError."""
        ...

    def drop(self, name: str) -> None:
        """Forget it; nothing where it is not there. Raises OSError."""
        ...

    def deleted(self) -> Mapping[str, str]:
        """What was deleted here and may still be in the bucket: its digests there, by name."""
        ...

    def settle(self, name: str) -> None:
        """What was deleted under that name is not in the bucket any more. Raises OSError."""
        ...

    def buried(self) -> Collection[str]:
        """Digests of what was deleted for good, here or elsewhere: none of it is to come back from
        a disk that was away, though the bus be new and know of no deletion. Of each there is no
        other one with the same digest. Raises OSError.
        """
        ...

    def bury(self, digests: Collection[str]) -> None:
        """Others have deleted these for good. Raises OSError."""
        ...


class Shared:
    """Keeps a shelf and its bucket alike: asked before the shelf is used, told what was changed.

    Where the bus keeps nothing, the shelf stays as it is and says so once, in the log. What was
    put on it meanwhile comes into the bucket as soon as there is one; of two things of one name
    that met so, the bucket's is used. Nothing in the bucket is ever replaced. What it has no room
    for is tried again a minute later.
    """

    def __init__(
        self, bus: Bus, shelf: Shelf, largest_bytes: int, clock: Clock | None = None
    ) -> None:
        """clock: by which what there was no room for is tried again."""
        self._clock = clock or MonotonicClock()
        self._no_room: dict[str, float] = {}
        """When each of those is tried again, by name."""
        self._bucket = Bucket(bus, shelf.bucket, largest_bytes)
        self._shelf = shelf
        self._state: State | None = None
        self._trouble = Trouble("kept on this machine's disk alone")
        self._syncing = asyncio.Lock()

    async def sync(self, *, look: bool = False) -> None:
        """Have the shelf be as the bucket is. look: even if no other process has changed anything.

        Never fails: what cannot be had is told in the log, and the shelf is used as it is.
        """
        async with self._syncing:
            try:
                state = await self._bucket.state()
                due = any(self._may_try(name) for name in self._no_room)
                if state != self._state or look or due:
                    await self._reconcile()
                    self._state = state
                if not self._no_room:
                    self._trouble.over()
            except BusError as error:
                self._trouble.tell(error)

    async def share(self, name: str) -> None:
        """It is new on the shelf. Where that fails, the next `sync` makes up for it.

        Raises AlreadyExistsError where another process was faster with one of this name: then it
        is dropped here, and the next `sync` brings the other one.
        """
        async with self._syncing:
            try:
                await self._put(name)
            except AlreadyExistsError:
                await self._do(partial(self._shelf.drop, name))
                self._state = None
                raise
            except BusError as error:
                self._trouble.tell(error)

    async def forget(self, name: str) -> None:
        """It was deleted: delete it from the bucket, and so from all shelves.

        Raises BusError; the next `sync` makes up for it.
        """
        async with self._syncing:
            try:
                await self._bucket.delete(name)
                self._no_room.clear()
                await self._do(partial(self._shelf.settle, name))
                await self._bury(await self._bucket.index())
            except NoStoreError as error:
                self._trouble.tell(error)

    async def _reconcile(self) -> None:
        index, kept = await self._bucket.index(), await self._do(self._shelf.kept) or {}
        buried = await self._bury(index)
        deleted = await self._do(self._shelf.deleted) or {}
        for name, digest in list(index.items()):
            if digest and (digest in buried or digest == deleted.get(name)):
                await self._bucket.delete(name)
                del index[name]  # what we have of that name is another one
        for name in deleted:
            await self._do(partial(self._shelf.settle, name))
        for name, digest in index.items():
            mine = kept.get(name)
            if not digest and mine:
                await self._do(partial(self._shelf.drop, name))
            elif digest and mine != digest:
                await self._fetch(name, digest, there=mine is not None)
        self._no_room = {name: at for name, at in self._no_room.items() if name in kept}
        for name, mine in kept.items():
            if index.get(name):
                self._no_room.pop(name, None)
                continue
            if mine in buried:
                await self._do(partial(self._shelf.drop, name))
            elif (not mine or name not in index) and self._may_try(name):
                # Put by another process meanwhile, the next time brings it.
                with contextlib.suppress(AlreadyExistsError):
                    try:
                        await self._put(name)
                    except NoRoomError as error:  # there may be for the next one
                        self._trouble.tell(error)

    async def _bury(self, index: Mapping[str, str]) -> Collection[str]:
        """Have shelf and bucket know of the same burials; the digests of all."""
        there = {name for name in index if is_digest(name)}
        known = await self._do(self._shelf.buried) or ()
        for digest in {*known} - there:
            await self._bucket.bury(digest)
        if new := there.difference(known):
            await self._do(partial(self._shelf.bury, new))
        return {*there, *known}

    async def _fetch(self, name: str, digest: str, *, there: bool) -> None:
        own = await self._do(partial(self._shelf.pack, name)) if there else None
        if own is not None and digest_of(own) == digest:
            await self._do(partial(self._shelf.note, name, digest))
            return
        try:
            packed = await self._bucket.get(name)
        except NotWholeError as error:  # the others are none the worse for it
            log.warning("%s", error)
            return
        if packed is None:
            log.warning("%s: %r is gone, or too large", self._shelf.bucket, name)
            return
        await self._do(partial(self._shelf.take, name, packed, digest_of(packed)))

    async def _put(self, name: str) -> None:
        packed = await self._do(partial(self._shelf.pack, name))
        if packed is None:
            return
        try:
            digest = await self._bucket.put(name, packed, new=True)
        except AtCapacityError as error:
            log.warning("%s: %s", self._shelf.bucket, error)
            return
        except NoRoomError:
            self._no_room[name] = self._clock.now() + _NO_ROOM_S
            raise
        self._no_room.pop(name, None)
        await self._do(partial(self._shelf.note, name, digest))

    def _may_try(self, name: str) -> bool:
        return self._clock.now() >= self._no_room.get(name, -math.inf)

    async def _do(self, work: Callable[[], T]) -> T | None:
        """What `work` returns; None where the disk, or what came, will not do."""
        try:
            return await asyncio.to_thread(work)
        except (OSError, ValueError) as error:
            log.warning("%s: %s", self._shelf.bucket, error)
            return None
