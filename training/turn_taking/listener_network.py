"""Trains the network that tells a listener's short sounds by an encoder's rows (`SoundModel`).

Needs PyTorch, which serves for training alone: what serves runs in numpy.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from services.asr.hearing.listeners import SoundModel
from training.turn_taking.logistic import Vector

Rows = NDArray[np.float32]

_WIDTH, _CHANNELS, _LOOKS = 24, 32, 2
_ROUNDS, _BATCH = 6, 64
_RATE, _DECAY = 3e-3, 0.05
_HIDE_INPUT, _HIDE = 0.3, 0.2
# Standard deviation of what is added to each figure of a row, itself of standard deviation 1.
_BLUR = 0.2
_MOST_ROWS_HIDDEN = 4
_SUREST = 0.98
_FAR_OFF = -1e4


class _Network(nn.Module):
    """SoundModel over a batch, in torch."""

    def __init__(self, n_figures: int) -> None:
        super().__init__()
        self.into = nn.Linear(n_figures, _WIDTH)
        self.near = nn.Conv1d(_WIDTH, _CHANNELS, 5, padding=2)
        self.far = nn.Conv1d(_CHANNELS, _CHANNELS, 5, padding=4, dilation=2)
        self.looks = nn.Linear(_CHANNELS, _LOOKS, bias=False)
        self.tells = nn.Linear((_LOOKS + 1) * _CHANNELS, 1)
        self.hide_input, self.hide = nn.Dropout(_HIDE_INPUT), nn.Dropout(_HIDE)

    def forward(self, rows: Tensor, there: Tensor) -> Tensor:
        """rows [B, T, K], there [B, T] bool: not padding; log odds [B]."""
        each = there.unsqueeze(1)
        heard = functional.silu(self.into(self.hide_input(rows))).transpose(1, 2) * each
        heard = functional.silu(self.near(self.hide(heard))) * each
        heard = functional.silu(self.far(self.hide(heard))) * each
        scores = self.looks(heard.transpose(1, 2)).masked_fill(~there.unsqueeze(2), _FAR_OFF)
        looked = torch.einsum("btl,bct->blc", scores.softmax(dim=1), heard).flatten(1)
        most = heard.masked_fill(~each, _FAR_OFF).amax(dim=2)
        told: Tensor = self.tells(self.hide(torch.cat([looked, most], dim=1)))
        return told.squeeze(1)


class Shown:
    """Sounds as the network takes them: figures of mean 0 and standard deviation 1."""

    def __init__(self, sounds: Sequence[Rows]) -> None:
        """sounds: [T, K] float32 each, as `rows_of` makes them."""
        together = np.concatenate(sounds)
        self.mean, self.spread = together.mean(axis=0), together.std(axis=0) + 1e-3
        longest = max(map(len, sounds))
        self.rows = torch.zeros(len(sounds), longest, together.shape[1], dtype=torch.float16)
        self.there = torch.zeros(len(sounds), longest, dtype=torch.bool)
        for n, sound in enumerate(sounds):
            self.rows[n, : len(sound)] = torch.from_numpy((sound - self.mean) / self.spread)
            self.there[n, : len(sound)] = True

    def batch(self, chosen: Tensor) -> tuple[Tensor, Tensor]:
        """Rows [B, T, K] float32 and where they are [B, T], no longer than the longest of them."""
        there = self.there[chosen]
        longest = int(there.sum(dim=1).max())
        return self.rows[chosen, :longest].float(), there[:, :longest]


def trained(shown: Shown, listens: NDArray[np.bool_], chosen: NDArray[np.int64]) -> _Network:
    """A network that has seen those sounds alone. listens: [N] of all; chosen: [M] places."""
    torch.manual_seed(1)
    torch.set_num_threads(1)
    network = _Network(shown.rows.shape[2])
    steps = _ROUNDS * (len(chosen) // _BATCH)
    way = torch.optim.AdamW(network.parameters(), lr=_RATE, weight_decay=_DECAY)
    pace = torch.optim.lr_scheduler.OneCycleLR(way, _RATE, total_steps=steps)
    label = torch.from_numpy(np.where(listens, _SUREST, 1 - _SUREST)).float()
    network.train()
    for step in range(steps):
        place = step % (len(chosen) // _BATCH) * _BATCH
        if place == 0:
            order = torch.from_numpy(chosen)[torch.randperm(len(chosen))]
        batch = order[place : place + _BATCH]
        rows, there = shown.batch(batch)
        rows = _hidden(rows + _BLUR * torch.randn_like(rows))
        loss = functional.binary_cross_entropy_with_logits(network(rows, there), label[batch])
        way.zero_grad()
        loss.backward()
        way.step()
        pace.step()
    return network.eval()


def _hidden(rows: Tensor) -> Tensor:
    """Some rows of each sound are missing, as if by a noise."""
    many, longest = rows.shape[:2]
    first = torch.randint(0, longest, (many, 1))
    last = first + torch.randint(0, _MOST_ROWS_HIDDEN + 1, (many, 1))
    place = torch.arange(longest)[None]
    return rows * ~((place >= first) & (place < last)).unsqueeze(2)


@torch.no_grad()
def odds_of(network: _Network, shown: Shown, chosen: NDArray[np.int64]) -> Vector:
    """[M] log odds of the sounds at `chosen` [M], not calibrated."""
    parts = torch.from_numpy(chosen).split(256)
    return torch.cat([network(*shown.batch(part)) for part in parts]).double().numpy()


def as_model(network: _Network, shown: Shown, slope: float, offset: float) -> SoundModel:
    """For `rows_of` as they are, with odds times `slope` plus `offset`."""
    kept = {name: value.numpy() for name, value in network.state_dict().items()}
    into = kept["into.weight"].T / shown.spread[:, None]
    parts = (
        into,
        kept["into.bias"] - shown.mean @ into,
        kept["near.weight"].transpose(2, 1, 0),
        kept["near.bias"],
        kept["far.weight"].transpose(2, 1, 0),
        kept["far.bias"],
        kept["looks.weight"].T,
        slope * kept["tells.weight"][0],
        slope * kept["tells.bias"][0] + offset,
    )
    return SoundModel(*(np.asarray(part, np.float32) for part in parts))
