"""Settings of the speech synthesis service."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from visavis.bundles.engine_settings import EngineSettings


class TtsSettings(EngineSettings):
    """Speech synthesis: text in; voice, mel and phoneme durations out.

    Every flag can also be set in the environment (VISAVIS_TTS_PORT=50051)
    or in the section [tts] of the file that --config names.
    """

    section: ClassVar[str] = "tts"

    voices: str = Field(
        "",
        description="Voices beside ours, with commas between: bundles that "
        "`visavis bundle make piper` made, and kokoro-82m or kokoro-82m-int8, of which "
        "kokoro-82m:am_michael is one voice. A session speaks with one when it asks for its name",
    )
    lead_s: float = Field(
        10.0, ge=0.5, le=60, description="How far the voice may be made ahead of what is heard"
    )
    phrase_cache_mb: float = Field(
        64.0,
        ge=0,
        le=16_384,
        description="Memory for the sound of prerendered phrases, 0.12 MB a second; 0: none",
    )

    @property
    def own_bundles(self) -> Sequence[str]:
        return [name.strip().partition(":")[0] for name in self.voices.split(",") if name.strip()]
