"""Idle life from memory, over real gRPC and a real bus: viewers see pictures, no face draws."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.fakes import MetricGrowth
from tests.gateway.conftest import until
from tests.gateway.doubles import Doubles
from tests.gateway.visiting import Visitor
from visavis.client import GatewayClient
from visavis.v1 import face_pb2
from visavis.wire.media import TranscriptEvent

SETTINGS = {"idle_release_s": 0.3}

pytestmark = pytest.mark.asyncio(loop_scope="module")


@contextlib.asynccontextmanager
async def watching(client: GatewayClient, session: str) -> AsyncIterator[Callable[[], int]]:
    """A viewer; gives how many pictures have come."""
    seen = 0

    async def watch(media: Any) -> None:
        nonlocal seen
        async for message in media:
            seen += isinstance(message, bytes)

    async with client.connect(f"/v1/sessions/{session}/media?role=viewer") as media:
        task = asyncio.create_task(watch(media))
        yield lambda: seen
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_an_idle_session_is_shown_from_memory(
    client: GatewayClient, doubles: Doubles
) -> None:
    doubles.script.loop = "0123456789abcdef"
    looped = MetricGrowth("gateway_pictures_total", source="loop")
    async with client.session() as session, watching(client, session.id) as seen:
        await until(lambda: looped.value >= 3 and doubles.seen.of("face", "idle"))
        drawn, came, played = doubles.seen.live_pictures, seen(), looped.value
        dropped = MetricGrowth("gateway_dropped_pictures_total")
        await until(lambda: looped.value >= played + 5 and seen() >= came + 5)
        assert doubles.seen.live_pictures == drawn
        assert dropped.value == 0
        turns = MetricGrowth("gateway_pictures_total", source="turn")
        await session.ask("hello")
        await until(lambda: turns.value >= 10)  # all of the answer
        told = doubles.seen.of("face", "idle")
        assert [order.idle.live for order in told] == [False]
        played, dropped = looped.value, MetricGrowth("gateway_dropped_pictures_total")
        await until(lambda: looped.value >= played + 5)
    assert dropped.value == 0
    # The next visitor of this avatar: nobody draws it again.
    async with client.session() as session, watching(client, session.id):
        played = looped.value
        await until(lambda: looped.value >= played + 5)
    assert doubles.seen.loops == [""]


async def test_a_face_that_comes_back_finds_its_loop_shown(
    client: GatewayClient, doubles: Doubles
) -> None:
    doubles.script.loop = "123456789abcdef0"
    looped = MetricGrowth("gateway_pictures_total", source="loop")
    async with client.session() as session, watching(client, session.id):
        await until(lambda: looped.value >= 3)
        await doubles.stop("face")
        played = looped.value
        await until(lambda: looped.value >= played + 5)
        await doubles.start("face")
        await until(lambda: doubles.seen.attached.get("face") == 2)
        live = MetricGrowth("gateway_pictures_total", source="live")
        told = len(doubles.seen.of("face", "idle"))
        await until(lambda: len(doubles.seen.of("face", "idle")) > told)
        assert live.value == 0


async def test_a_face_that_comes_while_somebody_speaks_listens_to_him(
    client: GatewayClient, doubles: Doubles
) -> None:
    async with client.session() as session, watching(client, session.id):
        visitor = Visitor(doubles, session)
        await visitor.does(TranscriptEvent.SPEECH_STARTED)
        await until(lambda: doubles.seen.of("face", "attention"))
        await doubles.stop("face")
        told = len(doubles.seen.of("face", "attention"))
        await doubles.start("face")
        await until(lambda: len(doubles.seen.of("face", "attention")) > told)
        newest = doubles.seen.of("face", "attention")[-1].attention
        assert newest.phase == face_pb2.SetAttention.LISTENING and not newest.cue


async def test_a_face_that_comes_while_nobody_watches_is_told_to_draw_nothing(
    client: GatewayClient, doubles: Doubles
) -> None:
    async with client.session() as session:
        async with watching(client, session.id):
            await until(lambda: doubles.seen.live_pictures)
        await until(lambda: doubles.seen.of("face", "codecs"))
        await doubles.stop("face")
        told = len(doubles.seen.of("face", "codecs"))
        await doubles.start("face")
        await until(lambda: len(doubles.seen.of("face", "codecs")) > told)
        assert not doubles.seen.of("face", "codecs")[-1].codecs.codecs


async def test_a_loop_of_another_face_is_not_shown(client: GatewayClient, doubles: Doubles) -> None:
    doubles.script.loop, doubles.script.lent_loop = "23456789abcdef01", "3456789abcdef012"
    failed = MetricGrowth("gateway_idle_loop_fetches_total", result="failed")
    looped = MetricGrowth("gateway_pictures_total", source="loop")
    live = MetricGrowth("gateway_pictures_total", source="live")
    async with client.session() as session, watching(client, session.id):
        await until(lambda: failed.value >= 1)
        drawn = live.value
        await until(lambda: live.value >= drawn + 5)
    assert looped.value == 0 and doubles.seen.loops == [""]


async def test_a_face_that_is_shown_from_memory_is_drawn_while_it_listens(
    client: GatewayClient, doubles: Doubles
) -> None:
    doubles.script.loop = "456789abcdef0123"
    looped = MetricGrowth("gateway_pictures_total", source="loop")
    live = MetricGrowth("gateway_pictures_total", source="live")
    async with client.session() as session, watching(client, session.id):
        await until(lambda: looped.value >= 3)
        visitor, drawn = Visitor(doubles, session), live.value
        await visitor.does(TranscriptEvent.SPEECH_STARTED)
        await until(lambda: live.value >= drawn + 5)
        await visitor.does(TranscriptEvent.PARTIAL, "when I was young I had no")
        await until(lambda: len(doubles.seen.of("face", "attention")) == 2)
        await visitor.does(TranscriptEvent.DISCARDED)
        played = looped.value
        await until(lambda: looped.value >= played + 5)
        await until(lambda: len(doubles.seen.of("face", "attention")) == 3)
        await until(lambda: not doubles.seen.of("face", "idle")[-1].idle.live)
        told = [order.attention for order in doubles.seen.of("face", "attention")]
        listening, nobody = face_pb2.SetAttention.LISTENING, face_pb2.SetAttention.NOBODY
        assert [one.phase for one in told] == [listening, listening, nobody]
        assert [one.cue for one in told] == [False, True, False]
        drawn_for = [order.idle.live for order in doubles.seen.of("face", "idle")]
        assert drawn_for.count(True) == 1
