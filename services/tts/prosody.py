"""What a style does to a voice, and what of it a voice can do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from visavis.serving.errors import InvalidInputError
from visavis.styles import NEUTRAL, STYLES


@dataclass(frozen=True, slots=True)
class Prosody:
    """Factors of what a voice does by itself; 1 changes nothing."""

    speed: float = 1.0
    pitch: float = 1.0
    """Of the fundamental frequency."""
    pitch_range: float = 1.0
    """Of how far the melody goes from its middle, in semitones."""
    energy: float = 1.0
    """Of the amplitude."""
    voicing: float = 1.0
    """0: whispered, there is nothing in between."""

    def controls(self) -> frozenset[str]:
        """Names of the factors that are not 1."""
        return frozenset(f.name for f in fields(self) if getattr(self, f.name) != 1.0)

    def times(self, other: Prosody) -> Prosody:
        """Both of them."""
        return Prosody(*(getattr(self, f.name) * getattr(other, f.name) for f in fields(self)))

    def within(self, controls: frozenset[str]) -> Prosody:
        """As far as these `controls` go."""
        lacking: Mapping[str, float] = dict.fromkeys(self.controls() - controls, 1.0)
        return replace(self, **lacking)


PLAIN = Prosody()
PITCH_RANGE_LIMITS = (0.3, 1.7)
ENERGY_LIMITS = (0.5, 1.5)
# Beyond these a voice is hard to follow; the request's own speed comes on top of a style's.
SPEED_LIMITS = (0.4, 2.5)

# Directions as the acoustic studies of acted emotions agree on them that Scherer reviews, "Vocal
# communication of emotion" (Speech Communication 40, 2003, 227-256). Sizes are small, so that
# a voice stays itself.
_PROSODY: Mapping[str, Prosody] = {
    NEUTRAL: PLAIN,
    "happy": Prosody(speed=1.04, pitch=1.06, pitch_range=1.3, energy=1.1),
    "sad": Prosody(speed=0.88, pitch=0.96, pitch_range=0.65, energy=0.8),
    "angry": Prosody(speed=1.06, pitch=1.0, pitch_range=1.25, energy=1.3),
    "surprised": Prosody(speed=1.02, pitch=1.08, pitch_range=1.5, energy=1.1),
    "afraid": Prosody(speed=1.08, pitch=1.08, pitch_range=1.1, energy=0.95),
    "disgusted": Prosody(speed=0.95, pitch=0.97, pitch_range=0.9, energy=0.95),
    "contemptuous": Prosody(speed=0.94, pitch=0.96, pitch_range=0.85, energy=0.95),
    "calm": Prosody(speed=0.92, pitch=0.98, pitch_range=0.8, energy=0.9),
    "excited": Prosody(speed=1.12, pitch=1.08, pitch_range=1.5, energy=1.25),
    "whisper": Prosody(speed=0.95, voicing=0.0),
}
CONTROL_NAMES: Mapping[str, str] = {
    "speed": "its speed",
    "pitch": "its pitch",
    "pitch_range": "its pitch range",
    "energy": "its energy",
    "voicing": "to a whisper",
}


def prosody_of(style: str) -> Prosody:
    """What `style` does; "" does nothing."""
    return _PROSODY[style] if style else PLAIN


def needs(style: str) -> frozenset[str]:
    """Controls that a voice must have to do all of `style`."""
    return prosody_of(style).controls()


def styles_within(controls: frozenset[str]) -> tuple[str, ...]:
    """Styles of which a voice with these controls can do everything."""
    return tuple(style for style in STYLES if needs(style) <= controls)


def check_factor(name: str, value: float, limits: tuple[float, float]) -> None:
    """Raises InvalidInputError where `value` is beyond what is allowed."""
    if not limits[0] <= value <= limits[1]:
        raise InvalidInputError(f"{name}: {value:g} is not from {limits[0]} to {limits[1]}")
