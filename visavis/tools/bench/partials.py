"""`visavis bench partials`: what is understood while the visitor still speaks, and at what cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Annotated, Any

import numpy as np
import typer

from visavis.client import GatewayClient
from visavis.tools.bench.benchmark import (
    DEFAULT_URL,
    Benchmark,
    Clips,
    Config,
    Count,
    Json,
    Language,
    Picture,
    Profile,
    Url,
)
from visavis.tools.bench.figures.counters import Scraper, rise
from visavis.tools.bench.figures.report import rows_of
from visavis.tools.bench.figures.tables import Steps
from visavis.tools.bench.figures.word_errors import count_errors, edits_to_prefixes, words
from visavis.tools.bench.latency import sessions_of
from visavis.tools.bench.questions import chosen_clips
from visavis.tools.bench.visitor.clips import RATE_HZ, Clip, SpeechSpan
from visavis.tools.bench.visitor.trace import Trace
from visavis.tools.bench.visitor.visitor import Visitor, visit
from visavis.tools.cli.running_gateway import ApiKey
from visavis.wire.clock import MonotonicClock

_FINAL_TIMEOUT_S = 15.0
_PAUSE_S = 0.4
_JOINED_GAP_S = 0.08


@dataclass
class Understood:
    """What was understood of one clip while it was spoken. Seconds; rates are shares of words."""

    clip: str
    speech_s: float
    partials: int = 0
    first_partial_s: float | None = None
    """First speech sample sent -> first partial transcript received."""
    interval_s: float | None = None
    """Mean time between two partials."""
    error_against_final: float | None = None
    """Words wrong in partials, each against the beginning of the final that it fits best."""
    error_against_text: float | None = None
    """Words wrong in the final, where the text is known."""
    retracted_words: int = 0
    """Words that a later transcript took back, the last word of each not counted: it may
    still have been growing."""
    retracted_last_words: int = 0
    cost_s: float | None = None
    """Compute of one partial, mean."""
    finals: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class PartialsBench:
    """Speaks clip after clip and measures what is understood meanwhile; `on_clip` is told of each,
    None for a warm-up."""

    def __init__(self, client: GatewayClient, on_clip: Callable[[Understood | None], None]) -> None:
        self._client = client
        self._on_clip = on_clip
        self._scraper = Scraper(client)
        self._clock = MonotonicClock()

    async def run(self, clips: Sequence[Clip], turns_per_session: int = 10) -> list[Understood]:
        done = []
        for group in sessions_of(clips, turns_per_session):
            language = group[0].language
            async with visit(self._client, self._clock, language=language) as visitor:
                await self._hear(visitor, group[0])  # warm-up: not counted
                self._on_clip(None)
                for clip in group:
                    understood = await self._hear(visitor, clip)
                    self._on_clip(understood)
                    done.append(understood)
        return done

    async def _hear(self, visitor: Visitor, clip: Clip) -> Understood:
        before = await self._scraper.read()
        await visitor.say(clip)
        trace = visitor.trace
        await visitor.until(lambda: _final_after(trace, trace.speech_end_s), _FINAL_TIMEOUT_S)
        await visitor.hush()
        counters = rise(before, await self._scraper.read())
        await visitor.pause(_PAUSE_S)
        understood = measure_partials(clip, trace)
        count = counters.get("asr_partial_seconds_count", 0)
        if count:
            understood.cost_s = round(counters.get("asr_partial_seconds_sum", 0.0) / count, 5)
        return understood


def measure_partials(clip: Clip, trace: Trace) -> Understood:
    """What the transcripts of a trace say about `clip`."""
    events = [(at, event) for at, event in trace.events if event.get("type") == "transcript"]
    out = Understood(clip.name, round(clip.speech_s, 3))
    times = [at for at, event in events if not event["final"] and at >= trace.speech_start_s]
    out.partials = len(times)
    out.finals = [event["text"] for _at, event in events if event["final"] and event["text"]]
    if times:
        out.first_partial_s = round(times[0] - trace.speech_start_s, 4)
    if len(times) > 1:
        out.interval_s = round((times[-1] - times[0]) / (len(times) - 1), 4)
    if clip.text and out.finals:
        out.error_against_text = count_errors([(clip.text, " ".join(out.finals))]).rate
    wrong = total = 0
    for texts in _utterances([event for _at, event in events]):
        final = words(texts[-1])
        for earlier, later in pairwise(texts):
            inner, last = taken_back(words(earlier), words(later))
            out.retracted_words += inner
            out.retracted_last_words += last
        for partial in texts[:-1]:
            wrong += min(edits_to_prefixes(words(partial), final))
            total += len(words(partial))
    if total:
        out.error_against_final = round(wrong / total, 4)
    return out


def taken_back(earlier: Sequence[str], later: Sequence[str]) -> tuple[int, int]:
    """Words of `earlier` that `later` does not begin with: all but the last, the last."""
    same = 0
    for one, other in zip(earlier, later, strict=False):
        if one != other:
            break
        same += 1
    lost = len(earlier) - same
    return (max(0, lost - 1), int(lost > 0))


def cost_per_second(done: Sequence[Understood]) -> float | None:
    """By how much a partial costs more for each second that the utterance is longer.

    Least squares over all clips; seconds of compute per second of speech, 0 at best.
    """
    points = [(u.speech_s, u.cost_s) for u in done if u.cost_s is not None]
    lengths = np.array([length for length, _cost in points])
    if len(points) < 3 or np.ptp(lengths) < 1.0:
        return None
    slope, _constant = np.polyfit(lengths, [cost for _length, cost in points], 1)
    return float(slope)


def joined(clips: Sequence[Clip], counts: Sequence[int] = (2, 4, 8)) -> list[Clip]:
    """Long utterances: so many clips of one language without a pause between them."""
    english = [clip for clip in clips if clip.language == "en"]
    gap = np.zeros(round(_JOINED_GAP_S * RATE_HZ), np.int16)
    out = []
    for count in counts:
        chosen = english[:count]
        if len(chosen) < count:
            continue
        pieces = [chosen[0].pcm[: chosen[0].span.start_samples]]
        for clip in chosen:
            pieces += [clip.pcm[clip.span.start_samples : clip.span.end_samples], gap]
        pcm = np.concatenate(pieces[:-1])
        span = SpeechSpan(chosen[0].span.start_samples, len(pcm), chosen[-1].span.method)
        text = " ".join(clip.text for clip in chosen)
        out.append(Clip(f"joined-{count}", pcm, span, text, "en"))
    return out


def _utterances(events: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Texts of each utterance in order, where its final came; the last one is the final."""
    texts: dict[int, list[str]] = {}
    complete = []
    for event in events:
        found = texts.setdefault(event["utterance"], [])
        if event["text"]:
            found.append(event["text"])
        if event["final"] and event["text"] and event["utterance"]:
            complete.append(texts.pop(event["utterance"]))
    return complete


def _final_after(trace: Trace, end_s: float) -> bool:
    return any(
        at >= end_s and event.get("type") == "transcript" and event["final"]
        for at, event in trace.events
    )


# ------------------------------------------------------------ the command

FIGURES = {
    "first_partial_s": "s",
    "interval_s": "s",
    "cost_s": "s",
    "error_against_final": "%",
    "error_against_text": "%",
}


def partials(
    clips: Clips = None,
    language: Language = "",
    count: Count = 0,
    long: Annotated[
        bool, typer.Option(help="Also join clips into utterances of up to half a minute.")
    ] = True,
    url: Url = DEFAULT_URL,
    api_key: ApiKey = "",
    profile: Profile = "default",
    config: Config = None,
    json_path: Json = None,
    picture: Picture = None,
) -> None:
    """Measure partial transcripts: the first one, errors, what is taken back, cost by length."""
    bench = Benchmark("partials", json_path, picture, url, api_key, profile, config)
    chosen = chosen_clips(clips, language, count, profile, bench.console)
    chosen += joined(chosen) if long else []

    async def speak_all(client: GatewayClient, steps: Steps) -> list[Understood]:
        def on_clip(done: Understood | None) -> None:
            if done is not None:
                steps.done(_line(done))

        return await PartialsBench(client, on_clip).run(chosen)

    done = bench.measure(len(chosen), "warm-up", speak_all)
    bench.hand_out(
        f"Partial transcripts, {len(done)} clips",
        rows_of([clip.to_dict() for clip in done], FIGURES),
        counts=counts_of(done),
        turns=[clip.to_dict() for clip in done],
        settings={"clips": len(chosen)},
    )


def counts_of(done: Sequence[Understood]) -> dict[str, float]:
    """What the table cannot tell as a spread."""
    counts: dict[str, float] = {
        "clips": len(done),
        "clips_without_partials": sum(not clip.partials for clip in done),
        "clips_cut_in_two": sum(len(clip.finals) > 1 for clip in done),
        "partials": sum(clip.partials for clip in done),
        "words_taken_back": sum(clip.retracted_words for clip in done),
        "last_words_taken_back": sum(clip.retracted_last_words for clip in done),
        "longest_clip_s": max((clip.speech_s for clip in done), default=0.0),
    }
    slope = cost_per_second(done)
    if slope is not None:
        counts["more_ms_of_compute_a_partial_for_each_second_of_speech"] = round(slope * 1000, 3)
    return counts


def _line(done: Understood) -> str:
    if done.first_partial_s is None:
        return f"{done.clip}: no partial"
    return f"{done.clip}: {done.partials} partials, the first after {done.first_partial_s:.3f} s"
