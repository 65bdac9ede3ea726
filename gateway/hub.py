"""A session's events to everybody who listens; nobody waits for a slow one."""

from __future__ import annotations

from gateway.events import ServerEvent
from gateway.outbox import Outbox

QUEUE_LIMIT = 500


class Listener(Outbox[ServerEvent]):
    """One client's events. The oldest are lost when it does not read."""

    def __init__(self) -> None:
        super().__init__(QUEUE_LIMIT)

    def push(self, event: ServerEvent) -> None:
        """Add an event, in place of the oldest if the queue is full."""
        if self.full:
            self._waiting.popleft()
            self.dropped += 1
        self._put(event)


class EventHub:
    """Fan-out of one session's events."""

    def __init__(self) -> None:
        self._listeners: set[Listener] = set()

    @property
    def listeners(self) -> int:
        return len(self._listeners)

    def join(self, *greeting: ServerEvent) -> Listener:
        """A new listener, which first gets `greeting`."""
        listener = Listener()
        for event in greeting:
            listener.push(event)
        self._listeners.add(listener)
        return listener

    def leave(self, listener: Listener) -> None:
        listener.close()
        self._listeners.discard(listener)

    def publish(self, event: ServerEvent) -> None:
        for listener in self._listeners:
            listener.push(event)

    def close(self) -> None:
        for listener in list(self._listeners):
            self.leave(listener)
