"""`visavis bench sync`: are the lips with the voice when both leave, and when both arrive?"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated

import typer

from visavis.client import GatewayClient
from visavis.tools.bench.benchmark import (
    DEFAULT_URL,
    Benchmark,
    Config,
    Json,
    Picture,
    Profile,
    Url,
)
from visavis.tools.bench.figures.counters import Scraper, bucket_quantile, rise
from visavis.tools.bench.figures.report import Row, summarise
from visavis.tools.bench.figures.tables import Steps
from visavis.tools.bench.questions import QUESTIONS
from visavis.tools.bench.visitor.clips import choose
from visavis.tools.bench.visitor.trace import Trace
from visavis.tools.bench.visitor.visitor import visit
from visavis.tools.cli.running_gateway import ApiKey
from visavis.wire.clock import MonotonicClock

_ANSWER_TIMEOUT_S = 90.0
_COUNTS = {
    "underruns": "gateway_voice_underruns_total",
    "late_pictures": "gateway_late_pictures_total",
    "dropped_pictures": "gateway_dropped_pictures_total",
}


@dataclass
class SyncRun:
    """How well sound and picture kept together.

    skew: bounds on |sound - picture| at release, seconds, by quantile ("p50" …), from the
    gateway's histogram. behind_s: for each picture how long after the sound that it
    belongs to it arrived (negative: before)."""

    skew: dict[str, float] = field(default_factory=dict)
    pictures: int = 0
    within_15_ms: float | None = None
    """Share of pictures."""
    behind_s: list[float] = field(default_factory=list)
    counts: dict[str, float] = field(default_factory=dict)
    late_ticks_s: dict[str, float] = field(default_factory=dict)
    """Bounds on how late the pacing clock's ticks ran."""


class SyncBench:
    """Has typed questions answered and watches to the end."""

    def __init__(self, client: GatewayClient, on_answer: Callable[[], None]) -> None:
        self._client = client
        self._on_answer = on_answer
        self._scraper = Scraper(client)
        self._clock = MonotonicClock()

    async def run(self, questions: Sequence[tuple[str, str]]) -> SyncRun:
        """questions: (language, text)."""
        behind: list[float] = []
        before = await self._scraper.read()
        for language, text in questions:
            async with visit(self._client, self._clock, language=language) as visitor:
                visitor.trace = trace = Trace()
                turn = await visitor.session.ask(text)
                await visitor.until(partial(trace.is_over, turn), _ANSWER_TIMEOUT_S)
                behind += behind_sound(trace)
            self._on_answer()
        return summed(rise(before, await self._scraper.read()), behind)


def behind_sound(trace: Trace) -> list[float]:
    """For each picture shown while something is audible: its arrival after its sound's."""
    starts = [sound.media_s for sound in trace.sounds]
    spoken = [audible.media_s for audible in trace.audible()]
    if not spoken:
        return []
    out = []
    for picture in trace.pictures:
        if not spoken[0] <= picture.media_s <= spoken[-1]:
            continue
        index = bisect_left(starts, picture.media_s) - 1
        if index >= 0:
            out.append(picture.at_s - trace.sounds[index].at_s)
    return out


def summed(counters: Mapping[str, float], behind: Sequence[float]) -> SyncRun:
    """The run's figures out of what the gateway's counters rose by."""
    run = SyncRun(behind_s=list(behind))
    run.pictures = round(counters.get("av_skew_seconds_count", 0))
    for name, quantile in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0)):
        skew = bucket_quantile(counters, "av_skew_seconds", quantile)
        late = bucket_quantile(counters, "gateway_tick_late_seconds", quantile)
        if skew is not None:
            run.skew[name] = skew
        if late is not None:
            run.late_ticks_s[name] = late
    if run.pictures:
        run.within_15_ms = counters.get("av_skew_seconds_bucket{le=0.015}", 0.0) / run.pictures
    run.counts = {name: counters.get(metric, 0.0) for name, metric in _COUNTS.items()}
    return run


# ------------------------------------------------------------ the command


def sync(
    answers: Annotated[int, typer.Option(min=1, help="So many answers are watched.")] = 10,
    url: Url = DEFAULT_URL,
    api_key: ApiKey = "",
    profile: Profile = "default",
    config: Config = None,
    json_path: Json = None,
    picture: Picture = None,
) -> None:
    """Watch typed questions being answered to the end: skew at release and on arrival."""
    bench = Benchmark("sync", json_path, picture, url, api_key, profile, config)
    questions = choose(QUESTIONS, answers)

    async def watch_all(client: GatewayClient, steps: Steps) -> SyncRun:
        return await SyncBench(client, lambda: steps.done("watched")).run(questions)

    outcome = bench.measure(len(questions), "an answer begins", watch_all)
    bench.hand_out(
        f"In step, {len(questions)} answers",
        [Row("picture_behind_its_sound", summarise(outcome.behind_s))],
        counts=counts_of(outcome),
        turns=[],
        settings={"answers": len(questions)},
        notes=["skew and late ticks are upper bounds: they come from a histogram's buckets"],
    )


def counts_of(outcome: SyncRun) -> dict[str, float]:
    """What happened how often, and the bounds that come from histograms."""
    counts: dict[str, float] = {"pictures_with_voice": outcome.pictures}
    if outcome.within_15_ms is not None:
        counts["share_within_15_ms"] = round(outcome.within_15_ms, 5)
    counts |= {f"skew_s_{name}_at_most": bound for name, bound in outcome.skew.items()}
    counts |= {f"tick_late_s_{name}_at_most": bound for name, bound in outcome.late_ticks_s.items()}
    return counts | outcome.counts
