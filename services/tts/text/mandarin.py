"""All else that is Mandarin about text: where it may be cut, and how it sounds."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path

from pypinyin import Style, load_phrases_dict, pinyin
from pypinyin.seg import mmseg

from services.tts.sound import SILENCE, Span
from services.tts.text.script_runs import is_han
from visavis.serving.errors import ModelStoreError

# Where text without blanks may be cut between two words, as far as that can be told without a
# dictionary of all words: from those whose reading is special, from a list of frequent ones, and
# from characters that lean on their neighbours.

_BREAK_BEFORE = frozenset(
    "但是 因为 所以 如果 而且 或者 并且 然后 虽然 不过 以及 可以 我们 你们 他们 她们 它们 "
    "这个 那个 就是 还是 可能 需要 没有 例如 比如 包括 因此 于是 同时 其中 无论 即使 只要 "
    "只有 除了 通过".split()
)
_LEANS_ON_NEXT = frozenset(
    "的地得在和是有不很最更太也都就还只把被给对从到向为与或跟让使离每各这那第约由会能要想该请才再又几"
)
_LEANS_ON_LAST = frozenset("的地得了着过们吗呢吧啊呀等里上下中儿")
_NUMERALS = frozenset("零〇一二三四五六七八九十百千万亿点两")
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
    "公元 星期 平方 立方 公里 公斤 版本 成年 "
    "周一 周二 周三 周四 周五 周六 周日 周末 年轻 人民 "
    "现代 介绍 考试 启动 作者 作业 作用 工作 动作 尊重 充满 行李 基本 方面 进行 说明 表明 证明 "
    "发明 开发 设置 文件 网上 网站 程序 数字 价格 标准 条件 服务 产品 市场 经济 政治 政府 企业 "
    "公司 研究 分析 设计 管理 教育 训练 锻炼 检查 治疗 疾病 药物 医学 营养 蛋白 肌肉 皮肤 心理 "
    "情绪 压力 放松 态度 意见 决定 原则 理论 概念 定义 逻辑 思考 思维 解决 完成 实现 增加 减少 "
    "改善 促进 支持 参加 参考 表示 表达 交流 沟通 成本 "
    "象征 角色 重要 主要 美丽 漂亮 高兴 快乐 简单 容易 困难 不同 相同 不同 系统 过程 能力 能量 "
    "物质 质量 建筑 景点 著名 有名 游客 旅游 旅行 活动 机会 经验 计划 目标 情况 关系 社会".split()
)


def opens_part(characters: str) -> bool:
    """Whether a new part of the sentence begins with these two."""
    return characters in _BREAK_BEFORE


def may_part(before: str, after: str) -> bool:
    """Whether the words of `before` may end where `after` begins, and neither leans on the other.

    Both are Chinese characters only, of `after` at least one; the more, the surer.
    """
    last, following = before[-1], after[0]
    if last in _LEANS_ON_NEXT or last in _NUMERALS or following in _LEANS_ON_LAST:
        return False
    if last + following in _FREQUENT:
        return False
    return all(
        len(before) in accumulate(map(len, mmseg.seg.cut(before + after[:known])))
        for known in range(1, len(after) + 1)
    )


def going_on(ahead: str) -> str:
    """`ahead` and a little more, so that the sentence does not end there; "" where that is not
    Mandarin. ahead: the first character of what follows or more."""
    return f"{ahead}的时候" if is_han(ahead[:1]) else ""


# Text as it is said -> the phonemes of the Baker voice: initials, finals with tone, prosody marks.
#
# Tones are those that are heard: third-tone sandhi and the changes of 不 and 一 (Chao, A Grammar of
# Spoken Chinese, 1968) are applied to the dictionary's readings, as the corpus was labelled.

# Between two syllables of a word, two words, two clauses: the voice was trained with these marks
# and is understood far better with them than with "#0" alone.
_SYLLABLE = "#0"
_WORD = "#1"
BREAK = "#3"
END = "eos"
_NO_INITIAL = "^"
_AUDIBLE_BREAK_HOPS = 4

_BREAKS = frozenset('，、；：,;:—…。！？.!?（）()“”"《》\n')
_SPELLINGS = {"n": "en", "ng": "en", "m": "en", "hm": "heng", "hng": "heng", "ê": "ei",
              "lue": "lve", "nue": "nve", "yai": "ya", "fiao": "fei"}  # fmt: skip
_KEEPS_ONE_AFTER = frozenset("第零〇一二三四五六七八九十点初幺")
_KEEPS_ONE_BEFORE = frozenset("零〇一二三四五六七八九月号日楼班等")
_FULL_ER = frozenset("子童女孙歌科媳")
_FULL_ER_AFTER = frozenset("女婴幼孤胎男少小健生育")
_SPOKEN_NUMERALS = _NUMERALS | {"幺"}
_CLITICS = frozenset("的地得了着过吗呢吧们啊")
_TONE = re.compile(r"([a-zêüv]+)([1-5]?)$")


# "更好地理解" has the particle, whatever word 地 begins; not "具体地点".
_ADVERB = re.compile(
    "(?:认真|仔细|耐心|努力|积极|主动|自动|自然|简单|轻松|容易|方便|安全|顺利|成功|完全|充分|全面|深入|深刻|广泛"
    "|普遍|直接|间接|明显|显著|大幅|极大|大量|有力|有效|合理|正确|准确|精确|清楚|清晰|详细|快速|迅速|快乐|开心"
    "|高兴|愉快|幸福|健康|更好|很好|更快|更多|更加|不断|逐渐|逐步|持续|连续|反复|定期|及时|随意|随机|灵活|独立"
    "|自由|公平|客观|严格|严重|强烈|热情|温柔|安静|平静|勇敢|坚定|慢慢|轻轻|深深|渐渐|静静|默默|悄悄|紧紧|好好"
    "|大大|牢牢|特别|相反|同样|相应|条件|具体|真正|真实|真诚|礼貌|友好|小心|限度|可能|步步|点点)地"
    "(?![址图域位球铁震板道]|点(?![击头燃])|区(?!分|别)|下(?![降载达来去])|带(?![来领动走着给])|方(?!便)"
    "|形(?!成)|质(?!疑)|面(?![对向]))"
)
# What a conversation says often and the dictionary reads wrongly: a character, how it is read, and
# in which words.
_OWN_READINGS = (
    ("会", "huì", "一会儿 会计划"),
    ("都", "dōu", "都会 大都是"),
    ("更", "gèng", "更深 更易 更正确 更生动"),
    ("和", "hé", "和面包 和面条 和面粉 和面积 和药物 和药品"),
    ("与", "yǔ", "与会议"),
    ("还", "hái", "还清楚"),
    ("相", "xiāng", "上相关 上相对 上相当 上相似 上相互 上相同"),
    ("卷", "juàn", "卷子"),
    ("炸", "zhá", "炸鸡 炸虾 炸薯条 炸酱面"),
    ("儿", "er", "哪儿 一会儿"),
    ("为", "wèi", "为人民 为人们 为人类"),
    ("长", "zhǎng", "厅长 署长 舰长 秘书长 级长 族长"),
    ("重", "chóng", "重做 重来 重写 重发 重试 重置 重排 重命名"),
    ("行", "háng", "第一行 每一行 一行字 一行代码"),
    ("教", "jiāo", "教我 教你 教您 教他 教她 教大家 教孩子 教给"),
    ("数", "shǔ", "数一数 数到 数数"),
    ("量", "liáng", "量一量"),
    ("着", "zháo", "睡不着 用不着 找不着 够不着"),
    ("种", "zhòng", "接种"),
    ("种", "zhǒng", "这种植物 那种植物 一种植物 多种植物 几种植物 两种植物"),
    ("行", "xíng", "在行动 在行走 在行驶 在行李"),
    ("中", "zhòng", "猜中"),
    ("差", "chā", "时差 温差"),
    ("落", "luò", "落下"),
    ("发", "fà", "染发 烫发"),
    ("分", "fèn", "缘分"),
    ("系", "jì", "系上"),
    ("创", "chuāng", "创可贴"),
    ("当", "dāng", "当晚 当月"),
    ("大", "dài", "大夫"),
)
# Whose last character would be taken for the first of a word that is read otherwise: 基|本相|同.
_WHOLE = "基本 成本 方面 网上 进行 说明 表明 证明 发明".split()
# 地 is land, no particle, where these are before or behind it.
_BEFORE_LAND = "的这那块片在满遍下种各某每"
_BEHIND_LAND = "是在为的有和与及或里上下方"
# Of characters that are a word by themselves.
_ALONE = tuple(
    (re.compile(pattern), reading)
    for pattern, reading in (
        ("(?<=.)得(?!了|到了)", "de5"),  # 跑得快
        (
            "(?<=[我你您他她它们人家这那还也就都须可总又才])得(?![了出到过])|^得(?![了出到过分])",
            "dei3",
        ),
        (f"(?<=[^{_BEFORE_LAND}]{{2}})地(?=[^{_BEHIND_LAND}])", "de5"),  # 慢慢地走
        ("长", "chang2"),
        ("(?<![太很好多更最么较越不够挺间])长(?=[得出高胖满成在着了到牙痘毛肉草叶虫])", "zhang3"),
        ("(?<=[设定选译视名约称评变列归记写化转升降调换最更极颇尤较甚])为", "wei2"),
        ("为(?=[零二三四五六七八九十负]|一[百千万点])", "wei2"),
        ("(?<=[二两三四五六七八九十百千万这那每])只(?![有是能要会不好])", "zhi1"),
        ("(?<![氢核炸导炮枪烟])弹", "tan2"),
        ("调", "tiao2"),
        ("佛", "fo2"),
        ("削(?=[皮苹铅])", "xiao1"),
        ("(?<=[二两三四五六七八九十几每首末])行(?![人吗不])", "hang2"),
    )
)


def _own_words() -> dict[str, list[list[str]]]:
    words: dict[str, list[list[str]]] = {}
    for character, reading, written in _OWN_READINGS:
        for word in written.split():
            known = words.get(word) or pinyin(word)
            words[word] = [
                [reading] if char == character else read
                for char, read in zip(word, known, strict=True)
            ]
    return words | {word: pinyin(word) for word in _WHOLE}


class BakerPhonemes:
    """Turns text into the Baker voice's phonemes and their ids. `mapper`: mapper.json of the voice.

    Raises ModelStoreError where that cannot be read.
    """

    def __init__(self, mapper: Path) -> None:
        try:
            content = json.loads(mapper.read_text(encoding="utf-8"))
            self._ids: Mapping[str, int] = content["symbol_to_id"]
            self._syllables: Mapping[str, tuple[str, str]] = content["pinyin_dict"]
        except (OSError, ValueError, KeyError) as error:
            raise ModelStoreError(
                f"{mapper} cannot be read ({error}): pull the voice again"
            ) from error
        load_phrases_dict(_own_words())

    def symbols(self, text: str) -> list[str]:
        """Phonemes of normalised text, from "sil" to "sil"; empty where nothing can be spoken."""
        symbols: list[str] = []
        for clause in _clauses(text):
            spoken = self._clause(clause)
            if spoken and symbols:
                symbols.append(BREAK)
            symbols.extend(spoken)
        return [SILENCE, *symbols, SILENCE] if symbols else []

    def ids(self, symbols: list[str]) -> list[int]:
        """The network's ids of `symbols`, with the end mark."""
        return [self._ids[symbol] for symbol in (*symbols, END)]

    def _clause(self, characters: str) -> list[str]:
        symbols: list[str] = []
        words = list(mmseg.seg.cut(characters))
        word_starts = _starts_of_prosodic_words(words)
        readings = _sandhi(characters, words, _readings(words))
        for index, (character, reading) in enumerate(zip(characters, readings, strict=True)):
            match = _TONE.fullmatch(reading)
            base = match.group(1).replace("ü", "v") if match else ""
            base = _SPELLINGS.get(base, base)
            if match is None or base not in self._syllables:
                continue
            tone = match.group(2) or "5"
            if character == "儿" and _is_suffix(characters, index) and symbols:
                symbols.append("er5")
                continue
            if symbols:
                symbols.append(_WORD if index in word_starts else _SYLLABLE)
            initial, final = self._syllables[base]
            symbols += [initial, final + tone]
        return [symbol for symbol in symbols if symbol in self._ids]


def is_final(symbol: str) -> bool:
    """Whether `symbol` is a final with its tone, with which a syllable ends."""
    return symbol[-1:].isdigit() and not symbol.startswith("#")


def pinyin_spans(symbols: Sequence[str], hops: Sequence[int]) -> list[Span]:
    """Spans of the voice's symbols (the end mark last); their hops add up.

    Prosody marks count with the final before them, or as silence where they are long; the mark of
    a missing initial counts with the final behind it.
    """
    spans: list[Span] = []
    carried = 0
    for symbol, length in zip(symbols, hops, strict=True):
        if symbol == _NO_INITIAL:
            carried = length
            continue
        silent = symbol in (SILENCE, END) or (symbol == BREAK and length >= _AUDIBLE_BREAK_HOPS)
        symbol = SILENCE if silent else symbol
        if spans and (symbol.startswith("#") or symbol == spans[-1].symbol == SILENCE):
            spans[-1] = Span(spans[-1].symbol, spans[-1].hops + length)
        elif length + carried:
            spans.append(Span(symbol, length + carried))
        carried = 0
    return spans


def _clauses(text: str) -> list[str]:
    """Chinese characters between two breaks; everything else is left out."""
    clauses, current = [], ""
    for char in text:
        if is_han(char):
            current += char
        elif char in _BREAKS and current:
            clauses.append(current)
            current = ""
    return [*clauses, current] if current else clauses


def _readings(words: list[str]) -> list[str]:
    """One reading per character, such as "zhong1"."""
    characters = "".join(words)
    readings: list[str] = []
    found = pinyin(characters, style=Style.TONE3, neutral_tone_with_five=True, errors="default")
    for heteronyms in found:
        reading = heteronyms[0]
        # Characters without a reading come back as they are, several in one, some with a tone.
        unread = [character for character in reading if is_han(character)]
        readings += unread or [reading]
    ends = set(accumulate(map(len, words), initial=0))
    for pattern, reading in _ALONE:
        for alone in pattern.finditer(characters):
            if {alone.start(), alone.end()} <= ends:
                readings[alone.start()] = reading
    for adverb in _ADVERB.finditer(characters):
        readings[adverb.end() - 1] = "de5"
    return readings


def _is_suffix(characters: str, index: int) -> bool:
    """儿 that colours the syllable before it, not the word for child."""
    after = characters[index + 1 : index + 2]
    return index > 0 and after not in _FULL_ER and characters[index - 1] not in _FULL_ER_AFTER


def _starts_of_prosodic_words(words: list[str]) -> set[int]:
    """Where words begin that do not lean on the one before them."""
    starts, position = set(), 0
    before = ""
    for word in words:
        goes_on_counting = before in _SPOKEN_NUMERALS and word[0] in _SPOKEN_NUMERALS
        if word not in _CLITICS and not goes_on_counting:
            starts.add(position)
        position += len(word)
        before = word[-1]
    return starts


def _sandhi(characters: str, words: list[str], readings: list[str]) -> list[str]:
    changed = _third_tones(words, readings)
    for index, character in enumerate(characters):
        following = changed[index + 1][-1:] if index + 1 < len(changed) else ""
        if character == "不" and changed[index].startswith("bu"):
            changed[index] = "bu2" if following == "4" else "bu4"
        elif character == "一":
            changed[index] = "yi" + _tone_of_one(characters, index, following)
    return changed


def _tone_of_one(characters: str, index: int, following: str) -> str:
    before = characters[index - 1 : index] if index else ""
    after = characters[index + 1 : index + 2]
    if not after or before in _KEEPS_ONE_AFTER or after in _KEEPS_ONE_BEFORE:
        if before and before not in _KEEPS_ONE_AFTER and before == after:
            return "5"
        return "1"
    if before and before == after:
        return "5"  # 看一看
    if after == "个" or following == "4":
        return "2"
    return "4" if following in ("1", "2", "3") else "1"


def _third_tones(words: list[str], readings: list[str]) -> list[str]:
    """Two third tones in a row: the first is heard as second.

    Inside words from the left, then across words from the right: 我也想买 is "wo2 ye3 xiang2 mai3".
    """
    changed = list(readings)
    start = 0
    for word in words:
        for index in range(start, start + len(word) - 1):
            if changed[index][-1:] == "3" and readings[index + 1][-1:] == "3":
                changed[index] = changed[index][:-1] + "2"
        start += len(word)
    for index in range(len(changed) - 2, -1, -1):
        if changed[index][-1:] == "3" and changed[index + 1][-1:] == "3":
            changed[index] = changed[index][:-1] + "2"
    return changed
