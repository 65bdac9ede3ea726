"""`visavis bench quality`: what speed must not cost. Heard right, spoken right, lips that meet."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import grpc.aio
import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from rich.text import Text

from visavis.serving.errors import InvalidInputError, VisavisError
from visavis.serving.runtime import MESSAGE_LIMITS
from visavis.tools.bench.clips import RATE_HZ, Clip, choose, load_clips
from visavis.tools.bench.lip_closure import Closure, closure, lip_gap
from visavis.tools.bench.options import DEFAULT_URL, Config, Json, Profile, Url
from visavis.tools.bench.partials import PartialsBench
from visavis.tools.bench.questions import ENGLISH, MANDARIN, ready_set
from visavis.tools.bench.report import check_target, report, write_report
from visavis.tools.bench.tables import Steps, wide_console, written
from visavis.tools.bench.trace import Trace
from visavis.tools.bench.visitor import visit
from visavis.tools.bench.word_errors import WordErrors, count_errors
from visavis.tools.cli.running_gateway import ApiKey, running_gateway, running_models
from visavis.tools.client import GatewayClient
from visavis.v1 import (
    asr_pb2,
    asr_pb2_grpc,
    control_pb2,
    face_pb2,
    face_pb2_grpc,
    tts_pb2,
    tts_pb2_grpc,
)
from visavis.wire.clock import MonotonicClock
from visavis.wire.media import BlendshapeChunk, MelChunk, PcmChunk

# ------------------------------------------------------------ quality
# The quality benchmark: what speed must not cost. Heard right, spoken right, lips that meet.

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


@dataclass
class Lips:
    """Closure over all sentences, by what the face was given."""

    bilabials: int = 0
    closed: int = 0
    open_gaps: list[float] = field(default_factory=list)

    def add(self, found: Closure) -> None:
        self.bilabials += len(found.bilabial_gaps)
        self.closed += found.closed
        self.open_gaps += found.open_gaps

    @property
    def share(self) -> float | None:
        return self.closed / self.bilabials if self.bilabials else None

    @property
    def open_gap(self) -> float | None:
        """Median opening of open vowels."""
        return float(np.median(self.open_gaps)) if self.open_gaps else None


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
    stub = asr_pb2_grpc.SpeechRecognitionStub(asr)
    for language, question in questions:
        async with visit(client, MonotonicClock(), language=language) as visitor:
            visitor.trace = trace = Trace()
            turn = await visitor.session.say(question)
            if await visitor.until(partial(_finished, trace, turn), _ANSWER_TIMEOUT_S):
                await visitor.pause(_TAIL_S)
                record = await visitor.record(turn)
                config = asr_pb2.RecognitionConfig(sample_rate_hz=RATE_HZ, language=language)
                request = asr_pb2.RecognizeRequest(config=config, pcm_s16le=voice_of(trace))
                heard = await stub.Recognize(request)
                told.append(Told(question, str(record.get("answer", "")).strip(), heard.text))
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


async def lips_meet(
    tts: grpc.aio.Channel,
    face: grpc.aio.Channel,
    sentences: Sequence[tuple[str, str]],
    on_step: Callable[[str], None],
) -> dict[str, Lips]:
    """Closure at p, b and m: of lips from phoneme durations, and of lips from the sound alone."""
    status = await face_pb2_grpc.FaceAnimationStub(face).GetStatus(control_pb2.GetStatusRequest())
    names = list(status.blendshapes)
    lips = {"durations": Lips(), "sound": Lips()}
    for language, text in sentences:
        voice, mels = await _synthesise(tts, language, text)
        spans = [span for mel in mels for span in mel.phonemes]
        if spans and voice:
            rate_hz = mels[0].sample_rate_hz
            for source, inputs in (
                ("durations", [face_pb2.AnimateRequest(mel=mel.to_message()) for mel in mels]),
                ("sound", [face_pb2.AnimateRequest(voice=pcm.to_message()) for pcm in voice]),
            ):
                weights, fps = await _animate(face, source, inputs)
                gaps = lip_gap(weights, names)
                lips[source].add(closure(spans, gaps, fps, rate_hz))
        on_step(text)
    return lips


async def _synthesise(
    channel: grpc.aio.Channel, language: str, text: str
) -> tuple[list[PcmChunk], list[MelChunk]]:
    async def requests() -> AsyncIterator[tts_pb2.SynthesizeRequest]:
        yield tts_pb2.SynthesizeRequest(config=tts_pb2.SynthesisConfig(language=language))
        yield tts_pb2.SynthesizeRequest(text=text)

    voice, mels = [], []
    async for answer in tts_pb2_grpc.SpeechSynthesisStub(channel).Synthesize(requests()):
        if answer.HasField("voice"):
            voice.append(PcmChunk.of(answer.voice))
        else:
            mels.append(MelChunk.of(answer.mel))
    return voice, mels


async def _animate(
    channel: grpc.aio.Channel, source: str, inputs: Sequence[face_pb2.AnimateRequest]
) -> tuple[NDArray[np.float32], int]:
    """Blendshapes [T, 52] and their rate."""
    kind = face_pb2.FaceConfig.SOURCE_MEL
    if source == "sound":
        kind = face_pb2.FaceConfig.SOURCE_VOICE
    config = face_pb2.FaceConfig(blendshapes=True, source=kind, seed=1)

    async def requests() -> AsyncIterator[face_pb2.AnimateRequest]:
        yield face_pb2.AnimateRequest(config=config)
        for request in inputs:
            yield request

    chunks: list[Any] = []
    async for answer in face_pb2_grpc.FaceAnimationStub(channel).Animate(requests()):
        if answer.HasField("face"):
            chunks.append(BlendshapeChunk.of(answer.face))
    return np.stack([chunk.weights for chunk in chunks]), chunks[0].fps


def _finished(trace: Trace, turn: int) -> bool:
    return trace.turn_event_s(turn, "finished", "failed") is not None


# ------------------------------------------------------------ bench quality
# `visavis bench quality`: what speed must not cost, beside what it is.

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
    check_target(json_path, ".json")
    console = wide_console()
    latency = _latency(beside)
    spoken = _clips(clips, count, profile, console)
    known = [("en", text) for text in ENGLISH] + [("zh", text) for text in MANDARIN]
    questions = [known[i * len(known) // answers] for i in range(min(answers, len(known)))]

    models: list[dict[str, Any]] = []

    async def run() -> tuple[list[Told], list[Told], dict[str, Lips]]:
        gateway = running_gateway(url, api_key, profile, console, command="bench", config=config)
        async with gateway as client:
            models.extend(await running_models(client))
            with Steps(console, len(spoken) + len(questions) + len(SENTENCES), "warm-up") as steps:

                def on_step(name: str) -> None:
                    if name != "warm-up":
                        steps.done(name[:60])

                heard = await heard_right(client, spoken, on_step)
                async with await _channel(client, "asr") as asr:
                    said = await spoken_right(client, asr, questions, on_step)
                async with (
                    await _channel(client, "tts") as tts,
                    await _channel(client, "face") as face,
                ):
                    lips = await lips_meet(tts, face, SENTENCES, on_step)
                return heard, said, lips

    heard, said, lips = asyncio.run(run())
    values = values_of(errors_of(heard), errors_of(said), lips)
    console.print(quality_table(values, latency))
    console.print(Text(NOTE, "dim"))
    if json_path is not None:
        result = report(
            "quality",
            [],
            counts={
                name: value for name, (value, _unit, _of) in values.items() if value is not None
            },
            turns=[asdict(one) for one in (*heard, *said)],
            settings={"clips": len(spoken), "answers": len(questions)},
            notes=[NOTE],
            models=models,
        )
        write_report(json_path, result)


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
    table = Table("figure", "value", "of", title="Quality", title_justify="left")
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
            return grpc.aio.insecure_channel(known["address"], MESSAGE_LIMITS)
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
