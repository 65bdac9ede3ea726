"""`visavis bench face`: what one face costs its processor, silent and speaking.

A face service of its own is watched from outside: CPU seconds of its process over the frames that
came out of it. So the figure holds all of the work, not only drawing.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import psutil
import typer
from rich.table import Table

from visavis.serving.errors import VisavisError
from visavis.tools.bench.benchmark import Benchmark, Json
from visavis.tools.speech import service_errors
from visavis.tools.stack.nats_server import NatsServer
from visavis.tools.stack.plain_service import plain_service
from visavis.tools.stack.process import log_dir
from visavis.v1 import face_pb2, face_pb2_grpc
from visavis.wire.bus import Bus
from visavis.wire.clock import Clock, MonotonicClock
from visavis.wire.media import (
    ClockChunk,
    MelChunk,
    PhonemeSpan,
    Place,
    TurnChunk,
    VideoChunk,
    VideoCodec,
)
from visavis.wire.subjects import Kind

_SESSION, _TURN = "bench-face", 1
_RATE_HZ, _HOP_SAMPLES = 16_000, 160
_SETTLE_S = 2.0
"""Not counted: the first frames after a change."""
_CHUNK_S, _SOUND_S = 0.5, 0.1
_SOUNDS = "M AA1 P L IY1 F UW1 B AY1 M EH1 N W AO1 T ER0 V".split()


@dataclass(frozen=True, slots=True)
class FaceCost:
    """A stretch of time: CPU seconds of the service, frames that it sent, their bytes."""

    seconds: float
    cpu_s: float
    frames: int
    payload_bytes: int

    @property
    def share(self) -> float:
        """Of one core."""
        return self.cpu_s / self.seconds

    @property
    def frame_cpu_s(self) -> float:
        """CPU seconds for each frame. VisavisError if none came."""
        if not self.frames:
            raise VisavisError("the face service sent no pictures")
        return self.cpu_s / self.frames

    @property
    def bits_per_second(self) -> float:
        return 8 * self.payload_bytes / self.seconds


class FaceUnderTest:
    """One session on a face service, watched and made to speak. Made by `face_under_test`."""

    def __init__(self, bus: Bus, process: psutil.Process, clock: Clock) -> None:
        self._bus, self._process, self._clock = bus, process, clock
        self._frames = self._bytes = 0

    async def watch(self) -> None:
        """Count what the face sends, until cancelled."""
        async with self._bus.subscribe(_SESSION, Kind.VIDEO) as video:
            async for chunk in video:
                assert isinstance(chunk, VideoChunk)
                self._frames += 1
                self._bytes += len(chunk.payload)

    async def cost(self, seconds: float) -> FaceCost:
        """From now on, once the face has settled."""
        await asyncio.sleep(_SETTLE_S)
        began_s, cpu_s, frames, size = self._clock.now(), self._cpu_s(), self._frames, self._bytes
        await asyncio.sleep(seconds)
        return FaceCost(
            self._clock.now() - began_s,
            self._cpu_s() - cpu_s,
            self._frames - frames,
            self._bytes - size,
        )

    async def speak(self) -> None:
        """Have it say something, and play it in real time, until cancelled."""
        await self._bus.publish(Kind.TURN, TurnChunk(Place(_SESSION, _TURN, 0, 0), "bench"))
        began_s, said_s, count = self._clock.now(), 0.0, 0
        while True:
            played_s = self._clock.now() - began_s
            while said_s < played_s + 3.0:
                await self._bus.publish(Kind.MEL, mel_chunk(count))
                count, said_s = count + 1, said_s + _CHUNK_S
            place = Place(_SESSION, _TURN, 0, round(played_s * _RATE_HZ))
            await self._bus.publish(Kind.CLOCK, ClockChunk(place, _RATE_HZ))
            await asyncio.sleep(0.1)

    def _cpu_s(self) -> float:
        times = self._process.cpu_times()
        return float(times.user + times.system)


def mel_chunk(index: int) -> MelChunk:
    """Half a second of an endless answer, as a synthesis describes it."""
    hops = round(_CHUNK_S * _RATE_HZ / _HOP_SAMPLES)
    length = round(_SOUND_S * _RATE_HZ)
    count = round(_CHUNK_S / _SOUND_S)
    spans = tuple(
        PhonemeSpan(_SOUNDS[k % len(_SOUNDS)], k * length, length)
        for k in range(index * count, (index + 1) * count)
    )
    mel = np.zeros((hops, 80), np.float32)
    place = Place(_SESSION, _TURN, index, index * hops)
    return MelChunk(place, _RATE_HZ, _HOP_SAMPLES, mel, spans)


@contextlib.asynccontextmanager
async def face_under_test(
    codec: VideoCodec, log_dir: Path, clock: Clock
) -> AsyncIterator[FaceUnderTest]:
    """A face service with a bus, and one session that is watched in `codec`."""
    with NatsServer(log_dir) as nats:
        flags = ["--nats-url", nats.url]
        async with plain_service("face", flags, log_dir) as channel:
            bus = await Bus.connect(nats.url, name="bench")
            call = face_pb2_grpc.FaceAnimationStub(channel).Attach()
            try:
                with service_errors("face: "):
                    face = face_pb2.FaceConfig(codecs=[codec.name], seed=1)
                    config = face_pb2.FaceAttachConfig(session=_SESSION, face=face)
                    await call.write(face_pb2.FaceAttachRequest(config=config))
                    await call.read()
                    under_test = FaceUnderTest(bus, _process(), clock)
                    watching = asyncio.create_task(under_test.watch())
                    yield under_test
                    watching.cancel()
                    await asyncio.gather(watching, return_exceptions=True)
            finally:
                call.cancel()
                await bus.close()


def _process() -> psutil.Process:
    """The face service that this process has started."""
    for child in psutil.Process().children():
        if "services.face" in child.cmdline():
            return child
    raise VisavisError("the face service is gone")


# ------------------------------------------------------------ the command


def face(
    seconds: Annotated[float, typer.Option(min=1, help="So long each, idle and speaking.")] = 15.0,
    codec: Annotated[Literal["h264", "vp8"], typer.Option(help="What is watched.")] = "h264",
    json_path: Json = None,
) -> None:
    """Start a face service and measure the processor time of each picture."""
    bench = Benchmark("face", json_path)
    folder = log_dir() / "bench"

    async def run() -> dict[str, FaceCost]:
        chosen = VideoCodec[codec.upper()]
        async with face_under_test(chosen, folder, MonotonicClock()) as under_test:
            idle = await under_test.cost(seconds)
            speaking = asyncio.create_task(under_test.speak())
            try:
                return {"idle": idle, "speaking": await under_test.cost(seconds)}
            finally:
                speaking.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await speaking

    with bench.console.status("measuring"):
        costs = asyncio.run(run())
    bench.console.print(_table(costs))
    settings = {"seconds": seconds, "codec": codec}
    bench.write_json([], counts=_counts(costs), turns=[], settings=settings)


def _table(costs: Mapping[str, FaceCost]) -> Table:
    table = Table("", title="One face, 512 x 512, 25 pictures a second", title_justify="left")
    for column in ("CPU a picture", "of a core", "pictures/s", "kbit/s"):
        table.add_column(column, justify="right")
    for name, cost in costs.items():
        table.add_row(
            name,
            f"{1e3 * cost.frame_cpu_s:.2f} ms",
            f"{cost.share:.1%}",
            f"{cost.frames / cost.seconds:.1f}",
            f"{cost.bits_per_second / 1e3:.0f}",
        )
    return table


def _counts(costs: Mapping[str, FaceCost]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, cost in costs.items():
        found[f"{name}_frame_cpu_s"] = round(cost.frame_cpu_s, 6)
        found[f"{name}_share_of_a_core"] = round(cost.share, 4)
        found[f"{name}_bits_per_second"] = round(cost.bits_per_second)
    return found
