"""What a visitor needs of a connection, whatever carries it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from visavis.serving.errors import VisavisError


class MediaEndedError(VisavisError):
    """The connection ended in the middle of a measurement."""


@dataclass(frozen=True, slots=True)
class Sound:
    """Decoded sound. pcm: [N] int16; `media_s` is the stream's time of its first sample."""

    media_s: float
    pcm: NDArray[np.int16]
    rate_hz: int


@dataclass(frozen=True, slots=True)
class Shown:
    """A picture, to be shown from `media_s` on."""

    media_s: float


Arrival: TypeAlias = tuple[float, Sound | Shown]
"""When something arrived on the client's clock, and what."""


class Media(Protocol):
    """One visitor's microphone, and what comes back."""

    async def send(self, pcm_s16le: bytes) -> None:
        """20 ms of the microphone at 16 kHz, now."""

    def arrivals(self) -> AsyncIterator[Arrival]:
        """Everything that arrives. Raises MediaEndedError at the end."""
