"""The network: the lower half of a face and what its mouth shall do -> how to paint it.

It needs PyTorch and nothing of ours, so that it can be trained where only that is installed.

What it gives is no picture but how to make one: from where each pixel is taken of the face that it
was shown (as in Siarohin et al., "First Order Motion Model for Image Animation", 2019), and what is
laid over that: teeth, tongue, shade. So skin stays that of the photograph, as sharp as it is there.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from training.painter.layout import COEFFICIENTS, EDGE, REACH, SIDE

_WIDTHS = (24, 32, 56, 80, 92)
"""Channels at a half of the side, a quarter, …"""
_TOLD = 64


class _Block(nn.Module):
    """A convolution, and where it is told them, coefficients that scale and shift its channels
    (Perez et al., "FiLM", 2018)."""

    def __init__(self, inside: int, outside: int, *, stride: int = 1, told: bool = False) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(inside, outside, 3, stride, 1)
        self.norm = nn.BatchNorm2d(outside)
        self.told = nn.Linear(_TOLD, 2 * outside) if told else None
        self.slope = nn.LeakyReLU(0.1)

    def forward(self, x: Tensor, told: Tensor) -> Tensor:
        y = self.norm(self.convolution(x))
        if self.told is not None:
            scale, shift = self.told(told)[:, :, None, None].chunk(2, dim=1)
            y = y * (1 + scale) + shift
        y = self.slope(y)
        return x + y if x.shape == y.shape else y


class Painter(nn.Module):
    """face [B, 3, SIDE, SIDE] 0..1 RGB, coefficients [B, len(COEFFICIENTS)] -> paint [B, 6, SIDE,
    SIDE].

    paint: 0, 1 how far to the right and below each pixel is taken from, in crops; 2 how much is
    painted over it, 0..1; 3 to 5 what, RGB 0..1.
    """

    edge: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.told = nn.Sequential(
            nn.Linear(len(COEFFICIENTS), 96), nn.LeakyReLU(0.1), nn.Linear(96, _TOLD)
        )
        down, up = [], []
        inside = 3
        for index, width in enumerate(_WIDTHS):
            down.append(_Block(inside, width, stride=2))
            if index > 1:
                down.append(_Block(width, width, told=index > 2))
            inside = width
        self.down = nn.ModuleList(down)
        for index in range(len(_WIDTHS) - 2, -1, -1):
            width = _WIDTHS[index]
            up.append(_Block(inside + width, width, told=True))
            up.append(_Block(width, width, told=True))
            inside = width
        self.up = nn.ModuleList(up)
        # What each pixel comes from and its cover are painted at full size, with the face beside.
        self.fine = _Block(inside + 3, 16)
        self.last = nn.Conv2d(16, 6, 3, 1, 1)
        nn.init.zeros_(self.last.weight)
        with torch.no_grad():
            self.last.bias.copy_(torch.tensor([0.0, 0.0, -3.0, -0.5, -1.5, -1.5]))
        line = (torch.arange(SIDE) + 0.5) / SIDE
        ramp = (torch.minimum(line, 1 - line) / EDGE).clamp(0, 1)
        ramp = ramp * ramp * (3 - 2 * ramp)
        self.register_buffer("edge", (ramp[:, None] * ramp[None, :])[None, None])

    def forward(self, face: Tensor, coefficients: Tensor) -> Tensor:
        told = self.told(coefficients)
        x, kept = face - 0.5, []
        for block in self.down:
            y = block(x, told)
            if y.shape[-1] != x.shape[-1]:
                kept.append(x)
            x = y
        kept.append(x)
        skips = kept[1:-1]
        for first, second in zip(self.up[::2], self.up[1::2], strict=True):
            x = functional.interpolate(x, scale_factor=2.0, mode="nearest")
            x = second(first(torch.cat([x, skips.pop()], dim=1), told), told)
        x = functional.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False)
        raw = self.last(self.fine(torch.cat([x, face - 0.5], dim=1), told))
        way = REACH * torch.tanh(raw[:, :2]) * self.edge
        cover = torch.sigmoid(raw[:, 2:3]) * self.edge
        return torch.cat([way, cover, torch.sigmoid(raw[:, 3:])], dim=1)


def painted(face: Tensor, paint: Tensor) -> tuple[Tensor, Tensor]:
    """The face that `paint` makes of `face`, and what it were without cover: [B, 3, SIDE, SIDE]."""
    line = (torch.arange(SIDE, device=face.device, dtype=face.dtype) + 0.5) / SIDE * 2 - 1
    here = torch.stack(torch.meshgrid(line, line, indexing="xy"), dim=-1)
    places = here + 2 * paint[:, :2].permute(0, 2, 3, 1)
    moved = functional.grid_sample(face, places, padding_mode="border", align_corners=False)
    cover = paint[:, 2:3]
    return moved + cover * (paint[:, 3:] - moved), moved
