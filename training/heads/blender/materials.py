"""Skin, eyes, teeth, hair and cloth for Cycles. (Imports bpy: GPL-3.0, see the folder.)"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import bpy

from training.heads.blender.nodes import Nodes
from training.heads.groom import shade_of
from training.heads.people import Colour, Person


def skin(person: Person, lips_mask: Path) -> Any:
    n = Nodes("skin")
    at = n.attribute("rest", "Vector")
    mask = bpy.data.images.load(str(lips_mask), check_existing=True)
    mask.colorspace_settings.name = "Non-Color"
    lip = n.node(
        "ShaderNodeTexImage", n.attribute("MakeHuman", "Vector"), image=mask, interpolation="Cubic"
    )
    lip = n.times(n.ramp(lip, 0.15, 0.85), n.attribute("face"))
    pores = n.node("ShaderNodeTexVoronoi", Vector=at, Scale=1150.0, feature="F1")
    height = n.plus(n.times(pores, 0.55), n.times(n.noise(at, 420, 4, 0.65), 0.6))
    creases = n.noise(n.scaled(at, (1.0, 0.35, 0.35)), 560, 2)
    height = n.plus(height, n.times(n.times(lip, creases), 1.6))
    if person.wrinkles:
        height = n.plus(height, n.times(_lines(n, at), -1.6 * person.wrinkles))
    rough = n.plus(n.times(n.noise(at, 90, 3), 0.16), 0.40)
    for zone, less in ((n.attribute("oily"), 0.07), (lip, 0.10), (n.attribute("inside"), 0.2)):
        rough = n.maths("SUBTRACT", rough, n.times(zone, less))
    return n.finish(
        n.principled(
            Base_Color=_skin_colour(n, person, at, lip),
            Roughness=rough,
            Normal=n.bump(height, 0.5, 0.0006),
            Subsurface_Weight=1.0,
            Subsurface_Radius=(1.0, 0.36, 0.20),
            Subsurface_Scale=0.0042 if person.dark else 0.0062,
            IOR=1.42,
            Coat_Weight=0.05,
            Coat_Roughness=0.3,
        )
    )


def _skin_colour(n: Nodes, person: Person, at: Any, lip: Any) -> Any:
    s = person.skin
    red = _tinted(s, (1.0, 0.75, 0.7) if person.dark else (0.98, 0.62, 0.56))
    pale = _tinted(s, (1.06, 1.10, 1.06))
    colour = n.mix(n.ramp(n.noise(at, 38, 3, 0.6), 0.35, 0.68), s, pale)
    blotches = n.times(n.ramp(n.noise(at, 130, 3, 0.65), 0.48, 0.72), 0.30)
    colour = n.mix(blotches, colour, red)
    colour = n.mix(n.times(n.attribute("flush"), 0.55), colour, red)
    colour = n.mix(n.times(n.attribute("lid"), 0.40), colour, _tinted(s, (0.74, 0.60, 0.62)))
    if person.freckles:
        spots = n.ramp(n.noise(at, 520, 1.0), 0.64, 0.73)
        spots = n.times(spots, n.ramp(n.noise(at, 60, 1.0), 0.4, 0.7))
        spots = n.times(n.times(spots, n.attribute("freckle")), person.freckles)
        colour = n.mix(spots, colour, _tinted(s, (0.62, 0.42, 0.34)))
    if person.wrinkles:
        colour = n.mix(n.times(_lines(n, at), 0.35 * person.wrinkles), colour, red)
        spots = n.times(n.ramp(n.noise(at, 120, 1.0), 0.66, 0.74), 0.35 * person.wrinkles)
        colour = n.mix(spots, colour, _tinted(s, (0.72, 0.56, 0.48)))
    if person.beard:
        dots = n.ramp(n.noise(at, 1300, 0.0), 0.50, 0.62)
        grown = n.times(n.plus(0.45, n.times(dots, 0.55)), n.attribute("beard"))
        shade = tuple(
            0.36 * a + 0.25 * float(b) for a, b in zip(s, shade_of(person.hair), strict=True)
        )
        colour = n.mix(n.times(grown, person.beard), colour, shade)
    creased = n.noise(n.scaled(at, (1.0, 0.4, 0.4)), 420, 2)
    lips = n.mix(n.ramp(creased, 0.35, 0.7), person.lips, _tinted(person.lips, (0.8, 0.8, 0.8)))
    colour = n.mix(n.times(lip, 0.85), colour, lips)
    # Below the hair the scalp is darker, so that gaps between strands do not glare.
    under = tuple(
        0.30 * float(c) + 0.012 * k for c, k in zip(shade_of(person.hair), s, strict=True)
    )
    colour = n.mix(n.times(n.attribute("scalp"), 0.97), colour, under)
    colour = n.mix(n.attribute("inside"), colour, (0.26, 0.055, 0.05))
    colour = n.mix(n.attribute("deep"), colour, (0.035, 0.008, 0.008))
    return n.mix(n.attribute("nostril"), colour, _tinted(red, (0.22, 0.22, 0.22)))


def _lines(n: Nodes, at: Any) -> Any:
    """Furrows across the forehead and about the eyes."""
    warped = n.noise(n.scaled(at, (0.22, 0.22, 1.0)), 70, 1, 0.4)
    furrow = n.maths("ABSOLUTE", n.maths("SUBTRACT", warped, 0.5))
    return n.times(n.ramp(furrow, 0.07, 0.0), n.attribute("lines"))


def _tinted(colour: Colour, by: Colour) -> Colour:
    r, g, b = (min(1.0, c * k) for c, k in zip(colour, by, strict=True))
    return r, g, b


def eye(person: Person) -> Any:
    """Reads "rho", the distance from the axis in iris radii, and "dir", constant along a radius."""
    n = Nodes("eye")
    rho, direction = n.attribute("rho"), n.attribute("dir", "Vector")
    outer, inner = person.iris
    coarse = n.noise(n.scaled(direction, (9.0, 9.0, 9.0)), 1.0, 4, 0.7)
    fine = n.noise(n.scaled(direction, (26.0, 26.0, 26.0)), 1.0, 2, 0.6)
    fibres = n.ramp(n.plus(n.times(coarse, 0.6), n.times(fine, 0.4)), 0.38, 0.62)
    iris = n.mix(fibres, outer, inner)
    bright = (1.2 * inner[0] + 0.02, 1.2 * inner[1] + 0.02, 1.2 * inner[2] + 0.02)
    iris = n.mix(n.ramp(rho, 0.62, 0.40), iris, bright)
    iris = n.mix(n.ramp(rho, 0.74, 0.98), iris, _tinted(outer, (0.25, 0.25, 0.25)))
    iris = n.mix(n.ramp(rho, 0.40, 0.355), iris, (0.002, 0.002, 0.002))
    white = n.mix(n.ramp(rho, 1.1, 2.4), (0.70, 0.67, 0.64), (0.60, 0.46, 0.42))
    veins = n.noise(n.attribute("rest", "Vector"), 260, 3, 0.6)
    veins = n.ramp(n.maths("ABSOLUTE", n.maths("SUBTRACT", veins, 0.5)), 0.025, 0.0)
    veins = n.times(n.times(veins, n.ramp(rho, 1.35, 2.1)), 0.35)
    white = n.mix(veins, white, (0.50, 0.16, 0.13))
    return n.finish(
        n.principled(
            Base_Color=n.mix(n.ramp(rho, 0.94, 1.08), iris, white),
            Roughness=n.ramp(rho, 0.9, 1.1, (0.5, 0.18)),
            # The cornea mirrors, not the iris.
            Specular_IOR_Level=n.ramp(rho, 0.95, 1.1, (0.03, 0.5)),
            Coat_Weight=n.ramp(rho, 0.95, 1.1, (0.0, 0.8)),
            Coat_Roughness=0.04,
        )
    )


def cornea() -> Any:
    """Mirrors by Fresnel over full transparency: a catchlight without refractive noise."""
    n = Nodes("cornea")
    mirror = n.node("ShaderNodeFresnel", IOR=1.38)
    shadow = n.node("ShaderNodeLightPath", out="Is Shadow Ray")
    share = n.times(mirror, n.maths("SUBTRACT", 1.0, shadow))
    glossy = n.node("ShaderNodeBsdfGlossy", Roughness=0.02)
    return n.finish(
        n.node("ShaderNodeMixShader", share, n.node("ShaderNodeBsdfTransparent"), glossy)
    )


def teeth() -> Any:
    n = Nodes("teeth")
    at = n.attribute("rest", "Vector")
    gum = n.mix(n.noise(at, 300, 2), (0.42, 0.12, 0.11), (0.52, 0.19, 0.17))
    enamel = (0.74, 0.70, 0.62)
    return n.finish(
        n.principled(
            Base_Color=n.mix(n.attribute("gum"), enamel, gum),
            Roughness=0.22,
            Subsurface_Weight=0.5,
            Subsurface_Radius=(1, 0.6, 0.4),
            Subsurface_Scale=0.002,
            Coat_Weight=0.3,
        )
    )


def tongue() -> Any:
    n = Nodes("tongue")
    at = n.attribute("rest", "Vector")
    return n.finish(
        n.principled(
            Base_Color=n.mix(n.noise(at, 220, 3), (0.40, 0.12, 0.11), (0.52, 0.20, 0.18)),
            Roughness=0.35,
            Subsurface_Weight=0.7,
            Subsurface_Radius=(1, 0.4, 0.3),
            Subsurface_Scale=0.004,
            Normal=n.bump(n.noise(at, 1400, 2), 0.4, 0.0005),
        )
    )


def hair(colour: Colour, name: str) -> Any:
    """Chiang and others 2016, by the colour of many hairs together."""
    n = Nodes(name)
    shader = n.tree.nodes.new("ShaderNodeBsdfHairPrincipled")
    shader.model, shader.parametrization = "CHIANG", "COLOR"
    given = {"Color": (*colour, 1), "Roughness": 0.34, "Radial Roughness": 0.42, "IOR": 1.55}
    given["Random Roughness"] = 0.2
    for key, value in given.items():
        shader.inputs[key].default_value = value
    return n.finish(shader.outputs[0])


def cloth(colour: Colour, axis: float) -> Any:
    """Fine knit; where "collar" is 1 it is ribbed around the neck, which lies at y = axis."""
    n = Nodes("cloth")
    at = n.attribute("rest", "Vector")
    split = n.tree.nodes.new("ShaderNodeSeparateXYZ")
    n.link(at, split.inputs[0])
    x, y, z = split.outputs
    angle = n.maths("ARCTAN2", x, n.maths("SUBTRACT", y, axis))
    rib = n.times(n.maths("SINE", n.times(angle, 120.0)), n.attribute("collar"))
    rows, columns = (n.maths("SINE", n.times(v, 2500.0)) for v in (z, x))
    knit = n.times(n.times(rows, columns), 0.35)
    height = n.plus(rib, n.plus(knit, n.noise(at, 1500, 2)))
    shade = n.mix(n.noise(at, 700, 3), _tinted(colour, (0.8,) * 3), _tinted(colour, (1.15,) * 3))
    return n.finish(
        n.principled(
            Base_Color=shade,
            Roughness=0.85,
            Sheen_Weight=0.25,
            Specular_IOR_Level=0.25,
            Normal=n.bump(height, 0.5, 0.0008),
        )
    )
