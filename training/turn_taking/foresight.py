"""Fits how likely the words of a look at unfinished speech are all that will be said.

    python -m training.turn_taking.foresight collect --sentences cmn.txt --out taught.jsonl
    python -m training.turn_taking.foresight collect --turns tests/turns --half tune --out a.jsonl
    python -m training.turn_taking.foresight collect --clips FOLDER --out b.jsonl
    python -m training.turn_taking.foresight fit taught.jsonl a.jsonl --asked b.jsonl

`collect` lets the service's own listener hear sentences that the word model was not fitted to,
labelled turns or a folder of recordings as they would be heard live: each look is answered so much
later as it takes. `fit` prints the coefficients of services/asr/turns/foresight.py, and what they
are worth on what they were not fitted to.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import soxr
from numpy.typing import NDArray

from services.asr.hearing.detectors import FRAME_SAMPLES, SAMPLE_RATE_HZ, VadState
from services.asr.hearing.networks import Hearing
from services.asr.servicer import open_hearing
from services.asr.settings import AsrSettings
from services.asr.stream import Listener
from services.asr.turns.foresight import Evidence, Wording, probability_of
from services.asr.turns.languages import words_of
from services.asr.utterance import Heard, Judge, Output, Transcribe
from services.tts.voices.opening import open_synthesizer, own_voices
from training.turn_taking.logistic import area_under_curve, fit, log_loss
from training.turn_taking.pauses import picked
from training.turn_taking.sounds import Spoken, in_a_room, trimmed
from visavis.tools.bench.turns import load_turn_clips
from visavis.tools.bench.visitor.clips import read_mono
from visavis.wire.media import TranscriptEvent

_FRAME_S = FRAME_SAMPLES / SAMPLE_RATE_HZ
# What each network takes, on a machine that does nothing else: the same for every run.
_ANSWER_FRAMES, _COST_S = 2, 0.06
_SPEECH = 0.5
_MARGIN_SAMPLES = SAMPLE_RATE_HZ // 2
_TAIL_SAMPLES = 2 * SAMPLE_RATE_HZ
_SPEEDS = (0.9, 1.0, 1.1, 1.2)
_NOISE_DB = (None, 25.0, 15.0)
"""Of pink noise below the speech; None: a quiet room."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What was known of the newest look in one frame, and what came of it."""

    clip: str
    look: int
    """Looks of the clip, counted."""
    frame: int
    evidence: Evidence
    text: str
    all_of_it: bool
    """The utterance's final words were these."""
    before_pause_s: float | None
    """Until the pause was told in which these words were final; None: they were not."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    commands = options.add_subparsers(dest="command", required=True)
    collect = commands.add_parser("collect")
    collect.add_argument("--sentences", type=Path, help="pairs, tab between them")
    collect.add_argument("--clips", type=Path, help="sound files instead")
    collect.add_argument("--turns", type=Path, help="the English ones of a labelled set instead")
    collect.add_argument("--half", default="", help="of that set: tune or test")
    collect.add_argument("--out", type=Path, required=True)
    collect.add_argument("--voice", action="append", default=[], help="one more English voice")
    collect.add_argument("--model-dir", type=Path, help="where the bundles of such voices lie")
    collect.add_argument("--count", type=int, default=150)
    fitting = commands.add_parser("fit")
    fitting.add_argument("taught", type=Path, nargs="+")
    fitting.add_argument("--asked", type=Path, required=True)
    chosen = options.parse_args()
    if chosen.command == "collect":
        asyncio.run(note_looks(chosen))
    else:
        report([seen for path in chosen.taught for seen in read(path)], read(chosen.asked))


async def note_looks(chosen: argparse.Namespace) -> None:
    """Let the service's networks hear everything, and write what was seen."""
    hearing = open_hearing(AsrSettings.model_validate({"profile": "tiny"}))
    await hearing.load()
    if chosen.turns:
        sounds = from_turns(chosen.turns, chosen.half)
    else:
        sounds = from_files(chosen.clips) if chosen.clips else spoken(chosen)
    with chosen.out.open("w", encoding="utf-8") as out:
        for name, pcm in sounds:
            for seen in await seen_in(hearing, name, pcm):
                out.write(json.dumps(asdict(seen), ensure_ascii=False) + "\n")
    await asyncio.to_thread(hearing.close)


def from_turns(folder: Path, half: str) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Labelled ones in English: [N] float32 at 16 kHz."""
    for clip in load_turn_clips(folder, "en", half):
        yield clip.path.stem, clip.sound().astype(np.float32) / np.float32(32768)


def from_files(folder: Path) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Recordings, and two seconds in which nobody speaks: [N] float32 at 16 kHz."""
    for path in sorted(p for p in folder.iterdir() if p.suffix in (".wav", ".opus", ".flac")):
        pcm = read_mono(path, SAMPLE_RATE_HZ).astype(np.float32) / 32768
        noise = np.random.default_rng(1).normal(size=_TAIL_SAMPLES) * 10 ** (-62 / 20)
        yield path.stem, np.concatenate([pcm, noise.astype(np.float32)])


def spoken(chosen: argparse.Namespace) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Each sentence by every voice, some in noise: [N] float32 at 16 kHz."""
    own = own_voices(",".join(chosen.voice), chosen.model_dir)
    with open_synthesizer(own=own) as synthesizer:
        for number, text in enumerate(picked(chosen.sentences, "en", chosen.count)):
            for at, voice in enumerate(["heart", *chosen.voice]):
                speed = _SPEEDS[(number + at) % len(_SPEEDS)]
                pieces = synthesizer.speak(text, language="en", voice=voice, speed=speed)
                pcm = np.concatenate([p.voice for p in pieces]).astype(np.float32) / 32768
                resampled = soxr.resample(pcm, synthesizer.sample_rate_hz, SAMPLE_RATE_HZ)
                speech = np.pad(trimmed(np.asarray(resampled, np.float32)), (0, _TAIL_SAMPLES))
                room = in_a_room(Spoken(speech), _MARGIN_SAMPLES, seed=number).pcm
                yield f"{number}-{voice}", in_noise(room, _NOISE_DB[(number + 2 * at) % 3], number)


def in_noise(pcm: NDArray[np.float32], below_db: float | None, seed: int) -> NDArray[np.float32]:
    """Pink noise so far below the speech of pcm, [N] float32."""
    if below_db is None:
        return pcm
    white = np.fft.rfft(np.random.default_rng(seed).normal(size=len(pcm)))
    pink = np.fft.irfft(white / np.sqrt(np.maximum(1, np.arange(len(white)))), len(pcm))
    loud = np.sqrt(np.mean(pcm[np.abs(pcm) > 1e-2] ** 2)) * 10 ** (-below_db / 20)
    noisy = pcm + pink * (loud / np.sqrt(np.mean(pink**2)))
    return np.asarray(noisy, np.float32)


class Onlooker:
    """Follows one listener through a sound, and answers what it asks as late as live."""

    def __init__(self, hearing: Hearing, name: str) -> None:
        self._hearing, self._name = hearing, name
        self._listener = Listener("en", interim_results=True, foresight=True)
        self._asked: list[tuple[int, Transcribe | Judge]] = []
        self._rows: list[tuple[int, int, str, Evidence]] = []
        self._look, self._text = 0, ""
        self._told: int | None = None
        """The frame in which the present pause was told."""
        self.seen: list[Seen] = []

    async def hear(self, number: int, frame: NDArray[np.float32], probability: float) -> None:
        """The next frame, [FRAME_SAMPLES] float32."""
        listener = self._listener
        due = [work for at, work in self._asked if at <= number]
        self._asked = [(at, work) for at, work in self._asked if at > number]
        for work in due:
            if isinstance(work, Judge):
                odds, _ = await self._hearing.end_of_turn(work.pcm, work.urgency)
                self._take(listener.judged(work, odds, _COST_S), number)
            else:
                text, _ = await self._hearing.transcribe(work.pcm, work.language, work.draft)
                self._take(listener.transcribed(work, text, _COST_S), number)
        self._take(listener.hear_frame(frame, probability), number)
        evidence = listener.foresight.evidence() if listener.foresight else None
        if evidence is not None and self._text and not listener.idle and self._told is None:
            self._rows.append((self._look, number, self._text, evidence))
        if self._told is not None and probability > _SPEECH:
            self._told = None  # the visitor goes on

    def _take(self, outputs: Sequence[Output], frame: int) -> None:
        for output in outputs:
            if isinstance(output, Judge | Transcribe):
                self._asked.append((frame + _ANSWER_FRAMES, output))
            elif isinstance(output, Heard):
                self._note(output, frame)

    def _note(self, event: Heard, frame: int) -> None:
        if event.event is TranscriptEvent.PARTIAL and event.text != self._text:
            self._look, self._text = self._look + 1, event.text
        elif event.event is TranscriptEvent.PAUSED:
            self._told = frame
        elif event.event in (TranscriptEvent.FINAL, TranscriptEvent.DISCARDED):
            final, told = words_of(event.text, "en"), self._told
            for look, at, text, evidence in self._rows:
                right = words_of(text, "en") == final
                before = (told - at) * _FRAME_S if right and told is not None else None
                self.seen.append(Seen(self._name, look, at, evidence, text, right, before))
            self._rows.clear()
            self._text, self._told = "", None


async def seen_in(hearing: Hearing, name: str, pcm: NDArray[np.float32]) -> list[Seen]:
    """What every frame of pcm, [N] float32 at 16 kHz, tells of the newest look."""
    frames = pcm[: len(pcm) // FRAME_SAMPLES * FRAME_SAMPLES].reshape(-1, FRAME_SAMPLES)
    speech = await hearing.speech(frames, VadState())
    onlooker = Onlooker(hearing, name)
    for number, (frame, probability) in enumerate(zip(frames, speech, strict=True)):
        await onlooker.hear(number, frame, probability)
    return onlooker.seen


# ------------------------------------------------------------ what it is worth


def read(path: Path) -> list[Seen]:
    """What was noted; what the words say is asked of the models as they are now."""
    told = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return [Seen(**{**row, "evidence": Evidence(**(row["evidence"] | said(row)))}) for row in told]


def said(row: dict[str, Any]) -> dict[str, float]:
    return asdict(Wording.of(row["text"], "en"))


def report(taught: Sequence[Seen], asked: Sequence[Seen]) -> None:
    """Fit to the one, and tell what came of it on the other."""
    columns = np.array([astuple(seen.evidence) for seen in taught])
    label = np.array([float(seen.all_of_it) for seen in taught])
    weights = fit(columns, label, np.zeros(len(label)))
    say(f"_WEIGHTS = ({', '.join(f'{w:.3f}' for w in weights)})")
    for name, rows in (("fitted to", taught), ("not fitted to", asked)):
        features = np.array([astuple(seen.evidence) for seen in rows])
        odds = features @ weights[:-1] + weights[-1]
        guessed = 1 / (1 + np.exp(-odds))
        now = np.array([probability_of(seen.evidence) for seen in rows])
        right = np.array([float(seen.all_of_it) for seen in rows])
        say(f"{name}: {len(rows)} frames, {right.mean():.3f} of them right")
        for which, chance in (("as fitted", guessed), ("as it is", now)):
            area, loss = area_under_curve(right, chance), log_loss(right, chance)
            say(f"  {which}: area {area:.3f}, log loss {loss:.3f}; {reliability(right, chance)}")
            for least in (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8):
                say("    " + spent(rows, chance, least))


def reliability(right: NDArray[np.float64], chance: NDArray[np.float64]) -> str:
    """Said and found, in five classes."""
    classes = np.minimum(4, (chance * 5).astype(int))
    told = []
    for k in range(5):
        mine = classes == k
        if mine.any():
            told.append(f"{chance[mine].mean():.2f} is {right[mine].mean():.2f} ({mine.sum()})")
    return ", ".join(told)


def spent(rows: Sequence[Seen], chance: NDArray[np.float64], least: float) -> str:
    """What preparing an answer at the first frame of a look from `least` on would have come to."""
    bets: dict[tuple[str, int], Seen] = {}
    for seen, probability in zip(rows, chance, strict=True):
        if probability >= least:
            bets.setdefault((seen.clip, seen.look), seen)
    clips = {seen.clip for seen in rows}
    won = [bet for bet in bets.values() if bet.all_of_it]
    ahead = {bet.clip: bet.before_pause_s or 0.0 for bet in won}
    lead = np.median(list(ahead.values())) if ahead else 0.0
    return (
        f"from {least:.1f}: {len(ahead)} of {len(clips)} clips ahead by {lead:.2f} s, "
        f"{len(bets) - len(won)} bets lost ({(len(bets) - len(won)) / len(clips):.2f} a clip)"
    )


def say(line: str) -> None:
    print(line)  # noqa: T201


if __name__ == "__main__":
    main()
