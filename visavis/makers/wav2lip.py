"""A bundle out of a checkpoint of Wav2Lip: the generator that paints mouths from a voice."""

from __future__ import annotations

from pathlib import Path

import onnx

from visavis.makers.bundle import BundleFacts, BundleOrder, Say, plan, write_bundle
from visavis.makers.wav2lip_graph import FACE_SIZE, MEL_BANDS, MEL_HOPS, wav2lip_model
from visavis.makers.weights import Checked, read_weights, state_dict

GRAPH = "wav2lip.onnx"
_LARGEST_BATCH, _USUAL_BATCH = 32, 1


def make_wav2lip(order: BundleOrder, source: Path, *, say: Say = lambda line: None) -> Path:
    """Make a bundle of the checkpoint `source` (.pth, .safetensors or .npz); its folder comes back.

    Raises InvalidInputError for a file that holds no such generator, and like write_bundle.
    """
    say("reading the checkpoint")
    weights = Checked(state_dict(read_weights(source), "state_dict"), source.name)
    say("building the graph")
    model = wav2lip_model(weights)

    def fill(folder: Path) -> BundleFacts:
        say("writing the graph")
        onnx.save(model, str(folder / GRAPH))
        return FACTS

    return write_bundle(order, "wav2lip", [source], fill, say)


_MEL, _FACE = (1, MEL_BANDS, MEL_HOPS), (6, FACE_SIZE, FACE_SIZE)
FACTS = BundleFacts(
    task="face_mouth",
    summary=f"Wav2Lip at {FACE_SIZE} x {FACE_SIZE}: mouths painted from the voice",
    sample_rate_hz=16_000,
    plans=[
        plan(
            "mouth",
            GRAPH,
            {
                "mel": ((1, *_MEL), (_USUAL_BATCH, *_MEL), (_LARGEST_BATCH, *_MEL)),
                "face": ((1, *_FACE), (_USUAL_BATCH, *_FACE), (_LARGEST_BATCH, *_FACE)),
            },
            profile="frames",
        )
    ],
)
