"""Has the weights laid out for the CPU as the service starts, beside its event loop."""

from __future__ import annotations

import asyncio
import functools
import logging
import threading
from collections.abc import Callable
from pathlib import Path

from services.llm.backend import TellStarting
from visavis.plans.weights.prepared import laid_out_file

log = logging.getLogger(__name__)

_REPORT_S = 0.5
_LOGGED_PERCENT = 25


async def lay_out(source: Path, bundle: str, tell: TellStarting) -> Path:
    """The file to load in place of `source`, made now if it must be; see `laid_out_file`.

    `tell` is called whenever another per cent is done. Cancelled, it returns once the work
    has stopped and what was written of it is gone.
    """
    done = 0.0
    given_up = threading.Event()

    def note(fraction: float) -> None:
        nonlocal done
        done = fraction

    work = asyncio.ensure_future(
        asyncio.to_thread(
            functools.partial(laid_out_file, on_fraction=note, cancelled=given_up.is_set),
            source,
            bundle,
        )
    )
    try:
        await _report(work, bundle, lambda: int(100 * done), tell)
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        given_up.set()
        await asyncio.gather(work, return_exceptions=True)
        raise


async def _report(
    work: asyncio.Future[Path], bundle: str, percent: Callable[[], int], tell: TellStarting
) -> None:
    """Tell how far `work` is, until it is done."""
    told = logged = 0
    while not (await asyncio.wait({work}, timeout=_REPORT_S))[0]:
        now = percent()
        if now == told:
            continue
        told = now
        text = f"laying out the weights of {bundle} for this processor (once): {now} %"
        await tell(text)
        if not logged or now >= logged + _LOGGED_PERCENT:
            logged = now
            log.info("%s", text)
