"""Train the painter on pictures as they are written, and export it.

    python3 -m training.painter.train PICTURES OUT --minutes 12 --photos CROPS.npz

needs PyTorch, OpenCV and onnx, and nothing of ours but this folder. OUT gets

    held_out.onnx  trained without the head `--held-out`
    held_out.png   that head: as it is shown, and for four poses the truth beside what is painted
    figures.json   how near to the truth it comes there
    painter.onnx   trained on all of them; painter.pt the same for PyTorch
    photos.png     what that makes of photographs
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import sys
import threading
import time
from pathlib import Path

import cv2
import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from training.painter.layout import COEFFICIENTS, MIRRORED, POSES, SHOWN, SIDE
from training.painter.network import Painter, painted

HELD_SHARE = 0.42
"""Of the time, that goes into the network that one head is held out of."""
PEAK_RATE = 1.5e-3
AVERAGING = 0.998
MOUTH = (slice(int(0.2 * SIDE), int(0.75 * SIDE)), slice(int(0.2 * SIDE), int(0.8 * SIDE)))
"""Rows and columns that figures are taken from."""
_TESTED_PEOPLE = 32


class Pictures:
    """People as they come: their pictures stay on the device."""

    def __init__(self, folder: Path, device: torch.device, most: int) -> None:
        """most: people that are kept."""
        self._folder, self._device = folder, device
        shape = (most, POSES, SIDE, SIDE, 3)
        self._pictures = torch.empty(shape, dtype=torch.uint8, device=device)
        self._told = torch.empty((most, POSES, len(COEFFICIENTS)), device=device)
        self._heads: list[str] = []
        self._read: set[str] = set()
        self._most = most
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep_reading, daemon=True)
        self._thread.start()

    def people(self, without: str = "", only: str = "") -> NDArray[np.int64]:
        """Numbers of those who are there."""
        heads = np.array(self._heads)
        fits = (heads != without) & ((heads == only) if only else True)
        return np.flatnonzero(fits)

    def of(self, person: Tensor, picture: Tensor) -> tuple[Tensor, Tensor]:
        """[B] each -> pictures [B, 3, SIDE, SIDE] 0..1 and coefficients [B, K]."""
        shown = self._pictures[person, picture].permute(0, 3, 1, 2).float() / 255
        return shown, self._told[person, picture]

    def close(self) -> None:
        self._ended.set()
        self._thread.join()

    def _keep_reading(self) -> None:
        while not self._ended.is_set() and len(self._heads) < self._most:
            new = [path for path in sorted(self._folder.glob("people-*.npz"))]
            new = [path for path in new if path.name not in self._read]
            for path in new:
                if not self._ended.is_set():
                    self._add(path)
            if not new:
                time.sleep(0.5)

    def _add(self, path: Path) -> None:
        self._read.add(path.name)
        with np.load(path) as file:
            pictures, told, heads = file["pictures"], file["coefficients"], file["heads"]
        first = len(self._heads)
        count = min(len(heads), self._most - first)
        self._pictures[first : first + count] = torch.from_numpy(pictures[:count]).to(self._device)
        told = torch.from_numpy(told[:count].astype(np.float32)).to(self._device)
        self._told[first : first + count] = told
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        self._heads += [str(head) for head in heads[:count]]


def varied(seen: Tensor, wanted: Tensor, told: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Both pictures alike, of another face: bent, mirrored, in other colours, blurred."""
    batch, device = len(seen), seen.device
    both = torch.cat([seen, wanted], dim=1)
    both = functional.grid_sample(
        both, _places(batch, device), padding_mode="reflection", align_corners=False
    )
    mirrored = torch.rand(batch, device=device) < 0.5
    both = torch.where(mirrored[:, None, None, None], both.flip(3), both)
    told = torch.where(mirrored[:, None], told[:, list(MIRRORED)], told)
    colours = both.view(batch, 2, 3, SIDE, SIDE)
    power = torch.exp(0.25 * _normal(batch, device) + 0.05 * _normal(batch, device, 3))
    gain = 1 + 0.12 * _normal(batch, device) + 0.04 * _normal(batch, device, 3)
    colours = (colours.clamp(1e-3, 1) ** power * gain).clamp(0, 1)
    grey = colours.mean(dim=2, keepdim=True)
    plain = (0.85 + 0.3 * _normal(batch, device)).clamp(0, 1.3)
    colours = (grey + plain * (colours - grey)).clamp(0, 1)
    both = colours.reshape(batch, 6, SIDE, SIDE)
    coarse = float(np.random.choice((1.0, 1.0, 0.75, 0.5, 0.35)))
    if coarse < 1:
        small = functional.interpolate(both, scale_factor=coarse, mode="area")
        both = functional.interpolate(small, size=(SIDE, SIDE), mode="bicubic").clamp(0, 1)
    return both[:, :3], both[:, 3:], told


def _places(batch: int, device: torch.device) -> Tensor:
    """[B, SIDE, SIDE, 2] from where pixels are taken: a little aside, turned, larger, bent."""
    turn, size = 0.08 * torch.randn(batch, device=device), torch.randn(batch, 2, device=device)
    size = torch.exp(0.07 * size)
    matrix = torch.zeros(batch, 2, 3, device=device)
    matrix[:, 0, 0], matrix[:, 0, 1] = size[:, 0] * torch.cos(turn), -torch.sin(turn)
    matrix[:, 1, 0], matrix[:, 1, 1] = torch.sin(turn), size[:, 1] * torch.cos(turn)
    matrix[:, :, 2] = 0.06 * torch.randn(batch, 2, device=device)
    places = functional.affine_grid(matrix, [batch, 3, SIDE, SIDE], align_corners=False)
    bends = 0.025 * torch.randn(batch, 2, 6, 6, device=device)
    bends = functional.interpolate(bends, size=(SIDE, SIDE), mode="bicubic", align_corners=False)
    return places + bends.permute(0, 2, 3, 1)


def _normal(batch: int, device: torch.device, channels: int = 1) -> Tensor:
    return torch.randn(batch, 1, channels, 1, 1, device=device)


def _weights(device: torch.device) -> Tensor:
    """[1, 1, SIDE, SIDE] how much each pixel counts: most around the mouth."""
    line = (torch.arange(SIDE, device=device) + 0.5) / SIDE
    x, y = (line - 0.5) / 0.22, (line - 0.45) / 0.2
    near = torch.exp(-(x[None, :] ** 2 + y[:, None] ** 2) / 2)
    return (0.4 + 3 * near)[None, None]


def loss_of(paint: Tensor, seen: Tensor, wanted: Tensor, weights: Tensor) -> Tensor:
    """How far the painted face is from the one that is wanted, and how far-fetched the paint."""
    made, moved = painted(seen, paint)
    loss = (weights * (made - wanted).abs()).mean()
    for size in (2, 4):
        coarse = functional.avg_pool2d(made - wanted, size)
        loss = loss + 0.5 * (functional.avg_pool2d(weights, size) * coarse.abs()).mean()
    for axis in (2, 3):
        edges = torch.diff(made, dim=axis) - torch.diff(wanted, dim=axis)
        loss = loss + 1.5 * (weights.narrow(axis, 1, SIDE - 1) * edges.abs()).mean()
        loss = loss + 0.5 * torch.diff(paint[:, :2], dim=axis).abs().mean()
    # Skin is rather moved than painted: only so is it a photograph's.
    loss = loss + 0.3 * (weights * (moved - wanted).abs()).mean()
    return loss + 0.02 * paint[:, 2].mean()


def fit(
    network: Painter, pictures: Pictures, without: str, seconds: float, batch: int, rate: float
) -> Painter:
    """Trains for so long, and gives the mean of what the network was of late."""
    device = next(network.parameters()).device
    optimiser = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=1e-3)
    mean, weights = copy.deepcopy(network).eval(), _weights(device)
    began, told, step = time.monotonic(), 0.0, 0
    while (gone := (time.monotonic() - began) / seconds) < 1:
        warm = min(1.0, (step + 1) / 100)
        for group in optimiser.param_groups:
            group["lr"] = rate * warm * (0.02 + 0.98 * (1 + math.cos(math.pi * gone)) / 2)
        there = torch.from_numpy(pictures.people(without=without)).to(device)
        person = there[torch.randint(len(there), (batch,), device=device)]
        seen, _ = pictures.of(person, torch.randint(SHOWN, (batch,), device=device))
        wanted, asked = pictures.of(person, torch.randint(POSES, (batch,), device=device))
        seen, wanted, asked = varied(seen, wanted, asked)
        shown = seen + 0.02 * torch.rand(batch, 1, 1, 1, device=device) * torch.randn_like(seen)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            paint = network(shown.contiguous(memory_format=torch.channels_last), asked)
        loss = loss_of(paint.float(), seen, wanted, weights)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        _average(mean, network, min(AVERAGING, (1 + step) / (10 + step)))
        step += 1
        if time.monotonic() - told > 10:
            told = time.monotonic()
            line = f"{without or 'all'}: {100 * gone:.0f} %, step {step}, {len(there)} people, "
            sys.stderr.write(f"{line}loss {loss.item():.4f}\n")
    sys.stderr.write(f"{without or 'all'}: {step} steps of {batch}\n")
    return mean


@torch.no_grad()
def _average(mean: nn.Module, network: nn.Module, share: float) -> None:
    old, new = mean.state_dict(), network.state_dict()
    for name, value in new.items():
        if value.is_floating_point():
            old[name].lerp_(value, 1 - share)
        else:
            old[name].copy_(value)


@torch.no_grad()
def tested(network: Painter, pictures: Pictures, head: str) -> dict[str, float]:
    """Mean difference, 0..255, and SSIM in the mouth's region: painted, and left as it was."""
    device = next(network.parameters()).device
    people = pictures.people(only=head)[:_TESTED_PEOPLE]
    sums: dict[str, list[float]] = {}
    for person in people:
        for shown in range(0, SHOWN, 2):
            asked = torch.arange(SHOWN, POSES, device=device)
            who = torch.full_like(asked, int(person))
            seen, _ = pictures.of(who, torch.full_like(asked, shown))
            wanted, told = pictures.of(who, asked)
            made, _ = painted(seen, network(seen, told))
            for name, picture in (("painted", made), ("still", seen)):
                l1 = 255 * (picture - wanted).abs()[:, :, MOUTH[0], MOUTH[1]].mean().item()
                sums.setdefault(f"{name}_l1", []).append(l1)
                sums.setdefault(f"{name}_ssim", []).append(_ssim(picture, wanted))
    return {name: round(float(np.mean(values)), 4) for name, values in sums.items()}


def _ssim(a: Tensor, b: Tensor) -> float:
    """Wang et al. 2004, of grey pictures [B, 3, SIDE, SIDE] 0..1, in the mouth's region."""
    line = torch.exp(-((torch.arange(11, device=a.device) - 5.0) ** 2) / (2 * 1.5**2))
    window = torch.outer(line, line)[None, None] / line.sum() ** 2
    a, b = a.mean(dim=1, keepdim=True), b.mean(dim=1, keepdim=True)
    means = [functional.conv2d(x, window, padding=5) for x in (a, b, a * a, b * b, a * b)]
    (ma, mb), (aa, bb, ab) = means[:2], means[2:]
    over = (2 * ma * mb + 1e-4) * (2 * (ab - ma * mb) + 9e-4)
    under = (ma**2 + mb**2 + 1e-4) * (aa - ma**2 + bb - mb**2 + 9e-4)
    return float((over / under)[:, :, MOUTH[0], MOUTH[1]].mean())


@torch.no_grad()
def held_out_sheet(network: Painter, pictures: Pictures, head: str, path: Path) -> None:
    """Rows of people: as shown, then truth and painting of four poses."""
    device = next(network.parameters()).device
    rows = []
    for row, person in enumerate(pictures.people(only=head)[:12]):
        asked = torch.tensor([SHOWN + (5 * row + k) % (POSES - SHOWN) for k in range(4)])
        asked = asked.to(device)
        who = torch.full_like(asked, int(person))
        seen, _ = pictures.of(who, torch.full_like(asked, row % SHOWN))
        wanted, told = pictures.of(who, asked)
        made, _ = painted(seen, network(seen, told))
        pairs = torch.stack([wanted, made], dim=1).flatten(0, 1)
        rows.append(torch.cat([seen[:1], pairs]))
    _write_sheet(path, torch.stack(rows))


@torch.no_grad()
def photo_sheet(network: Painter, photos: Path, path: Path) -> None:
    """Rows of photographs, as they are and in each of the poses of the file."""
    device = next(network.parameters()).device
    with np.load(photos) as file:
        crops, sweep = file["crops"], file["coefficients"]
    told = torch.from_numpy(sweep.astype(np.float32)).to(device)
    rows = []
    for crop in crops:
        seen = torch.from_numpy(crop).to(device).permute(2, 0, 1)[None].float() / 255
        seen = seen.expand(len(told), -1, -1, -1)
        made, _ = painted(seen, network(seen, told))
        rows.append(torch.cat([seen[:1], made]))
    _write_sheet(path, torch.stack(rows))


def _write_sheet(path: Path, pictures: Tensor) -> None:
    """[rows, columns, 3, SIDE, SIDE] 0..1."""
    rows, columns = pictures.shape[:2]
    whole = pictures.permute(0, 3, 1, 4, 2).reshape(rows * SIDE, columns * SIDE, 3)
    shown = (255 * whole.clamp(0, 1)).round().byte().cpu().numpy()
    cv2.imwrite(str(path), np.ascontiguousarray(shown[..., ::-1]))


def export(network: Painter, path: Path) -> float | None:
    """Writes the ONNX file; the largest difference between what it gives and the network; None
    where ONNX Runtime is not installed.
    """
    network = copy.deepcopy(network).cpu().float().eval()
    face = torch.rand(2, 3, SIDE, SIDE)
    told = torch.rand(2, len(COEFFICIENTS))
    names = {"input_names": ["face", "coefficients"], "output_names": ["paint"]}
    axes = {name: {0: "batch"} for name in ("face", "coefficients", "paint")}
    torch.onnx.export(
        network, (face, told), str(path), **names, dynamic_axes=axes, opset_version=17, dynamo=False
    )
    onnx.checker.check_model(onnx.load(str(path)))
    try:
        import onnxruntime
    except ImportError:
        return None
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    given = session.run(None, {"face": face.numpy(), "coefficients": told.numpy()})[0]
    with torch.no_grad():
        return float(np.abs(given - network(face, told).numpy()).max())


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pictures", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--minutes", type=float, default=12.0)
    parser.add_argument("--held-out", default="dai")
    parser.add_argument("--photos", type=Path)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--most-people", type=int, default=8000)
    parser.add_argument("--fewest-people", type=int, default=48, help="before it begins")
    args = parser.parse_args()
    began = time.monotonic()
    torch.manual_seed(1)
    np.random.seed(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    args.out.mkdir(parents=True, exist_ok=True)
    pictures = Pictures(args.pictures, device, args.most_people)
    while len(pictures.people()) < args.fewest_people or not len(
        pictures.people(only=args.held_out)
    ):
        time.sleep(0.5)
    waited = time.monotonic() - began
    seconds = 60 * args.minutes - waited
    network = Painter().to(device).to(memory_format=torch.channels_last).train()
    held = fit(network, pictures, args.held_out, HELD_SHARE * seconds, args.batch, PEAK_RATE)
    figures: dict[str, object] = {"waited_s": round(waited, 1)}
    figures["held_out"] = tested(held, pictures, args.held_out)
    figures["held_out_people"] = len(pictures.people(without=args.held_out))
    held_out_sheet(held, pictures, args.held_out, args.out / "held_out.png")
    figures["held_out_onnx_difference"] = export(held, args.out / "held_out.onnx")
    _write_figures(args.out, figures)
    left = 60 * args.minutes - (time.monotonic() - began)
    whole = fit(network, pictures, "", max(left, 1.0), args.batch, 0.7 * PEAK_RATE)
    torch.save(whole.state_dict(), args.out / "painter.pt")
    figures["people"] = len(pictures.people())
    figures["seen_head"] = tested(whole, pictures, args.held_out)
    if args.photos:
        photo_sheet(whole, args.photos, args.out / "photos.png")
    figures["onnx_difference"] = export(whole, args.out / "painter.onnx")
    _write_figures(args.out, figures)
    pictures.close()


def _write_figures(out: Path, figures: dict[str, object]) -> None:
    (out / "figures.json").write_text(json.dumps(figures, indent=1) + "\n")
    sys.stderr.write(f"{json.dumps(figures)}\n")


if __name__ == "__main__":
    main()
