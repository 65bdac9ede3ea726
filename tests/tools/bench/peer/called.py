"""An agent of Pipecat's that answers one call over WebRTC; runs inside Pipecat's own environment.

    python -m tests.tools.bench.peer.called JOB.json

Pipecat's own transport carries the sound. `caller`, at the other end, asks by lines on standard
input what it wants to know of the agent, and has its answers as lines on standard output.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from pipecat.transports.smallwebrtc.connection import SmallWebRTCConnection
from pipecat.transports.smallwebrtc.transport import SmallWebRTCTransport

from tests.tools.bench.peer.agent import PARAMS, Agent, Cost, agent, read_job
from tests.tools.bench.peer.parts import Desk, Notes


async def called(job: dict[str, Any]) -> None:
    """Answer one call. Each line in is a request, {"do": …}, each line out is what came of it."""
    desk = Desk()
    async with agent(job, desk) as made:
        _reply({})  # its models are loaded
        connection = SmallWebRTCConnection()
        offer = await _request()
        await connection.initialize(offer["sdp"], offer["type"])
        transport = SmallWebRTCTransport(connection, PARAMS)
        async with made.running(transport.input(), transport.output()):
            _reply(connection.get_answer())
            await _served(made, desk)
        await connection.disconnect()


async def _served(made: Agent, desk: Desk) -> None:
    cost = Cost()
    while (wanted := await _request()) is not None:
        told: dict[str, Any] = {}
        match wanted["do"]:
            case "begin":
                made.begin_conversation()
            case "note":
                desk.notes, cost = Notes(), Cost()
            case "story":
                await made.tell_a_long_story()
            case "hush":
                await made.hush()
            case "stopped":
                told = {"at_s": desk.notes.last("bot_stopped")}
            case "tell":
                told = {**desk.notes.told(), **cost.told()}
            case other:
                raise ValueError(f"nothing is known of {other!r}")
        _reply(told)


async def _request() -> Any:
    """The next line of standard input; None at its end."""
    line = await asyncio.to_thread(sys.stdin.readline)
    return json.loads(line) if line else None


def _reply(told: Any) -> None:
    print(json.dumps(told), flush=True)  # noqa: T201


if __name__ == "__main__":
    asyncio.run(called(read_job()))
