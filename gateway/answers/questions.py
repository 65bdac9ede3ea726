"""When two questions are the same one: spelling, width, punctuation and fillers do not count."""

from __future__ import annotations

import re
import unicodedata

from gateway.talk.words import words_of

_APOSTROPHES = str.maketrans({"’": "'", "‘": "'", "ʼ": "'", "`": "'", "´": "'"})

# English, where a transcript and a typed question most often differ.
_CONTRACTIONS = (
    (re.compile(r"\bcan't\b"), "cannot"),
    (re.compile(r"\bwon't\b"), "will not"),
    (re.compile(r"n't\b"), " not"),
    (re.compile(r"\b(let)'s\b"), r"\1 us"),
    (re.compile(r"\b(what|where|who|when|how|why|that|there|here|it|he|she)'s\b"), r"\1 is"),
    (re.compile(r"'re\b"), " are"),
    (re.compile(r"\bi'm\b"), "i am"),
    (re.compile(r"'ll\b"), " will"),
    (re.compile(r"'ve\b"), " have"),
    (re.compile(r"'d\b"), " would"),
    (re.compile(r"\bcan not\b"), "cannot"),
    (re.compile(r"\bok\b"), "okay"),
)
# Said while the visitor thinks, wherever it stands.
_HESITATIONS = frozenset({"um", "umm", "uh", "uhm", "erm", "hmm", "mmm"})
_OPENERS_EN = (
    *(["excuse", "me"], ["you", "know"], ["i", "mean"], ["thank", "you"]),
    *([w] for w in ("well", "so", "okay", "oh", "hey", "hi", "hello", "please", "sorry")),
    *([w] for w in ("and", "but", "er", "ah", "yes", "yeah", "alright", "thanks")),
)
_CLOSERS_EN = (["please"], ["thanks"], ["thank", "you"])

_HESITATIONS_ZH = re.compile("[嗯呃唔]+")
_OPENERS_ZH = re.compile(
    "额|那么|然后|对了|请问一下|请问|你好|您好|喂|哎|唉|啊|哦|噢|好的|不好意思|打扰一下"
    "|麻烦问一下|麻烦问下|麻烦|我?想问一下|我?想问问|我?想问|问一下|问下"
)
_CLOSERS_ZH = tuple("谢谢你 谢谢您 谢谢 啊 呀 呢 哦 啦 嘛 吧".split())

_HAN = r"[\u3400-\u4dbf\u4e00-\u9fff]"
_BLANK_AT_HAN = re.compile(rf"(?<={_HAN})\s+|\s+(?={_HAN})")


def exactly(question: str) -> str:
    """`question` as it is, but for blanks around and between its words."""
    return " ".join(question.split())


def normalised(question: str, language: str) -> str:
    """What is left of `question` when nothing counts but what is asked: its `words_of`.

    Case, punctuation, full and half width, blanks between Chinese characters, hesitations,
    leading and trailing courtesies; English contractions are written out. A question that
    consists of such words alone ("hello") stays what it is. language: BCP 47.
    """
    text = unicodedata.normalize("NFKC", question).translate(_APOSTROPHES).casefold()
    primary = language.partition("-")[0].lower()
    if primary == "en":
        for pattern, words in _CONTRACTIONS:
            text = pattern.sub(words, text)
    text = _BLANK_AT_HAN.sub("", " ".join(words_of(text)))
    if primary == "en":
        return _core_english(text)
    return _core_chinese(text) if primary == "zh" else text


def _core_english(text: str) -> str:
    words = [word for word in text.split() if word not in _HESITATIONS]
    begin, end = 0, len(words)
    while found := next((o for o in _OPENERS_EN if words[begin : begin + len(o)] == o), None):
        begin += len(found)
    while found := next(
        (c for c in _CLOSERS_EN if words[max(begin, end - len(c)) : end] == c), None
    ):
        end -= len(found)
    return " ".join(words[begin:end] or words) or text


def _core_chinese(text: str) -> str:
    words = _HESITATIONS_ZH.sub("", text)
    begin, end = 0, len(words)
    while found := _OPENERS_ZH.match(words, begin):
        begin = found.end()
    while closer := next((c for c in _CLOSERS_ZH if words.endswith(c, begin, end)), None):
        end -= len(closer)
    return words[begin:end] or words or text
