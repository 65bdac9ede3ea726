"""What a process keeps on its own disk of what all have in common.

`Shelf` is its own copy of what a bucket holds, and `Shared` keeps the two alike.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Protocol, TypeVar

from visavis.serving.errors import AlreadyExistsError, AtCapacityError, BusError
from visavis.wire.bucket import (
    Bucket,
    NoStoreError,
    NotWholeError,
    State,
    Trouble,
    digest_of,
    is_digest,
)
from visavis.wire.bus import Bus

log = logging.getLogger(__name__)

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
    that met so, the bucket's is used. Nothing in the bucket is ever replaced.
    """

    def __init__(self, bus: Bus, shelf: Shelf, largest_bytes: int) -> None:
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
                if state != self._state or look:
                    await self._reconcile()
                    self._state = state
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
        for name, mine in kept.items():
            if index.get(name):
                continue
            if mine in buried:
                await self._do(partial(self._shelf.drop, name))
            elif not mine or name not in index:
                # Put by another process meanwhile, the next time brings it.
                with contextlib.suppress(AlreadyExistsError):
                    await self._put(name)

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
        await self._do(partial(self._shelf.note, name, digest))

    async def _do(self, work: Callable[[], T]) -> T | None:
        """What `work` returns; None where the disk, or what came, will not do."""
        try:
            return await asyncio.to_thread(work)
        except (OSError, ValueError) as error:
            log.warning("%s: %s", self._shelf.bucket, error)
            return None
