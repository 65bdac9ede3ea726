"""`python -m tests.fuzz --seconds 60`: odd inputs for all decoders in turn, until the time is up.

Exits with 1 where something was found; the inputs that do it are kept under `.out/fuzz/`.
"""

from __future__ import annotations

import argparse
import logging
import pickle
import secrets
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.fuzz.catalogue import DECODERS
from tests.fuzz.decoder import Decoder, Tally, run, told

_AT_ONCE = 200
_KEPT_IN = Path(".out/fuzz")


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="for all decoders together")
    parser.add_argument("--seed", type=int, help="of a run before; otherwise another one each time")
    parser.add_argument("--shrink", action="store_true", help="look for smaller inputs, too")
    parser.add_argument("names", nargs="*", help="decoders; none: all of them")
    given = parser.parse_args(argv)
    wanted = [one for one in DECODERS if not given.names or one.name in given.names]
    if not wanted:
        parser.error(f"there are: {', '.join(one.name for one in DECODERS)}")
    seed = secrets.randbits(32) if given.seed is None else given.seed
    logging.disable()  # of what is refused
    console = Console(soft_wrap=True)
    console.print(f"seed {seed}, {given.seconds:g} s for {len(wanted)} decoders")
    tallies = {one.name: Tally() for one in wanted}
    ends = time.monotonic() + given.seconds
    for index, decoder in enumerate(wanted):
        left = (ends - time.monotonic()) / (len(wanted) - index)
        _spend(decoder, tallies[decoder.name], left, seed, given.shrink)
        if tallies[decoder.name].finding is not None:
            console.print(f"[red]{decoder.name}[/]: {_kept(decoder, tallies[decoder.name])}")
    console.print(_table(tallies))
    return int(any(tally.finding is not None for tally in tallies.values()))


def _spend(decoder: Decoder, tally: Tally, seconds: float, seed: int, shrink: bool) -> None:
    """Runs of a few hundred inputs each, up to the first finding."""
    ends = time.monotonic() + seconds
    while tally.finding is None:
        found = run(decoder, _AT_ONCE, seed, shrink=shrink)
        tally.inputs += found.inputs
        tally.refused += found.refused
        tally.finding, tally.culprit = found.finding, found.culprit
        seed += 1
        if time.monotonic() >= ends:
            return


def _kept(decoder: Decoder, tally: Tally) -> str:
    _KEPT_IN.mkdir(parents=True, exist_ok=True)
    path = _KEPT_IN / f"{decoder.name}.pickle"
    path.write_bytes(pickle.dumps(tally.culprit))
    return f"{told(tally)}; kept in {path}"


def _table(tallies: dict[str, Tally]) -> Table:
    table = Table("decoder", "inputs", "refused", "finding")
    for name, tally in tallies.items():
        finding = "" if tally.finding is None else type(tally.finding).__name__
        table.add_row(name, str(tally.inputs), f"{tally.refused / tally.inputs:.0%}", finding)
    total = sum(tally.inputs for tally in tallies.values())
    table.add_row("all", str(total), "", "")
    return table


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
