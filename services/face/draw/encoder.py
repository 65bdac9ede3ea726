"""Pictures become H.264 or VP8, one packet for each picture at once, by way of Y'CbCr."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import av
import numpy as np
from av.video.frame import PictureType
from numpy.typing import NDArray

from services.face.draw.compiling import compiled
from visavis.serving.errors import EngineError, EngineLoadError, InvalidInputError
from visavis.synthetic import marked

Codec = Literal["h264", "vp8"]
_KEYFRAME_SECONDS = 2.0
"""A viewer that lost a packet waits at most this long for a whole picture."""
_H264_OPTIONS = {
    "preset": "superfast",
    "tune": "zerolatency",
    "profile": "baseline",
    # Constrained baseline with parameter sets before every key frame, the same ones whatever the
    # quantiser: any browser can join at any of them. Edges of blocks are smoothed a little later
    # than usual: at fine quantisers that only takes time.
    "x264-params": "repeat-headers=1:annexb=1:stitchable=1:scenecut=0:sliced-threads=0:threads=1"
    ":ref=1:deblock=-2,-2",
}
_VP8_OPTIONS = {
    "deadline": "realtime",
    "cpu-used": "8",
    "lag-in-frames": "0",
    "error-resilient": "1",
    "auto-alt-ref": "0",
    "static-thresh": "0",
    "undershoot-pct": "95",
    "noise-sensitivity": "0",
    "max-intra-rate": "400",
    "qmin": "8",
}
FINEST = 19
"""Finer than this nobody sees."""
COARSEST = 51
_STEPS_PER_HALVING = 6
# Of what is allowed, for the pictures that move more than those before them.
_AIM = 0.9
# What has been sent faster than allowed, in seconds of it: by so much a picture may come late.
_LATE_S = 0.5
# The same where a network carries no more: a voice waits behind the picture.
_LATE_NARROW_S = 0.2
# Finer by so much from group to group, so that nobody sees it.
_FINER_STEPS = 4
# Two whole pictures one after the other look like one to decoders; and each costs bits again.
_APART = 5


@dataclass(frozen=True, slots=True)
class EncodedFrame:
    """One encoded picture."""

    payload: bytes
    """H.264: Annex B, before a key frame parameter sets, and the mark. VP8: one frame."""
    keyframe: bool


class VideoEncoder:
    """Encodes one stream of pictures. Not thread-safe; works without the interpreter lock."""

    def __init__(
        self, codec: Codec, width: int, height: int, fps: int, bitrate: int = 1_000_000
    ) -> None:
        """width, height: even, pixels; bitrate: bits per second.

        Raises InvalidInputError for other sides or codecs, EngineLoadError where this build of
        FFmpeg lacks the codec.
        """
        if width % 2 or height % 2 or width < 16 or height < 16:
            raise InvalidInputError(
                f"a video needs even sides of 16 or more, not {width} x {height}"
            )
        if codec not in ("h264", "vp8"):
            raise InvalidInputError(f"no video codec {codec!r}: h264 and vp8 are made")
        self._codec, self._fps = codec, fps
        self._own_bitrate = self._bitrate = bitrate
        self._height, self._width = height, width
        self._group_pictures = max(1, int(_KEYFRAME_SECONDS * fps))
        ours = codec == "h264"
        self._quantiser = Quantiser(bitrate, fps, self._group_pictures) if ours else None
        self._context = self._open()
        self._count = 0
        # One frame for all pictures: an encoder without delay keeps none of them.
        self._frame = av.VideoFrame(width, height, "yuv420p")
        self._frame.time_base = Fraction(1, fps)
        self._planes = [np.frombuffer(memoryview(plane), np.uint8) for plane in self._frame.planes]
        self._strides = [plane.line_size for plane in self._frame.planes]

    def _open(self) -> av.VideoCodecContext:
        """An encoder that begins with a key frame."""
        name = "libx264" if self._codec == "h264" else "libvpx"
        try:
            context = av.VideoCodecContext.create(name, "w")
            assert isinstance(context, av.VideoCodecContext)
            context.width, context.height, context.pix_fmt = self._width, self._height, "yuv420p"
            context.time_base, context.framerate = Fraction(1, self._fps), Fraction(self._fps)
            context.gop_size = self._group_pictures
            context.thread_count = 1
            context.max_b_frames = 0
            if self._quantiser is not None:
                context.options = {**_H264_OPTIONS, "qp": str(self._quantiser.value)}
            else:
                # Half a second of buffer: no picture is so large that it arrives late.
                limits = {"maxrate": str(self._bitrate), "bufsize": str(self._bitrate // 2)}
                context.options = {**_VP8_OPTIONS, **limits}
                context.bit_rate = self._bitrate
            context.open()
        except (av.FFmpegError, ValueError) as error:
            raise EngineLoadError(f"video encoder {name} does not start: {error}") from error
        return context

    def limit(self, bitrate: int) -> None:
        """Take no more than so many bits per second from the next picture on, and no more than it
        was made for; 0: that alone.
        """
        allowed = min(bitrate or self._own_bitrate, self._own_bitrate)
        if allowed == self._bitrate:
            return
        self._bitrate = allowed
        if self._quantiser is not None:
            self._quantiser.allow(allowed, self._fps, narrow=allowed < self._own_bitrate)
        else:
            self._context = self._open()

    def encode(self, picture: NDArray[np.uint8], *, force_keyframe: bool = False) -> EncodedFrame:
        """The packet of a picture, never that of an earlier one.

        picture: [height, width, 4] uint8, RGB and a byte that means nothing; or RGB alone, which
        takes longer. Raises InvalidInputError for another shape or dtype, EngineError where
        encoding fails.
        """
        shape = (self._height, self._width)
        if picture.shape not in ((*shape, 3), (*shape, 4)) or picture.dtype != np.uint8:
            raise InvalidInputError(
                f"a picture must be uint8 {(*shape, 4)}, not {picture.dtype} {picture.shape}"
            )
        self._fill(picture)
        made = self._within_limits(force_keyframe)
        self._count += 1
        if made.keyframe and self._codec == "h264":
            return EncodedFrame(marked(made.payload), True)
        return made

    def _within_limits(self, force_keyframe: bool) -> EncodedFrame:
        """The picture that the planes hold, in no more bits than are allowed; VP8 sees to that."""
        quantiser = self._quantiser
        if quantiser is None:
            return self._encode(force_keyframe)
        if quantiser.changes(keyframe=force_keyframe):
            self._context = self._open()
        made = self._encode(force_keyframe)
        while made.keyframe and quantiser.too_large(8 * len(made.payload)):
            self._context = self._open()
            made = self._encode(force_keyframe)
        quantiser.spent(8 * len(made.payload), keyframe=made.keyframe)
        return made

    def _encode(self, force_keyframe: bool) -> EncodedFrame:
        """The picture that the planes hold, as it comes out of the codec."""
        frame = self._frame
        frame.pts = self._count
        frame.pict_type = PictureType.I if force_keyframe else PictureType.NONE
        try:
            packets = self._context.encode(frame)
        except av.FFmpegError as error:
            raise EngineError(f"video encoder failed: {error}") from error
        if len(packets) != 1:
            raise EngineError(f"video encoder gave {len(packets)} packets for one picture")
        return EncodedFrame(bytes(packets[0]), bool(packets[0].is_keyframe))

    def _fill(self, picture: NDArray[np.uint8]) -> None:
        if picture.shape[2] == 3:
            picture = np.pad(picture, ((0, 0), (0, 0), (0, 1)))
        pixels = np.ascontiguousarray(picture).reshape(-1).view(np.uint32)
        luma, cb, cr = self._planes
        strides = self._strides
        fill_planes(pixels, self._width, self._height, luma, strides[0], cb, cr, strides[1])

    def close(self) -> None:
        """Frees the encoder. Packets never wait inside, so nothing is lost."""
        if self._count:
            self._context.encode(None)


class Quantiser:
    """Which quantiser a stream of H.264 gets, so that its bits stay within what is allowed. Pure.

    x264's own control of the rate looks at every picture twice, for a quarter of its time, and for
    a face that hardly moves to no purpose: the same quantiser gives the same quality at fewer bits.
    So there is one for each group of pictures, and it is changed only where pictures ask for more
    than there is to spend: a photograph of leaves, or large pictures at a small bit rate. Six steps
    of it halve the bits, about (ITU-T H.264, 8.5.8: the step size doubles). Tell it each picture
    that was made.
    """

    def __init__(self, bitrate: int, fps: int, group_pictures: int) -> None:
        """bitrate: allowed, bits per second; group_pictures: of a group that nothing cuts short."""
        self.value = FINEST
        self.allow(bitrate, fps)
        self._late_bits = 0.0
        """Sent faster than allowed: a bucket that leaks with the bit rate."""
        self._group_pictures = group_pictures
        self._key_bits, self._other_bits, self._pictures = 0, 0, 0
        """Of the present group: of its key frame, of all others together; how many so far."""

    def allow(self, bitrate: int, fps: int, *, narrow: bool = False) -> None:
        """bitrate: from now on. narrow: a network carries no more, and pictures come at once."""
        self._allowed_bits = bitrate / fps
        self._late_limit_bits = (_LATE_NARROW_S if narrow else _LATE_S) * bitrate

    def too_large(self, bits: int) -> bool:
        """Whether a key frame of so many bits is to be made again; coarser by then."""
        if bits <= self._late_limit_bits or self.value == COARSEST:
            return False
        self._move(max(1, _steps(bits / self._late_limit_bits)))
        return True

    def spent(self, bits: int, *, keyframe: bool) -> None:
        """A picture of so many bits leaves. A key frame begins a group."""
        if keyframe:
            self._key_bits, self._other_bits, self._pictures = bits, 0, 1
        else:
            self._other_bits += bits
            self._pictures += 1
        self._late_bits = max(0.0, self._late_bits + bits - self._allowed_bits)

    def changes(self, *, keyframe: bool) -> bool:
        """Whether the next picture begins a group with another quantiser, which is set by then.

        keyframe: it begins one in any case, as it does where the present one is full.
        """
        if self._pictures < _APART:
            return False
        steps = _steps(self._share / _AIM)
        if self._late_bits > self._late_limit_bits:
            steps = max(1, steps)
        elif not keyframe and self._pictures < self._group_pictures:
            return False
        before = self.value
        self._move(steps)
        return self.value != before

    @property
    def _share(self) -> float:
        """Of what is allowed, if the group goes on like this to its end."""
        others = self._other_bits / (self._pictures - 1)
        return (self._key_bits / self._group_pictures + others) / self._allowed_bits

    def _move(self, steps: int) -> None:
        self.value = min(COARSEST, max(FINEST, self.value + max(-_FINER_STEPS, steps)))


def _steps(times: float) -> int:
    """By how much coarser pictures are to be that shall take so many times fewer bits."""
    return math.ceil(_STEPS_PER_HALVING * math.log2(max(times, 1e-3)))


# Y'CbCr 4:2:0 in limited range: coefficients of ITU-R BT.601 for 8 bits, times 2**16. Typed, so
# that the loops stay in 32 bits and compile to vector instructions.
_LUMA_R, _LUMA_G, _LUMA_B = np.uint32(16829), np.uint32(33039), np.uint32(6416)
_LUMA_OFFSET, _LUMA_SHIFT = np.uint32((16 << 16) + (1 << 15)), np.uint32(16)
_CB_R, _CB_G, _CB_B = np.int32(-9714), np.int32(-19070), np.int32(28784)
_CR_R, _CR_G, _CR_B = np.int32(28784), np.int32(-24103), np.int32(-4681)
# Of the sum of four pixels.
_CHROMA_OFFSET, _CHROMA_SHIFT = np.int32((128 << 18) + (1 << 17)), np.int32(18)
_BYTE, _TWO_BYTES = np.uint32(0xFF), np.uint32(0xFFFF)
_LANES, _8, _16 = np.uint32(0x00FF00FF), np.uint32(8), np.uint32(16)
_1, _2 = np.uint64(1), np.uint64(2)


@compiled
def fill_planes(
    pixels: NDArray[np.uint32],
    width: int,
    height: int,
    luma: NDArray[np.uint8],
    luma_stride: int,
    cb: NDArray[np.uint8],
    cr: NDArray[np.uint8],
    chroma_stride: int,
) -> None:
    """Writes an RGB picture into its planes; a pixel of chroma is the mean of four.

    pixels: [height * width] uint32, bytes R, G, B and one that means nothing, even sides. Planes
    are uint8; luma: [height * luma_stride]; cb, cr: [height / 2 * chroma_stride]. Strides in bytes.
    """
    columns, half = np.uint64(width), np.uint64(width // 2)
    for y in range(height):
        first, to = np.uint64(y * width), np.uint64(y * luma_stride)
        for x in range(columns):
            rgb = pixels[first + x]
            red, green, blue = rgb & _BYTE, (rgb >> _8) & _BYTE, (rgb >> _16) & _BYTE
            value = _LUMA_R * red + _LUMA_G * green + _LUMA_B * blue + _LUMA_OFFSET
            luma[to + x] = np.uint8(value >> _LUMA_SHIFT)
        if y % 2 == 0:
            continue
        # Both lines are in the caches now.
        to = np.uint64(y // 2 * chroma_stride)
        for x in range(half):
            at = first + _2 * x
            a, b, c, d = (
                pixels[at - columns],
                pixels[at - columns + _1],
                pixels[at],
                pixels[at + _1],
            )
            red_blue = (a & _LANES) + (b & _LANES) + (c & _LANES) + (d & _LANES)
            red, blue = np.int32(red_blue & _TWO_BYTES), np.int32(red_blue >> _16)
            a, b, c, d = a >> _8, b >> _8, c >> _8, d >> _8
            green = np.int32((a & _BYTE) + (b & _BYTE) + (c & _BYTE) + (d & _BYTE))
            value = _CB_R * red + _CB_G * green + _CB_B * blue + _CHROMA_OFFSET
            cb[to + x] = np.uint8(value >> _CHROMA_SHIFT)
            value = _CR_R * red + _CR_G * green + _CR_B * blue + _CHROMA_OFFSET
            cr[to + x] = np.uint8(value >> _CHROMA_SHIFT)
