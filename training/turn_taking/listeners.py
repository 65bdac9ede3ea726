"""Fits what tells a listener's short sounds from those that want something.

    python -m training.turn_taking.material.listener       # the sounds, an hour; once
    python -m training.turn_taking.listeners               # with PyTorch

Each sound is placed in simulated rooms, in quiet or noise, and the service's own recogniser
hears it, English by Moonshine, Mandarin by Whisper. The odds are calibrated on texts that a
fit has not seen, and on those sounds alone whose words do not tell: who hums something new is
judged no surer than that. What the half *tune* of the material over answers makes of them is
printed; the half *test* is never opened. `--unseen FILE` leaves out every text that *test* or
*confirm* has: what they make of such weights is of texts that nobody was shown.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import soxr
from numpy.typing import NDArray
from tokenizers import Tokenizer

from gateway.talk.words import is_backchannel, stops
from services.asr.hearing.listeners import (
    LONGEST_HEARD_SAMPLES,
    WEIGHTS_PATH,
    SoundModel,
)
from services.asr.hearing.moonshine import Moonshine
from services.asr.hearing.whisper import Whisper
from training.inputs import inputs_of, verify
from training.turn_taking.listener_network import Shown, as_model, odds_of, trained
from training.turn_taking.logistic import Vector, area_under_curve, fit
from training.turn_taking.material import over_answers
from training.turn_taking.material.listener import Said, load
from training.turn_taking.material.rooms import in_room
from training.turn_taking.sounds import SAMPLE_RATE_HZ
from visavis.bundles.store import bundle_path
from visavis.bundles.store.catalogue import cache_root
from visavis.engine.onnxruntime import OnnxRuntimeEngine
from visavis.tools.bench.visitor.clips import read_mono

_EARS = {"en": "moonshine-tiny-en", "zh": "whisper-base"}
_ROOMS = ("", "study", "office", "kitchen", "hall", "")
_TIMES = 2
"""In so many rooms each."""
_PITCHES = (0.88, 1.13)
"""Of a voice that is played so much faster, or slower."""
_FOLDS = 3
_LOUD_DB, _QUIET_DB, _NOISY_DB = (-32.0, -20.0), -62.0, (-58.0, -42.0)
_LEAD_S, _TAIL_S = (0.19, 0.38), (0.025, 0.1)
Sound = NDArray[np.float32]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    cache = cache_root() / "visavis" / "bench"
    options.add_argument("--material", type=Path, default=cache / "turn_taking")
    options.add_argument("--out", type=Path, default=WEIGHTS_PATH)
    options.add_argument("--languages", nargs="+", choices=list(_EARS), default=list(_EARS))
    options.add_argument("--unseen", type=Path, help="weights without the texts held out")
    chosen = options.parse_args()
    verify(inputs_of("listeners"))
    with np.load(WEIGHTS_PATH) as before:
        kept: dict[str, Any] = dict(before)
    unseen = dict(kept)
    for language in chosen.languages:
        ear = _ear(language)
        heard = list(_heard(ear, language, chosen.material))
        if chosen.unseen is not None:
            print("without texts that are held out:")  # noqa: T201
            shown = [one for one in heard if not one.said.held_out]
            unseen |= _fitted(ear, language, shown, chosen.material)
        kept |= _fitted(ear, language, heard, chosen.material)
    if chosen.unseen is not None:
        np.savez(chosen.unseen, **unseen)
    np.savez(chosen.out, **kept)


@dataclass(frozen=True, slots=True)
class _Heard:
    """A placed sound. rows: as the recogniser hears it; open: its words do not tell."""

    said: Said
    rows: NDArray[np.float32]
    open: bool


def _ear(language: str) -> Moonshine | Whisper:
    folder = bundle_path(_EARS[language])
    encoder, decoder = (
        OnnxRuntimeEngine(folder / f"{part}.onnx", device="cpu", threads=1)
        for part in ("encoder", "decoder")
    )
    encoder.load()
    decoder.load()
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    return (Moonshine if language == "en" else Whisper)(encoder, decoder, tokenizer)


def _heard(ear: Moonshine | Whisper, language: str, material: Path) -> Iterator[_Heard]:
    said = load(material / "listener" / f"{language}.npz")
    for times in range(_TIMES):
        for one, sound in zip(said, _placed(said, times), strict=True):
            if len(sound) <= LONGEST_HEARD_SAMPLES:
                text = ear.transcribe(sound, language).text if times == 0 else ""
                told = not text or is_backchannel(text) or stops(text)
                yield _Heard(one, ear.rows(sound), not told)


def _fitted(
    ear: Moonshine | Whisper, language: str, heard: Sequence[_Heard], material: Path
) -> dict[str, Any]:
    shown = Shown([one.rows for one in heard])
    listens = np.array([one.said.listens for one in heard])
    in_doubt = np.array([one.open for one in heard])
    label = listens.astype(np.float64)
    unseen: dict[str, Vector] = {}
    for what in ("voice", "text"):
        _, fold = np.unique([getattr(one.said, what) for one in heard], return_inverse=True)
        unseen[what] = np.zeros(len(heard))
        for k in range(_FOLDS):
            out = np.flatnonzero(fold % _FOLDS == k)
            network = trained(shown, listens, np.flatnonzero(fold % _FOLDS != k))
            unseen[what][out] = odds_of(network, shown, out)
    slope, offset = fit(unseen["text"][in_doubt, None], label[in_doubt], np.zeros(in_doubt.sum()))
    for what, odds in unseen.items():
        above = slope * odds[in_doubt] + offset > 0
        area = area_under_curve(label, odds)
        go_on = (int(above[listens[in_doubt] == who].sum()) for who in (True, False))
        print(  # noqa: T201
            f"{language}, {what}s that a fit has not seen: area under the curve {area:.3f}; where "
            "words do not tell, above 0 are {} of {} listeners' and {} of {} others".format(
                next(go_on), listens[in_doubt].sum(), next(go_on), (~listens[in_doubt]).sum()
            )
        )
    network = trained(shown, listens, np.arange(len(heard)))
    model = as_model(network, shown, float(slope), float(offset))
    _tell(lambda sound: model.odds(ear.rows(sound)), material / "over", language)
    return {
        f"{_EARS[language]}/{field.name}": getattr(model, field.name).astype(np.float16)
        for field in fields(SoundModel)
    }


def _placed(said: Sequence[Said], times: int) -> Iterator[Sound]:
    """As asr hears it in a pause: some silence before, little behind."""
    choice = np.random.default_rng(times)
    for n, one in enumerate(said):
        dry = one.pcm.astype(np.float32) / np.float32(32768)
        stretch = choice.uniform(*_PITCHES)
        dry = soxr.resample(dry, SAMPLE_RATE_HZ, SAMPLE_RATE_HZ * stretch).astype(np.float32)
        level = 10 ** (choice.uniform(*_LOUD_DB) / 20)
        dry *= level / float(np.sqrt((dry[np.abs(dry) > 1e-3] ** 2).mean()))
        wet = in_room(dry, _ROOMS[(n + times) % len(_ROOMS)])
        lead, tail = (round(choice.uniform(*s) * SAMPLE_RATE_HZ) for s in (_LEAD_S, _TAIL_S))
        heard = np.pad(wet, (lead, tail))[: lead + len(dry) + tail]
        noise_db = choice.uniform(*_NOISY_DB) if choice.random() < 0.3 else _QUIET_DB
        heard += (10 ** (noise_db / 20) * choice.normal(size=len(heard))).astype(np.float32)
        yield np.clip(heard, -1, 1)


def _tell(odds_of: Callable[[Sound], float], folder: Path, language: str) -> None:
    odds: dict[str, list[float]] = {"backchannel": [], "interruption": []}
    for sound in over_answers.load(folder, "tune"):
        if sound.language == language and sound.end - sound.start < SAMPLE_RATE_HZ:
            pcm = read_mono(folder / sound.file, SAMPLE_RATE_HZ).astype(np.float32)
            heard = np.pad(pcm[: sound.end] / np.float32(32768), (SAMPLE_RATE_HZ // 6, 1000))
            odds[sound.kind].append(odds_of(heard))
    for kind, told in odds.items():
        quantiles = np.percentile(told, [2, 10, 50, 90, 98]).round(1).tolist()
        print(f"{kind}, {len(told)} of the half tune, {language}: odds {quantiles}")  # noqa: T201


if __name__ == "__main__":
    main()
