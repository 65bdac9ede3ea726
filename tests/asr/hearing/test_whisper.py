"""Whisper's text, with a decoder that says what it is told to."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray
from tokenizers import AddedToken, Tokenizer
from tokenizers.models import WordLevel

from services.asr.hearing.whisper import Whisper
from tests.made_engine import MadeEngine
from visavis.engine import Tensors

LANGUAGES = ("en", "zh", "ja", "th")
FIRST, SECOND = 0, 1
"""The two words that are said."""
SECOND_OF_SOUND = 50
"""As timestamps count it, by 20 ms."""
VOCABULARY = 200


def tokenizer() -> Tokenizer:
    made = Tokenizer(WordLevel({"ชา": FIRST, "ดี": SECOND}))
    names = ("endoftext", "startoftranscript", *LANGUAGES, "translate", "transcribe")
    names += ("nospeech", "notimestamps")
    made.add_special_tokens([AddedToken(f"<|{name}|>", special=True) for name in names])
    return made


class Encoder(MadeEngine):
    """Makes nothing of the sound: the decoder needs none."""

    takes: ClassVar = {"mel": (1, 80, None)}

    def _infer(self, inputs: Tensors) -> dict[str, NDArray[Any]]:
        return {}


class Decoder(MadeEngine):
    """Says the tokens of `script` one after the other."""

    takes: ClassVar = {"tokens": (1, None)}
    gives: ClassVar = {"logits": (1, None, None)}
    kinds: ClassVar = {"tokens": np.int64}
    script: list[int]

    def _infer(self, inputs: Tensors) -> dict[str, NDArray[Any]]:
        logits = np.zeros((1, inputs["tokens"].shape[1], VOCABULARY), np.float32)
        logits[0, -1, self.script.pop(0)] = 50.0
        return {"logits": logits}


@pytest.mark.parametrize(
    ("language", "text"), [("en", "ชา ดี"), ("zh", "ชาดี"), ("ja", "ชาดี"), ("th", "ชาดี")]
)
def test_segments_are_joined_as_the_language_is_written(language: str, text: str) -> None:
    words = tokenizer()
    end = int(words.token_to_id("<|endoftext|>"))
    zero = int(words.token_to_id("<|notimestamps|>")) + 1
    one, two = zero + SECOND_OF_SOUND, zero + 2 * SECOND_OF_SOUND
    with Encoder() as encoder, Decoder() as decoder:
        decoder.script = [zero, FIRST, one, one, SECOND, two, end]
        heard = Whisper(encoder, decoder, words).transcribe(np.zeros(32_000, np.float32), language)
    assert [segment.text for segment in heard.segments] == ["ชา", "ดี"]
    assert heard.text == text
