"""What a player would have let the visitor hear and see: gaps in the voice, pictures too late.

Pure: it is told what arrived when. The player that is judged begins to play a stream so long after
its first sound came (`budget_s`), and from then on plays every sample at the pace of its media
time. Sound that is not there when it is due is a gap; the player waits for it and is then behind
by so much more. While nothing can be heard it catches up, by 5 % of the time, until it is behind by
its budget again. A voice that a lost connection cuts off is a gap until it is heard again, and all
of its pictures until then are missing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, field

from visavis.tools.bench.visitor.media import HeardSound, SeenPicture

PICTURE_S = 0.040
"""From one picture to the next: faces are drawn 25 times a second."""

BUDGET_S = 0.100
"""How far a visitor's player is behind what arrives: its jitter buffer."""

_CATCH_UP = 0.05
# Between words there is silence of this length; what is missing there is missing in the voice.
_SPEAKING_S = 0.15
# Positions of the container are whole samples and ticks.
_EXACT_S = 0.001
# Sounds by which a picture's own is found: five seconds of them.
_KEPT_SOUNDS = 240


@dataclass(slots=True)
class PlayoutFigures:
    """What was wrong with what one visitor heard and saw, while the avatar spoke."""

    underruns: int = 0
    """Gaps: the sound came late, or never."""
    gap_s: float = 0.0
    """All gaps together."""
    frames: int = 0
    """Pictures that belong to a voice."""
    late_frames: int = 0
    """Of them, those that came too long after their sound had been played."""
    missing_frames: int = 0
    """Pictures between them that never came."""
    lost_gaps: int = 0
    """Of the gaps, those that lost connections made."""
    lost_gap_s: float = 0.0
    lost_frames: int = 0
    """Of the missing pictures, likewise."""
    behind_s: list[float] = field(default_factory=list)
    """For each picture, how long after its sound it arrived; negative: before."""


class PlayoutJudge:
    """Plays one visitor's stream as a player would. Only what arrives from `from_s` up to
    `until_s` is counted; the player runs all the time."""

    def __init__(self, *, budget_s: float = BUDGET_S, late_after_s: float = PICTURE_S) -> None:
        self.figures = PlayoutFigures()
        self.from_s, self.until_s = float("-inf"), float("inf")
        self._budget_s, self._late_after_s = budget_s, late_after_s
        self._behind_s: float | None = None
        """Moment of playing less media time."""
        self._sound_end_s = 0.0
        self._audible_s = float("-inf")
        """Media time at which the last audible sound ended."""
        self._picture_s: float | None = None
        """Media time of the last picture, if it belonged to a voice."""
        self._cut_s: float | None = None
        """Up to when the gap is counted of a voice that was cut off and is not heard again yet."""
        self._cut_pictures = False
        self._sounds: deque[tuple[float, float]] = deque(maxlen=_KEPT_SOUNDS)
        """Media time and arrival."""

    def begin_anew(self) -> None:
        """Another stream begins, which the player plays from its first sound on."""
        if self._behind_s is not None and self._cut_s is None and self._speaks(self._sound_end_s):
            self._cut_s = self._behind_s + self._sound_end_s
            self._cut_pictures = self._picture_s is not None
        self._behind_s, self._picture_s = None, None
        self._audible_s = float("-inf")
        self._sounds.clear()

    def asked(self) -> None:
        """The visitor wants another answer: the rest of the last one is missed no more."""
        self._cut_s = None

    def note(self, found: HeardSound | SeenPicture) -> None:
        """This arrived."""
        if isinstance(found, SeenPicture):
            self._picture(found)
        else:
            self._sound(found)

    def _sound(self, sound: HeardSound) -> None:
        length_s = len(sound.pcm) / sound.rate_hz
        audible = sound.audible_at is not None
        voiced = audible or self._speaks(sound.media_s)
        self._sounds.append((sound.media_s, sound.at_s))
        if self._behind_s is None:
            self._behind_s = sound.at_s + self._budget_s - sound.media_s
            self._lose(sound, gaps=1)
        else:
            hole_s = sound.media_s - self._sound_end_s
            if hole_s > _EXACT_S and voiced:
                self._gap(sound.at_s, hole_s)
            late_s = sound.at_s - (self._behind_s + sound.media_s)
            if late_s > 0:
                self._behind_s += late_s
                if voiced:
                    self._gap(sound.at_s, late_s)
            elif not voiced and -late_s > self._budget_s:
                self._behind_s -= min(-late_s - self._budget_s, _CATCH_UP * length_s)
        self._sound_end_s = sound.media_s + length_s
        if audible:
            self._audible_s = self._sound_end_s
            self._lose(sound, gaps=0)
            self._cut_s = None

    def _picture(self, picture: SeenPicture) -> None:
        if self._behind_s is None or not self._speaks(picture.media_s):
            self._picture_s = None
            return
        last_s, self._picture_s = self._picture_s, picture.media_s
        if not self._counts(picture.at_s):
            return
        figures = self.figures
        figures.frames += 1
        if last_s is not None:
            # A picture may be shown for half a picture more or less: the clock ticks every 20 ms.
            figures.missing_frames += max(0, int((picture.media_s - last_s) / PICTURE_S + 0.25) - 1)
        if picture.at_s - (self._behind_s + picture.media_s) > self._late_after_s:
            figures.late_frames += 1
        sound_at_s = self._arrival_of(picture.media_s)
        if sound_at_s is not None:
            figures.behind_s.append(picture.at_s - sound_at_s)

    def _gap(self, at_s: float, length_s: float, gaps: int = 1) -> None:
        if self._counts(at_s):
            self.figures.underruns += gaps
            self.figures.gap_s += length_s

    def _lose(self, sound: HeardSound, *, gaps: int) -> None:
        """A voice was cut off, and until this sound is played nothing is heard of it."""
        if self._cut_s is None or self._behind_s is None:
            return
        played_s = self._behind_s + sound.media_s
        length_s, self._cut_s = max(0.0, played_s - self._cut_s), max(played_s, self._cut_s)
        self._gap(sound.at_s, length_s, gaps)
        if self._counts(sound.at_s):
            missing = round(length_s / PICTURE_S) if self._cut_pictures else 0
            self.figures.missing_frames += missing
            self.figures.lost_gaps += gaps
            self.figures.lost_gap_s += length_s
            self.figures.lost_frames += missing

    def _speaks(self, media_s: float) -> bool:
        return media_s - self._audible_s < _SPEAKING_S

    def _counts(self, at_s: float) -> bool:
        return self.from_s <= at_s < self.until_s

    def _arrival_of(self, media_s: float) -> float | None:
        """When the sound of a media time arrived."""
        index = bisect_right(self._sounds, media_s, key=lambda sound: sound[0]) - 1
        return self._sounds[index][1] if index >= 0 else None
