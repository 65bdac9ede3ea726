"""What spoken words amount to: the same question again or its rest, "uh-huh", our own words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff〇"
_WORD = re.compile(
    rf"(?P<han>[{_HAN}])"
    r"|(?P<number>(?:(?<![\w.])[-−+])?\d+(?:[.,:/]\d+)*%?)"
    rf"|(?P<word>[^\W\d_{_HAN}]+(?:['’][^\W\d_{_HAN}]+)*[+#]*)"
)
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?:\D|$))")

# A clause that goes on has other marks at its end than one that is cut off.
_MARKS = ".,!?…。，！？、"

# Sounds of thinking and assent that change no question, wherever they stand.
_FILLERS = frozenset("um uhm uh erm er eh ah hm hmm mm mmm mhm mmhm hmmm 嗯 呃 唔".split())
# Particles that soften the end of a Chinese sentence; "吗" and "呢" ask, and are not among them.
_SOFT_ENDS = frozenset("啊 呀 哦".split())

# Of two answers: how much they have in common, and of how many words they are at least.
_MOSTLY = 0.6
_FEWEST_TO_COMPARE = 4
_RUNS_KEPT = 512

_HUMS = """hm|wow|well|嗯|哦|噢|喔|唔|呃|啊|哇|哎|诶|欸|咦|哈|嘿|哼|哟|呦|嚯"""
# What listeners say while somebody else goes on speaking.
_ASSENTS = """yeah|yep|yup|yes|right|ok|okay|sure|i see|i c|got it|cool|nice|great|good|true|exactly
|alright|all right|of course|go on|i know|makes sense|interesting|really|indeed
|absolutely|definitely|totally|certainly|precisely|exactly right|naturally|obviously|clearly
|correct|agreed|understood|just so|very much so|very well|true enough|fair enough|fair point
|good point|good to know|good idea|good for you|sure thing|for sure|no doubt|no kidding|no way
|no wonder|no problem|not bad|got you|gotcha|keep going|same here|me too|likewise|as expected
|you know|you're right|you're so right|you bet|you think so|for real|seriously|is that so
|is that right|i agree|i believe it|i bet|i can imagine|i get it|i get that|i got it|i got you
|i guess|i guess so|i hear you|i see that|i see what you mean|i know what you mean|i suppose
|i suppose so|i think so|i think so too|i understand|it does|it is|it happens|it makes sense
|that makes sense|make sense|that's it|that's so true|that's a good point|that's good to know
|sounds about right|huh|whoa|gosh|goodness|my goodness|my god|man|ha|ha ha|phew|nice one
|good stuff|good job|alrighty|okey dokey"""
MANDARIN_ASSENTS = """
    对 对啊 对呀 对哦 对吧 是 是的 是啊 是呀 是吗 是吧 是哦 就是 就是啊 就是嘛 好 好的 好吧 好啊
    好呀 好嘞 行 行啊 行吧 可以 可以啊 可以的 没错 没问题 没事 明白 明白了 我明白 我明白了 懂 懂了
    我懂 我懂了 听懂了 知道 知道了 我知道 我知道了 了解 了解了 清楚 清楚了 收到 理解 我理解 能理解
    可以理解 当然 当然了 当然啦 那当然 自然 肯定 肯定的 那肯定 一定 必须的 绝对 确实 确实是
    确实如此 的确 的确是 的确如此 真的 真的吗 真的啊 真的呀 真的假的 真是 真是的 真是这样 没想到
    真没想到 想不到 真想不到 这样 这样啊 这样子 这样子啊 是这样 是这样啊 是这样的 原来 原来这样
    原来是这样 原来是这样啊 原来如此 原来是这么回事 怪不得 怪不得呢 难怪 难怪呢 难怪了 有道理
    很有道理 有点道理 说得对 说得好 说得也是 说得有道理 说得没错 说的对 说的是 说的也是 说的没错
    你说得对 你说的对 也是 也对 那也是 那也对 那倒是 倒也是 倒是 可不是 可不是嘛 可不嘛 谁说不是呢
    同意 我同意 赞同 我也是 我也觉得 我也这么觉得 我也这么想 我也这样想 我觉得也是 我想也是 应该是
    应该吧 可能吧 可能是 也许吧 大概吧 差不多 厉害 真厉害 好厉害 太厉害了 厉害了 牛 真牛 太牛了 棒
    真棒 很棒 好棒 太棒了 精彩 太精彩了 真精彩 有意思 真有意思 很有意思 挺有意思 挺有意思的
    太有意思了 有趣 真有趣 很有趣 好有趣 挺有趣的 神奇 真神奇 好神奇 太神奇了 了不起 真了不起 漂亮
    好玩 真好玩 不错 真不错 很不错 挺不错 挺不错的 还不错 那不错 不可思议 不得了 不容易 真不容易
    太不容易了 真好 很好 挺好 挺好的 太好了 好极了 还好 还行 还可以 幸好 那就好 那挺好 那真好 那好
    那好吧 那行 可惜 真可惜 太可惜了 好可惜 天哪 天啊 天呐 我的天 我的天哪 我的天啊 老天 哎呀 哎哟
    哇塞 哇哦 好家伙 继续 你继续 请继续 继续说 你继续说 接着说 你接着说 然后呢 后来呢 我在听
    我听着呢 听着呢
    """.split()
# What they say of it, alone or behind one of the others: "that's fair", "how nice".
_PRAISES = """amazing awesome beautiful brilliant cool excellent fair fantastic fine funny good
    great impressive incredible interesting lovely neat nice perfect right splendid sweet true
    wonderful"""
_PRAISED = ("", "that's", "that is", "it's", "so", "very", "really", "how", "quite", "sounds")
# In Mandarin a character is a word.
LONGEST_BACKCHANNEL_WORDS = 8
# What recognisers are sure to have understood when somebody hums "mm-hm".
_HUMS_AS_WORDS = frozenset("mama mamma".split())
_STOPPING = frozenset(
    """no stop wait hold why who what when where how hey hi hello sorry excuse quiet silence shut
    enough pause mute help next back louder slower thanks thank please hang""".split()
)
_LONGEST_HUM_MS = 700
_NO_MANDARIN = re.compile(rf"[^{_HAN}]{{1,8}}|(.)\1{{3,}}")
_FEW_WORDS = 2
# A hum is written as up to so many words before there is a pause behind it.
_MOST_UNSURE_WORDS = 3
# Of short sounds whose words are no listener's: see docs/turn-taking.md, "Over an answer".
_LEAST_HUM_ODDS, _LONGEST_MISHEARD_MS = 0.0, 1200
# In Mandarin a character is a word. Of short sounds with texts that no fit has seen and whose words
# do not tell, half the listeners' are above, 9 in 100 others; with voices that none has seen, 2.
_MOST_HUM_CHARACTERS = 6
_LEAST_MANDARIN_HUM_ODDS = 0.9

# A recogniser understands most of an echo; a visitor says some of the answer's small words, too.
_FEWEST_ECHOED_WORDS = 4
_PROBABLY_REPEATED, _SURELY_REPEATED = 0.5, 0.8
# Of the tuning half's interruptions none that has no word to stop people is 0.55 like an answer.
_PROBABLY_MISHEARD, _SURELY_MISHEARD = 0.6, 0.8
# Letters that are written for one another where a word was not understood.
_ALIKE = str.maketrans("bpdtgkqcfvszxjmneiyouw", "ppttkkkkffssssnneeeooo")
_SPELT = ((re.compile("c(?=[eiy])|[cs]h"), "s"), (re.compile("ph"), "f"), (re.compile("h"), ""))
_TWICE = re.compile(r"([a-z])\1+")
_VOWELS = np.array([ord(letter) for letter in "aeo"], np.uint32)
_VOWEL_WEIGHT = 0.5
_BEHIND_ECHO = " \t.,!?;:…。，！？；：、"
_ECHO_SPAN_WORDS = 12
# Each is compared with each, on the event loop: some minutes of speech take a tenth of a second.
_MOST_COMPARED_WORDS = 600


# What begins no sentence, or hardly ever one that is not the rest of another.
_CARRIES_ON = re.compile(
    r"(?:and|or|nor|but|because|than|of|with|plus)\b|和|跟|与|以及|或者|还是|但|而且|因为|并且|还有",
    re.IGNORECASE,
)
_STOPS_AT_ONCE = re.compile(
    r"(?:stop|wait|hold|no|cancel|quiet|silence|shut|enough|never ?mind|forget)\b"
    r"|停|等|别|不|算了|安静|闭嘴",
    re.IGNORECASE,
)
# "No more than twenty euros", "不太贵的", "enough for four" are rests of a question.
_TAKES_BACK = re.compile(
    r"(?:stop|wait|cancel|never ?mind)\b|hold (?:on|it|up)\b|shut (?:up|it)\b"
    r"|forget (?:it|that|about)\b"
    r"|(?:no|quiet|silence|enough)(?=\W*$|[^\w\s]"
    r"| (?:please|thanks|thank|now|already|wait|stop|no|not that|that's|i mean|i meant|i said)\b)"
    r"|停(?:$|\W|[停一下止了吧])|等(?:$|\W|[等一下会])|别(?:$|\W|[别说讲问了再])|算了|安静|闭嘴"
    r"|(?:不|不是|不对|不用|不要|不行|不必)(?:了|啦|[说讲])?(?:$|\W)"
    r"|(?:不是|不对|不要|不用)(?:我|你|这个意思|再?[说讲])",
    re.IGNORECASE,
)
# Where nothing is behind it yet, either may come of it.
_MAY_TAKE_BACK = re.compile(
    r"(?:no|hold|shut|forget|quiet|silence|enough|[停等别]|不[是对用要行必]?)\W*", re.IGNORECASE
)
# Behind one who broke off, and how many of them at least.
_BROKEN_OFF = (("…", 1), (".", 2), ("-–—", 1))
_COMMAS = {".": ",", "。": "，"}
_ENDS = "?!？！"
_WIDE_MARKS = "，。、；：？！…"
_WIDE = re.compile(f"[{_HAN}{_WIDE_MARKS}]")


def words_of(text: str) -> list[str]:
    """Words in lower case, without punctuation. Numbers stay whole; a Chinese character is one."""
    folded = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    return [
        _THOUSANDS.sub("", m.group()).replace("−", "-").lstrip("+") for m in _WORD.finditer(folded)
    ]


def _phrases(listed: str) -> frozenset[tuple[str, ...]]:
    return frozenset(tuple(words_of(phrase)) for phrase in listed.split("|"))


# A hum has no spelling of its own: recognisers write "Eh-ha", "Mmh", "Uhuh". "He" is a word.
_HUM = re.compile(r"(?!he$)(?:[aeou]*h+[aeou]*h*|m+(?:h+m*)*|h+m+|[eu]+h?m+)")
_HUM_PHRASES = _phrases(_HUMS)
_PRAISING = "|".join(f"{said} {praise}" for said in _PRAISED for praise in _PRAISES.split())
_MANDARIN = frozenset(map(tuple, MANDARIN_ASSENTS))
_BACKCHANNELS = _HUM_PHRASES | _phrases(_ASSENTS) | _phrases(_PRAISING) | _MANDARIN


def same_question(one: str, other: str) -> bool:
    """Whether two transcripts ask the same: they differ in punctuation, case, blanks or fillers.

    Numbers are compared as numbers: 3.5 is not 35.
    """
    return _asked(one) == _asked(other)


def _asked(text: str) -> str:
    words = [word for word in words_of(text) if word not in _FILLERS]
    while words and words[-1] in _SOFT_ENDS:
        words.pop()
    return "".join(f"|{word}|" if any(map(str.isdigit, word)) else word for word in words)


def is_backchannel(text: str, *, complete: bool = True, asked: bool = False) -> bool:
    """Whether a listener says this without wanting the word: "uh-huh", "right, okay", "嗯，对".

    complete: False for a text that may go on, where the beginning of such a phrase counts too.
    asked: the speaker has just asked something, so that "yes" is an answer; a hum never is.
    """
    words = tuple("hm" if _HUM.fullmatch(word) else word for word in words_of(text))
    if len(words) > LONGEST_BACKCHANNEL_WORDS:
        return False
    # "No" may become "no way", but far more often it is what it is.
    whole = complete or stops(text)
    return _made_of(words, _HUM_PHRASES if asked else _BACKCHANNELS, whole)


def _made_of(words: tuple[str, ...], phrases: frozenset[tuple[str, ...]], complete: bool) -> bool:
    if not words or words in phrases:
        return True
    if not complete and any(phrase[: len(words)] == words for phrase in phrases):
        return True
    return any(
        words[:end] in phrases and _made_of(words[end:], phrases, complete)
        for end in range(1, len(words))
    )


def is_misheard_hum(
    text: str,
    *,
    voiced_ms: int,
    hum_odds: float | None,
    goes_on: bool = False,
    language: str = "",
) -> bool:
    """Whether a short sound over an answer was a listener's, whatever words were made of it
    ("Mama").

    hum_odds: log odds by the sound; None where it was not asked, and then its words stand.
    goes_on: there is a pause behind words that cannot be all of it ("if I"). A word that stops
    people is never one. language: as the recogniser tells it; a hum in Mandarin comes out as
    letters, digits, or one character over and over, and whether it goes on does not count.
    """
    words = words_of(text)
    short = voiced_ms <= _LONGEST_HUM_MS
    if not words or _stops_at_once(text) or voiced_ms > _LONGEST_MISHEARD_MS:
        return False
    if language in ("zh", "yue"):
        return _is_mandarin_hum(text, words, hum_odds, short=short)
    if stops(text):
        return False
    if short and len(words) <= _FEW_WORDS and words[0] in _HUMS_AS_WORDS:
        return True
    broken_off = goes_on and short and len(words) <= _FEW_WORDS
    return hum_odds is not None and (broken_off or hum_odds > _LEAST_HUM_ODDS)


def _is_mandarin_hum(text: str, words: list[str], hum_odds: float | None, *, short: bool) -> bool:
    few = len(words) <= _MOST_HUM_CHARACTERS
    if few and hum_odds is not None and hum_odds > _LEAST_MANDARIN_HUM_ODDS:
        return True
    return short and not stops(text) and _NO_MANDARIN.fullmatch("".join(words)) is not None


def stops(text: str) -> bool:
    """Whether there is a word in it with which people stop somebody."""
    return _stops_at_once(text) or not _STOPPING.isdisjoint(words_of(text))


def _stops_at_once(text: str) -> bool:
    return _STOPS_AT_ONCE.match(text.lstrip()) is not None


def is_too_short_to_tell(text: str) -> bool:
    """Whether these words of unfinished speech may yet become others: "yo" becomes "yeah"."""
    return len(words_of(text)) <= _MOST_UNSURE_WORDS and not stops(text)


def takes_back(text: str) -> bool:
    """Whether this stops an answer to what was asked, and is no rest of the question."""
    return _TAKES_BACK.match(text.lstrip()) is not None


def may_take_back(text: str) -> bool:
    """Whether unfinished speech may do so, or go on with the question: "no", "no more than…"."""
    return _MAY_TAKE_BACK.fullmatch(text.strip()) is not None


def joined(first: str, second: str) -> str:
    """What one visitor said before and after a pause, as one text.

    A recogniser takes the pause for an end and writes a full stop there. It becomes a comma where
    the second part cannot begin a sentence ("and of Peru", "和英国"); the dash or the dots of one
    who broke off go. Between Chinese characters and marks stands no blank.
    """
    first, second = _without_break(first.rstrip()), second.lstrip()
    if not first or not second:
        return first or second
    goes_on = second[0].islower() or _CARRIES_ON.match(second) is not None
    if goes_on and first[-1] not in _ENDS:
        first = first[:-1] + _COMMAS.get(first[-1], first[-1])
        second = second[0].lower() + second[1:]
    wide = _WIDE.fullmatch(first[-1]) and (first[-1] in _WIDE_MARKS or _WIDE.fullmatch(second[0]))
    return f"{first}{second}" if wide else f"{first} {second}"


def _without_break(text: str) -> str:
    """`text` without the dots or the dash at its end, looked for from there: it may be long."""
    for marks, fewest in _BROKEN_OFF:
        kept = text.rstrip(marks)
        if len(text) - len(kept) >= fewest:
            return kept.rstrip()
    return text


def share_repeated(words: Sequence[str], said: Sequence[str]) -> float:
    """Share of `words`, 0 to 1, that occurs in `said` in the same order.

    The longest common subsequence: a recogniser that hears an echo misses some words of it.
    """
    if not words:
        return 0.0
    *_, repeated = _repeated(words, said)
    return repeated / len(words)


def _repeated(words: Sequence[str], said: Sequence[str]) -> Iterator[int]:
    """How many of the first word, the first two, and so on occur in `said` in the same order."""
    row = [0] * (len(said) + 1)
    for word in words:
        before = 0
        for column, other in enumerate(said, start=1):
            above = row[column]
            row[column] = before + 1 if word == other else max(above, row[column - 1])
            before = above
        yield row[-1]


def says_the_same(one: str, other: str) -> bool:
    """Whether one of two answers has most of its runs of three words in common with the other.

    "Yes, it is." answers many questions: those of three words or fewer are never the same.
    """
    a, b = _runs(one), _runs(other)
    return len(a & b) >= max(1, _MOSTLY * min(len(a), len(b)))


@lru_cache(_RUNS_KEPT)
def _runs(text: str) -> frozenset[tuple[str, ...]]:
    words = words_of(text)
    if len(words) < _FEWEST_TO_COMPARE:
        return frozenset()
    return frozenset(zip(words, words[1:], words[2:], strict=False))


def is_echo(text: str, said: str, *, sounds_like_it: bool, complete: bool) -> bool:
    """Whether `text` is what we have just said ourselves, `said` being all of it in order.

    sounds_like_it: the microphone's sound is a copy of ours; else a visitor who repeats a word or
    two is taken for one. complete: False for a text whose end may still change.
    """
    words = words_of(text)[:_MOST_COMPARED_WORDS]
    own = words_of(said)[-2 * len(words) - _ECHO_SPAN_WORDS :]
    if not sounds_like_it and len(words) < _FEWEST_ECHOED_WORDS:
        return False
    if not complete and len(words) < _FEWEST_ECHOED_WORDS:
        return True
    repeated = _PROBABLY_REPEATED if sounds_like_it else _SURELY_REPEATED
    misheard = _PROBABLY_MISHEARD if sounds_like_it else _SURELY_MISHEARD
    if share_repeated(words, own) >= repeated:
        return True
    if stops(" ".join(word for word in words if word not in own)):
        return False
    return share_misheard(words, own) >= misheard


def share_misheard(words: Sequence[str], said: Sequence[str]) -> float:
    """How much `words` sound like some stretch of `said`, at most 1: "deplanetary", "to plant a
    tree".

    The least edits that make one of the other, by letters that stand for sounds; a vowel counts
    half as much as a consonant. Of what both have in common by chance it is 0.4 to 0.6.
    """
    letters, own = _letters(words), _letters(said)
    weights, own_weights = _weights(letters), _weights(own)
    if not letters.size:
        return 1.0
    # The cheapest edits up to each letter of `said`; they may begin at any, so all begin with 0.
    skipped = np.concatenate([[0.0], np.cumsum(own_weights)])
    costs = np.zeros(len(own) + 1)
    for letter, weight in zip(letters, weights, strict=True):
        other = np.where(own == letter, 0.0, np.maximum(own_weights, weight))
        step = costs + weight
        step[1:] = np.minimum(step[1:], costs[:-1] + other)
        costs = np.minimum.accumulate(step - skipped) + skipped
    return 1.0 - float(costs.min() / weights.sum())


def _letters(words: Sequence[str]) -> NDArray[np.uint32]:
    """Classes of sounds, without blanks: words are cut at the wrong places, too. [N] code points"""
    spelt = "".join(words).replace("'", "")
    for pattern, sound in _SPELT:
        spelt = pattern.sub(sound, spelt)
    spelt = _TWICE.sub(r"\1", spelt.translate(_ALIKE))
    return np.frombuffer(spelt.encode("utf-32-le"), np.uint32)


def _weights(letters: NDArray[np.uint32]) -> NDArray[np.float64]:
    return np.where(np.isin(letters, _VOWELS), _VOWEL_WEIGHT, 1.0)


def without_echo(text: str, said: str) -> str:
    """`text` behind what its beginning repeats of `said`: a visitor who spoke into our echo."""
    folded = unicodedata.normalize("NFC", text)
    ends = [match.end() for match in _WORD.finditer(folded)]
    words, own = words_of(folded), words_of(said)
    if len(words) != len(ends):
        return text
    compared = _repeated(words[:_MOST_COMPARED_WORDS], own[-_MOST_COMPARED_WORDS:])
    # Words that repeat count for, others against; the visitor begins where the sum is largest.
    sums = [0, *(2 * repeated - count for count, repeated in enumerate(compared, start=1))]
    echoed = max(range(len(sums)), key=lambda count: (sums[count], -count))
    return text if not echoed else folded[ends[echoed - 1] :].lstrip(_BEHIND_ECHO)


def asks(text: str) -> bool:
    """Whether the text ends with a question."""
    return text.rstrip(" \t\n\"'”’」』)）").endswith(("?", "？"))


def words_to_read(text: str) -> str:
    """What of an unfinished question is worth reading ahead: all but the marks at its end.

    Its last word may be cut in the middle and turn out another: then only that word is read
    again, for what is common stays in the language model's cache. A single word is not worth it.
    """
    known = text.strip().rstrip(_MARKS)
    return known if " " in known or not known.isascii() else ""
