"""The page's own playout of WebRTC's sound, packet by packet: the audio clock is ours here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from playwright.async_api import Page

from tests.browser.stub_gateway import StubGateway

# One event loop, and so one browser, for all of them; every test has a fresh profile.
pytestmark = pytest.mark.asyncio(loop_scope="session")

PLAY = """async ({arrivals}) => {
  const { LivePlayout } = await import("/static/live_playout.js");
  const PACKET = 960;
  // Voiced sound: a gliding pitch with overtones, without a pause.
  const wave = (time) => {
    const phase = 2 * Math.PI * (130 * time + 12 * Math.sin(time));
    return 0.2 * Math.sin(phase) + 0.1 * Math.sin(2 * phase) + 0.05 * Math.sin(5 * phase);
  };
  const packet = (time) =>
    Float32Array.from({ length: PACKET }, (_, i) => wave((time + i) / 48000));
  const playout = new LivePlayout();
  const late_ms = [];
  let given = 0;
  let [last, steepest] = [0, 0];
  for (let now = 0; now < arrivals.at(-1)[1] * 48; now += 128) {
    for (; given < arrivals.length && arrivals[given][1] * 48 <= now; given += 1) {
      const time = arrivals[given][0] * PACKET;
      playout.push(time, packet(time), now);
    }
    const out = new Float32Array(128);
    playout.pull(out, now);
    if (now >= 200 * 48)
      for (const value of out) {
        steepest = Math.max(steepest, Math.abs(value - last));
        last = value;
      }
    else last = out[127];
    late_ms.push(playout.lateness(now) / 48);
  }
  return { steepest, late_ms };
}"""
QUANTUM_MS = 128 / 48
STALL_MS, STALLED_MS = 2000, 400


async def play(page: Page, arrivals: list[tuple[int, float]]) -> dict[str, Any]:
    """arrivals: packets of 20 ms by number, with the time at which each comes in milliseconds.

    Told are the largest step from a sample to the next, but for the first 200 ms, and how late the
    sound is, block by block."""
    told: dict[str, Any] = await page.evaluate(PLAY, {"arrivals": arrivals})
    return told


async def test_what_a_stall_made_late_is_in_time_a_second_later(
    page: Page, stub: StubGateway
) -> None:
    await page.goto(f"{stub.url}/static/live_playout.js")
    even = [(number, 20.0 * number) for number in range(250)]
    stalled = [
        (number, STALL_MS + STALLED_MS if STALL_MS <= at < STALL_MS + STALLED_MS else at)
        for number, at in even
    ]
    quiet, told = await play(page, even), await play(page, stalled)
    usual_ms = quiet["late_ms"][round(STALL_MS / QUANTUM_MS)]
    late_ms = told["late_ms"]
    over = round((STALL_MS + STALLED_MS) / QUANTUM_MS)
    assert usual_ms < 70
    assert late_ms[over] > usual_ms + 300, "what was said in the stall is not left out"
    assert all(abs(ms - usual_ms) < 20 for ms in late_ms[over + round(1000 / QUANTUM_MS) :])
    assert max(-np.diff(late_ms)) < 25, "no more than some periods of the voice at a time"
    # The wave itself is as steep; a click would be steeper.
    assert told["steepest"] < 1.3 * quiet["steepest"]


async def test_lost_packets_and_jitter_make_no_click(page: Page, stub: StubGateway) -> None:
    await page.goto(f"{stub.url}/static/live_playout.js")
    jitter_ms = np.random.default_rng(3).uniform(0, 40, 400)
    at_ms = np.maximum.accumulate(20.0 * np.arange(400) + jitter_ms)  # one after the other
    came = [(number, float(at_ms[number])) for number in range(400) if number % 37 != 36]
    told = await play(page, came)
    quiet = await play(page, [(number, 20.0 * number) for number in range(200)])
    assert told["steepest"] < 1.3 * quiet["steepest"]
    assert max(told["late_ms"][1000:]) < 120


DECODE = """async ({order, count}) => {
  const encoded = [];
  const output = (chunk) => encoded.push(chunk);
  const encoder = new AudioEncoder({ output, error: console.error });
  encoder.configure({ codec: "opus", sampleRate: 48000, numberOfChannels: 1 });
  const second = { sampleRate: 48000, numberOfFrames: 48000, numberOfChannels: 1, timestamp: 0 };
  const data = new Float32Array(48000);
  encoder.encode(new AudioData({ ...second, format: "f32-planar", data }));
  await encoder.flush();
  const packet = (number) => {
    const data = new Uint8Array(encoded[number].byteLength);
    encoded[number].copyTo(data);
    const sequenceNumber = (65530 + number) & 65535;
    const rtpTimestamp = (2 ** 32 - 9600 + 960 * number) >>> 0;
    return { data: data.buffer, getMetadata: () => ({ sequenceNumber, rtpTimestamp }) };
  };
  await import("/static/live_sound_worker.js");
  const { port1, port2 } = new MessageChannel();
  const times = [];
  const all = new Promise((resolve) => (port2.onmessage = ({ data: { time } }) => {
    times.push(time - 2 ** 32 + 9600);
    if (times.length === count) resolve(times);
  }));
  const start = (way) => order.forEach((number) => way.enqueue(packet(number)));
  const readable = new ReadableStream({ start });
  const transformer = { options: { packets: port1 }, readable };
  dispatchEvent(Object.assign(new Event("rtctransform"), { transformer }));
  return all;
}"""


async def test_a_lost_packet_is_waited_for_and_moves_no_other(
    page: Page, stub: StubGateway
) -> None:
    """It may come again behind the two after it; others keep their times where it does not."""
    await page.goto(f"{stub.url}/static/live_playout.js")
    order = [0, 1, 2, 4, 3, 5, 6, 8, 9, 7, 7, 10, 13, 11, 14, 12, 15, 17, 18, 19, 20, 16, 21, 22]
    expected = [960 * number for number in range(23) if number != 16]
    times = await page.evaluate(DECODE, {"order": order, "count": len(expected)})
    assert times == expected
