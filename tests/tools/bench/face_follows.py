"""Whether a drawn face does what it is told: python -m tests.tools.bench.face_follows

Held-out sentences are said by the product's voices, drawn by an engine, and measured again in the
pictures by MediaPipe's landmark networks, which know nothing of what was meant. Printed are

- the correlation of what is seen with what was commanded. The networks read some mouths wrong in a
  way of their own: a narrow one as more open, a narrowing as half of what it is. So what they read
  of each ARKit weight is fitted on six sentences and a little idling, and held against all others
  (`opening`, `width`); `plain_…` is against fixed sums of the weights;
- how many of the closures of p, b and m are seen shut;
- how far the points of the face move, at most, from one frame to the next where idling, listening,
  thinking and speaking meet, beside how far they do within them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import services.face
from services.face.avatar import topology
from services.face.avatar.avatar import load_avatar
from services.face.draw.animator import Animator
from services.face.draw.blendshapes import ARKIT_NAMES, arkit_weights
from services.face.draw.pose import FacePose, Frame
from services.face.draw.renderer import Renderer
from services.face.engines.head.renderer import HeadRenderer, thread_work
from services.face.engines.head.store import HeadStore
from services.face.engines.head.textures import on_screen
from services.face.life.gaze import Phase
from services.face.lips.audio_to_face import WEIGHTS, AudioToFace, AudioToFaceStream
from services.face.lips.lips import DurationLips, LipTrack, SoundLips
from services.tts.sound import SAMPLE_RATE_HZ as RATE_HZ
from services.tts.synthesizer import SpeechPiece
from services.tts.voices.opening import open_synthesizer
from tests.browser.tape import FaceGauge
from training.audio_to_face.sentences import HELD_OUT
from visavis.bundles.store import bundle_path
from visavis.engine import open_engine
from visavis.tools.bench.figures.lips import BILABIALS
from visavis.tools.bench.quality import SENTENCES
from visavis.wire.media import MelChunk, PhonemeSpan, Place

FPS = 25
_AVATAR = Path(services.face.__file__).parent / "avatars" / "default"
_FITTED_IDLE_S, _IDLE_S = 15, 60
_HOP_SAMPLES = 300
_SHUT_SHARE = 0.15
"""Of the way from shut lips to the widest opening: what is seen below it counts as shut."""
_SEEN_LATE_S = 0.04
"""A closure is looked for this far around its span: a frame."""

Draw = Callable[[FacePose], NDArray[np.uint8]]
"""RGB [size, size, 3] of a pose."""
Places = Callable[[FacePose], NDArray[np.float64]]
"""Of the points of a face, [N, 2] distances between the outer corners of its eyes, in a pose."""
_HEAD_SIZE = 512
_TEMPLES = 234, 454
"""Landmarks before the ears. Their distance is what is measured in: that of the eyes' corners is
read 6 % shorter whenever the eyes are shut, and so a blink as a mouth that gets wider.
"""
_MEASURES = ("opening", "width", "blink")
_GAUGED = (
    "jawOpen",
    "mouthClose",
    "mouthFunnel",
    "mouthPucker",
    "mouthStretchLeft",
    "mouthSmileLeft",
    "mouthRollLower",
    "mouthLowerDownLeft",
    "mouthUpperUpLeft",
)


@dataclass
class Said:
    """One sentence: the poses of its frames, and where its phonemes lie."""

    poses: list[FacePose]
    spans: list[PhonemeSpan]


@dataclass
class Seen:
    """What was commanded and what was seen, frame by frame: weights [N, 52]; opening, width and
    blink [N, 3].
    """

    weights: list[NDArray[np.float32]] = field(default_factory=list)
    seen: list[NDArray[np.float64]] = field(default_factory=list)

    def with_(self, other: Seen) -> Seen:
        """Both together."""
        return Seen([*self.weights, *other.weights], [*self.seen, *other.seen])

    def correlations(self, gauge: NDArray[np.float64]) -> dict[str, float]:
        """Pearson's, over all frames. gauge: as `fitted` gives it."""
        found = np.array(self.seen)
        plain = np.array([commanded(weights) for weights in self.weights])
        gauged = self._features() @ gauge
        out = {}
        for k, name in enumerate(_MEASURES):
            told = plain if name == "blink" else gauged
            out[name] = float(np.corrcoef(told[:, k], found[:, k])[0, 1])
            if name != "blink":
                out[f"plain_{name}"] = float(np.corrcoef(plain[:, k], found[:, k])[0, 1])
        return out

    def fitted(self) -> NDArray[np.float64]:
        """What is seen of each mouth weight and of none, by least squares: [K + 1, 3]."""
        gauge, *_ = np.linalg.lstsq(self._features(), np.array(self.seen), rcond=None)
        return np.asarray(gauge)

    def _features(self) -> NDArray[np.float64]:
        columns = [ARKIT_NAMES.index(name) for name in _GAUGED]
        weights = np.array(self.weights, np.float64)[:, columns]
        return np.column_stack([weights, np.ones(len(weights))])


def measured(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """How open and wide the mouth is, and how far the lids are from open (negative height), of
    landmarks [468, 2], in widths of the face.
    """
    right, left = points[_TEMPLES[0]], points[_TEMPLES[1]]
    unit = np.linalg.norm(left - right)
    across = (left - right) / unit
    down = np.array([-across[1], across[0]])

    def gap(upper: Sequence[int], lower: Sequence[int]) -> float:
        between = points[list(lower)] - points[list(upper)]
        return float((between @ down)[3:-3].mean() / unit)

    opening = gap(topology.UPPER_INNER_LIP, topology.LOWER_INNER_LIP)
    corners = points[topology.LEFT_MOUTH_CORNER] - points[topology.RIGHT_MOUTH_CORNER]
    lids = gap(topology.RIGHT_UPPER_LID, topology.RIGHT_LOWER_LID)
    lids += gap(topology.LEFT_UPPER_LID, topology.LEFT_LOWER_LID)
    return np.array([opening, float(corners @ across / unit), -lids / 2])


def commanded(weights: NDArray[np.float32]) -> NDArray[np.float64]:
    """[opening, width, blink] that ARKit weights [52] ask of any head."""
    told = dict(zip(ARKIT_NAMES, weights.tolist(), strict=True))

    def both(name: str) -> float:
        return 0.5 * float(told[f"{name}Left"] + told[f"{name}Right"])

    opening = told["jawOpen"] - told["mouthClose"]
    opening += 0.25 * (both("mouthLowerDown") + both("mouthUpperUp"))
    width = 0.8 * both("mouthStretch") + 0.5 * both("mouthSmile")
    width -= told["mouthPucker"] + 0.6 * told["mouthFunnel"] + 0.1 * told["jawOpen"]
    return np.array([opening, width, both("eyeBlink")])


def lips_of(pieces: Sequence[SpeechPiece], network: AudioToFace | None) -> LipTrack:
    """network: hears the lips; None: they come from the durations."""
    if network is None:
        durations = DurationLips(1 / FPS)
        for seq, piece in enumerate(pieces):
            place = Place("", 1, seq, piece.pts_samples // _HOP_SAMPLES)
            durations.add(MelChunk(place, RATE_HZ, _HOP_SAMPLES, piece.mel, piece.phonemes))
        durations.finish()
        return durations
    heard, stream = SoundLips(1 / FPS), AudioToFaceStream(network, RATE_HZ)
    pcm = np.concatenate([piece.voice for piece in pieces])
    heard.add(stream.hear(pcm, last=True), end_s=len(pcm) / RATE_HZ)
    return heard


def said(pieces: Sequence[SpeechPiece], network: AudioToFace | None) -> Said:
    """A sentence as a face of seed 1 says it."""
    animator = Animator(seed=1, fps=FPS, lead_s=1e9, first_lead_s=1e9)
    animator.speak_turn(1, lips_of(pieces, network), 0.0)
    poses = []
    while (frame := animator.next_spoken(0.0)) is not None:
        poses.append(frame.pose)
    return Said(poses, [span for piece in pieces for span in piece.phonemes])


def idle(seed: int, seconds: int) -> list[FacePose]:
    """A face that nobody speaks to."""
    animator, poses = Animator(seed=seed, fps=FPS), list[FacePose]()
    for k in range(seconds * FPS):
        frame = animator.next_frame((k + 0.01) / FPS)
        if frame is not None:
            poses.append(frame.pose)
    return poses


def follow(
    poses: Sequence[FacePose], draw: Draw, gauge: FaceGauge, into: Seen
) -> NDArray[np.float64]:
    """Draws and measures; the openings that were seen, [N]."""
    found = [measured(gauge.landmarks(draw(pose))) for pose in poses]
    into.weights += [arkit_weights(pose) for pose in poses]
    into.seen += found
    return np.array(found)[:, 0]


def closures(one: Said) -> Iterator[slice]:
    """Frames around each p, b and m."""
    for span in one.spans:
        if span.symbol in BILABIALS:
            start_s = span.start_samples / RATE_HZ - _SEEN_LATE_S
            end_s = (span.start_samples + span.duration_samples) / RATE_HZ + _SEEN_LATE_S
            first = max(0, int(np.ceil(start_s * FPS)))
            yield slice(first, max(first + 1, int(end_s * FPS) + 1))


def figures(
    fitting: Sequence[Said],
    held_out: Sequence[Said],
    resting: tuple[Seen, Seen],
    draw: Draw,
    gauge: FaceGauge,
) -> dict[str, float]:
    """Correlations, and the share of closures that are seen. resting: to be fitted, and to be held
    out.
    """
    known, seen = Seen(), Seen()
    shut = float(measured(gauge.landmarks(draw(FacePose())))[0])
    openings = [follow(one.poses, draw, gauge, known) for one in fitting]
    openings += [follow(one.poses, draw, gauge, seen) for one in held_out]
    widest = float(np.percentile(np.concatenate(openings), 98))
    limit = shut + _SHUT_SHARE * (widest - shut)
    lows = [
        float(opening[frames].min())
        for one, opening in zip([*fitting, *held_out], openings, strict=True)
        for frames in closures(one)
    ]
    known, seen = known.with_(resting[0]), seen.with_(resting[1])
    return {
        **seen.correlations(known.fitted()),
        "frames": len(seen.seen),
        "closures": len(lows),
        "closures_seen": float(np.mean(np.array(lows) <= limit)),
    }


def talk(lips: LipTrack, seed: int) -> tuple[list[FacePose], list[int]]:
    """Frames of a face that idles, listens, thinks, speaks and idles, and where each begins."""
    animator = Animator(seed=seed, fps=FPS, lead_s=0.04, first_lead_s=0.04)
    frames: list[Frame] = []
    begins: list[int] = []
    now_s = 100.0
    spoken_s = lips.end_s or 0.0
    for phase, seconds in (
        (Phase.IDLE, 3.0),
        (Phase.LISTENING, 6.0),
        (Phase.THINKING, 3.5),
        (Phase.SPEAKING, spoken_s),
        (Phase.IDLE, 4.0),
    ):
        begins.append(len(frames))
        animator.attend(phase)
        began_s = now_s
        if phase is Phase.SPEAKING:
            animator.speak_turn(1, lips, now_s)
        while now_s < began_s + seconds:
            now_s += 1 / FPS
            if phase is Phase.SPEAKING:
                animator.played(1, now_s - began_s, now_s)
            if phase is Phase.LISTENING and len(frames) % 50 == 0:
                animator.attend(phase, cue=True)
            while (frame := animator.next_frame(now_s)) is not None:
                frames.append(frame)
    return [frame.pose for frame in frames], begins[1:]


def joins(tracks: Sequence[LipTrack], places: Places) -> dict[str, float]:
    """Largest mean movement of a face's points from frame to frame, in thousandths of the distance
    of the eyes: in the frames at joins, and in all others.
    """
    at_joins, within = [], []
    for seed, lips in enumerate(tracks):
        poses, begins = talk(lips, seed)
        points = np.array([places(pose) for pose in poses])
        steps = 1000 * np.linalg.norm(np.diff(points, axis=0), axis=2).mean(axis=1)
        near = {begin + k for begin in begins for k in (-1, 0)}
        at_joins += [step for k, step in enumerate(steps) if k in near]
        within += [step for k, step in enumerate(steps) if k not in near]
    return {"at_joins": max(at_joins), "within": max(within)}


def photograph(folder: Path) -> tuple[Draw, Places]:
    """Draws an avatar of a photograph, and tells where its landmarks are."""
    renderer = Renderer(load_avatar(folder))
    rest = renderer.places(FacePose())
    unit = np.linalg.norm(rest[topology.LEFT_EYE_OUTER] - rest[topology.RIGHT_EYE_OUTER])
    return (
        lambda pose: renderer.draw(pose)[..., :3].copy(),
        lambda pose: np.asarray(renderer.places(pose)[:468] / unit),
    )


def head(folder: Path) -> tuple[Draw, Places]:
    """Draws the head of a bundle, and tells where the points of its skin are."""
    store = HeadStore(folder.parent, size=_HEAD_SIZE, builtin=folder.parent)
    model = store.load(folder.name).model
    renderer = HeadRenderer(model)
    skin = np.unique(model.triangles[: model.skin])
    middles = on_screen(model.eyes[:2, :3].astype(np.float32), model.camera)
    # From outer corner to outer corner it is half as far again as from middle to middle.
    unit = 1.5 * np.linalg.norm(middles[1] - middles[0])

    def places(pose: FacePose) -> NDArray[np.float64]:
        renderer.draw(pose)
        return np.asarray(thread_work(model).screen[skin, :2] / unit, np.float64)

    return lambda pose: renderer.draw(pose)[..., :3].copy(), places


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--avatar", type=Path, default=_AVATAR, help="folder of an avatar")
    parser.add_argument("--head", type=Path, help="folder of a head bundle, in its place")
    parser.add_argument("--every", type=int, default=4, help="take every so many sentences")
    options = parser.parse_args()
    held_out = [(language, text) for language in HELD_OUT for text in HELD_OUT[language]]
    texts = [*SENTENCES, *held_out[:: options.every]]
    engine = open_engine(WEIGHTS)
    engine.load()
    gauge = FaceGauge(bundle_path("face-landmarks", None))
    draw, places = head(options.head.resolve()) if options.head else photograph(options.avatar)
    with open_synthesizer() as synthesizer:
        voices = [list(synthesizer.speak(text, language=language)) for language, text in texts]
    resting = Seen(), Seen()
    for seen, seconds in zip(resting, (_FITTED_IDLE_S, _IDLE_S), strict=True):
        follow(idle(seconds, seconds), draw, gauge, seen)
    for source, network in (("durations", None), ("sound", AudioToFace(engine))):
        spoken = [said(pieces, network) for pieces in voices]
        known = len(SENTENCES)
        found = figures(spoken[:known], spoken[known:], resting, draw, gauge)
        found |= joins([lips_of(pieces, network) for pieces in voices], places)
        shown = {name: round(value, 3) for name, value in found.items()}
        print(json.dumps({"lips": source, "sentences": len(texts), **shown}))  # noqa: T201


if __name__ == "__main__":
    main()
