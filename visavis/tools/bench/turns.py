"""`visavis bench turns`: ends of turns cut off too soon, waited for too long, or taken back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import grpc.aio
import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.text import Text

from visavis.serving.authentication.access import Access
from visavis.serving.authentication.channel import ServiceChannel
from visavis.serving.errors import InvalidInputError
from visavis.tools.bench.benchmark import DEFAULT_URL, Benchmark, Json, Picture, Profile
from visavis.tools.bench.figures.reliability import Reliability, draw_reliability, reliability
from visavis.tools.bench.figures.report import rows_of, summarise
from visavis.tools.bench.figures.tables import Steps
from visavis.tools.bench.figures.word_errors import count_errors, words
from visavis.tools.bench.visitor.clips import read_mono
from visavis.tools.cli.models import pull_profile
from visavis.tools.output import check_output, write_output
from visavis.tools.shown import Table
from visavis.tools.speech import service_errors
from visavis.tools.stack.keys import stack_secret
from visavis.tools.stack.plain_service import plain_service
from visavis.tools.stack.process import log_dir
from visavis.v1 import asr_pb2, asr_pb2_grpc
from visavis.wire.media import TranscriptChunk, TranscriptEvent

# ------------------------------------------------------------ a labelled set

RATE_HZ = 16_000
LABELS = "labels.jsonl"
# After the last word the speaker waits for an answer; no microphone is wholly silent.
_TAIL_SAMPLES = 2 * RATE_HZ
_ROOM_NOISE = 32768 * 10 ** (-62 / 20)


@dataclass(frozen=True, slots=True)
class TurnClip:
    """One labelled turn. Positions are samples at 16 kHz; pauses as (first sample, end)."""

    path: Path
    language: str
    category: str
    """"short", "finished", "unfinished" (pauses where nobody ends) or "hesitant"."""
    origin: str
    """"recorded" or "synthetic"."""
    text: str
    speech_start: int
    turn_end: int
    """After the last sample of speech: the turn ends here and nowhere before."""
    pauses: tuple[tuple[int, int], ...]
    """Silences in which it goes on."""
    half: str
    """"tune": rules were chosen on it; "test": they were not."""
    voice: str = ""
    noise: str = ""
    """What it is heard in, where that is told."""

    def sound(self) -> NDArray[np.int16]:
        """[N] int16: the clip, then two seconds of a quiet room. Raises InvalidInputError."""
        pcm = read_mono(self.path, RATE_HZ)
        room = np.random.default_rng(1).normal(size=_TAIL_SAMPLES) * _ROOM_NOISE
        return np.concatenate([pcm, room.astype(np.int16)])


def load_turn_clips(folder: Path, language: str = "", half: str = "") -> list[TurnClip]:
    """The clips that `labels.jsonl` in the folder names. Raises InvalidInputError."""
    path = folder / LABELS
    try:
        lines = path.read_text("utf-8").splitlines()
    except OSError as error:
        raise InvalidInputError(
            f"{path}: {error.strerror}; name a folder with a labelled set, such as tests/turns"
        ) from error
    clips = [_clip(folder, line, f"{path}:{n}") for n, line in enumerate(lines, 1) if line.strip()]
    chosen = [clip for clip in clips if language in ("", clip.language) and half in ("", clip.half)]
    if not chosen:
        raise InvalidInputError(f"{path}: no clip with language {language!r} and half {half!r}")
    return chosen


def write_labels(folder: Path, clips: Iterable[TurnClip]) -> None:
    """The `labels.jsonl` that `load_turn_clips` reads. Raises OSError."""
    lines = []
    for clip in clips:
        fields = asdict(clip)
        label = {"file": fields.pop("path").name, **fields}
        label = {name: value for name, value in label.items() if value != ""}
        lines.append(json.dumps(label, ensure_ascii=False))
    (folder / LABELS).write_text("\n".join(lines) + "\n", "utf-8")


def _clip(folder: Path, line: str, where: str) -> TurnClip:
    try:
        label = json.loads(line)
        return TurnClip(
            folder / str(label["file"]),
            str(label["language"]),
            str(label["category"]),
            str(label["origin"]),
            str(label["text"]),
            int(label["speech_start"]),
            int(label["turn_end"]),
            tuple((int(first), int(end)) for first, end in label["pauses"]),
            str(label.get("half", "test")),
            str(label.get("voice", "")),
            str(label.get("noise", "")),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInputError(f"{where}: not a label: {error!r}") from error


# ------------------------------------------------------------ what became of each turn
# Delays are in time of the sound: how many samples had been heard. The networks' work is
# added where a figure says so; it happens while the sound goes on.

# An answer about a pause may lie a little before the labelled end: labels are exact to 10 ms
# and the last sounds of a word are soft.
_END_SLACK_SAMPLES = RATE_HZ // 10
# From the end being certain to the first sound of an answer that was prepared.
_FIRST_SOUND_SAMPLES = RATE_HZ // 10
FINISHED = 0.5
FIGURES: Mapping[str, str] = {
    "end_of_turn_s": "s",
    "end_of_turn_with_compute_s": "s",
    "paused_s": "s",
    "paused_with_compute_s": "s",
    "pause_compute_s": "s",
    "known_before_s": "s",
    "first_text_s": "s",
    "first_text_with_compute_s": "s",
    "partial_compute_s": "s",
    "word_errors": "%",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was told at one pause: how probably the turn was over, and whether it was."""

    finished: bool
    probability: float


@dataclass(frozen=True, slots=True)
class TurnOutcome:
    """What became of one clip. Seconds; None where it did not happen."""

    clip: TurnClip
    cut_offs: tuple[str, ...]
    """Texts that were called final while the speaker went on."""
    heard_cut_offs: int
    """Of these, in how many the pause outlasted the first sound of an answer."""
    end_of_turn_s: float | None
    end_of_turn_with_compute_s: float | None
    paused_s: float | None
    paused_with_compute_s: float | None
    pause_compute_s: float | None
    known_before_s: float | None
    """How long before the last pause was told a partial already had all of its words."""
    first_text_s: float | None
    first_text_with_compute_s: float | None
    partial_compute_s: float | None
    retracted_characters: int
    partials: int
    pauses_told: int
    verdicts: tuple[Verdict, ...]
    judgements: tuple[Verdict, ...]
    """The newest on each pause, pauses within words and in noise as well."""
    word_errors: float | None
    text: str

    def to_dict(self) -> dict[str, Any]:
        clip = self.clip
        about = {"clip": clip.path.name, "language": clip.language, "category": clip.category}
        figures = {name: _rounded(getattr(self, name)) for name in FIGURES}
        return {
            **about,
            "origin": clip.origin,
            "half": clip.half,
            "voice": clip.voice,
            "noise": clip.noise,
            "cut_offs": list(self.cut_offs),
            "heard_cut_offs": self.heard_cut_offs,
            **figures,
            "retracted_characters": self.retracted_characters,
            "partials": self.partials,
            "pauses_told": self.pauses_told,
            "judgements": [[v.finished, round(v.probability, 4)] for v in self.judgements],
            "text": self.text,
        }


def outcome_of(clip: TurnClip, chunks: Sequence[TranscriptChunk]) -> TurnOutcome:
    """What the events of one clip, in order, amount to."""
    finals = _of(chunks, TranscriptEvent.FINAL)
    partials = _of(chunks, TranscriptEvent.PARTIAL)
    paused = _of(chunks, TranscriptEvent.PAUSED)
    cut_offs = [chunk for chunk in finals if chunk.place.pts < clip.turn_end - _END_SLACK_SAMPLES]
    end = finals[-1] if len(finals) > len(cut_offs) else None
    at_end = [c for c in paused if c.place.pts >= clip.turn_end - _END_SLACK_SAMPLES]
    last = at_end[-1] if at_end and end else None
    first = next((c for c in chunks if c.text), None)
    end_s = _after(end, clip.turn_end)
    paused_s = _after(last, clip.turn_end)
    known_s = None if paused_s is None or last is None else paused_s + last.compute_ms / 1000
    text = " ".join(chunk.text for chunk in finals)
    computed = [chunk.compute_ms / 1000 for chunk in partials]
    return TurnOutcome(
        clip=clip,
        cut_offs=tuple(chunk.text for chunk in cut_offs),
        heard_cut_offs=sum(_outlasted(chunk, clip) for chunk in cut_offs),
        end_of_turn_s=end_s,
        end_of_turn_with_compute_s=end_s
        if known_s is None or end_s is None
        else max(end_s, known_s),
        paused_s=paused_s,
        paused_with_compute_s=known_s,
        pause_compute_s=None if last is None else last.compute_ms / 1000,
        known_before_s=None if last is None else _known_before_s(last, partials),
        first_text_s=_after(first, clip.speech_start),
        first_text_with_compute_s=_after(first, clip.speech_start, compute=True),
        partial_compute_s=max(computed, default=None),
        retracted_characters=retracted(chunks),
        partials=len(partials),
        pauses_told=len(paused),
        verdicts=tuple(_verdicts(clip, paused)),
        judgements=tuple(_judgements(clip, [*paused, *finals])),
        word_errors=count_errors([(clip.text, text)]).rate,
        text=text,
    )


def _known_before_s(paused: TranscriptChunk, partials: Sequence[TranscriptChunk]) -> float | None:
    """None where the newest partial of the utterance, as it was known by then, lacked words."""
    before = [
        partial
        for partial in partials
        if partial.utterance == paused.utterance and partial.place.pts <= paused.place.pts
    ]
    if not before or words(before[-1].text) != words(paused.text):
        return None
    partial = before[-1]
    known_samples = partial.place.pts + round(partial.compute_ms / 1000 * RATE_HZ)
    return max(0.0, (paused.place.pts - known_samples) / RATE_HZ)


def retracted(chunks: Iterable[TranscriptChunk]) -> int:
    """Characters that were called stable and are not in a later text of the same utterance."""
    stable: dict[int, str] = {}
    count = 0
    for chunk in chunks:
        if not chunk.text:
            continue
        known = stable.get(chunk.utterance, "")
        same = 0
        while same < len(known) and chunk.text[same : same + 1] == known[same]:
            same += 1
        count += len(known) - same
        stable[chunk.utterance] = chunk.text[: chunk.stable_characters]
    return count


def precision_and_recall(verdicts: Iterable[Verdict]) -> tuple[float | None, float | None]:
    """Of calling a turn over at a pause, from FINISHED on."""
    known = list(verdicts)
    called = [v for v in known if v.probability >= FINISHED]
    over = [v for v in known if v.finished]
    right = sum(v.finished for v in called)
    return (right / len(called) if called else None, right / len(over) if over else None)


def counts_of(outcomes: Sequence[TurnOutcome]) -> dict[str, float]:
    """What the table cannot tell as a spread."""
    precision, recall = precision_and_recall(v for o in outcomes for v in o.verdicts)
    counts: dict[str, float] = {
        "clips": len(outcomes),
        "clips_cut_off": sum(bool(o.cut_offs) for o in outcomes),
        "clips_cut_off_by_a_sound": sum(bool(o.heard_cut_offs) for o in outcomes),
        "clips_without_an_end": sum(o.end_of_turn_s is None for o in outcomes),
        "pauses_judged": sum(len(o.verdicts) for o in outcomes),
        "retracted_characters_of_stable_text": sum(o.retracted_characters for o in outcomes),
        "partials": sum(o.partials for o in outcomes),
        "pauses_told": sum(o.pauses_told for o in outcomes),
        "ends_whose_words_a_partial_had": sum(o.known_before_s is not None for o in outcomes),
    }
    if precision is not None:
        counts["precision_of_finished"] = round(precision, 3)
    if recall is not None:
        counts["recall_of_finished"] = round(recall, 3)
    return counts


def _verdicts(clip: TurnClip, paused: Iterable[TranscriptChunk]) -> Iterable[Verdict]:
    for chunk in paused:
        at, probability = chunk.speech_end_samples, chunk.end_of_turn_probability
        slack = _END_SLACK_SAMPLES
        if at >= clip.turn_end - slack:
            yield Verdict(True, probability)
        elif any(first - slack <= at <= end for first, end in clip.pauses):
            yield Verdict(False, probability)


def _judgements(clip: TurnClip, told: Iterable[TranscriptChunk]) -> Iterable[Verdict]:
    """What was told last of each pause."""
    newest = {chunk.speech_end_samples: chunk.end_of_turn_probability for chunk in told}
    over = clip.turn_end - _END_SLACK_SAMPLES
    return [Verdict(at >= over, probability) for at, probability in sorted(newest.items())]


def _outlasted(chunk: TranscriptChunk, clip: TurnClip) -> bool:
    """Whether an answer is heard before the speaker goes on; where no pause is known, it is."""
    at = chunk.place.pts
    ends = [end for first, end in clip.pauses if first - _END_SLACK_SAMPLES <= at <= end]
    return not ends or at + _FIRST_SOUND_SAMPLES < ends[0]


def _of(chunks: Iterable[TranscriptChunk], event: TranscriptEvent) -> list[TranscriptChunk]:
    return [chunk for chunk in chunks if chunk.event is event]


def _after(chunk: TranscriptChunk | None, samples: int, *, compute: bool = False) -> float | None:
    if chunk is None:
        return None
    return (chunk.place.pts - samples) / RATE_HZ + (chunk.compute_ms / 1000 if compute else 0.0)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


# ------------------------------------------------------------ the command

_CHUNK_SAMPLES = RATE_HZ // 50
_NOTES = (
    "Faster than real time: every answer of the networks is awaited before more is heard, and "
    "delays are in time of the sound. *_with_compute adds the networks' measured time.",
)


def turns(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER", help="Labelled set: labels.jsonl and the clips that it names."
        ),
    ] = Path("tests/turns"),
    language: Annotated[str, typer.Option(help="Only clips of this language (en, zh).")] = "",
    half: Annotated[
        str, typer.Option(help='Only "tune", on which rules were chosen, or "test".')
    ] = "",
    address: Annotated[
        str, typer.Option(help="host:port of an asr service to measure; without it one is started.")
    ] = "",
    profile: Profile = "default",
    json_path: Json = None,
    picture: Picture = None,
    diagram: Annotated[
        Path | None, typer.Option(help="Draw the reliability of the told probability into an SVG.")
    ] = None,
) -> None:
    """Measure turn-taking on a labelled set: speakers cut off, silence waited for, partials.

    The asr service hears each clip through its gRPC API (StreamingRecognize with `recorded`),
    with the endpointing of live sound, faster than it was spoken. What is told as a delay does
    not depend on how fast this machine is; what is told as compute does.
    """
    bench = Benchmark("turns", json_path, picture)
    check_output(diagram, ".svg")
    clips = load_turn_clips(folder, language, half)

    async def run() -> list[TurnOutcome]:
        async with _service(address, profile, bench.console) as asr:
            with Steps(bench.console, len(clips), "loading") as steps:
                done: list[TurnOutcome] = []
                for clip in clips:
                    done.append(outcome_of(clip, await _heard(asr, clip)))
                    steps.done(_line(done[-1]))
                return done

    done = asyncio.run(run())
    agreed = reliability((v.probability, v.finished) for turn in done for v in turn.judgements)
    bench.console.print(_by_category(done), _told_and_true(agreed))
    if diagram is not None:
        write_output(diagram, draw_reliability(f"Finished or not: {len(done)} turns", agreed))
    bench.hand_out(
        f"Turn-taking, {len(done)} clips",
        rows_of([{name: getattr(turn, name) for name in FIGURES} for turn in done], FIGURES),
        counts=counts_of(done) | _agreement(agreed),
        turns=[turn.to_dict() for turn in done],
        settings={
            "folder": folder.name,
            "language": language,
            "half": half,
            "profile": profile,
        },
        groups={"reliability": agreed.to_dict()},
        notes=_NOTES,
    )
    for turn in done:
        if turn.cut_offs:
            cut = " | ".join(turn.cut_offs)
            bench.console.print(Text(f"cut off: {turn.clip.path.stem} ({turn.clip.half}): {cut}"))


@asynccontextmanager
async def _service(address: str, profile: str, console: Console) -> AsyncIterator[grpc.aio.Channel]:
    if address:
        async with ServiceChannel(address, Access(stack_secret(DEFAULT_URL)), "asr") as channel:
            yield channel
        return
    pull_profile(profile, console)
    async with plain_service("asr", ["--profile", profile], log_dir() / "bench") as channel:
        yield channel


async def _heard(channel: grpc.aio.Channel, clip: TurnClip) -> list[TranscriptChunk]:
    """The events of one clip. Raises VisavisError with what the service says."""
    sound = await asyncio.to_thread(clip.sound)

    async def requests() -> AsyncIterator[asr_pb2.StreamingRecognizeRequest]:
        config = asr_pb2.RecognitionConfig(
            sample_rate_hz=RATE_HZ, language=clip.language, interim_results=True, recorded=True
        )
        yield asr_pb2.StreamingRecognizeRequest(config=config)
        for start in range(0, len(sound), _CHUNK_SAMPLES):
            piece = sound[start : start + _CHUNK_SAMPLES].astype("<i2").tobytes()
            yield asr_pb2.StreamingRecognizeRequest(pcm_s16le=piece)

    stub = asr_pb2_grpc.SpeechRecognitionStub(channel)
    with service_errors(f"{clip.path.name}: "):
        return [
            TranscriptChunk.of(answer.transcript)
            async for answer in stub.StreamingRecognize(requests())
        ]


def _line(turn: TurnOutcome) -> str:
    if turn.cut_offs:
        return f"{turn.clip.path.stem}: cut off"
    if turn.end_of_turn_s is None:
        return f"{turn.clip.path.stem}: no end"
    return f"{turn.clip.path.stem}: over after {turn.end_of_turn_s:.3f} s"


def _by_category(done: Sequence[TurnOutcome]) -> Table:
    """Cut off, and seconds from the end of speech, for each kind of turn."""
    table = Table("", "turns", "half", title="By category")
    for column in ("n", "cut off", "heard", "end P50", "P90", "max", "no end", "errors", "paused"):
        table.add_column(column, justify="right")
    keys = sorted({(t.clip.language, t.clip.category, t.clip.half) for t in done})
    for key in keys:
        turns = [t for t in done if (t.clip.language, t.clip.category, t.clip.half) == key]
        cut = sum(bool(turn.cut_offs) for turn in turns)
        end = summarise(turn.end_of_turn_s for turn in turns)
        paused = summarise(turn.paused_s for turn in turns)
        spread = [f"{v:.3f}" for v in (end.p50, end.p90, end.max)] if end else ["-"] * 3
        told = f"{paused.p50:.3f}" if paused else "-"
        by_sound = sum(bool(turn.heard_cut_offs) for turn in turns)
        endless = sum(turn.end_of_turn_s is None for turn in turns)
        wrong = [turn.word_errors for turn in turns if turn.word_errors is not None]
        errors = f"{100 * sum(wrong) / len(wrong):.0f} %" if wrong else "-"
        counts = map(str, (len(turns), cut, by_sound))
        table.add_row(*key, *counts, *spread, str(endless), errors, told)
    return table


def _told_and_true(found: Reliability) -> Table:
    """The reliability diagram in figures."""
    table = Table("told", title="Probability that a turn is over")
    for column in ("pauses", "mean told", "came true"):
        table.add_column(column, justify="right")
    for held in found.bins:
        means = ["-" if v is None else f"{v:.2f}" for v in (held.told, held.came_true)]
        table.add_row(f"{held.low:.1f} to {held.high:.1f}", str(held.count), *means)
    return table


def _agreement(found: Reliability) -> dict[str, float]:
    told = {
        "calibration_error": found.calibration_error,
        "brier_score": found.brier,
        "log_loss": found.log_loss,
    }
    return {name: round(value, 3) for name, value in told.items() if value is not None}
