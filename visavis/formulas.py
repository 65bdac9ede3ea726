"""Formulas as language models write them, in LaTeX, and as people write them on a line: `x² + 1∕2`.

Pure. What a voice makes of the signs is its own affair.
"""

from __future__ import annotations

import re

LONGEST = 400
"""Characters of a formula; what goes on for longer without its end is taken for none."""
OVER = "∕"
"""Between the two parts of a fraction: no slash, which may be anything."""
_LONGEST_INLINE = 200
_DEEPEST = 20

_GREEK = dict(
    zip(
        "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho "
        "sigma tau upsilon phi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi "
        "Omega varepsilon vartheta varphi".split(),
        "αβγδεζηθικλμνξοπρστυφχψωΓΔΘΛΞΠΣΥΦΨΩεθφ",
        strict=True,
    )
)
_SIGNS = {
    **_GREEK,
    "times": "×", "cdot": "·", "div": "÷", "pm": "±", "mp": "∓", "leq": "≤", "le": "≤",
    "geq": "≥", "ge": "≥", "neq": "≠", "ne": "≠", "approx": "≈", "sim": "~", "equiv": "≡",
    "lt": "<", "gt": ">", "infty": "∞", "rightarrow": "→", "to": "→", "leftarrow": "←",
    "Rightarrow": "⇒", "implies": "⇒", "iff": "⇔", "Leftrightarrow": "⇔", "leftrightarrow": "↔",
    "in": "∈", "notin": "∉", "subset": "⊂", "subseteq": "⊆", "cup": "∪", "cap": "∩",
    "emptyset": "∅", "varnothing": "∅", "forall": "∀", "exists": "∃", "neg": "¬", "land": "∧",
    "lor": "∨", "partial": "∂", "nabla": "∇", "sum": "∑", "prod": "∏", "int": "∫", "angle": "∠",
    "perp": "⊥", "parallel": "∥", "triangle": "△", "degree": "°", "circ": "∘", "prime": "′",
    "ldots": "…", "cdots": "…", "dots": "…", "langle": "⟨", "rangle": "⟩", "mid": "|",
    "therefore": "∴", "because": "∵", "propto": "∝", "hbar": "ħ", "ell": "ℓ",
    "quad": " ", "qquad": " ", ",": " ", ";": " ", ":": " ", " ": " ", "!": "", "\\": "; ",
    "%": "%", "$": "$", "&": "&", "#": "#", "_": "_", "{": "{", "}": "}", "|": "|",
    "*": "*", ".": ".", "-": "-",
}  # fmt: skip
_NAMES = frozenset(
    "sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh log ln lg exp lim max min sup inf "
    "gcd det dim mod bmod deg".split()
)
_AS_THEY_ARE = frozenset(
    "text textbf textit textrm mathrm mathbf mathit mathsf mathbb mathcal operatorname boxed mbox "
    "overline underline hat bar vec tilde widehat overrightarrow".split()
)
"""Of these, what is in them alone is written."""
_NOTHING = frozenset(
    "left right big Big bigg Bigg bigl bigr displaystyle textstyle limits nolimits".split()
)
_LEFT_OUT = frozenset(("begin", "end", "tag", "label"))
"""With what is in them."""
_FRACTIONS = frozenset(("frac", "dfrac", "tfrac", "cfrac"))
_ROOTS = {"": "√", "2": "√", "3": "∛", "4": "∜"}
_KNOWN = frozenset(
    (*_SIGNS, *_NAMES, *_AS_THEY_ARE, *_NOTHING, *_LEFT_OUT, *_FRACTIONS, "sqrt", "binom")
)
_BOUNDED = ("sum", "prod", "int", "lim", "max", "min")
_RAISED = dict(zip("0123456789+−=()ni", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿⁱ", strict=True))
_LOWERED = dict(zip("0123456789+−=()ijkmn", "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ᵢⱼₖₘₙ", strict=True))

_BARE = _KNOWN - {name for name in _SIGNS if not name.isalpha()} | set("$%&#_*")
"""That are known for what they are with nothing around them."""
_IN_BRACES = _AS_THEY_ARE | _LEFT_OUT

_COMMAND = re.compile(r"\\([A-Za-z]+|[^A-Za-z])", re.DOTALL)
_DIGITS = re.compile(r"\d+")
_GAP = re.compile(r"\[[\d.]+[a-z]+\]")
_OPERATOR = "=≠≤≥<>≈≡±∓×÷→⇒⇔↔∈∉⊂⊆∪∩+"
_AROUND = re.compile(rf"\s*([{_OPERATOR}])\s*")
_MINUS_BETWEEN = re.compile(r"(?<=[\w)\]°′…!⁰¹²³⁴-⁹ⁿ])\s*−\s*(?=\S)")
_OF_WHAT_FOLLOWS = re.compile(r"(^|[=≠≤≥<>≈(\[,/∕]\s*)([±+]) ")
_ATOM = re.compile(
    r"[−±+]?(?:\d+(?:[.,]\d+)*|\d*[^\W\d])[⁰¹²³⁴-⁹ⁿ₀-₉ᵢⱼₖₘₙ′°%]*|√\w+|[^\W\d]+\([^()]*\)"
)
_IN_BRACKETS = re.compile(r"\([^()]*\)")
_SUM = re.compile(r".[\s+−±∓=<>≤≥∕/]")
_INNER_BLANK = re.compile(r"\s+(?=[,.;:!?)\]])|(?<=[(\[])\s+")
_BLANKS = re.compile(r"\s+")

# What is set apart as one.
_DELIMITED = re.compile(
    rf"\$\$(.{{1,{LONGEST}}}?)\$\$|\\\[(.{{1,{LONGEST}}}?)\\\]|\\\((.{{1,{LONGEST}}}?)\\\)"
    rf"|(\\begin\{{(?P<kind>[a-z]+\*?)\}}.{{1,{LONGEST}}}?\\end\{{(?P=kind)\}})"
    rf"|(?<![A-Za-z0-9\\$])\$(?![\s$])(?P<inline>[^$\n]{{1,{_LONGEST_INLINE}}}?)"
    r"(?<=[\w)\]}'!%°|.])(?<!\\)\$(?!\d)",
    re.DOTALL,
)
_OPENER = re.compile(r"[$\\]|[\^_](?=\{|[-−]?\d*\Z)")
_WORDS = re.compile(
    r"(?<![\\{A-Za-z])[^\W\d_]{2,} +[^\W\d_]{2,}(?![^\W\d_])|[，。；！？]|[\u4e00-\u9fff]{8}"
)
_IN_TEXT = re.compile(r"\\(?:text\w*|mathrm|operatorname|mbox)\s*\{[^{}]*\}?")
# An amount that goes on as no formula does.
_MONEY = re.compile(
    r"\$\d[\d.,]*(?:[kKMmB]|bn)?(?:[).,;:!?、\u4e00-\u9fff]|\s+(?![-−+=*/^<>\\×÷])\S|\s*[-–/]\$?\d)"
)
# Without anything around it.
_POWER = re.compile(r"(?<=[\w)\]])\^(?:\{([^{}]{1,60})\}|([-−]?\d{1,4})(?![\d.]))")
_INDEX = re.compile(r"(?<=[^\W_])_\{([^{}]{1,60})\}")


def in_signs(latex: str) -> str:
    """One formula, without what sets it apart."""
    made = _AROUND.sub(r" \1 ", _Reader(latex).all())
    made = _MINUS_BETWEEN.sub(" − ", made)
    made = _BLANKS.sub(" ", _OF_WHAT_FOLLOWS.sub(r"\1\2", made.strip()))
    return _INNER_BLANK.sub("", made)


def with_formulas_in_signs(text: str) -> str:
    """A text as it would be written by hand: all else of it is as it is."""
    if not any(sign in text for sign in "$\\^_"):
        return text
    made, at = "", 0
    while (found := _OPENER.search(text, at)) is not None:
        made += text[at : found.start()]
        signs, at = _formula_at(text, found.start())
        between = signs != "" and signs in _OPERATOR
        made += " " * (between and made[-1:].strip() != "") + signs
        made += " " * (between and text[at : at + 1].strip() != "")
    made += text[at:]
    made = _POWER.sub(lambda power: _raised(in_signs(power[1] or power[2])), made)
    return _INDEX.sub(lambda index: _lowered(in_signs(index[1])), made)


def undecided(text: str) -> int:
    """Where something begins that may yet become a formula, with what comes; else its length."""
    at = 0
    while (found := _OPENER.search(text, at)) is not None:
        if _may_go_on(text, found.start()):
            return found.start()
        _, at = _formula_at(text, found.start())
    return len(text)


def _formula_at(text: str, begins: int) -> tuple[str, int]:
    """What is there in signs, and where it ends; what is none is as it is."""
    apart = _DELIMITED.match(text, begins)
    if apart is not None:
        inline = apart["inline"]
        formula = inline or next(filter(None, apart.groups()))
        if not inline or not _says_something(inline):
            return in_signs(formula), apart.end()
    elif _begins_bare(text, begins):
        reader = _Reader(text[: begins + LONGEST], begins)
        reader.one()
        if not reader.starved:
            return in_signs(text[begins : reader.at]), reader.at
    return text[begins], begins + 1


def _begins_bare(text: str, at: int) -> bool:
    """Whether a command that is known stands there: no step of a path, no other escape."""
    command = _COMMAND.match(text, at)
    if command is None or command[1] not in _BARE:
        return False
    before, after = text[at - 1 : at], text[command.end() : command.end() + 1]
    of_a_path = (before.isascii() and before.isalpha()) or before in (":", "\\")
    return not of_a_path and (command[1] not in _IN_BRACES or after == "{")


def _may_go_on(text: str, begins: int) -> bool:
    """Whether what begins there may be a formula of which more is to come."""
    rest = text[begins:]
    apart = _DELIMITED.match(text, begins)
    if apart is not None or len(rest) > LONGEST:
        # Behind a second dollar a digit makes amounts of both.
        return apart is not None and apart["inline"] is not None and apart.end() == len(text)
    if rest[0] in "^_":
        return re.fullmatch(r".(?:[-−]?\d{0,4}|\{[^{}]{0,60})", rest) is not None
    if rest.startswith(("$$", "\\(", "\\[", "\\begin{")):
        return True
    if rest[0] == "$":
        return _may_be_inline(rest[1:]) and _MONEY.match(rest) is None
    if "\\begin{".startswith(rest) or rest[1:].isalpha():
        return any(known.startswith(rest[1:]) for known in _BARE)
    if not _begins_bare(text, begins):
        return False
    reader = _Reader(rest)
    reader.one()
    return reader.starved or reader.goes_on


def _may_be_inline(formula: str) -> bool:
    """Whether a single dollar may have begun it."""
    if formula[:1].isspace() or "\n" in formula or "$" in formula.rstrip("$"):
        return False
    return len(formula) < _LONGEST_INLINE and not _says_something(formula)


def _says_something(formula: str) -> bool:
    """Whether it has two words in a row, or as much in Mandarin, as no formula has."""
    return _WORDS.search(_IN_TEXT.sub("", formula)) is not None


class _Reader:
    """Reads LaTeX from its beginning on.

    starved: it ended in the midst of something. goes_on: more might belong to its end.
    """

    def __init__(self, text: str, at: int = 0) -> None:
        self._text = text
        self._depth = 0
        self.at = at
        self.starved = self.goes_on = False

    def all(self) -> str:
        """To the end of the text."""
        made = ""
        while self.at < len(self._text):
            made += self.one()
        return made

    def one(self) -> str:
        """The next sign, group or command with all that belongs to it; nothing where that lies too
        deep.
        """
        if self._depth >= _DEEPEST:
            self.at += 1
            return ""
        self._depth += 1
        made = self._next()
        self._depth -= 1
        return made

    def _next(self) -> str:
        char = self._text[self.at]
        if char == "\\":
            return self._command()
        self.at += 1
        match char:
            case "{":
                return self._group()
            case "^":
                return _raised(self._argument(number=True))
            case "_":
                return _lowered(self._argument(number=True))
            case "-":
                return "−"
            case "'":
                return "′"
            case "}" | "$":
                return ""
            case "&" | "~":
                return " "
        return " " if char.isspace() else char

    def _group(self) -> str:
        """What is behind an opening brace, up to its end."""
        made = ""
        while self.at < len(self._text) and self._text[self.at] != "}":
            made += self.one()
        self.starved |= self.at >= len(self._text)
        self.at += 1
        return made

    def _argument(self, *, number: bool = False) -> str:
        """The next group or sign. number: all of its digits."""
        while self.at < len(self._text) and self._text[self.at] == " ":
            self.at += 1
        if self.at >= len(self._text):
            self.starved = True
            return ""
        if number and (digits := _DIGITS.match(self._text, self.at)):
            self.at = digits.end()
            return digits[0]
        return self.one().strip()

    def _command(self) -> str:
        command = _COMMAND.match(self._text, self.at)
        if command is None:
            self.starved = True
            self.at += 1
            return ""
        self.at, name = command.end(), command[1]
        self.goes_on |= self.at == len(self._text) and name.isalpha()
        if name in _FRACTIONS:
            above, below = self._argument(), self._argument()
            return f"{_product(above)}{OVER}{_whole(below)}"
        if name == "sqrt":
            root = _ROOTS.get(degree := self._option(), f"{_raised(degree)}√")
            return root + _whole(self._argument())
        if name == "binom":
            return f"C({self._argument()}, {self._argument()})"
        if name in _BOUNDED:
            return self._bounded(_SIGNS.get(name, name))
        if name in _NAMES:
            return self._function(name)
        if name in _LEFT_OUT:
            if self._argument() == "array":
                self._argument()
            return " "
        if name in _AS_THEY_ARE:
            return self._argument()
        if name in _NOTHING:
            self.at += self._text.startswith(".", self.at)
            return ""
        if name == "\\" and (gap := _GAP.match(self._text, self.at)):
            self.at = gap.end()
        elif name in _GREEK:
            self.at += self._text.startswith(" ", self.at)
        return _SIGNS.get(name, name)

    def _option(self) -> str:
        """What stands in brackets, if there are any."""
        if not self._text.startswith("[", self.at):
            return ""
        end = self._text.find("]", self.at)
        if end < 0:
            self.starved = True
            return ""
        option, self.at = self._text[self.at + 1 : end], end + 1
        return option

    def _script(self, mark: str) -> str:
        self.goes_on |= self.at == len(self._text)
        if not self._text.startswith(mark, self.at):
            return ""
        self.at += 1
        return self._argument(number=True)

    def _bounded(self, sign: str) -> str:
        """With what it goes from, and to."""
        if self._text.startswith("\\limits", self.at):
            self.at += len("\\limits")
        least = self._script("_")
        most = self._script("^")
        least = least or self._script("_")
        bounds = " … ".join(filter(None, (least, most)))
        return f" {sign}({bounds}) " if bounds else f" {sign} "

    def _function(self, name: str) -> str:
        scripts = "".join(
            made(script)
            for mark, made in (("_", _lowered), ("^", _raised))
            if (script := self._script(mark))
        )
        opens = self._text[self.at : self.at + 1] in ("(", "[")
        return f" {name.removeprefix('b')}{scripts}{'' if opens else ' '}"


def _raised(what: str) -> str:
    if what in ("∘", "°"):
        return "°"
    if what and not what.strip("′*"):
        return what
    compact = what.replace(" ", "")
    if compact and all(char in _RAISED for char in compact):
        return "".join(map(_RAISED.__getitem__, compact))
    return f"^{compact}" if len(compact) == 1 else f"^({compact})"


def _lowered(what: str) -> str:
    compact = what.replace(" ", "")
    if compact and all(char in _LOWERED for char in compact):
        return "".join(map(_LOWERED.__getitem__, compact))
    return f"_{compact}" if compact.isalnum() else f"_({compact})"


def _whole(part: str) -> str:
    """In brackets, where it is more than one thing."""
    part = part.strip()
    return part if _ATOM.fullmatch(part) else f"({part})"


def _product(part: str) -> str:
    """In brackets, where it is a sum, or words."""
    part = part.strip()
    bare, inner = "", part
    while bare != inner:
        bare, inner = inner, _IN_BRACKETS.sub("", inner)
    return f"({part})" if _SUM.search(bare) else part
