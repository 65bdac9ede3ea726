"""From request to pieces, with a scripted backend and a clock that stands still."""

import asyncio

import pytest

from services.llm.backends.base import ChatMessage, Delta, ToolCall
from services.llm.blocks import Shown
from services.llm.generator import Answer, AnswerRequest, Generator, Piece
from services.llm.prompt import CUT_MARK, Beginning, without_special_tokens
from tests.fakes import ManualClock
from tests.llm.fake_backend import DEFAULTS, FakeBackend, words
from visavis.serving.errors import InvalidInputError

HELLO = (ChatMessage("user", "Hello"),)


def ask(backend: FakeBackend, request: AnswerRequest, clock: ManualClock | None = None) -> Answer:
    return Generator(backend, DEFAULTS, clock or ManualClock()).answer(request, 0)


async def text_of(answer: Answer) -> str:
    return "".join([piece async for piece in answer.pieces])


async def test_pieces_come_as_they_are_made_and_the_ledger_is_filled() -> None:
    backend = FakeBackend(*words("Nice to meet you."))
    clock = ManualClock()
    answer = ask(backend, AnswerRequest(HELLO), clock)
    pieces = []
    async for piece in answer.pieces:
        pieces.append(piece)
        clock.advance(0.5)
    assert pieces == ["Nice", " to", " meet", " you."]
    ledger = answer.ledger
    assert (ledger.finish_reason, ledger.prompt_tokens, ledger.completion_tokens) == ("stop", 10, 4)
    assert ledger.seconds() == {"queue": 0.0, "first_token": 0.0, "generate": 2.0}


async def test_defaults_fill_what_the_request_leaves_open() -> None:
    backend = FakeBackend(*words("Hi"))
    await text_of(ask(backend, AnswerRequest(HELLO)))
    await text_of(ask(backend, AnswerRequest(HELLO, max_tokens=7, temperature=0.0, seed=3)))
    default, asked = (request.sampling for request in backend.requests)
    assert (default.max_tokens, default.temperature, default.seed) == (50, 0.5, None)
    assert (asked.max_tokens, asked.temperature, asked.seed) == (7, 0.0, 3)
    assert backend.requests[0].messages == (ChatMessage("system", "Be kind."), *HELLO)


async def test_a_spoken_answer_that_is_as_long_as_it_may_be_ends_its_sentence() -> None:
    before = " ".join(f"w{n}" for n in range(DEFAULTS.max_tokens))
    for rest, said in (("and end. Then more of", "and end."), ("x " * 40, "x " * 12)):
        backend = FakeBackend(*words(f"{before} {rest.strip()}"))
        answer = ask(backend, AnswerRequest(HELLO, spoken=True))
        assert (await text_of(answer)).split()[: -1 if "x" in said else None] == [
            *before.split(),
            *said.split(),
        ]
        assert answer.ledger.finish_reason == "length"
    await text_of(ask(backend, AnswerRequest(HELLO, 30, spoken=True)))
    assert [r.sampling.max_tokens for r in backend.requests] == [62, 30]


async def test_half_of_the_context_stays_for_the_conversation() -> None:
    backend = FakeBackend(*words("Hi"), context_tokens=400)
    await text_of(ask(backend, AnswerRequest(HELLO, max_tokens=2048)))
    assert backend.requests[0].sampling.max_tokens == 200


async def test_a_chinese_question_gets_the_note_behind_the_same_persona() -> None:
    backend = FakeBackend(*words("你好"))
    await text_of(ask(backend, AnswerRequest((ChatMessage("user", "你是谁？"),))))
    assert backend.requests[0].messages[0].content == "Be kind.\n说中文。"


@pytest.mark.parametrize(
    ("begun", "asked", "told"),
    [
        ("Who are you?", ["蜘蛛有几条腿？"], "蜘蛛有几条腿？（请只用中文回答。）"),
        ("你是谁？", ["Who are you then?"], "Who are you then? (Please answer in English only.)"),
        ("你是谁？", ["Wie heißt du denn?"], "Wie heißt du denn?"),
        ("Who are you?", ["请用英语再说一遍。"], "请用英语再说一遍。"),
        ("你是谁？", ["Please say it in Chinese."], "Please say it in Chinese."),
        ("你是谁？", ["你多大了？"], "你多大了？"),
        ("你是谁？", ["Wie heißt du denn?", "你多大了？"], "你多大了？（请只用中文回答。）"),
    ],
)
async def test_a_language_that_changes_is_told_with_the_question(
    begun: str, asked: list[str], told: str
) -> None:
    # In the persona all that has been said behind it would have to be read anew: ten seconds.
    backend, beginning, said = FakeBackend(*words("Hi")), Beginning(), list[ChatMessage]()
    for question in (begun, begun, begun, *asked):
        messages = (*said, ChatMessage("user", question))
        await text_of(ask(backend, AnswerRequest(messages, beginning=beginning)))
        said += [messages[-1], ChatMessage("assistant", "Hi")]
    first, *_, last = (request.messages for request in backend.requests)
    assert (last[0], last[-1].content) == (first[0], told)


async def test_tokens_are_counted_only_when_it_may_be_too_much() -> None:
    backend = FakeBackend(*words("Hi"), context_tokens=100)
    await text_of(ask(backend, AnswerRequest(HELLO)))
    assert backend.counted == 0
    await text_of(ask(backend, AnswerRequest((ChatMessage("user", "word " * 500),))))
    assert backend.counted > 0
    assert CUT_MARK in backend.requests[1].messages[-1].content


@pytest.mark.parametrize(
    ("request_", "complaint"),
    [
        (AnswerRequest(HELLO, max_tokens=2049), "max_tokens: 2049"),
        (AnswerRequest(HELLO, temperature=2.5), "temperature: 2.5"),
        (AnswerRequest(HELLO, temperature=float("nan")), "temperature: nan"),
        (AnswerRequest(HELLO, stop=("",)), r"stop\[0\]: 0 characters"),
        (AnswerRequest(HELLO, stop=("a", "b" * 129)), r"stop\[1\]: 129 characters"),
        (AnswerRequest(HELLO, stop=("a",) * 9), "stop: 9 strings, at most 8"),
        (AnswerRequest(HELLO, so_far="a" * 32_769), "so_far: 32769 characters"),
    ],
)
def test_values_out_of_bounds_are_named(request_: AnswerRequest, complaint: str) -> None:
    with pytest.raises(InvalidInputError, match=complaint):
        ask(FakeBackend(), request_)


async def test_a_stop_string_ends_the_backend_too() -> None:
    backend = FakeBackend(*words("One two three four"), hang=True)
    answer = ask(backend, AnswerRequest(HELLO, stop=(" three",)))
    assert await text_of(answer) == "One two"
    assert answer.ledger.finish_reason == "stop"
    assert not backend.at_work


async def test_a_loop_ends_the_backend_too() -> None:
    backend = FakeBackend(*words("I am very happy. I am very happy. I am very happy."), hang=True)
    answer = ask(backend, AnswerRequest(HELLO, spoken=True))
    assert await text_of(answer) == "I am very happy. "
    assert answer.ledger.finish_reason == "stop"
    assert not backend.at_work


async def test_what_is_read_may_say_a_line_twice_and_no_more_for_ever() -> None:
    row = "    [0, 0, 0, 0],\n"
    code = f"try:\n    f()\nexcept ValueError:\n    return None\n{row * 4}" * 2
    table = f"| a | b |\n|---|{'-' * 60}|\n"
    answer = ask(FakeBackend(*words(code + table)), AnswerRequest(HELLO))
    assert await text_of(answer) == code + table
    backend = FakeBackend(*words("I am very happy. " * 50), hang=True)
    assert len(await text_of(ask(backend, AnswerRequest(HELLO)))) < 50 * 17
    assert not backend.at_work


async def test_a_call_that_is_written_as_text_is_not_said() -> None:
    called = ChatMessage("assistant", "", (ToolCall("c1", "get_weather", "{}"),))
    said = (*HELLO, called, ChatMessage("tool", "sunny", tool_call_id="c1"))
    written = 'It is sunny. {"name": "get_weather", "arguments": {}}'
    for spoken, heard in ((True, "It is sunny. "), (False, written)):
        backend = FakeBackend(*words(written))
        assert await text_of(ask(backend, AnswerRequest(said, spoken=spoken))) == heard


async def test_code_is_no_voice_in_hand() -> None:
    clock, code = ManualClock(), "ls -l\n" * 40
    backend = FakeBackend(*words(f"Do this:\n```sh\n{code}```\nFine."))
    answer = ask(backend, AnswerRequest(HELLO, spoken=True), clock)
    async for _ in answer.pieces:
        pass
    assert 0 < answer.place.reserve_s < 2, "what is said of it"
    clock.advance(10.0)
    answer.place.wrote("And so it goes on and on and on.")
    assert answer.place.reserve_s == 2, "its voice had run dry"


@pytest.mark.parametrize(
    ("so_far", "written", "pieces"),
    [
        # The model writes the blank with its word; one that writes none is heard as it is.
        ("Well, ", " yes, it is.", ["yes, it is."]),
        ("Well, ", "yes.", ["yes."]),
        ("[happy] 12 * 3", " is 36.", [" is 36."]),
        ("So:\n```py\nif x:\n    ", "    y()\n```\nDone.", [Shown(1, "py", "y()\n"), "Done."]),
        ("So:\n```py\nx\n```\n", "\n```\ny\n```", [Shown(2, "", "y\n")]),
        ("So:\n\n| a |\n|---|", "\n| 1 |\nDone.", [Shown(1, "markdown", "| 1 |\n"), "Done."]),
        ("| a |\n|---|", "\n| $x_{1}^2$ |\n", [Shown(1, "markdown", "| x₁² |\n")]),
        ("It costs x² + $5", " or $y^2$.", [" or y²."]),
        # What was said is not said again, and a piece that is held back does not come twice.
        ("This is the whole of it. ", " This is the whole of it. Yes.", []),
        ("Was <s>20</s> so.", "Was it?", ["Was it?"]),
        ("A smile 😀", "‍🔥 burns.", ["‍🔥 burns."]),
    ],
)
async def test_an_answer_goes_on_behind_what_is_there(
    so_far: str, written: str, pieces: list[Piece]
) -> None:
    backend = FakeBackend(Delta(written))
    answer = ask(backend, AnswerRequest(HELLO, 50, spoken=True, so_far=so_far))
    came = [piece async for piece in answer.pieces]
    assert came == pieces
    told = without_special_tokens(so_far.rstrip(" "))
    assert backend.requests[0].written == told
    tokens = len(told.split())
    assert backend.requests[0].sampling.max_tokens == 50 - tokens


@pytest.mark.parametrize(
    ("so_far", "reason"),
    [("One two three", "length"), ("It goes on and on. It goes on and on.\n", "stop")],
)
async def test_an_answer_that_has_come_to_its_end_asks_nobody(so_far: str, reason: str) -> None:
    backend = FakeBackend(*words("more"))
    tokens = 3 if reason == "length" else 50
    answer = ask(backend, AnswerRequest(HELLO, tokens, spoken=True, so_far=so_far))
    assert await text_of(answer) == ""
    assert (answer.ledger.finish_reason, backend.requests) == (reason, [])


async def test_closing_the_pieces_frees_the_slot() -> None:
    backend = FakeBackend(*words("One two three"), hang=True)
    answer = ask(backend, AnswerRequest(HELLO))
    assert await anext(answer.pieces) == "One"
    assert backend.at_work == {0}
    await answer.pieces.aclose()
    assert not backend.at_work


async def test_tokens_are_estimated_where_the_backend_does_not_tell() -> None:
    answer = ask(
        FakeBackend(Delta("a"), Delta("b"), Delta(finish_reason="stop")), AnswerRequest(HELLO)
    )
    await text_of(answer)
    assert answer.ledger.completion_tokens == 2


async def test_a_persona_is_read_once_nobody_waits_for_a_first_phrase() -> None:
    backend = FakeBackend(*words("Hm"), hang=True, keeps_prefix=True)
    generator = Generator(backend, DEFAULTS, ManualClock())
    answer = generator.answer(AnswerRequest(HELLO), 0).pieces
    assert await anext(answer) == "Hm"
    place = generator.place_ahead(1)
    persona = asyncio.create_task(generator.read_persona(place))
    await asyncio.sleep(0)
    assert not place.may_run and len(backend.requests) == 1, "the first phrase is not written yet"
    await answer.aclose()
    assert place.may_run
    persona.cancel()
    await asyncio.gather(persona, return_exceptions=True)


async def test_reading_ahead_is_for_backends_that_remember() -> None:
    forgetful = FakeBackend(*words("Hi"))
    generator = Generator(forgetful, DEFAULTS, ManualClock())
    await generator.read_persona(generator.place_ahead(1))
    assert forgetful.requests == []
    mindful = FakeBackend(*words("Hi"), keeps_prefix=True)
    generator = Generator(mindful, DEFAULTS, ManualClock())
    await generator.read_persona(generator.place_ahead(1))
    assert mindful.requests[0].slot == 1
    assert mindful.requests[0].messages[0].content == "Be kind."
    assert mindful.requests[0].sampling.max_tokens == 1
