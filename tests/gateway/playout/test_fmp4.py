"""The muxer's output, read back by an independent demuxer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gateway.playout.pictures import ReleasedPicture
from gateway.playout.sinks.fmp4 import Fragment, Muxer, init_segment, split_units
from gateway.playout.sound import AacEncoder
from tests.gateway.media import PictureEncoder, film, tone
from visavis.synthetic import MARK_UUID, SYNTHETIC, marked

FRAMES = 50


def hiss(samples: int) -> NDArray[np.int16]:
    """Noise, the same each time: nothing in it repeats."""
    smooth = np.convolve(np.random.default_rng(1).normal(size=samples), np.ones(8), "same")
    return (smooth * 2000).astype(np.int16)


def movie(times: list[int], *, sound: Callable[[int], NDArray[np.int16]] = tone) -> bytes:
    """Pictures at `times` (90 kHz) and a tone of the same length."""
    encoder, muxer = PictureEncoder(), Muxer()
    end = times[-1] + 3600
    parts: list[Fragment | None] = []
    for i, time in enumerate([*times, end]):
        picture = encoder.picture(1, i, brightness=min(200, 40 + 30 * i))
        fragment = muxer.picture(ReleasedPicture(picture, time))
        assert (fragment is None) == (i == 0)
        parts.append(fragment)
    aac = AacEncoder(0)
    pcm = np.concatenate([sound(end * 48_000 // 90_000), np.zeros(1024, np.int16)])
    # The first packet begins before the first sample.
    parts += [muxer.sound(p) for p in aac.encode(pcm)[1:]]
    assert muxer.sets is not None
    head = init_segment(muxer.sets, muxer.width, muxer.height, aac.config)
    return head + b"".join(p.payload for p in parts if p)


def regular(count: int = FRAMES) -> list[int]:
    return [i * 3600 for i in range(count)]


def test_the_stream_says_that_it_is_synthetic() -> None:
    with film(movie(regular(3))) as container:
        assert container.metadata["comment"] == SYNTHETIC
    muxer, encoder = Muxer(), PictureEncoder()
    made = encoder.picture()
    muxer.picture(ReleasedPicture(replace(made, payload=marked(made.payload)), 0))
    fragment = muxer.picture(ReleasedPicture(encoder.picture(), 3600))
    assert fragment is not None and MARK_UUID.bytes + b"visavis" in fragment.payload


def test_sound_is_where_it_was_put() -> None:
    with film(movie(regular(), sound=hiss)) as container:
        decoded = np.concatenate([f.to_ndarray()[0] for f in container.decode(audio=0)])
    expected = hiss(24_000).astype(np.float32) / 32768
    lag = np.argmax(np.correlate(decoded[4800:20_000], expected[9600:14_800], "valid"))
    assert lag == 4800


def test_units_are_split_at_both_start_codes() -> None:
    assert split_units(b"\0\0\0\1ab\0\0\1cd\0\0\0\1e") == [b"ab", b"cd", b"e"]
    assert split_units(b"") == []


def test_new_parameters_are_reported_once() -> None:
    muxer, small, large = Muxer(), PictureEncoder(size=64), PictureEncoder(size=128)
    changed = []
    for i, picture in enumerate([small.picture(), small.picture(), large.picture()]):
        muxer.picture(ReleasedPicture(picture, 3600 * i))
        changed.append(muxer.parameters_changed)
    assert changed == [True, False, True]
    assert muxer.width == 128
