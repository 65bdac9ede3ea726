"""An English voice of Kokoro: letters and a style in, sound and the duration of every letter out.

Kokoro reads the very letters that our English front end writes (its table is where theirs comes
from), so nothing is translated. One network speaks with every voice; a voice is its style. It is
cut at its length regulator (visavis.bundles.kokoro): one half gives every letter its states and how
long it lasts, the other makes sound of states; between them they are repeated here.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from services.tts.prosody import PLAIN, Prosody
from services.tts.sound import HOP_SAMPLES, VoiceSteps, gain_to_speech
from services.tts.text.english import (
    EnglishLetters,
    SpokenPart,
    letter_ids,
)
from services.tts.text.surroundings import ALONE, Surroundings
from services.tts.voices.joining import trimmed
from visavis.engine import Engine
from visavis.serving.errors import EngineError, EngineLoadError

_LONGEST = 380
"""Letters at a time; the network reads 510."""
_PADDING_ID = 0
_FRAME_HOPS = 2
"""A frame of the durations is 600 samples at 24 kHz."""
_SAMPLE_SENTENCE = "Good morning to you."


def read_styles(path: Path) -> dict[str, NDArray[np.float32]]:
    """styles.npz of the bundle: by the voice's name [510, 256] float32, a row for each number of
    letters. Raises EngineLoadError where it cannot be read.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError) as error:
        raise EngineLoadError(f"{path} cannot be read: {error}; pull the bundle again") from error


class KokoroVoice:
    """Speaks English by Kokoro with one of its styles.

    `text`, `sound`: text.onnx and voice.onnx, loaded, which several voices may share; style:
    [510, 256] float32.
    """

    language = "en"

    def __init__(self, text: Engine, sound: Engine, style: NDArray[np.float32]) -> None:
        self._text = text
        self._sound = sound
        self._style = style
        self._letters = EnglishLetters()
        self._ids = letter_ids()
        self._gain = np.float32(1.0)
        (sample,) = self._letters.spoken(_SAMPLE_SENTENCE, _LONGEST)
        self._gain = gain_to_speech(self._synthesise(sample, 1.0)[0])

    def speak(
        self, text: str, prosody: Prosody = PLAIN, around: Surroundings = ALONE
    ) -> VoiceSteps:
        """Sound of `text`, trimmed of silence at both ends; nothing where it has no sound.

        What is around it is not heeded: the network would have to say that, too, and a sentence in
        four phrases would cost four sentences.
        """
        for part in self._letters.spoken(text, _LONGEST):
            voice, hops = self._synthesise(part, prosody.speed)
            block = trimmed(voice, hops, part)
            if block is not None:
                yield block

    def _synthesise(self, part: SpokenPart, speed: float) -> tuple[NDArray[np.float32], list[int]]:
        """Sound [hops * 300] at 24 kHz, and the hops of the beginning, each letter and the end."""
        ids = [_PADDING_ID, *(self._ids[letter] for letter in part.letters), _PADDING_ID]
        row = min(len(part.letters), len(self._style)) - 1
        style = self._style[row : row + 1]
        made = self._text.infer(
            {
                "tokens": np.array([ids], np.int64),
                "style": style,
                "speed": np.array([speed], np.float32),
            }
        )
        durations = made.pop("durations")
        states = {name: np.repeat(columns, durations, axis=2) for name, columns in made.items()}
        voice = np.asarray(self._sound.infer({"style": style, **states})["audio"], np.float32)
        hops = [_FRAME_HOPS * int(frames) for frames in durations]
        if len(hops) != len(ids) or len(voice) != sum(hops) * HOP_SAMPLES:
            raise EngineError(
                f"{self._sound.model.name} made {len(voice)} samples for {sum(hops)} hops of "
                f"{len(ids)} letters: it is no graph of Kokoro 1.0"
            )
        return voice * self._gain, hops
