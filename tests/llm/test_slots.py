import pytest

from services.llm.servicer import SlotPool
from visavis.serving.errors import AtCapacityError


def test_slots_are_distinct_and_run_out() -> None:
    pool = SlotPool(2)
    with pool.hold("a") as first, pool.hold("b") as second:
        assert {first, second} == {0, 1}
        assert pool.free == 0
        with pytest.raises(AtCapacityError, match="all 2 slots"), pool.hold("c"):
            pass
    assert pool.free == 2


def test_a_session_that_comes_back_gets_its_own_slot() -> None:
    pool = SlotPool(3)
    with pool.hold("a") as a, pool.hold("b") as b:
        pass
    with pool.hold("b") as again_b, pool.hold("a") as again_a:
        assert (again_a, again_b) == (a, b)


def test_a_new_session_gets_the_slot_unused_for_longest() -> None:
    pool = SlotPool(3)
    with pool.hold("a") as a:
        pass
    with pool.hold("b") as b, pool.hold("c") as c:
        assert {a, b, c} == {0, 1, 2}


def test_a_failure_gives_the_slot_back() -> None:
    pool = SlotPool(1)
    with pytest.raises(RuntimeError), pool.hold("a"):
        raise RuntimeError
    assert pool.free == 1
