"""Openers: the short words that people bridge the time with until they know what to say.

"Well, the capital of France is …". Which there are, after what they fit, and how an answer
follows them. Pure.
"""

from __future__ import annotations

import re

from gateway.answers.questions import normalised
from gateway.talk.words import words_of

BUILT_IN: dict[str, tuple[str, ...]] = {
    "en": ("Well,", "Let me see,", "Hmm,", "Let me think,", "So,"),
    "zh": ("这个嘛，", "那么，", "我想想，", "让我想一下，"),
}
"""By language; where nothing else is written down. Our voices say them well: of "Hm," the English
one makes a cough, of "嗯，" the Mandarin one a tenth of a second.
"""

# Shorter turns ("Why?", "再见") are answered as shortly as they are put. A Chinese word is a
# character here.
_FEWEST_WORDS = {"zh": 4}
_FEWEST_WORDS_ELSEWHERE = 3

# Nobody has to think about these, however long they are.
_COURTESIES = frozenset(
    tuple(words_of(text))
    for text in """how are you|how are you doing|how are you today|how do you do|how is it going
|nice to meet you|good to see you|have a nice day|see you later|see you tomorrow|that is all
|that was all|talk to you later|no thank you|not at all|good morning to you
|很高兴认识你|很高兴见到你|认识你很高兴|你今天好吗|你最近好吗|你最近怎么样|明天再见|祝你愉快
|没有别的了|就这些了|没有问题了""".split("|")
)
# What tells to do something with the talk itself.
_COMMANDS = tuple(
    tuple(words_of(text))
    for text in """stop|wait|repeat|continue|pause|cancel|forget|listen|shut up|hold on|be quiet
|go on|go ahead|go back|never mind|come on|say that again|say it again|speak up|speak louder
|speak slower|speak more
|停|等等|等一下|继续|重复|取消|别|不要|闭嘴|安静|算了|再说|说慢|说大声|慢点|慢一点|大声""".split(
        "|"
    )
)

_POLITELY = tuple(
    tuple(words_of(text))
    for text in """please|can you|could you|would you|will you
|请你|请|你能不能|能不能|你能|你可以|可以|麻烦你""".split("|")
)

# Beside these, an English word with a capital letter may be a name.
_FUNCTION_WORDS = frozenset(
    """a an the this that these those there here it its he she they we you my your his her our
    their in on at to for of from by with about as after before during since until while when
    where what which who how why if because although though unless and but or so yes no not is
    are was were do does did can could will would should may might must has have had some many
    most all both each every any one several let sure just only usually often sometimes
    generally typically""".split()
)
_FIRST_WORD = re.compile(r"\s*([A-Za-z]+)(?:['’][A-Za-z]*)?")
_SENTENCE_ENDS = (".", "!", "?", "。", "！", "？")


def fits(question: str, language: str) -> bool:
    """Whether somebody who is asked this may well begin with an opener. language: BCP 47."""
    primary = language.partition("-")[0].lower()
    words = tuple(words_of(normalised(question, language)))
    if len(words) < _FEWEST_WORDS.get(primary, _FEWEST_WORDS_ELSEWHERE) or words in _COURTESIES:
        return False
    while polite := next((p for p in _POLITELY if words[: len(p)] == p), None):
        words = words[len(polite) :]
    return not any(words[: len(command)] == command for command in _COMMANDS)


def in_text(opener: str) -> str:
    """The opener as it stands in the answer's text: with a blank behind, where its script has."""
    return f"{opener} " if opener and opener.isascii() else opener


def answer_behind(opener: str, text: str) -> str:
    """`text`, which begins with `opener`, as it was written: without it, and with its capital."""
    if not opener or not text.startswith(opener.rstrip()):
        return text
    answer = text[len(opener) :]
    word = _FIRST_WORD.match(answer)
    known = word is not None and word[1] in _FUNCTION_WORDS
    return answer[:1].upper() + answer[1:] if known else answer


class Joint:
    """The answer's text behind an opener: "Well, the", not "Well, The".

    Only a common function word loses its capital letter, and none behind the end of a sentence.
    No character comes or goes. Pure; one turn's.
    """

    def __init__(self, opener: str) -> None:
        self._held = ""
        self._joined = opener.rstrip().endswith(_SENTENCE_ENDS)

    def feed(self, text: str, *, last: bool = False) -> str:
        """What is known of the text; its first word waits until it is complete."""
        if self._joined:
            return text
        self._held += text
        word = _FIRST_WORD.match(self._held)
        complete = word.end() < len(self._held) if word else bool(self._held.strip())
        if not (complete or last):
            return ""
        self._joined, text, self._held = True, self._held, ""
        if word is None or not _is_function_word(word[1]):
            return text
        start = word.start(1)
        return text[:start] + text[start].lower() + text[start + 1 :]


def _is_function_word(word: str) -> bool:
    lowered = word.lower()
    return lowered in _FUNCTION_WORDS and word[1:] == lowered[1:]
