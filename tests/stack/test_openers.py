"""An opener and the answer behind it with the real stack."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.running_stack import OPENER, THINKER
from tests.stack.conftest import Ears, likeness
from tests.stack.test_conversation import answer_of, until_turn
from visavis.tools.bench.clips import read_mono
from visavis.tools.client import MIC_RATE_HZ, GatewayClient


async def test_a_late_answer_begins_with_an_opener_and_goes_on_without_a_stumble(
    gateway: GatewayClient, ears: Ears, tmp_path: Path
) -> None:
    async with gateway.session(language="en", persona=THINKER) as session:
        await session.record_turn()
        turn = await session.say("Can you tell me why the sky is blue?")
        answer = answer_of(await until_turn(session, "finished"))
        path = tmp_path / "opened.mp4"
        path.write_bytes(await session.recording())
        turns = f"/v1/sessions/{session.id}/turns"
        record = (await gateway.call("GET", f"{turns}/{turn}")).json()
        await session.say("Thank you!")
        assert not answer_of(await until_turn(session, "finished")).startswith(OPENER)
    assert answer.startswith(f"{OPENER} ")
    assert record["opener"] == f"{OPENER} "
    assert record["voice_to_voice_ms"] < record["answer_proper_ms"]
    sound = read_mono(path, MIC_RATE_HZ)
    heard = await ears.transcribe(sound.tobytes(), "en")
    assert heard.lower().startswith("let me see")
    assert likeness(heard, answer) > 0.7
    assert np.abs(sound[: MIC_RATE_HZ // 2].astype(int)).max() > 1000, "it speaks at once"


async def test_openers_are_listed(gateway: GatewayClient) -> None:
    shown = (await gateway.call("GET", "/v1/cache")).json()
    assert shown["openers"] == {"en": [OPENER]}
