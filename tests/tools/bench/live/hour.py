"""An hour of one session, pushed in real time to three places at once: does anything drift?

    python -m tests.tools.bench.live.hour --minutes 60

nginx from which FFmpeg plays, FFmpeg that listens itself, and an endpoint of WHIP get the counter
of `measure`, a turn a minute with idle life between. Of the first and the last tenth of the turns
are told: how long a picture takes from glass to glass, and how far it is from its beep by the clock
that players keep (WHIP: as aiortc decodes them, 39 ms apart). What drifts differs there, were it by
a millisecond a minute.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import numpy as np

from gateway.live.push.flow import Figures
from tests.gateway.live.peers import free_port
from tests.tools.bench.live.counter import CounterRig, beep_of
from tests.tools.bench.live.measure import KEY, Receiver, Stand, receiving, served, skews_ms, until
from visavis.client import GatewayClient

_FLASHES = 85
"""Of a turn: 51 s."""
_REST_S = 6.0
"""Idle life between two turns, at least."""
_CLOCKS = {"nginx": "stream_s", "ffmpeg": "stream_s", "whip": "wall_s"}


class Way:
    """One place that is pushed to, over all turns."""

    def __init__(self, receiver: Receiver, clock: str) -> None:
        self.target: Callable[[], Any] | None = None
        self.turns: list[tuple[float, float, int]] = []
        """Glass to glass, picture after sound (medians, ms), pictures that came."""
        self.skews_ms: list[float] = []
        self.before = 0
        """Times that it was connected to until it listened."""
        self.receiver = receiver
        self._clock = clock

    @property
    def figures(self) -> Figures:
        assert self.target is not None
        figures: Figures = self.target().figures
        return figures

    def take_turn(self, left: dict[int, float]) -> None:
        """What has come of one turn. left: when each picture left, seconds, by its number."""
        receiver, clock = self.receiver, self._clock
        first = {p["number"]: p for p in reversed(receiver.pictures) if p["number"] in left}
        late = [1000 * (p["wall_s"] - left[n]) for n, p in first.items()]
        beeps = [b[clock] for b in receiver.beeps if clock in b]
        marks = [p[clock] for n, p in first.items() if beep_of(n) and clock in p]
        skews = skews_ms(marks, beeps)
        self.skews_ms += skews
        if late and skews:
            self.turns.append((float(np.median(late)), float(np.median(skews)), len(first)))
        receiver.pictures.clear()
        receiver.beeps.clear()

    def told(self, way: str, turns: int, pictures: int) -> str:
        """The line of this place. pictures: that left the gateway in these turns."""
        figures = self.figures
        sent = (
            f"sent {figures.sent_pictures} pictures, {figures.sent_bytes / 1e6:.0f} MB, dropped "
            f"{figures.dropped_pictures}, connected again {figures.reconnects - self.before} times"
        )
        if not self.turns:
            return f"{way}: no turn came with picture and sound; {sent}"
        table, skews_ms = np.array(self.turns), np.abs(self.skews_ms)
        tenth = max(1, len(self.turns) // 10)
        (late_first, skew_first), (late_last, skew_last) = (
            np.median(part[:, :2], axis=0) for part in (table[:tenth], table[-tenth:])
        )
        return (
            f"{way}: glass to glass {late_first:.0f} ms in the first tenth, {late_last:.0f} in the "
            f"last; picture after sound {skew_first:+.1f} and {skew_last:+.1f} ms, absolute P95 "
            f"{np.percentile(skews_ms, 95):.1f}, max {skews_ms.max():.1f} ({len(skews_ms)} beeps); "
            f"{int(table[:, 2].sum())} of {pictures} numbered pictures came, {len(self.turns)} of "
            f"{turns} turns; {sent}"
        )


async def shown(stand: Stand) -> None:
    """A turn of the counter, up to the last picture that a busy machine makes of it."""
    left = stand.witness.left
    await stand.count(_FLASHES)
    await until(lambda: left)
    while time.time() - max(left.values()) < _REST_S:  # noqa: ASYNC110
        await asyncio.sleep(0.5)


async def pushed(stand: Stand, minutes: float, folder: Path) -> list[str]:
    async with AsyncExitStack() as stack:
        ports = {way: free_port() for way in _CLOCKS}
        listen = f"rtmp://127.0.0.1:{ports['ffmpeg']}/live"
        playing = await served("nginx", stand, ports["nginx"], stack)
        commands = {
            "nginx": ("open", playing),
            "ffmpeg": ("open", f"{listen}/{KEY}", "listen"),
            "whip": ("whip", str(ports["whip"]), KEY),
        }
        ways = {
            way: Way(await stack.enter_async_context(receiving(*command)), _CLOCKS[way])
            for way, command in commands.items()
        }
        (session,) = stand.rig.running.inside.sessions.all()
        (to_nginx,) = session.outlets.live.broadcasts.all()
        ways["nginx"].target = lambda: to_nginx
        ways["ffmpeg"].target = await stand.broadcast(listen)
        ways["whip"].target = await stand.broadcast(f"http://127.0.0.1:{ports['whip']}/whip")
        # Processes of their own: on a busy machine they take their time to begin.
        await until(lambda: all(way.receiver.pictures for way in ways.values()), 180)
        for way in ways.values():
            way.before = way.figures.reconnects
        begun, turns, pictures = time.monotonic(), 0, 0
        while (since_s := time.monotonic() - begun) < 60 * minutes:
            await shown(stand)
            left = dict(stand.witness.left)
            for way in ways.values():
                way.take_turn(left)
            stand.witness.left.clear()
            turns, pictures = turns + 1, pictures + len(left)
            sys.stderr.write(f"{since_s / 60:.0f} of {minutes:g} min\n")
        minutes_taken = (time.monotonic() - begun) / 60
        return [
            f"{minutes_taken:.0f} min in real time, {turns} turns",
            *(way.told(name, turns, pictures) for name, way in ways.items()),
        ]


async def main(minutes: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        rig = CounterRig(Path(folder))
        await rig.start()
        try:
            async with GatewayClient(rig.running.url) as client:
                stand = Stand(rig, client, Path(folder))
                await stand.begin()
                lines = await pushed(stand, minutes, Path(folder))
                sys.stdout.write("\n".join([*lines, ""]))
                await stand.end()
        finally:
            await rig.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.tools.bench.live.hour")
    parser.add_argument("--minutes", type=float, default=60.0)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(message)s")
    asyncio.run(main(parser.parse_args().minutes))
