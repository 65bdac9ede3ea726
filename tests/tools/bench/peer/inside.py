"""A visitor in the process of an agent of Pipecat's; runs inside Pipecat's own environment.

    python -m tests.tools.bench.peer.inside JOB.json RESULT.json

Plays each clip in real time into the agent's microphone, with true silence after it, and notes
when which sound left. Nothing is encoded on the way, and nothing is judged here.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
import wave
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.tools.bench.peer.agent import PARAMS, Agent, Cost, agent, read_job
from tests.tools.bench.peer.parts import IN_HZ, OUT_HZ, Desk, Loudspeaker, Microphone, Notes
from tests.tools.bench.peer.visiting import ANSWER_TIMEOUT_S, LONGEST_TURN_TAIL_S, visit


class Inside:
    """A visitor in the agent's own process: nothing is encoded on the way."""

    def __init__(
        self, job: dict[str, Any], agent: Agent, desk: Desk, microphone: Microphone
    ) -> None:
        self._job = job
        self._agent = agent
        self._desk = desk
        self._microphone = microphone

    async def begin_conversation(self) -> None:
        self._agent.begin_conversation()

    async def ask(self, clip: dict[str, Any]) -> dict[str, Any]:
        notes, cost = self._noted_anew(), Cost()
        await self._microphone.say(_read(clip["path"]))
        end_s = self._microphone.sent_at(clip["end_samples"] - 1)
        await self._until(lambda: self._heard_enough(notes, end_s))
        used = cost.told()
        await self._agent.hush()
        await asyncio.sleep(LONGEST_TURN_TAIL_S)
        return {"kind": "question", "clip": clip["name"], **self._told(notes, clip), **used}

    async def interrupt(self, clip: dict[str, Any]) -> dict[str, Any]:
        notes = self._noted_anew()
        await self._agent.tell_a_long_story()
        await self._until(lambda: _audible_s(notes) >= self._job["spoken_s"])
        await self._microphone.say(_read(clip["path"]))
        await asyncio.sleep(self._job["watch_s"])
        await self._agent.hush()
        await asyncio.sleep(LONGEST_TURN_TAIL_S)
        return {"kind": "interruption", "clip": clip["name"], **self._told(notes, clip)}

    def _noted_anew(self) -> Notes:
        notes = self._desk.notes = Notes()
        return notes

    def _told(self, notes: Notes, clip: dict[str, Any]) -> dict[str, Any]:
        return {
            "speech_start_s": self._microphone.sent_at(clip["start_samples"]),
            "speech_end_s": self._microphone.sent_at(clip["end_samples"] - 1),
            "sounds": notes.sounds,
            "rate_hz": OUT_HZ,
            **notes.told(),
        }

    def _heard_enough(self, notes: Notes, end_s: float) -> bool:
        first = next((at for at, loud, _n in notes.sounds if loud is not None and at > end_s), None)
        if first is None:
            return False
        stopped = notes.last("bot_stopped")
        over = stopped is not None and stopped > first
        return over or time.monotonic() - first >= self._job["listen_s"]

    async def _until(self, met: Any) -> None:
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        # What is waited for are marks that other tasks make; none of them is an event.
        while not met() and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def visited(job: dict[str, Any]) -> list[dict[str, Any]]:
    """Have a visitor in this process ask all that the job tells."""
    desk = Desk()
    microphone, loudspeaker = Microphone(PARAMS), Loudspeaker(PARAMS, desk)
    async with agent(job, desk) as made, made.running(microphone, loudspeaker):
        every_s = job.get("every_s", 0.0)
        return await visit(
            Inside(job, made, desk, microphone),
            job["clips"],
            job["interruptions"],
            job["turns_per_session"],
            every_s=every_s,
            begins=_moment_of_the_others if every_s else None,
        )


async def _moment_of_the_others() -> float:
    """When to begin: told on standard input to all agents that say here that they are ready."""
    print("ready", flush=True)  # noqa: T201
    return float(await asyncio.to_thread(sys.stdin.readline))


def _audible_s(notes: Notes) -> float:
    return sum(n for _at, loud, n in notes.sounds if loud is not None) / OUT_HZ


def _read(path: str) -> NDArray[np.int16]:
    with wave.open(path, "rb") as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (IN_HZ, 1, 2)
        return np.frombuffer(file.readframes(file.getnframes()), np.int16)


if __name__ == "__main__":
    done = asyncio.run(visited(read_job()))
    Path(sys.argv[2]).write_text(json.dumps(done), encoding="utf-8")
