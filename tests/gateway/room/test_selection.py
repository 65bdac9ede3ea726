"""Which comment is answered next."""

from __future__ import annotations

from gateway.room.choosing.comments import Author, Comment, Kind, Outcome
from gateway.room.choosing.likeness import likeness, shape_of
from gateway.room.choosing.selection import Entry, Selection
from tests.gateway.room.rooms import WORDS, by, selection


def pick(room: Selection, now: float = 1.0) -> str:
    entry = room.pick(now)
    assert entry is not None
    return entry.text


def test_a_question_comes_before_a_remark_and_who_is_addressed_before_both() -> None:
    room = selection(addressed_as=("Cleo",))
    for text in ("nice stream today", "what time is it?", "cleo, are you well?", "so it goes"):
        room.take(by(text, text), 0.0)
    assert pick(room) == "cleo, are you well?"
    assert pick(room) == "what time is it?"


def test_a_name_within_another_word_addresses_nobody() -> None:
    room = selection(addressed_as=("Ann", "小可", " ", "수지"))
    texts = ("hi @ann_live!", "问Ann一下", "annnnn hey", "Ann's hat", "小可你好", "수지야 안녕")
    for text in (*texts, "planning a party", "who cannot wait", "no name here"):
        entry = room.take(by(text, text), 0.0)
        assert isinstance(entry, Entry) and entry.addressed == (text in texts), text


def test_who_pays_comes_first_and_more_money_before_less() -> None:
    room = selection()
    room.take(by("Ann", "what is this?"), 0.0)
    for name, amount in (("Ben", 2.0), ("Cat", 50.0)):
        room.take(
            by(name, f"{name} says hello", kind=Kind.SUPERCHAT, amount=amount, currency="USD"), 0.0
        )
    assert [pick(room) for _ in range(3)] == ["Cat says hello", "Ben says hello", "what is this?"]


def test_what_many_ask_is_asked_once_by_the_newest_and_counts_for_more() -> None:
    room = selection()
    room.take(by("Ann", "What is your name?"), 0.0)
    room.take(by("Ben", "where do you live?"), 0.0)
    for i, form in enumerate(("what is your name", "WHAT IS YOUR NAME???", "what is your name 😀")):
        assert room.take(by(f"Eve{i}", form, 1.0 + i), 3.0) is Outcome.MERGED
    entry = room.pick(5.0)
    assert entry is not None and entry.others == 3
    assert entry.comment.author.name == "Eve2" and entry.comment.at_s == 3.0
    assert room.take(by("Zoe", "what's your name?", 5.0), 5.0) is Outcome.MERGED, "being answered"
    room.over(entry, Outcome.ANSWERED, 10.0)
    later = 10.0 + room.rules.remembered_s
    assert room.take(by("Zed", "what is your name??", later), later) is Outcome.MERGED, "answered"
    later += 1.0
    assert isinstance(room.take(by("Zed", "what is your name?", later), later), Entry)


def test_what_others_ask_too_waits_on_without_whoever_is_not_wanted() -> None:
    chosen = selection()
    for at_s, name in enumerate(("Anna", "Ben", "Troll", "Cat")):
        chosen.take(by(name, "what is this song?", float(at_s)), float(at_s))
    chosen.ban("test:cat")
    chosen.remove(by("Troll", kind=Kind.REMOVED))
    (waits,) = chosen.waiting(4.0)
    assert (waits.name, waits.others) == ("Ben", 1)
    for name in ("Anna", "Ben"):
        chosen.remove(by(name, kind=Kind.REMOVED))
    assert chosen.waiting(4.0) == []
    assert chosen.outcomes == {Outcome.MERGED: 3, Outcome.REMOVED: 1}


def test_alike_is_not_the_same_where_numbers_or_a_no_differ() -> None:
    def same(one: str, other: str) -> bool:
        return likeness(shape_of(one), shape_of(other), 0.82) >= 0.82

    assert same("what is the capital of France", "What's the capital of France?")
    assert same("你最喜欢的电影是什么", "你最喜欢的电影是什么呀")
    assert not same("what is 3 plus 4?", "what is 3 plus 5?")
    assert not same("you should do it again now", "you should not do it again now")
    assert not same("do you like cats?", "do you like dogs?")
    assert not same("你喜欢猫吗", "你喜欢狗吗")
    assert same("你是不是中国人", "你是不是中国人？")


def test_nobody_is_answered_again_before_the_others() -> None:
    room = selection(per_author=5)
    spam = ["what is love?", "who made you?", "can you sing well?", "where is the moon now?"]
    for text in spam:
        room.take(by("Spammer", text), 0.0)
    for name in ("Ann", "Ben", "Cat"):
        room.take(by(name, f"just saying hello from {name}"), 0.0)
    answered = []
    for now in range(1, 8):
        entry = room.pick(float(now))
        assert entry is not None
        answered.append(entry.comment.author.name)
        room.over(entry, Outcome.ANSWERED, float(now))
    assert answered[0] == "Spammer" and set(answered[1:4]) == {"Ann", "Ben", "Cat"}


def test_each_author_has_so_many_waiting_and_no_more() -> None:
    room = selection(per_author=2)
    took = [room.take(by("Ann", text), 0.0) for text in ("who am I?", "so be it", "long ago now")]
    assert took[2] is Outcome.CROWDED and not any(isinstance(t, Outcome) for t in took[:2])


def test_what_comes_too_late_expires_and_a_slow_answer_is_reckoned_with() -> None:
    room = selection(answer_within_s=30.0)
    room.take(by("Ann", "are you there?", 0.0), 0.0)
    assert room.pick(26.0, lead_s=5.0) is None
    assert room.pick(26.0, lead_s=3.0) is not None
    room.take(by("Ben", "and you over there?", 40.0), 40.0)
    assert room.pick(71.0) is None
    assert room.outcomes[Outcome.EXPIRED] == 1
    assert room.take(by("Old", "was there anything?", 40.0), 75.0) is Outcome.EXPIRED


def test_what_is_not_to_be_answered_is_told_why() -> None:
    room = selection(bots=("SongBot",))
    first = by("Ann", "what is this?", id="one")
    room.take(first, 0.0)
    room.ban("test:troll", "Troll")
    for comment, outcome in (
        (first, Outcome.REPEATED),
        (by("songbot", "now playing"), Outcome.OWN),
        (by("Troll", "hello everybody"), Outcome.BLOCKED_AUTHOR),
        (by("Ann", "!song x"), Outcome.COMMAND),
        (by("Ann", "😀😀"), Outcome.EMPTY),
        (by("Ann", " ".join(f"word{i}" for i in range(60))), Outcome.TOO_LONG),
        (by("Ann", "x" * 100_000), Outcome.TOO_LONG),
        (by("Ann", "you gr0bnik you"), Outcome.BLOCKED_WORD),
        (by("Ann", "you gro😀bnik you"), Outcome.BLOCKED_WORD),
    ):
        assert room.take(comment, 0.0) is outcome, comment
    assert room.unban("test:troll") and not room.unban("test:troll")
    assert isinstance(room.take(by("Troll", "hello again everybody"), 0.0), Entry)


def test_a_blocked_word_in_a_name_is_not_said() -> None:
    for name in ("Grobnik 99", "gro_bnik"):
        entry = selection().take(by(name, "what is the time?"), 0.0)
        assert isinstance(entry, Entry) and entry.name == ""


def test_words_blocked_and_comments_removed_later_are_gone() -> None:
    room = selection()
    room.take(by("Ann", "do you like marzipan?", id="a"), 0.0)
    room.take(by("Ben", "do I speak with a machine?", id="b"), 0.0)
    room.take(by("Cat", "how old is the moon?", id="c"), 0.0)
    room.block(type(WORDS)(["marzipan"]))
    assert room.outcomes[Outcome.BLOCKED_WORD] == 1
    taken_back = Comment("x", "test", Author("ben", "Ben"), "", 0.0, Kind.REMOVED)
    room.remove(taken_back)
    assert room.outcomes[Outcome.REMOVED] == 1
    assert room.skip("test", "c") and not room.skip("test", "c")
    assert room.waiting(1.0) == []
