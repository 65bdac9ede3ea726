"""Mandarin words by which a text shows whether its speaker has finished."""

import re
from collections.abc import Sequence

from services.asr.turns.wording import ASKS, COMMAS, GOES_ON, without_marks

WORD = re.compile(r"[a-z']+|\d+|\w")
NUMBERS = frozenset("零一二三四五六七八九十幺")
CODES = ("密码", "验证码")
TELEPHONE = ("号码", "电话")

_REPLIES = frozenset(
    """是 是的 对 对的 好 好的 好吧 行 可以 不 不是 不行 不要 不用 不用了 没有 谢谢 谢谢你 再见 你好
    您好 喂 早上好 晚上好 下午好 晚安 拜拜 为什么 什么 明天 今天 停 继续 等一下 我不知道 知道了
    明白了 没关系 你是谁 不客气 当然 真的 不用了谢谢""".split()
)
_HANGING = tuple(
    """和 跟 与 及 或 或者 还是 还有 因为 所以 但是 但 可是 不过 然后 如果 要是 虽然 而且 并且
    以及 比如 例如 就是 就是说 把 被 给 在 从 对 向 往 关于 为了 除了 当 一个 那个 这个 很 非常 最
    想 要 想要 需要 请 帮我 告诉我 我想 我要 我是 是 叫 嗯 呃 那 的时候 我的 你的 他的""".split()
)
_OPENING = ("如果", "要是", "虽然", "当", "除了", "关于", "只要", "只有", "等到")
# In either script: signs that a sentence asks.
_ASKING = tuple("什么 什麼 怎 谁 誰 哪 几 幾 多少 为何 為何 吗 嗎 呢 有没有 是不是 多".split())

# In either script: who tells of himself or of what has been, and who wants something.
_TELLING = tuple("我 他 她 它 这 這 今天 昨天 刚才 剛才 最近".split())
_WANTING = tuple("请 請 帮 幫 告诉 告訴 给我 給我 想 要".split())
_FEWEST_TELLING = 5


# "当然可以", "我想是的", "应该是吧".
_SHORT_ANSWER = re.compile(
    r"(?:当然|可以|好|是|对|不|没|我想|我觉得|应该|也许|可能|大概|行)\w{0,3}(?:的|吧|可以|啊|是|行|好|了)"
)
_SHORT_QUESTION = re.compile(r"\w{0,2}(?:什么|谁|哪|几|怎么|为什么|多少)\w{0,2}")


def is_reply(text: str, words: Sequence[str]) -> bool:
    """All of it is an answer, a greeting or a wish of a few words."""
    return without_marks(text) in _REPLIES


def is_short(text: str, words: Sequence[str]) -> bool:
    """A short answer or question, which is no sentence of a book. Asked of what does not hang."""
    bare = without_marks(text)
    asking = text.endswith(ASKS) and _SHORT_QUESTION.fullmatch(bare) is not None
    return asking or _SHORT_ANSWER.fullmatch(bare) is not None


def hangs(text: str, words: Sequence[str]) -> bool:
    """It ends in a word with which nobody ends."""
    return without_marks(text).endswith(_HANGING)


def goes_on(text: str, words: Sequence[str]) -> bool:
    """A mark, or a clause without the comma behind it, lets expect more."""
    bare = without_marks(text)
    opening = bare.startswith(_OPENING) and not bare.startswith("当然")
    opened = opening and not any(mark in bare for mark in COMMAS)
    return text.endswith(GOES_ON) or opened


def asks(text: str, words: Sequence[str]) -> bool:
    """By the recogniser's mark."""
    return text.endswith(ASKS)


def states(text: str, words: Sequence[str]) -> bool:
    """It tells something, asks and wants nothing, and is no short answer."""
    bare = "".join(words)
    other = any(sign in bare for sign in (*_ASKING, *_WANTING))
    return bare.startswith(_TELLING) and len(bare) >= _FEWEST_TELLING and not other


def features(words: Sequence[str], recent: Sequence[str], length: int) -> list[str]:
    """What Mandarin shows beside what every language does, see finished_words.py."""
    whole = "".join(words)
    asking = any(sign in whole for sign in _ASKING)
    return [
        f"last four {''.join(recent[-4:])}",
        f"asks {asking} {length}",
        f"asks {asking} {recent[-1]}",
    ]
