"""Portraits: what is read, what is refused, and with which words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from services.face.avatar import topology
from services.face.avatar.making.decoding import (
    MAX_IMAGE_BYTES,
    Decoder,
    Reading,
    check_picture,
    image_size,
    jpeg_scans,
)
from services.face.avatar.making.landmarks import Landmarks
from services.face.avatar.making.maker import shows_inside
from services.face.avatar.making.portrait import (
    PortraitStudio,
    check_face,
    check_seen,
    crop_head,
)
from services.face.avatar.mesh import head_frame
from tests.face.portraits import (
    astronaut,
    encoded,
    jpeg_lying_on_its_side,
    jpeg_of_scans,
    png_of_declared_size,
    png_to_be_turned,
    portrait,
    scaled,
)
from visavis.serving.errors import EngineLoadError, InvalidInputError


@pytest.fixture(scope="module")
def studio(bundle: Callable[[str], Path]) -> PortraitStudio:
    return PortraitStudio(bundle("face-landmarks"))


def test_header_tells_the_size_of_every_format() -> None:
    picture = np.zeros((37, 91, 3), np.uint8)
    for suffix in (".png", ".jpg", ".webp"):
        assert image_size(encoded(picture, suffix)) == (91, 37)
    _, lossless = cv2.imencode(".webp", picture, [cv2.IMWRITE_WEBP_QUALITY, 101])
    assert image_size(lossless.tobytes()) == (91, 37)


def test_cut_headers_never_raise_and_tell_none() -> None:
    for none in (b"", b"GIF89a" + bytes(50), b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n"):
        assert image_size(none) is None
    for suffix in (".png", ".jpg", ".webp"):
        whole = encoded(np.zeros((20, 20, 3), np.uint8), suffix)
        for length in range(0, min(len(whole), 400)):
            image_size(whole[:length])


def test_scans_are_counted() -> None:
    plain, progressive = encoded(portrait(), ".jpg"), jpeg_of_scans(portrait(), 100)
    assert jpeg_scans(plain) == 1 and jpeg_scans(progressive) == 100
    assert jpeg_scans(encoded(portrait())) == 0
    for length in range(len(plain) - 700, len(plain)):
        assert jpeg_scans(plain[:length]) == 1


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"hello", "not a picture"),
        (bytes(MAX_IMAGE_BYTES + 1), r"20\.0 MB, allowed are 20 MB"),
        (png_of_declared_size(60_000, 60_000), "60000 x 60000 pixels, allowed are 50"),
        (jpeg_of_scans(np.full((512, 512, 3), 120, np.uint8), 1500), "1500 scans, allowed are 64"),
    ],
)
def test_what_would_cost_too_much_is_refused_undecoded(content: bytes, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        check_picture(content)


async def test_damaged_picture_is_named_so() -> None:
    with pytest.raises(InvalidInputError, match="damaged"):
        await Decoder(10).decode(png_of_declared_size(640, 480)[:40], Reading.COLOUR)


async def test_a_picture_that_takes_too_long_is_given_up() -> None:
    # Less than any processor takes to begin.
    with pytest.raises(InvalidInputError, match=r"more than 0\.001 s .* save it anew"):
        await Decoder(0.001).decode(encoded(portrait()), Reading.COLOUR)


AS_ON_MACOS = """
import resource

setrlimit = resource.setrlimit

def refuses(which, limits):
    if which == resource.RLIMIT_AS:
        raise ValueError("current limit exceeds maximum limit")
    setrlimit(which, limits)

resource.setrlimit = refuses
"""


async def test_a_system_that_bounds_no_memory_reads_pictures(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(AS_ON_MACOS)
    places = f"{tmp_path}:{Path(__file__).parents[3]}"
    monkeypatch.setenv("PYTHONPATH", places)
    read = await Decoder(10).decode(encoded(portrait()), Reading.COLOUR)
    assert read.ndim == 3


async def test_exif_orientation_is_respected() -> None:
    upright = portrait()
    read = await Decoder(10).decode(jpeg_lying_on_its_side(upright), Reading.COLOUR)
    assert np.abs(read[..., ::-1].astype(int) - upright).mean() < 4


async def test_grey_pictures_are_read_in_colour() -> None:
    _, content = cv2.imencode(".png", np.full((20, 30), 9, np.uint8))
    read = await Decoder(10).decode(content.tobytes(), Reading.COLOUR)
    assert read.shape == (20, 30, 3) and (read == 9).all()


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
async def test_what_was_erased_of_a_picture_does_not_come_back(
    dtype: type[np.unsignedinteger],
) -> None:
    most = np.iinfo(dtype).max
    pixels = np.full((20, 30, 4), most // 5, dtype)
    pixels[..., 3] = most
    pixels[:, 20:, 3] = 0
    _, content = cv2.imencode(".png", pixels)
    read = await Decoder(10).decode(content.tobytes(), Reading.COLOUR)
    assert (read[:, :20] == 51).all() and (read[:, 20:] == 255).all()


@pytest.mark.parametrize(("orientation", "height"), [(1, 20), (6, 20), (7, 30)])
async def test_what_was_erased_is_where_the_picture_was_turned_to(
    orientation: int, height: int
) -> None:
    """Turned and mirrored; of a square, too, whose shape does not tell how."""
    pixels = np.random.default_rng(0).integers(0, 200, (height, 30, 4), np.uint8)
    pixels[..., 3] = 255
    pixels[:5, :9, 3] = 0
    read = await Decoder(10).decode(png_to_be_turned(pixels, orientation), Reading.COLOUR)
    # As whoever looks at it sees it, which the other tests of a decoder hold.
    content = np.frombuffer(png_to_be_turned(pixels[..., :3], orientation), np.uint8)
    turned = cv2.imdecode(content, cv2.IMREAD_COLOR)
    assert turned is not None
    erased = (read == 255).all(axis=2)
    assert erased.sum() == 45 and (read[~erased] == turned[~erased]).all()
    corner = pixels[:5, :9, :3].reshape(-1, 3)
    assert {*map(tuple, turned[erased].tolist())} == {*map(tuple, corner.tolist())}


def test_portrait_is_measured(studio: PortraitStudio) -> None:
    taken = studio.take(portrait())
    points = taken.landmarks.points
    assert taken.rgb.shape == (512, 512, 3) and points.shape == (468, 3)
    assert taken.landmarks.presence > 0.9
    # Right of the person is left in the picture; brows lie above eyes, eyes above the mouth.
    assert points[topology.RIGHT_EYE_OUTER, 0] < points[topology.LEFT_EYE_OUTER, 0]
    assert points[105, 1] < points[159, 1] < points[13, 1] < points[topology.CHIN, 1]
    right, left = taken.landmarks.iris
    assert points[33, 0] < right[0] < points[133, 0] and points[362, 0] < left[0] < points[263, 0]
    assert taken.person[300, 256] > 0.95 and taken.person[10, 10] < 0.05


def test_no_face(studio: PortraitStudio) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (400, 400, 3)).astype(np.uint8)
    with pytest.raises(InvalidInputError, match="no face found"):
        studio.take(noise)


def test_several_faces(studio: PortraitStudio) -> None:
    with pytest.raises(InvalidInputError, match="2 faces of similar size"):
        studio.take(np.hstack([portrait(), portrait()]))


def test_a_far_smaller_second_face_does_not_matter(studio: PortraitStudio) -> None:
    small = scaled(portrait(), 0.35)
    assert studio.take(np.hstack([portrait(), small])).landmarks.presence > 0.9


def test_small_face_is_refused_with_both_sizes(studio: PortraitStudio) -> None:
    with pytest.raises(InvalidInputError, match=r"too small: \d+ pixels .* 80 are needed"):
        studio.take(scaled(portrait(), 0.4))


def test_face_cut_off_at_the_edge(studio: PortraitStudio) -> None:
    half = np.ascontiguousarray(portrait()[:, 235:])
    with pytest.raises(InvalidInputError, match=r"cut off at the edge|no face found|turned"):
        studio.take(half)
    with pytest.raises(InvalidInputError, match="cut off at the edge"):
        check_face(_facing(0, 0, 0), 400, 800)


def _facing(yaw: float, pitch: float, roll: float) -> Landmarks:
    """A head as four points, turned."""
    points = np.zeros((468, 3))
    points[topology.LEFT_EAR], points[topology.RIGHT_EAR] = (100, 0, 0), (-100, 0, 0)
    points[topology.CHIN], points[topology.FOREHEAD] = (0, 130, 0), (0, -130, 0)
    points[topology.BROW_CENTRE] = (0, -60, 0)
    about_y = [[np.cos(yaw), 0, -np.sin(yaw)], [0, 1, 0], [np.sin(yaw), 0, np.cos(yaw)]]
    about_x = [[1, 0, 0], [0, np.cos(pitch), -np.sin(pitch)], [0, np.sin(pitch), np.cos(pitch)]]
    about_z = [[np.cos(roll), -np.sin(roll), 0], [np.sin(roll), np.cos(roll), 0], [0, 0, 1]]
    turned = points @ np.array(about_y).T @ np.array(about_x).T @ np.array(about_z).T
    turned[:, :2] += 400
    return Landmarks(turned.astype(np.float32), np.zeros((2, 3), np.float32), 1.0)


@pytest.mark.parametrize(
    ("angles", "word"),
    [((0.7, 0, 0), "sideways"), ((0, 0.7, 0), "up or down"), ((0, 0, 0.8), "over")],
)
def test_turned_heads_are_refused(angles: tuple[float, float, float], word: str) -> None:
    check_face(_facing(0.2, -0.2, 0.2), 800, 800)
    with pytest.raises(InvalidInputError, match=f"turned {word} by 4\\d degrees"):
        check_face(_facing(*angles), 800, 800)


def test_crop_keeps_the_face_in_the_middle_and_inside_the_picture() -> None:
    picture = np.zeros((900, 1400, 3), np.uint8)
    picture[300:500, 600:760] = 255  # the "face"
    points = np.zeros((468, 3), np.float32)
    angle = np.linspace(0, 2 * np.pi, len(topology.FACE_OVAL), endpoint=False)
    outline = np.stack([680 + 80 * np.sin(angle), 400 - 100 * np.cos(angle)], axis=1)
    points[list(topology.FACE_OVAL), :2] = outline
    square = crop_head(picture, points, 512)
    rows, columns = np.nonzero(square[..., 0] > 128)
    assert square.shape == (512, 512, 3)
    assert abs(columns.mean() - 255.5) < 2
    assert 190 < rows.mean() < 256 and rows.min() > 60, "head room above, shoulders below"


def test_a_tight_photo_is_refused_and_a_snug_one_is_not_streaked(studio: PortraitStudio) -> None:
    points = studio.take(portrait()).landmarks.points
    outline = points[list(topology.FACE_OVAL), :2]
    (left, top), (right, bottom) = outline.min(axis=0), outline.max(axis=0)
    face = bottom - top

    def cut(room: float) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
        low = np.maximum(0, np.array([left, top]) - room * face).astype(int)
        high = (np.array([right, bottom]) + room * face).astype(int)
        moved = points.copy()
        moved[:, :2] -= low
        return np.ascontiguousarray(portrait()[low[1] : high[1], low[0] : high[0]]), moved

    with pytest.raises(InvalidInputError, match="ends too close to the face"):
        studio.take(cut(0.05)[0])
    picture, moved = cut(0.28)
    picture[0, ::2], picture[0, 1::2] = 0, 255  # an edge that would be smeared into columns
    square = crop_head(picture, moved, 512).astype(float)
    assert np.abs(np.diff(square[3], axis=0)).max() < 30


def _covered(rgb: NDArray[np.uint8], points: NDArray[np.floating]) -> None:
    """As by a hand, in the colour of the skin."""
    x, y = points[[13, 14], :2].mean(axis=0).astype(int).tolist()
    cheek = points[50, :2].astype(int)
    skin = rgb[cheek[1], cheek[0]].tolist()
    cv2.ellipse(rgb, (x, y), (70, 30), -20, 0, 360, skin, cv2.FILLED)


def _darkened(rgb: NDArray[np.uint8], points: NDArray[np.floating]) -> None:
    rgb //= 10


def _eyes_shut(rgb: NDArray[np.uint8], points: NDArray[np.floating]) -> None:
    points[[159, 386], 1] = points[[145, 374], 1] - 1


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_covered, "mouth is covered: use a photo without a hand"),
        (_darkened, "too dark: use a photo taken in better light"),
        (_eyes_shut, "eyes are shut: use a photo in which they are open"),
    ],
)
def test_what_an_avatar_moves_must_be_seen(
    spoil: Callable[[NDArray[np.uint8], NDArray[np.floating]], None], said: str
) -> None:
    rgb, points = portrait().copy(), astronaut().mesh.source[:468].copy()
    points = np.column_stack([points, np.zeros(468)])
    check_seen(rgb, points)
    spoil(rgb, points)
    with pytest.raises(InvalidInputError, match=said):
        check_seen(rgb, points)


def test_upside_down(studio: PortraitStudio) -> None:
    with pytest.raises(InvalidInputError, match=r"upside down|turned over"):
        studio.take(np.ascontiguousarray(portrait()[::-1, ::-1]))


@pytest.mark.parametrize(
    ("between", "parted"),
    [((176, 104, 98), False), ((226, 220, 208), True), ((48, 16, 14), True)],
)
def test_what_lies_between_lips_says_whether_they_are_parted(
    between: tuple[int, int, int], parted: bool
) -> None:
    """Of full lips that are shut a gap is measured, too."""
    points = np.column_stack([astronaut().mesh.source[:468], np.zeros(468)])
    rim = [*topology.UPPER_INNER_LIP, *topology.LOWER_INNER_LIP[-2:0:-1]]
    rgb = np.full((512, 512, 3), (180, 108, 100), np.uint8)
    cv2.fillPoly(rgb, [np.round(points[rim, :2]).astype(np.int32)], between)
    assert shows_inside(rgb, points, head_frame(points)) == parted


def test_missing_weights_are_named(tmp_path: Path) -> None:
    with pytest.raises(EngineLoadError, match="face_detection_short_range"):
        PortraitStudio(tmp_path)
