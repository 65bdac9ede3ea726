"""Idle life from memory, through the public API: the face draws nothing, and nothing jumps."""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections.abc import AsyncIterator
from typing import Any

import av
import cv2
import numpy as np
import pytest

from tests.running_stack import KNOWN_QUESTION, RunningStack
from tests.stack.test_conversation import until_turn
from visavis.client import GatewayClient, GatewaySession


class Samples:
    """What the stack's processes say of themselves."""

    def __init__(self, client: GatewayClient) -> None:
        self._client = client

    async def value(self, sample: str) -> float:
        """Of a sample as Prometheus has it, over all processes."""
        groups = (await self._client.call("GET", "/v1/metrics-targets")).json()
        found = 0.0
        for target in (target for group in groups for target in group["targets"]):
            text = (await self._client.call("GET", f"http://{target}/metrics")).text
            lines = (line.rsplit(" ", 1) for line in text.splitlines())
            found += sum(float(value) for name, value in lines if name == sample)
        return found

    async def until(self, sample: str, enough: float, within_s: float) -> None:
        async with asyncio.timeout(within_s):
            while await self.value(sample) < enough:  # noqa: ASYNC110 - metrics call nobody
                await asyncio.sleep(0.2)


@contextlib.asynccontextmanager
async def watching(client: GatewayClient, session: GatewaySession) -> AsyncIterator[bytearray]:
    """The live mp4 as it comes."""
    film = bytearray()

    async def watch(media: Any) -> None:
        async for message in media:
            film.extend(message)

    async with client.connect(f"/v1/sessions/{session.id}/media?role=viewer") as media:
        task = asyncio.create_task(watch(media))
        yield film
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def steps(film: bytes) -> tuple[np.ndarray, np.ndarray]:
    """How much moves from picture to picture, and which are key frames.

    The mean difference of fields of 8 x 8 pixels in their brightness: what a codec does to the
    skin's grain does not count.
    """
    fields, keys = [], []
    with av.open(io.BytesIO(film)) as file:
        for frame in file.decode(file.streams.video[0]):
            grey = frame.to_ndarray(format="gray").astype(np.float32)
            fields.append(cv2.resize(grey, (64, 64), interpolation=cv2.INTER_AREA))
            keys.append(bool(frame.key_frame))
    moved = np.abs(np.diff(np.array(fields), axis=0)).mean(axis=(1, 2))
    return moved, np.array(keys[1:])


@pytest.mark.timeout(240)
async def test_an_idle_session_costs_the_face_nothing_and_its_joins_are_not_seen(
    rested: RunningStack, gateway: GatewayClient
) -> None:
    said = Samples(gateway)
    looped, spoken = (
        'gateway_pictures_total{source="loop"}',
        'gateway_pictures_total{source="turn"}',
    )
    async with gateway.session() as session, watching(gateway, session) as film:
        await said.until(looped, await said.value(looped) + 25, 150)
        drawn = await said.value('face_frames_total{mode="live"}')
        await said.until(looped, await said.value(looped) + 50, 20)
        assert await said.value('face_frames_total{mode="live"}') == drawn
        before = await said.value(spoken)
        await session.ask(KNOWN_QUESTION)
        await until_turn(session, "finished")
        assert await said.value(spoken) > before
        await said.until(looped, await said.value(looped) + 25, 20)
        assert len(film) > 100_000
    moved, keys = steps(bytes(film))
    # Loop and speech begin and end with key frames. 50: the first viewer's arrival is no join.
    moved, keys = moved[50:], keys[50:]
    assert keys.sum() >= 6
    # Of the others, P99 on a quiet machine; a busy one leaves pictures out. A jump is 6 and more.
    assert moved[keys].max() <= moved[~keys].max()
