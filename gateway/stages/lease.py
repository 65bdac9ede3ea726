"""One session's lease on one stage: an Attach stream that comes back when it dies."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any, Protocol

import grpc
import grpc.aio

from gateway import metrics
from gateway.background import Background
from gateway.stages.registry import Registry
from visavis.serving.discovery import Replica
from visavis.serving.errors import (
    AtCapacityError,
    InvalidInputError,
    OutdatedError,
    StageLostError,
    UnknownNameError,
    VisavisError,
    without_addresses,
)
from visavis.serving.lifetime.supervision import end_tasks, read_whole, told_to_end
from visavis.v1 import control_pb2
from visavis.wire.levels import BEFORE

log = logging.getLogger(__name__)

READY_TIMEOUT_S = 5.0
BACKOFF_S = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
# How long a request waits for a stage that is coming back.
RETURN_TIMEOUT_S = 2.0
_RETURNING = "it is coming back"
_ENDING = "its replica is about to end, and there is no other one"
# How often it is looked whether the session is between two turns.
_LOOK_S = 0.02
# Where nobody can take over, how often another replica is looked for, and how many times before
# the session leaves one that is about to end without having another.
_SEEK_S = 0.2
_LOOKS_ALONE = 5
_LEAVE_TIMEOUT_S = 2.0
# A newcomer among the ears hears for so long what has been said before it counts.
_LISTEN_ALONG_S = 0.5
# Two replicas of these must not have one session while a turn begins: both would do its work.
_ONE_AT_A_TIME = ("tts", "face")
# So many replicas are asked before the session is told that none takes it.
_MOST_ASKED = 8

_ERRORS: dict[grpc.StatusCode, type[VisavisError]] = {
    # The session asked for what does not exist: no fault of the replica.
    grpc.StatusCode.INVALID_ARGUMENT: InvalidInputError,
    grpc.StatusCode.NOT_FOUND: UnknownNameError,
    # It lives, and takes no session now.
    grpc.StatusCode.RESOURCE_EXHAUSTED: AtCapacityError,
    grpc.StatusCode.ALREADY_EXISTS: AtCapacityError,
    grpc.StatusCode.FAILED_PRECONDITION: AtCapacityError,
}


class LeaseListener(Protocol):
    """Whom a lease tells what happens."""

    def stage_event(self, service: str, event: control_pb2.AttachEvent) -> None: ...

    def stage_lost(self, service: str, message: str) -> None:
        """Its replica has gone: another one is looked for."""

    def stage_missed(self, service: str, message: str) -> None:
        """None has been found so far, which takes longer than it should. Told once for a loss."""

    def stage_refused(self, service: str, message: str) -> None:
        """After a loss: replicas are there, and none takes the session. Told once for each loss."""

    def stage_unknown(self, service: str) -> None:
        """A replica does not know what the session asks for: its voice, its avatar …"""

    def stage_ready(self, service: str) -> None:
        """Attached; called again after each loss, and as another replica takes over."""

    def may_move(self, service: str) -> bool:
        """Whether another replica may take over now: the session is between two turns."""


class StageLease:
    """Holds a slot of one service for one session.

    config: makes the first message of the stream, with the options of the moment. background:
    of the session, which fails with the lease's own task.
    """

    def __init__(
        self,
        service: str,
        registry: Registry,
        config: Callable[[bool], Any],
        listener: LeaseListener,
        background: Background,
    ) -> None:
        """config: the stream's first message; told whether the session was let in before."""
        self.service = service
        self._registry = registry
        self._config = config
        self._listener = listener
        self._background = background
        self.light = False
        """The stage is asked for next to nothing: its session comes to it without a slot."""
        self.settled = asyncio.Event()
        """Clear while two replicas have the session: no turn may begin before it is set."""
        self.settled.set()
        self._ready = asyncio.Event()
        self._writing = asyncio.Lock()
        self._call: Any = None
        self._replica: Replica | None = None
        self._served_by = ""
        """The instance that had the session last: what it has read and drawn for it is still
        warm, so it is asked first."""
        self._runner: asyncio.Task[None] | None = None
        self._mover: asyncio.Task[None] | None = None
        self._restarting = False
        """This stream was ended by us: its end is no loss."""
        self._leaving = False
        """The session gives this stage up: so is its end."""
        self._admitted = False
        """It has been let in: it comes to a slot, whatever is predicted."""
        self._outdated = False
        """The attach under way may be with options of before."""
        self._owed: Any = None
        """What the stage is not known to have been told."""
        self._told_last: Any = None
        self._away = _RETURNING
        """Why the stage is not there."""

    @property
    def instance(self) -> str | None:
        """Replica that serves the session; None while there is none."""
        return self._replica.instance if self._replica and self._ready.is_set() else None

    @property
    def admitted(self) -> bool:
        """Whether the session was let in: a slot is all that it needs."""
        return self._admitted

    @property
    def there(self) -> bool:
        """Whether a replica serves the session."""
        return self._ready.is_set()

    @property
    def away(self) -> str:
        """Why none does."""
        return f"no replica serves the session now: {self._away}"

    async def attach(self) -> None:
        """Take a slot, also anew after `release`.

        Raises AtCapacityError, InvalidInputError, UnknownNameError or StageLostError.
        """
        await self._attach_to_any()
        self._admitted = True
        self._listener.stage_ready(self.service)
        self._runner = asyncio.create_task(self._run(), name=f"lease-{self.service}")
        self._background.watch(self._runner)

    def admit(self) -> None:
        """The session was let in elsewhere, and its slots there will be free."""
        self._admitted = True

    async def send(self, request: Any, *, since: int = BEFORE) -> None:
        """Send a later message of the stream. since: the level (`visavis/wire/levels.py`) that it
        came with. Raises StageLostError if the stage is away, OutdatedError where its replica is
        of an earlier level.
        """
        await self.send_as_of_then(lambda: request, since=since)

    async def send_as_of_then(
        self, message: Callable[[], Any | None], *, since: int = BEFORE
    ) -> None:
        """As `send`, of what `message` says once the stage is there; None: nothing any more."""
        try:
            async with asyncio.timeout(RETURN_TIMEOUT_S):
                # One at a time, in the order of the calls.
                async with self._writing:
                    await self._ready.wait()
                    request = message()
                    if request is None:
                        return
                    if self._replica is not None and self._replica.level < since:
                        raise OutdatedError(
                            "its replica is of an earlier version, and cannot do that"
                        )
                    await self._call.write(request)
        except TimeoutError:
            raise StageLostError(self.away) from None
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError, grpc.aio.UsageError) as error:
            raise StageLostError("the connection to its replica was lost") from error

    async def tell(self, request: Any) -> None:
        """Tell the stage now; where it is away, it is told as it returns."""
        self._owed = self._told_last = request
        if self._ready.is_set():
            await self._settle()

    def restart(self) -> None:
        """Attach anew with the options of now, silently."""
        if self._ready.is_set():
            self._restarting = True
            self._ready.clear()
            # Its replica is asked first, and would refuse the session while it still has it.
            self._background.run(self._leave(self._call))
        else:
            self._outdated = True

    async def leave(self) -> None:
        """As `release`; returns once the replica does no more for the session."""
        if self._ready.is_set() and self._mover is None:
            self._leaving = True
            await self._leave(self._call)
        await self.release()

    async def release(self) -> None:
        """Give the slot back. `attach` takes one again."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await end_tasks([runner])
        await self._stop_moving()
        self._owed, self._restarting, self._leaving = None, False, False
        self._admitted = False
        if self._replica is not None and self._ready.is_set():
            self._registry.returned(self._replica, light=self.light)
        self._ready.clear()
        if self._call is not None:
            self._call.cancel()
            self._call = None

    async def _attach_to_any(self) -> None:
        self._replica = None
        self._take(*await self._open_any())
        self._ready.set()

    def _take(self, replica: Replica, call: Any) -> None:
        self._replica, self._call = replica, call
        self._served_by = replica.instance

    async def _open_any(self, *, between_turns: bool = False) -> tuple[Replica, Any]:
        """One replica may have filled up, or died, since it was last asked: another may do.

        between_turns: no turn may begin from when a replica is asked; the caller lets it again.
        """
        avoid: set[str] = set()
        while True:
            replica = await self._registry.choose(
                self.service,
                prefer=self._served_by,
                avoid=frozenset(avoid),
                admitted=self._admitted,
                light=self.light,
            )
            if between_turns:
                if not self._listener.may_move(self.service):
                    # A turn has begun while it was chosen.
                    self._registry.returned(replica, light=self.light)
                    await self._between_turns()
                    continue
                self.settled.clear()
            try:
                return replica, await self._open(replica)
            except (AtCapacityError, StageLostError):
                self.settled.set()  # it may take long until another one is found
                if replica.instance in avoid or len(avoid) + 1 == _MOST_ASKED:
                    raise
                avoid.add(replica.instance)

    async def _open(self, replica: Replica) -> Any:
        """The stream of a lease on this replica, which is ready."""
        call = self._registry.stub(replica).Attach()
        try:
            async with asyncio.timeout(READY_TIMEOUT_S):
                self._outdated = False
                await self._registry.check(replica, call)
                await call.write(self._config(self._admitted))
                event = await call.read()
            if event is grpc.aio.EOF or event.WhichOneof("event") != "ready":
                raise StageLostError(f"{self.service}: closed the stream before it was ready")
            if event.ready.instance != replica.instance:
                # A process begun anew on the same port: it is to be found first.
                self._registry.lost(replica)
                raise StageLostError(f"{self.service}: {event.ready.instance} is there instead")
        except TimeoutError:
            self._failed(call, "timeout")
            self._registry.lost(replica)
            raise StageLostError(
                f"{self.service}: not ready within {READY_TIMEOUT_S:g} s"
            ) from None
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError) as error:
            reason = await _explain(self.service, call, error)
            self._failed(call, "refused")
            self._note_refusal(replica, reason)
            if isinstance(reason, UnknownNameError):
                self._listener.stage_unknown(self.service)
            raise reason from None
        except BaseException as error:
            self._failed(call, "refused")
            self._registry.returned(replica, light=self.light)
            if isinstance(error, asyncio.CancelledError) and not told_to_end():
                # The registry has closed the connection, to a replica that it found no more.
                raise StageLostError(f"{self.service}: its replica has gone") from None
            raise
        metrics.stage_attach.labels(self.service, "ready").inc()
        return call

    def _failed(self, call: Any, result: str) -> None:
        call.cancel()
        metrics.stage_attach.labels(self.service, result).inc()

    def _note_refusal(self, replica: Replica, reason: VisavisError) -> None:
        """Only one that has failed is lost; one that says why it takes no session lives."""
        if isinstance(reason, StageLostError):
            self._registry.lost(replica)
        elif isinstance(reason, AtCapacityError):
            self._registry.refused(replica)
        else:
            self._registry.returned(replica, light=self.light)

    async def _run(self) -> None:
        while True:
            await self._settle()
            if self._outdated:
                self.restart()
            call = self._call
            message = await self._read(call)
            if self._leaving:
                await asyncio.Event().wait()  # until this task is cancelled
            if self._call is call:
                await self._stop_moving()
            if self._call is not call:
                await self._stop_moving(at_once=False)
                continue  # another replica has taken over
            self._ready.clear()
            self._call.cancel()
            restarting, self._restarting = self._restarting, False
            self._away = _RETURNING if restarting else message
            if restarting:
                if self._replica is not None:
                    self._registry.returned(self._replica, light=self.light)
            else:
                # There the session may be a moment longer, and would be refused.
                self._served_by = ""
                metrics.stage_attach.labels(self.service, "lost").inc()
                if self._replica is not None:
                    self._registry.lost(self._replica)
                self._listener.stage_lost(self.service, message)
            await (self._reattach() if restarting else self._replace(message))
            self._listener.stage_ready(self.service)

    async def _replace(self, message: str) -> None:
        """Attach in place of a replica that was lost, as `message` says."""
        missed = asyncio.get_running_loop().call_later(
            RETURN_TIMEOUT_S, self._listener.stage_missed, self.service, message
        )
        try:
            await self._reattach()
        finally:
            missed.cancel()

    async def _settle(self) -> None:
        """Send what is owed. What a lost stream has swallowed stays owed."""
        with contextlib.suppress(StageLostError):
            while (request := self._owed) is not None:
                await self.send(request)
                if self._owed is request:
                    self._owed = None

    async def _read(self, call: Any) -> str:
        """Hand events on until the stream ends; why it did."""
        try:
            while True:
                event = await read_whole(call.read(), call.cancel)
                if event is grpc.aio.EOF:
                    code, details = await call.code(), await call.details()
                    if code is grpc.StatusCode.OK:
                        return _ENDING
                    return f"its replica ended the lease: {details or code.name}"
                if event.WhichOneof("event") == "draining" and self._mover is None:
                    self._mover = self._background.run(self._move())
                self._listener.stage_event(self.service, event)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError) as error:
            details = error.details() if isinstance(error, grpc.aio.AioRpcError) else str(error)
            return f"its replica was lost: {without_addresses(details or '', self.service)}"
        except asyncio.CancelledError:
            if told_to_end():
                raise
            # Not this task but the stream was cancelled, by restart() or with its connection.
            return "its replica has gone"

    # ------------------------------------------------------------ a replica that is about to end

    async def _move(self) -> None:
        """Have another replica take over between two turns; leave it anyway if there is none."""
        old, replica = self._call, self._replica
        assert replica is not None
        self._registry.draining(replica)
        log.info("%s: %s is about to end", self.service, replica.instance)
        alone = 0
        while True:
            await self._between_turns()
            if alone == _LOOKS_ALONE:
                await self._leave(old)
                return
            try:
                await self._hand_over(old)
                return
            except VisavisError as error:
                log.warning("%s: nobody takes over: %s", self.service, error)
            alone = alone + 1 if self._registry.alone(replica) else 0
            await asyncio.sleep(_SEEK_S)

    async def _between_turns(self) -> None:
        """Returns once the session may move."""
        # What is waited for is the visitor's doing, and seldom: nothing tells us.
        while not self._listener.may_move(self.service):  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_S)

    async def _hand_over(self, old: Any) -> None:
        """Attach to another replica, then leave the old one. Raises as `attach` does."""
        one_at_a_time = self.service in _ONE_AT_A_TIME
        self._told_last = None
        try:
            replica, call = await self._open_any(between_turns=one_at_a_time)
            try:
                if self.service == "asr":
                    await asyncio.sleep(_LISTEN_ALONG_S)
                while not await self._switch(replica, call, at_once=one_at_a_time):  # noqa: ASYNC110
                    await asyncio.sleep(_LOOK_S)
            except BaseException:
                call.cancel()
                self._registry.returned(replica, light=self.light)
                raise
            metrics.stage_attach.labels(self.service, "moved").inc()
            log.info("%s: %s takes over", self.service, replica.instance)
            self._listener.stage_ready(self.service)
            await self._leave(old)
        finally:
            self.settled.set()
        if self._told_last is not None:
            await self.tell(self._told_last)  # meanwhile the old one was told

    async def _switch(self, replica: Replica, call: Any, *, at_once: bool) -> bool:
        """What is sent from now on goes to this replica; False where it is not to be."""
        async with self._writing:
            if self._restarting or not (at_once or self._listener.may_move(self.service)):
                return False  # it attaches anew by itself, or a turn has just begun
            self._take(replica, call)
            return True

    async def _leave(self, call: Any) -> None:
        """Close the stream on our side; returns once the replica does no more for the session."""
        try:
            async with asyncio.timeout(_LEAVE_TIMEOUT_S):
                await call.done_writing()
                await call.code()
        except (TimeoutError, grpc.aio.AioRpcError, asyncio.InvalidStateError):
            call.cancel()
        except BaseException:
            call.cancel()
            raise

    async def _stop_moving(self, *, at_once: bool = True) -> None:
        mover, self._mover = self._mover, None
        if mover is not None:
            if at_once:
                await end_tasks([mover])
            else:
                await asyncio.gather(mover, return_exceptions=True)

    async def _reattach(self) -> None:
        attempt, told = 0, False
        while True:
            try:
                await self._attach_to_any()
                return
            except VisavisError as error:
                away = str(error).removeprefix(f"{self.service}: ")
                if away != self._away:
                    log.warning("attach %s: %s", self.service, error)
                self._away = away
                refused = isinstance(error, AtCapacityError)
                if refused and not told:
                    told = True
                    self._listener.stage_refused(self.service, self._away)
            pause_s = BACKOFF_S[min(attempt, len(BACKOFF_S) - 1)]
            # Nobody is burdened where nobody is there to be asked.
            await asyncio.sleep(pause_s if refused else min(pause_s, _SEEK_S))
            attempt += 1


async def _explain(service: str, call: Any, error: BaseException) -> VisavisError:
    """Our error for the status that ended an Attach stream."""
    code = error.code() if isinstance(error, grpc.aio.AioRpcError) else await call.code()
    details = error.details() if isinstance(error, grpc.aio.AioRpcError) else await call.details()
    said = without_addresses(details or code.name, service)
    return _ERRORS.get(code, StageLostError)(f"{service}: {said}")
