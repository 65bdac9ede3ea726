"""Makes a head bundle: `services/face/heads/README.md` says what is in one.

It imports what asks Blender (GPL-3.0) and runs in the environment of `requirements.txt` alone.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from training.heads import groom
from training.heads.base_mesh import BaseMesh
from training.heads.blender import studio
from training.heads.blender.actor import Actor
from training.heads.eyes import eye_mesh, eye_picture
from training.heads.geometry import joined
from training.heads.gltf import cards, textures
from training.heads.gltf.glb import Material, Part, glb
from training.heads.head import Head
from training.heads.mouth import teeth_mesh, tongue_mesh
from training.heads.people import Person

log = logging.getLogger(__name__)

WALL = (0.20, 0.22, 0.25)
_OPENED = {"jawOpen": 0.30, "eyeBlinkLeft": 0.8, "eyeBlinkRight": 0.8, "mouthUpperUpLeft": 0.4}
_OPENED |= {"mouthUpperUpRight": 0.4, "mouthLowerDownLeft": 0.4, "mouthLowerDownRight": 0.4}
_LICENCE = (
    ("MakeHuman/MPFB2 base mesh, targets, masks", "The MakeHuman team", "CC0-1.0"),
    ("Face Units: the 52 shapes", "Mika Suominen", "CC0-1.0"),
    ("skin, eyes, teeth, hair, clothes, light", "the scripts of training/heads", "CC0-1.0"),
)


@dataclass(frozen=True)
class Quality:
    """How much work goes into a bundle."""

    portrait: int
    """Pixels of its side; 0: no pictures."""
    samples: int
    texture: int
    """Pixels of the skin's side; 0: no GLB."""
    sky_samples: int
    strands: int


FULL = Quality(portrait=640, samples=6, texture=1024, sky_samples=16, strands=34000)
PREVIEW = Quality(portrait=320, samples=8, texture=512, sky_samples=6, strands=12000)


def make(base: BaseMesh, person: Person, out: Path, quality: Quality) -> None:
    """Write the bundle's four files to `out`."""
    out.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    head = Head(base, person)
    guides = groom.Comb(head).guides()
    actor = Actor(head, guides, quality.strands)
    studio.light_and_camera(WALL)
    log.info("built after %.0f s", time.monotonic() - begun)
    if quality.texture:
        (out / "head.glb").write_bytes(_glb(head, guides, actor, quality))
        log.info("head.glb after %.0f s", time.monotonic() - begun)
    (out / "head.toml").write_text(_about(head), encoding="utf-8")
    if quality.portrait:
        studio.take_background(out / "background.png", quality.portrait)
        studio.take(out / "portrait.png", quality.portrait, quality.samples)
        for name in ("background.png", "portrait.png"):
            with Image.open(out / name) as picture:
                picture.convert("RGB").save(out / name, optimize=True)
    log.info("%s after %.0f s", out, time.monotonic() - begun)


def _glb(head: Head, guides: groom.Strands, actor: Actor, quality: Quality) -> bytes:
    rng = np.random.default_rng(head.person.seed + 7)
    skin, cloth = _skin_material(head, guides, actor, quality), _cloth_material(actor, quality)
    teeth = joined([teeth_mesh(head, upper, fine=False) for upper in (True, False)])
    eyes = joined([eye_mesh(head, side) for side in "lr"])
    eye = textures.jpeg(eye_picture(head.person, 256, rng), 93)
    mouth = [textures.png(p) for p in (textures.teeth_picture(), textures.tongue_picture(rng))]
    hair = textures.png(cards.hair_picture(head, 512))
    ribbons = 620 if head.person.hair.top > 0.1 or head.person.hair.curl else 850
    parts: Sequence[Part] = (
        Part("head", head.skin(), skin, normals_move=True),
        Part("eyes", eyes, Material(eye, roughness=0.12)),
        Part("teeth", teeth, Material(mouth[0], roughness=0.3, two_sided=True)),
        Part("tongue", tongue_mesh(head), Material(mouth[1], roughness=0.5, two_sided=True)),
        Part("clothes", actor.cloth_mesh(), cloth),
        Part(
            "brows",
            cards.brow_mesh(head, int(110 * head.person.brow)),
            _ribbon(cards.brow_picture(head), "BLEND"),
        ),
        Part("lashes", cards.lash_mesh(head), _ribbon(cards.lash_picture(head), "BLEND")),
        Part(
            "hair",
            cards.hair_mesh(head, guides, ribbons),
            Material(hair, roughness=0.55, alpha="MASK", two_sided=True),
        ),
    )
    return glb(parts, sorted(head.units), {"title": head.person.title, "licence": "CC0-1.0"})


def _ribbon(picture: Image.Image, alpha: str) -> Material:
    return Material(textures.png(picture), roughness=0.9, alpha=alpha, two_sided=True)


def _skin_material(head: Head, guides: groom.Strands, actor: Actor, quality: Quality) -> Material:
    fine_baker = studio.Baker(actor.skin, quality.texture // 2)
    subdivision = actor.skin.modifiers["subdivision"]
    with actor.without_hair():
        subdivision.show_render = subdivision.show_viewport = False
        colour = studio.Baker(actor.skin, quality.texture).colour()
        fine = textures.picture_of(fine_baker.normals())
        subdivision.show_render = subdivision.show_viewport = True
        at_rest = fine_baker.open_to_the_sky(0.06, quality.sky_samples)
        actor.pose(_OPENED)
        opened = fine_baker.open_to_the_sky(0.06, quality.sky_samples)
        actor.pose({})
    picture = textures.lit_skin(colour, np.maximum(at_rest, 0.92 * opened))
    textures.draw_hairs(picture, head, guides)
    return Material(textures.jpeg(picture, 93), textures.jpeg(fine, 88), roughness=0.55)


def _cloth_material(actor: Actor, quality: Quality) -> Material:
    baker = studio.Baker(actor.cloth, quality.texture // 2)
    with actor.without_hair():
        sky = baker.open_to_the_sky(0.10, quality.sky_samples)
        picture = textures.lit_cloth(baker.colour(), sky)
        fine = textures.picture_of(baker.normals())
    return Material(
        textures.jpeg(picture, 88), textures.jpeg(fine, 84), roughness=0.9, two_sided=True
    )


def _about(head: Head) -> str:
    """head.toml, in metres, Y up, the face looking along +Z."""
    person = head.person
    x, y, z = studio.TARGET
    neck = head.marks.neck
    lines = [
        f"name = {json.dumps(person.name)}",
        f"title = {json.dumps(person.title)}",
        f"seed = {person.seed}",
        'licence = "CC0-1.0"',
        "",
        "[framing]",
        f"position = {_numbers((x, z, -y + studio.DISTANCE))}",
        f"target = {_numbers((x, z, -y))}",
        f"vertical_fov_deg = {math.degrees(2 * math.atan(studio.FRAME / 2 / studio.DISTANCE)):.4f}",
        "",
        "[neck]",
        f"pivot = {_numbers((0.0, float(neck[2]) + 0.03, -float(neck[1])))}",
        "",
        "[light]",
        "# Textures hold the soft shade of folds alone: lamps are still to be drawn.",
        "baked = false",
        f"ambient = {studio.AMBIENT}",
    ]
    for lamp in studio.LAMPS:
        away = np.array(lamp.place) - np.array(studio.TARGET)
        distance = float(np.linalg.norm(away))
        direction = away / distance
        strength = lamp.watt / (math.pi**2 * distance**2)
        lines += [
            "[[light.lamps]]",
            f'name = "{lamp.name}"',
            f"direction = {_numbers((direction[0], direction[2], -direction[1]))}",
            f"strength = {strength:.3f}",
            f"angle_deg = {math.degrees(math.atan(lamp.size / 2 / distance)):.1f}",
            f"colour = {_numbers(lamp.colour)}",
        ]
    for what, whose, licence in _LICENCE:
        entry = {"what": what, "by": whose, "licence": licence}
        lines += ["[[made_of]]", *(f"{key} = {json.dumps(value)}" for key, value in entry.items())]
    lines += ["[parameters]", *_parameters(asdict(person))]
    return "\n".join(lines) + "\n"


def _numbers(values: Sequence[float]) -> str:
    return "[" + ", ".join(f"{float(value):.4f}" for value in values) + "]"


def _parameters(entry: dict[str, Any]) -> list[str]:
    skipped = ("name", "title", "seed")
    return [
        f"{key} = {_toml(value)}"
        for key, value in entry.items()
        if key not in skipped and value is not None
    ]


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        inside = (f"{json.dumps(k)} = {_toml(v)}" for k, v in value.items() if v is not None)
        return "{ " + ", ".join(inside) + " }"
    if isinstance(value, tuple | list):
        return "[" + ", ".join(_toml(v) for v in value) + "]"
    return json.dumps(value)
