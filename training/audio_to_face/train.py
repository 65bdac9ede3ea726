"""Train the audio-to-face network on the product's own voices and export it as ONNX.

It is a stack of dilated convolutions over log-mel, with a short look into the future.

Needs PyTorch, which the product does not: see README.md in this folder.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from services.face.lips.audio_to_face import (
    CONTEXT_FRAMES,
    LOOK_AHEAD_FRAMES,
    N_MELS,
    SILENCE_LOG,
    WEIGHTS,
)
from services.face.lips.phonemes import VISEMES
from training.audio_to_face.corpus import Example, joined, load

WINDOW = 128
BATCH = 32
PEAK_RATE = 2e-3
AVERAGING = 0.998
NOISY_SHARE = 0.4
CLEAN_SHARE = 0.5

COEFFICIENTS = 5
DILATIONS = (1, 2, 4, 1, 2, 4)
CHANNELS = 80
INPUT_WIDTH = 5
CONTEXT = INPUT_WIDTH - 1 + 2 * sum(DILATIONS)
assert CONTEXT == CONTEXT_FRAMES, "the product feeds the network another number of frames"


class AudioToFace(nn.Module):
    """log-mel [B, T, N_MELS] -> viseme logits [B, U, 15] and coefficients [B, U, 5].

    U = T - CONTEXT.
    """

    def __init__(self, mean: Tensor, deviation: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("deviation", deviation)
        self.enter = nn.Sequential(
            nn.Conv1d(N_MELS, CHANNELS, INPUT_WIDTH), nn.BatchNorm1d(CHANNELS), nn.ReLU()
        )
        self.blocks = nn.ModuleList(_block(dilation) for dilation in DILATIONS)
        self.visemes = nn.Conv1d(CHANNELS, len(VISEMES), 1)
        self.coefficients = nn.Conv1d(CHANNELS, COEFFICIENTS, 1)

    def forward(self, mel: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.enter(((mel - self.mean) / self.deviation).transpose(1, 2))
        for dilation, block in zip(DILATIONS, self.blocks, strict=True):
            hidden = torch.relu(hidden[:, :, dilation:-dilation] + block(hidden))
        coefficients = torch.sigmoid(self.coefficients(hidden))
        return self.visemes(hidden).transpose(1, 2), coefficients.transpose(1, 2)


class Exported(nn.Module):
    """The same with probabilities instead of logits: what the product runs."""

    def __init__(self, network: AudioToFace) -> None:
        super().__init__()
        self.network = network

    def forward(self, mel: Tensor) -> tuple[Tensor, Tensor]:
        logits, coefficients = self.network(mel)
        return torch.softmax(logits, dim=2), coefficients


def _block(dilation: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv1d(CHANNELS, CHANNELS, 3, dilation=dilation),
        nn.BatchNorm1d(CHANNELS),
        nn.ReLU(),
        nn.Conv1d(CHANNELS, CHANNELS, 1),
        nn.BatchNorm1d(CHANNELS),
    )


def augmented(mel: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.float32]:
    """Another level, another room: gain, noise and tilt of each window of a batch [B, T, 40]
    float32.
    """
    out = mel.copy()
    changed = np.flatnonzero(rng.random(len(mel)) >= CLEAN_SHARE)
    gain = rng.uniform(-3.0, 1.0, (len(changed), 1, 1))
    knots = rng.normal(0, 0.25, (len(changed), 5))
    positions = np.linspace(0, 4, N_MELS)
    tilt = np.stack([np.interp(positions, np.arange(5), row) for row in knots])[:, None, :]
    out[changed] += (gain + tilt).astype(np.float32)
    for window in changed[rng.random(len(changed)) < NOISY_SHARE]:
        level = np.float32(rng.uniform(-13.0, -7.0))
        noise = rng.standard_normal(out[window].shape, np.float32) * np.float32(0.4) + level
        out[window] = np.logaddexp(out[window], noise)
    return np.maximum(out, np.float32(SILENCE_LOG))


def batch_of(corpus: Example, rng: np.random.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Random windows: mel [B, W + CONTEXT, 40], visemes [B, W], coefficients [B, W, 5]."""
    starts = rng.integers(0, len(corpus.visemes) - WINDOW - CONTEXT, BATCH)[:, None]
    seen = starts + np.arange(WINDOW + CONTEXT)
    asked = starts + np.arange(WINDOW) + CONTEXT - LOOK_AHEAD_FRAMES
    mel = augmented(corpus.features[seen], rng)
    return (
        torch.from_numpy(mel),
        torch.from_numpy(corpus.visemes[asked]),
        torch.from_numpy(corpus.coefficients[asked]),
    )


def fit(
    corpus: Example,
    minutes: float,
    seed: int,
    *,
    start: Path | None = None,
    checkpoint: Path | None = None,
) -> AudioToFace:
    """Train for so much processor time; gives the running mean of the weights.

    Languages have to be mixed within each batch: the normalisation would tell them apart otherwise,
    which it cannot do later.
    """
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    loud = corpus.features[corpus.features.mean(1) > SILENCE_LOG + 1]
    network = AudioToFace(torch.from_numpy(loud.mean(0)), torch.from_numpy(loud.std(0)))
    if start is not None:
        network.load_state_dict(torch.load(start))
    average = torch.optim.swa_utils.AveragedModel(
        network,
        multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(AVERAGING),
        use_buffers=True,
    )
    optimizer = torch.optim.AdamW(network.parameters(), PEAK_RATE, weight_decay=1e-3)
    classify = nn.CrossEntropyLoss(label_smoothing=0.03)
    started, step = time.process_time(), 0
    while (done := (time.process_time() - started) / (60 * minutes)) < 1:
        warm = min(1.0, (step + 1) / 200)
        for group in optimizer.param_groups:
            group["lr"] = warm * PEAK_RATE * (0.5 + 0.5 * np.cos(np.pi * done)) + 1e-5
        mel, visemes, coefficients = batch_of(corpus, rng)
        logits, guessed = network(mel)
        loss = classify(logits.flatten(0, 1), visemes.flatten())
        loss = loss + 20 * nn.functional.mse_loss(guessed, coefficients)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 2.0)
        optimizer.step()
        average.update_parameters(network)
        step += 1
        if step % 250 == 0:
            print(f"{step} steps, {done:4.0%}, loss {loss.item():.3f}", flush=True)  # noqa: T201
            if checkpoint is not None:
                torch.save(average.module.state_dict(), checkpoint)
    trained: AudioToFace = average.module
    return trained.eval()


TERMS = {
    "licence": "Apache-2.0, non-commercial training data",
    "training_data": "Speech of the voices hibari-en (Apache-2.0) and fastspeech2-mbmelgan-zh. The "
    "latter was trained on the Baker corpus (DataBaker CSMSC): NON-COMMERCIAL use only.",
}
"""What the file says of itself, wherever it goes; true of the voices in `corpus.LANGUAGES`."""


def label(path: Path) -> None:
    """Write TERMS into the metadata of the network at `path`."""
    model = onnx.load(path)
    onnx.helper.set_model_props(model, TERMS)
    onnx.save(model, path)


def export(network: AudioToFace, path: Path) -> None:
    """Write ONNX, opset 17, batch and time free, with its terms. A single file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    free = {"mel": {0: "batch", 1: "frames"}}
    free |= {name: {0: "batch", 1: "outputs"} for name in ("visemes", "coefficients")}
    torch.onnx.export(
        Exported(network).eval(),
        (torch.zeros(2, CONTEXT + 4, N_MELS),),
        str(path),
        input_names=["mel"],
        output_names=["visemes", "coefficients"],
        dynamic_axes=free,
        opset_version=17,
        dynamo=False,
    )
    label(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path, nargs="+", help="made by corpus.py")
    parser.add_argument("--minutes", type=float, default=12.0, help="of processor time")
    parser.add_argument("--start", type=Path, help="checkpoint to go on from")
    parser.add_argument("--checkpoint", type=Path, help="kept up to date, for --start")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=WEIGHTS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    corpus = joined([load(path) for path in options.corpus])
    print(f"{len(corpus.visemes) / 6000:.1f} minutes of speech")  # noqa: T201
    network = fit(
        corpus,
        options.minutes,
        options.seed,
        start=options.start,
        checkpoint=options.checkpoint,
    )
    print(f"{sum(p.numel() for p in network.parameters())} parameters")  # noqa: T201
    export(network, options.output)


if __name__ == "__main__":
    main()
