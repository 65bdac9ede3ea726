"""English as it is written -> as the dictionary's own rules read it right: numbers with what stands
at them.

The dictionary reads cardinals, ordinals, years, decimals, times, dates, amounts and some units. It
says nothing of a sign or a currency that it does not expect, and joins numbers that a mark parts.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from hibari.g2p.normalize import ROMAN_CARDINAL, ROMAN_NUMERAL, ROMAN_ORDINAL
from hibari.g2p.numbers import ordinal

_Say: TypeAlias = str | Callable[[re.Match[str]], str]

_N = r"\d[\d,]*(?:\.\d+)?"
_SCALE = r"(?:\s?(?:[kKmMbB]|thousand|million|billion|trillion)\b)?"
_TO = r"\s?[-–]\s?"
_NAMES = {
    name[:3]: name
    for name in (
        "Monday Tuesday Wednesday Thursday Friday Saturday Sunday January February March April May "
        "June July August September October November December"
    ).split()
}
_MONTH = rf"(?:{'|'.join((*list(_NAMES.values())[7:], 'Sept', *list(_NAMES)[7:]))})"
_NAME = rf"(?:{'|'.join((*_NAMES.values(), 'Tues', 'Thurs?', 'Sept', *_NAMES))})"
_UNITS = {
    "m/s²": "meter per second squared", "m/s": "meter per second", "km/s": "kilometer per second",
    "m²": "square meter", "km²": "square kilometer", "cm²": "square centimeter",
    "m³": "cubic meter", "mL": "milliliter",
    "L": "liter", "V": "volt", "W": "watt", "KB/s": "kilobyte per second",
    "MB/s": "megabyte per second", "GB/s": "gigabyte per second",
    " m": "meter", "g": "gram", " s": "second", " h": "hour",
    "kcal": "kilocalorie", "µs": "microsecond", "kΩ": "kilohm", "Ω": "ohm",
}  # fmt: skip
_SHORT = {
    "yr": "year", "mo": "month", "wk": "week", "hr": "hour", "km²": "square kilometers",
    "km": "kilometers", "kg": "kilograms", "tsp": "teaspoon", "tbsp": "tablespoon",
    "lb": "pound", "lbs": "pound", "oz": "ounce", "gal": "gallon",
}  # fmt: skip
_SQUARED = {
    "ft": "feet", "mi": "miles", "km": "kilometers", "m": "meters", "in": "inches", "yd": "yards",
}  # fmt: skip
# Words that the dictionary would spell.
_WORDS = {"Ctrl": "Control", "Cmd": "Command", "JSON": "json"}
_CHARACTERS = {
    **dict(zip("，。：；！？（）", (", ", *".:;!?()"), strict=True)),
    "⅓": "1/3", "⅔": "2/3", "⅕": "1/5", "⅛": "1/8", "⅜": "3/8", "⅝": "5/8", "⅞": "7/8",
    "≥": " greater than or equal to ", "≤": " less than or equal to ", "≠": " not equal to ",
    "≈": " approximately ", "√": " square root of ", "‰": " per mille", "∞": " infinity ",
    "∛": " cube root of ", "∓": " minus or plus ", "∈": " in ", "∉": " not in ", "∪": " union ",
    "∩": " intersection ", "⊂": " subset of ", "⊆": " subset of ", "∅": " the empty set ",
    "∀": " for all ", "∃": " there is ", "∂": " partial ", "∇": " nabla ", "∠": " angle ",
    "⊥": " perpendicular to ", "∥": " parallel to ", "≡": " equivalent to ",
    "∝": " proportional to ", "⇒": " implies ", "⇔": " if and only if ", "∘": " of ",
}  # fmt: skip
_TRANSLATED = str.maketrans(_CHARACTERS)
_ENDINGS = (
    "com org net edu gov io ai app dev tv me co uk us de fr eu cn info js py md txt pdf html json "
    "csv xml exe zip jpg png mp3 mp4 doc docx xls xlsx"
).split()


# That are counted by millions: "M" is the name of something where others stand behind it.
_COUNTED = (
    "people|users|customers|subscribers|followers|members|players|viewers|visitors|visits|views|"
    "downloads|copies|dollars|euros|pounds|yuan|parameters|tokens|words|rows|records|requests|"
    "messages|residents|inhabitants|jobs|homes|households|years|times|barrels|tons|tonnes|units"
)
_SHARES = "90(?=.10)|80(?=.20)|70(?=.30)|60(?=.40)|50(?=.50)"
# In front of a mark: "I would give it an 8/10."
_RATED = "an?|it|[Rr]at(?:ed|ing)|[Ss]cor(?:ed|es)"
# Numbers for help: "Call 911 or 112".
_HELP = r"(?:911|999|112|111|110|119|988)\b(?![.,:/-]\d|%|\s(?:people|times|of)\b)"
_CALL = r"(?:[Cc]all|[Dd]ial|[Rr]ing|[Pp]hone|[Tt]ext)(?:s|l?ed|l?ing)?"
# A name or a letter is no Roman numeral, and a generation no general, as the dictionary takes them:
# "Queen Victoria" would be "Queen the zeroth Victoria", "Type C" "Type 100", "Gen Z" "General Z".
_TAKEN_WRONG = (
    rf"\b(?:{'|'.join((*ROMAN_CARDINAL, *ROMAN_ORDINAL))})"
    rf"(?=\s[IVXLCM])(?!\s(?![CL]\b){ROMAN_NUMERAL}(?![A-Za-z]))"
    r"|\bGen(?=\s(?:[XYZ]|Alpha|Beta|AI)\b)"
)
# What has two sides: "8 x 10 inches".
_ACROSS = (
    "in|inch(?:es)?|ft|foot|feet|yards?|[cm]?m|meters?|centimeters?|px|pixels?|grid|matrix|matrices"
    "|table|square|board|room|photos?|print|screen"
)
_BEHIND_DAY = "at|from|and|or|to|until|in|for|by|with"
_JOINER = "\u2060"
"""Parts two words for the dictionary, and is not said."""


def _commas(match: re.Match[str]) -> str:
    """Thousands stay; one with one or two digits behind it is a decimal point; others part."""
    number = match.group()
    if re.fullmatch(r"\d{1,3}(?:,\d{3})+|\d{1,2}(?:,\d{2})+,\d{3}", number):
        return number
    whole, _, rest = number.partition(",")
    return f"{whole}.{rest}" if len(rest) <= 2 else number.replace(",", ", ")


def _amount(match: re.Match[str]) -> str:
    """Its currency before it; a second "$" is the end of a formula."""
    least, most, symbol = match.groups()
    if symbol == "$" in match.string[: match.start()]:
        return match.group()
    return f"{least} to {symbol}{most}" if least else f"{symbol}{most}"


def _reckoned(match: re.Match[str]) -> str:
    """A fraction that has no name would be a date."""
    return _fraction(*match.group().split("/"))


def _names(match: re.Match[str]) -> str:
    first, second = (_NAMES[name[:3]] for name in match.groups())
    return f"{first} to {second}"


def _date(match: re.Match[str]) -> str:
    day, month, year = match.groups()
    return f"{year}-{int(month):02}-{int(day):02}"


def _day(match: re.Match[str]) -> str:
    """The dictionary would say "three quarters" of some."""
    month, day = map(int, match.groups())
    known = 1 <= month <= 12 and 1 <= day <= 31
    return f"{list(_NAMES.values())[6 + month]} {day}" if known else match.group()


def _days(match: re.Match[str]) -> str:
    """Both ends of a range are counted: "March third to fifth"."""
    first, last = match.groups()
    return f"{first} to {ordinal(int(last))}"


def _telephone(match: re.Match[str]) -> str:
    """Digit by digit; what is none stays."""
    written = match.group()
    groups = re.findall(r"\d+", written)
    is_date = re.fullmatch(r"\d\d/\d\d/\d{4}", written)
    if is_date or not 7 <= sum(map(len, groups)) <= 15:
        return written
    return ("plus " if written[0] == "+" else "") + ", ".join(map(" ".join, groups))


def _version(match: re.Match[str]) -> str:
    """With its points, of an address of a network as well; thousands stay."""
    parts = match.group().split(".")
    if all(len(part) == 3 for part in parts[1:]):
        return match.group()
    return (" dot " if len(parts) == 4 else " point ").join(parts)


def _ratio(match: re.Match[str]) -> str:
    """No verse: "John 3:1"."""
    is_verse = re.search(r"\b[A-Z][a-z]+ $", match.string[: match.start()])
    return match.group() if is_verse else f"{match.group(1)} to "


def _duration(match: re.Match[str]) -> str:
    hours, minutes = match.groups()
    return f"{hours} hour{'' if hours == '1' else 's'} {minutes} minutes"


def _unit(match: re.Match[str]) -> str:
    number, unit = match.groups()
    one, per, rest = _UNITS[unit].partition(" per ")
    return f"{number} {one}{'' if number == '1' else 's'}{per}{rest}"


def _measured(match: re.Match[str]) -> str:
    """As cooks write it: "2 tsp", "½ lb"."""
    few = re.search(r"(?:^|\D)1$|/\d$|(?<!and )[½¼¾]$", match.string[: match.start()])
    return f" {_SHORT[match.group(1).lower()]}{'' if few else 's'}"


def _over(match: re.Match[str]) -> str:
    return _fraction(*match.groups())


def _fraction(above: str, below: str) -> str:
    """A part as it is called, up to tenths."""
    return f"{above}/{below}" if int(above) < int(below) <= 10 else f"{above} over {below}"


def _bounded(match: re.Match[str]) -> str:
    sign, least, most = match.groups()
    name = {"∑": "sum", "∏": "product", "∫": "integral"}[sign]
    bounds = f" from {least} to {most}" if most else f" over {least}" if least else ""
    return f" the {name}{bounds} of "


def _closed(match: re.Match[str]) -> str:
    """Without what parts thousands."""
    return re.sub(r"[ .]", "", match.group())


def _digits(match: re.Match[str]) -> str:
    return re.sub(r"\d+", lambda found: " ".join(found.group()), match.group())


def _spelled(match: re.Match[str]) -> str:
    return " ".join(match.group())


# A letter that stands for a number, in a formula.
_LETTER = r"(?:[b-z]|alpha|beta|gamma|theta|phi|omega|pi)\b"
_FUNCTIONS = {"sin": "sine", "cos": "cosine", "tan": "tangent", "ln": "natural log of"}
_MINUS = re.compile(r"\s*-\s*")
_RELATED = r"(?:[=<>±×÷+−]|not equal to|over)"
_RULES: tuple[tuple[str, _Say], ...] = (
    # Formulas.
    (r"(?<![\w.)])(\d+)∕(\d+)(?![\w.(])", _over),
    (r"\s*∕\s*", " over "),
    (r"([∑∏∫])(?:\(([^()]+?)(?: … ([^()]+))?\))?", _bounded),
    (r"\blim\((\w+) → ([^()]+)\)", r" the limit as \1 goes to \2 of "),
    (
        rf"\b(sin|cos|tan|ln)(?=\(|[²³]|\s\(?\d*{_LETTER})",
        lambda match: _FUNCTIONS[match.group()],
    ),
    (rf"(?<![\w'’])a(?=[²³^]|\s+{_RELATED}\s|\s+(?:less|greater) than (?:or|[\db-z]\b))", "A."),
    (r"(?<=[=<>±×÷+−]\s)a(?![\w'’]|\s\w)", "A."),
    (r"(?<=[a-z])′", " prime"),
    (r"\^2(?!\.?\d)", "²"),
    (r"\^3(?!\.?\d)", "³"),
    # Addresses and names of files.
    (
        rf"\b[A-Za-z][\w-]*(?:\.[A-Za-z][\w-]*)*\.(?:{'|'.join(_ENDINGS)})\b",
        lambda match: match.group().replace(".", " dot "),
    ),
    (r"(?<![A-Za-z0-9])([CF])#", r"\1 sharp"),
    (r"(?<![\w.])\.NET\b", "dot net"),
    (r"\bTL;DR\b", "T.L.D.R."),
    (rf"\b(?:{'|'.join(_WORDS)})\b", lambda match: _WORDS[match.group()]),
    # Dates; telephone numbers, codes.
    (r"(?<![\d.])(\d{1,2})\.(\d{1,2})\.(\d{4})(?!\d|\.\d)", _date),
    (r"(?<![\d-])(\d\d)-(\d\d)-(\d{4})(?![\d-])", r"\1/\2/\3"),
    (rf"(?<=\b[Oo]n )(\d{{1,2}})/(\d{{1,2}})(?=[.,;:!?)]|$|\s(?:{_BEHIND_DAY})\b)", _day),
    (rf"\b({_MONTH}\.? \d{{1,2}})\s?[-–]\s?(\d{{1,2}})(?![\w:/]|\s?[ap]\.?m\b)", _days),
    (r"\bext\.?\s?(?=\d)", "extension "),
    (r"(?<![\w.+-])(\d{3})\.(\d{3})\.(?=\d{4}(?!\d|\.\d))", r"\1-\2-"),
    (r"(?<![\d.])\d+(?:\.\d+){2,}(?!\w|\.\d|,\d)", _version),
    (r"(?<![\w.)\]])\.(?=\d)", "0."),
    (r"(?<![\w.])(?:\+\d|\(?0\d|1-\d{3}-|\(\d{3}\)\s?\d{3})[\d\s()/-]*\d(?!\w)", _telephone),
    (r"(?<![\d.,])\d{1,3}(?:(?: \d{3})* 000(?!\d)|(?: \d{3})+(?=,\d\d(?!\d)))", _closed),
    (rf"\b{_CALL} {_HELP}(?:,? (?:or|and) {_HELP})?", _digits),
    (r"(?<![\w.,:/'-])0\d{2,}(?![\w:/-]|[.,]\d)", _spelled),
    # Commas within numbers, and amounts of money.
    (r"\((-?\d+),(-?\d+)\)", r"(\1, \2)"),
    (r"(?<![\d.,])\d{1,3}(?:\.\d{3})+(?=,\d{1,2}(?!\d))", _closed),
    (r"(?<![\d.,])\d+(?:,\d+)+(?!\d)", _commas),
    (r"\b(?:US|CA?|AU?|NZ|HK|NT|SG?)\$(?=\d)", "$"),
    (rf"(?<![$€£¥\d.,^])(?:({_N}){_TO})?({_N}{_SCALE})\s?([$€£¥])(?!\d)", _amount),
    (rf"(?<![\w.,])({_N}{_SCALE})\s?(USD|EUR|GBP)\b", r"\2 \1"),
    (rf"(?<![\w.])({_N})M(?=\+?\s(?:{_COUNTED})\b)", r"\1 million"),
    (rf"(?<![\w.])({_N})B(?=\+?\s(?:{_COUNTED})\b)", r"\1 billion"),
    (r"(?<=\d)\s?bn\b", " billion"),
    (r"(?<=\d)\s?tn\b", " trillion"),
    (rf"([$€£¥]{_N})T\b", r"\1 trillion"),
    (rf"([$€£¥]{_N}{_SCALE}){_TO}(?=[$€£¥]\d)", r"\1 to "),
    (rf"([$€£¥])({_N}){_TO}(?=\d)", r"\2 to \1"),
    (r"(?<![\w.])[-−]([$€£¥])(?=\d)|([$€£¥])[-−](?=\d)", r"minus \1\2"),
    (_TAKEN_WRONG, rf"\g<0>{_JOINER}"),
    (r"\bApprox\.", "Approximately"),
    (r"\b([Mm]ax|[Mm]in)\.(?=\s?\d)", r"\1imum"),
    (r"(?<=\d)\s?yrs\b", " years"),
    # A word where nothing is counted by it: "She said no.", "The Earth orbits the Sun."
    (
        r"\b(no)\.(?!\s?\d)|\b(fig)\.(?!\s?(?:\d|[A-Z]\b))|(?<=\b[Tt]he )(Sun)\.",
        lambda match: f"{match.group()[:-1]} .",
    ),
    (r"\bca?\.\s?(?=\d)", "circa "),
    (r"\b1(00|,?000)s\b", lambda match: "hundreds" if match.group(1) == "00" else "thousands"),
    # Days; ranges, of which the dictionary's own rules know those of whole numbers alone.
    (rf"\b({_NAME})\b\.?{_TO}({_NAME})\b", _names),
    (
        r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun)(?=:?\s\d{1,2}\s?(?:[-–:]|[ap]\.?m))",
        lambda match: _NAMES[match.group()],
    ),
    (r"(?<=\d)%?\s*[-–]\s*(?=\d[\d.]*%)|(?<=\d)—(?=\d)", " to "),
    (r"(?<=\d)%?(\s?(?:°\s?[CF]?|[A-Za-z]{1,4}))?\s*–\s*(?=[$€£]?\d)", r"\1 to "),
    (r"(?<=\d)(st|nd|rd|th|\s?°\s?[CF]?|\s?[ck]?m|\s?k?g|\s?lbs?|k)-(?=\d)", r"\1 to "),
    (r"(?<![\w.-])(\d{1,3})-(\d{1,3})(?=-[a-z])", r"\1 to \2"),
    (r"(?<![\w.-])(\d{1,3})-(?=\d{1,3}(?:[hxkK]|[ap]m)\b)", r"\1 to "),
    (r"(?<![\d:])(\d+\.\d+):(?=\d)", r"\1 to "),
    (r"(?<![\d:.])(\d+):(?=\d(?![\d:]))", _ratio),
    (r"(?<=:\d\d)\s*-\s*(?=\d{1,2}:\d\d)|(?<=\.\d)-(?=\d+\.\d)", " to "),
    (r"(?:(?<=[AaPp][Mm])|(?<=[AaPp]\.[Mm]\.))\s*[-–]\s*(?=\d)", " to "),
    (r"(?<=\d)AM\b", "am"),
    (r"(?<=\d)am\b(?=[^.]*\w)", " a.m."),
    # Signs.
    (r"^\W*<(?==?\s?\d)", "less than "),
    (r"^\W*>(?==?\s?\d)", "greater than "),
    (
        r"=\s*(?!\d{4}-\d\d-)\d[\d.,]*(?:\s*[-+]\s*\d[\d.,]*)+",
        lambda match: _MINUS.sub(" minus ", match.group()),
    ),
    (
        r"(?<=[\w)])\s*−\s*(?=[\w(√])"
        r"|(?<=\d)\s*-\s*(?=\d[\d.]*\s*=)|(?<=\d) - (?=\d[\d.,]*\s(?:is|equals|makes|leaves)\b)",
        " minus ",
    ),
    (r"(?<![\w.,%°)\]−-])(?<!\d\s)[-−](?=\.?\d)|(?<=UTC|GMT)[-−](?=\d)", " minus "),
    (r"(?:^|(?<=[=(]))\s?[-−](?=[a-z]\b)", " minus "),
    (
        r"(?:(?<=^[b-z])|(?<=[^\w'’.][b-z])|(?<=\d[abnxyz]))(?:\s?-\s?(?=\d)|\s-\s(?=[b-z]\b))"
        r"|(?:(?<=[²³])|(?<=\d)(?=.{3}\d*[abnxyz]\b))\s-\s(?=\d)",
        " minus ",
    ),
    (r"\b([fgh])\(([a-z])\)", r"\1 of \2"),
    (r"(?:(?<=[=+×÷−])|(?<=[=+×÷−]\s))\d+/\d+(?![\w/])", _reckoned),
    (r"(?<![\w./])\d+/\d+(?=\s?[=+×÷−])", _reckoned),
    # Fractions and shares; marks, which are no dates.
    (r"(?<![\w./])(?<!\bon )(5(?=/5\b)|10(?=/10\b))/(?=\d+(?![\w/]))", r"\1 out of "),
    (rf"\b({_RATED}) (\d{{1,2}})/(?=(?:5|10)(?:[.,;:!?)]|$|\s(?:stars?|for)\b))", r"\1 \2 out of "),
    (r"(?<=\d)\s?(?=[½¼¾])|(?<=\d)\s(?=\d/\d{1,2}\b)", " and "),
    (rf"(?<![\w./])(24)[/x](7)(?![\w/])|(?<![\w./-])({_SHARES})[/-](\d0)(?![\w/-])", r"\1\3 \2\4"),
    (r"\b(Windows|iOS|Android|[Gg]rades?|[Tt]ype|[Ll]evels?) (\d+)/(?=\d+\b)", r"\1 \2 or "),
    # Sizes: 1920x1080, 4x4.
    (r"(?<![\w.])(\d{3,4})(?:\s?x\s?|×)(?=\d{3,4}(?!\w|\.\d|\s?=))", r"\1 by "),
    (r"(?<![\w.])(\d{1,2})x(?=\d{1,2}(?!\w|\.\d|\s?=))", r"\1 by "),
    (rf"(?<=\d)\s+x\s+(?=\d[\d.]*[\s-]?(?:{_ACROSS})\b)", " by "),
    (r"(?<=[\d)])\s+x\s+(?=[\d(√])|(?<=\d)x(?=\d[\d.]*\s?=)", " times "),
    (r"(?<=\d)(\.\d+)/(?=\d)", r"\1 out of "),
    (r"(?<![\w./])(\d{1,3})/(\d{3,4})(?![\w/])", r"\1 out of \2"),
    (r"(?<=\d)([kKMB]?)/(?=[a-z]{3,})", r"\1 per "),
    (
        r"(?<![\w.,])(\d[\d.,]*\s?[a-z]+)/"
        r"(?=(?:second|minute|hour|day|week|month|year|night|person)\b)",
        r"\1 per ",
    ),
    (
        r"(?<=\d)([kKMB]?|\s?km)/(yr|mo|wk|hr|lb|oz|gal)\b",
        lambda match: f"{match.group(1)} per {_SHORT[match.group(2)]}",
    ),
    (r"(?<![\w.])(\d+)\s?h\s?(\d{1,2})\s?m(?:in)?\b", _duration),
    # Lengths and other units.
    (
        r"\b(thousand|million|billion|trillion) (km²|km|kg)(?![\w/])",
        lambda match: f"{match.group(1)} {_SHORT[match.group(2)]}",
    ),
    (
        r"(?<=\d)\s?sq\.?\s?(ft|mi|km|m|in|yd)\b",
        lambda match: f" square {_SQUARED[match.group(1)]}",
    ),
    (
        r"(?:(?<=\d)\s?(?=[Tt]b?sp)|(?<=[½¼¾])\s?)([Tt]b?sp|lbs?|oz)\b(?:\.(?=\s\w))?",
        _measured,
    ),
    (r"(\d)\s?['′]\s?(\d{1,2})\s?(?:[\"″”]|'')", r"\1 foot \2"),
    (r"(?<![\w.'])([3-7])['′’](\d{1,2})(?![\w'])", r"\1 foot \2"),
    (r"(?<=\d)[\"″](?=\s(?:thick|wide|long|tall|deep|high|screen|monitor|display|TV)\b)", " inch"),
    (r"(?<=\d)m(?=\s(?:tall|high|long|wide|deep|away|above|below)\b)", " m"),
    (r"(?<=\d)\s?″", " inches"),
    (
        rf"(?<![\w.$€£])({_N})\s?({'|'.join(map(re.escape, _UNITS))})(?![\w²³^/])",
        _unit,
    ),
    (r"\bCO2\b", "C O 2"),
    (r"\b2FA\b", "2 F.A."),
    # A last zero is said, too: 3.10 is another version than 3.1. And clocks with a point.
    (r"(?<![\d.,])(\d{1,2})\.(\d\d)(?=\s?[ap]\.?m\b)", r"\1:\2"),
    (
        r"(?<![\d.,$€£])(\d+)\.(\d*0)(?!\d|\.\d)",
        lambda match: f"{match.group(1)} point {' '.join(match.group(2))}",
    ),
    (r"\d{16,}", _spelled),
    # The dictionary takes a point behind a number for a part of it.
    (r"(?<=[\d½¼¾])\.(?=[\s\"'”’)\]]|$)", " ."),
)  # fmt: skip
_PLAIN = re.compile(
    rf"(?!.*(?:{_TAKEN_WRONG}|\b(?:{'|'.join((*_WORDS, *_FUNCTIONS))})\b))"
    r"[A-Za-z'’\s]*(?<!\bno)(?<!\bfig)(?<!\bSun)[.,:;!?]?"
)
_COMPILED = tuple((re.compile(pattern), say) for pattern, say in _RULES)


def say_numbers(text: str) -> str:
    """`text` with "-5" as "minus 5", "12,50 €" as "€12.50", "$10-20" as "10 to $20"."""
    if _PLAIN.fullmatch(text):
        return text
    text = text.translate(_TRANSLATED)
    for pattern, say in _COMPILED:
        text = pattern.sub(say, text)
    return text.strip()
