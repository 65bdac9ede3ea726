"""What turn-taking asks of a language, and which module answers."""

import re
from collections.abc import Sequence
from typing import Protocol

from services.asr.hearing.transcript import UNSPACED
from services.asr.turns import english, mandarin


class Language(Protocol):
    """A module that knows a language. `words` are those of `text`, by `words_of`; never none."""

    WORD: re.Pattern[str]

    def is_reply(self, text: str, words: Sequence[str]) -> bool: ...
    def is_short(self, text: str, words: Sequence[str]) -> bool: ...
    def hangs(self, text: str, words: Sequence[str]) -> bool: ...
    def goes_on(self, text: str, words: Sequence[str]) -> bool: ...
    def asks(self, text: str, words: Sequence[str]) -> bool: ...
    def states(self, text: str, words: Sequence[str]) -> bool: ...
    def features(self, words: Sequence[str], recent: Sequence[str], length: int) -> list[str]: ...


def language_of(code: str) -> Language:
    """Languages that we know nothing of are taken for the one that is written like them."""
    return mandarin if code in UNSPACED else english


def words_of(text: str, code: str) -> list[str]:
    """Words with their apostrophes ("were" is not "we're"), numbers, and single characters."""
    return language_of(code).WORD.findall(text.casefold().replace("’", "'"))
