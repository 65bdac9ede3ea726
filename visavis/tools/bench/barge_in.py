"""`visavis bench barge-in`: an answer is interrupted in its middle, or ought not to be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer

from visavis.client import GatewayClient
from visavis.serving.errors import VisavisError
from visavis.tools.bench.benchmark import (
    DEFAULT_URL,
    Benchmark,
    Config,
    Json,
    Language,
    Picture,
    Profile,
    TransportOption,
    Url,
)
from visavis.tools.bench.figures.counters import Scraper, mean, rise
from visavis.tools.bench.figures.report import rows_of
from visavis.tools.bench.figures.tables import Steps
from visavis.tools.bench.questions import ready_set
from visavis.tools.bench.visitor.clips import RATE_HZ, Clip, SpeechSpan, load_clips
from visavis.tools.bench.visitor.trace import Trace
from visavis.tools.bench.visitor.visitor import Transport, Visitor, visit
from visavis.tools.cli.running_gateway import ApiKey
from visavis.wire.clock import MonotonicClock

Kind = Literal["interruption", "backchannel", "cough"]

LONG_QUESTIONS = {
    "en": "Tell me a long story about a dragon, a castle and a brave little girl.",
    "zh": "请给我讲一个关于龙和小女孩的长故事。",
}
# Into the middle: it has spoken for so long.
_SPOKEN_S = 1.5
_ANSWER_TIMEOUT_S = 30.0
# What a false interruption may take to be seen as one, and the answer to go on.
_WATCH_S = 3.0
# Between words and sentences of an answer there are shorter silences.
_GAP_S = 0.45


@dataclass
class Interruption:
    """What one sound did to an answer. Seconds; None where it did not come to that."""

    clip: str
    kind: Kind
    stopped: bool
    """The answer was given up for it."""
    silence_s: float | None = None
    """First speech sample sent -> last audible sample of the answer received."""
    detected_s: float | None = None
    """First speech sample sent -> the gateway says that the turn is interrupted."""
    server_silence_s: float | None = None
    """First sample of the interruption that the VAD marks -> last voice sample leaves."""
    decided_to_silence_s: float | None = None
    """Decision to fall silent -> last voice sample leaves."""
    gave_way: str = ""
    """How far an answer that went on had given way: "ducked" (spoken lower), "paused"."""
    longest_gap_s: float = 0.0
    """Longest silence in the answer from the sound on, where it was not given up."""
    heard: str = ""
    """What the history says was heard of the answer."""
    understood: str = ""
    """What the recogniser made of the sound."""
    note: str = ""
    """Why it is not counted."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class BargeInBench:
    """Has a long answer told for each sound and plays the sound into it."""

    def __init__(
        self,
        client: GatewayClient,
        on_done: Callable[[Interruption], None],
        transport: Transport = "websocket",
    ) -> None:
        self._transport: Transport = transport
        self._client = client
        self._on_done = on_done
        self._scraper = Scraper(client)
        self._clock = MonotonicClock()

    async def run(self, sounds: Sequence[tuple[Kind, Clip]]) -> list[Interruption]:
        done = []
        for kind, clip in sounds:
            language = clip.language if clip.language in LONG_QUESTIONS else "en"
            visiting = visit(
                self._client, self._clock, transport=self._transport, language=language
            )
            async with visiting as visitor:
                outcome = await self._interrupt(visitor, kind, clip, LONG_QUESTIONS[language])
            self._on_done(outcome)
            done.append(outcome)
        return done

    async def _interrupt(
        self, visitor: Visitor, kind: Kind, clip: Clip, question: str
    ) -> Interruption:
        visitor.trace = trace = Trace()
        turn = await visitor.session.ask(question)
        if not await visitor.until(lambda: _spoken_s(trace) >= _SPOKEN_S, _ANSWER_TIMEOUT_S):
            return Interruption(clip.name, kind, stopped=False, note="no long answer came")
        before = await self._scraper.read()
        await visitor.speak_over(clip)
        await visitor.pause(_WATCH_S)
        counters = rise(before, await self._scraper.read())
        record = await visitor.record(turn)
        await visitor.hush()
        return judge(clip.name, kind, turn, trace, record, counters)


def judge(
    name: str,
    kind: Kind,
    turn: int,
    trace: Trace,
    record: Mapping[str, Any],
    counters: Mapping[str, float],
) -> Interruption:
    """What the trace of answer `turn` says. Speech begins at trace.speech_start_s."""
    start_s = trace.speech_start_s
    cut_s = trace.turn_event_s(turn, "interrupted")
    stopped = record.get("state") == "interrupted" and record.get("reason") == "speech"
    outcome = Interruption(name, kind, stopped, heard=str(record.get("heard") or ""))
    outcome.understood = _understood(trace)
    ended_s = trace.turn_event_s(turn, "finished", "failed")
    if ended_s is not None and not stopped:
        outcome.note = "the answer ended by itself" if ended_s < trace.speech_end_s else ""
    next_s = min(
        (
            at_s
            for at_s, event in trace.events
            if event.get("type") == "turn"
            # Whichever is told first: neither is the old answer.
            and event.get("event") in ("opened", "speaking")
            and event["turn"] > turn
        ),
        default=float("inf"),
    )
    if stopped and cut_s is not None:
        last_s = trace.last_audible_s(start_s, next_s)
        outcome.silence_s = 0.0 if last_s is None else last_s - start_s
        outcome.detected_s = cut_s - start_s
        outcome.server_silence_s = mean(counters, "barge_in_to_silence_seconds")
        outcome.decided_to_silence_s = mean(counters, "barge_in_decided_to_silence_seconds")
    else:
        for given in ("ducked", "paused"):
            if counters.get(f"false_interruptions_total{{given={given}}}"):
                outcome.gave_way = given
        outcome.longest_gap_s = _longest_gap_s(trace, start_s, ended_s or float("inf"))
    return outcome


def paused(outcome: Interruption) -> bool:
    """Whether an answer that went on had fallen silent for a moment."""
    return not outcome.stopped and outcome.longest_gap_s >= _GAP_S


def simulated_coughs(count: int = 5) -> list[Clip]:
    """Bursts of noise as loud and as long as a cough: simulated, and named so."""
    clips = []
    for index in range(count):
        random = np.random.default_rng(index)
        at = np.arange(round(0.35 * RATE_HZ)) / RATE_HZ
        # An explosive burst and a shorter voiced end, some 150 ms later.
        loudness = np.exp(-at / 0.05) + 0.5 * np.exp(-np.maximum(0, at - 0.15) / 0.03) * (at > 0.15)
        noise = np.convolve(random.standard_normal(len(at)), [0.3, 0.5, 0.3], "same")
        pcm = (np.clip(0.35 * loudness * noise, -1, 1) * 32767).astype(np.int16)
        lead = np.zeros(round(0.1 * RATE_HZ), np.int16)
        span = SpeechSpan(len(lead), len(lead) + len(pcm), "simulated")
        name = f"simulated-cough-{index + 1:02d}"
        clips.append(Clip(name, np.concatenate([lead, pcm]), span))
    return clips


def counted(sounds: Sequence[Interruption], kind: Kind) -> list[Interruption]:
    """Those of one kind that count. Raises VisavisError where a sound met no answer at all."""
    chosen = [sound for sound in sounds if sound.kind == kind]
    if chosen and all(sound.note for sound in chosen):
        raise VisavisError(f"no {kind} met an answer: {chosen[0].note}")
    return [sound for sound in chosen if not sound.note]


def _understood(trace: Trace) -> str:
    """The newest words of each utterance."""
    texts = {
        event["utterance"]: event["text"]
        for at_s, event in trace.events
        if event.get("type") == "transcript" and event["utterance"] and event["text"]
    }
    return " ".join(texts.values())


def _spoken_s(trace: Trace) -> float:
    return trace.audible_s(float("-inf"))


def _longest_gap_s(trace: Trace, from_s: float, until_s: float) -> float:
    times = [a.at_s for a in trace.audible(from_s) if a.at_s <= until_s]
    return max(np.diff([from_s, *times]).tolist(), default=0.0) if times else 0.0


# ------------------------------------------------------------ the command

FIGURES = {
    "silence_s": "s",
    "detected_s": "s",
    "server_silence_s": "s",
    "decided_to_silence_s": "s",
}


def barge_in(
    clips: Annotated[
        Path | None,
        typer.Option(help="Folder of WAVs that interrupt. Default: four sentences of our own."),
    ] = None,
    language: Language = "",
    times: Annotated[int, typer.Option(min=1, help="Play each interruption so often.")] = 5,
    backchannels: Annotated[
        bool, typer.Option(help="Also play what must not stop an answer: uh-huh, coughs.")
    ] = True,
    transport: TransportOption = "webrtc",
    url: Url = DEFAULT_URL,
    api_key: ApiKey = "",
    profile: Profile = "default",
    config: Config = None,
    json_path: Json = None,
    picture: Picture = None,
) -> None:
    """Interrupt a long answer in its middle and measure how long it can still be heard.

    Coughs are simulated.
    """
    bench = Benchmark("barge-in", json_path, picture, url, api_key, profile, config)
    folder = clips or ready_set("interruptions", profile, bench.console)
    sounds: list[tuple[Kind, Clip]] = [("interruption", c) for c in load_clips(folder, language)]
    sounds *= times
    if backchannels:
        quiet = load_clips(ready_set("backchannels", profile, bench.console))
        sounds += [("backchannel", clip) for clip in quiet]
        sounds += [("cough", clip) for clip in simulated_coughs()]

    async def interrupt_all(client: GatewayClient, steps: Steps) -> list[Interruption]:
        def on_done(done: Interruption) -> None:
            steps.done(_line(done))

        return await BargeInBench(client, on_done, transport).run(sounds)

    done = bench.measure(len(sounds), "an answer begins", interrupt_all)
    stopped = [sound for sound in counted(done, "interruption") if sound.stopped]
    bench.hand_out(
        f"Interruption to silence, {len(stopped)} answers",
        rows_of([sound.to_dict() for sound in stopped], FIGURES),
        counts=counts_of(done),
        turns=[sound.to_dict() for sound in done],
        settings={"times": times, "transport": transport, "clips": len(sounds)},
        notes=["coughs are simulated: bursts of noise"] if backchannels else [],
    )


def counts_of(done: Sequence[Interruption]) -> dict[str, float]:
    """What stopped an answer, and what ought not to have."""
    counts: dict[str, float] = {}
    kinds: tuple[Kind, ...] = ("interruption", "backchannel", "cough")
    for kind in kinds:
        sounds = counted(done, kind)
        if sounds:
            counts[f"{kind}s"] = len(sounds)
            counts[f"{kind}s_that_stopped_the_answer"] = sum(s.stopped for s in sounds)
        if sounds and kind != "interruption":
            counts[f"{kind}s_that_made_it_pause"] = sum(paused(s) for s in sounds)
            counts[f"{kind}s_that_made_it_speak_lower"] = sum(
                s.gave_way == "ducked" for s in sounds
            )
    counts["not_counted"] = sum(bool(sound.note) for sound in done)
    return counts


def _line(done: Interruption) -> str:
    if done.note:
        return f"{done.clip}: {done.note}"
    understood = f' ("{done.understood}")' if done.understood else ""
    if done.silence_s is None:
        return f"{done.clip}: the answer went on{understood}"
    return f"{done.clip}: silent after {done.silence_s:.3f} s{understood}"
