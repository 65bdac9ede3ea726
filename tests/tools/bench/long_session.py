"""`python -m tests.tools.bench.long_session`: twenty turns with interruptions, in a real Chromium.

Starts a stack, opens the page, and is a visitor who asks aloud and in writing, interrupts by
voice, by text and by button, coughs and says "uh-huh". Afterwards it judges what nobody may
ever see: a turn that hangs, sound that no turn owns, a history that differs from what was heard.
The visitor's voice is synthetic, the cough simulated.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import soxr
from hibari import Hibari
from numpy.typing import NDArray
from playwright.async_api import Page, TimeoutError
from rich.console import Console
from rich.table import Table

from tests.browser.conftest import NO_CHROMIUM, chromium, find_chromium, fresh_page
from tests.running_stack import RunningStack
from visavis.client import MIC_RATE_HZ
from visavis.tools.bench.barge_in import simulated_coughs
from visavis.tools.bench.figures.word_errors import words

RATE_HZ = 48_000
VISITOR = Path(__file__).with_name("visitor.js").read_text("utf-8")
LONG = "Tell me a long story about a fox and a crow."
# A sound that begins so long before, or ends so long after, its turn's state is the turn's own:
# events and media travel on different channels, and the browser keeps a jitter buffer.
EARLY_S, LATE_S = 0.3, 0.6
SPEECH_LEVEL = 0.01
STEP_TIMEOUT_MS = 60_000


@dataclass(frozen=True)
class Step:
    """One thing that the visitor does, once the avatar is idle."""

    ask: str
    aloud: bool = True
    then: str = ""
    """What happens a second into the answer: "button", "cough", or words that are said."""
    ends: str = "finished"
    """How the turn that `ask` opened is to end."""


STEPS = (
    Step("Hello, who are you?"),
    Step("What is the capital of France?", aloud=False),
    Step(LONG, then="How far away is the moon?", ends="interrupted"),
    Step("Why is the sky blue?", then="cough"),
    Step(LONG, then="button", ends="interrupted"),
    Step("Do you like music?"),
    Step("What can I cook tonight?", then="uh-huh"),
    Step(LONG, aloud=False, then="Stop, what is your name?", ends="interrupted"),
    Step("Name three colours.", aloud=False),
    Step(LONG, then="button", ends="interrupted"),
    Step("How many days are in a week?"),
    Step("Is a violin harder than a piano?", then="cough"),
    Step(LONG, then="What time do you get up?", ends="interrupted"),
    Step("Thank you very much.", aloud=False),
    Step("Can you help me with my homework?", then="uh-huh"),
    Step(LONG, then="button", ends="interrupted"),
    Step("What is the largest animal?"),
)


@dataclass
class Outcome:
    """What became of the session."""

    faults: list[str] = field(default_factory=list)
    turns: list[dict[str, Any]] = field(default_factory=list)
    stray_s: float = 0.0


class Voice:
    """The visitor's sounds, 48 kHz, as base64 of 16-bit samples."""

    def __init__(self) -> None:
        self._voice = Hibari()
        (cough,) = simulated_coughs(1)
        self.cough = _encode(soxr.resample(cough.pcm / 32768, MIC_RATE_HZ, RATE_HZ))

    def words(self, text: str) -> str:
        sound = soxr.resample(
            np.concatenate(list(self._voice.stream(text))), self._voice.sample_rate, RATE_HZ
        )
        return _encode(0.8 * sound)


def _encode(sound: NDArray[np.floating[Any]]) -> str:
    pcm = (np.clip(sound, -1, 1) * 32767).astype("<i2")
    return base64.b64encode(pcm.tobytes()).decode()


async def visit(url: str, chromium_path: str, console: Console) -> Outcome:
    """The whole session."""
    outcome, voice = Outcome(), Voice()
    flags = ("--autoplay-policy=no-user-gesture-required",)
    async with (
        chromium(chromium_path, *flags) as browser,
        fresh_page(browser, reduced_motion="reduce", bypass_csp=True) as page,
    ):
        await page.add_init_script(VISITOR)
        await page.goto(f"{url}/?language=en")
        await page.click("#start-talk")
        await page.wait_for_selector("body[data-connection=live][data-video=playing]")
        await page.wait_for_selector("body[data-microphone=on]")
        await page.evaluate("visitor.record()")
        for number, step in enumerate(STEPS, 1):
            console.print(f"{number:2d} of {len(STEPS)}  {step.ask}  {step.then}")
            try:
                await _take(page, step, voice, outcome)
            except TimeoutError:
                state = await page.get_attribute("body", "data-state")
                outcome.faults.append(f"step {number} ({step.ask}) hangs in state {state}")
                await page.keyboard.press("Escape")
        tape = await page.evaluate("visitor.tape()")
        session = await page.get_attribute("body", "data-session")
        async with httpx.AsyncClient(base_url=url) as client:
            turns = (await client.get(f"/v1/sessions/{session}/turns")).json()
        # Nobody asked for the greeting.
        outcome.turns = [turn for turn in turns if turn["answered_by"] != "welcome"]
    _judge_sound(tape, outcome)
    _judge_turns(outcome)
    return outcome


async def _take(page: Page, step: Step, voice: Voice, outcome: Outcome) -> None:
    await _reach(page, "idle")
    if step.aloud:
        await page.evaluate("(sound) => visitor.say(sound)", voice.words(step.ask))
    else:
        await page.fill("#message", step.ask)
        await page.press("#message", "Enter")
    await _reach(page, "speaking")
    if step.then:
        await page.wait_for_timeout(1000)
        await _interfere(page, step.then, voice, outcome)
    await _reach(page, "idle")
    # Until the browser's own buffer has run out.
    await page.wait_for_timeout(1000 * LATE_S)


async def _interfere(page: Page, then: str, voice: Voice, outcome: Outcome) -> None:
    if await page.get_attribute("body", "data-state") != "speaking":
        outcome.faults.append(f"the answer was over before {then!r}")
        return
    if then == "button":
        await page.keyboard.press("Escape")
        return
    sound = voice.cough if then == "cough" else voice.words(then)
    await page.evaluate("(sound) => visitor.say(sound)", sound)
    if then not in ("cough", "uh-huh"):
        await _reach(page, "thinking", "speaking")


async def _reach(page: Page, *states: str) -> None:
    wanted = ", ".join(f"body[data-state={state}]" for state in states)
    await page.wait_for_selector(wanted, timeout=STEP_TIMEOUT_MS)


def _judge_sound(tape: dict[str, Any], outcome: Outcome) -> None:
    """Sound outside of every turn is a fault."""
    pcm = np.frombuffer(base64.b64decode(tape["pcm"]), "<i2") / 32768
    hop = tape["rate_hz"] // 50
    levels = np.sqrt(np.mean(pcm[: len(pcm) // hop * hop].reshape(-1, hop) ** 2, axis=1))
    times = tape["start_ms"] / 1000 + np.arange(len(levels)) / 50
    allowed = np.zeros(len(levels), bool)
    states = tape["states"]
    for entry, following in zip(states, [*states[1:], None], strict=True):
        if entry["state"] == "speaking":
            end_s = following["at_ms"] / 1000 + LATE_S if following else np.inf
            allowed |= (times >= entry["at_ms"] / 1000 - EARLY_S) & (times <= end_s)
    stray = (levels > SPEECH_LEVEL) & ~allowed
    outcome.stray_s = float(stray.sum() / 50)
    for at_s in times[stray][:5]:
        outcome.faults.append(f"sound without a turn at {at_s:.2f} s")


def _judge_turns(outcome: Outcome) -> None:
    """Every turn ended, as it was to; what was heard is the answer or its beginning."""
    wanted: list[tuple[str, str]] = []
    for step in STEPS:
        wanted.append((step.ask, step.ends))
        if step.ends == "interrupted" and step.then != "button":
            wanted.append((step.then, "finished"))
    if len(outcome.turns) != len(wanted):
        outcome.faults.append(f"{len(outcome.turns)} turns on record, {len(wanted)} were held")
    for turn, (ask, ends) in zip(outcome.turns, wanted, strict=False):
        name = f"turn {turn['turn']} ({ask})"
        if turn["state"] != ends:
            outcome.faults.append(f"{name} is {turn['state']}, not {ends}")
        if words(turn["transcript"]) != words(ask):
            # The recogniser may err; that is told, and judged elsewhere.
            turn["misheard"] = True
        if turn["heard"] is not None and not turn["answer"].strip().startswith(turn["heard"]):
            outcome.faults.append(f"{name}: heard {turn['heard']!r} is no beginning of the answer")
        if turn["state"] == "interrupted" and turn["heard"] == turn["answer"].strip():
            outcome.faults.append(f"{name}: interrupted, but all of it counts as heard")


def _report(outcome: Outcome, console: Console) -> None:
    table = Table("turn", "visitor", "state", "answer", "heard", "voice to voice (ms)")
    for turn in outcome.turns:
        table.add_row(
            str(turn["turn"]),
            turn["transcript"] + (" (misheard)" if turn.get("misheard") else ""),
            turn["state"],
            turn["answer"][:60],
            (turn["heard"] or "")[-40:],
            str(turn["voice_to_voice_ms"]),
        )
    console.print(table)
    console.print(f"stray sound: {outcome.stray_s:.2f} s")
    for fault in outcome.faults:
        console.print(f"[red]fault: {fault}")
    if not outcome.faults:
        console.print(f"{len(outcome.turns)} turns, no fault")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", default="default", help="weights of the stack")
    parser.add_argument("--json", type=Path, help="write the outcome there")
    arguments = parser.parse_args()
    console = Console()
    chromium_path = find_chromium() or sys.exit(NO_CHROMIUM)
    with tempfile.TemporaryDirectory() as folder:
        stack = RunningStack(Path(folder), "--profile", arguments.profile)
        try:
            outcome = asyncio.run(visit(stack.url, chromium_path, console))
            outcome.faults += stack.faults()
        finally:
            stack.stop()
    _report(outcome, console)
    if arguments.json:
        arguments.json.write_text(json.dumps(vars(outcome), indent=1), "utf-8")
    sys.exit(bool(outcome.faults))


if __name__ == "__main__":
    main()
