"""Style tags in an answer's text, however it is split."""

from __future__ import annotations

import pytest

from visavis.serving.errors import InvalidInputError
from visavis.styles import STYLES, CaptionText, StyleTags, checked_style

TEXT = "[happy] Hello [friend]! [SAD]Bye [1] and [angry"


def parted(pieces: list[str]) -> list[tuple[str, str]]:
    """Neighbouring texts joined."""
    tags = StyleTags()
    parts = [p for piece in pieces for p in tags.feed(piece)] + list(tags.feed("", last=True))
    joined: list[tuple[str, str]] = []
    for text, style in parts:
        if joined and text and joined[-1][0]:
            text = joined.pop()[0] + text
        joined.append((text, style))
    return joined


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 100])
def test_tags_are_found_however_the_text_is_split(size: int) -> None:
    pieces = [TEXT[i : i + size] for i in range(0, len(TEXT), size)]
    assert parted(pieces) == [
        ("", "happy"),
        ("Hello [friend]! ", ""),
        ("", "sad"),
        ("Bye [1] and [angry", ""),
    ]


def test_only_what_may_be_a_tag_waits() -> None:
    tags = StyleTags()
    assert list(tags.feed("Hi [")) == [("Hi ", "")]
    assert list(tags.feed("s")) == []
    assert list(tags.feed("ic]")) == [("[", ""), ("sic]", "")]


@pytest.mark.parametrize("size", [1, 4, 100])
def test_captions_show_no_tag_and_no_gap(size: int) -> None:
    captions, text = CaptionText(), "[happy] Hello! [sad] Bye. [calm]你好。"
    pieces = [text[i : i + size] for i in range(0, len(text), size)]
    shown = "".join(captions.feed(piece) for piece in pieces) + captions.feed("", last=True)
    assert shown == "Hello! Bye. 你好。"
    assert CaptionText().feed("Two  blanks [stay]", last=True) == "Two  blanks [stay]"


def test_unknown_styles_are_answered_with_what_exists() -> None:
    assert checked_style("") == ""
    assert [checked_style(s) for s in STYLES] == list(STYLES)
    with pytest.raises(InvalidInputError, match="neutral, happy"):
        checked_style("grumpy")
