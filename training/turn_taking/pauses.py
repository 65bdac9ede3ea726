"""Has sentences spoken, whole and broken off, and notes what the service's networks make of them.

    python -m training.turn_taking.pauses --sentences cmn.txt --out pauses.jsonl --voice joe

The sentences are those that the word model was not fitted to. Each is broken off at one place,
most often before or after a word that joins, and spoken there as one that goes on.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import soxr
from numpy.typing import NDArray

from services.asr.hearing.networks import Hearing
from services.asr.servicer import open_hearing
from services.asr.settings import AsrSettings
from services.tts.synthesizer import Synthesizer
from services.tts.voices.opening import open_synthesizer, own_voices
from training.turn_taking.finished_words import LANGUAGES, halves, sentences
from training.turn_taking.sounds import SAMPLE_RATE_HZ, Spoken, in_a_room, trimmed

_MARGIN_SAMPLES = SAMPLE_RATE_HZ * 3 // 10
# So much silence there is when the service asks, and the zeros that it puts behind it.
_PAUSE_SAMPLES = SAMPLE_RATE_HZ // 10
_JUDGED_SAMPLES = SAMPLE_RATE_HZ // 6
_SHORTEST_SAMPLES = SAMPLE_RATE_HZ // 4
_SPEEDS = (0.9, 1.0, 1.1, 1.2)
_JOINING = frozenset(
    "and or but because for to of with from at in on by about if when that who which".split()
)
_AT_A_JOINT = 0.6
_LENGTHS = {"en": (12, 80), "zh": (6, 22)}


@dataclass(frozen=True, slots=True)
class SpokenPause:
    """One silence behind speech, and what is told of it."""

    sentence: str
    voice: str
    language: str
    finished: bool
    text: str
    """As the recogniser understands it."""
    end_of_turn: float
    """The turn detector's probability."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("--sentences", type=Path, required=True, help="pairs, tab between them")
    options.add_argument("--out", type=Path, required=True)
    options.add_argument("--voice", action="append", default=[], help="one more English voice")
    options.add_argument("--model-dir", type=Path, help="where the bundles of such voices lie")
    options.add_argument("--count", type=int, default=200, help="sentences of each language")
    chosen = options.parse_args()
    own = own_voices(",".join(chosen.voice), chosen.model_dir)
    with open_synthesizer(own=own) as synthesizer, chosen.out.open("w", encoding="utf-8") as out:
        voices = {"en": ["heart", *chosen.voice], "zh": ["baker"]}
        lines = {lang: picked(chosen.sentences, lang, chosen.count) for lang in LANGUAGES}
        plan = [(text, lang, voices[lang]) for lang in LANGUAGES for text in lines[lang]]

        async def run() -> None:
            hearing = open_hearing(AsrSettings.model_validate({"profile": "default"}))
            await hearing.load()
            for text, language, names in plan:
                for sound, pause in spoken(synthesizer, text, language, names):
                    known = await heard(hearing, sound, pause)
                    out.write(json.dumps(asdict(known), ensure_ascii=False) + "\n")
            await asyncio.to_thread(hearing.close)

        asyncio.run(run())


def picked(path: Path, language: str, count: int) -> list[str]:
    """Half of them questions, and none that a voice may not know how to say."""
    shortest, longest = _LENGTHS[language]
    _, held_out = halves(sentences(path, language))
    plain = [
        text
        for text in held_out
        if shortest <= len(text) <= longest and not re.search(r"[\d\"“”]", text)
    ]
    asking = [text for text in plain if text[-1] in "?？"][: count // 2]
    telling = [text for text in plain if text[-1] in ".。"][: count - len(asking)]
    return asking + telling


def spoken(
    synthesizer: Synthesizer, text: str, language: str, voices: list[str]
) -> Iterator[tuple[NDArray[np.float32], SpokenPause]]:
    """The sentence whole and broken off, by every voice, in a quiet room: [N] float32."""
    choice = random.Random(text)
    beginning = broken_off(text, language, choice)
    speed = choice.choice(_SPEEDS)
    goes_on = "，" if language == "zh" else ","
    for voice in voices:
        for said, finished in ((beginning + goes_on, False), (text, True)):
            pieces = synthesizer.speak(said, language=language, voice=voice, speed=speed)
            pcm = np.concatenate([piece.voice for piece in pieces]).astype(np.float32) / 32768
            resampled = soxr.resample(pcm, synthesizer.sample_rate_hz, SAMPLE_RATE_HZ)
            speech = trimmed(np.asarray(resampled, np.float32))
            if len(speech) < _SHORTEST_SAMPLES:
                continue
            room = in_a_room(Spoken(speech), _MARGIN_SAMPLES, seed=len(speech)).pcm
            sound = room[: _MARGIN_SAMPLES + len(speech) + _PAUSE_SAMPLES]
            yield sound, SpokenPause(text, voice, language, finished, "", 0.0)


def broken_off(text: str, language: str, choice: random.Random) -> str:
    """A beginning of the sentence, without a mark at its end."""
    if language == "zh":
        return text[: choice.randrange(2, len(text) - 2)].rstrip("，、")
    words = text.split()
    places = range(1, len(words))
    joints = [at for at in places if not _JOINING.isdisjoint((words[at], words[at - 1]))]
    at = choice.choice(joints if joints and choice.random() < _AT_A_JOINT else places)
    return " ".join(words[:at]).rstrip(",;:")


async def heard(hearing: Hearing, sound: NDArray[np.float32], pause: SpokenPause) -> SpokenPause:
    """`pause` with what the recogniser and the turn detector say. sound: [N] float32 at 16 kHz."""
    text, _ = await hearing.transcribe(sound, pause.language)
    judged = np.concatenate([sound, np.zeros(_JUDGED_SAMPLES, np.float32)])
    end_of_turn, _ = await hearing.end_of_turn(judged)
    return SpokenPause(
        pause.sentence, pause.voice, pause.language, pause.finished, text.text, end_of_turn
    )


if __name__ == "__main__":
    main()
