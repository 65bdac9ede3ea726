"""Encoded streams: one packet for each picture, key frames on demand, and they decode."""

from __future__ import annotations

from contextlib import closing

import av
import cv2
import numpy as np
import pytest
from av.sidedata.sidedata import Type
from numpy.typing import NDArray

from services.face.draw.encoder import Codec, EncodedFrame, VideoEncoder, fill_planes
from visavis.serving.errors import InvalidInputError
from visavis.synthetic import MARK_UUID, SYNTHETIC

FPS = 25


def _pictures(count: int, size: int = 64) -> list[NDArray[np.uint8]]:
    """A bright square that wanders over a ramp."""
    ramp = np.linspace(40, 120, size).astype(np.uint8)
    pictures = []
    for k in range(count):
        picture = np.repeat(np.tile(ramp, (size, 1))[..., None], 3, axis=2)
        picture[10 + k % 30 : 26 + k % 30, 20:36] = (220, 120, 60)
        pictures.append(picture)
    return pictures


def _decode(codec: Codec, frames: list[EncodedFrame]) -> list[NDArray[np.uint8]]:
    decoder = av.CodecContext.create(codec, "r")
    assert isinstance(decoder, av.VideoCodecContext)
    decoded = [frame for made in frames for frame in decoder.decode(av.Packet(made.payload))]
    decoded += decoder.decode(None)
    return [np.asarray(frame.to_ndarray(format="rgb24"), np.uint8) for frame in decoded]


@pytest.mark.parametrize("codec", ["h264", "vp8"])
def test_every_picture_comes_back_to_who_joins_at_a_forced_key_frame_too(codec: Codec) -> None:
    pictures = _pictures(60)
    with closing(VideoEncoder(codec, 64, 64, FPS)) as encoder:
        frames = [encoder.encode(p, force_keyframe=k == 33) for k, p in enumerate(pictures)]
    assert [k for k, frame in enumerate(frames) if frame.keyframe] == [0, 33]
    decoded = _decode(codec, frames)
    assert len(decoded) == len(pictures)
    quality = [cv2.PSNR(was, now) for was, now in zip(pictures, decoded, strict=True)]
    assert min(quality) > 28
    joined = _decode(codec, frames[33:])
    assert len(joined) == 27 and cv2.PSNR(pictures[-1], joined[-1]) > 28


def test_key_frames_of_h264_say_that_they_are_synthetic() -> None:
    with closing(VideoEncoder("h264", 64, 64, FPS)) as encoder:
        frames = [encoder.encode(p, force_keyframe=k == 7) for k, p in enumerate(_pictures(10))]
    decoder = av.CodecContext.create("h264", "r")
    assert isinstance(decoder, av.VideoCodecContext)
    said: dict[int, list[bytes]] = {}
    for k, made in enumerate(frames):
        for frame in [*decoder.decode(av.Packet(made.payload)), *decoder.decode(None)][:1]:
            mark = frame.side_data.get(Type.SEI_UNREGISTERED)
            said[k] = [] if mark is None else [bytes(mark)]
        decoder.flush_buffers()
    expected = MARK_UUID.bytes + f"visavis. {SYNTHETIC}".encode()
    assert said[0] == said[7] == [expected]


@pytest.mark.parametrize("codec", ["h264", "vp8"])
def test_pictures_get_smaller_while_a_network_carries_less(codec: Codec) -> None:
    noise = np.random.default_rng(1).integers(0, 40, (8, 128, 128, 3), np.uint8)
    sent = list[float]()
    with closing(VideoEncoder(codec, 128, 128, FPS, 1_000_000)) as encoder:
        for bitrate in (0, 200_000, 5_000_000):
            encoder.limit(bitrate)
            made = [encoder.encode(noise[k % 8]) for k in range(8 * FPS)]
            # Of the last four seconds: by then it has found how coarse they are to be.
            sent.append(sum(8 * len(frame.payload) for frame in made[4 * FPS :]) / 4)
            largest = max(8 * len(f.payload) for f in made[4 * FPS :] if f.keyframe)
            if bitrate == 200_000 and codec == "h264":
                assert largest <= 0.2 * bitrate, "a voice waits behind it"
    assert sent[0] > 600_000 and sent[1] < 220_000 and sent[2] > 600_000


@pytest.mark.parametrize("codec", ["h264", "vp8"])
def test_key_frames_come_at_least_every_two_seconds(codec: Codec) -> None:
    still = _pictures(1)[0]
    with closing(VideoEncoder(codec, 64, 64, FPS)) as encoder:
        keys = [k for k in range(5 * FPS) if encoder.encode(still).keyframe]
    assert max(np.diff([*keys, 5 * FPS])) <= 2 * FPS


def test_h264_is_constrained_baseline_with_parameter_sets_before_key_frames() -> None:
    with closing(VideoEncoder("h264", 64, 64, FPS)) as encoder:
        frames = [encoder.encode(p, force_keyframe=k == 5) for k, p in enumerate(_pictures(8))]
    for frame in (frames[0], frames[5]):
        units = [unit for unit in frame.payload.split(b"\0\0\1")[1:] if unit]
        kinds = [unit[0] & 0x1F for unit in units]
        assert kinds[:2] == [7, 8] and kinds[-1] == 5, "sequence set, picture set, whole picture"
        profile, constraints = units[0][1], units[0][2]
        assert profile == 66 and constraints & 0x40, "constrained baseline"


def test_bitrate_is_kept_and_quality_comes_back() -> None:
    """Noise cannot be encoded in so few bits: it is made coarser, and what follows fine again."""
    rng = np.random.default_rng(2)
    noise = [rng.integers(0, 255, (128, 128, 3)).astype(np.uint8) for _ in range(2 * FPS)]
    calm = _pictures(20 * FPS, 128)
    with closing(VideoEncoder("h264", 128, 128, FPS, bitrate=300_000)) as encoder:
        frames = [encoder.encode(picture) for picture in [*noise, *calm]]
    bits = [8 * len(frame.payload) for frame in frames]
    assert sum(bits[: 2 * FPS]) / 2 < 2 * 300_000
    assert max(bits) <= 300_000 / 2, "no picture takes longer than half a second"
    decoded = _decode("h264", frames)
    assert len(decoded) == len(frames)
    quality = [cv2.PSNR(w, n) for w, n in zip([*noise, *calm], decoded, strict=True)]
    assert max(quality[2 * FPS : 3 * FPS]) < 38 and min(quality[-FPS:]) > 40
    # Whoever keeps the parameter sets of the first key frame can decode the last one.
    keys = [frame.payload for frame in frames if frame.keyframe]
    assert len({key.split(b"\0\0\1")[2].rstrip(b"\0") for key in keys}) == 1


def test_no_bits_are_spent_on_what_nobody_sees() -> None:
    """A face that hardly moves: a fraction of the bits that are allowed, in full quality."""
    rng = np.random.default_rng(4)
    grey = cv2.GaussianBlur(rng.integers(0, 255, (128, 192)).astype(np.uint8), (0, 0), 1.5)
    wide = np.dstack([grey] * 3)
    pictures = [np.ascontiguousarray(wide[:, k // 2 : k // 2 + 128]) for k in range(50)]
    with closing(VideoEncoder("h264", 128, 128, FPS, bitrate=2_000_000)) as encoder:
        frames = [encoder.encode(picture) for picture in pictures]
    assert sum(len(frame.payload) for frame in frames[1:]) * 8 / 2 < 25_000
    decoded = _decode("h264", frames)
    assert min(cv2.PSNR(was, now) for was, now in zip(pictures, decoded, strict=True)) > 43


def test_wrong_pictures_and_sizes_are_refused() -> None:
    with closing(VideoEncoder("h264", 64, 64, FPS)) as encoder:
        with pytest.raises(InvalidInputError, match="not uint8"):
            encoder.encode(np.zeros((32, 64, 3), np.uint8))
    with pytest.raises(InvalidInputError, match="even sides"):
        VideoEncoder("h264", 63, 64, FPS)
    with pytest.raises(InvalidInputError, match="no video codec"):
        VideoEncoder("av1", 64, 64, FPS)  # type: ignore[arg-type]


def test_two_encoders_share_nothing() -> None:
    """By their pictures: how hard VP8 tries, and so its bytes, depends on the time it has."""
    pictures = _pictures(10)
    with (
        closing(VideoEncoder("vp8", 64, 64, FPS)) as one,
        closing(VideoEncoder("vp8", 64, 64, FPS)) as other,
    ):
        frames = [(one.encode(picture), other.encode(255 - picture)) for picture in pictures]
    for k, shown in enumerate([pictures, [255 - picture for picture in pictures]]):
        decoded = _decode("vp8", [made[k] for made in frames])
        assert min(cv2.PSNR(was, now) for was, now in zip(shown, decoded, strict=True)) > 28


def test_planes_are_bt601_in_limited_range() -> None:
    """So that every decoder turns them back into the same colours."""
    rgb = np.random.default_rng(1).integers(0, 256, (34, 52, 3)).astype(np.uint8)
    rgb[:, :16] = np.repeat(255 * np.indices((2, 2, 2)).reshape(3, 8).T, 2, axis=0)  # the extremes
    to_ycbcr = [[65.481, 128.553, 24.966], [-37.797, -74.203, 112], [112, -93.786, -18.214]]
    exact = rgb / 255.0 @ np.array(to_ycbcr).T + (16, 128, 128)
    mean = exact.reshape(17, 2, 26, 2, 3).mean(axis=(1, 3))
    padding = 12  # of bytes behind each line, which nobody may touch
    wanted = [exact[..., 0], mean[..., 1], mean[..., 2]]
    planes = [np.full((len(w), w.shape[1] + padding), 77, np.uint8) for w in wanted]
    luma, cb, cr = (plane.reshape(-1) for plane in planes)
    pixels = np.dstack([rgb, rgb[..., 1]]).reshape(-1).view("<u4")  # the fourth byte means nothing
    fill_planes(pixels, 52, 34, luma, 52 + padding, cb, cr, 26 + padding)
    for plane, right in zip(planes, wanted, strict=True):
        assert (plane[:, right.shape[1] :] == 77).all()
        assert np.abs(plane[:, : right.shape[1]] - right).max() <= 0.52, "rounded, not cut off"
