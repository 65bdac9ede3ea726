"""Where text may be cut into phrases: as early as it can be spoken, in English and Mandarin."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum

from pypinyin.seg import mmseg

# ------------------------------------------------------------ break words
# Words that tell the phrase cutter where a sentence may be cut and where a point ends nothing.

TITLES = frozenset(
    "dr. mr. mrs. ms. prof. st. gen. col. lt. sgt. capt. rev. hon. pres. gov. sen. rep. vs. cf. "
    "e.g. i.e. eg. ie. viz. approx. ca. jan. feb. "
    "mar. apr. jun. jul. aug. sep. sept. oct. nov. dec. mon. tue. wed. thu. fri. sat. sun.".split()
)
"""Abbreviations that something always follows: their point never ends a sentence."""

MAYBE_ABBREVIATIONS = frozenset(
    "no. nos. fig. figs. vol. pp. p. ch. sec. eq. al. etc. inc. ltd. co. corp. jr. sr. ph.d. est. "
    "dept. ave. blvd. rd. a.m. p.m. u.s. u.k.".split()
)
"""Their point ends a sentence where a capital letter follows."""

BREAK_BEFORE = frozenset(
    "and but or because so if when while where which who whose that than though although unless "
    "until since after before with without as for from through during about between into like "
    "however therefore instead to at in on by is are was were will can".split()
)
"""A new part of the sentence begins here: the voice may take a breath in front."""

KEEP_WITH_NEXT = frozenset(
    "a an the this these those my your his her its our their some any no each every all both "
    "of to in on at by for from with into as and or but if that than is are was were be been am "
    "will would can could should may might must do does did has have had not very so too more most "
    "over under about around near between within during through across against among toward "
    "because so when while where which who whose what how why although though unless until since "
    "such much many few several another other one also just only even quite rather almost nearly "
    "like per via than whether i'll you'll he'll she'll we'll they'll don't doesn't can't won't "
    "mr mrs ms dr i you he she it we they there i'm it's that's you're we're they're i've".split()
)
"""Never the last word of a cut phrase: it leans on what follows."""

BREAK_BEFORE_HAN = frozenset(
    "但是 因为 所以 如果 而且 或者 并且 然后 虽然 不过 以及 可以 我们 你们 他们 她们 它们 "
    "这个 那个 就是 还是 可能 需要 没有 例如 比如 包括 因此 于是 同时 其中 无论 即使 只要 "
    "只有 除了 通过".split()
)
"""The same for Mandarin, by their first two characters."""


# ------------------------------------------------------------ han words
# Where Chinese text, which has no blanks, may be cut between two words.
#
# As far as can be told without a dictionary of all words: from one of words whose reading is
# special, from a list of frequent words, and from characters that lean on their neighbours.

_LEANS_ON_NEXT = frozenset(
    "的地得在和是有不很最更太也都就还只把被给对从到向为与或跟让使离每各这那第约由会能要想该请才再又"
)
_LEANS_ON_LAST = frozenset("的地得了着过们吗呢吧啊呀等里上下中儿")
_NUMERALS = frozenset("零〇一二三四五六七八九十百千万亿点几两")
_FREQUENT = frozenset(
    "世界 时间 时候 今天 明天 昨天 晚上 早上 上午 下午 中午 现在 以前 以后 最后 首先 其次 "
    "动物 植物 人类 人们 朋友 孩子 先生 老师 学生 医生 父母 妈妈 爸爸 家人 大家 自己 别人 "
    "中国 北京 上海 美国 英国 法国 日本 巴黎 伦敦 东京 城市 国家 地方 地球 月亮 太阳 天空 空气 "
    "星球 宇宙 海洋 大气 自然 环境 天气 温度 春天 夏天 秋天 冬天 颜色 蓝色 红色 绿色 白色 黑色 "
    "喜欢 学习 工作 生活 睡觉 睡眠 觉得 知道 认为 希望 帮助 使用 选择 建议 练习 了解 理解 发现 "
    "发展 提高 保持 避免 尝试 开始 结束 成为 变成 形成 组成 引起 影响 出现 存在 产生 进行 提供 "
    "应该 需要 可能 能够 必须 愿意 可以 已经 一直 一般 一些 一种 一个 一起 一样 一定 非常 比较 "
    "特别 通常 经常 总是 很多 许多 大量 多种 各种 部分 所有 每天 有些 有人 没有 问题 方法 方式 "
    "东西 事情 原因 结果 故事 名字 语言 英语 汉语 中文 音乐 电影 电脑 手机 网络 信息 知识 科学 "
    "技术 历史 文化 艺术 食物 水果 蔬菜 牛奶 咖啡 身体 健康 运动 火车 飞机 汽车 公园 学校 医院 "
    "博物 图书 故宫 长城 因为 所以 如果 但是 而且 或者 然后 虽然 不过 例如 比如 包括 由于 关于 "
    "通过 为了 根据 什么 怎么 为什 哪里 这里 那里 这个 那个 这样 那样 我们 你们 他们 她们 它们 "
    "象征 角色 重要 主要 美丽 漂亮 高兴 快乐 简单 容易 困难 不同 相同 不同 系统 过程 能力 能量 "
    "物质 质量 建筑 景点 著名 有名 游客 旅游 旅行 活动 机会 经验 计划 目标 情况 关系 社会".split()
)


def may_part(before: str, after: str) -> bool:
    """Whether the words of `before` may end where `after` begins, and neither leans on the other.

    Both are Chinese characters only, of `after` at least one; the more, the surer.
    """
    last, following = before[-1], after[0]
    if last in _LEANS_ON_NEXT or last in _NUMERALS or following in _LEANS_ON_LAST:
        return False
    if last + following in _FREQUENT:
        return False
    return all(len(before) in _starts(before + after[:known]) for known in range(1, len(after) + 1))


def _starts(characters: str) -> set[int]:
    starts, position = set(), 0
    for word in mmseg.seg.cut(characters):
        starts.add(position)
        position += len(word)
    return starts


# ------------------------------------------------------------ text chunker
# Cuts the text that a language model streams into phrases, as early as they can be spoken.
#
# Pure and without clock. The text is read character by character, so the phrases do not depend on
# how it was split into tokens, and no character is lost: the phrases joined are the text.


class Pause(IntEnum):
    """How the phrase ends, and so how long the silence behind it is."""

    NONE = 0
    """Cut between two words of a sentence that goes on."""
    CLAUSE = 1
    SENTENCE = 2
    PARAGRAPH = 3


@dataclass(frozen=True, slots=True)
class Phrase:
    """A piece of the text as it came, markup and all."""

    text: str
    pause: Pause
    ahead: str = ""
    """The beginning of what follows, as far as it is known, where that is the same sentence."""
    style: str = ""
    """How it and what follows is said; "": as what came before."""


@dataclass(frozen=True, slots=True)
class PhraseLimits:
    """When a phrase may end. In units of about one spoken word."""

    clause_units: float
    """At a comma from here on."""
    soft_units: float
    """Before a word that opens a new part of the sentence from here on."""
    hard_units: float
    """Between any two words that do not belong together from here on."""
    han_units: float
    """The same between Chinese characters."""
    syllables: int = 0
    """So many Latin ones at least before a cut between words."""


# The first phrase decides how soon the answer is heard, and must last while the second is written;
# each later one is spoken while the one before it is heard, so it can wait longer.
PHRASE_LIMITS = (
    PhraseLimits(1, 3, 3, 2, syllables=4),
    PhraseLimits(3, 5, 6, 6),
    PhraseLimits(7, 20, 30, 15),
)
MAX_PHRASE_CHARACTERS = 240

_SENTENCE_ENDS = frozenset("。！？!?…．")
_CLAUSE_ENDS = frozenset("，、：；,;:—")
_NEEDS_NEXT = frozenset(".,:")
"""Part of a number, a time or a name where no blank follows."""
_CLOSERS = frozenset("\"'”’)]}」』）】》*_`")
_URL = re.compile(r"://|^www\.|@|[a-z0-9]\.[a-z]{2,}[/?]", re.IGNORECASE)
_DOTTED = re.compile(r"(?:[^\W\d_]\.)+")
_VOWELS = re.compile(r"[aeiouyà-öø-ÿ]+", re.IGNORECASE)
_HAN_UNITS = 0.5
_HAN_BEFORE = 2
_HAN_LOOKED_AT = 8
_LETTERS_PER_UNIT = 7


def is_han(char: str) -> bool:
    """A Chinese character."""
    return "\u4e00" <= char <= "\u9fff" or "\u3400" <= char <= "\u4dbf" or char == "〇"


def _bare(word: str) -> str:
    return word.strip("\"'“”‘’()*_,")


def _is_word(word: str) -> bool:
    """Neither number, address nor abbreviation."""
    return all(char.isalpha() or char in "'’-" for char in _bare(word))


class TextChunker:
    """Push text as it comes, take phrases as they are complete, flush at the end."""

    def __init__(self) -> None:
        self._reset(0)

    def _reset(self, spoken: int) -> None:
        self._text = ""
        self._units = 0.0
        self._word_start = 0
        self._spoken = spoken
        # Behind the point of an abbreviation that may also end the sentence; 0: none.
        self._open_abbreviation = 0

    def push(self, text: str) -> list[Phrase]:
        """Phrases that `text` completes; often none."""
        phrases = []
        for char in text:
            phrase = self._take(char)
            if phrase is not None:
                phrases.append(phrase)
        return phrases

    def flush(self) -> list[Phrase]:
        """The rest, at the end of the text. The chunker is as new afterwards."""
        rest = self._text
        self._reset(0)
        return [Phrase(rest, Pause.SENTENCE)] if rest else []

    def _take(self, char: str) -> Phrase | None:
        self._text += char
        cut = self._cut(char)
        self._count(char)
        if cut is None:
            return None
        position, pause = cut
        speakable = any(c.isalnum() for c in self._text[:position])
        if not speakable and len(self._text) < MAX_PHRASE_CHARACTERS:
            return None  # stray punctuation goes with what follows
        rest = self._text[position:]
        phrase = Phrase(self._text[:position], pause, rest if pause is Pause.NONE else "")
        self._reset(self._spoken + speakable)
        for kept in rest:
            self._text += kept
            self._count(kept)
        return phrase

    def _count(self, char: str) -> None:
        if is_han(char):
            self._units += _HAN_UNITS
            self._word_start = len(self._text)
        elif char.isspace():
            self._word_start = len(self._text)
        elif char.isalnum():
            word_length = len(self._text) - self._word_start
            if word_length % _LETTERS_PER_UNIT == 1:
                self._units += 1

    def _cut(self, char: str) -> tuple[int, Pause] | None:
        """Where to cut now that `char` has come, and which pause follows."""
        length = len(self._text)
        if char == "\n":
            return length, Pause.PARAGRAPH
        ending = self._ending(char)
        if ending is not None:
            return ending
        between = self._cut_between_characters() if is_han(char) else self._cut_between_words(char)
        if between is not None:
            return between, Pause.NONE
        if length >= MAX_PHRASE_CHARACTERS or (
            is_han(char) and self._units >= 2 * self._limits.hard_units
        ):
            blank = max(self._text.rfind(" ", 1), self._text.rfind("\t", 1))
            return (blank if blank > length // 2 else length), Pause.NONE
        return None

    def _ending(self, char: str) -> tuple[int, Pause] | None:
        """The cut at punctuation, if the text ends with any that counts."""
        length = len(self._text)
        if self._open_abbreviation and not char.isspace():
            cut, self._open_abbreviation = self._open_abbreviation, 0
            if char.isupper() or is_han(char):
                return cut, Pause.SENTENCE
        if char in _SENTENCE_ENDS and not self._in_url(length - 1):
            return length, Pause.SENTENCE
        if char in _CLAUSE_ENDS and not self._waits(char):
            return self._clause(length)
        mark = length - 1
        while mark > 0 and self._text[mark - 1] in _CLOSERS:
            mark -= 1
        before = self._text[mark - 1] if mark else ""
        if before == "." and (char.isspace() or is_han(char)):
            return self._full_stop(mark, length - 1)
        if before in _SENTENCE_ENDS and before and char.isspace():
            return length - 1, Pause.SENTENCE
        if before and before in _CLAUSE_ENDS and not (before in ",:" and char.isdigit()):
            if char.isspace() or (before in ",:" and is_han(char)):
                return self._clause(length - 1)
        if char.isspace() and before in ("-", "–") and self._text[mark - 2 : mark - 1].isspace():
            return self._clause(length - 1)
        return None

    def _waits(self, char: str) -> bool:
        """Only the next character tells whether this one ends a clause."""
        before = self._text[-2:-1]
        if char == ":":
            return True
        return (char == "," and before.isdigit()) or self._in_url(len(self._text) - 1)

    def _clause(self, position: int) -> tuple[int, Pause] | None:
        if self._units >= self._limits.clause_units:
            return position, Pause.CLAUSE
        return None

    def _full_stop(self, mark: int, position: int) -> tuple[int, Pause] | None:
        """A point at mark - 1 with a blank behind: end of sentence, abbreviation or both?"""
        word = self._text[:mark].split()[-1].lstrip("\"'“‘([{*_#")
        lowered = word.lower()
        if lowered in TITLES or (len(word) == 2 and word[0].isupper()):
            return None
        if self._text[:mark].strip(" \t*_#").rstrip(".").isdigit():
            return None  # "1. First": the number of a list
        if lowered in MAYBE_ABBREVIATIONS or (len(word) > 2 and _DOTTED.fullmatch(word)):
            self._open_abbreviation = position
            return None
        return position, Pause.SENTENCE

    def _cut_between_words(self, char: str) -> int | None:
        """Where to cut in front of a word that is complete with the blank `char`; the first phrase
        does not wait for more than its first letter."""
        new_word = self._text[-2:-1].isspace()
        if char.isspace() and not new_word:
            start, before = self._word_start, self._units - 1
            word = _bare(self._text[start:-1]).lower()
            opens = word in BREAK_BEFORE and before >= self._limits.soft_units
            if opens or (before >= self._limits.hard_units and self._may_begin(start)):
                return start if self._may_end(start) else None
        if new_word and self._limits.syllables and self._units >= self._limits.hard_units:
            start = len(self._text) - 1
            if self._may_begin(start) and self._may_end(start):
                return len(self._text[:-1].rstrip())
        return None

    def _may_begin(self, start: int) -> bool:
        """Whether the word at `start` may be parted from the one before: no number, no name."""
        last = self._text[:start].rsplit(None, 1)[-1:]
        letter = self._text[start]
        if not last or not letter.isalpha() or not _is_word(last[0]):
            return False
        return letter.islower() or last[0][0].islower()

    def _may_end(self, position: int) -> bool:
        """Whether the word before `position` leans on none that follows, and enough was said."""
        said = self._text[:position]
        last = said.rsplit(None, 1)[-1:]
        if not last or last[0].endswith(".") or _bare(last[0]).lower() in KEEP_WITH_NEXT:
            return False
        syllables = self._limits.syllables
        return not syllables or len(_VOWELS.findall(said)) >= syllables

    def _cut_between_characters(self) -> int | None:
        """Where to cut in front of the last two characters, which are Chinese."""
        position = len(self._text) - 2
        units = self._units - _HAN_UNITS
        if units >= self._limits.soft_units and self._text[position:] in BREAK_BEFORE_HAN:
            return position
        run, far = position, max(0, position - _HAN_LOOKED_AT)
        while run > far and is_han(self._text[run - 1]):
            run -= 1
        if units < self._limits.han_units or position - run < _HAN_BEFORE:
            return None
        following = self._text[position:]
        if not is_han(following[0]) or not may_part(self._text[run:position], following):
            return None
        return position

    def _in_url(self, position: int) -> bool:
        token = self._text[self._word_start : position]
        return bool(_URL.search(token))

    @property
    def _limits(self) -> PhraseLimits:
        return PHRASE_LIMITS[min(self._spoken, len(PHRASE_LIMITS) - 1)]
