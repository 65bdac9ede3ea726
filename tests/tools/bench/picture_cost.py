"""What one picture costs the processor: python -m tests.tools.bench.picture_cost [HEAD]

The default avatar, or the head in the folder HEAD at 512 and 1024 pixels, drawn, converted and
encoded on this thread, four pictures in a row every 30 ms as the service does it for one visitor;
and drawn alone, one picture after the other, as for many. Thread CPU time, which neighbours on the
machine still stretch: compare two trees by turns (PYTHONPATH says which one is measured).
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

import services.face
from services.face.avatar.avatar import load_avatar
from services.face.draw.animator import Animator
from services.face.draw.encoder import VideoEncoder
from services.face.draw.pose import FacePose
from services.face.draw.renderer import Renderer
from services.face.engines.head.renderer import HeadRenderer
from services.face.engines.head.store import HeadStore
from services.face.lips.lips import DurationLips
from visavis.tools.bench.face import mel_chunk
from visavis.tools.bench.figures.report import machine_kind

_FPS, _COUNT, _UNCOUNTED, _IN_A_ROW, _GAP_S = 25, 100, 10, 4, 0.03
_AVATAR = Path(services.face.__file__).parent / "avatars" / "default"


class _Renderer(Protocol):
    @property
    def size(self) -> int: ...

    def draw(self, pose: FacePose) -> NDArray[np.uint8]: ...


def main(head: Path | None) -> None:
    if head is None:
        _report(Renderer(load_avatar(_AVATAR)))
    else:
        for size in (512, 1024):
            store = HeadStore(head.parent, size=size, builtin=head.parent)
            _report(HeadRenderer(store.load(head.name).model))
    print(machine_kind())  # noqa: T201


def _report(renderer: _Renderer) -> None:
    renderer.draw(FacePose())
    for name, poses in (("speaking", _speaking()), ("idle", _idle())):
        steps, kbits = _measured(renderer, poses)
        drawing, encoding = np.median(steps, axis=0)
        print(  # noqa: T201
            f"{renderer.size} pixels, {name}: drawing {drawing:.2f} "
            f"({_drawn_alone_ms(renderer, poses):.2f} alone), colours and H.264 {encoding:.2f}, "
            f"sum of means {steps.mean(axis=0).sum():.2f} ms; {kbits:.0f} kbit/s"
        )


def _speaking() -> list[FacePose]:
    """The poses of an answer without end, played in time."""
    animator, lips, poses = Animator(seed=1, fps=_FPS), DurationLips(1 / _FPS), list[FacePose]()
    for k in range(2 * _COUNT // _FPS + 12):
        lips.add(mel_chunk(k))
    animator.speak_turn(1, lips, 0.0)
    for played in range(_COUNT):
        now_s = played / _FPS
        animator.played(1, now_s, now_s)
        while frame := animator.next_spoken(now_s):
            poses.append(frame.pose)
    return poses[:_COUNT]


def _idle() -> list[FacePose]:
    animator, poses = Animator(seed=1, fps=_FPS), list[FacePose]()
    for k in range(2 * _COUNT):
        frame = animator.next_frame((k + 0.01) / _FPS)
        if frame is not None:
            poses.append(frame.pose)
    return poses[:_COUNT]


def _measured(renderer: _Renderer, poses: list[FacePose]) -> tuple[NDArray[np.float64], float]:
    """Drawing and encoding of each picture, [N, 2] ms, and what the stream takes, kbit/s."""
    encoder = VideoEncoder("h264", renderer.size, renderer.size, _FPS)
    steps, size = list[tuple[float, float]](), 0
    for k, pose in enumerate(poses):
        if k % _IN_A_ROW == 0:
            time.sleep(_GAP_S)
        began_s = time.thread_time()
        picture = renderer.draw(pose)
        drawn_s = time.thread_time()
        size += len(encoder.encode(picture).payload)
        steps.append((drawn_s - began_s, time.thread_time() - drawn_s))
    encoder.close()
    return 1e3 * np.array(steps[_UNCOUNTED:]), 8 * size * _FPS / len(poses) / 1e3


def _drawn_alone_ms(renderer: _Renderer, poses: list[FacePose]) -> float:
    """Of a picture, with nothing between it and the one before: median."""
    took_s = list[float]()
    for pose in poses:
        began_s = time.thread_time()
        renderer.draw(pose)
        took_s.append(time.thread_time() - began_s)
    return 1e3 * float(np.median(took_s[_UNCOUNTED:]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("head", nargs="?", type=Path, help="folder; without: the default avatar")
    chosen: Path | None = parser.parse_args().head
    main(None if chosen is None else chosen.resolve())
