"""Sentences to train on and sentences kept aside, in English and Mandarin.

Training text is drawn from word lists (words.toml) through templates, from dictionaries at random,
and for English also from the topics of Python's own documentation, so that sounds meet in many
orders. What is kept aside was written by hand as somebody would answer a visitor; none of it can
come out of the templates.
"""

from __future__ import annotations

import gzip
import json
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np
from hibari.tts import ASSETS

_EN_TEMPLATES = (
    "The {adjective} {noun} will {verb} the {noun} {time}.",
    "{person} could not {verb} a {noun} {place}.",
    "Would you {verb} the {adjective} {noun}, please?",
    "I think that {person} should {verb} {time}, because the {noun} is {adjective}.",
    "Why did {person} {verb} my {noun} and your {noun} {place}?",
    "There were {number} {adjective} {noun}s {place} {time}.",
    "Well, {person} used to {verb} and {verb}, but the {noun} was too {adjective}.",
    "First {verb} the {noun}, then {verb} it {place}!",
    "How {adjective} the {noun} looks {time}, don't you think so?",
    "Nothing is as {adjective} as a {adjective} {noun}; {person} said so.",
    "If we {verb} it {time}, the {noun} may {verb} us.",
    "{noun}, {noun}, {noun} and {noun}: {person} had them all {place}.",
    "We were going to {verb} {number} {noun}s with {person} {time}.",
    "Yes, of course! Their {noun} has always been {adjective}.",
)

_ZH_TEMPLATES = (
    "{person}{time}{place}{verb}了{noun}。",
    "{adjective}的{noun}和{noun}都很{adjective}。",
    "请问，{person}为什么要{verb}这个{noun}？",
    "{time}，{person}想{verb}{number}个{noun}。",
    "如果{person}{verb}{noun}，{person}就会{verb}{noun}。",
    "我觉得{noun}比{noun}更{adjective}，你觉得呢？",
    "{person}说：{place}有{number}只{adjective}的{noun}！",
    "虽然{noun}很{adjective}，但是{person}还是{verb}它。",
    "{noun}、{noun}、{noun}，{person}全都{verb}过。",
    "别{verb}我的{noun}，{person}{time}要用。",
    "真的吗？{person}从来没有{place}{verb}过{noun}。",
)

_COMMON = {
    "en": (
        "the of to and is with you for that a in it was on as are this be have from they what "
        "there can an my we your which would about them then many these some her him into could "
        "five four three people my first water been more other could than only over also very",
        " ",
        ",",
        ".?!",
    ),
    "zh": (
        "的 了 是 在 不 我 你 他 们 这 那 有 就 也 说 要 会 好 和 很 都 一 个 到 去",
        "",
        "，",
        "。？！",
    ),
}
"""Words that any text is full of; what stands between words; comma; ends of sentences."""
_COMMON_SHARE, _SCRAMBLED_SHARE = 0.4, 0.6

HELD_OUT: dict[str, tuple[str, ...]] = {
    "en": (
        "Hello there! It is a pleasure to meet you, what would you like to know?",
        "The capital of France is Paris, and roughly two million people live there.",
        "I'm afraid I can't check that for you, but I can explain how it works.",
        "Sure, boil the pasta for nine minutes, and stir it every now and then.",
        "Photosynthesis turns light, water and carbon dioxide into sugar and oxygen.",
        "My favourite thing about autumn is probably the smell of wet leaves.",
        "You could take the number six bus, or simply walk for about a quarter of an hour.",
        "Computers store everything as zeros and ones, even photographs and songs.",
        "That is a very thoughtful question. Let me try to answer it step by step.",
        "If it rains this weekend, visiting the aquarium might be a better choice.",
        "Shakespeare wrote more than thirty plays, both comedies and tragedies.",
        "Please tell me your email address and I'll send the files over shortly.",
        "Bees visit about five thousand flowers just to fill one teaspoon with honey.",
        "The meeting begins at a quarter to eleven, so there is plenty of time left.",
        "Unfortunately, penguins cannot fly; they are excellent swimmers, though.",
        "I have never been to Portugal myself, but people praise its food and its weather.",
        "Gravity on Mars is much weaker, hence you would jump three times as high.",
        "Thank you for waiting. Both of the tickets are now booked under your name.",
        "To fix the problem, switch it off, wait a moment, and then switch it back on.",
        "Jazz grew out of blues and ragtime around the beginning of the last century.",
    ),
    "zh": (
        "您好，很荣幸认识您，请问有什么可以为您效劳？",
        "法国的首都是巴黎，那里大约住着两百万人。",
        "对不起，这件事我没法替您查，不过我可以说明它的原理。",
        "先把面条煮九分钟，期间不时地搅拌一下。",
        "植物通过光合作用，把阳光变成养分和氧气。",
        "我最爱的季节是深秋，因为树叶会变成金黄色。",
        "坐六路公交车就能到，步行的话差不多十五分钟。",
        "计算机用零和一来存储所有的信息，包括图片和歌曲。",
        "这个提问很有深度，让我一步一步地回答。",
        "倘若周末下雨，去水族馆也许更合适。",
        "李白一生写了许多诗，其中不少流传至今。",
        "麻烦您留下邮箱地址，稍后我把文件发过去。",
        "蜜蜂要飞过几千朵花，才能酿出一小勺蜂蜜。",
        "会议十点三刻开始，所以时间还很充裕。",
        "企鹅虽然不会飞，游泳却非常厉害。",
        "火星的重力比地球小得多，因此人能跳得更高。",
        "感谢耐心等候，两张票已经用您的名字订好了。",
        "遇到这种故障，先关掉电源，稍等片刻再重新启动。",
        "长城全长超过两万公里，是世界上最伟大的建筑之一。",
        "祝您旅途平安，欢迎下次再来。",
    ),
}


def _words(language: str) -> dict[str, list[str]]:
    lists = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))
    return {slot: words.split() for slot, words in lists[language].items()}


def _filled(template: str, words: dict[str, list[str]], rng: np.random.Generator) -> str:
    def pick(match: re.Match[str]) -> str:
        if match[1] == "number":
            return str(rng.integers(2, 100))
        return str(rng.choice(words[match[1]])).replace("|", " ")

    return re.sub(r"{(\w+)}", pick, template)


def _documentation() -> list[str]:
    """English sentences of plain words from the topics of Python's documentation."""
    text = re.sub(r"\s+", " ", " ".join(str(topic) for topic in topics.values()))
    pieces = (re.sub(r"[^A-Za-z ,']", " ", piece).strip() for piece in re.split(r"[.;:] ", text))
    plain = (re.sub(r"\s+", " ", piece) for piece in pieces)
    return [piece + "." for piece in plain if 5 <= len(piece.split()) <= 14]


def _english_words() -> list[str]:
    """Words of the English voice's own dictionary."""
    with gzip.open(Path(ASSETS) / "lexicon_us_gold.json.gz", "rt", encoding="utf-8") as file:
        words = json.load(file)
    return [w for w in words if w.isalpha() and w.islower() and 3 <= len(w) <= 10]


def _chinese_characters() -> list[str]:
    """The 3755 common characters: the first level of GB 2312."""
    codes = [bytes((row, cell)) for row in range(0xB0, 0xD8) for cell in range(0xA1, 0xFF)]
    return [c for c in (code.decode("gb2312", errors="ignore") for code in codes) if c]


def _scrambled(words: Sequence[str], language: str, rng: np.random.Generator) -> str:
    """Any words in any order, with common ones between them: sounds meet as they never did."""
    common, blank, comma, ends = _COMMON[language]
    count = int(rng.integers(4, 11) if language == "en" else rng.integers(7, 20))
    text = ""
    for index in range(count):
        chosen = common.split() if rng.random() < _COMMON_SHARE else words
        text += blank * bool(index) + str(rng.choice(chosen))
        if rng.random() < 0.08 and index < count - 2:
            text += comma
    return text + str(rng.choice(list(ends)))


def training_sentences(language: str, count: int, seed: int) -> list[str]:
    """`count` different sentences to train on, the same ones for the same seed."""
    rng = np.random.default_rng(seed)
    templates = _EN_TEMPLATES if language == "en" else _ZH_TEMPLATES
    words = _words(language)
    any_word = _english_words() if language == "en" else _chinese_characters()
    found: dict[str, None] = {}
    if language == "en":
        spare = _documentation()
        found.update(dict.fromkeys(spare[i] for i in rng.permutation(len(spare))[: count // 3]))
    while len(found) < count:
        if rng.random() < _SCRAMBLED_SHARE:
            sentence = _scrambled(any_word, language, rng)
        else:
            sentence = _filled(str(rng.choice(templates)), words, rng)
        found[sentence[0].upper() + sentence[1:]] = None
    kept_aside = set(HELD_OUT[language])
    return [sentence for sentence in found if sentence not in kept_aside]
