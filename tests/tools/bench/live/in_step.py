"""Picture and sound at a browser's screen and speaker, watched by WHEP with a player of a page that
is not the product's: the browser's own buffers, and nothing else, put the two together.

    python -m tests.tools.bench.live.in_step --flashes 60

Noted is on one clock, the page's: when each numbered picture is shown (requestVideoFrameCallback),
and when each beep is heard (as the element plays it, and in an audio worklet). Chromium, headless.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from playwright.async_api import Route
from prometheus_client import REGISTRY

from tests.browser.conftest import NO_CHROMIUM, chromium, find_chromium, fresh_page
from tests.browser.flash_and_beep import beeps, frames_of
from tests.gateway.doubles import FPS
from tests.tools.bench.live.counter import GRID, CounterRig, beep_of
from tests.tools.bench.live.measure import Stand, until
from visavis.client import GatewayClient

PLAYER = Path(__file__).with_name("at_a_browser.js").read_text("utf-8")
_PERIOD_MS = 600.0
_LATE_S = ("0.02", "0.05", "0.1")
# Buffers settle, and the reports have come by which a browser puts picture and sound together.
_LOOK_S = 15.0


def told(noted: dict[str, Any], left: dict[int, float]) -> list[str]:
    """left: when each picture left the gateway, in seconds since the epoch."""
    shown = {int(number): at_ms for number, at_ms in noted["pictures"].items() if number != "0"}
    late = [at + noted["zero_ms"] - 1000 * left[n] for n, at in shown.items() if n in left]
    at = np.percentile(late, (50, 95, 100))
    lines = [
        f"WHEP, Chromium: glass to glass median {at[0]:.0f} ms, P95 {at[1]:.0f}, max {at[2]:.0f} "
        f"({len(late)} of {len(left)} pictures); buffers {noted['buffers']} ms; "
        f"{100 * noted['made_up']:.1f} % of the sound was made up where packets came late"
    ]
    marks = [at_ms for number, at_ms in shown.items() if beep_of(number)]
    for ear in ("element", "worklet"):
        beeps = noted[ear]
        pairs = [min((m - b for b in beeps), key=abs) for m in marks] if beeps else [np.inf]
        skews = np.array([pair for pair in pairs if abs(pair) < _PERIOD_MS / 2])
        if not len(skews):
            lines.append(f"{ear}: {len(beeps)} beeps, none beside its picture")
            continue
        lines.append(
            f"picture after sound, by {ear}: median {np.median(skews):+.0f} ms, absolute P95 "
            f"{np.percentile(np.abs(skews), 95):.0f}, max {np.abs(skews).max():.0f} "
            f"({len(skews)} beeps; output {noted['output_ms']:.0f} ms)"
        )
        lines.append("  in turn: " + " ".join(f"{skew:+.0f}" for skew in skews))
    if own := noted["own"]:
        lines.append(
            f"picture after sound, by the browser's own word: median {np.median(own):+.0f} ms, "
            f"absolute P95 {np.percentile(np.abs(own), 95):.0f} ({len(own)} looks)\n"
            "  in turn: " + " ".join(f"{skew:+.0f}" for skew in own)
        )
    return lines


def _late_ticks() -> dict[str, float]:
    """How many ticks have been later than so many seconds since the gateway runs."""
    named = "gateway_tick_late_seconds"
    count = REGISTRY.get_sample_value(f"{named}_count") or 0.0
    in_time = {le: REGISTRY.get_sample_value(f"{named}_bucket", {"le": le}) for le in _LATE_S}
    return {le: count - (number or 0.0) for le, number in in_time.items()}


async def _empty(route: Route) -> None:
    """A page of the gateway's address, so that it may ask for a session's media."""
    await route.fulfill(body="<!doctype html><title>a player</title>", content_type="text/html")


async def main(flashes: int) -> None:
    path = find_chromium() or sys.exit(NO_CHROMIUM)
    with tempfile.TemporaryDirectory() as folder:
        rig = CounterRig(Path(folder))
        await rig.start()
        try:
            autoplay = "--autoplay-policy=no-user-gesture-required"
            async with (
                GatewayClient(rig.running.url) as client,
                chromium(path, autoplay) as browser,
            ):
                stand = Stand(rig, client, Path(folder))
                await stand.begin()
                async with fresh_page(browser) as page:
                    await page.route("**/static/empty.html", _empty)
                    await page.goto(f"{client.url}/static/empty.html")
                    await page.evaluate(PLAYER, [f"{client.url}{stand.path}/whep", GRID])
                    await asyncio.sleep(_LOOK_S)
                    rig.doubles.script.voice_s = frames_of(flashes) / FPS
                    beeps(flashes)  # made now, not while the gateway in this process is to go on
                    before = _late_ticks()
                    await client.call("POST", f"{stand.path}/text", json={"text": "Count."})
                    wanted = frames_of(flashes) - 2
                    await until(lambda: len(stand.witness.left) >= wanted, 30 + flashes)
                    await asyncio.sleep(2.0)
                    noted = await page.evaluate("told()")
                sys.stdout.write("\n".join(told(noted, stand.witness.left)) + "\n")
                late = {f"{le} s": round(n - before[le]) for le, n in _late_ticks().items()}
                sys.stdout.write(f"ticks of the gateway that were later: {late}\n")
                await stand.end()
        finally:
            await rig.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.tools.bench.live.in_step")
    parser.add_argument("--flashes", type=int, default=60, help="0.6 s each (60)")
    asyncio.run(main(parser.parse_args().flashes))
