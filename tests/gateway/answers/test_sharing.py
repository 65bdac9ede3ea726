"""What one gateway has learned the others know, and a bus that lost its disk has again."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway.answers import sharing
from gateway.answers.cache import AnswerCache, Speaker
from gateway.answers.sharing import SharedLessons
from tests.gateway.conftest import eventually, until
from visavis.tools.stack.nats_server import NatsServer
from visavis.wire.bucket import Bucket
from visavis.wire.bus import Bus
from visavis.wire.subjects import LEARNED_ANSWERS

ADA = Speaker("You are Ada.", "en")
LOOK_S = 0.1


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "REVIEW_S", LOOK_S)


@asynccontextmanager
async def gateway(bus: Bus, folder: Path) -> AsyncIterator[AnswerCache]:
    cache = AnswerCache(learn_in=folder)
    await cache.open()
    lessons = SharedLessons(bus, cache)
    lessons.start()
    yield cache
    await lessons.stop()


def knows(cache: AnswerCache, question: str = "Who are you?") -> bool:
    return cache.find(question, ADA, opening=True) is not None


async def test_what_two_gateways_learn_at_the_same_instant_is_not_lost(tmp_path: Path) -> None:
    asked = [f"What is {number} in Latin?" for number in range(8)]
    nats = NatsServer(tmp_path)
    nats.process.storage = tmp_path / "storage"
    with nats:
        bus = await Bus.connect(nats.url, name="test")
        async with gateway(bus, tmp_path / "one") as one, gateway(bus, tmp_path / "two") as two:
            both = zip(asked, (one, two) * 4, strict=True)
            await asyncio.gather(*(cache.learn(q, "A number.", ADA) for q, cache in both))
        async with gateway(bus, tmp_path / "three") as three:
            await until(lambda: all(knows(three, question) for question in asked))
        await bus.close()


async def test_learned_answers_outlive_the_disk_of_the_bus_but_not_their_forgetting(
    tmp_path: Path,
) -> None:
    nats = NatsServer(tmp_path)
    nats.process.storage = storage = tmp_path / "storage"
    with nats:
        bus = await Bus.connect(nats.url, name="test")
        async with gateway(bus, tmp_path / "one") as one:
            await one.learn("Who are you?", "A face.", ADA)
            async with gateway(bus, tmp_path / "two") as two:
                await until(lambda: knows(two))
            await asyncio.to_thread(nats.stop)
            shutil.rmtree(storage)
            await asyncio.to_thread(nats.start)
            async with gateway(bus, tmp_path / "three") as three:
                await until(lambda: knows(three))
                await one.forget_learned()
                await three.learn("Where am I?", "Here.", ADA)
                await until(lambda: knows(one, "Where am I?"))
        async with gateway(bus, tmp_path / "one") as again:
            await again.forget_learned()
        async with gateway(bus, tmp_path / "three"), gateway(bus, tmp_path / "four") as four:
            await asyncio.sleep(4 * LOOK_S)  # longer than they take to look
            assert not knows(four), "what was forgotten has come back"
        await bus.close()


async def test_what_is_learned_or_forgotten_while_the_bus_is_away_is_told_once_it_is_back(
    tmp_path: Path,
) -> None:
    nats = NatsServer(tmp_path)
    nats.process.storage = tmp_path / "storage"

    @asynccontextmanager
    async def away() -> AsyncIterator[None]:
        await asyncio.to_thread(nats.stop)
        await until(lambda: not bus.connected)
        yield
        await asyncio.to_thread(nats.start)
        await until(lambda: bus.connected)

    async def has_forgotten() -> bool:
        return not (await Bucket(bus, LEARNED_ANSWERS, 1_000_000).index())["learned"]

    with nats:
        bus = await Bus.connect(nats.url, name="test")
        async with gateway(bus, tmp_path / "one") as one, gateway(bus, tmp_path / "two") as two:
            await one.learn("Who are you?", "A face.", ADA)
            await until(lambda: knows(two))
            async with away():
                await one.forget_learned()
                await two.forget_learned()
            await eventually(has_forgotten)
            async with away():
                await one.learn("Where am I?", "Here.", ADA)
            await until(lambda: knows(two, "Where am I?"))
            assert not knows(one) and not knows(two), "what was forgotten has come back"
        await bus.close()
