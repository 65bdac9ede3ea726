"""How something is said: the names of the styles, and their tags in an answer's text.

What a voice makes of a style stands in services/tts/prosody.py, what a face makes of it in
services/face/life/expressions.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from visavis.serving.errors import InvalidInputError

NEUTRAL = "neutral"
STYLES = (
    NEUTRAL,
    "happy",
    "sad",
    "angry",
    "surprised",
    "afraid",
    "disgusted",
    "contemptuous",
    "calm",
    "excited",
    "whisper",
)
_LONGEST_TAG = max(map(len, STYLES)) + 2
_TAGS = {f"[{name}]": name for name in STYLES}


def checked_style(name: str) -> str:
    """`name`, "" included. Raises InvalidInputError that lists what exists."""
    if name and name not in STYLES:
        raise InvalidInputError(f"style: there is no {name[:40]!r}; known are {', '.join(STYLES)}")
    return name


class StyleTags:
    """Parts a text that comes in pieces into what is said and how.

    "[happy] Hello! [sad] Bye." is a change to happy, "Hello! ", a change to sad, "Bye.": a tag goes
    with the blank that it leaves. Case does not count. Brackets around anything else are text. Only
    what may be a tag waits.
    """

    def __init__(self) -> None:
        self._held = ""
        self._after_blank = True
        self._after_tag = False

    def feed(self, text: str, *, last: bool = False) -> Iterator[tuple[str, str]]:
        """(text, "") and ("", style) in order."""
        for said, style in self._parts(text, last=last):
            if style:
                self._after_tag = True
                yield "", style
                continue
            if self._after_tag and self._after_blank:
                said = said.lstrip(" ")
            if said:
                self._after_blank, self._after_tag = said[-1].isspace(), False
                yield said, ""

    def _parts(self, text: str, *, last: bool) -> Iterator[tuple[str, str]]:
        self._held += text
        while self._held:
            start = self._held.find("[")
            if start:
                ready = self._held if start < 0 else self._held[:start]
                self._held = self._held[len(ready) :]
                yield ready, ""
                continue
            head = self._held[:_LONGEST_TAG].lower()
            end = head.find("]") + 1
            style = _TAGS.get(head[:end]) if end else None
            if style is not None:
                self._held = self._held[end:]
                yield "", style
            elif not last and not end and any(tag.startswith(head) for tag in _TAGS):
                return  # the rest of it may still come
            else:
                self._held = self._held[1:]
                yield "[", ""


class CaptionText:
    """An answer's text as it is shown and remembered: without tags."""

    def __init__(self) -> None:
        self._tags = StyleTags()

    def feed(self, text: str, *, last: bool = False) -> str:
        """What of `text` and of what waited is to be shown now."""
        return "".join(said for said, _ in self._tags.feed(text, last=last))
