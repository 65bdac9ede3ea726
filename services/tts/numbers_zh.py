"""Numbers as Mandarin says them."""

from __future__ import annotations

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
