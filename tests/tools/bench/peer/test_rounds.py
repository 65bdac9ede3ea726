"""Both sides by turns, asked the same, and told the same whatever the environment says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.tools.bench import peer_pipecat
from tests.tools.bench.peer.rounds import Block, blocks_of, order
from tests.tools.bench.peer_pipecat import (
    OURS,
    Plan,
    Weights,
    agent_environment,
    agent_job,
    recorded,
    settings_in,
)
from visavis.tools.bench.visitor.clips import HELD_OUT, RATE_HZ, Clip, SpeechSpan

TURNS = Path(__file__).parents[3] / "turns"


def clip(name: str) -> Clip:
    return Clip(name, np.zeros(RATE_HZ, np.int16), SpeechSpan(0, RATE_HZ, "label"))


def test_every_question_is_asked_once_and_each_block_has_some_of_every_part() -> None:
    clips = [clip(f"held-out-{n}") for n in range(8)] + [clip(f"own-{n}") for n in range(4)]
    into = [clip(f"stop-{n}") for n in range(6)]
    blocks = blocks_of(clips, into, 4)
    assert sorted(c.name for b in blocks for c in b.clips) == sorted(c.name for c in clips)
    assert sorted(c.name for b in blocks for c in b.interruptions) == [c.name for c in into]
    assert [sum("own" in c.name for c in block.clips) for block in blocks] == [1] * 4
    assert len(blocks_of(clips[:2], [], 4)) == 2


def test_each_side_is_as_often_first_as_last() -> None:
    sides = [OURS, "vad", "smart"]
    orders = [order(sides, number) for number in range(4)]
    assert [o[0] for o in orders] == [OURS, "smart", OURS, "smart"]
    assert all(sorted(o) == sorted(sides) for o in orders)


def test_an_agent_is_told_the_same_whatever_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(peer_pipecat, "theirs_file", lambda *_: tmp_path / "model.gguf")
    plan = Plan(3.0, 10, 80, Weights.SAME)
    jobs = []
    for threads in ("", "7"):
        monkeypatch.setenv("THREADS", threads or "1")
        monkeypatch.setenv("PERSONA", "You are a pirate.")
        jobs.append(agent_job("smollm2-135m", "vad", plan, Block([clip("a")], []), tmp_path))
    assert jobs[0] == jobs[1]
    assert jobs[0]["llm_threads"] == peer_pipecat.language_model(plan)["threads"] == 1
    assert "pirate" not in jobs[0]["persona"]
    assert "THREADS" not in agent_environment()
    given = ["VISAVIS_LLM_THREADS", "VISAVIS_ASR_PORT", "VISAVIS_MODEL_DIR", "HOME"]
    assert settings_in(given) == given[:2], "ours neither"


def test_people_s_recordings_are_of_the_half_that_no_rule_was_chosen_on() -> None:
    clips = recorded(TURNS)
    assert len(clips) == 3
    assert {found.group for found in clips} == {HELD_OUT}
