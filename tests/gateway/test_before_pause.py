"""A gateway that prepares answers before the pause: what it asks of asr, and does with it."""

from __future__ import annotations

import pytest

from tests.gateway.conftest import until
from tests.gateway.doubles import Doubles
from tests.gateway.test_speech import E, Visitor
from visavis.client import GatewayClient


@pytest.mark.asyncio(loop_scope="module")
async def test_asr_is_asked_for_foresight_and_what_it_tells_is_acted_upon(
    client: GatewayClient, doubles: Doubles
) -> None:
    async with client.session() as session:
        (asr,) = doubles.seen.of("asr", "config")
        assert asr.config.recognition.foresight
        visitor = Visitor(doubles, session)
        await visitor.does(E.SPEECH_STARTED)
        await visitor.does(E.PARTIAL, "How are you?", end_of_turn_probability=0.97)
        (prompt,) = await until(lambda: doubles.seen.prompts)
        assert prompt[-1][1] == "How are you?"
