"""Mandarin text as it is written -> as it is said: numbers, dates, times, units, symbols."""

from __future__ import annotations

import re
from collections.abc import Callable

from services.tts.numbers_zh import say_digits, say_integer, say_number

_N = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?"
_UNITS = {
    "km/h": "公里每小时", "m/s": "米每秒", "km": "公里", "kg": "公斤", "cm": "厘米", "mm": "毫米",
    "ml": "毫升", "mL": "毫升", "m²": "平方米", "GB": "吉字节", "MB": "兆字节", "KB": "千字节",
    "TB": "太字节", "kW": "千瓦", "GHz": "吉赫兹", "MHz": "兆赫兹", "Hz": "赫兹", "m": "米",
    "g": "克", "L": "升", "℃": "摄氏度", "°C": "摄氏度", "℉": "华氏度", "°F": "华氏度", "°": "度",
}  # fmt: skip
_CURRENCIES = {"$": "美元", "€": "欧元", "£": "英镑", "¥": "元", "￥": "元"}
_SYMBOLS = {
    "+": "加", "=": "等于", "×": "乘以", "÷": "除以", "≈": "约等于", "≥": "大于等于",
    "≤": "小于等于", ">": "大于", "<": "小于", "&": "和", "@": "艾特", "№": "号", "±": "正负",
    "√": "根号",
}  # fmt: skip
_MEASURES = (
    "个只条张把本位名次件种样天年周岁倍台辆部家座层间块片颗粒头匹架艘支根瓶杯碗盘双对套份万亿千百"
)


def _date(match: re.Match[str]) -> str:
    year, month, day = match.groups()
    return f"{say_digits(year)}年{say_integer(month)}月{say_integer(day)}日"


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
    return f"{say_number(match.group(1))}到{match.group(2)}"


def _percent(match: re.Match[str]) -> str:
    share = "千分之" if match.group(2) == "‰" else "百分之"
    number = match.group(1)
    sign = "负" if number[0] in "-−" else ""
    return f"{sign}{share}{say_number(number.lstrip('-−+'))}"


def _fraction(match: re.Match[str]) -> str:
    return f"{say_integer(match.group(2))}分之{say_integer(match.group(1))}"


def _money(match: re.Match[str]) -> str:
    symbol, number, scale = match.groups()
    return f"{say_number(number, counted=not scale)}{scale}{_CURRENCIES[symbol]}"


def _unit(match: re.Match[str]) -> str:
    sign, number, unit = match.groups()
    degrees = unit in ("℃", "°C", "℉", "°F", "°")
    spoken = say_number(number, counted=not degrees)
    if not sign:
        return spoken + _UNITS[unit]
    return ("零下" if degrees else "负") + spoken + _UNITS[unit]


def _counted(match: re.Match[str]) -> str:
    return say_number(match.group(1), counted=True) + match.group(2)


def _digit_by_digit(match: re.Match[str]) -> str:
    digits = re.sub(r"\D", "", match.group())
    return say_digits(digits, telephone=7 <= len(digits) <= 13)


def _number(match: re.Match[str]) -> str:
    return say_number(match.group())


_RULES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"(?<!\d)(\d{4})[-/.年](\d{1,2})[-/.月](\d{1,2})(?:日|号)?(?!\d)"), _date),
    (re.compile(r"(?<!\d)(\d{4})\s*年"), _year),
    (re.compile(r"(?<![\d:])([01]?\d|2[0-4]):([0-5]\d)(?::([0-5]\d))?(?![\d:])"), _time),
    (re.compile(r"(?<!\d)(?:\+?86[- ]?)?1\d{2}[- ]?\d{4}[- ]?\d{4}(?!\d)"), _digit_by_digit),
    (re.compile(r"(?<!\d)0\d{2,3}-\d{7,8}(?!\d)"), _digit_by_digit),
    (re.compile(rf"([-−+]?{_N})\s*([%‰])"), _percent),
    (re.compile(r"(?<![\d/])(\d{1,3})/(\d{1,3})(?![\d/])"), _fraction),
    (re.compile(rf"([$€£¥￥])\s*({_N})\s*([百千万亿]*)"), _money),
    (re.compile(rf"(?<![\d.])({_N})\s*[-–~～]\s*(?=\d)()"), _range),
    (
        re.compile(rf"([-−]?)({_N})\s*({'|'.join(map(re.escape, _UNITS))})(?![A-Za-z])"),
        _unit,
    ),
    (re.compile(rf"(?<![\d.第])({_N})\s*([{_MEASURES}])"), _counted),
    (re.compile(r"(?<![\d.,])0\d+(?![\d.])|(?<![\d.,])\d{17,}"), _digit_by_digit),
    (re.compile(rf"(?<!\w)[-−+]{_N}|{_N}"), _number),
)


def normalize(text: str) -> str:
    """Chinese characters and punctuation only; whatever has no reading is left as it is."""
    for pattern, say in _RULES:
        text = pattern.sub(say, text)
    text = re.sub(r"\d", lambda match: say_digits(match.group()), text)
    return "".join(_SYMBOLS.get(char, char) for char in text)
