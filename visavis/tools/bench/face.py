"""`visavis bench face`: what faces cost their processor, silent and speaking.

A face service of its own is watched from outside: CPU seconds of its process over the frames that
came out of it. So the figure holds all of the work, not only drawing.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import psutil
import typer

from visavis.serving.errors import VisavisError
from visavis.serving.lifetime.supervision import cancelled_at_last
from visavis.tools.bench.benchmark import Benchmark, Json
from visavis.tools.bench.figures.report import machine_kind
from visavis.tools.shown import Table
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

_TURN = 1
_RATE_HZ, _HOP_SAMPLES = 16_000, 160
_SETTLE_S = 2.0
"""Not counted: the first frames after a change."""
_CHUNK_S, _SOUND_S = 0.5, 0.1
_CLOCK_S = 0.1
"""As often the gateway tells what has been heard."""
_APART_S = 0.013
"""No two visitors begin at once, nor a whole number of pictures apart."""
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
    """One session on a face service, watched and made to speak."""

    def __init__(self, session: str, bus: Bus, clock: Clock) -> None:
        self._session, self._bus, self._clock = session, bus, clock
        self.frames = self.payload_bytes = 0
        """Sent so far."""

    async def watch(self) -> None:
        """Count what the face sends, until cancelled."""
        async with self._bus.subscribe(self._session, Kind.VIDEO) as video:
            async for chunk in video:
                assert isinstance(chunk, VideoChunk)
                self.frames += 1
                self.payload_bytes += len(chunk.payload)

    async def speak(self) -> None:
        """Have it say something, and play it in real time, until cancelled."""
        opening = TurnChunk(Place(self._session, _TURN, 0, 0), "bench")
        await self._bus.publish(Kind.TURN, opening)
        began_s, said_s, count = self._clock.now(), 0.0, 0
        while True:
            played_s = self._clock.now() - began_s
            while said_s < played_s + 3.0:
                await self._bus.publish(Kind.MEL, mel_chunk(count, self._session))
                count, said_s = count + 1, said_s + _CHUNK_S
            place = Place(self._session, _TURN, 0, round(played_s * _RATE_HZ))
            await self._bus.publish(Kind.CLOCK, ClockChunk(place, _RATE_HZ))
            await asyncio.sleep(_CLOCK_S)


class FacesUnderTest:
    """Sessions on one face service and what they cost it. Made by `faces_under_test`."""

    def __init__(
        self, faces: Sequence[FaceUnderTest], size: int, process: psutil.Process, clock: Clock
    ) -> None:
        """size: of a picture, pixels."""
        self._faces, self._process, self._clock = faces, process, clock
        self.size = size

    async def cost(self, seconds: float) -> FaceCost:
        """From now on, once the faces have settled."""
        await asyncio.sleep(_SETTLE_S)
        began_s, before = self._clock.now(), self._spent()
        await asyncio.sleep(seconds)
        cpu_s, frames, size = (b - a for a, b in zip(before, self._spent(), strict=True))
        return FaceCost(self._clock.now() - began_s, cpu_s, int(frames), int(size))

    async def speak(self) -> None:
        """Have all of them speak, begun a little apart, until cancelled."""
        async with asyncio.TaskGroup() as speaking:
            for face in self._faces:
                speaking.create_task(face.speak())
                await asyncio.sleep(_APART_S)

    def _spent(self) -> tuple[float, int, int]:
        times = self._process.cpu_times()
        frames = sum(face.frames for face in self._faces)
        return times.user + times.system, frames, sum(f.payload_bytes for f in self._faces)


def mel_chunk(index: int, session: str = "bench") -> MelChunk:
    """Half a second of an endless answer, as a synthesis describes it."""
    hops = round(_CHUNK_S * _RATE_HZ / _HOP_SAMPLES)
    length = round(_SOUND_S * _RATE_HZ)
    count = round(_CHUNK_S / _SOUND_S)
    spans = tuple(
        PhonemeSpan(_SOUNDS[k % len(_SOUNDS)], k * length, length)
        for k in range(index * count, (index + 1) * count)
    )
    mel = np.zeros((hops, 80), np.float32)
    place = Place(session, _TURN, index, index * hops)
    return MelChunk(place, _RATE_HZ, _HOP_SAMPLES, mel, spans)


@dataclass(frozen=True, slots=True)
class Worn:
    """What the faces look like. avatar: "" is the default one; head_size: of heads, pixels."""

    avatar: str = ""
    head_size: int = 512


@contextlib.asynccontextmanager
async def faces_under_test(
    sessions: int, codec: VideoCodec, worn: Worn, log_dir: Path, clock: Clock
) -> AsyncIterator[FacesUnderTest]:
    """A face service with a bus, and so many sessions that are watched in `codec`."""
    names = [f"bench-face-{k}" for k in range(sessions)]
    async with contextlib.AsyncExitStack() as held:
        nats = held.enter_context(NatsServer(log_dir))
        flags = ["--nats-url", nats.url, "--slots", str(sessions)]
        flags += ["--head-size", str(worn.head_size)]
        channel = await held.enter_async_context(plain_service("face", flags, log_dir))
        bus = await Bus.connect(nats.url, name="bench")
        held.push_async_callback(bus.close)
        stub = face_pb2_grpc.FaceAnimationStub(channel)
        faces = [FaceUnderTest(name, bus, clock) for name in names]
        with service_errors("face: "):
            listed = (await stub.ListAvatars(face_pb2.ListAvatarsRequest())).avatars
            size = next((a.width for a in listed if a.name == worn.avatar), listed[0].width)
            for seed, name in enumerate(names, 1):
                face = face_pb2.FaceConfig(codecs=[codec.name], seed=seed, avatar=worn.avatar)
                await held.enter_async_context(_attached(stub, name, face))
        watching = [face.watch() for face in faces]
        await held.enter_async_context(cancelled_at_last(*watching))
        yield FacesUnderTest(faces, size, _process(), clock)


@contextlib.asynccontextmanager
async def _attached(
    stub: face_pb2_grpc.FaceAnimationStub, session: str, face: face_pb2.FaceConfig
) -> AsyncIterator[None]:
    call = stub.Attach()
    try:
        config = face_pb2.FaceAttachConfig(session=session, face=face)
        await call.write(face_pb2.FaceAttachRequest(config=config))
        await call.read()
        yield
    finally:
        call.cancel()


def _process() -> psutil.Process:
    """The face service that this process has started."""
    for child in psutil.Process().children():
        if "services.face" in child.cmdline():
            return child
    raise VisavisError("the face service is gone")


# ------------------------------------------------------------ the command


def face(
    seconds: Annotated[float, typer.Option(min=1, help="So long each, idle and speaking.")] = 15.0,
    sessions: Annotated[
        list[int] | None, typer.Option(min=1, help="Faces at once; may be given several times.")
    ] = None,
    codec: Annotated[Literal["h264", "vp8"], typer.Option(help="What is watched.")] = "h264",
    avatar: Annotated[
        str, typer.Option(help="Who is drawn, as a head (ada, ben, …); empty: the default avatar.")
    ] = "",
    head_size: Annotated[
        Literal["256", "512", "768", "1024"],
        typer.Option(help="Side of a head's pictures, pixels."),
    ] = "512",
    json_path: Json = None,
) -> None:
    """Start a face service and measure the processor time of each picture."""
    bench = Benchmark("face", json_path)
    folder = log_dir() / "bench"
    chosen, worn, size = VideoCodec[codec.upper()], Worn(avatar, int(head_size)), 0

    async def run(count: int) -> dict[str, FaceCost]:
        nonlocal size
        async with faces_under_test(count, chosen, worn, folder, MonotonicClock()) as under_test:
            size = under_test.size
            idle = await under_test.cost(seconds)
            async with cancelled_at_last(under_test.speak()):
                return {"idle": idle, "speaking": await under_test.cost(seconds)}

    costs: dict[int, dict[str, FaceCost]] = {}
    for count in sessions or [1]:
        with bench.console.status(f"measuring {count}"):
            costs[count] = asyncio.run(run(count))
    whose = f"{avatar or 'The default avatar'}, {size} x {size}; {machine_kind()}"
    bench.console.print(_table(costs, whose))
    settings = {"seconds": seconds, "codec": codec, "avatar": avatar, "size": size}
    bench.write_json([], counts=_counts(costs), turns=[], settings=settings)


Costs = Mapping[int, Mapping[str, FaceCost]]
"""By the number of faces, and by what they do."""


def _table(costs: Costs, shown: str) -> Table:
    table = Table("faces", "", title=f"{shown}, 25 pictures a second for each face")
    for column in ("CPU a picture", "of a core", "pictures/s each", "kbit/s each"):
        table.add_column(column, justify="right")
    for count, by_name in costs.items():
        for name, cost in by_name.items():
            table.add_row(
                str(count),
                name,
                f"{1e3 * cost.frame_cpu_s:.2f} ms",
                f"{cost.share:.1%}",
                f"{cost.frames / cost.seconds / count:.1f}",
                f"{cost.bits_per_second / 1e3 / count:.0f}",
            )
    return table


def _counts(costs: Costs) -> dict[str, float]:
    found: dict[str, float] = {}
    for count, by_name in costs.items():
        for name, cost in by_name.items():
            key = f"{count}_{name}"
            found[f"{key}_frame_cpu_s"] = round(cost.frame_cpu_s, 6)
            found[f"{key}_share_of_a_core"] = round(cost.share, 4)
            found[f"{key}_pictures_per_second"] = round(cost.frames / cost.seconds, 2)
            found[f"{key}_bits_per_second"] = round(cost.bits_per_second)
    return found
