"""One child process kept at work: where it ends, or no longer answers, it is started again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections import deque
from collections.abc import Mapping

from visavis.serving.admission.probes import killed_for_memory, memory_limit_bytes
from visavis.serving.errors import SETTINGS_EXIT_STATUS, VisavisError
from visavis.serving.lifetime.heartbeat import BEAT_S
from visavis.tools.stack.process import Child, State
from visavis.tools.stack.silence import Silence
from visavis.tools.stack.tether import SIGNALLED
from visavis.wire.clock import Clock

log = logging.getLogger(__name__)

# For how long a process may be silent that could speak. A start may hold the interpreter for long,
# in a compiler or while it reads weights: whoever computes then is not frozen.
_SILENT_S = 5.0
_LOOK_STARTING_S = 0.1
_SILENT_STARTING_S = 60.0

# A process that fails this often while the stack starts is broken, not unlucky.
_MAX_FAILURES = 5
_FAILURE_WINDOW_S = 60.0
_FIRST_DELAY_S, _LONGEST_DELAY_S = 0.1, 10.0


class BackOff:
    """How long to wait before the next start: it doubles with every recent failure."""

    def __init__(self) -> None:
        self._failures: deque[float] = deque(maxlen=16)
        self._noted = 0

    def note_failure(self, now_s: float) -> None:
        while self._failures and now_s - self._failures[0] >= _FAILURE_WINDOW_S:
            self._failures.popleft()
        self._failures.append(now_s)
        self._noted += 1

    @property
    def too_often(self) -> bool:
        """Whether it has failed often in all: on a slow machine five failures take minutes."""
        return self._noted >= _MAX_FAILURES

    @property
    def delay_s(self) -> float:
        return min(_LONGEST_DELAY_S, _FIRST_DELAY_S * 2.0 ** (len(self._failures) - 1))


class Restarter:
    """Starts a process and starts it again whenever it ends or falls silent.

    for_ever: goes on however often the process fails. Until then, one that keeps failing, or
    whose settings are wrong, is given up (`State.FAILED`): its user is there to be told why.
    """

    def __init__(self, child: Child, environ: Mapping[str, str], clock: Clock) -> None:
        """environ: what the process gets beside our own environment."""
        self.child = child
        self.for_ever = False
        self._environ = environ
        self._clock = clock
        self._back_off = BackOff()
        self._failed_at = 0.0
        """When it first failed since it last worked; 0: it works."""

    async def run(self) -> None:
        """Start the process unless it runs, and keep it at work; returns once it is given up."""
        while True:
            try:
                why, status = await self._one_life()
            except (OSError, VisavisError) as error:
                why, status = f"cannot be started ({error})", None
            except Exception:  # whatever it is: nobody else would look after the process
                log.exception("%s cannot be watched", self.child.name)
                why, status = "was not watched for a moment", None
            self.child.ended = why
            self._back_off.note_failure(self._clock.now())
            hopeless = self._back_off.too_often or status == SETTINGS_EXIT_STATUS
            if hopeless and not self.for_ever:
                self.child.state = State.FAILED
                return
            self.child.state = State.RESTARTING
            delay_s = self._back_off.delay_s
            log.warning("%s %s; starting it again in %.1f s", self.child.name, why, delay_s)
            self._failed_at = self._failed_at or self._clock.now()
            await asyncio.sleep(delay_s)

    async def _one_life(self) -> tuple[str, int | None]:
        """How the process' life ended, in words, and its exit status if it ended by itself.

        Raises OSError or VisavisError if it cannot be started.
        """
        killed = lately = killed_for_memory()
        if not self.child.runs():
            self.child.start(self._environ)
        silence, computed_s = Silence(), 0.0
        while True:
            patient = self.child.starts_long and not self.child.working
            pause_s = _LOOK_STARTING_S if patient else BEAT_S
            status, beats = await asyncio.gather(self._ended(pause_s), self.child.beats())
            if status is not None:
                return _in_words(status, for_memory=killed_for_memory() > killed), status
            if beats and self.child.working:
                self._is_ready()
            self.child.shorten_log()
            if patient and not beats and silence.lasted_s >= BEAT_S:
                before_s, computed_s = computed_s, self.child.computed_s()
                beats = computed_s > before_s
            if beats:
                silence.heard()
                # The sign may be as old as the look before: those until then were others.
                killed, lately = lately, killed_for_memory()
            else:
                # To read so often what one that starts waits for would take a core from it.
                silence.missed(pause_s, None if patient else self.child.reading())
            if silence.too_long(_SILENT_STARTING_S if patient else _SILENT_S):
                self.child.kill()
                await self.child.wait()
                return f"did not answer for {silence} and was ended", None

    async def _ended(self, within_s: float) -> int | None:
        """Exit status if the process ends so soon."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                return await self.child.wait()
        return None

    def _is_ready(self) -> None:
        self.child.state = State.READY
        if self._failed_at:
            took_s = self._clock.now() - self._failed_at
            log.warning("%s works again after %.1f s", self.child.name, took_s)
            self._failed_at = 0.0


def _in_words(status: int, *, for_memory: bool) -> str:
    """What an exit status means. for_memory: the system has killed something for want of it."""
    ended_by = -status if status < 0 else status - SIGNALLED
    if ended_by not in set(signal.Signals):
        return f"ended with status {status}"
    if ended_by == signal.SIGKILL and for_memory:
        all_gib = memory_limit_bytes() / 2**30
        return (
            f"was killed by the system, which has no memory left (of {all_gib:.1f} GiB): close "
            "other programs, or use a smaller --profile"
        )
    return f"was ended by {signal.Signals(ended_by).name}"
