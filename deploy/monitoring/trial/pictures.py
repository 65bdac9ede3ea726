"""A whole dashboard, with its figures from Prometheus, as a PNG.

What Grafana would show, drawn by us from the committed JSON and the same queries: no Grafana can be
installed where this was made. Chromium makes the PNG.
"""

from __future__ import annotations

import math
import re
import struct
import subprocess
import tempfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from deploy.chromium import NO_CHROMIUM, find_chromium
from deploy.monitoring.trial.drawing import (
    FAINT_INK,
    INK,
    PAGE,
    Box,
    Drawn,
    Line,
    Span,
    panel,
    text,
    width_of,
)
from deploy.monitoring.trial.prometheus import Prometheus
from visavis.serving.errors import VisavisError

_WIDTH, _MARGIN, _GAP, _HEAD = 1440, 14, 8, 56
_COLUMNS, _UNIT, _ROW = 24, 25, 34
_STEP_S = 5.0


@dataclass(frozen=True)
class View:
    """The times that are drawn, and what stands for $__rate_interval."""

    span: Span
    window: str

    @classmethod
    def of(cls, start_s: float, end_s: float, window: str) -> View:
        return cls(Span(start_s, end_s, _STEP_S), window)


async def draw_dashboard(
    prometheus: Prometheus,
    board: Mapping[str, Any],
    view: View,
    why: Mapping[str, str],
    note: str,
) -> str:
    """The dashboard, of which `board` is Grafana's JSON, as SVG. Raises httpx.HTTPError.

    why: by a panel's title, why it has nothing to show; note: beside the times that are shown.
    """
    parts, y = [_head(board["title"], view.span, note)], float(_HEAD)
    for row, panels in _rows(board["panels"]):
        drawn = [await _drawn(prometheus, one, view, why) for one in panels]
        empty = not any(line.points for one in drawn for line in one.lines)
        sign = "›" if empty else "⌄"
        heading = f"{sign}  {row['title']}" if row else ""
        parts.append(text(_MARGIN + 4, y + 22, heading, size=14, weight=500))
        if empty and row:
            told = next((one.why for one in drawn if one.why), "no data")
            x = _MARGIN + 20 + width_of(heading, 14)
            parts.append(text(x, y + 22, f"{len(drawn)} panels: {told}", ink=FAINT_INK, size=12))
            y += _ROW
            continue
        top = min(one["gridPos"]["y"] for one in panels)
        y += _ROW
        for one, shown in zip(panels, drawn, strict=True):
            parts.append(panel(shown, _box(one["gridPos"], top, y), view.span))
        y += _UNIT * max(p["gridPos"]["y"] + p["gridPos"]["h"] - top for p in panels)
    height = math.ceil(y + _MARGIN)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" font-family="Inter, Roboto, DejaVu Sans, sans-serif">'
    )
    ground = f'<rect width="{_WIDTH}" height="{height}" fill="{PAGE}"/>'
    return "\n".join([head, ground, *parts, "</svg>", ""])


def _head(title: str, span: Span, note: str) -> str:
    start, end = (datetime.fromtimestamp(at_s, UTC) for at_s in (span.start_s, span.end_s))
    times = f"{start:%Y-%m-%d %H:%M:%S} to {end:%H:%M:%S} UTC"
    return "\n".join(
        (
            text(_MARGIN + 4, 34, title, size=19, weight=500),
            text(_WIDTH - _MARGIN, 26, times, ink=INK, size=12.5, anchor="end"),
            text(_WIDTH - _MARGIN, 44, note, ink=FAINT_INK, size=11.5, anchor="end"),
        )
    )


def _rows(
    panels: Sequence[dict[str, Any]],
) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Each heading with the panels below it."""
    rows: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    for one in panels:
        if one["type"] == "row":
            rows.append((one, []))
        else:
            rows[-1][1].append(one)
    return rows


def _box(place: Mapping[str, float], top: float, y: float) -> Box:
    column = (_WIDTH - 2 * _MARGIN + _GAP) / _COLUMNS
    return Box(
        _MARGIN + column * place["x"],
        y + _UNIT * (place["y"] - top),
        column * place["w"] - _GAP,
        _UNIT * place["h"] - _GAP,
    )


async def _drawn(
    prometheus: Prometheus, one: Mapping[str, Any], view: View, why: Mapping[str, str]
) -> Drawn:
    lines, span = [], view.span
    for target in one["targets"]:
        asked = target["expr"].replace("$__rate_interval", view.window)
        for series in await prometheus.over(asked, span.start_s, span.end_s, span.step_s):
            points = [point for point in series.points if math.isfinite(point[1])]
            lines.append(Line(_legend(target["legendFormat"], series.labels), points))
    settings = one["fieldConfig"]["defaults"]
    return Drawn(
        one["title"],
        settings["unit"],
        sorted(lines, key=lambda line: not line.points),
        figure=one["type"] == "stat",
        steps=settings["thresholds"]["steps"],
        why=why.get(one["title"], ""),
    )


def _legend(template: str, labels: Mapping[str, str]) -> str:
    return re.sub(r"{{(\w+)}}", lambda found: labels.get(found[1], ""), template)


def write_png(svg: str, path: Path) -> None:
    """The drawing as a PNG. Raises VisavisError where there is no Chromium, or it fails."""
    browser = find_chromium()
    if browser is None:
        raise VisavisError(NO_CHROMIUM)
    height = re.findall(r'height="(\d+)"', svg)[0]
    with tempfile.TemporaryDirectory() as name:
        page = Path(name) / "dashboard.html"
        style = f"<style>body{{margin:0;background:{PAGE}}}svg{{display:block}}</style>"
        page.write_text(f"<!doctype html><meta charset=utf-8>{style}{svg}", encoding="utf-8")
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        command += ["--force-device-scale-factor=1", f"--window-size={_WIDTH},{height}"]
        command += [f"--user-data-dir={name}/profile", f"--screenshot={path.resolve()}"]
        done = subprocess.run(
            [*command, page.as_uri()], capture_output=True, text=True, check=False
        )
    drawn = cv2.imread(str(path))
    if done.returncode or drawn is None:
        raise VisavisError(f"{path} was not drawn: {done.stderr[-500:]}")
    path.write_bytes(with_palette(np.asarray(drawn[:, :, ::-1], np.uint8)))


def with_palette(picture: NDArray[np.uint8]) -> bytes:
    """A PNG of the picture's 256 most frequent colours: a third of the size, to the eye the same.

    picture: [height, width, red-green-blue] uint8.
    """
    flat = picture.reshape(-1, 3).astype(np.uint32)
    coarse = (flat >> 3) @ np.array([1024, 32, 1], np.uint32)
    _, which, counts = np.unique(coarse, return_inverse=True, return_counts=True)
    sums = [np.bincount(which, flat[:, channel], len(counts)) for channel in range(3)]
    colours = np.stack(sums, 1) / counts[:, None]
    palette = np.round(colours[np.argsort(-counts)[:256]])
    away = ((colours[:, None] - palette[None]) ** 2).sum(2)
    nearest = away.argmin(1).astype(np.uint8)[which].reshape(picture.shape[:2])
    height, width = nearest.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), nearest], axis=1)
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            _chunk(b"PLTE", palette.astype(np.uint8).tobytes()),
            _chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)),
            _chunk(b"IEND", b""),
        )
    )


def _chunk(kind: bytes, content: bytes) -> bytes:
    check = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", check)
