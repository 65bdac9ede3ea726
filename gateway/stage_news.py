"""What a session's stages tell over their leases: turns that end or fail, replicas that go."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from gateway.actions import Action, ConfirmTurn
from gateway.conversation import Conversation
from gateway.events import ServerEvent
from gateway.incoming import Notices
from gateway.playout import Playout
from gateway.records import Records
from gateway.speculation import WasteMeter
from visavis.clock import Clock
from visavis.v1 import control_pb2

log = logging.getLogger(__name__)


class StageNews:
    """Listens to the leases of one session. perform: carries out what follows; emit: tells it."""

    def __init__(
        self,
        conversation: Conversation,
        playout: Playout,
        records: Records,
        clock: Clock,
        perform: Callable[[Sequence[Action]], None],
        emit: Callable[[ServerEvent], None],
    ) -> None:
        self._conversation = conversation
        self._playout = playout
        self._records = records
        self._clock = clock
        self._perform = perform
        self._emit = emit
        self._waste, self._notices = WasteMeter(), Notices()

    def stage_event(self, service: str, event: control_pb2.AttachEvent) -> None:
        """An event of a lease."""
        kind = event.WhichOneof("event")
        if kind == "turn_failed":
            failed, code = event.turn_failed, event.turn_failed.code.lower()
            told = self._conversation.stage_failed(service, failed.turn, code, failed.message)
            self._perform(told)
        elif kind == "turn_notice":
            for warning in self._notices.add(event.turn_notice, self._conversation.turn):
                self._emit(warning)
        elif kind == "turn_finished":
            finished = event.turn_finished
            self._records.reported(finished.turn, service, finished.seconds)
            if service == "llm":
                self._waste.generated(finished.turn, finished.produced)

    def stage_lost(self, service: str, message: str) -> None:
        """A replica is gone; its lease is looking for another."""
        log.warning("%s: %s", service, message)
        if service == "face":
            self._playout.restart_stream()
        self._perform(self._conversation.stage_lost(service, message, self._clock.now()))

    def stage_ready(self, service: str) -> None:
        """A stage is (again) attached."""
        if service == "face":
            self._playout.restart_stream()

    def observe(self, action: Action) -> None:
        """What is decided about turns: counts what was made for nothing, tells what waited."""
        self._waste.observe(action)
        if isinstance(action, ConfirmTurn):
            for warning in self._notices.confirmed(action.turn):
                self._emit(warning)
