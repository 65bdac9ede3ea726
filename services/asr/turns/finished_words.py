"""Words by which a text shows whether it goes on: by rule, and learnt from whole sentences."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from services.asr.hearing.transcript import UNSPACED

# ------------------------------------------------------------ hanging words
# Words by which a text shows whether it goes on: English and Mandarin.

# Nothing ends with these, whatever mark the recogniser puts behind them.
HANGING = frozenset(
    """and or but because although though unless until since while whereas if than
    the a an my your his its our their every each
    very really quite rather such which whose who whom
    could would should shall may might must cannot i'm we're they're you're i've we've
    mr mrs dr between among during without into onto toward towards per versus""".split()
)
# Prepositions end a question ("what are you looking for?"), rarely a statement.
STRANDED = frozenset("for to of with from at in on by about like as that".split())
# "is" ends "tell me what it is", not "the thing I need is".
VERBS_THAT_HANG = frozenset("is are was were be am has have had".split())
SUBJECTS = frozenset(
    """i you he she it we they this that there here who what where how not yes no
    one all any never ever to""".split()
)
# "He was not ..." goes on, "of course not" does not.
BEFORE_A_FINAL_NOT = frozenset(
    "course probably maybe why rather hope guess think certainly absolutely definitely or".split()
)
FILLERS = frozenset("um uh er erm hmm mm uhm umm ah eh".split())
AFTER_WHICH_IT_GOES_ON = (
    "you know",
    "i mean",
    "let me think",
    "let me see",
    "let me spell it",
    "and then",
    "for example",
    "such as",
    "i need",
    "i want",
    "i would like",
    "i'd like",
)
OPENING = frozenset(
    ["well", "so", "now", "but", "like", "actually", "i", "i think", "okay so", "the", "my name is"]
)
RELATIVE = frozenset("who what where which how why".split())
# A sentence that begins so and has no comma has not come to its main clause.
OPENING_CLAUSE = frozenset("if although though unless while whenever once".split())
QUESTION_WORDS = frozenset(
    """who what when where why how which whose whom what's who's where's how's when's
    is are was were do does did can could will would shall should have has had may am
    isn't aren't don't doesn't didn't can't couldn't won't""".split()
)
_REPLIES = """
    yes, no, yeah, yep, nope, sure, okay, ok, right, exactly, really, of course, alright, all right,
    hello, hi, hey, hello there, good morning, good afternoon, good evening, good night,
    thanks, thank you, no thanks, no thank you, yes please, thank you very much, thanks a lot,
    all right thanks, alright thanks, goodbye, good bye, bye, bye bye, see you,
    stop, please stop, help, continue, go on, repeat that, say that again, never mind,
    why, why not, what, how, who are you, how are you, what is it, i see, i don't know,
    tomorrow, today, maybe, not yet, me too
"""
COMPLETE_REPLIES = frozenset(reply.strip() for reply in _REPLIES.split(","))

ZH_HANGING = tuple(
    """和 跟 与 及 或 或者 还是 还有 因为 所以 但是 但 可是 不过 然后 如果 要是 虽然 而且 并且
    以及 比如 例如 就是 就是说 把 被 给 在 从 对 向 往 关于 为了 除了 当 一个 那个 这个 很 非常 最
    想 要 想要 需要 请 帮我 告诉我 我想 我要 我是 是 叫 嗯 呃 那 的时候 我的 你的 他的""".split()
)
ZH_OPENING = ("如果", "要是", "虽然", "当", "除了", "关于", "只要", "只有", "等到")
# In either script: signs that a sentence asks.
ZH_ASKING = tuple("什么 什麼 怎 谁 誰 哪 几 幾 多少 为何 為何 吗 嗎 呢 有没有 是不是 多".split())
ZH_COMPLETE = frozenset(
    """是 是的 对 对的 好 好的 好吧 行 可以 不 不是 不行 不要 不用 不用了 没有 谢谢 谢谢你 再见 你好
    您好 喂 早上好 晚上好 下午好 晚安 拜拜 为什么 什么 明天 今天 停 继续 等一下 我不知道 知道了
    明白了 没关系 你是谁 不客气 当然 真的 不用了谢谢""".split()
)
ZH_DIGITS = frozenset("零一二三四五六七八九十幺")


# ------------------------------------------------------------ finished words
# How likely a turn ends with these words, learnt from whole sentences and their beginnings.
#
# A logistic regression over hashed word features (Weinberger et al. 2009, "Feature hashing for
# large scale multitask learning"); `training/turn_taking/finished_words.py` fits its weights to
# sentences of Tatoeba (tatoeba.org, CC BY 2.0 FR).

WEIGHTS_PATH = Path(__file__).parents[1] / "weights" / "finished_words.npz"
N_BUCKETS = 32_768
# One weight is told in steps of its scale, -127 to 127.
_SUREST = 5.0
_LONGEST_COUNTED = 12
# Nobody waits on what was said long ago, and features need no more.
_WORDS_READ = 40
_WORDS = re.compile(r"[\w']*\w[\w']*")
_CHARACTERS = re.compile(r"[a-z']+|\d+|\w")


@dataclass(frozen=True, slots=True)
class WordModel:
    """Of one language. weights: [N_BUCKETS] int8, to be multiplied by `scale`."""

    weights: NDArray[np.int8]
    scale: float
    bias: float

    def odds(self, words: Sequence[str], language: str) -> float:
        """Log odds that a turn ends with `words`, from `words_of`; -5 to 5."""
        if not words:
            return 0.0
        buckets = buckets_of(words, language)
        total = int(self.weights[buckets].sum(dtype=np.int64))
        return max(-_SUREST, min(_SUREST, total * self.scale + self.bias))


def words_of(text: str, language: str) -> list[str]:
    """Words with their apostrophes ("were" is not "we're"), numbers, and single characters."""
    lowered = text.casefold().replace("’", "'")
    return (_CHARACTERS if language in UNSPACED else _WORDS).findall(lowered)


def buckets_of(words: Sequence[str], language: str) -> list[int]:
    """Where the weights of the features of `words` lie; always as many for one language."""
    return [zlib.crc32(feature.encode()) % N_BUCKETS for feature in _features(words, language)]


@cache
def word_model(language: str) -> WordModel | None:
    """None for a language that none was fitted for."""
    with np.load(WEIGHTS_PATH) as kept:
        if language not in kept:
            return None
        scale, bias = kept[f"{language}_scale_bias"].tolist()
        return WordModel(kept[language], scale, bias)


def _features(words: Sequence[str], language: str) -> list[str]:
    recent = ["<", "<", "<", *words[-_WORDS_READ:]]
    first, second = words[0], words[1] if len(words) > 1 else ""
    before, last = recent[-2:]
    length = min(len(words), _LONGEST_COUNTED)
    shared = [
        f"last {last}",
        f"last two {before} {last}",
        f"last three {recent[-3]} {before} {last}",
        f"before {before}",
        f"length {length}",
        f"first and last {first} {last}",
        f"first two {first} {second}",
    ]
    if language in UNSPACED:
        whole = "".join(words)
        asks = any(asked in whole for asked in ZH_ASKING)
        return [
            *shared,
            f"last four {''.join(recent[-4:])}",
            f"asks {asks} {length}",
            f"asks {asks} {last}",
        ]
    return [
        *shared,
        f"first {first} {length}",
        f"ending {last[-3:]}",
        f"endings {before[-2:]} {last[-2:]}",
        f"asks {first in QUESTION_WORDS} {length}",
    ]
