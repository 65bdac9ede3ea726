"""How an answer is to be spoken, as it was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from services.tts.prosody import (
    CONTROL_NAMES,
    ENERGY_LIMITS,
    PITCH_RANGE_LIMITS,
    Prosody,
    check_factor,
)
from services.tts.voices.base import VOICES, VoiceInfo, language_of, voice_named, voices_for
from visavis.serving.errors import InvalidInputError
from visavis.styles import checked_style

MIN_SPEED, MAX_SPEED = 0.5, 2.0
MAX_VOLUME = 2.0


@dataclass(frozen=True, slots=True)
class SpeechOptions:
    """How an answer is spoken. Check with `checked` before use."""

    language: str = ""
    """Of text whose script does not tell, such as digits alone."""
    voice: str = ""
    speed: float = 1.0
    volume: float = 1.0
    style: str = ""
    """What the answer begins with; tags in its text change it."""
    pitch_range: float = 1.0
    energy: float = 1.0

    @property
    def prosody(self) -> Prosody:
        """What is asked for on top of the style."""
        return Prosody(speed=self.speed, pitch_range=self.pitch_range, energy=self.energy)

    def checked(self, voices: Sequence[VoiceInfo] = VOICES) -> SpeechOptions:
        """These options with a plain language.

        Raises InvalidInputError or UnknownNameError; the former, too, where the voice cannot do
        what is asked for by number.
        """
        check_factor("speed", self.speed, (MIN_SPEED, MAX_SPEED))
        check_factor("volume", self.volume, (0.0, MAX_VOLUME))
        check_factor("pitch_range", self.pitch_range, PITCH_RANGE_LIMITS)
        check_factor("energy", self.energy, ENERGY_LIMITS)
        checked_style(self.style)
        language = language_of(self.language)
        if self.voice:
            languages = voice_named(self.voice, voices).languages
            if not self.language:
                language = languages[0]
        voice = voice_named(self.voice, voices) if self.voice else voices_for(language)[0]
        for name in sorted(self.prosody.controls() - voice.controls):
            raise InvalidInputError(
                f"{name}: voice {voice.name!r} cannot change {CONTROL_NAMES[name]}; it can change "
                + " and ".join(CONTROL_NAMES[control] for control in sorted(voice.controls))
            )
        return replace(self, language=language)
