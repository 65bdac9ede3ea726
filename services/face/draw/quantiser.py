"""Which quantiser a stream of H.264 gets, so that its bits stay within what is allowed.

x264's own control of the rate looks at every picture twice, for a quarter of its time, and for a
face that hardly moves to no purpose: the same quantiser gives the same quality at fewer bits. So
there is one for each group of pictures, and it is changed only where pictures ask for more than
there is to spend: a photograph of leaves, or large pictures at a small bit rate. Six steps of it
halve the bits, about (ITU-T H.264, 8.5.8: the step size doubles). Pure.
"""

from __future__ import annotations

import math

FINEST = 19
"""Finer than this nobody sees."""
COARSEST = 51
_STEPS_PER_HALVING = 6
# Of what is allowed, for the pictures that move more than those before them.
_AIM = 0.9
# What has been sent faster than allowed, in seconds of it: by so much a picture may come late.
_LATE_S = 0.5
# Finer by so much from group to group, so that nobody sees it.
_FINER_STEPS = 4
# Two whole pictures one after the other look like one to decoders; and each costs bits again.
_APART = 5


class Quantiser:
    """The quantiser of one stream. Tell it each picture that was made."""

    def __init__(self, bitrate: int, fps: int, group_pictures: int) -> None:
        """bitrate: allowed, bits per second; group_pictures: of a group that nothing cuts short."""
        self.value = FINEST
        self._allowed_bits = bitrate / fps
        self._late_limit_bits = _LATE_S * bitrate
        self._late_bits = 0.0
        """Sent faster than allowed: a bucket that leaks with the bit rate."""
        self._group_pictures = group_pictures
        self._key_bits, self._other_bits, self._pictures = 0, 0, 0
        """Of the present group: of its key frame, of all others together; how many so far."""

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
