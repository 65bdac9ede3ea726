"""Makes the disjoint material: clips for turns, for word errors, over answers, and long noises.

    python -m training.turn_taking.material.making

into ~/.cache/visavis/bench/turn_taking: `turns`, `words` (both for `visavis bench turns FOLDER`),
`over` and `confirm` (see over_answers.py) and `noise`. No voice and no text of one half is in the
other. Each clip has a room, a noise that goes on behind it, a breath or a soft end by its number.
"""

from __future__ import annotations

import argparse
import random
import re
import shutil
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training.turn_taking.make_clips import write_opus
from training.turn_taking.material import over_answers
from training.turn_taking.material.rooms import breath, in_room, noise_of
from training.turn_taking.material.voices import Speakers, going_on
from training.turn_taking.sounds import SAMPLE_RATE_HZ, Spoken, joined, natural_pauses
from visavis.bundles.store.catalogue import cache_root
from visavis.tools.bench.turns import TurnClip, load_turn_clips, write_labels

HALVES = ("tune", "test")
TEXTS = Path(__file__).with_name("texts.toml")
RECORDED = Path(__file__).parents[3] / "tests" / "turns"

SPEAKERS = {
    ("tune", "en"): (
        *(f"vits {n}" for n in (12, 55, 101, 160, 213, 268, 330, 391, 444, 502, 561, 640)),
        *("vits 707", "vits 780", "vits 850", "espeak en-us+m3", "flite kal16", "flite slt"),
    ),
    ("test", "en"): (
        *(f"vits {n}" for n in (3, 44, 90, 147, 199, 255, 301, 377, 420, 488, 543, 611, 699, 777)),
        *("kokoro bf_emma", "kokoro bm_george", "kokoro am_fenrir", "kokoro bf_isabella"),
        *("espeak en-gb+f4", "flite rms", "flite awb"),
    ),
    ("tune", "zh"): (
        *("kokoro zf_xiaobei", "kokoro zf_xiaoni", "kokoro zm_yunjian", "kokoro zm_yunxi"),
    ),
    ("test", "zh"): (
        *("kokoro zf_xiaoxiao", "kokoro zf_xiaoyi", "kokoro zm_yunxia", "kokoro zm_yunyang"),
    ),
    ("confirm", "en"): (
        *(f"vits {n}" for n in (9, 52, 95, 138, 181, 267, 310, 353, 396, 439, 482, 525, 568, 654)),
        *("vits 740", "vits 826", "kokoro bm_fable", "kokoro am_onyx"),
    ),
    # There are no other speakers of Mandarin: these are half-way between two that were held out.
    ("confirm", "zh"): (
        *("kokoro zf_xiaoxiao+zm_yunxia", "kokoro zf_xiaoyi+zm_yunyang"),
        *("kokoro zf_xiaoxiao+zf_xiaoyi", "kokoro zm_yunxia+zm_yunyang"),
    ),
}
ROOMS = ("", "study", "office", "kitchen", "hall")
NOISES = (
    *("", "", "", "", "", "", "", "", "room 20 dB", "room 20 dB", "room 20 dB", "room 20 dB"),
    *(
        f"{kind} {db} dB"
        for db in (20, 10, 5)
        for kind in ("babble", "keyboard", "street", "music")
    ),
)
_SPEEDS = (1.0, 0.88, 1.12, 1.0, 1.2)
_PAUSE = re.compile(r"\s*<(\d+)>\s*")
_LEAD_S, _TAIL_S = 0.5, 2.0
_SPEECH_RMS = 10 ** (-23 / 20)
_QUIET_RMS = 10 ** (-62 / 20)
_SOFT_S, _SOFT_LEVEL = 0.25, 0.2
_BREATH_LEVEL = 10 ** (-26 / 20)
_NOISE_MINUTES = 10.0
# Noises under which the words of the same clips are counted.
WORDS_NOISES = ("", "babble 10 dB", "keyboard 10 dB", "street 10 dB", "music 10 dB")
_WORDS_KINDS = ("finished", "yes_no", "short")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a clip is heard in."""

    room: str = ""
    noise: str = ""
    """Kind and how far the speech is above it: "babble 10 dB"."""
    breath: bool = False
    soft: bool = False


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    cache = cache_root() / "visavis" / "bench"
    options.add_argument("--out", type=Path, default=cache / "turn_taking")
    names = ("turns", "words", "over", "confirm", "noise")
    options.add_argument("--only", choices=names, default="")
    chosen = options.parse_args()
    texts = tomllib.loads(TEXTS.read_text("utf-8"))
    speakers = Speakers(cache / "turn_taking_voices")
    talkers = _talkers(speakers)
    made: dict[str, Callable[[Path], None]] = {
        "turns": partial(make_turns, texts=texts, speakers=speakers, talkers=talkers),
        "words": partial(make_words, texts=texts, speakers=speakers, talkers=talkers["test"]),
        "over": partial(over_answers.make, texts=texts, speakers=speakers, names=SPEAKERS),
        "confirm": partial(
            over_answers.make, texts=texts, speakers=speakers, names=SPEAKERS, halves=("confirm",)
        ),
        "noise": partial(make_noises, talkers=talkers["test"]),
    }
    for name, make in made.items():
        if chosen.only in ("", name):
            folder = chosen.out / name
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            make(folder)
            print(f"{name}: {sum(1 for _ in folder.iterdir())} files in {folder}")  # noqa: T201


def make_turns(
    folder: Path, texts: dict[str, Any], speakers: Speakers, talkers: dict[str, list[Any]]
) -> None:
    """Both halves, and the recorded people of tests/turns in rooms and noise."""
    clips = []
    for half in HALVES:
        drawn = _surroundings(half)
        for n, (language, kind, text, speaker) in enumerate(_lines(texts, half)):
            spoken = _spoken(text, speaker, _SPEEDS[n % len(_SPEEDS)], speakers)
            name = f"{half}_{language}_{kind}_{n:03d}"
            about = TurnClip(
                folder / f"{name}.opus", language, kind, "synthetic", _said(text, language),
                0, 0, (), half, speaker,
            )  # fmt: skip
            clips.append(placed(about, spoken, next(drawn), n, talkers[half]))
        recorded = [c for c in load_turn_clips(RECORDED, half=half) if c.origin == "recorded"]
        for n, clip in enumerate(recorded):
            pcm = clip.sound()[clip.speech_start : clip.turn_end].astype(np.float32)
            pcm /= np.float32(32768)
            gaps = [(a - clip.speech_start, b - clip.speech_start) for a, b in clip.pauses]
            about = replace(clip, path=folder / f"{half}_{clip.path.name}", voice="recorded")
            clips.append(
                placed(about, Spoken(pcm, tuple(gaps)), next(drawn), 500 + n, talkers[half])
            )
    write_labels(folder, clips)


def make_words(
    folder: Path, texts: dict[str, Any], speakers: Speakers, talkers: list[NDArray[np.float32]]
) -> None:
    """Whole sentences of the held-out half, each in quiet and in each noise."""
    clips = []
    for n, (language, kind, text, speaker) in enumerate(_lines(texts, "test")):
        if kind not in _WORDS_KINDS or speaker.split()[0] in ("espeak", "flite"):
            continue
        spoken = _spoken(text, speaker, 1.0, speakers)
        for noise in WORDS_NOISES:
            name = f"{language}_{n:03d}_{noise.split()[0] if noise else 'quiet'}"
            about = TurnClip(
                folder / f"{name}.opus", language, noise or "quiet", "synthetic",
                _said(text, language), 0, 0, (), "test", speaker,
            )  # fmt: skip
            clips.append(placed(about, spoken, Surroundings("study", noise), n, talkers))
    write_labels(folder, clips)


def make_noises(folder: Path, talkers: list[NDArray[np.float32]]) -> None:
    """Ten minutes of each, at full level: who plays them says how loud."""
    samples = round(_NOISE_MINUTES * 60 * SAMPLE_RATE_HZ)
    for kind in ("babble", "music", "television"):
        if kind == "television":
            sound = _television(samples, talkers)
        else:
            sound = noise_of(kind, samples, 7, talkers)
        write_opus(folder / f"{kind}.opus", 0.1 * in_room(sound, "office"))


def _television(samples: int, talkers: list[NDArray[np.float32]]) -> NDArray[np.float32]:
    """One after the other they talk, with music under it and between."""
    choice = np.random.default_rng(5)
    sound = 0.35 * noise_of("music", samples, 5)
    at = SAMPLE_RATE_HZ
    while at < samples:
        voice = talkers[int(choice.integers(len(talkers)))]
        end = min(samples, at + len(voice))
        sound[at:end] += (voice / np.std(voice))[: end - at]
        at = end + int(choice.uniform(0.3, 2.5) * SAMPLE_RATE_HZ)
    return np.asarray(sound / sound.std(), np.float32)


def placed(
    about: TurnClip, spoken: Spoken, around: Surroundings, seed: int,
    talkers: Sequence[NDArray[np.float32]],
) -> TurnClip:  # fmt: skip
    """Write the clip of `about` as it is heard in `around`; its label."""
    lead = round(_LEAD_S * SAMPLE_RATE_HZ)
    dry = spoken.pcm.copy()
    if around.soft:
        size = min(len(dry), round(_SOFT_S * SAMPLE_RATE_HZ))
        dry[-size:] *= np.linspace(1.0, _SOFT_LEVEL, size, dtype=np.float32)
    dry *= _SPEECH_RMS / float(np.sqrt((dry[np.abs(dry) > 1e-3] ** 2).mean()))
    heard = np.zeros(lead + len(dry) + round(_TAIL_S * SAMPLE_RATE_HZ), np.float32)
    heard[lead : lead + len(dry)] = dry
    if around.breath:
        air = breath(seed) * (_SPEECH_RMS * _BREATH_LEVEL)
        at = lead + len(dry) + round((0.12 + 0.02 * (seed % 8)) * SAMPLE_RATE_HZ)
        heard[at : at + len(air)] += air
    wet = in_room(heard, around.room)[: len(heard)]
    kind, level = "room", _QUIET_RMS
    if around.noise:
        kind, below_db, _ = around.noise.split()
        level = _SPEECH_RMS * 10 ** (-float(below_db) / 20)
    wet = wet + level * noise_of(kind, len(wet), seed, talkers)
    write_opus(about.path, np.clip(wet, -1, 1))
    moved = tuple((first + lead, end + lead) for first, end in spoken.pauses)
    noise = f"{around.room or 'dry'}, {around.noise or 'quiet'}"
    noise += ", breath" * around.breath + ", soft end" * around.soft
    end = lead + len(spoken.pcm)
    return replace(about, speech_start=lead, turn_end=end, pauses=moved, noise=noise)


def _lines(texts: dict[str, Any], half: str) -> list[tuple[str, str, str, str]]:
    """Language, kind, text and speaker: speakers in turn, in an order of their own."""
    lines = []
    for language in ("en", "zh"):
        names = list(SPEAKERS[half, language])
        random.Random(half).shuffle(names)
        kinds = [
            (kind, t)
            for kind, said in texts[half][language].items()
            if kind != "over"
            for t in said
        ]
        lines += [(language, k, t, names[n % len(names)]) for n, (k, t) in enumerate(kinds)]
    return lines


def _surroundings(half: str) -> Iterator[Surroundings]:
    """Drawn without a pattern that a kind of turn could share."""
    choice = random.Random(f"{half} rooms")
    while True:
        noises = list(NOISES)
        choice.shuffle(noises)
        for noise in noises:
            airy = choice.random()
            yield Surroundings(choice.choice(ROOMS), noise, airy < 0.2, airy > 0.8)


def _spoken(text: str, speaker: str, speed: float, speakers: Speakers) -> Spoken:
    parts = _PAUSE.split(text)
    spoken = [speakers.say(part, speaker, speed) for part in going_on(parts[::2])]
    gaps = [int(ms) * SAMPLE_RATE_HZ // 1000 for ms in parts[1::2]]
    whole = joined(spoken, gaps)
    return Spoken(whole.pcm, natural_pauses(whole.pcm))


def _said(text: str, language: str) -> str:
    return _PAUSE.sub("" if language == "zh" else " ", text)


def _talkers(speakers: Speakers) -> dict[str, list[NDArray[np.float32]]]:
    """Who babbles: voices of neither half's visitors, saying what nobody is asked about."""
    said = (
        "Then they all went down to the harbour, where the boats were already waiting in the rain.",
        "He had not seen his cousin since the summer, and she had grown a good deal since then.",
        "The price of wool had fallen again, so most of the farmers kept their sheep all winter.",
        "A door opened at the end of the corridor, and somebody called out the next three names.",
    )
    pools = {"tune": range(20, 900, 113), "test": range(29, 900, 97)}
    return {
        half: [speakers.say(said[n % len(said)], f"vits {sid}", 1.0) for n, sid in enumerate(ids)]
        for half, ids in pools.items()
    }


if __name__ == "__main__":
    main()
