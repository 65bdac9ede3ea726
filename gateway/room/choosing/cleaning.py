"""What strangers write, made fit to be read aloud, compared and searched for words."""

from __future__ import annotations

import re
import unicodedata

# Vowels and accents that are signs of their own, as in Hindi, Thai and Arabic; to `re` they are
# no part of a word.
_SIGNS = "".join(
    c for c in map(chr, range(0x300, 0x10000)) if unicodedata.category(c) in ("Mn", "Mc")
)
_IN_A_WORD = rf"\w{_SIGNS}"
# Letters and signs by Unicode that show nothing: fillers, and which form of an emoji is meant.
_UNSEEN = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\ufe00-\ufe0f]")
# Written without blanks: what stands before a link, and behind it, is no part of it.
_HAN = "\u3001-\u303f\u3040-\u30ff\u3400-\u9fff"
_LINK = re.compile(
    rf"(?:https?://|www\.)[^\s{_HAN}]+"
    # Not from the middle of a run: a long one would be gone through from each of its signs.
    rf"|(?<![^\W{_HAN}])(?<!-)(?:[^\W{_HAN}]|-)+\.(?:com|net|org|tv|gg|io|cn|ru|xyz|me)"
    rf"(?![a-z0-9_-])(?:/[^\s{_HAN}]*)?",
    re.I,
)
_RUN = re.compile(r"(.)\1{2,}", re.S)
_WORD_RUN = re.compile(
    rf"(?<![{_IN_A_WORD}])([{_IN_A_WORD}]+)(?:[^{_IN_A_WORD}]+\1(?![{_IN_A_WORD}])){{2,}}", re.I
)
# Longest first: "哈哈哈哈" is one thing said several times, and so is "666666".
_PIECE_RUN = re.compile(r"(..{1,5}?)\1{2,}", re.S)
_COMMAND = re.compile(r"\s*[!/][A-Za-z]")
# More than one upon a letter is a picture, not writing.
_MARKS = re.compile("([\u0300-\u036f])[\u0300-\u036f]+")
_SPACE = re.compile(r"\s+")
_EMOTE = re.compile(r":[a-z0-9_+-]{2,40}:|\[[^\[\]]{1,12}\]", re.I)
_NOT_IN_A_NAME = re.compile(rf"[^{_IN_A_WORD}\s.'’·-]|_")
_BEHIND_A_NAME = re.compile(r"[\s.'’·-]*\d*[\s.'’·-]*$")
_QUESTION_MARK = re.compile(r"[?？]|[吗呢么嘛](?:[\s!！。.~～]|$)")
_QUESTION_WORD = re.compile(
    r"^(?:\W|\b(?:and|but|so|hey|hi|hello|ok|please|well)\b)*"
    r"(?:who|whom|whose|what|when|where|which|why|how|is|are|am|was|were|do|does|did|can|could"
    r"|will|would|should|shall|may|have|has|had|isn't|aren't|don't|doesn't|what's|who's|how's"
    r"|where's|tell me|explain)\b",
    re.I,
)
_QUESTION_HAN = re.compile(
    r"什么|甚么|怎么|怎麼|为什么|為什麼|谁|誰|哪|几|幾|多少|是否|能不能|会不会|有没有|是不是|可不可以|如何"
)
# What shows the shape of a Latin letter, and is left as it is by Unicode's own folding.
_LOOKS_LIKE = {
    ord(c): letter
    for letter, alike in {
        "a": "аαɑ",
        "b": "вьъβ",
        "c": "сϲ",
        "d": "ԁđ",
        "e": "еєεəɛ",
        "g": "ɡ",
        "h": "нһ",
        "i": "іιıɩ",
        "j": "ј",
        "k": "кκ",
        "l": "łӏ",
        "m": "м",
        "n": "пηи",
        "o": "оοøσө",
        "p": "рρ",
        "q": "ԛ",
        "r": "гя",
        "s": "ѕ",
        "t": "тτ",
        "u": "υцμ",
        "v": "νѵ",
        "w": "шωԝщ",
        "x": "хχ",
        "y": "уγ",
        "z": "зʐ",
    }.items()
    for c in alike
}
_NOT_READ = ("So", "Sk", "Sm", "Cc", "Cs", "Co", "Cn", "Mc")
_DIGIT_LETTERS = str.maketrans("013457@$!|", "oieastasii")


def clean(text: str) -> str:
    """A comment as it can be read aloud: no links, emotes, emoji, unseen signs or endless runs."""
    text = _UNSEEN.sub("", unicodedata.normalize("NFKC", text))
    text = _LINK.sub(" ", _EMOTE.sub(" ", text))
    text = _MARKS.sub(r"\1", "".join(_shown(c) for c in text))
    text = _WORD_RUN.sub(r"\1", _RUN.sub(_run_shortened, text))
    text = _PIECE_RUN.sub(lambda run: run[1] if run[1].isalpha() else run[0], text)
    return _SPACE.sub(" ", text).strip()


def _run_shortened(run: re.Match[str]) -> str:
    if run[1].isdigit():
        return run[0]
    return run[1] * 2 if run[1].isalpha() else run[1]


def _shown(c: str) -> str:
    kind = unicodedata.category(c)
    if kind in ("Cc", "Zl", "Zp", "Zs"):
        return " "
    # Emoji, their joiners and colours, other signs; half a character; what is made up.
    dropped = kind in ("So", "Sk", "Cf", "Cs", "Co", "Cn", "Me")
    return c if c in "^°" or not dropped else ""


def is_command(text: str) -> bool:
    """Whether it is meant for another program."""
    return _COMMAND.match(text) is not None


def has_words(text: str) -> bool:
    """Whether there is anything in a cleaned text to be answered."""
    letters = [c for c in text if c.isalnum()]
    return len(letters) > 1 or any(c > "\u2e80" for c in letters)


def spoken_name(name: str, longest: int = 24) -> str:
    """A viewer's name as it can be said, without digits at its end; "": it cannot be."""
    name = _NOT_IN_A_NAME.sub(" ", clean(name))
    name = _SPACE.sub(" ", name)[: 2 * longest].strip()
    name = _BEHIND_A_NAME.sub("", name)
    if len(name) > longest:
        name = name[:longest].rsplit(" ", 1)[0]
    return name if any(c.isalpha() for c in name) else ""


def is_question(text: str) -> bool:
    """Whether a cleaned text asks for something, by its form."""
    found = _QUESTION_MARK.search(text) or _QUESTION_WORD.match(text) or _QUESTION_HAN.search(text)
    return found is not None


def folded(text: str) -> str:
    """For comparison: small letters without accents, look-alikes as the letters that they show."""
    text = unicodedata.normalize("NFKD", text).casefold()
    text = "".join(c for c in text if unicodedata.category(c) not in ("Mn", "Me", "Cf"))
    return text.translate(_LOOKS_LIKE)


def letters_joined(text: str) -> str:
    """A folded text without what is seen between its letters and not read: emotes, emoji, signs of
    other scripts, what shows nothing.
    """
    text = _UNSEEN.sub("", _EMOTE.sub("", text))
    return "".join(c for c in text if c.isascii() or unicodedata.category(c) not in _NOT_READ)


def with_digits_as_letters(text: str) -> str:
    """A folded text in which digits and signs stand for the letters that they look like."""
    return text.translate(_DIGIT_LETTERS)
