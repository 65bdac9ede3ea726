"""Draws the faces of all sessions: one tick for the process, one hop to a lane for each pass."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Self, TypeVar

from services.face.draw.animator import Animator
from services.face.draw.pictures import Picture, PictureMaker
from services.face.draw.pose import Frame
from services.face.schedule import AT_ONCE_S, Job, Schedule, Seat
from visavis.engine import EngineLane, Urgency
from visavis.serving import metrics
from visavis.serving.admission.meter import Meter
from visavis.serving.errors import EngineError
from visavis.serving.lifetime.supervision import Keeper
from visavis.wire.clock import Clock

Answer = TypeVar("Answer")


class Drawing:
    """The one who draws for every attached session, by one schedule, on all lanes.

    `start` it, `stop` it. A session takes part through its `face`.
    """

    def __init__(self, lanes: Sequence[EngineLane], clock: Clock, meter: Meter) -> None:
        """clock: that of the animators, and of the lanes' deadlines. meter: counts pictures."""
        self.clock = clock
        self.schedule: Schedule[Face] = Schedule()
        self._lanes = lanes
        self._meter = meter
        self._keeper = Keeper("face drawing", self._run)
        self._resting: list[asyncio.Future[None]] = []
        self._called = False
        """A lane that rested has been called and has not looked yet."""
        self._passes: set[_Pass] = set()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def attends(self) -> bool:
        """Whether any face does: somebody waits for what is made next, here or elsewhere."""
        return any(face.attends for face in self.schedule.faces)

    def start(self) -> None:
        """Begin to draw."""
        self._keeper.start()

    async def stop(self) -> None:
        """What is on a lane is finished there; nothing more is begun. Harmless unless started."""
        await self._keeper.stop()
        self._set_timer(None)

    def face(self, animator: Animator, pictures: PictureMaker) -> Face:
        """A session's face; it is drawn while its context lasts."""
        return Face(self, animator, pictures)

    def changed(self) -> None:
        """Something may have to be drawn earlier than was known."""
        now_s = self.clock.now()
        next_s = self.schedule.next_s(now_s)
        if next_s is None or self._called:
            return
        if next_s > now_s:
            if self._timer is None or self._timer.when() > self._on_loop(next_s, now_s):
                self._set_timer(self._on_loop(next_s, now_s))
        elif self._resting:
            # The one that has worked last: what it needs may still be in its core's caches.
            self._called = True
            self._resting.pop().set_result(None)
        elif self.schedule.urgent(now_s):
            # No lane is free. What has time makes room for what has none.
            for running in self._passes:
                self.schedule.give_back(running.end_early(now_s))

    def _on_loop(self, time_s: float, now_s: float) -> float:
        return asyncio.get_running_loop().time() + time_s - now_s

    def _set_timer(self, when: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if when is not None:
            self._timer = asyncio.get_running_loop().call_at(when, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.changed()

    async def _run(self) -> None:
        self._called = False
        async with asyncio.TaskGroup() as lanes:
            for lane in self._lanes:
                lanes.create_task(self._serve(lane))

    async def _serve(self, lane: EngineLane) -> None:
        while True:
            jobs = self.schedule.take(self.clock.now())
            if jobs:
                self.changed()  # there may be more, for another lane
                await self._draw(lane, jobs)
            else:
                await self._rest()

    async def _rest(self) -> None:
        called: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._resting.append(called)
        try:
            self.changed()  # something may have become due since it was looked
            if called.done():
                await asyncio.sleep(0)  # whatever is due, others have their turn
            await called
            self._called = False
        finally:
            if called in self._resting:
                self._resting.remove(called)

    async def _draw(self, lane: EngineLane, jobs: Sequence[Job[Face]]) -> None:
        begun = [job for job in jobs if job.seat.face.begin(job)]
        if not begun:
            return
        running = _Pass(begun, self.clock)
        self._passes.add(running)
        began_s = self.clock.now()
        self._meter.begin()
        try:
            await lane.run(running.draw, urgency=Urgency(deadline_s=begun[0].due_s))
        except Exception as error:  # the lane's: whoever was in it is told
            for job in begun:
                job.seat.face.fail(error)
        except BaseException:  # the drawing ends or begins anew: nothing comes of these
            for job in begun:
                job.seat.face.fail(EngineError("drawing was cut off"))
            raise
        finally:
            self._passes.discard(running)
            self._meter.end(made=len(running.ended))
        ended_s = self.clock.now()
        metrics.face_pass_seconds.observe(ended_s - began_s)
        metrics.face_pass_frames.observe(len(running.ended))
        for job in running.ended:
            if job.frame.due_s is not None:
                self._meter.note_late(max(0.0, ended_s - job.frame.due_s))
            job.seat.face.drawn(job)


class Face:
    """One session's face. Gives the pictures of each pass to its session, which sends them.

    What fails with it is raised to its session alone.
    """

    def __init__(self, drawing: Drawing, animator: Animator, pictures: PictureMaker) -> None:
        self._drawing = drawing
        self._animator = animator
        self._pictures = pictures
        self._begun: dict[Job[Face], Picture] = {}
        self._unprepared: deque[Job[Face]] = deque()
        self._drawn: list[Job[Face]] = []
        self._shown = 0
        self._error: Exception | None = None
        self._news = asyncio.Event()
        self._seat: Seat[Face] | None = None

    async def __aenter__(self) -> Self:
        drawing = self._drawing
        in_a_row = not self._pictures.waits
        self._seat = drawing.schedule.add(self, drawing.clock.now(), in_a_row=in_a_row)
        drawing.changed()
        return self

    async def __aexit__(self, *_: object) -> None:
        seat, self._seat = self._seat, None
        if seat is not None:
            self._drawing.schedule.remove(seat)

    def changed(self) -> None:
        """The animator or what is watched has changed."""
        if self._seat is not None:
            self._drawing.schedule.look(self._seat, self._drawing.clock.now())
            self._drawing.changed()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> list[tuple[Picture, float]]:
        """The pictures of a pass, and how long each took in seconds: with its network, if it waits.

        Those of the last time are sent by now. Raises what goes wrong in drawing them.
        """
        self._done(self._shown)
        self._shown = 0
        while True:
            self._news.clear()
            if self._error is not None:
                raise self._error
            while self._unprepared:
                job = self._unprepared.popleft()
                await self._pictures.prepare(self._begun[job])
                self._drawing.schedule.give_back([job])
                self._drawing.changed()
            if self._drawn:
                return self._take_drawn()
            await self._news.wait()

    @property
    def attends(self) -> bool:
        return self._animator.attends

    # What the schedule asks

    def due_s(self, now_s: float) -> float | None:
        return self._asked(self._animator.due_s, now_s)

    def next_frame(self, now_s: float) -> Frame | None:
        return self._asked(self._animator.next_frame, now_s)

    def delay_s(self, now_s: float) -> float | None:
        return self._asked(self._animator.delay_s, now_s)

    def wants(self, frame: Frame) -> bool:
        return self._animator.wants(frame)

    def _asked(self, ask: Callable[[float], Answer | None], now_s: float) -> Answer | None:
        """What the animator answers; None where it fails, which ends this face alone."""
        if self._error is None:
            try:
                return ask(now_s)
            except Exception as error:
                self.fail(error)
        return None

    # What the drawing asks

    def begin(self, job: Job[Face]) -> bool:
        """Whether a lane is to draw a job now; else it is given back, is done, or has failed."""
        if self._seat is None:
            return False
        picture = self._begun.get(job)
        try:
            if picture is None:
                picture = self._begun[job] = self._pictures.begin(job.frame)
        except Exception as error:
            self.fail(error)
            return False
        if not picture.prepared:
            self._unprepared.append(job)
            self._news.set()
        elif not picture.drawn:
            # No work for a lane, and nobody is to wait for one.
            self.make(job)
            self.drawn(job)
        return picture.prepared and picture.drawn

    def make(self, job: Job[Face]) -> None:
        """On a lane's thread."""
        if self._seat is not None and self._error is None and self._animator.wants(job.frame):
            try:
                self._pictures.make(self._begun[job])
            except Exception as error:
                self._error = error

    def drawn(self, job: Job[Face]) -> None:
        """A job has come to its end, made or not."""
        self._drawn.append(job)
        self._news.set()

    def fail(self, error: Exception) -> None:
        """Nothing more comes of this face."""
        self._error = error
        self._news.set()

    def _take_drawn(self) -> list[tuple[Picture, float]]:
        now_s, waits = self._drawing.clock.now(), self._pictures.waits
        made: list[tuple[Picture, float]] = []
        self._shown = len(self._drawn)
        for job in self._drawn:
            picture = self._begun.pop(job)
            if picture.made and self._animator.wants(job.frame):
                made.append((picture, now_s - job.taken_s if waits else picture.times.seconds))
            else:
                self._pictures.forget(picture)
        self._drawn.clear()
        return made

    def _done(self, count: int) -> None:
        if count and self._seat is not None:
            self._drawing.schedule.done(self._seat, count, self._drawing.clock.now())
            self._drawing.changed()


class _Pass:
    """Jobs that a lane's thread does one after the other. May be ended early, meanwhile."""

    def __init__(self, jobs: Sequence[Job[Face]], clock: Clock) -> None:
        self.ended: list[Job[Face]] = []
        self._jobs = jobs
        self._left = deque(jobs)
        self._clock = clock

    def draw(self) -> None:
        """On the lane's thread."""
        while True:
            try:
                job = self._left.popleft()
            except IndexError:
                return
            metrics.face_lateness_seconds.observe(max(0.0, self._clock.now() - job.due_s))
            job.seat.face.make(job)
            self.ended.append(job)

    def end_early(self, now_s: float) -> Sequence[Job[Face]]:
        """Take out what is not begun, in order; nothing where the pass is urgent itself."""
        back: deque[Job[Face]] = deque()
        if self._jobs[0].due_s - now_s <= AT_ONCE_S:
            return []
        while True:
            try:
                back.appendleft(self._left.pop())
            except IndexError:
                return list(back)
