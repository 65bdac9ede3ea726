"""Which recogniser hears which language, and recordings longer than one takes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.asr.cutter import Span, cut_at_pauses
from services.asr.transcript import Transcriber, Transcript
from services.asr.vad import FRAME_SAMPLES, VadState, VoiceDetector
from visavis.errors import SettingsError, UnknownNameError

# Sound below this is digital silence, or the last bit of a converter.
_SILENCE = 1.5 / 32768
# Names of one language that differ from the code that recognisers use.
_SAME_LANGUAGE = {"cmn": "zh", "jv": "jw", "iw": "he", "in": "id", "nb": "no", "fil": "tl"}


@dataclass(frozen=True, slots=True)
class Ear:
    """A recogniser under the name of its bundle."""

    bundle: str
    transcriber: Transcriber


class Languages:
    """Language code to recogniser."""

    def __init__(self, ears: Mapping[str, Ear], default: str) -> None:
        """`ears` by primary language subtag. Raises SettingsError if none hears `default`."""
        self._ears = dict(ears)
        self._default = default
        try:
            self.resolve(default)
        except UnknownNameError as error:
            raise SettingsError(f"default_language does not do: {error}") from None

    @property
    def known(self) -> tuple[str, ...]:
        return tuple(sorted(self._ears))

    def resolve(self, language: str) -> tuple[str, Ear]:
        """BCP 47 tag ("en-GB", "zh", "" for the default) to (code, recogniser).

        Raises UnknownNameError that lists what is known.
        """
        subtag = (language or self._default).replace("_", "-").split("-")[0].lower()
        code = _SAME_LANGUAGE.get(subtag, subtag)
        if code not in self._ears:
            raise UnknownNameError(
                f"language: {language[:40]!r} is not recognised here; "
                f"known are {', '.join(self.known)}"
            )
        return code, self._ears[code]


def speech_probabilities(
    pcm: NDArray[np.float32], detector: VoiceDetector, block_frames: int = 300
) -> Iterator[list[float]]:
    """Probability per VAD frame of a whole recording, block by block.

    pcm: [N] float32 at 16 kHz; the last frame is filled up with silence.
    """
    state = VadState()
    padded = np.pad(pcm, (0, -len(pcm) % FRAME_SAMPLES)).reshape(-1, FRAME_SAMPLES)
    for start in range(0, len(padded), block_frames):
        yield [detector.probability(f, state) for f in padded[start : start + block_frames]]


def pieces_of(pcm: NDArray[np.float32], speech: Sequence[float]) -> list[Span]:
    """Spans of samples worth recognising, each short enough for a recogniser."""
    if not len(pcm) or float(np.abs(pcm).max()) <= _SILENCE:
        return []
    spans = (Span(s.start, min(s.end, len(pcm))) for s in cut_at_pauses(speech))
    return [span for span in spans if span.length > 0]


def recognize_piece(
    pcm: NDArray[np.float32], span: Span, transcriber: Transcriber, language: str
) -> Transcript:
    """Transcript of one piece, timed from the start of the recording."""
    return transcriber.transcribe(pcm[span.start : span.end], language).shifted(span.start)
