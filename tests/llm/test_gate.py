"""Who is let to the model, with requests whose pieces come when the test says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from services.llm.backends.base import Delta
from services.llm.gate import Gate, Order
from tests.fakes import ManualClock

FIRST_PHRASE = "Well, it was the best of times,"
TEN_SECONDS = " it was the worst of times, it was the age of wisdom," * 3


def in_turn(clock: ManualClock | None = None, *, resumes: bool = False) -> Gate:
    return Gate(clock or ManualClock(), in_turn=True, resumes=resumes)


class Request:
    """One request at the gate: `says` gives the model its next piece, "" its end."""

    def __init__(self, gate: Gate, order: Order, slot: int) -> None:
        self.place = gate.place(order, slot)
        self.begun = 0
        self.went_on_from = ("", 0)
        self.at_model = False
        self.text = ""
        self._pieces: asyncio.Queue[str] = asyncio.Queue()
        self._task = asyncio.create_task(self._read(gate))

    async def _read(self, gate: Gate) -> None:
        async for delta in gate.deltas(self.place, self._model):
            self.text += delta.text

    async def _model(self, written: str, tokens: int) -> AsyncGenerator[Delta, None]:
        self.begun += 1
        self.went_on_from = (written, tokens)
        self.at_model = True
        try:
            yield Delta()
            while piece := await self._pieces.get():
                yield Delta(piece)
        finally:
            self.at_model = False

    async def says(self, piece: str) -> None:
        self._pieces.put_nowait(piece)
        await settled()

    async def leaves(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await settled()

    async def ends(self) -> None:
        await self.says("")
        async with asyncio.timeout(5):
            await self._task


async def settled() -> None:
    """Everybody who can go on has."""
    for _ in range(30):
        await asyncio.sleep(0)


def at_model(*requests: Request) -> list[bool]:
    return [request.at_model for request in requests]


async def test_until_its_first_phrase_is_written_an_answer_has_the_model_before_guesses() -> None:
    gate = in_turn()
    answer = Request(gate, Order.ANSWER, 0)
    held = Request(gate, Order.HELD, 1)
    ahead = Request(gate, Order.AHEAD, 2)
    other = Request(gate, Order.ANSWER, 3)
    await settled()
    assert at_model(answer, held, ahead, other) == [True, False, False, True]
    await answer.says(FIRST_PHRASE)
    await other.says("Well")
    assert at_model(held, ahead) == [False, False]
    await other.leaves()
    assert at_model(held, ahead) == [True, False]
    await held.says(FIRST_PHRASE)
    # A prompt takes long to be read, and both voices would break off by then.
    await answer.says(TEN_SECONDS)
    assert at_model(ahead) == [False]
    await held.says(TEN_SECONDS)
    assert at_model(ahead) == [True]
    for request in (answer, held, ahead):
        await request.ends()
    assert answer.text == held.text == FIRST_PHRASE + TEN_SECONDS


async def test_what_has_written_nothing_makes_way_and_comes_back() -> None:
    gate = in_turn()
    ahead, held, writing = (
        Request(gate, order, slot)
        for slot, order in enumerate((Order.AHEAD, Order.HELD, Order.HELD))
    )
    await settled()
    await writing.says("It")
    answer = Request(gate, Order.ANSWER, 3)
    await settled()
    assert at_model(ahead, held, writing, answer) == [False, False, True, True]
    await answer.says(FIRST_PHRASE)
    assert at_model(held) == [True] and held.begun == 2
    for request in (held, writing, answer, ahead):
        await request.ends()
    assert writing.begun == 1 and writing.text == "It"


async def test_a_guess_that_proves_right_is_an_answer_like_any_other() -> None:
    gate = in_turn()
    answer, held = Request(gate, Order.ANSWER, 0), Request(gate, Order.HELD, 1)
    await settled()
    assert at_model(held) == [False]
    held.place.confirm()
    await settled()
    assert at_model(answer, held) == [True, True]
    for request in (answer, held):
        await request.ends()


async def test_a_guess_rests_with_its_first_phrase_until_it_is_wanted() -> None:
    gate = in_turn(resumes=True)
    held = Request(gate, Order.HELD, 0)
    await settled()
    await held.says(FIRST_PHRASE)
    assert at_model(held) == [True]  # a voice may need more to begin with
    await held.says(" it was the worst of times,")
    await held.says(" it")
    assert at_model(held) == [False] and held.begun == 1
    held.place.confirm()
    await settled()
    assert at_model(held) == [True]
    assert held.went_on_from == (FIRST_PHRASE + " it was the worst of times,", 2)
    await held.says(" it was the age of wisdom.")
    await held.ends()
    assert held.text.endswith("times, it was the age of wisdom.")


async def test_reading_ahead_that_waits_does_not_hold_up_its_own_answer() -> None:
    gate = in_turn()
    answer, ahead = Request(gate, Order.ANSWER, 0), Request(gate, Order.AHEAD, 1)
    await settled()
    ahead.place.give_up()
    await ahead.ends()
    assert not ahead.begun
    # What has begun in the same slot is the beginning of the answer: it is not stopped for it.
    own = Request(gate, Order.AHEAD, 0)
    await settled()
    assert at_model(own) == [True]
    for request in (answer, own):
        await request.ends()


async def test_where_requests_do_not_slow_each_other_down_all_are_let_in() -> None:
    gate = Gate(ManualClock(), in_turn=False, resumes=True)
    requests = [Request(gate, order, slot) for slot, order in enumerate(Order)]
    await settled()
    for piece in (FIRST_PHRASE, TEN_SECONDS, " it"):
        await requests[0].says(piece)
    assert all(at_model(*requests))
    for request in requests:
        await request.ends()


async def test_an_answer_ahead_of_its_voice_rests_while_another_is_without_a_phrase() -> None:
    gate = in_turn(resumes=True)
    first = Request(gate, Order.ANSWER, 0)
    await settled()
    await first.says(FIRST_PHRASE)
    await first.says(TEN_SECONDS)
    other = Request(gate, Order.HELD, 1)
    await settled()
    # In the middle of a word it is not left; the word that it was about to write is written again.
    await first.says("-ish")
    assert at_model(first, other) == [True, True]
    await first.says(" foolishness")
    assert at_model(first, other) == [False, True]
    await other.says("One, two, three")
    assert at_model(first) == [False]
    await other.says(", four, five.")
    assert at_model(first, other) == [True, True]
    assert first.went_on_from == (FIRST_PHRASE + TEN_SECONDS + "-ish", 3)
    await first.says(" foolishness")
    for request in (first, other):
        await request.ends()
    assert first.text == FIRST_PHRASE + TEN_SECONDS + "-ish foolishness"


async def test_an_answer_goes_on_before_its_voice_could_run_out() -> None:
    clock = ManualClock()
    gate = in_turn(clock, resumes=True)
    first = Request(gate, Order.ANSWER, 0)
    await settled()
    await first.says(FIRST_PHRASE)
    await first.says(TEN_SECONDS)
    other = Request(gate, Order.ANSWER, 1)
    await settled()
    await first.says(" it")
    assert at_model(first, other) == [False, True]
    clock.advance(11.0)  # some 0.9 s of 11.9 are left
    third = Request(gate, Order.ANSWER, 2)
    await settled()
    assert at_model(first, other, third) == [True, True, True]
    await first.says(" was")
    assert at_model(first) == [True]
    for request in (first, other, third):
        await request.ends()


async def test_an_answer_that_cannot_go_on_where_it_stopped_does_not_rest() -> None:
    gate = in_turn()
    first = Request(gate, Order.ANSWER, 0)
    await settled()
    await first.says(FIRST_PHRASE)
    await first.says(TEN_SECONDS)
    other = Request(gate, Order.ANSWER, 1)
    await settled()
    await first.says(" it")
    assert at_model(first, other) == [True, True]
    for request in (first, other):
        await request.ends()
