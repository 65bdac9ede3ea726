"""Splits a phrase into runs that one voice can speak: Chinese here, Latin letters there."""

from __future__ import annotations

import re
from dataclasses import dataclass

_UNITS = "km/h|km|kg|cm|mm|ml|mL|m²|m/s|GB|MB|KB|TB|kW|Hz|GHz|MHz|m|g|L|℃|°C|℉|°F|°|%|‰"
_TOKEN = re.compile(
    r"(?P<zh>[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff〇]+)"
    rf"|(?P<number>[-−+]?[$€£¥￥]?\d(?:[\d,.:/~–-]*\d)?(?:\s?(?:{_UNITS}))?(?![A-Za-zÀ-ɏ]))"
    r"|(?P<en>[0-9]*[A-Za-zÀ-ɏ](?:[A-Za-z0-9_À-ɏ]|['’.@/:+&=?#-]+(?=[A-Za-z0-9À-ɏ]))*)"
    r"|(?P<other>.)",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Run:
    """Text that one language's voice speaks."""

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
