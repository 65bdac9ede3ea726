"""What of an answer counts as heard."""

from __future__ import annotations

import pytest

from gateway.heard import heard_text


@pytest.mark.parametrize(
    ("text", "played_s", "voice_s", "heard"),
    [
        ("one two three", 0.0, 3.0, ""),
        ("", 1.0, 1.0, ""),
        ("one two three", 3.0, 3.0, "one two three"),
        ("one two three", 2.0, 3.0, "one two"),
        ("one two three", 0.5, 3.0, ""),
        ("one two three", 99.0, None, "one two three"),
        ("a" * 15 + " " + "b" * 15, 1.0, None, "a" * 15),
        ("你好世界", 0.5, None, "你好"),
        ("你好世界", 1.0, 2.0, "你好"),
        ("说 hello 吧", 0.3, None, "说"),
    ],
)
def test_cut_at_a_word(text: str, played_s: float, voice_s: float | None, heard: str) -> None:
    assert heard_text(text, played_s=played_s, voice_s=voice_s) == heard
