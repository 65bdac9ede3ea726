from services.llm.loop_guard import LoopGuard


def run(text: str, size: int = 1) -> tuple[str, bool]:
    guard = LoopGuard()
    out = [guard.feed(text[i : i + size]) for i in range(0, len(text), size)]
    return "".join(out) + guard.finish(), guard.looping


def test_ordinary_text_passes_unchanged() -> None:
    for text in (
        "The capital of France is Paris. The capital of Spain is Madrid! Which one do you like?",
        "Yes. Yes! Ha ha ha ha! No. No.",
        "Pi is 3.14159. E is 2.71828, Dr. Who said.",
        "法国的首都是巴黎。西班牙的首都是马德里。好。好。",
        "It was dark; it was cold; it was late.",
        "So:\nOil\nOil and salt\nYes.\nYes.\nNo",
        "It opens from 9 a.m. to 5 p.m. on Mondays. It opens from 9 a.m. to 1 p.m. on Sundays.",
        "A ticket for adults costs $10.50. A ticket for adults costs $10.20 online.",
        "Please write to www.a.com for it. Please write to www.b.com for the rest.",
        "I recommend Dr. Brown for teeth. I recommend Dr. Green for eyes.",
        "...",
        "",
    ):
        for size in (1, 4, 1000):
            assert run(text, size) == (text, False)


def test_a_sentence_is_never_heard_twice() -> None:
    for text, heard in (
        (
            "I like the sea. It is blue. I like the sea. It is blue.",
            "I like the sea. It is blue. ",
        ),
        ("I am glad to be here! I AM glad, to be here.", "I am glad to be here! "),
        ("It opens at 9 a.m. It opens at 9 a.m. It", "It opens at 9 a.m. "),
        ("法国的首都是巴黎。法国的首都是巴黎。法国", "法国的首都是巴黎。"),
        ("You need:\nOil\nSalt\nOil\nOil\nOil", "You need:\nOil\nSalt\nOil\n"),
    ):
        for size in (1, 4, 1000):
            assert run(text, size) == (heard, True)


def test_a_repeated_sentence_cut_off_at_the_end_is_dropped_too() -> None:
    heard, _ = run("I am glad to be here. I am glad to be here")
    assert heard == "I am glad to be here. "


def test_a_phrase_said_over_and_over_ends_the_answer() -> None:
    for text, seconds_chars in (("It is" + " la France," * 50, 80), ("它是" + "长城" * 50, 16)):
        heard, looping = run(text)
        assert looping
        assert len(heard) < seconds_chars


def test_a_character_run_ends_the_answer() -> None:
    for text in ("明" * 200, "😊" * 200):
        heard, looping = run(text)
        assert looping
        assert len(heard) < 16


def test_nothing_is_held_back_unless_it_repeats() -> None:
    guard = LoopGuard()
    assert guard.feed("The sea is blue. ") == "The sea is blue. "
    assert guard.feed("The") == ""  # may become the same sentence again
    assert guard.feed(" sky") == "The sky"
    assert guard.feed(" is") == " is"


def test_it_stays_silent_once_it_loops() -> None:
    guard = LoopGuard()
    guard.feed("I said this before. I said this before. ")
    assert guard.looping
    assert guard.feed("Something new.") == ""
    assert guard.finish() == ""
