"""Write pictures of nobodies, each doing many things with its mouth, with what they do.

    python -m training.painter.pictures OUT --count 100000 --seed 1 --workers 3

OUT gets files of people, each `pictures` uint8 [people, POSES, SIDE, SIDE, 3] RGB, `coefficients`
float16 [people, POSES, K] and `heads`: whose mesh each person has. The first SHOWN pictures of a
person are as people are photographed. A file is there once it is whole, so that training may read
while more are made.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from services.face.avatar.making.portrait import PortraitStudio
from services.face.draw.blendshapes import arkit_weights
from services.face.draw.pose import FacePose
from training.painter.crops import coefficients, crop
from training.painter.layout import POSES, SHOWN
from training.painter.people import Nobodies, base_head
from visavis.bundles.store import bundle_path

HEADS = ("ada", "ben", "cleo", "dai")
PEOPLE = 12
"""In a file."""


def photographed(rng: np.random.Generator) -> FacePose:
    """As somebody looks into a camera: lips shut, a smile, sometimes one that shows teeth."""
    kind = rng.random()
    smile = float(np.clip(rng.normal(0.1, 0.2), -0.4, 1))
    if kind < 0.45:
        return FacePose(smile=smile)
    if kind < 0.6:
        return FacePose(smile=float(rng.uniform(0.3, 1)), cheek_raise=float(rng.uniform(0, 0.6)))
    if kind < 0.85:
        return FacePose(
            smile=float(rng.uniform(0.5, 1)),
            cheek_raise=float(rng.uniform(0, 0.6)),
            upper_lip_raise=float(rng.uniform(0.1, 0.5)),
            lower_lip_down=float(rng.uniform(0, 0.3)),
            jaw_open=float(rng.uniform(0, 0.18)),
            mouth_wide=float(rng.uniform(0, 0.5)),
        )
    return replace(spoken(rng), smile=smile)


def spoken(rng: np.random.Generator) -> FacePose:
    """Something that a mouth does while it speaks, and now and then anything at all."""
    wild = rng.random() < 0.15
    wide = float(max(0.0, rng.normal(0.05, 0.3)))
    round_ = float(max(0.0, rng.normal(-0.1, 0.45))) if wide < 0.1 or rng.random() < 0.3 else 0.0
    pose = FacePose(
        jaw_open=float(np.clip(rng.exponential(0.22), 0, 1.0 if wild else 0.75)),
        mouth_wide=min(wide, 1.0),
        pucker=min(round_, 1.0),
        smile=float(np.clip(rng.normal(0.05, 0.25), -0.8, 1)),
        tongue_up=float(rng.random() < 0.25) * float(rng.uniform(0.2, 1)),
        tongue_out=float(rng.random() < 0.1) * float(rng.uniform(0.3, 1)),
    )
    kind = rng.random()
    if kind < 0.16:
        pose = replace(pose, lips_closed=float(rng.choice((1.0, rng.random()))))
    elif kind < 0.28:
        bite = float(rng.choice((1.0, rng.random())))
        pose = replace(pose, lower_lip_under_teeth=bite, jaw_open=float(rng.uniform(0, 0.2)))
    if rng.random() < 0.2:
        names = (
            "cheek_raise", "nose_wrinkle", "upper_lip_raise", "lower_lip_down", "chin_raise",
            "mouth_stretch", "lips_tight", "dimple_left", "dimple_right",
        )  # fmt: skip
        name = str(rng.choice(names))
        pose = replace(pose, **{name: float(rng.uniform(0.1, 0.8))})
    return pose


def poses(rng: np.random.Generator) -> list[FacePose]:
    """All of a person: the first is at rest, the first SHOWN as one is photographed."""
    shown = [FacePose(), *(photographed(rng) for _ in range(SHOWN - 1))]
    return shown + [spoken(rng) for _ in range(POSES - SHOWN)]


def write(out: Path, worker: int, files: int, seed: int) -> None:
    """One worker's files."""
    cv2.setNumThreads(1)
    studio = PortraitStudio(bundle_path("face-landmarks"))
    nobodies = Nobodies([base_head(name, studio) for name in HEADS])
    for index in range(files):
        rng = np.random.default_rng([seed, worker, index])
        began = time.monotonic()
        pictures: list[NDArray[np.uint8]] = []
        told, heads = [], []
        for _ in range(PEOPLE):
            base = str(rng.choice(HEADS))
            # The last head is kept aside: nobody else has anything of it.
            mixed = list(HEADS) if base == HEADS[-1] else list(HEADS[:-1])
            person = nobodies.person(base, mixed, rng)
            asked = poses(rng)
            pictures += [crop(person.draw(pose), person.place) for pose in asked]
            told += [coefficients(arkit_weights(pose)) for pose in asked]
            heads.append(base)
        part = out / f".{worker}-{index}.part.npz"
        shape = (PEOPLE, POSES)
        stacked = np.stack(pictures)
        np.savez(
            part,
            pictures=stacked.reshape(*shape, *stacked.shape[1:]),
            coefficients=np.stack(told).astype(np.float16).reshape(*shape, -1),
            heads=np.array(heads),
        )
        os.replace(part, out / f"people-{worker}-{index:05d}.npz")
        took = time.monotonic() - began
        sys.stderr.write(
            f"worker {worker}: file {index}, {1e3 * took / len(told):.1f} ms a picture\n"
        )


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--count", type=int, default=100_000, help="pictures, at least")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=3)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    files = -(-args.count // (PEOPLE * POSES * args.workers))
    context = multiprocessing.get_context("spawn")
    workers = [
        context.Process(target=write, args=(args.out, worker, files, args.seed), daemon=True)
        for worker in range(args.workers)
    ]
    # Ended from outside, it takes its workers with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    for process in workers:
        process.start()
    for process in workers:
        process.join()
    if failed := [process.exitcode for process in workers if process.exitcode]:
        raise SystemExit(f"workers ended with {failed}")


if __name__ == "__main__":
    main()
