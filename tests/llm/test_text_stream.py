"""Pieces are never torn: characters, emoji, stop strings, template tokens; what a voice says."""

import itertools
from typing import Any

import pytest

from services.llm.blocks import Blocks, Shown
from services.llm.text_stream import InSigns, SpokenText, TextStream, WithoutCalls
from visavis.formulas import with_formulas_in_signs


def run(pieces: list[str] | list[bytes], stop: tuple[str, ...] = ()) -> tuple[list[str], bool]:
    stream = TextStream(stop)
    out = [stream.feed(piece) for piece in pieces]
    out.append(stream.finish())
    return [piece for piece in out if piece], stream.stopped


def test_bytes_cut_anywhere_give_the_same_text_and_whole_characters() -> None:
    for text in ("naïve café", "你好，世界！", "a😀b", "עברית", "e\u0301a"):
        raw = text.encode()
        pieces, stopped = run([raw[i : i + 1] for i in range(len(raw))])
        assert "".join(pieces) == text
        assert not any("\ufffd" in piece for piece in pieces)
        assert not stopped


def test_broken_bytes_become_the_replacement_character() -> None:
    assert "".join(run([b"ok \xff", b"\xe4\xbd"])[0]) == "ok \ufffd\ufffd"


def test_an_emoji_sequence_comes_in_one_piece() -> None:
    for emoji in ("👩‍👩‍👧", "🇩🇪", "👍🏽", "❤️"):
        pieces, _ = run(["hi ", *emoji, " bye"])
        assert any(emoji in piece for piece in pieces)
        assert "".join(pieces) == f"hi {emoji} bye"
        assert run([*emoji] * 3)[0] == [emoji] * 3, "the next one is another"


def test_plain_text_is_never_held_back() -> None:
    stream = TextStream(("STOP",))
    assert stream.feed("Hello") == "Hello"
    assert stream.feed(" there") == " there"
    assert stream.feed("。") == "。"


def test_a_stop_string_is_found_across_borders_and_never_shown() -> None:
    for size in (1, 2, 3, 7, 100):
        text = "One two.\nUser: three"
        pieces, stopped = run(
            [text[i : i + size] for i in range(0, len(text), size)], stop=("\nUser:", "zzz")
        )
        assert "".join(pieces) == "One two."
        assert stopped


def test_what_only_begins_a_stop_string_comes_out_in_the_end() -> None:
    assert run(["One\nUs", "able\nUser"], stop=("\nUser:",)) == (
        ["One", "\nUsable", "\nUser"],
        False,
    )


def test_the_first_of_several_stop_strings_counts() -> None:
    assert "".join(run(["a b c"], stop=("c", "b"))[0]) == "a "


def test_nothing_comes_after_the_stop() -> None:
    stream = TextStream(("x",))
    assert stream.feed("ax") == "a"
    assert stream.feed("more") == ""
    assert stream.finish() == ""


def test_an_end_token_ends_the_answer() -> None:
    for end in ("<|im_end|>", "<|eot_id|>", "</s>", "<end_of_turn>", "<｜end▁of▁sentence｜>"):
        pieces, stopped = run([*f"Hi there.{end}rubbish"])
        assert "".join(pieces) == "Hi there."
        assert stopped


def test_what_is_struck_through_in_html_is_no_token() -> None:
    html = "Like so: <p>Now <s>20</s> 15</p>, and <s>a <s>b</s></s>."
    for text in (html, f"<s>{html}", f"{html}</s> rubbish"):
        for size in (1, 3, 100):
            pieces = [text[i : i + size] for i in range(0, len(text), size)]
            assert "".join(run(pieces)[0]) == html


@pytest.mark.parametrize(
    ("written", "clean"),
    [
        ("<s>wrong</s> right", "wrong right"),
        ("<s>Hi there.</s>", "Hi there."),
        ("<s>Hi there.</s>\n", "Hi there."),
        ("<s>Hi.</s> So.</s> rubbish", "Hi. So."),
        ("<s>a <s>b</s> c</s> d", "a <s>b</s> c d"),
        ("<s>Hi.</s><|im_end|>rubbish", "Hi."),
        ("<think>x</think><s>old</s> new", "old new"),
        ("<s><think>x</think> <think>y</think>\n<s>old</s> new</s>er", "old newer"),
    ],
)
def test_what_an_answer_begins_with_may_be_struck_through(written: str, clean: str) -> None:
    for size in (1, 3, 100):
        pieces = [written[i : i + size] for i in range(0, len(written), size)]
        assert "".join(run(pieces)[0]) == clean


def test_other_template_tokens_vanish_and_lookalikes_stay() -> None:
    text = "a<|fim_prefix|>b <3 c <| d <|not a token|> e [/INST]f <｜User｜>g [1] <start"
    assert "".join(run([*text])[0]) == "ab <3 c <| d <|not a token|> e f g [1] <start"


def test_leading_white_space_is_dropped_and_inner_stays() -> None:
    assert "".join(run(["\n", " ", "Hi", " ", "you"])[0]) == "Hi you"


def test_thoughts_are_not_part_of_the_answer() -> None:
    text = "<think>\nHm, <|x|> 1+1. So\n</think>\n\nTwo <think> ok"
    assert "".join(run([*text])[0]) == "Two <think> ok"
    assert "".join(run([*f"<s> {text}"])[0]) == "Two <think> ok"
    assert run(["<think>never", " closed"]) == ([], False)


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
    ("It is 2**10, **5** and ***more***.", "It is 2**10, 5 and more."),
    (
        "~~Old~~ [the docs](https://a.b/c_(d)) and [top](#top), [a.b](http://a.b/)",
        "Old the docs (https://a.b/c_(d)) and top, http://a.b/",
    ),
    ("[happy] Yes! [1] arr[0](x) and [", "[happy] Yes! [1] arr[0](x) and ["),
    ("> # Title\n> 1. First\n- **2.** + x", "Title\nFirst\n2. + x"),
    ("你好。\n- 第一\n- 第二", "你好。\n第一\n第二"),
    ("", ""),
]


def test_marks_are_not_spoken() -> None:
    for size in (1, 3, 1000):
        for written, spoken in CASES:
            assert said(written, size) == spoken


def test_a_line_of_marks_with_wide_gaps_is_read_in_one_go() -> None:
    spoken = SpokenText()
    assert spoken.feed("-  " * 40) == ""
    assert spoken.feed("so") == "so"


def test_words_do_not_wait() -> None:
    pieces = ["Well", ", yes", "! It", " is", " $5", " or", " a", " bit"]
    spoken, signs = SpokenText(), InSigns()
    assert [spoken.feed(piece) for piece in pieces] == pieces
    assert [signs.feed(piece) for piece in pieces] == [*pieces[:4], " ", "$5 or", *pieces[6:]]
    for written in ("要$5左", "要$5，", "用$PATH，", "в $HOME есть всё ", "$HOME/bin is on "):
        assert InSigns().feed(written) == written


@pytest.mark.parametrize(
    ("written", "signs"),
    [
        (r"It is $x^2$, \(\frac{a+b}{2c}\) or \[ \sqrt{2} \].", "It is x², (a + b)∕2c or √2."),
        (r"$\frac{-b \pm \sqrt{b^2 - 4ac}}{2a}$", "(−b ± √(b² − 4ac))∕2a"),
        (r"$$\int_0^1 x^n \, dx$$ and $\sum_{i=1}^{n} i$", "∫(0 … 1) xⁿ dx and ∑(i = 1 … n) i"),
        (r"\begin{aligned} a &= b \\ c &= d \end{aligned}", "a = b; c = d"),
        (r"2 \times 3, \boxed{42}, x^{10}, 10^-6, x_{1}", "2 × 3, 42, x¹⁰, 10⁻⁶, x₁"),
        (r"$\text{CO}_2$ at $25^\circ\text{C}$, $e^{i\pi}$", "CO₂ at 25°C, e^(iπ)"),
        ("勾股定理是$a^2+b^2=c^2$。", "勾股定理是a² + b² = c²。"),
        ("$5 and $6, US$5-$10, $HOME/bin:$PATH", "$5 and $6, US$5-$10, $HOME/bin:$PATH"),
        (r"C:\new\text, \$5, snake_case, a^b, ^_^", r"C:\new\text, $5, snake_case, a^b, ^_^"),
        (r"\(x", r"\(x"),  # the answer was as long as it may be
        ("{" * 99 + r"\frac" * 99 + "$" * 99, None),
    ],
)
def test_formulas_are_written_in_signs(written: str, signs: str | None) -> None:
    whole = with_formulas_in_signs(written)
    assert signs in (whole, None)
    for size in (1, 2, 3, 7):
        stream = InSigns()
        pieces = [stream.feed(written[i : i + size]) for i in range(0, len(written), size)]
        assert "".join([*pieces, stream.finish()]) == whole or signs is None
    assert with_formulas_in_signs(whole) == whole or signs is None, "it may be read once more"


@pytest.mark.parametrize(
    ("written", "parts"),
    [
        (
            "So:\n\n  ```Python\nif a | b:\n    `x`\n```\n\nThen\n```\nls\n```",
            ["So:\n", (1, "python", "if a | b:\n    `x`\n"), "Then\n", (2, "", "ls\n")],
        ),
        (
            "| a | b |\n|---|---|\n| 1 | 2 |\n\nThat is all.\n| c |\n| 3 |",
            [
                (1, "markdown", "| a | b |\n|---|---|\n| 1 | 2 |\n"),
                "That is all.\n",
                (2, "markdown", "| c |\n| 3 |\n"),
            ],
        ),
        (
            "| a | b |\n|---|---|\n| 1 | 2\n| 3 | 4 |\nx\n| y\n",
            [(1, "markdown", "| a | b |\n|---|---|\n| 1 | 2\n| 3 | 4 |\n"), "x\n| y\n"],
        ),
        ("Sure! ```c++ title\nint x;\n```and", ["Sure! ", (1, "c++", "int x;\n"), "and"]),
        ("```sh\nls", [(1, "sh", "ls")]),  # the answer was as long as it may be
        ("|x| is `a` or ```b``` ok ```", ["|x| is `a` or ```b``` ok "]),
        ("Two\n\nlines", ["Two\n\nlines"]),
        ("", []),
    ],
)
def test_blocks_of_code_and_tables_are_parted_from_what_is_said(
    written: str, parts: list[Any]
) -> None:
    for size in (1, 2, 3, 7, 1000):
        blocks, found = Blocks(), []
        pieces = [blocks.feed(written[i : i + size]) for i in range(0, len(written), size)]
        for piece in (*itertools.chain(*pieces), *blocks.finish()):
            new = (piece.block, piece.language, piece.text) if isinstance(piece, Shown) else piece
            if isinstance(new, tuple) and found and found[-1][:2] == new[:2]:
                found[-1] = (*new[:2], found[-1][2] + new[2])
            elif isinstance(new, str) and found and isinstance(found[-1], str):
                found[-1] += new
            else:
                found.append(new)
        assert found == parts


CODE = "```py\nprint({})\n```\n"
LONG_CODE = f"```py\n{'x = {}; ' * 300}\n```\n"
CALL = '{"name": "get_weather", "arguments": {"city": "Rome {old}"}}'


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (CALL, ""),
        (f"One moment. {CALL} It is warm.", "One moment.  It is warm."),
        (f"<tool_call>\n{CALL}\n</tool_call>So.", "So."),
        ("<tool_call>anything</tool_call>", ""),
        (f"Look:\n```json\n{CALL}\n```\nDone.", "Look:\n\nDone."),
        ('Well. {"type": "function", "function": {"name": "get_weather"}}', "Well. "),
        ('{"name": "get_weather", "argum', ""),  # the answer was as long as it may be
        ('{"name": "other"} and {x} and <b>', '{"name": "other"} and {x} and <b>'),
        ("if a < b then {", "if a < b then {"),
        ("```print(1)``` `x` <tool", "```print(1)``` `x` <tool"),
        ("{" + "no call " * 300, "{" + "no call " * 300),
        (f'{CODE}Call it "get_weather".\n{CODE}', f'{CODE}Call it "get_weather".\n{CODE}'),
        (f'{LONG_CODE}"get_weather"{CODE}{CALL}', f'{LONG_CODE}"get_weather"{CODE}'),
    ],
)
def test_calls_are_not_spoken(written: str, said: str) -> None:
    for size in (1, 3, 7, 1000):
        uncalled = WithoutCalls(["get_weather"])
        pieces = [uncalled.feed(written[i : i + size]) for i in range(0, len(written), size)]
        assert "".join([*pieces, uncalled.finish()]) == said


def test_what_is_said_behind_code_does_not_wait() -> None:
    uncalled = WithoutCalls(["get_weather"])
    pieces = [f"{CODE}This prints"[i:][:3] for i in range(0, len(CODE) + 11, 3)]
    assert "".join(map(uncalled.feed, pieces)) == f"{CODE}This prints"


def test_where_there_are_no_tools_nothing_waits() -> None:
    assert WithoutCalls([]).feed(f"<tool_call>{CALL}") == f"<tool_call>{CALL}"
