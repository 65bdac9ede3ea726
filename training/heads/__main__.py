"""Makes and shows head bundles: `python -m training.heads --help`."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from training.heads.people import read_person


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m training.heads", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    fetch = commands.add_parser("fetch", help="unpack the base mesh (pip, pinned by its digest)")
    fetch.add_argument("data", type=Path)
    make = commands.add_parser("make", help="make a bundle")
    make.add_argument("people", type=Path, help="TOML file of people")
    make.add_argument("name", help="whom of them")
    make.add_argument("--out", type=Path, required=True)
    make.add_argument("--data", type=Path, required=True, help="what `fetch` unpacked")
    make.add_argument("--preview", action="store_true", help="small and quick")
    make.add_argument("--only", choices=("glb", "pictures"), help="that alone")
    sheet = commands.add_parser("sheet", help="draw a bundle's GLB in many poses")
    sheet.add_argument("bundle", type=Path)
    sheet.add_argument("picture", type=Path)
    sheet.add_argument("--size", type=int, default=384, help="pixels of each pose's side")
    sheet.add_argument("--only", default="", help="names of poses, separated by commas")
    sheet.add_argument("--focus", choices=("all", "mouth", "eyes"), default="all")
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    if given.command == "fetch":
        from training.heads.base_mesh import fetch as unpack

        unpack(given.data)
    elif given.command == "make":
        _make(given)
    else:
        from training.heads.sheet import draw_sheet

        only = [name for name in given.only.split(",") if name]
        draw_sheet(given.bundle, given.picture, given.size, only, given.focus)


def _make(given: argparse.Namespace) -> None:
    from dataclasses import replace

    from training.heads.base_mesh import BaseMesh
    from training.heads.bundle import FULL, PREVIEW, make

    quality = PREVIEW if given.preview else FULL
    if given.only == "glb":
        quality = replace(quality, portrait=0)
    elif given.only == "pictures":
        quality = replace(quality, texture=0)
    make(BaseMesh(given.data), read_person(given.people, given.name), given.out, quality)


main()
