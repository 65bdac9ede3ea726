"""Where Chinese text, which has no blanks, may be cut between two words.

As far as can be told without a dictionary of all words: from one of words whose reading is
special, from a list of frequent words, and from characters that lean on their neighbours.
"""

from __future__ import annotations

from pypinyin.seg import mmseg

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
