"""A test signal that shows whether picture and sound are in step where they are met.

A white picture and a beep begin at the same media time, again and again. Doubles of tts and
face speak and show it through the real bus, gateway, WebRTC or WebSocket, and Chromium; the
page (flash_and_beep.js) notes when each becomes audible and visible.

Sound may be late by 45 ms at most and early by 15 (ATSC IS-191): -45 to +15 ms as counted here. The
last of the way is the browser's own word, of how far the speaker is away.

Measure with more of them, on a quiet machine: `python -m tests.browser.flash_and_beep 200`. It
tells as well how long after it has left the gateway the sound is heard. With `--stall 0.4` the
gateway stands still for so many seconds in the middle: how late is the sound then, and how long?
With `--browsers-own` the browser plays the sound of WebRTC, as it does where the page cannot. With
`--drawn-here` the page draws a head itself, whose jaw falls where else pictures are white.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from playwright.async_api import Browser, Page

from deploy.chromium import NO_CHROMIUM, find_chromium
from gateway.playout.pacing import RATE_HZ
from tests.browser.block_head import block_head
from tests.browser.conftest import WEBGL, chromium, fresh_page
from tests.face.engines.made_head import bundle_files
from tests.gateway.conftest import Rig
from tests.gateway.doubles import FPS, KINDS, VOICE_RATE_HZ, FaceDouble, TtsDouble
from tests.gateway.media import PictureEncoder, PoseEncoder, encoder_of, tone
from visavis.v1 import face_pb2
from visavis.wire.bus import Subscription
from visavis.wire.media import PcmChunk, Place, VideoChunk, VideoCodec
from visavis.wire.subjects import Kind

PROBE = Path(__file__).with_name("flash_and_beep.js").read_text("utf-8")
FIRST_FRAME, EVERY_FRAMES, _WHITE_FRAMES = 10, 15, 4
_BLACK, _WHITE = 30, 220
_KEYFRAME_FRAMES = 2 * FPS
# How far the sound may be spoken ahead of real time: as a synthesiser with credit does.
_LEAD_S = 0.5
_LOOK_S = 2.0
_SCENE = {
    "framing": {"position": [0.0, 0.0, 1.2], "target": [0.0, 0.0, 0.0], "vertical_fov_deg": 20.0},
    "light": {"lamps": [], "ambient": 1.0, "baked": False},
    "neck": [0.0, -0.1, 0.0],
}
"""How the portrait of the head shows it that the page draws."""
BACK_MS = 30
"""So near to what it was before, the sound is back in time."""
STALL_AT_MS, CATCH_UP_MS = 3000, 1000


def frames_of(flashes: int) -> int:
    """Length of the signal, with a rest after the last flash."""
    return FIRST_FRAME + flashes * EVERY_FRAMES


def is_white(frame: int) -> bool:
    """Whether a picture belongs to a flash; from picture FIRST_FRAME on."""
    return frame >= FIRST_FRAME and (frame - FIRST_FRAME) % EVERY_FRAMES < _WHITE_FRAMES


@cache
def beeps(flashes: int) -> NDArray[np.int16]:
    """The sound: [N] int16 at VOICE_RATE_HZ, loud exactly where pictures are white."""
    hop = VOICE_RATE_HZ // FPS
    white = np.repeat([is_white(i) for i in range(frames_of(flashes))], hop)
    return np.where(white, tone(len(white), rate_hz=VOICE_RATE_HZ, frequency_hz=1000), 0).astype(
        np.int16
    )


class SignalTts(TtsDouble):
    """Beeps for as long as script.voice_s, at most _LEAD_S ahead of real time."""

    async def _speak(self, session: str, turn: int) -> None:
        pcm = beeps(round(self.script.voice_s * FPS - FIRST_FRAME) // EVERY_FRAMES)
        step = VOICE_RATE_HZ // 10
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        for seq, pts in enumerate(range(0, len(pcm), step)):
            ahead_s = begun_s + pts / VOICE_RATE_HZ - _LEAD_S - loop.time()
            await asyncio.sleep(max(0.0, ahead_s))
            place = Place(session, turn, seq, pts, last=pts + step >= len(pcm))
            chunk = PcmChunk(place, VOICE_RATE_HZ, np.ascontiguousarray(pcm[pts : pts + step]))
            await self.bus.publish(Kind.VOICE, chunk)


class SignalFace(FaceDouble):
    """Black while idle; flashes with the beeps, as its voice comes in."""

    late: ClassVar[tuple[int, float]] = (-1, 0.0)
    """From this picture on all are held up for so many seconds, and come at once then."""

    async def work(self, session: str, listening: asyncio.Event) -> None:
        self._begin(session)
        encoders: dict[VideoCodec, PictureEncoder | PoseEncoder] = {}
        seq = 0
        async with self.bus.subscribe(session, Kind.VOICE, limit=256) as voices:
            listening.set()
            ahead: PcmChunk | None = None
            while True:
                chunk, ahead = ahead or await _next(voices), None
                if chunk is None:
                    await self._flash(session, encoders, seq, Place(session, 0, seq, 0))
                    seq += 1
                    continue
                turn, made, voice_s, last = chunk.place.turn, 0, 0.0, False
                while not last and ahead is None:
                    voice_s += len(chunk.pcm) / chunk.sample_rate_hz
                    last = chunk.place.last
                    while made < round(voice_s * FPS):
                        if made == self.late[0]:
                            await asyncio.sleep(self.late[1])
                        ends = last and made + 1 == round(voice_s * FPS)
                        place = Place(session, turn, seq, made, last=ends)
                        await self._flash(session, encoders, seq, place)
                        seq, made = seq + 1, made + 1
                    if not last:
                        chunk = await anext(voices)
                        assert isinstance(chunk, PcmChunk)
                        ahead = chunk if chunk.place.turn != turn else None  # the last one was cut
                await asyncio.sleep(_LEAD_S if last else 0)

    async def _flash(
        self,
        session: str,
        encoders: dict[VideoCodec, PictureEncoder | PoseEncoder],
        seq: int,
        place: Place,
    ) -> None:
        wanted, self._keyframe[session] = self._keyframe[session], False
        for codec in self._codecs[session]:
            # As the face does it: a page that forgets old pictures forgets up to a key frame.
            keyframe = wanted or codec not in encoders or seq % _KEYFRAME_FRAMES == 0
            encoder = encoders.setdefault(codec, encoder_of(codec))
            brightness = _WHITE if place.turn and is_white(place.pts) else _BLACK
            payload, key = encoder.encode(brightness, keyframe=keyframe)
            size, live = encoder.size, place.turn == 0
            video = VideoChunk(place, live, codec, key, size, size, FPS, payload)
            await self.bus.publish(Kind.VIDEO, video)

    async def GetAvatarHead(self, request: Any, context: Any) -> Any:
        content = {
            face_pb2.GetAvatarHeadRequest.FILE_MODEL: block_head(),
            face_pb2.GetAvatarHeadRequest.FILE_SCENE: json.dumps(_SCENE).encode(),
            face_pb2.GetAvatarHeadRequest.FILE_BACKGROUND: bundle_files()["background.png"],
        }[request.file]
        return face_pb2.AvatarHead(content=content, sha256=f"block {request.file}")


async def _next(voices: Subscription) -> PcmChunk | None:
    """The next voice, or None where none comes before the next idle picture."""
    try:
        async with asyncio.timeout(1 / FPS):
            chunk = await anext(voices)
    except TimeoutError:
        return None
    assert isinstance(chunk, PcmChunk)
    return chunk


class SignalRig(Rig):
    """A gateway that shows the test signal."""

    kinds = MappingProxyType({**KINDS, "tts": SignalTts, "face": SignalFace})


# ------------------------------------------------------------ measuring


@dataclass(frozen=True)
class Skews:
    """Milliseconds that each picture was seen after its sound was heard; negative: before."""

    transport: str
    pairs_ms: tuple[float, ...]
    flashes_ms: tuple[float, ...]
    beeps_ms: tuple[float, ...]
    """When each was seen and heard, by one clock."""
    output_ms: float
    """From the browser's playing to the speaker, as the browser tells it; counted in."""
    zero_ms: float
    """Of that clock, since the epoch."""

    def percentile(self, share: float) -> float:
        """Of the absolute skew."""
        return float(np.percentile(np.abs(self.pairs_ms), share))

    def __str__(self) -> str:
        signed = np.median(self.pairs_ms) if self.pairs_ms else float("nan")
        return (
            f"{self.transport}: picture after sound, median {signed:+.0f} ms; "
            f"absolute P95 {self.percentile(95):.0f}, max {self.percentile(100):.0f} ms "
            f"({len(self.pairs_ms)} pairs, {len(self.flashes_ms)} flashes, "
            f"{len(self.beeps_ms)} beeps, "
            f"audio output {self.output_ms:.0f} ms)"
        )


def pair(flashes: Sequence[float], beeps: Sequence[float], reach_ms: float) -> tuple[float, ...]:
    """Each flash with its beep: in order where none is missing, else with the nearest one.

    Of those, the ones that lie within `reach_ms`.
    """
    if len(flashes) == len(beeps):
        return tuple(flash - beep for flash, beep in zip(flashes, beeps, strict=True))
    if not beeps:
        return ()
    nearest = [min((flash - beep for beep in beeps), key=abs) for flash in flashes]
    return tuple(skew for skew in nearest if abs(skew) <= reach_ms)


_NO_GREETING = """localStorage.setItem("visavis.preferences", JSON.stringify({ welcome: false }))"""


async def measure(
    page: Page, rig: Rig, transport: str, flashes: int, *, drawn_by: str = "server"
) -> Skews:
    """Have the signal played in the product's own page."""
    rig.doubles.script.voice_s = frames_of(flashes) / FPS
    await page.add_init_script(_NO_GREETING)
    await page.goto(f"{rig.running.url}/?transport={transport}&drawnBy={drawn_by}")
    await page.click("#start-type")
    shown = "[data-video=playing]" if drawn_by == "server" else "[data-drawn=client]"
    await page.wait_for_selector(f"body[data-connection=live]{shown}")
    assert await page.get_attribute("body", "data-transport") == transport
    if transport == "websocket":  # else there is no sound yet that could be read
        while await page.evaluate("document.querySelector('video').currentTime < 0.5"):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    await page.evaluate(PROBE)
    # As for a visitor, who looks before they speak: buffers settle, and WebRTC's reports, by which
    # the browser puts picture and sound together, have come.
    await asyncio.sleep(_LOOK_S)
    await page.fill("#message", "Flash and beep.")
    await page.press("#message", "Enter")
    wait_ms = 1000 * (frames_of(flashes) / FPS + 15)
    await page.wait_for_selector("body[data-state=speaking]", timeout=wait_ms)
    await page.wait_for_selector("body[data-state=idle]", timeout=wait_ms)
    noted: dict[str, Any] = await page.evaluate("noted.stop()")
    reach_ms = 1000 * EVERY_FRAMES / FPS / 2
    pairs = pair(noted["flashes"], noted["beeps"], reach_ms)
    return Skews(
        transport,
        pairs,
        tuple(noted["flashes"]),
        tuple(noted["beeps"]),
        noted["output_ms"],
        noted["zero_ms"],
    )


async def measure_all(
    browser: Browser,
    rig: Rig,
    flashes: int,
    *,
    browsers_own: bool = False,
    drawn_by: str = "server",
) -> list[Skews]:
    """Over WebRTC and over the WebSocket, one after the other, the page moving as it does.

    browsers_own: the browser plays the sound of WebRTC, as it does where the page cannot.
    """
    measured = []
    for transport in ("webrtc", "websocket"):
        async with fresh_page(browser, reduced_motion="no-preference") as page:
            if browsers_own:
                await page.add_init_script("delete window.RTCRtpScriptTransform")
            measured.append(await measure(page, rig, transport, flashes, drawn_by=drawn_by))
    return measured


@dataclass
class Departure:
    """When a turn's sound left the gateway, and when that stood still; epoch milliseconds."""

    left: list[tuple[float, float]] = field(default_factory=list)
    """Places in the turn's sound, and where its beginning lay when that left."""
    stalled_ms: float | None = None
    over_ms: float | None = None

    def due_ms(self, place_ms: float) -> float:
        """When a place of the turn's sound left, or would have, had the gateway not stood still.

        The sound itself may pause, on a busy machine; what it catches up with was due before.
        """
        caught_up = [begun for at, begun in self.left if 0 <= at - place_ms <= CATCH_UP_MS]
        return place_ms + min(caught_up)

    def lateness(self, skews: Skews) -> list[tuple[float, float]]:
        """For each beep: when it was heard, since the stall was over, and how late; milliseconds.

        What the stall tears apart is counted twice: after it, beeps are counted from the last one.
        """
        heard = [skews.zero_ms + beep_ms for beep_ms in skews.beeps_ms]
        over_ms = self.over_ms or heard[-1]
        surplus = len(heard) - len(skews.flashes_ms)
        late = []
        for number, then in enumerate(heard):
            index = number - surplus * (then > over_ms)
            due_ms = self.due_ms(1000 * (FIRST_FRAME + index * EVERY_FRAMES) / FPS)
            late.append((then - over_ms, then - due_ms))
        return late

    def told(self, skews: Skews) -> str:
        """How late the sound was before the stall, if there was one, and after it."""
        late = self.lateness(skews)
        stalled_ms = (self.stalled_ms or np.inf) - (self.over_ms or 0)
        usual_ms = float(np.median([late_ms for at_ms, late_ms in late if at_ms < stalled_ms]))
        told = f"sound heard {usual_ms:.0f} ms after it left"
        after = [beep for beep in late if beep[0] > 0]
        if not after:
            return told
        punctual = [abs(late_ms - usual_ms) <= BACK_MS for _, late_ms in after]
        back = len(punctual) - [*reversed(punctual), False].index(False)
        back_s = f"{after[back][0] / 1000:.1f} s" if back < len(after) else "never"
        listed = ", ".join(f"{at_ms / 1000:.1f} s: {late_ms:.0f}" for at_ms, late_ms in after)
        return f"{told}; as before after {back_s} of the stall's end\n  {listed}"


async def watch(rig: SignalRig, departures: list[Departure], stall_s: float) -> None:
    """Notes each turn's departure; once it has been heard for three seconds, nothing moves."""
    seen: dict[int, Departure] = {}
    while True:
        await asyncio.sleep(0.003)
        for session in rig.running.inside.sessions.all():
            playout = session._playout
            if playout.start_samples is None:
                continue
            if id(session) not in seen:
                seen[id(session)] = Departure()
                departures.append(seen[id(session)])
            departure = seen[id(session)]
            place_ms = 1000 * (playout.now_samples - playout.start_samples) / RATE_HZ
            departure.left.append((place_ms, 1000 * time.time() - place_ms))
            if stall_s and departure.over_ms is None and place_ms > STALL_AT_MS:
                departure.stalled_ms = 1000 * time.time()
                time.sleep(stall_s)  # noqa: ASYNC251
                departure.over_ms = 1000 * time.time()


async def _main(flashes: int, stall_s: float, *, browsers_own: bool, drawn_by: str) -> None:
    path = find_chromium() or sys.exit(NO_CHROMIUM)
    with tempfile.TemporaryDirectory() as folder:
        rig = SignalRig(Path(folder))
        await rig.start()
        departures: list[Departure] = []
        watching = asyncio.create_task(watch(rig, departures, stall_s))
        try:
            flags = ("--autoplay-policy=no-user-gesture-required", *WEBGL)
            async with chromium(path, *flags) as browser:
                measured = await measure_all(
                    browser, rig, flashes, browsers_own=browsers_own, drawn_by=drawn_by
                )
                for skews, departure in zip(measured, departures, strict=True):
                    sys.stdout.write(f"{skews}\n  {departure.told(skews)}\n")
        finally:
            watching.cancel()
            await rig.stop()


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.browser.flash_and_beep",
        description="How far apart sound and picture are at the screen and speaker of a browser.",
    )
    parser.add_argument("flashes", type=int, nargs="?", default=100, help="how many (100)")
    parser.add_argument(
        "--stall", type=float, default=0.0, metavar="S", help="seconds the gateway stands still (0)"
    )
    parser.add_argument(
        "--browsers-own", action="store_true", help="the browser plays the sound, not the page"
    )
    parser.add_argument(
        "--drawn-here", action="store_true", help="the page draws a head, instead of pictures"
    )
    return parser.parse_args()


if __name__ == "__main__":
    asked = _asked()
    by = "client" if asked.drawn_here else "server"
    asyncio.run(_main(asked.flashes, asked.stall, browsers_own=asked.browsers_own, drawn_by=by))
