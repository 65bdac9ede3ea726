"""A visitor who calls an agent of Pipecat's over WebRTC, as he calls us: the same client."""

from __future__ import annotations

import asyncio
import contextlib
import json
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.tools.bench.peer.rounds import Block
from tests.tools.bench.peer.visiting import ANSWER_TIMEOUT_S, LONGEST_TURN_TAIL_S, visit
from visavis.serving.errors import VisavisError
from visavis.tools.bench.visitor.clips import Clip
from visavis.tools.bench.visitor.trace import Trace
from visavis.tools.bench.visitor.visitor import Speaker
from visavis.tools.bench.visitor.webrtc import call
from visavis.wire.clock import MonotonicClock

_LONGEST_LINE = 1 << 22
_LOOK_AGAIN_S = 0.25
_SILENT_S = 0.5


class Lines:
    """What an agent is asked by lines, and answers."""

    def __init__(self, agent: asyncio.subprocess.Process) -> None:
        self._agent = agent

    async def reply(self) -> Any:
        """Its next line. Raises VisavisError where it has ended."""
        assert self._agent.stdout is not None
        line = await self._agent.stdout.readline()
        if not line:
            raise VisavisError("Pipecat's agent ended in the middle")
        return json.loads(line)

    async def ask(self, request: Mapping[str, Any]) -> Any:
        """What it answers."""
        assert self._agent.stdin is not None
        self._agent.stdin.write(f"{json.dumps(request)}\n".encode())
        await self._agent.stdin.drain()
        return await self.reply()

    async def do(self, what: str) -> Any:
        return await self.ask({"do": what})


@dataclass(frozen=True)
class Caller:
    """Speaks to the agent over the connection, and asks it by lines what it noted."""

    speaker: Speaker
    lines: Lines
    job: Mapping[str, Any]

    async def begin_conversation(self) -> None:
        await self.lines.do("begin")

    async def ask(self, clip: Clip) -> dict[str, Any]:
        await self.lines.do("note")
        await self.speaker.say(clip)
        await self._hear()
        return await self._told("question", clip)

    async def interrupt(self, clip: Clip) -> dict[str, Any]:
        speaker = self.speaker
        trace = speaker.trace = Trace()
        await self.lines.do("note")
        await self.lines.do("story")
        spoken_s = self.job["spoken_s"]
        await speaker.until(lambda: trace.audible_s(float("-inf")) >= spoken_s, ANSWER_TIMEOUT_S)
        await speaker.speak_over(clip)
        await speaker.pause(self.job["watch_s"])
        return await self._told("interruption", clip)

    async def _hear(self) -> None:
        """Listen for as long as was agreed, or to the answer's end."""
        speaker, trace = self.speaker, self.speaker.trace
        end_s, listen_s = trace.speech_end_s, self.job["listen_s"]
        if not await speaker.until(lambda: any(trace.audible(end_s)), ANSWER_TIMEOUT_S):
            return
        first_s = next(trace.audible(end_s)).at_s

        def enough() -> bool:
            return trace.sounds[-1].at_s - first_s >= listen_s

        def silent() -> bool:
            return trace.sounds[-1].at_s - (trace.last_audible_s(end_s) or end_s) >= _SILENT_S

        while not enough():
            await speaker.until(lambda: enough() or silent(), ANSWER_TIMEOUT_S)
            if not enough():
                stopped_s = (await self.lines.do("stopped"))["at_s"]
                if stopped_s is not None and stopped_s > first_s:
                    return
                await speaker.pause(_LOOK_AGAIN_S)

    async def _told(self, kind: str, clip: Clip) -> dict[str, Any]:
        trace, noted = self.speaker.trace, await self.lines.do("tell")
        told = {
            "kind": kind,
            "clip": clip.name,
            "speech_start_s": trace.speech_start_s,
            "speech_end_s": trace.speech_end_s,
            "sounds": [[s.at_s, s.audible_at, len(s.pcm)] for s in trace.sounds],
            "rate_hz": trace.sounds[-1].rate_hz,
            **noted,
        }
        await self.lines.do("hush")
        await self.speaker.pause(LONGEST_TURN_TAIL_S)
        return told


async def called(
    command: list[str],
    environment: Mapping[str, str],
    folder: Path,
    job: Mapping[str, Any],
    block: Block,
) -> list[dict[str, Any]]:
    """Start an agent in `folder`, call it, ask it all of `block`, and end it.

    Raises VisavisError with the agent's own words.
    """
    log = folder / "agent.log"
    with log.open("wb") as errors:
        agent = await asyncio.create_subprocess_exec(
            *command, env=environment, stdin=PIPE, stdout=PIPE, stderr=errors, limit=_LONGEST_LINE
        )
    try:
        lines = Lines(agent)
        await lines.reply()  # its models are loaded
        async with _calling(lines) as speaker:
            turns = job["turns_per_session"]
            return await visit(Caller(speaker, lines, job), block.clips, block.interruptions, turns)
    except VisavisError as error:
        told = log.read_text(encoding="utf-8", errors="replace")[-3000:]
        raise VisavisError(f"{error}\n{told}") from error
    finally:
        if agent.returncode is None:
            agent.kill()
        await agent.wait()


@contextlib.asynccontextmanager
async def _calling(lines: Lines) -> AsyncIterator[Speaker]:
    clock = MonotonicClock()
    async with call(lines.ask, clock, pictures=False) as media:
        speaker = Speaker(clock)
        talking = asyncio.create_task(speaker.talk(media))
        talking.add_done_callback(lambda done: speaker.end(_why(done)))
        try:
            if not await speaker.until(lambda: bool(speaker.trace.sounds), ANSWER_TIMEOUT_S):
                raise VisavisError("no sound came over the connection to Pipecat's agent")
            yield speaker
        finally:
            talking.cancel()
            await asyncio.gather(talking, return_exceptions=True)


def _why(done: asyncio.Task[None]) -> BaseException:
    if done.cancelled():
        return asyncio.CancelledError()
    return done.exception() or VisavisError("it fell silent")
