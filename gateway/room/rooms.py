"""All rooms of a gateway: opened, found, closed, each for as long as its session."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Hashable
from typing import Any

from gateway.background import Background
from gateway.room import moving, schemas
from gateway.room.choosing.safety import read_words
from gateway.room.platforms.bilibili import Bilibili
from gateway.room.platforms.connection import Adapter, Connection
from gateway.room.platforms.twitch import Twitch
from gateway.room.platforms.youtube import YouTube
from gateway.room.room import Room
from gateway.session.session import Session
from gateway.settings import GatewaySettings
from visavis.serving.errors import AlreadyExistsError, InvalidInputError, UnknownNameError


class Rooms:
    """Owns every room."""

    def __init__(self, settings: GatewaySettings) -> None:
        """Raises InvalidInputError where the gateway's file of words is not in order."""
        self._words = [] if settings.room_words is None else read_words(settings.room_words)
        self._open: dict[str, Room] = {}
        self._leaving = False
        self._background = Background()

    async def open(self, session: Session, wanted: schemas.RoomRequest) -> Room:
        """A room of a session. Raises AlreadyExistsError, InvalidInputError."""

        def ended() -> None:
            self._background.run(self._forget(session.id))

        self._check_free(session.id)
        if session.options.spoken_by == "client":
            raise InvalidInputError(
                "room: this session's client brings the speech (spoken_by); there is no language "
                "model and no voice here to answer comments with"
            )
        # Thousands of blocked words take a second, in which the gateway's sessions go on.
        room = await asyncio.to_thread(Room, session, wanted, self._words, ended)
        self._check_free(session.id)
        self._open[session.id] = room
        room.leaving = self._leaving
        room.start([Connection(adapter, room.hear) for adapter in adapters_of(wanted)])
        return room

    def record(self, session_id: str) -> dict[str, Any] | None:
        """What another gateway goes on with; None: the session has no room."""
        room = self._open.get(session_id)
        return None if room is None else moving.record_of(room, time.time())

    def mark(self, session_id: str) -> Hashable:
        """Changes with what `record` tells."""
        room = self._open.get(session_id)
        if room is None:
            return None
        host, selection = room.host, room.host.selection
        newest, said = selection.seen[-1:], host.script_said
        return host.paused, selection.outcomes.total(), said, *newest, *host.unsaid

    async def adopt(self, session: Session, told: dict[str, Any]) -> None:
        """Go on with a room that another gateway had. Raises InvalidInputError and others."""
        record, wanted = moving.read(told)
        await moving.carry_on(await self.open(session, wanted), record)

    def leave(self) -> None:
        """They go to other gateways, each once it may."""
        self._leaving = True
        for room in self._open.values():
            room.leaving = True

    def may_leave(self, session_id: str) -> bool:
        """Whether `record` tells of all that a room has posted."""
        room = self._open.get(session_id)
        return room is None or not room.is_posting

    def late(self, session_id: str) -> list[list[dict[str, Any]]]:
        """What a room has heard since its record was made, in portions that `hear_late` takes."""
        room = self._open.get(session_id)
        if room is None:
            return []
        now, unix_s = room.now, time.time()
        told = [moving.sent_of(c, now, unix_s).model_dump(mode="json") for c in room.late]
        most = schemas.MOST_AT_ONCE
        return [told[first : first + most] for first in range(0, len(told), most)]

    def hear_late(self, session_id: str, told: list[Any]) -> None:
        """It has come in the gateway that had the room. Raises UnknownNameError and others."""
        self.get(session_id).take_all(moving.read_late(told))

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

    def _check_free(self, session_id: str) -> None:
        if session_id in self._open:
            raise AlreadyExistsError("room: this session has one; close it first")

    async def _forget(self, session_id: str) -> None:
        room = self._open.pop(session_id, None)
        if room is not None:
            await room.close()


def adapters_of(wanted: schemas.RoomRequest) -> list[Adapter]:
    """What reads the platforms that a room is to be connected to."""
    found: list[Adapter] = []
    if (twitch := wanted.twitch) is not None:
        found.append(Twitch(twitch.channel, twitch.login, twitch.token.get_secret_value()))
    if (bilibili := wanted.bilibili) is not None:
        secret, code = bilibili.access_secret.get_secret_value(), bilibili.code.get_secret_value()
        found.append(Bilibili(bilibili.access_key, secret, bilibili.app_id, code))
    if (youtube := wanted.youtube) is not None:
        key, token = youtube.api_key.get_secret_value(), youtube.token.get_secret_value()
        found.append(YouTube(youtube.chat_id, youtube.video_id, key, token))
    return found
