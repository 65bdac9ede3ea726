"""Short words over an answer, to teach asr a listener's from those that want something.

    python -m training.turn_taking.material.listener

into ~/.cache/visavis/bench/turn_taking/listener, a file a language: voices of LibriTTS-R and
Kokoro that neither *test* nor *confirm* has, dry and as they are said; who teaches puts them into
rooms. Mandarin has four such voices, and those half-way between each two.
"""

from __future__ import annotations

import argparse
import os
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gateway.talk.words import words_of
from training.turn_taking.material.making import SPEAKERS, TEXTS
from training.turn_taking.material.voices import Speakers

LISTENER_TEXTS = Path(__file__).with_name("listener.toml")
_BABBLE_IDS = range(29, 900, 97)
"""Who babbles in the half *test*."""
_EACH_TEXT = {"en": 5, "zh": 2}
_SPEEDS = (1.0, 1.12, 0.9, 1.25, 0.82)
_PEAK = 30_000
_ABOUT = ("language", "text", "voice", "listens")


@dataclass(frozen=True, slots=True)
class Said:
    """One short sound. pcm: [N] int16 at 16 kHz, with no silence at its ends."""

    pcm: NDArray[np.int16]
    language: str
    text: str
    voice: str
    listens: bool


def load(path: Path) -> list[Said]:
    """A language's file, as `main` wrote it."""
    with np.load(path) as kept:
        pieces = np.split(kept["pcm"], kept["ends"][:-1])
        told = [kept[name].tolist() for name in _ABOUT]
    return [Said(pcm, *about) for pcm, *about in zip(pieces, *told, strict=True)]


def voices() -> dict[str, list[str]]:
    """By language: none of them is heard in *test* or *confirm*."""
    heard = {*SPEAKERS["test", "en"], *SPEAKERS["confirm", "en"]}
    heard |= {f"vits {n}" for n in _BABBLE_IDS}
    english = [f"vits {n}" for n in range(4, 900, 11) if f"vits {n}" not in heard]
    mandarin = [name.split()[1] for name in SPEAKERS["tune", "zh"]]
    mixed = [f"{one}+{other}" for one, other in combinations(mandarin, 2)]
    return {"en": english, "zh": [f"kokoro {name}" for name in (*mandarin, *mixed)]}


def lines() -> list[tuple[str, str, bool]]:
    """Language, text, and whether a listener says it."""
    told = tomllib.loads(TEXTS.read_text("utf-8"))
    own, tested, confirming = (
        {
            tuple(words_of(text))
            for language in ("en", "zh")
            for said in told[half][language]["over"].values()
            for text in said
        }
        for half in ("tune", "test", "confirm")
    )
    held_out = tested | confirming
    kept = tomllib.loads(LISTENER_TEXTS.read_text("utf-8"))
    return [
        (language, text, kind == "listens")
        for language, kinds in kept.items()
        for kind, texts in kinds.items()
        for text in texts
        if tuple(words_of(text)) not in held_out - own
    ]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "visavis" / "bench"
    options.add_argument("--out", type=Path, default=cache / "turn_taking" / "listener")
    chosen = options.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    speakers, told = Speakers(cache / "turn_taking_voices"), lines()
    for language, names in voices().items():
        made, each = list[Said](), _EACH_TEXT[language]
        own = [(text, listens) for spoken, text, listens in told if spoken == language]
        for n, (text, listens) in enumerate(own):
            for k in range(each):
                voice = names[(n * each + k) % len(names)]
                pcm = speakers.say(text, voice, _SPEEDS[(n + k) % len(_SPEEDS)])
                loud = (pcm / np.abs(pcm).max() * _PEAK).astype(np.int16)
                made.append(Said(loud, language, text, voice, listens))
        _save(chosen.out / f"{language}.npz", made)
        print(f"{language}: {len(made)} sounds in {chosen.out}", flush=True)  # noqa: T201


def _save(path: Path, made: Sequence[Said]) -> None:
    told: dict[str, Any] = {name: [getattr(said, name) for said in made] for name in _ABOUT}
    ends = np.cumsum([len(said.pcm) for said in made])
    np.savez_compressed(path, pcm=np.concatenate([said.pcm for said in made]), ends=ends, **told)


if __name__ == "__main__":
    main()
