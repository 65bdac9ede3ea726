"""What becomes of a face whose picture is on a lane when the drawing ends or begins anew."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from services.face.drawing import Drawing
from tests.face.test_schedule import Due
from visavis.engine import EngineLane
from visavis.serving.admission.meter import Assumed, Meter
from visavis.serving.errors import EngineError
from visavis.wire.clock import MonotonicClock


async def test_a_face_in_a_pass_that_is_cut_off_is_told_and_does_not_stand_still() -> None:
    clock, lane, go = MonotonicClock(), EngineLane("t"), threading.Event()
    drawing = Drawing([lane], clock, Meter(clock, Assumed(1.0, 0.01, 0.01)))
    begun = asyncio.Event()

    def begin(frame: object) -> Any:
        begun.set()
        return SimpleNamespace(prepared=True, drawn=True)

    pictures: Any = SimpleNamespace(waits=False, begin=begin, make=lambda picture: None)
    animator: Any = Due(clock.now())
    busy = asyncio.create_task(lane.run(go.wait, 10))
    async with asyncio.timeout(10), drawing.face(animator, pictures) as face:
        drawing.start()
        await begun.wait()
        await drawing.stop()
        with pytest.raises(EngineError, match="cut off"):
            await anext(face)
        go.set()
        await busy
    lane.close()
