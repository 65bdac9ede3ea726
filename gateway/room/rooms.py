"""All rooms of a gateway: opened, found, closed, each for as long as its session."""

from __future__ import annotations

from gateway.background import Background
from gateway.room import schemas
from gateway.room.choosing.safety import read_words
from gateway.room.platforms.connection import Adapter, Connection
from gateway.room.room import Room
from gateway.settings import GatewaySettings
from gateway.talk.session import Session
from visavis.serving.errors import AlreadyExistsError, UnknownNameError


class Rooms:
    """Owns every room."""

    def __init__(self, settings: GatewaySettings) -> None:
        """Raises InvalidInputError where the gateway's file of words is not in order."""
        self._words = [] if settings.room_words is None else read_words(settings.room_words)
        self._open: dict[str, Room] = {}
        self._background = Background()

    def open(self, session: Session, wanted: schemas.RoomRequest) -> Room:
        """A room of a session. Raises AlreadyExistsError, InvalidInputError."""
        if session.id in self._open:
            raise AlreadyExistsError("room: this session has one; close it first")

        def ended() -> None:
            self._background.run(self._forget(session.id))

        room = Room(session, wanted, self._words, ended)
        self._open[session.id] = room
        room.start([Connection(adapter, room.take) for adapter in adapters_of(wanted)])
        return room

    def get(self, session_id: str) -> Room:
        """Raises UnknownNameError."""
        room = self._open.get(session_id)
        if room is None:
            raise UnknownNameError("room: this session has none; open one first")
        return room

    async def close(self, session_id: str) -> None:
        """Raises UnknownNameError."""
        self.get(session_id)
        await self._forget(session_id)

    async def close_all(self) -> None:
        for session_id in list(self._open):
            await self._forget(session_id)
        await self._background.cancel_all()

    async def _forget(self, session_id: str) -> None:
        room = self._open.pop(session_id, None)
        if room is not None:
            await room.close()


def adapters_of(wanted: schemas.RoomRequest) -> list[Adapter]:
    """What reads the platforms that a room is to be connected to."""
    return []
