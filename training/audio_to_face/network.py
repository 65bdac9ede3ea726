"""The network: a stack of dilated convolutions over log-mel, with a short look into the future."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from services.face.lips.audio_to_face import CONTEXT_FRAMES, N_MELS
from services.face.lips.phonemes import VISEMES

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
