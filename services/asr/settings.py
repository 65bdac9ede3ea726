"""Settings of the speech recognition service."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from pydantic import Field

from services.asr.hearing.detectors import FRAME_SAMPLES, SAMPLE_RATE_HZ
from services.asr.turns.endpointing import EndpointRules
from visavis.bundles.engine_settings import EngineSettings

_DEFAULTS = EndpointRules()
FRAME_MS = FRAME_SAMPLES * 1000 // SAMPLE_RATE_HZ


def heard_from(rules: EndpointRules, speech_probability: float) -> EndpointRules:
    """`rules` where a sound is speech from this probability on, and silence well below it."""
    silence = speech_probability * 0.7
    return replace(rules, speech_probability=speech_probability, silence_probability=silence)


class AsrSettings(EngineSettings):
    """Speech recognition: sound in, transcripts and ends of turn out.

    Every flag can also be set in the environment (VISAVIS_ASR_PORT=50051)
    or in the section [asr] of the file that --config names.
    """

    section: ClassVar[str] = "asr"

    default_language: str = Field(
        "en", description="Language of requests that name none, as BCP 47 tag"
    )
    recognisers: str = Field(
        "",
        description="Recognisers of your own, with commas between: bundles that "
        "`visavis bundle make whisper` made. They come before those of the profile",
    )
    speech_probability: float = Field(
        _DEFAULTS.speech_probability, gt=0, lt=1, description="From here on a sound is speech"
    )
    shortest_wait_ms: int = Field(
        _DEFAULTS.shortest_wait_frames * FRAME_MS,
        ge=2 * FRAME_MS,
        le=5000,
        description="Silence that ends an utterance which is surely finished; a whole question "
        "is over one frame (32 ms) sooner",
    )
    longest_wait_ms: int = Field(
        _DEFAULTS.longest_wait_frames * FRAME_MS,
        ge=2 * FRAME_MS,
        le=30_000,
        description="Silence that ends an utterance which sounds unfinished",
    )
    foresight_idle_cores: float = Field(
        1.4,
        ge=0,
        description="Cores of this machine that are idle, for a gateway to be told before a pause "
        "how likely the words so far are all (its prepare_before_pause): what it then has prepared "
        "is often in vain, and takes them",
    )

    @property
    def own_recognisers(self) -> list[str]:
        """Names in `recognisers`."""
        return [name.strip() for name in self.recognisers.split(",") if name.strip()]

    @property
    def own_bundles(self) -> Sequence[str]:
        return self.own_recognisers

    def endpoint_rules(self) -> EndpointRules:
        """The rules of turn-taking, in frames of 32 ms instead of milliseconds."""
        shortest = self.shortest_wait_ms // FRAME_MS
        longest = max(shortest, self.longest_wait_ms // FRAME_MS)
        rules = EndpointRules(
            pause_frames=min(_DEFAULTS.pause_frames, shortest),
            shortest_wait_frames=shortest,
            longest_wait_frames=longest,
        )
        return heard_from(rules, self.speech_probability)
