"""Fits what tells a listener's short sounds from those that want something.

    python -m training.turn_taking.material.listener       # the sounds, some minutes; once
    python -m training.turn_taking.listeners

Each sound is placed in simulated rooms, in quiet or noise, and the service's own recogniser
summarises it, English by Moonshine, Mandarin by Whisper. The odds are calibrated on texts that a
fit has not seen (five folds): who hums something new is judged no surer than that. What the half
*tune* of the material over answers makes of them is printed; the half *test* is never opened.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from services.asr.hearing.listeners import WEIGHTS_PATH, ListenerModel
from services.asr.hearing.moonshine import Moonshine
from services.asr.hearing.whisper import Whisper
from training.inputs import inputs_of, verify
from training.turn_taking.logistic import Vector, area_under_curve, fit, odds_by
from training.turn_taking.material import over_answers
from training.turn_taking.material.listener import Said, load
from training.turn_taking.material.rooms import in_room
from training.turn_taking.sounds import SAMPLE_RATE_HZ
from visavis.bundles.store import bundle_path
from visavis.engine.onnxruntime import OnnxRuntimeEngine
from visavis.tools.bench.visitor.clips import read_mono

_EARS = {"en": "moonshine-tiny-en", "zh": "whisper-base"}
_ROOMS = ("", "study", "office", "kitchen", "hall", "")
_TIMES = 2
"""In so many rooms each."""
_SHRINK = {"en": 300.0, "zh": 1.0}
"""By language: a Mandarin sound has two figures, an English one hundreds."""
_FOLDS = 5
_LOUD_DB, _QUIET_DB, _NOISY_DB = (-32.0, -20.0), -62.0, (-58.0, -42.0)
_LEAD_S, _TAIL_S = (0.19, 0.38), (0.025, 0.1)
Sound = NDArray[np.float32]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "visavis" / "bench"
    options.add_argument("--material", type=Path, default=cache / "turn_taking")
    options.add_argument("--out", type=Path, default=WEIGHTS_PATH)
    options.add_argument("--languages", nargs="+", choices=list(_EARS), default=list(_EARS))
    chosen = options.parse_args()
    verify(inputs_of("listeners"))
    with np.load(WEIGHTS_PATH) as before:
        kept: dict[str, Any] = dict(before)
    for language in chosen.languages:
        ear = _ear(language)
        said = load(chosen.material / "listener" / f"{language}.npz")
        rows = [
            (ear.summary(sound), one.listens, one.text)
            for times in range(_TIMES)
            for one, sound in zip(said, _placed(said, times), strict=True)
        ]
        columns = (np.array(column) for column in zip(*rows, strict=True))
        model = _fitted(*columns, shrink=_SHRINK[language])
        _tell(ear, model, chosen.material / "over", language)
        name = _EARS[language]
        kept |= {name: model.weights, f"{name}_bias": np.array(model.bias)}
    np.savez(chosen.out, **kept)


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


def _placed(said: Sequence[Said], times: int) -> Iterator[Sound]:
    """As asr hears it in a pause: some silence before, little behind."""
    choice = np.random.default_rng(times)
    for n, one in enumerate(said):
        dry = one.pcm.astype(np.float32) / np.float32(32768)
        level = 10 ** (choice.uniform(*_LOUD_DB) / 20)
        dry *= level / float(np.sqrt((dry[np.abs(dry) > 1e-3] ** 2).mean()))
        wet = in_room(dry, _ROOMS[(n + times) % len(_ROOMS)])
        lead, tail = (round(choice.uniform(*s) * SAMPLE_RATE_HZ) for s in (_LEAD_S, _TAIL_S))
        heard = np.pad(wet, (lead, tail))[: lead + len(dry) + tail]
        noise_db = choice.uniform(*_NOISY_DB) if choice.random() < 0.3 else _QUIET_DB
        heard += (10 ** (noise_db / 20) * choice.normal(size=len(heard))).astype(np.float32)
        yield np.clip(heard, -1, 1)


def _fitted(
    seen: NDArray[np.float32],
    listens: NDArray[np.bool_],
    texts: NDArray[np.str_],
    *,
    shrink: float,
) -> ListenerModel:
    mean, spread = seen.mean(axis=0, dtype=np.float64), seen.std(axis=0, dtype=np.float64) + 1e-6
    rows, label = (seen - mean) / spread, listens.astype(np.float64)
    none = np.zeros(len(rows))
    _, fold = np.unique(texts, return_inverse=True)
    unseen: Vector = np.zeros(len(rows))
    for k in range(_FOLDS):
        out = fold % _FOLDS == k
        weights = fit(rows[~out], label[~out], none[~out], shrink)
        unseen[out] = odds_by(weights, rows[out], none[out])
    slope, offset = fit(unseen[:, None], label, none)
    weights = fit(rows, label, none, shrink)
    print(f"area under the curve, unseen texts: {area_under_curve(label, unseen):.3f}")  # noqa: T201
    flat = weights[:-1] / spread
    bias = slope * (weights[-1] - flat @ mean) + offset
    return ListenerModel((slope * flat).astype(np.float32), float(bias))


def _tell(ear: Moonshine | Whisper, model: ListenerModel, folder: Path, language: str) -> None:
    odds: dict[str, list[float]] = {"backchannel": [], "interruption": []}
    for sound in over_answers.load(folder, "tune"):
        if sound.language == language and sound.end - sound.start < SAMPLE_RATE_HZ:
            pcm = read_mono(folder / sound.file, SAMPLE_RATE_HZ).astype(np.float32)
            heard = np.pad(pcm[: sound.end] / np.float32(32768), (SAMPLE_RATE_HZ // 6, 1000))
            odds[sound.kind].append(model.odds(ear.summary(heard)))
    for kind, told in odds.items():
        quantiles = np.percentile(told, [2, 10, 50, 90, 98]).round(1).tolist()
        print(f"{kind}, {len(told)} of the half tune, {language}: odds {quantiles}")  # noqa: T201


if __name__ == "__main__":
    main()
