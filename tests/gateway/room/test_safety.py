"""What of strangers' texts is read aloud."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gateway.room.choosing.cleaning import clean, has_words, is_command, is_question, spoken_name
from gateway.room.choosing.safety import WordList, read_words, shipped_words
from tests.gateway.room.rooms import WORDS
from visavis.serving.errors import InvalidInputError

GROBNIK = (
    "you grobnik",
    "GROBNIK",
    "g r o b n i k",
    "g.r.o.b.n.i.k!",
    "you are a g r o b n i k, aren't you?",
    "a g.r.0.b.n.1.k",
    "gr0bn1k",
    "grooobnnnik",
    "ｇｒｏｂｎｉｋ",
    "gröbnïk",
    "grоbnik",  # the o is Cyrillic
    "gro\u200bbnik",
    "gro*bnik",
    "gro-bnik",
    "a \u202egrobnik",
    "gro\U0001f642bnik",
    "gro\u2194\ufe0fbnik",  # an arrow as an emoji
    "gro\u0903bnik",  # a vowel's sign that stands for itself
    "gro\u3164bnik",  # a letter that shows nothing
    "gro:smile:bnik",
)


@pytest.mark.parametrize("text", GROBNIK)
def test_a_blocked_word_is_found_in_whatever_form(text: str) -> None:
    assert WORDS.find(text)


def test_words_end_where_they_end_and_stems_go_on() -> None:
    assert WORDS.find("the grobnikers are here") == ""
    assert WORDS.find("vrexlichly done") == "vrexlich"
    assert WORDS.find("hypervrexlich") == ""
    assert WORDS.find("vrexlichen is another") == "", "what is said to be meant otherwise"
    assert WORDS.find("这是坏 词*甲吗") == "坏词甲"
    assert WORDS.find("坏 人，词甲") == ""


def test_the_lists_that_ship_keep_out_what_they_name_and_let_ordinary_talk_through() -> None:
    words = WordList(shipped_words())
    for text in ("傻 逼", "Cao Ni Ma!", "sh1t happens", "kill   yourself"):
        assert words.find(text), text
    for text in (
        *("I grew up in Scunthorpe", "my class passes the assessment", "Dickens and a cockatoo"),
        *("shiitake mushrooms", "the therapist from Pakistan", "as it is in the basement"),
        *("你妈妈好吗", "我做了一个梦", "草地上有一匹马", "he is a spicy cook"),
    ):
        assert words.find(text) == "", text


def test_an_operators_own_words_are_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "words.txt"
    file.write_text("# ours\nbrand x  # a rival\n\n竞品\n", encoding="utf-8")
    words = WordList(read_words(file))
    assert words.find("I like Brand-X more") and words.find("竞 品")
    with pytest.raises(InvalidInputError, match="cannot be read"):
        read_words(tmp_path / "none.txt")
    with pytest.raises(InvalidInputError, match="too long"):
        WordList(["a" * 61])


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("soooooo gooood!!!!!!", "soo good!"),
        ("哈哈哈哈哈哈", "哈哈"),
        ("hahahahaha", "ha"),
        ("go go go go", "go"),
        ("see https://x.example/y or evil.ru/z 😀👍🏽 :smile: [doge]", "see or"),
        ("That is nice.come on, I agree.Meet x.me吧", "That is nice.come on, I agree.Meet 吧"),
        ("我想问bilibili.com/v是什么", "我想问 是什么"),
        ("看https://x.example/y这个怎么样", "看 这个怎么样"),
        ("a\nb\x00c", "a b c"),
        ("1000000 at 20°", "1000000 at 20°"),
        ("h\u0337\u0322\u0327ello", "h\u0337ello"),
        ("I \u2764\ufe0f it\u3164", "I it"),
        ("दादा दादी", "दादा दादी"),
        ("नमस्ते नमस्ते नमस्ते", "नमस्ते"),
    ],
)
def test_a_comment_is_cleaned(written: str, read: str) -> None:
    assert clean(written) == read


def test_a_comment_made_to_take_long_does_not() -> None:
    began_s = time.thread_time()
    clean("-a" * 8000)
    assert time.thread_time() - began_s < 1.0, "everything else would stand still"


def test_names_are_such_as_can_be_said() -> None:
    assert spoken_name("xX_Anna_Xx99") == "xX Anna Xx"
    assert spoken_name("小明123") == "小明"
    for name in ("प्रिया", "เก่ง", "مُحَمَّد"):
        assert spoken_name(name) == name
    assert spoken_name('Anna: ignore "this"') == "Anna ignore this"
    assert spoken_name("___") == spoken_name("12345") == spoken_name("🎉") == ""
    assert spoken_name("\u3164") == "", "a letter that shows nothing"
    assert len(spoken_name("a name that goes on and on and on")) <= 24


def test_questions_and_commands_are_told_by_their_form() -> None:
    for text in ("how are you", "ok so why", "你好吗", "这是什么", "tell me a joke", "right?"):
        assert is_question(text), text
    for text in ("nice stream", "我喜欢你", "he is here"):
        assert not is_question(text), text
    assert is_command("!song x") and is_command("/ban me") and not is_command("! wow")
    assert not has_words("?!") and not has_words("a") and has_words("好")
