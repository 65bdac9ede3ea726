"""In which order a visitor asks an agent of Pipecat's, wherever he sits.

Imported in Pipecat's environment and in ours: nothing but the standard library.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar

ANSWER_TIMEOUT_S = 30.0
LONGEST_TURN_TAIL_S = 0.6
"""What Pipecat may still say once it has been told to be silent."""

ClipT = TypeVar("ClipT", contravariant=True)


class Asking(Protocol[ClipT]):
    """A visitor in front of an agent."""

    async def begin_conversation(self) -> None:
        """What was said so far is forgotten."""

    async def ask(self, clip: ClipT) -> dict[str, Any]:
        """Ask, hear the answer for long enough, and tell of it."""

    async def interrupt(self, clip: ClipT) -> dict[str, Any]:
        """Have a long answer told, speak into its middle, and tell of it."""


async def visit(
    visitor: Asking[ClipT],
    clips: Sequence[ClipT],
    interruptions: Sequence[ClipT],
    turns_per_session: int,
    *,
    every_s: float = 0.0,
    begins: Callable[[], Awaitable[float]] | None = None,
) -> list[dict[str, Any]]:
    """Ask all clips, a new conversation after so many turns, then interrupt.

    every_s: from question to question, counted from the monotonic moment that `begins` waits for.
    """
    done = []
    begins_s: float | None = None
    for index, clip in enumerate(clips):
        if index % turns_per_session == 0:
            await visitor.begin_conversation()
            # Warm-up, not counted, as for visavis.
            await visitor.ask(clips[min(index + turns_per_session, len(clips)) - 1])
        if begins is not None:
            if begins_s is None:
                begins_s = await begins()
            await asyncio.sleep(max(0.0, begins_s + index * every_s - time.monotonic()))
        done.append(await visitor.ask(clip))
    for clip in interruptions:
        await visitor.begin_conversation()
        done.append(await visitor.interrupt(clip))
    return done
