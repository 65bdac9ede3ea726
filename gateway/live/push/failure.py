"""Why a push has failed, in words that tell no secret."""

from __future__ import annotations

from visavis.serving.errors import VisavisError


class PushError(VisavisError):
    """A target could not be reached, refuses, or is gone. permanent: trying again is of no use."""

    def __init__(self, message: str, *, permanent: bool = False) -> None:
        super().__init__(message)
        self.permanent = permanent
