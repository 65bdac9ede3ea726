"""Text cleaned for speech and parted by script: Chinese here, Latin letters there.

Voices know these two alone. Words in other scripts are spelt in Latin letters where that comes near
their sound; of scripts that leave vowels out, such as Arabic's, nothing is said.
"""

from __future__ import annotations

import html
import re
import unicodedata
from dataclasses import dataclass

from anyascii import anyascii

from visavis.formulas import with_formulas_in_signs

_LINK = re.compile(r"!?\[([^\]\n]*)\]\([^)\s]*\)")
# Of a link whose words were said in several phrases.
_LINK_END = re.compile(r"\]\([^)\s]*\)")
# Marks of notes and sources: "[2]", "[^1]", "【3】"; lists of programs begin at 0.
_NOTE = re.compile(r"(?:(?<=[^\s\[【])\s?|^)(?:\[\^?[1-9]\d?\]|【[1-9]\d?】)(?![A-Za-z0-9_(])")
# The way through menus: "Settings > Privacy".
_MENU = re.compile(
    r"(?:(?<=[^\W\d_]{2})|(?<=[\u4e00-\u9fff]))([\"”』」】]?)\s?>\s?(?=[\"“『「【]?[A-Z\u4e00-\u9fff])"
)
_AUTOLINK = re.compile(r"<((?:https?://|mailto:)[^\s<>]+|[\w.+-]+@[^\s<>]+)>")
# Not what is compared ("a<b then c>d"): within a word a tag has a name alone, or values.
_TAG = re.compile(
    r"(?<!\w)</?[A-Za-z][^<>\n]{0,60}>"
    r"|</?[A-Za-z][\w-]*(?:\s+[\w:-]+\s*=\s*(?:\"[^\"<>\n]*\"|'[^'<>\n]*'|[^\s\"'<>]+))*\s*/?>"
)
ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,9});")
"""As HTML writes what it could not say otherwise; not all that look so are one."""
_FENCE = re.compile(r"```[A-Za-z0-9_+-]*")
_LINE_MARK = re.compile(r"(?m)^\s*(?:#{1,6}\s+|>+(?![\d=])\s*|[-*+•·–]\s+)+")
_RULE = re.compile(r"(?m)^\s*(?:[-*_=|:+]\s*){3,}$")
_SPAN = re.compile(r"(?<=[\w%‰℃℉°])\s*[~～〜]\s*(?=[-−$€£¥￥]?\d|周|星期)")
# About so much; no range, nor what is crossed out.
_ABOUT = re.compile(
    r"(?:^|(?<=[\s(（，。、；：])(?<![\d%℃万亿元年月日天]\s))[~～](?=[$€£¥￥]?\d)(?!\d+~)"
)
_EMPHASIS = re.compile(r"[*`~]+|(?<!\w)_+|_+(?!\w)")
_TIMES = re.compile(
    r"(?<=\d)\s*[*×]\s*(?=\d)|(?:(?<=^[a-z\d])|(?<=[^\w*][a-z\d]))\s?\*\s?(?=[a-z\d](?![\w*]))"
)
_DOT = re.compile(r"(?<=[a-z\d)])\s?·\s?(?=[a-z\d(])")
# An address that is told beside words, which are enough to hear.
_BESIDE = re.compile(r"(?<=\w)\s?[(（](?:https?://|www\.|[\w.+-]+@)[^\s()（）]+[)）]")
# How Chinese characters are said, which they are.
_PINYIN = re.compile(
    r"(?<=[\u4e00-\u9fff])([\"”」』》]?)\s?[(（](?=[^()（）]*[āáǎàēéěèīíǐìōóǒòūúǔùǖǘǚǜ])"
    r"[a-zāáǎàēéěèīíǐìōóǒòūúǔùǖǘǚǜü'’ ,-]{1,80}[)）]",
    re.IGNORECASE,
)
_SIZE = re.compile(r"(?<![\w|])\|([^\s|](?:[^|\n]{0,20}[^\s|])?)\|(?![\w|])")
# C# and F# are names.
_HASH = re.compile(r"(?<!(?<![A-Za-z0-9])[CF])#+(?!\d)")
_WITHOUT_UNDERSCORES = re.compile(r"(?<!\S)(?!\S*@|\S*://|www\.)\S+")
_POWER = re.compile(r"[⁰¹²³⁴-⁹⁻⁺ⁿⁱ]{2,}|[⁰¹⁴-⁹ⁿⁱ]")
_POWER_DIGITS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ⁿⁱ", "0123456789-+ni")
# Of a formula in a Mandarin sentence: signs at letters, which no rule for numbers says.
_AT_LETTERS = re.compile(
    r"\S*(?:://|www\.|@)\S*"
    r"|(?<![A-Za-z\d/每])(?<!\d )([A-Za-z]|\))([²³])"
    r"|(?<=[A-Za-z)])\^\(?([-−]?[A-Za-z\d+]+)\)?"
    r"|([∑∏∫])\(([^()]+?)(?: … ([^()]+))?\)"
    r"|(?<=[A-Za-z²³)方])\s*([=≠≤≥<>≈±×÷∕+−∈∪∩])\s*|\s*([=≠≤≥<>≈±×÷∕+−∈∪∩√∛∠])\s?(?=[A-Za-z(√])"
)
SAID_IN_MANDARIN = {
    "=": "等于", "≠": "不等于", "≤": "小于等于", "≥": "大于等于", "<": "小于", ">": "大于",
    "≈": "约等于", "×": "乘以", "÷": "除以", "∕": "除以", "+": "加", "∈": "属于", "∪": "并",
    "∩": "交", "√": "根号", "∛": "三次根号", "∠": "角", "²": "的平方", "³": "的立方",
}  # fmt: skip
"""Signs of mathematics, at numbers and at letters."""
_SAID_AT_LETTERS = SAID_IN_MANDARIN | {"±": "加减", "∑": "求和", "∏": "求积", "∫": "积分"}
_TWO_STARS = re.compile(r"(?<=\w)\*\*(?=\d)")
_NO_POWER = re.compile(r"(?<![\w)])\^|\^(?![\w(-])")
_ARROW = re.compile(r"(?<=\s)<?[-=]{1,2}>(?=\s)")
_COLON = re.compile(r"(?<=\d)：(?=\d)")
_BLANKS = re.compile(r"\s+")
_SPOKEN_SYMBOLS = frozenset("°℃℉№^")
_SKIN_TONES = range(0x1F3FB, 0x1F400)
_FULL_WIDTH: dict[int, int | str] = {
    code: code - 0xFEE0 for code in (*range(0xFF10, 0xFF1A), *range(0xFF21, 0xFF3B))
}
_FULL_WIDTH |= {code: code - 0xFEE0 for code in (*range(0xFF41, 0xFF5B), 0xFF05)}
# Hyphens that are set otherwise, and the digits of formulas: "CO₂".
_FULL_WIDTH |= {0x2010: 0x2D, 0x2011: 0x2D} | {
    code: code - 0x2050 for code in range(0x2080, 0x208A)
}
_FULL_WIDTH |= dict(zip(map(ord, "ᵢⱼₖₘₙ₊₋"), (" i", " j", " k", " m", " n", "+", "-"), strict=True))
# Units that are one character: "100㎡".
_FULL_WIDTH |= {ord(sign): unicodedata.normalize("NFKC", sign) for sign in "㎎㎏㎜㎝㎞㎖㎾㎐㎒㎓"}
_FULL_WIDTH |= {ord("㎡"): "m²", ord("㎢"): "km²", ord("㎥"): "m³"}
_GREEK = dict(
    zip(
        "αβγδεζηθικλμνξοπρσςτυφχψω",
        "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho "
        "sigma sigma tau upsilon phi chi psi omega".split(),
        strict=True,
    )
)
_GREEK |= {letter.upper(): name for letter, name in _GREEK.items()} | {"∆": "delta"}
_MICRO = re.compile(r"(?<=\d)(\s?)μ(?=[mgsLFAVW](?![A-Za-z]))")
# One that stands for something, no Greek: not Δη, nor the ohms of "20 kΩ".
_GREEK_LETTER = re.compile(
    rf"(?<![Ͱ-Ͽ])(?!(?<=\d)Ω|(?<=\d[ kM])Ω|(?<=\d [kM])Ω)[{''.join(_GREEK)}](?![Ͱ-Ͽ])"
)
# Letters of other scripts that stand for sounds, vowels among them, and Latin ones dressed up
# ("𝐇𝐞𝐥𝐥𝐨"): Greek, Cyrillic, Armenian, Georgian, India's, Thai, Lao, Burmese, Ethiopic, Khmer,
# kana, Hangul.
_OTHER_LETTERS = re.compile(
    "(?:[\u0370-\u0556\u0560-\u0588\u0900-\u0eff\u1000-\u137f\u1780-\u17ff\u1c80-\u1cbf\u1f00-\u1fff\u2d00-\u2d2f\u3041-\u3096"
    "\u30a1-\u30fa\u30fc-\u30ff\u3131-\u318e\ua640-\ua69f\uac00-\ud7a3\uff66-\uff9f"
    "\U0001d400-\U0001d7ff][\u0300-\u036f]*)+"
)


def _of_india(first: int, last: int) -> str:
    """Pattern of the same letters in each of India's scripts, whose blocks are laid out alike."""
    blocks = range(0x900, 0xD80, 0x80)
    return "".join(f"{chr(block + first)}-{chr(block + last)}" for block in blocks)


# A consonant of theirs has an "a" behind it, where no sign takes that away or gives another vowel.
_INDIAN_CONSONANT = re.compile(
    rf"([{_of_india(0x15, 0x39)}ක-ෆ][{_of_india(0x3C, 0x3C)}]?)(?=[^\W\d_]|[{_of_india(1, 3)}])"
)
_UNIT_SIGNS = frozenset("Ωμ")
# Numbers that are one character: of chapters and phases, and of items: "Ⅲ期", "①打开②关上".
_FULL_WIDTH |= {0x2160 + at: str(at + 1) for at in range(12)}
_FULL_WIDTH |= {0x2170 + at: str(at + 1) for at in range(12)}
_FULL_WIDTH |= {0x2460 + at: f" {at + 1}, " for at in range(20)}
_OPENERS = frozenset("\"'“‘(（「『《【[$€£¥￥-−+~.#@&°±≈≥≤≠<>√∛∑∏∫∠∂∇∀∃¬₹₩")


def clean(text: str) -> str:
    """`text` without what cannot be spoken: markup, emoji, control characters; "" where nothing is
    left."""
    text = with_formulas_in_signs(text.replace("\r", "\n"))
    text = unicodedata.normalize("NFC", text).translate(_FULL_WIDTH)
    text = _NOTE.sub("", _LINK_END.sub("", _LINK.sub(r"\1", _FENCE.sub(" ", text))))
    text = _RULE.sub(" ", _TAG.sub(" ", _AUTOLINK.sub(r"\1", text)))
    text = ENTITY.sub(lambda match: html.unescape(match.group()), text)
    text = _LINE_MARK.sub(" ", text)
    text = _PINYIN.sub(r"\1", _BESIDE.sub("", text))
    text = _COLON.sub(":", _DOT.sub(" × ", _TIMES.sub(" × ", text)))
    text = _GREEK_LETTER.sub(_greek, _MICRO.sub(r"\1µ", text))
    text = _OTHER_LETTERS.sub(_in_latin_letters, text)
    text = _POWER.sub(lambda match: "^" + match.group().translate(_POWER_DIGITS), text)
    text = _NO_POWER.sub(" ", _TWO_STARS.sub("^", _ARROW.sub("→", text)))
    text = _HASH.sub(" ", _EMPHASIS.sub("", _SPAN.sub("–", _ABOUT.sub("≈", text))))
    text = _MENU.sub(r"\1, ", text)
    in_mandarin = any(map(is_han, text))
    text = _SIZE.sub(r"\1的绝对值" if in_mandarin else r" absolute value of \1", text)
    if in_mandarin:
        text = _AT_LETTERS.sub(_in_mandarin, text)
    if "_" in text:
        text = _WITHOUT_UNDERSCORES.sub(lambda match: match.group().replace("_", " "), text)
    text = text.replace("|", ", ").replace("\\", " ")
    text = "".join(char if _is_speech(char) else _gap(char) for char in text)
    text = _strip_head(_BLANKS.sub(" ", text).strip())
    return text if any(char.isalnum() for char in text) else ""


def _in_mandarin(match: re.Match[str]) -> str:
    """A sign of a formula as it is said; an address stays."""
    base, degree, power, sign, least, most, after, before = match.groups()
    if base:
        return base + _SAID_AT_LETTERS[degree]
    if power:
        return f"的{'负' if power[0] in '-−' else ''}{power.lstrip('-−')}次方"
    if sign:
        bounds = f"从{least.replace(' = ', '等于')}到{most}" if most else ""
        return f"{bounds}{_SAID_AT_LETTERS[sign]}，"
    if after or before:
        minus = "减" if after else "负"
        return _SAID_AT_LETTERS.get(after or before, minus)
    return match.group()


def _greek(match: re.Match[str]) -> str:
    """Its name, apart from a Latin letter or a number beside it."""
    before, after = match.string[: match.start()][-1:], match.string[match.end() :][:1]
    parted = [char.isalnum() and not is_han(char) for char in (before, after)]
    return f"{' ' * parted[0]}{_GREEK[match.group()]}{' ' * parted[1]}"


def _in_latin_letters(match: re.Match[str]) -> str:
    """About as it sounds: an English voice says "Москва" better so than not at all."""
    word = match.group()
    if word in _UNIT_SIGNS:
        return word
    word = _INDIAN_CONSONANT.sub(r"\1a", word)
    latin = "".join(char for char in anyascii(word) if char.isalnum())
    # Each syllable of Hangul gets a capital: "SeoUl".
    return latin.lower() if "\uac00" <= word[0] <= "\ud7a3" else latin


def _is_speech(char: str) -> bool:
    if char in _SPOKEN_SYMBOLS:
        return True
    if char == "\ufe0f" or ord(char) in _SKIN_TONES:
        return False
    return unicodedata.category(char) not in ("So", "Cc", "Cf", "Cs", "Co", "Cn", "Sk", "Me")


def _gap(char: str) -> str:
    """Joiners vanish, whatever else is taken out parts two words."""
    return "" if unicodedata.category(char) in ("Cf", "Sk", "Me") or char == "\ufe0f" else " "


def _strip_head(text: str) -> str:
    """Drop punctuation that belonged to the phrase before."""
    start = 0
    while start < len(text) and not text[start].isalnum() and text[start] not in _OPENERS:
        start += 1
    return text[start:]


UNITS = {
    "km/h": "公里每小时", "m/s²": "米每二次方秒", "m/s": "米每秒",
    "km": "公里", "kg": "公斤", "cm": "厘米", "mm": "毫米",
    "km²": "平方公里", "m²": "平方米", "m³": "立方米", "mg": "毫克", "ml": "毫升", "mL": "毫升",
    "kWh": "千瓦时", "mAh": "毫安时", "V": "伏", "W": "瓦",
    "µm": "微米", "µg": "微克", "µs": "微秒", "nm": "纳米", "Ω": "欧姆", "kΩ": "千欧",
    "GB": "吉字节", "MB": "兆字节", "KB": "千字节",
    "TB": "太字节", "kW": "千瓦", "GHz": "吉赫兹", "MHz": "兆赫兹", "Hz": "赫兹", "m": "米",
    "mmHg": "毫米汞柱",
    "g": "克", "L": "升", "℃": "摄氏度", "°C": "摄氏度", "℉": "华氏度", "°F": "华氏度", "°": "度",
}  # fmt: skip
"""That stand at numbers, as they are said in Mandarin."""
DOLLARS = {
    "HK": "港元", "NT": "新台币", "C": "加元", "CA": "加元", "A": "澳元", "AU": "澳元",
    "NZ": "新西兰元", "S": "新加坡元", "SG": "新加坡元",
}  # fmt: skip
"""Whose they are, by what stands before "$", as they are said in Mandarin."""
UNIT = "|".join(map(re.escape, sorted(UNITS, key=len, reverse=True)))
"""Pattern of one: the longest that fits."""
_LATIN = "A-Za-zÀ-ÖØ-öø-ɏ"
_TOKEN = re.compile(
    rf"(?P<zh>[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff〇]+(?:(?<=[万亿])(?:{UNIT}|[%‰])(?![{_LATIN}]))?)"
    rf"|(?P<number>[-−+]?(?:(?:US|{'|'.join(DOLLARS)})?\$|[€£¥￥])?\d(?:[\d,.:/~–-]*\d)?(?:\s?(?:{UNIT}|[%‰]))?(?![\d{_LATIN}]))"
    rf"|(?P<en>[0-9]*[{_LATIN}](?:[0-9_{_LATIN}]|['’.@/:+&=?#-]+(?=[0-9{_LATIN}]))*)"
    r"|(?P<other>.)",
    re.DOTALL,
)


def is_unknown(text: str) -> bool:
    """Whether it is written in letters of which no voice knows any."""
    known = any(match.lastgroup != "other" for match in _TOKEN.finditer(text))
    return not known and any(map(str.isalpha, text))


def is_han(char: str) -> bool:
    """A Chinese character."""
    return "\u4e00" <= char <= "\u9fff" or "\u3400" <= char <= "\u4dbf" or char == "〇"


@dataclass(frozen=True, slots=True)
class Run:
    """Text in one script, which one voice speaks."""

    language: str
    text: str


def split_by_script(text: str, default_language: str) -> list[Run]:
    """Runs of `text` in order; together they are the text.

    Numbers are read in Chinese where the phrase has Chinese characters, unless Latin words stand on
    both sides ("iPhone 15 Pro"); elsewhere in English where it has Latin letters, else in
    `default_language`. Punctuation stays with what it follows.
    """
    tokens = [(match.lastgroup or "other", match.group()) for match in _TOKEN.finditer(text)]
    scripts = {kind for kind, _ in tokens}
    runs: list[Run] = []
    head = ""
    for index, (kind, token) in enumerate(tokens):
        if kind == "number":
            kind = _language_of_number(tokens, index, scripts, default_language)
        if kind == "other":
            if runs:
                runs[-1] = Run(runs[-1].language, runs[-1].text + token)
            else:
                head += token
        elif runs and runs[-1].language == kind:
            runs[-1] = Run(kind, runs[-1].text + token)
        else:
            runs.append(Run(kind, head + token))
            head = ""
    return runs or ([Run(default_language, head)] if head else [])


def _language_of_number(
    tokens: list[tuple[str, str]], index: int, scripts: set[str], default_language: str
) -> str:
    if "zh" not in scripts:
        return "en" if "en" in scripts else default_language
    before = next((kind for kind, _ in reversed(tokens[:index]) if kind in ("zh", "en")), "")
    after = next((kind for kind, _ in tokens[index + 1 :] if kind in ("zh", "en")), "")
    return "en" if before == after == "en" else "zh"
