"""What all processes on one bus have in common, by name, and what outlives each of them.

`Bucket` is JetStream's object store as far as we use it, on disks; `Records` its key-value store,
in the bus's memory. `keep_buckets` is the bus's operator's part.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import io
import json
import logging
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.js import JetStreamContext
from nats.js.api import (
    DiscardPolicy,
    Header,
    ObjectInfo,
    PubAck,
    RawStreamMsg,
    StorageType,
    StreamConfig,
    StreamInfo,
)
from nats.js.kv import MSG_ROLLUP_SUBJECT
from nats.js.object_store import ObjectStore

from visavis.serving.errors import AlreadyExistsError, AtCapacityError, BusError
from visavis.wire.bus import Bus
from visavis.wire.permissions import RECORDS, User

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

log = logging.getLogger(__name__)

_ASK_S, _CARRY_S = 2.0, 20.0
"""How long a question and a whole object may take."""
_LOOK_EVERY_S = 5.0
_ATTEMPTS = 16
"""How often a change is tried that others are faster with; one of them gets through each time."""
_DIGEST = "SHA-256="
"""How digests begin, and names never do."""
_FULL = frozenset({10002, 10023, 10028, 10047, 10077})
"""What JetStream says where it has no room, of the account, the disk, the memory or the stream."""
_FOR_NOW = 10008
"""What it says while too few of its servers are there, or they have not agreed on a leader yet."""
_OTHERS_WERE_FASTER = frozenset({10071, 10164})
"""What it says of a record that was to follow another one than it does."""

RECORDS_AGE_S = 300.0
"""So long the bus remembers a record that nobody writes anew."""
_RECORDS_BYTES = 256 * 1024 * 1024
"""Most that all records of one kind may take of each server's memory."""
_WRITER = "Visavis-Writer"
"""Header of a record."""

State = tuple[str, int]
"""Of a bucket: when it was made, and the number of its last change."""


class NoStoreError(BusError):
    """The NATS server keeps nothing: it runs without JetStream."""


class NotLetError(BusError):
    """The NATS server does not let this user."""


class NoRoomError(BusError):
    """The NATS server may keep no more than it does."""


class TooLargeError(BusError):
    """A record is larger than what the NATS server takes in one message."""


class NotWholeError(BusError):
    """What is in a bucket is not what was put: it is being changed, or damaged for good."""


class Trouble:
    """Tells in the log what stands in the way of sharing: once, until it is over or another one."""

    def __init__(self, what_follows: str) -> None:
        self._what_follows = what_follows
        self._told = ""

    def tell(self, error: Exception) -> None:
        if str(error) != self._told:
            self._told = str(error)
            log.warning("%s: %s", self._what_follows, error)

    def over(self) -> None:
        self._told = ""


def digest_of(content: bytes) -> str:
    """As the object store tells it of what it holds."""
    return told_digest(hashlib.sha256(content).digest())


def told_digest(sha256: bytes) -> str:
    """A digest, 32 bytes, as the object store tells it."""
    return _DIGEST + base64.urlsafe_b64encode(sha256).decode()


def is_digest(name: str) -> bool:
    """Whether it is the digest of something buried, of all that an index has."""
    return name.startswith(_DIGEST)


class _Kept(ABC):
    """One of JetStream's streams, and what it answers in our own words."""

    def __init__(self, bus: Bus, name: str, stream: str) -> None:
        self._bus = bus
        self._name = name
        self._stream = stream

    async def make(self, servers: int = 1) -> bool:
        """Have it be on so many of the bus's servers; what is in one that is there stays.

        For who may make one. Whether it was not there. Raises NoStoreError, BusError.
        """
        async with self._asking(_CARRY_S) as js:
            try:
                found = await js.stream_info(self._stream)
            except nats.js.errors.NotFoundError:
                await self._make(js, servers)
                return True
            if found.config.num_replicas != servers:
                await js.update_stream(found.config, num_replicas=servers)
            return False

    async def _make_as_needed(self, js: JetStreamContext) -> None:
        """Raises BusError."""
        if self._bus.login is not None and self._bus.login.user is not User.OPERATOR:
            raise BusError(
                f"{self._name}: the bus has no such store, and its operator alone makes them"
            )
        await self._make(js, 1)

    @abstractmethod
    async def _make(self, js: JetStreamContext, servers: int) -> None:
        """It is not there."""

    async def _messages(self, subject: str, seq: int = 0) -> AsyncIterator[RawStreamMsg]:
        """What is kept under a subject, which may be a pattern, in the order of its keeping, from
        behind that number on.
        """
        js = self._bus.client.jetstream(timeout=_ASK_S)
        while True:
            try:
                kept = await js.get_msg(self._stream, seq + 1, subject, next=True)
            except nats.js.errors.NotFoundError:
                return
            seq = kept.seq or seq + 1
            yield kept

    @asynccontextmanager
    async def _asking(self, timeout_s: float | None) -> AsyncIterator[JetStreamContext]:
        if not self._bus.connected:
            raise BusError(f"{self._name}: the bus is not connected")
        self._bus.refused = ""
        try:
            async with asyncio.timeout(timeout_s):
                yield self._bus.client.jetstream(timeout=_ASK_S)
        except (nats.errors.Error, OSError, TimeoutError) as error:
            raise self._told(error) from error

    def _told(self, error: Exception) -> BusError:
        if isinstance(error, nats.js.errors.APIError):
            if error.err_code in _FULL:
                return NoRoomError(
                    f"{self._name}: the NATS server has no room for more: {error.description}"
                )
            if error.err_code == _FOR_NOW:
                return BusError(f"{self._name}: too few of the NATS servers are there, for now")
        if isinstance(error, nats.errors.MaxPayloadError):
            return TooLargeError(f"{self._name}: a record is larger than a message may be")
        if isinstance(error, nats.js.errors.ServiceUnavailableError):
            return NoStoreError(f"{self._name}: the NATS server has no JetStream (-js)")
        if self._bus.refused and self._bus.login is not None:
            return NotLetError(
                f"{self._name}: the bus does not let the user {self._bus.login.user} do that; a "
                "bus.conf of an older version has to be written anew, with `visavis keys`"
            )
        return BusError(f"{self._name}: {str(error) or type(error).__name__}")


class Bucket(_Kept):
    """Objects of at most `largest_bytes` by name.

    Made when first needed, where the bus lets in everybody; else by its operator beforehand
    (`visavis/wire/permissions.py`), as where it is to be on several disks, or of another size.
    Read message by message: a consumer would be told where to send, and that may be anywhere.
    """

    def __init__(self, bus: Bus, name: str, largest_bytes: int) -> None:
        super().__init__(bus, name, f"OBJ_{name}")
        self._largest_bytes = largest_bytes
        self._index: dict[str, str] = {}
        self._read: State = ("", 0)
        """Up to which change the index is read."""

    async def state(self) -> State:
        """Changes with every object. Raises NoStoreError, BusError."""
        async with self._open(_ASK_S) as (stream, _):
            return str(stream.created), stream.state.last_seq

    async def index(self) -> dict[str, str]:
        """Digests by name; "" for what was deleted, and for digests that were buried.

        Those notes are kept for ever, and become many: only what is new is asked for. Raises
        NoStoreError, BusError.
        """
        async with self._open(_CARRY_S) as (stream, _):
            made, read = self._read
            there = stream.state
            if made != str(stream.created) or not there.first_seq - 1 <= read <= there.last_seq:
                self._index, self._read, read = {}, (str(stream.created), 0), 0
            index = self._index
            async for record in self._messages(f"$O.{self._name}.M.>", read):
                told = json.loads(record.data or b"")
                index[told["name"]] = "" if told.get("deleted") else told.get("digest") or ""
                self._read = str(stream.created), record.seq or read
            return dict(index)

    async def put(self, name: str, content: bytes, *, new: bool = False) -> str:
        """The digest. Cancelled, it leaves no half of it in the bucket.

        new: not in place of another one, whoever puts that at the same time; what is damaged is
        none. Raises AlreadyExistsError then, AtCapacityError for what is too large, NoStoreError,
        BusError.
        """
        async with self._open(_CARRY_S) as (_, store):
            if new:
                store = await self._only_new(name)
            try:
                return await self._put_in(store, name, content)
            except nats.js.errors.APIError as error:
                if new and error.err_code in _OTHERS_WERE_FASTER:
                    raise self._taken(name) from error
                raise

    async def change(self, name: str, change: Callable[[bytes | None], bytes]) -> None:
        """Put what `change` makes of what is there, so that nobody's change is lost.

        None is what it is given where nothing is there, or what is there is damaged or too large;
        it is asked again where another process was faster. Raises AtCapacityError, NoStoreError,
        BusError.
        """
        stream, subject = self._stream, self._record_of(name)
        js = self._bus.client.jetstream(timeout=_ASK_S)
        for _ in range(_ATTEMPTS):
            async with self._open(_CARRY_S):
                follows, found = 0, None
                with contextlib.suppress(nats.js.errors.NotFoundError, NotWholeError):
                    follows = (await js.get_last_msg(stream, subject)).seq or 0
                    found = await self.get(name)
                following = _Following(self._bus.client, subject, follows)
                store = ObjectStore(self._name, stream, following)
                try:
                    await self._put_in(store, name, change(found))
                except nats.js.errors.APIError as error:
                    if error.err_code not in _OTHERS_WERE_FASTER:
                        raise
                else:
                    return
        raise BusError(f"{self._name}: others change {name!r} all the time")

    async def _put_in(self, store: ObjectStore, name: str, content: bytes) -> str:
        if len(content) > self._largest_bytes:
            raise AtCapacityError(
                f"{name!r} has {len(content)} bytes, of which {self._largest_bytes} can be shared"
            )
        return await _put_whole(store, name, _Reader(io.BytesIO(content)))

    async def _only_new(self, name: str) -> ObjectStore:
        """One that takes nothing of this name once somebody else has put it there, too.

        Raises AlreadyExistsError where it is there already.
        """
        stream, subject = self._stream, self._record_of(name)
        js, follows = self._bus.client.jetstream(timeout=_ASK_S), 0
        with contextlib.suppress(nats.js.errors.NotFoundError, NotWholeError):
            follows = (await js.get_last_msg(stream, subject)).seq or 0
            if await self.get(name) is not None:
                raise self._taken(name)
        return ObjectStore(self._name, stream, _Following(self._bus.client, subject, follows))

    def _record_of(self, name: str) -> str:
        return f"$O.{self._name}.M.{base64.urlsafe_b64encode(name.encode()).decode()}"

    def _taken(self, name: str) -> AlreadyExistsError:
        return AlreadyExistsError(f"{self._name}: there is already {name!r}, of somebody else")

    async def get(self, name: str) -> bytes | None:
        """None where it is not there (any more), or too large.

        Raises NotWholeError, NoStoreError, BusError.
        """
        async with self._open(_CARRY_S) as (_, store):
            try:
                info = await store.get_info(name)
            except nats.js.errors.NotFoundError:
                return None
            if (info.size or 0) > self._largest_bytes:
                return None
            return b"".join([piece async for piece in self._pieces(info)])

    async def put_file(self, name: str, path: Path, told: Callable[[int], object]) -> None:
        """Like `put`, for what is too large for memory, and as long as it takes.

        told: called with the bytes of each piece as it goes, from a thread. Cancelled, it leaves no
        half of a file in the bucket. Raises OSError besides.
        """
        with await asyncio.to_thread(path.open, "rb") as file:
            if (size_bytes := os.fstat(file.fileno()).st_size) > self._largest_bytes:
                raise AtCapacityError(
                    f"{path} has {size_bytes} bytes, of which {self._largest_bytes} can be shared"
                )
            async with self._open(None) as (_, store):
                await _put_whole(store, name, _Reader(file, told))

    async def pieces(self, name: str) -> AsyncIterator[bytes]:
        """Like `get`, piece by piece, for what is too large for memory, and as long as it takes.

        Raises BusError where it is not there (any more), or too large.
        """
        async with self._open(None) as (_, store):
            try:
                info = await store.get_info(name)
            except nats.js.errors.NotFoundError:
                raise BusError(f"{self._name}: {name!r} is not there any more") from None
            if (info.size or 0) > self._largest_bytes:
                raise BusError(f"{self._name}: {name!r} has {info.size} bytes, which is too much")
            async for piece in self._pieces(info):
                yield piece

    async def _pieces(self, info: ObjectInfo) -> AsyncIterator[bytes]:
        """Raises NotWholeError, at the end perhaps, where it is not what was put."""
        changed = NotWholeError(
            f"{self._name}: {info.name!r} has changed while it was read, or is damaged"
        )
        digest, size_bytes = hashlib.sha256(), 0
        async for message in self._messages(f"$O.{self._name}.C.{info.nuid}"):
            piece = message.data or b""
            digest.update(piece)
            size_bytes += len(piece)
            if size_bytes > (info.size or 0):
                raise changed
            yield piece
        if told_digest(digest.digest()) != info.digest:
            raise changed

    async def delete(self, name: str, *, overwrite: bool = True) -> None:
        """Whether it was there or not. Raises NoStoreError, BusError.

        overwrite: its content where it lies, because what is only deleted stays in the server's
        files; it takes as long as to read it.
        """
        async with self._open(_CARRY_S) as (_, store):
            try:
                info = await store.get_info(name)
                if overwrite:
                    await self._overwrite(f"$O.{self._name}.C.{info.nuid}")
                await store.delete(name)
            except nats.js.errors.NotFoundError:
                return

    async def bury(self, digest: str) -> None:
        """Note that what has this digest was deleted, under whatever name: `index` tells it as a
        name. Raises NoStoreError, BusError.
        """
        async with self._open(_CARRY_S):
            note = {"name": digest, "bucket": self._name, "nuid": digest, "deleted": True}
            newest: dict[str, str] = {Header.ROLLUP: MSG_ROLLUP_SUBJECT}
            js = self._bus.client.jetstream(timeout=_ASK_S)
            record = json.dumps(note).encode()
            await js.publish(self._record_of(digest), record, headers=newest)

    async def _overwrite(self, subject: str) -> None:
        js = self._bus.client.jetstream(timeout=_ASK_S)
        kept = [message.seq or 0 async for message in self._messages(subject)]
        try:
            for seq in kept:
                await js.delete_msg(self._stream, seq)
        except nats.errors.TimeoutError:
            # The users of a server that was set up by an older version may not.
            log.warning("%s: what was deleted is not overwritten: it was refused", self._name)

    async def _make(self, js: JetStreamContext, servers: int) -> None:
        await js.create_object_store(self._name, replicas=servers)

    @asynccontextmanager
    async def _open(self, timeout_s: float | None) -> AsyncIterator[tuple[StreamInfo, ObjectStore]]:
        async with self._asking(timeout_s) as js:
            yield await self._found(js), ObjectStore(self._name, self._stream, js)

    async def _found(self, js: JetStreamContext) -> StreamInfo:
        try:
            return await js.stream_info(self._stream)
        except nats.js.errors.NotFoundError:
            await self._make_as_needed(js)
            return await js.stream_info(self._stream)


class _Following(JetStreamContext):
    """Has the server refuse a record that does not follow the one of that number; 0: it is the
    first.
    """

    def __init__(self, client: Client, subject: str, follows: int) -> None:
        super().__init__(client, timeout=_ASK_S)
        self._subject, self._follows = subject, follows

    async def publish(self, subject: str, *content: Any, **told: Any) -> PubAck:
        if subject == self._subject:
            expected = {Header.EXPECTED_LAST_SUBJECT_SEQUENCE: str(self._follows)}
            told["headers"] = {**told.get("headers", {}), **expected}
        return await super().publish(subject, *content, **told)


class _Reader(io.BufferedIOBase):
    """A file that tells how much of it is read, until it is `cancelled`."""

    def __init__(
        self, file: io.BufferedIOBase, told: Callable[[int], object] = lambda read: None
    ) -> None:
        self._file = file
        self._told = told
        self.cancelled = False

    def readinto(self, buffer: WriteableBuffer) -> int:
        if self.cancelled:
            raise OSError("it was cancelled")
        read = self._file.readinto(buffer)
        self._told(read)
        return read


async def _put_whole(store: ObjectStore, name: str, content: _Reader) -> str:
    """The digest. Cancelled, it returns once nothing of it is there that the index does not name.

    The client takes back what failed, but not what was cancelled.
    """
    putting = asyncio.create_task(store.put(name, content))
    try:
        return (await asyncio.shield(putting)).digest or ""
    except asyncio.CancelledError:
        content.cancelled = True
        await asyncio.gather(putting, return_exceptions=True)
        raise


@dataclass(frozen=True, slots=True)
class Record:
    """writer: name of who has written it; "": he told none. seq: number of that writing."""

    key: str
    content: bytes
    writer: str
    seq: int

    @property
    def ended(self) -> bool:
        """Whether all that it tells is that what it was of has ended."""
        return not self.content


class Records(_Kept):
    """Records by key, each forgotten `RECORDS_AGE_S` after it was written last.

    Keys are names with dots between them. Made and read as a `Bucket` is.
    """

    def __init__(self, bus: Bus, name: str, writer: str = "") -> None:
        """writer: our name in what we write."""
        super().__init__(bus, name, f"KV_{name}")
        self._writer = writer

    async def get(self, key: str) -> Record | None:
        """Raises NoStoreError, BusError."""
        async with self._asking(_ASK_S) as js:
            try:
                return self._record(await js.get_last_msg(self._stream, self._subject(key)))
            except nats.js.errors.NotFoundError:
                return None

    async def matching(self, pattern: str, behind: int = 0) -> AsyncGenerator[Record, None]:
        """Those of which the keys match, "*" being any one name, one by one, in the order of their
        writing. behind: only those that were written after that number. Raises NoStoreError,
        BusError.
        """
        async with self._asking(None):
            async for message in self._messages(self._subject(pattern), behind):
                yield self._record(message)

    async def put(self, key: str, content: bytes, follows: int | None = None) -> int:
        """The number of this writing.

        follows: that of the one whose place it takes; 0: it is the first. Raises AlreadyExistsError
        where another one is there, NoRoomError, TooLargeError, NoStoreError, BusError.
        """
        told = {_WRITER: self._writer}
        expected = dict(told)
        if follows is not None:
            expected[Header.EXPECTED_LAST_SUBJECT_SEQUENCE] = str(follows)
        async with self._asking(_CARRY_S) as js:
            try:
                return (await js.publish(self._subject(key), content, headers=expected)).seq
            except nats.js.errors.NoStreamResponseError:
                await self._make_as_needed(js)
                return (await js.publish(self._subject(key), content, headers=told)).seq
            except nats.js.errors.APIError as error:
                if error.err_code not in _OTHERS_WERE_FASTER:
                    raise
                raise AlreadyExistsError(f"{self._name}: others have written {key!r}") from error

    async def drop(self, seq: int) -> None:
        """What was written under that number, unless another writing has taken its place.

        Raises NoStoreError, BusError.
        """
        async with self._asking(_ASK_S) as js:
            with contextlib.suppress(nats.js.errors.NotFoundError, nats.js.errors.BadRequestError):
                await js.delete_msg(self._stream, seq)

    def _subject(self, key: str) -> str:
        return f"$KV.{self._name}.{key}"

    def _record(self, message: RawStreamMsg) -> Record:
        key = (message.subject or "").removeprefix(self._subject(""))
        writer = (message.headers or {}).get(_WRITER, "")
        return Record(key, message.data or b"", writer, message.seq or 0)

    async def _make(self, js: JetStreamContext, servers: int) -> None:
        config = StreamConfig(
            name=self._stream,
            subjects=[self._subject(">")],
            storage=StorageType.MEMORY,
            max_msgs_per_subject=1,
            max_age=RECORDS_AGE_S,
            max_bytes=_RECORDS_BYTES,
            discard=DiscardPolicy.NEW,
            num_replicas=servers,
        )
        await js.add_stream(config)


async def make_buckets(bus: Bus, names: Iterable[str], servers: int = 1) -> None:
    """Have each be there; see `Bucket.make`. Raises NoStoreError, BusError."""
    for name in names:
        store: _Kept = Records(bus, name) if name in RECORDS else Bucket(bus, name, 0)
        if await store.make(servers):
            log.info("%s: made", name)


async def keep_buckets(bus: Bus, names: Collection[str], servers: int = 1) -> None:
    """Make them again whenever the bus has lost them, as where its disk is new; until cancelled.

    Those who have copies put them back: faces as they next use one, gateways by themselves. What
    was in its memory is lost with each start of a server that is alone.
    """
    trouble = Trouble("the bus keeps nothing")
    while True:
        if bus.connected:
            try:
                await make_buckets(bus, names, servers)
                trouble.over()
            except BusError as error:
                trouble.tell(error)
        await asyncio.sleep(_LOOK_EVERY_S)
