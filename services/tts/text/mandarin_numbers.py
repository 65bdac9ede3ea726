"""Mandarin numbers, with what stands at them, as they are said."""

from __future__ import annotations

import re
from collections.abc import Callable

from services.tts.text.script_runs import DOLLARS, SAID_IN_MANDARIN, UNIT, UNITS

_DIGITS = "零一二三四五六七八九"
_TELEPHONE_DIGITS = "零幺二三四五六七八九"
_GROUPS = ("", "万", "亿", "万亿", "亿亿")
_PLACES = ("", "十", "百", "千")
MAX_INTEGER_DIGITS = 16
"""Longer ones are read digit by digit."""


def say_digits(digits: str, *, telephone: bool = False) -> str:
    """Digit by digit; "1" becomes 幺 in telephone numbers."""
    names = _TELEPHONE_DIGITS if telephone else _DIGITS
    return "".join(names[int(digit)] for digit in digits)


def say_integer(digits: str, *, counted: bool = False) -> str:
    """A whole number from its digits, "10" as 十; `counted`: 2 before a measure word is 两."""
    digits = digits.lstrip("0") or "0"
    if len(digits) > MAX_INTEGER_DIGITS:
        return say_digits(digits)
    if counted and digits == "2":
        return "两"
    groups = [digits[max(0, end - 4) : end] for end in range(len(digits), 0, -4)]
    spoken = ""
    zero_pending = False
    for index in range(len(groups) - 1, -1, -1):
        value = int(groups[index])
        if value == 0:
            zero_pending = bool(spoken)
            continue
        if spoken and (zero_pending or value < 1000):
            spoken += "零"
        leads_with_two = not spoken and value == 2 and index > 0
        spoken += ("两" if leads_with_two else _say_group(value)) + _GROUPS[index]
        zero_pending = False
    if spoken.startswith("一十"):
        spoken = spoken[1:]
    if spoken.startswith("二千"):
        spoken = "两" + spoken[1:]
    return spoken or "零"


def say_number(text: str, *, counted: bool = False) -> str:
    """A decimal number such as "-1,234.50": "负一千二百三十四点五零"."""
    text = text.replace(",", "")
    sign = ""
    if text[:1] in ("-", "−", "+"):
        sign = "" if text[0] == "+" else "负"
        text = text[1:]
    whole, point, fraction = text.partition(".")
    spoken = say_integer(whole or "0", counted=counted and not point)
    return sign + spoken + (f"点{say_digits(fraction)}" if fraction else "")


def _say_group(value: int) -> str:
    spoken = ""
    zero_pending = False
    for place in (3, 2, 1, 0):
        digit = value // 10**place % 10
        if digit == 0:
            zero_pending = bool(spoken)
            continue
        if zero_pending:
            spoken += "零"
            zero_pending = False
        spoken += _DIGITS[digit] + _PLACES[place]
    return spoken


# Text as it is written -> as it is said: numbers, dates, times, units, symbols.

_N = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?"
_TO = r"\s*[-–—~～]\s*"
_DEGREES = r"(?:[℃℉]|°[CF]?)"
_MONEY = "[$€£¥￥]"
_DAY = "(?:周|星期|礼拜)[一二三四五六日天]"
# A sign, no hyphen: not behind a number or a Latin word.
_MINUS = r"(?<![\dA-Za-z%℃°)）])[-−]"
_CURRENCIES = {"$": "美元", "€": "欧元", "£": "英镑", "¥": "元", "￥": "元"}
_CURRENCIES |= {f"{whose}$": name for whose, name in DOLLARS.items()}
_SYMBOLS = SAID_IN_MANDARIN | {
    "&": "和", "@": "艾特", "№": "号", "±": "正负", "∞": "无穷大", "−": "减",
}  # fmt: skip
_MEASURES = (
    "个只条张把本位名次件种样天年周岁倍台辆部家座层间块片颗粒头匹架艘支根瓶杯碗盘双对套份万亿千百"
    "小分秒点元米里斤吨升人步口句首篇项群批遍回处笔段排棵朵道扇幅门场顿趟厘毫公平英"
)
_FRACTIONS = {"½": "1/2", "⅓": "1/3", "⅔": "2/3", "¼": "1/4", "¾": "3/4", "⅛": "1/8"}
# What is read digit by digit stands behind these, or before those.
_NUMBERED = (
    "拨打|致电|转|分机|电话|热线|号码|邮编|密码|验证码|编号|学号|工号|房号|房间号|卡号|账号|单号|微信号"
    "|^号码?"  # behind a Latin word: "QQ号"
)
_NUMBERS = "热线|房间|号房|室"
_HELP = "1(?:1[09]|2[02])"
# No time of day, so that a sign behind it is no range: "熔点-38.83℃".
_POINT = "[沸熔冰露闪燃凝固零焦低高起终](?=点)"
_DAYTIME = "[上下中]午|[早晚]上|凌晨|傍晚|次日"
_SEASON = "财年|学年|赛季"
_OUTCOME = "的?比分|[获战取大完险]胜|击败|领先|落后|战平|逆转|负于|不敌|淘汰"


def _date(match: re.Match[str]) -> str:
    year, month, day = match.groups()
    return f"{say_digits(year)}年{say_integer(month)}月{say_integer(day)}日"


def _day(match: re.Match[str]) -> str:
    month, day = match.group().split("/")
    return f"{say_integer(month)}月{say_integer(day)}日"


def _year(match: re.Match[str]) -> str:
    return f"{say_digits(match.group(1))}年"


def _time(match: re.Match[str]) -> str:
    hours, minutes, seconds = match.groups()
    spoken = f"{_hours(hours)}点"
    if int(minutes):
        spoken += ("零" if int(minutes) < 10 else "") + f"{say_integer(minutes)}分"
    elif not seconds:
        return spoken + "整"
    return spoken + (f"{say_integer(seconds)}秒" if seconds else "")


def _hours(hours: str) -> str:
    return say_integer(hours, counted=True)


def _range(match: re.Match[str]) -> str:
    return f"{say_number(match.group(1))}到"


def _percents(match: re.Match[str]) -> str:
    least, most, sign = match.groups()
    return f"{least}{sign}到{most}{sign}"


def _years(match: re.Match[str]) -> str:
    return f"{match.group(1)}年到"


def _lifetime(match: re.Match[str]) -> str:
    """Of years in brackets, or of a season: "（1881—1936）", "2025-26赛季"."""
    return "到".join(map(say_digits, match.groups()))


def _to(match: re.Match[str]) -> str:
    return f"{match.group(1)}到"


def _below_zero(match: re.Match[str]) -> str:
    return f"零下{say_number(match.group(1))}到"


def _percent(match: re.Match[str]) -> str:
    share = "千分之" if match.group(2) == "‰" else "百分之"
    number = match.group(1)
    sign = "负" if number[0] in "-−" else ""
    return f"{sign}{share}{say_number(number.lstrip('-−+'))}"


def _fraction(match: re.Match[str]) -> str:
    above, below = filter(None, match.groups())
    return f"{say_integer(below)}分之{say_integer(above)}"


def _amount(match: re.Match[str]) -> str:
    """Its currency before it; a second "$" is the end of a formula."""
    least, most, symbol = match.groups()
    is_formula = symbol == "$" in match.string[: match.start()]
    return match.group() if is_formula else f"{symbol}{least}{most or ''}"


def _money(match: re.Match[str]) -> str:
    symbol, number, scale = match.groups()
    return f"{say_number(number, counted=not scale)}{scale}{_CURRENCIES[symbol]}"


def _degrees(match: re.Match[str]) -> str:
    degrees, minutes, seconds = match.groups()
    return f"{degrees}度{minutes}分" + (f"{seconds}秒" if seconds else "")


def _unit(match: re.Match[str]) -> str:
    sign, number, unit = match.groups()
    degrees = re.fullmatch(_DEGREES, unit) is not None
    spoken = say_number(number, counted=not degrees)
    if not sign:
        return spoken + UNITS[unit]
    return ("零下" if degrees else "负") + spoken + UNITS[unit]


def _counted(match: re.Match[str]) -> str:
    return say_number(match.group(1), counted=True) + match.group(2)


def _digit_by_digit(match: re.Match[str]) -> str:
    digits = re.sub(r"\D", "", match.group())
    return say_digits(digits, telephone=7 <= len(digits) <= 13)


def _numbers(match: re.Match[str]) -> str:
    """Of telephones and rooms."""
    return re.sub(r"\d+", lambda found: say_digits(found.group(), telephone=True), match.group())


def _digits(match: re.Match[str]) -> str:
    return re.sub(r"\d", lambda found: say_digits(found.group()), match.group())


def _version(match: re.Match[str]) -> str:
    parts = match.group().split(".")
    return "点".join(say_digits(part) if len(part) > 2 else say_integer(part) for part in parts)


def _power(match: re.Match[str]) -> str:
    sign, digits = match.groups()
    return f"的{'负' if sign else ''}{say_integer(digits)}次方"


def _written(form: str) -> Callable[[re.Match[str]], str]:
    """Says what was found as `form` has it."""
    return lambda match: match.expand(form)


def _number(match: re.Match[str]) -> str:
    return say_number(match.group())


_RULES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"(?<!\d)(\d{4})[-/.年](\d{1,2})[-/.月](\d{1,2})(?:[日号]|(?!\d))"), _date),
    (re.compile(r"(?<!\d)(?:\+?86[- ]?)?1\d{2}[- ]?\d{4}[- ]?\d{4}(?!\d)"), _digit_by_digit),
    (re.compile(r"(?<!\d)[(（]?0\d{2,3}[)）]?[- ]?\d{3,4}[- ]?\d{4}(?!\d)"), _digit_by_digit),
    (re.compile(r"(?<!\d)[48]00-\d{3,4}-?\d{3,4}(?!\d)|\+\d[\d -]{6,}\d"), _digit_by_digit),
    (
        re.compile(
            rf"(?:{_NUMBERED})[是为：:\s]{{0,3}}\d{{3,}}(?:[、或和/]\d{{3,}})*"
            rf"(?![\d.,]|\s*[{_MEASURES}])|(?:打|报警|急救|火警){_HELP}(?![\d{_MEASURES}])"
            rf"|(?<!\d){_HELP}(?=报警|急救|火警)"
            r"|(?<![A-Za-z\d])(?:[CDGKSTZ]\d{1,4}(?=次)|[A-Z]{2}\d{3,4}(?=次?航班))"
            r"|(?<=航班)[A-Z]{2}\d{3,4}(?!\d)"
            rf"|(?<!\d)\d{{3,5}}(?={_NUMBERS})"
        ),
        _numbers,
    ),
    (re.compile(r"(?<![\d.])\d+(?:\.\d+){2,}(?!\d|\.\d)"), _version),
    (
        re.compile(
            r"(?<!\d)(?:[5-9][05]|0[05])(?=后)|(?<=\d米)\d\d(?![\d.厘毫分公cm])|(?<=波音)7\d7(?!\d)"
            r"|(?<![\d.])(?:985|211|996)(?=[、和/]?(?:985|211|高校|院校|大学|工程|工作制))"
        ),
        _digits,
    ),
    (re.compile(r"(?<![\d/.])(?:0\d/\d\d|\d\d/0\d)(?![\d/.])"), _day),
    (re.compile(r"(\d)°(\d+)[′'](?:(\d+)[″\"])?"), _degrees),
    (re.compile(r"(?<=[\d万])\+(?=[\u4e00-\u9fff])"), _written("多")),
    (re.compile(rf"(?<![\d.第])2{_TO}(?=\d+\s*[{_MEASURES}])"), _written("两到")),
    (re.compile(r"(?<![\dA-Za-z)）])(?<![\dA-Za-z)）] )≈\s?(?=[$€£¥￥]?\d)"), _written("约")),
    # What is reckoned.
    (
        re.compile(r"=\s*\d[\d.,]*(?:\s*[-+]\s*\d[\d.,]*)+"),
        lambda match: re.sub(r"\s*-\s*", "减", match.group()),
    ),
    (re.compile(r"(?<=\d)\s*−\s*(?=\d)|(?<=\d)\s*-\s*(?=\d[\d.]*\s*=)"), _written("减")),
    (re.compile(r"(?<=\d)\s*/\s*(?=\d[\d.]*\s*=)"), _written("除以")),
    (re.compile(r"(?<=\d)\s?x\s?(?=\d)"), _written("乘")),
    (re.compile(r"\^\(?([-−]?)(\d+)\)?"), _power),
    # Signs and currencies stand before the number.
    (re.compile(r"US(?=\$)"), _written("")),
    (re.compile(rf"((?:{'|'.join(DOLLARS)})\$)\s*({_N})\s*([百千万亿]*)"), _money),
    (re.compile(rf"(?<![$€£¥￥\d.^])({_N})({_TO}{_N})?\s*({_MONEY})(?!\d)"), _amount),
    (re.compile(rf"({_MONEY}\s*{_N}[百千万亿]*){_TO}(?={_MONEY})"), _written(r"\1到")),
    (re.compile(rf"({_MONEY})\s*({_N}){_TO}(?=\d)"), _written(r"\2到\1")),
    (re.compile(rf"{_MINUS}({_MONEY})(?=\d)|({_MONEY})[-−](?=\d)"), _written(r"负\1\2")),
    # Both ends of a range are of one kind, which is often written behind the second alone.
    (re.compile(rf"({_DAY}){_TO}(?={_DAY})"), _to),
    (re.compile(rf"(\d{{1,3}}/\d{{1,3}}){_TO}(?=\d{{1,3}}/\d{{1,3}}(?!\d))"), _to),
    (re.compile(rf"(?<=[(（])(\d{{4}}){_TO}(\d{{4}})(?=[)）])"), _lifetime),
    (
        re.compile(
            rf"((?<!{_POINT})[{_MEASURES}月日号章节页集季℃℉]|°[CF]|\d(?=\D+前)){_TO}"
            r"(?=[第\d一二三四五六七八九]|(?:公元)?前\d)"
        ),
        _to,
    ),
    (re.compile(rf"(?<![\d.])({_N})\s*[%‰]?{_TO}({_N})\s*([%‰])"), _percents),
    (re.compile(rf"(?<!\d)(\d{{4}})\s*年?(?:{_TO}|[到至])(?=\d{{4}}\s*年)"), _years),
    (re.compile(rf"(?<!\d)(\d{{4}})(?:{_TO}|[到至])(\d{{4}}|\d\d)(?={_SEASON})"), _lifetime),
    (re.compile(rf"(?<!\d)\d{{4}}(?={_SEASON})"), _digits),
    # Scores.
    (re.compile(r"(比分\D{0,4}\d{1,3})\s*[-–—]\s*(?=\d{1,3}(?!\d))"), _written(r"\1比")),
    (re.compile(rf"(?<![\d.-])(\d{{1,3}})[-–—](?=\d{{1,3}}(?:{_OUTCOME}))"), _written(r"\1比")),
    (
        re.compile(rf"(?<![\d:])(\d{{1,2}}:[0-5]\d){_TO}(?=\d{{1,2}}:[0-5]\d(?![\d:])|{_DAYTIME})"),
        _to,
    ),
    (
        re.compile(
            rf"{_MINUS}({_N})\s*{_DEGREES}?(?:{_TO}|到|至)(?=[-−]?{_N}\s*(?:{_DEGREES}|度))"
        ),
        _below_zero,
    ),
    (re.compile(r"(?<!\d)(\d{4})\s*年"), _year),
    (
        re.compile(r"(?<![\d:])([01]?\d|2[0-4]):([0-5]\d)(?::([0-5]\d))?(?:整|分(?!钟))?(?![\d:])"),
        _time,
    ),
    (re.compile(r"(?<![\d:.])(\d+(?:\.\d+)?):(?=\d+(?:\.\d+)?(?![\d:]))"), _written(r"\1比")),
    (re.compile(rf"([-−+]?{_N})\s*([%‰])"), _percent),
    (re.compile(r"(\d+\.\d+)/(?=\d)|(?<![\d/])(\d+)/(?=\d+分(?!钟))"), _written(r"\1\2，满分")),
    (re.compile(r"(?<=\d)\s+(?=\d{1,2}/\d{1,2}(?![\d/]))"), _written("又")),
    (re.compile(r"(血压\D{0,4}\d{2,3})/(?=\d{2,3})"), _written(r"\1，")),
    (re.compile(r"(?<![\d/])24/7(?:小时)?(?![\d/])"), _written("七天二十四小时")),
    (re.compile(r"(?<![\d/])(\d{1,3})/(\d{1,3})(?![\d/])|(\d+)∕(\d+)"), _fraction),
    (
        re.compile(
            r"(?<=[\dA-Za-z²³元块万里米次度升克吨人件字])/"
            r"(?=[月年天日周时小人次个件分秒晚位张份公千斤米平升克吨度桶股台户套亩瓶盒杯辆间节课])"
        ),
        _written("每"),
    ),
    (re.compile(rf"({_MONEY})\s*({_N})\s*([百千万亿]*)(?:元|美元|欧元)?"), _money),
    (re.compile(rf"(?<![\d.])({_N}){_TO}(?=\d)"), _range),
    (re.compile(rf"{_MINUS}(?={_N}度)"), _written("零下")),
    (
        re.compile(rf"([-−]?)({_N})\s*({UNIT})(?![A-Za-z²³])"),
        _unit,
    ),
    (
        re.compile(rf"(?:(?<=[万亿])|(?<=次方)\s*)({UNIT})(?![A-Za-z²³])"),
        lambda match: UNITS[match.group(1)],
    ),
    (re.compile(rf"{_MINUS}(?=\d)(?![\d.]*\s*[月日号点年/])"), _written("负")),
    (re.compile(rf"(?<![\d.第负])(?!0\d)({_N})\s*([{_MEASURES}])(?!之)"), _counted),
    (re.compile(r"(?<![\d.,])0\d+(?![\d.])|(?<![\d.,])\d{17,}"), _digit_by_digit),
    (re.compile(rf"(?<!\w)[-−+]{_N}|{_N}"), _number),
)


_TO_BE_SAID = re.compile("[\\d½⅓⅔¼¾⅛/~～–—-]")


def normalize(text: str) -> str:
    """Chinese characters and punctuation only; whatever has no reading is left as it is."""
    if _TO_BE_SAID.search(text):
        text = re.sub("[½⅓⅔¼¾⅛]", lambda match: " " + _FRACTIONS[match.group()], text)
        for pattern, say in _RULES:
            text = pattern.sub(say, text)
        text = re.sub(r"\d", lambda match: say_digits(match.group()), text)
    return "".join(_SYMBOLS.get(char, char) for char in text)
