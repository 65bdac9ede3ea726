"""Short words over an answer, to teach asr a listener's from those that want something.

    python -m training.turn_taking.material.listener

into ~/.cache/visavis/bench/turn_taking/listener, a file a language: voices of LibriTTS-R and
Kokoro that neither *test* nor *confirm* has, dry and as they are said; who teaches puts them into
rooms. Mandarin has four such voices, those half-way between each two, and those half-way to an
English one.
"""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gateway.talk.words import MANDARIN_ASSENTS, words_of
from training.turn_taking.material.making import SPEAKERS, TEXTS
from training.turn_taking.material.voices import Speakers
from visavis.bundles.store.catalogue import cache_root

LISTENER_TEXTS = Path(__file__).with_name("listener.toml")
_BABBLE_IDS = range(29, 900, 97)
"""Who babbles in the half *test*."""
_EACH_TEXT = {("en", True): 8, ("en", False): 4, ("zh", True): 4, ("zh", False): 3}
"""Voices, by language and whether a listener says it: there are fewer such texts."""
_KOKORO_EVERY = 20
_KOKORO = ("kokoro af_bella", "kokoro am_michael", "kokoro af_bella+am_michael")
_READERS, _STRIDE = 904, 97
# Of Kokoro's English voices those that nobody speaks with in *test* and *confirm*.
_ENGLISH = "af_bella af_heart af_kore af_nova af_sarah am_adam am_eric am_liam am_michael".split()
_SPEEDS = (1.0, 1.12, 0.9, 1.25, 0.82)
_PEAK = 30_000
_ABOUT = ("language", "text", "voice", "listens", "held_out")


@dataclass(frozen=True, slots=True)
class Said:
    """One short sound. pcm: [N] int16 at 16 kHz, with no silence at its ends."""

    pcm: NDArray[np.int16]
    language: str
    text: str
    voice: str
    listens: bool
    held_out: bool
    """*test* or *confirm* has this text and *tune* has not; in English, or all words of one."""


def load(path: Path) -> list[Said]:
    """A language's file, as `main` wrote it."""
    with np.load(path) as kept:
        pieces = np.split(kept["pcm"], kept["ends"][:-1])
        told = [kept[name].tolist() for name in _ABOUT]
    return [Said(pcm, *about) for pcm, *about in zip(pieces, *told, strict=True)]


def voices() -> dict[str, list[str]]:
    """By language: none of them is heard in *test* or *confirm*, no English one in *tune*."""
    heard = {name for half in ("tune", "test", "confirm") for name in SPEAKERS[half, "en"]}
    heard |= {f"vits {n}" for n in _BABBLE_IDS}
    english = [name for n in range(_READERS) if (name := f"vits {n}") not in heard]
    # Step by step through all of them, so that whoever reads a few texts has others next to him.
    english = [english[n * _STRIDE % len(english)] for n in range(len(english))]
    for n, at in enumerate(range(0, len(english), _KOKORO_EVERY)):
        english.insert(at, _KOKORO[n % len(_KOKORO)])
    mandarin = [name.split()[1] for name in SPEAKERS["tune", "zh"]]
    mixed = [f"{one}+{other}" for one, other in combinations(mandarin, 2)]
    mixed += [f"{one}+{other}" for other in _ENGLISH for one in mandarin]
    return {"en": english, "zh": [f"kokoro {name}" for name in (*mandarin, *mixed)]}


def lines() -> list[tuple[str, str, bool, bool]]:
    """Language, text, whether a listener says it, and whether it is held out (see Said)."""
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
    held_out = (tested | confirming) - own
    kept = tomllib.loads(LISTENER_TEXTS.read_text("utf-8"))
    known = {tuple(words_of(text)) for text in kept["zh"]["listens"]}
    kept["zh"]["listens"] += [f"{said}。" for said in MANDARIN_ASSENTS if tuple(said) not in known]
    return [
        (language, text, kind == "listens", _is_held_out(words_of(text), language, held_out))
        for language, kinds in kept.items()
        for kind, texts in kinds.items()
        for text in texts
    ]


def _is_held_out(words: list[str], language: str, held_out: set[tuple[str, ...]]) -> bool:
    if language == "en":
        return any(set(other) <= set(words) for other in held_out)
    return tuple(words) in held_out


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("--languages", nargs="+", choices=("en", "zh"), default=("en", "zh"))
    cache = cache_root() / "visavis" / "bench"
    options.add_argument("--out", type=Path, default=cache / "turn_taking" / "listener")
    chosen = options.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    speakers, told = Speakers(cache / "turn_taking_voices"), lines()
    for language in chosen.languages:
        names = voices()[language]
        made = list[Said]()
        own = [about for about in told if about[0] == language]
        for n, (_, text, listens, held_out) in enumerate(own):
            for k in range(_EACH_TEXT[language, listens]):
                voice = names[len(made) % len(names)]
                pcm = speakers.say(text, voice, _SPEEDS[(n + k) % len(_SPEEDS)])
                loud = (pcm / np.abs(pcm).max() * _PEAK).astype(np.int16)
                made.append(Said(loud, language, text, voice, listens, held_out))
        _save(chosen.out / f"{language}.npz", made)
        print(f"{language}: {len(made)} sounds in {chosen.out}", flush=True)  # noqa: T201


def _save(path: Path, made: Sequence[Said]) -> None:
    told: dict[str, Any] = {name: [getattr(said, name) for said in made] for name in _ABOUT}
    ends = np.cumsum([len(said.pcm) for said in made])
    np.savez_compressed(path, pcm=np.concatenate([said.pcm for said in made]), ends=ends, **told)


if __name__ == "__main__":
    main()
