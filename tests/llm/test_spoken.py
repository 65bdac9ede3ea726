import pytest

from services.llm.text_stream import SpokenText


def said(text: str, size: int = 1) -> str:
    spoken = SpokenText()
    out = [spoken.feed(text[i : i + size]) for i in range(0, len(text), size)]
    return "".join(out) + spoken.finish()


CASES = [
    ("Plain text, nothing else.", "Plain text, nothing else."),
    ("**Bold** and *soft* and `code`.", "Bold and soft and code."),
    ("# Title\nText", "Title\nText"),
    ("Do this:\n1. Plug it in.\n2. **Wait**.\n", "Do this:\nPlug it in.\nWait.\n"),
    ("- one\n* two\n• three", "one\ntwo\nthree"),
    ("Two * three is 2*3.", "Two * three is 2*3."),
    ("12. That was easy.", "12. That was easy."),
    ("12", "12"),
    ("-5 degrees", "-5 degrees"),
    ("#1 in the charts", "#1 in the charts"),
    ("snake_case __init__", "snake_case init"),
    ("你好。\n- 第一\n- 第二", "你好。\n第一\n第二"),
    ("", ""),
]


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(("written", "spoken"), CASES)
def test_marks_are_not_spoken(written: str, spoken: str, size: int) -> None:
    assert said(written, size) == spoken


def test_words_do_not_wait() -> None:
    spoken = SpokenText()
    assert [spoken.feed(piece) for piece in ("Well", ", yes", "! It", " is")] == [
        "Well",
        ", yes",
        "! It",
        " is",
    ]
