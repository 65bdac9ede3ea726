"""`visavis bench quality`: what speed must not cost. Heard right, spoken right, lips that meet."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import grpc.aio
import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.text import Text

from visavis.client import GatewayClient
from visavis.serving.authentication.access import Access
from visavis.serving.authentication.channel import ServiceChannel
from visavis.serving.errors import InvalidInputError, VisavisError
from visavis.serving.runtime import MESSAGE_LIMITS
from visavis.tools.bench.benchmark import DEFAULT_URL, Benchmark, Config, Json, Profile, Url
from visavis.tools.bench.figures.lips import Lips, lips_meet
from visavis.tools.bench.figures.tables import Steps, written
from visavis.tools.bench.figures.word_errors import WordErrors, count_errors
from visavis.tools.bench.partials import PartialsBench
from visavis.tools.bench.questions import QUESTIONS, ready_set
from visavis.tools.bench.visitor.clips import RATE_HZ, Clip, choose, load_clips
from visavis.tools.bench.visitor.trace import Trace
from visavis.tools.bench.visitor.visitor import visit
from visavis.tools.cli.running_gateway import ApiKey
from visavis.tools.shown import Table
from visavis.tools.speech import recognise
from visavis.tools.stack.keys import stack_secret
from visavis.wire.clock import MonotonicClock

_ANSWER_TIMEOUT_S = 90.0
# An answer whose stream is cut off here would end in the middle of a word.
_TAIL_S = 0.4


@dataclass(frozen=True)
class Told:
    """One text, and what a recogniser made of it."""

    name: str
    said: str
    heard: str


def errors_of(told: Sequence[Told]) -> WordErrors:
    """Words wrong of all that was said."""
    return count_errors((one.said, one.heard) for one in told)


async def heard_right(
    client: GatewayClient, clips: Sequence[Clip], on_step: Callable[[str], None]
) -> list[Told]:
    """Clips spoken into sessions: final transcripts against their texts."""
    known = [clip for clip in clips if clip.text]
    texts = {clip.name: clip.text for clip in known}
    bench = PartialsBench(client, lambda done: on_step(done.clip if done else "warm-up"))
    return [
        Told(understood.clip, texts[understood.clip], " ".join(understood.finals))
        for understood in await bench.run(known)
    ]


async def spoken_right(
    client: GatewayClient,
    asr: grpc.aio.Channel,
    questions: Sequence[tuple[str, str]],
    on_step: Callable[[str], None],
) -> list[Told]:
    """The voice that left the gateway, recognised, against the answers' texts.

    questions: (language, text), typed.
    """
    told: list[Told] = []
    for language, question in questions:
        async with visit(client, MonotonicClock(), language=language) as visitor:
            visitor.trace = trace = Trace()
            turn = await visitor.session.ask(question)
            if await visitor.until(partial(trace.is_over, turn), _ANSWER_TIMEOUT_S):
                await visitor.pause(_TAIL_S)
                record = await visitor.record(turn)
                heard = await recognise(asr, voice_of(trace), RATE_HZ, language)
                told.append(Told(question, str(record.get("answer", "")).strip(), heard))
        on_step(question)
    return told


def voice_of(trace: Trace) -> bytes:
    """What was received, from the first to the last audible packet, s16le at 16 kHz."""
    # The resampler comes with the services.
    import soxr

    loud = [index for index, sound in enumerate(trace.sounds) if sound.audible_at is not None]
    if not loud:
        return b""
    chosen = trace.sounds[max(0, loud[0] - 5) : loud[-1] + 6]
    pcm = np.concatenate([sound.pcm for sound in chosen])
    resampled: NDArray[np.int16] = soxr.resample(pcm, chosen[0].rate_hz, RATE_HZ)
    return resampled.astype("<i2").tobytes()


# ------------------------------------------------------------ the command

# Every one has p, b and m in it, at the beginning, in the middle and at the end of words.
SENTENCES = (
    ("en", "Please bring Bob a map of the museum, and maybe a cup of plum jam."),
    ("en", "My problem is simple: the bumpy bus stopped before the bridge."),
    ("en", "Come back home by midnight, or the pumpkin becomes a pumpkin again."),
    ("en", "Pam and Tom compare both maps, but members may prefer a computer."),
    ("zh", "爸爸和妈妈跑步去买面包和苹果。"),
    ("zh", "请不要怕，朋友们明天把旁边的门漆成白色。"),
)

Values = dict[str, tuple[float | None, str, str]]
"""Figure -> value, unit, over what."""


def quality(
    clips: Annotated[
        list[Path] | None,
        typer.Option(
            help="Folder of WAVs with .txt beside them; may be given again. "
            "Default: our question set, which our recogniser hears more easily."
        ),
    ] = None,
    count: Annotated[int, typer.Option(min=0, help="So many clips; 0: all.")] = 0,
    answers: Annotated[int, typer.Option(min=1, help="Answers to be transcribed back.")] = 10,
    beside: Annotated[
        Path | None, typer.Option(help="JSON of `bench latency`: shown in the same table.")
    ] = None,
    url: Url = DEFAULT_URL,
    api_key: ApiKey = "",
    profile: Profile = "default",
    config: Config = None,
    json_path: Json = None,
) -> None:
    """Word errors in what is heard and in what is spoken, and lips at p, b and m.

    The services must be reachable (they are where the stack runs on this machine).
    """
    bench = Benchmark("quality", json_path, None, url, api_key, profile, config)
    latency = _latency(beside)
    spoken = _clips(clips, count, profile, bench.console)
    questions = choose(QUESTIONS, answers)

    async def judge(
        client: GatewayClient, steps: Steps
    ) -> tuple[list[Told], list[Told], dict[str, Lips]]:
        def on_step(name: str) -> None:
            if name != "warm-up":
                steps.done(name[:60])

        heard = await heard_right(client, spoken, on_step)
        async with await _channel(client, "asr") as asr:
            said = await spoken_right(client, asr, questions, on_step)
        async with await _channel(client, "tts") as tts, await _channel(client, "face") as face:
            return heard, said, await lips_meet(tts, face, SENTENCES, on_step)

    total = len(spoken) + len(questions) + len(SENTENCES)
    heard, said, lips = bench.measure(total, "warm-up", judge)
    values = values_of(errors_of(heard), errors_of(said), lips)
    bench.console.print(quality_table(values, latency))
    bench.console.print(Text(NOTE, "dim"))
    bench.write_json(
        [],
        counts={name: value for name, (value, _unit, _of) in values.items() if value is not None},
        turns=[asdict(one) for one in (*heard, *said)],
        settings={"clips": len(spoken), "answers": len(questions)},
        notes=[NOTE],
    )


NOTE = (
    "Word errors count spelling too: 5 for five is one. Viseme accuracy of the sound's network: "
    "python -m training.audio_to_face.evaluate"
)


def values_of(heard: WordErrors, said: WordErrors, lips: Mapping[str, Lips]) -> Values:
    """The quality figures, in the order of the table."""
    values: Values = {
        "words_heard_wrong": (heard.rate, "%", f"{heard.said} words spoken to it"),
        "words_spoken_wrong": (said.rate, "%", f"{said.said} words of answers, transcribed back"),
    }
    for source, found in lips.items():
        over = f"{found.bilabials} of p, b, m; lips from {source}"
        values[f"lips_closed_by_{source}"] = (found.share, "%", over)
        over = f"median of {len(found.open_gaps)} open vowels, 0 shut to 1"
        values[f"open_vowel_gap_by_{source}"] = (found.open_gap, "", over)
    return values


def quality_table(values: Values, latency: Mapping[str, Mapping[str, float]]) -> Table:
    """Quality, and under it the latency that it goes with."""
    table = Table("figure", "value", "of", title="Quality")
    for name, (value, unit, over) in values.items():
        table.add_row(name, "-" if value is None else written(round(value, 4), unit), over)
    if latency:
        table.add_section()
    for name in ("voice_to_voice", "server_voice_to_voice", "first_frame", "overhead"):
        if name in latency:
            spread = latency[name]
            both = f"{spread['p50']:.3f} s / {spread['p90']:.3f} s"
            table.add_row(name, both, f"P50 / P90 of {spread['count']:g} answers")
    return table


async def _channel(client: GatewayClient, service: str) -> grpc.aio.Channel:
    services = (await client.call("GET", "/v1/services")).json()["services"]
    for known in services:
        if known["service"] == service and known["healthy"]:
            access = Access(stack_secret(client.url))
            return ServiceChannel(known["address"], access, service, MESSAGE_LIMITS)
    raise VisavisError(f"the gateway knows no healthy {service} service")


def _clips(folders: list[Path] | None, count: int, profile: str, console: Console) -> list[Clip]:
    chosen = folders or [ready_set("questions", profile, console)]
    clips = [clip for folder in chosen for clip in load_clips(folder) if clip.text]
    if not clips:
        raise InvalidInputError("clips: none of them has a text beside it")
    return choose(clips, count)


def _latency(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        figures: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["figures"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidInputError(f"{path}: not the JSON of `visavis bench latency`") from error
    return figures
