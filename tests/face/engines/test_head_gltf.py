"""A head's GLB as many tools write it: drawn alike, or its maker is told what to do."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from services.face.draw.pose import FacePose
from services.face.engines.head.bundle import HeadBundle, read_bundle
from services.face.engines.head.model import model_of
from services.face.engines.head.renderer import HeadRenderer
from tests.face.engines.made_gltf import SKIN, Gltf, four_colours, hold_out_arms, painted
from tests.face.engines.made_head import bundle_files
from visavis.serving.errors import InvalidInputError

SIZE = 256
CLOTHES, HAIR = 4, 5
"""Parts of the made head, and their materials."""
SPEAKING = FacePose(yaw=0.2, jaw_open=0.5)
Change = Callable[[Gltf], None]
RGB = NDArray[np.uint8]


def bundle_of(*changes: Change) -> HeadBundle:
    gltf = Gltf()
    for change in changes:
        change(gltf)
    return read_bundle(bundle_files({"head.glb": gltf.packed()}))


def drawn(*changes: Change, pose: FacePose = SPEAKING) -> RGB:
    renderer = HeadRenderer(model_of(bundle_of(*changes), SIZE))
    return renderer.draw(pose)[..., :3].copy()


@cache
def plain() -> RGB:
    return drawn()


def differ(one: RGB, other: RGB) -> float:
    """Share of pixels that are another colour."""
    return float((np.abs(one.astype(int) - other.astype(int)).max(axis=-1) > 12).mean())


# ------------------------------------------------------------ the same head, written otherwise


def second_coordinates(gltf: Gltf) -> None:
    attributes = gltf.attributes()
    attributes["TEXCOORD_1"] = attributes["TEXCOORD_0"]
    count = gltf.told["accessors"][attributes["TEXCOORD_0"]]["count"]
    attributes["TEXCOORD_0"] = gltf.add(np.full((count, 2), 0.9))
    gltf.texture()["texCoord"] = 1


def moved_texture(gltf: Gltf) -> None:
    """Scaled first, then turned, then moved; by other coordinates than a reader without the
    extension has.
    """
    places = gltf.numbers(gltf.attributes()["TEXCOORD_0"])
    c, s = np.cos(0.5), np.sin(0.5)
    scaled = (places - (0.1, -0.3)) @ np.array([[c, s], [-s, c]])
    gltf.attributes()["TEXCOORD_1"] = gltf.add(scaled / (0.5, 2.0))
    how = {"offset": [0.1, -0.3], "rotation": 0.5, "scale": [0.5, 2.0], "texCoord": 1}
    gltf.texture()["extensions"] = {"KHR_texture_transform": how}
    gltf.told["extensionsRequired"] = ["KHR_texture_transform"]


def beside_the_first_texture(gltf: Gltf) -> None:
    """The neck lies in another of the textures that lie side by side, as a UDIM does."""
    places = gltf.numbers(gltf.attributes()["TEXCOORD_0"])
    neck = np.arange(len(places)) >= len(places) // 2
    gltf.attributes()["TEXCOORD_0"] = gltf.add(places + np.outer(neck, (7, -3)))


def mirrored_texture(gltf: Gltf) -> None:
    places = gltf.numbers(gltf.attributes()["TEXCOORD_0"])
    gltf.attributes()["TEXCOORD_0"] = gltf.add(places * (-1, 1) + (6, 0))
    gltf.texture()["index"] = gltf.picture(sampler={"wrapS": 33648})


def whole_numbers(gltf: Gltf) -> None:
    """As KHR_mesh_quantization has them: what they are scaled by stands in the node."""
    unit, middle = 2e-5, np.array((0.0, -0.05, 0.0))
    for primitive in gltf.told["meshes"][0]["primitives"]:
        points = gltf.numbers(primitive["attributes"]["POSITION"])
        primitive["attributes"]["POSITION"] = gltf.add(np.rint((points - middle) / unit), "i2")
        for target in primitive["targets"]:
            about = gltf.told["accessors"][target["POSITION"]]
            if "sparse" in about:
                view = gltf.told["bufferViews"][about["sparse"]["values"]["bufferView"]]
                count = about["sparse"]["count"] * 3
                ways = np.frombuffer(bytes(gltf.data), "<f4", count, view["byteOffset"]).reshape(
                    -1, 3
                )
                whole = np.rint(ways / unit).astype("<i2").tobytes()
                about["sparse"]["values"]["bufferView"] = gltf.view(whole)
            about["componentType"] = 5122
    places = gltf.numbers(gltf.attributes()["TEXCOORD_0"])
    gltf.attributes()["TEXCOORD_0"] = gltf.add(np.rint(places * 65535), "u2", normalized=True)
    gltf.told["nodes"][0] |= {"scale": [unit] * 3, "translation": middle.tolist()}
    gltf.told["extensionsRequired"] = ["KHR_mesh_quantization"]


def held_by_bones(gltf: Gltf) -> None:
    """The bones alone say where a mesh is: its own node does not, nor what that hangs from."""
    bone = np.array([[0, 0, 1, 0.3], [0, 1, 0, 1.2], [-1, 0, 0, 0], [0, 0, 0, 1]])
    twist = {"rotation": [0, np.sqrt(0.5), 0, np.sqrt(0.5)], "translation": [0.3, 1.2, 0.0]}
    bound = np.linalg.inv(bone)
    for primitive in gltf.told["meshes"][0]["primitives"]:
        count = gltf.told["accessors"][primitive["attributes"]["POSITION"]]["count"]
        shares = np.tile((153, 102, 0, 0), (count, 1))
        primitive["attributes"] |= {
            "JOINTS_0": gltf.add(np.tile((0, 1, 0, 0), (count, 1)), "u1"),
            "WEIGHTS_0": gltf.add(shares, "u1", normalized=True),
        }
    inverse = np.stack([bound.T.ravel(), np.linalg.inv(bone @ bone).T.ravel()])
    gltf.told["skins"] = [{"joints": [2, 3], "inverseBindMatrices": gltf.add(inverse)}]
    gltf.told["nodes"] = [
        {"children": [1], "scale": [0.01] * 3},
        {"mesh": 0, "skin": 0, "translation": [5.0, 0.0, 0.0]},
        {**twist, "children": [3]},
        {"matrix": bone.T.ravel().tolist()},
    ]
    gltf.told["scenes"] = [{"nodes": [0, 2]}]


def arms_held_out(gltf: Gltf) -> None:
    hold_out_arms(gltf, CLOTHES, 0.1)


def arms_that_hang(gltf: Gltf) -> None:
    hold_out_arms(gltf, CLOTHES, 0.7)


def of_many_points(gltf: Gltf) -> None:
    """More than a picture has columns, as a whole body has."""
    clothes = gltf.attributes(CLOTHES)
    for name, accessor in clothes.items():
        values = gltf.numbers(accessor)
        clothes[name] = gltf.add(np.concatenate([values, np.repeat(values[-1:], 40_000, axis=0)]))
    del gltf.told["meshes"][0]["primitives"][CLOTHES]["targets"]


def inside_out(gltf: Gltf) -> None:
    """Its node mirrors it."""
    for primitive in gltf.told["meshes"][0]["primitives"]:
        points = gltf.numbers(primitive["attributes"]["POSITION"])
        primitive["attributes"]["POSITION"] = gltf.add(points * (-1, 1, 1))
        corners = gltf.numbers(primitive["indices"]).reshape(-1, 3)[:, ::-1]
        primitive["indices"] = gltf.add(corners.reshape(-1, 1), "u4")
    gltf.told["nodes"][0]["scale"] = [-1, 1, 1]


def looking_the_other_way(gltf: Gltf) -> None:
    """As figures of VRM 0.x do."""
    for primitive in gltf.told["meshes"][0]["primitives"]:
        points = gltf.numbers(primitive["attributes"]["POSITION"])
        primitive["attributes"]["POSITION"] = gltf.add(points * (-1, 1, -1))
    gltf.told["extensions"] = {"VRM": {"specVersion": "0.0"}}


def built_by_a_weight(gltf: Gltf) -> None:
    """A morph target that is none of the 52, and is not at rest."""
    mesh = gltf.told["meshes"][0]
    mesh["extras"]["targetNames"].append("long neck")
    mesh["weights"] = [0.0] * 52 + [0.5]
    for primitive in mesh["primitives"]:
        points = gltf.numbers(primitive["attributes"]["POSITION"])
        way = np.where(points[:, 1:2] < -0.08, (0.0, 0.06, 0.0), 0.0)
        primitive["attributes"]["POSITION"] = gltf.add(points - way / 2)
        primitive["targets"].append({"POSITION": gltf.add(way)})


def all_in_the_description(gltf: Gltf) -> None:
    def uri(kind: str, content: bytes) -> str:
        return f"data:{kind};base64,{base64.b64encode(content).decode()}"

    gltf.told["images"][-1] = {"uri": uri("image/png", painted())}
    gltf.told["buffers"].append({"uri": uri("application/octet-stream", bytes(gltf.data))})
    for view in gltf.told["bufferViews"]:
        view["buffer"] = 1


def shapes_named_otherwise(gltf: Gltf) -> None:
    """As VRM's exporter and sculptors' tools name them."""
    mesh = gltf.told["meshes"][0]
    names = mesh.pop("extras")["targetNames"]
    short = [name.replace("Left", "_L").replace("Right", "_R") for name in names]
    for primitive in mesh["primitives"]:
        primitive["extras"] = {"targetNames": short}


def deep_pixels(gltf: Gltf) -> None:
    deep = four_colours().astype(np.uint16) * 257
    gltf.texture()["index"] = gltf.picture(painted(pixels=deep))


def webp(gltf: Gltf) -> None:
    gltf.texture()["index"] = gltf.picture(painted(".webp"))
    texture = gltf.told["textures"][-1]
    texture["extensions"] = {"EXT_texture_webp": {"source": texture.pop("source")}}
    gltf.told["extensionsRequired"] = ["EXT_texture_webp"]


def glossy(gltf: Gltf) -> None:
    """The old way to say what a surface is like."""
    material = gltf.material()
    looks = {"diffuseTexture": material["pbrMetallicRoughness"].pop("baseColorTexture")}
    material["extensions"] = {"KHR_materials_pbrSpecularGlossiness": looks}


def solid_but_not_called_so(gltf: Gltf) -> None:
    """Its picture is clear where no triangle lies."""
    pixels = np.dstack([four_colours(), np.full((64, 64), 255, np.uint8)])
    pixels[:, 48:, 3] = 0
    gltf.texture()["index"] = gltf.picture(painted(pixels=pixels))
    gltf.material()["alphaMode"] = "BLEND"
    gltf.material(1).update({"alphaMode": "MASK", "alphaCutoff": 0.9})


def white_vertices(gltf: Gltf) -> None:
    colours(gltf, np.full((points_of(gltf), 4), 255), "u1", normalized=True)


def hidden_part(gltf: Gltf) -> None:
    """A second copy of all that is not shown."""
    gltf.told["nodes"].append(
        {"mesh": 0, "scale": [1.5] * 3, "extensions": {"KHR_node_visibility": {"visible": False}}}
    )
    gltf.told["scenes"][0]["nodes"].append(1)


def points_of(gltf: Gltf, part: int = SKIN) -> int:
    return int(gltf.told["accessors"][gltf.attributes(part)["POSITION"]]["count"])


def colours(gltf: Gltf, values: NDArray[Any], dtype: str = "f4", **more: Any) -> None:
    gltf.attributes()["COLOR_0"] = gltf.add(values, dtype, **more)


@pytest.mark.parametrize(
    "change",
    [
        second_coordinates,
        moved_texture,
        beside_the_first_texture,
        mirrored_texture,
        whole_numbers,
        held_by_bones,
        arms_held_out,
        arms_that_hang,
        of_many_points,
        inside_out,
        looking_the_other_way,
        built_by_a_weight,
        all_in_the_description,
        shapes_named_otherwise,
        deep_pixels,
        webp,
        glossy,
        solid_but_not_called_so,
        white_vertices,
        hidden_part,
    ],
)
def test_it_looks_the_same_however_it_is_written(change: Change) -> None:
    assert differ(drawn(change), plain()) < 0.002


def test_what_has_no_clear_texel_is_solid_however_often_it_is_shown() -> None:
    def cut_out_and_tiled(gltf: Gltf) -> None:
        places = gltf.numbers(gltf.attributes()["TEXCOORD_0"])
        gltf.attributes()["TEXCOORD_0"] = gltf.add(places * 1.2)
        gltf.material()["alphaMode"] = "MASK"

    assert not next(part for part in bundle_of(cut_out_and_tiled).parts).blends


def test_of_a_texture_only_the_detail_that_is_shown_is_kept() -> None:
    model = model_of(bundle_of(), SIZE)
    shown = {tuple(levels) for levels in model.texture_of.tolist()}
    assert len(model.texels) == sum(width * height for _, width, height in shown)


def test_what_is_worn_on_a_head_is_no_skin() -> None:
    def hat_and_glasses(gltf: Gltf) -> None:
        gltf.material(2)["name"], gltf.material(3)["name"] = "Headwear", "eye_wear"

    worn, other = (model_of(bundle_of(*it), SIZE) for it in ([hat_and_glasses], []))
    assert worn.skin == other.skin


# ------------------------------------------------------------ colours


def test_colours_of_vertices_are_multiplied_with_the_texture() -> None:
    """Red on one side, blue on the other, in linear light; hardly any light in between."""

    def sides(gltf: Gltf) -> None:
        left = gltf.numbers(gltf.attributes()["POSITION"])[:, :1] < 0
        half = 0.5**2.2
        colours(gltf, np.where(left, (1.0, half, 0.0), (0.0, half, 1.0)))

    at_rest = FacePose()
    before, after = drawn(pose=at_rest).astype(int), drawn(sides, pose=at_rest).astype(int)
    cheeks = slice(135, 155)
    for side, (red, blue) in ((slice(95, 115), (1, 0)), (slice(141, 161), (0, 1))):
        wanted = before[cheeks, side] * (red, 0.5, blue)
        assert np.abs(after[cheeks, side] - wanted).max() < 6
    below = slice(-12, None)
    assert (before[below] == after[below]).all(), "clothes have no such colours"


def test_colours_that_all_vertices_share_cost_nothing_more() -> None:
    def shared(gltf: Gltf) -> None:
        gltf.material()["alphaMode"] = "BLEND"
        colours(gltf, np.tile((0.2, 0.4, 0.6, 0.5), (points_of(gltf), 1)))

    def factor(gltf: Gltf) -> None:
        gltf.material()["alphaMode"] = "BLEND"
        gltf.surface()["baseColorFactor"] = [0.2, 0.4, 0.6, 0.5]

    assert (drawn(shared) == drawn(factor)).all()
    assert not len(model_of(bundle_of(shared), SIZE).tints)


def test_what_glows_and_has_no_other_colour_is_as_bright_as_its_light() -> None:
    def lamp(gltf: Gltf) -> None:
        gltf.material().update({"emissiveFactor": [1, 1, 1], "emissiveTexture": gltf.texture()})
        gltf.material()["pbrMetallicRoughness"] = {"baseColorFactor": [0, 0, 0, 1]}

    def unlit(gltf: Gltf) -> None:
        gltf.material()["extensions"] = {"KHR_materials_unlit": {}}

    assert (drawn(lamp) == drawn(unlit)).all()


def test_what_is_unlit_is_the_same_wherever_it_looks() -> None:
    def unlit(gltf: Gltf) -> None:
        gltf.material()["pbrMetallicRoughness"] = {"baseColorFactor": [0.5**2.2, 0.2**2.2, 1, 1]}
        gltf.material()["extensions"] = {"KHR_materials_unlit": {}}

    for yaw in (0.0, 0.5):
        skin = drawn(unlit, pose=FacePose(yaw=yaw))[145:175, 105:145].astype(int)
        assert np.abs(skin - (128, 51, 255)).max() <= 2


def test_glass_shows_what_is_behind_it_in_its_colour() -> None:
    def glass(colour: float) -> Change:
        def change(gltf: Gltf) -> None:
            gltf.material(HAIR)["pbrMetallicRoughness"] = {"baseColorFactor": [colour] * 3 + [1]}
            gltf.material(HAIR)["extensions"] = {
                "KHR_materials_transmission": {"transmissionFactor": 1.0}
            }

        return change

    def bald(gltf: Gltf) -> None:
        gltf.told["meshes"][0]["primitives"].pop(HAIR)

    without, dark = drawn(bald).astype(float), drawn(glass(0.5**2.2)).astype(float)
    assert differ(drawn(glass(1.0)), drawn(bald)) < 0.01
    crown = (slice(75, 95), slice(100, 150))
    assert np.abs(dark[crown] / without[crown] - 0.5).mean() < 0.05


@pytest.mark.parametrize("cut", [0.05, 0.5, 0.95])
def test_what_is_cut_out_is_whole_on_one_side_and_nothing_on_the_other(cut: float) -> None:
    """Clear hair is not drawn and solid hair is, wherever between them the cut is."""

    def half(gltf: Gltf) -> None:
        pixels = np.full((8, 8, 4), 255, np.uint8)
        pixels[:, :4, 3] = 0
        x = gltf.numbers(gltf.attributes(HAIR)["POSITION"])[:, :1]
        gltf.attributes(HAIR)["TEXCOORD_0"] = gltf.add(np.where(x < 0, 0.2, 0.8) * (1, 1))
        texture = {"index": gltf.picture(painted(pixels=pixels))}
        gltf.material(HAIR)["pbrMetallicRoughness"] = {"baseColorTexture": texture}
        gltf.material(HAIR).update({"alphaMode": "MASK", "alphaCutoff": cut})

    def bald(gltf: Gltf) -> None:
        gltf.told["meshes"][0]["primitives"].pop(HAIR)

    def white(gltf: Gltf) -> None:
        gltf.material(HAIR)["pbrMetallicRoughness"] = {"baseColorFactor": [1, 1, 1, 1]}

    at_rest = FacePose()
    found = drawn(half, pose=at_rest)
    for wanted, side in ((bald, slice(None, 120)), (white, slice(136, None))):
        assert differ(found[:, side], drawn(wanted, pose=at_rest)[:, side]) < 0.01


def test_squares_that_are_to_be_seen_are_not_mixed() -> None:
    def coarse(sampler: dict[str, int]) -> Change:
        def change(gltf: Gltf) -> None:
            two = np.array([[(0, 0, 255), (255, 0, 0)] * 4] * 8, np.uint8)
            gltf.texture()["index"] = gltf.picture(painted(pixels=two), sampler)

        return change

    def purple(picture: RGB) -> int:
        red, _, blue = np.moveaxis(picture[140:175, 95:160].astype(int), -1, 0)
        return int(((np.minimum(red, blue) > 50) & (np.abs(red - blue) < 60)).sum())

    mixed, squares = drawn(coarse({})), drawn(coarse({"magFilter": 9728}))
    assert purple(squares) < 0.3 * purple(mixed)


@pytest.mark.parametrize("edge", [False, True])
def test_an_edge_is_as_hard_as_its_normals_say(edge: bool) -> None:
    """Two walls that meet at a right angle, lit from the side: each is of one brightness, or a
    round corner is not.
    """
    wall = np.array([(-0.2, -0.3, -0.2), (0.0, -0.3, 0.0), (0.0, -0.15, 0.0), (-0.2, -0.15, -0.2)])
    both = np.concatenate([wall, wall[[1, 0, 3, 2]] * (-1, 1, 1)])
    upright = np.repeat([(-1, 0, 1), (1, 0, 1)], 4, axis=0) / np.sqrt(2)

    def roof(gltf: Gltf) -> None:
        primitive = gltf.told["meshes"][0]["primitives"][CLOTHES]
        corners = np.array([0, 1, 2, 0, 2, 3])
        primitive["attributes"] = {"POSITION": gltf.add(both)}
        primitive["indices"] = gltf.add(np.r_[corners, corners + 4][:, None], "u2")
        primitive["targets"] = []
        gltf.material(CLOTHES)["pbrMetallicRoughness"] = {"baseColorFactor": [0.5, 0.5, 0.5, 1]}
        if edge:
            primitive["attributes"]["NORMAL"] = gltf.add(upright)

    gltf = Gltf()
    roof(gltf)
    files = bundle_files({"head.glb": gltf.packed()})
    files["head.toml"] = files["head.toml"].replace(b"baked = true", b"baked = false")
    shown = HeadRenderer(model_of(read_bundle(files), SIZE)).draw(FacePose())[..., 1].astype(int)
    left, right = shown[230, 70:125], shown[230, 131:186]
    assert (np.ptp(left) < 4 and np.ptp(right) < 4 and abs(left[0] - right[0]) > 20) == edge


# ------------------------------------------------------------ what is told


def in_material(**more: Any) -> Change:
    return lambda gltf: gltf.material().update(more)


def fading(gltf: Gltf) -> None:
    gltf.material()["alphaMode"] = "BLEND"
    count = points_of(gltf)
    colours(gltf, np.column_stack([np.ones((count, 3)), np.linspace(0, 1, count)]))


def cartoon(gltf: Gltf) -> None:
    """Of which colours of vertices are to be ignored."""
    gltf.material()["extensions"] = {"VRMC_materials_mtoon": {"specVersion": "1.0"}}
    colours(gltf, np.random.default_rng(1).random((points_of(gltf), 3)))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (in_material(extensions={"KHR_materials_clearcoat": {}}), "'head': KHR_materials_clearc"),
        (in_material(emissiveFactor=[0.5, 0, 0]), "'head': its own light .* is not drawn"),
        (fading, "'head': how clear its vertices are"),
        (cartoon, "'head': VRMC_materials_mtoon is not drawn"),
    ],
)
def test_what_is_left_out_is_told_by_name(change: Change, told: str) -> None:
    bundle = bundle_of(change)
    assert len(bundle.left_out) == 1
    assert re.search(told, bundle.left_out[0])
    assert all(part.colours is None for part in bundle.parts)


# ------------------------------------------------------------ what is refused


def squeezed(gltf: Gltf) -> None:
    gltf.told["buffers"].append({"byteLength": 99})
    about = gltf.told["bufferViews"][
        gltf.told["accessors"][gltf.attributes()["POSITION"]]["bufferView"]
    ]
    about |= {"buffer": 1, "extensions": {"EXT_meshopt_compression": {"buffer": 0}}}


def draco(gltf: Gltf) -> None:
    primitive = gltf.told["meshes"][0]["primitives"][SKIN]
    primitive["extensions"] = {"KHR_draco_mesh_compression": {"bufferView": 0}}
    gltf.told["accessors"][primitive["attributes"]["POSITION"]].pop("bufferView")


def ktx(gltf: Gltf) -> None:
    texture = gltf.told["textures"][gltf.texture()["index"]]
    texture["extensions"] = {"KHR_texture_basisu": {"source": texture.pop("source")}}


def picture_outside(gltf: Gltf) -> None:
    gltf.told["images"][-1] = {"uri": "skin.png"}


def buffer_outside(gltf: Gltf) -> None:
    gltf.told["buffers"][0]["uri"] = "head.bin"


def places_missing(gltf: Gltf) -> None:
    gltf.texture()["texCoord"] = 2


def huge_picture(gltf: Gltf) -> None:
    gltf.texture()["index"] = gltf.picture(painted(pixels=np.zeros((1, 4096, 3), np.uint8)))


def wallpaper(gltf: Gltf) -> None:
    places = gltf.numbers(gltf.attributes()["TEXCOORD_0"])
    gltf.attributes()["TEXCOORD_0"] = gltf.add(places * 500)


def strips(gltf: Gltf) -> None:
    gltf.told["meshes"][0]["primitives"][SKIN]["mode"] = 5


def circle(gltf: Gltf) -> None:
    gltf.told["nodes"] += [{"children": [2]}, {"children": [1]}]
    gltf.told["scenes"][0]["nodes"].append(1)


def unheld(gltf: Gltf) -> None:
    held_by_bones(gltf)
    count = points_of(gltf)
    gltf.attributes()["WEIGHTS_0"] = gltf.add(np.zeros((count, 4)))


def unknown(gltf: Gltf) -> None:
    gltf.told["extensionsRequired"] = ["KHR_materials_unlit", "ACME_voxels"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (squeezed, r"compressed \(EXT_meshopt_compression\).* `npx @gltf-transform/cli copy"),
        (draco, r"compressed \(KHR_draco_mesh_compression\).* `npx @gltf-transform/cli copy"),
        (ktx, "'head': its texture is of the kind KTX2.*save the GLB with textures as PNG"),
        (picture_outside, "refers to another file, 'skin.png': save it as one .glb"),
        (buffer_outside, "refers to another file, 'head.bin': save it as one .glb"),
        (places_missing, "'head': its texture lies by TEXCOORD_2, which its mesh lacks"),
        (huge_picture, "'head': its texture has 4096 x 1 pixels, allowed are 2048 x 2048"),
        (wallpaper, "'head': a triangle shows its texture more than 4 times"),
        (strips, "only triangles are drawn, so save it with these alone"),
        (circle, "its nodes go round in a circle"),
        (unheld, "a point of a skin that no bone holds"),
        (unknown, "needs ACME_voxels, which is not read"),
    ],
)
def test_what_cannot_be_drawn_is_refused_with_what_to_do(change: Change, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        bundle_of(change)
