"""Unused plans leave the GPU and come back when they are needed."""

import threading

from tests.engine.tensorrt.conftest import Bench, x_of
from tests.fakes import ManualClock
from visavis.engine.tensorrt.engine import IdleUnloader


def test_an_unused_plan_is_unloaded_and_comes_back(bench: Bench) -> None:
    clock = ManualClock()
    engine = bench.open(idle_unload_s=60.0, unloader=IdleUnloader(clock))
    engine.load()
    engine.infer(x_of(2))
    clock.advance(59)
    assert engine.unload_idle(clock.now()) == 1.0
    assert engine.memory() is not None
    clock.advance(1)
    engine.unload_idle(clock.now())
    assert engine.memory() is None
    assert bench.device.nothing_left()
    assert engine.infer(x_of(2))["total"].tolist() == [4.0]
    assert engine.memory() is not None


def test_tensors_that_are_held_outlive_their_plan(bench: Bench) -> None:
    clock = ManualClock()
    engine = bench.open(idle_unload_s=1.0, unloader=IdleUnloader(clock))
    engine.load()
    tensor = engine.infer_resident(x_of(2), ["y"])["y"]
    clock.advance(5)
    engine.unload_idle(clock.now())
    assert len(bench.device.on_device) == 1
    assert tensor.to_host().tolist() == [[2.0, 2.0], [2.0, 2.0]]
    del tensor
    assert bench.device.nothing_left()


class Watched:
    def __init__(self) -> None:
        self.asked = threading.Event()

    def unload_idle(self, now_s: float) -> float:
        self.asked.set()
        return 3600.0


def test_the_thread_lives_only_while_something_is_watched() -> None:
    unloader, engine = IdleUnloader(), Watched()
    unloader.watch(engine)
    assert engine.asked.wait(5)
    thread = unloader._thread
    assert thread is not None
    unloader.forget(engine)
    thread.join(5)
    assert not thread.is_alive()
    engine.asked.clear()
    unloader.watch(engine)
    assert engine.asked.wait(5)
    unloader.forget(engine)
