"""What a visitor needs of a connection, whatever carries it, and what comes in over it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from visavis.serving.errors import VisavisError

# -40 dB of full scale: a quiet breath before the first word is not an answer yet.
AUDIBLE = 328


Role: TypeAlias = Literal["speaker", "viewer"]


class MediaMovedError(VisavisError):
    """The session goes on in another gateway: connecting again reaches it."""


class MediaLostError(VisavisError):
    """The connection broke without a word: the session may be there still."""


class MediaEndedError(VisavisError):
    """The connection ended in the middle of a measurement."""


@dataclass(frozen=True)
class HeardSound:
    """Decoded sound that arrived at `at_s`. pcm: [N] int16, the first sample at `media_s`."""

    at_s: float
    media_s: float
    pcm: NDArray[np.int16]
    rate_hz: int

    @cached_property
    def audible_at(self) -> int | None:
        """The first sample that can be heard."""
        loud = np.flatnonzero(np.abs(self.pcm.astype(np.int32)) > AUDIBLE)
        return int(loud[0]) if len(loud) else None


@dataclass(frozen=True, slots=True)
class SeenPicture:
    """A picture that arrived at `at_s`, to be shown from `media_s` on."""

    at_s: float
    media_s: float


MIC_SAMPLES = 320
"""Of the microphone, at 16 kHz, in each message or packet: 20 ms, as browsers send them."""


class Media(Protocol):
    """One visitor's microphone, and what comes back."""

    async def send(self, pcm_s16le: bytes) -> None:
        """The next MIC_SAMPLES of the microphone, now."""

    def arrivals(self) -> AsyncIterator[HeardSound | SeenPicture]:
        """Everything that arrives, timed by the client's clock. Raises MediaEndedError,
        MediaLostError or MediaMovedError at the end."""

    def doubt(self, lost_s: float) -> None:
        """The events' connection was lost then: one that is older is as well, where it would not
        notice."""
